//! A timeline as trace events, for Perfetto or `chrome://tracing`.
//!
//! One process per schedule, one thread per stage, one complete event per pass, written one by one,
//! and a counter per device for its memory, where that is known. The two passes of a pair have the
//! same times, which viewers show one under the other.

use std::io::{self, Write};

use pipeline::{Bytes, Nanos, Pass, Timeline};

/// The process all stages belong to; 0 has a special meaning to some viewers.
const PROCESS: u32 = 1;

/// What to write.
pub(crate) struct Trace<'a> {
    /// The name of the process.
    pub(crate) name: &'a str,
    /// The spans of all steps, one step after the other on each stage.
    pub(crate) timeline: &'a Timeline,
    /// How many steps those are.
    pub(crate) steps: u32,
    /// By device, the bytes held from each moment on; empty where that is not known.
    pub(crate) memory: &'a [Vec<(Nanos, Bytes)>],
}

/// Writes `trace` as one JSON object. Times are in microseconds, exact to the nanosecond.
///
/// # Errors
/// If `out` cannot be written.
pub(crate) fn write(out: &mut dyn Write, trace: &Trace<'_>) -> io::Result<()> {
    let Trace { name, timeline, steps, memory } = trace;
    writeln!(out, r#"{{"displayTimeUnit":"ns","traceEvents":["#)?;
    let name = serde_json::to_string(name)?;
    write!(
        out,
        r#"{{"ph":"M","pid":{PROCESS},"tid":0,"name":"process_name","args":{{"name":{name}}}}}"#
    )?;
    for stage in 0..timeline.stages.len() {
        write_thread(out, stage)?;
    }
    for (stage, spans) in timeline.stages.iter().enumerate() {
        let of_step = (spans.len() / *steps as usize).max(1);
        for (at, span) in spans.iter().enumerate() {
            for pass in span.slot.passes() {
                write_pass(out, stage, at / of_step, pass, [span.start, span.end])?;
            }
        }
    }
    for (device, curve) in memory.iter().enumerate() {
        for (time, bytes) in curve {
            write_memory(out, device, *time, *bytes)?;
        }
    }
    writeln!(out, "\n]}}")
}

/// Names the thread of `stage` and puts it in its place.
fn write_thread(out: &mut dyn Write, stage: usize) -> io::Result<()> {
    let head = format!(r#"{{"ph":"M","pid":{PROCESS},"tid":{stage},"name""#);
    write!(
        out,
        ",\n{head}:\"thread_name\",\"args\":{{\"name\":\"stage {stage}\"}}}},\n\
         {head}:\"thread_sort_index\",\"args\":{{\"sort_index\":{stage}}}}}"
    )
}

fn write_pass(
    out: &mut dyn Write,
    stage: usize,
    step: usize,
    pass: Pass,
    [start, end]: [Nanos; 2],
) -> io::Result<()> {
    let Pass { kind, chunk, microbatch } = pass;
    let (kind, start, duration) = (kind.name(), micros(start), micros(end - start));
    write!(
        out,
        ",\n{{\"ph\":\"X\",\"pid\":{PROCESS},\"tid\":{stage},\"name\":\"{pass}\",\"cat\":\"{kind}\",\
         \"ts\":{start},\"dur\":{duration},\
         \"args\":{{\"step\":{step},\"chunk\":{chunk},\"microbatch\":{microbatch}}}}}"
    )
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
mod tests {
    use super::*;
    use crate::draw::samples;
    use pipeline::{Family, PassTimes, Shape, Span};
    use serde_json::Value;

    fn events(name: &str, timeline: &Timeline) -> Vec<Value> {
        let mut json = Vec::new();
        let memory = vec![vec![], vec![(Nanos(0), Bytes(3)), (Nanos(1_500), Bytes(4))]];
        let trace = Trace { name, timeline, steps: 1, memory: &memory };
        write(&mut json, &trace).unwrap();
        let mut trace: Value = serde_json::from_slice(&json).unwrap();
        serde_json::from_value(trace["traceEvents"].take()).unwrap()
    }

    fn nanos(micros: &Value) -> Nanos {
        let micros = micros.to_string();
        let (whole, fraction) = micros.split_once('.').unwrap();
        Nanos(format!("{whole}{fraction:0<3}").parse().unwrap())
    }

    #[test]
    fn a_trace_holds_every_span() {
        let times = PassTimes {
            forward: Nanos(12_345),
            backward_input: Nanos(1_001),
            backward_weight: Nanos(999),
        };
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
