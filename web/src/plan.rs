//! Set-ups of a model on machines.

use std::path::Path;

use answer::plan::{self as planner, Against, Planned, export, tables};
use draw::pictures;
use measured::memory_error;
use question::{Context, Diagnostic};
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

/// The plans.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// Output of the command line.
    #[serde(flatten)]
    planned: Planned,
    /// The plan to take, its cost, and why it is not the cheapest, in words.
    taken: Vec<String>,
    /// The columns of the table of plans, and its lines.
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// The plans as CSV.
    csv: String,
    /// All of it as a page of its own.
    page: String,
    /// Days against dollars with the error of each; nothing where no error is known.
    svg: Option<String>,
    /// Whether some framework runs the plan to take.
    runs: bool,
    /// The files that make the plan to take run in other programs, and their contents: where no framework runs it,
    /// those of this program alone.
    export: Vec<(String, String)>,
    /// What those files lack of the plan.
    lacks: Vec<String>,
    /// This answer beside that of the other question, as the command line prints both.
    against: Option<String>,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<Answer, Diagnostic> {
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
        let plans = (1..).zip(&planned.answer.plans);
        let line = |(number, plan)| tables::line(&planned.question, number, plan);
        let taken = winner.map_or_else(Vec::new, |one| {
            let figures = tables::figures(&planned.question, one);
            let why = tables::simpler(&planned.question, &planned.answer.plans, one);
            [planned.headline(), figures].into_iter().chain(why).map(|one| said(&one)).collect()
        });
        Ok(Answer {
            taken,
            columns: tables::HEADER.to_vec(),
            rows: plans.map(line).collect(),
            csv: text(tables::csv(&planned.question, &planned.answer)?),
            page: pictures::plan::html(&planned)?,
            svg: svg.transpose()?,
            runs,
            export,
            lacks: lacks.iter().map(|line| said(line)).collect(),
            against,
            planned,
        })
    }
}

/// Whether the file `name` of an export is read by this program, and by no framework.
fn is_own(name: &str) -> bool {
    !["megatron.", "torchtitan.", "schedule.csv"].iter().any(|start| name.starts_with(start))
}
