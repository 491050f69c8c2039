//! The question of a search on hardware: the figure, and the hardware.

use pipeline::{Problem, Schedule};
use sim::Hardware;
use sim::boundary::Synchronisation;

use crate::instance::Objective;

/// Objective of a search on hardware, to be minimised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// The longest time from the first to the last pass of a stage, in the last step.
    Span,
    /// The time from the first pass of the last step to the end of its last one.
    Makespan,
    /// The time per step, with everything between two steps ([`sim::engine::Run::step_time`]).
    Step,
}

impl Figure {
    /// The cost that stands for it where links are not shared: the makespan where stages synchronise before the next
    /// step, or where there is no next one; the span where each stage runs on independently.
    #[must_use]
    pub fn objective(self, hardware: &Hardware) -> Objective {
        let meets = hardware.boundary.synchronisation == Synchronisation::Barrier;
        match self {
            Self::Span => Objective::Span,
            Self::Makespan => Objective::Makespan,
            Self::Step if meets || hardware.steps == 1 => Objective::Makespan,
            Self::Step => Objective::Span,
        }
    }
}

/// A search on hardware: the hardware, the objective and the starting orders.
#[derive(Clone, Copy, Debug)]
pub struct OnHardware<'a> {
    /// The hardware that the pipeline runs on.
    pub hardware: &'a Hardware,
    /// Objective to minimise.
    pub figure: Figure,
    /// The problem for which published schedules make their orders when they are simulated.
    pub asked: &'a Problem,
    /// Further orders that are evaluated, too. Those that do not fit the instance are skipped.
    pub known: &'a [&'a Schedule],
}
