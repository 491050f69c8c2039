//! Context that describe noise: profiles of slowdowns, and samples.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use pipeline::Nanos;
use sim::straggler::{Jitter, Profile, Target};

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::values::noise::{self as syntax, number};

/// The largest file of either kind.
const MAX_TABLE: u64 = 16 << 20;

/// The header a profile may have, in words.
const HEADER: &str =
    "time,factor for all stages, or time,stage,factor (or device or link instead of stage)";

/// A profile for one target, or for all stages.
pub struct Series {
    /// The target that is slow; `None` for all stages.
    pub target: Option<Target>,
    /// How slow, and when.
    pub profile: Profile,
    /// Its first line.
    line: Range<usize>,
}

/// The profiles in a file, and the file for errors about them.
pub struct Profiles<'a> {
    /// The profiles.
    pub series: Vec<Series>,
    path: &'a Path,
    text: String,
}

impl<'a> Profiles<'a> {
    /// Reads a file with the columns time and factor, and between them whose they are.
    pub fn read(context: &Context<'_>, path: &'a Path) -> Result<Self, Diagnostic> {
        let text = context.read_text(path, MAX_TABLE)?;
        let series = series(path, &text)?;
        Ok(Self { series, path, text })
    }

    /// An error about the first line of `series`.
    pub fn error(&self, series: &Series, message: String) -> Diagnostic {
        Diagnostic::at(self.path, &self.text, Some(series.line.clone()), message)
    }
}

/// The steps read for one target so far, and its first line.
type Steps = (Vec<(Nanos, f64)>, Range<usize>);

fn series(path: &Path, text: &str) -> Result<Vec<Series>, Diagnostic> {
    let fail = |place, message: String| Diagnostic::at(path, text, place, message);
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| fail(None, error.to_string()))?.clone();
    let kind = match header.iter().collect::<Vec<_>>()[..] {
        ["time", "factor"] => None,
        ["time", kind @ ("stage" | "device" | "link"), "factor"] => Some(kind.to_owned()),
        _ => return Err(fail(Some(0..0), format!("a profile begins with a header: {HEADER}"))),
    };
    let mut all: BTreeMap<Option<Target>, Steps> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| fail(place_of(&error, text), reason(&error)))?;
        let line = line_at(text, record.position());
        let fail = |message: String| fail(Some(line.clone()), message);
        let (target, time, slow) = entry(kind.as_deref(), &record).map_err(fail)?;
        let (steps, _) = all.entry(target).or_insert_with(|| (Vec::new(), line.clone()));
        let next = steps.last().copied().into_iter().chain([(time, slow)]);
        // The step before and this one make a profile, or this line is at fault.
        Profile::new(&next.collect::<Vec<_>>()).map_err(|error| fail(error.to_string()))?;
        steps.push((time, slow));
    }
    let whole = |(target, (steps, line)): (_, Steps)| {
        let profile = Profile::new(&steps).map_err(|e| fail(Some(line.clone()), e.to_string()))?;
        Ok(Series { target, profile, line })
    };
    if all.is_empty() {
        return Err(fail(None, format!("{} has no entry below its header", path.display())));
    }
    all.into_iter().map(whole).collect()
}

/// Whose, from when on, and by which factor.
fn entry(
    kind: Option<&str>,
    record: &csv::StringRecord,
) -> Result<(Option<Target>, Nanos, f64), String> {
    let target = kind.and_then(|kind| syntax::target(kind, &record[1])).transpose();
    let target = target.map_err(|error| error.to_string())?;
    let time = record[0].parse().map_err(|error: pipeline::UnitError| error.to_string())?;
    let factor = number(&record[record.len() - 1]).map_err(|error| error.to_string())?;
    Ok((target, time, factor))
}

fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("this line has {len} columns, the header has {expected_len}")
        }
        _ => error.to_string(),
    }
}

fn place_of(error: &csv::Error, text: &str) -> Option<Range<usize>> {
    error.position().map(|position| line_at(text, Some(position)))
}

/// The line of `text` at a place, without its end.
fn line_at(text: &str, position: Option<&csv::Position>) -> Range<usize> {
    let start = position.and_then(|at| usize::try_from(at.byte()).ok()).unwrap_or(0);
    let rest = text.get(start..).unwrap_or_default();
    // The reader may stand before empty or commented lines that it has passed over.
    let mut start = start;
    for line in rest.split_inclusive('\n') {
        if !line.trim().is_empty() && !line.starts_with('#') {
            return start..start + line.trim_end().len();
        }
        start += line.len();
    }
    start.min(text.len())..start.min(text.len())
}

/// Reads samples, one per line: factors, or durations with units. Empty lines and comments that
/// begin with `#` do not count.
pub fn samples(context: &Context<'_>, path: &Path) -> Result<Jitter, Diagnostic> {
    let text = context.read_text(path, MAX_TABLE)?;
    let (mut factors, mut durations) = (Vec::new(), Vec::new());
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let sample = line.trim();
        let place = at..at + line.trim_end().len();
        at += line.len();
        if sample.is_empty() || sample.starts_with('#') {
            continue;
        }
        let wrong = |message| Diagnostic::at(path, &text, Some(place.clone()), message);
        match (sample.parse::<f64>(), sample.parse::<Nanos>()) {
            (Ok(factor), _) => {
                Jitter::factors(vec![factor]).map_err(|error| wrong(error.to_string()))?;
                factors.push(factor);
            }
            (_, Ok(duration)) => durations.push(duration),
            (_, Err(error)) => return Err(wrong(error.to_string())),
        }
        if !factors.is_empty() && !durations.is_empty() {
            let message = "samples are all factors or all durations, but these are both";
            return Err(wrong(message.to_owned()));
        }
    }
    let jitter = match durations.is_empty() {
        true => Jitter::factors(factors),
        false => Jitter::durations(&durations),
    };
    jitter.map_err(|error| Diagnostic::new(format!("{}: {error}", path.display())))
}
