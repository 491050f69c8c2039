//! One of several searches beside each other: list schedules whose parameters climb, echoes of
//! them, and local search from the best order.
// Passes, slots and lanes are fewer than `MAX_PASSES`; times lose nothing that a search minds.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::chance::Chance;
use crate::echo::{Draw, Echoes, Way};
use crate::list::{Offsets, State};
use crate::local::{Local, Plan};
use crate::net::Net;
use crate::timing::{Clock, Score};
use crate::tune::Parameters;

/// Says when a chain is to end before its time.
pub(crate) struct Halt<'a> {
    /// Whether somebody wants the search to stop.
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    /// The lowest number of a chain that has reached the goal: chains behind it are of no use.
    pub(crate) solved: &'a AtomicUsize,
    /// The number of this chain.
    pub(crate) number: usize,
}

impl Halt<'_> {
    pub(crate) fn now(&self) -> bool {
        self.solved.load(Ordering::Relaxed) < self.number || (self.stop)()
    }

    pub(crate) fn solved(&self) {
        self.solved.fetch_min(self.number, Ordering::Relaxed);
    }
}

/// A search with chance of its own.
pub(crate) struct Chain {
    chance: Chance,
    /// The best order it has met.
    pub(crate) best: (Score, Vec<u16>),
    parameters: (Score, Parameters),
    /// The kind of its list schedules.
    kind: usize,
    /// The cost that list schedules aim at.
    target: i64,
    state: State,
    tables: Offsets,
    clock: Clock,
    echoes: Echoes,
    /// List schedules since the parameters have become better.
    idle: u32,
}

/// List schedules that aim at the same cost.
const SAME_TARGET: usize = 16;
/// Where that lies between the bound and the best cost known.
const PARTS: [f64; 6] = [0.0, 0.0, 0.1, 0.3, 0.6, 0.9];
/// List schedules with drawn parameters before those that change the best.
const DRAWS: usize = 60;
/// List schedules without gain after which parameters are drawn anew.
const PATIENCE: u32 = 1_000;
/// At which heats, in average passes, parameters are taken that make a worse list schedule.
const STRAYING: [f64; 4] = [0.03, 0.1, 0.3, 1.0];
/// List schedules at the same heat.
const SAME_HEAT: usize = 256;
/// The heat at which each chain begins to take worse echoes, in average passes, where stages have
/// several chunks. With one chunk echoes that are worse lead nowhere.
const ECHO_HEAT: [f64; 4] = [0.0, 2.0, 6.0, 20.0];
/// Which kinds of list schedules of one chunk per stage are echoed; all are where stages can hold 1p.
const ECHOING: [bool; 4] = [false, true, false, true];
/// The kind of list schedules, neither on a grid nor committing, that hardly ever come to the same
/// order twice.
const DIVERSE: usize = 2;

impl Chain {
    pub(crate) fn new(net: &Net, seed: u64, number: usize) -> Self {
        Self {
            chance: Chance::new(seed, number as u64),
            best: (Score::WORST, Vec::new()),
            parameters: (Score::WORST, Parameters::plain(net)),
            kind: number,
            target: 0,
            state: State::default(),
            tables: Offsets::default(),
            clock: Clock::default(),
            echoes: Echoes::default(),
            idle: 0,
        }
    }

    /// Forgets what it has found. Where memory is short, its list schedules are from now on of the
    /// kind that is the most diverse.
    pub(crate) fn begin_anew(&mut self, net: &Net) {
        if !net.is_roomy() {
            self.kind = DIVERSE;
        }
        self.best = (Score::WORST, Vec::new());
        self.parameters = (Score::WORST, Parameters::plain(net));
        self.idle = 0;
    }

    /// Makes list schedules until `steps` passes have been placed, or one costs no more than `goal`,
    /// the bound. `reversed` is the net with time running back. They aim at costs between the bound
    /// and the best `known`.
    pub(crate) fn climb(
        &mut self,
        (net, reversed): (&Net, &Net),
        (goal, known): (i64, i64),
        mut steps: u64,
        halt: &Halt<'_>,
    ) -> u64 {
        let fresh = self.parameters.0 == Score::WORST;
        let echoing = is_echoed(net, self.kind);
        let pass = net.mean_pass();
        let mut made = 0usize;
        let mut done = 0;
        while steps > 0 && !halt.now() {
            let parameters = match made {
                0 if fresh => Parameters::usual(net, self.kind),
                _ if self.parameters.0 == Score::WORST
                    || self.idle > PATIENCE
                    || (fresh && made < DRAWS) =>
                {
                    Parameters::draw(net, self.kind, &mut self.chance)
                }
                _ => self.parameters.1.near(net, &mut self.chance),
            };
            if made.is_multiple_of(SAME_TARGET) {
                let part = PARTS[self.chance.below(PARTS.len())];
                self.target = goal + ((known.min(2 * goal) - goal).max(0) as f64 * part) as i64;
            }
            made += 1;
            parameters.tables(net, self.target, &mut self.tables);
            let score = self.state.run(net, &self.tables);
            let cost = self.state.placed().max(1);
            done += cost;
            steps = steps.saturating_sub(cost);
            let Some(mut score) = score else { continue };
            if echoing && score <= self.parameters.0 {
                let cost;
                (score, cost) = self.there_and_back((net, reversed), goal);
                done += cost;
                steps = steps.saturating_sub(cost);
            }
            self.idle += 1;
            let heat = pass * STRAYING[(halt.number + made / SAME_HEAT) % STRAYING.len()];
            let more = score.cost.saturating_sub(self.parameters.0.cost) as f64;
            let taken = score <= self.parameters.0 || self.chance.takes(more, heat);
            if taken || self.idle > PATIENCE + 40 {
                if score < self.parameters.0 {
                    self.idle = 0;
                }
                self.parameters = (score, parameters);
            }
            if score < self.best.0
                && let Some(timed) = self.clock.time(net, &self.state.sequence)
            {
                keep(&mut self.best, timed, &self.state.sequence);
            }
            if self.best.0.cost <= goal {
                halt.solved();
                return done;
            }
        }
        done
    }

    /// Echoes the list schedule twice there and back: the best score met. Second, the passes placed
    /// and timed.
    fn there_and_back(&mut self, nets: (&Net, &Net), goal: i64) -> (Score, u64) {
        let mut done = nets.0.passes() as u64;
        let Some(mut best) = self.clock.time(nets.0, &self.state.sequence) else {
            return (Score::WORST, done);
        };
        keep(&mut self.best, best, &self.state.sequence);
        for (number, way) in [Way::Back, Way::Forth, Way::Back, Way::Forth].into_iter().enumerate()
        {
            let target = if number == 0 { self.target } else { goal };
            let (score, cost) = self.echo_once(nets, way, (target, Draw::PLAIN));
            done += cost;
            let Some(score) = score else { break };
            best = best.min(score);
        }
        (best, done)
    }

    /// Echoes what the clock has timed, and keeps it if it is the best.
    fn echo_once(
        &mut self,
        nets: (&Net, &Net),
        way: Way,
        aim: (i64, Draw),
    ) -> (Option<Score>, u64) {
        let (score, cost) = self.echoes.run(nets, &mut self.clock, way, aim, &mut self.chance);
        if let Some(score) = score {
            keep(&mut self.best, score, &self.echoes.sequence);
        }
        (score, cost)
    }

    /// Echoes `start`, or the best order of this chain, back and forth in drawn ways until `steps`
    /// passes have been placed. It goes on from what is not worse, and from worse with a probability
    /// that falls as it cools down.
    pub(crate) fn echo(
        &mut self,
        nets: (&Net, &Net),
        (start, goal): (Option<&[u16]>, i64),
        steps: u64,
        halt: &Halt<'_>,
    ) -> u64 {
        const WAYS: [[Way; 4]; 3] = [
            [Way::Back, Way::Forth, Way::Back, Way::Forth],
            [Way::Back, Way::Back, Way::Back, Way::Forth],
            [Way::Forth, Way::Back, Way::Forth, Way::Back],
        ];
        let start = start.unwrap_or(&self.best.1).to_vec();
        if start.is_empty() {
            return 0;
        }
        let Some(mut now) = self.clock.time(nets.0, &start) else { return 0 };
        let mut kept = self.clock.clone();
        let hot = match nets.0.chunks {
            1 => 0.0,
            _ => nets.0.mean_pass() * ECHO_HEAT[halt.number % ECHO_HEAT.len()],
        };
        let energy = |score: Score| score.cost as f64 + score.sum as f64 / nets.0.stages as f64;
        let mut done = 0;
        while done < steps && !halt.now() {
            let draw = Draw::new(nets.0, &mut self.chance);
            let part = [0.0, 0.3, 0.7, 0.95, 1.0][self.chance.below(5)];
            let target = goal + ((now.cost - goal) as f64 * part) as i64;
            let ways = WAYS[self.chance.below(WAYS.len())];
            let count = 1 + self.chance.below(ways.len());
            for &way in &ways[..count] {
                let (score, cost) = self.echo_once(nets, way, (target, draw));
                done += cost;
                let Some(score) = score else { break };
                let heat = hot * (1.0 - done as f64 / steps as f64).max(0.0);
                let more = energy(score) - energy(now);
                if score <= now || self.chance.takes(more, heat) {
                    now = score;
                    kept.clone_from(&self.clock);
                }
            }
            if self.best.0.cost <= goal {
                halt.solved();
                return done;
            }
            self.clock.clone_from(&kept);
        }
        done
    }

    /// Anneals from `start`, or from the best order of this chain.
    pub(crate) fn anneal(
        &mut self,
        net: &Net,
        start: Option<&[u16]>,
        plan: Plan,
        halt: &Halt<'_>,
    ) -> u64 {
        let start = start.unwrap_or(&self.best.1).to_vec();
        if start.is_empty() {
            return 0;
        }
        let Some(mut local) = Local::new(net, &start, &mut self.clock) else { return 0 };
        local.anneal(&mut self.chance, plan, &mut self.best, halt);
        if self.best.0.cost <= plan.goal {
            halt.solved();
        }
        local.steps
    }
}

/// Whether list schedules of `kind` are echoed.
fn is_echoed(net: &Net, kind: usize) -> bool {
    net.chunks == 1 && (ECHOING[kind % ECHOING.len()] || net.is_roomy())
}

/// Makes `sequence` the best if its score is.
fn keep(best: &mut (Score, Vec<u16>), score: Score, sequence: &[u16]) {
    if score < best.0 {
        best.0 = score;
        best.1.clear();
        best.1.extend_from_slice(sequence);
    }
}
