//! Reads passes of pairs of events that begin and end (`"ph": "B"` and `"E"`), as Megatron-style
//! tracers write them.
//!
//! Only the event at the end says which pass it was: `microbatch`, `model_chunk`, `pp_rank` and
//! `iteration`. It ends what the last event of its name began on its `pid`.

use std::collections::BTreeMap;

use pipeline::Kind;
use serde_json::Value;

use crate::error::{Place, TraceError};
use crate::events::{Event, decimal, keep, whole};
use crate::hops::median;
use crate::lack::Lack;
use crate::numbers::{LATEST, LONGEST, MICROSECOND, count, nanos};
use crate::operation::{OpType, Operation};

/// Names of passes in such traces.
const NAMES: [(&str, Kind); 2] = [("forward", Kind::F), ("backward", Kind::BW)];

/// A pass that has begun.
struct Begun {
    /// Microseconds.
    at: f64,
    place: Place,
}

/// A pass as the event at its end says it; its chunk is that of the rank.
struct Ended {
    operation: Operation,
    place: Place,
}

/// The passes of a trace so far.
#[derive(Default)]
pub(crate) struct Passes {
    begun: BTreeMap<(u16, Kind), Begun>,
    ended: Vec<Ended>,
    /// When each iteration began and ended, over its ranks, in microseconds.
    iterations: BTreeMap<u64, [Option<f64>; 2]>,
}

impl Passes {
    /// How many have ended.
    pub(crate) fn len(&self) -> usize {
        self.ended.len()
    }

    /// Takes an event that begins or ends something, or is a moment.
    pub(crate) fn take(&mut self, event: &Event<'_>, at: Place) -> Result<(), TraceError> {
        let name = event.name.as_deref().unwrap_or_default();
        match event.ph.as_deref() {
            Some("B") => self.begin(name, event, at),
            Some("E") => self.end(name, event, at),
            Some("i") => self.moment(name, event),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, name: &str, event: &Event<'_>, at: Place) -> Result<(), TraceError> {
        let Some((name, kind)) = named(name) else { return Ok(()) };
        let pid = pid(event, at)?;
        let begun = Begun { at: time(event, at)?, place: at };
        match self.begun.insert((pid, kind), begun) {
            Some(Begun { place: first, .. }) => {
                Err(TraceError::BegunTwice { place: at, name, pid, first })
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, name: &str, event: &Event<'_>, at: Place) -> Result<(), TraceError> {
        let Some((name, kind)) = named(name) else { return Ok(()) };
        let pid = pid(event, at)?;
        let begun = self.begun.remove(&(pid, kind));
        let Some(begun) = begun else {
            return Err(TraceError::NeverBegun { place: at, name, pid });
        };
        let args = event.args.as_ref();
        let said = |value: Option<&Option<Value>>, column| {
            whole(value.and_then(Option::as_ref), at, column)
        };
        let microbatch = said(args.map(|args| &args.microbatch), "args.microbatch")?;
        let microbatch =
            microbatch.ok_or(TraceError::Absent { place: at, column: "args.microbatch" })?;
        let chunk = said(args.map(|args| &args.model_chunk), "args.model_chunk")?.unwrap_or(0);
        let stage = said(args.map(|args| &args.pp_rank), "args.pp_rank")?;
        let step = said(args.map(|args| &args.iteration), "args.iteration")?.unwrap_or(0);
        let dp_rank = said(args.map(|args| &args.dp_rank), "args.dp_rank")?.unwrap_or(0);
        let start = nanos(begun.at, MICROSECOND, LATEST, begun.place, "ts")?;
        let end = nanos(time(event, at)?, MICROSECOND, LATEST, at, "ts")?;
        let Some(duration) = end.0.checked_sub(start.0) else {
            return Err(TraceError::EndsFirst { place: at, name, pid, begun: begun.place });
        };
        #[allow(clippy::cast_precision_loss)] // A limit.
        let duration = nanos(duration as f64, 1.0, LONGEST, at, "ts")?;
        let operation = Operation {
            step: count(step, at, "args.iteration")?,
            dp_rank: count(dp_rank, at, "args.dp_rank")?,
            stage: count(stage.unwrap_or(pid.into()), at, "args.pp_rank")?,
            optype: OpType::Pass(kind),
            chunk: count(chunk, at, "args.model_chunk")?,
            microbatch: count(microbatch, at, "args.microbatch")?,
            start,
            duration,
        };
        let rows = self.len() + 1;
        keep(&mut self.ended, Ended { operation, place: at }, rows)
    }

    /// Notes when an iteration began or ended, which says how much of it lies outside its passes.
    fn moment(&mut self, name: &str, event: &Event<'_>) -> Result<(), TraceError> {
        let side = match name {
            "iteration begin" => 0,
            "iteration end" => 1,
            _ => return Ok(()),
        };
        let iteration = event.args.as_ref().and_then(|args| args.iteration.as_ref()?.as_u64());
        let at = event.ts.as_ref().and_then(Value::as_f64);
        // No more of them than there are passes: a mark without passes says nothing.
        let (Some(iteration), Some(at)) = (iteration, at) else { return Ok(()) };
        if self.iterations.len() <= self.ended.len() + 1 {
            let known = &mut self.iterations.entry(iteration).or_default()[side];
            let first = known.unwrap_or(at);
            *known = Some(if side == 0 { first.min(at) } else { first.max(at) });
        }
        Ok(())
    }

    /// The operations: chunk `c` of rank `r` of `p` is chunk `c * p + r` of the model.
    pub(crate) fn finish(self) -> Result<(Vec<Operation>, Vec<Lack>), TraceError> {
        let ranks = self.ended.iter().map(|one| u64::from(one.operation.stage) + 1).max();
        let ranks = ranks.unwrap_or(1);
        let global = |ended: Ended| {
            let Ended { mut operation, place } = ended;
            let chunk = u64::from(operation.chunk) * ranks + u64::from(operation.stage);
            let chunk = i64::try_from(chunk).unwrap_or(i64::MAX);
            operation.chunk = count(chunk, place, "args.model_chunk")?;
            Ok::<_, TraceError>(operation)
        };
        let outside = outside(&self.iterations, &self.ended);
        let mut lacks = Vec::new();
        lacks.extend(outside.map(|nanos| Lack::OutsidePasses { nanos }));
        if !self.begun.is_empty() {
            lacks.push(Lack::NeverEnded { passes: self.begun.len() });
        }
        let operations = self.ended.into_iter().map(global).collect::<Result<_, _>>()?;
        Ok((operations, lacks))
    }
}

/// The median time of an iteration in which none of its passes runs: before the first, after the
/// last. In nanoseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates.
fn outside(iterations: &BTreeMap<u64, [Option<f64>; 2]>, ended: &[Ended]) -> Option<u64> {
    let mut spans: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for Ended { operation: one, .. } in ended {
        let span = spans.entry(one.step).or_insert((one.start.0, one.end().0));
        *span = (span.0.min(one.start.0), span.1.max(one.end().0));
    }
    let mut all: Vec<u64> = Vec::new();
    for (iteration, marks) in iterations {
        if let (&[Some(begin), Some(end)], Some((first, last))) = (marks, spans.get(iteration)) {
            let whole = ((end - begin) * MICROSECOND) as u64;
            all.push(whole.saturating_sub(last - first));
        }
    }
    (!all.is_empty()).then(|| median(&mut all))
}

fn named(name: &str) -> Option<(&'static str, Kind)> {
    NAMES.into_iter().find(|(known, _)| *known == name)
}

fn pid(event: &Event<'_>, at: Place) -> Result<u16, TraceError> {
    let pid = whole(event.pid.as_ref(), at, "pid")?;
    count(pid.ok_or(TraceError::Absent { place: at, column: "pid" })?, at, "pid")
}

/// When it was, in microseconds.
fn time(event: &Event<'_>, at: Place) -> Result<f64, TraceError> {
    let time = decimal(event.ts.as_ref(), at, "ts")?;
    nanos(time, MICROSECOND, LATEST, at, "ts").map(|_| time)
}
