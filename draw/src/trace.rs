//! A timeline as trace events, for Perfetto or `chrome://tracing`.
//!
//! One process per schedule, one thread per stage, one complete event per pass, written one by one,
//! a flow per transfer from the pass that makes a value to the one that needs it, an event for the
//! optimizer of each stage and step, a thread for the copies of each stage to the host and back, and
//! a counter per device for its memory, where those are known.
//! The two passes of a pair have the same times, which viewers show one under the other.
//!
//! Where passes are chains of segments, a stage has a second thread for its communication stream, right
//! below the first. Segments are events by their names, on the first thread below the passes that they
//! belong to.

mod rows;

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use pipeline::overlap::Stream;
use pipeline::{Bytes, Costs, Kind, Nanos, Pass, Shape, Slot, Span, Timeline, Value};
use sim::engine::Transfer;
use sim::{HostCopy, ParameterSpan};

use self::rows::{Row, Threads};

/// The process all stages belong to; 0 has a special meaning to some viewers.
const PROCESS: u32 = 1;

/// The contents of a trace.
pub struct Trace<'a> {
    /// The name of the process.
    pub name: &'a str,
    /// The spans of all steps, one step after the other on each stage.
    pub timeline: &'a Timeline,
    /// The pipeline they are of.
    pub shape: Shape,
    /// Costs of passes, if their segments are to be shown.
    pub costs: Option<&'a Costs>,
    /// How many steps those are.
    pub steps: u32,
    /// Every value that crossed between stages.
    pub transfers: &'a [Transfer],
    /// Every activation that went to the host and came back.
    pub copies: &'a [HostCopy],
    /// Every collective of parameters and gradients.
    pub parameters: &'a [ParameterSpan],
    /// For each step, when each stage could begin the next one.
    pub releases: &'a [Vec<Nanos>],
    /// How long the optimizer takes before that; 0 where there is none.
    pub optimizer: Nanos,
    /// By device, the bytes held from each moment on; empty where that is not known.
    pub memory: &'a [Vec<(Nanos, Bytes)>],
}

/// Writes `trace` as one JSON object. Times are in microseconds, exact to the nanosecond.
pub fn write(out: &mut dyn Write, trace: &Trace<'_>) -> io::Result<()> {
    let Trace { name, timeline, steps, transfers, memory, .. } = trace;
    writeln!(out, r#"{{"displayTimeUnit":"ns","traceEvents":["#)?;
    let name = serde_json::to_string(name)?;
    write!(
        out,
        r#"{{"ph":"M","pid":{PROCESS},"tid":0,"name":"process_name","args":{{"name":{name}}}}}"#
    )?;
    let mut threads = Threads::of(timeline.stages.len(), trace.costs);
    for stage in 0..timeline.stages.len() {
        let name = format!("stage {stage}");
        name_thread(out, stage, threads.place(stage, Row::Passes), &name)?;
        if threads.streams.is_some() {
            let (thread, name) = (threads.communication(stage), format!("communication of {name}"));
            name_thread(out, thread, threads.place(stage, Row::Communication), &name)?;
        }
    }
    let keyed = transfers.iter().enumerate();
    let ids = keyed.map(|(id, one)| ((one.step as usize, one.value), id)).collect();
    let events = events(timeline, *steps);
    for event in &events {
        write_pass(out, event)?;
        write_flows(out, &ids, trace.shape, event)?;
        if event.is_last {
            write_segments(out, &mut threads, event)?;
        }
    }
    write_copies(out, trace, &threads)?;
    write_parameters(out, trace, &threads)?;
    if trace.optimizer > Nanos(0) {
        write_optimizer(out, trace)?;
    }
    for (device, curve) in memory.iter().enumerate() {
        for (time, bytes) in curve {
            write_memory(out, device, *time, *bytes)?;
        }
    }
    writeln!(out, "\n]}}")
}

/// Names `thread` and puts it in its `place`.
fn name_thread(out: &mut dyn Write, thread: usize, place: usize, name: &str) -> io::Result<()> {
    let head = format!(r#"{{"ph":"M","pid":{PROCESS},"tid":{thread},"name""#);
    write!(
        out,
        ",\n{head}:\"thread_name\",\"args\":{{\"name\":\"{name}\"}}}},\n\
         {head}:\"thread_sort_index\",\"args\":{{\"sort_index\":{place}}}}}"
    )
}

fn write_pass(out: &mut dyn Write, event: &Event) -> io::Result<()> {
    let Event { pass, stage, step, start, end, .. } = *event;
    let Pass { kind, chunk, microbatch } = pass;
    let (kind, start, duration) = (kind.name(), micros(start), micros(end - start));
    write!(
        out,
        ",\n{{\"ph\":\"X\",\"pid\":{PROCESS},\"tid\":{stage},\"name\":\"{pass}\",\"cat\":\"{kind}\",\
         \"ts\":{start},\"dur\":{duration},\
         \"args\":{{\"step\":{step},\"chunk\":{chunk},\"microbatch\":{microbatch}}}}}"
    )
}

/// The segments of the slot of `event` that take time, each on the thread of its stream.
fn write_segments(out: &mut dyn Write, threads: &mut Threads<'_>, event: &Event) -> io::Result<()> {
    let Event { slot, stage, step, start, end, .. } = *event;
    let communication = threads.communication(stage);
    let Some(streams) = &mut threads.streams else { return Ok(()) };
    for one in streams.segments(&Span { slot, start, end }) {
        if one.end <= one.start {
            continue;
        }
        let thread = match one.segment.stream {
            Stream::Compute => stage,
            Stream::Communication => communication,
        };
        let (start, duration) = (micros(one.start), micros(one.end - one.start));
        let (name, stream) = (&one.segment.name, one.segment.stream.name());
        let part = one.part.letter();
        let layer = one.layer.map(|layer| format!(",\"layer\":{layer}")).unwrap_or_default();
        write!(
            out,
            ",\n{{\"ph\":\"X\",\"pid\":{PROCESS},\"tid\":{thread},\"name\":\"{name} {part}\",\
             \"cat\":\"{stream}\",\"ts\":{start},\"dur\":{duration},\
             \"args\":{{\"step\":{step},\"slot\":\"{slot}\"{layer}}}}}"
        )?;
    }
    Ok(())
}

/// A pass, and where it stands.
struct Event {
    pass: Pass,
    slot: Slot,
    /// Whether it is the last of its slot.
    is_last: bool,
    stage: usize,
    step: usize,
    start: Nanos,
    end: Nanos,
}

/// All passes in time; where several take no time at once, producers go before consumers, since viewers
/// end no flow that has not begun.
fn events(timeline: &Timeline, steps: u32) -> Vec<Event> {
    let passes = timeline.stages.iter().flatten().flat_map(|span| span.slot.passes());
    let chunks = passes.filter(|pass| !pass.kind.is_of_vocabulary()).map(|pass| pass.chunk);
    let last = chunks.max().map_or(0, u32::from);
    let depth = |pass: Pass| match pass.kind {
        Kind::F => u32::from(pass.chunk),
        Kind::S => last + 1,
        Kind::T | Kind::R => last + 2,
        Kind::B | Kind::BW => 2 * last + 3 - u32::from(pass.chunk),
        Kind::W => 2 * last + 4,
    };
    let mut events = Vec::new();
    for (stage, spans) in timeline.stages.iter().enumerate() {
        let of_step = (spans.len() / steps.max(1) as usize).max(1);
        for (at, span) in spans.iter().enumerate() {
            let (start, end, step) = (span.start, span.end, at / of_step);
            let slot = span.slot;
            // That which comes behind the other below: all segments come behind both.
            let last = slot.passes().max_by_key(|&pass| depth(pass));
            events.extend(slot.passes().map(|pass| {
                let is_last = last == Some(pass);
                Event { pass, slot, is_last, stage, step, start, end }
            }));
        }
    }
    events.sort_by_key(|one| (one.start, one.end, depth(one.pass)));
    events
}

/// Both ends of a flow in `event`: its inputs from other stages, its outputs to them.
///
/// Each is at the start of its pass and written right after it: that moment is the pass's own even if
/// it takes no time, while its end is already that of the next.
fn write_flows(
    out: &mut dyn Write,
    transfers: &HashMap<(usize, Value), usize>,
    shape: Shape,
    event: &Event,
) -> io::Result<()> {
    let id = |value: Value| transfers.get(&(event.step, value)).copied();
    let needed = event.pass.input(shape);
    if let Some((value, id)) = needed.and_then(|value| Some((value, id(value)?))) {
        write_flow(out, r#""ph":"f","bp":"e""#, id, value, event)?;
    }
    match event.pass.makes().and_then(|value| Some((value, id(value)?))) {
        Some((value, id)) => write_flow(out, r#""ph":"s""#, id, value, event),
        None => Ok(()),
    }
}

fn write_flow(
    out: &mut dyn Write,
    end: &str,
    id: usize,
    value: Value,
    event: &Event,
) -> io::Result<()> {
    let name = match value {
        Value::Output { .. } => "output",
        Value::Gradient { .. } => "gradient",
        Value::Statistics { .. } => "statistics",
        Value::HiddenGradient { .. } => "hidden gradient",
    };
    let (stage, time) = (event.stage, micros(event.start));
    write!(
        out,
        ",\n{{{end},\"pid\":{PROCESS},\"cat\":\"transfer\",\"name\":\"{name}\",\"id\":{id},\
         \"tid\":{stage},\"ts\":{time}}}"
    )
}

/// The copies of each stage, on a thread of their own below all stages.
fn write_copies(out: &mut dyn Write, trace: &Trace<'_>, places: &Threads<'_>) -> io::Result<()> {
    let stages = trace.timeline.stages.len();
    let threads: BTreeSet<usize> = trace.copies.iter().map(|copy| copy.stage).collect();
    for stage in threads {
        let place = places.place(stage, Row::Copies);
        name_thread(out, stages + stage, place, &format!("copies of stage {stage}"))?;
    }
    for copy in trace.copies {
        let Pass { chunk, microbatch, .. } = copy.pass;
        for (way, [start, end]) in [("O", copy.out), ("R", copy.back)] {
            let (thread, start, duration) =
                (stages + copy.stage, micros(start), micros(end - start));
            let (step, bytes) = (copy.step, copy.bytes.0);
            write!(
                out,
                ",\n{{\"ph\":\"X\",\"pid\":{PROCESS},\"tid\":{thread},\
                 \"name\":\"{way}{chunk}.{microbatch}\",\"cat\":\"copy\",\
                 \"ts\":{start},\"dur\":{duration},\
                 \"args\":{{\"step\":{step},\"bytes\":{bytes}}}}}"
            )?;
        }
    }
    Ok(())
}

/// The collectives of parameters and gradients of each stage, on a thread of their own below all others.
fn write_parameters(
    out: &mut dyn Write,
    trace: &Trace<'_>,
    places: &Threads<'_>,
) -> io::Result<()> {
    let thread = |stage: usize| 3 * trace.timeline.stages.len() + stage;
    let stages: BTreeSet<usize> = trace.parameters.iter().map(|span| span.stage).collect();
    for stage in stages {
        let place = places.place(stage, Row::Collectives);
        name_thread(out, thread(stage), place, &format!("collectives of stage {stage}"))?;
    }
    for ParameterSpan { stage, step, op, start, end, .. } in trace.parameters {
        let (thread, start, duration) = (thread(*stage), micros(*start), micros(*end - *start));
        let (name, chunk) = (op.act.name(), op.chunk);
        write!(
            out,
            ",\n{{\"ph\":\"X\",\"pid\":{PROCESS},\"tid\":{thread},\
             \"name\":\"{chunk}{name}\",\"cat\":\"parameters\",\"ts\":{start},\"dur\":{duration},\
             \"args\":{{\"step\":{step},\"chunk\":{chunk}}}}}"
        )?;
    }
    Ok(())
}

/// The optimizer of each stage, at the end of each step.
fn write_optimizer(out: &mut dyn Write, trace: &Trace<'_>) -> io::Result<()> {
    let duration = micros(trace.optimizer);
    for (step, releases) in trace.releases.iter().enumerate() {
        for (stage, end) in releases.iter().enumerate() {
            let start = micros(Nanos(end.0.saturating_sub(trace.optimizer.0)));
            write!(
                out,
                ",\n{{\"ph\":\"X\",\"pid\":{PROCESS},\"tid\":{stage},\"name\":\"optimizer\",\
                 \"cat\":\"optimizer\",\"ts\":{start},\"dur\":{duration},\
                 \"args\":{{\"step\":{step}}}}}"
            )?;
        }
    }
    Ok(())
}

fn write_memory(out: &mut dyn Write, device: usize, time: Nanos, bytes: Bytes) -> io::Result<()> {
    let time = micros(time);
    write!(
        out,
        ",\n{{\"ph\":\"C\",\"pid\":{PROCESS},\"name\":\"memory of device {device}\",\"ts\":{time},\
         \"args\":{{\"bytes\":{}}}}}",
        bytes.0
    )
}

/// Microseconds with the nanoseconds as decimals: no rounding, unlike a floating-point number.
fn micros(time: Nanos) -> String {
    format!("{}.{:03}", time.0 / 1_000, time.0 % 1_000)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::samples;
    use pipeline::{Family, PassTimes};
    use serde_json::Value as Json;

    fn events(name: &str, timeline: &Timeline) -> Vec<Json> {
        events_with(name, timeline, &[])
    }

    fn events_with(name: &str, timeline: &Timeline, transfers: &[Transfer]) -> Vec<Json> {
        let mut json = Vec::new();
        let memory = vec![vec![], vec![(Nanos(0), Bytes(3)), (Nanos(1_500), Bytes(4))]];
        let (releases, optimizer) = (&[][..], Nanos(0));
        let passes = timeline.stages.iter().flatten().flat_map(|span| span.slot.passes());
        let chunks = passes.map(|pass| u64::from(pass.chunk) + 1).max().unwrap_or(1);
        let trace = Trace {
            name,
            timeline,
            shape: Shape::new(1, chunks, 1).unwrap(),
            costs: None,
            steps: 1,
            transfers,
            copies: &[],
            parameters: &[],
            releases,
            optimizer,
            memory: &memory,
        };
        write(&mut json, &trace).unwrap();
        let mut trace: Json = serde_json::from_slice(&json).unwrap();
        serde_json::from_value(trace["traceEvents"].take()).unwrap()
    }

    pub(super) fn nanos(micros: &Json) -> Nanos {
        let micros = micros.to_string();
        let (whole, fraction) = micros.split_once('.').unwrap();
        Nanos(format!("{whole}{fraction:0<3}").parse().unwrap())
    }

    #[test]
    fn a_trace_holds_every_span() {
        let times = PassTimes::new(Nanos(12_345), Nanos(1_001), Nanos(999));
        let timeline = samples::costed(Family::ZbV, Shape::new(3, 2, 7).unwrap(), times);
        let mut read: Vec<Vec<Span>> = vec![Vec::new(); 3];
        for event in events("zb-v", &timeline).iter().filter(|event| event["ph"] == "X") {
            let args = |key: &str| event["args"][key].as_u64().unwrap();
            let cat = event["cat"].as_str().unwrap();
            let kind = pipeline::Kind::ALL.into_iter().find(|kind| kind.name() == cat).unwrap();
            let chunk = u16::try_from(args("chunk")).unwrap();
            let microbatch = u32::try_from(args("microbatch")).unwrap();
            let pass = Pass { kind, chunk, microbatch };
            assert_eq!(event["name"], pass.to_string());
            let start = nanos(&event["ts"]);
            let end = start + nanos(&event["dur"]);
            let stage = usize::try_from(event["tid"].as_u64().unwrap()).unwrap();
            read[stage].push(Span { slot: pass.into(), start, end });
        }
        assert_eq!(Timeline { stages: read }, timeline);
    }

    #[test]
    fn stages_are_named_and_both_passes_of_a_pair_are_there() {
        let events = events("a \"name\"\n", &samples::paired());
        assert_eq!(events[0]["args"]["name"], "a \"name\"\n");
        assert_eq!(events[1]["args"]["name"], "stage 0");
        assert_eq!(events[4]["args"]["sort_index"], 1);
        let pair = events.iter().filter(|event| event["tid"] == 1 && event["ts"] == 2.0);
        assert_eq!(pair.map(|event| &event["name"]).collect::<Vec<_>>(), ["F0.1", "BW0.1"]);
    }

    #[test]
    fn a_transfer_is_a_flow_from_maker_to_taker() {
        // Stage 1 takes F0.0 of stage 0, made at 12.345 us, at once.
        let times = |time| PassTimes { forward: Nanos(time), ..PassTimes::default() };
        let timeline =
            samples::costed(Family::OneFOneB, Shape::new(2, 1, 1).unwrap(), times(12_345));
        let value = Value::Output { chunk: 0, microbatch: 0 };
        let [made, end] = [Nanos(12_345), Nanos(12_345)];
        let one = Transfer { value, step: 0, from: 0, to: 1, made, begin: made, end };
        let events = events_with("1f1b", &timeline, &[one]);
        let flow = |ph| events.iter().find(|event| event["ph"] == ph).unwrap();
        let (begin, end) = (flow("s"), flow("f"));
        assert_eq!((nanos(&begin["ts"]), nanos(&end["ts"])), (Nanos(0), Nanos(12_345)));
        assert_eq!((&begin["tid"], &end["tid"]), (&0.into(), &1.into()));
        assert_eq!((&begin["id"], &end["bp"]), (&end["id"], &"e".into()));
    }

    #[test]
    fn memory_is_a_counter_of_its_device() {
        let events = events("1f1b", &samples::paired());
        let counters: Vec<_> = events.iter().filter(|event| event["ph"] == "C").collect();
        assert_eq!(counters.len(), 2);
        assert_eq!(counters[1]["name"], "memory of device 1");
        assert_eq!(counters[1]["ts"], 1.5);
        assert_eq!(counters[1]["args"]["bytes"], 4);
    }

    #[test]
    fn times_are_exact() {
        assert_eq!(micros(Nanos(12_345)), "12.345");
        assert_eq!(micros(Nanos(7)), "0.007");
        assert_eq!(micros(Nanos(u64::MAX)), "18446744073709551.615");
    }
}
