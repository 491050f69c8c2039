//! The schedule to take of a setting, and how much faster each is than 1F1B.

use pipeline::Family;
use question::Context;
use question::keys::Keys;
use question::scenario::Scenario;

use super::{Answers, Wants, simulate};
use crate::outcome::Outcome;

/// The schedule that all schedules are compared with.
pub(super) const BASELINE: Family = Family::OneFOneB;

/// The step of `outcome`: its span, the mean over all replicas where there are some.
#[allow(clippy::cast_precision_loss)]
pub(super) fn step(outcome: &Outcome) -> f64 {
    let mean = outcome.monte_carlo.as_ref().map(|all| all.span.mean);
    mean.unwrap_or(outcome.metrics.span().0 as f64)
}

/// The place of the outcome of `setting` with the shortest step, of those that train synchronously and break no
/// limit; of equals, of that which holds less. `None` where there is none.
#[must_use]
pub fn best(setting: &[Outcome]) -> Option<usize> {
    let all = setting.iter().enumerate();
    let fit = all.filter(|(_, one)| !one.is_asynchronous() && one.fits_in_memory() != Some(false));
    let figures = |outcome: &Outcome| (step(outcome), super::memory(outcome));
    let least = fit.min_by(|(_, a), (_, b)| {
        let ((a, held), (b, held_too)) = (figures(a), figures(b));
        a.total_cmp(&b).then(held.total_cmp(&held_too))
    });
    least.map(|(at, _)| at)
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
            .map(move |one| base.filter(|_| !one.is_asynchronous()).map(|base| base / step(one)))
    });
    of_setting.collect()
}

/// The step of 1F1B for the setting of `scenario`.
fn asked(context: &Context<'_>, scenario: Scenario) -> Option<f64> {
    let schedule = Some(vec![BASELINE.name().to_owned()]);
    let scenario = scenario.with(context, &Keys { schedule, ..Keys::default() }).ok()?;
    simulate(context, &scenario, Wants::default()).ok()?.outcomes.first().map(step)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use super::*;

    const QUESTION: &str = "stages = 4\nmicrobatches = 8\nforward = \"10ms\"\nbackward-input = \"10ms\"\n\
                            backward-weight = \"10ms\"\nhop = \"1ms\"\nactivation = \"1GiB\"\nmemory-limit = \"4GiB\"\n";

    /// The name of the best of `schedules` of [`QUESTION`], how much faster than 1F1B each is, and its span.
    fn asked(schedules: &str) -> (Option<String>, Vec<Option<f64>>, Vec<u64>) {
        let text = format!("schedule = [{schedules}]\n{QUESTION}").into_bytes();
        let host: BTreeMap<PathBuf, Vec<u8>> = [("question.toml".into(), text)].into();
        let context = Context::new(&host);
        let file = Some(Path::new("question.toml"));
        let scenario = Scenario::asked(&context, file, &Keys::default()).unwrap();
        let answers = simulate(&context, &scenario, Wants::default()).unwrap();
        let name = best(&answers.outcomes).map(|at| answers.outcomes[at].case.name.clone());
        context.take_warnings();
        let speedups = speedups(&context, &scenario, &answers);
        assert!(context.take_warnings().is_empty());
        (name, speedups, answers.outcomes.iter().map(|one| one.metrics.span().0).collect())
    }

    #[test]
    fn the_best_fits_and_trains_as_the_others() {
        // ZB-H2 needs more than there is, and PipeDream never flushes: both are faster.
        let (name, _, spans) = asked("\"zb-h1\", \"1f1b\", \"zb-h2\", \"pipedream\"");
        assert_eq!(name.as_deref(), Some("zb-h1"));
        assert!(spans[2] < spans[0] && spans[3] < spans[0], "{spans:?}");
        assert_eq!(asked("\"pipedream\"").0, None);
        assert_eq!(asked("\"zb-h2\"").0, None);
        // Of equals, the first.
        assert_eq!(asked("\"zb-1p\", \"zb-h1\"").0.as_deref(), Some("zb-1p"));
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn speedups_are_those_over_1f1b_whether_or_not_it_is_asked() {
        let (_, with, spans) = asked("\"1f1b\", \"zb-h1\", \"pipedream\"");
        assert_eq!(with, [Some(1.0), Some(spans[0] as f64 / spans[1] as f64), None]);
        let (_, without, _) = asked("\"zb-h1\", \"pipedream\"");
        assert_eq!(without, with[1..]);
    }
}
