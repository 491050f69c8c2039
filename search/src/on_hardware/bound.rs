//! Lower bounds on the figures of a run on hardware.
//!
//! The instance has a hop for each link that is no longer than any transfer over it takes: wires carry no more than
//! their rate, and a value is there after its last byte has left and after the latency of its route, whoever else
//! sends, whoever asks first and whoever holds a device meanwhile. Within a step all values are made in that step.
//! So the passes of a step, on a clock that begins with the first of them, are a timing of the instance in
//! which none begins before its stage is free and its input is there, however late it begins. A backward
//! that does B and W at once is a B whose output arrives late, and its W.
//!
//! *Makespan.* No timing of an order ends sooner than the one in which every pass begins as soon as it can. That
//! costs no less than the bound of the instance, whatever its argument.
//!
//! *Span.* The proofs of [`bounds::all`] ask when a pass may begin, not how late it does: they hold for every timing.
//!
//! *Step.* Let e be what lies between the last pass of a stage and the next step at the least ([`between`]). With a
//! barrier all stages begin a step at one time, and the next e after the last pass of all: each step takes
//! the makespan and e. The first step begins on all stages with the clock, so the time until its last release is no
//! less either, for any boundary. Without a barrier each stage runs on independently, and every step lasts its own span
//! and e at the least; the time per step is the mean over all steps but the first, at the stage where that is
//! longest. A bound on the span of one stage holds in each of those steps, and so for their mean. Such are
//! the arguments that name the stage whose span they bound; those that look at several stages at once say only that
//! some stage has such a span, which need not be the same in every step, and they are left out.
//!
//! *Wires.* What a wire must carry bounds the span of one stage, and so every figure ([`wires`]).
//!
//! *Blocking.* Where a stage does nothing else until what it has made has arrived, the pass that makes it takes so
//! much longer in the instance. That ends no span later than the run does: the last pass of a stage is a W, which
//! sends nothing. Where backwards may be whole it can be one that sends, so there the bound is that of stages which
//! are not held up.

use pipeline::Nanos;

use super::between::between;
use super::{Figure, OnHardware, proxy, wires};
use crate::bounds::{self, Argument};
use crate::found::Found;
use crate::instance::{Instance, Objective};

/// A lower bound on the figure of any order on the hardware, and why it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundOnHardware {
    /// The bound.
    pub cost: Nanos,
    /// The argument for it.
    pub argument: ArgumentOnHardware,
    /// How much of it lies between the last pass of a stage and the next step.
    pub between: Nanos,
}

/// Why no order does better on hardware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentOnHardware {
    /// None does where no link is shared, by this argument.
    NotShared(Argument),
    /// A wire, by its position in [`sim::cluster::Cluster::wires`], must carry all that goes over it.
    Wire(usize),
}

/// The bound on the figure asked for `on` hardware, from the result `found` of a search of `instance`.
pub(super) fn of(instance: &Instance, found: &Found, on: &OnHardware<'_>) -> BoundOnHardware {
    let free = (instance.mixes() && on.hardware.communication.blocking)
        .then(|| proxy::unblocked(instance, on));
    let is_held_up = free.is_some();
    let instance = free.as_ref().unwrap_or(instance);
    let bound = match (on.figure, instance.objective) {
        (_, Objective::Makespan) if is_held_up => bounds::best(instance),
        (_, Objective::Makespan) => found.bound,
        (Figure::Step, Objective::Span) => bounds::of_one_stage(instance),
        (_, Objective::Span) => bounds::best(instance),
    };
    let between = match on.figure {
        Figure::Step => between(on.hardware, instance),
        Figure::Span | Figure::Makespan => Nanos(0),
    };
    let (cost, argument) = match wires::bound(instance, on) {
        Some((cost, wire)) if cost > bound.cost => (cost, ArgumentOnHardware::Wire(wire)),
        _ => (bound.cost, ArgumentOnHardware::NotShared(bound.argument)),
    };
    BoundOnHardware { cost: Nanos(cost.0.saturating_add(between.0)), argument, between }
}
