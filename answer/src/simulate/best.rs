//! The schedule to take of a setting, and how much faster each is than 1F1B.

use pipeline::Family;
use question::Context;
use question::keys::Keys;
use question::scenario::Scenario;

use super::{Answers, Wants, simulate};
use crate::outcome::Outcome;

/// The schedule that the others are held against.
const BASELINE: Family = Family::OneFOneB;

/// The step of `outcome`: its span, the mean over all replicas where there are some.
#[allow(clippy::cast_precision_loss)]
fn step(outcome: &Outcome) -> f64 {
    let mean = outcome.monte_carlo.as_ref().map(|all| all.span.mean);
    mean.unwrap_or(outcome.metrics.span().0 as f64)
}

/// The place of the outcome of `setting` with the shortest step, of those that train synchronously and break no
/// limit; of equals, of that which holds less. `None` where there is none.
#[must_use]
pub fn best(setting: &[Outcome]) -> Option<usize> {
    let all = setting.iter().enumerate();
    let fit = all.filter(|(_, one)| is_compared(one) && one.fits_in_memory() != Some(false));
    let figures = |outcome: &Outcome| (step(outcome), super::memory(outcome));
    let least = fit.min_by(|(_, a), (_, b)| {
        let ((a, held), (b, held_too)) = (figures(a), figures(b));
        a.total_cmp(&b).then(held.total_cmp(&held_too))
    });
    least.map(|(at, _)| at)
}

/// Whether `outcome` trains as the others do: an update in a pipeline that never flushes is no step.
const fn is_compared(outcome: &Outcome) -> bool {
    outcome.case.steady.is_none()
}

/// By outcome, the step of 1F1B over its own, for the same setting; `None` where 1F1B cannot do the setting, or the
/// outcome is not comparable. Settings without 1F1B are asked anew for it, without a word.
#[must_use]
pub fn speedups(context: &Context<'_>, scenario: &Scenario, answers: &Answers) -> Vec<Option<f64>> {
    let quiet = Context::new(context.host());
    let settings = answers.by_setting().into_iter().zip(&scenario.settings);
    let of_setting = settings.flat_map(|(outcomes, setting)| {
        let own = outcomes.iter().find(|one| one.case.name == BASELINE.name()).map(step);
        let base = own.or_else(|| {
            let mut alone = scenario.clone();
            alone.settings = vec![setting.clone()];
            asked(&quiet, alone)
        });
        outcomes
            .iter()
            .map(move |one| base.filter(|_| is_compared(one)).map(|base| base / step(one)))
    });
    of_setting.collect()
}

/// The step of 1F1B for the setting of `scenario`.
fn asked(context: &Context<'_>, scenario: Scenario) -> Option<f64> {
    let schedule = Some(vec![BASELINE.name().to_owned()]);
    let scenario = scenario.with(context, &Keys { schedule, ..Keys::default() }).ok()?;
    simulate(context, &scenario, Wants::default()).ok()?.outcomes.first().map(step)
}
