//! The sets of measurements: what each is held to.

use std::collections::BTreeMap;

use super::Row;
use scenarios::PAPER;

/// The measurements that are built in: the path of each file in the project, and its text.
pub(super) const BUILT_IN: [(&str, &str); 5] = [
    ("scenarios/paper/megatron2021.csv", PAPER.text("megatron2021.csv")),
    ("scenarios/paper/korthikanti2022.csv", PAPER.text("korthikanti2022.csv")),
    ("scenarios/paper/zb-throughput.csv", PAPER.text("zb-throughput.csv")),
    ("scenarios/paper/megatron2021-zero3.csv", PAPER.text("megatron2021-zero3.csv")),
    ("scenarios/paper/vocabulary-tables.csv", PAPER.text("vocabulary-tables.csv")),
];

/// The weaknesses of the planner that the errors show.
pub(super) const WEAK: &str = "\
Where it is weak: small models on one node, where the host's launches and small collectives decide
(a row may be off by 30 %); tensor groups of 2 and 4 beside many replicas or stages, whose rings meet
on NICs (up to 40 %); runs that thrash in memory or wait for something that sizes do not show.";

/// A set of measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Set {
    Megatron,
    Korthikanti,
    ZeroBubble,
    Zero3,
    Vocabulary,
    SingleNode,
    MultiNode,
}

/// Whether `quantity` says how long an iteration takes.
pub(super) fn is_step(quantity: &str) -> bool {
    [TIME, SHARDED, SPEED].contains(&quantity)
}

/// How far predictions of a quantity may be off.
pub(super) struct Limits {
    pub(super) quantity: &'static str,
    pub(super) mean: f64,
    pub(super) max: Option<f64>,
    /// Whether errors are differences, of percentages, rather than shares.
    pub(super) points: bool,
}

impl Limits {
    /// How far `row` is off.
    pub(super) fn error(&self, row: &Row) -> f64 {
        if self.points { (row.predicted - row.measured) / 100.0 } else { row.error }
    }
}

pub(super) const TIME: &str = "s per iteration";
/// Of ZeRO-3, whose predictions are known to be far off.
pub(super) const SHARDED: &str = "s per iteration, ZeRO 3";
pub(super) const MFU: &str = "MFU %, measured time";
pub(super) const HFU: &str = "HFU %, measured time";
pub(super) const SPEED: &str = "samples/GPU/s";
pub(super) const MEMORY: &str = "peak GB";

const fn limits(quantity: &'static str, mean: f64, max: Option<f64>) -> Limits {
    Limits { quantity, mean, max, points: false }
}

/// Utilisations by their definition, which allow no more than rounding.
const fn points(quantity: &'static str, most: f64) -> Limits {
    Limits { quantity, mean: most, max: Some(most), points: true }
}

impl Set {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Megatron => "Megatron-LM 2021, table 1",
            Self::Korthikanti => "Korthikanti 2022",
            Self::ZeroBubble => "Zero Bubble, table 4",
            Self::Zero3 => "Megatron-LM 2021, table 2",
            Self::Vocabulary => "Vocabulary Parallelism, tables 5 and 6",
            Self::SingleNode => "vTrain, one node",
            Self::MultiNode => "vTrain, many nodes",
        }
    }

    /// The quantities that are held against measurements.
    pub(super) const fn quantities(self) -> &'static [Limits] {
        const MEGATRON: [Limits; 2] = [limits(TIME, 0.05, Some(0.12)), points(HFU, 0.003)];
        const KORTHIKANTI: [Limits; 3] =
            [limits(TIME, 0.05, Some(0.12)), points(MFU, 0.003), points(HFU, 0.003)];
        const ZERO_BUBBLE: [Limits; 2] =
            [limits(SPEED, 0.05, None), limits(MEMORY, 0.10, Some(0.10))];
        const ZERO_3: [Limits; 2] =
            [limits(TIME, 0.05, Some(0.12)), limits(SHARDED, 0.60, Some(0.75))];
        const VOCABULARY: [Limits; 1] = [limits(TIME, 0.10, Some(0.20))];
        const SINGLE: [Limits; 1] = [limits(TIME, 0.10, None)];
        const MULTI: [Limits; 1] = [limits(TIME, 0.08, None)];
        match self {
            Self::Megatron => &MEGATRON,
            Self::Korthikanti => &KORTHIKANTI,
            Self::ZeroBubble => &ZERO_BUBBLE,
            Self::Zero3 => &ZERO_3,
            Self::Vocabulary => &VOCABULARY,
            Self::SingleNode => &SINGLE,
            Self::MultiNode => &MULTI,
        }
    }

    /// Whether schedules come in the measured order in every group of runs: the only thing that a
    /// user who chooses among them needs.
    pub(super) fn orders_hold(self, rows: &[Row]) -> bool {
        if self != Self::ZeroBubble {
            return true;
        }
        let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.quantity == SPEED) {
            let group = row.run.rsplit_once(' ').map_or("", |(group, _)| group);
            groups.entry(group).or_default().push(row);
        }
        groups.values().all(|group| {
            let pairs = group.iter().flat_map(|a| group.iter().map(move |b| (a, b)));
            pairs.filter(|(a, b)| a.measured > b.measured).all(|(a, b)| a.predicted > b.predicted)
        })
    }
}
