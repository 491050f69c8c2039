//! Orders on a grid, from which a search starts where the first stage holds fewer microbatches than there are stages.
//!
//! Forwards on their way down and backwards on their way up do not meet if they start at multiples of g, the time of F
//! and B and of a hop each way, in the mean over the stages. A microbatch is back after p of these slots, and its W is
//! done before the F that takes its memory after p + 1. So the K microbatches that the first stage holds share p + 1
//! slots, as evenly as they can, and W fill the slots between: a round takes (p + 1) g. Where those have no room for
//! all W, a round takes more slots, or W wait as long as memory allows.

use rayon::prelude::*;

use crate::compiled_instance::CompiledInstance;
use crate::forward_backward::FollowTimes;
use crate::list_scheduler::State;
use crate::side_by_side::Stop;
use crate::timing::Score;
use crate::tune;

/// Slots and phases are counted in quarters.
const QUARTERS: i64 = 4;
/// The sixteenths of p quarters of a slot that a round takes beyond p + 1 slots.
const MORE: [i64; 4] = [0, 1, 2, 3];
/// The slots that are left free one after the other.
const FREE: [i64; 3] = [1, 2, 4];
/// The quarters of them by which rounds are shifted.
const PHASES: [i64; 2] = [0, 2];
/// By how many halves of p slots, and two more, a W is desired after its B.
const LATE: [i64; 3] = [0, 1, 2];
/// No more orders on a grid are placed.
const ORDERS: u64 = 80;
/// The most that they take of the steps of a search.
const SHARE: (u64, u64) = (3, 5);

/// The best order on a grid, the first of equal ones, if there is one that fits, and the passes placed to find it: none
/// if that takes more than its share of `total`. Once `stop` returns true, no more are placed.
pub(crate) fn best(
    compiled: &CompiledInstance,
    total: u64,
    stop: Stop<'_>,
) -> (Option<(Score, Vec<u16>)>, u64) {
    let takes = ORDERS * compiled.passes() as u64;
    if compiled.chunks > 1 || compiled.is_roomy() || takes > total / SHARE.1 * SHARE.0 {
        return (None, 0);
    }
    let grid = Grid::of(compiled);
    if grid.is_too_long(compiled) {
        return (None, 0);
    }
    let nothing = || ((Score::WORST, Vec::new()), 0);
    let placed = |rhythm: &Rhythm| {
        if stop() {
            return nothing();
        }
        let rule = FollowTimes::exactly(compiled, grid.starts(compiled, rhythm));
        let mut state = State::default();
        let score = state.run(compiled, &rule).unwrap_or(Score::WORST);
        let steps = state.placed();
        ((score, state.sequence), steps)
    };
    let better = |one: Placed, other: Placed| {
        let steps = one.1 + other.1;
        (if other.0.0 < one.0.0 { other.0 } else { one.0 }, steps)
    };
    let (best, steps) = grid.rhythms().par_iter().map(placed).reduce(nothing, better);
    ((best.0 < Score::WORST).then_some(best), steps)
}

/// An order with its score, and the passes placed to find it.
type Placed = ((Score, Vec<u16>), u64);

/// How rounds lie on the grid.
struct Rhythm {
    /// The quarters of a slot that a round takes beyond p slots.
    more: i64,
    /// The slots that are left free one after the other.
    free: i64,
    /// The quarters of them by which rounds are shifted.
    phase: i64,
    /// The slots by which W are late.
    late: i64,
}

/// A grid, and the times of a microbatch that waits nowhere, in nanoseconds.
struct Grid {
    stages: i64,
    /// The microbatches of a round: as many as the first stage holds.
    round: i64,
    /// g, the length of a slot: the mean over the stages.
    slot: i64,
    /// By lane, the start of its pass, from that of the first F on.
    after: Vec<i64>,
}

impl Grid {
    fn of(compiled: &CompiledInstance) -> Self {
        let [forward, backward, weight, recompute] = [0, 1, 2, 3];
        let lane = |stage: usize, kind: usize| compiled.lanes[stage * compiled.width + kind];
        let mut after = vec![0; compiled.lanes.len()];
        let mut now = 0;
        for stage in 0..compiled.stages {
            now += lane(stage, forward).hop;
            after[stage * compiled.width + forward] = now;
            now += lane(stage, forward).duration;
        }
        for stage in (0..compiled.stages).rev() {
            let first = stage * compiled.width;
            now += lane(stage, backward).hop;
            after[first + backward] = now;
            if compiled.recomputes {
                after[first + recompute] = now - lane(stage, recompute).duration;
            }
            now += lane(stage, backward).duration;
            after[first + weight] = now;
        }
        let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            stages: signed(compiled.stages),
            round: signed(compiled.held(0)),
            slot: tune::trips(compiled).sum::<i64>() / signed(compiled.stages),
            after,
        }
    }

    /// Whether weighted sums of desired starts could overflow.
    fn is_too_long(&self, compiled: &CompiledInstance) -> bool {
        let microbatches = i128::from(compiled.microbatches) + 1;
        let slots = (microbatches + 1) * (2 * i128::from(self.stages) + 2);
        slots * i128::from(self.slot) > i128::from(i64::MAX / 64)
    }

    /// The rhythms to try.
    fn rhythms(&self) -> Vec<Rhythm> {
        let mut more = MORE.map(|part| QUARTERS + part * self.stages / 16).to_vec();
        more.dedup();
        let late = LATE.map(|part| 2 + part * self.stages / 2);
        let lengths = more.into_iter().flat_map(|more| FREE.map(|free| (more, free)));
        let places = lengths.flat_map(|length| PHASES.map(|phase| (length, phase)));
        let rhythms = places
            .flat_map(|((more, free), phase)| late.map(|late| Rhythm { more, free, phase, late }));
        rhythms.collect()
    }

    /// The desired start of each pass, lane by lane, one column per microbatch.
    fn starts(&self, compiled: &CompiledInstance, rhythm: &Rhythm) -> Vec<i64> {
        let Rhythm { more, free, phase, late } = *rhythm;
        let free_in_round = QUARTERS * (self.stages - self.round) + more;
        let entry = |number: i64| {
            let passed = (number * free_in_round / self.round + phase * free) / QUARTERS;
            (number + passed / free * free) * self.slot
        };
        let entries: Vec<i64> = (0..i64::from(compiled.microbatches)).map(entry).collect();
        let lanes = self.after.iter().enumerate();
        let starts = lanes.flat_map(|(lane, after)| {
            let late = if compiled.is_weight(lane) { late * self.slot } else { 0 };
            entries.iter().map(move |entry| entry + after + late)
        });
        starts.collect()
    }
}

#[cfg(test)]
mod tests {
    use pipeline::{
        Bytes, Costs, Footprint, Footprints, Limits, Memory, Nanos, PassTimes, Placement, Shape,
    };

    use super::*;
    use crate::{Effort, Instance, Objective, search};

    const TOTAL: u64 = u64::MAX;

    /// F 23, B 22, W 15, hop 1, in units of `unit`, in `stages` that hold three quarters of the stages.
    fn instance(stages: u64, microbatches: u64, unit: u64) -> Instance {
        let shape = Shape::new(stages, 1, microbatches).unwrap();
        let [forward, backward, weight, hop] = [23, 22, 15, 1].map(|time| Nanos(time * unit));
        let costs = Costs::uniform(shape, PassTimes::new(forward, backward, weight), hop);
        let held = Footprint { until_backward: Bytes(28), until_weight: Bytes(12) };
        let limits = Limits::new(shape, &[Bytes(28 * stages * 3 / 4)]).unwrap();
        Instance::new(
            shape,
            Placement::Looped,
            costs,
            Footprints::uniform(shape, held),
            Some(limits),
            Objective::Span,
        )
        .unwrap()
    }

    /// (p + 1) g is 799.
    #[test]
    fn a_further_round_takes_little_more_than_a_slot_for_each_stage() {
        let cost = |microbatches| {
            let instance = instance(16, microbatches, 1);
            let compiled = CompiledInstance::of(&instance);
            let (score, sequence) = best(&compiled, TOTAL, &|| false).0.unwrap();
            let schedule = compiled.schedule(&instance, &sequence).unwrap();
            let memory = Memory::of(&schedule, &instance.footprints).unwrap();
            assert_eq!(memory.over(instance.limits.as_ref().unwrap()), None);
            score.cost
        };
        let costs = [52, 64, 76, 88].map(cost);
        for pair in costs.windows(2) {
            assert!((780..=840).contains(&(pair[1] - pair[0])), "{costs:?}");
        }
    }

    #[test]
    fn many_microbatches_are_close_to_their_bound() {
        for (stages, at_most) in [(16, 0.03), (32, 0.034)] {
            let instance = instance(stages, 4 * stages, 1_000_000);
            let found = search(&instance, Effort::default(), |_| {}, &|| false).unwrap();
            assert!(found.gap() <= at_most, "{stages} stages: {}", found.gap());
        }
    }

    #[test]
    fn long_times_and_short_searches_have_no_grid() {
        let compiled = |unit| CompiledInstance::of(&instance(8, 16, unit));
        assert!(best(&compiled(1 << 40), TOTAL, &|| false).0.is_some());
        assert!(best(&compiled(1 << 48), TOTAL, &|| false).0.is_none());
        assert_eq!(best(&compiled(1), 1000, &|| false), (None, 0));
        assert_eq!(best(&compiled(1), TOTAL, &|| true), (None, 0));
    }
}
