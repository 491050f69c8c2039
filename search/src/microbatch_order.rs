//! Which microbatch goes when, where their work differs: an order of passes names places, and local search deals the
//! microbatches to them.

use pipeline::Nanos;

use crate::annealing::{self, Cooling, Tolerance, Walker};
use crate::chance::Chance;
use crate::found::Effort;
use crate::side_by_side::{CHAINS, SideBySide, Stop, Strategy, Turn, keep_better};

/// Rounds, after each of which all chains restart from the best order.
const ROUNDS: u32 = 3;
/// The first temperatures of the chains, in mean microbatches.
const TEMPERATURES: [f64; CHAINS] = [0.1, 0.01, 0.001, 0.03];
/// Orders evaluated at the default effort, for each microbatch.
const ORDERS: u64 = 100;

/// Microbatches by place: place k has microbatch `order[k]`.
type Order = Vec<u32>;

/// The value of an order of microbatches; `None` where it has none.
pub type Evaluate<'a> = &'a (dyn Fn(&[u32]) -> Option<f64> + Sync);

/// The best order of microbatches by `evaluate`, which is to be minimised, its value, and the number of orders
/// evaluated; `None` if the order 0, 1, .. has no value. `work` is that of each microbatch.
///
/// The result is the same on any number of threads, as long as `stop` returns false.
#[must_use]
pub fn order_microbatches(
    work: &[Nanos],
    evaluate: Evaluate<'_>,
    effort: Effort,
    stop: Stop<'_>,
) -> Option<(Vec<u32>, f64, u64)> {
    let all = starts(work);
    let tried = all.len() as u64;
    let valued = all.into_iter().filter_map(|order| Some((evaluate(&order)?, order)));
    let best = valued.min_by(|one, other| one.0.total_cmp(&other.0))?;
    let count = work.len() as u64;
    let total = effort.limited().total(ORDERS.saturating_mul(count));
    let each = (total / u64::from(ROUNDS) / CHAINS as u64).max(1);
    #[allow(clippy::cast_precision_loss)] // A temperature.
    let mean = work.iter().copied().sum::<Nanos>().0 as f64 / count.max(1) as f64;
    let steps = if count > 1 { each } else { 0 };
    let dealt = Dealt { evaluate, seed: effort.seed, mean, steps, best };
    let mut search = SideBySide::new(dealt, u64::MAX, |_| (f64::INFINITY, Vec::new()));
    search.run(stop, |_| {});
    let (value, order) = search.strategy.best;
    Some((order, value, tried + search.done))
}

/// The microbatches as they come, the short ones first, the long ones first, and the short or the long ones at both
/// ends.
pub(crate) fn starts(work: &[Nanos]) -> Vec<Order> {
    let given: Order = (0u32..).zip(work).map(|(at, _)| at).collect();
    let mut ascending = given.clone();
    ascending.sort_by_key(|&at| work[at as usize]);
    let descending: Order = ascending.iter().rev().copied().collect();
    let ends = |order: &Order| -> Order {
        let first = order.iter().step_by(2).copied();
        first.chain(order.iter().skip(1).step_by(2).rev().copied()).collect()
    };
    let mut all = vec![given, ends(&ascending), ends(&descending), ascending, descending];
    all.dedup();
    all
}

/// A local search under way.
struct Dealt<'a> {
    evaluate: Evaluate<'a>,
    seed: u64,
    /// The work of the mean microbatch, in nanoseconds.
    mean: f64,
    /// The orders that a chain evaluates in a round.
    steps: u64,
    best: (f64, Order),
}

impl Strategy<(f64, Order)> for Dealt<'_> {
    fn steps(&self, _: u32, _: u64) -> u64 {
        self.steps
    }

    fn search(&self, chain: &mut (f64, Order), turn: &Turn<'_>) -> u64 {
        let number = (3 << 32) | (u64::from(turn.round) << 8) | turn.number as u64;
        let hot = TEMPERATURES[turn.number] * self.mean;
        let cooling = Cooling { hot, ratio: 0.0, steps: turn.steps };
        chain.clone_from(&self.best);
        let mut walk = Walk { evaluate: self.evaluate, now: self.best.clone(), orders: 0 };
        let chance = (&mut Chance::new(self.seed, number), cooling);
        annealing::anneal(&mut walk, chance, chain, &|| turn.is_over());
        walk.orders
    }

    fn gather(&mut self, _: u32, chains: &mut [(f64, Order)], spent: &[u64]) -> u64 {
        chains.iter().for_each(|chain| keep_better(&mut self.best, chain));
        spent.iter().sum()
    }

    fn is_done(&self, rounds: u32) -> bool {
        rounds == ROUNDS || self.steps == 0
    }
}

/// A microbatch that goes from one place to another.
struct Move {
    from: usize,
    to: usize,
    /// Whether it changes places with the one there, rather than go before it.
    swaps: bool,
}

/// An order under annealing.
struct Walk<'a> {
    evaluate: Evaluate<'a>,
    now: (f64, Order),
    orders: u64,
}

impl Walk<'_> {
    fn make(&mut self, Move { from, to, swaps }: &Move) {
        let (from, to, order) = (*from, *to, &mut self.now.1);
        match swaps {
            true => order.swap(from, to),
            false if from < to => order[from..=to].rotate_left(1),
            false => order[to..=from].rotate_right(1),
        }
    }
}

impl Walker for Walk<'_> {
    type Value = f64;
    type Order = Order;
    type Change = Move;

    fn value(&self) -> f64 {
        self.now.0
    }

    fn export(&self, into: &mut Order) {
        into.clone_from(&self.now.1);
    }

    fn spent(&self) -> u64 {
        self.orders
    }

    fn propose(&mut self, chance: &mut Chance) -> Option<Move> {
        self.orders += 1;
        let count = self.now.1.len();
        let (from, to) = (chance.below(count), chance.below(count));
        let made = Move { from, to, swaps: chance.below(2) == 0 };
        if from == to {
            return None;
        }
        self.make(&made);
        Some(made)
    }

    fn takes(&mut self, _: &Move, tolerance: Tolerance<'_>) -> bool {
        let Some(value) = (self.evaluate)(&self.now.1) else { return false };
        let is_taken = value - self.now.0 <= tolerance.draw();
        if is_taken {
            self.now.0 = value;
        }
        is_taken
    }

    fn undo(&mut self, Move { from, to, swaps }: Move) {
        self.make(&Move { from: to, to: from, swaps });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time until the last of jobs that arrive in an order on two machines, first the one, then the other, is
    /// done on both: Johnson's rule (1954) gives the best order.
    fn flow_shop(jobs: &[(u64, u64)], order: &[u32]) -> u64 {
        order
            .iter()
            .fold((0, 0), |(first, second): (u64, u64), &job| {
                let (one, other) = jobs[job as usize];
                (first + one, (first + one).max(second) + other)
            })
            .1
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn finds_the_best_order_of_a_flow_shop() {
        let jobs: Vec<(u64, u64)> = (0..14).map(|at| (1 + at * 7 % 13, 1 + at * 5 % 11)).collect();
        let mut johnson: Order = (0..14).collect();
        johnson.sort_by_key(|&at| {
            let (one, other) = jobs[at as usize];
            if one < other { (0, one) } else { (1, u64::MAX - other) }
        });
        let best = flow_shop(&jobs, &johnson);
        let work: Vec<Nanos> = jobs.iter().map(|(one, other)| Nanos(one + other)).collect();
        let evaluate = |order: &[u32]| Some(flow_shop(&jobs, order) as f64);
        let found = order_microbatches(&work, &evaluate, Effort::default(), &|| false).unwrap();
        assert!((found.1 - best as f64).abs() < 0.5, "{} for {best}", found.1);
        assert_eq!(flow_shop(&jobs, &found.0), best);
        let again = order_microbatches(&work, &evaluate, Effort::default(), &|| false).unwrap();
        assert_eq!(found, again);
    }

    #[test]
    fn every_start_has_each_microbatch_once() {
        let work = [5, 1, 4, 2, 3].map(Nanos);
        for order in starts(&work) {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert!(starts(&work).contains(&vec![1, 4, 0, 2, 3]));
        let one = order_microbatches(&[Nanos(7)], &|_| Some(7.0), Effort::default(), &|| false);
        assert_eq!(one.unwrap().0, [0]);
    }
}
