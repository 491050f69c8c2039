//! A tornado chart of the savings of changes: bars to both sides of the step as it is, the longest
//! first.

use pipeline::Nanos;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{FONT, LINE, TITLE, draw_title, letters};
use crate::DrawError;
use crate::canvas;
use crate::canvas::{About, Area, GRID, INK, Point, extent, pixel};
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
    /// The title.
    pub title: String,
    /// The step without any change.
    pub step: Nanos,
    /// The changes.
    pub bars: Vec<TornadoBar>,
}

/// Bars of one tornado at most.
const MOST: usize = 16;
/// Width of the names, of the bars to one side, and of the numbers behind them.
const NAMES: i32 = 360;
const SIDE: i32 = 220;
const NUMBERS: i32 = 150;
/// Space around everything.
const MARGIN: i32 = 12;
/// A saving is light and a cost dark, in hues that colour-blind readers keep apart.
const SAVES: RGBColor = RGBColor(0x7F, 0xB8, 0xE6);
const COSTS: RGBColor = RGBColor(0xA8, 0x3C, 0x1E);

/// Draws `tornados` one below the other; in each the largest changes, equal in scale.
///
/// # Errors
/// If no change changes anything.
pub fn svg(tornados: &[Tornado]) -> Result<String, DrawError> {
    let ranked: Vec<Vec<&TornadoBar>> = tornados.iter().map(ranked).collect();
    let largest = ranked.iter().flatten().map(|bar| bar.change.unsigned_abs()).max();
    let Some(largest) = largest else {
        return Err(DrawError::Empty { what: "no lever changes the step" });
    };
    let rows = |bars: &Vec<&TornadoBar>| i32::try_from(bars.len()).unwrap_or(0);
    let block = |bars: &Vec<&TornadoBar>| 3 * LINE + LINE * rows(bars) + MARGIN;
    let height = ranked.iter().map(block).sum::<i32>() + LINE;
    let width = 2 * (MARGIN + NUMBERS + SIDE) + NAMES;
    let titles: Vec<&str> = tornados.iter().map(|one| one.title.as_str()).collect();
    let about = About::new(
        "What a change is worth".to_owned(),
        format!(
            "By how much changes make the step shorter or longer, the largest first, of {}.",
            titles.join("; ")
        ),
    );
    canvas::picture((extent(width), extent(height)), &about, |area| {
        let mut top = 0;
        for (tornado, bars) in tornados.iter().zip(&ranked) {
            draw(&area.margin(top, 0, 0, 0), tornado, bars, largest)?;
            top += block(bars);
        }
        draw_legend(area, height - LINE / 2 - 4)?;
        Ok(Vec::new())
    })
}

/// The largest changes of `tornado`, the largest first.
fn ranked(tornado: &Tornado) -> Vec<&TornadoBar> {
    let mut bars: Vec<&TornadoBar> = tornado.bars.iter().filter(|bar| bar.change != 0).collect();
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.change.unsigned_abs()));
    bars.truncate(MOST);
    bars
}

fn draw(
    area: &Area<'_>,
    tornado: &Tornado,
    bars: &[&TornadoBar],
    largest: u64,
) -> Result<(), DrawError> {
    draw_title(area, &format!("{}: what a change is worth", tornado.title))?;
    let middle = MARGIN + NAMES + NUMBERS + SIDE;
    let step = format!("step as it is: {}", format::time(tornado.step));
    letters(HPos::Center).write(area, &step, (middle, 2 * LINE))?;
    let mut y = 3 * LINE;
    for bar in bars {
        let name = canvas::fit(&bar.name, FONT, f64::from(NAMES) - FONT);
        letters(HPos::Left).write(area, &name, (pixel(TITLE), y))?;
        draw_bar(area, tornado, bar, (middle, y), largest)?;
        y += LINE;
    }
    let ends = [(middle, 3 * LINE - LINE / 2), (middle, y - LINE / 2)];
    canvas::line(area, ends, if bars.is_empty() { GRID } else { INK }, 1)
}

#[allow(clippy::cast_precision_loss)]
fn draw_bar(
    area: &Area<'_>,
    tornado: &Tornado,
    bar: &TornadoBar,
    (middle, y): Point,
    largest: u64,
) -> Result<(), DrawError> {
    let length = bar.change.unsigned_abs();
    let pixels = pixel(length as f64 / largest as f64 * f64::from(SIDE)).max(1);
    let share = length as f64 / tornado.step.0.max(1) as f64;
    let sign = if bar.change < 0 { "-" } else { "+" };
    let time = format::time(Nanos(length));
    let text = format!("{sign}{time} ({sign}{})", format::percent(share));
    let (from, to, colour, end, anchor) = match bar.change < 0 {
        true => (middle - pixels, middle, SAVES, middle - pixels - 6, HPos::Right),
        false => (middle, middle + pixels, COSTS, middle + pixels + 6, HPos::Left),
    };
    canvas::fill(area, (from, y - LINE / 2 + 3), (to, y + LINE / 2 - 3), colour)?;
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
    fn nothing_to_draw_is_said() {
        assert!(matches!(svg(&[tornado(&[0])]), Err(DrawError::Empty { .. })));
        assert!(matches!(svg(&[]), Err(DrawError::Empty { .. })));
    }
}
