//! A device whose passes take their time and compute nothing.

use super::{About, Devices};
use crate::execution::{Executed, Execution, ExecutionError};
use crate::transport::Transport;

/// The name in results.
const TITLE: &str = "timed device";

/// A device that computes nothing.
pub const TIMED: About = About {
    name: "timed",
    alias: None,
    runs: "Nothing: passes and hops take the times of the question, and stages, links and waits are real",
    is_timed: None,
    title: TITLE,
    elements: &[],
    transports: &[Transport::Tcp],
    is_host: true,
    has_units: false,
    variable: None,
};

/// The timed device: its passes only wait.
#[derive(Debug)]
pub struct Clock;

impl Devices for Clock {
    fn name(&self) -> &str {
        TITLE
    }

    fn side_by_side(&self, stages: usize) -> usize {
        stages
    }

    fn execute(&self, execution: &Execution) -> Result<Executed, ExecutionError> {
        execution.take_time()
    }
}
