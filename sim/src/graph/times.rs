//! When operations run in given orders, and what that costs.

use super::{Graph, NONE, Orders};

/// The time that orders are compared by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// The end of the last operation of any machine.
    Makespan,
    /// The longest time from the first to the last operation of the machines of one flush.
    Span,
}

/// What orders cost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Score {
    /// The longest time of any flush, in nanoseconds.
    pub cost: i64,
    /// The sum over all of them: what decides between equal costs.
    pub sum: i64,
}

impl Score {
    /// Worse than any.
    pub const WORST: Self = Self { cost: i64::MAX, sum: i64::MAX };

    /// The score where these are the times.
    pub fn of_spans(spans: impl Iterator<Item = i64>) -> Self {
        spans.fold(Self { cost: 0, sum: 0 }, |score, one| Self {
            cost: score.cost.max(one),
            sum: score.sum.saturating_add(one),
        })
    }
}

/// When operations start, and an order in which they do.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Times {
    /// The start of each operation in nanoseconds.
    pub starts: Vec<i64>,
    /// The operation before each on its machine; [`NONE`] for the first.
    pub before: Vec<u32>,
    /// The operations, each after all that it waits for.
    pub walk: Vec<u32>,
}

impl Times {
    /// The earliest starts of all operations in `orders`; none if they wait for each other, or one is missing or
    /// there twice.
    #[must_use]
    pub fn of(graph: &Graph, orders: &Orders) -> Option<Self> {
        let count = graph.operations().len();
        let mut after = vec![NONE; count];
        let mut times =
            Self { starts: vec![0; count], before: vec![NONE; count], walk: Vec::new() };
        let mut waits: Vec<usize> =
            graph.numbers().map(|number| graph.inputs(number).len()).collect();
        for order in &orders.operations {
            for pair in order.windows(2) {
                times.before[pair[1] as usize] = pair[0];
                after[pair[0] as usize] = pair[1];
                waits[pair[1] as usize] += 1;
            }
        }
        let mut is_placed = vec![false; count];
        for &number in orders.operations.iter().flatten() {
            is_placed[number as usize] = true;
        }
        let placed = orders.operations.iter().map(Vec::len).sum::<usize>();
        if placed != count || is_placed.contains(&false) {
            return None;
        }
        let firsts = orders.operations.iter().filter_map(|order| order.first().copied());
        times.walk.extend(firsts.filter(|&number| waits[number as usize] == 0));
        let mut at = 0;
        while let Some(&number) = times.walk.get(at) {
            at += 1;
            times.starts[number as usize] = times.start(graph, orders, number);
            let next = Some(after[number as usize]).filter(|&next| next != NONE);
            for next in graph.outputs(number).iter().map(|link| link.operation).chain(next) {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    times.walk.push(next);
                }
            }
        }
        (times.walk.len() == count).then_some(times)
    }

    fn start(&self, graph: &Graph, orders: &Orders, number: u32) -> i64 {
        let machine = orders.machine(graph, number);
        let before = self.before[number as usize];
        let free = if before == NONE { 0 } else { self.end(graph, before) };
        let arrival = |link: &super::Link| {
            let from = orders.machine(graph, link.operation);
            self.end(graph, link.operation) + graph.lag(link, from, machine)
        };
        graph.inputs(number).iter().map(arrival).fold(free, i64::max)
    }

    /// The end of `operation`.
    #[inline]
    #[must_use]
    pub fn end(&self, graph: &Graph, operation: u32) -> i64 {
        self.starts[operation as usize] + graph.operation(operation).time
    }

    /// By flush, first start and last end; none where nothing runs.
    #[must_use]
    pub fn spans(&self, graph: &Graph, orders: &Orders) -> Vec<Option<[i64; 2]>> {
        let ends = |order: &[u32]| {
            let (first, last) = (order.first()?, order.last()?);
            Some([self.starts[*first as usize], self.end(graph, *last)])
        };
        spans(graph, orders.operations.iter().map(|order| ends(order)))
    }

    /// What `orders`, which these are the times of, cost.
    #[must_use]
    pub fn score(&self, graph: &Graph, orders: &Orders, goal: Goal) -> Score {
        goal.score(&self.spans(graph, orders))
    }

    /// The latest start of each operation by which no machine ends later than `end` in these orders.
    #[must_use]
    pub fn latest(&self, graph: &Graph, orders: &Orders, end: i64) -> Vec<i64> {
        let mut starts = vec![end; self.starts.len()];
        for &number in self.walk.iter().rev() {
            let machine = orders.machine(graph, number);
            let time = graph.operation(number).time;
            let mut start = starts[number as usize];
            for link in graph.outputs(number) {
                let to = orders.machine(graph, link.operation);
                start = start.min(starts[link.operation as usize] - graph.lag(link, machine, to));
            }
            start -= time;
            starts[number as usize] = start;
            let before = self.before[number as usize];
            if before != NONE {
                let before = &mut starts[before as usize];
                *before = (*before).min(start);
            }
        }
        starts
    }
}

/// The times of machines, joined by flush.
#[must_use]
pub fn spans(
    graph: &Graph,
    machines: impl Iterator<Item = Option<[i64; 2]>>,
) -> Vec<Option<[i64; 2]>> {
    let flushes = graph.machines().iter().map(|machine| machine.flush as usize + 1).max();
    let mut spans: Vec<Option<[i64; 2]>> = vec![None; flushes.unwrap_or(0)];
    for (machine, own) in graph.machines().iter().zip(machines) {
        let Some([first, last]) = own else { continue };
        let span = spans[machine.flush as usize].get_or_insert([first, last]);
        *span = [span[0].min(first), span[1].max(last)];
    }
    spans
}

impl Goal {
    /// The score of flushes with these first starts and last ends.
    #[must_use]
    pub fn score(self, spans: &[Option<[i64; 2]>]) -> Score {
        let each = spans.iter().flatten().map(|&[first, last]| match self {
            Self::Makespan => last,
            Self::Span => last - first,
        });
        Score::of_spans(each)
    }
}
