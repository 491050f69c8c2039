//! Times the passes of a sequence, each as early as it can run.

pub(crate) use sim::graph::Score;

use crate::compiled_instance::{CompiledInstance, NONE};

/// The score where stages start their first pass at `first` and end their last at `free`.
pub(crate) fn score(compiled: &CompiledInstance, first: &[i64], free: &[i64]) -> Score {
    let stages = first.iter().zip(free);
    Score::of_spans(
        stages.map(|(first, free)| if compiled.makespan { *free } else { free - first }),
    )
}

/// Buffers for timing, allocated once and reused.
#[derive(Clone, Default)]
pub(crate) struct Clock {
    /// End of each pass: lane by lane, one column per microbatch.
    pub(crate) ends: Vec<i64>,
    /// By lane, how many of its passes have run.
    pub(crate) next: Vec<u32>,
    /// By stage, its place in its order.
    pub(crate) at: Vec<usize>,
    /// By stage, when it is free.
    pub(crate) free: Vec<i64>,
    /// By stage, what it holds.
    pub(crate) held: Vec<i64>,
    /// Start of the first pass of each stage.
    pub(crate) first: Vec<i64>,
    /// Stages that are ready to advance.
    pub(crate) ready: Vec<usize>,
    /// Whether the backward of each B and W is whole; empty where none may be.
    pub(crate) whole: Vec<bool>,
}

impl Clock {
    /// Times `sequence`; `None` if passes wait for each other, or a stage goes over its limit.
    pub(crate) fn time(&mut self, compiled: &CompiledInstance, sequence: &[u16]) -> Option<Score> {
        self.prepare(compiled);
        let each = compiled.passes_per_stage();
        while let Some(stage) = self.ready.pop() {
            while self.at[stage] < each {
                let (lane, whole) = compiled.lane_of(sequence[stage * each + self.at[stage]]);
                if !self.place(compiled, stage, (stage * compiled.width + lane, whole))? {
                    break;
                }
                self.at[stage] += 1;
            }
        }
        self.at.iter().all(|&at| at == each).then(|| score(compiled, &self.first, &self.free))
    }

    /// Does the next pass of `lane`, unless what it needs is not made: then `false`.
    fn place(
        &mut self,
        compiled: &CompiledInstance,
        stage: usize,
        (lane, whole): (usize, bool),
    ) -> Option<bool> {
        let columns = compiled.microbatches as usize;
        let (one, number) = (&compiled.lanes[lane], self.next[lane]);
        let mut start = self.free[stage];
        if one.local != NONE && self.next[one.local as usize] <= number {
            return None;
        }
        if one.remote != NONE {
            let remote = one.remote as usize;
            if self.next[remote] <= number {
                return Some(false);
            }
            start = start.max(self.ends[remote * columns + number as usize] + one.hop);
        }
        let whole = compiled.mixes && self.is_whole(compiled, lane, number, whole);
        let effect = compiled.effect(lane, number as usize, whole);
        self.held[stage] += effect.take;
        let after = self.held[stage] + effect.leave;
        if self.held[stage].max(after) > compiled.limit[stage] {
            return None;
        }
        self.held[stage] = after;
        if self.at[stage] == 0 {
            self.first[stage] = start;
        }
        self.free[stage] = start + effect.duration;
        self.ends[lane * columns + number as usize] = self.free[stage];
        self.next[lane] = number + 1;
        if one.wakes != NONE {
            self.ready.push(one.wakes as usize);
        }
        Some(true)
    }

    /// Whether the backward of a pass is whole, which B says and W has to ask; notes it for both.
    fn is_whole(
        &mut self,
        compiled: &CompiledInstance,
        lane: usize,
        number: u32,
        whole: bool,
    ) -> bool {
        let columns = compiled.microbatches as usize;
        let at = lane * columns + number as usize;
        if compiled.is_backward(lane) {
            self.whole[at] = whole;
            self.whole[at + compiled.chunks * columns] = whole;
        }
        self.whole[at]
    }

    /// Goes back to the beginning of `compiled`.
    pub(crate) fn prepare(&mut self, compiled: &CompiledInstance) {
        self.ends.resize(compiled.passes(), 0);
        if compiled.mixes {
            self.whole.resize(compiled.passes(), false);
        }
        self.next.clear();
        self.next.resize(compiled.lanes.len(), 0);
        for per_stage in [&mut self.free, &mut self.held, &mut self.first] {
            per_stage.clear();
            per_stage.resize(compiled.stages, 0);
        }
        self.at.clear();
        self.at.resize(compiled.stages, 0);
        self.ready.clear();
        self.ready.extend((0..compiled.stages).rev());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiled_instance::tests::{case_of, cases};
    use crate::instance::Objective;

    /// The longest chain of passes is as long from its end as from its beginning.
    #[test]
    fn an_order_takes_as_long_with_time_running_back() {
        for (family, size, again) in cases() {
            let (compiled, sequence) = case_of(family, size, Objective::Makespan, again);
            let (reversed, length) = (compiled.reversed(), sequence.len() / compiled.stages);
            let stages = sequence.chunks_exact(length);
            let back: Vec<u16> = stages.flat_map(|stage| stage.iter().rev().copied()).collect();
            let mut clock = Clock::default();
            let forth = clock.time(&compiled, &sequence).unwrap().cost;
            assert_eq!(clock.time(&reversed, &back).unwrap().cost, forth, "{family:?}");
        }
    }
}
