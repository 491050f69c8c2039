//! The output layer on a shard of the vocabulary, on a core.

use crate::cpu::Cpu;
use crate::cpu::real::{Real, largest, sum};
use crate::cpu::rows::add;
use crate::model::{ShardOps, ShardSizes};
use crate::operands::At;
use runtime::DeviceError;

impl<T: Real> ShardOps<Vec<T>, Vec<T>, Vec<u32>> for Cpu<T> {
    fn copy(&mut self, len: usize, from: &Vec<T>, to: &mut Vec<T>) -> Result<(), DeviceError> {
        to[..len].copy_from_slice(&from[..len]);
        Ok(())
    }

    fn zero(&mut self, len: usize, to: &mut Vec<T>) -> Result<(), DeviceError> {
        to[..len].fill(T::zero());
        Ok(())
    }

    fn shard_softmax(
        &mut self,
        sizes: ShardSizes,
        targets: &Vec<u32>,
        logits: &mut Vec<T>,
        statistics: &mut Vec<T>,
        picked: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let rows = logits.chunks_exact_mut(sizes.columns).zip(targets);
        let rows = rows.zip(statistics.chunks_exact_mut(2)).zip(picked);
        for (((row, &target), statistics), picked) in rows.take(sizes.rows) {
            *picked = sizes.column(target).map_or(T::zero(), |column| row[column]);
            let most = largest(row);
            row.iter_mut().for_each(|x| *x = (*x - most).exp());
            statistics.copy_from_slice(&[most, sum(row)]);
        }
        Ok(())
    }

    fn target_rows(
        &mut self,
        sizes: ShardSizes,
        width: usize,
        targets: &Vec<u32>,
        table: At<&Vec<T>>,
        to: At<&mut Vec<T>>,
    ) -> Result<(), DeviceError> {
        let rows = to.buffer[to.from..].chunks_exact_mut(width).zip(targets);
        for (row, &target) in rows.take(sizes.rows) {
            match sizes.column(target) {
                Some(column) => {
                    let from = table.from + column * width;
                    row.copy_from_slice(&table.buffer[from..from + width]);
                }
                None => row.fill(T::zero()),
            }
        }
        Ok(())
    }

    fn merge_statistics(
        &mut self,
        rows: usize,
        statistics: &[&Vec<T>],
        factors: &mut Vec<T>,
        whole: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        for (row, whole) in whole.chunks_exact_mut(2).take(rows).enumerate() {
            let of = |all: &Vec<T>| (all[2 * row], all[2 * row + 1]);
            let higher = |most: T, all: &&Vec<T>| if of(all).0 > most { of(all).0 } else { most };
            let most = statistics.iter().fold(T::LOWEST, higher);
            let mut total = T::zero();
            for (shard, all) in statistics.iter().enumerate() {
                let (own, sum) = of(all);
                let share = (own - most).exp();
                factors[shard * rows + row] = share;
                total += share * sum;
            }
            for shard in 0..statistics.len() {
                factors[shard * rows + row] /= total;
            }
            whole.copy_from_slice(&[most, T::of(libm::log(total.wide()))]);
        }
        Ok(())
    }

    fn shard_gradient(
        &mut self,
        sizes: ShardSizes,
        scale: f32,
        targets: &Vec<u32>,
        factors: At<&Vec<T>>,
        softmax: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let scale = T::of(scale.into());
        let factors = &factors.buffer[factors.from..];
        let rows = softmax.chunks_exact_mut(sizes.columns).zip(targets).zip(factors);
        for ((row, &target), &factor) in rows.take(sizes.rows) {
            row.iter_mut().for_each(|x| *x *= factor);
            if let Some(column) = sizes.column(target) {
                row[column] -= T::one();
            }
            row.iter_mut().for_each(|x| *x *= scale);
        }
        Ok(())
    }

    fn shard_loss(
        &mut self,
        sizes: ShardSizes,
        scale: f32,
        targets: &Vec<u32>,
        (whole, picked): (&Vec<T>, &Vec<T>),
        loss: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let scale = T::of(scale.into());
        let rows = targets.iter().zip(whole.chunks_exact(2)).zip(picked).take(sizes.rows);
        for ((&target, whole), &logit) in rows {
            if sizes.column(target).is_some() {
                loss[0] += scale * (whole[1] - (logit - whole[0]));
            }
        }
        Ok(())
    }

    fn add_hidden(
        &mut self,
        sizes: ShardSizes,
        width: usize,
        scale: f32,
        factors: At<&Vec<T>>,
        parts: &Vec<T>,
        to: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let scale = T::of(scale.into());
        let (weighted, targets) = parts.split_at(sizes.rows * width);
        let rows = weighted.chunks_exact(width).zip(targets.chunks_exact(width));
        let rows = rows.zip(&factors.buffer[factors.from..]).zip(to.chunks_exact_mut(width));
        let mut row = vec![T::zero(); width];
        for (((weighted, targets), &factor), to) in rows {
            for ((row, &a), &b) in row.iter_mut().zip(weighted).zip(targets) {
                *row = scale * (a * factor - b);
            }
            add(&row, to);
        }
        Ok(())
    }
}
