//! A tornado chart of the savings of changes: bars to both sides of the step as it is, the longest
//! first.

use pipeline::Nanos;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{FONT, Head, LINE, TITLE, count, letters};
use crate::canvas;
use crate::canvas::{About, Area, INK, extent, pixel};
use crate::{DrawError, Width, width};
use question::format;

/// One change.
pub struct TornadoBar {
    /// The change.
    pub name: String,
    /// By how many nanoseconds the step gets longer.
    pub change: i64,
}

/// The changes of one schedule.
pub struct Tornado {
    pub title: String,
    /// The step without any change.
    pub step: Nanos,
    /// The changes.
    pub bars: Vec<TornadoBar>,
}

/// Bars of one tornado at most.
const MOST: usize = 16;
/// Width of the names, of the bars to one side, and of the numbers behind them, where names stand beside bars.
const NAMES: i32 = 360;
const SIDE: i32 = 220;
const NUMBERS: i32 = 150;
/// Space around everything.
const MARGIN: i32 = 12;
/// A saving is lighter than a cost, in hues that colour-blind readers keep apart.
pub(super) const SAVES: RGBColor = RGBColor(0x3F, 0x88, 0xC5);
pub(super) const COSTS: RGBColor = RGBColor(0xA8, 0x3C, 0x1E);

/// Where things stand, in pixels.
#[derive(Clone, Copy)]
struct Layout {
    /// Width of the picture.
    width: i32,
    /// The step as it is.
    middle: i32,
    /// The longest bar.
    side: i32,
    /// Height of a change.
    row: i32,
    /// Whether names stand above their bars, and numbers on the other side of the step.
    narrow: bool,
}

impl Layout {
    fn of(width: Option<Width>) -> Self {
        let natural = 2 * (MARGIN + NUMBERS + SIDE) + NAMES;
        let width = width.map_or(natural, Width::room);
        let side = (width - NAMES) / 2 - MARGIN - NUMBERS;
        if side >= SIDE / 2 {
            let middle = MARGIN + NAMES + NUMBERS + side;
            return Self { width, middle, side, row: LINE, narrow: false };
        }
        let side = (width / 2 - MARGIN).min(2 * SIDE);
        Self { width, middle: width / 2, side, row: 2 * LINE, narrow: true }
    }

    /// The head of a tornado.
    fn head(&self, tornado: &Tornado) -> Head {
        let title = format!("{}: what a change is worth", tornado.title);
        Head::of(&title, &[], &[], extent(self.width))
    }

    /// Height of a tornado of so many `bars` below its `head`.
    fn block(&self, head: &Head, bars: usize) -> i32 {
        head.height() + LINE + self.row * count(bars) + MARGIN
    }
}

/// Draws `tornados` one below the other; in each the largest changes, equal in scale.
pub fn svg(tornados: &[Tornado]) -> Result<String, DrawError> {
    svg_with(tornados, None)
}

/// The same in a picture of that `width`.
pub fn svg_with(tornados: &[Tornado], width: Option<Width>) -> Result<String, DrawError> {
    let ranked: Vec<Vec<&TornadoBar>> = tornados.iter().map(ranked).collect();
    let largest = ranked.iter().flatten().map(|bar| bar.change.unsigned_abs()).max();
    let Some(largest) = largest else {
        return Err(DrawError::Empty { what: "no lever changes the step" });
    };
    let layout = Layout::of(width);
    let heads: Vec<Head> = tornados.iter().map(|one| layout.head(one)).collect();
    let blocks = heads.iter().zip(&ranked).map(|(head, bars)| layout.block(head, bars.len()));
    let size = (extent(layout.width), extent(blocks.sum::<i32>() + LINE));
    let titles: Vec<&str> = tornados.iter().map(|one| one.title.as_str()).collect();
    let about = About::new(
        "Effect of each change".to_owned(),
        format!(
            "By how much changes make the step shorter or longer, the largest first, of {}.",
            titles.join("; ")
        ),
    );
    let svg = canvas::picture(size, &about, |area| {
        let mut top = 0;
        for ((tornado, bars), head) in tornados.iter().zip(&ranked).zip(&heads) {
            let area = area.margin(top, 0, 0, 0);
            head.draw(&area, |_, _| Ok(()))?;
            draw(&area, &layout, tornado, bars, (head.height(), largest))?;
            top += layout.block(head, bars.len());
        }
        draw_legend(area, top + LINE / 2 - 4)?;
        Ok(Vec::new())
    })?;
    Ok(width::printed(svg, size, width))
}

/// The largest changes of `tornado`, the largest first.
fn ranked(tornado: &Tornado) -> Vec<&TornadoBar> {
    let mut bars: Vec<&TornadoBar> = tornado.bars.iter().filter(|bar| bar.change != 0).collect();
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.change.unsigned_abs()));
    bars.truncate(MOST);
    bars
}

/// Draws `bars` below a head that ends at `top`, of which the largest of all is `largest`.
fn draw(
    area: &Area<'_>,
    layout: &Layout,
    tornado: &Tornado,
    bars: &[&TornadoBar],
    (top, largest): (i32, u64),
) -> Result<(), DrawError> {
    let step = format!("step as it is: {}", format::time(tornado.step));
    letters(HPos::Center).write(area, &step, (layout.middle, top))?;
    let mut y = top + LINE;
    for bar in bars {
        let room = if layout.narrow { layout.width - 2 * MARGIN } else { NAMES };
        let name = canvas::fit(&bar.name, FONT, f64::from(room) - FONT);
        letters(HPos::Left).write(area, &name, (pixel(TITLE), y))?;
        draw_bar(area, layout, tornado, bar, (y + layout.row - LINE, largest))?;
        y += layout.row;
    }
    Ok(())
}

/// Draws `bar` at the height `y`.
#[allow(clippy::cast_precision_loss)]
fn draw_bar(
    area: &Area<'_>,
    layout: &Layout,
    tornado: &Tornado,
    bar: &TornadoBar,
    (y, largest): (i32, u64),
) -> Result<(), DrawError> {
    let (length, middle) = (bar.change.unsigned_abs(), layout.middle);
    let pixels = pixel(length as f64 / largest as f64 * f64::from(layout.side)).max(1);
    let share = length as f64 / tornado.step.0.max(1) as f64;
    let sign = if bar.change < 0 { "-" } else { "+" };
    let time = format::time(Nanos(length));
    let text = format!("{sign}{time} ({sign}{})", format::percent(share));
    let (from, to, colour) = match bar.change < 0 {
        true => (middle - pixels, middle, SAVES),
        false => (middle, middle + pixels, COSTS),
    };
    canvas::fill(area, (from, y - LINE / 2 + 3), (to, y + LINE / 2 - 3), colour)?;
    canvas::line(area, [(middle, y - LINE / 2), (middle, y + LINE / 2)], INK, 1)?;
    let (end, anchor) = match (bar.change < 0, layout.narrow) {
        (true, false) => (from - 6, HPos::Right),
        (false, false) => (to + 6, HPos::Left),
        (true, true) => (to + 6, HPos::Left),
        (false, true) => (from - 6, HPos::Right),
    };
    let small = canvas::Lettering::new(FONT - 2.0, anchor);
    small.write(area, &text, (end, y))
}

fn draw_legend(area: &Area<'_>, y: i32) -> Result<(), DrawError> {
    let mut x = pixel(TITLE);
    for (colour, text) in [(SAVES, "shorter step"), (COSTS, "longer step")] {
        canvas::fill(area, (x, y - 6), (x + 12, y + 6), colour)?;
        letters(HPos::Left).write(area, text, (x + 18, y))?;
        x += 150;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{check_svg, rectangles};

    fn tornado(changes: &[i64]) -> Tornado {
        let bar = |&change: &i64| TornadoBar { name: format!("<change> & {change}"), change };
        Tornado {
            title: "zb-h1".to_owned(),
            step: Nanos(1_000_000),
            bars: changes.iter().map(bar).collect(),
        }
    }

    #[test]
    fn bars_are_as_long_as_changes_are_large() {
        let drawn = svg(&[tornado(&[-100, 50, 0]), tornado(&[25])]).unwrap();
        check_svg(&drawn);
        let of = |colour: RGBColor| {
            let fill = format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
            let all = rectangles(&drawn).into_iter().filter(move |one| one.fill == fill);
            all.map(|one| one.size.0).collect::<Vec<_>>()
        };
        // The last of each colour is the legend.
        assert_eq!(of(SAVES), [SIDE, 12]);
        assert_eq!(of(COSTS), [SIDE / 2, SIDE / 4, 12]);
    }

    #[test]
    fn names_stand_above_bars_where_the_picture_is_narrow() {
        for (width, narrow) in [("1col", true), ("2col", true), ("1100px", false)] {
            let width = Some(width.parse().unwrap());
            let drawn = svg_with(&[tornado(&[-100, 50])], width).unwrap();
            check_svg(&drawn);
            assert_eq!(Layout::of(width).narrow, narrow);
        }
    }

    #[test]
    fn nothing_to_draw_is_said() {
        assert!(matches!(svg(&[tornado(&[0])]), Err(DrawError::Empty { .. })));
        assert!(matches!(svg(&[]), Err(DrawError::Empty { .. })));
    }
}
