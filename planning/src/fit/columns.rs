//! The columns of a table of measured iterations: keys of `[setup]` and `[training]`, also by the names that
//! published tables have for them.

use std::collections::BTreeMap;

use question::{nearest, quote};
use serde_json::{Map, Value};

/// A line.
pub(super) type Record = csv::StringRecord;

/// The type of the cells of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cells {
    Whole,
    Number,
    Flag,
    Text,
}

/// A table of a question that columns are keys of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The question itself, or this command.
    Own,
    Setup,
    Training,
}

use Cells::{Flag, Number, Text, Whole};
use Part::{Own, Setup, Training};

/// Columns that describe a run: the table, the name, an alias if there is one, and the type.
const KNOWN: [(Part, &str, &str, Cells); 53] = [
    (Own, "model", "", Text),
    (Own, "mtp", "", Flag),
    (Own, "machine", "", Text),
    (Own, "framework", "", Text),
    (Own, "devices", "gpus", Whole),
    (Own, "batch", "global-batch", Whole),
    (Own, "sequence", "", Whole),
    (Own, "attention", "", Text),
    (Own, "step-seconds", "", Number),
    (Own, "tokens-per-s-per-gpu", "tokens-per-s-per-device", Number),
    (Setup, "tensor", "tp", Whole),
    (Setup, "pipeline", "pp", Whole),
    (Setup, "chunks", "vp", Whole),
    (Setup, "context", "cp", Whole),
    (Setup, "expert", "ep", Whole),
    (Setup, "expert-tensor", "etp", Whole),
    (Setup, "data", "dp", Whole),
    (Setup, "zero", "", Whole),
    (Setup, "reshard", "", Text),
    (Setup, "shard-groups", "", Whole),
    (Setup, "microbatch", "micro-batch", Whole),
    (Setup, "schedule", "", Text),
    (Setup, "recompute", "", Text),
    (Setup, "split", "", Text),
    (Setup, "layout", "", Text),
    (Setup, "first-stage-layers", "", Whole),
    (Setup, "last-stage-layers", "", Whole),
    (Setup, "vocabulary-parallel", "", Flag),
    (Training, "gradient-bytes", "", Whole),
    (Training, "optimizer-bytes", "", Whole),
    (Training, "weight-bytes", "", Whole),
    (Training, "logit-bytes", "", Whole),
    (Training, "fp8-activation-input", "", Flag),
    (Training, "compiled", "", Flag),
    (Training, "precision", "", Text),
    (Training, "head-precision", "", Text),
    (Training, "tuning", "", Text),
    (Training, "cuda-graphs", "", Text),
    (Training, "dispatcher", "", Text),
    (Training, "overlap-experts", "a2a-overlap", Flag),
    (Training, "two-streams", "", Flag),
    (Training, "contention", "", Text),
    (Training, "overlap-tensor", "tp-comm-overlap", Flag),
    (Training, "overlap-transfers", "", Flag),
    (Training, "overlap-gradients", "dp-overlap", Flag),
    (Training, "overlap-parameters", "", Flag),
    (Training, "fused-experts", "", Flag),
    (Training, "imbalance", "", Number),
    (Training, "capacity-factor", "", Number),
    (Training, "pad-to-capacity", "", Flag),
    (Training, "sequence-parallel", "", Flag),
    (Training, "loss", "", Text),
    (Training, "boundary", "", Text),
];

/// Columns that a prediction ignores: sources, further figures, and figures derived from other columns.
const OTHERS: [&str; 22] = [
    "name",
    "run",
    "note",
    "source",
    "commit",
    "path",
    "release",
    "kind",
    "table",
    "config",
    "submitter",
    "gpus-per-node",
    "num-microbatches",
    "precision-as-written",
    "tflops-per-gpu",
    "mfu-percent",
    "peak-memory",
    "peak-memory-gib",
    "memory-unit",
    "fits",
    "steps",
    "obtained",
];

/// Where the cells of each column stand.
#[derive(Debug)]
pub(super) struct Columns(BTreeMap<&'static str, usize>);

impl Columns {
    /// The columns of a table whose first line is `header`; else an error message and a remedy.
    pub(super) fn of(header: &Record) -> Result<Self, (String, String)> {
        let mut all = BTreeMap::new();
        for (at, written) in header.iter().enumerate() {
            let name = written.to_lowercase().replace('_', "-");
            match KNOWN.iter().find(|(_, known, other, _)| *known == name || *other == name) {
                Some((_, known, ..)) if all.insert(*known, at).is_some() => {
                    return Err((format!("the column {known} is there twice"), help()));
                }
                Some(_) => {}
                None if OTHERS.contains(&name.as_str()) => {}
                None => return Err(unknown(written, &name)),
            }
        }
        let missing = |names: &[&str]| names.iter().all(|name| !all.contains_key(name));
        for names in [&["model"][..], &["batch"], &["step-seconds", "tokens-per-s-per-gpu"]] {
            if missing(names) {
                return Err((format!("there is no column {}", names.join(" or ")), help()));
            }
        }
        Ok(Self(all))
    }

    /// The cell of `column` in `record`; empty where the table has no such column.
    pub(super) fn text<'a>(&self, record: &'a Record, column: &str) -> &'a str {
        self.0.get(column).and_then(|at| record.get(*at)).unwrap_or_default()
    }

    /// The value of `column` in `record`, if its cell is not empty; else an error message.
    pub(super) fn value(&self, record: &Record, column: &str) -> Result<Option<Value>, String> {
        let text = self.text(record, column);
        let Some((.., cells)) = KNOWN.iter().find(|(_, known, ..)| *known == column) else {
            return Ok(None);
        };
        if text.is_empty() {
            return Ok(None);
        }
        let (value, wanted) = match cells {
            Whole => (text.parse::<u64>().ok().map(Value::from), "a whole number, from 0 on"),
            Number => (amount(text).map(Value::from), "a number more than 0"),
            Flag => (flag(text).map(Value::from), "on or off"),
            Text => (Some(Value::from(text)), ""),
        };
        let wrong = || format!("{column} is `{}`: it must be {wanted}", quote::clip(text));
        value.ok_or_else(wrong).map(Some)
    }

    /// All keys of `part` that `record` says something of.
    pub(super) fn part(&self, record: &Record, part: Part) -> Result<Map<String, Value>, String> {
        let mut all = Map::new();
        for (_, name, ..) in KNOWN.iter().filter(|(own, ..)| *own == part) {
            if let Some(value) = self.value(record, name)? {
                all.insert((*name).to_owned(), value);
            }
        }
        Ok(all)
    }
}

fn amount(text: &str) -> Option<f64> {
    text.parse().ok().filter(|amount| (1e-9..=1e12).contains(amount))
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "on" | "yes" | "true" => Some(true),
        "off" | "no" | "false" | "n/a" => Some(false),
        _ => None,
    }
}

fn unknown(written: &str, name: &str) -> (String, String) {
    let all = KNOWN.iter().flat_map(|(_, known, other, _)| [*known, *other]);
    let near = nearest::question(name, all.filter(|known| !known.is_empty()));
    (format!("there is no column `{}`{near}", quote::clip(written)), help())
}

fn help() -> String {
    "columns are keys of [setup] and [training], such as tensor or precision, and model, devices, batch, \
     sequence, step-seconds or tokens-per-s-per-gpu; what changes no step goes into a column note"
        .to_owned()
}
