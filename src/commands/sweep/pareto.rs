//! The bubble against the peak memory of all rows.

use std::io::Read;

use super::pictures::{Rows, check_panels, place, title};
use crate::draw::plot::Scale;
use crate::draw::plot::scatter::{self, Panel, Scatter};
use crate::error::Error;
use crate::hardware;
use crate::sweep::grid::Grid;

const GIB: f64 = (1u64 << 30) as f64;

/// `rows` as a picture: a panel for each setting, a colour and a marker for each schedule.
pub(super) fn svg(grid: &Grid, mut rows: Rows<impl Read>) -> Result<String, Error> {
    let bytes = in_bytes(grid)?;
    let (mut series, mut panels) = (Vec::<String>::new(), Vec::<Panel>::new());
    while rows.next()? {
        let title = rows.field("setting").to_owned();
        let new = || Panel { title: title.clone(), series: Vec::new(), limit: None };
        let panel = place(&mut panels, |panel| panel.title == title, new);
        check_panels(panels.len())?;
        let schedule = rows.field("schedule");
        let one = place(&mut series, |name| name == schedule, || schedule.to_owned());
        let all = &mut panels[panel].series;
        all.resize(all.len().max(one + 1), Vec::new());
        let memory = match bytes {
            true => rows.number("peak_activation_bytes").map(|bytes| bytes / GIB),
            false => {
                rows.number("peak_microbatches").zip(rows.number("stages")).map(|(a, p)| a / p)
            }
        };
        if let (Some(memory), Some(rate)) = (memory, rows.number("bubble_rate")) {
            all[one].push((memory, rate));
        }
    }
    let x_label = if bytes { "peak activation memory, in GiB" } else { "peak memory, in p x M_B" };
    Ok(scatter::svg(&Scatter {
        title: title(grid, "bubble rate against peak memory"),
        x_label: x_label.to_owned(),
        y_label: "bubble rate".to_owned(),
        scale: Scale::Rates,
        series,
        columns: 3,
        named: false,
        panels,
    })?)
}

/// Whether all questions know the bytes of whole stages.
fn in_bytes(grid: &Grid) -> Result<bool, Error> {
    let samples = grid.samples()?;
    Ok(samples.iter().all(|question| hardware::measures_bytes(&question.setting.keys)))
}
