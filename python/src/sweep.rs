//! Sweeps: a grid of questions in one call, or in parts that other machines answer.

use std::sync::Arc;

use answer::sweep as sweeps;
use csv::{ByteRecord, ReaderBuilder};
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use question::keys::Keys;
use question::sweep::columns::ColumnKind;
use question::sweep::grid;
use question::{Context, Diagnostic};

use crate::ask::{Files, ask};
use crate::error::{raised, unwritable};
use crate::question::Question;
use crate::recorder::{Recorder, in_python};
use question::keywords::{self, Pairs};

/// A grid of questions, as a document with the files that it names: what another machine needs to answer a
/// part of it.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Grid {
    document: String,
    files: Arc<Files>,
    questions: u64,
    header: String,
    /// Warnings for the user.
    #[pyo3(get)]
    warnings: Vec<String>,
}

#[pymethods]
impl Grid {
    /// The grid of `question` along `axes`, keywords and their values as JSON of pairs, the slowest axis
    /// first.
    #[staticmethod]
    #[pyo3(signature = (question, axes, files=None))]
    fn of(py: Python<'_>, question: &Question, axes: &str, files: Option<Files>) -> PyResult<Self> {
        let axes: Pairs = keywords::value(axes).map_err(|wrong| raised(py, &wrong))?;
        let document = keywords::without(&question.scenario, &axes)
            .and_then(|text| Ok(format!("{text}\n[sweep]\n{}", keywords::lines(&axes)?)));
        let document = document.map_err(|wrong| raised(py, &wrong))?;
        let files = with_document(files.unwrap_or_default(), &document);
        let answered = ask(py, Arc::new(files), None, move |context| {
            let recorder = Recorder::new(context.host());
            let inner = Context::new(&recorder);
            let grid = read(&inner)?;
            sweeps::warn(&inner, &grid)?;
            sweeps::check_answers(&inner, &grid).map_err(keywords::nowhere)?;
            inner.take_warnings().into_iter().for_each(|text| context.warn(text));
            let header = String::from_utf8_lossy(&grid.columns().header()).into_owned();
            let mut files = recorder.into_files();
            files.remove(keywords::unseen());
            Ok((grid.questions, header, files))
        })?;
        let (questions, header, files) = answered.answer;
        Ok(Self {
            document,
            files: Arc::new(files),
            questions,
            header,
            warnings: answered.warnings,
        })
    }

    /// The number of questions.
    fn __len__(&self) -> usize {
        usize::try_from(self.questions).unwrap_or(usize::MAX)
    }

    /// The document and the files: what [`sweep`] takes.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<(&str, Bound<'py, PyDict>)> {
        Ok((&self.document, in_python(py, &self.files)?))
    }

    /// The rows in the `pieces` that [`sweep`] gave, one after the other.
    fn rows(&self, pieces: Vec<Vec<u8>>, interrupted: bool) -> Rows {
        Rows { csv: [self.header.clone().into_bytes(), pieces.concat()].concat(), interrupted }
    }
}

/// Answers the questions from number `begin` to `end` of the grid in `document` and gives their rows as
/// CSV, and whether somebody asked to end before the last.
#[pyfunction]
#[pyo3(signature = (document, files, begin, end, progress=None))]
pub(crate) fn sweep<'py>(
    py: Python<'py>,
    document: &str,
    files: Files,
    begin: u64,
    end: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyBytes>, bool)> {
    let files = Arc::new(with_document(files, document));
    let answered = ask(py, files, progress.as_ref(), move |context| {
        let grid = read(context)?;
        let end = end.min(grid.questions);
        Ok(sweeps::part(context, &grid, begin.min(end)..end).0)
    })?;
    Ok((PyBytes::new(py, &answered.answer), answered.interrupted))
}

fn read(context: &Context<'_>) -> Result<grid::Grid, Diagnostic> {
    let grid = grid::Grid::read(context, keywords::unseen(), &Keys::default());
    grid.map_err(keywords::nowhere)
}

fn with_document(mut files: Files, document: &str) -> Files {
    files.insert(keywords::unseen().to_owned(), document.as_bytes().to_vec());
    files
}

/// The rows of a sweep.
#[pyclass(frozen, module = "debubble._debubble")]
pub(crate) struct Rows {
    csv: Vec<u8>,
    /// Whether a Ctrl-C came meanwhile.
    #[pyo3(get)]
    interrupted: bool,
}

#[pymethods]
impl Rows {
    /// The rows of `csv`, which this class has written before.
    #[staticmethod]
    fn of(csv: Vec<u8>) -> Self {
        Self { csv, interrupted: false }
    }

    /// The rows as CSV, as the command line writes them.
    fn csv<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.csv)
    }

    /// The columns by name, each with its type and its values. Whole numbers and truths are arrays where
    /// no row lacks one and lists with `None` else; numbers that are missing are NaN; texts are lists.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = py.detach(|| columns(&self.csv)).map_err(unwritable)?;
        let all = PyDict::new(py);
        for (name, column) in columns {
            all.set_item(name, (column.kind(), column.values(py)?))?;
        }
        Ok(all)
    }
}

/// The values of a column.
enum Column {
    Whole(Vec<Option<i64>>),
    Decimal(Vec<f64>),
    Truth(Vec<Option<bool>>),
    Text(Vec<Option<String>>),
}

impl Column {
    const fn of(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Whole => Self::Whole(Vec::new()),
            ColumnKind::Decimal => Self::Decimal(Vec::new()),
            ColumnKind::Truth => Self::Truth(Vec::new()),
            ColumnKind::Text => Self::Text(Vec::new()),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Whole(_) => "whole",
            Self::Decimal(_) => "decimal",
            Self::Truth(_) => "truth",
            Self::Text(_) => "text",
        }
    }

    fn add(&mut self, value: &[u8]) {
        let text = std::str::from_utf8(value).ok().filter(|text| !text.is_empty());
        match self {
            Self::Whole(all) => all.push(text.and_then(|text| text.parse().ok())),
            Self::Decimal(all) => {
                all.push(text.and_then(|text| text.parse().ok()).unwrap_or(f64::NAN));
            }
            Self::Truth(all) => all.push(text.and_then(|text| text.parse().ok())),
            Self::Text(all) => all.push(text.map(str::to_owned)),
        }
    }

    fn values(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Self::Whole(all) => match all.iter().copied().collect::<Option<Vec<i64>>>() {
                Some(whole) => whole.into_pyarray(py).into_any(),
                None => PyList::new(py, all)?.into_any(),
            },
            Self::Truth(all) => match all.iter().copied().collect::<Option<Vec<bool>>>() {
                Some(whole) => whole.into_pyarray(py).into_any(),
                None => PyList::new(py, all)?.into_any(),
            },
            Self::Decimal(all) => all.into_pyarray(py).into_any(),
            Self::Text(all) => PyList::new(py, all)?.into_any(),
        })
    }
}

/// The columns of the rows in `csv` by name.
fn columns(csv: &[u8]) -> csv::Result<Vec<(String, Column)>> {
    let reader = || ReaderBuilder::new().from_reader(csv);
    let mut rows = reader();
    let names: Vec<String> = rows.headers()?.iter().map(str::to_owned).collect();
    let named: Vec<&str> = names.iter().map(String::as_str).collect();
    let kinds = match sweeps::kinds::known(&named) {
        Some(kinds) => kinds,
        None => sweeps::kinds::of(&named, &mut reader())?,
    };
    let mut columns: Vec<Column> = kinds.into_iter().map(Column::of).collect();
    let mut row = ByteRecord::new();
    while rows.read_byte_record(&mut row)? {
        columns.iter_mut().zip(&row).for_each(|(column, value)| column.add(value));
    }
    Ok(names.into_iter().zip(columns).collect())
}
