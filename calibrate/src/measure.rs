//! Takes all measurements of a profile on one device, one after the other.

use std::time::{Duration, Instant};

use executor::{
    BuildError, DeviceError, Failure, HostCopy, Layout, Model, ModelError, Ops, Target, footprints,
};
use pipeline::{Bytes, Footprint, Shape};
use profile::{Link, LinkKind, Message, ModelShape, Optimizer, Part, Quantity};
use thiserror::Error;

use crate::baseline::{Besides, Launches, Nothing, Peak};
use crate::handover::HandOvers;
use crate::kernels::{self, LAYERS, OptimizerSteps, Parts};
use crate::links::{Copies, Joint, Messages, Traffic};
use crate::sample::{Rule, Source, sample};

/// Why there is no measurement.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// A model that cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A device that failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A model that cannot be cut.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A link that failed.
    #[error("a link failed: {0}")]
    Link(#[from] Failure),
    /// A device that gave no times.
    #[error("{0} gave no times")]
    NoTimes(&'static str),
    /// A model larger than the memory.
    #[error("timing {layers} layers of that shape takes about {needs}, but only {free} are free")]
    TooLarge {
        /// Number of layers that are timed one after the other.
        layers: usize,
        /// The memory that they need.
        needs: Bytes,
        /// The memory that is free.
        free: Bytes,
    },
}

/// The measured times of a device's kernels.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelTimes {
    /// Two readings of the clock with nothing between them; subtracted from all other times.
    pub nothing: Quantity,
    /// A square product, and its floating-point operations.
    pub peak: (Quantity, u64),
    /// See [`profile::Profile::layer`].
    pub layer: Part,
    /// See [`profile::Profile::embedding`].
    pub embedding: Part,
    /// See [`profile::Profile::head`].
    pub head: Part,
    /// See [`profile::Profile::overhead`].
    pub overhead: Quantity,
    /// See [`profile::Profile::optimizer`].
    pub optimizer: Optimizer,
}

/// How many measurements [`kernel_times`] takes.
pub const KERNEL_MEASUREMENTS: usize = 5;

/// The rule for what takes less than a millisecond: more repeats in a share of the time.
fn short(rule: &Rule) -> Rule {
    Rule { at_most: rule.at_most.max(2_000), time: rule.time / 4, ..*rule }
}

fn one_series<S: Source>(
    what: &'static str,
    mut source: S,
    overhead: u64,
    rule: &Rule,
) -> Result<Quantity, MeasureError>
where
    MeasureError: From<S::Error>,
{
    let series = sample(&mut source, 1, overhead, rule)?.pop().unwrap_or_default();
    Quantity::of(series).ok_or(MeasureError::NoTimes(what))
}

/// Checks that a model of `shape` can be timed with `free` bytes of memory beside `neighbours` that
/// compute the same.
pub fn check_memory(
    shape: ModelShape,
    neighbours: usize,
    free: Option<u64>,
) -> Result<(), MeasureError> {
    let model = shape.with_layers(LAYERS)?;
    let layout = Layout::whole(model);
    let element = usize::try_from(shape.element().bytes()).unwrap_or(usize::MAX);
    let Ok(whole) = Shape::new(1, 1, 1) else { return Ok(()) };
    let held = footprints(model, whole, element)?.of(0);
    let each = kernels::bytes(&layout, held.until_backward.0, element);
    let needs = each.saturating_mul(neighbours as u64 + 1);
    let free = free.unwrap_or(u64::MAX);
    if needs > free {
        // Whole MiB, as people read them.
        let mib = 1u64 << 20;
        let [needs, free] =
            [needs.div_ceil(mib), free / mib].map(|size| Bytes(size.saturating_mul(mib)));
        return Err(MeasureError::TooLarge { layers: LAYERS, needs, free });
    }
    Ok(())
}

/// Times the parts of a model of `shape` on a device whose kernels `ops` gives; `peak` is the size
/// of the square product; `done` is called after each of [`KERNEL_MEASUREMENTS`].
pub fn kernel_times<O: Ops>(
    mut ops: impl FnMut() -> Result<O, DeviceError>,
    shape: ModelShape,
    peak: usize,
    rule: &Rule,
    mut done: impl FnMut(),
) -> Result<KernelTimes, MeasureError> {
    let brief = short(rule);
    let nothing = one_series("the clock", Nothing::new(ops()?), 0, &brief)?;
    done();
    let empty = nothing.median().0;
    let peak = Peak::new(ops()?, peak)?;
    let operations = peak.operations();
    let best = Rule { time: rule.time / 4, ..*rule };
    let peak = (one_series("the square product", peak, empty, &best)?, operations);
    done();
    let overhead = Besides::new([ops()?, ops()?])?;
    let overhead = one_series("the smallest stage", overhead, empty, &brief)?;
    done();
    let mut parts = Parts::new(ops()?, shape.with_layers(LAYERS)?)?;
    let series = sample(&mut parts, kernels::SERIES, empty, rule)?;
    done();
    let parameters = parts.parameters() as u64;
    let step = one_series("the optimizer", OptimizerSteps::new(parts), empty, &best)?;
    done();
    let held = held_by_parts(shape)?;
    let mut series = series.into_iter().map(Quantity::of);
    let mut next = || series.next().flatten().ok_or(MeasureError::NoTimes("a part of the model"));
    let mut part = |footprint| {
        let (forward, backward_input, backward_weight) = (next()?, next()?, next()?);
        Ok::<_, MeasureError>(Part { forward, backward_input, backward_weight, footprint })
    };
    let [layer, embedding, head] = held;
    Ok(KernelTimes {
        nothing,
        peak,
        layer: part(layer)?,
        embedding: part(embedding)?,
        head: part(head)?,
        overhead,
        optimizer: Optimizer { parameters, step },
    })
}

/// The activations that one microbatch holds in a layer, in the embeddings and in the head, as the
/// executor counts them: three chunks of a layer each, of which the outer ones have an end.
fn held_by_parts(shape: ModelShape) -> Result<[Footprint; 3], MeasureError> {
    let element = usize::try_from(shape.element().bytes()).unwrap_or(usize::MAX);
    let Ok(chunks) = Shape::new(3, 1, 1) else { return Ok([Footprint::default(); 3]) };
    let held = footprints(shape.with_layers(3)?, chunks, element)?;
    let [first, layer, last] = [0, 1, 2].map(|chunk| held.of(chunk));
    let more = |one: Footprint| Footprint {
        until_backward: Bytes(one.until_backward.0.saturating_sub(layer.until_backward.0)),
        until_weight: Bytes(one.until_weight.0.saturating_sub(layer.until_weight.0)),
    };
    Ok([layer, more(first), more(last)])
}

/// The sizes at which links are timed, in bytes, besides that of what stages hand on.
const SIZES: [u64; 7] = [8, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24];

/// The messages that are timed over links of `kind`: each size alone; some both ways at once, and
/// together with other pairs.
#[must_use]
pub fn traffic(kind: LinkKind, message: Bytes) -> Vec<(u64, u64, bool)> {
    let mut sizes = SIZES.to_vec();
    if kind == LinkKind::Copy {
        sizes.push(1 << 26);
    }
    if !sizes.contains(&message.0) && message.0 <= 1 << 28 {
        sizes.push(message.0);
    }
    sizes.sort_unstable();
    let mut all: Vec<_> = sizes.iter().map(|&bytes| (bytes, 1, false)).collect();
    if kind.joins_stages() && !kind.is_of_gpus() {
        let large = sizes.iter().filter(|bytes| [1 << 14, 1 << 20, 1 << 24].contains(*bytes));
        all.extend(
            large.flat_map(|&bytes| [(bytes, 1, true), (bytes, 2, false), (bytes, 2, true)]),
        );
    }
    all
}

/// Times messages over links of `kind` between devices of `ops`; `None` for a kind that needs a device of its own. `done` is
/// called after each of [`traffic`].
pub fn link_times<O: Ops + 'static>(
    ops: impl Fn() -> Result<O, DeviceError> + Clone + Send + Sync + 'static,
    kind: LinkKind,
    message: Bytes,
    overhead: u64,
    rule: &Rule,
    pinned: bool,
    mut done: impl FnMut(),
) -> Result<Option<Link>, MeasureError> {
    let joint = match kind {
        LinkKind::Queue => Some(Joint::Queue),
        LinkKind::Tcp => Some(Joint::Tcp),
        LinkKind::Copy => None,
        LinkKind::Nccl | LinkKind::HandOver | LinkKind::Peer | LinkKind::HostCopy => {
            return Ok(None);
        }
    };
    let all = traffic(kind, message);
    let share = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let each = Rule { time: rule.time / share, ..short(rule) };
    let mut messages = Vec::new();
    for (bytes, pairs, both_ways) in all {
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let time = match joint {
            None => one_series("a copy", Copies::new(len), overhead, &each)?,
            Some(joint) => {
                let pairs = usize::try_from(pairs).unwrap_or(usize::MAX);
                let traffic = Traffic { bytes: len, pairs, both_ways };
                let messages = Messages::new(joint, traffic, ops.clone(), pinned)?;
                one_series("a link", messages, overhead, &each)?
            }
        };
        messages.push(Message { bytes, pairs, both_ways, time });
        done();
    }
    Ok(Some(Link { kind, messages }))
}

/// Times messages over links of `kind`, each size by the source that `make` returns for that many bytes;
/// `done` is called after each of [`traffic`].
fn device_link_times<S: Source<Error = DeviceError>>(
    kind: LinkKind,
    message: Bytes,
    overhead: u64,
    rule: &Rule,
    mut make: impl FnMut(usize) -> Result<S, DeviceError>,
    mut done: impl FnMut(),
) -> Result<Link, MeasureError> {
    let all = traffic(kind, message);
    let share = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let each = Rule { time: rule.time / share, ..short(rule) };
    let mut messages = Vec::new();
    for (bytes, pairs, both_ways) in all {
        let source = make(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let time = one_series("a link", source, overhead, &each)?;
        messages.push(Message { bytes, pairs, both_ways, time });
        done();
    }
    Ok(Link { kind, messages })
}

/// The same where two devices hand tensors to each other.
pub(crate) fn hand_over_times<O: Ops>(
    kind: LinkKind,
    message: Bytes,
    overhead: u64,
    rule: &Rule,
    mut ends: impl FnMut() -> Result<[O; 2], DeviceError>,
    done: impl FnMut(),
) -> Result<Link, MeasureError> {
    let make = |bytes| HandOvers::new(ends()?, bytes);
    device_link_times(kind, message, overhead, rule, make, done)
}

/// The same over a link that only `target` knows; `None` if it has none of that `kind`.
pub fn target_link_times<T: Target>(
    target: &T,
    kind: LinkKind,
    message: Bytes,
    overhead: u64,
    rule: &Rule,
    done: impl FnMut(),
) -> Result<Option<Link>, MeasureError> {
    if !target.has(kind) {
        return Ok(None);
    }
    match kind {
        LinkKind::HostCopy => {
            let make = |bytes| {
                let copies = target.host_copies(bytes)?;
                Ok(Pinned { copies, began: Instant::now() })
            };
            device_link_times(kind, message, overhead, rule, make, done).map(Some)
        }
        _ => {
            let ends = || target.ends(kind);
            hand_over_times(kind, message, overhead, rule, ends, done).map(Some)
        }
    }
}

/// Copies to and from pinned memory: one series of both.
struct Pinned {
    copies: Box<dyn HostCopy>,
    began: Instant,
}

impl Source for Pinned {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        let [there, back] = self.copies.time()?;
        series[0].push(u64::midpoint(there, back));
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

/// Launch time of a kernel on the host.
pub fn launch_time<O: Ops>(ops: O, rule: &Rule) -> Result<Quantity, MeasureError> {
    one_series("a launch", Launches::new(ops)?, 0, &short(rule))
}

/// Floating-point operations of F, B and W of a layer (Narayanan et al. 2021, arXiv 2104.04473,
/// appendix: 24 b s h^2 + 4 b s^2 h for F): the products alone. B computes four products of
/// attention in place of two, W none.
#[must_use]
pub fn layer_operations(model: Model) -> [f64; 3] {
    let [tokens, hidden, sequence] =
        [model.tokens(), model.hidden(), model.sequence()].map(|size| size as f64);
    let linears = 24.0 * tokens * hidden * hidden;
    let attention = 4.0 * tokens * sequence * hidden;
    [linears + attention, linears + 2.0 * attention, linears]
}

/// Floating-point operations of any pass of the head: 2 b s h V.
#[must_use]
pub fn head_operations(model: Model) -> f64 {
    2.0 * (model.tokens() as f64) * (model.hidden() as f64) * (model.vocabulary() as f64)
}
