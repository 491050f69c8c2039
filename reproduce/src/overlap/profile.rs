//! The segments of the pair that DeepSeek published, and the ways to read times from them.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::overlap::{Chain, Contention, Layer};
use pipeline::{Fault, Nanos};
use question::Diagnostic;
use serde::Deserialize;

use super::super::sources::{Sources, error_in};
use super::layer::{Place, chunk, layer};

pub(in super::super) const SEGMENTS: &str = "overlap-pair.csv";

/// The part of each `notify` kernel that is not waiting for other ranks: about the shortest duration.
const HANDSHAKE: Nanos = Nanos(750_000);

/// The longest profile, so that sums of its times stay far from the end of the clock.
const LONGEST: Nanos = Nanos(3_600_000_000_000);

/// A range of the profiler on one stream.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Line {
    range: String,
    part: String,
    layer: usize,
    stream: String,
    start_ms: String,
    end_ms: String,
    busy_ms: String,
    notify_ms: Option<String>,
}

/// Start and end of a range on one stream.
#[derive(Clone, Copy)]
struct Span {
    start: Nanos,
    end: Nanos,
    busy: Nanos,
    notify: Nanos,
}

pub(in super::super) struct Profile {
    /// By range, part and layer in the order of launches, the spans on each of its streams.
    spans: BTreeMap<(String, String, usize), Vec<Span>>,
    layers: usize,
}

/// Treatment of `notify` kernels, which wait for other ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Notify {
    /// All of it: waits hold the stream.
    Kept,
    /// Of each [`HANDSHAKE`], if it took that long.
    Handshake,
    /// Nothing.
    Dropped,
}

/// A way to read times from the profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Reading {
    /// Whether W of the experts, on two compute streams at once, is the sum of both rather than the time
    /// in which either runs.
    pub(in super::super) adds_streams: bool,
    /// Whether every layer is the mean of all.
    pub(in super::super) is_mean: bool,
    /// Treatment of the waits.
    pub(in super::super) notify: Notify,
}

/// The ranges in the order of a layer, with the names of their segments.
const RANGES: [(&str, &str); 4] =
    [("attn", "attention"), ("dispatch", "dispatch"), ("mlp", "experts"), ("combine", "combine")];

impl Profile {
    pub(in super::super) fn read(sources: &Sources<'_>) -> Result<Self, Diagnostic> {
        let (path, lines) = sources.records::<Line>(SEGMENTS)?;
        let layers = lines.iter().map(|line| line.layer).max().unwrap_or(0);
        let mut spans: BTreeMap<_, Vec<Span>> = BTreeMap::new();
        for line in lines {
            let span = line.span(&path)?;
            spans.entry((line.range, line.part, line.layer)).or_default().push(span);
        }
        let profile = Self { spans, layers };
        profile.check(&path)?;
        Ok(profile)
    }

    /// Checks that every layer has every range.
    fn check(&self, path: &Path) -> Result<(), Diagnostic> {
        let wrong = |message: String| Err(error_in(path, None, &message));
        if !(1..=64).contains(&self.layers) {
            return wrong(format!("{} layers: from 1 to 64", self.layers));
        }
        let mut left = self.spans.clone();
        for at in 1..=self.layers {
            let pairs =
                RANGES.iter().flat_map(|(range, _)| parts(range).map(|part| (*range, part)));
            for (range, part) in pairs {
                let streams = left.remove(&(range.to_owned(), part.to_owned(), at));
                let most = if (range, part) == ("mlp", "W") { 2 } else { 1 };
                if streams.is_none_or(|streams| streams.len() > most) {
                    return wrong(format!(
                        "{range}, {part}, layer {at} must appear once for each stream"
                    ));
                }
            }
        }
        match left.into_keys().next() {
            Some((range, part, at)) => wrong(format!("{range}, {part}, layer {at} is unknown")),
            None => Ok(()),
        }
    }

    /// How many layers each pass of the pair has.
    pub(in super::super) const fn layers(&self) -> usize {
        self.layers
    }

    /// The chunk that was measured, read as `reading` says.
    pub(in super::super) fn chain(&self, reading: Reading) -> Result<Chain, Fault> {
        let layers = (1..=self.layers).map(|at| Ok((self.layer(at, reading)?, 1)));
        chunk(layers.collect::<Result<_, Fault>>()?)
    }

    /// A chunk of `count` mean layers.
    pub(in super::super) fn mean(&self, count: u32, reading: Reading) -> Result<Chain, Fault> {
        chunk(vec![(self.layer(1, Reading { is_mean: true, ..reading })?, count)])
    }

    /// Layer number `at` from the lowest, 1. The forward meets it at its `at`-th launch, the backward counts
    /// from the last.
    fn layer(&self, at: usize, reading: Reading) -> Result<Layer, Fault> {
        let places = RANGES.map(|(range, name)| {
            let time = |part| match reading.is_mean {
                true => {
                    let all: Nanos =
                        (1..=self.layers).map(|at| self.time(range, part, at, reading)).sum();
                    Nanos(all.0 / self.layers.max(1) as u64)
                }
                false if part == "F" => self.time(range, part, at, reading),
                false => self.time(range, part, self.layers + 1 - at, reading),
            };
            match is_communication(range) {
                true => Place::communication(name, [time("F"), time("B")]),
                false => Place::compute(name, ["F", "B", "W"].map(time)),
            }
        });
        layer(&places, Contention::NONE)
    }

    fn time(&self, range: &str, part: &str, at: usize, reading: Reading) -> Nanos {
        let spans = self.spans.get(&(range.to_owned(), part.to_owned(), at));
        match spans.map_or(&[][..], Vec::as_slice) {
            [one] => {
                let work = Nanos(one.busy.0.saturating_sub(one.notify.0));
                match reading.notify {
                    Notify::Kept => one.busy,
                    Notify::Handshake => work + one.notify.min(HANDSHAKE),
                    Notify::Dropped => work,
                }
            }
            several if reading.adds_streams => several.iter().map(|span| span.busy).sum(),
            several => {
                let start = several.iter().map(|span| span.start).min().unwrap_or_default();
                let end = several.iter().map(|span| span.end).max().unwrap_or_default();
                Nanos(end.0.saturating_sub(start.0))
            }
        }
    }
}

/// The parts that a range is there for.
fn parts(range: &str) -> impl Iterator<Item = &'static str> {
    ["F", "B", "W"].into_iter().take(if is_communication(range) { 2 } else { 3 })
}

fn is_communication(range: &str) -> bool {
    ["dispatch", "combine"].contains(&range)
}

impl Line {
    fn span(&self, path: &Path) -> Result<Span, Diagnostic> {
        let Self { range, part, layer, stream, .. } = self;
        let wrong = |message: String| {
            error_in(path, None, &format!("{range}, {part}, layer {layer}: {message}"))
        };
        let known: &[&str] = match is_communication(range) {
            true => &["communication"],
            false => &["compute", "compute-2"],
        };
        if !known.contains(&stream.as_str()) {
            return Err(wrong(format!("the stream is {stream}, not {}", known.join(" or "))));
        }
        let time = |text: &str| -> Result<Nanos, Diagnostic> {
            format!("{text}ms").parse().map_err(|error| wrong(format!("{error}")))
        };
        let [start, end] = [time(&self.start_ms)?, time(&self.end_ms)?];
        let [busy, notify] =
            [time(&self.busy_ms)?, time(self.notify_ms.as_deref().unwrap_or("0"))?];
        if end > LONGEST {
            return Err(wrong(format!("it ends after {end}: at most {LONGEST}")));
        }
        if end.0.checked_sub(start.0).is_none_or(|span| span < busy.0) || notify > busy {
            return Err(wrong("it is busy longer than from its start to its end".to_owned()));
        }
        Ok(Span { start, end, busy, notify })
    }
}
