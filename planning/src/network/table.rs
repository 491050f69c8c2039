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

/// The lines of `text` by collective, ranks and nodes.
pub(super) fn read(text: &str) -> Result<Vec<Run>, Fault> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let broken = |error: &csv::Error| {
        let line = error.position().map_or(1, |at| usize::try_from(at.line()).unwrap_or(1));
        Fault::at(line, "this line has another number of cells than there are columns".to_owned())
    };
    let header = reader.headers().map_err(|error| broken(&error))?.clone();
    let place = |names: &[&str]| {
        header.iter().position(|cell| names.contains(&cell.to_lowercase().as_str()))
    };
    let column = |names: &[&str]| {
        place(names)
            .ok_or_else(|| Fault::at(1, format!("there is no column {}", names[0])).cured(CURE))
    };
    let [collective, ranks, nodes, bytes] =
        [column(COLLECTIVE)?, column(RANKS)?, column(NODES)?, column(BYTES)?];
    let figure =
        [TIME, ALGORITHM, BUS].into_iter().find_map(|names| Some((names[0], place(names)?)));
    let figure = figure.ok_or_else(|| {
        Fault::at(1, "there is no column busbw, algbw or time".to_owned()).cured(CURE)
    })?;
    let mut runs: Vec<Run> = Vec::new();
    for (count, record) in (1..).zip(reader.records()) {
        let record = record.map_err(|error| broken(&error))?;
        let line = record.position().map_or(1, |at| usize::try_from(at.line()).unwrap_or(1));
        if count > MAX_POINTS {
            return Err(Fault::at(line, format!("it has more than {MAX_POINTS} sizes")));
        }
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let name = cell(collective);
        let named = Collective::named(name).or_else(|| Collective::of_program(name));
        let collective = named.ok_or_else(|| {
            let message =
                format!("`{}` is no collective that is known", question::quote::clip(name));
            Fault::at(line, message)
                .cured("write all_reduce, all_gather, reduce_scatter, alltoall or sendrecv")
        })?;
        let whole = |key: &str, at: usize, most: u64| {
            let value = cell(at).parse::<u64>().ok().filter(|value| (1..=most).contains(value));
            value.ok_or_else(|| {
                Fault::at(line, format!("{key} must be a whole number from 1 to {most}"))
            })
        };
        let (ranks, nodes) = (whole("ranks", ranks, MAX_RANKS)?, whole("nodes", nodes, MAX_RANKS)?);
        if ranks < 2 || !ranks.is_multiple_of(nodes) {
            return Err(Fault::at(
                line,
                format!("{ranks} ranks are not spread evenly over {nodes} nodes"),
            ));
        }
        let bytes = whole("bytes", bytes, 1 << 50)?;
        let value =
            cell(figure.1).parse::<f64>().ok().filter(|value| *value > 0.0 && value.is_finite());
        let value = value
            .ok_or_else(|| Fault::at(line, format!("{} must be a number above 0", figure.0)))?;
        let moved = plan::number(bytes);
        let seconds = match figure.0 {
            "time" => value * 1e-6,
            "algbw" => moved / (value * 1e9),
            _ => collective.factor(ranks) * moved / (value * 1e9),
        };
        let point = Point { bytes, seconds };
        let own =
            |run: &&mut Run| (run.collective, run.ranks, run.nodes) == (collective, ranks, nodes);
        match runs.iter_mut().find(own) {
            Some(run) => run.points.push(point),
            None => {
                runs.push(Run { collective, ranks, nodes, device: None, line, points: vec![point] })
            }
        }
    }
    Ok(runs)
}
