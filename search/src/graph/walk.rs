//! Local search over the orders of a graph: operations change places on their machine, and groups go to another one.
//! The effect of a change of places is first estimated from the times around it; if that looks good, the operations
//! whose times change are timed again.
// Rounding of times does not matter to a search.
#![allow(clippy::cast_precision_loss)]

use sim::graph::{Goal, Graph, NONE, Operation, Orders, Score, Times, spans};

use crate::annealing::{self, Tolerance, Walker};
use crate::chance::Chance;
use crate::marks::{Marks, Toward};

/// No operation follows.
const NEVER: i64 = i64::MIN / 2;
/// After how many changes operations are sorted by time again.
const SORTED: u32 = 500;
/// Of so many changes one takes a group to another machine, where groups may.
const MOVES: usize = 4;
/// How far away an operation is looked for that frees memory.
const FAR: usize = 24;

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

    fn is_joint(&self, number: u32) -> bool {
        let start = self.end[number as usize] - self.graph.operation(number).time;
        start + self.rest[number as usize] == self.score.cost
            && self.place[number as usize] > 0
            && self.free(number) == start
    }

    /// Follows one of the longest chains from its end.
    fn find_joints(&mut self, chance: &mut Chance) {
        self.joints.clear();
        let last = |order: &Vec<u32>| order.last().copied();
        let span = |&number: &u32| {
            let flush = self.graph.machines()[self.machine(number) as usize].flush;
            self.end[number as usize] - self.offset[flush as usize]
        };
        let Some(mut number) = self.orders.operations.iter().filter_map(last).max_by_key(span)
        else {
            return;
        };
        loop {
            let start = self.end[number as usize] - self.graph.operation(number).time;
            let before = self.neighbour(number, -1).filter(|_| self.free(number) == start);
            let machine = self.machine(number);
            let binds = |link: &&sim::graph::Link| {
                let lag = self.graph.lag(link, self.machine(link.operation), machine);
                self.end[link.operation as usize] + lag == start
            };
            let input = self.graph.inputs(number).iter().find(binds);
            number = match (before, input) {
                (Some(before), None) => {
                    self.joints.push(number);
                    before
                }
                (Some(before), Some(_)) if chance.below(2) == 0 => {
                    self.joints.push(number);
                    before
                }
                (_, Some(input)) => input.operation,
                (None, None) => return,
            };
        }
    }

    /// An operation that begins when the one before ends, on a longest chain.
    fn joint(&mut self, chance: &mut Chance) -> Option<u32> {
        for _ in 0..2 {
            if !self.joints.is_empty() {
                let number = self.joints[chance.below(self.joints.len())];
                if self.is_joint(number) {
                    return Some(number);
                }
            }
            self.find_joints(chance);
        }
        self.joints.first().copied()
    }

    /// Whether `later` waits for `sooner`.
    fn waits(&self, later: u32, sooner: u32) -> bool {
        self.graph.inputs(later).iter().any(|link| link.operation == sooner)
    }

    /// Draws operations that change places: mostly two adjacent ones on the longest chain.
    fn draw(&mut self, chance: &mut Chance) -> Option<Turned> {
        let far = annealing::draw_distance(chance);
        let back = chance.below(2) == 0;
        let joint = if chance.below(8) == 0 { None } else { self.joint(chance) };
        let number = match joint {
            Some(number) if back => number,
            Some(number) => self.neighbour(number, -1)?,
            None => {
                let count = self.graph.operations().len();
                u32::try_from(chance.below(count)).unwrap_or(NONE)
            }
        };
        let machine = self.machine(number);
        let order = &self.orders.operations[machine as usize];
        let place = self.place[number as usize] as usize;
        let Operation { block, group, .. } = *self.graph.operation(number);
        let kind = chance.below(4);
        let same = |&&one: &&u32| {
            let one = self.graph.operation(one);
            (kind < 2 && block != NONE && one.block == block) || (kind == 2 && one.group == group)
        };
        // Those of a block behind it go with it, or those before it.
        let (first, last) = match back {
            true => (place, place + order[place + 1..].iter().take_while(same).count()),
            false => (place - order[..place].iter().rev().take_while(same).count(), place),
        };
        let moved = &order[first..=last];
        let in_blocks = chance.below(2) == 0;
        let (mut blocks, mut last_block) = (0, NONE);
        // Those of a block that follow each other count as one, or each for itself.
        let mut is_near = |number: u32| {
            let block = self.graph.operation(number).block;
            blocks += usize::from(!in_blocks || block == NONE || block != last_block);
            last_block = block;
            blocks <= far
        };
        if back {
            let passes = |one: &&u32| {
                let one = **one;
                is_near(one) && !moved.iter().any(|&moved| self.waits(moved, one))
            };
            let passed = order[..first].iter().rev().take_while(passes).count();
            (passed > 0).then_some(Turned {
                machine,
                low: first - passed,
                middle: first,
                high: last,
            })
        } else {
            let passes = |one: &&u32| {
                let one = **one;
                is_near(one) && !moved.iter().any(|&moved| self.waits(one, moved))
            };
            let high = last + order[last + 1..].iter().take_while(passes).count();
            (high > last).then_some(Turned { machine, low: first, middle: last + 1, high })
        }
    }

    fn turn(&mut self, Turned { machine, low, middle, high }: Turned) -> bool {
        let order = &mut self.orders.operations[machine as usize];
        order[low..=high].rotate_left(middle - low);
        for place in low..=high {
            let number = self.orders.operations[machine as usize][place];
            self.place[number as usize] = u32::try_from(place).unwrap_or(NONE);
        }
        self.account(machine as usize, low, high)
    }

    /// Changes places, and takes one that frees memory in front where it is short; `None` if it still is.
    fn change_places(&mut self, turned: Turned) -> Option<Change> {
        let mut both = [Some(turned), None];
        let mut fits = self.turn(turned);
        if !fits && let Some(relief) = self.relief(turned) {
            fits = self.turn(relief) && self.account_both(turned, relief);
            both[1] = Some(relief);
        }
        if fits {
            return Some(Change::Places(both));
        }
        self.undo_places(both);
        None
    }

    fn account_both(&mut self, one: Turned, other: Turned) -> bool {
        let (low, high) = (one.low.min(other.low), one.high.max(other.high));
        self.account(one.machine as usize, low, high)
    }

    fn undo_places(&mut self, turned: [Option<Turned>; 2]) {
        for one in turned.into_iter().rev().flatten() {
            let Turned { low, middle, high, .. } = one;
            self.turn(Turned { middle: high + 1 - (middle - low), ..one });
        }
        if let [Some(one), Some(other)] = turned {
            self.account_both(one, other);
        }
    }

    /// The next operation behind `turned` that frees memory and may go before it.
    fn relief(&self, Turned { machine, low, high, .. }: Turned) -> Option<Turned> {
        let order = &self.orders.operations[machine as usize];
        let frees = |&at: &usize| {
            let operation = self.graph.operation(order[at]);
            operation.peak() <= 0
                && operation.take + operation.leave < 0
                && !order[low..at].iter().any(|&one| self.waits(order[at], one))
        };
        let at = (high + 1..order.len().min(high + FAR)).find(frees)?;
        Some(Turned { machine, low, middle: at, high: at })
    }

    /// Takes a group to another machine of its pool, or lets two of them change machines.
    fn change_machines(&mut self, chance: &mut Chance) -> Option<Change> {
        let graph = self.graph;
        let group = self.movable[chance.below(self.movable.len())];
        let pool = &graph.pools()[graph.groups()[group as usize].pool as usize];
        let from = self.orders.machines[group as usize];
        let mut moves = Vec::new();
        let other = self.movable[chance.below(self.movable.len())];
        let is_of_pool = graph.groups()[other as usize].pool == graph.groups()[group as usize].pool;
        let there = self.orders.machines[other as usize];
        let to = if is_of_pool && there != from && chance.below(2) == 0 {
            moves.push((other, from));
            there
        } else {
            // Any but its own.
            let at = pool.iter().position(|&one| one == from)?;
            pool[(at + 1 + chance.below(pool.len() - 1)) % pool.len()]
        };
        moves.push((group, to));
        let old = [from, to];
        let old = old.map(|one| (one, self.orders.operations[one as usize].clone())).to_vec();
        let goes = |number: u32| moves.iter().find(|one| one.0 == graph.operation(number).group);
        let start = |number: u32| self.end[number as usize] - graph.operation(number).time;
        let mut orders = [Vec::new(), Vec::new()];
        let mut moved = Vec::new();
        for (stays, (_, order)) in orders.iter_mut().zip(&old) {
            for &number in order {
                match goes(number) {
                    Some(&(_, to)) => moved.push((start(number), number, to)),
                    None => stays.push(number),
                }
            }
        }
        // By the times that they have: so nothing waits for what comes later.
        moved.sort_by_key(|one| one.0);
        for (time, number, machine) in moved {
            let order = &mut orders[usize::from(machine == to)];
            let at = order.partition_point(|&one| start(one) <= time);
            order.insert(at, number);
        }
        let back = moves.iter().map(|&(group, _)| (group, self.orders.machines[group as usize]));
        let change = Change::Machines(back.collect(), old);
        moves.iter().for_each(|&(group, to)| self.orders.machines[group as usize] = to);
        let [first, second] = orders;
        self.orders.operations[from as usize] = first;
        self.orders.operations[to as usize] = second;
        self.steps += 2;
        let fits = self.renumber(from as usize) & self.renumber(to as usize);
        if fits {
            return Some(change);
        }
        self.take_back(change);
        None
    }

    fn take_back(&mut self, change: Change) {
        match change {
            Change::Places(turned) => self.undo_places(turned),
            Change::Machines(groups, orders) => {
                groups.iter().for_each(|&(group, to)| self.orders.machines[group as usize] = to);
                for (machine, order) in orders {
                    self.orders.operations[machine as usize] = order;
                    self.renumber(machine as usize);
                }
            }
        }
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
