//! Reads reports of Nsight Systems as lines of JSON (`nsys export --type jsonlines`).
//!
//! A line is an event, or the table `data` of the texts that events name by number. A pass is an NVTX range with a
//! name of [`crate::torch`], and takes the time of the kernels that its process launches in the range
//! (`TraceProcessEvent`, by `correlationId`), without those of NCCL; where no kernels are traced, the
//! time of the range. A process is a rank: times count from the begin of a report, so that one holds all ranks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pipeline::Nanos;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Place, TraceError};
use crate::events::{Event, keep, number};
use crate::nsys_fault::{MAX_LINE, MAX_TEXTS, NsysFault};
use crate::numbers::moment;
use crate::torch::Rank;

/// The most bytes of the name of a pass.
const MAX_NAME: usize = 80;
/// Keys of the events that are read.
const EVENTS: [&[u8]; 3] = [b"\"NvtxEvent\":", b"\"CudaEvent\":", b"\"TraceProcessEvent\":"];

/// What is read of a text of the table.
enum Text {
    Pass(String),
    Nccl,
    Other,
}

impl Text {
    fn of(text: &str) -> Self {
        // emit_nvtx of torch adds numbers to a name.
        let name = text.split(", ").next().unwrap_or_default();
        let is_pass = ["PP:", "Forward ", "Backward "].iter().any(|of| name.starts_with(of));
        match text.starts_with("nccl") || text.starts_with("rccl") {
            true => Self::Nccl,
            false if is_pass && name.len() <= MAX_NAME => Self::Pass(name.to_owned()),
            false => Self::Other,
        }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    data: Option<Vec<String>>,
    #[serde(rename = "NvtxEvent", borrow)]
    range: Option<Range<'a>>,
    #[serde(rename = "TraceProcessEvent")]
    call: Option<Call>,
    #[serde(rename = "CudaEvent")]
    work: Option<Work>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Range<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    text_id: Option<Value>,
    timestamp: Option<Value>,
    end_timestamp: Option<Value>,
    global_tid: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    start_ns: Option<Value>,
    correlation_id: Option<Value>,
    global_tid: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Work {
    start_ns: Option<Value>,
    end_ns: Option<Value>,
    correlation_id: Option<Value>,
    global_pid: Option<Value>,
    kernel: Option<Kernel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kernel {
    short_name: Option<Value>,
}

/// A range that names a pass, or something else of a pipeline.
struct Named {
    name: String,
    line: usize,
    start: Nanos,
    end: Nanos,
}

/// What a process did.
#[derive(Default)]
struct Process {
    ranges: Vec<Named>,
    /// When kernels were launched, by correlation.
    launches: Vec<(i64, Nanos)>,
    /// Kernels that compute, by correlation.
    kernels: Vec<(i64, Nanos, Nanos)>,
}

/// The events of a report so far.
#[derive(Default)]
struct Report {
    texts: Vec<Text>,
    processes: BTreeMap<i64, Process>,
    rows: usize,
    skipped: usize,
}

/// Whether `content` is of lines of Nsight Systems.
pub(crate) fn is_one(content: &[u8]) -> bool {
    let window = content[..content.len().min(MAX_LINE)].trim_ascii_start();
    let has_event = |line: &[u8]| {
        let has = |key: &&[u8]| line.windows(key.len()).any(|part| part == *key);
        line.starts_with(b"{\"") && EVENTS.iter().any(has)
    };
    is_table(window) || window.split(|byte| *byte == b'\n').take(64).any(has_event)
}

/// Whether `line` is that of the table.
fn is_table(line: &[u8]) -> bool {
    let solid = line.iter().take(40).filter(|byte| !byte.is_ascii_whitespace());
    solid.take(10).eq(b"{\"data\":[\"")
}

/// The ranks of a report, of at most `most` events that are kept, and how many are something else.
pub(crate) fn read(content: &[u8], most: usize) -> Result<(Vec<Rank>, usize), TraceError> {
    let mut report = Report::default();
    let mut begin = 0;
    for (row, text) in (1..).zip(content.split(|byte| *byte == b'\n')) {
        let at = begin;
        begin += text.len() + 1;
        if text.trim_ascii().is_empty() {
            continue;
        }
        if text.len() > MAX_LINE && !is_table(text) {
            return Err(NsysFault::LongLine { line: row, bytes: text.len() }.into());
        }
        // A text has two quotation marks.
        if text.len() > MAX_LINE
            && text.iter().filter(|byte| **byte == b'"').count() / 2 > MAX_TEXTS
        {
            return Err(NsysFault::ManyTexts { line: row }.into());
        }
        let line: Line<'_> = serde_json::from_slice(text)
            .map_err(|error| TraceError::of_line(content, at, &error))?;
        report.take(line, row)?;
        if report.rows > most {
            let rows = i64::try_from(report.rows).unwrap_or(i64::MAX);
            return Err(TraceError::TooMany { rows, most });
        }
    }
    let Report { processes, skipped, .. } = report;
    let named = processes.into_values().filter(|one| !one.ranges.is_empty());
    let ranks: Vec<Rank> = named.map(Process::rank).collect::<Result<_, _>>()?;
    let ranks: Vec<Rank> = ranks.into_iter().filter(|rank| !rank.is_empty()).collect();
    if ranks.is_empty() { Err(NsysFault::NoPasses.into()) } else { Ok((ranks, skipped)) }
}

impl Report {
    fn take(&mut self, line: Line<'_>, at: usize) -> Result<(), TraceError> {
        let Line { data, range, call, work } = line;
        if let Some(texts) = data {
            self.texts = texts.iter().map(|text| Text::of(text)).collect();
        }
        match (range, call, work) {
            (Some(range), ..) => self.range(&range, at),
            (_, Some(call), _) => self.call(&call, at),
            (.., Some(work)) => self.work(&work, at),
            _ => Ok(()),
        }
    }

    fn text(&self, id: i64, line: usize) -> Result<&Text, TraceError> {
        let text = usize::try_from(id).ok().and_then(|at| self.texts.get(at));
        text.ok_or_else(|| NsysFault::NoText { line, text: id }.into())
    }

    /// The process of a number of a process or a thread, which has its own in the middle.
    fn process(
        &mut self,
        global: Option<&Value>,
        at: Place,
        column: &'static str,
    ) -> Result<&mut Process, TraceError> {
        let global = number(global).ok_or(TraceError::Absent { place: at, column })?;
        self.rows += 1;
        Ok(self.processes.entry(global >> 24).or_default())
    }

    fn range(&mut self, range: &Range<'_>, line: usize) -> Result<(), TraceError> {
        let known = match (&range.text, number(range.text_id.as_ref())) {
            (Some(text), _) => Text::of(text),
            (None, Some(id)) => match self.text(id, line)? {
                Text::Pass(name) => Text::Pass(name.clone()),
                _ => Text::Other,
            },
            (None, None) => Text::Other,
        };
        let (Text::Pass(name), Some(end)) = (known, &range.end_timestamp) else {
            self.skipped += 1;
            return Ok(());
        };
        let at = Place::Line(line);
        let start = time(range.timestamp.as_ref(), at, "Timestamp")?;
        let end = time(Some(end), at, "EndTimestamp")?;
        let rows = self.rows + 1;
        let process = self.process(range.global_tid.as_ref(), at, "GlobalTid")?;
        keep(&mut process.ranges, Named { name, line, start, end }, rows)
    }

    fn call(&mut self, call: &Call, line: usize) -> Result<(), TraceError> {
        let at = Place::Line(line);
        let Some(correlation) = number(call.correlation_id.as_ref()).filter(|id| *id != 0) else {
            return Ok(());
        };
        let start = time(call.start_ns.as_ref(), at, "startNs")?;
        let rows = self.rows + 1;
        let process = self.process(call.global_tid.as_ref(), at, "globalTid")?;
        keep(&mut process.launches, (correlation, start), rows)
    }

    fn work(&mut self, work: &Work, line: usize) -> Result<(), TraceError> {
        let at = Place::Line(line);
        let Some(kernel) = &work.kernel else { return Ok(()) };
        let absent = |column| TraceError::Absent { place: at, column };
        let name = number(kernel.short_name.as_ref()).ok_or(absent("kernel.shortName"))?;
        if let Text::Nccl = self.text(name, line)? {
            return Ok(());
        }
        let correlation = number(work.correlation_id.as_ref());
        let correlation = correlation.ok_or(absent("correlationId"))?;
        let start = time(work.start_ns.as_ref(), at, "startNs")?;
        let end = time(work.end_ns.as_ref(), at, "endNs")?;
        let rows = self.rows + 1;
        let process = self.process(work.global_pid.as_ref(), at, "globalPid")?;
        keep(&mut process.kernels, (correlation, start, end), rows)
    }
}

impl Process {
    /// The rank that it is, with each pass as the device ran it, if kernels are traced.
    fn rank(mut self) -> Result<Rank, TraceError> {
        let mut rank = Rank::default();
        self.ranges.sort_by_key(|one| (one.start, one.end));
        let Self { ranges, mut launches, kernels } = self;
        launches.sort_unstable();
        let launched = |correlation| {
            let at = launches.partition_point(|(one, _)| *one < correlation);
            launches.get(at).filter(|(one, _)| *one == correlation).map(|(_, at)| *at)
        };
        // By when they were launched.
        let mut run: Vec<(Nanos, Nanos, Nanos)> = kernels
            .iter()
            .filter_map(|&(correlation, start, end)| Some((launched(correlation)?, start, end)))
            .collect();
        if run.is_empty() && !kernels.is_empty() {
            return Err(NsysFault::NoLaunches.into());
        }
        run.sort_unstable();
        for Named { name, line, start, end } in &ranges {
            let at = Place::Line(*line);
            let before = rank.len();
            rank.take(&Event::named(name, false, *start, *end), at)?;
            if run.is_empty() || !crate::torch::names_pass(name) || rank.len() == before {
                continue;
            }
            let first = run.partition_point(|one| one.0 < *start);
            let of_pass = run[first..].iter().take_while(|one| one.0 <= *end);
            let hull = of_pass.fold(None, |hull: Option<(Nanos, Nanos)>, one| {
                let (start, end) = hull.unwrap_or((one.1, one.2));
                Some((start.min(one.1), end.max(one.2)))
            });
            let Some((start, end)) = hull else {
                return Err(NsysFault::NoKernels { line: *line, name: name.clone() }.into());
            };
            rank.take(&Event::named(name, true, start, end), at)?;
        }
        Ok(rank)
    }
}

fn time(value: Option<&Value>, place: Place, column: &'static str) -> Result<Nanos, TraceError> {
    moment(number(value).ok_or(TraceError::Absent { place, column })?, place, column)
}

#[cfg(test)]
mod tests;
