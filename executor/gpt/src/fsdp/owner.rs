//! The parameters that a device owns: peers pull them and push their gradients while it computes.

use crate::cpu::Cpu;
use crate::model::Layout;
use crate::operands::At;
use crate::ops::{AdamW, Moments, Ops};
use runtime::DeviceError;

use super::plan::Plan;
use super::units::Units;

/// Gradients are accumulated as integers in units of 2^-40: integer addition does not depend on the
/// order. Each sample's share is rounded once, by at most 2^-41.
const ONE: f64 = (1u64 << 40) as f64;
/// The largest gradient of one sample: a sum has room for 2^22 of them.
const MOST: f64 = (1u64 << 20) as f64;

/// `gradient` as an integer in units of 2^-40; `None` if it is NaN or too large.
#[allow(clippy::cast_possible_truncation)] // Checked before.
pub(super) fn whole(gradient: f32) -> Option<i64> {
    let gradient = f64::from(gradient);
    (gradient.abs() < MOST).then(|| (gradient * ONE).round() as i64)
}

/// The shards of a device of all units: weights, optimizer state and accumulated gradients.
pub(super) struct Owner {
    states: Vec<Moments<Vec<f32>, Vec<f32>>>,
    sums: Vec<Vec<i64>>,
    /// Number of minibatches whose updates the weights include.
    pub(super) version: u32,
}

impl Owner {
    /// The shards of `rank`, with the initial weights.
    pub(super) fn new(plan: &Plan, units: &Units, rank: usize) -> Result<Self, DeviceError> {
        let layout = Layout::whole(plan.model);
        let mut ops = Cpu::<f32>::new();
        let mut states = Vec::with_capacity(units.count());
        let mut sums = Vec::with_capacity(units.count());
        for unit in 0..units.count() {
            let shard = units.shard(unit, rank);
            let at = units.range(unit).start;
            let values = layout.draw(plan.seed, at + shard.start..at + shard.end);
            let mut weights = ops.tensor(values.len())?;
            ops.write(&values, At::start(&mut weights))?;
            let (first, second) = (ops.accumulator(values.len())?, ops.accumulator(values.len())?);
            states.push(Moments { master: weights.clone(), weights, first, second });
            sums.push(vec![0; values.len()]);
        }
        Ok(Self { states, sums, version: 0 })
    }

    /// The weights of the owned shard of `unit`.
    pub(super) fn weights(&self, unit: usize) -> &[f32] {
        self.states.get(unit).map_or(&[], |state| &state.weights)
    }

    /// Accumulates the gradients of the owned shard of `unit`.
    pub(super) fn add(&mut self, unit: usize, gradients: impl IntoIterator<Item = i64>) {
        let Some(sums) = self.sums.get_mut(unit) else { return };
        for (sum, gradient) in sums.iter_mut().zip(gradients) {
            *sum = sum.saturating_add(gradient);
        }
    }

    /// One optimizer step, after which the gradients are zero.
    #[allow(clippy::cast_possible_truncation)] // Kernels take f32.
    pub(super) fn update(&mut self) -> Result<(), DeviceError> {
        let mut ops = Cpu::<f32>::new();
        self.version += 1;
        for (state, sums) in self.states.iter_mut().zip(&mut self.sums) {
            let gradients = sums.iter().map(|&sum| (sum as f64 / ONE) as f32).collect();
            ops.adamw(AdamW::default(), self.version, 1.0, &gradients, state)?;
            sums.fill(0);
        }
        Ok(())
    }
}
