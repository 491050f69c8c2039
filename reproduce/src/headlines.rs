//! The gains that the papers claim in one line each, beside the range of ours over all settings that were published.

use question::Diagnostic;
use question::sheet::Sheet;

use super::cell::{Basis, Cell, Figure};
use super::check::{Check, Evidence};
use super::claims::Claims;
use super::sources::Sources;
use super::table::{Contents, Table};
use super::{encoder, vocabulary};

/// The file of claims that no other file has.
pub(super) const CLAIMS: &str = "headlines.csv";

const COLUMN: &str = "gain, %";
/// Claims over all settings of table 2, and the row that one of them is of.
const CLAIM: Basis = Basis::new("claimed, settings of table 2", Evidence::HeldOut, Check::Gain);

/// The row of tables 5 and 6 whose gain is the largest claim of V-Half, and its column.
const MOST_OF_V_HALF: &str = "VOCAB-1, V-Half on 24, vocabulary 256k, sequence 2048";
const OF_MFU: &str = "MFU over BASELINE";

/// The headlines that other tables have a cell for: the table, the paper, and the columns of its cells.
const OF_TABLES: [(&str, &str, &[&str]); 5] = [
    ("throughput", "Zero Bubble", &["largest gain, transfers overlapped"]),
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

pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let mut all = Vec::new();
    for (name, paper, columns) in OF_TABLES {
        let Some(table) = Table::named(name) else { continue };
        let cells = sources.cells_of(table)?;
        all.extend(columns.iter().flat_map(|column| of_table(&cells, name, paper, column)));
    }
    all.extend(of_vocabulary(sources)?);
    let settings: Vec<usize> = all.iter().map(|one| one.settings).collect();
    let cells = all.into_iter().map(|one| one.cell).collect();
    let title = "Headlines: gains that abstracts claim, and ours over all published settings";
    Contents::of(table, sources, title, cells, |cells| sheet(cells, &settings))
}

/// The headlines of the table `name`, whose cells are `cells`, in one of its columns.
fn of_table(cells: &[Cell], name: &str, paper: &str, column: &str) -> Vec<Headline> {
    let scale = if column.ends_with('%') { 1.0 } else { 100.0 };
    let own = cells.iter().filter(|cell| cell.column == column);
    let which = column.split(" gain").next().unwrap_or_default().trim_end_matches(", %");
    let headline = |cell: &Cell| Headline {
        cell: cell.quoted(format!("{paper}, {which}: {}", cell.row), COLUMN, scale),
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
            count("gain, transfers overlapped", &|cell| cell.row.contains(&schedule))
        }
        "offload" => count("gain over tensor 8, %", &|_| true),
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

/// Those of Vocabulary Parallelism: of the row that a claim is of where that is in tables 5 and 6, else the least and
/// the most of all settings of its table 2.
fn of_vocabulary(sources: &Sources<'_>) -> Result<Vec<Headline>, Diagnostic> {
    let claims = Claims::read_or_built_in(sources, CLAIMS)?;
    let mut all = Vec::new();
    let mut push = |row: String, claim: &str, ours: f64, settings: usize| {
        let figure = Figure::new(row, COLUMN, CLAIM, claims.named(claim)?);
        all.push(Headline { cell: figure.digits(1).beside(ours), settings });
        Ok::<(), Diagnostic>(())
    };
    let [one_f_one_b, v_half] = vocabulary::gains(sources)?;
    let least = |gains: &[f64]| gains.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |gains: &[f64]| gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let row = |end: &str, schedule: &str| format!("Vocabulary Parallelism, {end}: {schedule}");
    let (ours, settings) = (&one_f_one_b, one_f_one_b.len());
    push(row("least", "1F1B"), "vocabulary-1f1b-least", least(ours), settings)?;
    push(row("most", "1F1B"), "vocabulary-1f1b-most", most(ours), settings)?;
    push(row("least", "V-Half"), "vocabulary-v-half-least", least(&v_half), v_half.len())?;
    if let Some(table) = Table::named("vocabulary") {
        let cells = sources.cells_of(table)?;
        let named = cells.iter().find(|cell| cell.row == MOST_OF_V_HALF && cell.column == OF_MFU);
        if let Some(cell) = named {
            let row = row("most", MOST_OF_V_HALF);
            push(row, "vocabulary-v-half-most", 100.0 * (cell.ours - 1.0), 1)?;
        }
    }
    Ok(all)
}

const NOTES: &str = "
settings: those that ours is the least or the most of; 1 where the claim is of a row of a published table. Each of
them is in the table of the paper: throughput, offload, odc, recycle, encoder, vocabulary. The rows of
14.6B and 28.3B (Zero Bubble), of 16 and 32 devices (Vocabulary Parallelism, 1F1B, and V-Half on 32), of the weak
scaling (Optimus) and of ODC's tasks are not in the available published tables. Not checked are claims whose
settings are not published: ODC's of larger models and of reinforcement learning, ReCycle's over other systems.
`results/headlines.csv` gives the check of each line, and why a miss is expected.
";

fn sheet(cells: &[Cell], settings: &[usize]) -> Sheet {
    let rows = cells.iter().zip(settings).map(|(cell, settings)| {
        let figures = cell.compared().into_iter().chain([settings.to_string()]);
        std::iter::once(cell.row.clone()).chain(figures).collect()
    });
    let head = ["headline, gain in %", "published", "ours", "deviation", "match", "settings"];
    Sheet::table(head, rows).and_text(NOTES)
}
