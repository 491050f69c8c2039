//! The parameters that a device owns: others pull them and push their gradients, whatever it is doing.

use crate::cpu::Cpu;
use crate::model::Layout;
use crate::ops::{AdamW, Moments, Ops};
use runtime::DeviceError;

use super::plan::Plan;
use super::units::Units;

/// Gradients are summed up as whole numbers of 2^-40: the sum of whole numbers does not depend on their
/// order. Each sample's part is rounded once, by at most 2^-41.
const ONE: f64 = (1u64 << 40) as f64;
/// The largest part of a gradient that one sample may have: 2^22 of them fit into a sum.
const MOST: f64 = (1u64 << 20) as f64;

/// `gradient` as a whole number of 2^-40; `None` if it is no number, or too large.
#[allow(clippy::cast_possible_truncation)] // Checked before.
pub(super) fn whole(gradient: f32) -> Option<i64> {
    let gradient = f64::from(gradient);
    (gradient.abs() < MOST).then(|| (gradient * ONE).round() as i64)
}

/// The part of a device of all units: weights, the state of the optimizer, and sums of gradients.
pub(super) struct Owner {
    states: Vec<Moments<Vec<f32>, Vec<f32>>>,
    sums: Vec<Vec<i64>>,
    /// Minibatches whose gradients the weights have in them.
    pub(super) version: u32,
}

impl Owner {
    /// The part of `rank` of the weights at the start.
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
            ops.write(&values, crate::ops::At::start(&mut weights))?;
            let (first, second) = (ops.accumulator(values.len())?, ops.accumulator(values.len())?);
            states.push(Moments { master: weights.clone(), weights, first, second });
            sums.push(vec![0; values.len()]);
        }
        Ok(Self { states, sums, version: 0 })
    }

    /// The weights of its part of `unit`.
    pub(super) fn weights(&self, unit: usize) -> &[f32] {
        self.states.get(unit).map_or(&[], |state| &state.weights)
    }

    /// Adds the part of a gradient that it owns.
    pub(super) fn add(&mut self, unit: usize, gradients: impl IntoIterator<Item = i64>) {
        let Some(sums) = self.sums.get_mut(unit) else { return };
        for (sum, gradient) in sums.iter_mut().zip(gradients) {
            *sum = sum.saturating_add(gradient);
        }
    }

    /// One step of the optimizer, after which the sums are empty.
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
