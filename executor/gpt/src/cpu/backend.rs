//! The cores of this machine as a kind of device.

use std::thread;

use profile::{Element, LinkKind, Machine};

use super::Cpu;
use crate::devices::{About, Devices};
use crate::execution::{Executed, Execution, ExecutionError, Joins};
use crate::target::Target;
use crate::transport::Transport;
use runtime::DeviceError;

/// The cores of this machine.
pub const CPU: About = About {
    name: "cpu",
    alias: None,
    runs: "A GPT, on the cores of this machine",
    is_timed: Some("One core of the host, in f32"),
    title: "cpu",
    elements: &[Element::F32],
    transports: &[Transport::Tcp],
    is_host: true,
    has_units: false,
    variable: None,
};

/// The name of a core in profiles.
pub const ONE_CORE: &str = "cpu, one core";

/// Tolerance of losses and gradients in f32 against the reference, which may be in f64.
pub const F32_TOLERANCE: f64 = 1e-4;

/// The cores that the process may use, one thread for each stage.
#[derive(Debug)]
pub struct Cores;

impl Joins for Cpu<f32> {}

impl Devices for Cores {
    fn name(&self) -> &str {
        ONE_CORE
    }

    fn side_by_side(&self, stages: usize) -> usize {
        stages.min(thread::available_parallelism().map_or(1, usize::from))
    }

    fn execute(&self, execution: &Execution) -> Result<Executed, ExecutionError> {
        execution.train(|_| Ok(Cpu::<f32>::new()), || Ok(Cpu::new()), F32_TOLERANCE)
    }
}

/// Links that are timed by default.
pub fn links() -> Vec<LinkKind> {
    vec![LinkKind::Queue, LinkKind::Tcp, LinkKind::Copy]
}

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

    fn peak(&self, _: usize) -> usize {
        512
    }

    fn describe(&self, machine: Machine) -> Machine {
        Machine { device: ONE_CORE.to_owned(), ..machine }
    }
}
