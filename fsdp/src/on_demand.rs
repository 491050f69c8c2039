//! On-demand communication: devices pull parameters from their owners and push gradients to them
//! point to point, and meet only at the end of the minibatch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::links::Links;
use crate::work::{Layer, Work};

/// When the last device ends if transfers take no time: T = max over devices of the sum over
/// microbatches and layers of its times. `did` hears of every layer of every device.
pub(crate) fn run(work: &Work<'_>, mut did: impl FnMut(usize, Layer, u64, u64)) -> u64 {
    let mut end = 0u64;
    for (device, microbatches) in work.times().iter().enumerate() {
        let mut now = 0u64;
        for index in 0..work.layers(microbatches.len()) {
            let layer = work.layer(index);
            let duration = work.duration(device, layer, now);
            did(device, layer, now, duration);
            now = now.saturating_add(duration);
        }
        end = end.max(now);
    }
    end
}

/// The same over `links`. Every device pulls from all owners in equal parts, so that owners are
/// equally loaded: n transfers under way share what the ports of S owners carry, and none gets more
/// than a port: min(B, S B / n) each, and no more than the links of its node leave it. Devices pull
/// one layer ahead where transfers overlap. Under hybrid sharding they pull from their own node, and
/// the nodes sum all gradients at the end.
pub(crate) fn run_over(
    work: &Work<'_>,
    layers: u16,
    links: &Links,
    mut did: impl FnMut(usize, Layer, u64, u64),
) -> u64 {
    let mut run = Run::new(work, layers, links);
    for device in 0..run.clients.len() {
        run.pull(device);
    }
    while let Some(event) = run.next() {
        match event {
            Event::Begin(device, direction) => {
                run.wires.begin(run.volume(device), device, direction);
            }
            Event::Ended(device, Direction::Pull) => {
                run.clients[device].pulled += 1;
                run.compute(device, &mut did);
            }
            Event::Ended(device, Direction::Push) => run.pushed(device, &mut did),
            Event::Computed(device) => run.computed(device, &mut did),
        }
    }
    let reduced = if work.has_backward() { links.parameters.0 } else { 0 };
    let reduce = links.all_reduce(reduced, run.clients.len()) * u64::from(work.has_backward());
    run.wires.now.saturating_add(reduce)
}

/// Whether parameters come or gradients go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Pull,
    Push,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The latency of a transfer is over.
    Begin(usize, Direction),
    /// A transfer is done.
    Ended(usize, Direction),
    /// A device is done with a layer.
    Computed(usize),
}

/// One device.
struct Client {
    /// How many layers it has to do, has asked for, has, and has begun.
    count: usize,
    asked: usize,
    pulled: usize,
    begun: usize,
    is_busy: bool,
    /// Gradients that are on their way or wait for it.
    pushes: usize,
}

struct Run<'a> {
    work: &'a Work<'a>,
    links: &'a Links,
    layer_bytes: u64,
    clients: Vec<Client>,
    timers: BinaryHeap<Reverse<(u64, Event)>>,
    wires: Wires<'a>,
}

impl<'a> Run<'a> {
    fn new(work: &'a Work<'a>, layers: u16, links: &'a Links) -> Self {
        let client = |microbatches: &Vec<u64>| Client {
            count: work.layers(microbatches.len()),
            asked: 0,
            pulled: 0,
            begun: 0,
            is_busy: false,
            pushes: 0,
        };
        let devices = work.times().len();
        let wires = Wires { links, devices, now: 0, work: 0, flows: BinaryHeap::new() };
        Self {
            work,
            links,
            layer_bytes: links.of_layer(layers),
            clients: work.times().iter().map(client).collect(),
            timers: BinaryHeap::new(),
            wires,
        }
    }

    /// The next event; advances the clock to it.
    fn next(&mut self) -> Option<Event> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        match (self.wires.next_end(), timer) {
            (None, None) => None,
            (Some(end), timer) if timer.is_none_or(|at| end <= at) => {
                self.wires.advance(end);
                let Reverse((_, device, direction)) = self.wires.flows.pop()?;
                Some(Event::Ended(device, direction))
            }
            _ => {
                let Reverse((at, event)) = self.timers.pop()?;
                self.wires.advance(at);
                Some(event)
            }
        }
    }

    /// The bytes of a layer that are not on `device` itself.
    fn volume(&self, device: usize) -> u64 {
        let devices = self.clients.len();
        let owners = self.links.owners(devices).min(self.links.group(devices)) as u64;
        let owns = device % self.links.group(devices) < self.links.owners(devices);
        let elsewhere = if owns { owners - 1 } else { owners };
        let bytes = u128::from(self.layer_bytes) * u128::from(elsewhere) / u128::from(owners);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    fn send(&mut self, device: usize, direction: Direction) {
        let (latency, event) = match self.volume(device) {
            0 => (0, Event::Ended(device, direction)),
            _ => (self.links.latency.0, Event::Begin(device, direction)),
        };
        self.timers.push(Reverse((self.wires.now.saturating_add(latency), event)));
    }

    /// Asks for the next layer, if one is left.
    fn pull(&mut self, device: usize) {
        let client = &mut self.clients[device];
        if client.asked < client.count {
            client.asked += 1;
            self.send(device, Direction::Pull);
        }
    }

    /// Begins the next layer if it is there and the device is free.
    fn compute(&mut self, device: usize, did: &mut impl FnMut(usize, Layer, u64, u64)) {
        let client = &mut self.clients[device];
        if client.is_busy || client.begun == client.pulled {
            return;
        }
        let layer = self.work.layer(client.begun);
        client.begun += 1;
        client.is_busy = true;
        let now = self.wires.now;
        let duration = self.work.duration(device, layer, now);
        did(device, layer, now, duration);
        self.timers.push(Reverse((now.saturating_add(duration), Event::Computed(device))));
        if self.links.overlap {
            self.pull(device);
        }
    }

    fn computed(&mut self, device: usize, did: &mut impl FnMut(usize, Layer, u64, u64)) {
        let client = &mut self.clients[device];
        client.is_busy = false;
        let is_backward = self.work.layer(client.begun - 1).is_backward;
        if is_backward {
            client.pushes += 1;
            if client.pushes == 1 {
                self.send(device, Direction::Push);
            }
        }
        match (self.links.overlap, is_backward) {
            (true, _) => self.compute(device, did),
            (false, false) => self.pull(device),
            (false, true) => {}
        }
    }

    fn pushed(&mut self, device: usize, did: &mut impl FnMut(usize, Layer, u64, u64)) {
        self.clients[device].pushes -= 1;
        if self.clients[device].pushes > 0 {
            self.send(device, Direction::Push);
        }
        if self.links.overlap { self.compute(device, did) } else { self.pull(device) }
    }
}

/// The transfers under way. All get the same rate, so one sum of the work done for each of them
/// says when the next ends.
struct Wires<'a> {
    links: &'a Links,
    devices: usize,
    now: u64,
    /// The progress of a transfer that had been under way from the start, in 10^-9 bytes.
    work: u128,
    /// The flows, by the work at which each ends.
    flows: BinaryHeap<Reverse<(u128, usize, Direction)>>,
}

impl Wires<'_> {
    /// Bytes per second of each transfer.
    fn rate(&self) -> u128 {
        self.links.pull_rate(self.devices, self.flows.len()).0
    }

    fn begin(&mut self, bytes: u64, device: usize, direction: Direction) {
        let end = self.work + u128::from(bytes) * 1_000_000_000;
        self.flows.push(Reverse((end, device, direction)));
    }

    fn next_end(&self) -> Option<u64> {
        let Reverse((end, ..)) = self.flows.peek()?;
        let left = end.saturating_sub(self.work).div_ceil(self.rate());
        Some(self.now.saturating_add(u64::try_from(left).unwrap_or(u64::MAX)))
    }

    fn advance(&mut self, to: u64) {
        self.work += u128::from(to.saturating_sub(self.now)) * self.rate();
        self.now = to;
    }
}
