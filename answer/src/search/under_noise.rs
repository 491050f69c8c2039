//! One search under noise.

use pipeline::{Nanos, Schedule};
use question::case;
use question::scenario::{Scenario, Setting};
use question::search::SearchKeys;
use question::{Context, Diagnostic, format};
use search::{Effort, ProgressUnderNoise, Statistic};

use super::{Improvements, SearchRow, late, warn_of_clock};

/// How many nominal searches one under noise takes about as long as.
pub(super) const SEARCHES: u128 = 10;

/// Searches the best order for `setting` under its noise, from the `earlier` ones of other limits on, too;
/// `seen` hears of what it has by then.
///
/// # Errors
/// The errors of [`case::search_under_noise`].
pub(super) fn row(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    keys: &SearchKeys,
    statistic: Statistic,
    (earlier, seen): (&[SearchRow], &Improvements<'_>),
) -> Result<SearchRow, Diagnostic> {
    let late = late(context, keys);
    let stop = || context.stopped() || late();
    let same = earlier.iter().filter(|row| row.setting() == setting.name.as_deref());
    let known: Vec<&Schedule> = same.map(|row| &row.searched.found.schedule).collect();
    let asked = case::SearchUnderNoise {
        placement: keys.placement(),
        statistic,
        effort: Effort { times: keys.times(), seed: setting.keys.seed.unwrap_or(0) },
        known: &known,
        stop: &stop,
    };
    let work = context.host().begin(1, "");
    let (searched, found) = case::search_under_noise(context, scenario, setting, &asked, |now| {
        let (steps, of) = match now {
            ProgressUnderNoise::Nominal(now) => (now.steps, now.of),
            ProgressUnderNoise::Local { steps, of, .. } => (steps, of),
        };
        if let Some(all) = of {
            work.set_length(all);
        }
        work.set_position(steps);
        if let ProgressUnderNoise::Local { best, .. } = now {
            seen.see(whole(best), None, steps);
        }
        work.set_message(match now {
            ProgressUnderNoise::Nominal(now) => {
                format!("passes, without noise, best {}", format::time(now.best))
            }
            ProgressUnderNoise::Local { best, .. } => {
                let name = keys.objective.name();
                format!("passes, under noise, best {name} {}", format::time(whole(best)))
            }
        });
    })?;
    warn_of_clock(context, keys, found.interrupted);
    let mut row = SearchRow::of(searched, None, keys.objective, setting)?;
    row.under_noise = Some(found);
    Ok(row)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // No time is below zero.
fn whole(nanos: f64) -> Nanos {
    Nanos(nanos.round() as u64)
}
