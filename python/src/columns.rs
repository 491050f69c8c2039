//! Columns of numbers as arrays of numpy, which take over the memory that Rust has filled.

use numpy::{IntoPyArray, PyFixedUnicode};
use pipeline::{Pass, Span};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A time or a size as numpy holds it. None is so large that it does not fit.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The name of the kind of `pass` as numpy holds text.
fn kind(pass: Pass) -> PyFixedUnicode<2> {
    let mut letters = [0; 2];
    for (letter, name) in letters.iter_mut().zip(pass.kind.name().chars()) {
        *letter = u32::from(name);
    }
    letters.into()
}

/// The slots of a timeline, pass by pass: of a pair both passes have the times of the slot.
#[derive(Default)]
pub(crate) struct Timeline {
    stage: Vec<i64>,
    slot: Vec<i64>,
    kind: Vec<PyFixedUnicode<2>>,
    chunk: Vec<i64>,
    microbatch: Vec<i64>,
    start: Vec<i64>,
    end: Vec<i64>,
}

impl Timeline {
    /// The columns of `timeline`.
    pub(crate) fn of(timeline: &pipeline::Timeline) -> Self {
        let mut all = Self::default();
        let mut slot = 0;
        for (stage, spans) in (0..).zip(&timeline.stages) {
            for span in spans {
                all.add(stage, slot, span);
                slot += 1;
            }
        }
        all
    }

    fn add(&mut self, stage: i64, slot: i64, span: &Span) {
        for pass in span.slot.passes() {
            self.stage.push(stage);
            self.slot.push(slot);
            self.kind.push(kind(pass));
            self.chunk.push(i64::from(pass.chunk));
            self.microbatch.push(i64::from(pass.microbatch));
            self.start.push(signed(span.start.0));
            self.end.push(signed(span.end.0));
        }
    }

    /// The same as arrays by name.
    pub(crate) fn arrays(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let all = PyDict::new(py);
        all.set_item("stage", self.stage.into_pyarray(py))?;
        all.set_item("slot", self.slot.into_pyarray(py))?;
        all.set_item("kind", self.kind.into_pyarray(py))?;
        all.set_item("chunk", self.chunk.into_pyarray(py))?;
        all.set_item("microbatch", self.microbatch.into_pyarray(py))?;
        all.set_item("start_ns", self.start.into_pyarray(py))?;
        all.set_item("end_ns", self.end.into_pyarray(py))?;
        Ok(all)
    }
}
