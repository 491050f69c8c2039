//! The spans of a rank by step: those that lie within the span of the step.

use std::collections::BTreeMap;

use pipeline::{Kind, Nanos};

use super::{Span, SpanFault, What};

/// From when to when something ran.
pub(super) type Time = (Nanos, Nanos);

/// The spans of a rank in a step.
#[derive(Default)]
pub(super) struct Step {
    pub(super) whole: Time,
    pub(super) microbatches: u32,
    pub(super) forwards: Vec<Time>,
    pub(super) backwards: Vec<Time>,
    pub(super) optimizer: Vec<Time>,
    pub(super) reductions: Vec<Time>,
}

impl Step {
    /// Chunks of the rank, if it has all its passes.
    pub(super) fn chunks(&self) -> Option<u32> {
        let passes = u32::try_from(self.forwards.len()).ok()?;
        let is_whole = self.forwards.len() == self.backwards.len()
            && passes > 0
            && self.microbatches > 0
            && passes % self.microbatches == 0;
        is_whole.then(|| passes / self.microbatches)
    }

    /// The times of all that it has, but its own.
    pub(super) fn times(&self) -> impl Iterator<Item = Time> + '_ {
        let passes = self.forwards.iter().chain(&self.backwards);
        passes.chain(&self.optimizer).chain(&self.reductions).copied()
    }

    /// Forward passes before the first backward pass.
    pub(super) fn first(&self) -> usize {
        let backward = self.backwards.first().map_or(Nanos(u64::MAX), |one| one.0);
        self.forwards.iter().filter(|one| one.0 < backward).count()
    }
}

/// The steps of `rank`, whose spans these are.
pub(super) fn of(rank: u32, mut spans: Vec<Span>) -> Result<BTreeMap<u64, Step>, SpanFault> {
    // An exporter that tries again sends the same span twice.
    spans.sort_unstable();
    spans.dedup();
    let mut steps: Vec<(u64, Step)> = Vec::new();
    for one in &spans {
        if let What::Step(number) = one.what {
            let step = Step { whole: (one.start, one.end), ..Step::default() };
            steps.push((number, step));
        }
    }
    for one in spans {
        let after = steps.partition_point(|(_, step)| step.whole.0 <= one.start);
        let Some((_, step)) = after.checked_sub(1).and_then(|at| steps.get_mut(at)) else {
            continue;
        };
        let time = (one.start, one.end);
        if time.1 > step.whole.1 {
            continue;
        }
        match one.what {
            What::Step(_) => {}
            What::Passes(microbatches) => step.microbatches = microbatches,
            What::Pass(Kind::F) => step.forwards.push(time),
            What::Pass(_) => step.backwards.push(time),
            What::Optimizer => step.optimizer.push(time),
            What::Reduction => step.reductions.push(time),
        }
    }
    let mut numbered = BTreeMap::new();
    for (number, step) in steps {
        if numbered.insert(number, step).is_some() {
            return Err(SpanFault::StepTwice { rank, step: number });
        }
    }
    Ok(numbered)
}
