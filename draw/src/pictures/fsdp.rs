//! Pictures: the bubble over the minibatch size, and one minibatch in time.

use fsdp::{FsdpError, Way};
use pipeline::Timeline;

use crate::Width;
use crate::gantt;
use crate::gantt::{Chart, Style};
use crate::plot::lines;
use crate::plot::lines::{Dot, LineChart, LinePanel};
use answer::fsdp::FsdpRow;
use question::Diagnostic;
use question::fsdp::FsdpSetting;

/// The most layers that a picture shows.
const MAX_SPANS: u64 = 1 << 20;

/// A panel per number of devices and tokens, a curve per way, in a picture of that `width`.
pub fn bubbles(rows: &[FsdpRow], width: Option<Width>) -> Result<String, Diagnostic> {
    let name = |row: &FsdpRow| format!("{}, {}", row.method, row.communication);
    let place = |row: &FsdpRow| (row.devices, row.max_tokens);
    let (mut series, mut places) = (Vec::new(), Vec::new());
    for row in rows {
        if !series.contains(&name(row)) {
            series.push(name(row));
        }
        if !places.contains(&place(row)) {
            places.push(place(row));
        }
    }
    let panel = |&(devices, max_tokens): &(usize, u64)| {
        let curve = |series: &String| {
            let own = rows.iter().filter(|row| place(row) == (devices, max_tokens));
            let mut points: Vec<Dot> = own
                .filter(|row| name(row) == *series)
                .map(|row| Dot::new(axis(row.minibatch_size), row.bubble_rate))
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            points
        };
        LinePanel {
            title: format!("{devices} devices, at most {max_tokens} tokens"),
            series: series.iter().map(curve).collect(),
        }
    };
    let panels: Vec<LinePanel> = places.iter().map(panel).collect();
    let chart = LineChart {
        title: "Bubble rate over the minibatch size".to_owned(),
        x_label: "samples of a minibatch per device".to_owned(),
        y_label: "bubble rate".to_owned(),
        beside: String::new(),
        columns: panels.len().clamp(1, 3),
        same_scale: true,
        width,
        panels,
        series,
    };
    Ok(lines::svg(&chart)?)
}

#[allow(clippy::cast_precision_loss)] // A minibatch has at most 65536 samples.
fn axis(minibatch_size: u64) -> f64 {
    minibatch_size as f64
}

/// The first minibatch of `setting` in each of `ways`, on one time axis, in a picture of that `width`.
pub fn timelines(
    setting: &FsdpSetting,
    ways: &[Way],
    layers: u64,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let samples = setting.minibatch_size.saturating_mul(setting.devices as u64);
    let spans = samples.saturating_mul(2 * layers).saturating_mul(ways.len() as u64);
    if spans > MAX_SPANS {
        let message = format!("a picture of up to {spans} layers: at most {MAX_SPANS}");
        let cure = "take fewer --devices, --layers, or a smaller --minibatch-size";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    let timeline = |way: &Way| -> Result<(String, Timeline), FsdpError> {
        let (plan, times) = setting.study.packing(way.method, &setting.study.samples(0)?)?;
        let machine = &setting.study.machine;
        let timeline = machine.timeline(&plan, &times, way.communication, 0)?;
        Ok((format!("{}, {}", way.method.name(), way.communication.name()), timeline))
    };
    let drawn = ways.iter().map(timeline).collect::<Result<Vec<_>, _>>();
    let drawn = drawn.map_err(|fault| setting.error(&fault))?;
    let charts = drawn.iter().map(|(title, timeline)| Chart {
        title,
        timeline,
        row: "device",
        copies: &[],
        costs: None,
    });
    let charts: Vec<Chart<'_>> = charts.collect();
    let style = Style { title: Some("The first minibatch"), width, ..Style::default() };
    Ok(gantt::svg_with(&charts, &style)?)
}
