//! List scheduling of a graph: a free machine takes the most urgent operation that is ready and fits.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use sim::graph::{Graph, NONE, Orders};

/// How a list schedule is made.
#[derive(Clone, Copy)]
pub(super) struct Rule<'a> {
    /// By operation: the least is the most urgent.
    pub(super) urgency: &'a [i64],
    /// An operation waits for a more urgent one that will be there before so many hundredths of its time have passed.
    pub(super) patience: i64,
    /// Whether memory stays free for all that stays on a machine, where that has an order.
    pub(super) keeps_room: bool,
}

/// Operations by urgency, or by the time when they are there.
type Queue = BTreeSet<(i64, u32)>;

/// Operations that a machine, or any machine of a pool, may take up.
#[derive(Clone, Default)]
struct Waiting {
    ready: Queue,
    coming: Queue,
}

/// One run of the list scheduler.
struct Run<'a> {
    graph: &'a Graph,
    needs: &'a [i64],
    rule: Rule<'a>,
    /// By machine, then by pool.
    waiting: Vec<Waiting>,
    /// The pools of each machine.
    pools: Vec<Vec<usize>>,
    /// Where the operations that stay on a machine have an order: those that are left, the next one last. Room for
    /// them stays free.
    chains: Vec<Vec<u32>>,
    held: Vec<i64>,
    free: Vec<i64>,
    ends: Vec<i64>,
    waits: Vec<u32>,
    orders: Orders,
    events: BinaryHeap<Reverse<(i64, u32)>>,
    placed: usize,
}

/// The orders that `rule` makes with the [`Graph::needs`] of `graph` where groups have these `machines`: [`NONE`] for the first
/// one of the pool that takes it up. `None` where nothing fits any more.
pub(super) fn schedule(
    graph: &Graph,
    needs: &[i64],
    rule: Rule<'_>,
    group_machines: Vec<u32>,
) -> Option<Orders> {
    let machines = graph.machines().len();
    let mut pools = vec![Vec::new(); machines];
    if group_machines.contains(&NONE) {
        for (pool, members) in graph.pools().iter().enumerate() {
            members.iter().for_each(|&machine| pools[machine as usize].push(machines + pool));
        }
    }
    let waits =
        graph.numbers().map(|number| u32::try_from(graph.inputs(number).len()).unwrap_or(NONE));
    let mut run = Run {
        graph,
        needs,
        rule,
        waiting: vec![Waiting::default(); machines + graph.pools().len()],
        pools,
        chains: if rule.keeps_room { chains(graph) } else { vec![Vec::new(); machines] },
        held: vec![0; machines],
        free: vec![0; machines],
        ends: vec![0; graph.operations().len()],
        waits: waits.collect(),
        orders: Orders { machines: group_machines, operations: vec![Vec::new(); machines] },
        events: BinaryHeap::new(),
        placed: 0,
    };
    for number in graph.numbers().filter(|&number| graph.inputs(number).is_empty()) {
        run.becomes_ready(number);
    }
    while let Some(Reverse((now, machine))) = run.events.pop() {
        run.wake(now, machine);
    }
    (run.placed == graph.operations().len()).then_some(run.orders)
}

/// By machine, the operations of the only group that stays there, the first one last; none where there are more.
fn chains(graph: &Graph) -> Vec<Vec<u32>> {
    let mut only: Vec<Option<usize>> = vec![None; graph.machines().len()];
    let mut is_alone = vec![true; graph.machines().len()];
    for (number, group) in graph.groups().iter().enumerate().filter(|one| one.1.pool == NONE) {
        is_alone[group.machine as usize] &= only[group.machine as usize].replace(number).is_none();
    }
    let mut chains = vec![Vec::new(); graph.machines().len()];
    for &number in graph.topological().iter().rev() {
        let group = graph.operation(number).group as usize;
        let machine = graph.groups()[group].machine as usize;
        if is_alone[machine] && only[machine] == Some(group) {
            chains[machine].push(number);
        }
    }
    chains
}

impl Run<'_> {
    /// Lets `machine` begin what it can at `now`.
    fn wake(&mut self, now: i64, machine: u32) {
        let at = machine as usize;
        for queue in std::iter::once(at).chain(self.pools[at].iter().copied()) {
            let Waiting { ready, coming } = &mut self.waiting[queue];
            while let Some(&(time, number)) = coming.first()
                && time <= now
            {
                coming.pop_first();
                ready.insert((self.rule.urgency[number as usize], number));
            }
        }
        if self.free[at] <= now
            && let Some((queue, key)) = self.choice(at, now)
        {
            self.waiting[queue].ready.remove(&key);
            self.start(now, machine, key.1);
        }
    }

    /// The operation that `machine` begins at `now`, and the queue that it is in; none if it waits.
    fn choice(&self, machine: usize, now: i64) -> Option<(usize, (i64, u32))> {
        let room = self.graph.machines()[machine].limit - self.held[machine];
        let next = self.chains[machine].last().map_or(0, |&next| self.needs[next as usize].max(0));
        let fits = |number: u32| {
            let group = self.graph.operation(number).group as usize;
            let reserve = if self.graph.groups()[group].pool == NONE { 0 } else { next };
            let need = self.needs[number as usize];
            need <= 0 || need + reserve <= room
        };
        let queues = || std::iter::once(machine).chain(self.pools[machine].iter().copied());
        let mut is_full = false;
        let best = queues().filter_map(|queue| {
            let ready = &self.waiting[queue].ready;
            let found = ready.iter().find(|(_, number)| fits(*number));
            is_full |= found.map_or(!ready.is_empty(), |found| Some(found) != ready.first());
            found.map(|&key| (key, queue))
        });
        let (key, queue) = best.min()?;
        let operation = self.graph.operation(key.1);
        let gives = operation.take + operation.leave < 0;
        let patience = i128::from(operation.time) * i128::from(self.rule.patience);
        let is_better =
            |&(_, other): &(i64, u32)| self.rule.urgency[other as usize] < key.0 && fits(other);
        let soon = |&(time, _): &(i64, u32)| i128::from(time - now) * 100 < patience;
        // What frees memory that another one lacks does not wait.
        let waits = patience > 0
            && !(gives && is_full)
            && queues().any(|queue| {
                let coming = self.waiting[queue].coming.iter();
                coming.take_while(|one| soon(one)).any(is_better)
            });
        (!waits).then_some((queue, key))
    }

    fn start(&mut self, now: i64, machine: u32, number: u32) {
        let operation = self.graph.operation(number);
        let (at, end) = (machine as usize, now + operation.time);
        self.orders.machines[operation.group as usize] = machine;
        self.orders.operations[at].push(number);
        self.held[at] += operation.take + operation.leave;
        (self.free[at], self.ends[number as usize]) = (end, end);
        self.placed += 1;
        if self.chains[at].last() == Some(&number) {
            self.chains[at].pop();
        }
        self.events.push(Reverse((end, machine)));
        for link in self.graph.outputs(number) {
            let waits = &mut self.waits[link.operation as usize];
            *waits -= 1;
            if *waits == 0 {
                self.becomes_ready(link.operation);
            }
        }
    }

    /// Queues `number`, all of whose inputs are placed.
    fn becomes_ready(&mut self, number: u32) {
        let group = self.graph.operation(number).group as usize;
        let machine = self.orders.machines[group];
        let arrival = |link: &sim::graph::Link| {
            let from = self.orders.machine(self.graph, link.operation);
            let lag = match machine {
                NONE => link.lags[0].max(link.lags[1]),
                machine => self.graph.lag(link, from, machine),
            };
            self.ends[link.operation as usize] + lag
        };
        let time = self.graph.inputs(number).iter().map(arrival).max().unwrap_or(0);
        let pool = self.graph.groups()[group].pool as usize;
        if machine == NONE {
            let queue = self.graph.machines().len() + pool;
            self.waiting[queue].coming.insert((time, number));
            let members = &self.graph.pools()[pool];
            self.events.extend(members.iter().map(|&machine| Reverse((time, machine))));
        } else {
            self.waiting[machine as usize].coming.insert((time, number));
            self.events.push(Reverse((time, machine)));
        }
    }
}
