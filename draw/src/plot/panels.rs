//! Panels with axes of their own, and the frame around all of them.

use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Axes, FONT, LINE, Scale, axis_font, count, letters, wrapped};
use crate::canvas;
use crate::canvas::{Area, GRID, INK, Lettering, Point, extent};
use crate::{DrawError, Width};

/// Width and height of a panel with its axes, in pixels.
pub(super) const SMALL: (i32, i32) = (340, 240);
/// The same where every point has a name.
pub(super) const LARGE: (i32, i32) = (780, 500);

/// Width of the margins left and right of all panels.
const AROUND: i32 = LINE + 10;

/// The narrowest panel of a picture of a given width.
const NARROWEST: i32 = 240;

/// Panels in a grid, the width and height of one, and the width of the picture.
pub(super) struct Grid {
    rows: usize,
    columns: usize,
    panel: (i32, i32),
    pub(super) width: u32,
    /// The label of the horizontal axes, in lines.
    x_label: Vec<String>,
}

impl Grid {
    /// So many `panels`, at most `columns` side by side, above one `x_label` in a picture of that `width`; without one,
    /// panels are of the size `panel`.
    pub(super) fn of(
        panels: usize,
        columns: usize,
        panel: (i32, i32),
        x_label: &str,
        width: Option<Width>,
    ) -> Self {
        let columns = columns.clamp(1, panels.max(1));
        let room = width.map(|width| width.room() - AROUND);
        // A panel is no narrower than one that can be read, and keeps its shape, but for a narrow one, which has as many
        // names as a wide one.
        let fitting = room.map_or(columns, |room| usize::try_from(room / NARROWEST).unwrap_or(1));
        let columns = columns.min(fitting.max(1));
        let across = room.map_or(panel.0, |room| room / count(columns));
        let tall = i64::from(across) * i64::from(panel.1) / i64::from(panel.0);
        let panel = (across, i32::try_from(tall).unwrap_or(i32::MAX).max(panel.1 * 4 / 5));
        let width = width.map_or(across.saturating_mul(count(columns)) + AROUND, Width::room);
        let x_label = wrapped(x_label, FONT, f64::from(width - AROUND));
        Self { rows: panels.div_ceil(columns), columns, panel, width: extent(width), x_label }
    }

    /// Width and height of the picture below a head of `head` pixels.
    pub(super) fn size(&self, head: i32) -> (u32, u32) {
        let panels = self.panel.1.saturating_mul(count(self.rows));
        (self.width, extent(panels + head + self.below()))
    }

    /// Height of the label of the horizontal axes.
    fn below(&self) -> i32 {
        LINE * count(self.x_label.len()) + 6
    }

    /// The areas of the panels.
    pub(super) fn split<'a>(&self, area: &Area<'a>, head: i32) -> Vec<Area<'a>> {
        area.margin(head, self.below(), LINE, 10).split_evenly((self.rows, self.columns))
    }

    /// Draws the labels of the axes: that across once for all panels, that up beside each row of them.
    pub(super) fn draw_labels(
        &self,
        area: &Area<'_>,
        y_label: &str,
        head: i32,
    ) -> Result<(), DrawError> {
        let (width, height) = area.dim_in_pixel();
        let middle = i32::midpoint(LINE, i32::try_from(width).unwrap_or(i32::MAX));
        let top = i32::try_from(height).unwrap_or(i32::MAX) - self.below();
        for (line, text) in (0..).zip(&self.x_label) {
            let at = (middle, top + LINE * line + LINE / 2 + 2);
            letters(HPos::Center).write(area, text, at)?;
        }
        let upright = Lettering { upright: true, ..letters(HPos::Center) };
        for row in 0..count(self.rows) {
            let middle = head + self.panel.1 * row + self.panel.1 / 2;
            upright.write(area, y_label, (LINE / 2 + 2, middle))?;
        }
        Ok(())
    }
}

/// The range of `values`, with room at both ends.
pub(super) fn fitted(values: impl Iterator<Item = f64>) -> Result<Range<f64>, DrawError> {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = values.fold(ends, |(low, high), x| (low.min(x), high.max(x)));
    if low > high {
        return Err(DrawError::Empty { what: "no series has a point" });
    }
    let room = if high > low { (high - low) * 0.04 } else { 0.5 };
    Ok(low - room..high + room)
}

/// The horizontal axis of a panel.
#[derive(Clone)]
pub(super) struct Horizontal {
    range: Range<f64>,
    /// Whether all values are whole numbers, and so are its ticks.
    whole: bool,
}

impl Horizontal {
    /// One for `values`, with room at both ends.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone) -> Result<Self, DrawError> {
        let whole = values.clone().all(|value| value.fract() == 0.0);
        Ok(Self { range: fitted(values)?, whole })
    }

    /// Where it begins and ends.
    pub(super) const fn ends(&self) -> [f64; 2] {
        [self.range.start, self.range.end]
    }

    /// Most ticks: whole numbers are at least one apart.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates.
    fn ticks(&self) -> usize {
        let most = if self.whole { (self.range.end - self.range.start) as usize } else { 7 };
        most.clamp(1, 7)
    }
}

/// The label at `value`: as many decimals as it has, six at most.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if matches!(text, "-0" | "") { "0".to_owned() } else { text.to_owned() }
}

/// Draws the axes of a panel and its title.
pub(super) fn draw_axes<'a, 'b>(
    cell: &'a Area<'b>,
    title: &str,
    x: &Horizontal,
    y: Range<f64>,
    scale: Scale,
) -> Result<Axes<'a, 'b>, DrawError> {
    let left = if matches!(scale, Scale::Dollars(_)) { 66 } else { 46 };
    let mut axes = ChartBuilder::on(cell)
        .margin_top(LINE + 4)
        .margin_right(8)
        .x_label_area_size(26)
        .y_label_area_size(left)
        .build_cartesian_2d(x.range.clone(), y.clone())?;
    let mut mesh = axes.configure_mesh();
    mesh.light_line_style(TRANSPARENT).bold_line_style(GRID).axis_style(INK);
    mesh.label_style(axis_font()).x_labels(x.ticks()).y_labels(6);
    mesh.x_label_formatter(&|value| number(*value));
    let decimals = scale.decimals(&y, 6);
    mesh.y_label_formatter(&|value| scale.label(*value, decimals)).draw()?;
    let (width, _) = cell.dim_in_pixel();
    let title = canvas::fit(title, FONT, f64::from(width) - f64::from(left) - 8.0);
    let bold = Lettering { bold: true, ..letters(HPos::Left) };
    bold.write(cell, &title, (left, LINE / 2 + 2))?;
    Ok(axes)
}

/// The position of `point` of `axes` in `cell`.
pub(super) fn place(axes: &Axes<'_, '_>, cell: &Area<'_>, point: &(f64, f64)) -> Point {
    let corner = cell.get_base_pixel();
    let at = axes.plotting_area().map_coordinate(point);
    (at.0 - corner.0, at.1 - corner.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_read_as_such() {
        assert_eq!(
            [100.0, -0.0, 0.5, 1.25, 0.1 + 0.2].map(number),
            ["100", "0", "0.5", "1.25", "0.3"]
        );
        let ticks = |values: &[f64]| Horizontal::of(values.iter().copied()).unwrap().ticks();
        assert_eq!([ticks(&[4.0, 6.0]), ticks(&[4.5, 6.0]), ticks(&[8.0])], [2, 7, 1]);
        assert_eq!(ticks(&[8.0, 256.0]), 7);
    }
}
