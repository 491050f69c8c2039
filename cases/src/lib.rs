//! Questions made whole: [`case`] builds or searches the schedule of one setting, completed and checked, with its costs,
//! footprints, limits, noise and hardware.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::path::PathBuf;
//!
//! use cases::{ScheduleSource, case};
//! use question::{Context, keys::Keys, scenario::Scenario};
//!
//! let keys: Keys = serde_json::from_str(
//!     r#"{"stages": 4, "microbatches": 8, "forward": "1ms", "backward-input": "1ms",
//!         "backward-weight": "1ms", "memory-limit": "1.5p"}"#,
//! )?;
//! let scenario = Scenario::from(keys);
//! let host: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
//! let context = Context::new(&host);
//! let source = ScheduleSource::named(&context, "zb-heuristic")?;
//! let case = case(&context, &scenario, &scenario.settings[0], &source)?;
//! assert_eq!(case.schedule.shape().stages(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aim;
mod beyond;
mod headroom;
mod joint;
mod repeating;
mod searched;

use pipeline::sharding::Sharding;
use pipeline::{
    Bytes, Costs, Family, Fault, Limit, Limits, Nanos, Placement, Problem, Schedule, Shape,
    SteadyState, Vocabulary,
};
use sim::{Repeating, Simulation};

pub use aim::{
    Aim, REPLICAS, check_figure, check_noise_free, check_under_noise, is_on_hardware,
    objective_under_noise,
};
pub use beyond::{SearchKind, beyond};
pub use joint::{Joint, SearchedJointly, check as check_joint, may_copy};
pub use repeating::FEW_FORWARDS;
pub use searched::{
    Search, Searched, explain as explain_search, ignored as ignored_by_search, search, searchable,
};

use question::diagnostic::Diagnostic;
use question::hardware::Hardware;
use question::host::Context;
use question::keys::Keys;
use question::noise::{self, Noise};
pub use question::notes::{assumed, ignored};
pub use question::resolve::complete as check;
use question::resolve::{Parameters, Resolved, costs_alone, explain};
pub use question::resolve::{
    Split, SplitJson, communicates, forget_copies, forwards, recomputed, shape,
};
use question::scenario::{Scenario, Setting};
pub use question::source::{
    ALL, SEARCHED, ScheduleSource, Selected, read as read_schedule, rules, selected,
};

/// A schedule with the problem that it was made for.
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
    /// The order; where the step is [`Self::repeating`], that of fewer microbatches.
    pub schedule: Schedule,
    /// The step of all microbatches, where the order is that of fewer: there are figures of it, and neither a timeline
    /// nor a run.
    pub repeating: Option<Repeating>,
    /// The memory limits in bytes, if there are any.
    pub limits: Option<Limits>,
    /// The limits as the keys give them: one for all stages, or one per stage.
    pub given_limits: Vec<Limit>,
    /// How B and W were split, if they were given together.
    pub split: Option<Split>,
    /// How durations differ from the costs, if noise is given.
    pub noise: Option<Noise>,
    /// The hardware that it runs on, if the question gives it.
    pub hardware: Option<Hardware>,
    /// The time of every pass that its stage spends before it, in the runtime of a trainer.
    pub overhead: Nanos,
    /// Which part of the run is measured, if the schedule is one that never flushes.
    pub steady: Option<SteadyState>,
    /// The states that replicas divide, if they do.
    pub sharding: Option<Sharding>,
    /// The bytes of the gathered parameters of each chunk, in model order, if replicas divide them and they
    /// are given.
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
            .repeating(self.repeating.as_ref())
            .under(self.noise.as_ref().map(Noise::stragglers))
    }

    /// `order` with everything that the question adds to an order: recomputation, copies to the host, and collectives
    /// of parameters.
    pub fn prepared(&self, order: Schedule) -> Result<Schedule, Fault> {
        let costs = self.problem.costs();
        let order = order.recomputing(|chunk| costs.recompute(chunk).is_some())?;
        let order = self.problem.offloaded(order);
        Ok(match self.sharding {
            Some(sharding) => order.sharded(sharding),
            None => order,
        })
    }

    /// Whether the order that `rule` has made stays with other times, and with it what stages hold: there is neither
    /// noise nor hardware, and operations are passes.
    fn keeps_order(&self, rule: &ScheduleSource) -> bool {
        let is_fixed = match rule {
            ScheduleSource::Family(family) => !family.depends_on_times(),
            ScheduleSource::File(..) => true,
            ScheduleSource::Searched(_) => false,
        };
        is_fixed
            && self.noise.is_none()
            && self.hardware.is_none()
            && self.steady.is_none()
            && self.repeating.is_none()
            && !self.schedule.has_streams()
            && is_plain(self.problem.costs())
    }

    /// What passes cost in the question of `keys`, `resolved` for `rule`, the one of this case, if it differs from this
    /// case in that alone.
    fn other_costs(
        &self,
        rule: &ScheduleSource,
        keys: &Keys,
        resolved: &Resolved,
    ) -> Option<Costs> {
        let costs = resolved.problem.costs();
        let is_alike = !noise::is_given(keys)
            && resolved.hardware.is_none()
            && resolved.steady.is_none()
            && resolved.parameters.is_none()
            && is_plain(costs)
            && resolved.has_footprints == self.has_footprints
            && resolved.problem.differs_in_costs_alone(&self.problem);
        (is_alike && self.keeps_order(rule)).then(|| costs.clone())
    }

    /// Microbatches of a step, whole ones.
    pub fn microbatches(&self) -> u32 {
        self.problem.shape().microbatches() / self.problem.segments() / self.problem.updates()
    }

    /// Number of passes over all stages.
    pub fn passes(&self) -> usize {
        match &self.repeating {
            None => self.schedule.passes(),
            // Each microbatch has as many.
            Some(repeating) => {
                let few = self.schedule.shape().microbatches() as usize;
                self.schedule.passes() / few * repeating.microbatches() as usize
            }
        }
    }
}

/// The problem of `setting` for `rule`: costs and footprints, without making an order.
pub fn problem(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Problem, Diagnostic> {
    Resolved::of(context, scenario, setting, rule).map(|resolved| resolved.problem)
}

/// Builds the schedule of `rule` for `setting`.
pub fn case(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Case, Diagnostic> {
    let resolved = Resolved::of(context, scenario, setting, rule)?;
    headroom::check(context.host(), rule, &resolved)?;
    born(context, scenario, setting, rule, resolved)
}

/// The same for its figures alone: the order may be that of fewer microbatches ([`Case::repeating`]).
pub fn figures(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<Case, Diagnostic> {
    let resolved = Resolved::of(context, scenario, setting, rule)?;
    of_figures(context, scenario, setting, rule, resolved)
}

/// A question after another one with the same rule.
pub enum Next {
    /// It has the same order, and differs in what passes cost alone.
    Costs(Costs),
    /// It has a case of its own.
    Case(Box<Case>),
}

/// The question of `setting`, for its figures alone, after `known`, a case of the same `rule`; with the key in which alone
/// their questions differ, if there is one.
pub fn next(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    (known, key): (Option<&Case>, Option<&str>),
) -> Result<Next, Diagnostic> {
    let alike = known.zip(key).filter(|(known, _)| known.sharding.is_none());
    let alike = alike.filter(|(known, _)| known.keeps_order(rule));
    if let Some(costs) = alike.and_then(|(_, key)| costs_alone(scenario, setting, rule, key)) {
        return Ok(Next::Costs(costs));
    }
    let resolved = Resolved::of(context, scenario, setting, rule)?;
    match known.and_then(|known| known.other_costs(rule, &setting.keys, &resolved)) {
        Some(costs) => Ok(Next::Costs(costs)),
        None => {
            let case = of_figures(context, scenario, setting, rule, resolved)?;
            Ok(Next::Case(Box::new(case)))
        }
    }
}

/// The case of `setting` for its figures, `resolved` for `rule`.
fn of_figures(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    resolved: Resolved,
) -> Result<Case, Diagnostic> {
    if let Some((short, repeating)) = repeating::of(context.host(), &setting.keys, rule, &resolved)
    {
        let case = case_of(context, scenario, setting, rule, resolved, short)?;
        return Ok(Case { repeating: Some(repeating), ..case });
    }
    headroom::check(context.host(), rule, &resolved)?;
    born(context, scenario, setting, rule, resolved)
}

/// The case of `setting`, `resolved` for `rule`, with a schedule that is made for it.
fn born(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    resolved: Resolved,
) -> Result<Case, Diagnostic> {
    let problem = &resolved.problem;
    let schedule = match rule {
        ScheduleSource::Family(family) => {
            let schedule = family.schedule(&problem.clone().of_mean_microbatch());
            schedule.map_err(|fault| explain(scenario, setting, rule, &fault))?
        }
        ScheduleSource::File(_, schedule) => (**schedule).clone(),
        ScheduleSource::Searched(_) => searched::schedule(scenario, setting, rule, &resolved)?,
    };
    let costs = problem.costs();
    let recomputing = schedule.recomputing(|chunk| costs.recompute(chunk).is_some());
    let schedule = recomputing.map_err(|fault| explain(scenario, setting, rule, &fault))?;
    let schedule = problem.offloaded(schedule);
    case_of(context, scenario, setting, rule, resolved, schedule)
}

/// The case of `setting` with an order of passes that was found for it, whose chunks have the `placement` asked for.
pub fn case_of_order(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    placement: Option<Placement>,
    order: Schedule,
) -> Result<Case, Diagnostic> {
    let rule = ScheduleSource::Searched(placement);
    let resolved = Resolved::of(context, scenario, setting, &rule)?;
    let fault = |fault| explain(scenario, setting, &rule, &fault);
    let case = case_of(context, scenario, setting, &rule, resolved, order)?;
    let schedule = case.prepared(case.schedule.clone()).map_err(fault)?;
    Ok(Case { schedule, ..case })
}

/// The case of a schedule that is there.
fn case_of(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    resolved: Resolved,
    schedule: Schedule,
) -> Result<Case, Diagnostic> {
    let Resolved { shape, hardware, parameters, .. } = resolved;
    let noise = Noise::of(context, scenario, setting, shape, seats(hardware.as_ref(), shape))?;
    let (schedule, sharding, parameter_bytes) = match parameters {
        Some(Parameters { sharding, bytes }) => (schedule.sharded(sharding), Some(sharding), bytes),
        None => (schedule, None, None),
    };
    Ok(Case {
        sharding,
        parameter_bytes,
        setting: setting.name.clone(),
        name: rule.name().to_owned(),
        family: rule.family(),
        layers_per_stage: resolved.layers_per_stage,
        has_whole_bytes: resolved.has_whole_bytes,
        problem: resolved.problem,
        has_footprints: resolved.has_footprints,
        schedule,
        repeating: None,
        limits: resolved.limits,
        given_limits: resolved.given_limits,
        split: resolved.split,
        noise,
        overhead: resolved.overhead,
        hardware,
        steady: resolved.steady,
    })
}

/// Whether all microbatches cost the same, and none is computed twice.
fn is_plain(costs: &Costs) -> bool {
    costs.microbatch_work().is_none() && !costs.has_recompute()
}

/// The device of each stage: its own without hardware.
fn seats(hardware: Option<&Hardware>, shape: Shape) -> Vec<usize> {
    let devices = hardware.map(|hardware| hardware.seats.devices().to_vec());
    devices.unwrap_or_else(|| (0..shape.stages()).collect())
}

/// Checks that `rule` has an answer for `setting`, as far as a quick check can tell; orders are only
/// made where they have few passes.
pub fn try_out(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<(), Diagnostic> {
    const FEW: u64 = 20_000;
    let resolved = Resolved::of(context, scenario, setting, rule)?;
    let is_search = matches!(rule, ScheduleSource::Searched(_));
    if !is_search && 3 * resolved.shape.cells() as u64 <= FEW {
        return case(context, scenario, setting, rule).map(drop);
    }
    let devices = seats(resolved.hardware.as_ref(), resolved.shape);
    Noise::of(context, scenario, setting, resolved.shape, devices).map(drop)
}

/// Lets `setting` do without times if no order it asks for depends on them.
pub fn allow_without_times(setting: &mut Setting) {
    let names = setting.keys.schedule.iter().flatten();
    let fixed = |name: &String| match Family::named(name) {
        Some(family) => !family.depends_on_times(),
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
