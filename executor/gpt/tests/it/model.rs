//! The real model on the real executor: with a thread or a process per stage it trains to the bit
//! as the serial model, under every schedule and boundary.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use gpt::{AdamW, Batches, Cpu, Gpt, Model, Parameters, Random, Real, Reference, Text, Training};
use pipeline::{Bytes, CopyPart, Family, Kind, Pass, Placement, Schedule, Value, Vocabulary};
use runtime::{
    Boundary, DeviceError, Measured, Norm, Offload, Plan, Trainer, Undo, Wire, Worker, run,
};

use crate::support::{join_makers, losses, schedules};

/// Numbers by their first index in the model.
pub(crate) type Numbers = BTreeMap<usize, Vec<f64>>;

/// The final state of the stages.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Left {
    /// The gradients of the last update.
    pub(crate) gradients: Numbers,
    /// The weights after the last.
    pub(crate) weights: Numbers,
    /// The same by stage: two may hold the same.
    by_stage: BTreeMap<usize, Numbers>,
}

impl Left {
    /// Asserts that stages that hold the same weights have the same bits of them; how many numbers
    /// lie on two stages.
    fn copies_are_equal(&self, schedule: &Schedule) -> usize {
        let twin = |stage| schedule.placement().twin(schedule.shape(), stage);
        let twins = self.by_stage.iter().filter_map(|(stage, one)| Some((one, twin(*stage)?)));
        let copied = twins.map(|(one, twin)| {
            let bits = |all: &Numbers| -> Vec<u64> {
                all.values().flatten().map(|x| x.to_bits()).collect()
            };
            assert!(bits(one) == bits(&self.by_stage[&twin]), "stage {twin} and its twin");
            bits(one).len()
        });
        copied.sum::<usize>() / 2
    }
}

/// The fault to be injected.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Poison {
    Nothing,
    /// The value that this stage receives for its first backward of step 1 is NaN.
    Gradient {
        stage: usize,
    },
    /// Only the gradients of this stage overflow, in step 1.
    Norm {
        stage: usize,
    },
}

/// A stage of the model that shows what it computes.
struct Shown<T: Real> {
    gpt: Gpt<Cpu<T>>,
    stage: usize,
    begun: u32,
    /// The step whose gradients it holds.
    step: u32,
    poison: Poison,
    left: Arc<Mutex<Left>>,
}

impl<T: Real> Shown<T> {
    fn show_weights(&mut self) -> Result<(), DeviceError> {
        let weights = self.gpt.weights()?;
        let mut left = self.left.lock().unwrap();
        left.weights.extend(by_start(weights.clone()));
        left.by_stage.insert(self.stage, by_start(weights).collect());
        Ok(())
    }
}

fn by_start(parts: Vec<Parameters>) -> impl Iterator<Item = (usize, Vec<f64>)> {
    parts.into_iter().map(|part| (part.range.start, part.values))
}

impl<T: Real> Worker for Shown<T> {
    type Value = Vec<T>;

    fn run(&mut self, pass: Pass, input: Option<Vec<T>>) -> Result<Option<Vec<T>>, DeviceError> {
        let is_first = matches!(pass.kind, Kind::B | Kind::BW) && pass.microbatch == 0;
        let is_hit = self.poison == Poison::Gradient { stage: self.stage };
        let input = match input {
            Some(value) if is_hit && is_first && self.step == 1 => {
                let nan = self.gpt.unpack(&vec![0xff; self.gpt.value_bytes()])?;
                assert_eq!(nan.len(), value.len());
                Some(nan)
            }
            other => other,
        };
        self.gpt.run(pass, input)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.gpt.synchronize()
    }

    fn send_part(&mut self, value: Value, to: usize) -> Result<Vec<T>, DeviceError> {
        self.gpt.send_part(value, to)
    }

    fn receive_part(&mut self, value: Value, from: usize, part: Vec<T>) -> Result<(), DeviceError> {
        self.gpt.receive_part(value, from, part)
    }

    fn kept(&mut self, pass: Pass) -> Option<Bytes> {
        self.gpt.kept(pass)
    }

    fn begin_offload(
        &mut self,
        forward: Pass,
        part: CopyPart,
    ) -> Result<Box<dyn Offload>, DeviceError> {
        self.gpt.begin_offload(forward, part)
    }

    fn end_offload(&mut self, forward: Pass, lent: Box<dyn Offload>) -> Result<(), DeviceError> {
        self.gpt.end_offload(forward, lent)
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        self.gpt.forget()
    }
}

impl<T: Real> Wire for Shown<T> {
    fn value_bytes(&self) -> usize {
        self.gpt.value_bytes()
    }

    fn bytes_of(&self, value: Value) -> usize {
        self.gpt.bytes_of(value)
    }

    fn pack(&mut self, value: Vec<T>) -> Result<Vec<u8>, DeviceError> {
        self.gpt.pack(value)
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<Vec<T>, DeviceError> {
        self.gpt.unpack(bytes)
    }
}

impl<T: Real> Trainer for Shown<T> {
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        let norm = self.gpt.norm()?;
        let is_hit = self.poison == Poison::Norm { stage: self.stage } && self.step == 1;
        Ok(if is_hit { Norm { squares: f64::INFINITY, is_bad: true } } else { norm })
    }

    fn shared_bytes(&self) -> usize {
        self.gpt.shared_bytes()
    }

    fn share(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.gpt.share()
    }

    fn merge(&mut self, theirs: &[u8]) -> Result<(), DeviceError> {
        self.gpt.merge(theirs)
    }

    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        let gradients = self.gpt.gradients()?;
        self.left.lock().unwrap().gradients.extend(by_start(gradients));
        self.gpt.update(scale)?;
        self.show_weights()
    }

    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        self.gpt.undo(scale)?;
        self.show_weights()
    }

    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        self.begun = step;
        self.gpt.begin_step(step)
    }

    fn clear(&mut self) -> Result<(), DeviceError> {
        self.step = self.begun;
        self.gpt.clear()
    }

    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        self.gpt.loss()
    }
}

/// A training: the model, its data, and the fault to be injected.
#[derive(Clone)]
pub(crate) struct Trial {
    pub(crate) model: Model,
    pub(crate) batches: Arc<dyn Batches>,
    pub(crate) training: Training,
    poison: Poison,
}

impl Trial {
    pub(crate) fn random(layers: usize, training: Training) -> Self {
        Self::of(Model::new(8, 2, layers, 11, 5, 2).unwrap(), training)
    }

    /// `model` on random tokens.
    pub(crate) fn of(model: Model, training: Training) -> Self {
        let batches = Arc::new(Random::new(model, 3));
        Self { model, batches, training, poison: Poison::Nothing }
    }

    fn stage<T: Real>(
        &self,
        schedule: &Schedule,
        stage: usize,
        left: &Arc<Mutex<Left>>,
    ) -> Shown<T> {
        let batches = Arc::clone(&self.batches);
        let gpt = Gpt::new(Cpu::new(), self.model, schedule, stage, batches, self.training);
        let (poison, left) = (self.poison, Arc::clone(left));
        Shown { gpt: gpt.unwrap(), stage, begun: 0, step: 0, poison, left }
    }

    /// Trains with a thread per stage.
    pub(crate) fn run<T: Real>(&self, plan: &Plan) -> (Measured, Left) {
        let left = Arc::default();
        let (trial, schedule, of_stages) =
            (self.clone(), plan.schedule().clone(), Arc::clone(&left));
        let make = move |stage| Ok(trial.stage::<T>(&schedule, stage, &of_stages));
        let measured = run(plan, make).unwrap();
        let left = left.lock().unwrap().clone();
        (measured, left)
    }

    /// Trains with a process per stage, simulated by threads, over TCP.
    pub(crate) fn join<T: Real>(&self, plan: &Plan) -> (Measured, Left) {
        let left = Arc::default();
        let make = |stage| Ok(self.stage::<T>(plan.schedule(), stage, &left));
        let measured = join_makers(plan, make).remove(0).unwrap().unwrap();
        let left = left.lock().unwrap().clone();
        (measured, left)
    }
}

pub(crate) fn plan(schedule: Schedule, steps: u32, boundary: Boundary) -> Plan {
    Plan::new(schedule, steps).unwrap().with_boundary(boundary).unwrap()
}

/// All numbers, in model order.
pub(crate) fn all(parts: &Numbers) -> Vec<f64> {
    parts.values().flatten().copied().collect()
}

/// The schedule, and the same where all chunks recompute, and where only every other one does.
fn recomputing((name, schedule): (String, Schedule)) -> Vec<(String, Schedule)> {
    let all = schedule.clone().recomputing(|_| true).unwrap();
    let some = schedule.clone().recomputing(|chunk| chunk % 2 == 1).unwrap();
    let with = |what: &str| format!("{name} {what}");
    vec![(name.clone(), schedule), (with("R"), all), (with("some R"), some)]
}

/// The largest difference between numbers of `one` and `other`, as a share of the largest number.
fn distance(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    let most = other.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let apart = one.iter().zip(other).map(|(x, y)| (x - y).abs());
    apart.fold(0.0, |far, one| if one > far || one.is_nan() { one } else { far }) / most
}

fn check_every_family<T: Real>() {
    let trial = Trial::random(9, Training::default());
    let batches = Arc::clone(&trial.batches);
    for microbatches in [4, 8] {
        let expected = [false, true].map(|in_halves| {
            let batches = Arc::clone(&batches);
            let reference = Reference::new(Cpu::<T>::new(), trial.model, batches, trial.training);
            let mut reference = reference.unwrap();
            let loss = match in_halves {
                false => reference.run(0, microbatches).unwrap(),
                true => reference.run_in_halves(0, microbatches).unwrap(),
            };
            let gradients = reference.gradients().unwrap();
            reference.update(1.0).unwrap();
            (loss, gradients, reference.weights().unwrap())
        });
        let of = |stages| schedules(stages, u64::from(microbatches));
        let families: Vec<_> = of(2).into_iter().chain(of(4)).collect();
        // Two families offload, the ones with an output layer in shards are tested elsewhere, four need more
        // microbatches over four stages, and one of them more than four over two.
        let whole = |family: &&Family| family.about().vocabulary == Vocabulary::Whole;
        let whole = Family::ALL.iter().filter(whole).count();
        assert!(families.len() >= 2 * (whole - 2) - 5);
        for (name, schedule) in families.into_iter().flat_map(recomputing) {
            let is_mirrored = schedule.placement() == Placement::Mirrored;
            let (loss, gradients, weights) = &expected[usize::from(is_mirrored)];
            let plan = plan(schedule, 1, Boundary::Asynchronous);
            let (measured, left) = trial.run::<T>(&plan);
            // All but `stp` accumulate gradients in the order of microbatches, two copies of the weights each
            // their half: the bits must be equal.
            assert_eq!(losses(&measured), [*loss], "{name}");
            let epsilon = if T::BYTES == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
            let apart =
                if name.starts_with("stp") { f64::from(microbatches) * epsilon } else { 0.0 };
            assert!(distance(&all(&left.gradients), gradients) <= apart, "{name}");
            assert!(distance(&all(&left.weights), weights) <= apart, "{name}");
            let copied = if is_mirrored { trial.model.parameters() } else { 0 };
            assert_eq!(left.copies_are_equal(plan.schedule()), copied, "{name}");
        }
    }
}

#[test]
fn every_family_trains_as_the_model_in_one_piece() {
    check_every_family::<f64>();
    check_every_family::<f32>();
}

#[test]
fn processes_train_as_threads_do() {
    // Two stages with the same weights end with the same bits where updates are undone exactly.
    let undo = Undo::Snapshot;
    let trial = Trial::random(9, Training { undo, ..Training::default() });
    let boundary = Boundary::PostValidation { max_norm: 0.5 };
    for (name, schedule) in schedules(2, 4).into_iter().flat_map(recomputing) {
        let plan = plan(schedule, 3, boundary);
        let (threads, left) = trial.run::<f32>(&plan);
        let (processes, over_tcp) = trial.join::<f32>(&plan);
        assert!(threads.rollbacks > 0, "{name}");
        assert_eq!(losses(&threads), losses(&processes), "{name}");
        assert!(left == over_tcp, "{name}");
    }
}

/// A fault, the limit of the gradient norm, and the number of skipped steps of four.
const MISHAPS: [(Poison, f64, u32); 4] = [
    (Poison::Nothing, 0.5, 0),
    (Poison::Gradient { stage: 0 }, f64::INFINITY, 1),
    (Poison::Gradient { stage: 2 }, 0.5, 1),
    (Poison::Norm { stage: 3 }, f64::INFINITY, 1),
];

/// Trains four steps with a barrier and with post-validation; asserts that both skip the same
/// steps, and returns their final states.
fn both_ways(schedule: &Schedule, undo: Undo, mishap: (Poison, f64, u32)) -> [(Vec<f64>, Left); 2] {
    let (poison, max_norm, skipped) = mishap;
    let trial = Trial { poison, ..Trial::random(8, Training { undo, ..Training::default() }) };
    let boundaries = [Boundary::Barrier { max_norm }, Boundary::PostValidation { max_norm }];
    let mut rolled_back = Vec::new();
    let ends = boundaries.map(|boundary| {
        let (measured, left) = trial.run::<f64>(&plan(schedule.clone(), 4, boundary));
        assert_eq!(measured.skipped, skipped, "{poison:?} {boundary:?}");
        rolled_back.push(measured.rollbacks);
        (losses(&measured), left)
    });
    let expected = if max_norm.is_finite() { 4 } else { 1 };
    assert_eq!(rolled_back, [0, expected], "{poison:?}");
    ends
}

#[test]
fn post_validation_trains_to_the_bit_as_the_barrier_from_copies() {
    for (name, schedule) in schedules(4, 6) {
        for mishap in MISHAPS {
            let [barrier, validated] = both_ways(&schedule, Undo::Snapshot, mishap);
            assert_eq!(barrier.0, validated.0, "{name} {mishap:?}");
            assert!(barrier.1 == validated.1, "{name} {mishap:?}");
            let copied = validated.1.copies_are_equal(&schedule);
            assert_eq!(copied > 0, schedule.placement() == Placement::Mirrored, "{name}");
        }
    }
}

#[test]
fn post_validation_trains_as_the_barrier_but_for_rounding_by_the_inverse() {
    // Taking (1 - beta2) g^2 off a second moment leaves a rounding error of that times 2^-53, which
    // the clipped gradient, about a third of g, is then added to: a relative error of at most some
    // 10 x 2^-53 in an update of at most the learning rate, 1e-3, in each of four steps; the losses
    // and gradients of later steps follow the weights.
    const TOLERANCE: f64 = 1e-13;
    for (name, schedule) in schedules(4, 6) {
        for mishap in MISHAPS {
            let [barrier, validated] = both_ways(&schedule, Undo::Inverse, mishap);
            let losses = barrier.0.iter().zip(&validated.0).map(|(a, b)| (a / b - 1.0).abs());
            let weights = [all(&barrier.1.weights), all(&validated.1.weights)];
            let weights = weights[0].iter().zip(&weights[1]).map(|(a, b)| (a - b).abs());
            let far = losses
                .chain(weights)
                .fold(0.0f64, |most, one| if one.is_nan() { f64::INFINITY } else { most.max(one) });
            assert!(far <= TOLERANCE, "{name} {mishap:?}: {far}");
        }
    }
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

#[test]
fn training_on_a_text_lowers_the_loss_alike_under_every_schedule() {
    let model = Model::new(16, 2, 4, 256, 16, 2).unwrap();
    let batches: Arc<dyn Batches> = Arc::new(Text::new(model, TEXT.into(), 1).unwrap());
    let rule = AdamW { learning_rate: 1e-2, ..AdamW::default() };
    let training = Training { rule, ..Training::default() };
    let trial = Trial { model, batches, training, poison: Poison::Nothing };
    let train = |family: &str| {
        let named = |(name, _): &(String, Schedule)| name.starts_with(family);
        let (_, schedule) = schedules(2, 4).into_iter().find(named).unwrap();
        let boundary = Boundary::Barrier { max_norm: f64::INFINITY };
        let (measured, left) = trial.run::<f32>(&plan(schedule, 200, boundary));
        (losses(&measured), all(&left.weights))
    };
    let (losses, weights) = train("1f1b ");
    assert!((losses[0] - 256f64.ln()).abs() < 0.1, "{}", losses[0]);
    let last = losses[190..].iter().sum::<f64>() / 10.0;
    // The frequencies of its letters alone would give 2.97.
    assert!(last < 2.4, "{last}");
    // Both accumulate gradients in the order of microbatches, so the bits must be equal.
    assert!((losses, weights) == train("zb-v "));
}
