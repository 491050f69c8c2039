//! The keys of a setting, resolved once: flags over a file, the pipeline of a layout, B and W where both are given
//! together, and the times and sizes of a profile.

mod amounts;
mod backward;
mod chain;
mod checks;
mod copies;
mod layout;
pub(crate) mod microbatches;
mod pipeline;
pub mod profiles;
mod recompute;
mod sharding;
mod vocabulary;

use std::path::Path;

use ::pipeline::overlap::Overlap;
use ::pipeline::{
    Bytes, Costs, Footprints, Limit, Limits, Nanos, Placement, Problem, Shape, SteadyState,
};
use profile::AnyProfile;

pub use backward::{Split, SplitJson, is_own};
pub use chain::communicates;
pub(crate) use checks::limit_in_bytes;
pub use checks::{complete, explain, has_footprints, limit_key};
pub use copies::{are_timed, forget as forget_copies};
pub use pipeline::forwards;
pub(crate) use pipeline::{Pipeline, steady};
pub(crate) use sharding::notes as notes_on_sharding;
pub use sharding::{Parameters, asked as sharding_asked};

use crate::diagnostic::Diagnostic;
use crate::hardware::{self, Hardware};
use crate::host::Context;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
use crate::source::ScheduleSource;
use crate::values::passes::Recomputed;

impl Scenario {
    /// The scenario in `file`, or an empty one, with `flags` overriding its keys.
    pub fn asked(
        context: &Context<'_>,
        file: Option<&Path>,
        flags: &Keys,
    ) -> Result<Self, Diagnostic> {
        match file {
            Some(file) => Self::read(context, file)?.with(context, flags),
            None => Self::none().with(context, flags),
        }
    }

    /// The same questions with `flags` overriding their keys, ready to be answered.
    pub fn with(mut self, context: &Context<'_>, flags: &Keys) -> Result<Self, Diagnostic> {
        for setting in &mut self.settings {
            setting.overrule(flags.clone());
        }
        let mut settings = std::mem::take(&mut self.settings);
        for setting in &mut settings {
            resolve(context, &self, setting)?;
        }
        self.settings = settings;
        Ok(self)
    }
}

/// Gives `setting` what follows from its layout, and B and W where it has only both together.
pub(crate) fn resolve(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &mut Setting,
) -> Result<(), Diagnostic> {
    layout::resolve(scenario, setting)?;
    backward::resolve(context, scenario, setting)
}

/// A setting resolved to numbers, without the order and the noise; cheap for every shape.
pub struct Resolved {
    /// The shape of the pipeline.
    pub shape: Shape,
    /// The hardware that it runs on, if the question gives it.
    pub hardware: Option<Hardware>,
    /// Costs and footprints.
    pub problem: Problem,
    /// Whether the footprints were given, rather than counted as one unit each.
    pub has_footprints: bool,
    /// Whether they are bytes of whole stages.
    pub has_whole_bytes: bool,
    /// The memory limits in bytes, if there are any.
    pub limits: Option<Limits>,
    /// The memory limits as the keys give them.
    pub given_limits: Vec<Limit>,
    /// Layers of each stage, if the question says.
    pub layers_per_stage: Option<u64>,
    /// The time of every pass that its stage spends before it.
    pub overhead: Nanos,
    /// Which part of the run is measured, if it never flushes.
    pub steady: Option<SteadyState>,
    /// How B and W were split, if they were given together.
    pub split: Option<Split>,
    /// The parameters that replicas divide, if they do.
    pub parameters: Option<Parameters>,
}

impl Resolved {
    /// Resolves the keys of `setting` for the schedule of `rule`.
    pub fn of(
        context: &Context<'_>,
        scenario: &Scenario,
        setting: &Setting,
        rule: &ScheduleSource,
    ) -> Result<Self, Diagnostic> {
        complete(scenario, setting, rule)?;
        let pipeline = Pipeline::of(scenario, setting, rule)?;
        let at = (pipeline.shape, pipeline.placement);
        let filled = profiles::fill(context, scenario, setting, rule, at)?;
        let filled = filled.as_ref().unwrap_or(setting);
        let hardware = hardware::of(context, scenario, filled, at.0, at.1, pipeline.segments)?;
        if let (Some(hardware), true) = (&hardware, pipeline.steady.is_some()) {
            return Err(checks::flushes(scenario, filled, rule, hardware.steps));
        }
        let reader = Reader {
            context,
            scenario,
            setting: filled,
            rule,
            pipeline: &pipeline,
            hardware: hardware.as_ref(),
        };
        let (parameters, costs, footprints) = reader.amounts()?;
        let has_footprints = footprints.is_some();
        let problem = reader.problem(costs, footprints)?;
        let problem = reader.unequal(problem)?;
        let fault = |fault| explain(scenario, filled, rule, &fault);
        let limits = match copies::are_made(&problem, rule) {
            true => problem.limits_with_copies(pipeline.placement),
            false => problem.limits(pipeline.placement),
        };
        let limits = limits.map_err(fault)?;
        let keys = &filled.keys;
        Ok(Self {
            shape: pipeline.shape,
            problem,
            has_footprints,
            limits,
            layers_per_stage: keys.layers_per_stage,
            overhead: keys.overhead.unwrap_or_default(),
            // A profile leaves these as they were asked.
            has_whole_bytes: hardware::measures_bytes(&setting.keys),
            given_limits: keys.memory_limit.clone().unwrap_or_default(),
            split: Split::of(context, &setting.keys)?,
            steady: pipeline.steady,
            parameters,
            hardware,
        })
    }
}

/// The keys of times on which costs alone depend.
const TIMES: [&str; 4] = ["forward", "backward-input", "backward-weight", "hop"];

/// What passes cost in `setting` for `rule`, where it differs in `key` alone from a setting that has an answer, without
/// hardware, without parameters in shards, and with passes that follow one another, are computed once, and are not
/// copied. `None` where more may depend on the key, and where its value is wrong.
pub fn costs_alone(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    key: &str,
) -> Option<Costs> {
    let keys = &setting.keys;
    let is_measured = keys.profile.is_some() || keys.has_chain();
    if is_measured || are_timed(keys) || !TIMES.contains(&key) {
        return None;
    }
    let pipeline = Pipeline::of(scenario, setting, rule).ok()?;
    let hops = amounts::hops(keys, &pipeline, None).ok()?;
    let costs = amounts::costs(keys, hops, &pipeline).ok()?;
    costs.check(pipeline.shape).ok()?;
    Some(costs)
}

/// Reads the numbers of a setting whose pipeline and hardware are known.
struct Reader<'a> {
    context: &'a Context<'a>,
    scenario: &'a Scenario,
    /// The setting, with what its profile says.
    setting: &'a Setting,
    rule: &'a ScheduleSource,
    pipeline: &'a Pipeline,
    hardware: Option<&'a Hardware>,
}

/// Parameters that are divided, and what passes cost and hold.
type Amounts = (Option<Parameters>, Costs, Option<Footprints>);

impl Reader<'_> {
    fn wrong(&self, (key, message): (&'static str, String)) -> Diagnostic {
        self.scenario.error(self.setting, Some(key), message)
    }

    fn fault(&self, fault: &::pipeline::Fault) -> Diagnostic {
        explain(self.scenario, self.setting, self.rule, fault)
    }

    /// The sharded parameters, the costs of passes, and their footprints if the keys give sizes.
    fn amounts(&self) -> Result<Amounts, Diagnostic> {
        let Self { rule, pipeline, hardware, .. } = *self;
        let keys = &self.setting.keys;
        let (wrong, fault) = (|at| self.wrong(at), |fault| self.fault(&fault));
        sharding::fits(keys, rule, pipeline, hardware).map_err(wrong)?;
        let hops = amounts::hops(keys, pipeline, hardware).map_err(fault)?;
        vocabulary::check(keys, rule, pipeline.shape).map_err(fault)?;
        let costs = match keys.has_chain() {
            true => {
                let costs = Costs::overlapped(self.overlap()?, Nanos(0)).with_hops(hops);
                amounts::with_shards(keys, costs, pipeline.shape)
            }
            false => amounts::costs(keys, hops, pipeline),
        };
        let costs = costs.map_err(fault)?;
        let footprints = amounts::footprints(keys, pipeline).map_err(fault)?;
        let times = copies::times(keys, &costs, footprints.as_ref(), hardware, pipeline);
        let costs = costs.with_copies(times.map_err(wrong)?.unwrap_or_default());
        let (parameters, costs) = sharding::parameters(keys, costs, pipeline).map_err(wrong)?;
        let parts = recompute::of_chunks(keys, rule, pipeline).map_err(wrong)?;
        let costs = recompute::costs(keys, costs, &parts, pipeline).map_err(wrong)?;
        let profile = profiles::of(self.context, keys)?;
        let message =
            profile.as_deref().and_then(AnyProfile::machine).map(|one| one.model.message());
        let kept = |held| recompute::footprints(keys, held, &parts, pipeline, message);
        let footprints = footprints.map(kept).transpose().map_err(wrong)?;
        let footprints = buffered(keys, footprints, pipeline).map_err(wrong)?;
        Ok((parameters, costs, footprints))
    }

    /// The problem of passes with `costs` and `footprints`.
    fn problem(&self, costs: Costs, footprints: Option<Footprints>) -> Result<Problem, Diagnostic> {
        let Self { rule, pipeline, hardware, .. } = *self;
        let keys = &self.setting.keys;
        let fault = |fault| self.fault(&fault);
        let problem = Problem::new(pipeline.shape, costs).map_err(fault)?;
        let updates = pipeline.steady.map_or(1, SteadyState::updates);
        let problem = problem.with_updates(updates).map_err(fault)?;
        let mut problem = problem.with_segments(pipeline.segments).map_err(fault)?;
        if let Some(group) = keys.group {
            problem = problem.with_group(group);
        }
        let footprints = match footprints {
            Some(footprints) => Some(footprints),
            None => amounts::units(keys, pipeline).map_err(fault)?,
        };
        if let Some(footprints) = footprints {
            problem = problem.with_footprints(footprints).map_err(fault)?;
        }
        if let Some(limits) = &keys.memory_limit {
            problem = problem.with_limits(limits).map_err(fault)?;
        }
        copies::choose(keys, problem, rule, hardware).map_err(|at| self.wrong(at))
    }

    /// `problem` with the work of each microbatch, where they differ.
    fn unequal(&self, problem: Problem) -> Result<Problem, Diagnostic> {
        microbatches::check(&self.setting.keys, self.rule, self.pipeline)
            .map_err(|at| self.wrong(at))?;
        let microbatches = self.pipeline.shape.microbatches();
        match microbatches::work(self.context, &self.setting.keys, microbatches)? {
            None => Ok(problem),
            Some(work) => {
                let costs = problem.costs().clone().with_microbatch_work(work);
                problem.with_costs(costs).map_err(|fault| self.fault(&fault))
            }
        }
    }

    /// The segments of passes, and how they share the streams.
    fn overlap(&self) -> Result<Overlap, Diagnostic> {
        let keys = &self.setting.keys;
        let rows = keys.chain_file.as_deref().map(|path| crate::chain::read(self.context, path));
        let rows = rows.transpose()?;
        let wires = self.hardware.and_then(chain::wires);
        let wires = wires.as_ref().map(|time| time as &dyn Fn(Bytes) -> Nanos);
        let wrong = |at| self.wrong(at);
        let chains = chain::chains(keys, rows.as_deref(), self.pipeline, wires).map_err(wrong)?;
        chain::overlap(keys, chains, chain::rule(keys, self.rule)).map_err(wrong)
    }
}

/// The pipeline that `rule` orders for `setting`, and where its chunks lie.
pub fn shape(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<(Shape, Placement), Diagnostic> {
    Pipeline::of(scenario, setting, rule).map(|pipeline| (pipeline.shape, pipeline.placement))
}

/// The part that each chunk recomputes, in model order; empty if no chunk recomputes anything.
pub fn recomputed(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Vec<Recomputed>, Diagnostic> {
    let pipeline = Pipeline::of(scenario, setting, rule)?;
    let wrong = |(key, message)| scenario.error(setting, Some(key), message);
    recompute::of_chunks(&setting.keys, rule, &pipeline).map_err(wrong)
}

/// `footprints` with the buffers of communication within passes, if `keys` give any.
fn buffered(
    keys: &Keys,
    footprints: Option<Footprints>,
    pipeline: &Pipeline,
) -> Result<Option<Footprints>, (&'static str, String)> {
    match (footprints, chain::buffers(keys, pipeline)?) {
        (Some(footprints), Some(buffers)) => Ok(Some(footprints.with_buffers(buffers))),
        (None, Some(_)) => {
            let message = "communication-buffers need the sizes of activations: give --activation";
            Err(("communication-buffers", message.to_owned()))
        }
        (footprints, None) => Ok(footprints),
    }
}
