//! Searches whose orders were chosen by simulations with all keys, for people.

use pipeline::Nanos;
use question::format;
use question::sheet::Sheet;

use super::SearchRow;
use crate::search::joint_choice::gain;
use crate::search::{Simulated, SimulatedFigures};
use crate::solution::Solution;

/// Adds to `sheet` the results of such searches among `rows`.
pub(super) fn tell(sheet: &mut Sheet, rows: &[SearchRow]) {
    let all = rows.iter().filter_map(|row| Some((row, row.simulated.as_ref()?)));
    let all: Vec<(&SearchRow, &Simulated)> = all.collect();
    for (row, simulated) in &all {
        sheet.push_text(&in_words(row, simulated));
    }
    if !all.is_empty() {
        sheet.push_text(
            "\nsimulated: by `debubble simulate` with the same keys; orders are found without those that are named, and \
             chosen by simulations with them. The first table leaves these keys out.\n",
        );
    }
}

/// The result of one.
fn in_words(row: &SearchRow, simulated: &Simulated) -> String {
    let name = row.named("", row.objective.name());
    let Simulated { keys, figures, simulated } = simulated;
    let with = format!("simulated with {}, {simulated} orders", keys.join(", "));
    match figures {
        Some(figures) => format!("\n{name}: {}", of_figures(figures, &row.solution(), &with)),
        None => format!("\n{name}: {with}\n"),
    }
}

fn of_figures(figures: &SimulatedFigures, solution: &Solution, with: &str) -> String {
    let SimulatedFigures { value, nominal, published, bound, is_nominal } = figures;
    let share = |more: Nanos| format::percent(gain(*value, more));
    let nominal = match nominal {
        None => "the order found without these keys does not keep to its memory".to_owned(),
        Some(_) if *is_nominal => {
            "no order was found that beats the one found without these keys: it is the answer"
                .to_owned()
        }
        Some(nominal) => format!("{} below the order found without these keys", share(*nominal)),
    };
    let published = match published {
        None => ", no published schedule fits".to_owned(),
        Some((family, one)) if one == value => format!("; {} takes as long", family.name()),
        Some((family, one)) => format!(", {} below {}", share(*one), family.name()),
    };
    let with_or_without = if bound.is_some() { ", with or without these keys" } else { "" };
    let bound = format!("{}{with_or_without}", solution.against_bound());
    format!("{} ({with})\n  {nominal}{published}\n  {bound}\n", format::time(*value))
}
