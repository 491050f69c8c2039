//! Timelines as one self-contained page: zoom, pan, search for a microbatch, memory and links.
//!
//! The page holds its data as JSON and draws on canvases; it loads nothing and runs nothing else.

mod idle;

use pipeline::{Bytes, Kind, Nanos, Schedule, Value};
use serde::Serialize;
use sim::engine::{Run, Transfer};
use sim::explain::{Link, Wait, Waits};

use super::DrawError;
use super::canvas::colours;
use idle::IdleData;
pub(crate) use idle::{Idle, Key};

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");

/// One schedule of the page.
pub(crate) struct Chart<'a> {
    /// What to write over it.
    pub(crate) title: String,
    /// The order of passes.
    pub(crate) schedule: &'a Schedule,
    /// What happened.
    pub(crate) run: Run,
    /// The device of each stage.
    pub(crate) devices: Vec<usize>,
    /// By device, the bytes held from each moment on; empty where that is not known.
    pub(crate) memory: &'a [Vec<(Nanos, Bytes)>],
    /// What each device has, if that is known.
    pub(crate) capacities: Option<&'a [Bytes]>,
    /// Why stages wait in the last step, or why that cannot be said.
    pub(crate) idle: Result<Idle, String>,
}

/// Writes `charts` one below the other, on one time axis.
///
/// # Errors
/// If nothing in them takes time.
pub(crate) fn page(charts: &[Chart<'_>]) -> Result<String, DrawError> {
    let spans = charts.iter().flat_map(|chart| chart.run.timeline.stages.iter().flatten());
    let end = spans.map(|span| span.end.0).max().unwrap_or(0);
    let steps = charts.iter().filter_map(|chart| chart.idle.as_ref().ok()).map(Idle::end);
    let whole = steps.max().unwrap_or(0).max(end);
    if end == 0 {
        return Err(DrawError::Empty { what: "no pass takes time" });
    }
    let shades = |kind| [false, true].map(|later| hex(colours(kind, later).0));
    let data = Data {
        end: whole,
        causes: idle::keys(),
        colours: Kind::ALL.map(shades),
        letters: Kind::ALL.map(|kind| hex(colours(kind, false).1)),
        charts: charts.iter().map(ChartData::from).collect(),
    };
    // Names come from strangers: with no `<` in it, nothing can end the element early.
    let json = serde_json::to_string(&data).map_err(|_| DrawError::Empty { what: "no JSON" })?;
    let json = json.replace('<', "\\u003c");
    let (head, rest) = PAGE.split_once("@DATA@").unwrap_or((PAGE, ""));
    let (middle, tail) = rest.split_once("@SCRIPT@").unwrap_or((rest, ""));
    Ok([head, &json, middle, SCRIPT, tail].concat())
}

fn hex(colour: plotters::style::RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

#[derive(Serialize)]
struct Data {
    end: u64,
    /// By cause: name and colour.
    causes: Vec<[&'static str; 2]>,
    /// By kind: the colour of a first and of a later chunk.
    colours: [[String; 2]; Kind::ALL.len()],
    letters: [String; Kind::ALL.len()],
    charts: Vec<ChartData>,
}

#[derive(Serialize)]
struct ChartData {
    name: String,
    /// By stage and slot, as the script says.
    stages: Vec<Vec<Vec<u64>>>,
    /// The device, and what it holds from each moment on.
    memory: Vec<(usize, Vec<[u64; 2]>)>,
    /// By device, what it has.
    limits: Option<Vec<u64>>,
    transfers: Vec<[u64; 7]>,
    /// By step, when each stage's optimizer ends, and how long it takes.
    releases: Vec<Vec<u64>>,
    optimizer: u64,
    idle: IdleData,
}

impl From<&Chart<'_>> for ChartData {
    fn from(chart: &Chart<'_>) -> Self {
        let waits = Waits::new(chart.schedule, &chart.run, &chart.devices);
        let stages = chart.run.timeline.stages.iter().enumerate();
        let slots = |(stage, spans): (usize, &Vec<_>)| {
            (0..spans.len()).map(|at| slot(&waits.link(stage, at))).collect()
        };
        let memory = chart.memory.iter().enumerate().filter(|(_, curve)| !curve.is_empty());
        let points = |curve: &Vec<(Nanos, Bytes)>| {
            curve.iter().map(|(time, bytes)| [time.0, bytes.0]).collect()
        };
        Self {
            name: chart.title.clone(),
            stages: stages.map(slots).collect(),
            memory: memory.map(|(device, curve)| (device, points(curve))).collect(),
            limits: chart.capacities.map(|all| all.iter().map(|bytes| bytes.0).collect()),
            transfers: chart.run.transfers.iter().map(transfer).collect(),
            releases: chart.run.releases.iter().map(|times| nanos(times)).collect(),
            optimizer: chart.idle.as_ref().map_or(0, |idle| idle.gaps.optimizer.0),
            idle: IdleData::of(&chart.idle, &chart.run),
        }
    }
}

fn nanos(times: &[Nanos]) -> Vec<u64> {
    times.iter().map(|time| time.0).collect()
}

/// Start, end, what it waited for, by whom and how long that travelled, and the passes.
fn slot(link: &Link) -> Vec<u64> {
    let (wait, by, travel) = match link.wait {
        Wait::Nothing => (0, 0, 0),
        Wait::Order => (1, 0, 0),
        Wait::Value(one) => (2, one.from, (one.end - one.made).0),
        Wait::Device => (3, link.after.map_or(0, |(stage, _)| stage), 0),
        Wait::Sending(one) => (4, one.from, (one.end - one.made).0),
        Wait::HostCopy(_) => (5, 0, 0),
        Wait::HostRoom(_) => (6, 0, 0),
        Wait::Boundary => (7, 0, 0),
        Wait::Collective(one) => (8, one.last, (one.end - one.made).0),
    };
    let mut slot = vec![link.span.start.0, link.span.end.0, wait, by as u64, travel];
    for pass in link.span.slot.passes() {
        slot.extend([pass.kind as u64, u64::from(pass.chunk), u64::from(pass.microbatch)]);
    }
    slot
}

fn transfer(one: &Transfer) -> [u64; 7] {
    let Transfer { value, from, to, made, end, .. } = *one;
    let gradient = u64::from(matches!(value, Value::Gradient { .. }));
    let (chunk, microbatch) =
        (u64::from(value.chunk().unwrap_or(0)), u64::from(value.microbatch()));
    [from as u64, to as u64, made.0, end.0, gradient, chunk, microbatch]
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline::{Family, PassTimes, Problem, Shape};
    use sim::explain::{Cause, Gaps, unshared};

    fn page_of(title: &str, time: Nanos) -> Result<String, DrawError> {
        let shape = Shape::new(3, 1, 4).unwrap();
        let times = PassTimes { forward: time, backward_input: time, backward_weight: time };
        let problem =
            Problem::new(shape, pipeline::Costs::uniform(shape, times, Nanos(0))).unwrap();
        let schedule = Family::ZbH1.schedule(&problem).unwrap();
        let timeline = sim::Replay::new().timeline(&schedule, problem.costs()).unwrap();
        let gaps = Gaps::of_replay(&schedule, problem.costs(), &timeline).unwrap();
        let key = Key {
            name: title.to_owned(),
            cause: Some(Cause::Structure),
            time: "1 ms".to_owned(),
            share: "1 %".to_owned(),
        };
        let run = unshared(&schedule, timeline, |_, _, _, _| 0);
        let memory = vec![vec![(Nanos(0), Bytes(5))]];
        page(&[Chart {
            title: title.to_owned(),
            schedule: &schedule,
            run,
            devices: vec![0, 1, 2],
            memory: &memory,
            capacities: None,
            idle: Ok(Idle { gaps, keys: vec![key] }),
        }])
    }

    #[test]
    fn the_page_holds_every_span_and_transfer_and_loads_nothing() {
        let page = page_of("zb-h1", Nanos(1_000)).unwrap();
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        let data: serde_json::Value =
            serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
        let chart = &data["charts"][0];
        let spans = chart["stages"].as_array().unwrap().iter();
        assert_eq!(spans.map(|stage| stage.as_array().unwrap().len()).sum::<usize>(), 3 * 4 * 3);
        assert_eq!(chart["transfers"].as_array().unwrap().len(), 2 * 2 * 4);
        // F = B = W: the gaps of the three stages add up to what the last two of ZB-H1 wait.
        let gaps = chart["idle"]["gaps"].as_array().unwrap().iter();
        let gaps = gaps.flat_map(|stage| stage.as_array().unwrap());
        let sum = |gap: &serde_json::Value| -> i64 {
            gap.as_array().unwrap()[1..].iter().map(|share| share.as_i64().unwrap()).sum()
        };
        let busy = 3 * 4 * 3 * 1_000;
        let cost = chart["idle"]["cost"].as_i64().unwrap();
        assert_eq!(gaps.map(sum).sum::<i64>(), 3 * cost - busy);
        assert_eq!(chart["memory"][0], serde_json::json!([0, [[0, 5]]]));
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains(" src="));
    }

    #[test]
    fn names_cannot_become_markup() {
        let page = page_of("</script><img src=x onerror=alert(1)>@SCRIPT@", Nanos(7)).unwrap();
        assert!(!page.contains("<img") && page.matches("</script>").count() == 2);
        assert_eq!(page.matches("\"use strict\"").count(), 1);
        assert!(matches!(page_of("x", Nanos(0)), Err(DrawError::Empty { .. })));
    }
}
