//! Local search over the orders of a graph: operations change places on their machine, and groups go to another one.
//! The effect of a change of places is first estimated from the times around it; if that looks good, the operations
//! whose times change are timed again.
// Rounding of times does not matter to a search.
#![allow(clippy::cast_precision_loss)]

mod moves;

use sim::graph::{Goal, Graph, NONE, Orders, Score, Times, spans};

use crate::annealing::{Tolerance, Walker};
use crate::chance::Chance;
use crate::marks::{Marks, Toward};

/// No operation follows.
const NEVER: i64 = i64::MIN / 2;
/// After how many changes operations are sorted by time again.
const SORTED: u32 = 500;
/// Of so many changes one takes a group to another machine, where groups may.
const MOVES: usize = 4;

/// Orders that change step by step, with their times.
pub(super) struct Walk<'a> {
    graph: &'a Graph,
    goal: Goal,
    orders: Orders,
    /// The place of each operation in the order of its machine.
    place: Vec<u32>,
    /// The end of each operation.
    end: Vec<i64>,
    /// The longest chain from the start of each operation to the end of the step.
    rest: Vec<i64>,
    /// By flush, the time that the step begins at, as far as the goal counts that.
    offset: Vec<i64>,
    /// The memory that the machine holds after each operation.
    held: Vec<i64>,
    score: Score,
    /// Ends before the last change.
    moved: Vec<(u32, i64)>,
    marks: Marks,
    changes: u32,
    /// Operations that begin when the one before ends, on a longest chain.
    joints: Vec<u32>,
    /// Groups that may go elsewhere.
    movable: Vec<u32>,
    /// Whether times alone do not show that operations wait for each other.
    is_checked: bool,
    bound: i64,
    /// The weight of the mean flush beside the worst.
    weight: f64,
    ends: Vec<i64>,
    steps: u64,
}

/// The operations from `low` to `high` of a machine, of which those before `middle` went behind the rest.
#[derive(Clone, Copy)]
pub(super) struct Turned {
    machine: u32,
    low: usize,
    middle: usize,
    high: usize,
}

/// A change, to be undone or kept.
pub(super) enum Change {
    /// Operations of a machine have changed places, and then one that frees memory.
    Places([Option<Turned>; 2]),
    /// Groups have gone to other machines: these, and the orders of the machines as they were.
    Machines(Vec<(u32, u32)>, Vec<(u32, Vec<u32>)>),
}

impl<'a> Walk<'a> {
    /// Begins at `orders`; `None` if operations wait for each other. It is done at a cost of `bound`; `weight` is that
    /// of the mean flush beside the worst.
    pub(super) fn new(
        graph: &'a Graph,
        orders: Orders,
        (goal, bound, weight): (Goal, i64, f64),
    ) -> Option<Self> {
        let times = Times::of(graph, &orders)?;
        let count = graph.operations().len();
        let spans = times.spans(graph, &orders);
        let offset = spans.iter().map(|span| match (goal, span) {
            (Goal::Span, Some(span)) => span[0],
            _ => 0,
        });
        let is_instant = |number: u32| {
            let outputs = graph.outputs(number);
            graph.operation(number).time == 0
                && outputs.iter().any(|link| link.lags[0].min(link.lags[1]) == 0)
        };
        let mut walk = Self {
            graph,
            goal,
            place: vec![0; count],
            end: graph.numbers().map(|number| times.end(graph, number)).collect(),
            rest: vec![NEVER; count],
            offset: offset.collect(),
            held: vec![0; count],
            score: times.score(graph, &orders, goal),
            moved: Vec::new(),
            marks: Marks::new(count),
            changes: 0,
            joints: Vec::new(),
            movable: graph.movable(),
            is_checked: graph.numbers().any(is_instant),
            bound,
            weight,
            ends: Vec::new(),
            steps: 2 * count as u64,
            orders,
        };
        for machine in 0..walk.orders.operations.len() {
            walk.renumber(machine);
        }
        walk.sort();
        walk.find_rests(graph.numbers());
        Some(walk)
    }

    /// Notes places and memory along the whole order of `machine`; whether its limit is kept.
    fn renumber(&mut self, machine: usize) -> bool {
        for (place, &number) in (0u32..).zip(&self.orders.operations[machine]) {
            self.place[number as usize] = place;
        }
        match self.orders.operations[machine].len() {
            0 => true,
            length => self.account(machine, 0, length - 1),
        }
    }

    fn sort(&mut self) {
        let Self { marks, end, .. } = self;
        marks.sort(|number| end[number]);
        self.changes = 0;
    }

    /// Notes the memory from place `from` to place `to` of `machine`; whether its limit is kept there.
    fn account(&mut self, machine: usize, from: usize, to: usize) -> bool {
        let order = &self.orders.operations[machine];
        let limit = self.graph.machines()[machine].limit;
        let mut held = match from {
            0 => 0,
            from => self.held[order[from - 1] as usize],
        };
        let mut kept = true;
        for &number in &order[from..=to] {
            let operation = self.graph.operation(number);
            kept &= held + operation.peak() <= limit;
            held += operation.take + operation.leave;
            self.held[number as usize] = held;
        }
        kept
    }

    #[inline]
    fn machine(&self, number: u32) -> u32 {
        self.orders.machine(self.graph, number)
    }

    /// The operation so many places after `number` on its machine.
    #[inline]
    fn neighbour(&self, number: u32, after: isize) -> Option<u32> {
        let place = (self.place[number as usize] as usize).checked_add_signed(after)?;
        self.orders.operations[self.machine(number) as usize].get(place).copied()
    }

    /// When all that `number` waits for is there: what comes before it on its machine, without a lag, needs no look.
    #[inline]
    fn arrival(&self, number: u32) -> i64 {
        let machine = self.machine(number);
        let mut at = 0;
        for link in self.graph.inputs(number) {
            let from = self.machine(link.operation);
            let lag = self.graph.lag(link, from, machine);
            if from != machine || lag > 0 {
                at = at.max(self.end[link.operation as usize].saturating_add(lag));
            }
        }
        at
    }

    /// The longest chain behind the end of `number`, through what waits for it elsewhere or with a lag.
    #[inline]
    fn onward(&self, number: u32) -> i64 {
        let machine = self.machine(number);
        let mut longest = NEVER;
        for link in self.graph.outputs(number) {
            let to = self.machine(link.operation);
            let lag = self.graph.lag(link, machine, to);
            if to != machine || lag > 0 {
                longest = longest.max(self.rest[link.operation as usize] + lag);
            }
        }
        longest
    }

    /// When the machine of `number` is free for it.
    #[inline]
    fn free(&self, number: u32) -> i64 {
        self.neighbour(number, -1).map_or(0, |before| self.end[before as usize])
    }

    /// The longest chain behind the end of `number`, through its own machine.
    #[inline]
    fn behind(&self, number: u32) -> i64 {
        match self.neighbour(number, 1) {
            Some(next) => self.rest[next as usize],
            None => {
                let flush = self.graph.machines()[self.machine(number) as usize].flush;
                -self.offset[flush as usize]
            }
        }
    }

    fn measure(&mut self) {
        let ends = |order: &[u32]| {
            let (first, last) = (*order.first()?, *order.last()?);
            let start = self.end[first as usize] - self.graph.operation(first).time;
            Some([start, self.end[last as usize]])
        };
        let spans = spans(self.graph, self.orders.operations.iter().map(|order| ends(order)));
        self.score = self.goal.score(&spans);
    }

    /// Finds when operations end after the times of `changed` may have; `false` if they wait for each other.
    fn find_ends(&mut self, changed: impl Iterator<Item = u32>) -> bool {
        changed.for_each(|number| self.marks.mark(number as usize));
        let graph = self.graph;
        // In another order than that of their times, operations may be timed several times.
        let most = 4 * graph.operations().len() + 64;
        while let Some(number) = self.marks.take(Toward::End) {
            let number = u32::try_from(number).unwrap_or(NONE);
            // Where operations wait for each other, times grow without end.
            let start = self.free(number).max(self.arrival(number));
            let end = start.saturating_add(graph.operation(number).time);
            let before = std::mem::replace(&mut self.end[number as usize], end);
            if end == before {
                continue;
            }
            self.moved.push((number, before));
            let machine = self.machine(number);
            let starts = |one: u32| self.end[one as usize] - graph.operation(one).time;
            if let Some(next) = self.neighbour(number, 1)
                && (end > starts(next) || before == starts(next))
            {
                self.marks.mark(next as usize);
            }
            for link in graph.outputs(number) {
                let start =
                    self.end[link.operation as usize] - graph.operation(link.operation).time;
                let lag = graph.lag(link, machine, self.machine(link.operation));
                if end.saturating_add(lag) > start || before.saturating_add(lag) == start {
                    self.marks.mark(link.operation as usize);
                }
            }
            if self.moved.len() > most {
                self.marks.clear();
                self.steps += most as u64;
                return false;
            }
        }
        self.steps += 1 + self.moved.len() as u64;
        !self.is_checked || Times::of(graph, &self.orders).is_some()
    }

    /// Puts ends back as they were before [`Self::find_ends`].
    fn restore_ends(&mut self) {
        while let Some((number, before)) = self.moved.pop() {
            self.end[number as usize] = before;
        }
    }

    /// Finds how long the chains from operations on are after those of `changed` may have become longer or shorter.
    fn find_rests(&mut self, changed: impl Iterator<Item = u32>) {
        changed.for_each(|number| self.marks.mark(number as usize));
        let graph = self.graph;
        while let Some(number) = self.marks.take(Toward::Begin) {
            self.steps += 1;
            let number = u32::try_from(number).unwrap_or(NONE);
            let rest = self.behind(number).max(self.onward(number)) + graph.operation(number).time;
            let old = std::mem::replace(&mut self.rest[number as usize], rest);
            if old == rest {
                continue;
            }
            let machine = self.machine(number);
            let tail = |one: u32| self.rest[one as usize] - graph.operation(one).time;
            if let Some(before) = self.neighbour(number, -1)
                && (rest > tail(before) || old == tail(before))
            {
                self.marks.mark(before as usize);
            }
            for link in graph.inputs(number) {
                let tail =
                    self.rest[link.operation as usize] - graph.operation(link.operation).time;
                let lag = graph.lag(link, self.machine(link.operation), machine);
                if rest + lag > tail || old + lag == tail {
                    self.marks.mark(link.operation as usize);
                }
            }
        }
    }

    /// The longest chain through the operations from `low` to `high` of a machine, which have changed places, if
    /// nothing elsewhere changes.
    fn estimate(&mut self, Turned { machine, low, high, .. }: Turned) -> i64 {
        let (graph, order) = (self.graph, &self.orders.operations[machine as usize]);
        let mut free = self.free(order[low]);
        let mut ends = std::mem::take(&mut self.ends);
        ends.clear();
        for &number in &order[low..=high] {
            free = free.max(self.arrival(number)) + graph.operation(number).time;
            ends.push(free);
        }
        let mut behind = self.behind(order[high]);
        let mut longest = NEVER;
        for (&number, end) in order[low..=high].iter().zip(&ends).rev() {
            let tail = behind.max(self.onward(number));
            longest = longest.max(end + tail);
            behind = tail + graph.operation(number).time;
        }
        self.ends = ends;
        self.steps += 1 + (high - low) as u64;
        longest
    }

    /// The operations whose times, seen from the begin or from the end of the step, `change` touches at once.
    fn touched(&self, change: &Change, toward: Toward) -> Vec<u32> {
        let mut all = Vec::new();
        match change {
            Change::Places(turned) => {
                for &Turned { machine, low, high, .. } in turned.iter().flatten() {
                    let order = &self.orders.operations[machine as usize];
                    let range = match toward {
                        Toward::End => low..order.len().min(high + 2),
                        Toward::Begin => low.saturating_sub(1)..high + 1,
                    };
                    all.extend_from_slice(&order[range]);
                }
            }
            Change::Machines(groups, orders) => {
                for (machine, _) in orders {
                    all.extend_from_slice(&self.orders.operations[*machine as usize]);
                }
                let moved: Vec<u32> = all
                    .iter()
                    .copied()
                    .filter(|&number| {
                        groups.iter().any(|one| one.0 == self.graph.operation(number).group)
                    })
                    .collect();
                for number in moved {
                    let links = match toward {
                        Toward::End => self.graph.outputs(number),
                        Toward::Begin => self.graph.inputs(number),
                    };
                    all.extend(links.iter().map(|link| link.operation));
                }
            }
        }
        all
    }

    fn energy(&self, score: Score) -> f64 {
        score.cost as f64 + self.weight * score.sum as f64 / self.offset.len().max(1) as f64
    }
}

impl Walker for Walk<'_> {
    type Value = Score;
    type Order = Orders;
    type Change = Change;
    /// A millisecond.
    const ASKED: u64 = 20_000;

    fn value(&self) -> Score {
        self.score
    }

    fn export(&self, into: &mut Orders) {
        into.clone_from(&self.orders);
    }

    fn spent(&self) -> u64 {
        self.steps
    }

    fn propose(&mut self, chance: &mut Chance) -> Option<Change> {
        self.steps += 2;
        if !self.movable.is_empty() && chance.below(MOVES) == 0 {
            return self.change_machines(chance);
        }
        let turned = self.draw(chance)?;
        self.change_places(turned)
    }

    fn takes(&mut self, change: &Change, tolerance: Tolerance<'_>) -> bool {
        let (now, more) = (self.score, tolerance.draw());
        if let Change::Places([Some(turned), relief]) = change {
            let high = relief.map_or(turned.high, |one| one.high.max(turned.high));
            let whole = Turned { high, ..*turned };
            if self.estimate(whole) as f64 > now.cost as f64 + more {
                return false;
            }
        }
        let whole = self.find_ends(self.touched(change, Toward::End).into_iter());
        self.measure();
        let taken = whole && self.energy(self.score) <= self.energy(now) + more;
        if taken {
            self.moved.clear();
            self.find_rests(self.touched(change, Toward::Begin).into_iter());
            self.changes += 1;
            if self.changes == SORTED {
                self.sort();
            }
        } else {
            self.restore_ends();
            self.score = now;
        }
        taken
    }

    fn undo(&mut self, change: Change) {
        self.take_back(change);
    }

    fn is_done(&self) -> bool {
        self.score.cost <= self.bound
    }
}
