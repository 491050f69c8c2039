//! The bubble against the peak memory of the rows that answer the same question.

use std::io::Read;

use pipeline::{Family, Semantics};

use super::{Rows, check_panels, panels, place, title};
use crate::Width;
use crate::plot::Scale;
use crate::plot::scatter;
use crate::plot::scatter::{Mark, Scatter, ScatterPanel};
use answer::front::{ASYNCHRONOUS, Candidate, standings};
use question::hardware;
use question::sweep::axis::Axis;
use question::sweep::grid::Grid;
use question::{Context, Diagnostic};

const GIB: f64 = (1u64 << 30) as f64;

/// The axes whose values are alternatives: which order, and how much memory it may take. All others
/// ask another question: more microbatches are another step.
const CHOICES: [&str; 9] = [
    "schedule",
    "chunks",
    "group",
    "segments",
    "memory-limit",
    "offload",
    "offload-chunks",
    "reload-ahead",
    "max-inflight-offloads",
];

fn is_question(axis: &Axis) -> bool {
    !CHOICES.contains(&axis.key.as_str())
}

/// Checks that a picture of `grid` can be drawn.
pub(super) fn check(grid: &Grid) -> Result<(), Diagnostic> {
    check_panels("--plot-pareto", panels(grid, is_question))
}

/// The rows of a panel, before they are compared: of each its series, its figures and how it stands.
struct Rivals {
    title: String,
    points: Vec<(usize, (f64, f64))>,
    candidates: Vec<Candidate>,
}

/// `rows` as a picture of that `width`: a panel for each setting and value of the axes that ask another question, a
/// colour and a marker for each schedule.
pub(super) fn svg(
    context: &Context<'_>,
    grid: &Grid,
    mut rows: Rows<impl Read>,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let bytes = in_bytes(context, grid)?;
    let (mut series, mut panels) = (Vec::<String>::new(), Vec::<Rivals>::new());
    while rows.next()? {
        let title = rows.panel(grid, is_question);
        let new = || Rivals { title: title.clone(), points: Vec::new(), candidates: Vec::new() };
        let panel = place(&mut panels, |panel| panel.title == title, new);
        let schedule = rows.field("schedule");
        let one = place(&mut series, |name| name == schedule, || schedule.to_owned());
        let memory = match bytes {
            true => rows.number("peak_activation_bytes").map(|bytes| bytes / GIB),
            false => {
                rows.number("peak_microbatches").zip(rows.number("stages")).map(|(a, p)| a / p)
            }
        };
        if let (Some(memory), Some(rate)) = (memory, rows.number("bubble_rate")) {
            let semantics = Family::named(schedule).map(|family| family.about().semantics);
            let asynchronous = semantics == Some(Semantics::Asynchronous);
            let at = (memory, rate);
            panels[panel].points.push((one, at));
            let candidate = Candidate::of_schedule(at, rows.fits(), asynchronous);
            panels[panel].candidates.push(candidate);
        }
    }
    let x_label = if bytes { "peak activation memory, in GiB" } else { "peak memory, in p x M_B" };
    Ok(scatter::svg(&Scatter {
        title: title(grid, "bubble rate against peak memory"),
        x_label: x_label.to_owned(),
        y_label: "bubble rate".to_owned(),
        scale: Scale::Rates,
        panels: panels.into_iter().map(|rivals| compared(rivals, series.len())).collect(),
        series,
        columns: 3,
        named: false,
        not_compared: ASYNCHRONOUS.to_owned(),
        width,
    })?)
}

/// The panel of `rivals`, with as many series as the picture has.
fn compared(rivals: Rivals, series: usize) -> ScatterPanel {
    let mut panel =
        ScatterPanel { title: rivals.title, series: vec![Vec::new(); series], limit: None };
    for ((one, (x, y)), standing) in rivals.points.into_iter().zip(standings(&rivals.candidates)) {
        panel.series[one].push(Mark { x, y, standing });
    }
    panel
}

/// Whether all questions know the bytes of whole stages.
fn in_bytes(context: &Context<'_>, grid: &Grid) -> Result<bool, Diagnostic> {
    let samples = grid.samples(context)?;
    Ok(samples.iter().all(|question| hardware::measures_bytes(&question.setting.keys)))
}
