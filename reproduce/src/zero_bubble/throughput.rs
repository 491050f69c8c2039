//! Figure 5 and table 4, table 6, the headline gains and the upper bound of the figure; and steps of
//! few microbatches by formula.

use std::collections::BTreeMap;

use question::Diagnostic;
use question::sheet::Sheet;

use super::super::cell::Cell;
use super::super::check::Check;
use super::super::picture::{Bars, Group, PUBLISHED, Pair, Picture, distinct};
use super::super::sheets;
use super::super::sources::Sources;
use super::super::table::{Contents, Table};
use super::runs::{BASELINE, Gain, Known, figure_5, gains_of, table_6};
use super::{CONSTANTS, Ground, Quantity, row, small};
use measured::papers::zero_bubble::PaperRun;

const TITLE: &str =
    "Zero Bubble, figure 5 and tables 4 and 6: throughput and memory, gains over 1F1B";

const SPEED: Quantity = Quantity { name: "samples/GPU/s", check: Check::Relative(0.08), digits: 2 };
const MEMORY: Quantity = Quantity { name: "peak GB", check: Check::Relative(0.1), digits: 0 };
const PICTURE: &str = "Zero Bubble, figure 5 and table 6: gains in throughput over 1F1B";
const GAIN: Quantity = Quantity { name: "gain over 1F1B", check: Check::Gain, digits: 3 };
const ASIDE: Quantity = Quantity { name: "gain, transfers overlapped", ..GAIN };
const BOUND: Quantity = Quantity { name: "upper bound, samples/GPU/s", ..SPEED };
const LARGEST: Quantity = Quantity { name: "largest gain over 1F1B", digits: 2, ..GAIN };
const LARGEST_ASIDE: Quantity = Quantity { name: "largest gain, transfers overlapped", ..LARGEST };
const FURTHER: Quantity =
    Quantity { name: "ms per further microbatch", check: Check::Relative(0.08), digits: 1 };
/// Why gains of table 6 by the planner, and its headlines, are not checked.
const BLOCKING: &str = "not checked: ours with transfers that block stages; the gain with transfers overlapped is checked";

const REMARKS: &str = "\
Gains are differences of a share: 0.05 is 5 points. There are two predictions of them. In the planner's
a stage does nothing else while it sends, as Megatron's 1F1B and 1F1B-I do; where `transfers overlapped` is
written, transfers of ZB-1p, ZB-2p and ZB-V overlap passes. On one node both are near; between nodes, where a
microbatch of 6 takes milliseconds, the planner's holds zero-bubble schedules back that were not held
back: its gains in table 6 are too low, and not checked. Without that, what is left is alike for all
schedules of a setting. The second prediction was made after a look at table 6: what it has not seen is
the headline, whose rows are not available.
`ms per further microbatch` is from the fewest to the most microbatches that were run: what a step takes
besides, its bubble, is not in it. The upper bound is the throughput of 1F1B over 1 - its bubble rate
(of table 5; ours: of the stage with most to do).
The headline is 15 % and 30 % over 1F1B in ICLR, 23 % and 31 % in arXiv v1, with as much and with more
memory. The rows of 14.6B and 28.3B, but two of ZB-2p, are not available: `largest` is over all settings in
ours. Neither are the tables of microbatch sizes (arXiv 7), of the same memory and of m <= p.
For the last the formulas are below, compared with the simulation of the profile without transfers.";

pub(in super::super) fn cells(
    table: &Table,
    sources: &Sources<'_>,
) -> Result<Contents, Diagnostic> {
    let ground = Ground::new(sources)?;
    let figure_5 = figure_5(&ground, sources)?;
    let table_6 = table_6(&ground, sources)?;
    let rates = small::bubble_rates(sources)?;
    let mut cells: Vec<Cell> = figure_5.iter().chain(&table_6).flat_map(figures).collect();
    for (all, is_checked) in [(&figure_5, true), (&table_6, false)] {
        for gain in gains_of(all) {
            cells.push(gain.cell(is_checked));
            cells.extend(gain.cell_aside());
        }
    }
    cells.extend(figure_5.iter().filter_map(|known| bound(known, &rates)));
    cells.extend(further(&figure_5).into_iter().chain(further(&table_6)));
    cells.extend(largest(&figure_5, &table_6));
    let few = small::cells(sources)?;
    let apart = cells.len();
    cells.extend(few);
    Contents::of(table, sources, TITLE, cells, |cells| {
        let (cells, few) = cells.split_at(apart);
        sheet(cells, few)
    })
}

impl Known {
    /// A cell of ours beside the measurement, if that is available.
    fn cell(&self, quantity: Quantity, fitted: bool, measured: Option<f64>, ours: f64) -> Cell {
        let row = row(&self.training);
        match measured {
            Some(measured) => quantity.cell(&row, fitted, [measured, ours]),
            None => quantity.alone(&row, ours),
        }
    }
}

/// Throughput and memory of a run.
fn figures(known: &Known) -> [Cell; 2] {
    let Known { training, trained, measured, .. } = known;
    [
        known.cell(SPEED, training.is_fitted(), measured.speed, trained.speed()),
        known.cell(MEMORY, false, measured.memory, trained.memory()),
    ]
}

impl Gain<'_> {
    /// The planner's prediction beside the measurement.
    fn cell(&self, is_checked: bool) -> Cell {
        let row = row(&self.run.training);
        match self.measured() {
            Some((measured, _)) if !is_checked => {
                GAIN.beside(&row, BLOCKING, [measured, self.ours()])
            }
            _ => self.of(GAIN, self.ours()),
        }
    }

    fn cell_aside(&self) -> Option<Cell> {
        Some(self.of(ASIDE, self.aside()?))
    }

    fn of(&self, quantity: Quantity, ours: f64) -> Cell {
        let row = row(&self.run.training);
        match self.measured() {
            Some((measured, rounding)) => {
                let figure = quantity.figure(&row, self.is_fitted(), measured);
                figure.rounded(rounding).beside(ours)
            }
            None => quantity.alone(&row, ours),
        }
    }
}

/// The upper bound of figure 5, for runs of 1F1B, with the bubble `rates` of its profile.
fn bound(known: &Known, rates: &BTreeMap<String, f64>) -> Option<Cell> {
    if known.training.schedule != BASELINE {
        return None;
    }
    let PaperRun { model, gpus, microbatches, .. } = &known.training;
    let rate = rates.get(&format!("{model} p={gpus} m={microbatches}"));
    let published = known.measured.speed.zip(rate).map(|(speed, rate)| speed / (1.0 - rate));
    let ours = known.trained.speed_without_bubble();
    Some(known.cell(BOUND, known.training.is_fitted(), published, ours))
}

/// How much longer a step of one more microbatch takes: from the fewest to the most that were run.
fn further(all: &[Known]) -> Vec<Cell> {
    let name = |known: &Known| {
        let PaperRun { model, gpus, microbatch, schedule, .. } = &known.training;
        format!("{model} p={gpus} b={microbatch}: {schedule}")
    };
    let names = all.iter().map(name).collect::<Vec<_>>();
    let names = distinct(names.iter().map(String::as_str));
    let slope = |row: &String| {
        let own = || all.iter().filter(|known| name(known) == *row);
        let few = own().min_by_key(|known| known.training.microbatches)?;
        let most = own().max_by_key(|known| known.training.microbatches)?;
        let more = most.training.microbatches - few.training.microbatches;
        if more == 0 {
            return None;
        }
        let [(measured_few, few), (measured_most, most)] = [few, most].map(Known::seconds);
        let each = |few: f64, most: f64| (most - few) * 1e3 / plan::number(more);
        let measured = measured_few.zip(measured_most).map(|(few, most)| each(few, most))?;
        let fitted = own().all(|known| known.training.is_fitted());
        Some(FURTHER.cell(row, fitted, [measured, each(few, most)]))
    };
    names.iter().filter_map(slope).collect()
}

/// The gains of the abstracts, each beside the largest of ours in the table that it is of.
fn largest(figure_5: &[Known], table_6: &[Known]) -> Vec<Cell> {
    let headlines = [
        ("ICLR, as much memory: ZB-1p of figure 5", 0.15, figure_5, "ZB-1p"),
        ("ICLR, more memory: ZB-2p of figure 5", 0.30, figure_5, "ZB-2p"),
        ("arXiv v1, as much memory: ZB-V of table 6", 0.23, table_6, "ZB-V"),
        ("arXiv v1, more memory: ZB-2p of figure 5", 0.31, figure_5, "ZB-2p"),
    ];
    let cells = headlines.map(|(name, published, all, schedule)| {
        let gains = gains_of(all);
        let own = || gains.iter().filter(|gain| gain.run.training.schedule == schedule);
        let ours = own().map(Gain::ours).fold(0.0, f64::max);
        let aside = own().filter_map(Gain::aside).fold(0.0, f64::max);
        [
            LARGEST.beside(name, BLOCKING, [published, ours]),
            LARGEST_ASIDE.cell(name, false, [published, aside]),
        ]
    });
    cells.into_iter().flatten().collect()
}

fn sheet(cells: &[Cell], few: &[Cell]) -> Sheet {
    let at_hand = cells.iter().filter(|cell| cell.is_published());
    let words = format!("\n{CONSTANTS}\n{REMARKS}\n\n");
    sheets::compared("run", at_hand).and_text(words).and(small::sheet(few))
}

/// The gains over 1F1B: a group for each setting, a bar for each schedule, with transfers that overlap passes where
/// those gains are checked.
pub(in super::super) fn gains(_: &str, cells: &[Cell]) -> Picture {
    let overlapped = |row: &str| cells.iter().any(|cell| ASIDE.is_of(cell) && cell.row == row);
    let own: Vec<(&str, &str, &Cell)> = cells
        .iter()
        .filter(|cell| if overlapped(&cell.row) { ASIDE.is_of(cell) } else { GAIN.is_of(cell) })
        .filter_map(|cell| cell.row.split_once(": ").map(|(group, series)| (group, series, cell)))
        .collect();
    let series = distinct(own.iter().map(|(_, series, _)| *series));
    let groups = distinct(own.iter().map(|(group, ..)| *group)).into_iter().map(|group| {
        let bar = |series: &String| {
            let mut bars = own.iter().filter(|(at, name, _)| *at == group && name == series);
            bars.next().map(|(.., cell)| Pair::of(cell))
        };
        Group { bars: series.iter().map(bar).collect(), label: group }
    });
    Picture::Bars(Bars {
        title: PICTURE.to_owned(),
        x_label: "model, p stages, b samples in each of m microbatches",
        y_label: "gain in throughput over 1F1B".to_owned(),
        groups: groups.collect(),
        mark: PUBLISHED,
        unmarked: "transfers of zb-1p, zb-2p and zb-v overlap passes; zb-2p*: half the microbatch size, twice the \
                   microbatches; without a mark: rows of 14.6B and 28.3B are not available",
        series: series.iter().map(|name| name.to_lowercase()).collect(),
    })
}
