//! A table of bandwidths as CSV: a line for each size.

use super::collective::Collective;
use super::{Fault, MAX_POINTS, MAX_RANKS, Point, Run};

/// The columns: names that each may have, in lower case.
const COLLECTIVE: &[&str] = &["collective", "operation", "op"];
const RANKS: &[&str] = &["ranks", "devices", "gpus"];
const NODES: &[&str] = &["nodes", "hosts"];
const BYTES: &[&str] = &["bytes", "size"];
const TIME: &[&str] = &["time", "time_us", "us"];
const ALGORITHM: &[&str] = &["algbw", "algbw_gbps"];
const BUS: &[&str] = &["busbw", "busbw_gbps"];

/// The cure of a table that lacks a column.
const CURE: &str =
    "columns are collective, ranks, nodes, bytes, and one of busbw and algbw (GB/s) or time (us)";

/// Whether `text` is such a table.
pub(super) fn is_table(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let cells: Vec<String> =
        first.unwrap_or_default().split(',').map(|cell| cell.trim().to_lowercase()).collect();
    cells.len() > 1
        && [COLLECTIVE, BYTES]
            .iter()
            .any(|names| cells.iter().any(|cell| names.contains(&cell.as_str())))
}

/// Where a table has its columns.
struct Columns {
    collective: usize,
    ranks: usize,
    nodes: usize,
    bytes: usize,
    /// Time, algorithm or bus bandwidth, by name.
    figure: (&'static str, usize),
}

impl Columns {
    fn of(header: &csv::StringRecord) -> Result<Self, Fault> {
        let place = |names: &[&str]| {
            header.iter().position(|cell| names.contains(&cell.to_lowercase().as_str()))
        };
        let column = |names: &[&str]| {
            place(names)
                .ok_or_else(|| Fault::at(1, format!("there is no column {}", names[0])).cured(CURE))
        };
        let figure =
            [TIME, ALGORITHM, BUS].into_iter().find_map(|names| Some((names[0], place(names)?)));
        Ok(Self {
            collective: column(COLLECTIVE)?,
            ranks: column(RANKS)?,
            nodes: column(NODES)?,
            bytes: column(BYTES)?,
            figure: figure.ok_or_else(|| {
                Fault::at(1, "there is no column busbw, algbw or time".to_owned()).cured(CURE)
            })?,
        })
    }

    /// The run of one size of a line.
    fn run(&self, record: &csv::StringRecord, line: usize) -> Result<Run, Fault> {
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let name = cell(self.collective);
        let named = Collective::named(name).or_else(|| Collective::of_program(name));
        let collective = named.ok_or_else(|| {
            let name = question::quote::clip(name);
            let cure = "write all_reduce, all_gather, reduce_scatter, alltoall or sendrecv";
            Fault::at(line, format!("`{name}` is no collective that is known")).cured(cure)
        })?;
        let whole = |key: &str, at: usize, most: u64| {
            let value = cell(at).parse::<u64>().ok().filter(|value| (1..=most).contains(value));
            let message = || format!("{key} must be a whole number from 1 to {most}");
            value.ok_or_else(|| Fault::at(line, message()))
        };
        let ranks = whole("ranks", self.ranks, MAX_RANKS)?;
        let nodes = whole("nodes", self.nodes, MAX_RANKS)?;
        if ranks < 2 || !ranks.is_multiple_of(nodes) {
            let message = format!("{ranks} ranks are not spread evenly over {nodes} nodes");
            return Err(Fault::at(line, message));
        }
        let bytes = whole("bytes", self.bytes, 1 << 50)?;
        let (figure, at) = self.figure;
        let value = cell(at).parse::<f64>().ok();
        let value = value.filter(|value| *value > 0.0 && value.is_finite());
        let value =
            value.ok_or_else(|| Fault::at(line, format!("{figure} must be a number above 0")))?;
        let moved = plan::number(bytes);
        let seconds = match figure {
            "time" => value * 1e-6,
            "algbw" => moved / (value * 1e9),
            _ => collective.factor(ranks) * moved / (value * 1e9),
        };
        let points = vec![Point { bytes, seconds }];
        Ok(Run { collective, ranks, nodes, device: None, line, points })
    }
}

/// The lines of `text` by collective, ranks and nodes.
pub(super) fn read(text: &str) -> Result<Vec<Run>, Fault> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let line_of =
        |at: Option<&csv::Position>| at.and_then(|at| usize::try_from(at.line()).ok()).unwrap_or(1);
    let broken = |error: &csv::Error| {
        let message = "this line has another number of cells than there are columns".to_owned();
        Fault::at(line_of(error.position()), message)
    };
    let columns = Columns::of(reader.headers().map_err(|error| broken(&error))?)?;
    let mut runs: Vec<Run> = Vec::new();
    for (count, record) in (1..).zip(reader.records()) {
        let record = record.map_err(|error| broken(&error))?;
        let line = line_of(record.position());
        if count > MAX_POINTS {
            return Err(Fault::at(line, format!("it has more than {MAX_POINTS} sizes")));
        }
        let run = columns.run(&record, line)?;
        let key = |run: &Run| (run.collective, run.ranks, run.nodes);
        match runs.iter_mut().find(|one| key(one) == key(&run)) {
            Some(known) => known.points.extend(run.points),
            None => runs.push(run),
        }
    }
    Ok(runs)
}
