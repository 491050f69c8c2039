//! The columns of a table of measured iterations: by the names of the keys of a set-up, or by those that
//! published tables use.

use std::collections::BTreeMap;

use crate::{echo, nearest};

/// A line.
pub(super) type Record = csv::StringRecord;

/// Columns that say something of a run, with other names of them.
const KNOWN: [(&str, &str); 27] = [
    ("model", ""),
    ("machine", ""),
    ("devices", "gpus"),
    ("tensor", "tp"),
    ("pipeline", "pp"),
    ("chunks", "vp"),
    ("context", "cp"),
    ("expert", "ep"),
    ("expert_tensor", "etp"),
    ("data", "dp"),
    ("zero", ""),
    ("microbatch", "micro_batch"),
    ("batch", "global_batch"),
    ("sequence", ""),
    ("attention", ""),
    ("precision", ""),
    ("schedule", ""),
    ("recompute", ""),
    ("layout", ""),
    ("gradient_bytes", ""),
    ("cuda_graphs", ""),
    ("tensor_overlap", "tp_comm_overlap"),
    ("expert_overlap", "a2a_overlap"),
    ("dispatcher", ""),
    ("compile", ""),
    ("step_seconds", ""),
    ("tokens_per_s_per_gpu", "tokens_per_s_per_device"),
];

/// Columns that change nothing about how long a step takes: where a figure comes from, and other figures.
const OTHERS: [&str; 20] = [
    "name",
    "run",
    "note",
    "source",
    "commit",
    "path",
    "release",
    "kind",
    "config",
    "submitter",
    "gpus_per_node",
    "precision_as_written",
    "tflops_per_gpu",
    "peak_memory",
    "peak_memory_gib",
    "memory_unit",
    "fits",
    "steps",
    "obtained",
    "mfu_percent",
];

/// Where the cells of each column stand.
#[derive(Debug)]
pub(super) struct Columns(BTreeMap<&'static str, usize>);

impl Columns {
    /// Those of a table whose first line is `header`; else what is wrong with it, and a cure.
    pub(super) fn of(header: &Record) -> Result<Self, (String, Option<String>)> {
        let mut all = BTreeMap::new();
        for (at, written) in header.iter().enumerate() {
            let name = written.to_lowercase().replace('-', "_");
            let known = KNOWN.iter().find(|(known, other)| *known == name || *other == name);
            match known {
                Some((known, _)) if all.insert(*known, at).is_some() => {
                    return Err((format!("the column {known} is there twice"), None));
                }
                Some(_) => {}
                None if OTHERS.contains(&name.as_str()) => {}
                None => return Err(unknown(written, &name)),
            }
        }
        let missing = |names: &[&str]| names.iter().all(|name| !all.contains_key(name));
        for names in [&["model"][..], &["batch"], &["step_seconds", "tokens_per_s_per_gpu"]] {
            if missing(names) {
                return Err((format!("there is no column {}", names.join(" or ")), Some(help())));
            }
        }
        Ok(Self(all))
    }

    /// The cell of `column` in `record`; empty where the table has no such column.
    pub(super) fn text<'a>(&self, record: &'a Record, column: &str) -> &'a str {
        self.0.get(column).and_then(|at| record.get(*at)).unwrap_or_default()
    }
}

fn unknown(written: &str, name: &str) -> (String, Option<String>) {
    let all = || KNOWN.iter().flat_map(|(known, other)| [*known, *other]);
    let near = nearest::question(name, all().filter(|known| !known.is_empty()));
    let message = format!("there is no column `{}`{near}", echo::clip(written));
    (message, Some(help()))
}

fn help() -> String {
    let names = KNOWN.map(|(known, other)| match other {
        "" => known.to_owned(),
        other => format!("{known} ({other})"),
    });
    format!("columns are {}; what changes no step goes into note", names.join(", "))
}
