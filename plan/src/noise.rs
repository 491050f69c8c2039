//! Steps with jitter between passes, and straggling devices.
//!
//! Replicas of the model wait for each other, so of d replicas the slowest counts: with F the share
//! of steps of one replica that are done by a time, all of them are with F^d. F is drawn by the
//! event engine. Steps in which a device straggles may be rare, but among many replicas they decide,
//! so they are drawn apart, as many as of the others, and weighed by how often they happen.
//!
//! F^d asks for shares of steps that few draws do not reach: of 32 replicas P95 is where 99.84 % of
//! the steps of one are done. A step is the sum of very many passes, so beyond the longest that was
//! drawn F goes on as the normal with the mean and the spread of those drawn. Where a device
//! straggles steps are of few kinds, and F ends with the longest.

use std::collections::BTreeMap;

use pipeline::Nanos;
use rayon::prelude::*;
use sim::engine::EngineError;
use sim::straggler::{Jitter, StragglerError, Stragglers, Target, straggling};
use thiserror::Error;

use crate::finalist::Finalist;
use crate::model::number;
use crate::setup::Setup;

/// The most passes of all steps that are drawn for one set-up, but for [`FEWEST`] steps.
const MOST_PASSES: u64 = 400_000;
/// As few steps as are drawn of however many passes, if as many are asked for.
const FEWEST: u64 = 12;
/// Quantiles over which the mean step is averaged.
const QUANTILES: u32 = 256;

/// How durations differ from the nominal ones.
#[derive(Clone, PartialEq, Debug)]
pub struct Noise {
    /// Coefficient of variation of every pass, log-normal.
    pub jitter: f64,
    /// That a pass now and then lasts longer: how likely, and by how much.
    pub stall: Option<(f64, Nanos)>,
    /// That a device is now and then slow for a step.
    pub straggler: Option<Straggler>,
    /// Devices that are slow all the time, each of them once.
    pub slowdown: Vec<SlowDevice>,
    /// How many steps are drawn of each kind; fewer of large pipelines, 400,000 passes in all, but
    /// at least 12.
    pub replicas: u64,
    /// Where chance begins.
    pub seed: u64,
}

/// Any device, slow for a step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Straggler {
    /// How likely each device is in each step, by itself.
    pub probability: f64,
    /// Factor on the time of its passes then, at least 1.
    pub factor: f64,
}

/// A device that is slow all the time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SlowDevice {
    /// Its rank in the cluster, from 0: ranks are assigned to tensor, context, data and pipeline groups
    /// in this order, the first with neighbours.
    pub device: u64,
    /// Factor on the time of its passes, at least 1.
    pub factor: f64,
}

/// Why nothing can be drawn.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum NoiseError {
    /// Not a spread, a probability or a factor.
    #[error(transparent)]
    Spread(#[from] StragglerError),
    /// A step does not finish.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The step that half of all and 95 % do not exceed.
pub fn percentiles(finalist: &Finalist, noise: &Noise) -> Result<[Nanos; 2], NoiseError> {
    let found = percentiles_with(finalist, noise, &|_| {}, &|| false)?;
    Ok(found.unwrap_or([finalist.step; 2]))
}

/// The same; `done` is called for every step that is drawn, and the result is `None` if `stop` returns
/// true before the last.
pub fn percentiles_with(
    finalist: &Finalist,
    noise: &Noise,
    done: &(dyn Fn(u64) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<[Nanos; 2]>, NoiseError> {
    let setup = &finalist.costed().setup;
    let mut kinds = Vec::new();
    for (slow, replicas) in kinds_of_replicas(setup, &noise.slowdown) {
        match (Draw { finalist, noise, slow: &slow, done, stop }).all()? {
            Some(drawn) => kinds.push((drawn, number(replicas))),
            None => return Ok(None),
        }
    }
    Ok(Some([0.5, 0.95].map(|q| quantile(&kinds, q))))
}

/// The step that a share `q` of all do not exceed, of replicas that wait for each other.
fn quantile(kinds: &[(Drawn, f64)], q: f64) -> Nanos {
    let mut steps: Vec<Nanos> = kinds
        .iter()
        .flat_map(|(drawn, _)| drawn.strata.iter().flat_map(|one| &one.steps))
        .copied()
        .collect();
    steps.sort_unstable();
    let is_early = |by: Nanos| {
        let of_kind = |(drawn, replicas): &(Drawn, f64)| replicas * libm::log(drawn.done(by));
        kinds.iter().map(of_kind).sum::<f64>() < libm::log(q) - 1e-12
    };
    let at = steps.partition_point(|&step| is_early(step));
    match (steps.get(at), steps.last()) {
        (Some(step), _) => *step,
        (None, Some(longest)) => beyond(*longest, is_early),
        (None, None) => Nanos(0),
    }
}

/// The first time behind `longest` that is not early.
fn beyond(longest: Nanos, is_early: impl Fn(Nanos) -> bool) -> Nanos {
    let (mut early, mut late) = (longest.0, longest.0.saturating_mul(2));
    while late - early > 1 {
        let middle = early + (late - early) / 2;
        if is_early(Nanos(middle)) {
            early = middle;
        } else {
            late = middle;
        }
    }
    Nanos(late)
}

/// How many steps are drawn for `finalist`.
#[must_use]
pub fn drawn(finalist: &Finalist, noise: &Noise) -> u64 {
    let kinds = kinds_of_replicas(&finalist.costed().setup, &noise.slowdown).len() as u64;
    let (_, strata) = straggling_steps(finalist, noise);
    kinds * strata.len() as u64 * u64::from(count(finalist, noise))
}

/// How many steps of each kind.
fn count(finalist: &Finalist, noise: &Noise) -> u32 {
    u32::try_from(noise.replicas.min(affordable(finalist))).unwrap_or(u32::MAX).max(1)
}

/// As many steps of `finalist` as are drawn at most.
pub(crate) fn affordable(finalist: &Finalist) -> u64 {
    (MOST_PASSES / finalist.passes().max(1) as u64).max(FEWEST)
}

/// Mean and 95th percentile of a step that waits for the slowest of `replicas`, each of which takes any
/// of `steps` with equal probability.
pub(crate) fn of_slowest(mut steps: Vec<Nanos>, replicas: u64) -> [Nanos; 2] {
    steps.sort_unstable();
    let one = Drawn { strata: vec![Stratum::new(1.0, steps, true)] };
    let kinds = [(one, number(replicas))];
    let middles = (0..QUANTILES).map(|at| (f64::from(at) + 0.5) / f64::from(QUANTILES));
    let sum: u128 = middles.map(|q| u128::from(quantile(&kinds, q).0)).sum();
    let mean = sum / u128::from(QUANTILES);
    [Nanos(u64::try_from(mean).unwrap_or(u64::MAX)), quantile(&kinds, 0.95)]
}

/// How likely a stage straggles in a step; and the kinds of steps that there are, each with its
/// share of all and whether any stage straggles in it.
fn straggling_steps(finalist: &Finalist, noise: &Noise) -> (f64, Vec<(f64, bool)>) {
    let setup = &finalist.costed().setup;
    // A stage straggles when one of its devices does.
    let of_stage =
        noise.straggler.map_or(0.0, |one| any_of(one.probability, setup.tensor * setup.context));
    let any = any_of(of_stage, finalist.costed().shape.stages() as u64);
    let kinds = [(1.0 - any, false), (any, true)];
    (of_stage, kinds.into_iter().filter(|(weight, _)| *weight > 0.0).collect())
}

/// The factor of each slow stage.
type Slow = BTreeMap<usize, f64>;

/// Which stages of a replica are slow for good, and how many replicas have the same.
fn kinds_of_replicas(setup: &Setup, slow: &[SlowDevice]) -> Vec<(Slow, u64)> {
    let mut touched: BTreeMap<u64, Slow> = BTreeMap::new();
    for one in slow {
        let [stage, replica] = setup.place_of(one.device);
        let stages = touched.entry(replica).or_default();
        let factor = stages.entry(usize::try_from(stage).unwrap_or(usize::MAX)).or_insert(1.0);
        // Those that share each product wait for the slowest of them.
        *factor = factor.max(one.factor);
    }
    let mut kinds: Vec<(Slow, u64)> = Vec::new();
    let whole = setup.data - touched.len() as u64;
    let touched = touched.into_values().map(|slow| (slow, 1));
    for (slow, replicas) in touched.chain((whole > 0).then(|| (Slow::new(), whole))) {
        match kinds.iter_mut().find(|(known, _)| *known == slow) {
            Some((_, count)) => *count += replicas,
            None => kinds.push((slow, replicas)),
        }
    }
    kinds
}

/// Steps of a replica, by kind.
struct Drawn {
    strata: Vec<Stratum>,
}

/// Steps of one kind.
struct Stratum {
    /// Their share of all.
    weight: f64,
    /// Those that were drawn, ascending.
    steps: Vec<Nanos>,
    /// Mean and standard deviation of the normal that goes on behind them, if one does.
    tail: Option<[f64; 2]>,
}

/// The state that the steps of a replica are drawn from.
struct Draw<'a> {
    finalist: &'a Finalist,
    noise: &'a Noise,
    slow: &'a Slow,
    done: &'a (dyn Fn(u64) + Sync),
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Draw<'_> {
    /// All draws; `None` after a stop.
    fn all(&self) -> Result<Option<Drawn>, NoiseError> {
        let (of_stage, kinds) = straggling_steps(self.finalist, self.noise);
        let mut strata = Vec::new();
        for (weight, straggles) in kinds {
            let of_stage = if straggles { of_stage } else { 0.0 };
            let one = |replica: u32| {
                let step = (!(self.stop)()).then(|| self.step(replica.into(), of_stage));
                (self.done)(1);
                step.transpose()
            };
            let count = count(self.finalist, self.noise);
            let steps: Result<Option<Vec<Nanos>>, NoiseError> =
                (0..count).into_par_iter().map(one).collect();
            let Some(mut steps) = steps? else { return Ok(None) };
            steps.sort_unstable();
            strata.push(Stratum::new(weight, steps, !straggles));
        }
        Ok(Some(Drawn { strata }))
    }

    /// A step of the replica numbered `replica`, in which a stage straggles if any may.
    fn step(&self, replica: u64, of_stage: f64) -> Result<Nanos, NoiseError> {
        let stages = self.finalist.costed().shape.stages();
        let mut stragglers = steady(stages, self.noise, self.slow)?;
        if let Some(straggler) = self.noise.straggler.filter(|_| of_stage > 0.0) {
            for stage in straggling(self.noise.seed, replica, stages, of_stage)? {
                stragglers.slow(Target::Stage(stage), straggler.factor)?;
            }
        }
        let durations = stragglers.durations(replica, &self.finalist.costs);
        Ok(self.finalist.step_under(&durations)?)
    }
}

impl Drawn {
    /// The share of steps that are done in `by`.
    fn done(&self, by: Nanos) -> f64 {
        self.strata.iter().map(|one| one.weight * one.done(by)).sum::<f64>().min(1.0)
    }
}

impl Stratum {
    fn new(weight: f64, steps: Vec<Nanos>, goes_on: bool) -> Self {
        let count = number(steps.len() as u64);
        let mean = steps.iter().map(|step| number(step.0)).sum::<f64>() / count;
        let square = |step: &Nanos| (number(step.0) - mean) * (number(step.0) - mean);
        let variance = steps.iter().map(square).sum::<f64>() / (count - 1.0).max(1.0);
        let varies = goes_on && steps.first() != steps.last();
        Self { weight, steps, tail: varies.then(|| [mean, libm::sqrt(variance)]) }
    }

    /// The share of them that are done in `by`.
    fn done(&self, by: Nanos) -> f64 {
        let count = number(self.steps.len() as u64);
        let done = self.steps.partition_point(|step| *step <= by);
        match self.tail {
            Some([mean, deviation]) if done == self.steps.len() => {
                let above = (number(by.0) - mean) / deviation;
                let normal = 1.0 - libm::erfc(above / std::f64::consts::SQRT_2) / 2.0;
                normal.max(1.0 - 1.0 / count)
            }
            _ => number(done as u64) / count,
        }
    }
}

/// All noise but that of devices that straggle for a step.
fn steady(stages: usize, noise: &Noise, slow: &Slow) -> Result<Stragglers, StragglerError> {
    let mut stragglers = Stragglers::new(stages, noise.seed);
    stragglers.jitter_passes(Jitter::log_normal(noise.jitter)?);
    if let Some((probability, length)) = noise.stall {
        stragglers.stall(probability, length)?;
    }
    for (&stage, &factor) in slow {
        // A factor of its device, so that a stage may straggle too: the two factors multiply.
        stragglers.slow(Target::Device(stage), factor)?;
    }
    Ok(stragglers)
}

/// How likely any of `count` is, of which each is with `probability` by itself.
fn any_of(probability: f64, count: u64) -> f64 {
    -libm::expm1(number(count) * libm::log1p(-probability))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::SplitMix64;

    use super::*;

    fn stratum(weight: f64, steps: &[u64]) -> Stratum {
        Stratum::new(weight, steps.iter().map(|&step| Nanos(step)).collect(), false)
    }

    #[test]
    fn quantiles_are_those_of_the_slowest_of_all_replicas() {
        let one = Drawn { strata: vec![stratum(1.0, &[1, 2, 3, 4])] };
        assert_eq!([0, 1, 3, 9].map(|by| one.done(Nanos(by))), [0.0, 0.25, 0.75, 1.0]);
        let rare = Drawn { strata: vec![stratum(0.99, &[1]), stratum(0.01, &[5, 7])] };
        assert!((rare.done(Nanos(5)) - 0.995).abs() < 1e-12);
        assert!((any_of(1e-9, 1000) - 1e-6).abs() < 1e-11);
        assert_eq!([any_of(1.0, 3), any_of(0.0, 3)], [1.0, 0.0]);
    }

    /// Twenty steps say what is rarer than one in twenty: sums of twelve uniform numbers have a
    /// variance of 1 and are nearly normal; of 32, the slowest is above 2.948 once in twenty times.
    #[test]
    fn the_slowest_of_many_replicas_is_beyond_what_was_drawn() {
        let mut chance = SplitMix64::seed_from_u64(5);
        let mut p95 = |draws: u32| {
            let step = |_| (0..12).map(|_| chance.random_range(0..=1_000_000u64)).sum::<u64>();
            let mut steps: Vec<Nanos> = (0..draws).map(step).map(|sum| Nanos(sum + 1)).collect();
            steps.sort_unstable();
            let drawn = Drawn { strata: vec![Stratum::new(1.0, steps, true)] };
            number(quantile(&[(drawn, 32.0)], 0.95).0) / 1e6 - 6.0
        };
        let all: Vec<f64> = (0..200).map(|_| p95(20)).collect();
        let mean = all.iter().sum::<f64>() / 200.0;
        // The longest of twenty is at 1.87 in the mean.
        assert!((mean - 2.948).abs() < 0.15, "{mean}");
        assert!((p95(20_000) - 2.948).abs() < 0.15);
    }

    /// Of 32 sums of twelve uniform numbers the largest has a mean of 2.07 standard deviations above theirs.
    #[test]
    fn a_step_of_many_replicas_waits_for_the_slowest() {
        let mut chance = SplitMix64::seed_from_u64(9);
        let step = |_| (0..12).map(|_| chance.random_range(0..=1_000_000u64)).sum::<u64>();
        let steps: Vec<Nanos> = (0..20_000).map(step).map(Nanos).collect();
        let [mean, p95] = of_slowest(steps.clone(), 32).map(|time| number(time.0) / 1e6 - 6.0);
        assert!((mean - 2.07).abs() < 0.06 && (p95 - 2.948).abs() < 0.15, "{mean} {p95}");
        let [mean, _] = of_slowest(steps, 1).map(|time| number(time.0) / 1e6 - 6.0);
        assert!(mean.abs() < 0.05, "{mean}");
        assert_eq!(of_slowest(vec![Nanos(7); 20], 64), [Nanos(7); 2]);
    }

    #[test]
    fn steps_that_are_all_alike_have_no_tail() {
        let drawn = Drawn { strata: vec![Stratum::new(1.0, vec![Nanos(7); 20], true)] };
        assert_eq!(quantile(&[(drawn, 1e6)], 0.95), Nanos(7));
    }
}
