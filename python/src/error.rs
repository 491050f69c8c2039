//! Errors as exceptions.

use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use question::Diagnostic;

use crate::wording;

import_exception!(debubble._errors, InputError);
import_exception!(debubble._errors, InternalError);

/// `diagnostic` as a `debubble.InputError`, with the message of the command line in the words
/// of Python.
pub(crate) fn raised(py: Python<'_>, diagnostic: &Diagnostic) -> PyErr {
    let diagnostic = wording::fault(diagnostic);
    match arguments(py, &diagnostic) {
        Ok(all) => match py.get_type::<InputError>().call((text(&diagnostic),), Some(&all)) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        },
        Err(error) => error,
    }
}

/// The message of the command line, without the word `error`. Where that would show the line of a file,
/// and there is none, the message begins with the key to blame.
fn text(diagnostic: &Diagnostic) -> String {
    let mut shown = diagnostic.clone();
    if let (None, Some(key)) = (&shown.place, &shown.key)
        && !shown.message.contains(key.as_str())
    {
        shown.message = format!("{key}: {}", shown.message);
    }
    let text = draw::text::diagnostic(&shown);
    text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()
}

fn arguments<'py>(py: Python<'py>, diagnostic: &Diagnostic) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("message", &diagnostic.message)?;
    all.set_item("help", &diagnostic.help)?;
    all.set_item("key", &diagnostic.key)?;
    if let Some(place) = &diagnostic.place {
        all.set_item("file", &place.file)?;
        all.set_item("line", place.line)?;
        all.set_item("column", place.column)?;
    }
    Ok(all)
}

/// The error of a panic in the library, with its message.
pub(crate) fn broken(panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "it did not say why".to_owned());
    InternalError::new_err(format!("debubble broke down, which is a mistake of its own: {text}"))
}

/// The error of an answer that cannot be written down.
pub(crate) fn unwritable(error: impl std::fmt::Display) -> PyErr {
    InternalError::new_err(format!("the answer cannot be written: {error}"))
}
