//! The best order that is found for a question under noise.

use search::{
    Effort, Found, FoundUnderNoise, Objective, ProgressUnderNoise, Statistic, UnderNoise,
    search_under_noise as search,
};

use super::searched::{explain, instance};
use super::{ScheduleSource, Searched, case_of, headroom, seats};
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::noise::Noise;
use crate::resolve::Resolved;
use crate::scenario::{Scenario, Setting};
use crate::values::hardware::BoundaryKey;

/// The default number of replicas in which orders are evaluated.
pub const REPLICAS: u64 = 1000;
/// The most replicas in which they are evaluated: the times of a few orders in all of them are kept.
const MOST_REPLICAS: u64 = 1_000_000;

/// How a question is searched under noise.
pub struct SearchUnderNoise<'a> {
    /// The placement of chunks, if it is given.
    pub placement: Option<pipeline::Placement>,
    /// The statistic of the step to minimize.
    pub statistic: Statistic,
    /// Orders that it may begin with, too, if they fit.
    pub known: &'a [&'a pipeline::Schedule],
    /// For how long.
    pub effort: Effort,
    /// Whether to stop before that.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// Searches the best order for `setting` under its noise. The order of the [`Searched`] is the answer, and its
/// cost that without noise. Keys [`beyond`](super::beyond) it are left out.
///
/// # Errors
/// If the question is wrong, has no order under its limit, or asks for what [`check`] refuses.
pub fn search_under_noise(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    asked: &SearchUnderNoise<'_>,
    progress: impl FnMut(ProgressUnderNoise),
) -> Result<(Searched, FoundUnderNoise), Diagnostic> {
    check(scenario, setting, asked.statistic)?;
    let objective = objective(setting);
    // Without a boundary, no link is shared.
    let mut unbounded = setting.clone();
    unbounded.keys.hardware.boundary = None;
    let setting = &unbounded;
    let rule = ScheduleSource::Searched(asked.placement);
    let resolved = Resolved::of(context, scenario, setting, &rule)?;
    headroom::check(context.host(), &rule, &resolved)?;
    let instance = instance(scenario, setting, &rule, &resolved, objective)?;
    let devices = seats(None, instance.shape);
    let noise = Noise::of(context, scenario, setting, instance.shape, devices)?;
    let noise = noise.ok_or_else(|| nothing_noisy(scenario, setting, asked.statistic))?;
    let replicas = noise.replicas.unwrap_or(REPLICAS);
    let under = UnderNoise {
        noise: noise.stragglers(),
        statistic: asked.statistic,
        replicas,
        known: asked.known,
    };
    let found = search(&instance, &under, asked.effort, progress, asked.stop);
    let found = found.map_err(|error| explain(scenario, setting, &error))?;
    let answer = &found.answer;
    let case = case_of(context, scenario, setting, &rule, resolved, answer.schedule.clone())?;
    let nominal = Found {
        schedule: answer.schedule.clone(),
        cost: answer.nominal,
        interrupted: found.interrupted,
        ..found.nominal_search.clone()
    };
    Ok((Searched { case, instance, found: nominal }, found))
}

/// The time of a step of `setting`: by default stages do not wait for each other between steps.
#[must_use]
pub fn objective(setting: &Setting) -> Objective {
    match setting.keys.hardware.boundary {
        Some(BoundaryKey::Barrier) => Objective::Makespan,
        _ => Objective::Span,
    }
}

/// Checks that `setting` has noise, and enough replicas for `statistic`.
///
/// # Errors
/// If it has not.
pub fn check(
    scenario: &Scenario,
    setting: &Setting,
    statistic: Statistic,
) -> Result<(), Diagnostic> {
    let keys = &setting.keys;
    let noisy = [
        keys.jitter.is_some(),
        keys.stall.is_some(),
        keys.slowdown.is_some(),
        keys.slowdown_profile.is_some(),
    ];
    if !noisy.contains(&true) {
        return Err(nothing_noisy(scenario, setting, statistic));
    }
    check_replicas(scenario, setting, statistic)
}

/// Checks that a percentile rests on replicas that lie beyond it, and that all fit into memory.
fn check_replicas(
    scenario: &Scenario,
    setting: &Setting,
    statistic: Statistic,
) -> Result<(), Diagnostic> {
    let replicas = setting.keys.replicas.unwrap_or(REPLICAS);
    let (fewest, name) = (statistic.fewest(), name(statistic));
    if replicas < fewest {
        let message = format!("{name} cannot be told from {replicas} replicas: at least {fewest}");
        let cure = format!("leave out --replicas, which gives {REPLICAS}, or ask for more");
        return Err(scenario.error(setting, Some("replicas"), message).with_help(cure));
    }
    if replicas > MOST_REPLICAS {
        let message =
            format!("{replicas} replicas are too many to judge orders in: at most {MOST_REPLICAS}");
        let cure = format!("leave out --replicas, which gives {REPLICAS}");
        return Err(scenario.error(setting, Some("replicas"), message).with_help(cure));
    }
    Ok(())
}

fn nothing_noisy(scenario: &Scenario, setting: &Setting, statistic: Statistic) -> Diagnostic {
    let message =
        format!("the objective {} is one under noise, but the question has none", name(statistic));
    let cure = "write jitter, as in --jitter pass=lognormal:0.05, or --stall 0.001:50ms, or \
                --slowdown stage:3=1.2; without noise ask for --objective span or makespan";
    scenario.error(setting, None, message).with_help(cure)
}

/// `statistic` as the key writes it.
const fn name(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::Mean => "mean",
        Statistic::P95 => "p95",
        Statistic::P99 => "p99",
    }
}
