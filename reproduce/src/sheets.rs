//! Cells as people read them, line by line, with their errors and why some are missed.

use measured::accuracy;
use question::sheet::Sheet;
use question::{format, table};

use super::cell::Cell;
use super::check::Evidence;
use super::picture::distinct;
use super::totals::Count;

/// A line for each of `cells`; the errors of each column, by evidence; and why cells miss, or are not checked.
pub(super) fn compared<'a>(head: &str, cells: impl Iterator<Item = &'a Cell>) -> Sheet {
    let cells: Vec<&Cell> = cells.collect();
    let reasons = distinct(cells.iter().filter_map(|cell| cell.why()));
    let rows = cells.iter().map(|cell| {
        let why = reasons.iter().position(|reason| cell.why() == Some(reason));
        let why = why.map_or(String::new(), |at| format!("[{}]", at + 1));
        let place = [cell.row.clone(), cell.column.clone()];
        place.into_iter().chain(cell.compared()).chain([why]).collect()
    });
    let header = [head, "figure", "published", "ours", "deviation", "match", "why"];
    let lines = (1..).zip(&reasons).map(|(number, reason)| format!("[{number}] {reason}\n"));
    let lines: String = lines.collect();
    Sheet::table(header, rows).and_text(lines).and(errors(&cells))
}

/// How far the measured figures are met, by column and evidence.
fn errors(cells: &[&Cell]) -> Sheet {
    let columns = distinct(cells.iter().map(|cell| cell.column.as_str()));
    let pairs = columns.iter().flat_map(|column| {
        [Evidence::Fitted, Evidence::HeldOut].map(|evidence| (column.as_str(), evidence))
    });
    let rows: Vec<_> = pairs
        .filter_map(|(column, evidence)| {
            let own = cells.iter().copied();
            let own = own.filter(|cell| cell.column == column && cell.is_of(evidence));
            let errors: Vec<f64> = own.clone().filter_map(Cell::deviation).collect();
            let largest = errors.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
            let bias = errors.iter().sum::<f64>() / plan::number(errors.len() as u64);
            Some((
                column,
                evidence,
                Count::of(own),
                accuracy::mean_absolute(&errors),
                bias,
                largest,
            ))
        })
        .collect();
    if rows.is_empty() {
        return Sheet::default();
    }
    let table = table!(
        (column, evidence, count, mean, bias, largest) = rows,
        "errors" = column,
        "figures" = evidence.name(),
        "match" = count.to_string(),
        "mean size" = format::percent(mean),
        "bias" = format::signed_percent(bias),
        "largest" = format::signed_percent(largest),
    );
    table.under_a_gap()
}
