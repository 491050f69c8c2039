//! Times of both streams of the stages in a step, and of their pairs, as tables and JSON.

use std::fmt::Write;

use pipeline::Nanos;
use serde::Serialize;
use sim::streams::StreamTimes;

use super::Explanation;
use super::quantities::{hidden, ratio, whole};
use crate::pairs::PairKind;
use question::format;
use question::sheet::Sheet;

/// Stages, and kinds of pairs, that get a line of their own.
const MOST_ROWS: usize = 32;

/// Utilisation of the streams, the slowdown of compute by communication beside it, and the kinds of
/// pairs; empty where passes have no segments.
pub(super) fn sheet(why: &Explanation) -> Sheet {
    let Some(streams) = &why.causes.streams else { return Sheet::default() };
    let cost = why.causes.cost;
    let mut sheet = Sheet::default().and_text("(causes add up to idle and exposed time)\n");
    sheet.push(utilisation(streams, cost).under_a_gap());
    let all = streams.iter().copied().fold(StreamTimes::default(), StreamTimes::and);
    if all.stretched > Nanos(0) {
        let average = Nanos(all.stretched.0 / (streams.len() as u64).max(1));
        // Writing to a sheet cannot fail.
        let _ = writeln!(
            sheet,
            "compute slowed by overlapped communication: {} on average, {} of the step",
            format::time(average),
            format::percent(ratio(whole(average), cost)),
        );
    }
    if !why.pairs.is_empty() {
        sheet.push(pairs(&why.pairs).under_a_gap());
    }
    sheet
}

/// How much of the step each stream runs, and how much of the communication is hidden.
fn utilisation(streams: &[StreamTimes], cost: Nanos) -> Sheet {
    let header = ["stage", "compute", "of the step", "communication", "not hidden", "hidden"];
    let line = |name: String, times: StreamTimes, cost: Nanos, count: u64| {
        let mean = |time: Nanos| format::time(Nanos(time.0 / count.max(1)));
        let use_of = ratio(whole(times.computing), Nanos(cost.0.saturating_mul(count)));
        let hidden = hidden(&times).map_or_else(|| "-".to_owned(), format::percent);
        let computing = [name, mean(times.computing), format::percent(use_of)];
        let rest = [mean(times.communicating), mean(times.exposed), hidden];
        computing.into_iter().chain(rest).collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    if streams.len() <= MOST_ROWS {
        let stages = streams.iter().enumerate();
        rows.extend(stages.map(|(stage, times)| line(stage.to_string(), *times, cost, 1)));
    }
    let all = streams.iter().copied().fold(StreamTimes::default(), StreamTimes::and);
    rows.push(line("average".to_owned(), all, cost, streams.len() as u64));
    Sheet::table(&header, rows)
}

/// Durations of the kinds of pairs, the most frequent first.
fn pairs(kinds: &[PairKind]) -> Sheet {
    let header = ["pairs, by chunks", "count", "take", "apart", "not hidden", "at best"];
    let mut kinds: Vec<&PairKind> = kinds.iter().collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    let row = |kind: &&PairKind| {
        let one = &kind.composition;
        let times = [one.duration, kind.apart, one.exposed, one.bound].map(format::time);
        [kind.name(), kind.count.to_string()].into_iter().chain(times).collect()
    };
    let sheet = Sheet::table(&header, kinds.iter().take(MOST_ROWS).map(row));
    match kinds.len().saturating_sub(MOST_ROWS) {
        0 => sheet,
        more => sheet.and_text(format!("({more} rarer kinds of pairs are left out)\n")),
    }
}

/// Times of the streams of a stage in a step.
#[derive(Serialize)]
pub(super) struct StreamsJson {
    /// How long the compute stream runs.
    computing_ns: u64,
    /// How much of that is owed to communication beside it.
    stretched_ns: u64,
    /// How long the communication stream runs.
    communicating_ns: u64,
    /// How long it runs while the compute stream does not: a part of `busy_ns`.
    exposed_ns: u64,
    /// Share of the step in which the compute stream runs.
    compute_utilisation: f64,
    /// Share of the communication beside compute; null without communication.
    communication_hidden: Option<f64>,
}

impl StreamsJson {
    /// Of a stage in a step that takes `cost`.
    pub(super) fn of(times: &StreamTimes, cost: Nanos) -> Self {
        Self {
            computing_ns: times.computing.0,
            stretched_ns: times.stretched.0,
            communicating_ns: times.communicating.0,
            exposed_ns: times.exposed.0,
            compute_utilisation: ratio(whole(times.computing), cost),
            communication_hidden: hidden(times),
        }
    }
}
