//! Every way to compute a model has the same result, and its gradients equal numerical slopes.

use pipeline::{Family, Pass, Placement, Schedule, Shape};

use super::{Stages, alone, batches, bits, model, runnable};
use runtime::Undo;

use crate::model::{Layout, Model, Training};
use crate::random;
use crate::{Cpu, Real, Reference};
use runtime::{DeviceError, Trainer, Worker};

/// The largest difference, as a share of the largest gradient.
pub(super) fn distance(a: &[f64], b: &[f64]) -> f64 {
    let most = b.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let difference = a.iter().zip(b).map(|(x, y)| (x - y).abs());
    difference.fold(0.0, |worst, x| if x > worst || x.is_nan() { x } else { worst }) / most
}

/// Loss and gradients of one step of the serial reference.
pub(super) fn reference_of<T: Real>(model: Model, microbatches: u32) -> (f64, Vec<f64>) {
    computed::<T>(model, |reference| reference.run(2, microbatches))
}

/// The same with the sums of both halves of the microbatches added.
pub(super) fn in_halves<T: Real>(model: Model, microbatches: u32) -> (f64, Vec<f64>) {
    computed::<T>(model, |reference| reference.run_in_halves(2, microbatches))
}

fn computed<T: Real>(
    model: Model,
    run: impl FnOnce(&mut Reference<Cpu<T>>) -> Result<f64, DeviceError>,
) -> (f64, Vec<f64>) {
    let (cpu, training) = (Cpu::<T>::new(), Training::default());
    let mut reference = Reference::new(cpu, model, batches(model), training).unwrap();
    let loss = run(&mut reference).unwrap();
    (loss, reference.gradients().unwrap())
}

/// Loss and gradients of one step under `schedule`.
fn under<T: Real>(schedule: Schedule, model: Model) -> (f64, Vec<f64>) {
    let mut all = Stages::<T>::new(schedule, model, &batches(model), Training::default());
    (all.step(2), all.gradients(model))
}

fn check_every_family<T: Real>() {
    let model = model(9);
    for microbatches in [4, 8] {
        let serial = reference_of::<T>(model, microbatches);
        let halves = in_halves::<T>(model, microbatches);
        // The runs differ only in the order of m - 1 additions, each rounded once.
        let epsilon = if T::BYTES == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let bound = f64::from(microbatches) * epsilon;
        let far = distance(&halves.1, &serial.1);
        assert!(far > 0.0 && far <= bound, "{far:e} of {bound:e}");
        for (family, stages) in Family::ALL.into_iter().flat_map(|f| [(f, 2), (f, 4)]) {
            let Some(schedule) = runnable(family, stages, microbatches.into()) else { continue };
            let is_mirrored = schedule.placement() == Placement::Mirrored;
            let expected = if is_mirrored { &halves } else { &serial };
            let found = under::<T>(schedule, model);
            // All families but one sum up gradients in the order of microbatches, mirrored ones each half by
            // itself: not a bit may differ. `stp` puts a W off behind a whole backward of a later microbatch.
            let apart = if family == Family::Stp { bound } else { 0.0 };
            let is_equal = found.0 == expected.0 && distance(&found.1, &expected.1) <= apart;
            assert!(is_equal, "{} p={stages} m={microbatches}", family.name());
        }
    }
}

#[test]
fn weights_that_two_stages_hold_count_once_in_the_norm() {
    let model = model(5);
    for family in [Family::Chimera, Family::DualPipe] {
        let schedule = runnable(family, 4, 8).unwrap();
        let mut all = Stages::<f64>::new(schedule, model, &batches(model), Training::default());
        all.step(2);
        let norms = all.stages.iter_mut().map(|stage| stage.norm().unwrap().squares);
        let (found, gradients) = (norms.sum::<f64>(), in_halves::<f64>(model, 8).1);
        let expected: f64 = gradients.iter().map(|x| x * x).sum();
        assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
    }
}

#[test]
fn every_family_computes_what_the_serial_reference_does() {
    check_every_family::<f64>();
    check_every_family::<f32>();
}

/// Two stages that run the microbatches in reverse, and then W in the order of the first.
fn backwards(microbatches: u32) -> Schedule {
    let order = |chunk| {
        let last_first = (0..microbatches).rev();
        let forwards = last_first.clone().map(move |m| Pass::f(chunk, m));
        let backwards = last_first.map(move |m| Pass::b(chunk, m));
        forwards.chain(backwards).chain((0..microbatches).map(move |m| Pass::w(chunk, m))).collect()
    };
    let shape = Shape::new(2, 1, microbatches.into()).unwrap();
    Schedule::new(shape, Placement::Looped, vec![order(0), order(1)]).unwrap()
}

#[test]
fn the_order_of_microbatches_changes_no_more_than_rounding() {
    let model = model(2);
    let (exact, slopes) = reference_of::<f64>(model, 8);
    let near = |(loss, gradients): (f64, Vec<f64>), tolerance: f64| {
        let far = distance(&gradients, &slopes);
        assert!(far > 0.0 && far <= tolerance, "{far}");
        assert!((loss / exact - 1.0).abs() <= tolerance, "{loss} {exact}");
    };
    near(under::<f64>(backwards(8), model), 1e-14);
    // Products of at most 80 terms, a few dozen of them one behind the other: each rounds by half a
    // unit in the last place, up or down.
    let tolerance = 32.0 * f64::from(f32::EPSILON);
    near(under::<f32>(backwards(8), model), tolerance);
    near(reference_of::<f32>(model, 8), tolerance);
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

#[test]
fn b_then_w_is_bw_to_the_bit() {
    let run = |backward: &[Pass]| {
        let mut stage = alone(2, 1, Undo::Inverse);
        stage.begin_step(0).unwrap();
        stage.clear().unwrap();
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
