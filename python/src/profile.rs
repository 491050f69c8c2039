//! Profiles of trainers.

use std::path::PathBuf;
use std::sync::Arc;

use answer::profile as made;
use profile::{AnyProfile, TrainerProfile};
use pyo3::prelude::*;
use question::{Diagnostic, profiles};

use crate::ask::{Files, ask, look};
use crate::error::{raised, unwritable};

/// The times and sizes of a trainer's chunks, as they were recorded.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Profile {
    profile: Arc<TrainerProfile>,
    /// What the recordings do not say, for the user.
    #[pyo3(get)]
    warnings: Vec<String>,
}

#[pymethods]
impl Profile {
    /// The profile of the recordings in the files at `paths`, of `files` or of the disk.
    #[staticmethod]
    #[pyo3(signature = (paths, files=None))]
    fn recorded(py: Python<'_>, paths: Vec<PathBuf>, files: Option<Files>) -> PyResult<Self> {
        let answered = ask(py, Arc::new(files.unwrap_or_default()), None, move |context| {
            made::of_files(context, &paths)
        })?;
        Ok(Self { profile: Arc::new(answered.answer), warnings: answered.warnings })
    }

    /// The profile in the file at `path`, of `files` or of the disk.
    #[staticmethod]
    #[pyo3(signature = (path, files=None))]
    fn read(py: Python<'_>, path: PathBuf, files: Option<Files>) -> PyResult<Self> {
        let answered = ask(py, Arc::new(files.unwrap_or_default()), None, move |context| {
            profiles::parse(context, &path)
        })?;
        match answered.answer {
            AnyProfile::Trainer(profile) => {
                Ok(Self { profile: Arc::from(profile), warnings: answered.warnings })
            }
            AnyProfile::Machine(_) => {
                let error = Diagnostic::new("it is the profile of a machine, not of a trainer");
                let cure = "name its file in a question: Question(profile=..., layers=...)";
                Err(raised(py, &error.with_help(cure)))
            }
        }
    }

    /// The file form.
    fn toml(&self) -> String {
        self.profile.to_toml()
    }

    /// Means as JSON.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&made::json(&self.profile)).map_err(unwritable)
    }

    /// The table that the command line prints.
    fn table(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.profile, |profile| Ok(draw::text::sheet(&made::sheet(profile))))
    }

    /// The same as HTML.
    fn table_html(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.profile, |profile| Ok(draw::html::sheet(&made::sheet(profile))))
    }
}
