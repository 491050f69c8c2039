//! The table of all sets of measurements: a set is added by its data file, the prediction of its rows, and
//! one entry here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plan::Machine;
use question::Diagnostic;
use scenarios::PAPER;

use super::papers;
use super::quantities::{HFU, Limits, MEMORY, MFU, SHARDED, SPEED, TIME};
use super::row::Row;
use super::rows::Reader;

/// The weaknesses of the planner that the errors show.
pub(super) const WEAK: &str = "\
Where it is weak: small models on one node, where the host's launches and small collectives decide
(a row may be off by 30 %); tensor groups of 2 and 4 with many replicas or stages, whose rings meet
on NICs (up to 40 %); runs that thrash in memory or wait for something that sizes do not show.";

pub(super) struct Set {
    pub(super) name: &'static str,
    /// The name and the text of its file, if it is built in.
    file: Option<(&'static str, &'static str)>,
    /// Columns by which its header is known.
    columns: &'static [&'static str],
    /// The quantities that are held against measurements.
    pub(super) quantities: &'static [Limits],
    /// Whether schedules must come in the measured order in every group of runs: the only thing that a
    /// user who chooses among them needs.
    is_ranked: bool,
    /// Predicts its rows on a machine.
    predict: fn(&Reader<'_>, &Machine) -> Result<Vec<Row>, Diagnostic>,
}

/// A file that is built in.
const fn built_in(name: &'static str) -> Option<(&'static str, &'static str)> {
    Some((name, PAPER.text(name)))
}

/// All sets; those that are built in are answered in this order.
pub(super) static SETS: &[Set] = &[
    Set {
        name: "Megatron-LM 2021, table 1",
        file: built_in("megatron2021.csv"),
        columns: &["tflops_per_gpu"],
        quantities: &[Limits::new(TIME, 0.05, Some(0.12)), Limits::points(HFU, 0.003)],
        is_ranked: false,
        predict: |reader, machine| reader.each(|row, _| papers::table_1(row, machine)),
    },
    Set {
        name: "Korthikanti 2022",
        file: built_in("korthikanti2022.csv"),
        columns: &["full_recompute_s"],
        quantities: &[
            Limits::new(TIME, 0.05, Some(0.12)),
            Limits::points(MFU, 0.003),
            Limits::points(HFU, 0.003),
        ],
        is_ranked: false,
        predict: |reader, machine| reader.each(|row, _| papers::korthikanti(row, machine)),
    },
    Set {
        name: "Zero Bubble, table 4",
        file: built_in("zb-throughput.csv"),
        columns: &["samples_per_gpu_per_s"],
        quantities: &[Limits::new(SPEED, 0.05, None), Limits::new(MEMORY, 0.10, Some(0.10))],
        is_ranked: true,
        predict: |reader, machine| reader.each(|row, _| papers::zero_bubble(row, machine)),
    },
    Set {
        name: "Zero Bubble, table 6",
        file: built_in("zb-table6.csv"),
        columns: &["microbatches_used", "samples_per_gpu_per_s"],
        quantities: &[Limits::new(SPEED, 0.05, None), Limits::new(MEMORY, 0.10, Some(0.10))],
        // Of 128 microbatches ZB-V is 0.5 % behind ZB-1p in ours and 1.4 % ahead as measured.
        is_ranked: false,
        predict: |reader, machine| reader.each(|row, _| papers::zero_bubble(row, machine)),
    },
    Set {
        name: "Zero Bubble, post-validation",
        file: built_in("zb-post-validation.csv"),
        columns: &["post_validation_samples_per_gpu_per_s", "all_reduce_samples_per_gpu_per_s"],
        quantities: &[Limits::new(SPEED, 0.05, None)],
        is_ranked: false,
        predict: |reader, machine| reader.each(|row, _| papers::post_validation(row, machine)),
    },
    Set {
        name: "Megatron-LM 2021, table 2",
        file: built_in("megatron2021-zero3.csv"),
        columns: &["scheme,params_billion", "tflops_per_gpu"],
        quantities: &[Limits::new(TIME, 0.05, Some(0.12)), Limits::new(SHARDED, 0.15, Some(0.20))],
        is_ranked: false,
        predict: |reader, machine| reader.each(|row, _| papers::sharded(row, machine)),
    },
    Set {
        name: "Vocabulary Parallelism, tables 5 and 6",
        file: built_in("vocabulary-tables.csv"),
        columns: &["mfu-percent"],
        quantities: &[Limits::new(TIME, 0.10, Some(0.20))],
        is_ranked: false,
        predict: |reader, machine| reader.each(|row, _| papers::vocabulary(row, machine)),
    },
    Set {
        name: "vTrain, one node",
        file: None,
        columns: &["iteration time (ms)"],
        quantities: &[Limits::new(TIME, 0.10, None)],
        is_ranked: false,
        predict: |reader, machine| reader.each(|row, at| papers::vtrain(row, at, Some(machine))),
    },
    Set {
        name: "vTrain, many nodes",
        file: None,
        columns: &["iteration time (ms)", "Parameters"],
        quantities: &[Limits::new(TIME, 0.08, None)],
        is_ranked: false,
        predict: |reader, _| reader.each(|row, at| papers::vtrain(row, at, None)),
    },
];

/// The folder of the built-in files in the project, by which errors name them.
const FOLDER: &str = "scenarios/paper";

impl Set {
    /// The path and the text of its file, if it is built in.
    pub(super) fn source(&self) -> Option<(PathBuf, &'static str)> {
        self.file.map(|(name, text)| (Path::new(FOLDER).join(name), text))
    }

    /// Whether schedules come in the measured order, where they must.
    pub(super) fn orders_hold(&self, rows: &[Row]) -> bool {
        if !self.is_ranked {
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

/// A set, the rows of a file of it, and those that cannot be predicted, each with the reason.
pub(super) type ReadSet = (&'static Set, Vec<Row>, Vec<String>);

/// Reads the file of measurements at `path`, knows its set by its header, and predicts every row on
/// `machine`. Of several sets whose columns are there, it is the one with the most.
pub(super) fn read(path: &Path, text: &str, machine: &Machine) -> Result<ReadSet, Diagnostic> {
    let reader = Reader::new(path, text);
    let is_known = |set: &&Set| set.columns.iter().all(|column| reader.header().contains(column));
    let Some(set) = SETS.iter().filter(is_known).max_by_key(|set| set.columns.len()) else {
        let cause = "its header is that of no measurements known here";
        return Err(Diagnostic::unreadable(path, cause));
    };
    let rows = (set.predict)(&reader, machine)?;
    Ok((set, rows, reader.left_out.into_inner()))
}

#[cfg(test)]
mod tests {
    use planning::machines;

    use super::*;

    #[test]
    fn every_set_that_is_built_in_is_known_by_its_header() {
        for set in SETS {
            let Some((path, text)) = set.source() else { continue };
            let machine = machines::of_device(super::super::rows::device(text)).unwrap();
            let (found, rows, _) = read(&path, text, &machine).unwrap();
            assert_eq!(found.name, set.name);
            let is_held = |row: &Row| set.quantities.iter().any(|one| one.quantity == row.quantity);
            assert!(!rows.is_empty() && rows.iter().all(is_held), "{}", set.name);
        }
        let other =
            read(Path::new("a.csv"), "a,b\n1,2\n", &machines::of_device("A100 80GB").unwrap());
        assert!(other.err().unwrap().message.contains("no measurements known here"));
    }
}
