//! The answer about schedules side by side, in a sentence for each setting.

use pipeline::{Bytes, Limits, Nanos};
use question::format;

use super::Answers;
use super::best::{BASELINE, best, step};
use crate::headline::{self, MOST_SENTENCES};
use crate::outcome::Outcome;

impl Answers {
    /// The best schedule of each setting with its figures, a line each; of many settings, how often each schedule is
    /// the best. The best has the shortest step of those that train synchronously and keep their memory limits.
    #[must_use]
    pub fn headline(&self) -> String {
        let settings = self.by_setting();
        let settings: Vec<&[Outcome]> =
            settings.into_iter().filter(|setting| !setting.is_empty()).collect();
        if settings.len() > MOST_SENTENCES {
            return counted(&settings);
        }
        let set = |setting: &[Outcome]| {
            let count = synchronous(setting).count();
            let kind = if count < setting.len() { "synchronous " } else { "" };
            match self.all {
                true => format!("the {count} {kind}schedules that apply"),
                false => format!("these {count} {kind}schedules"),
            }
        };
        let lines = settings.iter().map(|setting| {
            let name = setting[0].case.setting.as_ref();
            let name = name.map_or_else(String::new, |name| format!("{name}: "));
            name + &sentence(setting, &set(setting))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Whether anything limits the memory of one of `outcomes`.
fn is_limited<'a>(mut outcomes: impl Iterator<Item = &'a Outcome>) -> bool {
    outcomes.any(|one| one.fits_in_memory().is_some())
}

fn synchronous(setting: &[Outcome]) -> impl Iterator<Item = &Outcome> {
    setting.iter().filter(|one| !one.is_asynchronous())
}

/// The best of the outcomes of a `setting`, which `set` describes, such as "these 5 schedules".
#[must_use]
pub fn sentence(setting: &[Outcome], set: &str) -> String {
    let all: Vec<&Outcome> = synchronous(setting).collect();
    match (best(setting).map(|at| &setting[at]), all.as_slice()) {
        (None, []) => {
            "Asynchronous schedules only: they update stale weights, so no step is compared."
                .to_owned()
        }
        (None, [only]) => format!("{} does not fit: peak {}.", only.case.name, peak(only)),
        (None, all) => {
            let least = all.iter().min_by(|a, b| super::memory(a).total_cmp(&super::memory(b)));
            let least = least.map_or_else(String::new, |one| {
                format!(" {} holds least: {}.", one.case.name, peak(one))
            });
            format!("None of {set} fits the memory limit.{least}")
        }
        (Some(only), [_]) => format!("{}: {}.", only.case.name, figures(only)),
        (Some(best), all) => {
            let fit = if is_limited(all.iter().copied()) { "Best that fits," } else { "Best" };
            let faster = faster(best, all);
            format!("{fit} of {set}: {}, {}{faster}.", best.case.name, figures(best))
        }
    }
}

/// Bubble, step and peak memory of `outcome`.
fn figures(outcome: &Outcome) -> String {
    let bubble = format::percent(outcome.metrics.bubble_rate());
    let span = match &outcome.monte_carlo {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(all) => {
            let mean = format::time(Nanos(all.span.mean.round() as u64));
            format!("mean span {} over {} replicas", mean.trim(), all.replicas)
        }
        None => format!("span {}", format::time(outcome.metrics.span()).trim()),
    };
    format!("{bubble} bubble, {span}, peak {}", peak(outcome))
}

/// The peak memory of `outcome`, and its limit where all stages have the same.
fn peak(outcome: &Outcome) -> String {
    let (stage, peak) = outcome.worst();
    let words = |bytes: Bytes| outcome.size_in_words(bytes);
    let limits = outcome.case.limits.as_ref();
    match (limits.and_then(Limits::same), limits) {
        (Some(limit), _) => format!("{} of {}", words(peak), words(limit)),
        (None, Some(limits)) => match outcome.memory.over(limits) {
            None => format!("{}, within the limits of all stages", words(peak)),
            Some(_) => format!("{} on stage {stage}", words(peak)),
        },
        (None, None) => words(peak),
    }
}

/// How much faster than 1F1B `best` is, where that is among `all` and fits.
fn faster(best: &Outcome, all: &[&Outcome]) -> String {
    let fits = |one: &&&Outcome| one.fits_in_memory() != Some(false);
    let baseline = all.iter().filter(fits).find(|one| one.case.name == BASELINE.name());
    match baseline.filter(|one| one.case.name != best.case.name) {
        Some(one) => {
            format!(", {:.2} times as fast as {}", step(one) / step(best), BASELINE.name())
        }
        None => String::new(),
    }
}

/// How often each schedule is the best of a setting.
fn counted(settings: &[&[Outcome]]) -> String {
    let limited = is_limited(settings.iter().copied().flatten());
    let what = if limited { "Best schedule that fits," } else { "Best schedule" };
    let name = |setting: &&[Outcome]| best(setting).map(|at| setting[at].case.name.clone());
    headline::counted(what, &settings.iter().map(name).collect::<Vec<_>>())
}
