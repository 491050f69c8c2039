//! Streams the spans of a file: objects of OTLP in JSON, one or one a line, as the collector's file exporter writes
//! them, or the spans of Python's console exporter, whatever else its program printed between their lines.

use std::borrow::Cow;
use std::fmt;

use pipeline::Nanos;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

use super::Spans;
use super::attributes::Attributes;
use crate::error::{Place, TraceError};
use crate::events::number;
use crate::numbers::{LONGEST, moment, nanos};

/// Bytes in which a file shows its form.
const WINDOW: usize = 1 << 20;
/// Bytes in which a span of the console exporter shows its form.
const HEAD: usize = 4096;
const OTLP: [&[u8]; 3] = [b"resourceSpans", b"resourceLogs", b"resourceMetrics"];

/// Whether `content` is of spans, by the first object in it.
pub(crate) fn is_one(content: &[u8]) -> bool {
    let window = &content[..content.len().min(WINDOW)];
    let begin = object(window, 0).filter(|_| !content.trim_ascii_start().starts_with(b"["));
    begin.is_some_and(|at| {
        is_printed(&content[at..]) || OTLP.iter().any(|key| has_key(&content[at..], key))
    })
}

/// Whether the first key of `object` is `key`.
fn has_key(object: &[u8], key: &[u8]) -> bool {
    let inner = object[1..].trim_ascii_start();
    inner
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_prefix(key))
        .is_some_and(|rest| rest.starts_with(b"\""))
}

/// Whether `object` is a span of the console exporter.
fn is_printed(object: &[u8]) -> bool {
    let head = &object[..object.len().min(HEAD)];
    let has = |word: &[u8]| head.windows(word.len()).any(|part| part == word);
    has_key(object, b"name") && has(b"\"context\"") && has(b"\"trace_id\"")
}

/// Where the next object with keys begins that stands at the begin of a line, from `at` on.
fn object(content: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += content.get(at..)?.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let inner = content[at..].strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
        if inner.is_some_and(|inner| inner.starts_with(b"\"")) {
            return Some(at);
        }
        at += content[at..].iter().position(|byte| *byte == b'\n')?;
    }
}

/// Adds the spans of `content` to `spans`, of which there are at most `most`.
pub(crate) fn read(content: &[u8], spans: &mut Spans, most: usize) -> Result<(), TraceError> {
    let mut reading = Reading { spans, most, number: 0, fault: None };
    let mut at = 0;
    while let Some(begin) = object(content, at) {
        let mut json = serde_json::Deserializer::from_slice(&content[begin..]);
        let done = match is_printed(&content[begin..]) {
            true => RawSpan::deserialize(&mut json).and_then(|span| reading.printed(&span)),
            false => {
                let level = Level { reading: &mut reading, depth: Depth::Document };
                level.deserialize(&mut json)
            }
        };
        if let Err(error) = done {
            let of_line = || TraceError::of_line(content, begin, &error);
            return Err(reading.fault.unwrap_or_else(of_line));
        }
        at = begin + json.into_iter::<IgnoredAny>().byte_offset();
    }
    Ok(())
}

struct Reading<'s> {
    spans: &'s mut Spans,
    most: usize,
    /// Spans of the file so far.
    number: usize,
    /// An error of the trace, rather than of its JSON.
    fault: Option<TraceError>,
}

impl Reading<'_> {
    /// `result`, with its error kept aside.
    fn kept<E: de::Error>(&mut self, result: Result<(), TraceError>) -> Result<(), E> {
        result.map_err(|fault| {
            let error = E::custom(&fault);
            self.fault = Some(fault);
            error
        })
    }

    fn add(&mut self, span: &RawSpan<'_>) -> Result<(), TraceError> {
        let at = Place::Span(self.number);
        self.number += 1;
        let name = span.name.as_deref().unwrap_or_default();
        self.spans.take(name, &span.attributes, at, || span.time(at))?;
        let most = self.most;
        match i64::try_from(self.spans.len()) {
            Ok(rows) if self.spans.len() > most => Err(TraceError::TooMany { rows, most }),
            _ => Ok(()),
        }
    }

    /// Takes a span of the console exporter, with its resource.
    fn printed<E: de::Error>(&mut self, span: &RawSpan<'_>) -> Result<(), E> {
        let first = self.spans.len();
        let added = self.add(span);
        self.kept(added)?;
        let none = Attributes::default();
        let resource = span.resource.as_ref().map_or(&none, |one| &one.attributes);
        let taken = self.spans.resource(resource, first);
        self.kept(taken)
    }
}

/// What an object or a list is of.
#[derive(Clone, Copy, PartialEq)]
enum Depth {
    Document,
    Resource,
    Scope,
    Span,
}

struct Level<'l, 's> {
    reading: &'l mut Reading<'s>,
    depth: Depth,
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    attributes: Attributes,
}

/// A span of either form.
#[derive(Deserialize)]
struct RawSpan<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(alias = "startTimeUnixNano", alias = "start_time")]
    start: Option<Value>,
    #[serde(alias = "endTimeUnixNano", alias = "end_time")]
    end: Option<Value>,
    #[serde(default)]
    attributes: Attributes,
    resource: Option<Resource>,
}

impl<'de> Visitor<'de> for Level<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.depth {
            Depth::Document => "an object with resourceSpans",
            Depth::Resource => "spans of a resource",
            Depth::Scope => "spans of a scope",
            Depth::Span => "spans",
        })
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        let Self { reading, depth } = self;
        if depth == Depth::Span {
            while let Some(span) = all.next_element::<RawSpan<'de>>()? {
                let added = reading.add(&span);
                reading.kept(added)?;
            }
            return Ok(());
        }
        while all.next_element_seed(Level { reading: &mut *reading, depth })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { reading, depth } = self;
        let first = reading.spans.len();
        let mut resource = Attributes::default();
        while let Some(key) = entries.next_key::<Cow<'de, str>>()? {
            let inner = match (depth, &*key) {
                (Depth::Document, "resourceSpans") => Depth::Resource,
                (Depth::Resource, "scopeSpans") => Depth::Scope,
                (Depth::Scope, "spans") => Depth::Span,
                (Depth::Resource, "resource") => {
                    resource = entries.next_value::<Resource>()?.attributes;
                    continue;
                }
                _ => {
                    entries.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            entries.next_value_seed(Level { reading: &mut *reading, depth: inner })?;
        }
        if depth == Depth::Resource {
            let taken = reading.spans.resource(&resource, first);
            reading.kept(taken)?;
        }
        Ok(())
    }
}

impl RawSpan<'_> {
    /// Start and end in nanoseconds since 1970, if they are in range.
    fn time(&self, place: Place) -> Result<(Nanos, Nanos), TraceError> {
        let of = |value: &Option<Value>, column| {
            let dated = || date(value.as_ref()?.as_str()?);
            let time = number(value.as_ref()).or_else(dated);
            moment(time.ok_or(TraceError::Absent { place, column })?, place, column)
        };
        let (start, end) = (of(&self.start, "start time")?, of(&self.end, "end time")?);
        let Some(length) = end.0.checked_sub(start.0) else {
            let value = end.0.to_string();
            let why = "before its start";
            return Err(TraceError::Value { place, column: "end time", value, why });
        };
        #[allow(clippy::cast_precision_loss)] // A limit.
        nanos(length as f64, 1.0, LONGEST, place, "end time")?;
        Ok((start, end))
    }
}

/// Nanoseconds since 1970 of a date such as `2026-08-17T21:55:57.123456Z`.
fn date(text: &str) -> Option<i64> {
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_leap = |year: i64| i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    let (day, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut day = day.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (day.next()??, day.next()??, day.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut time = time.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let is_date = (1970..2100).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && [hour, minute, second].iter().all(|part| (0..=60).contains(part));
    if !is_date || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let years: i64 = (1970..year).map(|year| 365 + is_leap(year)).sum();
    let months = DAYS.iter().take(usize::try_from(month - 1).ok()?).sum::<i64>();
    let days = years + months + i64::from(month > 2) * is_leap(year) + day - 1;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1_000_000_000 + format!("{fraction:0<9}").parse::<i64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_times_of_unix() {
        assert_eq!(date("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(date("2000-03-01T00:00:00.5Z"), Some(951_868_800_500_000_000));
        assert_eq!(date("2026-11-30T01:14:23.699557Z"), Some(1_796_001_263_699_557_000));
        for wrong in ["", "2026-11-30", "2026-13-01T00:00:00Z", "2026-11-30T01:14:23.-1Z", "1e9"] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }
}
