//! Schedules side by side.

use std::sync::Arc;

use answer::explain::report;
use answer::outcome;
use answer::simulate::Wants;
use answer::timelines::{self, Recorded};
use draw::pictures;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use question::Work;
use question::simulate::Sort;

use crate::ask::{Files, ask, look};
use crate::columns;
use crate::error::{raised, unwritable};
use crate::question::{Question, asked};
use crate::schedule::Schedule;
use crate::width::wide;
use question::keywords;

/// The answers of all schedules and settings of a question.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Answers {
    answers: Arc<::answer::simulate::Answers>,
    title: Option<String>,
    /// Warnings for the user.
    #[pyo3(get)]
    warnings: Vec<String>,
    /// Whether a Ctrl-C came meanwhile.
    #[pyo3(get)]
    interrupted: bool,
}

/// Simulates `schedules`, or those that `question` names, side by side.
#[pyfunction]
#[pyo3(signature = (question, schedules=None, files=None, explain=false, front=false, sort=None, progress=None))]
#[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)]
pub(crate) fn simulate(
    py: Python<'_>,
    question: &Question,
    schedules: Option<Vec<String>>,
    files: Option<Files>,
    explain: bool,
    front: bool,
    sort: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answers> {
    let sort: Option<Sort> = keywords::named(sort, "sort").map_err(|wrong| raised(py, &wrong))?;
    let scenario = Arc::clone(&question.scenario);
    let wants = Wants { explanation: explain, front, sort, ..Wants::default() };
    let files = Arc::new(files.unwrap_or_default());
    let answered = ask(py, files, progress.as_ref(), move |context| {
        let scenario = asked(context, &scenario, schedules)?;
        ::answer::simulate::simulate(context, &scenario, wants)
    })?;
    Ok(Answers {
        answers: Arc::new(answered.answer),
        title: question.scenario.title.clone(),
        warnings: answered.warnings,
        interrupted: answered.interrupted,
    })
}

#[pymethods]
impl Answers {
    /// All of it as JSON, as the command line prints it.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&*self.answers).map_err(unwritable)
    }

    /// The number of outcomes.
    fn __len__(&self) -> usize {
        self.answers.outcomes.len()
    }

    /// Outcome number `at`.
    fn outcome(&self, at: usize) -> Option<Outcome> {
        (at < self.answers.outcomes.len())
            .then(|| Outcome { answers: Arc::clone(&self.answers), at })
    }

    /// The names of the settings and schedules of all outcomes.
    fn names(&self) -> Vec<(Option<&str>, &str)> {
        let outcomes = self.answers.outcomes.iter();
        outcomes.map(|one| (one.case.setting.as_deref(), one.case.name.as_str())).collect()
    }

    /// The tables that the command line prints.
    fn table(&self) -> String {
        draw::text::sheet(&::answer::simulate::report::sheet(&self.answers))
    }

    /// The same as HTML.
    fn table_html(&self) -> String {
        draw::html::sheet(&::answer::simulate::report::sheet(&self.answers))
    }

    /// The timelines of the outcomes number `which` as SVG, on one time axis.
    #[pyo3(signature = (which, width=None))]
    fn svg(&self, py: Python<'_>, which: Vec<usize>, width: Option<String>) -> PyResult<String> {
        let title = self.title.clone();
        look(py, &self.answers, move |answers| {
            let chosen: Vec<_> = which.iter().filter_map(|&at| answers.outcomes.get(at)).collect();
            pictures::simulate::timelines_with(title.as_deref(), chosen, wide(width)?)
        })
    }

    /// Bubble rate against peak memory as SVG.
    #[pyo3(signature = (width=None))]
    fn front_svg(&self, py: Python<'_>, width: Option<String>) -> PyResult<String> {
        let title = self.title.clone();
        look(py, &self.answers, move |answers| {
            pictures::simulate::check(answers.sizes.len())?;
            pictures::simulate::svg(title.as_deref(), answers, wide(width)?)
        })
    }

    /// The timelines as a page for a browser.
    fn html(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.answers, |answers| Ok(pictures::explain::page(answers)?.html))
    }

    /// The changes that would shorten the steps, as SVG, of answers that were explained.
    #[pyo3(signature = (width=None))]
    fn explain_svg(&self, py: Python<'_>, width: Option<String>) -> PyResult<String> {
        look(py, &self.answers, move |answers| {
            pictures::explain::tornado(&answers.outcomes, wide(width)?)
        })
    }
}

/// The outcome of one schedule in one setting.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Outcome {
    answers: Arc<::answer::simulate::Answers>,
    at: usize,
}

impl Outcome {
    fn outcome(&self) -> &outcome::Outcome {
        &self.answers.outcomes[self.at]
    }
}

#[pymethods]
impl Outcome {
    /// The result as JSON.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&self.outcome().json()).map_err(unwritable)
    }

    /// The order of passes.
    fn schedule(&self) -> Schedule {
        Schedule { schedule: Arc::new(self.outcome().case.schedule.clone()) }
    }

    /// The timeline as columns.
    fn timeline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let at = self.at;
        let columns = look(py, &self.answers, move |answers| {
            Ok(columns::Timeline::of(&*outcome::timeline(&answers.outcomes[at])?))
        })?;
        columns.arrays(py)
    }

    /// Why the stages wait.
    #[pyo3(signature = (progress=None))]
    fn why(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Why> {
        let answers = Arc::clone(&self.answers);
        let at = self.at;
        let answered = ask(py, Arc::default(), progress.as_ref(), move |context| {
            let outcome = &answers.outcomes[at];
            let work: Box<dyn Work> = context.host().begin(0, "runs for explanations");
            let explanation = outcome.explain(context, false, &*work)?;
            let sheet = report::sheet(&outcome::title(outcome), &explanation);
            Ok((serde_json::to_string_pretty(&report::json(&explanation)), sheet))
        })?;
        let (json, sheet) = answered.answer;
        let json = json.map_err(unwritable)?;
        Ok(Why { json, sheet, interrupted: answered.interrupted })
    }

    /// The timeline as a file for `compare`.
    fn recorded(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let at = self.at;
        look(py, &self.answers, move |answers| {
            timelines::bytes(&Recorded::predicted(&answers.outcomes[at])?)
        })
    }

    /// The run as trace events for Perfetto or chrome://tracing.
    fn trace(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let at = self.at;
        look(py, &self.answers, move |answers| {
            let outcome = &answers.outcomes[at];
            pictures::simulate::Traced::of(outcome, &outcome::title(outcome))?.bytes()
        })
    }
}

/// Why the stages of a schedule wait.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Why {
    json: String,
    sheet: ::question::sheet::Sheet,
    /// Whether a Ctrl-C came meanwhile.
    #[pyo3(get)]
    interrupted: bool,
}

#[pymethods]
impl Why {
    /// The explanation as JSON.
    fn json(&self) -> &str {
        &self.json
    }

    /// The explanation as the command line prints it.
    fn table(&self) -> String {
        draw::text::sheet(&self.sheet)
    }

    /// The same as HTML.
    fn table_html(&self) -> String {
        draw::html::sheet(&self.sheet)
    }
}
