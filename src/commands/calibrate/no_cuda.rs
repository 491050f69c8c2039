//! A program without kernels for GPUs: there is none to time.

use std::io::Write;

use super::{Calibrate, LinkArg};
use crate::error::Error;
use crate::gpus::ElementKind;

/// There is none.
pub fn run(_: &Calibrate, _: &mut dyn Write) -> Result<(), Error> {
    Err(ElementKind::not_built())
}

/// Links that are timed where nobody asks for others.
pub fn links() -> Vec<LinkArg> {
    Vec::new()
}
