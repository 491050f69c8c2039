//! How long a step is where passes are not all alike.

use pipeline::{Fault, Nanos};
use rayon::prelude::*;
use sim::straggler::{Jitter, StragglerError, Stragglers};
use sim::timed;
use thiserror::Error;

use crate::evaluate::Evaluation;
use crate::model::number;

/// How durations differ from the nominal ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unrest {
    /// Coefficient of variation of every pass, log-normal.
    pub jitter: f64,
    /// How many steps are drawn.
    pub replicas: u64,
    /// Where chance begins.
    pub seed: u64,
}

/// Why nothing can be drawn.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum UnrestError {
    /// Not a spread.
    #[error(transparent)]
    Spread(#[from] StragglerError),
    /// The order cannot be made again.
    #[error(transparent)]
    Schedule(#[from] Fault),
}

/// The step that half of all and 95 % do not exceed. Replicas of the model wait for each other: of
/// d replicas the slowest counts, whose quantile q is that of one at q^(1/d).
///
/// # Errors
/// If the jitter is no coefficient of variation.
pub fn percentiles(evaluation: &Evaluation, unrest: Unrest) -> Result<[Nanos; 2], UnrestError> {
    let costed = &evaluation.costed;
    let schedule = costed.schedule()?;
    let mut stragglers = Stragglers::new(costed.shape.stages(), unrest.seed);
    stragglers.jitter_passes(Jitter::log_normal(unrest.jitter)?);
    let one = |replica: u64| {
        let weather = stragglers.weather(replica, 0);
        timed::metrics(&schedule, &weather.timing(&costed.costs)).makespan()
    };
    let count = u32::try_from(unrest.replicas).unwrap_or(u32::MAX).max(1);
    let mut steps: Vec<Nanos> = (0..count).into_par_iter().map(|at| one(u64::from(at))).collect();
    steps.sort_unstable();
    let others = costed.exchange + costed.optimizer;
    let quantile = |q: f64| {
        let q = libm::pow(q, 1.0 / number(costed.setup.data));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rank = (q * number(steps.len() as u64)).ceil() as usize;
        steps[rank.clamp(1, steps.len()) - 1] + others
    };
    Ok([quantile(0.5), quantile(0.95)])
}
