//! Causes of the bubble, critical path and levers of a case.

mod explanation;
pub mod levers;
pub mod quantities;
pub mod report;
mod streams;

use sim::explain::Waits;
use sim::levers::Levers;

use crate::outcome::{self, Outcome};
use crate::pairs;
pub use explanation::Explanation;
use levers::Watched;
use question::{Context, Diagnostic, Work};

impl Explanation {
    /// Explains `outcome`, with each gap if `gaps` are wanted, and tells `work` of every run that it
    /// takes.
    pub fn of(
        context: &Context<'_>,
        outcome: &Outcome,
        gaps: bool,
        work: &dyn Work,
    ) -> Result<Self, Diagnostic> {
        let case = &outcome.case;
        work.add(1);
        let run = outcome::recorded(outcome)?;
        let (simulation, nominal) = (outcome.simulation(), outcome.nominal.as_ref());
        let idle = match gaps {
            true => simulation.causes_and_gaps(&run, nominal).map(|(all, gaps)| (all, Some(gaps))),
            false => simulation.causes(&run, nominal).map(|causes| (causes, None)),
        };
        let (causes, gaps) = idle.map_err(|error| case.error(&error))?;
        let devices = outcome.devices();
        let path = Waits::new(&case.schedule, &run, &devices).critical_path();
        let summary = path.summary(case.schedule.shape().stages());
        work.inc(1);
        let baseline = levers::baseline(case, simulation);
        let levers = Levers::of(&baseline, causes.cost, &Watched { context, baseline, work })
            .map_err(|error| case.error(&error))?;
        let pairs = pairs::of(case).unwrap_or_default();
        Ok(Self { causes, gaps, path: path.links, summary, levers, pairs })
    }
}
