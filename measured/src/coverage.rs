//! Coverage: the share of measured steps inside the intervals that plans would have had without them.
//!
//! Each source is left out as a whole: constants are fitted without it, and its rows are in no pool. So
//! its configurations stand for the runs of a user without any measurement.

use std::collections::BTreeMap;

use question::format;
use question::sheet::Sheet;
use serde::Serialize;

use super::error_bar::scores;
use super::interval::Pool;
use super::quantities::is_step;
use super::set_errors::SetErrors;
use super::{Row, ValidatedSet};
use crate::accuracy;

/// The intervals of the configurations of one source, with the source left out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Coverage {
    /// The source.
    pub source: String,
    /// Its configurations.
    pub configurations: usize,
    /// How many of them are inside their intervals.
    pub covered: usize,
    /// The median of half the widths of the intervals, as a share of the predicted step.
    pub half_width: f64,
    /// All of them.
    #[serde(skip)]
    half_widths: Vec<f64>,
}

/// The part of the name of a set that says whose it is.
fn source(set: &str) -> &str {
    set.split(", ").next().unwrap_or(set)
}

/// The coverage of each source of `sets` with intervals from all others and from those `recorded`.
pub(super) fn coverage(sets: &[ValidatedSet], recorded: &[SetErrors]) -> Vec<Coverage> {
    let mut names: Vec<&str> = Vec::new();
    for set in sets.iter().filter(|set| !set.kinds.is_empty()) {
        if !names.contains(&source(set.set)) {
            names.push(source(set.set));
        }
    }
    let known = || sets.iter().flat_map(|set| &set.kinds).chain(recorded);
    let one = |name: &str| {
        let others: Vec<SetErrors> =
            known().filter(|set| source(&set.set) != name).cloned().collect();
        let own = sets.iter().filter(|set| source(set.set) == name);
        of_source(name, own.flat_map(|set| &set.rows), &others)
    };
    names.into_iter().map(one).collect()
}

fn of_source<'a>(
    name: &str,
    rows: impl Iterator<Item = &'a Row>,
    others: &[SetErrors],
) -> Coverage {
    let mut by_configuration: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows.filter(|row| is_step(row.quantity) && row.apart.is_none()) {
        by_configuration.entry((&row.kind, &row.configuration)).or_default().push(row);
    }
    let interval = |(kind, _): &(&str, &str), rows: &[&Row]| {
        let pool = Pool::of(kind, others)?;
        let [below, above] = pool.interval(kind, rows.first()?.step);
        Some((below, above, *scores(rows).first()?))
    };
    let found: Vec<(f64, f64, f64)> =
        by_configuration.iter().filter_map(|(key, rows)| interval(key, rows)).collect();
    let half_widths: Vec<f64> = found
        .iter()
        .map(|(below, above, _)| (libm::exp(*above) - libm::exp(*below)) / 2.0)
        .collect();
    Coverage {
        source: name.to_owned(),
        configurations: found.len(),
        covered: found.iter().filter(|(below, above, own)| below <= own && own <= above).count(),
        half_width: accuracy::median(&half_widths),
        half_widths,
    }
}

/// The share of all configurations inside their intervals, and the median half-width of the intervals.
pub(super) fn of_all(all: &[Coverage]) -> (f64, f64) {
    let sum = |of: fn(&Coverage) -> usize| plan::number(all.iter().map(of).sum::<usize>() as u64);
    let widths: Vec<f64> = all.iter().flat_map(|one| one.half_widths.clone()).collect();
    (sum(|one| one.covered) / sum(|one| one.configurations).max(1.0), accuracy::median(&widths))
}

/// A line for each source, and one for all.
pub(super) fn sheet(all: &[Coverage]) -> Sheet {
    if all.is_empty() {
        return Sheet::default();
    }
    let line = |one: &Coverage| {
        let share =
            plan::number(one.covered as u64) / plan::number(one.configurations.max(1) as u64);
        let cells = [
            one.configurations.to_string(),
            format::percent(share),
            format::percent(one.half_width),
        ];
        std::iter::once(one.source.clone()).chain(cells).collect::<Vec<_>>()
    };
    let (share, width) = of_all(all);
    let count: usize = all.iter().map(|one| one.configurations).sum();
    let last =
        vec!["all".to_owned(), count.to_string(), format::percent(share), format::percent(width)];
    let header = ["source left out", "configurations", "in the interval", "half its width"];
    Sheet::table(&header, all.iter().map(line).chain([last])).under_a_gap()
}
