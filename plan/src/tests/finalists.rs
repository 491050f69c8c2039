//! The engine's prediction for a set-up, with and without noise.

use pipeline::Family;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;
use sim::Replay;
use sim::straggler::{Jitter, Stragglers, Target};

use super::{gpt, machine, model, recipe, setup};
use crate::{
    Attention, Boundary, Cluster, Inputs, Machine, Noise, Recipe, Setup, Sizes, SlowDevice,
    Software, Straggler, number, percentiles,
};

/// Steps of four replicas drawn one by one, each device straggling by itself: the shares that are
/// done by P50 and by P95 are what their names say, within five standard deviations.
#[test]
fn percentiles_are_those_of_steps_drawn_one_by_one() {
    const STEPS: u64 = 1000;
    let model = model(gpt(8, 1024, 16));
    let cluster = Cluster { parts: vec![(machine(), 8)] };
    let recipe = recipe(16);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let costed = inputs.cost(&setup([4, 1, 2])).unwrap();
    let evaluation = inputs.evaluate(&costed, &mut Replay::new()).unwrap();
    let finalist = inputs.finalist(evaluation).unwrap();
    let straggler = Straggler { probability: 0.01, factor: 1.5 };
    let slowdown = vec![SlowDevice { device: 5, factor: 1.1 }];
    let noise = Noise {
        jitter: 0.05,
        stall: None,
        straggler: Some(straggler),
        slowdown,
        replicas: 1000,
        seed: 1,
    };
    let found = percentiles(&finalist, &noise).unwrap();
    let mut chance = SplitMix64::seed_from_u64(9);
    let mut step = |at: u64| {
        let of_replica = |replica: u64| {
            let mut noise = Stragglers::new(2, 77);
            noise.jitter_passes(Jitter::log_normal(0.05).unwrap());
            for stage in 0..2 {
                // Device 5 is stage 1 of replica 1.
                if (stage, replica) == (1, 1) {
                    noise.slow(Target::Device(1), 1.1).unwrap();
                }
                if chance.random_bool(straggler.probability) {
                    noise.slow(Target::Stage(stage), straggler.factor).unwrap();
                }
            }
            finalist.step_under(&noise.durations(4 * at + replica, &finalist.costs)).unwrap()
        };
        (0..4).map(of_replica).max().unwrap()
    };
    let steps: Vec<_> = (0..STEPS).map(&mut step).collect();
    for (found, share) in found.into_iter().zip([0.5, 0.95]) {
        let done = steps.iter().filter(|step| **step <= found).count();
        let margin = 5.0 * (share * (1.0 - share) / number(STEPS)).sqrt();
        let done = number(done as u64) / number(STEPS);
        assert!((done - share).abs() < margin, "{done} {share}");
    }
}

/// Where transfers take no time, the engine has nothing that replay has not.
#[test]
fn without_transfers_the_engine_agrees_with_replay() {
    let model = model(gpt(24, 2304, 24));
    let mut ideal = machine();
    ideal.efficiency.hop_latency = 0.0;
    (ideal.link, ideal.network) = (1e15, 1e15);
    ideal.efficiency.link = 1.0;
    let cluster = Cluster { parts: vec![(ideal, 16)] };
    let recipe = recipe(64);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    // ZB-V and its like are ordered by times, in which replay counts transfers.
    for (family, chunks) in [(Family::OneFOneB, 1), (Family::Interleaved, 3), (Family::ZbH1, 1)] {
        let costed = inputs.cost(&Setup { family, chunks, ..setup([4, 1, 4]) }).unwrap();
        let evaluation = inputs.evaluate(&costed, &mut Replay::new()).unwrap();
        let finalist = inputs.finalist(evaluation).unwrap();
        // A byte of 10^15 a second: 34 ns for each transfer.
        assert!(finalist.over_replay().abs() < 1e-5, "{family:?} {}", finalist.over_replay());
    }
}

/// Interleaved chunks send more often, so they gain more from transfers that do not hold a stage up.
#[test]
fn transfers_beside_passes_are_faster() {
    let model = model(gpt(24, 2304, 24));
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(64);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let saved = |family: Family, chunks| {
        let costed = inputs.cost(&Setup { family, chunks, ..setup([4, 1, 4]) }).unwrap();
        let evaluation = inputs.evaluate(&costed, &mut Replay::new()).unwrap();
        let finalist = inputs.finalist(evaluation).unwrap();
        finalist.step.0.checked_sub(finalist.step_with_transfers_beside().unwrap().0).unwrap()
    };
    let [plain, interleaved] = [saved(Family::ZbH1, 1), saved(Family::Interleaved, 3)];
    assert!(0 < plain && plain < interleaved, "{plain} {interleaved}");
}

/// Overlapped transfers hide behind other chunks: a stage with one chunk waits for them all the same.
#[test]
fn transfers_overlap_where_a_stage_has_several_chunks() {
    let model = model(gpt(24, 2304, 24));
    let mut slow = machine();
    slow.network = 2e9;
    slow.efficiency.stage_overlapped = 0.5;
    let cluster = Cluster { parts: vec![(slow, 64)] };
    let step = |family: Family, chunks, overlap_transfers| {
        let software = Software { overlap_transfers, ..Software::default() };
        let recipe = Recipe { software, ..recipe(64) };
        let inputs = Inputs::new(&model, &recipe, &cluster);
        let costed = inputs.cost(&Setup { family, chunks, ..setup([8, 2, 4]) }).unwrap();
        let evaluation = inputs.evaluate(&costed, &mut Replay::new()).unwrap();
        let replayed = evaluation.step;
        (replayed, inputs.finalist(evaluation).unwrap().step)
    };
    assert_eq!(step(Family::OneFOneB, 1, true), step(Family::OneFOneB, 1, false));
    let [beside, apart] = [true, false].map(|beside| step(Family::Interleaved, 3, beside));
    assert!(beside.0 < apart.0 && beside.1 < apart.1, "{beside:?} {apart:?}");
    // The order of schedules turns: interleaving loses where every transfer is waited for.
    let plain = step(Family::OneFOneB, 1, true).1;
    assert!(beside.1 < plain && plain < apart.1, "{beside:?} {plain} {apart:?}");
}

/// No run undercuts the bound of its passes, with a barrier between steps or without, transfers that stages wait for
/// or that replay has beside passes, stages on near wires and far ones, few microbatches and many.
#[test]
fn no_run_is_faster_than_the_bound_of_its_passes() {
    let model = model(gpt(24, 2304, 24));
    let families = [
        (Family::OneFOneB, 1),
        (Family::GPipe, 1),
        (Family::Interleaved, 3),
        (Family::ZbH1, 1),
        (Family::ZbV, 2),
        (Family::VHalf, 2),
    ];
    // Stages two, one and four devices apart on nodes of eight: near ones and far ones, or far ones alone.
    let groups = [([2, 1, 8], 16), ([1, 1, 16], 64), ([4, 2, 2], 64), ([8, 1, 2], 64)];
    let (mut counts, mut over) = ([0; 2], Vec::new());
    for boundary in [Boundary::Barrier, Boundary::PostValidation] {
        for (overlap_transfers, network) in [(false, 25e9), (true, 25e9), (false, 1e9), (true, 1e9)]
        {
            let software = Software { overlap_transfers, ..Software::default() };
            for (own, batch) in groups {
                let recipe = Recipe { boundary, software, ..recipe(batch) };
                let machine = Machine { network, ..machine() };
                let cluster = Cluster { parts: vec![(machine, 16)] };
                let inputs = Inputs::new(&model, &recipe, &cluster);
                for (family, chunks) in families {
                    let setup = Setup { family, chunks, ..setup(own) };
                    let Ok(costed) = inputs.cost(&setup) else { continue };
                    let evaluation = inputs.evaluate(&costed, &mut Replay::new());
                    let Ok(Ok(run)) = evaluation.map(|one| inputs.finalist(one)) else { continue };
                    let least = run.least_step().unwrap();
                    if least > run.step {
                        over.push(format!("{setup:?} {boundary:?}: {least} {}", run.step));
                    }
                    let is_near = least.0 > run.step.0 / 100 * 95;
                    counts[usize::from(is_near)] += 1;
                }
            }
        }
    }
    assert!(over.is_empty(), "{over:#?}");
    // The bounds say something, and not all runs are as fast.
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}

/// GIS with and without copies to the host: the same passes, less memory; and what the host's link
/// takes is what its rate says.
#[test]
fn copies_to_the_host_save_memory_and_take_their_time() {
    let model = model(Sizes { attention: Attention::Flash, ..gpt(32, 12_288, 96) });
    let cluster = Cluster { parts: vec![(machine(), 64)] };
    let recipe = recipe(64);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let peak = |family: Family| {
        let setup = Setup { family, chunks: 2, ..setup([1, 8, 8]) };
        let costed = inputs.cost(&setup).unwrap();
        for (chunk, times) in (0..).zip(costed.costs.copies()) {
            // 30 GB/s for two devices, which are of the same stage.
            let bytes = costed.footprints.of(chunk).until_backward;
            assert_eq!(times.out.0, (bytes.0 * 2).div_ceil(30));
        }
        let finalist = inputs.evaluate(&costed, &mut Replay::new()).unwrap();
        let finalist = inputs.finalist(finalist).unwrap();
        finalist.evaluation.fullest().1.activations.0
    };
    let [stays, half, full] = [Family::Gis, Family::PoH, Family::PoF].map(peak);
    assert!(10 * half < 7 * stays && full < half, "{stays} {half} {full}");
    let mut bare = machine();
    bare.host = None;
    let cluster = Cluster { parts: vec![(bare, 64)] };
    let inputs = Inputs { cluster: &cluster, ..inputs };
    let refused = inputs.cost(&Setup { family: Family::PoH, chunks: 2, ..setup([1, 8, 8]) });
    assert!(refused.unwrap_err().to_string().contains("link to it is not known"));
}
