//! Changes of orders: operations of a machine that change places, and groups that go to another machine.

use sim::graph::{NONE, Operation};

use super::{Change, Turned, Walk};
use crate::annealing;
use crate::chance::Chance;

/// How far away an operation is looked for that frees memory.
const FAR: usize = 24;

impl Walk<'_> {
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
    pub(super) fn draw(&mut self, chance: &mut Chance) -> Option<Turned> {
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
    pub(super) fn change_places(&mut self, turned: Turned) -> Option<Change> {
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
    pub(super) fn change_machines(&mut self, chance: &mut Chance) -> Option<Change> {
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

    pub(super) fn take_back(&mut self, change: Change) {
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
}
