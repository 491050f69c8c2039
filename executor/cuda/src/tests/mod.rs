//! The kernels against references in f64: on the CPU where there is a C++ compiler, and on a GPU
//! where there is one.

mod cases;
mod emulator;
mod gpu;
mod model;
mod on_stand_in;
mod operations;
mod stand_in;

use runtime::DeviceError;

use super::element::{Element, decode, encode};
use super::launch::{Address, Launch};

/// Reports a skipped test with the reason `why`; fails if DEBUBBLE_NEEDS_GPU forbids skips.
pub(super) fn skipped(why: &DeviceError) {
    assert!(
        std::env::var_os("DEBUBBLE_NEEDS_GPU").is_none_or(|value| value != "1"),
        "DEBUBBLE_NEEDS_GPU=1, but {why}"
    );
    println!("skipped: {why}");
}

/// The first contents of a buffer.
#[derive(Clone, Debug)]
enum Data {
    /// Elements of a tensor.
    Elements(Vec<f64>),
    /// f32.
    Accumulator(Vec<f64>),
    /// f64.
    Doubles(Vec<f64>),
    /// Token numbers.
    Words(Vec<u32>),
}

impl Data {
    fn bytes<E: Element>(&self) -> Vec<u8> {
        match self {
            Self::Elements(values) => encode::<E>(values),
            Self::Accumulator(values) => encode::<f32>(values),
            Self::Doubles(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::Words(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        }
    }

    fn values<E: Element>(&self, bytes: &[u8]) -> Vec<f64> {
        match self {
            Self::Elements(_) => decode::<E>(bytes),
            Self::Accumulator(_) => decode::<f32>(bytes),
            Self::Doubles(_) => {
                bytes.as_chunks().0.iter().map(|value| f64::from_le_bytes(*value)).collect()
            }
            Self::Words(_) => bytes
                .as_chunks()
                .0
                .iter()
                .map(|word| f64::from(u32::from_le_bytes(*word)))
                .collect(),
        }
    }
}

/// Runs launches over buffers.
trait Machine {
    /// The bytes of the buffers after the launches, which `plan` makes from the addresses.
    fn bytes<E: Element>(
        &self,
        buffers: &[Vec<u8>],
        plan: &dyn Fn(&[Address]) -> Vec<Launch>,
    ) -> Vec<Vec<u8>>;

    /// The values of the buffers after the launches.
    fn run<E: Element>(
        &self,
        buffers: &[Data],
        plan: &dyn Fn(&[Address]) -> Vec<Launch>,
    ) -> Vec<Vec<f64>> {
        let before: Vec<Vec<u8>> = buffers.iter().map(Data::bytes::<E>).collect();
        let after = self.bytes::<E>(&before, plan);
        buffers.iter().zip(&after).map(|(data, bytes)| data.values::<E>(bytes)).collect()
    }
}

/// Pseudorandom numbers between -2 and 2, rounded to elements.
fn numbers<E: Element>(seed: u64, len: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        E::nearest((state >> 40) as f64 / f64::from(1 << 22) - 2.0).value()
    };
    (0..len).map(|_| next()).collect()
}

/// Relative error of one rounding to an element, plus that of f32 arithmetic.
fn tolerance<E: Element>() -> f64 {
    if E::IS_BF16 { 1.0 / 200.0 } else { 1e-5 }
}

/// Asserts that `got` equals `want`, each within `relative` of itself and of 1.
fn close(what: &str, got: &[f64], want: &[f64], relative: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let most = relative * want.abs().max(1.0);
        assert!((got - want).abs() <= most, "{what}[{i}]: {got} instead of {want}");
    }
}
