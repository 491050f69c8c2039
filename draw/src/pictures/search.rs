//! Searches as pictures: bubble against peak memory of orders found and published, and the orders found
//! in time.

use pipeline::{Metrics, Nanos, Timeline};

use crate::Width;
use crate::gantt::{Bound, Style};
use crate::plot::Scale;
use crate::plot::scatter;
use crate::plot::scatter::{Mark, Scatter, ScatterPanel};
use answer::front::Standing;
use answer::search::SearchRow;
use cases::SEARCHED;
use question::{Diagnostic, format};

/// The most settings of a picture: more cannot be read.
const MOST_PANELS: usize = 36;

/// A panel for each setting: the orders found, the best published ones under the same limits, and the
/// lower bounds at those limits.
pub fn svg(title: Option<&str>, rows: &[SearchRow]) -> Result<String, Diagnostic> {
    svg_with(title, rows, None)
}

/// The same in a picture of that `width`.
pub fn svg_with(
    title: Option<&str>,
    rows: &[SearchRow],
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let mut panels: Vec<ScatterPanel> = Vec::new();
    for row in rows {
        let title = row.setting().unwrap_or_default();
        let last = panels.iter_mut().find(|panel| panel.title == title);
        let panel = match last {
            Some(panel) => panel,
            None => {
                let series = vec![Vec::new(); 3];
                panels.push(ScatterPanel { title: title.to_owned(), series, limit: None });
                let at = panels.len() - 1;
                &mut panels[at]
            }
        };
        let points = [
            (Some(row.found_at()), row.found_standing),
            (row.published_at(), row.published_standing),
            (Some(row.bound_at()), None),
        ];
        for (series, (at, standing)) in panel.series.iter_mut().zip(points) {
            let standing = standing.unwrap_or(Standing::NotCompared);
            series.extend(at.map(|(x, y)| Mark { x, y, standing }));
        }
    }
    if panels.len() > MOST_PANELS {
        let message = format!("--pareto: more than {MOST_PANELS} panels, one for each setting");
        return Err(Diagnostic::new(message));
    }
    Ok(scatter::svg(&Scatter {
        title: title.unwrap_or("Bubble rate against memory").to_owned(),
        x_label: "peak memory, in p x M_B".to_owned(),
        y_label: "bubble rate".to_owned(),
        scale: Scale::Rates,
        series: vec![SEARCHED.to_owned(), "best published".to_owned(), "bound".to_owned()],
        columns: 2,
        named: false,
        not_compared: "a bound at its limit, not an order".to_owned(),
        width,
        panels,
    })?)
}

/// The orders found, one below the other, on one time axis, each with its cost and the bound that is proved, in a
/// picture of that `width`.
pub fn timelines<'a>(
    title: Option<&str>,
    rows: impl IntoIterator<Item = &'a SearchRow>,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let (mut titled, mut figures, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
    let mut shapes = Vec::new();
    for row in rows {
        let case = &row.searched.case;
        shapes.push((case.schedule.shape().stages(), case.microbatches()));
        let timeline = case.simulation().timeline(None).map_err(|error| case.error(&error))?;
        let (text, bound) = proved(row, &timeline);
        titled.push((row.title(), timeline));
        figures.push(text);
        bounds.push(bound);
    }
    let shape = super::shape(shapes);
    let style = Style {
        title: title.or(shape.as_deref()),
        figures: &figures,
        bounds: &bounds,
        width,
        other_passes: None,
    };
    super::stages(&titled, &style)
}

/// The cost of an order beside its lower bound, which is drawn from the start on, or, of a span, over the stage whose
/// span is the longest. Under noise and on hardware a bound is of other times.
fn proved(row: &SearchRow, timeline: &Timeline) -> (String, Option<Bound>) {
    let metrics = Metrics::of(timeline);
    let spans = metrics.stages.iter().enumerate();
    let longest = spans.max_by_key(|(_, stage)| stage.last_end - stage.first_start);
    let longest = longest.map(|(stage, span)| (stage, span.first_start));
    let (name, cost, start) = match row.is_of_span() {
        false => ("makespan", metrics.makespan(), Nanos(0)),
        true => ("span", metrics.span(), longest.map_or(Nanos(0), |(_, start)| start)),
    };
    let found = format!("bubble {}, {name} {}", format::percent(row.bubble()), format::time(cost));
    if row.is_simulated() {
        return (found, None);
    }
    let bound = row.bound();
    let text = match bound < cost {
        true => format!("{found}; dashed: lower bound {}", format::time(bound)),
        false => format!("{found}; dashed: lower bound, the same"),
    };
    let stage = longest.filter(|_| row.is_of_span()).map(|(stage, _)| stage);
    (text, Some(Bound { stage, start, end: start + bound }))
}
