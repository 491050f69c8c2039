//! Many minibatches in several ways, and how sure their speed-ups are.

use fsdp::{Communication, CostModel, FsdpError, Lengths, Machine, Method, Study, Tally, Way};
use pipeline::Nanos;
use rayon::prelude::*;

/// Independent draws of minibatches, by their spread is said how sure a mean is.
const BATCHES: u64 = 10;
const MINIBATCHES: u64 = 10;
/// Student's t for a two-sided interval of 95 % with nine degrees of freedom.
const STUDENT: f64 = 2.262;

/// All ways, of which the baseline of speed-ups is one.
pub(super) const WAYS: [Way; 5] = [
    way(Method::LocalSort, Communication::Collectives),
    way(Method::LocalSort, Communication::OnDemand),
    BASELINE,
    way(Method::LbMicro, Communication::OnDemand),
    MINI,
];
pub(super) const BASELINE: Way = way(Method::LbMicro, Communication::Collectives);
pub(super) const MINI: Way = way(Method::LbMini, Communication::OnDemand);

const fn way(method: Method, communication: Communication) -> Way {
    Way { method, communication }
}

/// Minibatches of one kind on one machine.
pub(super) struct Trials {
    pub(super) machine: Machine,
    pub(super) lengths: Lengths,
    pub(super) model: CostModel,
    /// Samples of a minibatch per device.
    pub(super) minibatch: u64,
}

pub(super) struct Result {
    pub(super) way: Way,
    /// The mean step.
    pub(super) step: Nanos,
    /// The share of the step in which the average device waits.
    pub(super) idle: f64,
    /// Speed-up over the baseline.
    pub(super) speedup: f64,
    /// Half-width of its 95 % confidence interval.
    pub(super) half_width: f64,
}

impl Result {
    /// How many per cent faster than the baseline.
    pub(super) fn gain(&self) -> f64 {
        (self.speedup - 1.0) * 100.0
    }
}

impl Trials {
    /// All `ways` over the same minibatches, with at most as many tokens to a microbatch as the
    /// longest sample has (a packing ratio of 1).
    pub(super) fn run(&self, ways: &[Way]) -> std::result::Result<Vec<Result>, FsdpError> {
        let mut asked = ways.to_vec();
        asked.push(BASELINE);
        let batches: Vec<Vec<Tally>> = (0..BATCHES)
            .into_par_iter()
            .map(|seed| self.study(seed).run(&asked, || ()))
            .collect::<std::result::Result<_, _>>()?;
        Ok(ways.iter().enumerate().map(|(at, &way)| result(way, at, &batches)).collect())
    }

    fn study(&self, seed: u64) -> Study {
        Study {
            machine: self.machine.clone(),
            lengths: self.lengths.clone(),
            model: self.model,
            minibatch: self.minibatch,
            limit: u64::from(self.lengths.longest()),
            minibatches: MINIBATCHES,
            seed,
        }
    }
}

/// The way number `at` of the batches; the last is the baseline.
#[allow(clippy::cast_precision_loss)]
fn result(way: Way, at: usize, batches: &[Vec<Tally>]) -> Result {
    let (mut own, mut baseline) = (Tally::default(), Tally::default());
    let mut speedups = Vec::with_capacity(batches.len());
    for batch in batches {
        let (Some(one), Some(other)) = (batch.get(at), batch.last()) else { continue };
        own.add(one);
        baseline.add(other);
        speedups.push(one.speedup_over(other));
    }
    let count = speedups.len() as f64;
    let mean = speedups.iter().sum::<f64>() / count;
    let squares: f64 = speedups.iter().map(|one| (one - mean).powi(2)).sum();
    let half_width = STUDENT * (squares / (count - 1.0) / count).sqrt();
    Result {
        way,
        step: own.step(),
        idle: own.bubble_rate(),
        speedup: own.speedup_over(&baseline),
        half_width,
    }
}
