//! Levers of a case: what changes of its step would be worth, with progress and Ctrl-C.

use sim::levers::{Baseline, LeverNote, Watch};
use sim::{Hardware, Simulation};

use crate::interrupt;
use crate::progress::{self, Progress};
use crate::question::Case;

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

/// A bar that goes on with each change of a single stage or link, until a Ctrl-C.
pub struct OnBar<'a> {
    pub baseline: Baseline<'a>,
    pub bar: &'a Progress,
}

impl Watch for OnBar<'_> {
    fn begin(&self, places: u64, passes: u64) {
        self.bar.add(places);
        // Where the order follows the times it is made anew for each change.
        let rebuilds = self.baseline.family.is_some_and(|family| family.depends_on_times());
        let steps = self.baseline.simulation.hardware().map(|hardware: &Hardware| hardware.steps);
        let per_second = match steps {
            Some(_) => 2_000_000,
            None if rebuilds => 10_000_000,
            None => 50_000_000,
        };
        let what = "every single stage and link is changed in turn";
        progress::foretell(u128::from(passes) * u128::from(steps.unwrap_or(1)), per_second, what);
    }

    fn reached(&self) {
        self.bar.inc(1);
    }

    fn stopped(&self) -> bool {
        interrupt::asked()
    }
}

/// What is assumed or left out, in words.
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
