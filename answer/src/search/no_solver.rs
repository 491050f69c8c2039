//! A program without the constraint solver.

use std::time::Duration;

use pipeline::Nanos;

use question::case::Searched;
use question::{Context, Diagnostic};

/// There is none.
pub(super) fn check() -> Result<(), Diagnostic> {
    let cure = "build it with `cargo build --release --features exact` (Rust 1.95 or newer)";
    Err(Diagnostic::new("--exact: this debubble was built without the solver").with_help(cure))
}

/// Not to be called, since there is none.
pub(super) fn prove(
    _: &Context<'_>,
    _: &mut Searched,
    _: Duration,
) -> Result<Option<Nanos>, Diagnostic> {
    check().map(|()| None)
}
