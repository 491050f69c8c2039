//! A program without kernels for GPUs: there is none to run on.

use super::Execute;
use super::run::{Outcome, Task};
use crate::error::Error;
use crate::gpus::ElementKind;

/// None.
pub enum Gpus {}

impl Gpus {
    /// There is none.
    pub fn find(_: &Execute) -> Result<Self, Error> {
        Err(ElementKind::not_built())
    }

    /// Not to be called, since there is none.
    pub fn name(&self) -> &str {
        match *self {}
    }

    /// Not to be called, since there is none.
    pub fn side_by_side(&self, _: usize) -> usize {
        match *self {}
    }

    /// Not to be called, since there is none.
    pub fn train(&self, _: &Task) -> Result<Outcome, Error> {
        match *self {}
    }
}
