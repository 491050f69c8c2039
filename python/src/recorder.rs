//! The files that a question names, for a machine that has none of them.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use question::{Host, ReadError};

use crate::ask::Files;

/// `files` as a dictionary of bytes.
pub(crate) fn in_python<'py>(py: Python<'py>, files: &Files) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, content) in files {
        all.set_item(name.as_os_str(), PyBytes::new(py, content))?;
    }
    Ok(all)
}

/// A host that records the files read through another one.
pub(crate) struct Recorder<'h> {
    host: &'h dyn Host,
    read: Mutex<Files>,
}

impl<'h> Recorder<'h> {
    pub(crate) fn new(host: &'h dyn Host) -> Self {
        Self { host, read: Mutex::default() }
    }

    /// All that was read.
    pub(crate) fn into_files(self) -> Files {
        self.read.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for Recorder<'_> {
    fn read(&self, path: &Path, at_most: u64) -> Result<Vec<u8>, ReadError> {
        let content = self.host.read(path, at_most)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.insert(path.to_owned(), content.clone());
        Ok(content)
    }

    fn exists(&self, path: &Path) -> bool {
        self.host.exists(path)
    }

    fn stopped(&self) -> bool {
        self.host.stopped()
    }

    fn clock(&self) -> Option<Duration> {
        self.host.clock()
    }

    fn spare_memory(&self) -> Option<u64> {
        self.host.spare_memory()
    }
}
