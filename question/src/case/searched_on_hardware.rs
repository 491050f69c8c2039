//! The best order that is found for a question on a cluster, or over several steps.

use pipeline::{Placement, Schedule};
use search::{
    Effort, Figure, Found, FoundOnHardware, OnHardware, ProgressOnHardware, SearchError,
    search_on_hardware, where_no_link_is_shared,
};
use sim::SimulationError;
use sim::engine::EngineError;

use super::searched::{check_noise_free, explain, instance};
use super::{ScheduleSource, Searched, case_of, headroom};
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::resolve::Resolved;
use crate::scenario::{Scenario, Setting};

/// How a question is searched on hardware.
pub struct SearchOnHardware<'a> {
    /// The placement of chunks, if it is given.
    pub placement: Option<Placement>,
    /// The figure of a run to minimize.
    pub figure: Figure,
    /// Known orders that are evaluated, too, if they fit.
    pub known: &'a [&'a Schedule],
    /// For how long.
    pub effort: Effort,
    /// Whether to stop before that.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// Searches the best order for `setting` on its hardware. The order of the [`Searched`] is the answer, its instance
/// that where no link is shared, and its cost the one there. Keys [`beyond`](super::beyond) it are left out.
///
/// # Errors
/// If the question is wrong or under noise, or has no order under its limit.
pub fn search(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    asked: &SearchOnHardware<'_>,
    progress: impl FnMut(ProgressOnHardware),
) -> Result<(Searched, FoundOnHardware), Diagnostic> {
    check_noise_free(scenario, setting)?;
    let rule = ScheduleSource::Searched(asked.placement);
    let resolved = Resolved::of(context, scenario, setting, &rule)?;
    let Some(hardware) = &resolved.hardware else { return Err(needs_hardware()) };
    headroom::check_on_hardware(context.host(), &rule, &resolved, hardware.steps)?;
    let as_asked = instance(scenario, setting, &rule, &resolved, asked.figure.objective(hardware))?;
    let instance = where_no_link_is_shared(&as_asked, hardware, asked.figure);
    let on =
        OnHardware { hardware, figure: asked.figure, asked: &resolved.problem, known: asked.known };
    let found = search_on_hardware(&instance, &on, asked.effort, progress, asked.stop);
    let found = found.map_err(|error| match explain(scenario, setting, &error) {
        wrong if is_stuck(&error) => {
            wrong.with_help("write --protocol eager, or let receivers ask sooner: rendezvous:2")
        }
        wrong => wrong,
    })?;
    let case = case_of(context, scenario, setting, &rule, resolved, found.schedule.clone())?;
    let nominal = Found {
        schedule: found.schedule.clone(),
        cost: found.answer.nominal,
        interrupted: found.interrupted,
        ..found.nominal_search.clone()
    };
    Ok((Searched { case, instance, found: nominal }, found))
}

/// Whether `error` is that every order gets stuck.
const fn is_stuck(error: &SearchError) -> bool {
    matches!(error, SearchError::OnHardware(SimulationError::Engine(EngineError::Stuck(_))))
}

/// Whether `setting` has a hardware key, other than those of copies to the host and of shards of the vocabulary.
#[must_use]
pub fn is_asked(setting: &Setting) -> bool {
    let keys = &setting.keys;
    let of_shards = keys.vocab_tflops.is_some();
    let says_nothing = |key: &str| {
        ["offload", "reload-ahead"].contains(&key) || (of_shards && key == "vocabulary")
    };
    keys.hardware.given().any(|key| !says_nothing(key))
}

/// The error of a figure that only a run on hardware has.
fn needs_hardware() -> Diagnostic {
    let message =
        "the objective step is the time per step of a run on hardware, and the question has none";
    let cure =
        "give --cluster, or --steps and --boundary; or ask for --objective span, or makespan";
    Diagnostic::new(message).with_help(cure)
}

/// Checks that `setting` has hardware if `figure` is one of a run on it alone.
///
/// # Errors
/// If it has none.
pub fn check_figure(setting: &Setting, figure: Option<Figure>) -> Result<(), Diagnostic> {
    match figure {
        Some(Figure::Step) if !is_asked(setting) => Err(needs_hardware()),
        _ => Ok(()),
    }
}
