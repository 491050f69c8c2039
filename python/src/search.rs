//! Searched orders, their bounds and certificates.

use std::sync::Arc;

use answer::search::{SearchAnswer, SearchRow, certificate, program};
use draw::pictures;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use question::search::SearchKeys;

use crate::ask::{Files, Told, ask_and_tell, look};
use crate::error::{raised, unwritable};
use crate::question::{Question, asked};
use crate::width::wide;
use question::keywords;

/// The best orders that were found.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Searched {
    answer: Arc<SearchAnswer>,
    title: Option<String>,
    /// Warnings for the user.
    #[pyo3(get)]
    warnings: Vec<String>,
    /// Whether a Ctrl-C or the caller ended it.
    #[pyo3(get)]
    interrupted: bool,
}

/// Searches the best order for every setting of `question` under every limit of `keys`, an object of
/// keywords as JSON. `improved`, if there is one, is called with every improvement: the number of the search, the cost,
/// the bound or `None`, the steps by then, and the nanoseconds since the search began. Where it returns `False`, the search
/// ends.
#[pyfunction]
#[pyo3(signature = (question, keys, files=None, progress=None, improved=None))]
pub(crate) fn search(
    py: Python<'_>,
    question: &Question,
    keys: &str,
    files: Option<Files>,
    progress: Option<Py<PyAny>>,
    improved: Option<Py<PyAny>>,
) -> PyResult<Searched> {
    let keys: SearchKeys = keywords::keys(keys).map_err(|wrong| raised(py, &wrong))?;
    let scenario = Arc::clone(&question.scenario);
    let files = Arc::new(files.unwrap_or_default());
    let told = Told { progress: progress.as_ref(), improved: improved.as_ref() };
    let answered = ask_and_tell(py, files, told, move |context| {
        let scenario = asked(context, &scenario, None)?;
        ::answer::search::search(context, &scenario, &keys)
    })?;
    Ok(Searched {
        title: question.scenario.title.clone(),
        warnings: answered.warnings,
        interrupted: answered.interrupted || answered.answer.interrupted,
        answer: Arc::new(answered.answer),
    })
}

/// Refuses `keys` of a search, an object of keywords as JSON, that are none.
#[pyfunction]
pub(crate) fn check_search(py: Python<'_>, keys: &str) -> PyResult<()> {
    keywords::keys::<SearchKeys>(keys).map(drop).map_err(|wrong| raised(py, &wrong))
}

impl Searched {
    fn row(&self, at: usize) -> PyResult<&SearchRow> {
        self.answer.rows.get(at).ok_or_else(|| PyIndexError::new_err("there is no such search"))
    }
}

#[pymethods]
impl Searched {
    /// All of it as JSON, as the command line prints it.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&*self.answer).map_err(unwritable)
    }

    /// The rows as CSV, as the command line writes it.
    fn csv(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        self.answer.csv().map_err(|wrong| raised(py, &wrong))
    }

    /// The number of searches.
    fn __len__(&self) -> usize {
        self.answer.rows.len()
    }

    /// The table that the command line prints.
    fn table(&self) -> String {
        draw::text::sheet(&self.answer.sheet())
    }

    /// The same as HTML.
    fn table_html(&self) -> String {
        draw::html::sheet(&self.answer.sheet())
    }

    /// The name of search number `at`: the schedule, the setting and the limit.
    fn title(&self, at: usize) -> PyResult<String> {
        self.row(at).map(SearchRow::title)
    }

    /// The order that search number `at` has found, in the text form.
    fn order(&self, at: usize) -> PyResult<String> {
        Ok(self.row(at)?.searched.found.schedule.to_string())
    }

    /// The steps of search number `at` at every improvement and at its end, each with the cost and the bound by then.
    fn history(&self, at: usize) -> PyResult<Vec<(u64, u64, Option<u64>)>> {
        let history = self.row(at)?.history.iter();
        Ok(history.map(|by| (by.steps, by.cost.0, by.bound.map(|bound| bound.0))).collect())
    }

    /// The certificate of search number `at`.
    fn certificate(&self, py: Python<'_>, at: usize) -> PyResult<String> {
        certificate(self.row(at)?).map_err(|wrong| raised(py, &wrong))
    }

    /// The integer program of search number `at` in CPLEX LP format.
    fn lp(&self, py: Python<'_>, at: usize) -> PyResult<String> {
        let program = program(&self.row(at)?.searched).map_err(|wrong| raised(py, &wrong))?;
        Ok(program.lp())
    }

    /// The integer program of search number `at` in free MPS format.
    fn mps(&self, py: Python<'_>, at: usize) -> PyResult<String> {
        let program = program(&self.row(at)?.searched).map_err(|wrong| raised(py, &wrong))?;
        Ok(program.mps())
    }

    /// The timelines of the searches number `which` as SVG, on one time axis.
    #[pyo3(signature = (which, width=None))]
    fn svg(&self, py: Python<'_>, which: Vec<usize>, width: Option<String>) -> PyResult<String> {
        let title = self.title.clone();
        look(py, &self.answer, move |answer| {
            let chosen: Vec<_> = which.iter().filter_map(|&at| answer.rows.get(at)).collect();
            pictures::search::timelines(title.as_deref(), chosen, wide(width)?)
        })
    }

    /// Bubble rate against peak memory as SVG.
    #[pyo3(signature = (width=None))]
    fn front_svg(&self, py: Python<'_>, width: Option<String>) -> PyResult<String> {
        let title = self.title.clone();
        look(py, &self.answer, move |answer| {
            pictures::search::svg_with(title.as_deref(), &answer.rows, wide(width)?)
        })
    }
}
