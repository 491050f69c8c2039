//! Searches the cheapest orders of a graph of operations: list schedules, their justification, and annealing.
// Rounding of times does not matter to a search.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]

mod list_scheduler;
mod walk;

use pipeline::Nanos;
use sim::graph::{Goal, Graph, Group, NONE, Orders, Score, Times};

use self::list_scheduler::{Rule, schedule};
use self::walk::Walk;
use crate::annealing::{self, Cooling};
use crate::chance::Chance;
use crate::found::{Milestone, nanos};
use crate::side_by_side::{CHAINS, SideBySide, Stop, Strategy, Turn, keep_better};

/// Rounds of a search.
const ROUNDS: u64 = 9;
/// First and last temperature of each chain in mean operations, and the weight of the mean flush beside the worst.
const ANNEALING: [(f64, f64, f64); CHAINS] =
    [(0.05, 0.01, 0.1), (0.3, 0.02, 0.3), (0.1, 0.01, 1.0), (1.0, 0.05, 0.1)];
/// How long operations wait for more urgent ones, in hundredths of their time.
const PATIENCE: [i64; 5] = [0, 30, 50, 100, 250];
/// What placing an operation takes, in operations that are timed again.
const LIST: u64 = 8;
/// Rules without chance that are tried in any case.
const RULES: usize = 20;
/// The part of the steps, one of so many, that more of them may take.
const RULES_SHARE: u64 = 20;
/// From one of these rules to the next; no divisor of their number.
const STRIDE: usize = 37;
/// By so much urgencies are finer than times, where no step takes longer than 2^50 units.
const FINE: i64 = 1 << 10;
/// After so many justifications that gain nothing, a chain goes back to its best orders.
const PATIENT: u32 = 50;

/// What a search of a graph looks for, and how long.
#[derive(Clone, Copy, Debug)]
pub struct GraphSearch {
    /// The time to minimise.
    pub goal: Goal,
    /// No orders cost less.
    pub bound: i64,
    /// The seed of all random numbers.
    pub seed: u64,
    /// How many operations are placed or timed, over all orders.
    pub steps: u64,
}

/// The result of a search of a graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphFound {
    /// The score of the orders.
    pub score: Score,
    /// The cheapest orders found.
    pub orders: Orders,
    /// The best cost after a number of steps, at every improvement and at the end.
    pub history: Vec<(u64, i64)>,
}

impl GraphFound {
    /// The milestones of a step whose stages are busy for `after` behind the cost, where no order has a lower one than
    /// `bound`.
    #[must_use]
    pub fn milestones(&self, bound: Nanos, after: Nanos) -> Vec<Milestone> {
        let milestone = |&(steps, cost): &(u64, i64)| Milestone {
            steps,
            cost: nanos(cost) + after,
            bound: Some(bound),
        };
        self.history.iter().map(milestone).collect()
    }
}

impl GraphSearch {
    /// The cheapest orders of `graph` that keep all limits, as far as they were found by list schedules and from
    /// `starts`, which need not keep them; `None` if there are none. The same on any number of threads as long as
    /// `stop` returns false.
    #[must_use]
    pub fn run(&self, graph: &Graph, starts: &[Orders], stop: Stop<'_>) -> Option<GraphFound> {
        // What is found does not depend on the unit of time.
        let (scaled, unit) = graph.in_units();
        let bound = self.bound.div_euclid(unit) + i64::from(self.bound.rem_euclid(unit) > 0);
        let mut found = Self { bound, ..*self }.in_units(&scaled, starts, stop)?;
        found.score.cost *= unit;
        found.score.sum = found.score.sum.saturating_mul(unit);
        found.history.iter_mut().for_each(|(_, cost)| *cost *= unit);
        Some(found)
    }

    fn in_units(&self, graph: &Graph, starts: &[Orders], stop: Stop<'_>) -> Option<GraphFound> {
        let lister = Lister::new(graph, self.goal);
        let mut history = Vec::new();
        let mut spent = 0;
        let mut best = (Score::WORST, Orders::default());
        let mut urgencies = Vec::new();
        for orders in starts {
            let Some(times) = Times::of(graph, orders) else { continue };
            if graph.fits(orders) {
                let score = times.score(graph, orders, self.goal);
                keep_better(&mut best, &(score, orders.clone()));
            }
            urgencies.push(times.starts);
        }
        note(&mut history, 0, best.0.cost);
        urgencies.push(lister.tails.iter().map(|tail| -tail).collect());
        urgencies.push(lister.group_by_group());
        let rules = lister.plain_rules(&urgencies);
        let more = self.steps / RULES_SHARE / lister.once();
        let most = usize::try_from(more).unwrap_or(usize::MAX).saturating_add(RULES);
        // Some of all kinds where not all are tried.
        for at in (0..rules.len()).map(|at| at * STRIDE % rules.len()).take(most) {
            let rule = rules[at];
            if best.0.cost <= self.bound || (best.0 != Score::WORST && stop()) {
                break;
            }
            spent += lister.once();
            if let Some(found) = lister.plain(&urgencies, rule) {
                keep_better(&mut best, &found);
                note(&mut history, spent, best.0.cost);
            }
        }
        if best.0 == Score::WORST {
            return None;
        }
        let chain = |number: usize| Chain {
            chance: Chance::new(self.seed, number as u64),
            best: best.clone(),
        };
        let strategy = Searched { search: *self, lister, best: best.clone() };
        let mut search = SideBySide::new(strategy, self.steps, chain);
        search.run(stop, |search| {
            note(&mut history, spent + search.done, search.strategy.best.0.cost);
        });
        let (score, orders) = search.strategy.best;
        let steps = spent + search.done;
        let is_later = history.last().is_none_or(|&(last, _)| last < steps);
        history.extend(is_later.then_some((steps, score.cost)));
        Some(GraphFound { score, orders, history })
    }
}

/// Notes a cost below all in `history`.
fn note(history: &mut Vec<(u64, i64)>, steps: u64, cost: i64) {
    if cost < Score::WORST.cost && history.last().is_none_or(|&(_, last)| cost < last) {
        history.push((steps, cost));
    }
}

/// Which operations come before more urgent ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Preference {
    /// None.
    Urgency,
    /// Those that free memory.
    Frees,
    /// Those that free memory and that another one waits for; those that nothing waits for come last.
    FreesLast,
    /// Those whose group stays on its machine.
    Stays,
}

impl Preference {
    const ALL: [Self; 4] = [Self::Urgency, Self::Frees, Self::FreesLast, Self::Stays];

    fn draw(chance: &mut Chance) -> Self {
        Self::ALL[chance.below(4)]
    }
}

/// A rule without chance: a number of an urgency, and how it is followed.
#[derive(Clone, Copy)]
struct Plain {
    urgency: usize,
    preference: Preference,
    patience: i64,
    open: bool,
}

/// A chain of a search.
struct Chain {
    chance: Chance,
    best: (Score, Orders),
}

/// A search under way.
struct Searched<'a> {
    search: GraphSearch,
    lister: Lister<'a>,
    best: (Score, Orders),
}

impl Strategy<Chain> for Searched<'_> {
    fn steps(&self, _: u32, left: u64) -> u64 {
        (self.search.steps / ROUNDS).min(left).div_ceil(CHAINS as u64).max(1)
    }

    /// Every third round makes list schedules; in the others a chain anneals from its own best orders, or from the best
    /// of all.
    fn search(&self, chain: &mut Chain, turn: &Turn<'_>) -> u64 {
        let bound = self.search.bound;
        match turn.round % 3 {
            0 => self.lister.lists(chain, bound, turn),
            one => {
                if one == 2 {
                    keep_better(&mut chain.best, &self.best);
                }
                self.anneal(chain, turn)
            }
        }
    }

    fn gather(&mut self, _: u32, chains: &mut [Chain], spent: &[u64]) -> u64 {
        chains.iter().for_each(|chain| keep_better(&mut self.best, &chain.best));
        spent.iter().sum::<u64>().max(1)
    }

    fn is_done(&self, _: u32) -> bool {
        self.best.0.cost <= self.search.bound
    }
}

impl Searched<'_> {
    fn anneal(&self, chain: &mut Chain, turn: &Turn<'_>) -> u64 {
        let (hot, cold, weight) = ANNEALING[(turn.number + turn.round as usize) % CHAINS];
        let aim = (self.search.goal, self.search.bound, weight);
        let Some(mut walk) = Walk::new(self.lister.graph, chain.best.1.clone(), aim) else {
            return turn.steps;
        };
        let cooling = Cooling::between((hot, cold), self.lister.mean, turn.steps);
        let Chain { chance, best } = chain;
        annealing::anneal(&mut walk, (chance, cooling), best, &|| turn.is_over());
        annealing::Walker::spent(&walk)
    }
}

/// Makes list schedules.
struct Lister<'a> {
    graph: &'a Graph,
    goal: Goal,
    needs: Vec<i64>,
    tails: Vec<i64>,
    /// The mean time of an operation.
    mean: f64,
    /// Units of urgency in one of time.
    fine: i64,
    /// Groups that any machine of their pool may take up.
    movable: Vec<u32>,
}

impl<'a> Lister<'a> {
    fn new(graph: &'a Graph, goal: Goal) -> Self {
        let count = graph.operations().len().max(1);
        let sum: f64 = graph.operations().iter().map(|one| one.time as f64).sum();
        Self {
            graph,
            goal,
            needs: graph.needs(),
            tails: graph.tails(),
            mean: sum / count as f64,
            fine: if graph.total_time() < 1 << 50 { FINE } else { 1 },
            movable: graph.movable(),
        }
    }

    /// The steps of a list schedule.
    fn once(&self) -> u64 {
        LIST * self.graph.operations().len().max(1) as u64
    }

    /// Rules that are tried before any chance.
    fn plain_rules(&self, urgencies: &[Vec<i64>]) -> Vec<Plain> {
        let mut rules = Vec::new();
        for urgency in 0..urgencies.len() {
            for preference in Preference::ALL {
                for &patience in &PATIENCE {
                    for open in
                        [false, true].into_iter().take(1 + usize::from(!self.movable.is_empty()))
                    {
                        rules.push(Plain { urgency, preference, patience, open });
                    }
                }
            }
        }
        rules
    }

    /// The orders of a plain rule.
    fn plain(&self, urgencies: &[Vec<i64>], rule: Plain) -> Option<(Score, Orders)> {
        let urgency: Vec<i64> = (0u32..)
            .zip(&urgencies[rule.urgency])
            .map(|(number, own)| own * self.fine + self.preferred(rule.preference, number))
            .collect();
        self.timed(&urgency, rule.patience, self.machines(rule.open))
    }

    /// By operation, when the first of its group comes where each comes after all that it waits for.
    fn group_by_group(&self) -> Vec<i64> {
        let mut ranks = vec![i64::MAX; self.graph.groups().len()];
        let group = |number: u32| self.graph.operation(number).group as usize;
        for (rank, &number) in (0..).zip(self.graph.topological()) {
            let own = &mut ranks[group(number)];
            *own = rank.min(*own);
        }
        self.graph.numbers().map(|number| ranks[group(number)]).collect()
    }

    /// What `preference` adds to the urgency of an operation: more than any chain is long.
    fn preferred(&self, preference: Preference, number: u32) -> i64 {
        const MUCH: i64 = 1 << 61;
        let one = self.graph.operation(number);
        let is_last = self.graph.outputs(number).is_empty();
        let frees = one.take <= 0 && one.take + one.leave <= 0;
        match preference {
            Preference::Urgency => 0,
            Preference::Stays => match self.graph.groups()[one.group as usize].pool {
                NONE => -MUCH,
                _ => 0,
            },
            _ if frees && !is_last => -MUCH,
            Preference::FreesLast if is_last => MUCH,
            Preference::Frees if is_last && frees => -MUCH,
            Preference::Frees | Preference::FreesLast => 0,
        }
    }

    /// By operation, less for those with longer chains behind them, by `tail`, and for those of earlier groups, by
    /// `group`; `shift` is added.
    fn urgency(
        &self,
        (tail, group): (f64, f64),
        preference: Preference,
        mut shift: impl FnMut(u32) -> f64,
    ) -> Vec<i64> {
        let each = self.mean * self.graph.operations().len() as f64;
        let each = each / self.graph.groups().len().max(1) as f64;
        let of = |number: u32| {
            let one = self.graph.operation(number);
            let own =
                group * f64::from(one.group) * each - tail * self.tails[number as usize] as f64;
            self.preferred(preference, number) + self.in_urgency(own + shift(number))
        };
        self.graph.numbers().map(of).collect()
    }

    /// A time in units of urgency, less than what a preference adds.
    fn in_urgency(&self, time: f64) -> i64 {
        const MOST: f64 = (1u64 << 58) as f64;
        (time * self.fine as f64).clamp(-MOST, MOST) as i64
    }

    fn timed(&self, urgency: &[i64], patience: i64, machines: Vec<u32>) -> Option<(Score, Orders)> {
        // With every other patience.
        let keeps_room = patience % 100 == 0;
        let rule = Rule { urgency, patience, keeps_room };
        let orders = schedule(self.graph, &self.needs, rule, machines)?;
        let times = Times::of(self.graph, &orders)?;
        Some((times.score(self.graph, &orders, self.goal), orders))
    }

    /// Makes list schedules until the steps of `turn` are spent: by rules that are drawn, and by the latest starts of
    /// the best orders (justification, Valls et al. 2005).
    fn lists(&self, chain: &mut Chain, bound: i64, turn: &Turn<'_>) -> u64 {
        let once = self.once();
        let (mut spent, mut made, mut idle) = (0, 0u32, 0);
        let mut now = chain.best.clone();
        while spent < turn.steps && chain.best.0.cost > bound && !turn.is_over() {
            let chance = &mut chain.chance;
            let patience = PATIENCE[chance.below(PATIENCE.len())];
            let found = match made % 4 {
                0 if turn.round == 0 => {
                    let tail = chance.unit();
                    let group = chance.unit() * 3.0;
                    let wide =
                        if chance.below(3) == 0 { 0.0 } else { chance.unit() * 4.0 * self.mean };
                    let urgency = self
                        .urgency((tail, group), Preference::draw(chance), |_| wide * chance.unit());
                    let machines = self.machines(chance.below(2) == 0);
                    self.timed(&urgency, patience, machines)
                }
                _ => self.justified(&now.1, patience, chance),
            };
            (spent, made) = (spent + once, made + 1);
            idle += 1;
            let Some(found) = found else { continue };
            if found.0 <= now.0 || chance.below(20) == 0 {
                idle = if found.0 < now.0 { 0 } else { idle };
                now = found;
                keep_better(&mut chain.best, &now);
            }
            if idle > PATIENT {
                (now, idle) = (chain.best.clone(), 0);
            }
        }
        spent
    }

    /// A list schedule by the latest starts of `orders`, some of them shifted, with some groups on other machines.
    fn justified(
        &self,
        orders: &Orders,
        patience: i64,
        chance: &mut Chance,
    ) -> Option<(Score, Orders)> {
        let times = Times::of(self.graph, orders)?;
        let end = times.score(self.graph, orders, Goal::Makespan).cost;
        let wide = if chance.below(5) == 0 { 0.0 } else { 6.0 * self.mean * chance.unit() };
        let mut shift = || self.in_urgency(wide * (chance.unit() - 0.5));
        let mut urgency = times.latest(self.graph, orders, end);
        urgency.iter_mut().for_each(|start| *start *= self.fine);
        if self.movable.is_empty() {
            urgency.iter_mut().for_each(|start| *start += shift());
        } else {
            let shifts: Vec<i64> = self.graph.groups().iter().map(|_| 4 * shift()).collect();
            for (start, one) in urgency.iter_mut().zip(self.graph.operations()) {
                *start += shifts[one.group as usize];
            }
        }
        if chance.below(4) == 0 {
            let preference = Preference::draw(chance);
            for (number, start) in (0u32..).zip(&mut urgency) {
                *start += self.preferred(preference, number);
            }
        }
        let mut machines = orders.machines.clone();
        if !self.movable.is_empty() && chance.below(2) == 0 {
            self.move_groups(&mut machines, chance);
        }
        self.timed(&urgency, patience, machines)
    }

    /// Takes a group to another machine of its pool, or lets two of a pool change machines; once or twice.
    fn move_groups(&self, machines: &mut [u32], chance: &mut Chance) {
        for _ in 0..1 + chance.below(2) {
            let one = self.movable[chance.below(self.movable.len())] as usize;
            let pool = self.graph.groups()[one].pool;
            let other = self.movable[chance.below(self.movable.len())] as usize;
            if chance.below(2) == 0 && self.graph.groups()[other].pool == pool {
                machines.swap(one, other);
            } else {
                let pool = &self.graph.pools()[pool as usize];
                machines[one] = pool[chance.below(pool.len())];
            }
        }
    }

    /// The machines that groups have at first; where they are `open`, any of their pool.
    fn machines(&self, open: bool) -> Vec<u32> {
        let of = |group: &Group| match open && group.pool != NONE {
            true => NONE,
            false => group.machine,
        };
        self.graph.groups().iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests;
