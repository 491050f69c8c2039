//! Why there is a bubble, and what it is worth: causes, critical path and levers of a case.

pub mod levers;
pub mod report;

use sim::explain::{Causes, Link, Summary, Waits};

use crate::outcome;
use crate::outcome::Outcome;
use levers::Levers;
use question::Diagnostic;
use question::{Context, Work};

/// Why the stages of a case wait.
pub struct Explanation {
    /// The causes of their idle time.
    pub causes: Causes,
    /// The chain of slots and transfers that makes the step as long as it is.
    pub path: Vec<Link>,
    /// The parts of that chain.
    pub summary: Summary,
    /// The changes that would shorten the step, and by how much.
    pub levers: Levers,
}

impl Explanation {
    /// Explains `outcome`, and tells `bar` of every run that it takes.
    ///
    /// # Errors
    /// If the clock overflows, or a run without one of the causes gets stuck.
    pub fn of(
        context: &Context<'_>,
        outcome: &Outcome,
        bar: &dyn Work,
    ) -> Result<Self, Diagnostic> {
        let case = &outcome.case;
        bar.add(1);
        let run = outcome::recorded(outcome)?;
        let causes = match &case.hardware {
            Some(hardware) => Causes::of_engine(&hardware.job(case), &run)
                .map_err(|error| outcome::named(case, &error))?,
            None => Causes::of_replay(&case.schedule, case.problem.costs(), &outcome.metrics)
                .map_err(|fault| outcome::named(case, &fault))?,
        };
        let devices = outcome.devices();
        let path = Waits::new(&case.schedule, &run, &devices).critical_path();
        let summary = path.summary(case.schedule.shape().stages());
        bar.inc(1);
        let levers = Levers::of(context, outcome, causes.cost, bar)?;
        Ok(Self { causes, path: path.links, summary, levers })
    }
}
