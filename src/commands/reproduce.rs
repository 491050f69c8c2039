//! `debubble reproduce`: published figures beside ours, cell by cell.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use draw::pictures::reproduce as pictures;
use question::{Context, Diagnostic};
use reproduce::{ALL, Answer, MAX_EFFORT, Question, Reproduced, TABLES, reproduce};

use super::width::Pictures;
use super::{Verdict, note, note_all, print_json, print_sheet};
use crate::error::Error;
use crate::host::Host;
use crate::interrupt;
use crate::{files, help};

const EXAMPLES: &str = "\
Examples:
  Everything, into results/:
    debubble reproduce
  Exit code 1 if a cell differs:
    debubble reproduce table5 table8 --check
  For machines:
    debubble reproduce fig9 --json --no-files
  The headline figures of Zero Bubble, with post-validation:
    debubble reproduce throughput post-validation
  The gain of hiding communication, computed and measured:
    debubble reproduce overlap overlap-gain
  Orders better than published ones, and their gap to the bound:
    debubble reproduce table5 table8 --beyond --effort 20

Every published figure has its check before ours is known, and `check` names it: the printed digits (1e-8 where
the published code was run); a share of the figure; for a gain 15 % of the gain or the width of its digits,
whichever is larger; points only if the figure itself is a rate; a bound or a range. `expected miss` is a figure
of ours that is known to miss, with a reason, in expected-misses.csv of --paper: it fails if it gets worse, and
if it gets better. `not checked` is a figure without a published one, or with an unpublished setting; its
`convention` gives the reason. The last table counts checked cells by evidence, with the mean size of their
deviations: computed figures (orders, bubbles, packings), closed forms, measurements in a fit and outside any
fit, and bounds. Deviations are shares of the published figure, or of the published gain. Lengths of ODC's tasks
are drawn by odc-tasks.csv of --paper; file:FILE there takes the lengths of a data set.";

/// Print published tables next to ours, cell by cell
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
    #[command(flatten)]
    drawn: Pictures,
    /// Next to the published rate of each cell of table5, table8 and fig9, the best order found in the same
    /// memory, and a lower bound
    #[arg(long, conflicts_with = "check")]
    beyond: bool,
    /// How long to search each cell, in multiples of the default
    #[arg(long, value_name = "TIMES", default_value_t = 1, requires = "beyond")]
    #[arg(allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=MAX_EFFORT))]
    effort: u64,
    /// Folder of the paper's settings [default: scenarios/paper, or what was built in]
    #[arg(long, value_name = "FOLDER")]
    paper: Option<PathBuf>,
}

/// The folder with the settings that is looked for when none is named.
const FOLDER: &str = "scenarios/paper";

fn table_names() -> PossibleValuesParser {
    let tables = TABLES.iter().map(|table| PossibleValue::new(table.name).help(table.help));
    PossibleValuesParser::new(tables.chain([PossibleValue::new(ALL).help("every table")]))
}

impl Reproduce {
    /// Answers on `out`; the verdict is a miss only under `--check`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let paper = folder(self.paper.clone())?;
        let name =
            paper.as_deref().map_or("those built in".to_owned(), |at| at.display().to_string());
        note(&format!("the paper's settings are from {name}"));
        let host = match self.beyond {
            true => Host::listening(),
            false => Host::listening_for_a_second(
                "interrupted: tables under way take longer than a second, and none is kept; name some to get these alone",
            ),
        };
        let tables = self.tables.clone();
        let question = Question { tables, beyond: self.beyond, effort: self.effort, paper };
        let context = Context::new(&host);
        let answer = reproduce(&context, &question);
        interrupt::answered();
        note_all(&context);
        let answer = answer?;
        self.note_interruption(&answer);
        if !self.no_files {
            self.write_files(&answer)?;
        }
        match self.json {
            true => print_json(out, &answer)?,
            false => print_sheet(out, &answer.sheet())?,
        }
        if let Answer::Reproduced { tables, .. } = &answer {
            tables.iter().flat_map(Reproduced::notes).for_each(|text| note(&text));
        }
        Ok(if self.check && !answer.holds() { Verdict::Missed } else { Verdict::Done })
    }

    fn note_interruption(&self, answer: &Answer) {
        match answer {
            Answer::Reproduced { interrupted: true, .. } => {
                note("interrupted: the tables that were done by then");
            }
            Answer::Beyond { interrupted: true, .. } => {
                note("interrupted: the cells that were searched by then");
            }
            _ => {}
        }
    }

    fn write_files(&self, answer: &Answer) -> Result<(), Error> {
        files::make_folder(&self.out)?;
        if let Some(totals) = answer.totals_csv()? {
            files::write(&self.out.join("evidence.csv"), totals)?;
        }
        match answer {
            Answer::Reproduced { tables, .. } => tables.iter().try_for_each(|one| {
                let path = self.out.join(format!("{}.csv", one.table));
                files::write(&path, one.csv()?)?;
                match &one.picture {
                    Some(picture) => files::write(
                        &path.with_extension("svg"),
                        pictures::svg(picture, self.drawn.width)?,
                    ),
                    None => Ok(()),
                }
            }),
            Answer::Beyond { tables, .. } => tables.iter().try_for_each(|one| {
                let path = self.out.join(format!("{}-beyond.csv", one.table));
                files::write(&path, one.csv()?)
            }),
        }
    }
}

/// The folder named, which must be there; else [`FOLDER`] if it is there; else none, for what is built
/// in.
fn folder(named: Option<PathBuf>) -> Result<Option<PathBuf>, Diagnostic> {
    match named {
        Some(path) if path.is_dir() => Ok(Some(path)),
        Some(path) => Err(Diagnostic::unreadable(&path, "it is not a folder")),
        None => Ok(Some(PathBuf::from(FOLDER)).filter(|path: &PathBuf| Path::is_dir(path))),
    }
}
