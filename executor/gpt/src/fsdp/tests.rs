//! Devices as threads, over the loopback of this machine.

use std::time::Duration;

use super::*;
use crate::model::Model;
use runtime::tcp::{RendezvousSettings, init_process_group};
use runtime::{Launch, Rendezvous, free_ports};

fn model() -> Model {
    Model::new(8, 2, 2, 17, 12, 1).unwrap()
}

/// Two minibatches whose samples differ, packed for three devices: one sample a microbatch, or unevenly.
fn minibatches(even: bool) -> Vec<Minibatch> {
    let devices = match even {
        true => vec![vec![vec![0], vec![3]], vec![vec![1], vec![4]], vec![vec![2], vec![5]]],
        false => vec![vec![vec![5]], vec![vec![4, 1], vec![3]], vec![vec![2], vec![0]]],
    };
    let lengths = [vec![3, 7, 12, 1, 5, 11], vec![12, 2, 2, 9, 4, 6]];
    lengths.map(|lengths| Minibatch { lengths, devices: devices.clone() }).into()
}

fn plan(communication: Communication, even: bool, timeout: Duration) -> Plan {
    Plan::new(model(), minibatches(even), communication, 7, timeout).unwrap()
}

const TIMEOUT: Duration = Duration::from_secs(30);

fn rendezvous(rank: usize, world: usize, port: u16) -> Rendezvous {
    let launch = Launch { rank, world, master: "127.0.0.1".to_owned(), port };
    Rendezvous { launch, bind: None, token: b"a secret".to_vec(), about: String::new() }
}

/// The results of the ranks below `joined`, which run; `other` stands in for the ranks above.
fn run(
    plan: &Plan,
    joined: usize,
    other: impl Fn(Rendezvous) + Sync,
) -> Vec<Result<Option<MeasuredRun>, Failure>> {
    let (world, port) = (plan.devices(), free_ports(1).unwrap());
    std::thread::scope(|scope| {
        let join = |rank| scope.spawn(move || join(plan, &rendezvous(rank, world, port)));
        let joined_ones: Vec<_> = (0..joined).map(join).collect();
        let other = &other;
        for rank in joined..world {
            scope.spawn(move || other(rendezvous(rank, world, port)));
        }
        joined_ones.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn measured(plan: &Plan) -> MeasuredRun {
    let mut ends = run(plan, plan.devices(), |_| {});
    assert!(ends[1..].iter().all(|end| *end == Ok(None)), "{ends:?}");
    ends.remove(0).unwrap().unwrap()
}

fn bits(weights: &[f32]) -> Vec<u32> {
    weights.iter().map(|weight| weight.to_bits()).collect()
}

#[test]
fn both_kinds_end_with_the_bits_of_the_serial_run() {
    let collectives = plan(Communication::Collectives, true, TIMEOUT);
    let reference = serial(&collectives).unwrap();
    let start = crate::model::Layout::whole(model()).draw(7, 0..model().parameters());
    assert_eq!(reference.weights.len(), start.len());
    assert!(reference.weights.iter().zip(&start).any(|(end, start)| f64::from(*end) != *start));
    let plans = [
        collectives,
        plan(Communication::OnDemand, true, TIMEOUT),
        plan(Communication::OnDemand, false, TIMEOUT),
    ];
    for plan in plans {
        let ran = measured(&plan);
        assert_eq!(bits(&ran.weights), bits(&reference.weights), "{:?}", plan.communication);
        let [ours, serial] = [&ran.losses, &reference.losses]
            .map(|losses| losses.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>());
        assert_eq!(ours, serial);
        assert!(ran.steps.len() == 2 && ran.steps.iter().all(|step| step.busy.len() == 3));
        assert!(ran.losses.iter().all(|loss| (1.0..5.0).contains(loss)), "{:?}", ran.losses);
    }
}

#[test]
fn collectives_meet_at_every_layer_and_on_demand_once_a_minibatch() {
    // A microbatch unshards embeddings, two layers twice and the head, and reduces four gradients.
    let (fetches, gives) = (6, 4);
    let microbatches = 2 * 3 * 2;
    let ran = measured(&plan(Communication::Collectives, true, TIMEOUT));
    assert_eq!(ran.synchronizations, microbatches * (fetches + gives));
    assert_eq!(ran.messages, microbatches * (fetches + gives) * 2);
    let ran = measured(&plan(Communication::OnDemand, false, TIMEOUT));
    // Five microbatches in each minibatch; a pull is a request and an answer.
    assert_eq!(ran.synchronizations, 2 * 3);
    assert_eq!(ran.messages, 2 * 5 * (2 * fetches + gives) * 2);
}

/// The gradients are those of the executor's other reference, which runs samples of one length: one step
/// of AdamW leads to the same weights but for rounding.
#[test]
fn the_serial_run_trains_like_the_reference_of_pipelines() {
    use std::sync::Arc;

    use crate::cpu::Cpu;
    use crate::{Random, Reference, Training};

    let model = model();
    let (samples, length) = (3u32, model.sequence());
    let minibatch = Minibatch {
        lengths: vec![length; samples as usize],
        devices: vec![(0..samples).map(|sample| vec![sample]).collect()],
    };
    let plan = Plan::new(model, vec![minibatch], Communication::OnDemand, 7, TIMEOUT).unwrap();
    let ours = serial(&plan).unwrap();
    let training = Training { seed: 7, ..Training::default() };
    let data = Arc::new(Random::new(model, 7));
    let mut reference = Reference::new(Cpu::<f32>::new(), model, data, training).unwrap();
    let loss = reference.run(0, samples).unwrap();
    reference.update(1.0).unwrap();
    assert!((loss - ours.losses[0]).abs() < 1e-5, "{loss} {}", ours.losses[0]);
    let weights = reference.weights().unwrap();
    let far = weights.iter().zip(&ours.weights).map(|(a, b)| (a - f64::from(*b)).abs());
    // A step is at most the learning rate of 1e-3; a gradient of nearly nothing may round to nothing.
    let apart = far.clone().filter(|far| *far > 1e-5).count();
    assert!(apart * 100 < weights.len(), "{apart} of {}", weights.len());
}

#[test]
fn a_device_that_is_lost_stops_the_others() {
    for how in [Communication::Collectives, Communication::OnDemand] {
        let plan = plan(how, true, TIMEOUT);
        let ends = run(&plan, 2, |rendezvous| {
            let settings = RendezvousSettings::without_stages(3, TIMEOUT, &plan.words());
            // It joins the process group, and disconnects.
            drop(init_process_group(&settings, &rendezvous).unwrap());
        });
        for end in ends {
            let words = end.unwrap_err().to_string();
            assert!(words.contains("device 2 is lost"), "{words}");
        }
    }
}

#[test]
fn a_device_that_says_nothing_is_not_waited_for_for_ever() {
    let plan = plan(Communication::OnDemand, true, Duration::from_millis(1_500));
    let ends = run(&plan, 2, |rendezvous| {
        let settings = RendezvousSettings::without_stages(3, TIMEOUT, &plan.words());
        let group = init_process_group(&settings, &rendezvous).unwrap();
        // Until the peers close.
        let mut streams = group.streams.into_iter().flatten();
        let _ = std::io::copy(&mut streams.next().unwrap(), &mut std::io::sink());
    });
    let words: Vec<String> = ends.into_iter().map(|end| end.unwrap_err().to_string()).collect();
    assert!(words.iter().any(|words| words.contains("from devices [2] in vain")), "{words:?}");
}

#[test]
fn a_device_that_plans_something_else_is_not_let_in() {
    let plan = plan(Communication::OnDemand, true, Duration::from_millis(1_500));
    let ends = run(&plan, 2, |rendezvous| {
        let settings =
            RendezvousSettings::without_stages(3, Duration::from_millis(1_500), "something else");
        assert!(init_process_group(&settings, &rendezvous).is_err());
    });
    assert!(ends.iter().all(|end| matches!(end, Err(Failure::Rendezvous(_)))), "{ends:?}");
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let with = |change: &dyn Fn(&mut Minibatch), how| {
        let mut all = minibatches(true);
        change(&mut all[1]);
        Plan::new(model(), all, how, 7, TIMEOUT).unwrap_err().to_string()
    };
    let apart = Communication::OnDemand;
    assert!(
        with(&|one| one.lengths[2] = 13, apart).contains("sample 2 of minibatch 1 has 13 tokens")
    );
    assert!(with(&|one| one.lengths[2] = 0, apart).contains("1 to 12"));
    assert!(with(&|one| one.devices[0][0] = vec![0, 1], apart).contains("in 2 microbatches"));
    assert!(with(&|one| one.devices[0][0].clear(), apart).contains("in 0 microbatches"));
    assert!(with(&|one| one.devices[0][0] = vec![9], apart).contains("sample 9"));
    assert!(with(&|one| drop(one.devices.pop()), apart).contains("is for 2 devices"));
    let uneven = |one: &mut Minibatch| one.devices = minibatches(false)[0].devices.clone();
    assert!(with(&uneven, Communication::Collectives).contains("would deadlock"));
    let plan = |all, timeout| Plan::new(model(), all, apart, 7, timeout);
    assert!(plan(Vec::new(), TIMEOUT).is_err() && plan(minibatches(true), Duration::ZERO).is_err());
    assert!(plan(minibatches(true), TIMEOUT).unwrap().needs().0 > 0);
}
