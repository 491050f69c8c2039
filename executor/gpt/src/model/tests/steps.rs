//! The activations that a stage keeps, and how its steps begin, end and are undone.

use pipeline::{Bytes, Pass, Shape};

use super::{alone, bits};
use runtime::Undo;

use crate::model::{Model, footprints};
use runtime::{DeviceError, Trainer, Wire, Worker};

#[test]
fn a_layer_keeps_what_the_paper_counts() {
    // At 2 bytes: M_W = 32 s b h, and M_B without the masks of dropout = s b (32 h + 2 a s), beside
    // mean and rstd of two layer norms in f32.
    let model = Model::new(64, 4, 4, 100, 16, 3).unwrap();
    let all = footprints(model, Shape::new(4, 1, 1).unwrap(), 2).unwrap();
    let middle = all.of(1);
    assert_eq!(middle.until_weight, Bytes(32 * 16 * 3 * 64));
    assert_eq!(middle.until_backward, Bytes(16 * 3 * (32 * 64 + 2 * 4 * 16 + 16)));
}

fn undone(undo: Undo, is_back: impl Fn(f64, f64) -> bool) {
    let mut stage = alone(2, 2, undo);
    assert!(matches!(stage.undo(1.0), Err(DeviceError::NotAtHand { .. })));
    for step in 0..3 {
        stage.begin_step(step).unwrap();
        stage.clear().unwrap();
        let mut transfer = None;
        for pass in [Pass::f(0, 0), Pass::f(1, 0), Pass::bw(1, 0), Pass::bw(0, 0)] {
            let input = transfer.take();
            transfer = stage.run(pass, input).unwrap();
        }
        let before = stage.weights().unwrap();
        stage.update(0.5).unwrap();
        let after = bits(&stage.weights().unwrap());
        assert_ne!(after, bits(&before));
        stage.undo(0.5).unwrap();
        let back = stage.weights().unwrap();
        let pairs = before.iter().zip(&back).flat_map(|(a, b)| a.values.iter().zip(&b.values));
        pairs.for_each(|(a, b)| assert!(is_back(*a, *b), "{a} {b}"));
        stage.update(0.5).unwrap();
        let again = stage.weights().unwrap();
        let again = again.iter().flat_map(|part| &part.values);
        let mut pairs = again.zip(after.into_iter().map(f64::from_bits));
        assert!(pairs.all(|(a, b)| is_back(*a, b)));
    }
}

#[test]
fn an_update_is_taken_back_and_made_again() {
    undone(Undo::Snapshot, |a, b| a.to_bits() == b.to_bits());
    undone(Undo::Inverse, |a, b| (a - b).abs() < 1e-12);
}

#[test]
fn a_step_begun_again_is_as_if_it_were_the_first() {
    let all = [Pass::f(0, 0), Pass::bw(0, 0), Pass::f(0, 1), Pass::bw(0, 1)];
    let mut stage = alone(1, 1, Undo::Inverse);
    stage.begin_step(4).unwrap();
    stage.clear().unwrap();
    all.iter().for_each(|&pass| drop(stage.run(pass, None).unwrap()));
    let first = (stage.loss().unwrap(), bits(&stage.gradients().unwrap()), stage.norm().unwrap());
    stage.begin_step(4).unwrap();
    stage.clear().unwrap();
    all[..3].iter().for_each(|&pass| drop(stage.run(pass, None).unwrap()));
    assert!(stage.activations().held > Bytes(0));
    stage.forget().unwrap();
    assert_eq!(stage.activations().held, Bytes(0));
    stage.begin_step(4).unwrap();
    stage.clear().unwrap();
    all.iter().for_each(|&pass| drop(stage.run(pass, None).unwrap()));
    let again = (stage.loss().unwrap(), bits(&stage.gradients().unwrap()), stage.norm().unwrap());
    assert_eq!(first, again);
    let squares: f64 = first.1.iter().map(|&x| f64::from_bits(x).powi(2)).sum();
    assert!((first.2.squares / squares - 1.0).abs() < 1e-12 && !first.2.is_bad);
}

#[test]
fn values_travel_between_processes() {
    let mut stage = alone(2, 2, Undo::Inverse);
    let value = stage.run(Pass::f(0, 0), None).unwrap().unwrap();
    let bytes = stage.pack(value.clone()).unwrap();
    assert_eq!(bytes.len(), stage.value_bytes());
    assert_eq!(stage.unpack(&bytes).unwrap(), value);
}
