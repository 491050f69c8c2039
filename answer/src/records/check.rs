//! Every record checked from scratch.

use std::collections::BTreeSet;
use std::path::Path;

use question::sheet::Sheet;
use question::{Context, quote};
use rayon::prelude::*;
use serde::Serialize;

use super::record::{Record, file_name};
use super::set::{RecordInstance, RecordSet};

/// A record that does not hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fault {
    /// The name of its file, without the extension.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// The result of checking a folder of records.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Checked {
    /// The number of records that hold.
    pub hold: usize,
    /// Those that do not.
    pub failed: Vec<Fault>,
    /// The pipelines of the set that have none.
    pub without_record: Vec<String>,
    /// Whether the check was stopped before all were looked at.
    pub interrupted: bool,
}

impl Checked {
    /// Whether every record that there is holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.failed.is_empty()
    }

    /// Those that fail, a line each, and how many hold.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let failed: String = self
            .failed
            .iter()
            .map(|Fault { name, reason }| format!("{}: {reason}\n", quote::clip(name)))
            .collect();
        let (hold, all) = (self.hold, self.hold + self.failed.len());
        let without = match self.without_record.len() {
            0 => String::new(),
            count => format!("; {count} pipelines have no record"),
        };
        Sheet::default().and_text(format!("{failed}{hold} of {all} records hold{without}\n"))
    }
}

/// Checks the records of `set` in `folder`. `files` are the names of all TOML files that lie there: one that is named after no
/// pipeline is not a record.
#[must_use]
pub fn check(context: &Context<'_>, set: &RecordSet, folder: &Path, files: &[String]) -> Checked {
    let work = context.host().begin(set.instances.len() as u64, "records");
    let one = |one: &RecordInstance| {
        if context.stopped() {
            return None;
        }
        let checked = Record::check(context, folder, one);
        work.inc(1);
        Some((one.name.clone(), checked.map(|record| record.is_some())))
    };
    let found: Vec<_> = set.instances.par_iter().map(one).collect();
    let mut checked = Checked {
        hold: 0,
        failed: Vec::new(),
        without_record: Vec::new(),
        interrupted: found.iter().any(Option::is_none),
    };
    for (name, found) in found.into_iter().flatten() {
        match found {
            Ok(true) => checked.hold += 1,
            Ok(false) => checked.without_record.push(name),
            Err(reason) => checked.failed.push(Fault { name, reason }),
        }
    }
    let known: BTreeSet<String> = set.instances.iter().map(|one| file_name(&one.name)).collect();
    let strays = files.iter().filter(|file| !known.contains(*file));
    checked.failed.extend(strays.map(|file| Fault {
        name: file.strip_suffix(".toml").unwrap_or(file).to_owned(),
        reason: "no pipeline of the set has this name".to_owned(),
    }));
    checked
}
