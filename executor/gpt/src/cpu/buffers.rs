//! Buffers of the host, and slices of them.

use pipeline::Bytes;

use crate::cpu::real::Real;
use crate::operands::At;
use runtime::DeviceError;

/// `len` zeros; an error if the allocation fails.
pub(super) fn zeros<T: Real>(len: usize) -> Result<Vec<T>, DeviceError> {
    let mut all = Vec::new();
    match all.try_reserve_exact(len) {
        Ok(()) => {
            all.resize(len, T::zero());
            Ok(all)
        }
        Err(_) => {
            let asked = Bytes((len as u64).saturating_mul(T::BYTES as u64));
            let message = format!("the host has no {asked} of memory left");
            Err(DeviceError::Call { call: "allocation", message })
        }
    }
}

/// `count` elements of a buffer, from its offset on.
pub(super) fn part<'a, T>(at: &At<&'a Vec<T>>, count: usize) -> &'a [T] {
    &at.buffer[at.from..at.from + count]
}

pub(super) fn part_mut<T>(at: At<&mut Vec<T>>, count: usize) -> &mut [T] {
    let At { buffer, from } = at;
    &mut buffer[from..from + count]
}

pub(super) fn write<T: Real>(values: &[f64], to: At<&mut Vec<T>>) {
    for (to, &value) in part_mut(to, values.len()).iter_mut().zip(values) {
        *to = T::of(value);
    }
}

pub(super) fn read<T: Real>(from: &[T]) -> Vec<f64> {
    from.iter().map(|x| x.wide()).collect()
}

/// Ranges `[from, from + len)` and `[other, other + len)` of `all`, which do not overlap.
pub(super) fn two_parts<T>(
    all: &mut [T],
    from: usize,
    other: usize,
    len: usize,
) -> (&mut [T], &mut [T]) {
    if from < other {
        let (head, tail) = all.split_at_mut(other);
        (&mut head[from..from + len], &mut tail[..len])
    } else {
        let (head, tail) = all.split_at_mut(from);
        (&mut tail[..len], &mut head[other..other + len])
    }
}
