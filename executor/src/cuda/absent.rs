//! A program without kernels for NVIDIA GPUs: there is none to run on, and none to time.

mod about;

use profile::LinkKind;

use crate::backend::{Devices, OpenError, Options};
use crate::target::{TargetOptions, WithTarget};

pub(crate) use about::{ABOUT, TIMED};

const NOT_BUILT: OpenError = OpenError::NotBuilt {
    what: "CUDA",
    cure: "build it with `cargo build --release`, which needs no CUDA; or use --device cpu",
};

/// There is none.
pub(crate) fn open(_: &Options) -> Result<Box<dyn Devices>, OpenError> {
    Err(NOT_BUILT)
}

/// There is none.
pub(crate) fn open_timed(_: &Options) -> Result<Box<dyn Devices>, OpenError> {
    Err(NOT_BUILT)
}

/// There is none.
pub(crate) fn with_target<W: WithTarget>(_: &TargetOptions, _: W) -> Result<W::Output, OpenError> {
    Err(NOT_BUILT)
}

/// There are none.
pub(crate) const fn links() -> Vec<LinkKind> {
    Vec::new()
}
