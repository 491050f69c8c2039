//! The messages of processes during a run, as bytes: a header of fixed length, then as many bytes
//! as the header says, no more than such a message can have.

use std::time::Duration;

use pipeline::{Kind, Pass, Slot, Value};

use super::hello::take;
use crate::run::board::{Awaited, Doing};
use crate::run::boundary::Round;
use crate::run::inbox::Name;
use crate::run::raw::{RawSlot, RawStage, RawStep};
use crate::worker::Norm;

/// Bytes of a header: kind, detail, chunk, step, microbatch, attempt, 3 of nothing, length.
pub(super) const HEADER: usize = 24;
/// The most bytes of a name that devices join by.
pub(super) const MOST_NAME: u64 = 256;
/// The most bytes of a failure in words.
pub(super) const MOST_WORDS: usize = 4096;
/// Bytes of what a stage is doing.
const SIGHTING: usize = 48;

/// The header of a frame; its payload follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// A value, as the worker packs it.
    Value(Name),
    /// A norm.
    Norm { step: u32, round: Round },
    /// The gradients of the weights that the receiver holds too.
    Gradients { step: u32 },
    /// The sender is ready to begin; the payload is the bytes of a value.
    Ready,
    /// From rank 0: all are ready; the payload is the name that devices join by, if they do.
    Go,
    /// To rank 0: what the sender measured.
    Report,
    /// From rank 0: all have reported.
    Over,
    /// A question: the activity of the receiver.
    Ask,
    /// This.
    Answer,
    /// The sender stops; the payload says why.
    Stop,
}

/// Bytes of the messages whose length depends on the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// Of a value, once it is known.
    pub(super) value: Option<usize>,
    /// Of the gradients of weights that both ends hold, once they are known, if there are any.
    pub(super) gradients: Option<usize>,
    /// Of a report.
    pub(super) report: usize,
}

const ROUNDS: [Round; 4] = [Round::Share, Round::Total, Round::Partial, Round::Final];

/// Where `one` stands among `all`, which are few.
fn number<T: PartialEq>(all: &[T], one: &T) -> u8 {
    (0..).zip(all).find(|(_, other)| *other == one).map_or(0, |(at, _)| at)
}

/// The chunk that made `value`; no value of all stages is ever sent.
fn number_of(value: Value) -> u16 {
    value.chunk().unwrap_or(0)
}

impl Head {
    /// The header and a payload behind it.
    pub(super) fn frame(self, payload: &[u8]) -> Vec<u8> {
        let (mut chunk, mut step, mut microbatch, mut attempt, mut detail) = (0, 0, 0, 0, 0);
        let kind: u8 = match self {
            Self::Value(name) => {
                (step, attempt) = (name.step, name.attempt);
                (chunk, microbatch) = (number_of(name.value), name.value.microbatch());
                detail = u8::from(matches!(name.value, Value::Gradient { .. }));
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

    /// Reads a header: what it is about, and how many bytes follow.
    pub(super) fn read(header: &[u8; HEADER]) -> Option<(Self, u64)> {
        let mut rest = &header[..];
        let [kind, detail] = take(&mut rest)?;
        let chunk = u16::from_le_bytes(take(&mut rest)?);
        let step = u32::from_le_bytes(take(&mut rest)?);
        let microbatch = u32::from_le_bytes(take(&mut rest)?);
        let [attempt, _, _, _] = take(&mut rest)?;
        let length = u64::from_le_bytes(take(&mut rest)?);
        let head = match (kind, detail) {
            (0, 0) => {
                Self::Value(Name { step, attempt, value: Value::Output { chunk, microbatch } })
            }
            (0, 1) => {
                Self::Value(Name { step, attempt, value: Value::Gradient { chunk, microbatch } })
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

    /// Whether so many bytes may follow, where messages have these `lengths`.
    pub(super) fn may_have(self, length: u64, lengths: Lengths) -> bool {
        let is = |bytes: Option<usize>| bytes.is_some_and(|bytes| length == bytes as u64);
        match self {
            Self::Value(_) => is(lengths.value),
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

/// The inverse.
pub(super) fn unpack_norm(mut bytes: &[u8]) -> Option<Norm> {
    let squares = f64::from_bits(u64::from_le_bytes(take(&mut bytes)?));
    let [is_bad] = take(&mut bytes)?;
    Some(Norm { squares, is_bad: is_bad != 0 })
}

/// The parts that a report has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parts {
    pub(super) steps: usize,
    /// Of each step.
    pub(super) slots: usize,
    /// Losses of each step, beside its own.
    pub(super) losses: usize,
}

impl Parts {
    /// Bytes of the report of a stage.
    pub(super) const fn bytes(self) -> usize {
        16 + self.steps * (17 + self.losses * 8 + self.slots * 32)
    }
}

/// Packs the measurements of a stage as bytes; a stage without the head has no losses.
pub(super) fn pack_report(raw: &RawStage, parts: Parts) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(raw.rollbacks.to_le_bytes());
    bytes.extend(raw.skipped.to_le_bytes());
    bytes.extend(raw.allocations.to_le_bytes());
    for step in &raw.steps {
        bytes.extend(step.end.to_le_bytes());
        bytes.push(u8::from(step.loss.is_some()));
        bytes.extend(step.loss.unwrap_or(0.0).to_bits().to_le_bytes());
        for at in 0..parts.losses {
            let loss = step.losses.get(at).copied().unwrap_or(0.0);
            bytes.extend(loss.to_bits().to_le_bytes());
        }
        for slot in &step.slots {
            let arrivals = slot.arrivals.map(|at| at.unwrap_or(u64::MAX));
            for time in [slot.start, slot.end].into_iter().chain(arrivals) {
                bytes.extend(time.to_le_bytes());
            }
        }
    }
    bytes
}

/// The inverse.
pub(super) fn unpack_report(mut bytes: &[u8], parts: Parts) -> Option<RawStage> {
    let Parts { steps, slots, losses } = parts;
    let mut stage = RawStage {
        steps: Vec::with_capacity(steps),
        rollbacks: u32::from_le_bytes(take(&mut bytes)?),
        skipped: u32::from_le_bytes(take(&mut bytes)?),
        allocations: u64::from_le_bytes(take(&mut bytes)?),
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
            step.slots.push(RawSlot { arrivals, start, end });
        }
        stage.steps.push(step);
    }
    bytes.is_empty().then_some(stage)
}

/// Packs the activity of a stage, and for how long it has lasted, as bytes.
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
    bytes.push(u8::from(matches!(value, Value::Gradient { .. })));
    bytes.extend(number_of(value).to_le_bytes());
    bytes.extend(value.microbatch().to_le_bytes());
    bytes.resize(SIGHTING, 0);
    bytes
}

/// The inverse, in a pipeline of `stages`.
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
    let [is_gradient] = take(bytes)?;
    let chunk = u16::from_le_bytes(take(bytes)?);
    let microbatch = u32::from_le_bytes(take(bytes)?);
    let value = match is_gradient {
        0 => Value::Output { chunk, microbatch },
        _ => Value::Gradient { chunk, microbatch },
    };
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
        for doing in waits.into_iter().chain(others) {
            let bytes = pack_sighting(doing, Duration::from_millis(12));
            assert_eq!(bytes.len(), SIGHTING);
            assert_eq!(unpack_sighting(&bytes, 6), Some((doing, Duration::from_millis(12))));
        }
        assert_eq!(unpack_sighting(&pack_sighting(waits[0], Duration::ZERO), 5), None);
    }

    #[test]
    fn reports_come_back() {
        let slot = RawSlot { arrivals: [None, Some(3)], start: 4, end: 9 };
        let slots = vec![slot, RawSlot::default()];
        let step = RawStep { slots, end: 10, loss: Some(0.5), losses: vec![0.75, 0.5] };
        let other = RawStep { loss: None, losses: Vec::new(), ..step.clone() };
        let raw = RawStage { steps: vec![step, other], rollbacks: 1, skipped: 2, allocations: 3 };
        let parts = Parts { steps: 2, slots: 2, losses: 2 };
        let bytes = pack_report(&raw, parts);
        assert_eq!(bytes.len(), parts.bytes());
        assert_eq!(unpack_report(&bytes, parts), Some(raw));
        assert_eq!(unpack_report(&bytes, Parts { slots: 1, ..parts }), None);
        assert_eq!(unpack_report(&bytes, Parts { losses: 1, ..parts }), None);
        assert_eq!(unpack_report(&bytes[1..], parts), None);
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_refused(bytes in prop::array::uniform24(any::<u8>())) {
            if let Some((head, length)) = Head::read(&bytes) {
                let again = head.frame(&[]);
                let header: [u8; HEADER] = again[..HEADER].try_into().expect("a header");
                prop_assert_eq!(Head::read(&header).map(|(head, _)| head), Some(head));
                let lengths = Lengths { value: Some(64), gradients: Some(96), report: 64 };
                prop_assert!(!head.may_have(1 << 40, lengths) || length == 0);
            }
        }
    }
}
