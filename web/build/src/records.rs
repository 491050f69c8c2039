//! The best known orders, and totals of published tables, as a module of the page: what the folder of records says, in few
//! bytes.
//!
//! A line for each pipeline, with its limits behind it: `equal-p8-m24 0.5p:1150000/1130000 0.75p:850000`. That is the cost of the
//! best known order in microseconds, and behind the slash the bound where it is lower. `@1` names who has found the order, by
//! place in the list of finders, `@1,0` another who has found the bound; without it both are of the first finder.

use std::cmp::Ordering;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// A record, as its file says.
struct Record {
    name: String,
    /// In nanoseconds.
    cost: u64,
    bound: u64,
    order_by: String,
    bound_by: String,
}

/// The module of the records in `folder`, the list of finders and the lines, and of the cells of published tables by kind
/// of evidence, which `evidence.csv` next to that folder counts.
pub(crate) fn module(folder: &Path) -> Result<String> {
    let evidence = folder.with_file_name("evidence.csv");
    let evidence = fs::read_to_string(&evidence).with_context(|| evidence.display().to_string())?;
    let evidence = serde_json::to_string(evidence.trim_end())?;
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(name) = name.strip_suffix(".toml") else { continue };
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        records.push(record(name, &text).with_context(|| path.display().to_string())?);
    }
    ensure!(!records.is_empty(), "{} has no records", folder.display());
    records.sort_by(|one, other| by_name(&one.name, &other.name));
    let finders = finders(&records);
    let [list, lines] =
        [serde_json::to_string(&finders)?, serde_json::to_string(&lines(&records, &finders))?];
    Ok(format!(
        "export const FINDERS = {list};\nexport const KNOWN = {lines};\nexport const EVIDENCE = {evidence};\n"
    ))
}

/// The words at the beginning of lines of a record.
fn record(name: &str, text: &str) -> Result<Record> {
    let after = |start: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(start));
        found.with_context(|| format!("there is no line `{start}..`"))
    };
    let by = |start: &str| {
        Ok::<_, anyhow::Error>(
            after(start)?.split(';').next().unwrap_or_default().trim().to_owned(),
        )
    };
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-.".contains(sign);
    ensure!(
        name.contains('-') && name.chars().all(is_plain),
        "`{name}` is not a name of a pipeline"
    );
    Ok(Record {
        name: name.to_owned(),
        cost: after("cost-ns = ")?.parse()?,
        bound: after("bound-ns = ")?.parse()?,
        order_by: by("# order: ")?,
        bound_by: by("# bound: ")?,
    })
}

/// Everybody who has found an order or a bound, first who has found most.
fn finders(records: &[Record]) -> Vec<&str> {
    let all = || records.iter().flat_map(|one| [&one.order_by[..], &one.bound_by[..]]);
    let mut names: Vec<&str> = all().collect();
    names.sort_unstable();
    names.dedup();
    names.sort_by_key(|name| std::cmp::Reverse(all().filter(|other| other == name).count()));
    names
}

fn lines(records: &[Record], finders: &[&str]) -> String {
    let place = |name: &str| finders.iter().position(|other| *other == name).unwrap_or_default();
    let (mut lines, mut last) = (String::new(), "");
    for Record { name, cost, bound, order_by, bound_by } in records {
        let (pipeline, limit) = name.rsplit_once('-').unwrap_or((name, ""));
        if pipeline != last {
            let line = if last.is_empty() { "" } else { "\n" };
            lines.extend([line, pipeline]);
            last = pipeline;
        }
        let bound = if bound == cost { String::new() } else { format!("/{}", micros(*bound)) };
        let by = match (place(order_by), place(bound_by)) {
            (0, 0) => String::new(),
            (one, other) if one == other => format!("@{one}"),
            (one, other) => format!("@{one},{other}"),
        };
        // Writing to a string does not fail.
        let _ = write!(lines, " {limit}:{}{bound}{by}", micros(*cost));
    }
    lines
}

/// Nanoseconds as microseconds, exactly.
fn micros(nanos: u64) -> String {
    match nanos % 1_000 {
        0 => (nanos / 1_000).to_string(),
        rest => format!("{}.{rest:03}", nanos / 1_000),
    }
}

/// The order of names, in which p8 comes before p16, and 0.75p before 1p.
fn by_name(one: &str, other: &str) -> Ordering {
    let parts = |name: &str| name.split('-').map(part).collect::<Vec<_>>();
    let (one, other) = (parts(one), parts(other));
    for (one, other) in one.iter().zip(&other) {
        let order = one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.cmp(&other.2));
        if order != Ordering::Equal {
            return order;
        }
    }
    one.len().cmp(&other.len())
}

/// Letters, the number behind them, and what follows.
fn part(text: &str) -> (String, f64, String) {
    let begin = text.find(|sign: char| sign.is_ascii_digit()).unwrap_or(text.len());
    let (letters, rest) = text.split_at(begin);
    let is_of_number = |sign: char| sign.is_ascii_digit() || sign == '.';
    let end = rest.find(|sign| !is_of_number(sign)).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    (letters.to_owned(), number.parse().unwrap_or(0.0), rest.to_owned())
}
