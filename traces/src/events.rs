//! Streams the events of a JSON trace, so that those that are not read cost no
//! memory, and hands each to the reader of its form.

use std::borrow::Cow;
use std::fmt;

use pipeline::Nanos;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

use crate::error::{Place, TraceError};
use crate::numbers::MICROSECOND;

/// The fields of an event that are read; the rest are ignored.
#[derive(Deserialize)]
pub(crate) struct Event<'a> {
    #[serde(borrow)]
    pub(crate) ph: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) cat: Option<Cow<'a, str>>,
    pub(crate) ts: Option<Value>,
    pub(crate) dur: Option<Value>,
    pub(crate) pid: Option<Value>,
    pub(crate) tid: Option<Value>,
    pub(crate) args: Option<Args>,
}

/// The fields of an event's `args` that are read. A profiler may mean something else by these
/// names: whether they are numbers is checked only where the event is an operation.
#[derive(Deserialize, Default)]
pub(crate) struct Args {
    pub(crate) kind: Option<Value>,
    pub(crate) optype: Option<Value>,
    pub(crate) stage: Option<Value>,
    pub(crate) step: Option<Value>,
    pub(crate) dp_rank: Option<Value>,
    pub(crate) chunk: Option<Value>,
    pub(crate) microbatch: Option<Value>,
    pub(crate) iteration: Option<Value>,
    pub(crate) model_chunk: Option<Value>,
    pub(crate) pp_rank: Option<Value>,
    /// Number of the node of autograd that an operator makes, or that is evaluated.
    #[serde(rename = "Sequence number")]
    pub(crate) sequence: Option<Value>,
    /// The thread of the operator of a node; 0 of an operator.
    #[serde(rename = "Fwd thread id")]
    pub(crate) forward_thread: Option<Value>,
    /// Same for a kernel and for the call that launches it.
    pub(crate) correlation: Option<Value>,
    #[serde(rename = "Collective name")]
    pub(crate) collective: Option<Value>,
    #[serde(rename = "Process Group Description")]
    pub(crate) group: Option<Value>,
    #[serde(rename = "Process Group Ranks")]
    pub(crate) ranks: Option<Value>,
    /// The peer, within the group.
    #[serde(rename = "Rank")]
    pub(crate) rank: Option<Value>,
    /// The peer, among all ranks.
    #[serde(rename = "Src Rank")]
    pub(crate) source: Option<Value>,
    #[serde(rename = "Dst Rank")]
    pub(crate) destination: Option<Value>,
}

/// Fields of the trace object besides its events.
#[derive(Default)]
pub(crate) struct Head {
    /// `distributedInfo`, which `torch.profiler` writes.
    pub(crate) distributed: Option<Distributed>,
    /// `baseTimeNanoseconds`: the time at which `ts` is 0.
    pub(crate) base: Option<Value>,
    /// Whether there is a `schemaVersion`, as in every trace of `torch.profiler`.
    pub(crate) by_torch: bool,
    /// Whether it is an execution trace of PyTorch: operators under `nodes`.
    pub(crate) is_execution: bool,
}

/// The place of a process among those of its run.
#[derive(Deserialize)]
pub(crate) struct Distributed {
    pub(crate) rank: Option<Value>,
    pub(crate) world_size: Option<Value>,
}

/// Takes the events, each with its place.
pub(crate) trait Sink {
    /// Takes `event`.
    fn take(&mut self, event: &Event<'_>, place: Place) -> Result<(), TraceError>;
}

/// Hands the events of `content` to `sink`.
pub(crate) fn each(content: &[u8], sink: &mut dyn Sink) -> Result<Head, TraceError> {
    let mut json = serde_json::Deserializer::from_slice(content);
    let mut head = Head::default();
    let taken = match content.trim_ascii_start().starts_with(b"[") {
        true => Events { sink }.deserialize(&mut json)?,
        false => json.deserialize_map(Object { sink, head: &mut head })?,
    };
    taken?;
    json.end()?;
    Ok(head)
}

/// An error of the trace, rather than of its JSON, is the inner one.
type Taken = Result<(), TraceError>;

/// The object form of a trace: its events stand under `traceEvents`.
struct Object<'s> {
    sink: &'s mut dyn Sink,
    head: &'s mut Head,
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Taken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with trace events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Taken, A::Error> {
        const EVENTS: &str = "traceEvents";
        let mut taken = None;
        let mut nodes = Ok(());
        while let Some(key) = entries.next_key::<Cow<'de, str>>()? {
            match &*key {
                EVENTS => {
                    let events = entries.next_value_seed(Events { sink: &mut *self.sink })?;
                    if taken.replace(events).is_some() {
                        return Err(de::Error::duplicate_field(EVENTS));
                    }
                }
                "nodes" if taken.is_none() && !self.head.is_execution => {
                    self.head.is_execution = true;
                    nodes = entries.next_value_seed(Nodes { sink: &mut *self.sink })?;
                }
                "distributedInfo" => self.head.distributed = entries.next_value()?,
                "baseTimeNanoseconds" => self.head.base = entries.next_value()?,
                "schemaVersion" => {
                    entries.next_value::<IgnoredAny>()?;
                    self.head.by_torch = true;
                }
                _ => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        Ok(match taken {
            None if self.head.is_execution => nodes,
            taken => taken.unwrap_or(Err(TraceError::NotATrace)),
        })
    }
}

/// The events themselves.
struct Events<'s> {
    sink: &'s mut dyn Sink,
}

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = Taken;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Taken, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = Taken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Taken, A::Error> {
        let mut number = 0;
        while let Some(event) = events.next_element::<Event<'de>>()? {
            if let Err(error) = self.sink.take(&event, Place::Event(number)) {
                while events.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(Err(error));
            }
            number += 1;
        }
        Ok(Ok(()))
    }
}

/// The nodes of an execution trace. Only what links it with a trace of `torch.profiler`, as Chakra does, gives them
/// times, in microseconds.
struct Nodes<'s> {
    sink: &'s mut dyn Sink,
}

#[derive(Deserialize)]
struct Node<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    ts: Option<Value>,
    inclusive_dur: Option<Value>,
}

impl<'de> DeserializeSeed<'de> for Nodes<'_> {
    type Value = Taken;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Taken, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Nodes<'_> {
    type Value = Taken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut nodes: A) -> Result<Taken, A::Error> {
        let mut number = 0;
        let mut taken = Ok(());
        while let Some(node) = nodes.next_element::<Node<'de>>()? {
            if let (Ok(()), Some(ts), Some(dur)) = (&taken, node.ts, node.inclusive_dur) {
                let event = Event::annotation(node.name, ts, dur);
                taken = self.sink.take(&event, Place::Node(number));
            }
            number += 1;
        }
        Ok(taken)
    }
}

impl<'a> Event<'a> {
    /// One that torch writes of what a program names.
    fn annotation(name: Option<Cow<'a, str>>, ts: Value, dur: Value) -> Self {
        let [ph, cat] = ["X", "user_annotation"].map(|text| Some(Cow::Borrowed(text)));
        let (ts, dur) = (Some(ts), Some(dur));
        Self { ph, name, cat, ts, dur, pid: None, tid: None, args: None }
    }

    /// What a program named, on the host or as the device ran it.
    #[allow(clippy::cast_precision_loss)] // A microsecond of a run has a decimal point.
    pub(crate) fn named(name: &'a str, on_device: bool, start: Nanos, end: Nanos) -> Self {
        let of = |nanos: u64| Value::from(nanos as f64 / MICROSECOND);
        let length = end.0.saturating_sub(start.0);
        let event = Self::annotation(Some(Cow::Borrowed(name)), of(start.0), of(length));
        let cat = if on_device { "gpu_user_annotation" } else { "user_annotation" };
        Self { cat: Some(Cow::Borrowed(cat)), ..event }
    }
}

/// Appends `one` to `list`, unless there is no memory for `rows` in all.
pub(crate) fn keep<T>(list: &mut Vec<T>, one: T, rows: usize) -> Result<(), TraceError> {
    list.try_reserve(1).map_err(|_| TraceError::NoMemory { rows })?;
    list.push(one);
    Ok(())
}

/// A whole number of a profiler, which writes some as text.
pub(crate) fn number(value: Option<&Value>) -> Option<i64> {
    let value = value?;
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A whole number, if there is a value.
pub(crate) fn whole(
    value: Option<&Value>,
    at: Place,
    column: &'static str,
) -> Result<Option<i64>, TraceError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_i64();
            number.map(Some).ok_or_else(|| wrong(value, at, column, "not a whole number"))
        }
    }
}

/// A number that has to be there.
pub(crate) fn decimal(
    value: Option<&Value>,
    at: Place,
    column: &'static str,
) -> Result<f64, TraceError> {
    let value = value.ok_or(TraceError::Absent { place: at, column })?;
    value.as_f64().ok_or_else(|| wrong(value, at, column, "not a number"))
}

fn wrong(value: &Value, place: Place, column: &'static str, why: &'static str) -> TraceError {
    let value = value.to_string().chars().take(40).collect();
    TraceError::Value { place, column, value, why }
}
