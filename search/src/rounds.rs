//! The plan of a search: which move each chain makes in each round, with how many steps and at which temperature.

use crate::annealing::Cooling;
use crate::compiled_instance::CompiledInstance;
use crate::side_by_side::{CHAINS, Turn};

/// The number of times that the length of a round is doubled: the more rounds there are, the more
/// kinds of [`Move`] start from the best order.
const LONGEST: u32 = 4;
/// Relative length of a round that restarts: its result decides how far the rounds after it get.
const RESTARTING: u64 = 4;
/// Relative length of a round of simulated annealing, which needs time to cool down.
const COOLING: u64 = 4;

/// The order from which chains continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Each chain continues from its own best order.
    Own,
    /// All chains continue from the best order of any chain.
    Best,
}

/// One round of the search, the same for all chains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// List scheduling from scratch, which forgets all orders found before.
    Restart,
    /// List scheduling that keeps improving its parameters.
    ListSchedules,
    /// Forward-backward improvement of an order.
    ForwardBackward(Origin),
    /// Simulated annealing from an order.
    Anneal(Origin),
}

/// The sequence of rounds.
pub(crate) struct Rounds {
    /// The moves made once, at the beginning.
    opening: &'static [Move],
    /// The moves repeated for the rest of the search.
    turn: &'static [Move],
    /// The number of rounds after which their length doubles.
    doubling: u32,
    /// The steps of each chain in the first round.
    first: u64,
    /// The number of the first round.
    begun: u32,
}

impl Rounds {
    /// The rounds for `compiled` and a budget of `total` steps.
    ///
    /// Where stages hold 1p or more, list schedules and their forward-backward improvement come close
    /// to the lower bound. With less memory good orders differ in structure and small moves do not lead
    /// from one structure to another: each chain repeatedly finds one of its own, and then all chains
    /// continue from the best; the larger the pipeline, the longer that takes. With several chunks per
    /// stage the published families beat list schedules; forward-backward improvement finds better
    /// structures as long as the chains differ, and annealing finds the best order of a structure.
    pub(crate) fn of(compiled: &CompiledInstance, total: u64) -> Self {
        use Move::{Anneal, ForwardBackward, ListSchedules, Restart};
        use Origin::{Best, Own};
        let passes = compiled.passes() as u64;
        let (usual, large) = (300_000 + 8 * passes, (60_000 + 80 * passes).min(1_000_000));
        let (opening, turn, doubling, first): (&[Move], &[Move], u32, u64) = match compiled.chunks {
            1 if compiled.is_roomy() => {
                const TURN: &[Move] = &[
                    ListSchedules,
                    ForwardBackward(Best),
                    Anneal(Best),
                    Restart,
                    ForwardBackward(Best),
                    Anneal(Best),
                ];
                (&[], TURN, 2, usual)
            }
            1 => {
                const TURN: &[Move] =
                    &[Restart, Anneal(Own), Restart, Anneal(Own), Anneal(Best), Anneal(Best)];
                // Opening and turn take 29 times as many steps as a round of forward-backward improvement.
                let first = large.min(total / (30 * CHAINS as u64));
                (
                    &[
                        ListSchedules,
                        ListSchedules,
                        ListSchedules,
                        ListSchedules,
                        ForwardBackward(Own),
                    ],
                    TURN,
                    8,
                    first,
                )
            }
            _ if compiled.held(0) <= compiled.stages => (
                &[ListSchedules],
                &[ForwardBackward(Best), Anneal(Best), ForwardBackward(Own)],
                2,
                usual,
            ),
            _ => {
                const OPENING: &[Move] = &[
                    ListSchedules,
                    ForwardBackward(Best),
                    ForwardBackward(Own),
                    ForwardBackward(Best),
                    ForwardBackward(Own),
                    ForwardBackward(Best),
                    ForwardBackward(Own),
                ];
                (OPENING, &[Anneal(Best), ForwardBackward(Best), ForwardBackward(Own)], 2, usual)
            }
        };
        Self { opening, turn, doubling, first, begun: 0 }
    }

    /// The same, of which the first is `round`.
    pub(crate) fn begun_at(self, round: u32) -> Self {
        Self { begun: round, ..self }
    }

    /// Whether the opening ends with `round`.
    pub(crate) fn opens_with(&self, round: u32) -> bool {
        (round - self.begun) as usize + 1 == self.opening.len()
    }

    /// After the opening, improves nothing but the best order.
    pub(crate) fn improve_best(&mut self) {
        self.turn = &[Move::ForwardBackward(Origin::Best), Move::Anneal(Origin::Best)];
    }

    /// The steps that each chain may spend in `round`.
    pub(crate) fn steps(&self, round: u32) -> u64 {
        let times = match self.at(round) {
            Move::Restart => RESTARTING,
            Move::Anneal(_) => COOLING,
            Move::ListSchedules | Move::ForwardBackward(_) => 1,
        };
        self.first.saturating_mul(times << ((round - self.begun) / self.doubling).min(LONGEST))
    }

    /// The move of `round`.
    pub(crate) fn at(&self, round: u32) -> Move {
        let round = (round - self.begun) as usize;
        match self.opening.get(round) {
            Some(one) => *one,
            None => self.turn[(round - self.opening.len()) % self.turn.len()],
        }
    }
}

/// The annealing of each chain where stages have one chunk: its first and last temperature, in mean
/// pass durations, and the weight of the mean stage beside the worst.
const ONE_CHUNK: [(f64, f64, f64); CHAINS] =
    [(0.03, 0.01, 0.1), (0.1, 0.01, 0.3), (0.03, 0.01, 0.3), (0.05, 0.005, 0.03)];
/// The same where stages have several chunks: there orders are better from the beginning.
const SEVERAL_CHUNKS: [(f64, f64, f64); CHAINS] =
    [(0.03, 0.01, 1.0), (0.1, 0.01, 0.3), (0.01, 0.001, 0.3), (0.05, 0.005, 3.0)];

/// How a chain anneals in its `turn`, and the weight of the mean stage; chains take turns at the temperatures.
pub(crate) fn annealing(compiled: &CompiledInstance, turn: &Turn<'_>) -> (Cooling, f64) {
    let chains = if compiled.chunks == 1 { ONE_CHUNK } else { SEVERAL_CHUNKS };
    let (hot, cold, weight) = chains[(turn.number + turn.round as usize / 2) % CHAINS];
    (Cooling::between((hot, cold), compiled.mean_pass(), turn.steps), weight)
}
