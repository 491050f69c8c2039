//! Advice for a run that exists: its question is read from a script, a log or a question file, its machine is
//! calibrated by the steps in the log, and every part of its set-up that changes without other hardware is tried.

mod area;
mod calibration;
mod changes;
mod rewrite;
mod sheet;

use std::path::{Path, PathBuf};

use imports::{Given, Imported, Measured};
use measured::{interval_in_words, memory_error};
use plan::{Orders, Setup};
use planning::{Document, Question, SearchDocument};
use question::{Context, Diagnostic, quote};

pub use self::area::Area;
pub use self::calibration::{Calibration, Factor};
pub use self::changes::{Certainty, Change};
pub use self::rewrite::Written;
pub use self::sheet::calibration_helps;
use crate::plan::{Planned, Planner, plan, seconds};

/// The files of a run, and facts that they do not have.
#[derive(Clone, Default, Debug)]
pub struct AdviceQuestion {
    /// Scripts, logs and question files: one has the set-up, any may have iterations.
    pub files: Vec<PathBuf>,
    /// Facts that they do not have.
    pub given: Given,
}

/// Advice for a run.
pub struct Advice {
    /// Assumptions and facts of the files, a sentence each.
    pub notes: Vec<String>,
    /// The question of the run, as it was read.
    pub document: Document,
    /// The set-up of the run on the calibrated machine.
    pub current: Planned,
    /// The calibration; none without measured steps.
    pub calibration: Option<Calibration>,
    /// The changes that were tried, the best of each area that helps, the largest gain first.
    pub changes: Vec<Change>,
    /// Areas whose changes save nothing.
    pub without_gain: Vec<Area>,
    /// Whether it was cut short: then some areas were not tried.
    pub interrupted: bool,
    /// The script of the run, if it is one.
    source: Option<Source>,
}

/// A launch script.
struct Source {
    path: PathBuf,
    text: String,
    given: Given,
}

/// Reads the run of `question` and says what to change of it first.
pub fn advise(context: &Context<'_>, question: &AdviceQuestion) -> Result<Advice, Diagnostic> {
    let Run { imported, folder, measured, source } = read(context, question)?;
    let mut notes = imported.notes.clone();
    notes.extend(imported.left_out_in_words());
    let document = Document { plans: Some(1), ..imported.document };
    let error = memory_error()?;
    let asked = planning::check(context, &folder, &document, error)?;
    let cluster = asked.clusters.first().ok_or_else(|| Diagnostic::new("it has no cluster"))?;
    let setup = asked.setup_on(cluster).ok_or_else(no_setup)?;
    let (asked, calibration) = match &measured {
        Some(measured) => {
            let (own, calibration) = calibration::calibrated(context, &asked, measured)?;
            (own, Some(calibration))
        }
        None => (asked, None),
    };
    let free = Document { setup: None, search: SearchDocument::default(), ..document.clone() };
    let mut free = planning::check(context, &folder, &free, error)?;
    free.clusters.clone_from(&asked.clusters);
    free.recipe.reserved = asked.recipe.reserved;
    let current = plan(context, asked)?;
    let is_unknown = calibration.as_ref().is_some_and(|one| one.is_unknown);
    let tried = Tried { context, current: &current, setup, free: &free, is_unknown };
    let changes::Found { changes, without_gain } = changes::changes(&tried)?;
    let interrupted = context.cut_short();
    Ok(Advice { notes, document, current, calibration, changes, without_gain, interrupted, source })
}

/// The predicted step of the run of `question` in seconds, without its measured steps, with the global batch that is
/// given; and in words that batch, if it is another than the run's, and the error bar.
pub fn predicted(
    context: &Context<'_>,
    question: &AdviceQuestion,
    batch: Option<u64>,
) -> Result<(f64, String), Diagnostic> {
    let (imported, own) = printed_run_of(context, question)?;
    let folder = own.parent().unwrap_or(Path::new("")).to_owned();
    let batch = batch.unwrap_or(imported.document.batch);
    let words =
        (batch != imported.document.batch).then(|| format!(" for a global batch of {batch}"));
    let document = Document { plans: Some(1), batch, ..imported.document };
    let asked = planning::check(context, &folder, &document, memory_error()?)?;
    let answer = Planner { context, question: &asked }.answer(&Orders::default())?;
    let plan = answer.plans.first().ok_or_else(no_setup)?;
    let bar = plan.error.map(|error| format!(", error bar {}", interval_in_words(error)));
    Ok((seconds(plan.step), words.into_iter().chain(bar).collect()))
}

/// The tokens of each device a step, as far as a file of `question` has the set-up: rates need them, times of steps do
/// not. A configuration that is printed later does not count.
#[must_use]
pub fn tokens(context: &Context<'_>, question: &AdviceQuestion) -> f64 {
    let run = printed_run_of(context, question).or_else(|_| run_of(context, question));
    run.map_or(1.0, |(imported, _)| imports::tokens_per_device(&imported.document))
}

/// A run whose changes are tried.
struct Tried<'a> {
    context: &'a Context<'a>,
    /// Its set-up and its prediction.
    current: &'a Planned,
    setup: Setup,
    /// The same question without a set-up.
    free: &'a Question,
    /// Whether the model lacks something of the run: then no gain is sure.
    is_unknown: bool,
}

/// A run as its files have it.
struct Run {
    imported: Imported,
    /// The folder of files that the question names.
    folder: PathBuf,
    measured: Option<Measured>,
    source: Option<Source>,
}

/// The first of the files of `question` with a set-up.
fn run_of<'a>(
    context: &Context<'_>,
    question: &'a AdviceQuestion,
) -> Result<(Imported, &'a Path), Diagnostic> {
    let mut failed = None;
    for path in &question.files {
        match imports::read_run(context, path, &question.given) {
            Ok(imported) => return Ok((imported, path)),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let none = || Diagnostic::new("there is no file to read: name a script or a log");
    Err(failed.unwrap_or_else(none))
}

/// The same, by the configuration that a framework has printed in another file, if there is one.
fn printed_run_of<'a>(
    context: &Context<'_>,
    question: &'a AdviceQuestion,
) -> Result<(Imported, &'a Path), Diagnostic> {
    let (mut imported, own) = run_of(context, question)?;
    for path in question.files.iter().filter(|path| *path != own && context.exists(path)) {
        let (printed, _) = imports::read_log_of(context, path, &question.given, &imported)?;
        imported = printed.unwrap_or(imported);
    }
    Ok((imported, own))
}

/// Reads the files of `question`: the first with a set-up, and the iterations of all of them. A configuration that a
/// framework has printed takes the place of a script.
fn read(context: &Context<'_>, question: &AdviceQuestion) -> Result<Run, Diagnostic> {
    let (mut imported, own) = run_of(context, question)?;
    let source = imports::script(context, own)?.map(|text| Source {
        path: own.to_owned(),
        text,
        given: question.given.clone(),
    });
    let mut measured = imported.measured.clone();
    for path in question.files.iter().filter(|path| path.as_path() != own) {
        let (printed, log) = imports::read_log_of(context, path, &question.given, &imported)?;
        let (name, of) = (quote::path(path), quote::path(own));
        if let Some(printed) = printed {
            imported = printed;
            if imported.measured.is_some() {
                measured.clone_from(&imported.measured);
                continue;
            }
        }
        let unlike = log.unlike(&imported.document, imported.has_devices());
        if !unlike.is_empty() {
            let message = format!("{name} is of another run than {of}: {}", unlike.join("; "));
            return Err(Diagnostic::file(path, message).with_help(OTHER_RUN));
        }
        let refused = |why| Diagnostic::file(path, format!("{name} does not calibrate: {why}"));
        let more = log.measured().map_err(|why| refused(why).with_help(LOGS))?;
        context.warn(format!("{name}: {}", more.in_words()));
        measured = Some(more);
    }
    let folder = own.parent().unwrap_or(Path::new("")).to_owned();
    Ok(Run { imported, folder, measured, source })
}

/// What helps against a log of another run.
const OTHER_RUN: &str = "give the log of this set-up, or the log alone if it begins with its \
                         configuration; without a log the answer is not calibrated";
/// What helps against a log without steady iterations.
const LOGS: &str = "give a log of Megatron-LM, DeepSpeed, NeMo, Primus or torchtitan with its iterations; without a \
                    log the answer is not calibrated";

fn no_setup() -> Diagnostic {
    Diagnostic::new("the question has no set-up to advise on").with_help(
        "add a table [setup] with the parallel degrees of the run; `debubble plan` searches set-ups without one",
    )
}
