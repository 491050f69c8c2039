//! Advice for a run: its script and its log.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use answer::advise::{self as advisor, AdviceQuestion};
use imports::Given;
use pyo3::prelude::*;
use question::Context;

use crate::ask::{Files, ask, look};
use crate::error::unwritable;
use crate::width::wide;

/// Files by name.
type Named = Vec<(String, String)>;

/// Advice for a run.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Advice {
    advice: Arc<advisor::Advice>,
    table: String,
    /// The files of the run, for the files of a change.
    files: Arc<Files>,
    /// Warnings for the user.
    #[pyo3(get)]
    warnings: Vec<String>,
    /// Whether a Ctrl-C came meanwhile.
    #[pyo3(get)]
    interrupted: bool,
}

/// Says what to change of the run in `paths`, of `files` or of the disk.
#[pyfunction]
#[pyo3(signature = (paths, machine=None, devices=None, vocabulary=None, variables=None, files=None, progress=None))]
#[allow(clippy::too_many_arguments)] // As many as Python gives.
pub(crate) fn advise(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    machine: Option<String>,
    devices: Option<u64>,
    vocabulary: Option<u64>,
    variables: Option<BTreeMap<String, String>>,
    files: Option<Files>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Advice> {
    let variables = variables.unwrap_or_default();
    let given = Given { machine, devices, vocabulary, variables, ..Given::default() };
    let question = AdviceQuestion { files: paths, given };
    let files = Arc::new(files.unwrap_or_default());
    let answered = ask(py, Arc::clone(&files), progress.as_ref(), move |context| {
        let advice = advisor::advise(context, &question)?;
        let table = draw::text::sheet(&advice.sheet()?);
        Ok((advice, table))
    })?;
    let (advice, table) = answered.answer;
    Ok(Advice {
        advice: Arc::new(advice),
        table,
        files,
        warnings: answered.warnings,
        interrupted: answered.interrupted,
    })
}

#[pymethods]
impl Advice {
    /// All of it as JSON, as the command line prints it.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&*self.advice).map_err(unwritable)
    }

    /// The tables that the command line prints.
    fn table(&self) -> &str {
        &self.table
    }

    /// The gains of changes as SVG.
    #[pyo3(signature = (width=None))]
    fn svg(&self, py: Python<'_>, width: Option<String>) -> PyResult<String> {
        look(py, &self.advice, move |advice| draw::pictures::advise::svg(advice, wide(width)?))
    }

    /// The files of change `at`, or of the one to make first, and facts about them.
    #[pyo3(signature = (at=None))]
    fn export(&self, py: Python<'_>, at: Option<usize>) -> PyResult<(Named, Vec<String>)> {
        let advice = Arc::clone(&self.advice);
        let answered = ask(py, Arc::clone(&self.files), None, move |context: &Context<'_>| {
            advice.export(context, at).map(|written| (written.files, written.notes))
        })?;
        Ok(answered.answer)
    }
}
