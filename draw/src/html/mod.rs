//! Timelines as one self-contained page: zoom, pan, search for a microbatch, memory and links; and
//! sheets as fragments of a page.
//!
//! The page holds its data as JSON and draws on canvases; it loads nothing and runs nothing else.

mod idle;
mod pack;
mod sheet;

use std::collections::BTreeSet;

use pipeline::{Bytes, Kind, Nanos, Schedule};
use serde::Serialize;
use sim::engine::Run;
use sim::explain::Waits;

use super::DrawError;
use super::canvas::{IDLE, colours};
use idle::IdleData;
pub use idle::{Idle, Key};
use question::format;
pub use sheet::sheet;

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
/// The part of the script that reads numbers.
const READER: &str = include_str!("read.js");

/// The most bytes of a page.
pub const MOST_BYTES: u64 = 20_000_000;
/// The bytes that a pass takes at least.
const PASS_BYTES: u64 = 4;

/// One schedule of the page.
pub struct Chart<'a> {
    /// The title.
    pub title: String,
    /// The order of passes.
    pub schedule: &'a Schedule,
    /// The run.
    pub run: &'a Run,
    /// The device of each stage.
    pub devices: Vec<usize>,
    /// By device, the bytes held from each moment on; empty where that is not known.
    pub memory: &'a [Vec<(Nanos, Bytes)>],
    /// The memory of each device, if that is known.
    pub capacities: Option<&'a [Bytes]>,
    /// Why stages wait in the last step, or why that cannot be said.
    pub idle: Result<Idle<'a>, String>,
}

/// A page, and what it lacks.
pub struct Page {
    /// The page itself.
    pub html: String,
    /// The part that is left out, because it would be too large.
    pub left_out: Option<String>,
}

/// `text` in which nothing is markup.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Refuses a page of so many `passes` that it is too large whatever it leaves out.
///
/// # Errors
/// [`DrawError::TooLarge`].
pub fn check(passes: u64) -> Result<(), DrawError> {
    let bytes = passes.saturating_mul(PASS_BYTES);
    if bytes > MOST_BYTES { Err(DrawError::TooLarge { bytes, most: MOST_BYTES }) } else { Ok(()) }
}

/// Writes `charts` one below the other, on one time axis; without their transfers if they would
/// make it larger than [`MOST_BYTES`].
///
/// # Errors
/// If nothing in them takes time, or the page is too large without transfers, too.
pub fn page(charts: &[Chart<'_>]) -> Result<Page, DrawError> {
    page_within(charts, MOST_BYTES)
}

/// The same with at most `most` bytes.
fn page_within(charts: &[Chart<'_>], most: u64) -> Result<Page, DrawError> {
    let end = charts.iter().map(Chart::makespan).max().unwrap_or(0);
    if end == 0 {
        return Err(DrawError::Empty { what: "no pass takes time" });
    }
    let (axis, last) = axis(charts);
    let spans = charts.iter().flat_map(|chart| chart.run.timeline.stages.iter().flatten());
    let kinds: BTreeSet<Kind> = spans.flat_map(|span| span.slot.passes()).map(|p| p.kind).collect();
    let shades = |kind| [false, true].map(|later| hex(colours(kind, later).0));
    let mut data = Data {
        end: last.max(end),
        axis,
        left_out: None,
        causes: idle::keys(),
        kinds: kinds.into_iter().map(|kind| kind as u8).collect(),
        colours: Kind::ALL.map(shades),
        letters: Kind::ALL.map(|kind| hex(colours(kind, false).1)),
        idle: hex(IDLE),
        charts: charts.iter().map(ChartData::from).collect(),
    };
    let mut html = written(&data)?;
    if html.len() as u64 > most {
        data.charts.iter_mut().for_each(|chart| chart.transfers.clear());
        let megabytes = html.len().div_ceil(1_000_000);
        data.left_out = Some(format!(
            "transfers are left out: with them, the page would be about {megabytes} MB"
        ));
        html = written(&data)?;
    }
    let bytes = html.len() as u64;
    if bytes > most {
        return Err(DrawError::TooLarge { bytes, most });
    }
    Ok(Page { html, left_out: data.left_out })
}

fn written(data: &Data) -> Result<String, DrawError> {
    // Names come from strangers: with no `<` in it, nothing can end the element early.
    let json = serde_json::to_string(data).map_err(|_| DrawError::Empty { what: "no JSON" })?;
    let json = json.replace('<', "\\u003c");
    let (head, rest) = PAGE.split_once("@DATA@").unwrap_or((PAGE, ""));
    let (middle, tail) = rest.split_once("@SCRIPT@").unwrap_or((rest, ""));
    Ok([head, &json, middle, READER, SCRIPT, tail].concat())
}

/// Why the axis ends where it does, in words, and the end of the last step.
fn axis(charts: &[Chart<'_>]) -> (String, u64) {
    let end = |chart: &Chart<'_>| chart.idle.as_ref().map_or(0, Idle::end).max(chart.makespan());
    let last = charts.iter().max_by_key(|chart| end(chart));
    let Some((chart, end)) = last.map(|chart| (chart, end(chart))) else {
        return (String::new(), 0);
    };
    let name = &chart.title;
    let (end_text, makespan) = (format::time(Nanos(end)), format::time(Nanos(chart.makespan())));
    let text = match &chart.idle {
        Ok(idle) if end > chart.makespan() => {
            let gaps = &idle.gaps;
            let optimizer = if gaps.optimizer > Nanos(0) { ", the optimizer with it" } else { "" };
            format!(
                "The axis ends at {end_text}. The last pass of {name} ends at {makespan}, its makespan (dashed); \
                 every stage has a step as long as the longest one, {}{optimizer}, and that of the stage \
                 which begins last ends later.",
                format::time(gaps.cost)
            )
        }
        _ => format!("The axis ends at {end_text}, the makespan of {name} (dashed)."),
    };
    (text, end)
}

fn hex(colour: plotters::style::RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

#[derive(Serialize)]
struct Data {
    end: u64,
    /// Why it ends there.
    axis: String,
    /// The part that is left out, and why.
    left_out: Option<String>,
    /// By cause: name and colour.
    causes: Vec<[&'static str; 2]>,
    /// The kinds that occur.
    kinds: Vec<u8>,
    /// By kind: the colour of a first and of a later chunk.
    colours: [[String; 2]; Kind::ALL.len()],
    letters: [String; Kind::ALL.len()],
    idle: String,
    charts: Vec<ChartData>,
}

/// One schedule; how its texts of numbers are read is written in `pack.rs` and in the script.
#[derive(Serialize)]
struct ChartData {
    name: String,
    makespan: u64,
    /// By stage, its slots.
    stages: Vec<String>,
    /// The device, the most it holds, and what it holds from each moment on.
    memory: Vec<(usize, u64, String)>,
    /// By device, what it has.
    limits: Option<Vec<u64>>,
    /// From one stage to another, what is sent.
    transfers: Vec<(usize, usize, String)>,
    /// By step, when each stage's optimizer ends, and how long it takes.
    releases: Vec<Vec<u64>>,
    optimizer: u64,
    idle: IdleData,
}

impl Chart<'_> {
    /// The end of the last pass.
    fn makespan(&self) -> u64 {
        let ends = self.run.timeline.stages.iter().filter_map(|spans| spans.last());
        ends.map(|span| span.end.0).max().unwrap_or(0)
    }
}

impl From<&Chart<'_>> for ChartData {
    fn from(chart: &Chart<'_>) -> Self {
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
            transfers: pack::transfers(&chart.run.transfers),
            releases: chart.run.releases.iter().map(|times| nanos(times)).collect(),
            optimizer: chart.idle.as_ref().map_or(0, |idle| idle.gaps.optimizer.0),
            idle: IdleData::of(&chart.idle, chart.run),
        }
    }
}

fn nanos(times: &[Nanos]) -> Vec<u64> {
    times.iter().map(|time| time.0).collect()
}

#[cfg(test)]
mod tests {
    use super::pack::tests::Unpacked;
    use super::*;
    use pipeline::{Family, PassTimes, Problem, Shape};
    use sim::Simulation;
    use sim::explain::{Cause, unshared};
    use std::borrow::Cow;

    fn page_of(title: &str, time: Nanos) -> Result<String, DrawError> {
        small_page_of(title, time, MOST_BYTES).map(|page| page.html)
    }

    fn small_page_of(title: &str, time: Nanos, most: u64) -> Result<Page, DrawError> {
        let shape = Shape::new(3, 1, 4).unwrap();
        let times = PassTimes { forward: time, backward_input: time, backward_weight: time };
        let problem =
            Problem::new(shape, pipeline::Costs::uniform(shape, times, Nanos(0))).unwrap();
        let schedule = Family::ZbH1.schedule(&problem).unwrap();
        let timeline = sim::Replay::new().timeline(&schedule, problem.costs()).unwrap();
        let key = Key {
            name: title.to_owned(),
            cause: Some(Cause::Structure),
            time: "1 ms".to_owned(),
            share: "1 %".to_owned(),
        };
        let run = unshared(&schedule, timeline, |_, _, _, _| 0);
        let simulation = Simulation::new(&schedule, problem.costs(), problem.footprints());
        let gaps = simulation.gaps(&run, None).unwrap();
        let memory = vec![vec![(Nanos(0), Bytes(5))]];
        let chart = Chart {
            title: title.to_owned(),
            schedule: &schedule,
            run: &run,
            devices: vec![0, 1, 2],
            memory: &memory,
            capacities: None,
            idle: Ok(Idle { gaps: Cow::Owned(gaps), keys: vec![key] }),
        };
        page_within(&[chart], most)
    }

    #[test]
    fn the_page_holds_every_span_and_transfer_and_loads_nothing() {
        let page = page_of("zb-h1", Nanos(1_000)).unwrap();
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        let data: serde_json::Value =
            serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
        let chart = &data["charts"][0];
        // F = B = W and no latency: what begins where the last one ended, and how long all take.
        let mut busy = 0;
        for (stage, text) in chart["stages"].as_array().unwrap().iter().enumerate() {
            let mut back = Unpacked::of(text.as_str().unwrap());
            let (mut end, mut count, mut lengths) = (0, 0, [0; 6]);
            while let Some(gap) = back.signed() {
                let change = back.signed().unwrap();
                let meta = usize::try_from(back.natural().unwrap()).unwrap();
                let (kind, wait) = (meta % 6, meta / 6);
                lengths[kind] += change;
                assert!(lengths[kind] == 1_000 && kind < 3 && gap >= 0, "{kind} {change} {gap}");
                if matches!(wait, 2..=4) {
                    let by = back.signed().unwrap() + stage as i128;
                    assert!((0..3).contains(&by));
                }
                if matches!(wait, 2 | 4) {
                    assert_eq!(back.signed(), Some(0));
                }
                assert!(back.signed().is_some() && back.signed().is_some());
                (end, count, busy) = (end + gap + lengths[kind], count + 1, busy + lengths[kind]);
            }
            assert_eq!(count, 4 * 3);
            assert!(end <= chart["makespan"].as_i64().unwrap().into());
        }
        let transfers = chart["transfers"].as_array().unwrap();
        let numbers = transfers.iter().map(|row| {
            let mut back = Unpacked::of(row[2].as_str().unwrap());
            std::iter::from_fn(|| back.signed()).count()
        });
        // Four numbers of each.
        assert_eq!((transfers.len(), numbers.sum::<usize>()), (4, 4 * 2 * 2 * 4));
        // The gaps of the three stages add up to what the last two of ZB-H1 wait.
        let mut owed = 0;
        for text in chart["idle"]["gaps"].as_array().unwrap() {
            let mut back = Unpacked::of(text.as_str().unwrap());
            while back.signed().is_some() {
                let causes = back.natural().unwrap().count_ones();
                owed += (0..causes).map(|_| back.signed().unwrap()).sum::<i128>();
            }
        }
        let cost = i128::from(chart["idle"]["cost"].as_i64().unwrap());
        assert_eq!((busy, owed), (3 * 4 * 3 * 1_000, 3 * cost - busy));
        assert_eq!(chart["memory"][0], serde_json::json!([0, 5, "0A"]));
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains(" src="));
    }

    #[test]
    fn the_page_says_why_its_axis_ends_where_it_does() {
        let page = page_of("zb-h1", Nanos(1_000)).unwrap();
        // The last stage begins two forwards later, and its step lasts as long as the first one's.
        assert!(page.contains("The axis ends at"), "{page}");
        assert!(page.contains("ends later.") && page.contains("its makespan (dashed)"), "{page}");
    }

    #[test]
    fn what_is_too_large_is_refused_before_it_is_made() {
        assert!(check(MOST_BYTES / PASS_BYTES).is_ok());
        let refused = check(MOST_BYTES / PASS_BYTES + 1).unwrap_err().to_string();
        assert!(refused.contains("20 MB"), "{refused}");
    }

    #[test]
    fn a_page_that_would_be_too_large_lacks_its_transfers_and_says_so() {
        let whole = small_page_of("zb-h1", Nanos(1_000), MOST_BYTES).unwrap();
        assert!(whole.left_out.is_none() && !whole.html.contains("\"transfers\":[]"));
        let size = whole.html.len() as u64;
        let thin = small_page_of("zb-h1", Nanos(1_000), size - 1).unwrap();
        let said = thin.left_out.unwrap();
        assert!(thin.html.contains("\"transfers\":[]") && thin.html.contains(&said), "{said}");
        let refused = small_page_of("zb-h1", Nanos(1_000), size / 2);
        assert!(matches!(refused, Err(DrawError::TooLarge { .. })));
    }

    #[test]
    fn names_cannot_become_markup() {
        let page = page_of("</script><img src=x onerror=alert(1)>@SCRIPT@", Nanos(7)).unwrap();
        assert!(!page.contains("<img") && page.matches("</script>").count() == 2);
        assert_eq!(page.matches("\"use strict\"").count(), 1);
        assert!(matches!(page_of("x", Nanos(0)), Err(DrawError::Empty { .. })));
    }
}
