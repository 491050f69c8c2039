//! Changes at random, fewer and fewer of them for the worse.
// Rounding of times does not matter to a search.
#![allow(clippy::cast_precision_loss)]

use super::{Change, Local};
use crate::annealing::{self, Cooling, Tolerance, Walker};
use crate::chance::Chance;
use crate::timing::Score;

/// After how many changes slots are sorted by time again.
const SORTED: u32 = 500;
/// Of so many changes one splits a backward or makes it whole, where backwards may be whole.
const FLIPS: usize = 4;

/// Annealing by the nominal times.
impl Walker for Local<'_> {
    type Value = Score;
    type Order = Vec<u16>;
    type Change = Change;
    /// A millisecond.
    const ASKED: u64 = 20_000;

    fn value(&self) -> Score {
        self.score
    }

    fn export(&self, into: &mut Vec<u16>) {
        self.sequence(into);
    }

    fn spent(&self) -> u64 {
        self.steps
    }

    fn propose(&mut self, chance: &mut Chance) -> Option<Change> {
        self.steps += 2;
        self.change(chance)
    }

    /// The passes whose times change are timed again only if an estimate looks good.
    fn takes(&mut self, change: &Change, tolerance: Tolerance<'_>) -> bool {
        let (now, more) = (self.score, tolerance.draw());
        if self.estimate(change.low, change.high) as f64 > now.cost as f64 + more {
            return false;
        }
        let whole = self.find_ends(change.low, change.high);
        self.measure();
        let taken = whole && self.energy(self.score) <= self.energy(now) + more;
        if taken {
            self.settle(change);
        } else {
            self.restore_ends();
            self.score = now;
        }
        taken
    }

    fn undo(&mut self, change: Change) {
        self.take_back(&change);
    }

    fn is_done(&self) -> bool {
        self.score.cost <= self.goal
    }
}

impl Local<'_> {
    /// Anneals until the cooling ends, or the cost is `goal`; `weight` is that of the mean stage beside the worst. The
    /// best sequence met goes to `best`.
    pub(crate) fn anneal(
        &mut self,
        (chance, cooling): (&mut Chance, Cooling),
        (goal, weight): (i64, f64),
        best: &mut (Score, Vec<u16>),
        stop: &dyn Fn() -> bool,
    ) {
        (self.goal, self.weight) = (goal, weight);
        self.find_joints(chance);
        annealing::anneal(self, (chance, cooling), best, stop);
    }

    /// The energy that annealing minimises: the cost, and the weighted mean over the stages.
    fn energy(&self, score: Score) -> f64 {
        score.cost as f64 + self.weight * score.sum as f64 / self.compiled.stages as f64
    }

    /// Takes over `change`, whose ends are found.
    fn settle(&mut self, change: &Change) {
        self.moved.clear();
        self.find_rests(change.low, change.high);
        self.changes += 1;
        if self.changes == SORTED {
            self.sort();
        }
    }

    /// Draws a change and makes it; `None` if nothing can move there, or memory lacks.
    fn change(&mut self, chance: &mut Chance) -> Option<Change> {
        if self.compiled.mixes && chance.below(FLIPS) == 0 {
            let backward = self.draw_backward(chance);
            return self.apply_flip(backward);
        }
        let (from, to) = self.draw(chance);
        if from == to { None } else { self.apply(from, to) }
    }

    /// A backward pass, as its B: mostly one at the longest chain.
    fn draw_backward(&mut self, chance: &mut Chance) -> u32 {
        let joint = if chance.below(4) == 0 { None } else { self.joint(chance) };
        let near = joint.map(|slot| self.order[slot - chance.below(2)]);
        let lane_of = |pass: u32| self.lane[pass as usize] as usize;
        if let Some(pass) = near {
            if self.compiled.is_backward(lane_of(pass)) {
                return pass;
            }
            if self.compiled.is_weight(lane_of(pass)) {
                return pass - self.weight_after();
            }
        }
        let [stage, chunk] =
            [self.compiled.stages, self.compiled.chunks].map(|all| chance.below(all));
        let lane = stage * self.compiled.width + self.compiled.chunks + chunk;
        let columns = self.compiled.microbatches as usize;
        u32::try_from(lane * columns + chance.below(columns)).unwrap_or(0)
    }

    /// A slot whose pass joins that of the slot before on the longest chain.
    fn joint(&mut self, chance: &mut Chance) -> Option<usize> {
        for _ in 0..2 {
            if let Some(at) = self.joints.len().checked_sub(1) {
                let slot = self.joints[chance.below(at + 1)] as usize;
                if self.is_joint(slot) {
                    return Some(slot);
                }
            }
            self.find_joints(chance);
        }
        self.joints.first().map(|&slot| slot as usize)
    }

    /// Draws a move, as a pair of slots: mostly one of two adjacent passes on the longest chain,
    /// past the other.
    fn draw(&mut self, chance: &mut Chance) -> (usize, usize) {
        let far = annealing::draw_distance(chance);
        let back = chance.below(2) == 0;
        let joint = if chance.below(8) == 0 { None } else { self.joint(chance) };
        let from = match joint {
            Some(slot) => slot - usize::from(!back),
            None => chance.below(self.order.len()),
        };
        (from, self.reach(from, far, back))
    }
}

#[cfg(test)]
mod tests {
    use pipeline::Family;

    use super::*;
    use crate::Objective;
    use crate::compiled_instance::tests::{case, case_of, cases};
    use crate::timing::Clock;

    #[test]
    fn what_is_found_costs_what_the_clock_says_and_keeps_the_limits() {
        for objective in [Objective::Span, Objective::Makespan] {
            for (family, size, again) in cases() {
                let (compiled, sequence) = case_of(family, size, objective, again);
                let mut clock = Clock::default();
                let before = clock.time(&compiled, &sequence).unwrap();
                let mut local = Local::new(&compiled, &sequence, &mut Clock::default()).unwrap();
                let mut best = (Score::WORST, Vec::new());
                let cooling = Cooling::between((60.0, 1.0), 1.0, 200_000);
                local.anneal((&mut Chance::new(1, 0), cooling), (0, 0.3), &mut best, &|| false);
                assert_eq!(
                    clock.time(&compiled, &best.1),
                    Some(best.0),
                    "{family:?} {objective:?}"
                );
                assert!(best.0 < before, "{family:?} {objective:?}: {before:?}");
            }
        }
    }

    /// Timing only what changes, thousands of times, gives the same as timing everything.
    #[test]
    fn times_are_right_after_many_changes() {
        for (family, size, again) in cases() {
            let (compiled, sequence) = case_of(family, size, Objective::Span, again);
            let mut clock = Clock::default();
            let mut local = Local::new(&compiled, &sequence, &mut clock).unwrap();
            let cooling = Cooling::between((90.0, 30.0), 1.0, 100_000);
            let mut best = (Score::WORST, Vec::new());
            local.anneal((&mut Chance::new(2, 0), cooling), (0, 0.3), &mut best, &|| false);
            let mut now = Vec::new();
            local.sequence(&mut now);
            assert_ne!(now, sequence, "{family:?}");
            let anew = Local::new(&compiled, &now, &mut clock).unwrap();
            assert_eq!((&local.end, &local.rest), (&anew.end, &anew.rest), "{family:?}");
            assert_eq!((local.score, &local.held), (anew.score, &anew.held), "{family:?}");
        }
    }

    /// A cycle of passes is detected by times that grow without bound; passes of zero duration do not grow.
    #[test]
    fn passes_that_take_no_time_are_left_alone() {
        let (mut compiled, sequence) = case(Family::ZbH1, [4, 12], Objective::Span);
        for lane in &mut compiled.lanes {
            (lane.duration, lane.hop) = (0, 0);
        }
        assert!(Local::new(&compiled, &sequence, &mut Clock::default()).is_none());
    }

    /// The longest chain through any pass is the cost where nothing has changed.
    #[test]
    fn chains_through_passes_are_no_longer_than_the_cost() {
        let (compiled, sequence) = case(Family::ZbV, [4, 10], Objective::Span);
        let mut local = Local::new(&compiled, &sequence, &mut Clock::default()).unwrap();
        let cost = local.score.cost;
        let chains: Vec<i64> =
            (0..compiled.passes()).map(|slot| local.estimate(slot, slot)).collect();
        assert_eq!(chains.iter().copied().max(), Some(cost));
        local.find_joints(&mut Chance::new(0, 0));
        assert!(!local.joints.is_empty());
        assert!(local.joints.iter().all(|&slot| chains[slot as usize] == cost));
    }
}
