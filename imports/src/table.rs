//! Tables of the arguments of frameworks, as data.
//!
//! A row of `tables/NAME.csv` is an argument: its names, today's in front of older ones; its value; what becomes of it;
//! and what it may cost that a plan does not model it, or none but the values that the row names. What becomes of it is
//! `harmless`, `not modelled`, `not planned` (layers that no plan knows), `read` or `model` where code reads it, or the
//! section and the key of a question that it sets. Its value is `switch`, `value`, `but A B` (any, these being harmless),
//! `has`, `either`, `whole`, `positive`, `degree`, `=KEY'S VALUE`, or choices `ITS=KEY'S`, where an empty one sets none.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// Arguments of Megatron-LM, its forks and the launchers of its scripts, and their names in Primus and in recipes.
pub(super) static MEGATRON: LazyLock<Table> =
    LazyLock::new(|| Table::of(include_str!("tables/megatron.csv")));
/// Keys of torchtitan.
pub(super) static TORCHTITAN: LazyLock<Table> =
    LazyLock::new(|| Table::of(include_str!("tables/torchtitan.csv")));
/// Keys of MaxText.
pub(super) static MAXTEXT: LazyLock<Table> =
    LazyLock::new(|| Table::of(include_str!("tables/maxtext.csv")));
/// Keys of SimuMax and Calculon.
pub(super) static SIMULATORS: LazyLock<Table> =
    LazyLock::new(|| Table::of(include_str!("tables/simulators.csv")));
/// Arguments of slime.
pub(super) static SLIME: LazyLock<Table> =
    LazyLock::new(|| Table::of(include_str!("tables/slime.csv")));
/// Keys of NeMo-RL.
pub(super) static NEMO_RL: LazyLock<Table> =
    LazyLock::new(|| Table::of(include_str!("tables/nemo-rl.csv")));

/// Sections of sizes of a model.
const OF_MODEL: [&str; 8] =
    ["model", "groups", "heads", "latents", "indexer", "linear", "mamba", "experts"];

/// The arguments of a framework.
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    of_name: BTreeMap<String, usize>,
}

/// An argument.
#[derive(Deserialize)]
pub(super) struct Row {
    names: String,
    pub(super) value: String,
    /// What becomes of it.
    #[serde(rename = "use")]
    pub(super) usage: String,
    /// What it may cost that a plan does not model it.
    pub(super) cost: String,
}

impl Table {
    fn of(text: &str) -> Self {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        // A test reads each of them.
        let rows: Vec<Row> = reader.deserialize().filter_map(Result::ok).collect();
        let all = rows.iter().enumerate();
        let names = all.flat_map(|(at, row)| row.names().map(move |name| (name.to_owned(), at)));
        Self { of_name: names.collect(), rows }
    }

    /// The row of the argument `name`.
    pub(super) fn row(&self, name: &str) -> Option<&Row> {
        self.of_name.get(name).and_then(|at| self.rows.get(*at))
    }

    /// The rows that set keys of a `section` of a question, each with its key.
    pub(super) fn section(&self, section: &str) -> impl Iterator<Item = (&Row, &str)> {
        let key = move |row: &Row| row.usage.strip_prefix(section)?.strip_prefix('.').map(str::len);
        self.rows.iter().filter_map(move |row| {
            let at = row.usage.len() - key(row)?;
            Some((row, &row.usage[at..]))
        })
    }
}

impl Row {
    /// Its names, today's in front.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.names.split(' ')
    }

    /// The name of today.
    pub(super) fn name(&self) -> &str {
        self.names().next().unwrap_or_default()
    }

    /// Whether the argument has no value.
    pub(super) fn is_switch(&self) -> bool {
        matches!(self.value.as_str(), "switch" | "has" | "either") || self.value.starts_with('=')
    }

    /// Whether it is about sizes of the model.
    pub(super) fn is_of_model(&self) -> bool {
        self.usage.split('.').next().is_some_and(|section| OF_MODEL.contains(&section))
    }

    /// Whether nothing is left out where the argument has this `value`.
    pub(super) fn is_harmless(&self, value: &str) -> bool {
        match self.value.as_str() {
            _ if self.usage == "harmless" => true,
            "degree" => value == "1",
            list => match list.strip_prefix("but ") {
                Some(list) => value.is_empty() || list.split(' ').any(|own| own == value),
                None => self.choice(value).is_some(),
            },
        }
    }

    /// What the key of a choice is set to by `value`.
    pub(super) fn choice(&self, value: &str) -> Option<&str> {
        self.value.split(' ').find_map(|own| own.strip_prefix(value)?.strip_prefix('='))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_has_one_row_and_every_row_a_meaning() {
        for (table, text) in [
            (&MEGATRON, include_str!("tables/megatron.csv")),
            (&TORCHTITAN, include_str!("tables/torchtitan.csv")),
            (&MAXTEXT, include_str!("tables/maxtext.csv")),
            (&SIMULATORS, include_str!("tables/simulators.csv")),
            (&SLIME, include_str!("tables/slime.csv")),
            (&NEMO_RL, include_str!("tables/nemo-rl.csv")),
        ] {
            let lines = text.lines().filter(|line| !line.starts_with('#')).count();
            assert_eq!(table.rows.len(), lines - 1);
            assert_eq!(
                table.of_name.len(),
                table.rows.iter().map(|row| row.names().count()).sum::<usize>()
            );
            for row in &table.rows {
                let name = row.name();
                assert!(
                    row.names().all(|name| !name.is_empty() && !name.contains(['*', '_'])),
                    "{name}"
                );
                let is_key = row.usage.contains('.');
                let words = ["harmless", "not modelled", "not planned", "read", "model"];
                assert!(is_key || words.contains(&row.usage.as_str()), "{name}: {}", row.usage);
                assert!(row.usage != "not modelled" || !row.cost.is_empty(), "{name}");
                assert!(
                    is_key || !row.value.contains('=') || row.value.starts_with("but "),
                    "{name}"
                );
                let kinds = ["has", "either", "whole", "positive", "degree", "number"];
                let is_choice = row.value.split(' ').all(|own| own.contains('='));
                assert!(!is_key || kinds.contains(&row.value.as_str()) || is_choice, "{name}");
            }
        }
    }
}
