//! Levers of a case: savings of changes to its step, with progress and interruption.

use sim::levers::{Baseline, LeverNote, Watch};
use sim::{Hardware, Simulation};

use cases::Case;
use question::host::announce_estimate;
use question::{Context, Work};

/// `case`, which `simulation` times, as levers change it.
pub fn baseline<'a>(case: &'a Case, simulation: Simulation<'a>) -> Baseline<'a> {
    Baseline {
        simulation,
        problem: &case.problem,
        family: case.family,
        limits: case.limits.as_ref(),
        layers_per_stage: case.layers_per_stage,
        has_whole_bytes: case.has_whole_bytes,
        microbatch_bytes: case.microbatch_bytes(),
    }
}

/// Progress of the changes of single stages and links, until the user stops it.
pub struct Watched<'a> {
    /// The question, with its host.
    pub context: &'a Context<'a>,
    /// The pipeline that is changed, and its step.
    pub baseline: Baseline<'a>,
    /// The progress that the host shows.
    pub work: &'a dyn Work,
}

impl Watch for Watched<'_> {
    fn begin(&self, places: u64, passes: u64) {
        self.work.add(places);
        // Where the order follows the times it is made anew for each change.
        let rebuilds = self.baseline.family.is_some_and(|family| family.depends_on_times());
        let steps = self.baseline.simulation.hardware().map(|hardware: &Hardware| hardware.steps);
        let per_second = match steps {
            Some(_) => 2_000_000,
            None if rebuilds => 10_000_000,
            None => 50_000_000,
        };
        let what = "every single stage and link is changed in turn";
        let passes = u128::from(passes) * u128::from(steps.unwrap_or(1));
        announce_estimate(self.context.host(), passes, per_second, what);
    }

    fn reached(&self) {
        self.work.inc(1);
    }

    fn stopped(&self) -> bool {
        self.context.stopped()
    }
}

/// The assumption or omission, in words.
pub fn note(note: LeverNote) -> String {
    match note {
        LeverNote::AssumedLayers(layers) => {
            format!("layers per stage are not known: {layers} are assumed")
        }
        LeverNote::OnlyWhole => {
            "the pipeline is large: single stages and links are left out".to_owned()
        }
        LeverNote::Interrupted => {
            "interrupted: not all single stages and links were tried".to_owned()
        }
        LeverNote::StartsCold => "a single step begins on all stages at once, as after a barrier: \
                                  give --steps 2 or more for steps that follow each other without \
                                  one"
        .to_owned(),
    }
}
