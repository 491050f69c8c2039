//! Gains of schedules over 1F1B beside tensor, context and expert parallelism, with passes one after
//! the other and in pairs that hide communication; and the best combination.

mod report;
mod setting;

use pipeline::{Family, Fault};
use question::Diagnostic;
use rayon::prelude::*;
use serde::Deserialize;

use super::super::cell::{Basis, Cell, Figure};
use super::super::picture::{Bars, Group, Pair, Picture};
use super::super::sources::{Sources, error_in};
use super::super::table::{Contents, Table};
use super::gains;
use setting::{Mode, Outcome, Setting};

pub(in super::super) use setting::SETTINGS;

/// The file of published measurements with pairs.
pub(in super::super) const CLAIMS: &str = "overlap-claims.csv";

/// The convention of the gain of passes one after the other.
const APART: &str = "one pass after the other";
/// The convention of the gain of pairs under the contention of the setting.
const PAIRS: &str = "pairs";
/// The convention of the gain of pairs that take nothing from each other.
const IDEAL: &str = "pairs, ideal";
/// The convention of a step in seconds.
const STEP: &str = "step, s";
/// The convention of the most activations that a stage holds.
const PEAK: &str = "peak, microbatches of a stage";
/// The convention of the best combination of a job.
const BEST: &str = "best over the best 1f1b";
/// The convention of published measurements in other settings.
const CLAIMED: Basis = Basis::not_checked("measured, other settings");

/// The schedule that all gains are over.
const BASELINE: Family = Family::OneFOneB;

/// A schedule, its chunks per stage, and the one that does the same without pairs.
struct Entry {
    family: Family,
    chunks: u64,
    /// None if its order has no pairs.
    apart: Option<Family>,
}

const ENTRIES: [Entry; 8] = [
    Entry { family: BASELINE, chunks: 1, apart: None },
    Entry { family: Family::OneFOneBOverlap, chunks: 1, apart: Some(BASELINE) },
    Entry { family: Family::Interleaved, chunks: 2, apart: None },
    Entry { family: Family::InterleavedOverlap, chunks: 2, apart: Some(Family::Interleaved) },
    Entry { family: Family::ZbH1, chunks: 1, apart: None },
    Entry { family: Family::ZbV, chunks: 2, apart: None },
    Entry { family: Family::DualPipe, chunks: 1, apart: Some(Family::DualPipe) },
    Entry { family: Family::DualPipeV, chunks: 2, apart: Some(Family::DualPipeV) },
];

const DRAWN: [Family; 6] = [
    Family::Interleaved,
    Family::InterleavedOverlap,
    Family::ZbH1,
    Family::ZbV,
    Family::DualPipe,
    Family::DualPipeV,
];

/// The outcomes of a schedule in a setting.
struct Row {
    entry: &'static Entry,
    apart: Outcome,
    /// Pairs under the contention of the setting, and without; none if it has no pairs.
    pairs: Option<[Outcome; 2]>,
}

impl Row {
    fn of(setting: &Setting, entry: &'static Entry) -> Result<Self, Fault> {
        let Entry { family, chunks, apart } = *entry;
        let outcome = |family, mode| setting.outcome(family, chunks, mode);
        let pairs = match apart {
            Some(_) => Some([outcome(family, Mode::Pairs)?, outcome(family, Mode::Ideal)?]),
            None => None,
        };
        Ok(Self { entry, apart: outcome(family, Mode::Apart)?, pairs })
    }

    /// The shortest step that is claimed of it, and whether that is in pairs.
    fn best(&self) -> (f64, bool) {
        match &self.pairs {
            Some([pairs, _]) if pairs.seconds < self.apart.seconds => (pairs.seconds, true),
            _ => (self.apart.seconds, false),
        }
    }
}

struct Rows {
    setting: Setting,
    rows: Vec<Row>,
}

impl Rows {
    /// The step of 1F1B.
    fn baseline(&self) -> f64 {
        let own = self.rows.iter().find(|row| row.entry.family == BASELINE);
        own.map_or(f64::NAN, |row| row.apart.seconds)
    }
}

/// A published measurement, in percent.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Claim {
    name: String,
    least_percent: Option<f64>,
    most_percent: f64,
}

pub(in super::super) fn cells(
    table: &Table,
    sources: &Sources<'_>,
) -> Result<Contents, Diagnostic> {
    let settings = Setting::all(sources)?;
    let all = settings.into_par_iter().map(|setting| {
        let rows = ENTRIES.iter().map(|entry| Row::of(&setting, entry)).collect();
        let wrong = |fault: Fault| {
            let message = format!("{}: {fault}", setting.name());
            error_in(std::path::Path::new(SETTINGS), None, &message)
        };
        let rows: Vec<Row> = Result::map_err(rows, wrong)?;
        Ok(Rows { setting, rows })
    });
    let all: Vec<Rows> = all.collect::<Result<_, Diagnostic>>()?;
    let mut cells: Vec<Cell> = all.iter().flat_map(of_setting).collect();
    let best = best(&all);
    cells.extend(best.iter().map(|best| best.cell.clone()));
    if let Some(overlap) = Table::named("overlap") {
        let measured = sources.cells_of(overlap)?;
        cells.extend(measured.iter().filter(|cell| cell.column == gains::GAIN).cloned());
    }
    cells.extend(claims(sources)?);
    Contents::of(table, sources, report::TITLE, cells, |cells| report::sheet(&all, cells, &best))
}

/// A figure of ours without a published one.
fn alone(row: &str, column: &str, convention: &'static str, ours: f64) -> Cell {
    Figure::new(row, column, Basis::not_checked(convention), f64::NAN).digits(3).beside(ours)
}

fn of_setting(all: &Rows) -> Vec<Cell> {
    let (row, baseline) = (all.setting.row(), all.baseline());
    let mut cells = Vec::new();
    for Row { entry, apart, pairs } in &all.rows {
        let name = entry.family.name();
        let gain = |outcome: &Outcome| baseline / outcome.seconds - 1.0;
        cells.push(alone(&row, name, STEP, apart.seconds));
        cells.push(alone(&row, name, PEAK, apart.peak));
        if entry.family != BASELINE {
            cells.push(alone(&row, name, APART, gain(apart)));
        }
        if let Some([pairs, ideal]) = pairs {
            cells.push(alone(&row, name, PAIRS, gain(pairs)));
            cells.push(alone(&row, name, IDEAL, gain(ideal)));
        }
    }
    cells
}

/// The best combination of those that do the same job.
struct Best {
    job: String,
    setting: String,
    schedule: String,
    cell: Cell,
}

/// The best combination of each job, over the best 1F1B of any of its settings.
fn best(all: &[Rows]) -> Vec<Best> {
    let mut jobs: Vec<String> = Vec::new();
    for job in all.iter().filter_map(|rows| rows.setting.job()) {
        if !jobs.contains(&job) {
            jobs.push(job);
        }
    }
    let of_job = |job: String| {
        let own = || all.iter().filter(|rows| rows.setting.job().as_ref() == Some(&job));
        let baseline = own().map(Rows::baseline).fold(f64::INFINITY, f64::min);
        let every = own().flat_map(|rows| rows.rows.iter().map(move |row| (rows, row)));
        let (rows, row) = every.min_by(|(_, a), (_, b)| a.best().0.total_cmp(&b.best().0))?;
        let (seconds, in_pairs) = row.best();
        let schedule = row.entry.family.name();
        let schedule = if in_pairs { format!("{schedule} in pairs") } else { schedule.to_owned() };
        let setting = rows.setting.row();
        let column = format!("{setting}, {schedule}");
        let cell = alone(&job, &column, BEST, baseline / seconds - 1.0);
        Some(Best { job, setting, schedule, cell })
    };
    jobs.into_iter().filter_map(of_job).collect()
}

fn claims(sources: &Sources<'_>) -> Result<Vec<Cell>, Diagnostic> {
    let (path, claims) = sources.records_or_built_in::<Claim>(CLAIMS)?;
    let mut cells = Vec::new();
    for Claim { name, least_percent, most_percent } in claims {
        for (column, percent) in
            [("least gain", least_percent), ("largest gain", Some(most_percent))]
        {
            let Some(percent) = percent else { continue };
            if !(0.0..1e4).contains(&percent) {
                return Err(error_in(&path, None, &format!("{name}: {percent} is not a gain")));
            }
            let figure = Figure::new(name.as_str(), column, CLAIMED, percent / 100.0);
            cells.push(figure.digits(2).beside(f64::NAN));
        }
    }
    Ok(cells)
}

/// The gains over 1F1B: a group for each setting, a bar for each schedule in pairs where it has some, marked
/// where it would be with passes one after the other.
pub(in super::super) fn picture(_: &str, cells: &[Cell]) -> Picture {
    let is_gain = |cell: &&Cell| [APART, PAIRS].contains(&cell.convention);
    let rows = cells.iter().filter(is_gain).map(|cell| cell.row.as_str());
    let groups = super::super::picture::distinct(rows).into_iter().map(|row| {
        let of = |name: &str, convention: &str| {
            let mut own = cells.iter().filter(|cell| cell.row == row && cell.column == name);
            own.find(|cell| cell.convention == convention).map(|cell| cell.ours)
        };
        let bar = |family: &Family| {
            let apart = of(family.name(), APART)?;
            Some(Pair { ours: of(family.name(), PAIRS).unwrap_or(apart), published: apart })
        };
        let label = row.split_once(", ").map_or(row.as_str(), |(name, _)| name);
        Group { bars: DRAWN.iter().map(bar).collect(), label: label.to_owned() }
    });
    Picture::Bars(Bars {
        title: report::PICTURE.to_owned(),
        x_label: "model, and devices that share tensors (TP), contexts (CP) and experts (EP)",
        y_label: "gain in throughput over 1F1B".to_owned(),
        series: DRAWN.map(|family| family.name().to_owned()).into(),
        mark: APART,
        unmarked: "",
        groups: groups.collect(),
    })
}

#[cfg(test)]
mod tests {
    use question::Context;

    use super::*;

    /// In every setting pairs take no longer than passes one after the other, nor with less contention longer than with
    /// more, and where communication takes no time they gain nothing.
    #[test]
    fn pairs_gain_by_hiding_communication_alone() {
        let host = std::collections::BTreeMap::new();
        let context = Context::new(&host);
        let sources = Sources::new(&context, None);
        let rows = |setting: &Setting| -> Vec<Row> {
            ENTRIES.iter().map(|entry| Row::of(setting, entry).unwrap()).collect()
        };
        let mut found = 0;
        for setting in Setting::all(&sources).unwrap() {
            let own = rows(&setting);
            let name = setting.row();
            let quiet = rows(&setting.quiet());
            for (row, quiet_row) in own.iter().zip(&quiet) {
                let (Some([pairs, ideal]), Some(family)) = (&row.pairs, row.entry.apart) else {
                    continue;
                };
                let name = format!("{name}, {}", row.entry.family.name());
                assert!(pairs.seconds <= row.apart.seconds, "{name}");
                assert!(ideal.seconds <= pairs.seconds, "{name}");
                let without = quiet.iter().find(|row| row.entry.family == family).unwrap();
                let quiet_pairs = quiet_row.pairs.as_ref().unwrap()[0].seconds;
                assert!(quiet_pairs >= without.apart.seconds, "{name}");
                found += 1;
            }
        }
        assert!(found >= 28, "{found}");
    }
}
