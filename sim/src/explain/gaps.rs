//! The causes of each single gap.

use pipeline::{Fault, Nanos};

use super::cause::CAUSES;
use super::causes::{Times, average, differences};
use super::chain::Step;

/// The idle time of the last step, gap by gap: [`crate::Simulation::gaps`].
///
/// The order of slots is the same in all the runs whose differences are the [`super::Causes`]: the gap
/// before a slot is given the changes of that gap, and what is left of the step after a stage's last
/// slot and its optimizer the changes of that. So the causes of a gap add up to its length, and over
/// all gaps of a stage, with what is exposed in its slots, to those of [`super::Causes`], to the
/// nanosecond.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gaps {
    /// By stage, when the step begins.
    pub begins: Vec<Nanos>,
    /// How long it takes.
    pub cost: Nanos,
    /// Duration of the optimizer of a stage.
    pub optimizer: Nanos,
    /// By stage, for each slot of the step the gap before it, then the one after the last: by cause,
    /// in the order of [`super::Cause::ALL`].
    pub stages: Vec<Vec<[i64; CAUSES]>>,
    /// By stage, what is owed to each cause within slots, where passes share streams: time in which only
    /// the communication stream runs.
    pub in_slots: Vec<[i64; CAUSES]>,
}

impl Gaps {
    /// The sum over all gaps and slots of `stage`, equal to its idle time in [`super::Causes`].
    ///
    /// # Panics
    /// If there is no such stage.
    #[must_use]
    pub fn of_stage(&self, stage: usize) -> [i64; CAUSES] {
        let (gaps, in_slots) = (&self.stages[stage], &self.in_slots[stage]);
        std::array::from_fn(|cause| {
            gaps.iter().map(|gap| gap[cause]).sum::<i64>() + in_slots[cause]
        })
    }

    /// Of a stage of average idleness: what [`super::Causes::average`] says.
    #[must_use]
    pub fn average(&self) -> [i64; CAUSES] {
        let stages: Vec<_> = (0..self.stages.len()).map(|stage| self.of_stage(stage)).collect();
        average(&stages)
    }

    /// From runs of which each leaves out one cause more than the one before; `actual` is the first.
    pub(crate) fn between(
        times: &[Times; CAUSES],
        runs: &[Lengths],
        actual: &Step<'_>,
        optimizer: Nanos,
    ) -> Result<Self, Fault> {
        let signed =
            |length: u64| i64::try_from(length).map_err(|_| Fault::Overflow { what: "the times" });
        let gap = |stage: usize, at: usize| {
            let mut left = [0; CAUSES];
            for (left, run) in left.iter_mut().zip(runs) {
                *left = signed(run[stage][at])?;
            }
            Ok(differences(left))
        };
        let in_slots = |stage: usize| {
            let mut left = [0; CAUSES];
            for (left, times) in left.iter_mut().zip(times) {
                *left = signed(times.exposed(stage).0)?;
            }
            Ok(differences(left))
        };
        let gaps = |stage: usize| (0..runs[0][stage].len()).map(|at| gap(stage, at)).collect();
        Ok(Self {
            begins: actual.begins.clone(),
            cost: actual.cost,
            optimizer,
            stages: (0..actual.spans.len()).map(gaps).collect::<Result<_, Fault>>()?,
            in_slots: (0..actual.spans.len()).map(in_slots).collect::<Result<_, Fault>>()?,
        })
    }
}

/// By stage, the length of the gap before each slot, and of the one after the last.
pub(crate) type Lengths = Vec<Vec<u64>>;

impl Step<'_> {
    /// The lengths of all gaps, where each stage ends with an optimizer step.
    pub(crate) fn lengths(&self, optimizer: Nanos) -> Lengths {
        let of_stage = |(spans, begin): (&&[pipeline::Span], &Nanos)| {
            let mut before = *begin;
            let mut lengths: Vec<u64> = Vec::with_capacity(spans.len() + 1);
            for span in *spans {
                lengths.push((span.start - before).0);
                before = span.end;
            }
            let used = (before - *begin).0.saturating_add(optimizer.0);
            lengths.push(self.cost.0.saturating_sub(used));
            lengths
        };
        self.spans.iter().zip(&self.begins).map(of_stage).collect()
    }
}
