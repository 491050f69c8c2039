//! The best known orders, as `debubble records` lists them.

use std::sync::LazyLock;

use answer::records::{RecordSet, RecordTable, table as records};
use question::Context;

use super::markdown::{code, prose, table};
use super::root;
use crate::host::Host;

static TABLE: LazyLock<Result<RecordTable, String>> = LazyLock::new(|| {
    let host = Host::default();
    let context = Context::new(&host);
    let set = RecordSet::built_in(&context);
    let found = set.and_then(|set| records(&context, &set, &root().join("results/records")));
    found.map_err(|error| error.to_string())
});

/// The part `which`: a row for each pipeline, or how many there are and how large the gaps.
pub fn of(which: &str) -> Result<String, String> {
    let found = TABLE.as_ref()?;
    match which {
        "all" => Ok(all(found)),
        "summary" => Ok(format!("{}.", prose(&found.summary()))),
        _ => Err(format!("there are no records of `{which}`")),
    }
}

fn all(found: &RecordTable) -> String {
    let (header, mut rows) = found.sheet().into_rows();
    for (cells, row) in rows.iter_mut().zip(&found.records) {
        cells[0] = format!("[{}](../../results/records/{}.toml)", code(&cells[0]), row.name);
    }
    table(&header.iter().map(String::as_str).collect::<Vec<_>>(), rows)
}
