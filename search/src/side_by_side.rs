//! Chains that search side by side, in rounds: budget, rounds, interruption. What a chain does in a round is said by a
//! [`Strategy`].

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

/// The number of chains that search in parallel. More threads than chains gain nothing; fewer give
/// the same result.
pub(crate) const CHAINS: usize = 4;

/// Asks whether the caller wants a search to stop.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// The work of the chains of a search, each with a random stream of its own, round by round.
pub(crate) trait Strategy<Chain>: Sync {
    /// The steps of each chain in `round`, where `left` are left for all.
    fn steps(&self, round: u32, left: u64) -> u64;

    /// Lets `chain` search; gives the steps that it spent.
    fn search(&self, chain: &mut Chain, turn: &Turn<'_>) -> u64;

    /// Takes over what the chains have found in `round`, in which they spent so many steps; gives those that count.
    fn gather(&mut self, round: u32, chains: &mut [Chain], spent: &[u64]) -> u64;

    /// Whether nothing is left to be searched after so many rounds.
    fn is_done(&self, rounds: u32) -> bool;
}

/// The part of a chain in a round.
pub(crate) struct Turn<'a> {
    /// The number of the chain.
    pub(crate) number: usize,
    /// The number of the round.
    pub(crate) round: u32,
    /// The steps that it may spend.
    pub(crate) steps: u64,
    stop: Stop<'a>,
    /// The lowest number of a chain that has reached the goal: the result no longer depends on chains
    /// with higher numbers.
    solved: &'a AtomicUsize,
}

impl Turn<'_> {
    /// Whether to end before the steps are spent.
    pub(crate) fn is_over(&self) -> bool {
        self.solved.load(Ordering::Relaxed) < self.number || (self.stop)()
    }

    /// Says that this chain has reached the goal.
    pub(crate) fn solved(&self) {
        self.solved.fetch_min(self.number, Ordering::Relaxed);
    }
}

/// Chains under way.
pub(crate) struct SideBySide<S, Chain> {
    pub(crate) strategy: S,
    chains: Vec<Chain>,
    round: u32,
    /// The steps spent.
    pub(crate) done: u64,
    total: u64,
}

impl<S: Strategy<Chain>, Chain: Send> SideBySide<S, Chain> {
    /// Chains that may spend `total` steps, each made from its number.
    pub(crate) fn new(strategy: S, total: u64, chain: impl Fn(usize) -> Chain) -> Self {
        let chains = (0..CHAINS).map(chain).collect();
        Self { strategy, chains, round: 0, done: 0, total }
    }

    /// The steps that all chains may spend, if they are limited.
    pub(crate) fn limit(&self) -> Option<u64> {
        (self.total < u64::MAX).then_some(self.total)
    }

    /// Whether the steps are spent, or nothing is left to be searched.
    pub(crate) fn is_over(&self) -> bool {
        self.done >= self.total || self.strategy.is_done(self.round)
    }

    /// Goes on, round by round, with `after` behind each; whether `stop` has ended it.
    pub(crate) fn run(&mut self, stop: Stop<'_>, mut after: impl FnMut(&mut Self)) -> bool {
        while !self.is_over() && !stop() {
            self.search(stop);
            after(self);
        }
        !self.is_over()
    }

    fn search(&mut self, stop: Stop<'_>) {
        let (strategy, round, solved) = (&self.strategy, self.round, &AtomicUsize::new(usize::MAX));
        let steps = strategy.steps(round, self.total - self.done);
        let one = |(number, chain): (usize, &mut Chain)| {
            strategy.search(chain, &Turn { number, round, steps, stop, solved })
        };
        let spent: Vec<u64> = self.chains.par_iter_mut().enumerate().map(one).collect();
        self.done = self.done.saturating_add(self.strategy.gather(round, &mut self.chains, &spent));
        self.round += 1;
    }
}

/// Keeps `one` if it is better than `best`.
pub(crate) fn keep_better<V: PartialOrd + Copy, O: Clone>(best: &mut (V, O), one: &(V, O)) {
    if one.0 < best.0 {
        best.clone_from(one);
    }
}
