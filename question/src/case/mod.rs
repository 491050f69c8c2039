//! From keys to problems and schedules: what a setting asks, made whole and checked.

mod amounts;
mod chain;
mod checks;
mod copies;
mod joint;
mod notes;
mod recompute;
mod room;
mod searched;
mod searched_on_hardware;
mod searched_under_noise;
mod sharding;
mod sizes;
mod vocabulary;

use pipeline::overlap::Overlap;
use pipeline::{
    Bytes, Costs, Family, Footprints, Limit, Limits, Nanos, Placement, Problem, Schedule, Shape,
    SteadyState, Vocabulary,
};
use profile::AnyProfile;
use sim::Simulation;

pub use chain::communicates;
pub use copies::forget as forget_copies;
pub use joint::{Joint, SearchedJointly, check as check_joint, may_copy};
pub use notes::{assumed, ignored};
pub use searched::{Search, Searched, check_known, ignored as ignored_by_search, search};
pub use searched_on_hardware::{
    SearchOnHardware, check as check_on_hardware, check_figure, is_asked as is_on_hardware,
    search as search_on_hardware,
};
pub use searched_under_noise::{
    SearchUnderNoise, check as check_under_noise, objective as objective_under_noise,
    search_under_noise,
};

use crate::diagnostic::Diagnostic;
use crate::hardware::{self, Hardware};
use crate::host::Context;
use crate::keys::Keys;
use crate::noise::Noise;
pub use crate::resolve::{Split, SplitJson};
use crate::resolve::{agree_with_layout, profiles};
use crate::scenario::{Scenario, Setting};
pub use crate::source::{
    ALL, SEARCHED, ScheduleSource, Selected, read as read_schedule, rules, selected,
};
use crate::values::passes::Recomputed;
use checks::{agree, complete, explain};

/// A schedule with what it was made for.
#[derive(Clone)]
pub struct Case {
    /// Name of the setting, if it has one.
    pub setting: Option<String>,
    /// Name of the schedule.
    pub name: String,
    /// The family that made it, unless it was written by hand.
    pub family: Option<Family>,
    /// Layers of each stage, if the question says.
    pub layers_per_stage: Option<u64>,
    /// Whether the footprints are bytes of whole stages.
    pub has_whole_bytes: bool,
    /// Costs and footprints.
    pub problem: Problem,
    /// Whether the footprints were given, rather than counted as one unit each.
    pub has_footprints: bool,
    /// The order.
    pub schedule: Schedule,
    /// The memory limits in bytes, if there are any.
    pub limits: Option<Limits>,
    /// The same as they were given: one for all stages, or one per stage.
    pub told_limits: Vec<Limit>,
    /// How B and W were split, if they were given together.
    pub split: Option<Split>,
    /// How durations differ from the costs, if anything was said of it.
    pub noise: Option<Noise>,
    /// The hardware that it runs on, if the question gives it.
    pub hardware: Option<Hardware>,
    /// The time of every pass that its stage spends before it, in the runtime of a trainer.
    pub overhead: Nanos,
    /// Which part of the run is measured, if the schedule is one that never flushes.
    pub steady: Option<SteadyState>,
    /// The bytes of the gathered parameters of each chunk, in model order, if replicas divide them and they
    /// were told.
    pub parameter_bytes: Option<Vec<Bytes>>,
}

impl Case {
    /// The activations of one microbatch on the stage that holds most: M_B, the unit of limits.
    pub fn microbatch_bytes(&self) -> Bytes {
        let (shape, placement) = (self.schedule.shape(), self.schedule.placement());
        let by_stage = self.problem.footprints().by_stage(shape, placement);
        let segments = u64::from(self.problem.segments());
        by_stage.into_iter().max().unwrap_or_default() * segments
    }

    /// `error` about this schedule.
    pub fn error(&self, error: &impl ToString) -> Diagnostic {
        Diagnostic::new(format!("{}: {}", self.name, error.to_string()))
    }

    /// The case as the simulator times it.
    pub fn simulation(&self) -> Simulation<'_> {
        Simulation::new(&self.schedule, self.problem.costs(), self.problem.footprints())
            .on(self.hardware.as_ref())
            .measured(self.steady)
            .under(self.noise.as_ref().map(Noise::stragglers))
    }

    /// Microbatches of a step, whole ones.
    pub fn microbatches(&self) -> u32 {
        self.schedule.shape().microbatches() / self.problem.segments() / self.problem.updates()
    }
}

/// All of a case but the order and the noise: what is cheap, whatever the shape.
struct Prepared {
    shape: Shape,
    hardware: Option<Hardware>,
    problem: Problem,
    has_footprints: bool,
    limits: Option<Limits>,
    layers_per_stage: Option<u64>,
    overhead: Nanos,
}

/// The pipeline that `rule` orders for `setting`, and where its chunks lie.
pub fn shape(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<(Shape, Placement), Diagnostic> {
    let segments = amounts::segments(&setting.keys, rule);
    let shaped = amounts::shape(&setting.keys, rule, segments);
    let shaped = shaped.map_err(|fault| explain(scenario, setting, rule, &fault))?;
    agree(scenario, setting, rule, shaped.0, segments)?;
    agree_with_layout(scenario, setting, rule, shaped.0)?;
    Ok(shaped)
}

/// What each chunk recomputes, in model order; empty if no chunk recomputes anything.
pub fn recomputed(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Vec<Recomputed>, Diagnostic> {
    let at = shape(scenario, setting, rule)?;
    let wrong = |(key, message)| scenario.error(setting, Some(key), message);
    recompute::of_chunks(&setting.keys, rule, at).map_err(wrong)
}

fn prepared(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Prepared, Diagnostic> {
    complete(scenario, setting, rule)?;
    let (shape, placement) = shape(scenario, setting, rule)?;
    let filled = profiles::fill(context, scenario, setting, rule, (shape, placement))?;
    let setting = filled.as_ref().unwrap_or(setting);
    let keys = &setting.keys;
    let fault = |fault| explain(scenario, setting, rule, &fault);
    let segments = amounts::segments(keys, rule);
    let hardware = hardware::of(context, scenario, setting, shape, placement, segments)?;
    if let (Some(hardware), true) = (&hardware, amounts::steady(&setting.keys, rule).is_some()) {
        return Err(checks::flushes(scenario, setting, rule, hardware.steps));
    }
    let wrong = |(key, message)| scenario.error(setting, Some(key), message);
    sharding::fits(keys, rule, hardware.as_ref()).map_err(wrong)?;
    let at = (shape, placement);
    let hops = amounts::hops(keys, at, hardware.as_ref()).map_err(fault)?;
    vocabulary::check(keys, rule, shape).map_err(fault)?;
    let costs = match keys.has_chain() {
        true => {
            let at = (shape, segments, hardware.as_ref());
            let overlap = overlap(context, keys, rule, at, &wrong)?;
            amounts::with_shards(keys, Costs::overlapped(overlap, Nanos(0)).with_hops(hops), shape)
        }
        false => amounts::costs(keys, hops, shape, placement, segments),
    };
    let costs = costs.map_err(fault)?;
    let footprints = amounts::footprints(keys, shape, placement, segments).map_err(fault)?;
    let times = copies::times(keys, &costs, footprints.as_ref(), hardware.as_ref(), at);
    let costs = costs.with_copies(times.map_err(wrong)?.unwrap_or_default());
    let costs = sharding::costs(keys, costs, at).map_err(wrong)?;
    let parts = recompute::of_chunks(keys, rule, at).map_err(wrong)?;
    let costs = recompute::costs(keys, costs, &parts, at, segments).map_err(wrong)?;
    let profile = profiles::of(context, keys)?;
    let message = profile.as_deref().and_then(AnyProfile::machine).map(|one| one.model.message());
    let kept =
        |held| recompute::footprints(keys, held, &parts, at, (segments, message)).map_err(wrong);
    let footprints = footprints.map(kept).transpose()?;
    let footprints = buffered(keys, footprints, at).map_err(wrong)?;
    let problem = Problem::new(shape, costs).map_err(fault)?;
    let steady = amounts::steady(&setting.keys, rule);
    let problem = problem.with_updates(steady.map_or(1, SteadyState::updates)).map_err(fault)?;
    let mut problem = problem.with_segments(segments).map_err(fault)?;
    if let Some(group) = keys.group {
        problem = problem.with_group(group);
    }
    let has_footprints = footprints.is_some();
    let counted = || amounts::layers_held(keys, shape);
    if let Some(footprints) = footprints.or_else(counted) {
        problem = problem.with_footprints(footprints).map_err(fault)?;
    }
    if let Some(limits) = &keys.memory_limit {
        problem = problem.with_limits(limits).map_err(fault)?;
    }
    let problem = copies::choose(keys, problem, rule, hardware.as_ref()).map_err(wrong)?;
    let limits = problem.limits(placement).map_err(fault)?;
    let (layers_per_stage, overhead) = (keys.layers_per_stage, keys.overhead.unwrap_or_default());
    Ok(Prepared { shape, hardware, problem, has_footprints, limits, layers_per_stage, overhead })
}

/// The segments of passes, and how they share the streams; `wrong` says what is wrong with a key.
fn overlap(
    context: &Context<'_>,
    keys: &Keys,
    rule: &ScheduleSource,
    (shape, segments, hardware): (Shape, u32, Option<&Hardware>),
    wrong: &impl Fn((&'static str, String)) -> Diagnostic,
) -> Result<Overlap, Diagnostic> {
    let rows = keys.chain_file.as_deref().map(|path| crate::chain::read(context, path));
    let rows = rows.transpose()?;
    let wires = hardware.and_then(sizes::wires);
    let wires = wires.as_ref().map(|time| time as &dyn Fn(Bytes) -> Nanos);
    let chains = chain::chains(keys, rows.as_deref(), shape, segments, wires).map_err(wrong)?;
    chain::overlap(keys, chains, chain::rule(keys, rule)).map_err(wrong)
}

/// `footprints` with the buffers of communication within passes, if `keys` tell any.
fn buffered(
    keys: &Keys,
    footprints: Option<Footprints>,
    at: (Shape, Placement),
) -> Result<Option<Footprints>, (&'static str, String)> {
    match (footprints, chain::buffers(keys, at)?) {
        (Some(footprints), Some(buffers)) => Ok(Some(footprints.with_buffers(buffers))),
        (None, Some(_)) => {
            let message = "communication-buffers need the sizes of activations: give --activation";
            Err(("communication-buffers", message.to_owned()))
        }
        (footprints, None) => Ok(footprints),
    }
}

/// How many forwards `rule` has in `setting`; none if it cannot do its shape.
pub fn forwards(setting: &Setting, rule: &ScheduleSource) -> u64 {
    let shape = amounts::shape(&setting.keys, rule, amounts::segments(&setting.keys, rule));
    shape.map_or(0, |(shape, _)| shape.cells() as u64)
}

/// What `setting` asks of `rule` but for the order: costs and footprints, without a search for one.
pub fn problem(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Problem, Diagnostic> {
    prepared(context, scenario, setting, rule).map(|prepared| prepared.problem)
}

/// Builds the schedule of `rule` for `setting`.
pub fn case(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Case, Diagnostic> {
    let prepared = prepared(context, scenario, setting, rule)?;
    room::check(context.host(), rule, &prepared)?;
    let problem = &prepared.problem;
    let schedule = match rule {
        ScheduleSource::Family(family) => {
            let schedule = family.schedule(problem);
            schedule.map_err(|fault| explain(scenario, setting, rule, &fault))?
        }
        ScheduleSource::File(_, schedule) => (**schedule).clone(),
        ScheduleSource::Searched(_) => searched::schedule(scenario, setting, rule, &prepared)?,
    };
    let costs = problem.costs();
    let recomputing = schedule.recomputing(|chunk| costs.recompute(chunk).is_some());
    let schedule = recomputing.map_err(|fault| explain(scenario, setting, rule, &fault))?;
    let schedule = problem.offloaded(schedule);
    case_of(context, scenario, setting, rule, prepared, schedule)
}

/// The case of a schedule that is there.
fn case_of(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    prepared: Prepared,
    schedule: Schedule,
) -> Result<Case, Diagnostic> {
    let Prepared { shape, hardware, problem, has_footprints, limits, layers_per_stage, overhead } =
        prepared;
    let noise = Noise::of(context, scenario, setting, shape, seats(hardware.as_ref(), shape))?;
    let schedule = sharding::sharded(&setting.keys, schedule);
    let at = (shape, schedule.placement());
    let wrong = |(key, message)| scenario.error(setting, Some(key), message);
    let parameter_bytes = sharding::bytes(&setting.keys, at).map_err(wrong)?;
    Ok(Case {
        parameter_bytes,
        setting: setting.name.clone(),
        name: rule.name().to_owned(),
        family: rule.family(),
        layers_per_stage,
        has_whole_bytes: hardware::measures_bytes(&setting.keys),
        problem,
        has_footprints,
        schedule,
        limits,
        told_limits: setting.keys.memory_limit.clone().unwrap_or_default(),
        split: Split::of(context, &setting.keys)?,
        noise,
        overhead,
        hardware,
        steady: amounts::steady(&setting.keys, rule),
    })
}

/// The device of each stage: its own without hardware.
fn seats(hardware: Option<&Hardware>, shape: Shape) -> Vec<usize> {
    let devices = hardware.map(|hardware| hardware.seats.devices().to_vec());
    devices.unwrap_or_else(|| (0..shape.stages()).collect())
}

/// Checks that `rule` has an answer for `setting` as far as can be said at once; orders are only
/// made where they have few passes.
pub fn try_out(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<(), Diagnostic> {
    const FEW: u64 = 20_000;
    let prepared = prepared(context, scenario, setting, rule)?;
    let is_search = matches!(rule, ScheduleSource::Searched(_));
    if !is_search && 3 * prepared.shape.cells() as u64 <= FEW {
        return case(context, scenario, setting, rule).map(drop);
    }
    let devices = seats(prepared.hardware.as_ref(), prepared.shape);
    Noise::of(context, scenario, setting, prepared.shape, devices).map(drop)
}

/// Checks that `setting` lacks no key that `rule` needs.
pub fn check(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<(), Diagnostic> {
    complete(scenario, setting, rule)
}

/// Whether the order that `family` makes depends on how long passes take.
pub fn depends_on_times(family: Family) -> bool {
    family.depends_on_times()
}

/// Lets `setting` do without times if no order it asks for depends on them.
pub fn allow_without_times(setting: &mut Setting) {
    let names = setting.keys.schedule.iter().flatten();
    let fixed = |name: &String| match Family::named(name) {
        Some(family) => !depends_on_times(family),
        None => name != SEARCHED,
    };
    let sharded = |family: Family| family.vocabulary() != Vocabulary::Whole;
    let has_shards = names.clone().filter_map(|name| Family::named(name)).any(sharded);
    if names.clone().all(fixed) {
        let keys = &mut setting.keys;
        for times in [&mut keys.forward, &mut keys.backward_input, &mut keys.backward_weight] {
            times.get_or_insert_with(|| vec![Nanos(1)]);
        }
        if has_shards && keys.vocab_tflops.is_none() {
            for times in [&mut keys.vocab_s, &mut keys.vocab_t] {
                times.get_or_insert_with(|| vec![Nanos(1)]);
            }
        }
    }
}
