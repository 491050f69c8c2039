//! The state of the event loop.

use std::collections::{BTreeMap, VecDeque};

use pipeline::{Nanos, Span};

use super::makers::Makers;
use super::offload::Streams;
use super::parameters::Parameters;
use super::queue::Queue;
use super::segments::Segments;
use super::{Collective, Job, Transfer};
use crate::boundary::Crossing;
use crate::cluster::Route;
use crate::network::Network;

/// The state of a stage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: it may start its next slot once it can.
    Free,
    /// It runs a slot.
    Running,
    /// It has run a slot and holds its device until this many transfers have arrived.
    Sending(u32),
    /// It has ended a step and may not begin the next.
    Crossing,
    /// It has ended the last step.
    Done,
}

pub(super) struct Stage {
    pub(super) device: usize,
    pub(super) state: State,
    /// The next slot: position in the order, and step.
    pub(super) at: usize,
    pub(super) step: u32,
    pub(super) since: u64,
    /// Whether it waits for its device.
    pub(super) in_line: bool,
    /// The position in the current step up to which it has asked for values.
    pub(super) asked: usize,
    /// Number of slots that lie from `at` to `asked`.
    pub(super) slots_asked: u32,
}

#[derive(Default)]
pub(super) struct Device {
    pub(super) taken: bool,
    /// Stages that were ready when it was taken or full, first come first.
    pub(super) line: VecDeque<usize>,
    pub(super) held: u64,
}

/// How far a value is on its way to another stage.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    pub(super) asked: bool,
    pub(super) arrived: bool,
}

/// From one stage to another: values wait here until they may begin to move.
pub(super) struct Channel {
    pub(super) to: usize,
    pub(super) route: Route,
    pub(super) waiting: VecDeque<u32>,
    pub(super) moving: u32,
}

pub(super) struct EventLoop<'a, C> {
    pub(super) job: &'a Job<'a>,
    pub(super) durations: &'a C,
    pub(super) queue: Queue,
    pub(super) network: Network,
    pub(super) now: u64,
    pub(super) stages: Vec<Stage>,
    pub(super) devices: Vec<Device>,
    /// The progress of every value, by step, row and microbatch.
    pub(super) progress: Vec<Progress>,
    pub(super) channels: Vec<Channel>,
    /// The channels from each stage.
    pub(super) channels_of: Vec<Vec<usize>>,
    pub(super) transfers: Vec<Transfer>,
    pub(super) channel_of_transfer: Vec<u32>,
    /// The load that each flow of the network carries.
    pub(super) carried: Vec<Carried>,
    pub(super) makers: Makers,
    pub(super) collectives: Vec<Collective>,
    pub(super) copies: Streams,
    pub(super) segments: Segments,
    pub(super) parameters: Parameters<'a>,
    pub(super) arrivals: Vec<u32>,
    /// The boundaries behind the steps that some stages have begun to leave and not all have left.
    pub(super) crossings: BTreeMap<u32, Crossing>,
    /// W or BW passes still to run in the current step: see [`weights_of`].
    pub(super) weights_left: Vec<u32>,
    pub(super) releases: Vec<Vec<Nanos>>,
    pub(super) timeline: Vec<Vec<Span>>,
    /// Events handled; those that have become void are not counted.
    pub(super) events: u64,
}

/// The load that a flow of the network carries: a value between stages, an activation to or from
/// the host, or an all-to-all within a pass.
#[derive(Clone, Copy)]
pub(super) enum Carried {
    /// A value to another stage.
    Transfer(u32),
    /// An activation to the host or back.
    Copy(u32),
    /// A part of the all-to-all that a stage runs.
    Segment(u32),
}
