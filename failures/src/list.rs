//! Orders made by a list scheduler: each worker takes the most urgent pass that is ready and fits its memory.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::instance::{Instance, NONE, class};
use crate::timing::Orders;

/// How urgent passes are, and how long a worker waits for a better one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    /// By pass: the least is the most urgent.
    pub(crate) urgency: &'a [u64],
    /// Whether any B comes before any F.
    pub(crate) backward_first: bool,
    /// A W waits where a B or an F will be there before so many hundredths of its time have passed.
    pub(crate) patience: u64,
}

/// What workers may hold, in bytes by stage, and what must stay free for a microbatch to get through.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// The limit of each stage.
    pub(crate) limits: Vec<u64>,
    /// By chunk: what later chunks of its stage, and a backward, need beside its own activations.
    pub(crate) reserves: Vec<u64>,
}

impl Room {
    /// The room under `limits`, by stage.
    pub(crate) fn new(instance: &Instance, limits: &[u64]) -> Self {
        let chunks = instance.shape.chunks();
        let stage = |chunk| instance.placement.stage(instance.shape, chunk, 0);
        let mut held = vec![0u64; usize::from(chunks)];
        let mut extra = vec![0u64; usize::from(chunks)];
        for node in &instance.nodes[..instance.nodes.len() / instance.pipelines.max(1) as usize] {
            let at = usize::from(node.pass.chunk);
            let stays = node.taken.saturating_sub(node.left[1]);
            match class(node.pass.kind) {
                0 => held[at] = held[at].max(stays),
                1 => {
                    let more = node.left[0].saturating_sub(node.left[1]);
                    extra[at] = extra[at].max(node.taken).max(more);
                }
                _ => {}
            }
        }
        let reserve = |chunk: u16| {
            let later = (chunk + 1..chunks).filter(|&one| stage(one) == stage(chunk));
            let chain: u64 = later.map(|one| held[usize::from(one)]).sum();
            let same = (0..chunks).filter(|&one| stage(one) == stage(chunk));
            chain + same.map(|one| extra[usize::from(one)]).max().unwrap_or(0)
        };
        Self { limits: limits.to_vec(), reserves: (0..chunks).map(reserve).collect() }
    }

    /// The least limit of each stage under which a microbatch gets through.
    pub(crate) fn needed(&self, instance: &Instance) -> Vec<u64> {
        let mut needed = vec![0u64; self.limits.len()];
        for node in &instance.nodes {
            if class(node.pass.kind) == 0 {
                let stage = instance.stage(node.worker);
                needed[stage] =
                    needed[stage].max(node.taken + self.reserves[usize::from(node.pass.chunk)]);
            }
        }
        needed
    }
}

/// What happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A pass has all that it waits for.
    Ready(u32),
    /// A worker is done with a pass.
    Free(u32, u32),
}

/// The passes that are ready on a worker: F, B, W.
#[derive(Clone, Default)]
struct Queue {
    ready: [BTreeSet<(u64, u32)>; 3],
    /// When F and B come that are known to come.
    coming: BinaryHeap<Reverse<(u64, u32)>>,
    busy: bool,
    held: u64,
}

/// An order of all passes by `rule` within `room`; none where no pass fits any more.
pub(crate) fn schedule(instance: &Instance, rule: Rule<'_>, room: &Room) -> Option<Orders> {
    let mut run = Run {
        instance,
        rule,
        room,
        queues: vec![Queue::default(); instance.workers()],
        orders: vec![Vec::new(); instance.workers()],
        ends: vec![0; instance.nodes.len()],
        waits: instance
            .nodes
            .iter()
            .map(|node| node.inputs.iter().map(|input| u8::from(input.0 != NONE)).sum())
            .collect(),
        events: BinaryHeap::new(),
    };
    for number in 0..u32::try_from(instance.nodes.len()).unwrap_or(NONE) {
        if run.waits[number as usize] == 0 {
            run.events.push(Reverse((0, Event::Ready(number))));
        }
    }
    run.all();
    let done: usize = run.orders.iter().map(Vec::len).sum();
    (done == instance.nodes.len()).then_some(run.orders)
}

struct Run<'a> {
    instance: &'a Instance,
    rule: Rule<'a>,
    room: &'a Room,
    queues: Vec<Queue>,
    orders: Orders,
    ends: Vec<u64>,
    waits: Vec<u8>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
}

impl Run<'_> {
    fn all(&mut self) {
        let mut touched = BTreeSet::new();
        while let Some(Reverse((now, event))) = self.events.pop() {
            touched.insert(self.happens(now, event));
            let is_last = self.events.peek().is_none_or(|next| next.0.0 > now);
            if is_last {
                for worker in std::mem::take(&mut touched) {
                    self.start(worker, now);
                }
            }
        }
    }

    /// Takes note of `event`, and says which worker it is about.
    fn happens(&mut self, now: u64, event: Event) -> u32 {
        match event {
            Event::Ready(number) => {
                let node = &self.instance.nodes[number as usize];
                let queue = &mut self.queues[node.worker as usize];
                let class = class(node.pass.kind);
                queue.ready[class].insert((self.rule.urgency[number as usize], number));
                if class < 2 {
                    while queue.coming.peek().is_some_and(|next| next.0.0 <= now) {
                        queue.coming.pop();
                    }
                }
                node.worker
            }
            Event::Free(worker, number) => {
                let node = &self.instance.nodes[number as usize];
                let queue = &mut self.queues[worker as usize];
                queue.busy = false;
                queue.held = (queue.held + node.left[0]).saturating_sub(node.left[1]);
                worker
            }
        }
    }

    fn start(&mut self, worker: u32, now: u64) {
        if self.queues[worker as usize].busy {
            return;
        }
        let Some(number) = self.choice(worker, now) else { return };
        let node = &self.instance.nodes[number as usize];
        let key = (self.rule.urgency[number as usize], number);
        let end = now + node.time;
        let queue = &mut self.queues[worker as usize];
        queue.ready[class(node.pass.kind)].remove(&key);
        queue.busy = true;
        queue.held += node.taken;
        self.orders[worker as usize].push(number);
        self.ends[number as usize] = end;
        self.events.push(Reverse((end, Event::Free(worker, number))));
        for &next in self.instance.successors(number) {
            self.waits[next as usize] -= 1;
            if self.waits[next as usize] == 0 {
                self.becomes_ready(next);
            }
        }
    }

    fn becomes_ready(&mut self, number: u32) {
        let node = &self.instance.nodes[number as usize];
        let inputs = node.inputs.into_iter().filter(|input| input.0 != NONE);
        let at = inputs.map(|(from, delay)| self.ends[from as usize] + delay).max().unwrap_or(0);
        self.events.push(Reverse((at, Event::Ready(number))));
        if class(node.pass.kind) < 2 {
            self.queues[node.worker as usize].coming.push(Reverse((at, number)));
        }
    }

    /// The pass that `worker` runs next; none if it waits.
    fn choice(&self, worker: u32, now: u64) -> Option<u32> {
        let queue = &self.queues[worker as usize];
        let limit = self.room.limits[self.instance.stage(worker)];
        let forward = self.forward(queue, limit);
        let backward = queue.ready[1].first().copied().filter(|&(_, number)| {
            let node = &self.instance.nodes[number as usize];
            let more = node.taken.max(node.left[0].saturating_sub(node.left[1]));
            queue.held + more <= limit
        });
        let both = match (backward, forward) {
            (Some(backward), Some(forward)) if !self.rule.backward_first => {
                Some(backward.min(forward))
            }
            (Some(one), _) | (None, Some(one)) => Some(one),
            (None, None) => None,
        };
        let weight = queue.ready[2].first().copied().filter(|&(_, number)| {
            let time = self.instance.nodes[number as usize].time;
            let patience = u128::from(time) * u128::from(self.rule.patience) / 100;
            let soon = queue.coming.iter().map(|next| next.0.0).filter(|&at| at > now).min();
            let waits = soon.is_some_and(|at| u128::from(at - now) < patience);
            !waits || self.is_full(queue, limit)
        });
        both.or(weight).map(|(_, number)| number)
    }

    /// Whether some F waits for memory.
    fn is_full(&self, queue: &Queue, limit: u64) -> bool {
        !queue.ready[0].is_empty() && self.forward(queue, limit).is_none()
    }

    /// The most urgent F that fits.
    fn forward(&self, queue: &Queue, limit: u64) -> Option<(u64, u32)> {
        let fits = |number: u32| {
            let node = &self.instance.nodes[number as usize];
            let reserve = self.room.reserves[usize::from(node.pass.chunk)];
            queue.held + node.taken + reserve <= limit
        };
        // Passes of a chunk need the same: the first of each chunk stands for all.
        let mut tried = [u16::MAX; 8];
        let mut ready = queue.ready[0].iter().copied();
        ready.find(|&(_, number)| {
            let chunk = self.instance.nodes[number as usize].pass.chunk;
            let slot = usize::from(chunk) % tried.len();
            if tried[slot] == chunk {
                return false;
            }
            tried[slot] = chunk;
            fits(number)
        })
    }
}
