//! Changes at random, fewer and fewer of them for the worse.
// Times lose nothing that a search minds.
#![allow(clippy::cast_precision_loss)]

use super::Local;
use crate::chain::Halt;
use crate::chance::Chance;
use crate::net::Net;
use crate::timing::Score;

impl Local<'_> {
    /// Tries changes until `steps` are spent, or the goal is reached. Worse orders are taken with a
    /// probability that falls as it cools down. The best sequence met goes to `best`.
    pub(crate) fn anneal(
        &mut self,
        chance: &mut Chance,
        plan: Plan,
        best: &mut (Score, Vec<u16>),
        halt: &Halt<'_>,
    ) {
        self.find_joints(chance);
        let mut tries = 0u32;
        let mut timed = true;
        loop {
            let now = self.times.score;
            if now < best.0 {
                best.0 = now;
                self.sequence(&mut best.1);
            }
            tries = tries.wrapping_add(1);
            let over = self.steps >= plan.steps || now.cost <= plan.goal;
            // To time a large pipeline takes long, to estimate a change does not.
            if over || ((timed || tries.is_multiple_of(256)) && halt.now()) {
                return;
            }
            timed = false;
            self.steps += 1;
            let (from, to) = self.draw(chance);
            if from == to {
                continue;
            }
            let Some(change) = self.apply(from, to) else { continue };
            let more = chance.worse(plan.heat(self.steps));
            if self.estimate(change.low, change.high) as f64 > now.cost as f64 + more {
                self.undo(&change);
                continue;
            }
            std::mem::swap(&mut self.times, &mut self.before);
            timed = true;
            if self.time()
                && plan.energy(self.net, self.times.score) <= plan.energy(self.net, now) + more
            {
                self.find_joints(chance);
            } else {
                std::mem::swap(&mut self.times, &mut self.before);
                self.undo(&change);
            }
        }
    }

    /// Which pass to move where: mostly one of two that touch on the longest chain, past the other.
    fn draw(&self, chance: &mut Chance) -> (usize, usize) {
        const FAR: [usize; 8] = [1, 1, 1, 2, 3, 5, 9, 17];
        let far = FAR[chance.below(FAR.len())];
        let far = 1 + chance.below(far);
        let back = chance.below(2) == 0;
        let from = match chance.below(8) {
            0 => chance.below(self.order.len()),
            _ if self.joints.is_empty() => chance.below(self.order.len()),
            _ => self.joints[chance.below(self.joints.len())] as usize - usize::from(!back),
        };
        (from, self.reach(from, far, back))
    }
}

/// How an annealing goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) steps: u64,
    pub(crate) goal: i64,
    pub(crate) hot: f64,
    pub(crate) cold: f64,
    /// What the average stage weighs beside the worst.
    pub(crate) weight: f64,
}

impl Plan {
    /// The temperature after `steps`, in nanoseconds of the energy.
    fn heat(self, steps: u64) -> f64 {
        let done = steps as f64 / self.steps.max(1) as f64;
        self.hot * (self.cold / self.hot).powf(done)
    }

    /// What is made small: the cost, and the average stage beside it.
    fn energy(self, net: &Net, score: Score) -> f64 {
        score.cost as f64 + self.weight * score.sum as f64 / net.stages as f64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use pipeline::Family;

    use super::*;
    use crate::Objective;
    use crate::net::tests::case;
    use crate::timing::Clock;

    #[test]
    fn what_is_found_costs_what_the_clock_says_and_keeps_the_limits() {
        for objective in [Objective::Span, Objective::Makespan] {
            for (family, p, m) in
                [(Family::ZbH1, 4, 12), (Family::ZbV, 4, 10), (Family::Interleaved, 3, 6)]
            {
                let (net, sequence) = case(family, [p, m], objective);
                let mut clock = Clock::default();
                let before = clock.time(&net, &sequence).unwrap();
                let mut local = Local::new(&net, &sequence).unwrap();
                let mut best = (Score::WORST, Vec::new());
                let solved = AtomicUsize::new(usize::MAX);
                let halt = Halt { stop: &|| false, solved: &solved, number: 0 };
                let plan = Plan { steps: 200_000, goal: 0, hot: 60.0, cold: 1.0, weight: 0.3 };
                local.anneal(&mut Chance::new(1, 0), plan, &mut best, &halt);
                assert_eq!(clock.time(&net, &best.1), Some(best.0), "{family:?} {objective:?}");
                assert!(best.0 < before, "{family:?} {objective:?}: {before:?}");
            }
        }
    }

    /// The longest chain through any pass is the cost where nothing has changed.
    #[test]
    fn chains_through_passes_are_no_longer_than_the_cost() {
        let (net, sequence) = case(Family::ZbV, [4, 10], Objective::Span);
        let mut local = Local::new(&net, &sequence).unwrap();
        let cost = local.times.score.cost;
        let chains: Vec<i64> = (0..net.passes()).map(|slot| local.estimate(slot, slot)).collect();
        assert_eq!(chains.iter().copied().max(), Some(cost));
        local.find_joints(&mut Chance::new(0, 0));
        assert!(!local.joints.is_empty());
        assert!(local.joints.iter().all(|&slot| chains[slot as usize] == cost));
    }
}
