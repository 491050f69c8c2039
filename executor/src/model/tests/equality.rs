//! Every way to compute a model comes to the same, and its gradients are slopes.

use std::sync::Arc;

use pipeline::{Family, Pass};

use super::{Stages, alone, batches, bits, model, schedule};
use crate::model::{Layout, Model, Training, Undo};
use crate::random;
use crate::{AdamW, Batches, Cpu, Real, Reference, Text, Trainer, Worker};

/// The largest difference, as a share of the largest gradient.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let most = b.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let difference = a.iter().zip(b).map(|(x, y)| (x - y).abs());
    difference.fold(0.0, |worst, x| if x > worst || x.is_nan() { x } else { worst }) / most
}

fn check_every_family<T: Real>(tolerance: f64) {
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

#[test]
fn b_then_w_is_bw_to_the_bit() {
    let run = |backward: &[Pass]| {
        let mut stage = alone(2, 1, Undo::Inverse);
        stage.begin_step(0).unwrap();
        assert!(stage.run(Pass::f(0, 0), None).unwrap().is_none());
        for &pass in backward {
            assert!(stage.run(pass, None).unwrap().is_none());
        }
        (stage.loss().unwrap(), bits(&stage.gradients().unwrap()))
    };
    let apart = run(&[Pass::b(0, 0), Pass::w(0, 0)]);
    assert_eq!(apart, run(&[Pass::bw(0, 0)]));
    assert!(apart.1.iter().any(|&x| x != 0));
}

#[test]
fn the_model_is_the_same_however_it_is_cut() {
    let weights = |chunks| {
        let parts = alone(5, chunks, Undo::Inverse).weights().unwrap();
        let ends = parts.iter().map(|part| part.range.end);
        let starts = parts.iter().skip(1).map(|part| part.range.start);
        assert!(starts.eq(ends.clone().take(parts.len() - 1)));
        assert_eq!(ends.max(), Some(model(5).parameters()));
        bits(&parts)
    };
    let whole = weights(1);
    for chunks in [2, 3, 5] {
        assert_eq!(weights(chunks), whole, "{chunks} chunks");
    }
    let starts: Vec<u64> = Layout::whole(model(5)).starts(0).map(f64::to_bits).collect();
    assert_eq!(starts, whole);
    assert_ne!(Layout::whole(model(5)).starts(1).map(f64::to_bits).collect::<Vec<_>>(), whole);
}
