//! Kernels over token numbers: embeddings and the loss.

use crate::cpu::real::{Real, largest, sum};
use crate::cpu::rows::add;

pub(super) fn embed<T: Real>(
    sequence: usize,
    columns: usize,
    tokens: &[u32],
    table: &[T],
    positions: &[T],
    y: &mut [T],
) {
    for ((place, &token), y) in tokens.iter().enumerate().zip(y.chunks_exact_mut(columns)) {
        y.copy_from_slice(row(table, token as usize, columns));
        add(row(positions, place % sequence, columns), y);
    }
}

pub(super) fn embed_backward<T: Real>(
    sequence: usize,
    columns: usize,
    tokens: &[u32],
    dy: &[T],
    gradients: &mut [T],
    table: usize,
    positions: usize,
) {
    for ((place, &token), dy) in tokens.iter().enumerate().zip(dy.chunks_exact(columns)) {
        for from in [table + token as usize * columns, positions + place % sequence * columns] {
            add(dy, &mut gradients[from..from + columns]);
        }
    }
}

fn row<T>(table: &[T], row: usize, columns: usize) -> &[T] {
    &table[row * columns..(row + 1) * columns]
}

pub(super) fn cross_entropy<T: Real>(
    columns: usize,
    scale: T,
    logits: &[T],
    targets: &[u32],
    loss: &mut T,
) {
    let mut scratch = vec![T::zero(); columns];
    for (row, &target) in logits.chunks_exact(columns).zip(targets) {
        let most = largest(row);
        for (to, &x) in scratch.iter_mut().zip(row) {
            *to = (x - most).exp();
        }
        let log_sum = T::of(libm::log(sum(&scratch).wide()));
        *loss += scale * (log_sum - (row[target as usize] - most));
    }
}

pub(super) fn cross_entropy_backward<T: Real>(
    columns: usize,
    scale: T,
    logits: &mut [T],
    targets: &[u32],
) {
    for (row, &target) in logits.chunks_exact_mut(columns).zip(targets) {
        softmax(row);
        row[target as usize] -= T::one();
        row.iter_mut().for_each(|x| *x *= scale);
    }
}

/// `row` becomes exp(row) / the sum of that.
pub(super) fn softmax<T: Real>(row: &mut [T]) {
    let most = largest(row);
    row.iter_mut().for_each(|x| *x = (*x - most).exp());
    let share = T::one() / sum(row);
    row.iter_mut().for_each(|x| *x *= share);
}
