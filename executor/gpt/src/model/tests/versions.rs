//! Weights that change while the pipeline runs: the version of each microbatch, and the number of
//! versions held.

use pipeline::{Costs, Family, Nanos, Pass, PassTimes, Problem, Schedule, Shape};

use super::{batches, bits, model, walk};
use runtime::{Updates, Versions};

use crate::model::{Gpt, Training};
use crate::{Cpu, Stale};
use runtime::{DeviceError, Plan, PlanError, Trainer, Worker};

fn schedule(family: Family, stages: u64, microbatches: u64, updates: u32) -> Schedule {
    let shape = Shape::new(stages, 1, microbatches * u64::from(updates)).unwrap();
    let one = Nanos(1_000);
    let times = PassTimes::new(one, one, one);
    let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).unwrap();
    family.schedule(&problem.with_updates(updates).unwrap()).unwrap()
}

const STASHED: Updates = Updates { microbatches: 1, versions: Versions::Stashed };
const DOUBLE: Updates = Updates { microbatches: 4, versions: Versions::DoubleBuffered };

/// PipeDream with an update after every microbatch, and 2BW with one after every four, over `stages`.
fn both(stages: u64) -> [(Schedule, Updates); 2] {
    [
        (schedule(Family::PipeDream, stages, 1, 12), STASHED),
        (schedule(Family::PipeDream2Bw, stages, 4, 4), DOUBLE),
    ]
}

/// Runs all stages on one thread, in the order of the walk; each updates when it has the gradients.
fn run(schedule: &Schedule, updates: Updates, steps: u32) -> (Vec<f64>, Vec<u64>, Vec<usize>) {
    let (model, shape) = (model(4), schedule.shape());
    let build = |stage| {
        let data = batches(model);
        Gpt::new(Cpu::<f32>::new(), model, schedule, stage, data, Training::default())
            .unwrap()
            .with_updates(updates, schedule)
    };
    let mut stages: Vec<Gpt<Cpu<f32>>> = (0..shape.stages()).map(build).collect();
    let mut losses = Vec::new();
    for step in 0..steps {
        walk(schedule, &mut stages, step, |gpt, _, pass, _| {
            let is_back = pass.kind != pipeline::Kind::F;
            if is_back && (pass.microbatch + 1).is_multiple_of(updates.microbatches) {
                losses.extend(gpt.loss().unwrap());
                gpt.update(1.0).unwrap();
                gpt.begin_step(step).unwrap();
                gpt.clear().unwrap();
            }
        });
    }
    let most = stages.iter().map(Gpt::most_versions).collect();
    let weights = stages.iter_mut().flat_map(|stage| bits(&stage.weights().unwrap())).collect();
    (losses, weights, most)
}

#[test]
fn a_run_is_to_the_bit_one_microbatch_after_the_other_with_weights_as_old() {
    for stages in [1, 2, 4] {
        for (schedule, updates) in both(stages) {
            let (model, data) = (model(4), batches(model(4)));
            let (cpu, training) = (Cpu::<f32>::new(), Training::default());
            let mut one = Stale::new(cpu, model, &schedule, updates, data, training).unwrap();
            let expected: Vec<f64> = (0..2).flat_map(|step| one.run(step).unwrap()).collect();
            let weights: Vec<u64> = one.weights().unwrap().iter().map(|x| x.to_bits()).collect();
            let (losses, found, _) = run(&schedule, updates, 2);
            assert_eq!(losses.len(), 2 * updates.per_step(&schedule) as usize);
            assert_eq!(losses, expected, "{stages} {updates:?}");
            assert!(found == weights, "{stages} {updates:?}");
        }
    }
}

#[test]
fn what_is_stale_is_not_what_flushes() {
    // Over one stage nothing is stale in PipeDream; over four it is, and in 2BW it always is.
    let losses = |stages, which: usize| {
        let [stashed, double] = both(stages);
        let (schedule, updates) = if which == 0 { stashed } else { double };
        run(&schedule, updates, 1).0
    };
    assert_ne!(losses(1, 0), losses(4, 0));
    // All stages have the same version of a microbatch.
    assert_eq!(losses(1, 1), losses(4, 1));
    let fresh = Updates { versions: Versions::Stashed, ..DOUBLE };
    assert_ne!(losses(1, 1), run(&both(1)[1].0, fresh, 1).0);
}

#[test]
fn as_many_versions_are_held_as_the_papers_say() {
    for stages in [1, 2, 4] {
        let [(stashed, every), (double, fourth)] = both(stages);
        let stages = usize::try_from(stages).unwrap();
        // p - r on stage r of PipeDream, two everywhere in 2BW.
        let expected: Vec<usize> = (0..stages).map(|stage| stages - stage).collect();
        assert_eq!(run(&stashed, every, 1).2, expected);
        assert_eq!(run(&double, fourth, 1).2, vec![2; stages]);
        for (stage, &most) in expected.iter().enumerate() {
            assert_eq!(every.most_versions(stage, stages), most);
            assert_eq!(fourth.most_versions(stage, stages), 2);
        }
    }
}

#[test]
fn a_version_that_is_gone_is_refused() {
    let (schedule, updates) = both(2)[1].clone();
    let (model, training) = (model(4), Training::default());
    let gpt = Gpt::new(Cpu::<f32>::new(), model, &schedule, 0, batches(model), training);
    let mut gpt = gpt.unwrap().with_updates(updates, &schedule);
    let missing = |result| matches!(result, Err(DeviceError::NotAtHand { .. }));
    assert!(missing(gpt.run(Pass::bw(0, 0), None)), "no forward came before");
    // Microbatch 8 is of the third update, which needs what the first makes.
    assert!(missing(gpt.run(Pass::f(0, 8), None)));
    assert!(gpt.run(Pass::f(0, 0), None).is_ok());
}

#[test]
fn plans_whose_weights_cannot_change_are_refused() {
    let plan = |schedule: &Schedule| Plan::new(schedule.clone(), 1).unwrap();
    let said = |result: Result<Plan, PlanError>| match result {
        Err(error @ PlanError::Updates { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let (good, updates) = both(2)[1].clone();
    assert!(plan(&good).with_updates(updates).is_ok());
    let every = |microbatches| Updates { microbatches, ..updates };
    assert!(said(plan(&good).with_updates(every(5))).contains("not whole updates of 5"));
    let gpipe = schedule(Family::GPipe, 2, 16, 1);
    assert!(said(plan(&gpipe).with_updates(updates)).contains("F1.4 of stage 1 comes before"));
    let mirrored = schedule(Family::Chimera, 2, 16, 1);
    assert!(said(plan(&mirrored).with_updates(updates)).contains("one chunk of its own"));
    let barrier = runtime::Boundary::Barrier { max_norm: 1.0 };
    let conflict = "stages that update while others run meet at no boundary";
    let planned = plan(&good).with_updates(updates).unwrap();
    assert!(said(planned.with_boundary(barrier)).contains(conflict));
    let meets = plan(&good).with_boundary(barrier).unwrap();
    assert!(said(meets.with_updates(updates)).contains(conflict));
}
