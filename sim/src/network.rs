//! Transfers on shared wires.
//!
//! Sizes are counted in nanobytes (10^-9 bytes), so that a rate in bytes per second times
//! nanoseconds is a whole number of them and no rounding is lost between events.

use std::collections::VecDeque;

use crate::cluster::Wire;

/// How transfers share a wire.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Sharing {
    /// At once, at max-min fair rates: no transfer can have more without one that has less losing.
    #[default]
    Fair,
    /// One after the other, in the order in which they were begun, each at the full rate.
    Queue,
}

/// A transfer under way or waiting.
#[derive(Clone, Debug, Default)]
struct Flow {
    wires: Vec<usize>,
    /// Nanobytes still to send at `since`.
    left: u128,
    /// Bytes per second; 0 while it waits.
    rate: u64,
    since: u64,
    /// When it will have sent its last byte, unless its rate changes before.
    end: u64,
    /// The soonest time at which its end is checked.
    checked: u64,
    /// Counts the transfers that have had this number.
    generation: u32,
}

/// A time at which the caller must check by [`Network::has_ended`] whether a transfer has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowCheck {
    pub(crate) flow: usize,
    pub(crate) generation: u32,
    pub(crate) at: u64,
}

/// All transfers under way.
pub(crate) struct Network {
    sharing: Sharing,
    bandwidth: Vec<u64>,
    flows: Vec<Flow>,
    unused: Vec<usize>,
    /// The flows on each wire; under [`Sharing::Queue`] the first is the one that sends.
    on_wire: Vec<VecDeque<usize>>,
    scratch: Scratch,
}

/// Buffers for the max-min computation, reused between events.
#[derive(Default)]
struct Scratch {
    wires: Vec<usize>,
    seen_wire: Vec<bool>,
    seen_flow: Vec<bool>,
    /// By wire: what is left to give, to how many, and to each of them.
    left: Vec<u64>,
    takers: Vec<u64>,
    share: Vec<u64>,
}

const NANO: u128 = 1_000_000_000;

/// The last moment of the clock: what would end later, ends here.
pub(crate) const LAST: u64 = u64::MAX - 1;

/// A time that never comes.
const NEVER: u64 = u64::MAX;

impl Network {
    pub(crate) fn new(wires: &[Wire], sharing: Sharing) -> Self {
        Self {
            sharing,
            bandwidth: wires.iter().map(|wire| wire.bandwidth.bytes_per_second()).collect(),
            flows: Vec::new(),
            unused: Vec::new(),
            on_wire: vec![VecDeque::new(); wires.len()],
            scratch: Scratch {
                seen_wire: vec![false; wires.len()],
                left: vec![0; wires.len()],
                takers: vec![0; wires.len()],
                share: vec![0; wires.len()],
                ..Scratch::default()
            },
        }
    }

    /// Starts a transfer of `bytes` over `wires`, at least one; `check_flow` receives the times at which transfers are
    /// to be checked. Returns the transfer's number.
    pub(crate) fn begin(
        &mut self,
        now: u64,
        wires: &[usize],
        bytes: u64,
        check_flow: &mut impl FnMut(FlowCheck),
    ) -> usize {
        let flow = self.unused.pop().unwrap_or_else(|| {
            self.flows.push(Flow::default());
            self.scratch.seen_flow.push(false);
            self.flows.len() - 1
        });
        let entry = &mut self.flows[flow];
        entry.wires.clear();
        entry.wires.extend_from_slice(wires);
        (entry.left, entry.rate, entry.since) = (u128::from(bytes) * NANO, 0, now);
        (entry.end, entry.checked) = (NEVER, NEVER);
        for &wire in wires {
            self.on_wire[wire].push_back(flow);
        }
        match self.sharing {
            Sharing::Fair => self.share(now, wires, check_flow),
            Sharing::Queue => self.send_if_first(now, flow, check_flow),
        }
        flow
    }

    /// Whether a transfer has sent its last byte at the time of its check. A transfer that has become slower is
    /// checked again later, so that a change of rate leaves no stale event in the queue.
    pub(crate) fn has_ended(
        &mut self,
        now: u64,
        flow: usize,
        generation: u32,
        check_flow: &mut impl FnMut(FlowCheck),
    ) -> bool {
        let entry = &mut self.flows[flow];
        if entry.generation != generation || entry.checked != now {
            return false;
        }
        if entry.end > now {
            entry.checked = entry.end;
            if entry.end != NEVER {
                check_flow(FlowCheck { flow, generation, at: entry.end });
            }
            return false;
        }
        true
    }

    /// Ends a transfer whose end has come. Its number may then be given to another.
    pub(crate) fn end(&mut self, now: u64, flow: usize, check_flow: &mut impl FnMut(FlowCheck)) {
        let wires = std::mem::take(&mut self.flows[flow].wires);
        self.flows[flow].generation = self.flows[flow].generation.wrapping_add(1);
        for &wire in &wires {
            self.on_wire[wire].retain(|&other| other != flow);
        }
        match self.sharing {
            Sharing::Fair => self.share(now, &wires, check_flow),
            Sharing::Queue => {
                for &wire in &wires {
                    if let Some(&next) = self.on_wire[wire].front() {
                        self.send_if_first(now, next, check_flow);
                    }
                }
            }
        }
        self.flows[flow].wires = wires;
        self.unused.push(flow);
    }

    /// Starts `flow` if it is at the front of the queue on all its wires and does not send yet.
    fn send_if_first(&mut self, now: u64, flow: usize, check_flow: &mut impl FnMut(FlowCheck)) {
        let Flow { wires, rate, .. } = &self.flows[flow];
        let first = |wire: &usize| self.on_wire[*wire].front() == Some(&flow);
        if *rate == 0 && wires.iter().all(first) {
            let slowest = wires.iter().map(|&wire| self.bandwidth[wire]).min().unwrap_or(1);
            self.set_rate(now, flow, slowest, check_flow);
        }
    }

    fn set_rate(
        &mut self,
        now: u64,
        flow: usize,
        rate: u64,
        check_flow: &mut impl FnMut(FlowCheck),
    ) {
        let entry = &mut self.flows[flow];
        let sent = u128::from(entry.rate) * u128::from(now - entry.since);
        entry.left = entry.left.saturating_sub(sent);
        entry.since = now;
        entry.rate = rate;
        entry.end = match rate {
            0 => NEVER,
            _ => now.saturating_add(divide_up(entry.left, rate)).min(LAST),
        };
        if entry.end < entry.checked {
            entry.checked = entry.end;
            check_flow(FlowCheck { flow, generation: entry.generation, at: entry.end });
        }
    }

    /// Gives every transfer that may be affected by a change on `wires` its max-min fair rate, by
    /// progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): the wire that
    /// has least to give to each of its takers settles their rates, then the next.
    fn share(&mut self, now: u64, wires: &[usize], check_flow: &mut impl FnMut(FlowCheck)) {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.gather(wires, &mut scratch);
        for &wire in &scratch.wires {
            scratch.seen_wire[wire] = false;
            let takers = self.on_wire[wire].len() as u64;
            scratch.left[wire] = self.bandwidth[wire];
            scratch.takers[wire] = takers;
            scratch.share[wire] = self.bandwidth[wire].checked_div(takers).unwrap_or(0);
        }
        loop {
            let Scratch { wires, takers, share, .. } = &mut scratch;
            wires.retain(|&wire| takers[wire] > 0);
            let tightest = wires.iter().copied().min_by_key(|&wire| (share[wire], wire));
            let Some(wire) = tightest else { break };
            let rate = scratch.share[wire];
            self.settle(now, wire, rate, &mut scratch, check_flow);
        }
        self.scratch = scratch;
    }

    /// Gives `rate` to all transfers on `wire` whose rate is not settled yet. Where there are more
    /// of them than bytes per second to give, the first get one each.
    fn settle(
        &mut self,
        now: u64,
        wire: usize,
        rate: u64,
        scratch: &mut Scratch,
        check_flow: &mut impl FnMut(FlowCheck),
    ) {
        for at in 0..self.on_wire[wire].len() {
            let flow = self.on_wire[wire][at];
            if !std::mem::take(&mut scratch.seen_flow[flow]) {
                continue;
            }
            let rate = match rate {
                0 => u64::from(self.flows[flow].wires.iter().all(|&one| scratch.left[one] > 0)),
                _ => rate,
            };
            for &other in &self.flows[flow].wires {
                let (left, takers) = (&mut scratch.left[other], &mut scratch.takers[other]);
                *left = left.saturating_sub(rate);
                *takers -= 1;
                scratch.share[other] = left.checked_div(*takers).unwrap_or(0);
            }
            if self.flows[flow].rate != rate {
                self.set_rate(now, flow, rate, check_flow);
            }
        }
    }

    /// Collects the wires and flows that hang together with `wires`. Marks flows as seen: not yet
    /// settled.
    fn gather(&self, wires: &[usize], scratch: &mut Scratch) {
        scratch.wires.clear();
        for &wire in wires {
            if !std::mem::replace(&mut scratch.seen_wire[wire], true) {
                scratch.wires.push(wire);
            }
        }
        let mut next = 0;
        while let Some(&wire) = scratch.wires.get(next) {
            next += 1;
            for &flow in &self.on_wire[wire] {
                if std::mem::replace(&mut scratch.seen_flow[flow], true) {
                    continue;
                }
                for &other in &self.flows[flow].wires {
                    if !std::mem::replace(&mut scratch.seen_wire[other], true) {
                        scratch.wires.push(other);
                    }
                }
            }
        }
    }

    /// The sum of the rates on each wire, in bytes per second.
    #[cfg(test)]
    fn load(&self) -> Vec<u64> {
        let rate = |flow: &usize| self.flows[*flow].rate;
        self.on_wire.iter().map(|flows| flows.iter().map(rate).sum()).collect()
    }
}

/// `left / rate`, rounded up; in 64 bits where they suffice, which is most of the time.
pub(crate) fn divide_up(left: u128, rate: u64) -> u64 {
    match u64::try_from(left) {
        Ok(left) => left.div_ceil(rate),
        Err(_) => u64::try_from(left.div_ceil(u128::from(rate))).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline::Bandwidth;
    use proptest::prelude::*;

    fn wires(bandwidths: &[u64]) -> Vec<Wire> {
        let wire = |&bandwidth: &u64| Wire {
            name: String::new(),
            bandwidth: Bandwidth::new(bandwidth).unwrap(),
        };
        bandwidths.iter().map(wire).collect()
    }

    /// Runs transfers (begin, wires, bytes) to their ends.
    fn ends(network: &mut Network, transfers: &[(u64, Vec<usize>, u64)]) -> Vec<u64> {
        let mut checks: Vec<FlowCheck> = Vec::new();
        let mut ends = vec![0; transfers.len()];
        let mut who = vec![0; transfers.len()];
        let mut next = 0;
        loop {
            let soonest = checks.iter().enumerate().min_by_key(|(_, one)| (one.at, one.flow));
            let soonest = soonest.map(|(place, one)| (place, *one));
            let begin = transfers.get(next).map(|transfer| transfer.0);
            match (soonest, begin) {
                (None, None) => return ends,
                (Some((place, one)), begin) if begin.is_none_or(|begin| one.at <= begin) => {
                    checks.remove(place);
                    let mut check = |one| checks.push(one);
                    if network.has_ended(one.at, one.flow, one.generation, &mut check) {
                        ends[who[one.flow]] = one.at;
                        network.end(one.at, one.flow, &mut check);
                    }
                }
                (_, Some(begin)) => {
                    let (_, wires, bytes) = &transfers[next];
                    let flow = network.begin(begin, wires, *bytes, &mut |one| checks.push(one));
                    who[flow] = next;
                    next += 1;
                }
                (Some(_), None) => unreachable!("the soonest check comes before no begin"),
            }
            for (load, bandwidth) in network.load().iter().zip(&network.bandwidth) {
                assert!(load <= bandwidth);
            }
        }
    }

    const GB: u64 = 1_000_000_000;

    #[test]
    fn two_transfers_share_a_wire_fairly() {
        // 1 GB/s is 1 byte per ns. The first sends 100 bytes alone until 100, then both at half
        // rate: the second needs 2 x 200 ns, the first has 300 left; at 500 the second is done, the
        // first has 100 left and the wire alone again.
        let mut network = Network::new(&wires(&[GB]), Sharing::Fair);
        let transfers = [(0, vec![0], 400), (100, vec![0], 200)];
        assert_eq!(ends(&mut network, &transfers), [600, 500]);
    }

    #[test]
    fn queued_transfers_go_one_by_one() {
        let mut network = Network::new(&wires(&[GB, 2 * GB]), Sharing::Queue);
        // The second waits for wire 0 until 400 although wire 1 is free; the third waits behind it.
        let transfers = [(0, vec![0], 400), (100, vec![0, 1], 200), (150, vec![1], 200)];
        assert_eq!(ends(&mut network, &transfers), [400, 600, 700]);
    }

    #[test]
    fn max_min_gives_what_the_bottleneck_leaves() {
        // Wire 0 (1 byte/ns) carries a and b, wire 1 (3 bytes/ns) carries b and c: a and b get 1/2
        // each, c gets 3 - 1/2. c sends 250 bytes in 100 ns; a and b 50 bytes each in that time.
        let mut network = Network::new(&wires(&[GB, 3 * GB]), Sharing::Fair);
        let transfers = [(0, vec![0], 50), (0, vec![0, 1], 50), (0, vec![1], 250)];
        assert_eq!(ends(&mut network, &transfers), [100, 100, 100]);
    }

    proptest! {
        /// A transfer takes at least its time alone, and all of a wire's bytes at least the time
        /// the wire needs for them.
        #[test]
        fn no_wire_carries_more_than_it_can(
            fair: bool,
            bandwidths in prop::collection::vec(prop_oneof![4 => 1..5 * GB, 1 => 1..8u64], 1..5),
            mut transfers in prop::collection::vec(
                (0..2000u64, prop::collection::btree_set(0..4usize, 1..4), 0..5000u64), 1..12),
        ) {
            transfers.sort();
            let sharing = if fair { Sharing::Fair } else { Sharing::Queue };
            let clip = |wires: &std::collections::BTreeSet<usize>| {
                let clipped: std::collections::BTreeSet<usize> =
                    wires.iter().map(|wire| wire % bandwidths.len()).collect();
                clipped.into_iter().collect::<Vec<_>>()
            };
            let transfers: Vec<_> = transfers.iter().map(|(t, w, b)| (*t, clip(w), *b)).collect();
            let ends = ends(&mut Network::new(&wires(&bandwidths), sharing), &transfers);
            for ((begin, on, bytes), end) in transfers.iter().zip(&ends) {
                let slowest = on.iter().map(|&wire| bandwidths[wire]).min().unwrap();
                prop_assert!(end - begin >= divide_up(u128::from(*bytes) * NANO, slowest));
            }
            for (wire, &bandwidth) in bandwidths.iter().enumerate() {
                let users = || transfers.iter().zip(&ends).filter(|(one, _)| one.1.contains(&wire));
                let bytes: u64 = users().map(|(one, _)| one.2).sum();
                let begin = users().map(|(one, _)| one.0).min().unwrap_or(0);
                let end = users().map(|(_, end)| *end).max().unwrap_or(0);
                prop_assert!(end - begin >= divide_up(u128::from(bytes) * NANO, bandwidth));
            }
        }
    }
}
