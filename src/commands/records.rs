//! `debubble records`: the best known orders of a fixed set of pipelines.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ::search::Effort;
use answer::records::{
    Credit, Offer, RecordInstance, RecordSet, add, check, file_name, search, table,
};
use calibrate::machine::today;
use clap::Args;
use draw::text;
use question::{Context, Diagnostic, quote};
use reproduce::MAX_EFFORT;
use serde::Serialize;

use super::{OUTPUT, Verdict, note, note_all, print_json, print_sheet};
use crate::error::Error;
use crate::host::Host;
use crate::interrupt;
use crate::{files, help};

const EXAMPLES: &str = "\
Examples:
  The best known order of each pipeline, and its gap to the lower bound:
    debubble records
  Check all of them from scratch:
    debubble records --check
  Search one longer, and keep a better order or bound:
    debubble records --search --only zb-6.2b-p16-m48-0.75p --effort 50 --by Ada
  An order of your own:
    debubble records --scenario zb-6.2b-p16-m48-0.75p > question.toml
    debubble search question.toml --effort 50 --certificate mine.toml
    debubble records --add mine.toml --by Ada

A record is a certificate under the name of its pipeline, which `debubble verify` or a checker of your own can
verify; its comments name the authors of order and bound. The set is fixed: pipelines are neither changed nor
removed, so orders of different authors and years can be compared. The objective is the span, the longest time
from the first to the last pass of a stage.

--add finds the pipeline by its shape, times, sizes and limits, whatever the name of the file, checks the
certificate, and keeps the shorter order, the higher bound, or both. --search skips orders that are proved
optimal; Ctrl-C keeps the best found so far.

Exit codes: 0 done, 1 a record fails the check or the added file is not a record, 2 bad input, such as an order
of another pipeline.";

/// List, check or improve the best known orders of a fixed set of pipelines
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Records {
    /// Folder of the records
    #[arg(long, value_name = "FOLDER", default_value = "results/records")]
    folder: PathBuf,
    /// Check every record: that it is of its pipeline, that its order costs what it says, and that no order costs
    /// less than the bound
    #[arg(long, conflicts_with_all = ["add", "search", "scenario"])]
    check: bool,
    /// Take an order or a bound of a certificate into the records, if it is better
    #[arg(long, value_name = "CERTIFICATE", conflicts_with_all = ["search", "scenario"])]
    add: Option<PathBuf>,
    /// Search every pipeline whose order is not proved optimal, and keep better results as records
    #[arg(long, conflicts_with = "scenario")]
    search: bool,
    /// Print the question of a pipeline as a scenario, for `debubble search`
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Search these alone
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires = "search")]
    only: Vec<String>,
    /// How long to search each, in multiples of the default
    #[arg(long, value_name = "TIMES", default_value_t = 1, requires = "search")]
    #[arg(allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=MAX_EFFORT))]
    effort: u64,
    /// Seed of the searches: another one may find other orders
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "search")]
    seed: u64,
    /// Who found the order [default: unknown, or the search of this program]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// When it was found [default: today, UTC]
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<String>,
    /// Write the table as CSV
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::Output, conflicts_with_all = ["check", "add", "search", "scenario"])]
    csv: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long, help_heading = OUTPUT, conflicts_with = "scenario")]
    json: bool,
}

/// The answer of `--search`.
#[derive(Serialize)]
struct Improved {
    offers: Vec<Offer>,
    /// The number of pipelines that were searched.
    searched: usize,
    /// Those whose order was proved optimal before.
    skipped: usize,
    interrupted: bool,
}

impl Records {
    /// Answers on `out`; the verdict is a miss if a record fails or none was added.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let host = match (self.search, self.check) {
            (true, _) => Host::listening(),
            (false, true) => Host::listening_for_a_second(
                "interrupted: records under way take longer than a second, so no record is reported",
            ),
            (false, false) => Host::default(),
        };
        let context = Context::new(&host);
        let set = RecordSet::built_in(&context)?;
        if let Some(name) = &self.scenario {
            write!(out, "{}", set.named(name)?.scenario()?)?;
            return Ok(Verdict::Done);
        }
        let verdict = if self.search {
            self.search(&context, &set, out)
        } else if let Some(file) = &self.add {
            self.add(&context, &set, file, out)
        } else {
            self.look(&context, &set, out)
        };
        note_all(&context);
        verdict
    }

    /// Shows or checks the records.
    fn look(
        &self,
        context: &Context<'_>,
        set: &RecordSet,
        out: &mut dyn Write,
    ) -> Result<Verdict, Error> {
        if !self.folder.is_dir() {
            let cure = "name that of the records with --folder, or search them: `debubble records --search`";
            let error = Diagnostic::unreadable(&self.folder, "there is no such folder");
            return Err(error.with_help(cure).into());
        }
        if self.check {
            let checked = check(context, set, &self.folder, &toml_files(&self.folder)?);
            interrupt::answered();
            if checked.interrupted {
                note("interrupted: the records that were checked by then");
            }
            match self.json {
                true => print_json(out, &checked)?,
                false => print_sheet(out, &checked.sheet())?,
            }
            return Ok(if checked.holds() { Verdict::Done } else { Verdict::Missed });
        }
        let table = table(context, set, &self.folder)?;
        if let Some(path) = &self.csv {
            files::write(path, table.csv()?)?;
        }
        match self.json {
            true => print_json(out, &table)?,
            false => print_sheet(out, &table.sheet())?,
        }
        Ok(Verdict::Done)
    }

    fn add(
        &self,
        context: &Context<'_>,
        set: &RecordSet,
        file: &Path,
        out: &mut dyn Write,
    ) -> Result<Verdict, Error> {
        let credit = self.credit("unknown")?;
        let offer = add(context, set, &self.folder, file, &credit)?;
        self.keep(&offer)?;
        match self.json {
            true => print_json(out, &offer)?,
            false => print_sheet(out, &offer.sheet())?,
        }
        Ok(if offer.is_record { Verdict::Done } else { Verdict::Missed })
    }

    fn search(
        &self,
        context: &Context<'_>,
        set: &RecordSet,
        out: &mut dyn Write,
    ) -> Result<Verdict, Error> {
        let credit = self.credit(&format!("{} search", env!("CARGO_PKG_NAME")))?;
        let asked = self.asked(set)?;
        files::make_folder(&self.folder)?;
        let effort = Effort { times: Some(self.effort), seed: self.seed };
        let work = context.host().begin(asked.len() as u64, "pipelines");
        let mut improved =
            Improved { offers: Vec::new(), searched: 0, skipped: 0, interrupted: false };
        for one in asked {
            if context.stopped() {
                break;
            }
            match search(context, set, &self.folder, one, effort, &credit)? {
                None => improved.skipped += 1,
                Some(offer) => {
                    improved.searched += 1;
                    self.keep(&offer)?;
                    improved.offers.extend(Some(offer).filter(|offer| offer.is_record));
                }
            }
            work.inc(1);
        }
        drop(work);
        improved.interrupted = context.cut_short();
        if improved.interrupted {
            note("interrupted: what was found by then is kept");
        }
        match self.json {
            true => print_json(out, &improved)?,
            false => write!(out, "{}", improved.text())?,
        }
        Ok(Verdict::Done)
    }

    /// The pipelines that are to be searched.
    fn asked<'a>(&self, set: &'a RecordSet) -> Result<Vec<&'a RecordInstance>, Diagnostic> {
        match &self.only[..] {
            [] => Ok(set.instances.iter().collect()),
            names => names.iter().map(|name| set.named(name)).collect(),
        }
    }

    fn credit(&self, unnamed: &str) -> Result<Credit, Diagnostic> {
        let by = self.by.as_deref().unwrap_or(unnamed);
        let date = self.date.clone().unwrap_or_else(today);
        Credit::new(by, &date, concat!("debubble ", env!("CARGO_PKG_VERSION")))
    }

    /// Writes the record that `offer` is, if it is one.
    fn keep(&self, offer: &Offer) -> Result<(), Error> {
        let (Some(name), Some(text)) = (&offer.name, &offer.text) else { return Ok(()) };
        files::make_folder(&self.folder)?;
        files::write(&self.folder.join(file_name(name)), text)
    }
}

impl Improved {
    fn text(&self) -> String {
        let lines: String =
            self.offers.iter().map(|offer| text::sheet(&offer.sheet()).to_string()).collect();
        let (records, searched, skipped) = (self.offers.len(), self.searched, self.skipped);
        format!(
            "{lines}{records} records of {searched} searches; {skipped} orders were proved optimal before\n"
        )
    }
}

/// The names of the TOML files in `folder`, in alphabetical order.
fn toml_files(folder: &Path) -> Result<Vec<String>, Error> {
    let fail = |cause: std::io::Error| {
        let message = format!("cannot read {}: {cause}", quote::path(folder));
        Error::from(Diagnostic::file(folder, message))
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name().to_string_lossy().into_owned();
        names.extend(Some(name).filter(|name| name.ends_with(".toml")));
    }
    names.sort();
    Ok(names)
}
