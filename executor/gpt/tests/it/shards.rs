//! The output layer in shards over all stages: S, T and their barriers train as the serial model
//! does, except for the order of sums.

use std::sync::Arc;

use gpt::{BuildError, Cpu, Gpt, Model, Random, Real, Reference, Training, footprints};
use pipeline::{
    Collectives, Costs, Family, Kind, Memory, Nanos, PassTimes, Problem, Schedule, Shape,
    ShardTimes,
};
use runtime::{Boundary, Failure, Plan, Undo, run};

use crate::model::{Trial, all, plan};
use crate::support::losses;

/// All families with an output layer in shards that support the shape.
fn schedules(stages: u64, microbatches: u64) -> Vec<(String, Schedule)> {
    let ms = Nanos(1_000_000);
    let times = PassTimes::new(ms, ms, ms);
    let shard = ShardTimes { before: ms, after: ms };
    let schedule = |family: Family| {
        let chunks = family.about().chunks.of(None);
        let shape = Shape::new(stages, chunks, microbatches).unwrap();
        let shards = vec![shard; shape.stages()];
        let costs = Costs::uniform(shape, times, Nanos(0));
        let costs = costs.with_shards(shards, Collectives::default());
        let problem = Problem::new(shape, costs).unwrap();
        let name = format!("{} p {stages} m {microbatches}", family.name());
        Some((name, family.schedule(&problem).ok()?))
    };
    let all = Family::ALL.into_iter().filter_map(schedule);
    let sharded: Vec<_> = all.filter(|(_, one)| one.shape().has_shards()).collect();
    assert!(sharded.len() >= 5, "{sharded:?}");
    sharded
}

/// The largest difference, as a share of the largest number of `right`.
fn error(found: &[f64], right: &[f64]) -> f64 {
    assert_eq!(found.len(), right.len());
    let largest = right.iter().fold(0.0, |most: f64, one| most.max(one.abs()));
    let far = found.iter().zip(right).map(|(a, b)| (a - b).abs());
    far.fold(0.0, |most: f64, one| if one.is_nan() { f64::INFINITY } else { most.max(one) })
        / largest
}

/// Sums over the vocabulary are made shard by shard, and those over the shards in the order of
/// stages. A sum of n positive numbers in any order errs by at most n roundings, here n = 13
/// tokens; each exponential is that of a difference, and another one is multiplied in: some 10
/// roundings more. Gradients then sum over 8 numbers and 10 tokens at a time, of both signs,
/// through 9 layers: errors relative to the largest number are below some hundred roundings.
fn check<T: Real>(rounding: f64) {
    let bound = 500.0 * rounding;
    // Over four stages, in shards of 4, 4, 4 and 1 tokens.
    let model = Model::new(8, 2, 9, 13, 5, 2).unwrap();
    let trial = Trial::of(model, Training::default());
    for (stages, microbatches) in [(1, 3), (2, 4), (3, 7), (4, 8)] {
        let batches = Arc::clone(&trial.batches);
        let mut reference =
            Reference::new(Cpu::<T>::new(), trial.model, batches, trial.training).unwrap();
        let loss = reference.run(0, microbatches).unwrap();
        let gradients = reference.gradients().unwrap();
        for (name, schedule) in schedules(stages, microbatches.into()) {
            let (measured, left) = trial.run::<T>(&plan(schedule, 1, Boundary::Asynchronous));
            let found = losses(&measured)[0];
            assert!((found / loss - 1.0).abs() <= bound, "{name}: loss {found} {loss}");
            let far = error(&all(&left.gradients), &gradients);
            assert!(far <= bound, "{name}: gradients {far}");
        }
    }
}

#[test]
fn shards_train_as_the_model_in_one_piece_but_for_rounding() {
    check::<f64>(f64::EPSILON);
    check::<f32>(f32::EPSILON.into());
}

#[test]
fn barriers_hold_over_processes_and_boundaries() {
    let undo = Undo::Snapshot;
    let trial = Trial::random(9, Training { undo, ..Training::default() });
    for (name, schedule) in schedules(3, 4) {
        let barrier = plan(schedule.clone(), 3, Boundary::Barrier { max_norm: 0.5 });
        let (threads, left) = trial.run::<f32>(&barrier);
        let (processes, over_tcp) = trial.join::<f32>(&barrier);
        assert_eq!(losses(&threads), losses(&processes), "{name}");
        assert!(left == over_tcp, "{name}");
        // Every stage updates its shard, and rolls it back where the global norm requires clipping.
        let validated = plan(schedule, 3, Boundary::PostValidation { max_norm: 0.5 });
        let (measured, again) = trial.run::<f32>(&validated);
        assert!(measured.rollbacks > 0, "{name}");
        assert_eq!(losses(&threads), losses(&measured), "{name}");
        assert!(left == again, "{name}");
        let (measured, again) = trial.join::<f32>(&validated);
        assert_eq!(losses(&threads), losses(&measured), "{name}");
        assert!(left == again, "{name}");
    }
}

#[test]
fn a_pass_behind_a_barrier_starts_when_all_before_it_have_ended() {
    let trial = Trial::random(6, Training::default());
    for (name, schedule) in schedules(3, 5) {
        let (measured, _) = trial.run::<f64>(&plan(schedule, 2, Boundary::Asynchronous));
        for step in &measured.steps {
            for microbatch in 0..5 {
                let of = |kind: Kind| {
                    let slots = step.stages.iter().flatten();
                    slots.filter(move |one| {
                        one.slot
                            .passes()
                            .any(|pass| (pass.kind, pass.microbatch) == (kind, microbatch))
                    })
                };
                let made = of(Kind::S).map(|one| one.end).max().unwrap();
                assert!(of(Kind::T).all(|one| one.start >= made), "{name} {microbatch}");
                assert!(of(Kind::T).all(|one| one.arrived.is_some_and(|(_, at)| at >= made)));
                let last = of(Kind::F).map(|one| one.end).max().unwrap();
                assert!(of(Kind::S).all(|one| one.start >= last), "{name} {microbatch}");
            }
        }
    }
}

#[test]
fn shards_take_the_memory_that_is_told() {
    let trial = Trial::random(9, Training::default());
    for (name, schedule) in schedules(3, 6) {
        let held = footprints(trial.model, schedule.shape(), 8).unwrap();
        let memory = Memory::of(&schedule, &held).unwrap();
        let (measured, _) = trial.run::<f64>(&plan(schedule, 2, Boundary::Asynchronous));
        assert_eq!(measured.peaks, memory.peak, "{name}");
    }
}

#[test]
fn a_stage_without_a_token_is_refused() {
    // Two tokens over three stages, in shards of two.
    let model = Model::new(8, 2, 3, 2, 5, 1).unwrap();
    let (_, schedule) = schedules(3, 4).remove(0);
    let made = |stage| {
        let batches = Arc::new(Random::new(model, 0));
        Gpt::new(Cpu::<f64>::new(), model, &schedule, stage, batches, Training::default()).err()
    };
    for stage in 0..3 {
        assert_eq!(made(stage), Some(BuildError::EmptyShard { stage: 1, vocabulary: 2 }));
    }
}

#[test]
fn shards_take_their_time_where_nothing_is_computed() {
    let us = Nanos(200_000);
    let shape = Shape::new(2, 1, 3).unwrap();
    let times = PassTimes::new(us, us, us);
    let shards = vec![ShardTimes { before: us, after: us }; 2];
    let collectives = Collectives { broadcast: us, statistics: us * 2, hidden_gradient: us * 3 };
    let costs = Costs::uniform(shape, times, us).with_shards(shards, collectives);
    let problem = Problem::new(shape, costs.clone()).unwrap();
    let schedule = Family::Vocab1.schedule(&problem).unwrap();
    let plan = Plan::new(schedule, 1).unwrap().with_hop(us).unwrap();
    let plan = plan.with_collectives(collectives).unwrap();
    let worker = runtime::Timed::new(Arc::new(costs));
    let measured: Result<_, Failure> = run(&plan, move |_| Ok(worker.clone()));
    let step = &measured.unwrap().steps[0];
    let at = |kind: Kind, end: bool| {
        let slots = step.stages.iter().flatten();
        let those = slots.filter(move |one| {
            one.slot.passes().any(|pass| (pass.kind, pass.microbatch) == (kind, 0))
        });
        those.map(move |one| if end { one.end } else { one.start })
    };
    // No barrier is shorter than its given time.
    let [s, t] = [Kind::S, Kind::T].map(|kind| at(kind, true).max().unwrap());
    assert!(at(Kind::T, false).all(|start| start >= s + us * 2));
    let last = step.stages[1].iter().find(|one| one.slot.to_string() == "BW1.0").unwrap();
    assert!(last.start >= t + us * 3);
}
