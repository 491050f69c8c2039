//! What is asked of a case, checked.

use cases::Case;
use failures::{Dead, Deal, Pipelines, Policy, Rates, Rerouting, Worker};
use pipeline::{Bytes, Costs, Hops, Memory, Nanos};
use question::Diagnostic;
use question::failures::{DealKey, FailureKeys};
use question::scenario::Setting;
use search::{Instance, Objective, idle_link_times};

use super::diagnostic;

/// Times that are taken where a key says nothing.
pub(super) mod default {
    use pipeline::Nanos;

    const SECOND: u64 = 1_000_000_000;
    /// Until a dead worker is back.
    pub(crate) const REPAIR: Nanos = Nanos(3_600 * SECOND);
    /// From a failure until the others go on.
    pub(crate) const RECONFIGURE: Nanos = Nanos(30 * SECOND);
    /// To start all workers from a checkpoint.
    pub(crate) const RESTART: Nanos = Nanos(600 * SECOND);
    /// To write a checkpoint.
    pub(crate) const CHECKPOINT: Nanos = Nanos(60 * SECOND);
}

/// A case with dead workers.
pub(super) struct Asked<'a> {
    pub(super) case: &'a Case,
    pub(super) keys: &'a FailureKeys,
    pub(super) pipelines: u64,
    /// What a worker may hold, by stage.
    pub(super) limits: Vec<Bytes>,
    /// Seed of the sets of dead workers that are drawn.
    pub(super) seed: u64,
    /// How long passes and hops take.
    pub(super) costs: Costs,
    /// All-reduce and optimizer of a stage.
    pub(super) update: Nanos,
}

/// Checks what concerns no schedule.
pub(super) fn check(keys: &FailureKeys) -> Result<(), Diagnostic> {
    let message = match keys.data_parallel {
        None => {
            "no number of pipelines is given: --data-parallel 4 has four with the stages of the question"
        }
        Some(0 | 1) => "with one pipeline no worker has a peer: give --data-parallel of 2 or more",
        Some(_) => return Ok(()),
    };
    Err(Diagnostic::new(message).about("data-parallel"))
}

/// Refuses what the steps of peers would be wrong about.
fn unsuitable(case: &Case) -> Option<(&'static str, &'static str)> {
    let keys = [
        (case.noise.is_some(), "jitter", "noise is not drawn for rerouted passes: leave it out"),
        (
            case.steady.is_some(),
            "schedule",
            "a pipeline that never flushes has no step between which workers change",
        ),
        (
            case.problem.segments() > 1,
            "schedule",
            "segments of a sequence must stay on one worker in their order: they are not rerouted",
        ),
        (
            case.problem.costs().microbatch_work().is_some(),
            "microbatch-work",
            "microbatches of unequal work cannot be rerouted: give the times of the mean one",
        ),
    ];
    keys.into_iter().find(|(is_given, ..)| *is_given).map(|(_, key, text)| (key, text))
}

/// The costs of `case`, where it has a cluster with the hops of an idle network.
pub(super) fn costs(case: &Case) -> Result<Costs, Diagnostic> {
    let costs = case.problem.costs().clone();
    let Some(hardware) = &case.hardware else { return Ok(costs) };
    let (shape, placement) = (case.schedule.shape(), case.schedule.placement());
    let footprints = case.problem.footprints().clone();
    let instance =
        Instance::new(shape, placement, costs.clone(), footprints, None, Objective::Makespan);
    let instance = instance.map_err(|fault| case.error(&fault))?;
    let links = idle_link_times(&instance, hardware);
    // A single stage has no link.
    let hops = Hops::placed(shape, placement, &links).unwrap_or_else(|_| Hops::alike(Nanos(0)));
    Ok(costs.with_hops(hops))
}

/// All-reduce and optimizer of a stage: as said, or as the scenario has them at the boundary of a step.
pub(super) fn update(keys: &FailureKeys, setting: &Setting) -> Nanos {
    let hardware = &setting.keys.hardware;
    let boundary = [hardware.exchange, hardware.optimizer].into_iter().flatten();
    keys.update
        .unwrap_or_else(|| boundary.fold(Nanos(0), |sum, one| Nanos(sum.0.saturating_add(one.0))))
}

impl<'a> Asked<'a> {
    pub(super) fn new(
        case: &'a Case,
        keys: &'a FailureKeys,
        setting: &Setting,
    ) -> Result<Self, Diagnostic> {
        if let Some((key, text)) = unsuitable(case) {
            return Err(case.error(&text).about(key));
        }
        let stages = case.schedule.shape().stages();
        let limits = match &case.limits {
            Some(limits) => limits.by_stage().to_vec(),
            None => {
                let peaks = Memory::of(&case.schedule, case.problem.footprints());
                let peaks = peaks.map_err(|fault| case.error(&fault))?.peak;
                vec![peaks.into_iter().max().unwrap_or_default(); stages]
            }
        };
        let pipelines = keys.data_parallel.unwrap_or_default();
        let asked = Self {
            case,
            keys,
            pipelines,
            limits,
            seed: setting.keys.seed.unwrap_or(0),
            costs: costs(case)?,
            update: update(keys, setting),
        };
        asked.of().check().map_err(|fault| diagnostic(case, &fault))?;
        asked.dead()?;
        if let Some(policy) = asked.policy() {
            policy.check().map_err(|fault| diagnostic(case, &fault))?;
        }
        Ok(asked)
    }

    pub(super) fn of(&self) -> Pipelines<'_> {
        Pipelines {
            schedule: &self.case.schedule,
            costs: &self.costs,
            footprints: self.case.problem.footprints(),
            pipelines: self.pipelines,
            peer_hop: self.keys.peer_hop,
            optimizer: self.update,
        }
    }

    pub(super) fn how<'l>(&self, limits: &'l [Bytes], split: bool, effort: u64) -> Rerouting<'l> {
        let deal = match self.keys.deal {
            DealKey::Balanced => Deal::Balanced,
            DealKey::InTurn => Deal::InTurn,
        };
        Rerouting { deal, split, limits, effort }
    }

    /// The dead workers that the question names; none where it names none.
    pub(super) fn dead(&self) -> Result<Option<Dead>, Diagnostic> {
        let stages = self.case.schedule.shape().stages() as u64;
        let named = self.keys.dead.iter();
        let workers: Vec<Worker> =
            named.map(|one| Worker { pipeline: one.pipeline, stage: one.stage }).collect();
        let dead = Dead::new(self.pipelines, stages, &workers);
        let dead = dead.map_err(|fault| diagnostic(self.case, &fault))?;
        Ok((!workers.is_empty()).then_some(dead))
    }

    /// How workers fail, if the question says how often.
    pub(super) fn policy(&self) -> Option<Policy> {
        let keys = self.keys;
        let seconds = |time: Nanos| super::float(time.0) / 1e9;
        let or = |key: Option<Nanos>, time: Nanos| seconds(key.unwrap_or(time));
        let rates = Rates {
            between: seconds(keys.mtbf?),
            repair: or(keys.repair, default::REPAIR),
            reconfigure: or(keys.reconfigure, default::RECONFIGURE),
            restart: or(keys.restart, default::RESTART),
            checkpoint: or(keys.checkpoint, default::CHECKPOINT),
            interval: keys.checkpoint_interval.map(seconds),
            spares: u32::try_from(keys.spares).unwrap_or(u32::MAX),
        };
        let pipelines = u32::try_from(self.pipelines).unwrap_or(u32::MAX);
        let stages = u32::try_from(self.case.schedule.shape().stages()).unwrap_or(u32::MAX);
        Some(Policy { pipelines, stages, rates })
    }
}
