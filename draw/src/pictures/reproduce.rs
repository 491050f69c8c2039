//! Published tables as pictures.

use question::Diagnostic;
use reproduce::{Bars, Grid, Panel, Picture, Place, Places, Point};

use crate::Width;
use crate::plot::bars::{self, Bar, BarChart, BarGroup};
use crate::plot::comparison::{self, Compared};
use crate::plot::lines::{self, Dot, LineChart};

/// `picture` as SVG of that `width`.
pub fn svg(picture: &Picture, width: Option<Width>) -> Result<String, Diagnostic> {
    Ok(match picture {
        Picture::Bars(bars) => bars::svg(&BarChart { width, ..bar_chart(bars) })?,
        Picture::Lines(lines) => lines::svg(&LineChart { width, ..line_chart(lines) })?,
        Picture::Comparison(points) => {
            comparison::svg(&comparison::Comparison { width, ..compared(points) })?
        }
    })
}

/// A group of bars per setting, with the published rate, or another marked rate, as a tick over ours.
fn bar_chart(picture: &Bars) -> BarChart {
    let groups = picture.groups.iter().map(|group| {
        let bars = group.bars.iter();
        let tick = |published: f64| published.is_finite().then_some(published);
        let bars =
            bars.map(|pair| pair.map(|one| Bar { rate: one.ours, tick: tick(one.published) }));
        BarGroup { bars: bars.collect(), label: group.label.clone() }
    });
    BarChart {
        title: picture.title.clone(),
        x_label: picture.x_label.to_owned(),
        y_label: picture.y_label.clone(),
        groups: groups.collect(),
        series: picture.series.clone(),
        tick: picture.mark.to_owned(),
        note: picture.unmarked.to_owned(),
        width: None,
    }
}

/// A panel per setting, the published rate as a dot at each point.
fn line_chart(picture: &Grid<Panel>) -> LineChart {
    let dot = |point: &Point| Dot {
        beside: Some(point.rates.published),
        ..Dot::new(point.x, point.rates.ours)
    };
    let panel = |panel: &Panel| lines::LinePanel {
        title: panel.title.clone(),
        series: panel.series.iter().map(|points| points.iter().map(dot).collect()).collect(),
    };
    LineChart {
        title: picture.title.clone(),
        x_label: picture.x_label.clone(),
        y_label: picture.y_label.clone(),
        series: picture.series.clone(),
        beside: "published".to_owned(),
        columns: 3,
        same_scale: true,
        width: None,
        panels: picture.panels.iter().map(panel).collect(),
    }
}

/// A panel per setting, a line from each of our points to the published one.
fn compared(picture: &Grid<Places>) -> comparison::Comparison {
    let place = |place: Place| (place.x, place.y);
    let panel = |places: &Places| comparison::ComparisonPanel {
        title: places.title.clone(),
        points: (places.points.iter())
            .map(|&(series, pair)| Compared {
                series,
                at: place(pair.ours),
                beside: place(pair.published),
            })
            .collect(),
    };
    comparison::Comparison {
        title: picture.title.clone(),
        x_label: picture.x_label.clone(),
        y_label: picture.y_label.clone(),
        series: picture.series.clone(),
        beside: "published".to_owned(),
        columns: 3,
        width: None,
        panels: picture.panels.iter().map(panel).collect(),
    }
}
