//! The step time of an order in a pipeline whose stages run on, and a bound on that of every order.

use pipeline::{Fault, Nanos, Schedule};

use crate::bounds::{self, Bound};
use crate::instance::{Instance, Objective};

/// The steps of a pipeline whose stages do not wait for each other between steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// The time per step in the long run ([`sim::running_step`]): at most the span of the order.
    pub step: Nanos,
    /// No order of the instance takes less per step: the highest bound on the span of one and the same stage.
    pub bound: Bound,
}

impl Running {
    /// Those of `schedule`, an order of `instance`. `None` where the objective is the makespan, after which all stages
    /// meet, and where passes have streams beside them.
    ///
    /// # Errors
    /// If the costs of `instance` are those of another pipeline than that of `schedule`.
    pub fn of(instance: &Instance, schedule: &Schedule) -> Result<Option<Self>, Fault> {
        if instance.objective == Objective::Makespan {
            return Ok(None);
        }
        let step = sim::running_step(schedule, &instance.costs)?;
        Ok(step.map(|step| Self { step, bound: bounds::of_one_stage(instance) }))
    }
}
