//! `debubble reproduce`: published figures beside ours, cell by cell.

mod beyond;
mod cell;
mod closed_forms;
mod controllable;
mod fig9;
mod odc;
mod offload;
mod pictures;
mod rates;
mod sources;
mod vocabulary;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use rayon::prelude::*;
use serde::Serialize;

use self::cell::{Cell, Check, Count};
use self::sources::Sources;
use super::{Verdict, note, print_json};
use question::Diagnostic;
use crate::files;
use crate::help;
use crate::interrupt;

const EXAMPLES: &str = "\
Examples:
  Everything, into results/:
    debubble reproduce
  Exit code 1 if a cell differs:
    debubble reproduce table5 table8 --check
  For machines:
    debubble reproduce fig9 --json --no-files
  Better than published, and how far from the best:
    debubble reproduce table5 table8 --beyond --effort 20

A cell matches if ours, rounded to the printed digits, is what was printed; where the published code
was run again for more digits, those must agree too (1e-8), and the points of figure 9 to 1e-9.
The cells of `vocabulary` are measurements: one matches if the prediction is within 2.5 % of it (times),
3 % (memory, from bytes) or 10 % (gains, from FLOPs alone); peaks and rankings must be the same. Those
of `odc` match to every digit of what ODC's packing code gives when it is run again. Those of `offload`
that stand beside measured figures are not checked: they neither match nor miss, `match` is null.";

/// Print published tables beside ours, cell by cell
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Reproduce {
    /// Which tables
    #[arg(value_name = "TABLE", default_value = ALL, value_parser = table_names())]
    tables: Vec<String>,
    /// End with exit code 1 if any cell misses its published figure
    #[arg(long)]
    check: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Folder for the tables as CSV and the pictures as SVG
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    out: PathBuf,
    /// Write no files
    #[arg(long)]
    no_files: bool,
    /// Beside the published rate of each cell of table5, table8 and fig9, the best order that is
    /// found in the same memory, and what no order undercuts
    #[arg(long, conflicts_with = "check")]
    beyond: bool,
    /// How long to search each cell, in multiples of the default
    #[arg(long, value_name = "TIMES", default_value_t = 1, requires = "beyond")]
    #[arg(allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    effort: u64,
    /// Folder of the paper's settings [default: scenarios/paper, or what was built in]
    #[arg(long, value_name = "FOLDER")]
    paper: Option<PathBuf>,
}

/// A table that can be reproduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Table {
    Table2,
    Table5,
    Table8,
    Fig9,
    Interleave,
    Vocabulary,
    Controllable,
    Odc,
    Offload,
}

impl Table {
    const ALL: [Self; 9] = [
        Self::Table2,
        Self::Table5,
        Self::Table8,
        Self::Fig9,
        Self::Interleave,
        Self::Vocabulary,
        Self::Controllable,
        Self::Odc,
        Self::Offload,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Table2 => "table2",
            Self::Table5 => "table5",
            Self::Table8 => "table8",
            Self::Fig9 => "fig9",
            Self::Interleave => "interleave",
            Self::Vocabulary => "vocabulary",
            Self::Controllable => "controllable",
            Self::Odc => "odc",
            Self::Offload => "offload",
        }
    }

    const fn help(self) -> &'static str {
        match self {
            Self::Table2 => "closed forms of bubble and memory, without and with communication",
            Self::Table5 => "bubble rates, 12 settings x 6 schedules",
            Self::Table8 => "bubble rates with ZB-V, 9 settings x 5 schedules",
            Self::Fig9 => "bubble rate over the memory limit, 17 limits x 9 settings x 2 methods",
            Self::Interleave => "profiled interleaved 1F1B, 12 settings",
            Self::Vocabulary => {
                "the output layer over all stages: iterations, memory, gains; 103 cells"
            }
            Self::Controllable => "bubbles and peaks of V-Min, V-Half and the adaptive V",
            Self::Offload => "PipeOffload: closed forms, k, memory and throughput with copies",
            Self::Odc => "packing for FSDP: microbatches, loads, times and bubbles, 18 plans",
        }
    }
}

/// The word for every table.
const ALL: &str = "all";

fn table_names() -> PossibleValuesParser {
    let tables = Table::ALL.map(|table| PossibleValue::new(table.name()).help(table.help()));
    PossibleValuesParser::new(
        tables.into_iter().chain([PossibleValue::new(ALL).help("every table")]),
    )
}

/// A table with all its cells.
struct Reproduced {
    table: Table,
    title: String,
    cells: Vec<Cell>,
    /// What a person reads.
    text: String,
}

#[derive(Serialize)]
struct JsonBeyond<'a> {
    cells: Vec<&'a beyond::Cell>,
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
}

#[derive(Serialize)]
struct Json<'a> {
    cells: Vec<&'a Cell>,
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
}

impl Reproduce {
    /// Answers on `out`; the verdict is a miss only under `--check`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Diagnostic> {
        let sources = Sources::find(self.paper.clone())?;
        note(&format!("the paper's settings are from {}", sources.name()));
        let is_chosen =
            |table: &Table| self.tables.iter().any(|name| name == table.name() || name == ALL);
        if self.beyond {
            let tables = beyond::TABLES.into_iter().filter(is_chosen);
            return self.search(out, &sources, tables.collect());
        }
        let chosen: Vec<Table> = Table::ALL.into_iter().filter(is_chosen).collect();
        interrupt::listen();
        let reproduced = chosen
            .into_par_iter()
            .filter(|_| !interrupt::asked())
            .map(|table| reproduce(table, &sources))
            .collect::<Result<Vec<_>, _>>()?;
        if interrupt::cut_short() {
            note("interrupted: the tables that were done by then");
        }
        if !self.no_files {
            files::make_folder(&self.out)?;
            for one in &reproduced {
                let path = self.out.join(format!("{}.csv", one.table.name()));
                files::write(&path, cell::csv(&one.cells)?)?;
                if let Some(picture) = pictures::of(one)? {
                    files::write(&path.with_extension("svg"), picture)?;
                }
            }
        }
        if self.json {
            let cells = reproduced.iter().flat_map(|one| &one.cells).collect();
            print_json(out, &Json { cells, interrupted: interrupt::cut_short().then_some(true) })?;
        } else {
            for one in &reproduced {
                writeln!(out, "{}\n\n{}", one.title, one.text)?;
            }
        }
        Ok(verdict(&reproduced, self.check))
    }

    /// What lies beyond the published rates of `tables`.
    fn search(
        &self,
        out: &mut dyn Write,
        sources: &Sources,
        tables: Vec<Table>,
    ) -> Result<Verdict, Diagnostic> {
        if tables.is_empty() {
            let names = beyond::TABLES.map(Table::name).join(", ");
            return Err(Diagnostic::new(format!("--beyond is for {names}")));
        }
        let mut found = Vec::new();
        interrupt::listen();
        for table in tables {
            if found.is_empty() || !interrupt::asked() {
                found.push(beyond::beyond(table, sources, self.effort)?);
            }
        }
        if interrupt::cut_short() {
            note("interrupted: the cells that were searched by then");
        }
        for one in found.iter().filter(|_| !self.no_files) {
            let path = self.out.join(format!("{}-beyond.csv", one.table.name()));
            files::make_folder(&self.out)?;
            files::write(&path, beyond::csv(&one.cells)?)?;
        }
        if self.json {
            let cells = found.iter().flat_map(|one| &one.cells).collect();
            print_json(
                out,
                &JsonBeyond { cells, interrupted: interrupt::cut_short().then_some(true) },
            )?;
        } else {
            for one in &found {
                writeln!(out, "{}\n\n{}", one.table.name(), beyond::text(&one.cells))?;
            }
        }
        Ok(Verdict::Done)
    }
}

fn reproduce(table: Table, sources: &Sources) -> Result<Reproduced, Diagnostic> {
    match table {
        Table::Table2 => closed_forms::reproduce(sources),
        Table::Fig9 => fig9::reproduce(sources),
        Table::Vocabulary => vocabulary::reproduce(sources),
        Table::Controllable => controllable::reproduce(sources),
        Table::Odc => odc::reproduce(sources),
        Table::Offload => offload::reproduce(sources),
        Table::Table5 | Table::Table8 | Table::Interleave => rates::reproduce(table, sources),
    }
}

/// Names the misses on stderr. A table without cells proves nothing, so it is a miss.
fn verdict(reproduced: &[Reproduced], check: bool) -> Verdict {
    let mut missed = false;
    for Reproduced { table, cells, .. } in reproduced {
        let count = Count::of(cells);
        missed |= count.missed > 0 || count.checked() == 0;
        for cell in cells.iter().filter(|cell| cell.check == Check::Missed) {
            note(&format!("{}: miss: {cell}", table.name()));
        }
        let not_checked = match count.not_checked {
            0 => String::new(),
            more => format!("; {more} more stand beside measured figures and are not checked"),
        };
        let (matched, checked) = (count.matched, count.checked());
        note(&format!("{}: {matched} of {checked} cells match{not_checked}", table.name()));
    }
    if missed && check { Verdict::Missed } else { Verdict::Done }
}
