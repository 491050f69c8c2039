//! The best order that is found for a question.

use pipeline::{Placement, Schedule};
use search::{Effort, Found, Instance, Objective, Progress, SearchError};

use super::{Case, ScheduleSource, case_of, headroom};
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::resolve::{Resolved, explain as explain_fault, shape};
use crate::scenario::{Scenario, Setting};

/// How a question is searched.
pub struct Search<'a> {
    /// The placement of chunks, if it is given.
    pub placement: Option<Placement>,
    /// The objective.
    pub objective: Objective,
    /// For how long.
    pub effort: Effort,
    /// Whether the order of a small pipeline is solved as a program, where the search leaves open whether there is a
    /// better one.
    pub solved: bool,
    /// Whether to stop before that.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// A question and the best order that was found for it.
pub struct Searched {
    /// The order with the problem that it was made for.
    pub case: Case,
    /// The instance that was searched.
    pub instance: Instance,
    /// The result of the search.
    pub found: Found,
}

/// Searches the best order for `setting`.
///
/// # Errors
/// If the question is wrong, or has no order under its limit.
pub fn search(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    search: &Search<'_>,
    progress: impl FnMut(Progress),
) -> Result<Searched, Diagnostic> {
    let rule = ScheduleSource::Searched(search.placement);
    let resolved = Resolved::of(context, scenario, setting, &rule)?;
    headroom::check(context.host(), &rule, &resolved)?;
    let instance = instance(scenario, setting, &rule, &resolved, search.objective)?;
    let found = match search.solved {
        true => best(&instance, search.effort, progress, search.stop),
        false => search::search(&instance, search.effort, progress, search.stop),
    };
    let found = found.map_err(|error| explain(scenario, setting, &error))?;
    let case = case_of(context, scenario, setting, &rule, resolved, found.schedule.clone())?;
    Ok(Searched { case, instance, found })
}

/// The order that a search of default effort finds where a schedule is named.
pub(super) fn schedule(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    resolved: &Resolved,
) -> Result<Schedule, Diagnostic> {
    let instance = instance(scenario, setting, rule, resolved, Objective::Span)?;
    let effort = Effort { seed: setting.keys.seed.unwrap_or(0), ..Effort::default() };
    let found = best(&instance, effort, |_| {}, &|| false);
    Ok(found.map_err(|error| explain(scenario, setting, &error))?.schedule)
}

/// Searches the best order, and where the pipeline is small and that leaves open whether there is a better one, goes on
/// with branch and bound: for about a second for each second that the search takes, counted in steps; without a
/// limit of the effort until `stop` returns true.
fn best(
    instance: &Instance,
    effort: Effort,
    mut progress: impl FnMut(Progress),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Found, SearchError> {
    let steps = effort.times.map_or(u64::MAX, |times| times.saturating_mul(ilp::BRIEF_STEPS));
    if steps == 0 || !ilp::is_small(instance) || ilp::check(instance).is_err() {
        return search::search(instance, effort, progress, stop);
    }
    // A search alone would never end where only the clock ends it.
    let first = Effort { times: effort.times.or(Some(1)), ..effort };
    let mut last = None;
    let mut tell = |now: Progress| {
        last = Some(now);
        progress(now);
    };
    let mut found = search::search(instance, first, &mut tell, stop)?;
    if found.is_optimal() || found.interrupted {
        return Ok(found);
    }
    let tell = |best, bound, _| {
        if let Some(last) = last {
            progress(Progress { best, bound, ..last });
        }
    };
    // `ilp::check` above has refused every invalid instance.
    let solved = ilp::warm_start(instance, &mut found, steps, tell, &|| stop());
    found.interrupted = solved.is_ok_and(|(_, end)| end == ilp::End::Stopped);
    Ok(found)
}

/// Keys of noise, which change what every order costs.
const CHANGING: [&str; 5] = ["slowdown", "slowdown-profile", "jitter", "stall", "replicas"];

/// Keys of copies to the host, which change nothing where nothing is copied.
const COPYING: [&str; 5] =
    ["offload-time", "offload-ratio", "host-bandwidth", "devices-per-host-link", "offload-chunks"];

/// The remedy for a key that a search does not take.
pub(super) const LEAVE_OUT: &str = "leave it out, and simulate what is found with it: --export best.txt, then \
     `debubble simulate --schedule best.txt`";

/// Checks that `setting` has no noise, which a time without noise leaves out.
///
/// # Errors
/// At the first key of it.
pub fn check_noise_free(scenario: &Scenario, setting: &Setting) -> Result<(), Diagnostic> {
    let Some(key) = setting.keys.given().find(|key| CHANGING.contains(key)) else { return Ok(()) };
    let message =
        format!("a search for a time without noise knows none: {key} cannot be taken into account");
    let cure = format!(
        "{LEAVE_OUT}; unequal stages have a time each, as in --forward 10ms,12ms; or search under noise, by \
         --objective mean, p95 or p99"
    );
    Err(scenario.error(setting, Some(key), message).with_help(cure))
}

/// The keys of `setting` that have no influence on a search that is asked for by itself, in words.
pub fn ignored(setting: &Setting, placement: Option<Placement>) -> Vec<String> {
    let keys = &setting.keys;
    let mut notes = super::ignored(setting, &ScheduleSource::Searched(placement));
    let copying: Vec<&str> = keys.given().filter(|key| COPYING.contains(key)).collect();
    if !copying.is_empty() && keys.hardware.offload.is_none() {
        notes.push(format!("copies nothing to the host, {} is ignored", copying.join(", ")));
    }
    if keys.has_chain() && keys.lone_backward.is_none() {
        notes.push(
            "backwards that stand alone hide their communication behind their own W: simulate an exported \
             order with --lone-backward overlapped"
                .to_owned(),
        );
    }
    if placement == Some(Placement::Vee) && keys.chunks.is_none() {
        notes.push("2 chunks per stage, since chunks are not given".to_owned());
    }
    // A scenario file may name schedules for other commands.
    if keys.schedule.is_some() && !setting.says("schedule") {
        notes.push("makes an order of its own, schedule is ignored".to_owned());
    }
    notes
}

/// The instance whose orders are searched for `setting`, by its times where no link is shared and nothing runs beside
/// passes.
///
/// # Errors
/// If the question is wrong, or too large for the memory there is.
pub fn searchable(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    placement: Option<Placement>,
    objective: Objective,
) -> Result<Instance, Diagnostic> {
    let rule = ScheduleSource::Searched(placement);
    let resolved = Resolved::of(context, scenario, setting, &rule)?;
    let steps = resolved.hardware.as_ref().map_or(1, |hardware| hardware.steps);
    headroom::check(context.host(), &rule, &resolved)?;
    headroom::check_on_hardware(context.host(), &rule, &resolved, steps)?;
    instance(scenario, setting, &rule, &resolved, objective)
}

pub(super) fn instance(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    resolved: &Resolved,
    objective: Objective,
) -> Result<Instance, Diagnostic> {
    let (shape, placement) = shape(scenario, setting, rule)?;
    let (costs, footprints) = (resolved.problem.costs(), resolved.problem.footprints());
    let limits = resolved.limits.clone();
    let instance =
        Instance::new(shape, placement, costs.clone(), footprints.clone(), limits, objective);
    instance.map_err(|fault| explain_fault(scenario, setting, rule, &fault))
}

/// `error` of a search of `setting`, at the key that it is about.
#[must_use]
pub fn explain(scenario: &Scenario, setting: &Setting, error: &SearchError) -> Diagnostic {
    let key = match error {
        SearchError::Infeasible(_) => Some("memory-limit"),
        SearchError::TooLarge(_) | SearchError::TooLargeUnderNoise(_) => Some("microbatches"),
        SearchError::TooManyChunks(_) | SearchError::TooManyPairs(_) => Some("chunks"),
        SearchError::Recomputed => Some("recompute"),
        SearchError::TooLong(_) => Some("microbatches"),
        SearchError::OverlappedUnderNoise
        | SearchError::OverlappedOnHardware
        | SearchError::OnHardware(_)
        | SearchError::Mirrored
        | SearchError::Fault(_) => None,
    };
    scenario.error(setting, key, format!("{}: {error}", super::SEARCHED))
}
