//! Helpers that the tests of the model share: small models, and all stages of a schedule on one
//! thread.

mod equality;
mod recompute;
mod refusals;
mod segments;
mod steps;
mod versions;

use std::collections::HashMap;
use std::sync::Arc;

use pipeline::{
    Bytes, Costs, Family, Footprints, Ledger, Memory, Nanos, Order, Pass, PassTimes, Placement,
    Problem, Schedule, Shape, Value,
};

use crate::model::{Activations, Gpt, Model, Parameters, Recomputed, Training, footprints, kept};
use crate::{Batches, Cpu, Random, Real};
use runtime::{Trainer, Undo, Worker};

fn model(layers: usize) -> Model {
    Model::new(8, 2, layers, 11, 5, 2).unwrap()
}

fn batches(model: Model) -> Arc<dyn Batches> {
    Arc::new(Random::new(model, 3))
}

fn schedule(family: Family, stages: u64, microbatches: u64) -> Schedule {
    runnable(family, stages, microbatches).unwrap()
}

/// The schedule of `family`, if it supports the shape and stages can compute it.
fn runnable(family: Family, stages: u64, microbatches: u64) -> Option<Schedule> {
    let shape = Shape::new(stages, family.about().chunks.of(None), microbatches).unwrap();
    let one = Nanos(1_000);
    let times = PassTimes::new(one, one, one);
    let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(10))).unwrap();
    family.schedule(&problem).ok()
}

/// Runs all passes of a step on one thread, in the order of the walk. `after` is called with the
/// stage, its number, the pass and the pass's output.
fn walk<T: Real>(
    schedule: &Schedule,
    stages: &mut [Gpt<Cpu<T>>],
    step: u32,
    mut after: impl FnMut(&mut Gpt<Cpu<T>>, usize, Pass, Option<&[T]>),
) {
    for stage in &mut *stages {
        stage.begin_step(step).unwrap();
        stage.clear().unwrap();
    }
    let shape = schedule.shape();
    let mut values: HashMap<Value, Vec<T>> = HashMap::new();
    let mut at = vec![0; stages.len()];
    for run in schedule.walk() {
        let stage = run.stage as usize;
        for _ in 0..run.passes {
            let pass = schedule.orders()[stage].passes()[at[stage]];
            at[stage] += 1;
            let input = pass.input(shape).map(|need| values.remove(&need).unwrap());
            let made = stages[stage].run(pass, input).unwrap();
            after(&mut stages[stage], stage, pass, made.as_deref());
            if let Some(made) = made {
                values.insert(pass.makes().unwrap(), made);
            }
        }
    }
    assert!(values.is_empty());
}

/// All stages of a schedule on one thread, in the order of its walk. After every pass each holds
/// exactly the bytes of its footprints.
struct Stages<T: Real> {
    schedule: Schedule,
    stages: Vec<Gpt<Cpu<T>>>,
    footprints: Footprints,
    ledgers: Vec<Ledger>,
}

impl<T: Real> Stages<T> {
    fn new(schedule: Schedule, model: Model, data: &Arc<dyn Batches>, training: Training) -> Self {
        Self::recomputing(schedule, model, data, training, &[])
    }

    /// The same where chunks for which the schedule has R recompute their `parts`.
    fn recomputing(
        schedule: Schedule,
        model: Model,
        data: &Arc<dyn Batches>,
        training: Training,
        parts: &[Recomputed],
    ) -> Self {
        let shape = schedule.shape();
        let build = |stage| {
            let gpt = Gpt::new(Cpu::new(), model, &schedule, stage, Arc::clone(data), training);
            gpt.unwrap().recomputing(parts)
        };
        let stages: Vec<_> = (0..shape.stages()).map(build).collect();
        let part = |chunk: u16| {
            let part = parts.get(usize::from(chunk)).copied().unwrap_or_default();
            schedule.recomputes(chunk).then_some(part)
        };
        let own: Vec<_> = (0..shape.chunks()).map(part).collect();
        let footprints = footprints(model, shape, T::BYTES).unwrap();
        let footprints = footprints.with_kept(kept(model, shape, T::BYTES, &own).unwrap());
        let ledgers = vec![Ledger::default(); stages.len()];
        Self { schedule, stages, footprints, ledgers }
    }

    fn step(&mut self, step: u32) -> f64 {
        let Self { schedule, stages, footprints, ledgers } = self;
        walk(schedule, stages, step, |gpt, stage, pass, _| {
            ledgers[stage].run(pass, footprints);
            assert_eq!(gpt.activations().held, ledgers[stage].held, "{pass}");
        });
        self.add_up_copies();
        let peaks = Memory::of(&self.schedule, &self.footprints).unwrap().peak;
        for (stage, peak) in self.stages.iter().zip(peaks) {
            let Activations { held, kept_peak, peak: all } = stage.activations();
            assert_eq!((held, kept_peak), (Bytes(0), peak));
            assert!(all > peak);
        }
        let losses = self.stages.iter_mut().filter_map(|stage| stage.loss().unwrap());
        losses.reduce(|sum, loss| sum + loss).unwrap()
    }

    /// All-reduces the gradients of stages with the same weights; both then hold the same.
    fn add_up_copies(&mut self) {
        let (shape, placement) = (self.schedule.shape(), self.schedule.placement());
        let twin = |stage| placement.twin(shape, stage);
        let shared: Vec<Vec<u8>> =
            self.stages.iter_mut().map(|stage| stage.share().unwrap()).collect();
        for (stage, gpt) in self.stages.iter_mut().enumerate() {
            assert_eq!(gpt.shared_bytes(), shared[stage].len());
            assert_eq!(twin(stage).is_none(), shared[stage].is_empty());
            if let Some(twin) = twin(stage) {
                gpt.merge(&shared[twin]).unwrap();
            }
        }
        for stage in 0..self.stages.len() {
            if let Some(twin) = twin(stage) {
                let both = [stage, twin].map(|one| bits(&self.stages[one].gradients().unwrap()));
                assert!(both[0] == both[1], "stage {stage}");
            }
        }
    }

    fn gradients(&mut self, model: Model) -> Vec<f64> {
        let mut all = vec![f64::NAN; model.parameters()];
        for stage in &mut self.stages {
            for part in stage.gradients().unwrap() {
                all[part.range].copy_from_slice(&part.values);
            }
        }
        all
    }
}

/// One stage with the whole model, cut into `chunks` chunks.
fn alone(layers: usize, chunks: u64, undo: Undo) -> Gpt<Cpu<f64>> {
    let shape = Shape::new(1, chunks, 2).unwrap();
    let forwards = |m| (0..shape.chunks()).map(move |chunk| Pass::f(chunk, m));
    let backwards = |m| (0..shape.chunks()).rev().map(move |chunk| Pass::bw(chunk, m));
    let order: Order = (0..2).flat_map(|m| forwards(m).chain(backwards(m))).collect();
    let schedule = Schedule::new(shape, Placement::Looped, vec![order]).unwrap();
    let model = model(layers);
    let training = Training { undo, ..Training::default() };
    Gpt::new(Cpu::new(), model, &schedule, 0, batches(model), training).unwrap()
}

fn bits(parts: &[Parameters]) -> Vec<u64> {
    parts.iter().flat_map(|part| &part.values).map(|x| x.to_bits()).collect()
}
