//! The gains that the papers claim in one line each, beside the range of ours over all settings that were published.

use question::Diagnostic;
use question::sheet::Sheet;

use super::cell::{Cell, Check};
use super::claims::Claims;
use super::sources::Sources;
use super::table::{Contents, Table};
use super::{encoder, vocabulary};

/// The file of claims that no other file has.
pub(super) const CLAIMS: &str = "headlines.csv";

const COLUMN: &str = "gain, %";
/// By how many points a gain that is predicted for settings whose rows are not at hand may miss the claim.
const POINTS: f64 = 5.0;

/// Why the most of vocabulary parallelism is missed.
const KNOWN_MISS: &str =
    "known miss: of three and four nodes, whose hops and input layer no timer of the profile has";

/// The headlines that other tables have a cell for: the table, the paper, and the columns of its cells.
const OF_TABLES: [(&str, &str, &[&str]); 5] = [
    ("throughput", "Zero Bubble", &["largest gain, transfers beside"]),
    ("offload", "PipeOffload over tensor parallelism", &["least gain, %", "largest gain, %"]),
    ("odc", "ODC", &["largest gain, %"]),
    ("recycle", "ReCycle", &["least loss, %", "largest gain, %"]),
    ("encoder", "Optimus", &[encoder::LARGEST]),
];

/// A headline, and the settings that ours is the least or most of.
struct Headline {
    cell: Cell,
    settings: usize,
}

/// All headlines.
pub(super) fn cells(_: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let mut all = Vec::new();
    for (name, paper, columns) in OF_TABLES {
        let Some(table) = Table::named(name) else { continue };
        let cells = sources.cells_of(table)?;
        all.extend(columns.iter().flat_map(|column| of_table(&cells, name, paper, column)));
    }
    all.extend(of_vocabulary(sources)?);
    let sheet = sheet(&all);
    let cells = all.into_iter().map(|one| one.cell).collect();
    let title = "Headlines: gains that abstracts claim, and ours over all published settings";
    Ok(Contents { title: title.to_owned(), cells, sheet })
}

/// The headlines of the table `name`, whose cells are `cells`, in one of its columns.
fn of_table(cells: &[Cell], name: &str, paper: &str, column: &str) -> Vec<Headline> {
    let scale = if column.ends_with('%') { 1.0 } else { 100.0 };
    let own = cells.iter().filter(|cell| cell.column == column);
    let which = column.split(" gain").next().unwrap_or_default().trim_end_matches(", %");
    let headline = |cell: &Cell| Headline {
        cell: Cell {
            row: format!("{paper}, {which}: {}", cell.row),
            column: COLUMN.to_owned(),
            published: scale * cell.published,
            ours: scale * cell.ours,
            digits: 1,
            ..cell.clone()
        },
        settings: settings(cells, name, &cell.row),
    };
    own.map(headline).collect()
}

/// The number of settings of table `name` over which the headline `row` was taken.
fn settings(cells: &[Cell], name: &str, row: &str) -> usize {
    let count = |column: &str, of: &dyn Fn(&Cell) -> bool| {
        cells.iter().filter(|cell| cell.column == column && of(cell)).count()
    };
    match name {
        "throughput" => {
            let schedule = row.split(": ").nth(1).and_then(|rest| rest.split(' ').next());
            let schedule = schedule.unwrap_or_default().to_owned();
            count("gain, transfers beside", &|cell| cell.row.contains(&schedule))
        }
        "offload" => {
            count("gain over tensor 8, %", &|cell| cell.convention.starts_with("measured"))
        }
        "recycle" => count("staggered", &|_| true),
        "encoder" if row.starts_with("strong") => {
            count("gain over Megatron-LM, %", &|cell| cell.row.ends_with("GPUs"))
        }
        "encoder" => count("gain over Megatron-LM, %", &|cell| !cell.row.ends_with("GPUs")),
        _ if row.starts_with("reinforcement") => {
            count("gain of lb-mini on-demand, %", &|cell| cell.row.starts_with("aime"))
        }
        _ => count("gain of lb-mini on-demand, %", &|cell| !cell.row.starts_with("aime")),
    }
}

/// Those of Vocabulary Parallelism, in all settings of its table 2.
fn of_vocabulary(sources: &Sources<'_>) -> Result<Vec<Headline>, Diagnostic> {
    let claims = Claims::read_or_built_in(sources, CLAIMS)?;
    let mut all = Vec::new();
    let names = [("vocabulary-1f1b", "1F1B"), ("vocabulary-v-half", "V-Half")];
    for ((name, schedule), gains) in names.into_iter().zip(vocabulary::gains(sources)?) {
        let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (end, ours) in [("least", least), ("most", most)] {
            let published = claims.named(&format!("{name}-{end}"))?;
            let row = format!("Vocabulary Parallelism, {end}: {schedule}");
            let (convention, check) = match (ours - published).abs() <= POINTS {
                true => ("claimed, settings of table 2", Check::Matched),
                false => (KNOWN_MISS, Check::NotChecked),
            };
            let cell = Cell::new(row, COLUMN, convention, [published, ours], check);
            all.push(Headline { cell: Cell { digits: 1, ..cell }, settings: gains.len() });
        }
    }
    Ok(all)
}

const NOTES: &str = "
settings: those that the least or the most of ours is taken over. Each cell of them stands in the table of the paper:
throughput, offload, odc, recycle, encoder, vocabulary. Not checked are claims whose settings or lengths were not at
hand: ODC's of larger models and of reinforcement learning, ReCycle's over other systems. Known misses are two. Optimus
over Megatron-LM: the first stage has the whole encoder there, yet the steps that are published are within 3 % of those
of balanced stages. Vocabulary Parallelism: its rows of 24 and 32 devices with 256k entries are not at hand, and a
machine that is fitted to one node holds the first and the last stage back longer than they were. Layers of its REDIS
are dealt anew, so that the slowest stage is as fast as can be.
";

fn sheet(all: &[Headline]) -> Sheet {
    let rows = all.iter().map(|Headline { cell, settings }| {
        vec![
            cell.row.clone(),
            cell.printed(cell.published),
            cell.printed(cell.ours),
            cell.verdict().to_owned(),
            settings.to_string(),
        ]
    });
    let head = ["headline, gain in %", "published", "ours", "match", "settings"];
    Sheet::table(&head, rows).and_text(NOTES)
}
