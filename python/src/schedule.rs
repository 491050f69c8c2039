//! Schedules: the order of passes of each stage.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ::question::Diagnostic;
use pipeline::{Costs, PassTimes, Placement};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use sim::Replay;

use crate::ask::{Files, ask};
use crate::columns;
use crate::error::raised;
use crate::question::{Question, asked};

/// An order of passes, free of deadlock.
#[pyclass(frozen, module = "debubble._debubble")]
pub struct Schedule {
    pub(crate) schedule: Arc<pipeline::Schedule>,
}

#[pymethods]
impl Schedule {
    /// The schedule of `text`, one line per stage.
    #[staticmethod]
    fn of(py: Python<'_>, text: &str) -> PyResult<Self> {
        let schedule: Result<pipeline::Schedule, _> = py.detach(|| text.parse());
        let wrong = |error: pipeline::TextError| raised(py, &Diagnostic::new(error.to_string()));
        schedule.map(|schedule| Self { schedule: Arc::new(schedule) }).map_err(wrong)
    }

    /// The text form, one line per stage.
    fn text(&self) -> String {
        self.schedule.to_string()
    }

    /// The number of stages, p.
    #[getter]
    fn stages(&self) -> usize {
        self.schedule.shape().stages()
    }

    /// The number of microbatches, m.
    #[getter]
    fn microbatches(&self) -> u32 {
        self.schedule.shape().microbatches()
    }

    /// The number of chunks per stage, v.
    #[getter]
    fn chunks(&self) -> u16 {
        self.schedule.shape().chunks_per_stage()
    }

    /// Where the chunks lie: `looped`, `v` or `mirrored`.
    #[getter]
    fn placement(&self) -> &'static str {
        match self.schedule.placement() {
            Placement::Looped => "looped",
            Placement::Vee => "v",
            Placement::Mirrored => "mirrored",
        }
    }

    /// The slots of `stage` in the text form.
    fn slots(&self, stage: usize) -> Option<Vec<String>> {
        let order = self.schedule.orders().get(stage)?;
        Some(order.slots().map(|slot| slot.to_string()).collect())
    }

    fn __len__(&self) -> usize {
        self.schedule.passes()
    }

    fn __richcmp__(&self, other: &Self, op: CompareOp) -> Option<bool> {
        match op {
            CompareOp::Eq => Some(self.text() == other.text()),
            CompareOp::Ne => Some(self.text() != other.text()),
            _ => None,
        }
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.text().hash(&mut hasher);
        hasher.finish()
    }
}

/// The one schedule that `question` asks for, as the name, the schedule, and the warnings.
#[pyfunction]
#[pyo3(signature = (question, schedules=None, files=None))]
pub fn export(
    py: Python<'_>,
    question: &Question,
    schedules: Option<Vec<String>>,
    files: Option<Files>,
) -> PyResult<(String, Schedule, Vec<String>)> {
    let scenario = Arc::clone(&question.scenario);
    let told = ask(py, Arc::new(files.unwrap_or_default()), None, move |context| {
        let scenario = asked(context, &scenario, schedules)?;
        answer::export::export(context, scenario, false)
    })?;
    let schedule = Schedule { schedule: Arc::new(told.answer.schedule) };
    Ok((told.answer.name, schedule, told.warnings))
}
