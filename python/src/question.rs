//! Questions about pipeline schedules.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use question::keys::Keys;
use question::scenario::Scenario;
use question::{Context, Diagnostic, files};

use crate::ask::{Files, ask};
use crate::error::raised;
use crate::recorder::{Recorder, in_python};
use question::keywords;

/// One or several settings with their keys, read and checked.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Question {
    pub(crate) scenario: Arc<Scenario>,
}

#[pymethods]
impl Question {
    /// The question of `json`, an object of keywords.
    #[staticmethod]
    fn of(py: Python<'_>, json: &str) -> PyResult<Self> {
        let text = keywords::toml(json).map_err(|wrong| raised(py, &wrong))?;
        let answered = ask(py, Arc::default(), None, move |context| {
            let scenario = Scenario::parse(context, keywords::unseen(), text);
            scenario.map(Scenario::detached).map_err(keywords::nowhere)
        })?;
        Ok(Self { scenario: Arc::new(answered.answer) })
    }

    /// The question in the file at `path`, which has the `content` if that is given.
    #[staticmethod]
    #[pyo3(signature = (path, content=None))]
    fn read(py: Python<'_>, path: PathBuf, content: Option<Vec<u8>>) -> PyResult<Self> {
        let files: Files = content.into_iter().map(|bytes| (path.clone(), bytes)).collect();
        let answered =
            ask(py, Arc::new(files), None, move |context| Scenario::read(context, &path))?;
        Ok(Self { scenario: Arc::new(answered.answer) })
    }

    /// This question with the keys of `json`, an object of keywords, over its own.
    fn replace(&self, py: Python<'_>, json: &str) -> PyResult<Self> {
        let keys: Keys = keywords::keys(json).map_err(|wrong| raised(py, &wrong))?;
        let mut scenario = (*self.scenario).clone();
        scenario.settings.iter_mut().for_each(|setting| setting.overrule(keys.clone()));
        Ok(Self { scenario: Arc::new(scenario) })
    }

    /// The question as JSON, with the keys of scenario files.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&*self.scenario).map_err(crate::error::unwritable)
    }

    /// The question as a scenario file.
    fn toml(&self, py: Python<'_>) -> PyResult<String> {
        keywords::written(&*self.scenario).map_err(|wrong| raised(py, &wrong))
    }

    /// The files that the question names, with `schedules` in place of its own, and those of `files` that it needs:
    /// what another machine lacks to answer it.
    #[pyo3(signature = (schedules=None, files=None))]
    fn files<'py>(
        &self,
        py: Python<'py>,
        schedules: Option<Vec<String>>,
        files: Option<Files>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let scenario = Arc::clone(&self.scenario);
        let lent = Arc::new(files.unwrap_or_default());
        let answered = ask(py, lent, None, move |context| {
            let recorder = Recorder::new(context.host());
            let inner = Context::new(&recorder);
            let scenario = asked(&inner, &scenario, schedules)?;
            for setting in &scenario.settings {
                files::each(&inner, &setting.keys, |_| ())?;
                if setting.keys.schedule.is_some() {
                    cases::selected(&inner, &scenario, setting)?;
                }
            }
            Ok(recorder.into_files())
        })?;
        in_python(py, &answered.answer)
    }

    /// The number of settings.
    fn __len__(&self) -> usize {
        self.scenario.settings.len()
    }
}

/// `scenario` with `schedules`, if they are given, in place of its own, ready to be answered.
///
/// # Errors
/// If B and W are given both together and apart.
pub(crate) fn asked(
    context: &Context<'_>,
    scenario: &Scenario,
    schedules: Option<Vec<String>>,
) -> Result<Scenario, Diagnostic> {
    scenario.clone().with(context, &Keys { schedule: schedules, ..Keys::default() })
}
