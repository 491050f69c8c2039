//! The messages of processes during a run, as bytes: a header of fixed length, then a payload of
//! the length in the header, bounded for each kind of message.

use std::time::Duration;

use pipeline::{Kind, Pass, Slot, Value};

use super::bytes::take;
use crate::measured::HostBound;
use crate::run::board::{Awaited, Doing};
use crate::run::boundary::Round;
use crate::run::inbox::Name;
use crate::run::raw::{RawSlot, RawStage, RawStep};
use crate::worker::{Norm, Wire};

/// Bytes of a header: kind, detail, chunk, step, microbatch, attempt, 3 bytes of padding, length.
pub(super) const HEADER: usize = 24;
/// The longest unique id of a communicator, in bytes.
pub(super) const MOST_NAME: u64 = 256;
/// The longest failure text, in bytes.
pub(super) const MOST_WORDS: usize = 4096;
/// Placeholder for a count where passes run on the host.
const NO_DEVICE: HostBound = HostBound { bound: u64::MAX, passes: u64::MAX };
/// Bytes of a stage's activity.
const SIGHTING: usize = 48;

/// The header of a frame; its payload follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// A value, as the worker packs it.
    Value(Name),
    Norm {
        step: u32,
        round: Round,
    },
    /// The gradients of weights that the receiver holds too.
    Gradients {
        step: u32,
    },
    /// The sender is ready to begin; the payload is the bytes of a value.
    Ready,
    /// From rank 0: all are ready; the payload is the unique id of the communicator, if there is
    /// one.
    Go,
    /// To rank 0: the measurements of the sender.
    Report,
    /// From rank 0: all have reported.
    Over,
    /// A query for the activity of the receiver.
    Ask,
    /// The answer to [`Head::Ask`].
    Answer,
    /// The sender stops; the payload is the reason.
    Stop,
}

/// Lengths, in bytes, of the messages whose length depends on the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// Of values, once they are known.
    pub(super) values: Option<ValueBytes>,
    /// Of the gradients of weights that both ends hold, once they are known, if there are any.
    pub(super) gradients: Option<usize>,
    pub(super) report: usize,
}

const ROUNDS: [Round; 4] = [Round::Share, Round::Total, Round::Partial, Round::Final];

/// The index of `one` in `all`.
fn number<T: PartialEq>(all: &[T], one: &T) -> u8 {
    (0..).zip(all).find(|(_, other)| *other == one).map_or(0, |(at, _)| at)
}

/// The chunk that made `value`, 0 if all stages make it; and the kind of the value.
fn numbers_of(value: Value) -> (u16, u8) {
    let kind = match value {
        Value::Output { .. } => 0,
        Value::Gradient { .. } => 1,
        Value::Statistics { .. } => 2,
        Value::HiddenGradient { .. } => 3,
    };
    (value.chunk().unwrap_or(0), kind)
}

/// The inverse of [`numbers_of`].
const fn value_of(chunk: u16, kind: u8, microbatch: u32) -> Option<Value> {
    match (kind, chunk) {
        (0, _) => Some(Value::Output { chunk, microbatch }),
        (1, _) => Some(Value::Gradient { chunk, microbatch }),
        (2, 0) => Some(Value::Statistics { microbatch }),
        (3, 0) => Some(Value::HiddenGradient { microbatch }),
        _ => None,
    }
}

/// Bytes of values, by their kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ValueBytes {
    /// Of an output or a gradient.
    pub(super) plain: usize,
    /// Of a part of the statistics.
    pub(super) statistics: usize,
    /// Of a part of the hidden gradient.
    pub(super) hidden: usize,
}

impl ValueBytes {
    /// The sizes of `worker`.
    pub(super) fn of_worker(worker: &impl Wire) -> Self {
        Self {
            plain: worker.value_bytes(),
            statistics: worker.bytes_of(Value::Statistics { microbatch: 0 }),
            hidden: worker.bytes_of(Value::HiddenGradient { microbatch: 0 }),
        }
    }

    pub(super) const fn of(self, value: Value) -> usize {
        match value {
            Value::Output { .. } | Value::Gradient { .. } => self.plain,
            Value::Statistics { .. } => self.statistics,
            Value::HiddenGradient { .. } => self.hidden,
        }
    }
}

impl Head {
    /// The header, followed by `payload`.
    pub(super) fn frame(self, payload: &[u8]) -> Vec<u8> {
        let (mut chunk, mut step, mut microbatch, mut attempt, mut detail) = (0, 0, 0, 0, 0);
        let kind: u8 = match self {
            Self::Value(name) => {
                (step, attempt) = (name.step, name.attempt);
                microbatch = name.value.microbatch();
                (chunk, detail) = numbers_of(name.value);
                0
            }
            Self::Norm { step: of, round } => {
                step = of;
                detail = number(&ROUNDS, &round);
                1
            }
            Self::Ready => 2,
            Self::Go => 3,
            Self::Report => 4,
            Self::Over => 5,
            Self::Ask => 6,
            Self::Answer => 7,
            Self::Stop => 8,
            Self::Gradients { step: of } => {
                step = of;
                9
            }
        };
        let mut frame = Vec::with_capacity(HEADER + payload.len());
        frame.extend([kind, detail]);
        frame.extend(u16::to_le_bytes(chunk));
        frame.extend(u32::to_le_bytes(step));
        frame.extend(u32::to_le_bytes(microbatch));
        frame.extend([attempt, 0, 0, 0]);
        frame.extend((payload.len() as u64).to_le_bytes());
        frame.extend(payload);
        frame
    }

    /// Reads a header: its kind, and the bytes that follow.
    pub(super) fn read(header: &[u8; HEADER]) -> Option<(Self, u64)> {
        let mut rest = &header[..];
        let [kind, detail] = take(&mut rest)?;
        let chunk = u16::from_le_bytes(take(&mut rest)?);
        let step = u32::from_le_bytes(take(&mut rest)?);
        let microbatch = u32::from_le_bytes(take(&mut rest)?);
        let [attempt, _, _, _] = take(&mut rest)?;
        let length = u64::from_le_bytes(take(&mut rest)?);
        let head = match (kind, detail) {
            (0, kind) => {
                let value = value_of(chunk, kind, microbatch)?;
                Self::Value(Name { step, attempt, value })
            }
            (1, at) => Self::Norm { step, round: *ROUNDS.get(usize::from(at))? },
            (2, 0) => Self::Ready,
            (3, 0) => Self::Go,
            (4, 0) => Self::Report,
            (5, 0) => Self::Over,
            (6, 0) => Self::Ask,
            (7, 0) => Self::Answer,
            (8, 0) => Self::Stop,
            (9, 0) => Self::Gradients { step },
            _ => return None,
        };
        Some((head, length))
    }

    /// Whether `length` bytes may follow, where messages have these `lengths`.
    pub(super) fn may_have(self, length: u64, lengths: Lengths) -> bool {
        let is = |bytes: Option<usize>| bytes.is_some_and(|bytes| length == bytes as u64);
        match self {
            Self::Value(Name { value, .. }) => is(lengths.values.map(|bytes| bytes.of(value))),
            Self::Gradients { .. } => is(lengths.gradients),
            Self::Norm { .. } => length == 9,
            Self::Ready => length == 8,
            Self::Go => length <= MOST_NAME,
            Self::Over | Self::Ask => length == 0,
            Self::Report => length == lengths.report as u64,
            Self::Answer => length == SIGHTING as u64,
            Self::Stop => length <= MOST_WORDS as u64,
        }
    }
}

/// A norm as bytes.
pub(super) fn pack_norm(norm: Norm) -> Vec<u8> {
    let mut bytes = norm.squares.to_bits().to_le_bytes().to_vec();
    bytes.push(u8::from(norm.is_bad));
    bytes
}

/// The inverse of [`pack_norm`].
pub(super) fn unpack_norm(mut bytes: &[u8]) -> Option<Norm> {
    let squares = f64::from_bits(u64::from_le_bytes(take(&mut bytes)?));
    let [is_bad] = take(&mut bytes)?;
    Some(Norm { squares, is_bad: is_bad != 0 })
}

/// Size of a stage's report: its steps, and for each step the slots, the copies, and the losses
/// beside the step's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReportSize {
    pub(super) steps: usize,
    pub(super) slots: usize,
    pub(super) copies: usize,
    pub(super) losses: usize,
}

impl ReportSize {
    pub(super) const fn bytes(self) -> usize {
        40 + self.steps * (17 + self.losses * 8 + self.slots * 32 + self.copies * 16)
    }
}

/// Encodes the measurements of a stage for a report of that `size`; a stage without the head has no
/// losses.
pub(super) fn pack_report(raw: &RawStage, size: ReportSize) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(raw.rollbacks.to_le_bytes());
    bytes.extend(raw.skipped.to_le_bytes());
    bytes.extend(raw.allocations.to_le_bytes());
    bytes.extend(raw.peak.unwrap_or(u64::MAX).to_le_bytes());
    let HostBound { bound, passes } = raw.host_bound.unwrap_or(NO_DEVICE);
    bytes.extend([bound, passes].into_iter().flat_map(u64::to_le_bytes));
    for step in &raw.steps {
        bytes.extend(step.end.to_le_bytes());
        bytes.push(u8::from(step.loss.is_some()));
        bytes.extend(step.loss.unwrap_or(0.0).to_bits().to_le_bytes());
        for at in 0..size.losses {
            let loss = step.losses.get(at).copied().unwrap_or(0.0);
            bytes.extend(loss.to_bits().to_le_bytes());
        }
        for slot in &step.slots {
            let arrivals = slot.arrivals.map(|at| at.unwrap_or(u64::MAX));
            for time in [slot.start, slot.end].into_iter().chain(arrivals) {
                bytes.extend(time.to_le_bytes());
            }
        }
        for time in step.copies.iter().flatten() {
            bytes.extend(time.to_le_bytes());
        }
    }
    bytes
}

/// The inverse of [`pack_report`], for a report of that `size`.
pub(super) fn unpack_report(mut bytes: &[u8], size: ReportSize) -> Option<RawStage> {
    let ReportSize { steps, slots, copies, losses } = size;
    let mut stage = RawStage {
        steps: Vec::with_capacity(steps),
        rollbacks: u32::from_le_bytes(take(&mut bytes)?),
        skipped: u32::from_le_bytes(take(&mut bytes)?),
        allocations: u64::from_le_bytes(take(&mut bytes)?),
        peak: Some(u64::from_le_bytes(take(&mut bytes)?)).filter(|&peak| peak != u64::MAX),
        host_bound: Some(HostBound {
            bound: u64::from_le_bytes(take(&mut bytes)?),
            passes: u64::from_le_bytes(take(&mut bytes)?),
        })
        .filter(|&bound| bound != NO_DEVICE),
    };
    for _ in 0..steps {
        let end = u64::from_le_bytes(take(&mut bytes)?);
        let [has_loss] = take(&mut bytes)?;
        let loss = f64::from_bits(u64::from_le_bytes(take(&mut bytes)?));
        let mut step = RawStep { slots: Vec::with_capacity(slots), end, ..RawStep::default() };
        step.loss = (has_loss != 0).then_some(loss);
        for _ in 0..losses {
            let loss = f64::from_bits(u64::from_le_bytes(take(&mut bytes)?));
            step.losses.extend((has_loss != 0).then_some(loss));
        }
        for _ in 0..slots {
            let mut time = || take(&mut bytes).map(u64::from_le_bytes);
            let (start, end) = (time()?, time()?);
            let arrivals = [time()?, time()?].map(|at| Some(at).filter(|&at| at != u64::MAX));
            step.slots.push(RawSlot { arrivals, start, end, launched: [0; 2] });
        }
        for _ in 0..copies {
            let mut time = || take(&mut bytes).map(u64::from_le_bytes);
            step.copies.push([time()?, time()?]);
        }
        stage.steps.push(step);
    }
    bytes.is_empty().then_some(stage)
}

/// Encodes the activity of a stage and its duration.
pub(super) fn pack_sighting(doing: Doing, lasted: Duration) -> Vec<u8> {
    let mut bytes = u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX).to_le_bytes().to_vec();
    let mut pass = |pass: Pass| {
        bytes.push(number(&Kind::ALL, &pass.kind));
        bytes.extend(pass.chunk.to_le_bytes());
        bytes.extend(pass.microbatch.to_le_bytes());
    };
    let slot = match doing {
        Doing::Running(slot) | Doing::Waiting { what: Awaited::Value(slot, _), .. } => slot,
        _ => Slot::One(Pass::f(0, 0)),
    };
    let mut passes = slot.passes();
    let first = passes.next().unwrap_or(Pass::f(0, 0));
    let second = passes.next();
    pass(first);
    pass(second.unwrap_or(first));
    bytes.push(u8::from(second.is_some()));
    let (tag, from, number, value) = match doing {
        Doing::Preparing => (0, 0, 0, None),
        Doing::Running(_) => (1, 0, 0, None),
        Doing::Waiting { what: Awaited::Value(_, value), from } => (2, from, 0, Some(value)),
        Doing::Waiting { what: Awaited::Norm(step), from } => (3, from, step, None),
        Doing::Waiting { what: Awaited::Start, from } => (4, from, 0, None),
        Doing::Waiting { what: Awaited::Report, from } => (5, from, 0, None),
        Doing::Stepping(step) => (6, 0, step, None),
        Doing::Done => (7, 0, 0, None),
        Doing::Waiting { what: Awaited::Gradients(step), from } => (8, from, step, None),
    };
    let value = value.unwrap_or(Value::Output { chunk: 0, microbatch: 0 });
    bytes.push(tag);
    bytes.extend((from as u64).to_le_bytes());
    bytes.extend(number.to_le_bytes());
    let (chunk, kind) = numbers_of(value);
    bytes.push(kind);
    bytes.extend(chunk.to_le_bytes());
    bytes.extend(value.microbatch().to_le_bytes());
    bytes.resize(SIGHTING, 0);
    bytes
}

/// The inverse of [`pack_sighting`], in a pipeline of `stages`.
pub(super) fn unpack_sighting(mut bytes: &[u8], stages: usize) -> Option<(Doing, Duration)> {
    let bytes = &mut bytes;
    let lasted = Duration::from_nanos(u64::from_le_bytes(take(bytes)?));
    let pass = |bytes: &mut &[u8]| {
        let [kind] = take(bytes)?;
        let chunk = u16::from_le_bytes(take(bytes)?);
        let microbatch = u32::from_le_bytes(take(bytes)?);
        Some(Pass { kind: *Kind::ALL.get(usize::from(kind))?, chunk, microbatch })
    };
    let (first, second) = (pass(bytes)?, pass(bytes)?);
    let [is_pair, tag] = take(bytes)?;
    let slot = if is_pair == 0 { Slot::One(first) } else { Slot::Pair(first, second) };
    let from = usize::try_from(u64::from_le_bytes(take(bytes)?)).ok().filter(|&s| s < stages)?;
    let number = u32::from_le_bytes(take(bytes)?);
    let [kind] = take(bytes)?;
    let chunk = u16::from_le_bytes(take(bytes)?);
    let microbatch = u32::from_le_bytes(take(bytes)?);
    let value = value_of(chunk, kind, microbatch)?;
    let doing = match tag {
        0 => Doing::Preparing,
        1 => Doing::Running(slot),
        2 => Doing::Waiting { what: Awaited::Value(slot, value), from },
        3 => Doing::Waiting { what: Awaited::Norm(number), from },
        4 => Doing::Waiting { what: Awaited::Start, from },
        5 => Doing::Waiting { what: Awaited::Report, from },
        6 => Doing::Stepping(number),
        7 => Doing::Done,
        8 => Doing::Waiting { what: Awaited::Gradients(number), from },
        _ => return None,
    };
    Some((doing, lasted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sightings_come_back() {
        let value = Value::Gradient { chunk: 3, microbatch: 70_000 };
        let pair = Slot::Pair(Pass::f(1, 2), Pass::bw(3, 4));
        let one = Slot::One(Pass::w(9, 1));
        let waits = [
            Awaited::Value(pair, value),
            Awaited::Norm(7),
            Awaited::Gradients(8),
            Awaited::Start,
            Awaited::Report,
        ];
        let waits = waits.map(|what| Doing::Waiting { what, from: 5 });
        let others = [
            Doing::Preparing,
            Doing::Running(pair),
            Doing::Running(one),
            Doing::Stepping(3),
            Doing::Done,
        ];
        let shared = [Value::Statistics { microbatch: 4 }, Value::HiddenGradient { microbatch: 5 }];
        let shared =
            shared.map(|value| Doing::Waiting { what: Awaited::Value(one, value), from: 2 });
        for doing in waits.into_iter().chain(others).chain(shared) {
            let bytes = pack_sighting(doing, Duration::from_millis(12));
            assert_eq!(bytes.len(), SIGHTING);
            assert_eq!(unpack_sighting(&bytes, 6), Some((doing, Duration::from_millis(12))));
        }
        assert_eq!(unpack_sighting(&pack_sighting(waits[0], Duration::ZERO), 5), None);
    }

    #[test]
    fn reports_come_back() {
        let slot = RawSlot { arrivals: [None, Some(3)], start: 4, end: 9, launched: [0; 2] };
        let slots = vec![slot, RawSlot::default()];
        let losses = vec![0.75, 0.5];
        let step = RawStep { slots, copies: vec![[5, 6]], end: 10, loss: Some(0.5), losses };
        let other = RawStep { loss: None, losses: Vec::new(), ..step.clone() };
        let steps = vec![step, other];
        let size = ReportSize { steps: 2, slots: 2, copies: 1, losses: 2 };
        let none = RawStage {
            steps,
            rollbacks: 1,
            skipped: 2,
            allocations: 3,
            peak: None,
            host_bound: None,
        };
        let bound = Some(HostBound { bound: 1, passes: 5 });
        for raw in [RawStage { peak: Some(7), host_bound: bound, ..none.clone() }, none] {
            let bytes = pack_report(&raw, size);
            assert_eq!(bytes.len(), size.bytes());
            assert_eq!(unpack_report(&bytes, size), Some(raw));
            assert_eq!(unpack_report(&bytes, ReportSize { slots: 1, ..size }), None);
            assert_eq!(unpack_report(&bytes, ReportSize { copies: 0, ..size }), None);
            assert_eq!(unpack_report(&bytes, ReportSize { losses: 1, ..size }), None);
            assert_eq!(unpack_report(&bytes[1..], size), None);
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_refused(bytes in prop::array::uniform24(any::<u8>())) {
            if let Some((head, length)) = Head::read(&bytes) {
                let again = head.frame(&[]);
                let header: [u8; HEADER] = again[..HEADER].try_into().expect("a header");
                prop_assert_eq!(Head::read(&header).map(|(head, _)| head), Some(head));
                let values = Some(ValueBytes { plain: 64, statistics: 8, hidden: 9 });
                let lengths = Lengths { values, gradients: Some(96), report: 64 };
                prop_assert!(!head.may_have(1 << 40, lengths) || length == 0);
            }
        }
    }
}
