//! The rows of a trace: passes, communication and copies of each stage.

use pipeline::Costs;
use sim::streams::Streams;

/// A row of a stage, shown as a thread.
#[derive(Clone, Copy)]
pub(super) enum Row {
    Passes,
    Communication,
    Copies,
    Collectives,
}

/// The threads of a trace: which there are, and in which order.
pub(super) struct Threads<'a> {
    stages: usize,
    /// The segments of passes, if they have any.
    pub(super) streams: Option<Streams<'a>>,
}

impl<'a> Threads<'a> {
    pub(super) fn of(stages: usize, costs: Option<&'a Costs>) -> Self {
        Self { stages, streams: costs.and_then(Streams::of) }
    }

    /// The thread of the communication stream of `stage`; those of copies are before.
    pub(super) const fn communication(&self, stage: usize) -> usize {
        2 * self.stages + stage
    }

    /// The place of a row of `stage` among all: the streams of a stage stand together.
    pub(super) const fn place(&self, stage: usize, row: Row) -> usize {
        let rows = if self.streams.is_some() { 2 } else { 1 };
        match row {
            Row::Passes => rows * stage,
            Row::Communication => rows * stage + 1,
            Row::Copies => rows * self.stages + stage,
            Row::Collectives => (rows + 1) * self.stages + stage,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use pipeline::Nanos;
    use serde_json::Value as Json;

    use super::super::tests::nanos;
    use super::super::{Trace, write};
    use super::*;
    use crate::samples;

    #[test]
    fn each_stream_has_a_row_and_segments_lie_in_their_slots() {
        let (schedule, costs) = samples::overlapped();
        let timeline = sim::Replay::new().timeline(&schedule, &costs).unwrap();
        let mut json = Vec::new();
        let trace = Trace {
            name: "overlap",
            timeline: &timeline,
            shape: schedule.shape(),
            costs: Some(&costs),
            steps: 1,
            transfers: &[],
            copies: &[],
            parameters: &[],
            releases: &[],
            optimizer: Nanos(0),
            memory: &[],
        };
        write(&mut json, &trace).unwrap();
        let trace: Json = serde_json::from_slice(&json).unwrap();
        let all = trace["traceEvents"].as_array().unwrap();
        let named = |name: &str| {
            let place = |one: &&Json| one["name"] == "thread_name" && one["args"]["name"] == name;
            let thread = &all.iter().find(place).unwrap()["tid"];
            let sorted = |one: &&Json| one["name"] == "thread_sort_index" && one["tid"] == *thread;
            (thread.clone(), all.iter().find(sorted).unwrap()["args"]["sort_index"].clone())
        };
        assert_eq!(named("stage 1"), (1.into(), 2.into()));
        assert_eq!(named("communication of stage 1"), (9.into(), 3.into()));
        let mut streams = Streams::of(&costs).unwrap();
        for (stage, spans) in timeline.stages.iter().enumerate() {
            let times = streams.spans(spans);
            for (thread, cat, sum) in [
                (stage, "compute", times.computing),
                (8 + stage, "communication", times.communicating),
            ] {
                let of = all.iter().filter(|one| one["tid"] == thread && one["cat"] == cat);
                assert_eq!(of.map(|one| nanos(&one["dur"])).sum::<Nanos>(), sum);
            }
        }
        // The open events of each thread are nested, as viewers take them: longer ones first.
        let mut open: HashMap<u64, Vec<Nanos>> = HashMap::new();
        let mut last = Nanos(0);
        let mut events: Vec<&Json> = all.iter().filter(|one| one["ph"] == "X").collect();
        events.sort_by_key(|one| nanos(&one["ts"]));
        for one in events {
            let (start, end) = (nanos(&one["ts"]), nanos(&one["ts"]) + nanos(&one["dur"]));
            let open = open.entry(one["tid"].as_u64().unwrap()).or_default();
            open.retain(|&end| end > start);
            assert!(open.iter().all(|&outer| end <= outer), "{one}");
            open.push(end);
            last = last.max(end);
        }
        assert_eq!(last, timeline.stages.iter().flatten().map(|span| span.end).max().unwrap());
    }
}
