//! Timelines as one self-contained page: zoom, pan, search for a microbatch, memory and links; and
//! sheets as fragments of a page.
//!
//! The page holds its data as JSON and draws on canvases; it loads nothing and runs nothing else. The
//! scripts that read the data and draw it are modules, which the page of the room `web` has, too.

mod drawing;
mod idle;
mod pack;
mod sheet;
mod streams;

use super::DrawError;
pub use drawing::{Drawing, PageChart};
pub use idle::{Idle, Key};
use question::sheet::Sheet;
pub use sheet::sheet;

const PAGE: &str = include_str!("page.html");
/// The parts of the script that draw, each of which knows only those before it.
const CHARTS: [&str; 7] = [
    include_str!("read.js"),
    include_str!("words.js"),
    include_str!("chart.js"),
    include_str!("lane.js"),
    include_str!("gantt.js"),
    include_str!("curves.js"),
    include_str!("charts.js"),
];
/// The part that makes the page of them.
const SCRIPT: &str = include_str!("page.js");

/// The most bytes of a page.
pub const MOST_BYTES: u64 = 20_000_000;
/// The bytes that a pass takes at least.
const PASS_BYTES: u64 = 4;

/// A page, and the parts left out of it.
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

/// Refuses a page of so many `passes` that it is too large even without optional parts.
pub fn check(passes: u64) -> Result<(), DrawError> {
    let bytes = passes.saturating_mul(PASS_BYTES);
    if bytes > MOST_BYTES { Err(DrawError::TooLarge { bytes, most: MOST_BYTES }) } else { Ok(()) }
}

/// Writes the sheet `answer` and below it `charts`, one below the other on one time axis; without their transfers if they would
/// make it larger than [`MOST_BYTES`].
pub fn page(charts: &[PageChart<'_>], answer: &Sheet) -> Result<Page, DrawError> {
    page_within(charts, answer, MOST_BYTES)
}

/// The same with at most `most` bytes.
fn page_within(charts: &[PageChart<'_>], answer: &Sheet, most: u64) -> Result<Page, DrawError> {
    let mut drawing = Drawing::of(charts, true)?;
    let mut html = written(&drawing, answer)?;
    if html.len() as u64 > most {
        drawing.leave_out_transfers(html.len());
        html = written(&drawing, answer)?;
    }
    let bytes = html.len() as u64;
    if bytes > most {
        return Err(DrawError::TooLarge { bytes, most });
    }
    Ok(Page { html, left_out: drawing.left_out })
}

fn written(drawing: &Drawing, answer: &Sheet) -> Result<String, DrawError> {
    // Names come from strangers: with no `<` in it, nothing can end the element early.
    let json = serde_json::to_string(drawing).map_err(|_| DrawError::Empty { what: "no JSON" })?;
    let json = json.replace('<', "\\u003c");
    let (start, rest) = PAGE.split_once("@ANSWER@").unwrap_or((PAGE, ""));
    let (head, rest) = rest.split_once("@DATA@").unwrap_or((rest, ""));
    let (middle, tail) = rest.split_once("@SCRIPT@").unwrap_or((rest, ""));
    let answer = sheet(answer);
    Ok([start, &answer, head, &json, middle, &CHARTS.concat(), SCRIPT, tail].concat())
}

#[cfg(test)]
mod tests {
    use super::pack::tests::Unpacked;
    use super::*;
    use pipeline::{Bytes, Nanos};
    use pipeline::{Family, PassTimes, Problem, Shape};
    use sim::Simulation;
    use sim::explain::{Cause, unshared};
    use std::borrow::Cow;

    fn page_of(title: &str, time: Nanos) -> Result<String, DrawError> {
        small_page_of(title, time, MOST_BYTES).map(|page| page.html)
    }

    fn small_page_of(title: &str, time: Nanos, most: u64) -> Result<Page, DrawError> {
        let shape = Shape::new(3, 1, 4).unwrap();
        let times = PassTimes::new(time, time, time);
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
        let chart = PageChart {
            title: title.to_owned(),
            schedule: &schedule,
            run: &run,
            devices: vec![0, 1, 2],
            memory: &memory,
            capacities: None,
            costs: None,
            idle: Some(Ok(Idle { gaps: Cow::Owned(gaps), keys: vec![key] })),
        };
        page_within(&[chart], &Sheet::default(), most)
    }

    #[test]
    fn the_page_holds_every_span_and_transfer_and_loads_nothing() {
        let page = page_of("zb-h1", Nanos(1_000)).unwrap();
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        let data: serde_json::Value =
            serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
        let chart = &data["charts"][0];
        // F = B = W and no latency: passes that begin where the last one ended, and the time of all.
        let mut busy = 0;
        for (stage, text) in chart["stages"].as_array().unwrap().iter().enumerate() {
            let mut back = Unpacked::of(text.as_str().unwrap());
            let (mut end, mut count, mut lengths) = (0, 0, [0; 7]);
            while let Some(gap) = back.signed() {
                let change = back.signed().unwrap();
                let meta = usize::try_from(back.natural().unwrap()).unwrap();
                let (kind, wait) = (meta % 7, meta / 7);
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
        // The gaps of the three stages add up to the waits of the last two of ZB-H1.
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
        assert!(
            page.contains("Dashed: the last pass ends") && page.contains("its makespan."),
            "{page}"
        );
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
