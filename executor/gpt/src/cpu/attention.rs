//! Kernels between the two linears of attention: splitting and merging heads, softmax.

use crate::cpu::real::{Real, sum_over};
use crate::cpu::tokens::softmax;
use crate::operands::Heads;

/// Calls `copy` with the first element of every row of a head, in `[batch, sequence, parts, heads,
/// width]` and in `[batch, heads, sequence, width]`, for part number `part`.
fn for_each_row(sizes: Heads, (part, parts): (usize, usize), mut copy: impl FnMut(usize, usize)) {
    let Heads { batch, sequence, heads, width } = sizes;
    for b in 0..batch {
        for place in 0..sequence {
            for head in 0..heads {
                let token = b * sequence + place;
                let together = ((token * parts + part) * heads + head) * width;
                let apart = ((b * heads + head) * sequence + place) * width;
                copy(together, apart);
            }
        }
    }
}

/// Part `part` of `parts` of `together`, head by head.
pub(super) fn split<T: Real>(sizes: Heads, parts: (usize, usize), together: &[T], apart: &mut [T]) {
    let width = sizes.width;
    for_each_row(sizes, parts, |from, to| {
        apart[to..to + width].copy_from_slice(&together[from..from + width]);
    });
}

/// The inverse of [`split`].
pub(super) fn join<T: Real>(sizes: Heads, parts: (usize, usize), apart: &[T], together: &mut [T]) {
    let width = sizes.width;
    for_each_row(sizes, parts, |to, from| {
        together[to..to + width].copy_from_slice(&apart[from..from + width]);
    });
}

pub(super) fn causal_softmax<T: Real>(n: usize, x: &mut [T]) {
    for (index, row) in x.chunks_exact_mut(n).enumerate() {
        let (seen, hidden) = row.split_at_mut(index % n + 1);
        softmax(seen);
        hidden.fill(T::zero());
    }
}

pub(super) fn softmax_backward<T: Real>(n: usize, scale: T, p: &[T], dp: &mut [T]) {
    for (p, dp) in p.chunks_exact(n).zip(dp.chunks_exact_mut(n)) {
        let mean = sum_over(p, dp, |p, dp| p * dp);
        for (dp, &p) in dp.iter_mut().zip(p) {
            *dp = scale * p * (*dp - mean);
        }
    }
}
