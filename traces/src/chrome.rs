//! Reads the operations of trace events, as Chrome, Perfetto and debubble write them.

use std::borrow::Cow;
use std::fmt;

use pipeline::{Kind, Pass};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

use crate::Trace;
use crate::error::{Place, TraceError};
use crate::operation::{LATEST, LONGEST, OpType, Operation, count, nanos};

/// Nanoseconds per microsecond, the unit of trace events.
const MICROSECOND: f64 = 1e3;

/// The fields of an event that are read; all others are ignored.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    ph: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    ts: Option<Value>,
    dur: Option<Value>,
    tid: Option<Value>,
    args: Option<Args>,
}

/// The fields of an event's `args` that are read. A profiler may mean something else by these
/// names: whether they are numbers is checked only where the event is an operation.
#[derive(Deserialize, Default)]
struct Args {
    kind: Option<Value>,
    optype: Option<Value>,
    stage: Option<Value>,
    step: Option<Value>,
    dp_rank: Option<Value>,
    chunk: Option<Value>,
    microbatch: Option<Value>,
}

/// The operations among the events, taken one by one so that the others cost no memory.
#[derive(Clone, Copy)]
struct Events {
    /// The most operations.
    most: usize,
}

/// The result of reading: an error of the trace, rather than of its JSON, is the inner one.
type Taken = Result<Trace, TraceError>;

/// Reads `content`, of which no more than `most` operations are taken.
pub(crate) fn read(content: &[u8], most: usize) -> Taken {
    let mut json = serde_json::Deserializer::from_slice(content);
    let events = Events { most };
    let taken = match content.trim_ascii_start().starts_with(b"[") {
        true => events.deserialize(&mut json)?,
        false => json.deserialize_map(Object { events })?,
    };
    json.end()?;
    taken
}

/// The object form of a trace: its events stand under `traceEvents`.
struct Object {
    events: Events,
}

impl<'de> Visitor<'de> for Object {
    type Value = Taken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with trace events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Taken, A::Error> {
        const EVENTS: &str = "traceEvents";
        let mut taken = None;
        while let Some(key) = entries.next_key::<Cow<'de, str>>()? {
            if key != EVENTS {
                entries.next_value::<IgnoredAny>()?;
            } else if taken.replace(entries.next_value_seed(self.events)?).is_some() {
                return Err(de::Error::duplicate_field(EVENTS));
            }
        }
        taken.ok_or_else(|| de::Error::missing_field(EVENTS))
    }
}

impl<'de> DeserializeSeed<'de> for Events {
    type Value = Taken;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Taken, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events {
    type Value = Taken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Taken, A::Error> {
        let mut trace = Trace { operations: Vec::new(), skipped: 0 };
        let mut number = 0;
        while let Some(event) = events.next_element::<Event<'de>>()? {
            let taken = operation(&event, Place::Event(number)).and_then(|one| {
                trace.skipped += usize::from(one.is_none() && event.ph.as_deref() == Some("X"));
                one.map_or(Ok(()), |one| add(&mut trace.operations, one, self.most))
            });
            if let Err(error) = taken {
                while events.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(Err(error));
            }
            number += 1;
        }
        Ok(Ok(trace))
    }
}

/// Adds `one` to `all`, if it is not more than `most`.
fn add(all: &mut Vec<Operation>, one: Operation, most: usize) -> Result<(), TraceError> {
    let rows = all.len() + 1;
    if rows > most {
        return Err(TraceError::TooMany { rows: i64::try_from(rows).unwrap_or(i64::MAX), most });
    }
    all.try_reserve(1).map_err(|_| TraceError::NoMemory { rows })?;
    all.push(one);
    Ok(())
}

/// The operation that `event` says, or `None` if it says none.
fn operation(event: &Event<'_>, at: Place) -> Result<Option<Operation>, TraceError> {
    if event.ph.as_deref() != Some("X") {
        return Ok(None);
    }
    let Some((optype, named)) = optype(event, at)? else { return Ok(None) };
    let none = Args::default();
    let args = event.args.as_ref().unwrap_or(&none);
    let chunk = whole(args.chunk.as_ref(), at, "args.chunk")?;
    let microbatch = whole(args.microbatch.as_ref(), at, "args.microbatch")?;
    if named.is_none() && microbatch.is_none() && matches!(optype, OpType::Pass(_)) {
        return Err(TraceError::Absent { place: at, column: "args.microbatch" });
    }
    let named = named.unwrap_or(Pass::f(0, 0));
    let (stage, name) = match &args.stage {
        Some(stage) => (Some(stage), "args.stage"),
        None => (event.tid.as_ref(), "tid"),
    };
    let stage = whole(stage, at, name)?.ok_or(TraceError::Absent { place: at, column: name })?;
    let or_zero = |value: &Option<Value>, column| -> Result<i64, TraceError> {
        Ok(whole(value.as_ref(), at, column)?.unwrap_or(0))
    };
    Ok(Some(Operation {
        step: count(or_zero(&args.step, "args.step")?, at, "args.step")?,
        dp_rank: count(or_zero(&args.dp_rank, "args.dp_rank")?, at, "args.dp_rank")?,
        stage: count(stage, at, name)?,
        optype,
        chunk: count(chunk.unwrap_or(named.chunk.into()), at, "args.chunk")?,
        microbatch: count(microbatch.unwrap_or(named.microbatch.into()), at, "args.microbatch")?,
        start: nanos(decimal(event.ts.as_ref(), at, "ts")?, MICROSECOND, LATEST, at, "ts")?,
        duration: nanos(decimal(event.dur.as_ref(), at, "dur")?, MICROSECOND, LONGEST, at, "dur")?,
    }))
}

/// The type of operation of the event, from `args` or from its name, which then gives chunk and
/// microbatch too.
fn optype(event: &Event<'_>, at: Place) -> Result<Option<(OpType, Option<Pass>)>, TraceError> {
    let named = event.name.as_deref().and_then(pass);
    let args = event.args.as_ref();
    let by_optype = args.and_then(|args| args.optype.as_ref());
    let Some(said) = args.and_then(|args| args.kind.as_ref()).or(by_optype) else {
        return Ok(named.map(|pass| (OpType::Pass(pass.kind), Some(pass))));
    };
    match said.as_str().map(|name| (OpType::named(name), name)) {
        Some((Some(optype), _)) => Ok(Some((optype, named))),
        // A profiler's own kinds are none of ours, but who says optype means an operation.
        _ if by_optype.is_none() => Ok(None),
        found => {
            let name = found.map_or(said.to_string(), |(_, name)| name.to_owned());
            Err(TraceError::UnknownOpType { place: at, name: name.chars().take(40).collect() })
        }
    }
}

/// Reads a pass such as `F0.3`.
fn pass(name: &str) -> Option<Pass> {
    let digits = name.trim_start_matches(|c: char| c.is_ascii_uppercase());
    let letters = &name[..name.len() - digits.len()];
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == letters)?;
    let (chunk, microbatch) = digits.split_once('.')?;
    Some(Pass { kind, chunk: chunk.parse().ok()?, microbatch: microbatch.parse().ok()? })
}

fn whole(
    value: Option<&Value>,
    at: Place,
    column: &'static str,
) -> Result<Option<i64>, TraceError> {
    let Some(value) = value else { return Ok(None) };
    value.as_i64().map(Some).ok_or_else(|| wrong(value, at, column, "no whole number"))
}

fn decimal(value: Option<&Value>, at: Place, column: &'static str) -> Result<f64, TraceError> {
    let value = value.ok_or(TraceError::Absent { place: at, column })?;
    value.as_f64().ok_or_else(|| wrong(value, at, column, "not a number"))
}

fn wrong(value: &Value, place: Place, column: &'static str, why: &'static str) -> TraceError {
    let value = value.to_string().chars().take(40).collect();
    TraceError::Value { place, column, value, why }
}
