//! Figure 5 and table 4, table 6, the headline gains and the upper bound of the figure; and steps of
//! few microbatches by formula.

use std::collections::BTreeMap;

use question::Diagnostic;
use question::sheet::Sheet;

use super::super::cell::Cell;
use super::super::picture::{Bars, Group, Pair, Picture, distinct};
use super::super::sources::Sources;
use super::super::tables::{Contents, Table};
use super::{
    CONSTANTS, Ground, MODELS, Quantity, beside, errors, positive, post_validation, row, small,
};
use crate::measured::papers::zero_bubble::{Line, PostValidation, Trained, Training};

/// The file of the lines of table 4 that are at hand.
pub(in super::super) const TABLE_4: &str = "zb-throughput.csv";
/// The file of the lines of table 6 that are at hand.
pub(in super::super) const TABLE_6: &str = "zb-table6.csv";

const TITLE: &str =
    "Zero Bubble, figure 5 and tables 4 and 6: throughput and memory, gains over 1F1B";

const SPEED: Quantity =
    Quantity { name: "samples/GPU/s", tolerance: 0.08, points: false, digits: 2 };
const MEMORY: Quantity = Quantity { name: "peak GB", tolerance: 0.1, points: false, digits: 0 };
const GAIN: Quantity =
    Quantity { name: "gain over 1F1B", tolerance: 0.05, points: true, digits: 3 };
const OVER_ZB_1P: Quantity = Quantity { name: "gain over ZB-1p", ..GAIN };
const BOUND: Quantity = Quantity { name: "upper bound, samples/GPU/s", ..SPEED };
const LARGEST: Quantity = Quantity { name: "largest gain over 1F1B", digits: 2, ..GAIN };
const FURTHER: Quantity =
    Quantity { name: "ms per further microbatch", tolerance: 0.08, points: false, digits: 1 };

const BASELINE: &str = "1F1B";
/// The schedules of figure 5.
const FIGURE_5: [&str; 4] = ["ZB-2p", "ZB-1p", BASELINE, "1F1B-I"];

const REMARKS: &str = "\
Gains over 1F1B are differences of a share: 0.05 is 5 points. Those of table 6 are not checked: on two
nodes a further microbatch of 1F1B takes 8 % longer than in ours, and of no other schedule more than
1 % (`ms per further microbatch`). The upper bound is the throughput of 1F1B over 1 - its bubble rate
(table 5; ours: of the stage with most to do).
`largest gain` is the headline: 23 % and 31 % over 1F1B in arXiv v1, 15 % and 30 % in ICLR. Of the rows
at hand 6.2B on 16, b=6 m=48 gives 22.8 % for ZB-V (as much memory), 14.5 % for ZB-1p and 29.0 % for
ZB-2p*, table 4 23.4 % for ZB-2p; the rows of 14.6B and 28.3B, but two of ZB-2p, are not at hand.
Nor are the tables of microbatch sizes (arXiv 7), of the same memory and of m <= p: for the last the
formulas stand below, held against the simulation of the profile's times without transfers.";

/// A run with what is known of it: throughput, then memory.
struct Known {
    training: Training,
    trained: Trained,
    speed: Option<f64>,
    memory: Option<f64>,
}

/// All cells.
pub(in super::super) fn cells(_: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let ground = Ground::new(sources)?;
    let figure_5 = figure_5(&ground, sources)?;
    let table_6 = table_6(&ground, sources)?;
    let rates = small::bubble_rates(sources)?;
    let mut cells: Vec<Cell> = figure_5.iter().chain(&table_6).flat_map(figures).collect();
    cells.extend(gains_of(&figure_5, BASELINE, GAIN, true));
    cells.extend(gains_of(&table_6, BASELINE, GAIN, false));
    cells.extend(gains_of(&table_6, "ZB-1p", OVER_ZB_1P, true));
    cells.extend(figure_5.iter().filter_map(|known| bound(known, &rates)));
    cells.extend(further(&figure_5).into_iter().chain(further(&table_6)));
    cells.extend(largest(&figure_5, &table_6));
    let few = small::cells(sources)?;
    let sheet = sheet(&cells, &few);
    cells.extend(few);
    Ok(Contents { title: TITLE.to_owned(), cells, sheet })
}

/// Every run of figure 5. Of the figures of the two larger models, only those of ZB-2p that the table
/// of post-validation repeats are at hand.
fn figure_5(ground: &Ground, sources: &Sources<'_>) -> Result<Vec<Known>, Diagnostic> {
    let (path, lines) = sources.records::<Line>(TABLE_4)?;
    let (repeated, others) = sources.records::<PostValidation>(post_validation::FIGURES)?;
    let mut known: BTreeMap<String, (f64, Option<f64>)> = BTreeMap::new();
    for other in &others {
        let (name, speed) =
            (row(&other.trainings()[0]), other.post_validation_samples_per_gpu_per_s);
        positive(&repeated, &name, &[speed])?;
        known.insert(name, (speed, None));
    }
    for line in &lines {
        let name = row(&Training::from(line));
        positive(&path, &name, &[line.samples_per_gpu_per_s, line.memory_gb])?;
        known.insert(name, (line.samples_per_gpu_per_s, Some(line.memory_gb)));
    }
    let mut trainings = Vec::new();
    for model in &ground.models {
        let counts = model.m.split_whitespace().map(|count| {
            let wrong = |_| format!("{}: `{count}` is no number", model.model);
            count.parse::<u64>().map_err(wrong).map_err(Diagnostic::new)
        });
        for microbatches in counts.collect::<Result<Vec<u64>, _>>()? {
            trainings.extend(FIGURE_5.map(|schedule| Training {
                model: model.model.clone(),
                gpus: model.gpus,
                microbatch: model.microbatch_size,
                microbatches,
                schedule: schedule.to_owned(),
                synchronised: false,
            }));
        }
    }
    let trained = ground.predict(MODELS.as_ref(), &trainings)?;
    let pairs = trainings.into_iter().zip(trained);
    let all = pairs.map(|(training, trained)| {
        let figures = known.get(&row(&training)).copied();
        let (speed, memory) = (figures.map(|(speed, _)| speed), figures.and_then(|one| one.1));
        Known { training, trained, speed, memory }
    });
    Ok(all.collect())
}

/// The runs of table 6 that are at hand.
fn table_6(ground: &Ground, sources: &Sources<'_>) -> Result<Vec<Known>, Diagnostic> {
    let (path, lines) = sources.records::<Line>(TABLE_6)?;
    let trainings: Vec<Training> = lines.iter().map(Training::from).collect();
    let trained = ground.predict(&path, &trainings)?;
    let pairs = trainings.into_iter().zip(trained).zip(&lines);
    let known = pairs.map(|((training, trained), line)| {
        let figures = [line.samples_per_gpu_per_s, line.memory_gb];
        positive(&path, &row(&training), &figures)?;
        let [speed, memory] = figures.map(Some);
        Ok(Known { training, trained, speed, memory })
    });
    known.collect()
}

impl Known {
    /// A cell of ours beside what was measured, if that is at hand.
    fn cell(&self, quantity: Quantity, fitted: bool, measured: Option<f64>, ours: f64) -> Cell {
        let row = row(&self.training);
        match measured {
            Some(measured) => quantity.cell(&row, fitted, [measured, ours]),
            None => quantity.alone(&row, ours),
        }
    }

    /// The seconds of a step: measured, if that is at hand, and ours.
    fn seconds(&self) -> (Option<f64>, f64) {
        let samples = self.trained.speed() * self.trained.seconds();
        (self.speed.map(|speed| samples / speed), self.trained.seconds())
    }

    /// Samples of a step.
    fn batch(&self) -> u64 {
        self.training.microbatch.saturating_mul(self.training.microbatches)
    }
}

/// Throughput and memory of a run.
fn figures(known: &Known) -> [Cell; 2] {
    let Known { training, trained, speed, memory } = known;
    [
        known.cell(SPEED, training.is_fitted(), *speed, trained.speed()),
        known.cell(MEMORY, false, *memory, trained.memory()),
    ]
}

/// The throughput of every run over that of `baseline` with the same samples a step, less 1.
fn gains_of(all: &[Known], baseline: &str, quantity: Quantity, checked: bool) -> Vec<Cell> {
    let gain = |run: &Known| {
        let mut others = all.iter().filter(|other| other.training.schedule == baseline);
        let own = others.find(|other| {
            let [a, b] =
                [run, other].map(|one| (&one.training.model, one.training.gpus, one.batch()));
            a == b
        })?;
        let measured = run.speed.zip(own.speed).map(|(run, own)| run / own - 1.0);
        let ours = run.trained.speed() / own.trained.speed() - 1.0;
        let fitted = run.training.is_fitted() && own.training.is_fitted();
        Some(match measured {
            Some(measured) if !checked => quantity.beside(&row(&run.training), [measured, ours]),
            measured => run.cell(quantity, fitted, measured, ours),
        })
    };
    let runs = all.iter().filter(|run| run.training.schedule != baseline);
    // Table 6 has schedules that cannot be held against others than 1F1B.
    let runs = runs.filter(|run| baseline == BASELINE || run.training.schedule != BASELINE);
    runs.filter_map(gain).collect()
}

/// The upper bound of figure 5, for runs of 1F1B, with the bubble `rates` of its profile.
fn bound(known: &Known, rates: &BTreeMap<String, f64>) -> Option<Cell> {
    if known.training.schedule != BASELINE {
        return None;
    }
    let Training { model, gpus, microbatches, .. } = &known.training;
    let rate = rates.get(&format!("{model} p={gpus} m={microbatches}"));
    let published = known.speed.zip(rate).map(|(speed, rate)| speed / (1.0 - rate));
    let ours = known.trained.speed_without_bubble();
    Some(known.cell(BOUND, known.training.is_fitted(), published, ours))
}

/// How much longer a step of one more microbatch takes: from the fewest to the most that were run.
fn further(all: &[Known]) -> Vec<Cell> {
    let name = |known: &Known| {
        let Training { model, gpus, microbatch, schedule, .. } = &known.training;
        format!("{model} on {gpus}, b={microbatch}: {schedule}")
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
        Some(FURTHER.beside(row, [measured, each(few, most)]))
    };
    names.iter().filter_map(slope).collect()
}

/// The gains of the abstracts, each beside the largest of ours in the table that it is of.
fn largest(figure_5: &[Known], table_6: &[Known]) -> Vec<Cell> {
    let most = |all: &[Known], schedule: &str| {
        let gains = gains_of(all, BASELINE, GAIN, false).into_iter();
        let of = gains.filter(|cell| cell.row.ends_with(&format!(": {schedule}")));
        of.map(|cell| cell.ours).fold(0.0, f64::max)
    };
    let cell = |row: &str, published, ours| LARGEST.cell(row, false, [published, ours]);
    vec![
        cell("ICLR, as much memory: ZB-1p, figure 5", 0.15, most(figure_5, "ZB-1p")),
        cell("ICLR, more memory: ZB-2p, figure 5", 0.30, most(figure_5, "ZB-2p")),
        cell("arXiv v1, more memory: ZB-2p, figure 5", 0.31, most(figure_5, "ZB-2p")),
        LARGEST.beside("arXiv v1, as much memory: ZB-V, table 6", [0.23, most(table_6, "ZB-V")]),
    ]
}

fn sheet(cells: &[Cell], few: &[Cell]) -> Sheet {
    let checked = [SPEED, MEMORY, GAIN, OVER_ZB_1P, BOUND, LARGEST];
    beside("published = ours", &[SPEED, MEMORY, GAIN], cells)
        .and_text("\n")
        .and(beside("published = ours", &[OVER_ZB_1P], cells))
        .and_text("\n")
        .and(beside("published = ours", &[BOUND], cells))
        .and_text("\n")
        .and(beside("measured | ours", &[FURTHER], cells))
        .and_text("\n")
        .and(beside("headline = ours", &[LARGEST], cells))
        .and_text("\n")
        .and(errors(&checked, cells))
        .and_text(format!("\n{CONSTANTS}\n{REMARKS}\n\n"))
        .and(small::sheet(few))
}

/// The gains over 1F1B: a group for each setting, a bar for each schedule.
pub(in super::super) fn gains(title: &str, cells: &[Cell]) -> Picture {
    let own: Vec<(&str, &str, &Cell)> = cells
        .iter()
        .filter(|cell| GAIN.is_of(cell))
        .filter_map(|cell| cell.row.split_once(": ").map(|(group, series)| (group, series, cell)))
        .collect();
    let series = distinct(own.iter().map(|(_, series, _)| *series));
    let groups = distinct(own.iter().map(|(group, ..)| *group)).into_iter().map(|group| {
        let bar = |series: &String| {
            let mut bars = own.iter().filter(|(at, name, _)| *at == group && name == series);
            bars.next().map(|(.., cell)| Pair::of(cell))
        };
        Group { bars: series.iter().map(bar).collect(), label: group.replace(',', "") }
    });
    Picture::Bars(Bars {
        title: title.to_owned(),
        y_label: "gain in throughput over 1F1B".to_owned(),
        groups: groups.collect(),
        series,
    })
}
