//! All records in a table.

use std::path::Path;

use pipeline::Nanos;
use question::sheet::Sheet;
use question::{Context, Diagnostic, format, table};
use search::Instance;
use serde::Serialize;

use super::record::Record;
use super::set::{RecordInstance, RecordSet};

/// A pipeline of the set, and its record, if it has one.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RecordRow {
    pub name: String,
    /// The number of stages.
    pub stages: usize,
    /// The number of microbatches.
    pub microbatches: u32,
    pub chunks_per_stage: u16,
    /// How they lie, in words.
    #[serde(skip)]
    chunks: String,
    /// The memory limit as the set writes it.
    pub memory_limit: String,
    /// The cost of the best known order: the longest span of a stage.
    pub cost_ns: Option<u64>,
    /// No order costs less.
    pub bound_ns: Option<u64>,
    /// The difference of both, as a fraction of the cost.
    pub gap: Option<f64>,
    /// The bubble rate of the order.
    pub bubble_rate: Option<f64>,
    /// The argument of the bound.
    pub argument: Option<&'static str>,
    /// Who found the order.
    pub by: Option<String>,
    /// When.
    pub date: Option<String>,
    /// The program that checked it.
    pub program: Option<String>,
    /// Who found the bound.
    pub bound_by: Option<String>,
    /// When.
    pub bound_date: Option<String>,
}

/// The records of the set, in its order.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RecordTable {
    /// How many orders are proved optimal.
    pub optimal: usize,
    /// The median gap of all pipelines that have a record.
    pub median_gap: Option<f64>,
    /// The same of those whose order is not proved optimal.
    pub median_open_gap: Option<f64>,
    pub largest_gap: Option<f64>,
    /// A row for each pipeline.
    pub records: Vec<RecordRow>,
}

/// The records in `folder`. What they claim is not checked but that each is of its pipeline.
pub fn table(
    context: &Context<'_>,
    set: &RecordSet,
    folder: &Path,
) -> Result<RecordTable, Diagnostic> {
    let rows = set.instances.iter().map(|one| row(context, folder, one));
    let records = rows.collect::<Result<Vec<_>, _>>()?;
    let mut gaps: Vec<f64> = records.iter().filter_map(|row| row.gap).collect();
    gaps.sort_by(f64::total_cmp);
    Ok(RecordTable {
        optimal: records.iter().filter(|row| row.is_optimal()).count(),
        median_gap: median(&gaps),
        median_open_gap: median(&gaps[gaps.partition_point(|gap| *gap <= 0.0)..]),
        largest_gap: gaps.last().copied(),
        records,
    })
}

/// The median of numbers in order.
fn median(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    let even = sorted.len().is_multiple_of(2);
    Some(if even { f64::midpoint(sorted[half - 1], upper) } else { upper })
}

fn row(
    context: &Context<'_>,
    folder: &Path,
    one: &RecordInstance,
) -> Result<RecordRow, Diagnostic> {
    let record = Record::read(context, folder, one)?;
    let certificate = record.as_ref().map(|record| &record.certificate);
    let order = record.as_ref().and_then(|record| record.order.as_ref());
    let bound = record.as_ref().and_then(|record| record.bound.as_ref());
    let shape = one.instance.shape;
    Ok(RecordRow {
        name: one.name.clone(),
        stages: shape.stages(),
        microbatches: shape.microbatches(),
        chunks_per_stage: shape.chunks_per_stage(),
        chunks: one.chunks(),
        memory_limit: one.limit.clone(),
        cost_ns: certificate.map(|one| one.cost.0),
        bound_ns: certificate.map(|one| one.bound.0),
        gap: certificate.map(|one| share(one.cost - one.bound, one.cost)),
        bubble_rate: certificate.map(|known| bubble(&one.instance, known.cost)),
        argument: certificate.map(|one| one.argument.name()),
        by: order.map(|credit| credit.by.clone()),
        date: order.map(|credit| credit.date.clone()),
        program: order.map(|credit| credit.program.clone()),
        bound_by: bound.map(|credit| credit.by.clone()),
        bound_date: bound.map(|credit| credit.date.clone()),
    })
}

#[allow(clippy::cast_precision_loss)]
fn share(part: Nanos, of: Nanos) -> f64 {
    part.0 as f64 / of.0.max(1) as f64
}

/// The part of `cost` in which the average stage waits.
#[allow(clippy::cast_precision_loss)]
fn bubble(instance: &Instance, cost: Nanos) -> f64 {
    let Instance { shape, costs, .. } = instance;
    let work = |times: &pipeline::PassTimes| (times.forward + times.least_backward()).0;
    let all = costs.chunks().iter().map(work).sum::<u64>() as f64;
    1.0 - all * f64::from(shape.microbatches()) / (shape.stages() as f64 * cost.0.max(1) as f64)
}

impl RecordRow {
    /// Whether no order costs less.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.cost_ns.is_some() && self.cost_ns == self.bound_ns
    }

    fn written_gap(&self) -> Option<String> {
        match self.is_optimal() {
            true => Some("0: optimal".to_owned()),
            false => self.gap.map(format::percent),
        }
    }
}

impl RecordTable {
    /// How many pipelines there are, how many orders are optimal, and the gaps, in a sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let all = self.records.len();
        let known = self.records.iter().filter(|row| row.cost_ns.is_some()).count();
        let percent = |gap: Option<f64>| gap.map_or("-".to_owned(), format::percent);
        let [median, open, largest] =
            [self.median_gap, self.median_open_gap, self.largest_gap].map(percent);
        let optimal = self.optimal;
        format!(
            "{all} pipelines, {known} with a record, {optimal} of them proved optimal; median gap {median}, of those not \
             proved optimal {open}, largest {largest}"
        )
    }

    /// The rows for people.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let table = table!(
            row = &self.records,
            "name" = row.name,
            "p" = row.stages,
            "m" = row.microbatches,
            "v" = row.chunks,
            "limit" = row.memory_limit,
            "cost" = row.cost_ns.map(Nanos),
            "bound" = row.bound_ns.map(Nanos),
            "gap" = row.written_gap(),
            "bubble" = row.bubble_rate.map(format::percent),
            "argument" = row.argument,
            "found by" = row.by,
        );
        table.and_text(format!(
            "\n{}\ngap: distance from the cost to the proven lower bound, as a share of the cost. argument: the proof of the \
             bound.\n",
            self.summary()
        ))
    }

    /// The rows as CSV, with the keys of the JSON as columns.
    pub fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        crate::csv(&self.records)
    }
}
