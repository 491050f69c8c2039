//! Stragglers and noise: how durations differ from the nominal ones.
//!
//! A pass takes `nominal x jitter` of work, done at the pace of its stage at that time, and a rare
//! stall on top. Every random number is a function of the seed, the replica, the iteration, and the
//! pass or transfer (stage or link, kind, chunk, microbatch). So all schedules see the same random
//! draws, in whatever order they run their passes; and BW takes as long as B and then W.
//!
//! ```
//! use pipeline::{Costs, Family, Metrics, Nanos, PassTimes, Problem, Shape};
//! use sim::straggler::{Jitter, Stragglers, Target};
//! use sim::timed;
//!
//! let shape = Shape::new(4, 1, 8)?;
//! let ms = Nanos(1_000_000);
//! let times = PassTimes::new(ms, ms, ms);
//! let costs = Costs::uniform(shape, times, Nanos(10_000));
//! let schedule = Family::ZbH1.schedule(&Problem::new(shape, costs.clone())?)?;
//!
//! let mut stragglers = Stragglers::new(4, 42);
//! stragglers.slow(Target::Stage(2), 1.3)?;
//! stragglers.jitter_passes(Jitter::log_normal(0.05)?);
//! let sample = stragglers.sample(0, 0);
//! let metrics = timed::metrics(&schedule, &sample.timing(&costs));
//! assert!(metrics.makespan() > Metrics::of(&sim::Replay::new().timeline(&schedule, &costs)?).makespan());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod durations;
mod error;
mod jitter;
mod key;
mod normal;
mod profile;
mod steady;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pipeline::{Costs, Kind, Nanos, Pass, PassTimes, Slot, Value};
use rand::RngExt;

pub use durations::NoisyDurations;
pub use error::StragglerError;
pub use jitter::Jitter;
pub use normal::quantile as normal_quantile;
pub use profile::Profile;

use crate::timed::Timing;
pub(crate) use key::{Key, Purpose, Word};
pub(crate) use steady::SteadyNoise;
pub(crate) use table::{LawTable, of_pieces, of_samples};

/// The target of a slowdown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    /// All passes of a stage.
    Stage(usize),
    /// All passes of the stages on a device.
    Device(usize),
    /// All transfers between two stages, either way.
    Link(usize, usize),
}

impl fmt::Display for Target {
    /// As people write it: `stage 3`, `link 2-3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(stage) => write!(f, "stage {stage}"),
            Self::Device(device) => write!(f, "device {device}"),
            Self::Link(from, to) => write!(f, "link {from}-{to}"),
        }
    }
}

/// How fast one stage or link works: a constant factor, and one that changes over time.
#[derive(Clone, Debug)]
struct Pace {
    factor: f64,
    profile: Option<Profile>,
}

const NOMINAL: Pace = Pace { factor: 1.0, profile: None };

/// A pass that now and then waits for nothing: a page fault, a clock that was throttled, a retry.
#[derive(Clone, Copy, Debug)]
struct Stall {
    probability: f64,
    length: Nanos,
}

impl Stall {
    /// Number of the 2^53 equally likely draws that stall.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // From 0 to 2^53.
    fn threshold(self) -> u64 {
        (self.probability * 2.0 / f64::EPSILON).ceil() as u64
    }
}

/// Random factors: their law, and the table they are drawn by.
#[derive(Clone, Debug)]
struct Factors {
    law: Jitter,
    table: LawTable,
}

impl From<Jitter> for Factors {
    fn from(law: Jitter) -> Self {
        Self { table: LawTable::of(&law), law }
    }
}

/// The noise model: all that makes durations differ from the nominal ones, for all replicas.
#[derive(Clone, Debug)]
pub struct Stragglers {
    seed: u64,
    /// The device of each stage.
    devices: Vec<usize>,
    stages: Vec<Pace>,
    links: BTreeMap<(usize, usize), Pace>,
    /// The targets that have their factor already, and their profile.
    slowed: BTreeSet<Target>,
    pass_jitter: Option<Factors>,
    hop_jitter: Option<Factors>,
    stall: Option<Stall>,
}

/// The steps, ascending, whose optimizer validation fails, each with `probability`.
///
/// # Errors
/// If `probability` is none.
pub fn failing_steps(seed: u64, steps: u32, probability: f64) -> Result<Vec<u32>, StragglerError> {
    if !(0.0..=1.0).contains(&probability) {
        return Err(StragglerError::Probability(probability));
    }
    let fails = |step: &u32| {
        let mut rng = Key::new(seed, 0, u64::from(*step)).validation();
        rng.random::<f64>() < probability
    };
    Ok((0..steps).filter(fails).collect())
}

/// Which of `places` are slow in `replica`, ascending, where each is with `probability` by itself
/// and at least one is: what hardly ever happens can so be drawn as often as the rest, and weighed.
///
/// # Errors
/// If `probability` is none, or 0, so that there is no such draw.
pub fn straggling(
    seed: u64,
    replica: u64,
    places: usize,
    probability: f64,
) -> Result<Vec<usize>, StragglerError> {
    if !(probability > 0.0 && probability <= 1.0) {
        return Err(StragglerError::Probability(probability));
    }
    let mut rng = Key::new(seed, replica, 0).stragglers();
    // The first is at k or before with (1 - (1-q)^(k+1)) / (1 - (1-q)^n).
    let none = libm::log1p(-probability);
    #[allow(clippy::cast_precision_loss)] // As many as stages.
    let any = -libm::expm1(none * places as f64);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast saturates.
    let first = (libm::log1p(-any * rng.random::<f64>()) / none) as usize;
    let first = first.min(places.saturating_sub(1));
    let rest = (first + 1..places).filter(|_| rng.random::<f64>() < probability);
    let rest: Vec<usize> = rest.collect();
    Ok(std::iter::once(first).chain(rest).collect())
}

impl Stragglers {
    /// No noise yet, over a pipeline of `stages` that each have a device of their own.
    #[must_use]
    pub fn new(stages: usize, seed: u64) -> Self {
        Self::on_devices((0..stages).collect(), seed)
    }

    /// No noise yet, over a pipeline with stage `s` on device `devices[s]`.
    #[must_use]
    pub fn on_devices(devices: Vec<usize>, seed: u64) -> Self {
        Self {
            seed,
            stages: vec![NOMINAL; devices.len()],
            devices,
            links: BTreeMap::new(),
            slowed: BTreeSet::new(),
            pass_jitter: None,
            hop_jitter: None,
            stall: None,
        }
    }

    /// The same noise with all its chance drawn anew from `seed`.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The seed of all chance.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether durations depend on when work begins, as under a [`Profile`].
    #[must_use]
    pub fn depends_on_time(&self) -> bool {
        self.stages.iter().chain(self.links.values()).any(|pace| pace.profile.is_some())
    }

    /// The mean time of a pass that takes `nominal` nanoseconds on `stage` without noise, within a millionth
    /// and a nanosecond; nothing where it is not known, or depends on when the pass begins.
    #[must_use]
    pub fn mean_pass(&self, stage: usize, nominal: f64) -> Option<f64> {
        let pace = self.stages.get(stage)?;
        let jitter = self.pass_jitter.as_ref().map_or(Some(1.0), |factors| factors.law.mean())?;
        #[allow(clippy::cast_precision_loss)]
        let stalled = self.stall.map_or(0.0, |stall| stall.probability * stall.length.0 as f64);
        let stalled = if nominal > 0.0 { stalled } else { 0.0 };
        pace.profile.is_none().then_some(nominal * pace.factor * jitter + stalled)
    }

    /// The mean time of a hop, as [`Self::mean_pass`] says of passes.
    #[must_use]
    pub fn mean_hop(&self, from: usize, to: usize, nominal: f64) -> Option<f64> {
        let pace = self.links.get(&(from.min(to), from.max(to))).unwrap_or(&NOMINAL);
        let jitter = self.hop_jitter.as_ref().map_or(Some(1.0), |factors| factors.law.mean())?;
        pace.profile.is_none().then_some(nominal * pace.factor * jitter)
    }

    /// A time that no pass of `nominal` nanoseconds on `stage` is below, within a nanosecond; nothing where
    /// the pace depends on when it begins.
    #[must_use]
    pub fn least_pass(&self, stage: usize, nominal: f64) -> Option<f64> {
        let pace = self.stages.get(stage)?;
        let jitter = self.pass_jitter.as_ref().map_or(1.0, |factors| factors.law.least());
        pace.profile.is_none().then_some(nominal * pace.factor * jitter)
    }

    /// The same of a hop.
    #[must_use]
    pub fn least_hop(&self, from: usize, to: usize, nominal: f64) -> Option<f64> {
        let pace = self.links.get(&(from.min(to), from.max(to))).unwrap_or(&NOMINAL);
        let jitter = self.hop_jitter.as_ref().map_or(1.0, |factors| factors.law.least());
        pace.profile.is_none().then_some(nominal * pace.factor * jitter)
    }

    /// Makes all work of `target` take `factor` times as long; below 1 it is faster. The factors
    /// of a stage and of its device multiply.
    ///
    /// # Errors
    /// If there is no such target, it has a factor already, or `factor` is none.
    pub fn slow(&mut self, target: Target, slow: f64) -> Result<(), StragglerError> {
        let slow = factor(slow)?;
        let target = self.check(target)?;
        if !self.slowed.insert(target) {
            return Err(StragglerError::Twice { target, what: "slowdowns" });
        }
        self.change(target, |pace| {
            pace.factor *= slow;
            Ok(())
        })
    }

    /// Lets the pace of `target` change over time by `profile`, on top of its constant factor.
    ///
    /// # Errors
    /// If there is no such target, or a profile for it already.
    pub fn slow_over_time(
        &mut self,
        target: Target,
        profile: &Profile,
    ) -> Result<(), StragglerError> {
        let target = self.check(target)?;
        self.change(target, |pace| match pace.profile.replace(profile.clone()) {
            Some(_) => Err(StragglerError::Twice { target, what: "profiles" }),
            None => Ok(()),
        })
    }

    /// Makes the duration of every pass random.
    pub fn jitter_passes(&mut self, jitter: Jitter) {
        self.pass_jitter = Some(jitter.into());
    }

    /// Makes the duration of every hop random.
    pub fn jitter_hops(&mut self, jitter: Jitter) {
        self.hop_jitter = Some(jitter.into());
    }

    /// Makes every pass last `length` longer with `probability`; a BW, being B and W, may be hit
    /// twice. A stall is not stretched by slowdowns.
    ///
    /// # Errors
    /// If `probability` is not from 0 to 1.
    pub fn stall(&mut self, probability: f64, length: Nanos) -> Result<(), StragglerError> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(StragglerError::Probability(probability));
        }
        self.stall = Some(Stall { probability, length });
        Ok(())
    }

    /// Whether replicas can differ at all.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.pass_jitter.is_some() || self.hop_jitter.is_some() || self.stall.is_some()
    }

    /// The noise of iteration `iteration` of replica `replica`, both from 0.
    #[must_use]
    pub fn sample(&self, replica: u64, iteration: u64) -> NoiseSample<'_> {
        NoiseSample { stragglers: self, key: Key::new(self.seed, replica, iteration) }
    }

    /// `target`, links with the lower stage first, if the pipeline has it.
    fn check(&self, target: Target) -> Result<Target, StragglerError> {
        let stages = self.stages.len();
        let (target, exists) = match target {
            Target::Stage(stage) => (target, stage < stages),
            Target::Device(device) if !self.devices.contains(&device) => {
                return Err(StragglerError::IdleDevice(target));
            }
            Target::Device(_) => (target, true),
            Target::Link(from, to) if from == to => return Err(StragglerError::Loop(target)),
            Target::Link(from, to) => {
                (Target::Link(from.min(to), from.max(to)), from.max(to) < stages)
            }
        };
        exists.then_some(target).ok_or(StragglerError::NoSuchTarget { target, stages })
    }

    /// Changes the pace of everything `target` stands for.
    fn change(
        &mut self,
        target: Target,
        mut change: impl FnMut(&mut Pace) -> Result<(), StragglerError>,
    ) -> Result<(), StragglerError> {
        match target {
            Target::Stage(stage) => change(&mut self.stages[stage]),
            Target::Device(device) => {
                let stages = self.stages.iter_mut().zip(&self.devices);
                let mut on_it = stages.filter(|(_, on)| **on == device);
                on_it.try_for_each(|(pace, _)| change(pace))
            }
            Target::Link(from, to) => change(self.links.entry((from, to)).or_insert(NOMINAL)),
        }
    }
}

/// The noise of one iteration of one replica: a function from passes and transfers to durations.
#[derive(Clone, Copy, Debug)]
pub struct NoiseSample<'a> {
    stragglers: &'a Stragglers,
    key: Key,
}

impl<'a> NoiseSample<'a> {
    /// Duration of `pass` on `stage` if it begins at `start`, in nanoseconds; `nominal` are the
    /// times of its chunk. BW takes as long as B and, right behind it, W, each by its part of it; S and T are no work of a
    /// chunk and take nothing; R takes as long as another F.
    ///
    /// At least 1 where the nominal time is not 0, and 0 where it is; saturates.
    #[must_use]
    pub fn pass_duration(&self, nominal: PassTimes, stage: usize, pass: Pass, start: u64) -> u64 {
        let part = |kind, nominal: Nanos, start| {
            self.part_duration(nominal.0, stage, Pass { kind, ..pass }, start)
        };
        let PassTimes { forward, backward_input, backward_weight, .. } = nominal;
        match pass.kind {
            Kind::F => part(Kind::F, forward, start),
            Kind::B => part(Kind::B, backward_input, start),
            Kind::W => part(Kind::W, backward_weight, start),
            Kind::BW => {
                let [input, weight] = nominal.whole_in_parts();
                let first = part(Kind::B, input, start);
                let second = part(Kind::W, weight, start.saturating_add(first));
                first.saturating_add(second)
            }
            Kind::R => part(Kind::R, forward, start),
            Kind::S | Kind::T => 0,
        }
    }

    /// Duration of `pass` on `stage` under `costs` if it begins at `start`, as
    /// [`Self::pass_duration`] says of the passes of a chunk.
    ///
    /// # Panics
    /// If the costs have no such chunk or shard.
    #[must_use]
    pub fn duration_under(&self, costs: &Costs, stage: usize, pass: Pass, start: u64) -> u64 {
        if pass.kind.is_of_vocabulary() || pass.kind == Kind::R {
            return self.part_duration(costs.of(pass).0, stage, pass, start);
        }
        self.pass_duration(costs.times(pass.chunk, pass.microbatch), stage, pass, start)
    }

    /// How long `value` travels from stage `from` to stage `to` if it leaves at `start`, in
    /// nanoseconds.
    ///
    /// At least 1 where the nominal time is not 0, and 0 where it is; saturates.
    #[must_use]
    pub fn hop_duration(
        &self,
        nominal: u64,
        from: usize,
        to: usize,
        value: Value,
        start: u64,
    ) -> u64 {
        let draw =
            |factors: &Factors| factors.table.draw(self.key.draw(Word::hop(from, to, value)));
        let jitter = self.stragglers.hop_jitter.as_ref().map_or(1.0, draw);
        let pace = self.stragglers.links.get(&(from.min(to), from.max(to)));
        duration(nominal, jitter, pace.unwrap_or(&NOMINAL), start)
    }

    /// This sample over `costs`, where links are never shared.
    #[must_use]
    pub const fn timing(self, costs: &'a Costs) -> NoisyTiming<'a> {
        NoisyTiming { sample: self, costs }
    }

    /// How long a pass takes that is no BW.
    fn part_duration(&self, nominal: u64, stage: usize, pass: Pass, start: u64) -> u64 {
        let Stragglers { stages, pass_jitter, stall, .. } = self.stragglers;
        let random = |purpose| self.key.draw(Word::pass(purpose, stage, pass));
        let draw = |factors: &Factors| factors.table.draw(random(Purpose::Pass));
        let jitter = pass_jitter.as_ref().map_or(1.0, draw);
        let worked = duration(nominal, jitter, stages.get(stage).unwrap_or(&NOMINAL), start);
        match stall {
            Some(stall) if nominal > 0 && random(Purpose::Stall) >> 11 < stall.threshold() => {
                worked.saturating_add(stall.length.0)
            }
            _ => worked,
        }
    }
}

/// NoiseSample over the costs of a pipeline. The costs must be those of the schedule that is timed.
#[derive(Clone, Copy, Debug)]
pub struct NoisyTiming<'a> {
    sample: NoiseSample<'a>,
    costs: &'a Costs,
}

impl Timing for NoisyTiming<'_> {
    fn duration(&self, stage: usize, pass: Pass, start: u64) -> u64 {
        self.sample.duration_under(self.costs, stage, pass, start)
    }

    /// A pair is stretched in proportion to its passes.
    fn slot(&self, stage: usize, slot: Slot, start: u64) -> u64 {
        let then = |time: u64, pass| {
            time.saturating_add(self.duration(stage, pass, start.saturating_add(time)))
        };
        let apart = slot.passes().fold(0, then);
        match self.costs.overlap() {
            None => apart,
            Some(_) => self.costs.slot_at_pace(slot, Nanos(apart)).0,
        }
    }

    fn hop(&self, value: Value, from: usize, to: usize, start: u64) -> u64 {
        let nominal = self.costs.hops().between(from, to).0;
        self.sample.hop_duration(nominal, from, to, value, start)
    }

    fn copy(&self, chunk: u16, way: pipeline::CopyDirection) -> u64 {
        self.costs.copy(chunk, way).0
    }

    /// Steady, too.
    fn parameters(&self) -> Option<&pipeline::sharding::ParameterTimes> {
        self.costs.parameters()
    }

    /// Collectives are steady: links have noise, and no single one carries them.
    fn collective(&self, value: Value, _: u64) -> u64 {
        self.costs.collectives().of(value).0
    }
}

/// `value` if it is a factor: positive, and within what machines can be.
fn factor(value: f64) -> Result<f64, StragglerError> {
    let legal = (1e-6..=1e6).contains(&value);
    legal.then_some(value).ok_or(StragglerError::Factor(value))
}

/// How long `nominal` takes with `jitter` at `pace` from `start`, in whole nanoseconds, ties to even.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn duration(nominal: u64, jitter: f64, pace: &Pace, start: u64) -> u64 {
    let work = nominal as f64 * pace.factor * jitter;
    let elapsed = pace.profile.as_ref().map_or(work, |profile| profile.elapsed(work, start));
    if elapsed == nominal as f64 {
        // Exact also where a float is not.
        return nominal;
    }
    // A float too large for the type becomes the largest value.
    (elapsed.round_ties_even() as u64).max(1)
}

#[cfg(test)]
mod tests;
