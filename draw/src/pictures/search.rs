//! Searches as pictures: bubble against peak memory, of what was found and what was published, and the
//! orders found in time.

use crate::plot::Scale;
use crate::plot::scatter;
use crate::plot::scatter::{Mark, Panel, Scatter};
use answer::front::Standing;
use answer::search::Row;
use question::Diagnostic;
use question::case::SEARCHED;

/// The most settings of a picture: more cannot be read.
const MOST_PANELS: usize = 36;

/// A panel for each setting: the orders found, the best published ones under the same limits, and
/// the bounds at those limits, which nobody need reach.
pub fn svg(title: Option<&str>, rows: &[Row]) -> Result<String, Diagnostic> {
    let mut panels: Vec<Panel> = Vec::new();
    for row in rows {
        let title = row.setting().unwrap_or_default();
        let last = panels.iter_mut().find(|panel| panel.title == title);
        let panel = match last {
            Some(panel) => panel,
            None => {
                let series = vec![Vec::new(); 3];
                panels.push(Panel { title: title.to_owned(), series, limit: None });
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
        panels,
    })?)
}

/// The orders found, one below the other, on one time axis.
///
/// # Errors
/// If the clock overflows, or no pass takes any time.
pub fn timelines<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Result<String, Diagnostic> {
    let timed = |row: &Row| {
        let case = &row.searched.case;
        let timeline = case.simulation().timeline(None);
        Ok((row.title(), timeline.map_err(|error| case.error(&error))?))
    };
    let titled = rows.into_iter().map(timed).collect::<Result<Vec<_>, Diagnostic>>()?;
    super::stages(&titled)
}
