//! The compiled part of the Python package `debubble`.
//!
//! It holds no rule of the domain: it turns texts of questions into typed ones, lends the library files of
//! the disk, progress and Ctrl-C, and hands answers back as texts and arrays. The package in
//! `python/debubble` makes keywords, frames and pictures in notebooks of that.
#![warn(missing_docs)]
// Functions that Python calls own their arguments.
#![allow(clippy::needless_pass_by_value)]

mod advise;
mod answers;
mod ask;
mod columns;
mod document;
mod ending;
mod error;
mod plan;
mod profile;
mod question;
mod recorder;
mod schedule;
mod search;
mod sweep;
mod units;
mod width;
mod wording;

use pyo3::prelude::*;

/// The compiled part of debubble. Use the package `debubble`, which documents what this does.
#[pymodule]
mod _debubble {
    #[pymodule_export]
    use crate::advise::{Advice, advise};
    #[pymodule_export]
    use crate::answers::{Answers, Outcome, Why, simulate};
    #[pymodule_export]
    use crate::document::{
        Document, compare, encoder, failures, fsdp, replay, reproduce, rl, schedules, schema, toml,
        verify,
    };
    #[pymodule_export]
    use crate::plan::{Against, Planned, plan, plan_files};
    #[pymodule_export]
    use crate::profile::Profile;
    #[pymodule_export]
    use crate::question::Question;
    #[pymodule_export]
    use crate::schedule::{Schedule, export};
    #[pymodule_export]
    use crate::search::{Searched, check_search, search};
    #[pymodule_export]
    use crate::sweep::{Grid, Rows, sweep};
    #[pymodule_export]
    use crate::units::quantities;
    #[pymodule_export]
    use crate::wording::said;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::ending::announce(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
