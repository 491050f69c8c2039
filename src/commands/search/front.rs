//! Bubble against peak memory, of what was found and what was published.

use super::report::Row;
use crate::draw::plot::Scale;
use crate::draw::plot::scatter::{self, Panel, Scatter};
use crate::error::Error;
use crate::question::SEARCHED;

/// The most settings of a picture: more cannot be read.
const MOST_PANELS: usize = 36;

/// A panel for each setting: the orders found, the best published ones under the same limits, and
/// the bounds at those limits.
pub(super) fn svg(title: Option<&str>, rows: &[Row]) -> Result<String, Error> {
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
        let memory = row.peak() / row.stages() as f64;
        panel.series[0].push((memory, row.bubble()));
        if let Some(published) = row.published() {
            panel.series[1].push((memory, row.rate(published.cost)));
        }
        panel.series[2].push((memory, row.rate(row.bound())));
    }
    if panels.len() > MOST_PANELS {
        let message = format!("--pareto: more than {MOST_PANELS} panels, one for each setting");
        return Err(Error::question(message));
    }
    Ok(scatter::svg(&Scatter {
        title: title.unwrap_or("Bubble rate against memory").to_owned(),
        x_label: "peak memory, in p x M_B".to_owned(),
        y_label: "bubble rate".to_owned(),
        scale: Scale::Rates,
        series: vec![SEARCHED.to_owned(), "best published".to_owned(), "bound".to_owned()],
        columns: 2,
        named: false,
        panels,
    })?)
}
