//! F, B and W of the whole model on a GPU, serially and as stages, against the same on the CPU in
//! f64.

use std::collections::HashMap;
use std::sync::Arc;

use pipeline::{Order, Pass, Placement, Schedule, Shape, Value};

use super::super::element::{Bf16, Element};
use super::super::partition::split;
use super::super::stage::Cuda;
use super::gpu::gpu;
use gpt::{Batches, Cpu, Gpt, Model, Random, Reference, Training};
use runtime::{Trainer, Worker};

const MICROBATCHES: u32 = 4;

fn model() -> (Model, Arc<dyn Batches>) {
    let model = Model::new(16, 2, 2, 11, 5, 2).unwrap();
    (model, Arc::new(Random::new(model, 3)))
}

/// Asserts that the gradients of all parameters differ by at most `most` of the largest.
fn near(got: &[f64], want: &[f64], most: f64) {
    assert_eq!(got.len(), want.len());
    let largest = want.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= most * largest, "{i}: {got} instead of {want}");
    }
}

fn expected() -> (f64, Vec<f64>) {
    let (model, batches) = model();
    let mut one = Reference::new(Cpu::<f64>::new(), model, batches, Training::default()).unwrap();
    (one.run(1, MICROBATCHES).unwrap(), one.gradients().unwrap())
}

fn in_one_piece<E: Element>(most: f64) {
    let Some(cuda) = gpu::<E>() else { return };
    let (model, batches) = model();
    let mut one = Reference::new(cuda, model, batches, Training::default()).unwrap();
    let (loss, gradients) = expected();
    let got = one.run(1, MICROBATCHES).unwrap();
    assert!((got / loss - 1.0).abs() < most, "{got} instead of {loss}");
    near(&one.gradients().unwrap(), &gradients, most);
    one.update(1.0).unwrap();
}

#[test]
fn the_model_computes_what_it_does_on_a_processor() {
    in_one_piece::<f32>(1e-4);
    in_one_piece::<Bf16>(0.1);
}

/// A schedule with separate B and W, W last.
fn schedule() -> Schedule {
    let shape = Shape::new(2, 1, MICROBATCHES.into()).unwrap();
    let order = |chunk| -> Order {
        let all = 0..MICROBATCHES;
        let forwards = all.clone().map(move |m| Pass::f(chunk, m));
        let backwards = all.clone().map(move |m| Pass::b(chunk, m));
        forwards.chain(backwards).chain(all.map(move |m| Pass::w(chunk, m))).collect()
    };
    Schedule::new(shape, Placement::Looped, vec![order(0), order(1)]).unwrap()
}

#[test]
fn stages_on_one_gpu_compute_what_the_model_in_one_piece_does() {
    if gpu::<f32>().is_none() {
        return;
    }
    let (model, batches) = model();
    let schedule = schedule();
    let (devices, _) = split::<f32>(0, 2, false).unwrap();
    let mut stages: Vec<Gpt<Cuda<f32>>> = devices
        .into_iter()
        .enumerate()
        .map(|(stage, cuda)| {
            let batches = Arc::clone(&batches);
            Gpt::new(cuda, model, &schedule, stage, batches, Training::default()).unwrap()
        })
        .collect();
    for step in [0, 1] {
        for stage in &mut stages {
            stage.begin_step(step).unwrap();
            stage.clear().unwrap();
        }
        let mut values: HashMap<Value, _> = HashMap::new();
        let mut at = [0; 2];
        for run in schedule.walk() {
            let stage = run.stage as usize;
            for _ in 0..run.passes {
                let pass = schedule.orders()[stage].passes()[at[stage]];
                at[stage] += 1;
                let input = pass.input(schedule.shape()).map(|need| values.remove(&need).unwrap());
                if let Some(made) = stages[stage].run(pass, input).unwrap() {
                    values.insert(pass.makes().unwrap(), made);
                }
            }
        }
    }
    let mut gradients = Vec::new();
    for stage in &mut stages {
        stage.synchronize().unwrap();
        let times = stage.device_times(std::time::Instant::now()).unwrap().unwrap();
        assert_eq!(times.len(), 6 * MICROBATCHES as usize);
        gradients.extend(stage.gradients().unwrap().into_iter().flat_map(|part| part.values));
        stage.update(0.5).unwrap();
        stage.undo(0.5).unwrap();
    }
    near(&gradients, &expected().1, 1e-4);
}
