//! What the chains of a search do, round after round, for how long, and how hot.

use crate::local::Plan;
use crate::net::Net;

/// Searches beside each other. More threads than that gain nothing; fewer give the same result.
pub(crate) const CHAINS: usize = 4;

/// How many times rounds are doubled: the more rounds, the more kinds of [`Step`] see the best.
const LONGEST: u32 = 4;
/// How much longer than others a round is that begins anew: what it finds decides what comes of it.
const BEGINNING: u64 = 4;
/// The same for local search: it needs time to cool down.
const COOLING: u64 = 4;

/// Where chains go on from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Each from its own best order.
    Own,
    /// All from the best order of all chains.
    Best,
}

/// What the chains do in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// List schedules from the beginning, whatever was found before.
    Begin,
    /// List schedules.
    Climb,
    /// Echoes of an order.
    Echo(Origin),
    /// Local search from an order.
    Anneal(Origin),
}

/// How the rounds follow each other.
pub(crate) struct Course {
    /// What is done first.
    opening: &'static [Step],
    /// What is done again and again.
    turn: &'static [Step],
    /// After how many rounds they become longer.
    rounds: u32,
    /// The steps of a chain in the first round.
    first: u64,
}

impl Course {
    /// Where stages hold 1p or more, list schedules and echoes of the best come close to the bound.
    /// With less memory good orders are of many kinds, which are not changed into each other: each
    /// chain finds one of its own, time and again, and then all go on from the best; the larger the
    /// pipeline, the longer that takes. With several chunks the families are ahead of list schedules;
    /// echoes find better kinds of orders as long as chains differ, local search the best of a kind.
    pub(crate) fn of(net: &Net, total: u64) -> Self {
        use Origin::{Best, Own};
        use Step::{Anneal, Begin, Climb, Echo};
        let passes = net.passes() as u64;
        let (usual, large) = (300_000 + 8 * passes, (60_000 + 80 * passes).min(1_000_000));
        let (opening, turn, rounds, first): (&[Step], &[Step], u32, u64) = match net.chunks {
            1 if net.is_roomy() => {
                const TURN: &[Step] =
                    &[Climb, Echo(Best), Anneal(Best), Begin, Echo(Best), Anneal(Best)];
                (&[], TURN, 2, usual)
            }
            1 => {
                const TURN: &[Step] =
                    &[Begin, Anneal(Own), Begin, Anneal(Own), Anneal(Best), Anneal(Best)];
                // Opening and turn take 29 times as many steps as a round of echoes.
                let first = large.min(total / (30 * CHAINS as u64));
                (&[Climb, Climb, Climb, Climb, Echo(Own)], TURN, 8, first)
            }
            _ if net.held(0) <= net.stages => {
                (&[Climb], &[Echo(Best), Anneal(Best), Echo(Own)], 2, usual)
            }
            _ => {
                const OPENING: &[Step] =
                    &[Climb, Echo(Best), Echo(Own), Echo(Best), Echo(Own), Echo(Best), Echo(Own)];
                (OPENING, &[Anneal(Best), Echo(Best), Echo(Own)], 2, usual)
            }
        };
        Self { opening, turn, rounds, first }
    }

    /// How many steps each chain has in a round.
    pub(crate) fn steps(&self, round: u32) -> u64 {
        let times = match self.step(round) {
            Step::Begin => BEGINNING,
            Step::Anneal(_) => COOLING,
            Step::Climb | Step::Echo(_) => 1,
        };
        self.first.saturating_mul(times << (round / self.rounds).min(LONGEST))
    }

    pub(crate) fn step(&self, round: u32) -> Step {
        let round = round as usize;
        match self.opening.get(round) {
            Some(step) => *step,
            None => self.turn[(round - self.opening.len()) % self.turn.len()],
        }
    }
}

/// How hot each chain begins and ends, in average passes, and what it weighs, where stages have one
/// chunk.
const HEAT: [(f64, f64, f64); CHAINS] =
    [(0.03, 0.01, 0.1), (0.1, 0.01, 0.3), (0.03, 0.01, 0.3), (0.05, 0.005, 0.03)];
/// The same where they have several: there orders are better from the beginning.
const COOL: [(f64, f64, f64); CHAINS] =
    [(0.03, 0.01, 1.0), (0.1, 0.01, 0.3), (0.01, 0.001, 0.3), (0.05, 0.005, 3.0)];

/// How chain `number` anneals; chains take turns.
pub(crate) fn plan(net: &Net, goal: i64, steps: u64, round: u32, number: usize) -> Plan {
    let heat = if net.chunks == 1 { HEAT } else { COOL };
    let (hot, cold, weight) = heat[(number + round as usize / 2) % CHAINS];
    let pass = net.mean_pass();
    Plan { steps, goal, hot: hot * pass, cold: cold * pass, weight }
}
