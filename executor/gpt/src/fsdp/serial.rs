//! The serial reference: the same minibatches on one device, sample by sample.

use std::time::Duration;

use pipeline::Nanos;

use super::failure::Failure;
use super::owner::Owner;
use super::plan::Plan;
use super::step::{Computer, Exchange, Place};
use super::units::Units;

/// A serial run.
#[derive(Clone, PartialEq, Debug)]
pub struct Serial {
    /// All weights at the end.
    pub weights: Vec<f32>,
    /// The loss of each minibatch.
    pub losses: Vec<f64>,
    /// Compute time of each sample of each minibatch.
    pub samples: Vec<Vec<Nanos>>,
}

/// Unsharded parameters.
struct Whole(Owner);

impl Exchange for Whole {
    fn unshard(&mut self, unit: usize) -> Result<Vec<f32>, Failure> {
        Ok(self.0.weights(unit).to_vec())
    }

    fn reduce_grad(&mut self, unit: usize, gradients: Vec<i64>) -> Result<(), Failure> {
        self.0.add(unit, gradients);
        Ok(())
    }
}

/// Computes all samples of `plan` in the order of their numbers, each as a microbatch of its own.
pub fn serial(plan: &Plan) -> Result<Serial, Failure> {
    let units = Units::new(plan.model, 1);
    let fail = |error| Failure::Device { rank: 0, error };
    let mut whole = Whole(Owner::new(plan, &units, 0).map_err(fail)?);
    let mut computer = Computer::new(plan, &units);
    let mut done = Serial { weights: Vec::new(), losses: Vec::new(), samples: Vec::new() };
    for (number, minibatch) in (0u32..).zip(&plan.minibatches) {
        let place = place(0, number, minibatch.tokens());
        let mut times = Vec::with_capacity(minibatch.lengths.len());
        let mut loss = 0.0;
        for (sample, &length) in (0u32..).zip(&minibatch.lengths) {
            computer.busy = Duration::ZERO;
            let losses = computer.microbatch(&mut whole, place, &[(sample, length)])?;
            loss += losses.iter().sum::<f64>();
            times.push(Nanos(u64::try_from(computer.busy.as_nanos()).unwrap_or(u64::MAX)));
        }
        whole.0.update().map_err(fail)?;
        done.losses.push(loss);
        done.samples.push(times);
    }
    done.weights = (0..units.count()).flat_map(|unit| whole.0.weights(unit).to_vec()).collect();
    Ok(done)
}

/// The place of `minibatch` of `tokens` tokens.
#[allow(clippy::cast_possible_truncation)] // Kernels take their factors as f32.
pub(super) fn place(rank: usize, minibatch: u32, tokens: usize) -> Place {
    Place { rank, minibatch, scale: (1.0 / tokens as f64) as f32 }
}
