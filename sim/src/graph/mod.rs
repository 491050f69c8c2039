//! A step as a graph of operations on machines: what each takes, holds and waits for.
//!
//! Passes of a pipeline or of several, passes of dead workers on their peers, and layers of an encoder are all
//! operations; each kind of step has a function that makes its graph, and all are timed and searched by the same code.
//! Operations of one group run on one machine, which is chosen among those of a pool if the group has one.

mod times;

use std::fmt;

pub use self::times::{Goal, Score, Times, spans};

/// No operation, no machine, no pool.
pub const NONE: u32 = u32::MAX;
/// A limit above all that the operations of a graph hold together.
pub const UNLIMITED: i64 = 1 << 62;

/// `number` as times and sizes of operations are counted; of what is out of range, so much that [`Graph::new`] refuses it.
#[must_use]
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The limit of a machine that may hold so many `bytes`.
#[must_use]
pub fn limit(bytes: u64) -> i64 {
    signed(bytes).min(UNLIMITED)
}

/// An operation, which runs once without a break. Times in nanoseconds, sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Operation {
    /// How long it takes.
    pub time: i64,
    /// The memory that it takes at its start.
    pub take: i64,
    /// The change of the memory held at its end.
    pub leave: i64,
    /// The group whose machine runs it.
    pub group: u32,
    /// Operations of one block are short parts of a whole, in their order: a search moves several of them together.
    pub block: u32,
}

impl Operation {
    /// The most that is held during or after it beyond what was held before, if more.
    #[inline]
    #[must_use]
    pub fn peak(&self) -> i64 {
        self.take.max(self.take + self.leave)
    }
}

/// An operation that waits for another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dependency {
    /// The operation that it waits for.
    pub from: u32,
    /// The operation that waits.
    pub to: u32,
    /// Nanoseconds from the end of the one to the start of the other: where the machines of both are of one row, and
    /// where they are not.
    pub lags: [i64; 2],
}

/// The other end of a [`Dependency`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The operation there.
    pub operation: u32,
    /// See [`Dependency::lags`].
    pub lags: [i64; 2],
}

/// A machine, which runs one operation at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Its row: between machines of one row, lags are those of near ones.
    pub row: u32,
    /// The most bytes that it may hold.
    pub limit: i64,
    /// Machines of one flush end a step together, such as the replicas of a stage.
    pub flush: u32,
}

/// Operations that run on the same machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// The machine that it has at first.
    pub machine: u32,
    /// The pool of machines that may run it; [`NONE`] if it stays where it is.
    pub pool: u32,
}

/// Why operations are not a graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GraphError {
    /// Operations wait for each other.
    Cycle,
    /// Times or sizes leave their range.
    Overflow,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cycle => "operations wait for each other",
            Self::Overflow => "the sum of all times or sizes exceeds 2^62",
        })
    }
}

impl std::error::Error for GraphError {}

/// Operations with what they wait for, and the machines that run them. No operations wait for each other, and no sum
/// of times or sizes leaves its range.
#[derive(Clone, Debug)]
pub struct Graph {
    operations: Vec<Operation>,
    groups: Vec<Group>,
    machines: Vec<Machine>,
    pools: Vec<Vec<u32>>,
    inputs: Links,
    outputs: Links,
    /// An order in which each operation comes after all that it waits for.
    topological: Vec<u32>,
}

/// Lists of links, packed: those of operation k from `first[k]` to `first[k + 1]`.
#[derive(Clone, Debug)]
struct Links {
    first: Vec<u32>,
    links: Vec<Link>,
}

impl Links {
    fn new(
        count: usize,
        dependencies: &[Dependency],
        end: impl Fn(&Dependency) -> (u32, u32),
    ) -> Self {
        let mut first = vec![0u32; count + 1];
        dependencies.iter().for_each(|one| first[end(one).0 as usize + 1] += 1);
        for at in 0..count {
            first[at + 1] += first[at];
        }
        let mut next = first.clone();
        let mut links = vec![Link { operation: NONE, lags: [0; 2] }; dependencies.len()];
        for one in dependencies {
            let (at, operation) = end(one);
            links[next[at as usize] as usize] = Link { operation, lags: one.lags };
            next[at as usize] += 1;
        }
        Self { first, links }
    }

    #[inline]
    fn of(&self, operation: u32) -> &[Link] {
        let at = operation as usize;
        &self.links[self.first[at] as usize..self.first[at + 1] as usize]
    }
}

/// Where operations run, and in which order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Orders {
    /// The machine of each group.
    pub machines: Vec<u32>,
    /// By machine, its operations in order.
    pub operations: Vec<Vec<u32>>,
}

impl Graph {
    /// Puts the parts together; `pools` has the machines of each pool.
    ///
    /// # Errors
    /// See [`GraphError`].
    ///
    /// # Panics
    /// If a number names no operation, group, machine or pool.
    pub fn new(
        operations: Vec<Operation>,
        dependencies: &[Dependency],
        groups: Vec<Group>,
        (machines, pools): (Vec<Machine>, Vec<Vec<u32>>),
    ) -> Result<Self, GraphError> {
        let count = operations.len();
        let inputs = Links::new(count, dependencies, |one| (one.to, one.from));
        let outputs = Links::new(count, dependencies, |one| (one.from, one.to));
        let mut graph =
            Self { operations, groups, machines, pools, inputs, outputs, topological: Vec::new() };
        graph.check_sums()?;
        graph.topological = graph.in_order().ok_or(GraphError::Cycle)?;
        Ok(graph)
    }

    fn check_sums(&self) -> Result<(), GraphError> {
        let size = |number: i64| i128::from(number.unsigned_abs());
        let bytes = self.operations.iter().map(|one| size(one.take) + size(one.leave)).sum();
        match self.total_time().max(bytes) < 1 << 62 {
            true => Ok(()),
            false => Err(GraphError::Overflow),
        }
    }

    fn in_order(&self) -> Option<Vec<u32>> {
        let count = self.operations.len();
        let mut waits: Vec<usize> =
            self.numbers().map(|number| self.inputs.of(number).len()).collect();
        let mut order: Vec<u32> =
            self.numbers().filter(|&number| waits[number as usize] == 0).collect();
        let mut at = 0;
        while let Some(&number) = order.get(at) {
            at += 1;
            for link in self.outputs.of(number) {
                let waits = &mut waits[link.operation as usize];
                *waits -= 1;
                if *waits == 0 {
                    order.push(link.operation);
                }
            }
        }
        (order.len() == count).then_some(order)
    }

    /// The operations.
    #[inline]
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Their numbers.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.operations.len()).unwrap_or(NONE)
    }

    /// Operation number `number`.
    #[inline]
    #[must_use]
    pub fn operation(&self, number: u32) -> &Operation {
        &self.operations[number as usize]
    }

    /// The machines.
    #[inline]
    #[must_use]
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The groups.
    #[inline]
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The groups that more than one machine may run.
    #[must_use]
    pub fn movable(&self) -> Vec<u32> {
        let is_movable =
            |group: &Group| group.pool != NONE && self.pools[group.pool as usize].len() > 1;
        let groups = (0u32..).zip(&self.groups);
        groups.filter(|one| is_movable(one.1)).map(|one| one.0).collect()
    }

    /// By pool, the machines that may run its groups.
    #[must_use]
    pub fn pools(&self) -> &[Vec<u32>] {
        &self.pools
    }

    /// All that `operation` waits for.
    #[inline]
    #[must_use]
    pub fn inputs(&self, operation: u32) -> &[Link] {
        self.inputs.of(operation)
    }

    /// All that wait for `operation`.
    #[inline]
    #[must_use]
    pub fn outputs(&self, operation: u32) -> &[Link] {
        self.outputs.of(operation)
    }

    /// An order in which each operation comes after all that it waits for.
    #[must_use]
    pub fn topological(&self) -> &[u32] {
        &self.topological
    }

    /// The lag of `link` between two machines.
    #[inline]
    #[must_use]
    pub fn lag(&self, link: &Link, one: u32, other: u32) -> i64 {
        let is_far = self.machines[one as usize].row != self.machines[other as usize].row;
        link.lags[usize::from(is_far)]
    }

    /// The same graph with times in the largest unit that all of them are whole multiples of, and that unit in
    /// nanoseconds.
    #[must_use]
    pub fn in_units(&self) -> (Self, i64) {
        let lags = self.inputs.links.iter().flat_map(|link| link.lags);
        let times = self.operations.iter().map(|one| one.time).chain(lags);
        let unit = times.fold(0, divisor).max(1);
        let mut graph = self.clone();
        graph.operations.iter_mut().for_each(|one| one.time /= unit);
        for link in graph.inputs.links.iter_mut().chain(&mut graph.outputs.links) {
            link.lags = link.lags.map(|lag| lag / unit);
        }
        (graph, unit)
    }

    /// The time of all operations and lags, one after the other.
    #[must_use]
    pub fn total_time(&self) -> i128 {
        let times = self.operations.iter().map(|one| i128::from(one.time)).sum::<i128>();
        let lags = self.inputs.links.iter();
        times + lags.map(|link| i128::from(link.lags[0].max(link.lags[1]))).sum::<i128>()
    }

    /// By operation, the longest chain from its start on, wherever operations run.
    #[must_use]
    pub fn tails(&self) -> Vec<i64> {
        let mut tails = vec![0; self.operations.len()];
        for &number in self.topological.iter().rev() {
            let after = self.outputs.of(number).iter();
            let after = after
                .map(|link| link.lags[0].min(link.lags[1]) + tails[link.operation as usize])
                .max();
            tails[number as usize] = self.operation(number).time + after.unwrap_or(0);
        }
        tails
    }

    /// By operation, the memory that must be free when it begins so that all later ones of its group can follow.
    #[must_use]
    pub fn needs(&self) -> Vec<i64> {
        let mut later = vec![0i64; self.groups.len()];
        let mut needs = vec![0; self.operations.len()];
        for &number in self.topological.iter().rev() {
            let operation = self.operation(number);
            let later = &mut later[operation.group as usize];
            let need = operation.peak().max(operation.take + operation.leave + *later);
            needs[number as usize] = need;
            *later = need.max(0);
        }
        needs
    }

    /// The most bytes that a machine holds along `order`.
    #[must_use]
    pub fn peak(&self, order: &[u32]) -> i64 {
        let (mut held, mut peak) = (0, 0);
        for &number in order {
            let operation = self.operation(number);
            peak = peak.max(held + operation.peak());
            held += operation.take + operation.leave;
        }
        peak
    }

    /// Whether every machine keeps its limit along `orders`.
    #[must_use]
    pub fn fits(&self, orders: &Orders) -> bool {
        let mut all = self.machines.iter().zip(&orders.operations);
        all.all(|(machine, order)| self.peak(order) <= machine.limit)
    }

    /// All operations in the order of `key`, each on the machine that its group has at first.
    pub fn orders_by<K: Ord>(&self, key: impl FnMut(&u32) -> K) -> Orders {
        let mut all: Vec<u32> = self.topological.clone();
        all.sort_by_cached_key(key);
        let mut operations = vec![Vec::new(); self.machines.len()];
        for number in all {
            let group = self.operation(number).group as usize;
            operations[self.groups[group].machine as usize].push(number);
        }
        Orders { machines: self.groups.iter().map(|group| group.machine).collect(), operations }
    }
}

/// The greatest common divisor.
const fn divisor(one: i64, other: i64) -> i64 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

impl Orders {
    /// The machine that runs `operation` of `graph`.
    #[inline]
    #[must_use]
    pub fn machine(&self, graph: &Graph, operation: u32) -> u32 {
        self.machines[graph.operation(operation).group as usize]
    }
}

#[cfg(test)]
mod tests;
