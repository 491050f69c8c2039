//! Texts with a unit as numbers.

use pipeline::{Bytes, Limit, Nanos};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Millionths of the unit of a memory limit.
const WHOLE: f64 = 1e6;

/// The `texts` of a key as numbers, if all have a unit of one kind: `"ns"`, times in nanoseconds; `"B"`, sizes in bytes; or
/// `"p"`, multiples of the activations of p microbatches. What is `None` stays so.
#[pyfunction]
pub(crate) fn quantities<'py>(
    py: Python<'py>,
    texts: Vec<Option<String>>,
) -> PyResult<Option<(&'static str, Bound<'py, PyList>)>> {
    if texts.iter().all(Option::is_none) {
        return Ok(None);
    }
    if let Some(times) = all(&texts, |text| text.parse::<Nanos>().ok().map(|time| time.0)) {
        return Ok(Some(("ns", PyList::new(py, times)?)));
    }
    let bytes = |text: &str| match text.parse() {
        Ok(Limit::Bytes(Bytes(bytes))) => Some(bytes),
        _ => None,
    };
    if let Some(sizes) = all(&texts, bytes) {
        return Ok(Some(("B", PyList::new(py, sizes)?)));
    }
    #[allow(clippy::cast_precision_loss)] // Limits are far below 2^53 millionths.
    let multiple = |text: &str| match text.parse() {
        Ok(Limit::TimesP { millionths }) => Some(millionths as f64 / WHOLE),
        _ => None,
    };
    let multiples = all(&texts, multiple);
    multiples.map(|all| Ok(("p", PyList::new(py, all)?))).transpose()
}

/// What `read` makes of every text, unless it makes nothing of one.
fn all<T>(texts: &[Option<String>], read: impl Fn(&str) -> Option<T>) -> Option<Vec<Option<T>>> {
    let each =
        texts.iter().map(|text| text.as_deref().map(|text| read(text).ok_or(())).transpose());
    each.collect::<Result<_, ()>>().ok()
}
