//! A program without the constraint solver.

use std::time::Duration;

use pipeline::Nanos;

use crate::error::Error;
use question::case::Searched;

/// There is none.
pub(super) fn check() -> Result<(), Error> {
    let cure = "build it with `cargo build --release --features exact` (Rust 1.95 or newer)";
    Err(Error::question("--exact: this debubble was built without the solver").with_help(cure))
}

/// Not to be called, since there is none.
pub(super) fn prove(
    _: &mut Searched,
    _: Duration,
    _: &dyn Fn() -> bool,
) -> Result<Option<Nanos>, Error> {
    check().map(|()| None)
}
