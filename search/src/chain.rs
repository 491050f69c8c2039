//! One of several searches that run in parallel: list scheduling with parameters that are improved
//! by hill climbing, forward-backward improvement of its orders, and simulated annealing from the
//! best of them.
// Passes, slots and lanes are fewer than `MAX_PASSES`; rounding of times does not matter to a search.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

use crate::annealing::Cooling;
use crate::chance::Chance;
use crate::compiled_instance::CompiledInstance;
use crate::forward_backward::{Direction, ForwardBackward, Variation};
use crate::list_scheduler::{Offsets, State};
use crate::local::Local;
use crate::side_by_side::Turn;
use crate::timing::{Clock, Score};
use crate::tune::Parameters;

/// A search with a random stream of its own.
pub(crate) struct Chain {
    chance: Chance,
    /// The best order found so far.
    pub(crate) best: (Score, Vec<u16>),
    parameters: (Score, Parameters),
    /// The kind of its list schedules: on a grid or not, committing or not.
    kind: usize,
    /// The target cost of the list schedules.
    target: i64,
    state: State,
    tables: Offsets,
    clock: Clock,
    forward_backward: ForwardBackward,
    /// The number of list schedules since the parameters last improved.
    idle: u32,
}

/// The number of list schedules with the same target cost.
const SAME_TARGET: usize = 16;
/// The target cost as a fraction of the way from the bound to the best known cost.
const PARTS: [f64; 6] = [0.0, 0.0, 0.1, 0.3, 0.6, 0.9];
/// The number of list schedules with random parameters before those that vary the best parameters.
const DRAWS: usize = 60;
/// The number of list schedules without improvement after which parameters are drawn anew.
const PATIENCE: u32 = 1_000;
/// The temperatures, in mean pass durations, at which parameters are accepted that make a worse list
/// schedule.
const TEMPERATURES: [f64; 4] = [0.03, 0.1, 0.3, 1.0];
/// The number of list schedules at the same temperature.
const SAME_TEMPERATURE: usize = 256;
/// The first temperature of each chain's forward-backward improvement, in mean pass durations, where
/// stages have several chunks. With one chunk worse orders lead nowhere.
const FORWARD_BACKWARD_TEMPERATURE: [f64; 4] = [0.0, 2.0, 6.0, 20.0];
/// The kinds of list schedules that forward-backward improvement follows where stages have one
/// chunk; where stages can hold 1p it follows all kinds.
const IMPROVED: [bool; 4] = [false, true, false, true];
/// The most diverse kind of list schedules, neither on a grid nor committing: they hardly ever
/// produce the same order twice.
const DIVERSE: usize = 2;

impl Chain {
    pub(crate) fn new(compiled: &CompiledInstance, seed: u64, number: usize) -> Self {
        Self {
            chance: Chance::new(seed, number as u64),
            best: (Score::WORST, Vec::new()),
            parameters: (Score::WORST, Parameters::plain(compiled)),
            kind: number,
            target: 0,
            state: State::default(),
            tables: Offsets::default(),
            clock: Clock::default(),
            forward_backward: ForwardBackward::default(),
            idle: 0,
        }
    }

    /// Forgets all orders and parameters found so far. Where memory is short, its list schedules are
    /// from now on of the most diverse kind.
    pub(crate) fn begin_anew(&mut self, compiled: &CompiledInstance) {
        if !compiled.is_roomy() {
            self.kind = DIVERSE;
        }
        self.best = (Score::WORST, Vec::new());
        self.parameters = (Score::WORST, Parameters::plain(compiled));
        self.idle = 0;
    }

    /// Makes list schedules until the steps of `turn` are spent, each a pass placed, or a schedule costs no more than
    /// `goal`, the lower bound. `reversed` is the instance with time reversed. Target costs lie between
    /// the lower bound and the best `known` cost.
    pub(crate) fn climb(
        &mut self,
        (compiled, reversed): (&CompiledInstance, &CompiledInstance),
        (goal, known): (i64, i64),
        turn: &Turn<'_>,
    ) -> u64 {
        let fresh = self.parameters.0 == Score::WORST;
        let improving = is_improved(compiled, self.kind);
        let pass = compiled.mean_pass();
        let mut made = 0usize;
        let mut done = 0;
        while done < turn.steps && !turn.is_over() {
            let parameters = self.next_parameters(compiled, made, fresh);
            if made.is_multiple_of(SAME_TARGET) {
                let part = PARTS[self.chance.below(PARTS.len())];
                self.target = goal + ((known.min(2 * goal) - goal).max(0) as f64 * part) as i64;
            }
            made += 1;
            parameters.tables(compiled, self.target, &mut self.tables);
            let score = self.state.run(compiled, &self.tables);
            done += self.state.placed().max(1);
            let Some(mut score) = score else { continue };
            if improving && score <= self.parameters.0 {
                let cost;
                (score, cost) = self.forward_backward_twice((compiled, reversed), goal);
                done += cost;
            }
            self.idle += 1;
            let temperature =
                pass * TEMPERATURES[(turn.number + made / SAME_TEMPERATURE) % TEMPERATURES.len()];
            let more = score.cost.saturating_sub(self.parameters.0.cost) as f64;
            let taken = score <= self.parameters.0 || self.chance.takes(more, temperature);
            if taken || self.idle > PATIENCE + 40 {
                if score < self.parameters.0 {
                    self.idle = 0;
                }
                self.parameters = (score, parameters);
            }
            if score < self.best.0
                && let Some(timed) = self.clock.time(compiled, &self.state.sequence)
            {
                keep(&mut self.best, timed, &self.state.sequence);
            }
            if self.best.0.cost <= goal {
                turn.solved();
                return done;
            }
        }
        done
    }

    /// The parameters of list schedule number `made`: the usual ones first in a `fresh` chain, then random ones, then
    /// variations of the best.
    fn next_parameters(
        &mut self,
        compiled: &CompiledInstance,
        made: usize,
        fresh: bool,
    ) -> Parameters {
        match made {
            0 if fresh => Parameters::usual(compiled, self.kind),
            _ if self.parameters.0 == Score::WORST
                || self.idle > PATIENCE
                || (fresh && made < DRAWS) =>
            {
                Parameters::draw(compiled, self.kind, &mut self.chance)
            }
            _ => self.parameters.1.near(compiled, &mut self.chance),
        }
    }

    /// Improves the list schedule by two rounds of forward-backward scheduling. Returns the best
    /// score met and the number of passes placed and timed.
    fn forward_backward_twice(
        &mut self,
        instances: (&CompiledInstance, &CompiledInstance),
        goal: i64,
    ) -> (Score, u64) {
        let mut done = instances.0.passes() as u64;
        let Some(mut best) = self.clock.time(instances.0, &self.state.sequence) else {
            return (Score::WORST, done);
        };
        keep(&mut self.best, best, &self.state.sequence);
        for (number, way) in
            [Direction::Backward, Direction::Forward, Direction::Backward, Direction::Forward]
                .into_iter()
                .enumerate()
        {
            let target = if number == 0 { self.target } else { goal };
            let (score, cost) = self.schedule_anew(instances, way, (target, Variation::UNVARIED));
            done += cost;
            let Some(score) = score else { break };
            best = best.min(score);
        }
        (best, done)
    }

    /// Schedules the order that the clock timed last once more in direction `way`, and keeps the
    /// result if it is the best.
    fn schedule_anew(
        &mut self,
        instances: (&CompiledInstance, &CompiledInstance),
        way: Direction,
        aim: (i64, Variation),
    ) -> (Option<Score>, u64) {
        let (score, cost) =
            self.forward_backward.run(instances, &mut self.clock, way, aim, &mut self.chance);
        if let Some(score) = score {
            keep(&mut self.best, score, &self.forward_backward.sequence);
        }
        (score, cost)
    }

    /// Forward-backward improvement of `start`, or of the best order of this chain, in randomly chosen
    /// directions until the steps of `turn` are spent, each a pass placed. An order that is not worse replaces the current
    /// one; a worse one does with a probability that falls with the temperature.
    pub(crate) fn forward_backward(
        &mut self,
        instances: (&CompiledInstance, &CompiledInstance),
        (start, goal): (Option<&[u16]>, i64),
        turn: &Turn<'_>,
    ) -> u64 {
        const DIRECTIONS: [[Direction; 4]; 3] = [
            [Direction::Backward, Direction::Forward, Direction::Backward, Direction::Forward],
            [Direction::Backward, Direction::Backward, Direction::Backward, Direction::Forward],
            [Direction::Forward, Direction::Backward, Direction::Forward, Direction::Backward],
        ];
        let start = start.unwrap_or(&self.best.1).to_vec();
        if start.is_empty() {
            return 0;
        }
        let Some(mut now) = self.clock.time(instances.0, &start) else { return 0 };
        let mut kept = self.clock.clone();
        let hot = match instances.0.chunks {
            1 => 0.0,
            _ => {
                instances.0.mean_pass()
                    * FORWARD_BACKWARD_TEMPERATURE[turn.number % FORWARD_BACKWARD_TEMPERATURE.len()]
            }
        };
        let energy =
            |score: Score| score.cost as f64 + score.sum as f64 / instances.0.stages as f64;
        let cooling = Cooling { hot, ratio: 0.0, steps: turn.steps };
        let mut done = 0;
        while done < turn.steps && !turn.is_over() {
            let draw = Variation::new(instances.0, &mut self.chance);
            let part = [0.0, 0.3, 0.7, 0.95, 1.0][self.chance.below(5)];
            let target = goal + ((now.cost - goal) as f64 * part) as i64;
            let ways = DIRECTIONS[self.chance.below(DIRECTIONS.len())];
            let count = 1 + self.chance.below(ways.len());
            for &way in &ways[..count] {
                let (score, cost) = self.schedule_anew(instances, way, (target, draw));
                done += cost;
                let Some(score) = score else { break };
                let more = energy(score) - energy(now);
                if score <= now || self.chance.takes(more, cooling.temperature(done)) {
                    now = score;
                    kept.clone_from(&self.clock);
                }
            }
            if self.best.0.cost <= goal {
                turn.solved();
                return done;
            }
            self.clock.clone_from(&kept);
        }
        done
    }

    /// Simulated annealing from `start`, or from the best order of this chain, until one costs no more than `goal`.
    pub(crate) fn anneal(
        &mut self,
        compiled: &CompiledInstance,
        (start, goal): (Option<&[u16]>, i64),
        (cooling, weight): (Cooling, f64),
        turn: &Turn<'_>,
    ) -> u64 {
        let start = start.unwrap_or(&self.best.1).to_vec();
        if start.is_empty() {
            return 0;
        }
        let Some(mut local) = Local::new(compiled, &start, &mut self.clock) else { return 0 };
        let aim = (goal, weight);
        local.anneal((&mut self.chance, cooling), aim, &mut self.best, &|| turn.is_over());
        if self.best.0.cost <= goal {
            turn.solved();
        }
        local.steps
    }
}

/// Whether list schedules of `kind` are followed by forward-backward improvement.
fn is_improved(compiled: &CompiledInstance, kind: usize) -> bool {
    compiled.chunks == 1 && (IMPROVED[kind % IMPROVED.len()] || compiled.is_roomy())
}

/// Makes `sequence` the best if its score is.
fn keep(best: &mut (Score, Vec<u16>), score: Score, sequence: &[u16]) {
    if score < best.0 {
        best.0 = score;
        best.1.clear();
        best.1.extend_from_slice(sequence);
    }
}
