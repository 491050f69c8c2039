//! Set-ups of a model on machines.

use std::path::Path;

use answer::plan::{self as planner, Against, doubts, export, tables};
use draw::pictures;
use measured::memory_error;
use question::{Context, Diagnostic, object};
use serde::{Deserialize, Serialize};

use crate::text::text;
use crate::wording::said;

/// A question for [`answer::plan`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The name of its file among those of the page.
    file: String,
    /// The name of that of another question, whose answer this one is held against.
    against: Option<String>,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let ask = |file: &str| {
            let question = imports::question(
                context,
                Path::new(file),
                memory_error()?,
                &planning::PlanFlags::default(),
            )?;
            planner::plan(context, question)
        };
        let planned = ask(&self.file)?;
        let beside = |other: &str| -> Result<String, Diagnostic> {
            let other = ask(other)?;
            Ok(said(&draw::text::against(&Against::of(&other, &planned)?)))
        };
        let against = self.against.as_deref().map(beside).transpose()?;
        let has_errors = planned.answer.plans.iter().any(|plan| plan.error.is_some());
        let svg = has_errors.then(|| pictures::plan::svg(&planned.question, &planned.answer, None));
        let winner = planned.winner();
        let runs = winner.is_some_and(|one| planned.runs(one));
        let (export, lacks) = match export::exported(&planned) {
            Ok(exported) if exported.runs => (exported.files, exported.notes),
            Ok(exported) => {
                let own = exported.files.into_iter().filter(|(name, _)| is_own(name));
                (own.collect(), Vec::new())
            }
            Err(_) => (Vec::new(), Vec::new()),
        };
        let plans = tables::plans(&planned.question, &planned.answer.plans);
        let (columns, rows) = plans.into_rows();
        let taken: Vec<String> = winner.map_or_else(Vec::new, |one| {
            let figures = tables::figures(&planned.question, one);
            let why = doubts::simpler(&planned.question, &planned.answer.plans, one);
            [planned.headline(), figures].into_iter().chain(why).map(|one| said(&one)).collect()
        });
        let csv = text(tables::csv(&planned.question, &planned.answer)?);
        let page = pictures::plan::html(&planned)?;
        Ok(object!(
            flat(planned) = planned,
            // The plan to take, its cost, and why it is not the cheapest, in words.
            taken = taken,
            (columns, rows) = (columns, rows),
            // The plans as CSV, and all of it as a page of its own.
            (csv, page) = (csv, page),
            // Days against dollars with the error of each; nothing where no error is known.
            svg = svg.transpose()?,
            // Whether some framework runs the plan to take.
            runs = runs,
            // The files that make the plan to take run in other programs, and their contents: where no framework runs it,
            // those of this program alone; and what they lack of the plan.
            export = export,
            [lacks] = lacks.iter().map(|line| said(line)),
            // This answer beside that of the other question, as the command line prints both.
            against = against,
        ))
    }
}

/// Whether the file `name` of an export is read by this program, and by no framework.
fn is_own(name: &str) -> bool {
    !["megatron.", "torchtitan.", "schedule.csv"].iter().any(|start| name.starts_with(start))
}
