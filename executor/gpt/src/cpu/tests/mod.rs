//! Every kernel against its formula, written naively in f64; every backward against numerical
//! slopes.

/// Runs a check in both precisions, with a tolerance for each.
macro_rules! in_both {
    ($check:ident) => {
        $check::<f64>(1e-13);
        $check::<f32>(5e-6);
    };
}

mod optimizer;
mod rows;
mod segments;
mod sequences;

use super::*;
use crate::random;

fn draw(len: usize, seed: u64) -> Vec<f64> {
    (0..len as u64).map(|index| random::normal(seed, index)).collect()
}

fn vector<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&x| T::of(x)).collect()
}

/// Compares within `tolerance`, for numbers of about 1.
#[track_caller]
fn assert_near<T: Real>(found: &[T], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (x, y)) in found.iter().zip(expected).enumerate() {
        let error = (x.wide() - y).abs() / y.abs().max(1.0);
        assert!(error <= tolerance, "at {index}: {} instead of {y}", x.wide());
    }
}

/// The numerical slope of `f` along every element of `x`.
fn slopes(x: &[f64], mut f: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-4;
    let (mut x, len) = (x.to_vec(), x.len());
    let mut slope = |index: usize| {
        let middle = x[index];
        let mut at = |value: f64| {
            x[index] = value;
            f(&x)
        };
        let near = at(middle + STEP) - at(middle - STEP);
        let far = at(middle + 2.0 * STEP) - at(middle - 2.0 * STEP);
        x[index] = middle;
        (8.0 * near - far) / (12.0 * STEP)
    };
    (0..len).map(&mut slope).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[test]
fn numbers_travel_as_bytes() {
    let mut cpu = Cpu::<f32>::new();
    let mut tensor = cpu.tensor(4).unwrap();
    cpu.write(&[1.5, -2.0, 3.0], At { buffer: &mut tensor, from: 1 }).unwrap();
    assert_eq!(cpu.read(&tensor).unwrap()[1..], [1.5, -2.0, 3.0]);
    let transfer = cpu.send(tensor.clone()).unwrap();
    let bytes = cpu.pack(transfer).unwrap();
    assert_eq!(bytes.len(), 4 * cpu.element_bytes());
    assert_eq!(bytes[4..8], 1.5f32.to_le_bytes());
    let transfer = cpu.unpack(&bytes).unwrap();
    assert_eq!(cpu.receive(transfer).unwrap(), tensor);
    assert!(matches!(cpu.unpack(&bytes[..15]), Err(DeviceError::Call { .. })));
}

#[test]
fn memory_that_nobody_has_is_refused() {
    let error = Cpu::<f64>::new().tensor(1 << 59).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
}
