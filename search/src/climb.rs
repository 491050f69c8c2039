//! Local search by a simulation itself, whatever it takes into account: passes are shifted within their stages, mostly
//! where a stage waits.
// Floats decide which orders are tried, and times lose nothing that matters there.
#![allow(clippy::cast_precision_loss)]

use pipeline::{Schedule, Timeline};
use rayon::prelude::*;

use crate::chance::Chance;
use crate::compiled_instance::CompiledInstance;
use crate::instance::Instance;
use crate::timing::Clock;

/// Values orders by simulating them.
pub trait Evaluator: Sync {
    /// The value of `schedule`; `None` where it has none, such as for a deadlock.
    fn evaluate(&self, schedule: &Schedule) -> Option<Evaluation>;

    /// The number of passes that one evaluation times: local search spends its budget by that.
    fn passes(&self) -> u64;

    /// Whether `schedule` may be the answer, beyond the limits of the instance.
    fn fits(&self, _schedule: &Schedule) -> bool {
        true
    }
}

/// The value of an order.
pub struct Evaluation {
    /// Objective to minimise, in nanoseconds.
    pub value: f64,
    /// A run of it, of all steps where there are several: its waits show where to change the order.
    pub timeline: Timeline,
}

/// The most orders that are simulated in parallel.
pub const SIDE_BY_SIDE: u64 = TEMPERATURES.len() as u64;

/// Rounds, after each of which all chains restart from the best order.
const ROUNDS: u64 = 4;
/// The temperatures of the chains, in mean pass durations: they fall to zero in each round.
const TEMPERATURES: [f64; 4] = [0.3, 0.03, 0.003, 0.1];
/// Maximum shift of a pass in slots, drawn uniformly from these.
const FAR: [usize; 8] = [1, 1, 1, 2, 3, 5, 9, 17];
/// Consecutive failures to find an order that fits after which a chain gives up.
const TRIES: usize = 1000;

/// An order, stage by stage, with its value and the places at which its stages wait.
#[derive(Clone)]
struct At {
    sequence: Vec<u16>,
    value: f64,
    /// Places in the sequence before which the stage waits.
    waits: Vec<u32>,
}

/// Budget of the local search.
#[derive(Clone, Copy)]
pub struct Budget {
    /// The seed of all random numbers.
    pub seed: u64,
    /// A multiple of the default effort.
    pub times: u64,
    /// A lower bound on the value, in nanoseconds: the search ends when an order reaches it.
    pub goal: f64,
}

impl Budget {
    /// The total number of passes that are simulated, where one evaluation has `once`.
    const fn passes(self, once: u64) -> u64 {
        self.times.saturating_mul(8_000_000u64.saturating_add(once.saturating_mul(40)))
    }
}

/// Searches from `start`, an order of `instance`, by `evaluator`: the best order found, if it is better than
/// `start`, and the number of orders simulated. Orders of pairs are not changed.
///
/// The result is the same on any number of threads, as long as `stop` returns false.
pub fn climb(
    instance: &Instance,
    evaluator: &dyn Evaluator,
    start: &Schedule,
    budget: Budget,
    stop: &(dyn Fn() -> bool + Sync),
) -> (Option<Schedule>, u64) {
    let compiled = CompiledInstance::of(instance);
    let climb = Climb { instance, compiled: &compiled, evaluator, stop };
    let sequence = compiled.sequence(start);
    let Some(first) = sequence.and_then(|sequence| climb.evaluate(sequence)) else {
        return (None, 1);
    };
    let (mut best, mut runs) = (first.clone(), 1);
    let once = evaluator.passes().max(1);
    let each = budget.passes(once) / ROUNDS / TEMPERATURES.len() as u64 / once;
    for round in 0..ROUNDS {
        if stop() || best.value <= budget.goal {
            break;
        }
        let chain = |(number, heat): (usize, &f64)| {
            let chance = Chance::new(budget.seed, (2 << 32) | (round << 8) | number as u64);
            climb.anneal(best.clone(), (chance, heat * compiled.mean_pass(), each))
        };
        let met: Vec<(At, u64)> = TEMPERATURES.par_iter().enumerate().map(chain).collect();
        for (one, of_chain) in met {
            runs += of_chain;
            if one.value < best.value {
                best = one;
            }
        }
    }
    let better =
        (best.value < first.value).then(|| compiled.schedule(instance, &best.sequence).ok());
    (better.flatten(), runs)
}

/// A local search under way.
struct Climb<'a> {
    instance: &'a Instance,
    compiled: &'a CompiledInstance,
    evaluator: &'a dyn Evaluator,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Climb<'_> {
    /// Simulates `sequence`; `None` if it has no value.
    fn evaluate(&self, sequence: Vec<u16>) -> Option<At> {
        let schedule = self.compiled.schedule(self.instance, &sequence).ok()?;
        let Evaluation { value, timeline } = self.evaluator.evaluate(&schedule)?;
        let each = self.compiled.passes_per_stage();
        let mut waits = Vec::new();
        for (stage, spans) in timeline.stages.iter().enumerate() {
            let last = &spans[spans.len().saturating_sub(each)..];
            for (place, pair) in last.windows(2).enumerate() {
                if pair[1].start > pair[0].end {
                    waits.extend(u32::try_from(stage * each + place + 1));
                }
            }
        }
        Some(At { sequence, value, waits })
    }

    /// Simulated annealing from `now` until a number of orders were simulated: the best of them, and how many were.
    fn anneal(&self, mut now: At, (mut chance, heat, most): (Chance, f64, u64)) -> (At, u64) {
        let compiled = self.compiled;
        let (mut best, mut runs, mut clock) = (now.clone(), 0, Clock::default());
        while runs < most && !(self.stop)() {
            let fitting = (0..TRIES).find_map(|_| {
                let sequence = shifted(&now, compiled.passes_per_stage(), &mut chance)?;
                clock.time(compiled, &sequence)?;
                Some(sequence)
            });
            let Some(sequence) = fitting else { break };
            runs += 1;
            let Some(new) = self.evaluate(sequence) else { continue };
            let left = 1.0 - runs as f64 / most as f64;
            if chance.takes(new.value - now.value, heat * left) {
                now = new;
                if now.value < best.value && self.fits(&now.sequence) {
                    best.clone_from(&now);
                }
            }
        }
        (best, runs)
    }

    fn fits(&self, sequence: &[u16]) -> bool {
        let schedule = self.compiled.schedule(self.instance, sequence);
        schedule.is_ok_and(|schedule| self.evaluator.fits(&schedule))
    }
}

/// `now` with one pass shifted within its stage; none if that changes nothing.
fn shifted(now: &At, each: usize, chance: &mut Chance) -> Option<Vec<u16>> {
    let place = match chance.below(4) {
        0 => chance.below(now.sequence.len()),
        _ if now.waits.is_empty() => chance.below(now.sequence.len()),
        _ => now.waits[chance.below(now.waits.len())] as usize,
    };
    let stage = place / each * each;
    let most = FAR[chance.below(FAR.len())];
    let far = 1 + chance.below(most);
    let other = match chance.below(2) {
        0 => (place + far).min(stage + each - 1),
        _ => place.saturating_sub(far).max(stage),
    };
    let (from, to) = if chance.below(2) == 0 { (place, other) } else { (other, place) };
    let (low, high) = (from.min(to), from.max(to));
    if now.sequence[low..=high].iter().all(|&lane| lane == now.sequence[from]) {
        return None;
    }
    let mut sequence = now.sequence.clone();
    match from < to {
        true => sequence[from..=to].rotate_left(1),
        false => sequence[to..=from].rotate_right(1),
    }
    Some(sequence)
}
