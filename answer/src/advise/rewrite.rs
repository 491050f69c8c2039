//! A change written down: the arguments of the user's own script that differ, and the files of the changed run.

use std::path::Path;

use imports::Given;
use imports::edit::Edits;
use plan::Orders;
use planning::fit::Base;
use question::{Context, Diagnostic, quote};
use similar::TextDiff;

use super::calibration::with_factors;
use super::changes::Change;
use super::{Advice, Source};
use crate::plan::{Plan, Planner, export, ground};

/// The files of a changed run, by name.
pub struct Written {
    pub files: Vec<(String, String)>,
    /// Facts about them, a sentence each.
    pub notes: Vec<String>,
}

/// Help where there is no change to write.
const NUMBER: &str = "give the number of a change of the table";

impl Advice {
    /// The files of the change at `at` of the table, or of the one to make first; where none is likely to help, of the
    /// run as it is, on the calibrated machine.
    pub fn export(&self, context: &Context<'_>, at: Option<usize>) -> Result<Written, Diagnostic> {
        let change = at.map_or_else(|| self.first(), |at| self.changes.get(at));
        match (change, at, &self.calibration) {
            (Some(change), ..) => self.written(context, change),
            (None, Some(at), _) => {
                let (number, count) = (at.wrapping_add(1), self.changes.len());
                let message = format!("there is no change {number}: the table has {count}");
                Err(Diagnostic::new(message).with_help(NUMBER))
            }
            (None, None, Some(_)) => {
                let note = format!(
                    "no change is likely to help: the files are those of the run as it is; {NUMBER} for more"
                );
                Ok(Written { files: self.of_run(context)?, notes: vec![note] })
            }
            (None, None, None) => {
                let message =
                    "no change is likely to help, and nothing is calibrated: no file is written";
                Err(Diagnostic::new(message).with_help(NUMBER))
            }
        }
    }

    /// The question of the run, and its machine where that is calibrated.
    fn of_run(&self, context: &Context<'_>) -> Result<Vec<(String, String)>, Diagnostic> {
        let question = ("question.toml".to_owned(), self.question_text()?);
        let machine = self.machine_text(context)?.map(|text| ("machine.toml".to_owned(), text));
        Ok([question].into_iter().chain(machine).collect())
    }

    /// The files of `change`: the question of the run, its machine, the changed arguments of its script as a
    /// difference, and the configurations of trainers.
    fn written(&self, context: &Context<'_>, change: &Change) -> Result<Written, Diagnostic> {
        let plan = predicted(context, change)?;
        let mut files = export::files(&change.question, &plan);
        let mut notes = export::notes(&change.question, &plan);
        let edits = self.edits(&plan, change);
        if let Some(edits) = &edits {
            let lines: String = edits.lines().iter().map(|line| format!("{line}\n")).collect();
            files.push(("arguments.txt".to_owned(), lines));
        }
        match (&self.source, edits) {
            (Some(source), Some(edits)) => match self.rewritten(context, source, &edits, change) {
                Some((name, difference)) => files.push((name, difference)),
                None => notes.push(format!(
                    "{}: its arguments are not set in a way that is changed safely: change those of arguments.txt by hand",
                    quote::path(&source.path)
                )),
            },
            (Some(_), None) => notes.push("Megatron-LM does not run the change: the script stays".to_owned()),
            (None, _) => {}
        }
        files.extend(self.of_run(context)?);
        Ok(Written { files, notes })
    }

    /// The arguments of Megatron-LM that differ between the run and `change`.
    fn edits(&self, plan: &Plan, change: &Change) -> Option<Edits> {
        let now = self.now()?;
        let old = export::megatron_arguments(&self.current.question, now)?;
        let new = export::megatron_arguments(&change.question, plan)?;
        Some(Edits::between(&old, &new))
    }

    /// The name and the text of the difference of the user's script, if the changed script is read as `change`.
    fn rewritten(
        &self,
        context: &Context<'_>,
        source: &Source,
        edits: &Edits,
        change: &Change,
    ) -> Option<(String, String)> {
        let text = edits.apply(&source.text)?;
        if !self.is_read_as(context, source, &text, change) {
            return None;
        }
        let name = source.path.file_name()?.to_string_lossy().into_owned();
        let difference = TextDiff::from_lines(&source.text, &text);
        let mut difference = difference.unified_diff();
        let (before, after) = (format!("a/{name}"), format!("b/{name}"));
        Some((format!("{name}.diff"), difference.header(&before, &after).to_string()))
    }

    /// Whether the script `text` in place of that of `source` is a run with the step of `change`.
    fn is_read_as(
        &self,
        context: &Context<'_>,
        source: &Source,
        text: &str,
        change: &Change,
    ) -> bool {
        let given = Given { tokens: Some(self.document.tokens), ..source.given.clone() };
        let Ok(imported) = imports::of_text(context, &source.path, text, &given) else {
            return false;
        };
        let Ok(memory_error) = measured::memory_error() else { return false };
        let document = imported.document;
        let Ok(own) = planning::check(context, Path::new(""), &document, memory_error) else {
            return false;
        };
        let factors = self.calibration.as_ref().map(super::Calibration::values).unwrap_or_default();
        let mut own = with_factors(&own, &factors);
        own.recipe.reserved = change.question.recipe.reserved;
        let cluster = &own.clusters[0];
        let Some(setup) = own.setup_on(cluster) else { return false };
        let run = ground(&own, cluster).run_single(&setup, &Orders::default());
        run.is_ok_and(|run| run.finalist.step == change.step)
    }

    /// The question of the run as a file, on the calibrated machine if there is one.
    fn question_text(&self) -> Result<String, Diagnostic> {
        let mut document = self.document.clone();
        if self.calibration.is_some() {
            for cluster in &mut document.cluster {
                cluster.machine = cluster.machine.is_some().then(|| "machine.toml".to_owned());
            }
        }
        let notes: String = self
            .notes
            .iter()
            .map(|note| format!("# {}\n", note.replace(['\n', '\r'], " ")))
            .collect();
        let text =
            toml::to_string(&document).map_err(|error| Diagnostic::new(error.to_string()))?;
        Ok(notes + &text)
    }

    /// The file of the calibrated machine; `None` without a calibration or for parts of several machines.
    fn machine_text(&self, context: &Context<'_>) -> Result<Option<String>, Diagnostic> {
        let Some(calibration) = &self.calibration else { return Ok(None) };
        let [cluster] = &self.document.cluster[..] else { return Ok(None) };
        let Some(name) = &cluster.machine else { return Ok(None) };
        let base = Base::named(context, name)?;
        let shares = calibration.shares(&base.machine);
        let head = format!(
            "Made by `debubble advise` from the machine {} and {} steady iterations of one set-up, {:.3} s a step.",
            base.machine.name, calibration.iterations, calibration.measured
        );
        base.with_shares(&head, &shares, std::slice::from_ref(&calibration.run)).map(Some)
    }
}

/// The prediction of the changed set-up.
fn predicted(context: &Context<'_>, change: &Change) -> Result<Plan, Diagnostic> {
    let question = &change.question;
    let answer = Planner { context, question }.answer(&Orders::default())?;
    answer.plans.into_iter().next().ok_or_else(|| Diagnostic::new("the change has no prediction"))
}
