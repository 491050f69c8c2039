//! Schedules: the order of passes of each stage.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use cases::read_schedule;
use draw::gantt::{self, Style};
use draw::{Width, pictures};
use pipeline::primus::{self, PrimusRefusal};
use pipeline::torch_csv::{self, ScheduleTextError, TorchRefusal};
use pipeline::{Collectives, Costs, Nanos, PassTimes, Placement, ShardTimes, Vocabulary};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use question::Diagnostic;
use question::export::Form;
use sim::Replay;

use crate::ask::{Files, ask, look};
use crate::error::raised;
use crate::question::{Question, asked};
use crate::width::wide;
use question::keywords;

/// An order of passes, free of deadlock.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Schedule {
    pub(crate) schedule: Arc<pipeline::Schedule>,
}

#[pymethods]
impl Schedule {
    /// The schedule of `text`, in the text form or the CSV of torch.
    #[staticmethod]
    fn of(py: Python<'_>, text: &str) -> PyResult<Self> {
        let schedule = py.detach(|| torch_csv::read_either(text));
        let wrong = |error: ScheduleTextError| raised(py, &Diagnostic::new(error.to_string()));
        Ok(Self { schedule: Arc::new(schedule.map_err(wrong)?) })
    }

    /// The name and the schedule of the file at `path`.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<(String, Self)> {
        let answered = ask(py, Arc::default(), None, move |context| read_schedule(context, &path))?;
        let (name, schedule) = answered.answer;
        Ok((name, Self { schedule: Arc::new(schedule) }))
    }

    /// The order as torch.distributed.pipelining reads it.
    fn torch_csv(&self, py: Python<'_>) -> PyResult<String> {
        let refused = |refusal: TorchRefusal| raised(py, &Diagnostic::new(refusal.to_string()));
        torch_csv::write(&self.schedule).map_err(refused)
    }

    /// The order as Primus runs it.
    fn primus(&self, py: Python<'_>) -> PyResult<String> {
        let refused = |refusal: PrimusRefusal| raised(py, &Diagnostic::new(refusal.to_string()));
        primus::write(&self.schedule).map_err(refused)
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

    /// Placement of chunks: `looped`, `v` or `mirrored`.
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

    /// The order as SVG, with F, B, W and work on the vocabulary all as long.
    #[pyo3(signature = (width=None))]
    fn svg(&self, py: Python<'_>, width: Option<String>) -> PyResult<String> {
        look(py, &self.schedule, move |schedule| drawn(schedule, wide(width)?))
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

/// `schedule` in time, where every pass is as long and nothing is far, in a picture of that `width`.
fn drawn(schedule: &pipeline::Schedule, width: Option<Width>) -> Result<String, Diagnostic> {
    let one = Nanos(1_000_000);
    let times = PassTimes::new(one, one, one);
    let shape = schedule.shape();
    let shards = match shape.vocabulary() {
        Vocabulary::Whole => Vec::new(),
        _ => vec![ShardTimes { before: one, after: one }; shape.stages()],
    };
    let costs = Costs::uniform(shape, times, Nanos(0)).with_shards(shards, Collectives::default());
    let timeline = Replay::new().timeline(schedule, &costs);
    let timeline = timeline.map_err(|fault| Diagnostic::new(fault.to_string()))?;
    let chart = gantt::Chart {
        title: "order of passes",
        timeline: &timeline,
        row: "stage",
        copies: &[],
        costs: None,
    };
    Ok(gantt::svg_with(&[chart], &Style { width, ..Style::default() })?)
}

/// The one schedule that `question` asks for in the form called `form`; and the warnings.
#[pyfunction]
#[pyo3(signature = (question, form, schedules=None, files=None))]
pub(crate) fn export(
    py: Python<'_>,
    question: &Question,
    form: &str,
    schedules: Option<Vec<String>>,
    files: Option<Files>,
) -> PyResult<(String, Vec<String>)> {
    let form = keywords::named(Some(form), "format").map_err(|wrong| raised(py, &wrong))?;
    let form: Form = form.unwrap_or_default();
    let scenario = Arc::clone(&question.scenario);
    let answered = ask(py, Arc::new(files.unwrap_or_default()), None, move |context| {
        let scenario = asked(context, &scenario, schedules)?;
        let case = answer::export::export(context, scenario, form == Form::Chrome)?;
        match form {
            Form::Text | Form::TorchCsv | Form::Primus => {
                answer::export::order(context, &case, form)
            }
            Form::Chrome => {
                let outcome = answer::export::run(case)?;
                let bytes =
                    pictures::simulate::Traced::of(&outcome, &outcome.case.name)?.bytes()?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
        }
    })?;
    Ok((answered.answer, answered.warnings))
}
