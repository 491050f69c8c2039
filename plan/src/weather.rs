//! How long a step is where passes are not all alike.

use pipeline::{Fault, Nanos};
use rayon::prelude::*;
use sim::straggler::{Jitter, StragglerError, Stragglers};
use sim::timed;
use thiserror::Error;

use crate::evaluate::Evaluation;
use crate::model::number;

/// The most passes of all steps that are drawn for one set-up, but for [`FEWEST`] steps.
const MOST_PASSES: u64 = 100_000_000;
/// As few steps as are drawn of however many passes, if as many are asked for.
const FEWEST: u64 = 20;

/// How durations differ from the nominal ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unrest {
    /// Coefficient of variation of every pass, log-normal.
    pub jitter: f64,
    /// How many steps are drawn; fewer of large pipelines, 100 million passes in all, but at least
    /// 20.
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
    let most = (MOST_PASSES / schedule.passes().max(1) as u64).max(FEWEST);
    let count = u32::try_from(unrest.replicas.min(most)).unwrap_or(u32::MAX).max(1);
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
