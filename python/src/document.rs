//! The other questions: packing, traces, comparisons, certificates, published tables, and lists.

use std::path::PathBuf;
use std::sync::Arc;

use ::reproduce::{self as published, Answer as Published};
use answer::Tabular;
use answer::compare::{Comparison, report};
use answer::timelines::{self, Recorded};
use answer::{
    encoder as in_front, failures as failing, fsdp as packing, replay as traced,
    rl as reinforcement, schedules as listed, verify as checked,
};
use draw::{Width, pictures};
use pyo3::prelude::*;
use question::questions;
use question::sheet::Sheet;
use question::{
    Context, Diagnostic, encoder as encoder_keys, failures as failure_keys, fsdp as packing_keys,
    replay as replay_keys, rl as rl_keys,
};

use crate::ask::{Files, ask, look};
use crate::error::{raised, unwritable};
use crate::question::{Question, asked};
use crate::width::wide;
use question::keywords;

/// An answer that is looked at as a whole: as JSON, as tables and as pictures.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Document {
    content: Arc<Content>,
    /// Warnings for the user.
    #[pyo3(get)]
    warnings: Vec<String>,
    /// Whether a Ctrl-C came meanwhile.
    #[pyo3(get)]
    interrupted: bool,
}

/// The answers that are documents.
enum Content {
    Packed(packing::FsdpAnswer),
    Reinforced(Box<reinforcement::RlAnswer>),
    Rerouted(failing::FailuresAnswer),
    Encoded(Box<in_front::EncoderAnswer>),
    Replayed(traced::ReplayAnswer),
    Compared(Box<[Recorded; 2]>),
    Verified(checked::VerifyAnswer),
    Published(Published),
    Listed(listed::SchedulesAnswer),
}

/// Names with their items.
type Named<T> = Vec<(String, T)>;

impl Content {
    fn json(&self) -> Result<serde_json::Result<String>, Diagnostic> {
        Ok(match self {
            Self::Packed(answer) => serde_json::to_string_pretty(answer),
            Self::Reinforced(answer) => serde_json::to_string_pretty(answer),
            Self::Rerouted(answer) => serde_json::to_string_pretty(answer),
            Self::Encoded(answer) => serde_json::to_string_pretty(answer),
            Self::Replayed(answer) => serde_json::to_string_pretty(answer),
            Self::Compared(both) => {
                serde_json::to_string_pretty(&Comparison::of(&both[0], &both[1])?)
            }
            Self::Verified(answer) => serde_json::to_string_pretty(answer),
            Self::Published(answer) => serde_json::to_string_pretty(answer),
            Self::Listed(answer) => serde_json::to_string_pretty(answer),
        })
    }

    fn sheet(&self) -> Result<Sheet, Diagnostic> {
        Ok(match self {
            Self::Packed(answer) => answer.sheet(),
            Self::Reinforced(answer) => answer.sheet(),
            Self::Rerouted(answer) => answer.sheet(),
            Self::Encoded(answer) => answer.sheet(),
            Self::Replayed(answer) => answer.sheet(),
            Self::Compared(both) => report::sheet(&Comparison::of(&both[0], &both[1])?),
            Self::Verified(answer) => answer.sheet(),
            Self::Published(answer) => answer.sheet(),
            Self::Listed(answer) => answer.sheet(),
        })
    }

    fn csv(&self) -> Result<Named<Vec<u8>>, Diagnostic> {
        match self {
            Self::Packed(answer) => Ok(vec![("fsdp".to_owned(), answer.csv()?)]),
            Self::Reinforced(answer) => Ok(vec![("rl".to_owned(), answer.csv()?)]),
            Self::Rerouted(answer) => Ok(vec![("failures".to_owned(), answer.csv()?)]),
            Self::Encoded(answer) => Ok(vec![("encoder".to_owned(), answer.csv()?)]),
            Self::Published(Published::Reproduced { tables, .. }) => {
                tables.iter().map(|one| Ok((one.table.to_owned(), one.csv()?))).collect()
            }
            Self::Published(Published::Beyond { tables, .. }) => {
                tables.iter().map(|one| Ok((one.table.to_owned(), one.csv()?))).collect()
            }
            _ => Ok(Vec::new()),
        }
    }

    fn svg(&self, width: Option<Width>) -> Result<Named<String>, Diagnostic> {
        let named = |name: &str, picture| Ok((name.to_owned(), picture));
        match self {
            Self::Packed(answer) => {
                Ok(vec![("fsdp".to_owned(), pictures::fsdp::bubbles(&answer.results, width)?)])
            }
            Self::Reinforced(answer) => {
                Ok(vec![("rl".to_owned(), pictures::rl::phases(answer, width)?)])
            }
            Self::Rerouted(answer) => {
                Ok(vec![("failures".to_owned(), pictures::failures::steps(answer, width)?)])
            }
            Self::Encoded(answer) if answer.timeline.is_some() => {
                Ok(vec![("encoder".to_owned(), pictures::encoder::timeline(answer, width)?)])
            }
            Self::Compared(both) => {
                let comparison = Comparison::of(&both[0], &both[1])?;
                let picture = pictures::compare::timelines(&comparison, width)?;
                Ok(vec![("compare".to_owned(), picture)])
            }
            Self::Published(Published::Reproduced { tables, .. }) => {
                let drawn =
                    tables.iter().filter_map(|one| Some((one.table, one.picture.as_ref()?)));
                drawn.map(|(name, of)| named(name, pictures::reproduce::svg(of, width)?)).collect()
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Answers by `work` on threads of this package.
fn document(
    py: Python<'_>,
    files: Option<Files>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Context<'_>) -> Result<Content, Diagnostic> + Send + 'static,
) -> PyResult<Document> {
    let answered = ask(py, Arc::new(files.unwrap_or_default()), progress, work)?;
    let (warnings, interrupted) = (answered.warnings, answered.interrupted);
    Ok(Document { content: Arc::new(answered.answer), warnings, interrupted })
}

#[pymethods]
impl Document {
    /// All of it as JSON, as the command line prints it.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.content, Content::json)?.map_err(unwritable)
    }

    /// The tables that the command line prints.
    fn table(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.content, |content| Ok(draw::text::sheet(&content.sheet()?)))
    }

    /// The same as HTML.
    fn table_html(&self, py: Python<'_>) -> PyResult<String> {
        look(py, &self.content, |content| Ok(draw::html::sheet(&content.sheet()?)))
    }

    /// The names of its parts with their rows as CSV, as the command line writes them.
    fn csv(&self, py: Python<'_>) -> PyResult<Named<Vec<u8>>> {
        look(py, &self.content, Content::csv)
    }

    /// The names of its parts with their pictures as SVG.
    #[pyo3(signature = (width=None))]
    fn svg(&self, py: Python<'_>, width: Option<String>) -> PyResult<Named<String>> {
        look(py, &self.content, move |content| content.svg(wide(width)?))
    }

    /// Whether all that was checked holds, where something is checked.
    #[getter]
    fn holds(&self) -> Option<bool> {
        match &*self.content {
            Content::Verified(answer) => Some(answer.holds()),
            Content::Published(answer) => Some(answer.holds()),
            _ => None,
        }
    }
}

/// Packs samples for data-parallel training by `keys`, an object of keywords as JSON.
#[pyfunction]
#[pyo3(signature = (keys, files=None, progress=None))]
pub(crate) fn fsdp(
    py: Python<'_>,
    keys: &str,
    files: Option<Files>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Document> {
    let keys: packing_keys::FsdpKeys = keywords::keys(keys).map_err(|wrong| raised(py, &wrong))?;
    document(py, files, progress.as_ref(), move |context| {
        packing::fsdp(context, &keys).map(Content::Packed)
    })
}

/// Predicts a step of reinforcement learning by `keys`, an object of keywords as JSON.
#[pyfunction]
#[pyo3(signature = (keys, files=None, progress=None))]
pub(crate) fn rl(
    py: Python<'_>,
    keys: &str,
    files: Option<Files>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Document> {
    let keys: rl_keys::RlKeys = keywords::keys(keys).map_err(|wrong| raised(py, &wrong))?;
    document(py, files, progress.as_ref(), move |context| {
        reinforcement::rl(context, &keys).map(|answer| Content::Reinforced(Box::new(answer)))
    })
}

/// Predicts steps with dead workers for `question` under `schedules`, if they are given, in place of its own, by
/// `keys`, an object of keywords as JSON.
#[pyfunction]
#[pyo3(signature = (question, keys, schedules=None, files=None, progress=None))]
pub(crate) fn failures(
    py: Python<'_>,
    question: &Question,
    keys: &str,
    schedules: Option<Vec<String>>,
    files: Option<Files>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Document> {
    let keys: failure_keys::FailureKeys =
        keywords::keys(keys).map_err(|wrong| raised(py, &wrong))?;
    let scenario = Arc::clone(&question.scenario);
    document(py, files, progress.as_ref(), move |context| {
        let scenario = asked(context, &scenario, schedules)?;
        failing::failures(context, &scenario, &keys).map(Content::Rerouted)
    })
}

/// Predicts steps with an encoder in front of a language model by `keys`, an object of keywords as JSON.
#[pyfunction]
#[pyo3(signature = (keys, files=None, progress=None))]
pub(crate) fn encoder(
    py: Python<'_>,
    keys: &str,
    files: Option<Files>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Document> {
    let keys: encoder_keys::EncoderKeys =
        keywords::keys(keys).map_err(|wrong| raised(py, &wrong))?;
    document(py, files, progress.as_ref(), move |context| {
        in_front::encoder(context, &keys).map(|answer| Content::Encoded(Box::new(answer)))
    })
}

/// Predicts the steps of the run in the traces at `paths`, of `files` or of the disk, as it was and with the
/// changes of `keys`, an object of keywords as JSON.
#[pyfunction]
#[pyo3(signature = (paths, keys, launch_delays=false, files=None, progress=None))]
pub(crate) fn replay(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    keys: &str,
    launch_delays: bool,
    files: Option<Files>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Document> {
    let keys: replay_keys::ReplayKeys = keywords::keys(keys).map_err(|wrong| raised(py, &wrong))?;
    document(py, files, progress.as_ref(), move |context| {
        traced::replay(context, &paths, launch_delays, &keys).map(Content::Replayed)
    })
}

/// Compares the timelines in the files `predicted` and `measured`, of `files` or of the disk.
#[pyfunction]
#[pyo3(signature = (predicted, measured, files=None))]
pub(crate) fn compare(
    py: Python<'_>,
    predicted: PathBuf,
    measured: PathBuf,
    files: Option<Files>,
) -> PyResult<Document> {
    document(py, files, None, move |context| {
        let both = [timelines::read(context, &predicted)?, timelines::read(context, &measured)?];
        Comparison::of(&both[0], &both[1]).map(drop)?;
        Ok(Content::Compared(Box::new(both)))
    })
}

/// Checks the certificate in the file at `path`, of `files` or of the disk.
#[pyfunction]
#[pyo3(signature = (path, files=None))]
pub(crate) fn verify(py: Python<'_>, path: PathBuf, files: Option<Files>) -> PyResult<Document> {
    document(py, files, None, move |context| checked::verify(context, &path).map(Content::Verified))
}

/// Reproduces published tables by `keys`, an object of keywords as JSON.
#[pyfunction]
#[pyo3(signature = (keys, progress=None))]
pub(crate) fn reproduce(
    py: Python<'_>,
    keys: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Document> {
    let question: published::Question = keywords::keys(keys).map_err(|wrong| raised(py, &wrong))?;
    document(py, None, progress.as_ref(), move |context| {
        published::reproduce(context, &question).map(Content::Published)
    })
}

/// All schedules that have a name.
#[pyfunction]
pub(crate) fn schedules(py: Python<'_>) -> PyResult<Document> {
    document(py, None, None, |_| Ok(Content::Listed(listed::schedules())))
}

/// The schema of the questions called `name`, as JSON.
#[pyfunction]
pub(crate) fn schema(py: Python<'_>, name: &str) -> PyResult<&'static str> {
    questions::named(name).map(|kind| kind.schema).map_err(|wrong| raised(py, &wrong))
}

/// The keywords in `json` as a TOML document.
#[pyfunction]
pub(crate) fn toml(py: Python<'_>, json: &str) -> PyResult<String> {
    keywords::toml(json).map_err(|wrong| raised(py, &wrong))
}
