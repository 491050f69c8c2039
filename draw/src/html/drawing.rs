//! Timelines as data for the script of a page.

use std::collections::BTreeSet;

use pipeline::{Bytes, Costs, Kind, Nanos, Schedule};
use question::format;
use serde::Serialize;
use sim::engine::Run;
use sim::explain::{Cause, Waits};

use super::idle::{self, Idle, IdleData};
use super::pack;
use super::streams::StreamsData;
use crate::DrawError;
use crate::canvas::{COMMUNICATION, IDLE, colours};

/// One schedule of a drawing.
pub struct PageChart<'a> {
    pub title: String,
    /// The order of passes.
    pub schedule: &'a Schedule,
    pub run: &'a Run,
    /// The device of each stage.
    pub devices: Vec<usize>,
    /// By device, the bytes held from each moment on; empty where that is not known.
    pub memory: &'a [Vec<(Nanos, Bytes)>],
    /// The memory of each device, if that is known.
    pub capacities: Option<&'a [Bytes]>,
    /// Costs of passes: where they are chains of segments, the communication stream of each stage is
    /// drawn below its passes.
    pub costs: Option<&'a Costs>,
    /// Why stages wait in the last step, or why that cannot be said; nothing where it was not asked.
    pub idle: Option<Result<Idle<'a>, String>>,
}

/// Charts one below the other, on one time axis, as the script of a page reads them.
#[derive(Serialize)]
pub struct Drawing {
    end: u64,
    /// Why it ends there.
    axis: String,
    /// The part that is left out, and why.
    pub(super) left_out: Option<String>,
    /// By cause: name and colour.
    causes: Vec<[&'static str; 2]>,
    /// The kinds that occur.
    kinds: Vec<u8>,
    /// By kind: the colour of a first and of a later chunk.
    colours: [[String; 2]; Kind::ALL.len()],
    letters: [String; Kind::ALL.len()],
    idle: String,
    /// The colours of communication, hidden and not, where any is drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    communication: Option<[String; 2]>,
    charts: Vec<ChartData>,
}

impl Drawing {
    /// `charts`, with their transfers where `transfers` are wanted.
    pub fn of(charts: &[PageChart<'_>], transfers: bool) -> Result<Self, DrawError> {
        let end = charts.iter().map(PageChart::makespan).max().unwrap_or(0);
        if end == 0 {
            return Err(DrawError::Empty { what: "no pass takes time" });
        }
        let (axis, last) = axis(charts);
        let spans = charts.iter().flat_map(|chart| chart.run.timeline.stages.iter().flatten());
        let passes = spans.flat_map(|span| span.slot.passes());
        let kinds: BTreeSet<Kind> = passes.map(|pass| pass.kind).collect();
        let streams =
            charts.iter().any(|chart| chart.costs.is_some_and(|one| one.overlap().is_some()));
        let collectives = charts.iter().any(|chart| !chart.run.parameters.is_empty());
        let causes = idle::causes([streams, collectives]);
        let shades = |kind| [false, true].map(|later| hex(colours(kind, later).0));
        Ok(Self {
            end: last.max(end),
            axis,
            left_out: None,
            causes: idle::keys(&causes),
            kinds: kinds.into_iter().map(|kind| kind as u8).collect(),
            colours: Kind::ALL.map(shades),
            letters: Kind::ALL.map(|kind| hex(colours(kind, false).1)),
            idle: hex(IDLE),
            communication: streams.then(|| COMMUNICATION.map(hex)),
            charts: charts.iter().map(|chart| ChartData::of(chart, transfers, &causes)).collect(),
        })
    }

    /// Leaves out the transfers, and says so: with them, the page has that many `bytes`.
    pub(super) fn leave_out_transfers(&mut self, bytes: usize) {
        self.charts.iter_mut().for_each(|chart| chart.transfers.clear());
        let megabytes = bytes.div_ceil(1_000_000);
        self.left_out = Some(format!(
            "transfers are left out: with them, the page would be about {megabytes} MB"
        ));
    }
}

/// Why the axis ends where it does, in words, and the end of the last step.
fn axis(charts: &[PageChart<'_>]) -> (String, u64) {
    let idle_end = |chart: &PageChart<'_>| chart.known_idle().map_or(0, Idle::end);
    let end = |chart: &PageChart<'_>| idle_end(chart).max(chart.makespan());
    let last = charts.iter().max_by_key(|chart| end(chart));
    let Some((chart, end)) = last.map(|chart| (chart, end(chart))) else {
        return (String::new(), 0);
    };
    let name = &chart.title;
    let (end_text, makespan) = (format::time(Nanos(end)), format::time(Nanos(chart.makespan())));
    let text = match chart.known_idle() {
        Some(idle) if end > chart.makespan() => {
            let gaps = &idle.gaps;
            let optimizer = if gaps.optimizer > Nanos(0) { ", the optimizer with it" } else { "" };
            format!(
                "Dashed: the last pass ends, for {name} at {makespan}, its makespan. Every stage has a step of {}{optimizer}: \
                 what is grey after its last pass is idle time. The axis ends at {end_text}.",
                format::time(gaps.cost)
            )
        }
        _ => format!(
            "Dashed: the last pass ends. The axis ends at {end_text}, the makespan of {name}."
        ),
    };
    (text, end)
}

fn hex(colour: plotters::style::RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

/// One schedule; how its texts of numbers are read is written in `pack.rs` and in the script.
#[derive(Serialize)]
struct ChartData {
    name: String,
    makespan: u64,
    /// By stage, its slots.
    stages: Vec<String>,
    /// The device, its peak, and its memory from each moment on.
    memory: Vec<(usize, u64, String)>,
    /// Memory of each device.
    limits: Option<Vec<u64>>,
    /// Transfers from one stage to another.
    transfers: Vec<(usize, usize, String)>,
    /// By step, when each stage's optimizer ends, and how long it takes.
    releases: Vec<Vec<u64>>,
    optimizer: u64,
    /// Absent where it was not asked.
    idle: Option<IdleData>,
    /// Absent where passes have no segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<StreamsData>,
}

impl PageChart<'_> {
    /// Why stages wait, if that was asked and is known.
    fn known_idle(&self) -> Option<&Idle<'_>> {
        self.idle.as_ref()?.as_ref().ok()
    }

    /// The end of the last pass.
    fn makespan(&self) -> u64 {
        let ends = self.run.timeline.stages.iter().filter_map(|spans| spans.last());
        ends.map(|span| span.end.0).max().unwrap_or(0)
    }
}

impl ChartData {
    fn of(chart: &PageChart<'_>, transfers: bool, causes: &[Cause]) -> Self {
        let waits = Waits::new(chart.schedule, chart.run, &chart.devices);
        let stages = chart.run.timeline.stages.iter().enumerate();
        let slots = |(stage, spans): (usize, &Vec<_>)| {
            pack::slots(stage, (0..spans.len()).map(|at| waits.link(stage, at)))
        };
        let memory = chart.memory.iter().enumerate().filter(|(_, curve)| !curve.is_empty());
        let memory = memory.map(|(device, curve)| {
            let peak = curve.iter().map(|(_, bytes)| bytes.0).max().unwrap_or(0);
            (device, peak, pack::curve(curve))
        });
        Self {
            name: chart.title.clone(),
            makespan: chart.makespan(),
            stages: stages.map(slots).collect(),
            memory: memory.collect(),
            limits: chart.capacities.map(|all| all.iter().map(|bytes| bytes.0).collect()),
            transfers: if transfers { pack::transfers(&chart.run.transfers) } else { Vec::new() },
            releases: chart.run.releases.iter().map(|times| nanos(times)).collect(),
            optimizer: chart.known_idle().map_or(0, |idle| idle.gaps.optimizer.0),
            idle: chart.idle.as_ref().map(|idle| IdleData::of(idle, chart.run, causes)),
            streams: chart.costs.and_then(|costs| StreamsData::of(costs, &chart.run.timeline)),
        }
    }
}

fn nanos(times: &[Nanos]) -> Vec<u64> {
    times.iter().map(|time| time.0).collect()
}
