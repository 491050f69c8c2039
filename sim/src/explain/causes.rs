//! The causes of the idle time of each stage.

use pipeline::{Fault, Metrics, Nanos};

use super::cause::{CAUSES, Cause};
use super::chain::Step;
use crate::streams::{StreamTimes, Streams};

/// The idle time of each stage by cause: [`crate::Simulation::causes`].
///
/// A step takes `cost`. In a replay that is the longest span of a stage ([`Metrics::span`]): the
/// bubble rate is the idle time of all stages, by `cost` times stages. On a cluster it is the whole
/// step with what lies between two: the longest time from when a stage may begin the step until it
/// may begin the next ([`crate::engine::Run::step_length`]).
///
/// A stage is idle for `cost` less what it is busy and less `optimizer`. A cause is given the change
/// of the idle time between the run that still has it and the run that has it no more, so that the
/// causes of a stage add up to its idle time exactly. A share is negative where a cause hides
/// waiting: a slow stage itself waits less than it would at full pace.
///
/// Where passes share streams, a stage is busy in its slots also while only the communication stream
/// runs: what is exposed there counts with the idle time, and the causes add up to both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Causes {
    /// Step time.
    pub cost: Nanos,
    /// Step time when this cause, and those before it, are gone, by cause; structure is never.
    pub without: [Nanos; CAUSES - 1],
    /// Busy time of each stage.
    pub busy: Vec<Nanos>,
    /// Time of the optimizer on each stage: neither passes nor idle. A step that is taken back, and
    /// the one taken in its place, are synchronisation.
    pub optimizer: Nanos,
    /// By stage, nanoseconds by cause, in the order of [`Cause::ALL`]: of idle time, and of exposed
    /// communication.
    pub idle: Vec<[i64; CAUSES]>,
    /// By stage, what its streams do in the step, if the segments of passes are known.
    pub streams: Option<Vec<StreamTimes>>,
    /// Whether there are collectives of parameters and gradients that take time.
    pub collectives: bool,
}

impl Causes {
    /// Whether stages can wait for `cause` at all.
    #[must_use]
    pub const fn can_have(&self, cause: Cause) -> bool {
        match cause {
            Cause::CommunicationNotHidden => self.streams.is_some(),
            Cause::CollectivesNotHidden => self.collectives,
            _ => true,
        }
    }

    /// How long only the communication stream of `stage` runs.
    ///
    /// # Panics
    /// If there is no such stage.
    #[must_use]
    pub fn exposed(&self, stage: usize) -> Nanos {
        self.streams.as_ref().map_or(Nanos(0), |all| all[stage].exposed)
    }

    /// The same of an average stage, rounded down.
    #[must_use]
    pub fn average_exposed(&self) -> Nanos {
        let all = self.streams.iter().flatten();
        let total: u128 = all.map(|times| u128::from(times.exposed.0)).sum();
        let stages = u128::try_from(self.busy.len().max(1)).unwrap_or(u128::MAX);
        Nanos(u64::try_from(total / stages).unwrap_or(u64::MAX))
    }

    /// The idle time of a stage of average idleness, by cause, in nanoseconds, rounded towards zero.
    #[must_use]
    pub fn average(&self) -> [i64; CAUSES] {
        average(&self.idle)
    }

    /// From runs of which each leaves out one cause more than the one before.
    pub(crate) fn between(runs: &[Times; CAUSES], optimizer: Nanos) -> Result<Self, Fault> {
        let idle = |run: &Times, stage: usize| {
            let idle = run.cost.0.saturating_sub(run.busy[stage].0).saturating_sub(optimizer.0);
            let idle = idle.saturating_add(run.exposed(stage).0);
            i64::try_from(idle).map_err(|_| Fault::Overflow { what: "the times" })
        };
        let of_stage = |stage: usize| {
            let mut left = [0; CAUSES];
            for (left, run) in left.iter_mut().zip(runs) {
                *left = idle(run, stage)?;
            }
            Ok(differences(left))
        };
        let actual = &runs[0];
        Ok(Self {
            cost: actual.cost,
            without: std::array::from_fn(|cause| runs[cause + 1].cost),
            busy: actual.busy.clone(),
            optimizer,
            idle: (0..actual.busy.len()).map(of_stage).collect::<Result<_, Fault>>()?,
            streams: actual.streams.clone(),
            collectives: actual.collectives,
        })
    }
}

/// The average over stages, by cause, rounded towards zero.
pub(super) fn average(idle: &[[i64; CAUSES]]) -> [i64; CAUSES] {
    let stages = i128::try_from(idle.len().max(1)).unwrap_or(i128::MAX);
    std::array::from_fn(|cause| {
        let sum: i128 = idle.iter().map(|stage| i128::from(stage[cause])).sum();
        i64::try_from(sum / stages).unwrap_or(i64::MAX)
    })
}

/// The idle time credited to each cause, from the idle time left by each run; the last run has
/// nothing but structure.
pub(super) fn differences(left: [i64; CAUSES]) -> [i64; CAUSES] {
    let next = |cause: usize| left.get(cause + 1).copied().unwrap_or(0);
    std::array::from_fn(|cause| left[cause] - next(cause))
}

/// How long a step takes, and how long of it each stage is busy.
#[derive(Clone)]
pub(crate) struct Times {
    cost: Nanos,
    busy: Vec<Nanos>,
    /// By stage, where segments are known.
    streams: Option<Vec<StreamTimes>>,
    collectives: bool,
}

impl Times {
    /// How long only the communication stream of `stage` runs.
    pub(super) fn exposed(&self, stage: usize) -> Nanos {
        self.streams.as_ref().map_or(Nanos(0), |all| all[stage].exposed)
    }
}

impl From<&Metrics> for Times {
    /// Of passes without segments and collectives.
    fn from(metrics: &Metrics) -> Self {
        let busy = metrics.stages.iter().map(|stage| stage.busy).collect();
        Self { cost: metrics.span(), busy, streams: None, collectives: false }
    }
}

impl From<&Step<'_>> for Times {
    fn from(step: &Step<'_>) -> Self {
        let busy = |spans: &&[pipeline::Span]| spans.iter().map(|one| one.end - one.start).sum();
        let streams = Streams::of(step.costs).map(|mut streams| {
            let stages = step.spans.iter();
            stages.map(|spans| streams.spans(spans)).collect()
        });
        Self {
            cost: step.cost,
            busy: step.spans.iter().map(busy).collect(),
            streams,
            collectives: step.costs.parameters().is_some(),
        }
    }
}
