//! One search on a cluster, or over several steps.

use pipeline::Schedule;
use question::case;
use question::scenario::{Scenario, Setting};
use question::search::SearchKeys;
use question::{Context, Diagnostic, format};
use search::{Effort, Figure};

use super::{Improvements, SearchRow, late, warn_of_clock};

/// How many searches where no link is shared one on hardware takes about as long as.
pub(super) const SEARCHES: u128 = 4;

/// Searches the best order for `setting` on its hardware, from the `earlier` ones of other limits on, too;
/// `seen` hears of what it has by then.
///
/// # Errors
/// The errors of [`case::search_on_hardware`].
pub(super) fn row(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    keys: &SearchKeys,
    figure: Figure,
    (earlier, seen): (&[SearchRow], &Improvements<'_>),
) -> Result<SearchRow, Diagnostic> {
    let late = late(context, keys);
    let stop = || context.stopped() || late();
    let same = earlier.iter().filter(|row| row.setting() == setting.name.as_deref());
    let known: Vec<&Schedule> = same.map(|row| &row.searched.found.schedule).collect();
    let asked = case::SearchOnHardware {
        placement: keys.placement(),
        figure,
        known: &known,
        effort: Effort { times: keys.times(), seed: setting.keys.seed.unwrap_or(0) },
        stop: &stop,
    };
    let work = context.host().begin(1, "");
    let (searched, found) = case::search_on_hardware(context, scenario, setting, &asked, |now| {
        // Of every search as many steps as of the one under way.
        if let Some(all) = now.of.zip(now.now.of).map(|(searches, of)| searches.saturating_mul(of))
        {
            work.set_length(all);
        }
        let before = now.now.of.map_or(0, |of| now.searches.saturating_mul(of));
        let steps = before.saturating_add(now.now.steps);
        work.set_position(steps);
        if let Some(best) = now.best {
            seen.see(best, None, steps);
        }
        work.set_message(match now.best {
            Some(best) => {
                format!(
                    "passes, best {} {} by the engine",
                    keys.objective.name(),
                    format::time(best)
                )
            }
            None => format!("passes, no link shared, best {}", format::time(now.now.best)),
        });
    })?;
    warn_of_clock(context, keys, found.interrupted);
    let mut row = SearchRow::of(searched, None, keys.objective, setting)?;
    row.on_hardware = Some(found);
    Ok(row)
}
