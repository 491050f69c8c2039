//! What the idle time of each stage is owed to.

use pipeline::{Costs, Fault, Metrics, Nanos, PassTimes, Schedule};

use crate::cluster::{Cluster, Seats};
use crate::engine::{self, Communication, Conditions, EngineError, Messages, Setup, Steady};
use crate::replay::Replay;

/// Why a stage is idle. The causes are taken away one after the other, in this order, from a run
/// whose order of passes stays the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Cause {
    /// Stragglers, jitter and stalls. Without: every pass and transfer takes its nominal time.
    Noise,
    /// What the steps before leave behind. Without: the step is run alone.
    EarlierSteps,
    /// Waits for room on a device and for activations on the host. Without: devices hold anything,
    /// and nothing is offloaded.
    Memory,
    /// Contention. Without: every transfer takes the time it takes alone.
    SharedLinks,
    /// Exposed communication. Without: what is made is there at once, and sending takes no stage's
    /// time.
    Communication,
    /// Chunks that take longer than others. Without: all take the average of F, of B and of W.
    UnequalStages,
    /// What is left: warm-up, drain, and how the order fits them; also turns on a shared device.
    Structure,
}

impl Cause {
    /// All causes, in the order in which they are taken away.
    pub const ALL: [Self; 7] = [
        Self::Noise,
        Self::EarlierSteps,
        Self::Memory,
        Self::SharedLinks,
        Self::Communication,
        Self::UnequalStages,
        Self::Structure,
    ];

    /// What people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noise => "stragglers, jitter",
            Self::EarlierSteps => "earlier steps",
            Self::Memory => "memory waits",
            Self::SharedLinks => "shared links",
            Self::Communication => "communication",
            Self::UnequalStages => "unequal stages",
            Self::Structure => "warm-up, drain",
        }
    }

    /// What machines call it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Noise => "noise_ns",
            Self::EarlierSteps => "earlier_steps_ns",
            Self::Memory => "memory_ns",
            Self::SharedLinks => "shared_links_ns",
            Self::Communication => "communication_ns",
            Self::UnequalStages => "unequal_stages_ns",
            Self::Structure => "structure_ns",
        }
    }
}

const COUNT: usize = Cause::ALL.len();

/// The idle time of each stage by cause.
///
/// A stage is idle for `cost - busy`, where `cost` is the longest span of a stage
/// ([`Metrics::span`]): the bubble rate is the sum of that over all stages, by `cost` times stages.
/// A cause is given the change of the idle time between the run that still has it and the run that
/// has it no more, so that the causes of a stage add up to its idle time exactly. A share is
/// negative where a cause hides waiting: a slow stage itself waits less than it would at full pace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Causes {
    /// Step time: the longest span of a stage.
    pub cost: Nanos,
    /// Step time when this cause, and those before it, are gone, by cause; structure is never.
    pub without: [Nanos; COUNT - 1],
    /// Busy time of each stage.
    pub busy: Vec<Nanos>,
    /// By stage, nanoseconds by cause, in the order of [`Cause::ALL`].
    pub idle: Vec<[i64; COUNT]>,
}

impl Causes {
    /// Of `actual`, the replay of `schedule` under `costs`, with noise or without.
    ///
    /// # Errors
    /// If `costs` are those of another pipeline, or so large that the clock overflows.
    pub fn of_replay(schedule: &Schedule, costs: &Costs, actual: &Metrics) -> Result<Self, Fault> {
        let mut replay = Replay::new();
        let nominal = replay.metrics(schedule, costs)?;
        let at_once = Costs::new(costs.chunks().to_vec(), Nanos(0));
        let free = replay.metrics(schedule, &at_once)?;
        let equal = replay.metrics(schedule, &averaged(costs))?;
        let alone = || nominal.clone();
        Self::between([actual, &nominal, &alone(), &alone(), &alone(), &free, &equal])
    }

    /// Of `actual`, the last step of a run of `setup`, with noise or without.
    ///
    /// # Errors
    /// If a run without one of the causes fails.
    pub fn of_engine(setup: &Setup<'_>, actual: &Metrics) -> Result<Self, EngineError> {
        let last = |setup: &Setup<'_>, conditions: &dyn Fn(&Setup<'_>) -> Ran| {
            conditions(setup).map(|run| run.metrics(setup.steps - 1))
        };
        let steady = |setup: &Setup<'_>| engine::run(setup, &Steady);
        let nominal = last(setup, &steady)?;
        let single = Setup { steps: 1, ..*setup };
        let one_step = if setup.steps == 1 { nominal.clone() } else { last(&single, &steady)? };
        let roomy = Setup { room: None, offload: None, ..single };
        let unlimited = match setup.room.is_some() || setup.offload.is_some() {
            true => last(&roomy, &steady)?,
            false => one_step.clone(),
        };
        let ideal = Cluster::ideal(setup.cluster.devices(), Nanos(0));
        let messages = Messages::default();
        let unshared = Setup { cluster: &ideal, messages, ..roomy };
        let alone = Alone { setup };
        let uncontended = match setup.cluster.wires().is_empty() {
            true => unlimited.clone(),
            false => last(&unshared, &|setup| engine::run(setup, &alone))?,
        };
        let communication = Communication::default();
        let at_once = Setup { communication, ..unshared };
        let free = last(&at_once, &steady)?;
        let costs = averaged(setup.costs);
        let equal = last(&Setup { costs: &costs, ..at_once }, &steady)?;
        let runs = [actual, &nominal, &one_step, &unlimited, &uncontended, &free, &equal];
        Ok(Self::between(runs)?)
    }

    /// The idle time of a stage of average idleness, by cause, in nanoseconds, rounded towards zero.
    #[must_use]
    pub fn average(&self) -> [i64; COUNT] {
        let stages = i128::try_from(self.idle.len().max(1)).unwrap_or(i128::MAX);
        let sum = |cause: usize| self.idle.iter().map(|stage| i128::from(stage[cause])).sum();
        std::array::from_fn(|cause| {
            let sum: i128 = sum(cause);
            i64::try_from(sum / stages).unwrap_or(i64::MAX)
        })
    }

    /// From runs of which each leaves out one cause more than the one before.
    fn between(runs: [&Metrics; COUNT]) -> Result<Self, Fault> {
        let actual = runs[0];
        let idle = |run: &Metrics, stage: usize| {
            let idle = run.span().0.saturating_sub(run.stages[stage].busy.0);
            i64::try_from(idle).map_err(|_| Fault::Overflow { what: "the times" })
        };
        let of_stage = |stage: usize| {
            let mut left = [0; COUNT];
            for (left, run) in left.iter_mut().zip(runs) {
                *left = idle(run, stage)?;
            }
            // The last run has nothing but structure.
            let next = |cause: usize| left.get(cause + 1).copied().unwrap_or(0);
            Ok(std::array::from_fn(|cause| left[cause] - next(cause)))
        };
        Ok(Self {
            cost: actual.span(),
            without: std::array::from_fn(|cause| runs[cause + 1].span()),
            busy: actual.stages.iter().map(|stage| stage.busy).collect(),
            idle: (0..actual.stages.len()).map(of_stage).collect::<Result<_, Fault>>()?,
        })
    }
}

type Ran = Result<engine::Run, EngineError>;

/// Every transfer takes the time it takes while nothing else moves.
struct Alone<'a> {
    setup: &'a Setup<'a>,
}

impl Conditions for Alone<'_> {
    fn pass(&self, nominal: u64, _: usize, _: pipeline::Pass, _: u32, _: u64) -> u64 {
        nominal
    }

    fn hop(&self, _: u64, _: pipeline::Value, from: usize, to: usize, _: u32, _: u64) -> u64 {
        alone(self.setup.cluster, self.setup.seats, self.setup.messages, [from, to])
    }
}

/// How long a message takes between two stages on free wires: its last byte leaves at the end of a
/// nanosecond, as in the engine.
fn alone(cluster: &Cluster, seats: &Seats, messages: Messages, stages: [usize; 2]) -> u64 {
    let [from, to] = stages.map(|stage| seats.device(stage));
    let route = cluster.route(from, to);
    let rate = |&wire: &usize| cluster.wires()[wire].bandwidth.bytes_per_second();
    let nanobytes = u128::from(messages.bytes.0) * 1_000_000_000;
    let slowest = route.wires.iter().map(rate).min();
    let sending = slowest.map_or(0, |rate| nanobytes.div_ceil(u128::from(rate)));
    route.latency.0.saturating_add(u64::try_from(sending).unwrap_or(u64::MAX))
}

/// All chunks alike, as much work in all as before, and no hop.
fn averaged(costs: &Costs) -> Costs {
    let chunks = costs.chunks().len() as u64;
    let total = |part: fn(&PassTimes) -> Nanos| -> Nanos { costs.chunks().iter().map(part).sum() };
    let totals = [
        total(|times| times.forward),
        total(|times| times.backward_input),
        total(|times| times.backward_weight),
    ];
    let chunk = |index: u64| {
        let [forward, backward_input, backward_weight] =
            totals.map(|total| total.share(index, chunks));
        PassTimes { forward, backward_input, backward_weight }
    };
    Costs::new((0..chunks).map(chunk).collect(), Nanos(0))
}
