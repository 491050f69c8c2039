//! Plans: a model on machines.

use std::path::PathBuf;
use std::sync::Arc;

use answer::plan as planner;
use answer::plan::{export, tables};
use draw::pictures;
use measured::memory_error;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use question::Context;

use crate::ask::{Files, ask, look};
use crate::error::{raised, unwritable};
use crate::recorder::{Recorder, in_python};
use crate::width::wide;

/// The plans for a model on machines.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Planned {
    planned: Arc<planner::Planned>,
    /// Warnings for the user.
    #[pyo3(get)]
    warnings: Vec<String>,
    /// Whether a Ctrl-C came meanwhile.
    #[pyo3(get)]
    interrupted: bool,
}

/// Plans the question in the file at `path`, of `files` or of the disk.
#[pyfunction]
#[pyo3(signature = (path, files=None, progress=None))]
pub(crate) fn plan(
    py: Python<'_>,
    path: PathBuf,
    files: Option<Files>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Planned> {
    let files = Arc::new(files.unwrap_or_default());
    let answered = ask(py, files, progress.as_ref(), move |context| {
        let question =
            imports::question(context, &path, memory_error()?, &planning::PlanFlags::default());
        planner::plan(context, question.map_err(question::keywords::nowhere)?)
    })?;
    Ok(Planned {
        planned: Arc::new(answered.answer),
        warnings: answered.warnings,
        interrupted: answered.interrupted,
    })
}

/// The question in the file at `path`, of `files` or of the disk, with the files that it names: what another machine
/// lacks to answer it.
#[pyfunction]
#[pyo3(signature = (path, files=None))]
pub(crate) fn plan_files<'py>(
    py: Python<'py>,
    path: PathBuf,
    files: Option<Files>,
) -> PyResult<Bound<'py, PyDict>> {
    let files = Arc::new(files.unwrap_or_default());
    let answered = ask(py, files, None, move |context| {
        let recorder = Recorder::new(context.host());
        let question = imports::question(
            &Context::new(&recorder),
            &path,
            memory_error()?,
            &planning::PlanFlags::default(),
        );
        question.map_err(question::keywords::nowhere)?;
        Ok(recorder.into_files())
    })?;
    in_python(py, &answered.answer)
}

/// Files of an export by name, and what they lack of the plan.
type Exported = (Vec<(String, String)>, Vec<String>);

#[pymethods]
impl Planned {
    /// All of it as JSON, as the command line prints it.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&*self.planned).map_err(unwritable)
    }

    /// The plans as CSV, as the command line writes them.
    fn csv(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let planner::Planned { question, answer, .. } = &*self.planned;
        tables::csv(question, answer).map_err(|wrong| raised(py, &wrong))
    }

    /// The tables that the command line prints, with `details` all of them.
    #[pyo3(signature = (details=false))]
    fn table(&self, details: bool) -> String {
        draw::text::plan(&self.planned, details, draw::text::COLUMNS)
    }

    /// Days against dollars as SVG.
    #[pyo3(signature = (width=None))]
    fn svg(&self, py: Python<'_>, width: Option<String>) -> PyResult<String> {
        look(py, &self.planned, move |planned| {
            pictures::plan::svg(&planned.question, &planned.answer, wide(width)?)
        })
    }

    /// All of it as a page for a browser.
    fn html(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.planned, pictures::plan::html)
    }

    /// The plan to take, or the set-up that was asked for, held against that of `other`.
    fn against(&self, py: Python<'_>, other: &Self) -> PyResult<Against> {
        let both = planner::Against::of(&self.planned, &other.planned);
        let both = both.map_err(|wrong| raised(py, &wrong))?;
        let json = serde_json::to_string_pretty(&both).map_err(unwritable)?;
        Ok(Against { json, table: draw::text::against(&both) })
    }

    /// The files that make the plan to take run in other programs, and their contents; and what they lack of it.
    fn export(&self, py: Python<'_>) -> PyResult<Exported> {
        let exported = export::exported(&self.planned).map_err(|wrong| raised(py, &wrong))?;
        Ok((exported.files, exported.notes))
    }
}

/// Two plans side by side.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Against {
    json: String,
    table: String,
}

#[pymethods]
impl Against {
    /// Both answers and their differences as JSON, as the command line prints them.
    fn json(&self) -> &str {
        &self.json
    }

    /// The tables that the command line prints.
    fn table(&self) -> &str {
        &self.table
    }
}
