//! One device of a run: its microbatches, minibatch by minibatch.

use std::time::{Duration, Instant};

use pipeline::Nanos;

use super::failure::Failure;
use super::mesh::{Event, Mesh};
use super::owner::Owner;
use super::plan::{Communication, Plan};
use super::serial::place;
use super::step::{Computer, Exchange};
use super::units::Units;
use super::wire::{Head, Kind, pack_gradients, pack_weights, weights};
use runtime::tcp::{ProcessGroup, RendezvousSettings, init_process_group, take};
use runtime::{Rendezvous, nanos_since};

/// The measurements of a run, over all devices.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasuredRun {
    /// The minibatches.
    pub steps: Vec<StepTimes>,
    /// The loss of each minibatch.
    pub losses: Vec<f64>,
    /// All weights at the end.
    pub weights: Vec<f32>,
    /// Number of waits of a device for all others, over all devices.
    pub synchronizations: u64,
    /// Messages with pulls, parameters and gradients, over all devices.
    pub messages: u64,
}

/// The times of a minibatch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepTimes {
    /// Time from the end of the previous minibatch to the end of its last device.
    pub time: Nanos,
    /// Compute time of each device.
    pub busy: Vec<Nanos>,
}

/// Runs one device of `plan`, the rank of `rendezvous`, together with the other devices. Rank 0
/// returns the measurements of all devices, other ranks `None`.
pub fn join(plan: &Plan, rendezvous: &Rendezvous) -> Result<Option<MeasuredRun>, Failure> {
    let devices = plan.devices();
    let settings = RendezvousSettings::without_stages(devices, plan.timeout, &plan.words());
    let ProcessGroup { streams, epoch } = init_process_group(&settings, rendezvous)?;
    let (rank, units) = (rendezvous.launch.rank, Units::new(plan.model, devices));
    let owner = Owner::new(plan, &units, rank);
    let owner = owner.map_err(|error| Failure::Device { rank, error })?;
    let reports = (0..devices).map(|device| report_bytes(plan, &units, device)).collect();
    let mesh = Mesh::open(streams, rank, plan, owner, &units, reports)?;
    let mut member = Member {
        plan,
        units,
        mesh,
        epoch,
        received: Vec::new(),
        ended: None,
        minibatch: 0,
        call: 0,
        report: Report::default(),
    };
    let end = member.run();
    if let Err(failure) = &end {
        member.mesh.send_stop(failure);
    }
    member.mesh.close();
    end
}

/// A message for the device.
struct Received {
    from: usize,
    head: Head,
    payload: Vec<u8>,
}

/// Measurements of one device.
#[derive(Clone, Debug, Default)]
struct Report {
    begin: u64,
    synchronizations: u64,
    messages: u64,
    /// End and compute time of each minibatch.
    steps: Vec<(u64, u64)>,
    /// The loss share of each of its samples.
    losses: Vec<f64>,
    weights: Vec<f32>,
}

struct Member<'a> {
    plan: &'a Plan,
    units: Units,
    mesh: Mesh,
    epoch: Instant,
    received: Vec<Received>,
    /// The failure and rank of the first disconnected device.
    ended: Option<(Failure, usize)>,
    minibatch: u32,
    /// The number of the next collective, or of the next pull.
    call: u32,
    report: Report,
}

impl Member<'_> {
    fn rank(&self) -> usize {
        self.mesh.shared.rank
    }

    fn now(&self) -> u64 {
        nanos_since(self.epoch, Instant::now())
    }

    fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank();
        (0..self.plan.devices()).filter(move |peer| *peer != rank)
    }

    fn run(&mut self) -> Result<Option<MeasuredRun>, Failure> {
        let mut computer = Computer::new(self.plan, &self.units);
        self.tell_all(Kind::Ready);
        self.receive(
            "word that they are ready",
            Kind::Ready,
            0,
            &self.peers().collect::<Vec<_>>(),
        )?;
        self.report.begin = self.now();
        for number in 0..self.plan.minibatches.len() {
            self.step(&mut computer, number)?;
        }
        self.conclude()
    }

    /// Runs all microbatches of a minibatch, and updates the shards that the device owns.
    fn step(&mut self, computer: &mut Computer, number: usize) -> Result<(), Failure> {
        let plan = self.plan;
        let (rank, minibatch) = (self.rank(), &plan.minibatches[number]);
        let place = place(rank, self.minibatch, minibatch.tokens());
        computer.busy = Duration::ZERO;
        for microbatch in &minibatch.devices[rank] {
            let samples: Vec<(u32, usize)> =
                microbatch.iter().map(|&sample| (sample, minibatch.length(sample))).collect();
            let losses = computer.microbatch(self, place, &samples)?;
            self.report.losses.extend(losses);
        }
        if plan.communication == Communication::OnDemand {
            // Sent after all pushes: a device that has received it from all peers has all
            // gradients.
            self.tell_all(Kind::Done);
            let peers: Vec<usize> = self.peers().collect();
            self.receive("the end of the minibatch", Kind::Done, self.minibatch, &peers)?;
            self.report.synchronizations += 1;
        }
        self.mesh.shared.update().map_err(|error| Failure::Device { rank, error })?;
        let busy = u64::try_from(computer.busy.as_nanos()).unwrap_or(u64::MAX);
        self.report.steps.push((self.now(), busy));
        self.minibatch += 1;
        Ok(())
    }

    fn tell_all(&self, kind: Kind) {
        let head = Head { call: self.minibatch, ..Head::of(kind, self.minibatch) };
        self.peers().for_each(|peer| self.mesh.shared.send(peer, head.frame(&[])));
    }

    /// Waits for one message of `kind` and `call` from each of `peers`. Returns their payloads in
    /// that order.
    fn receive(
        &mut self,
        what: &str,
        kind: Kind,
        call: u32,
        peers: &[usize],
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let deadline = Instant::now() + self.plan.timeout;
        let is_wanted = |one: &Received| one.head.kind == kind && one.head.call == call;
        loop {
            let has =
                |peer: &usize| self.received.iter().any(|one| is_wanted(one) && one.from == *peer);
            let missing: Vec<usize> = peers.iter().copied().filter(|peer| !has(peer)).collect();
            if missing.is_empty() {
                break;
            }
            // After the end of the run, a disconnected peer matters only if its message is still
            // awaited.
            if let Some((failure, from)) = &self.ended
                && (kind != Kind::Over || missing.contains(from))
            {
                return Err(failure.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.mesh.inbox.recv_timeout(left) {
                Ok(Event::Message { from, head, payload }) => {
                    self.received.push(Received { from, head, payload });
                }
                Ok(Event::Ended(failure, from)) => {
                    let known = matches!(self.ended, Some((_, other)) if peers.contains(&other));
                    if !known {
                        self.ended = Some((failure, from));
                    }
                }
                Err(_) => {
                    let (rank, timeout) = (self.rank(), self.plan.timeout);
                    let what = what.to_owned();
                    return Err(Failure::Stuck { rank, what, from: missing, timeout });
                }
            }
        }
        let mut found = Vec::with_capacity(peers.len());
        for peer in peers {
            let at = self.received.iter().position(|one| is_wanted(one) && one.from == *peer);
            found.extend(at.map(|at| self.received.swap_remove(at).payload));
        }
        Ok(found)
    }

    /// The header of messages of the next call about `unit`.
    fn head(&mut self, kind: Kind, unit: usize) -> Head {
        let unit = u32::try_from(unit).unwrap_or(u32::MAX);
        Head { kind, unit, minibatch: self.minibatch, call: self.call }
    }

    /// Rank 0 collects the measurements of all devices; other ranks wait until it has.
    fn conclude(&mut self) -> Result<Option<MeasuredRun>, Failure> {
        let rank = self.rank();
        let owned = |unit| self.mesh.shared.owned().owner.weights(unit).to_vec();
        self.report.weights = (0..self.units.count()).flat_map(owned).collect();
        if rank > 0 {
            let head = Head::of(Kind::Report, 0);
            self.mesh.shared.send(0, head.frame(&self.report.pack()));
            self.receive("the end of the run", Kind::Over, 0, &[0])?;
            return Ok(None);
        }
        let peers: Vec<usize> = self.peers().collect();
        let packed = self.receive("their measurements", Kind::Report, 0, &peers)?;
        let mut reports = vec![self.report.clone()];
        for (peer, bytes) in peers.iter().zip(packed) {
            let what = "its report makes no sense".to_owned();
            let report = Report::unpack(&bytes, self.plan, &self.units, *peer);
            reports.push(report.ok_or(Failure::OutOfOrder { rank: *peer, what })?);
        }
        for peer in peers {
            self.mesh.shared.send(peer, Head::of(Kind::Over, 0).frame(&[]));
        }
        Ok(Some(measured(self.plan, &self.units, &reports)))
    }
}

impl Exchange for Member<'_> {
    fn unshard(&mut self, unit: usize) -> Result<Vec<f32>, Failure> {
        let peers: Vec<usize> = self.peers().collect();
        let head = match self.plan.communication {
            Communication::Collectives => {
                let head = self.head(Kind::Shard, unit);
                let own = pack_weights(self.mesh.shared.owned().owner.weights(unit));
                peers.iter().for_each(|&peer| self.mesh.shared.send(peer, head.frame(&own)));
                self.report.synchronizations += 1;
                head
            }
            Communication::OnDemand => {
                let head = self.head(Kind::Pull, unit);
                peers.iter().for_each(|&peer| self.mesh.shared.send(peer, head.frame(&[])));
                // The owners' answers are counted with the pulls.
                self.report.messages += peers.len() as u64;
                head
            }
        };
        self.report.messages += peers.len() as u64;
        self.call = self.call.wrapping_add(1);
        let shards = self.receive("parameters", Kind::Shard, head.call, &peers)?;
        let mut shards = shards.into_iter();
        let mut whole = Vec::with_capacity(self.units.range(unit).len());
        for owner in 0..self.plan.devices() {
            if owner == self.rank() {
                whole.extend(self.mesh.shared.owned().owner.weights(unit));
            } else {
                whole.extend(weights(&shards.next().unwrap_or_default()));
            }
        }
        Ok(whole)
    }

    fn reduce_grad(&mut self, unit: usize, gradients: Vec<i64>) -> Result<(), Failure> {
        let head = self.head(Kind::Push, unit);
        let peers: Vec<usize> = self.peers().collect();
        for &peer in &peers {
            let part = &gradients[self.units.shard(unit, peer)];
            self.mesh.shared.send(peer, head.frame(&pack_gradients(part)));
        }
        let own = gradients[self.units.shard(unit, self.rank())].iter().copied();
        self.mesh.shared.owned().owner.add(unit, own);
        self.report.messages += peers.len() as u64;
        if self.plan.communication == Communication::Collectives {
            self.call = self.call.wrapping_add(1);
            self.report.synchronizations += 1;
            self.receive("gradients", Kind::Push, head.call, &peers)?;
        }
        Ok(())
    }
}

/// Samples of `device` in all minibatches.
fn samples(plan: &Plan, device: usize) -> impl Iterator<Item = (usize, u32)> {
    let of = move |(number, minibatch): (usize, &super::Minibatch)| {
        let own: Vec<u32> = minibatch.devices[device].iter().flatten().copied().collect();
        own.into_iter().map(move |sample| (number, sample))
    };
    plan.minibatches.iter().enumerate().flat_map(of)
}

/// Bytes of the report of `device`.
fn report_bytes(plan: &Plan, units: &Units, device: usize) -> usize {
    let numbers = 3 + 2 * plan.minibatches.len() + samples(plan, device).count();
    8 * numbers + 4 * units.owned(device)
}

impl Report {
    fn pack(&self) -> Vec<u8> {
        let counts = [self.begin, self.synchronizations, self.messages];
        let steps = self.steps.iter().flat_map(|&(end, busy)| [end, busy]);
        let losses = self.losses.iter().map(|loss| loss.to_bits());
        let numbers = counts.into_iter().chain(steps).chain(losses);
        let mut bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        bytes.extend(pack_weights(&self.weights));
        bytes
    }

    fn unpack(bytes: &[u8], plan: &Plan, units: &Units, device: usize) -> Option<Self> {
        if bytes.len() != report_bytes(plan, units, device) {
            return None;
        }
        let mut rest = bytes;
        let mut number = || take(&mut rest).map(u64::from_le_bytes);
        let (begin, synchronizations, messages) = (number()?, number()?, number()?);
        let steps = plan.minibatches.iter().map(|_| Some((number()?, number()?)));
        let steps = steps.collect::<Option<_>>()?;
        let losses = samples(plan, device).map(|_| number().map(f64::from_bits));
        let losses = losses.collect::<Option<_>>()?;
        let weights = weights(rest).collect();
        Some(Self { begin, synchronizations, messages, steps, losses, weights })
    }
}

/// Assembles the measurements of all devices.
fn measured(plan: &Plan, units: &Units, reports: &[Report]) -> MeasuredRun {
    let mut losses: Vec<Vec<f64>> =
        plan.minibatches.iter().map(|minibatch| vec![0.0; minibatch.lengths.len()]).collect();
    for (device, report) in reports.iter().enumerate() {
        for ((minibatch, sample), loss) in samples(plan, device).zip(&report.losses) {
            losses[minibatch][sample as usize] = *loss;
        }
    }
    let mut before = reports.iter().map(|report| report.begin).min().unwrap_or(0);
    let steps = (0..plan.minibatches.len()).map(|number| {
        let of = reports.iter().filter_map(|report| report.steps.get(number));
        let end = of.clone().map(|&(end, _)| end).max().unwrap_or(before);
        let time = Nanos(end.saturating_sub(std::mem::replace(&mut before, end)));
        StepTimes { time, busy: of.map(|&(_, busy)| Nanos(busy)).collect() }
    });
    let steps = steps.collect();
    MeasuredRun {
        steps,
        losses: losses.iter().map(|samples| samples.iter().sum()).collect(),
        weights: whole_weights(units, reports),
        synchronizations: reports.iter().map(|report| report.synchronizations).sum(),
        messages: reports.iter().map(|report| report.messages).sum(),
    }
}

/// The weights of the whole model, from the shards of all devices.
fn whole_weights(units: &Units, reports: &[Report]) -> Vec<f32> {
    let mut taken = vec![0; reports.len()];
    let mut whole = Vec::new();
    for unit in 0..units.count() {
        for (owner, report) in reports.iter().enumerate() {
            let from = taken[owner];
            taken[owner] += units.shard(unit, owner).len();
            whole.extend(report.weights.get(from..taken[owner]).unwrap_or_default());
        }
    }
    whole
}
