//! Times of both streams of the stages in a step, and of their pairs, as tables and JSON.

use std::fmt::Write;

use pipeline::Nanos;
use serde::Serialize;
use sim::streams::StreamTimes;

use super::Explanation;
use super::quantities::{hidden, ratio, whole};
use crate::pairs::PairKind;
use question::sheet::Sheet;
use question::{format, object, table};

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
    let all = streams.iter().copied().fold(StreamTimes::default(), StreamTimes::and);
    let stages = streams.iter().take(if streams.len() <= MOST_ROWS { MOST_ROWS } else { 0 });
    let stages = stages.enumerate().map(|(stage, times)| (stage.to_string(), *times, 1));
    table!(
        (name, times, count) = stages.chain([("average".to_owned(), all, streams.len() as u64)]),
        "stage" = name,
        "compute" = Nanos(times.computing.0 / count.max(1)),
        "of the step" =
            format::percent(ratio(whole(times.computing), Nanos(cost.0.saturating_mul(count)))),
        "communication" = Nanos(times.communicating.0 / count.max(1)),
        "not hidden" = Nanos(times.exposed.0 / count.max(1)),
        "hidden" = hidden(&times).map(format::percent),
    )
}

/// Durations of the kinds of pairs, the most frequent first.
fn pairs(kinds: &[PairKind]) -> Sheet {
    let mut kinds: Vec<&PairKind> = kinds.iter().collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    let sheet = table!(
        kind = kinds.iter().take(MOST_ROWS),
        "pairs, by chunks" = kind.name(),
        "count" = kind.count,
        "take" = kind.composition.duration,
        "apart" = kind.apart,
        "not hidden" = kind.composition.exposed,
        "at best" = kind.composition.bound,
    );
    match kinds.len().saturating_sub(MOST_ROWS) {
        0 => sheet,
        more => sheet.and_text(format!("({more} rarer kinds of pairs are left out)\n")),
    }
}

/// Times of the streams of a stage in a step that takes `cost`.
pub(super) fn json(times: &StreamTimes, cost: Nanos) -> impl Serialize + use<> {
    object!(
        // How long the compute stream runs.
        computing_ns = times.computing.0,
        // How much of that is owed to communication beside it.
        stretched_ns = times.stretched.0,
        // How long the communication stream runs.
        communicating_ns = times.communicating.0,
        // How long it runs while the compute stream does not: a part of `busy_ns`.
        exposed_ns = times.exposed.0,
        // Share of the step in which the compute stream runs.
        compute_utilisation = ratio(whole(times.computing), cost),
        // Share of the communication beside compute; null without communication.
        communication_hidden = hidden(times),
    )
}
