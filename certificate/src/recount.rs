//! Recounts the time and the memory of the schedule, pass by pass.

use std::collections::VecDeque;

use pipeline::{Bytes, Footprint, Kind, Nanos, Pass, Slot};

use crate::{Backwards, Certificate, Objective, Refusal};

/// The cost of the schedule: every pass starts when its stage is free and what it needs has
/// arrived.
pub(crate) fn cost(certificate: &Certificate) -> Nanos {
    let mut clock = Clock::new(certificate);
    // A stage is woken when something that it may be waiting for has been made.
    let mut awake: VecDeque<usize> = (0..clock.at.len()).collect();
    while let Some(stage) = awake.pop_front() {
        while let Some(woken) = clock.step(stage) {
            awake.extend(woken.filter(|&other| other != stage));
        }
    }
    let spans = clock.times.iter().map(|[start, end]| match certificate.objective {
        Objective::Span => end - start,
        Objective::Makespan => *end,
    });
    Nanos(spans.max().unwrap_or(0))
}

struct Clock<'a> {
    certificate: &'a Certificate,
    /// Ends of F and B by chunk and microbatch.
    ends: [Vec<Option<u64>>; 2],
    /// Passes run so far, by stage.
    at: Vec<usize>,
    /// Start of the first pass and end of the last, by stage.
    times: Vec<[u64; 2]>,
}

impl<'a> Clock<'a> {
    fn new(certificate: &'a Certificate) -> Self {
        let shape = certificate.schedule.shape();
        let ends = [(); 2].map(|()| vec![None; shape.cells()]);
        let (at, times) = (vec![0; shape.stages()], vec![[0; 2]; shape.stages()]);
        Self { certificate, ends, at, times }
    }

    fn home(&self, pass: Pass, chunk: u16) -> usize {
        let schedule = &self.certificate.schedule;
        schedule.placement().stage(schedule.shape(), chunk, pass.microbatch)
    }

    /// When what `pass` needs of `chunk` is there; `None` as long as it is not made.
    fn arrival(&self, pass: Pass, kind: Kind, chunk: u16) -> Option<u64> {
        let cell = self.certificate.schedule.shape().cell(chunk, pass.microbatch);
        let end = self.ends[usize::from(kind == Kind::B)][cell]?;
        let [from, to] = [chunk, pass.chunk].map(|chunk| self.home(pass, chunk));
        Some(end + self.certificate.costs.hops().between(from, to).0)
    }

    /// Runs the next pass of `stage`, if there is one and it can run, and says whom it may wake.
    fn step(&mut self, stage: usize) -> Option<impl Iterator<Item = usize> + use<>> {
        let schedule = &self.certificate.schedule;
        let last = schedule.shape().chunks() - 1;
        let pass = *schedule.orders()[stage].passes().get(self.at[stage])?;
        let Pass { kind, chunk, microbatch } = pass;
        let ready = match kind {
            Kind::F if chunk == 0 => 0,
            Kind::F => self.arrival(pass, Kind::F, chunk - 1)?,
            Kind::W => self.arrival(pass, Kind::B, chunk)?,
            // That it comes before its B is seen when the schedule is read.
            Kind::R => self.arrival(pass, Kind::F, chunk)?,
            // A schedule with these is refused when it is read.
            Kind::S | Kind::T => return None,
            Kind::B | Kind::BW => {
                let forward = self.arrival(pass, Kind::F, chunk)?;
                let above = if chunk == last { 0 } else { self.arrival(pass, Kind::B, chunk + 1)? };
                forward.max(above)
            }
        };
        let times = self.certificate.costs.chunks()[usize::from(chunk)];
        let (duration, woken) = match kind {
            Kind::F => (times.forward, (chunk < last).then(|| chunk + 1)),
            Kind::B => (times.backward_input, chunk.checked_sub(1)),
            Kind::W => (times.backward_weight, None),
            Kind::R => (self.certificate.costs.recompute(chunk)?, None),
            Kind::S | Kind::T => return None,
            Kind::BW => {
                let apart = times.backward_input + times.backward_weight;
                (times.backward.unwrap_or(apart), chunk.checked_sub(1))
            }
        };
        let start = ready.max(self.times[stage][1]);
        if self.at[stage] == 0 {
            self.times[stage][0] = start;
        }
        self.times[stage][1] = start + duration.0;
        self.at[stage] += 1;
        if !matches!(kind, Kind::W | Kind::R) {
            let cell = schedule.shape().cell(chunk, microbatch);
            self.ends[usize::from(kind != Kind::F)][cell] = Some(start + duration.0);
        }
        Some(woken.map(|chunk| self.home(pass, chunk)).into_iter())
    }
}

/// The most that each stage holds, along its order.
pub(crate) fn peaks(certificate: &Certificate) -> Result<Vec<Bytes>, Refusal> {
    let orders = certificate.schedule.orders().iter().enumerate();
    orders.map(|(stage, order)| peak(certificate, stage, order.slots())).collect()
}

fn peak(
    certificate: &Certificate,
    stage: usize,
    slots: impl Iterator<Item = Slot>,
) -> Result<Bytes, Refusal> {
    let limit = certificate.limits.as_ref().map(|limits| limits.of(stage));
    let wholes = certificate.backwards == Backwards::SplitOrWhole;
    let is_known = |kind| match kind {
        Kind::F | Kind::B | Kind::W | Kind::R => true,
        Kind::BW => wholes,
        Kind::S | Kind::T => false,
    };
    // How many microbatches hold M_B, or what is kept of it, and M_W, in bytes.
    let (mut activations, mut waiting, mut peak) = (0u64, 0u64, 0u64);
    for slot in slots {
        let pass = match slot {
            Slot::One(pass) if is_known(pass.kind) => pass,
            _ => return Err(Refusal::Unsplit { slot, stage }),
        };
        let Footprint { until_backward, until_weight } = certificate.footprints.of(pass.chunk);
        let kept = certificate.footprints.kept(pass.chunk).unwrap_or(until_backward);
        match pass.kind {
            Kind::F => activations += kept.0,
            Kind::R => activations += until_backward.0 - kept.0,
            Kind::B => {
                activations -= until_backward.0;
                waiting += until_weight.0;
            }
            Kind::BW => activations -= until_backward.0,
            _ => waiting -= until_weight.0,
        }
        let held = activations + waiting;
        if let Some(limit) = limit.filter(|limit| Bytes(held) > *limit) {
            return Err(Refusal::Memory { stage, pass, held: Bytes(held), limit });
        }
        peak = peak.max(held);
    }
    Ok(Bytes(peak))
}
