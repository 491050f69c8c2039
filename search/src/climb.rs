//! Local search by a simulation itself, whatever it takes into account: passes are shifted within their stages, mostly
//! where a stage waits.
use pipeline::{Schedule, Timeline};

use crate::annealing::{self, Cooling, Tolerance, Walker};
use crate::chance::Chance;
use crate::compiled_instance::CompiledInstance;
use crate::found::Effort;
use crate::instance::Instance;
use crate::side_by_side::{CHAINS, SideBySide, Stop, Strategy, Turn, keep_better};
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
pub const SIDE_BY_SIDE: u64 = CHAINS as u64;

/// Rounds, after each of which all chains restart from the best order.
const ROUNDS: u32 = 4;
/// The temperatures of the chains, in mean pass durations: they fall to zero in each round.
const TEMPERATURES: [f64; CHAINS] = [0.3, 0.03, 0.003, 0.1];
/// Consecutive failures to find an order that fits after which a chain gives up.
const TRIES: usize = 1000;

/// An order, stage by stage, and the places at which its stages wait.
#[derive(Clone)]
struct At {
    sequence: Vec<u16>,
    /// Places in the sequence before which the stage waits.
    waits: Vec<u32>,
}

/// An order with its value, in nanoseconds.
type Valued = (f64, At);

/// Searches from `start`, an order of `instance`, by `evaluator`, until one has the value `goal`: the best order
/// found, if it is better than `start`, and the number of orders simulated. Orders of pairs are not changed.
///
/// The result is the same on any number of threads, as long as `stop` returns false.
pub fn climb(
    instance: &Instance,
    evaluator: &dyn Evaluator,
    start: &Schedule,
    (effort, goal): (Effort, f64),
    stop: Stop<'_>,
) -> (Option<Schedule>, u64) {
    let compiled = CompiledInstance::of(instance);
    let simulator = Simulator { instance, compiled: &compiled, evaluator };
    let sequence = compiled.sequence(start);
    let Some(first) = sequence.and_then(|sequence| simulator.evaluate(sequence)) else {
        return (None, 1);
    };
    let once = evaluator.passes().max(1);
    let passes = effort.limited().total(8_000_000u64.saturating_add(once.saturating_mul(40)));
    let each = passes / u64::from(ROUNDS) / SIDE_BY_SIDE / once;
    let (seed, best) = (effort.seed, first.clone());
    let climb = Climb { simulator, seed, goal, each, best };
    let mut search = SideBySide::new(climb, u64::MAX, |_| first.clone());
    search.run(stop, |_| {});
    let best = &search.strategy.best;
    let better = (best.0 < first.0).then(|| compiled.schedule(instance, &best.1.sequence).ok());
    (better.flatten(), 1 + search.done)
}

/// A local search under way.
struct Climb<'a> {
    simulator: Simulator<'a>,
    seed: u64,
    goal: f64,
    /// The orders that a chain simulates in a round.
    each: u64,
    best: Valued,
}

impl Strategy<Valued> for Climb<'_> {
    fn steps(&self, _: u32, _: u64) -> u64 {
        self.each
    }

    fn search(&self, chain: &mut Valued, turn: &Turn<'_>) -> u64 {
        let Self { simulator, best, .. } = self;
        let number = (2 << 32) | (u64::from(turn.round) << 8) | turn.number as u64;
        let hot = TEMPERATURES[turn.number] * simulator.compiled.mean_pass();
        let cooling = Cooling { hot, ratio: 0.0, steps: turn.steps };
        chain.clone_from(best);
        let (now, clock) = (best.clone(), Clock::default());
        let mut walk = Walk { simulator, now, clock, runs: 0, is_stuck: false };
        let chance = (&mut Chance::new(self.seed, number), cooling);
        annealing::anneal(&mut walk, chance, chain, &|| turn.is_over());
        walk.runs
    }

    fn gather(&mut self, _: u32, chains: &mut [Valued], spent: &[u64]) -> u64 {
        chains.iter().for_each(|chain| keep_better(&mut self.best, chain));
        spent.iter().sum()
    }

    fn is_done(&self, rounds: u32) -> bool {
        rounds == ROUNDS || self.best.0 <= self.goal
    }
}

/// Simulates sequences.
struct Simulator<'a> {
    instance: &'a Instance,
    compiled: &'a CompiledInstance,
    evaluator: &'a dyn Evaluator,
}

impl Simulator<'_> {
    /// Simulates `sequence`; `None` if it has no value.
    fn evaluate(&self, sequence: Vec<u16>) -> Option<Valued> {
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
        Some((value, At { sequence, waits }))
    }
}

/// An order under annealing by simulations; its steps are the orders simulated.
struct Walk<'a> {
    simulator: &'a Simulator<'a>,
    now: Valued,
    clock: Clock,
    runs: u64,
    /// Whether no other order was found that fits.
    is_stuck: bool,
}

impl Walker for Walk<'_> {
    type Value = f64;
    type Order = At;
    /// The order that is next.
    type Change = Vec<u16>;

    fn value(&self) -> f64 {
        self.now.0
    }

    fn export(&self, into: &mut At) {
        into.clone_from(&self.now.1);
    }

    fn spent(&self) -> u64 {
        self.runs
    }

    fn propose(&mut self, chance: &mut Chance) -> Option<Vec<u16>> {
        let compiled = self.simulator.compiled;
        let fitting = (0..TRIES).find_map(|_| {
            let sequence = shifted(&self.now.1, compiled.passes_per_stage(), chance)?;
            self.clock.time(compiled, &sequence)?;
            Some(sequence)
        });
        self.is_stuck = fitting.is_none();
        self.runs += u64::from(fitting.is_some());
        fitting
    }

    fn takes(&mut self, sequence: &Vec<u16>, tolerance: Tolerance<'_>) -> bool {
        let Some(new) = self.simulator.evaluate(sequence.clone()) else { return false };
        let is_taken = new.0 - self.now.0 <= tolerance.draw();
        if is_taken {
            self.now = new;
        }
        is_taken
    }

    fn undo(&mut self, _: Vec<u16>) {}

    fn is_done(&self) -> bool {
        self.is_stuck
    }

    fn may_be_best(&self) -> bool {
        let Simulator { instance, compiled, evaluator } = self.simulator;
        let schedule = compiled.schedule(instance, &self.now.1.sequence);
        schedule.is_ok_and(|schedule| evaluator.fits(&schedule))
    }
}

/// `now` with one pass shifted within its stage; none if that changes nothing.
fn shifted(now: &At, each: usize, chance: &mut Chance) -> Option<Vec<u16>> {
    let (place, _) = annealing::draw_slot(chance, now.sequence.len(), &now.waits);
    let stage = place / each * each;
    let far = annealing::draw_distance(chance);
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
