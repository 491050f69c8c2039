//! Reads the operations of complete trace events (`"ph": "X"`), as debubble and other tools write them.

use pipeline::{Kind, Pass};
use serde_json::Value;

use crate::error::{Place, TraceError};
use crate::events::{Args, Event, decimal, whole};
use crate::numbers::{LATEST, LONGEST, MICROSECOND, count, nanos};
use crate::operation::{OpType, Operation};

/// The operation that `event` says, or `None` if it says none.
pub(crate) fn operation(event: &Event<'_>, at: Place) -> Result<Option<Operation>, TraceError> {
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
        // Other `kind`s are a profiler's own; an unknown `optype` is an error.
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
