//! Memory of each device over time: what stages hold all the time, activations, and buffers of
//! transfers.
//!
//! A pass takes memory when it starts and frees it when it ends. A value on its way is held twice:
//! by the sender from when it is made until it has arrived, and by the receiver from when it begins
//! to move until the pass that needs it starts, which accounts for it from then on.

use std::collections::BTreeMap;

use pipeline::{Bytes, Fault, Footprints, Kind, Nanos, Pass, Schedule, Span, Timeline};

use crate::engine::{Job, Run, check_resident};
use crate::host_copy::HostCopy;

/// An activation that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The stage that holds it.
    pub stage: usize,
    /// The last pass that has run, or runs, on this chunk and microbatch.
    pub pass: Pass,
    /// How much.
    pub bytes: Bytes,
}

/// When a device holds more than it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overflow {
    /// The first moment.
    pub at: Nanos,
    /// The excess at that moment.
    pub by: Bytes,
}

/// The peak memory of a device, and its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peak {
    /// Which device.
    pub device: usize,
    /// The most it holds.
    pub bytes: Bytes,
    /// The first moment at which it does.
    pub at: Nanos,
    /// The part held all the time.
    pub resident: Bytes,
    /// The part of transfers.
    pub buffers: Bytes,
    /// Activations, by stage, chunk and microbatch, with what of them is on the host.
    pub activations: Vec<Held>,
    /// The part of the activations that is on the host.
    pub on_host: Bytes,
    /// Where the device is too small.
    pub overflow: Option<Overflow>,
}

/// Moments, ascending, and the bytes that a device holds from then on.
pub type Curve = Vec<(Nanos, Bytes)>;

/// Memory of each device, at each moment at which it changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Occupancy {
    /// By device, what it holds over time.
    pub curves: Vec<Curve>,
    /// By device, those on which a stage sits.
    pub peaks: Vec<Peak>,
}

/// A change of the memory of one device at one moment.
#[derive(Clone, Copy, Default)]
struct Change {
    freed: u64,
    taken: u64,
    /// Of those, what concerns buffers.
    buffers_freed: u64,
    buffers_taken: u64,
}

type Changes = BTreeMap<u64, Change>;

impl Occupancy {
    /// Follows `run` of `job`; `resident` is what each stage holds all the time, `capacities` what
    /// each device has, if that is known.
    ///
    /// # Errors
    /// If the footprints are those of another pipeline, or so much is held that it cannot be
    /// counted.
    pub fn of(
        run: &Run,
        job: &Job<'_>,
        footprints: &Footprints,
        resident: &[Bytes],
        capacities: Option<&[Bytes]>,
    ) -> Result<Self, Fault> {
        footprints.check_for(job.schedule)?;
        check_resident(resident)?;
        let mut seated = vec![Vec::new(); job.cluster.devices()];
        for (stage, &device) in job.seats.devices().iter().enumerate() {
            seated[device].push(stage);
        }
        let mut changes: Vec<Changes> = vec![Changes::new(); job.cluster.devices()];
        add_passes(run, job, footprints, &mut changes);
        add_transfers(run, job, &mut changes);
        add_copies(run, job, &mut changes);
        let mut curves = vec![Vec::new(); job.cluster.devices()];
        let mut peaks = Vec::new();
        for (device, changes) in changes.iter().enumerate() {
            let seated = &seated[device];
            if seated.is_empty() {
                continue;
            }
            let fixed: Bytes = seated.iter().map(|&stage| resident[stage]).sum();
            let capacity = capacities.map(|capacities| capacities[device]);
            let (curve, mut peak) = follow(device, changes, fixed, capacity);
            peak.activations =
                seated.iter().flat_map(|&stage| held(run, footprints, stage, peak.at)).collect();
            peak.on_host = on_host(run, seated, peak.at);
            curves[device] = curve;
            peaks.push(peak);
        }
        Ok(Self { curves, peaks })
    }
}

/// The most activation bytes that each stage of `timeline` holds while `copies` go to the host and come
/// back, where each stage has a device to itself. Without copies the order alone says it:
/// [`pipeline::Memory`].
///
/// # Errors
/// If the footprints are those of another pipeline.
pub fn activation_peaks(
    schedule: &Schedule,
    timeline: &Timeline,
    copies: &[HostCopy],
    footprints: &Footprints,
) -> Result<Vec<Bytes>, Fault> {
    footprints.check_for(schedule)?;
    let mut changes: Vec<Changes> = vec![Changes::new(); timeline.stages.len()];
    for (spans, changes) in timeline.stages.iter().zip(&mut changes) {
        add_spans(spans, footprints, changes);
    }
    for copy in copies {
        add_copy(copy, &mut changes[copy.stage]);
    }
    let peak = |changes: &Changes| follow(0, changes, Bytes(0), None).1.bytes;
    Ok(changes.iter().map(peak).collect())
}

/// The curve and the peak of one device.
fn follow(
    device: usize,
    changes: &Changes,
    resident: Bytes,
    capacity: Option<Bytes>,
) -> (Curve, Peak) {
    let zero = (Nanos(0), Bytes(0));
    let mut peak = Peak {
        device,
        bytes: resident,
        at: zero.0,
        resident,
        buffers: zero.1,
        activations: Vec::new(),
        on_host: zero.1,
        overflow: None,
    };
    let (mut curve, mut held, mut buffers) = (vec![(Nanos(0), resident)], resident.0, 0u64);
    for (&at, change) in changes {
        // A pass of zero duration allocates and frees at the same time: allocate first.
        held = held + change.taken - change.freed;
        buffers = buffers + change.buffers_taken - change.buffers_freed;
        curve.push((Nanos(at), Bytes(held)));
        if held > peak.bytes.0 {
            (peak.bytes, peak.at, peak.buffers) = (Bytes(held), Nanos(at), Bytes(buffers));
        }
        if let Some(over) = capacity.and_then(|capacity| held.checked_sub(capacity.0)) {
            let overflow = Overflow { at: Nanos(at), by: Bytes(over) };
            peak.overflow = peak.overflow.or((over > 0).then_some(overflow));
        }
    }
    if let Some(over) = capacity.and_then(|capacity| resident.0.checked_sub(capacity.0))
        && over > 0
    {
        peak.overflow = Some(Overflow { at: Nanos(0), by: Bytes(over) });
    }
    (curve, peak)
}

fn add_passes(run: &Run, job: &Job<'_>, footprints: &Footprints, changes: &mut [Changes]) {
    for (stage, spans) in run.timeline.stages.iter().enumerate() {
        add_spans(spans, footprints, &mut changes[job.seats.device(stage)]);
    }
}

fn add_spans(spans: &[Span], footprints: &Footprints, changes: &mut Changes) {
    for span in spans {
        for pass in span.slot.passes() {
            let change = footprints.change(pass);
            changes.entry(span.start.0).or_default().taken += change.taken_at_start.0;
            let end = changes.entry(span.end.0).or_default();
            end.taken += change.taken_at_end.0;
            end.freed += change.freed_at_end.0;
        }
    }
}

fn add_transfers(run: &Run, job: &Job<'_>, changes: &mut [Changes]) {
    let bytes = job.messages.bytes.0;
    if bytes == 0 {
        return;
    }
    let used = first_uses(run, job);
    for transfer in &run.transfers {
        let mut hold = |stage: usize, from: Nanos, until: Nanos| {
            let changes = &mut changes[job.seats.device(stage)];
            let begin = changes.entry(from.0).or_default();
            (begin.taken, begin.buffers_taken) = (begin.taken + bytes, begin.buffers_taken + bytes);
            let end = changes.entry(until.0).or_default();
            (end.freed, end.buffers_freed) = (end.freed + bytes, end.buffers_freed + bytes);
        };
        hold(transfer.from, transfer.made, transfer.end);
        hold(transfer.to, transfer.begin, used[job.cell(transfer.value, transfer.step)]);
    }
}

/// Adds the copies: activations on the host take no room on the device.
fn add_copies(run: &Run, job: &Job<'_>, changes: &mut [Changes]) {
    for copy in &run.copies {
        add_copy(copy, &mut changes[job.seats.device(copy.stage)]);
    }
}

fn add_copy(copy: &HostCopy, changes: &mut Changes) {
    changes.entry(copy.out[1].0).or_default().freed += copy.bytes.0;
    changes.entry(copy.back[0].0).or_default().taken += copy.bytes.0;
}

/// When the pass starts that takes each value from another stage, by [`Job::cell`].
fn first_uses(run: &Run, job: &Job<'_>) -> Vec<Nanos> {
    let shape = job.schedule.shape();
    let mut uses = vec![Nanos(0); shape.value_cells() * job.steps as usize];
    for (stage, spans) in run.timeline.stages.iter().enumerate() {
        let slots = job.schedule.orders()[stage].slots().count().max(1);
        for (at, span) in spans.iter().enumerate() {
            let step = u32::try_from(at / slots).unwrap_or(u32::MAX);
            for pass in span.slot.passes() {
                if let Some(value) = pass.input(shape) {
                    uses[job.cell(value, step)] = span.start;
                }
            }
        }
    }
    uses
}

/// The activations `stage` holds at the moment `at`, once all that changes then has changed.
fn held(run: &Run, footprints: &Footprints, stage: usize, at: Nanos) -> Vec<Held> {
    let mut held: BTreeMap<(bool, u16, u32), (Pass, Bytes)> = BTreeMap::new();
    for span in run.timeline.stages[stage].iter().take_while(|span| span.start <= at) {
        for pass in span.slot.passes() {
            let cell = (pass.kind.is_of_vocabulary(), pass.chunk, pass.microbatch);
            let footprint = || footprints.of(pass.chunk);
            let shard = || footprints.change(Pass { kind: Kind::S, ..pass }).taken_at_start;
            let ended = span.end <= at;
            match pass.kind {
                Kind::F => held.insert(cell, (pass, footprints.change(pass).taken_at_start)),
                Kind::R => held.insert(cell, (pass, footprint().until_backward)),
                Kind::B if ended => held.insert(cell, (pass, footprint().until_weight)),
                Kind::B => held.insert(cell, (pass, footprint().until_backward)),
                Kind::W | Kind::BW | Kind::T if ended => held.remove(&cell),
                Kind::W => held.insert(cell, (pass, footprint().until_weight)),
                Kind::BW => held.insert(cell, (pass, footprint().until_backward)),
                Kind::S | Kind::T => held.insert(cell, (pass, shard())),
            };
        }
    }
    held.into_values().map(|(pass, bytes)| Held { stage, pass, bytes }).collect()
}

/// The activations of the stages `seated` that are on the host at the moment `at`.
fn on_host(run: &Run, seated: &[usize], at: Nanos) -> Bytes {
    let away = run
        .copies
        .iter()
        .filter(|copy| seated.contains(&copy.stage) && copy.out[1] <= at && at < copy.back[0]);
    away.map(|copy| copy.bytes).sum()
}
