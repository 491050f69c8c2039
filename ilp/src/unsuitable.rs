//! Why an instance is not modelled, and how large one may be.

use pipeline::overlap::Overlap;
use pipeline::{Fault, Placement};
use search::Instance;
use search::bounds::{Infeasible, check_limits};
use thiserror::Error;

/// The most passes of a pipeline that is solved: the work at a node grows with the square of those of
/// a stage.
pub const MOST_PASSES: usize = 3_000;

/// The most binaries of a program that is built: a file of it has some hundred megabytes.
pub const MOST_BINARIES: u64 = 500_000;

/// Why an instance is not modelled.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Unsuitable {
    /// Microbatches that take different ways.
    #[error("microbatches go in two directions: only looped chunks and a V are modelled")]
    Mirrored,
    /// Microbatches that differ.
    #[error("microbatches of unequal work are not modelled")]
    Unequal,
    /// Pairs of passes that share the two streams of a device.
    #[error("pairs of passes that overlap on two streams are not modelled")]
    Overlapped,
    /// Passes that take no time: the program tells an order by the times at which passes end. They are solved, but
    /// not written.
    #[error("pass times must all be above zero: the program tells an order by the times of ends")]
    Instant,
    /// Too many passes for the solver.
    #[error(
        "{passes} passes, whose order is {binaries} binaries: at most {MOST_PASSES} passes are solved"
    )]
    TooLarge {
        /// Number of passes.
        passes: usize,
        /// Pairs of passes whose order is open.
        binaries: u64,
    },
    /// Too many binaries for a file.
    #[error(
        "{binaries} binaries, one for each pair of passes whose order is open: at most {MOST_BINARIES} are written"
    )]
    TooManyBinaries {
        /// How many there would be.
        binaries: u64,
    },
    /// No order fits the limits.
    #[error(transparent)]
    Infeasible(#[from] Infeasible),
    /// Costs or footprints of another pipeline.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Checks that `instance` is of a kind that is modelled, and has an order under its limits.
pub(crate) fn check_kind(instance: &Instance) -> Result<(), Unsuitable> {
    if instance.placement == Placement::Mirrored {
        return Err(Unsuitable::Mirrored);
    }
    if instance.costs.overlap().is_some_and(Overlap::communicates) {
        return Err(Unsuitable::Overlapped);
    }
    if instance.costs.microbatch_work().is_some() {
        return Err(Unsuitable::Unequal);
    }
    Ok(check_limits(instance)?)
}
