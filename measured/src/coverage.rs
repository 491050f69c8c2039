//! Coverage: the share of measured steps inside the intervals that plans would have had without them.
//!
//! Each source is left out as a whole: constants are fitted without it, and its rows are in no pool. So
//! its configurations stand for the runs of a user without any measurement. Those that are set apart count
//! like all others, and once more by the reason.

use std::collections::BTreeMap;

use question::sheet::Sheet;
use question::table;
use serde::Serialize;

use super::error_bar::scores;
use super::interval::Pool;
use super::quantities::is_step;
use super::set_errors::SetErrors;
use super::{Row, ValidatedSet};
use crate::accuracy;

/// Why a configuration has no interval.
const NO_POOL: &str = "no interval (nothing was measured of its generation of devices)";

/// Why a configuration is set apart, if it is; whether it is inside its interval, and half the width, if it has one.
type Held = (Option<String>, Option<(bool, f64)>);

/// The intervals of the configurations of one source, with the source left out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Coverage {
    pub source: String,
    /// Its configurations that have an interval, those set apart among them.
    pub configurations: usize,
    /// How many of them are inside their intervals.
    pub covered: usize,
    /// The median of half the widths of the intervals, as a share of the predicted step.
    pub half_width: f64,
    /// Those that are set apart, by reason.
    pub apart: Vec<SetApart>,
    /// All of them.
    #[serde(skip)]
    held: Vec<Held>,
}

/// Configurations that are set apart for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SetApart {
    pub reason: String,
    /// How many there are.
    pub configurations: usize,
    /// How many of them are inside their intervals; none where they have none.
    pub covered: Option<usize>,
}

impl Coverage {
    fn of(source: &str, held: Vec<Held>) -> Self {
        let widths: Vec<f64> = held.iter().filter_map(|(_, held)| Some(held.as_ref()?.1)).collect();
        let mut reasons: BTreeMap<&str, Vec<Option<usize>>> = BTreeMap::new();
        for (reason, held) in &held {
            let own = reason.as_ref().map(|reason| reasons.entry(reason).or_default());
            own.into_iter().for_each(|own| own.push(held.map(|(is_inside, _)| is_inside.into())));
        }
        let apart = reasons.into_iter().map(|(reason, held)| SetApart {
            reason: reason.to_owned(),
            configurations: held.len(),
            covered: held.into_iter().sum(),
        });
        Self {
            source: source.to_owned(),
            configurations: widths.len(),
            covered: held.iter().filter(|one| matches!(one.1, Some((true, _)))).count(),
            half_width: accuracy::median(&widths),
            apart: apart.collect(),
            held,
        }
    }

    /// The same without those that are set apart.
    fn plain(&self) -> Self {
        let plain = self.held.iter().filter(|(apart, _)| apart.is_none());
        Self::of("", plain.cloned().collect())
    }
}

/// `part of all, share`; a dash of nothing.
fn share(part: usize, all: usize) -> String {
    let percent = 100.0 * plan::number(part as u64) / plan::number(all as u64);
    if all == 0 { "-".to_owned() } else { format!("{part} of {all}, {percent:.0} %") }
}

/// The part of the name of a set that says whose it is.
fn source(set: &str) -> &str {
    set.split(", ").next().unwrap_or(set)
}

/// The coverage of each source of `sets` with intervals from all others and from those `recorded`.
/// `without_step` are the sources of further lines whose steps cannot be compared, with the reasons.
pub(super) fn coverage(
    sets: &[ValidatedSet],
    recorded: &[SetErrors],
    without_step: &[(String, String)],
) -> Vec<Coverage> {
    let mut names: Vec<&str> = Vec::new();
    for set in sets.iter().filter(|set| !set.rows.is_empty()) {
        if !names.contains(&source(set.set)) {
            names.push(source(set.set));
        }
    }
    let known = || sets.iter().flat_map(|set| &set.kinds).chain(recorded);
    let one = |name: &str| {
        let others: Vec<SetErrors> =
            known().filter(|set| source(&set.set) != name).cloned().collect();
        let mut held = held(sets.iter().filter(|set| source(set.set) == name), &others);
        let further = without_step.iter().filter(|(of, _)| of == name);
        held.extend(further.map(|(_, reason)| (Some(reason.clone()), None)));
        Coverage::of(name, held)
    };
    names.into_iter().map(one).collect()
}

/// The configurations of `sets`. Repeats that are set apart are not averaged with the others.
fn held<'a>(sets: impl Iterator<Item = &'a ValidatedSet>, others: &[SetErrors]) -> Vec<Held> {
    let steps = sets.flat_map(|set| set.rows.iter().map(move |row| (set.apart(row), row)));
    let mut by_configuration: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for (apart, row) in steps.filter(|(_, row)| is_step(row.quantity)) {
        by_configuration.entry((&row.kind, &row.configuration, apart)).or_default().push(row);
    }
    let interval = |kind: &str, rows: &[&Row]| {
        let [below, above] = Pool::of(kind, others)?.interval(kind, rows.first()?.step);
        let own = *scores(rows).first()?;
        Some((below <= own && own <= above, (libm::exp(above) - libm::exp(below)) / 2.0))
    };
    let held = |((kind, _, apart), rows): ((&String, _, Option<&str>), Vec<&Row>)| {
        let interval = interval(kind, &rows);
        (apart.or(interval.is_none().then_some(NO_POOL)).map(str::to_owned), interval)
    };
    by_configuration.into_iter().map(held).collect()
}

/// A line for each source and one for all, with those set apart and without; then those set apart, by reason.
#[must_use]
pub fn sheet(sets: &[ValidatedSet]) -> Sheet {
    let all: Vec<&Coverage> = sets.iter().flat_map(|set| &set.coverage).collect();
    if all.is_empty() {
        return Sheet::default();
    }
    let together = all.iter().flat_map(|one| one.held.clone()).collect();
    let together = Coverage::of("all", together);
    let reasons = all.iter().flat_map(|of| of.apart.iter().map(move |one| (&of.source, one)));
    let reasons = table!(
        (source, one) = reasons,
        "set apart" = format!("{source}: {}", one.reason),
        "configurations" = one.configurations,
        "in the interval" = one.covered.map(|covered| share(covered, one.configurations)),
    );
    of_sources(all.iter().copied().chain([&together])).and(reasons.under_a_gap()).under_a_gap()
}

/// A line for each source.
fn of_sources<'a>(all: impl Iterator<Item = &'a Coverage>) -> Sheet {
    table!(
        (one, plain) = all.map(|one| (one, one.plain())),
        "source left out" = one.source,
        "configurations" = one.configurations,
        "in the interval" = share(one.covered, one.configurations),
        "half its width" = format!("{:.0} %", 100.0 * one.half_width),
        "set apart" = one.configurations - plain.configurations,
        "without those set apart" = share(plain.covered, plain.configurations),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use question::Context;

    use super::super::{ValidationQuestion, validate};
    use super::*;

    #[test]
    fn no_configuration_is_left_out() {
        let host: BTreeMap<std::path::PathBuf, Vec<u8>> = BTreeMap::new();
        let validated = validate(&Context::new(&host), &ValidationQuestion::default()).unwrap();
        let all: Vec<&Coverage> = validated.sets.iter().flat_map(|set| &set.coverage).collect();
        let names: Vec<&str> = all.iter().map(|one| one.source.as_str()).collect();
        assert!(names.contains(&"ccl-bench"), "{names:?}");
        for of in &all {
            let sets = validated.sets.iter().filter(|set| source(set.set) == of.source);
            let steps = sets.flat_map(|set| set.rows.iter().map(move |row| (set.apart(row), row)));
            let steps = steps.filter(|(_, row)| is_step(row.quantity));
            let own: BTreeSet<_> =
                steps.map(|(apart, row)| (&row.kind, &row.configuration, apart)).collect();
            assert_eq!(own.len(), of.configurations, "{}", of.source);
            let reasons: BTreeSet<&str> = own.iter().filter_map(|(.., apart)| *apart).collect();
            let told = of.apart.iter().filter(|one| one.covered.is_some());
            assert_eq!(told.map(|one| one.reason.as_str()).collect::<BTreeSet<_>>(), reasons);
        }
        // 95 % are promised: of vTrain's small models on one node, which are most of all rows, fewer hold.
        let own = all.iter().filter(|of| !["vTrain", "ccl-bench"].contains(&of.source.as_str()));
        let held: Vec<&Held> =
            own.flat_map(|of| &of.held).filter(|(apart, _)| apart.is_none()).collect();
        let known: Vec<(bool, f64)> = held.iter().filter_map(|(_, held)| *held).collect();
        let inside = known.iter().filter(|(is_inside, _)| *is_inside).count();
        let widths: Vec<f64> = known.iter().map(|(_, width)| *width).collect();
        assert!(known.len() >= 270 && inside * 100 >= 94 * known.len(), "{inside}");
        assert!(accuracy::median(&widths) <= 0.18);
        // Lines that are not runs, and runs without a step, are named.
        let further = all.iter().flat_map(|of| &of.apart).filter(|one| one.covered.is_none());
        let further: usize = further.map(|one| one.configurations).sum();
        let without_step = validated.today.unwrap().without_step();
        assert!(further == without_step.len() && further > 80, "{without_step:?}");
    }

    #[test]
    fn those_set_apart_count_and_those_without_an_interval_are_named() {
        let apart = |reason: &str| Some(reason.to_owned());
        let held = vec![
            (None, Some((true, 0.2))),
            (apart("slow"), Some((false, 0.2))),
            (apart("slow"), Some((true, 0.4))),
            (apart("not predicted (unknown)"), None),
        ];
        let one = Coverage::of("own", held);
        let (_, rows) = of_sources([&one].into_iter()).into_rows();
        assert_eq!(rows, [["own", "3", "2 of 3, 67 %", "20 %", "2", "1 of 1, 100 %"]]);
        let told: Vec<_> = one.apart.iter().map(|one| (one.configurations, one.covered)).collect();
        assert_eq!(told, [(1, None), (2, Some(1))]);
    }

    #[test]
    fn a_row_without_a_pool_is_named() {
        let path = std::path::PathBuf::from("own.csv");
        let text = scenarios::PAPER.text("megatron2021.csv");
        let host = BTreeMap::from([(path.clone(), text.as_bytes().to_vec())]);
        let question = ValidationQuestion { built_in: false, files: vec![path] };
        let sets = validate(&Context::new(&host), &question).unwrap().sets;
        let found = &coverage(&sets, &[], &[])[0];
        assert_eq!((found.configurations, found.apart[0].configurations), (0, 5));
        assert_eq!(found.apart[0].reason, NO_POOL);
    }
}
