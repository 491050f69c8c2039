//! What is timed, and what only it knows of itself.

use calibrate::measure::MeasureError;
use calibrate::sample::Rule;
use executor::{Cpu, DeviceError, Ops};
use pipeline::Bytes;
use profile::{Link, LinkKind, Machine};

/// What is timed.
pub trait Target {
    /// Its kernels.
    type Ops: Ops + 'static;

    /// Kernels of one stage.
    fn ops(&self) -> Result<Self::Ops, DeviceError>;

    /// Kernels of the stages that compute beside it, by their number from 0.
    fn neighbours(
        &self,
    ) -> impl Fn(usize) -> Result<Self::Ops, DeviceError> + Clone + Send + 'static;

    /// Rows and columns of the product that shows what it does at its best.
    fn peak(&self) -> usize;

    /// What is known of it.
    fn describe(&self, machine: Machine) -> Machine;

    /// A link of a kind that needs the device; `None` where it has none.
    fn link(
        &self,
        kind: LinkKind,
        message: Bytes,
        overhead: u64,
        rule: &Rule,
        done: &mut dyn FnMut(),
    ) -> Result<Option<Link>, MeasureError>;
}

/// One core.
pub struct Core;

impl Target for Core {
    type Ops = Cpu<f32>;

    fn ops(&self) -> Result<Cpu<f32>, DeviceError> {
        Ok(Cpu::new())
    }

    fn neighbours(
        &self,
    ) -> impl Fn(usize) -> Result<Cpu<f32>, DeviceError> + Clone + Send + 'static {
        |_| Ok(Cpu::new())
    }

    fn peak(&self) -> usize {
        512
    }

    fn describe(&self, machine: Machine) -> Machine {
        machine
    }

    fn link(
        &self,
        _: LinkKind,
        _: Bytes,
        _: u64,
        _: &Rule,
        _: &mut dyn FnMut(),
    ) -> Result<Option<Link>, MeasureError> {
        Ok(None)
    }
}
