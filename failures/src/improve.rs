//! Local search: passes of a worker change places as long as the step becomes no longer.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::instance::{Instance, NONE};
use crate::list::Room;
use crate::timing::{Aim, Orders, Timing, peak};

/// How far a pass moves at most, in places of its worker's order.
const REACH: usize = 8;
/// The most evaluations of one search at effort 1.
const MOST: u64 = 3_000;
/// Passes that are timed in one search at effort 1, over all evaluations.
const PASSES: u64 = 6_000_000;

/// How many orders a local search over `passes` passes evaluates.
pub(crate) fn evaluations(passes: usize, effort: u64) -> u64 {
    (PASSES / (passes as u64).max(1)).min(MOST).saturating_mul(effort)
}

/// The best orders found from `orders` on, and their cost. It ends at `bound`, after `evaluations`, or when
/// `stop` says so.
pub(crate) fn improve(
    (instance, room): (&Instance, &Room),
    aim: Aim,
    orders: Orders,
    (bound, evaluations): (u64, u64),
    stop: &dyn Fn() -> bool,
) -> (Orders, u64) {
    let Some(timing) = Timing::of(instance, &orders) else { return (orders, u64::MAX) };
    let cost = aim.cost(instance, &timing, &orders);
    let chance = Xoshiro256PlusPlus::seed_from_u64(0x0dea_d57a_6e00);
    let mut climb =
        Climb { instance, room, aim, orders, timing, spare: Timing::default(), cost, chance };
    for done in 0..evaluations {
        if climb.cost <= bound || (done % 64 == 63 && stop()) {
            break;
        }
        climb.step();
    }
    (climb.orders, climb.cost)
}

struct Climb<'a> {
    instance: &'a Instance,
    room: &'a Room,
    aim: Aim,
    orders: Orders,
    timing: Timing,
    spare: Timing,
    cost: u64,
    chance: Xoshiro256PlusPlus,
}

impl Climb<'_> {
    fn below(&mut self, count: usize) -> usize {
        self.chance.random_range(0..count.max(1))
    }

    /// Moves one pass, and takes it back if that is worse or impossible.
    fn step(&mut self) {
        let is_critical = self.below(4) > 0;
        let moved = if is_critical { self.critical() } else { self.any() };
        let Some((worker, from, to)) = moved.filter(|&(_, from, to)| from != to) else { return };
        shift(&mut self.orders[worker], from, to);
        let limit = self.room.limits[self.instance.stage(u32::try_from(worker).unwrap_or(NONE))];
        let fits = peak(self.instance, &self.orders[worker]) <= limit;
        if fits && self.spare.renew(self.instance, &self.orders) {
            let cost = self.aim.cost(self.instance, &self.spare, &self.orders);
            if cost <= self.cost {
                self.cost = cost;
                std::mem::swap(&mut self.timing, &mut self.spare);
                return;
            }
        }
        shift(&mut self.orders[worker], to, from);
    }

    /// Any pass, a few places away.
    fn any(&mut self) -> Option<(usize, usize, usize)> {
        let number = self.below(self.instance.nodes.len());
        let worker = self.instance.nodes[number].worker as usize;
        let length = self.orders[worker].len();
        let from = self.below(length);
        let low = from.saturating_sub(REACH);
        let to = low + self.below(2 * REACH + 1);
        Some((worker, from, to.min(length - 1)))
    }

    /// A pass on the critical path that waits for the one before it on its worker alone, before that one.
    fn critical(&mut self) -> Option<(usize, usize, usize)> {
        let spans = self.timing.stages(self.instance, &self.orders);
        let length = |span: &[u64; 2]| match self.aim {
            Aim::Step => span[1],
            Aim::Span => span[1].saturating_sub(span[0]),
        };
        let stage = (0..spans.len()).max_by_key(|&stage| length(&spans[stage]))?;
        let lasts = self.orders.iter().filter_map(|order| order.last().copied());
        let of_stage = lasts.filter(|&node| {
            self.instance.stage(self.instance.nodes[node as usize].worker) == stage
        });
        let mut at = of_stage.max_by_key(|&node| self.timing.end(self.instance, node))?;
        let mut waits = Vec::new();
        while self.timing.starts[at as usize] > 0 {
            let node = &self.instance.nodes[at as usize];
            let start = self.timing.starts[at as usize];
            let before = self.timing.before[at as usize];
            let binds = |input: u32, delay: u64| {
                input != NONE && self.timing.end(self.instance, input) + delay == start
            };
            let input = node.inputs.into_iter().find(|&(input, delay)| binds(input, delay));
            match input {
                Some((input, _)) => at = input,
                None if before != NONE => {
                    waits.push(at);
                    at = before;
                }
                None => break,
            }
        }
        let chosen = self.below(waits.len());
        let node = *waits.get(chosen)?;
        let worker = self.instance.nodes[node as usize].worker as usize;
        let from = self.orders[worker].iter().position(|&one| one == node)?;
        let places = 1 + self.below(REACH / 2);
        Some((worker, from, from.saturating_sub(places)))
    }
}

/// Moves the pass at place `from` to place `to`.
fn shift(order: &mut [u32], from: usize, to: usize) {
    match from < to {
        true => order[from..=to].rotate_left(1),
        false => order[to..=from].rotate_right(1),
    }
}
