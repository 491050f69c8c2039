//! The mathematics of the model: gradients, memory, the equality of every way to compute it.

use std::collections::HashMap;
use std::sync::Arc;

use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Schedule, Shape, Value};

use crate::model::{Gpt, Model, Training};
use crate::random;
use crate::{AdamW, Batches, Cpu, Random, Real, Reference, Text, Trainer, Worker};

fn model(layers: usize) -> Model {
    Model::new(8, 2, layers, 11, 5, 2).unwrap()
}

fn batches(model: Model) -> Arc<dyn Batches> {
    Arc::new(Random::new(model, 3))
}

fn schedule(family: Family, stages: u64, microbatches: u64) -> Option<Schedule> {
    let chunks = match family.about().chunks {
        pipeline::Chunks::Exactly(v) => v,
        pipeline::Chunks::Any { default } => default,
    };
    let shape = Shape::new(stages, chunks.into(), microbatches).unwrap();
    let one = Nanos(1_000);
    let times = PassTimes { forward: one, backward_input: one, backward_weight: one };
    let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(10))).unwrap();
    family.schedule(&problem).ok()
}

/// All stages of a schedule on one thread, in the order of its walk.
struct Stages<T: Real> {
    schedule: Schedule,
    stages: Vec<Gpt<Cpu<T>>>,
}

impl<T: Real + 'static> Stages<T> {
    fn new(schedule: Schedule, model: Model, data: &Arc<dyn Batches>, training: Training) -> Self {
        let build = |stage| {
            Gpt::new(Cpu::new(), model, &schedule, stage, Arc::clone(data), training).unwrap()
        };
        let stages = (0..schedule.shape().stages()).map(build).collect();
        Self { schedule, stages }
    }

    fn step(&mut self, step: u32) -> f64 {
        self.stages.iter_mut().for_each(|stage| stage.begin_step(step).unwrap());
        let chunks = self.schedule.shape().chunks();
        let mut values: HashMap<Value, Vec<T>> = HashMap::new();
        let mut at = vec![0; self.stages.len()];
        for run in self.schedule.walk() {
            let stage = run.stage as usize;
            for _ in 0..run.passes {
                let pass = self.schedule.orders()[stage].passes()[at[stage]];
                at[stage] += 1;
                let inputs = pass.needs(chunks).filter(|need| need.chunk() != pass.chunk);
                let input = inputs.map(|need| values.remove(&need).unwrap()).next();
                let made = self.stages[stage].run(pass, input).unwrap();
                if let Some(made) = made {
                    values.insert(pass.makes().unwrap(), made);
                }
            }
        }
        assert!(values.is_empty());
        self.stages.iter_mut().find_map(|stage| stage.loss().unwrap()).unwrap()
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

    fn update(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.update(1.0).unwrap());
    }
}

/// The largest difference, as a share of the largest gradient.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let most = b.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let difference = a.iter().zip(b).map(|(x, y)| (x - y).abs());
    difference.fold(0.0, |worst, x| if x > worst || x.is_nan() { x } else { worst }) / most
}

fn check_every_family<T: Real + 'static>(tolerance: f64) {
    let model = model(9);
    let data = batches(model);
    let mut tried = 0;
    for microbatches in [4, 8] {
        let mut reference =
            Reference::new(Cpu::<T>::new(), model, Arc::clone(&data), Training::default()).unwrap();
        let expected = reference.run(2, microbatches).unwrap();
        let gradients = reference.gradients().unwrap();
        for family in Family::ALL {
            for stages in [2, 4] {
                let Some(schedule) = schedule(family, stages, microbatches.into()) else {
                    continue;
                };
                tried += 1;
                let mut all = Stages::<T>::new(schedule, model, &data, Training::default());
                let loss = all.step(2);
                let name = format!("{} p={stages} m={microbatches}", family.name());
                assert!((loss / expected - 1.0).abs() <= tolerance, "{name}: {loss} {expected}");
                let far = distance(&all.gradients(model), &gradients);
                assert!(far <= tolerance, "{name}: {far}");
                let held = all.stages.iter().map(|stage| stage.activations().held.0).sum::<u64>();
                assert_eq!(held, 0, "{name}");
            }
        }
    }
    assert!(tried >= 30, "{tried}");
}

#[test]
fn every_family_computes_what_the_serial_reference_does_in_f64() {
    check_every_family::<f64>(1e-10);
}

#[test]
fn every_family_computes_what_the_serial_reference_does_in_f32() {
    // Sums over 8 microbatches in another order: a few units in the last place of the largest.
    check_every_family::<f32>(8.0 * f64::from(f32::EPSILON));
}

#[test]
fn gradients_of_the_whole_model_are_the_slopes_of_its_loss() {
    const STEP: f64 = 1e-4;
    let model = Model::new(4, 2, 2, 7, 4, 2).unwrap();
    let training = Training::default();
    let mut one = Reference::new(Cpu::<f64>::new(), model, batches(model), training).unwrap();
    // Large enough that attention is far from even and no bias is 0.
    let draws = (0..model.parameters()).map(|index| 0.4 * random::normal(5, index as u64));
    let mut weights: Vec<f64> = draws.collect();
    one.set_weights(&weights);
    one.run(0, 2).unwrap();
    let gradients = one.gradients().unwrap();
    let mut slopes = Vec::new();
    for index in 0..weights.len() {
        let middle = weights[index];
        let mut loss_at = |x: f64| {
            weights[index] = x;
            one.set_weights(&weights);
            one.run(0, 2).unwrap()
        };
        // Of fourth order, so that the error of the slope is far below that of the step.
        let near = loss_at(middle + STEP) - loss_at(middle - STEP);
        let far = loss_at(middle + 2.0 * STEP) - loss_at(middle - 2.0 * STEP);
        slopes.push((8.0 * near - far) / (12.0 * STEP));
        weights[index] = middle;
    }
    assert!(gradients.iter().filter(|x| x.abs() > 1e-6).count() > gradients.len() / 2);
    let worst = distance(&slopes, &gradients);
    assert!(worst < 1e-9, "{worst}");
}

/// Herman Melville, Moby-Dick (1851), chapter 1.
const TEXT: &str = "Call me Ishmael. Some years ago, never mind how long precisely, having little or \
    no money in my purse, and nothing particular to interest me on shore, I thought I would sail \
    about a little and see the watery part of the world. It is a way I have of driving off the \
    spleen and regulating the circulation. Whenever I find myself growing grim about the mouth; \
    whenever it is a damp, drizzly November in my soul; whenever I find myself involuntarily \
    pausing before coffin warehouses, and bringing up the rear of every funeral I meet; and \
    especially whenever my hypos get such an upper hand of me, that it requires a strong moral \
    principle to prevent me from deliberately stepping into the street, and methodically knocking \
    people's hats off, then, I account it high time to get to sea as soon as I can.";

fn train(family: Family) -> Vec<f64> {
    let model = Model::new(16, 2, 4, 256, 16, 2).unwrap();
    let data: Arc<dyn Batches> = Arc::new(Text::new(model, TEXT.into(), 1).unwrap());
    let rule = AdamW { learning_rate: 1e-2, ..AdamW::default() };
    let training = Training { rule, ..Training::default() };
    let mut all = Stages::<f32>::new(schedule(family, 2, 4).unwrap(), model, &data, training);
    let step = |step| {
        let loss = all.step(step);
        all.update();
        loss
    };
    (0..200).map(step).collect()
}

#[test]
fn training_on_a_text_lowers_the_loss_alike_under_every_schedule() {
    let losses = train(Family::OneFOneB);
    assert!((losses[0] - 256f64.ln()).abs() < 0.1, "{}", losses[0]);
    let last = losses[190..].iter().sum::<f64>() / 10.0;
    // The frequencies of its letters alone would give 2.9.
    assert!(last < 2.4, "{last}");
    // Both sum up gradients in the order of microbatches, so not a bit may differ.
    assert_eq!(losses, train(Family::ZbV));
}
