//! Reads what `torch.profiler` saw of one rank: the actions that `torch.distributed.pipelining` names.
//!
//! Schedules that torch runs action by action (interleaved, zero-bubble, from CSV) name each
//! `PP:<stage><action><microbatch>`: F, B (the whole backward pass), I (its input gradient), W,
//! RECV_F, RECV_B and others. GPipe names `Forward <microbatch>` and `Backward <microbatch>`. A pass
//! waits for its input within its own event; `gloo:recv` ends when that is there. What else is named
//! so takes the time of the host between passes, but for WAIT_SEND_F and its like. GPipe names no such work: there it
//! is the time between passes, such as that of the loss, from the end of the last transfer that was waited for.

use pipeline::{Kind, Nanos};
use serde_json::Value;

use crate::error::{Place, TraceError};
use crate::events::{Event, Head, decimal, keep, whole};
use crate::numbers::{LATEST, LONGEST, MICROSECOND, count, nanos};

/// A pass of a rank.
#[derive(Clone, Copy)]
pub(crate) struct Action {
    /// The chunk in model order; none where the schedule has one per rank and does not say it.
    pub(crate) chunk: Option<u16>,
    pub(crate) kind: Kind,
    pub(crate) microbatch: u32,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

/// The events of one rank, from one file.
#[derive(Default)]
pub(crate) struct Rank {
    /// Its number among all ranks of the run.
    pub(crate) number: Option<u32>,
    /// Number of ranks that the run has.
    pub(crate) world: Option<u32>,
    /// Its steps: number, begin and end.
    steps: Vec<(u64, Nanos, Nanos)>,
    /// Host work between passes: start and end.
    busy: Vec<(Nanos, Nanos)>,
    /// Its passes as the host saw them, in the order of the file.
    host: Vec<Action>,
    /// Its passes as the device ran them.
    device: Vec<Action>,
    /// Actions that ask for the input of a pass.
    asked: Vec<Action>,
    /// Receives, from when they were posted until the value was there.
    received: Vec<(Nanos, Nanos)>,
    /// When sends were over.
    sent: Vec<Nanos>,
}

/// Facts of a rank in its file, next to its events.
#[derive(Clone, Copy, Default)]
pub(crate) struct Origin {
    /// Its number among all ranks of the run.
    pub(crate) number: Option<u32>,
    /// Number of ranks that the run has.
    pub(crate) world: Option<u32>,
    /// The time at which `ts` is 0, in nanoseconds.
    pub(crate) base: u64,
}

impl Origin {
    pub(crate) fn of(head: &Head) -> Result<Self, TraceError> {
        let distributed = head.distributed.as_ref();
        let given = |value: Option<&Value>, column| -> Result<Option<u32>, TraceError> {
            let value = whole(value, Place::Head, column)?;
            value.map(|value| count(value, Place::Head, column)).transpose()
        };
        let number = given(distributed.and_then(|one| one.rank.as_ref()), "distributedInfo.rank")?;
        let world = distributed.and_then(|one| one.world_size.as_ref());
        let world = given(world, "distributedInfo.world_size")?;
        const BASE: &str = "baseTimeNanoseconds";
        let base = whole(head.base.as_ref(), Place::Head, BASE)?.unwrap_or(0);
        let base: u64 = count(base, Place::Head, BASE)?;
        #[allow(clippy::cast_precision_loss)] // A limit.
        nanos(base as f64, 1.0, LATEST, Place::Head, BASE)?;
        Ok(Self { number, world, base })
    }
}

/// The kind of an event of `torch.profiler`.
enum EventKind {
    Passes([Option<Named>; 2]),
    Asked(Named),
    Received,
    Sent,
    Busy,
    Step(u64),
    Other,
}

/// A pass, as it is named.
type Named = (Option<u16>, Kind, u32);

impl Rank {
    /// Number of events that it has kept.
    pub(crate) fn len(&self) -> usize {
        let lists = [self.host.len(), self.device.len(), self.asked.len(), self.received.len()];
        let others = self.sent.len() + self.busy.len() + self.steps.len();
        lists.into_iter().sum::<usize>() + others
    }

    /// Whether no pass was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.host.is_empty() && self.device.is_empty()
    }

    /// Takes an annotation; whether it is one of a pipeline.
    pub(crate) fn take(&mut self, event: &Event<'_>, at: Place) -> Result<bool, TraceError> {
        let on_device = match event.cat.as_deref() {
            Some("user_annotation") => false,
            Some("gpu_user_annotation") => true,
            _ => return Ok(false),
        };
        let kind = kind_of(event.name.as_deref().unwrap_or_default());
        if let EventKind::Other = kind {
            return Ok(false);
        }
        let start = decimal(event.ts.as_ref(), at, "ts")?;
        let start = nanos(start, MICROSECOND, LATEST, at, "ts")?;
        let length = decimal(event.dur.as_ref(), at, "dur")?;
        let end = Nanos(start.0 + nanos(length, MICROSECOND, LONGEST, at, "dur")?.0);
        let action = |(chunk, kind, microbatch)| Action { chunk, kind, microbatch, start, end };
        let rows = self.len() + 2;
        match kind {
            EventKind::Passes(passes) => {
                let list = if on_device { &mut self.device } else { &mut self.host };
                let mut passes = passes.into_iter().flatten().map(action);
                passes.try_for_each(|pass| keep(list, pass, rows))?;
            }
            EventKind::Asked(pass) if !on_device => {
                keep(&mut self.asked, action(pass), rows)?;
                keep(&mut self.busy, (start, end), rows)?;
            }
            EventKind::Busy if !on_device => keep(&mut self.busy, (start, end), rows)?,
            EventKind::Received if !on_device => keep(&mut self.received, (start, end), rows)?,
            EventKind::Sent if !on_device => keep(&mut self.sent, end, rows)?,
            EventKind::Step(number) if !on_device => {
                keep(&mut self.steps, (number, start, end), rows)?;
            }
            _ => {}
        }
        Ok(true)
    }

    /// Takes what the file says next to its events.
    pub(crate) fn head(&mut self, head: &Head) -> Result<(), TraceError> {
        let Origin { number, world, base } = Origin::of(head)?;
        (self.number, self.world) = (number, world);
        let passes = self.host.iter_mut().chain(&mut self.device).chain(&mut self.asked);
        let passes = passes.map(|one| (&mut one.start, &mut one.end));
        let steps = self.steps.iter_mut().map(|(_, start, end)| (start, end));
        let spans = self.received.iter_mut().chain(&mut self.busy).map(|(start, end)| (start, end));
        for (start, end) in passes.chain(steps).chain(spans) {
            start.0 += base;
            end.0 += base;
        }
        self.sent.iter_mut().for_each(|at| at.0 += base);
        Ok(())
    }

    /// The number of its first step; 0 if its steps have none.
    pub(crate) fn first_step(&self) -> u64 {
        self.steps.iter().map(|step| step.0).min().unwrap_or(0)
    }

    /// Host work between passes, each with its step. Empty where the device is traced, which does not wait for that
    /// work.
    pub(crate) fn between(&mut self) -> Vec<(u64, Nanos, Nanos)> {
        let mut busy = std::mem::take(&mut self.busy);
        if !self.device.is_empty() {
            return Vec::new();
        }
        busy.extend(self.unnamed_work());
        self.steps.sort_unstable_by_key(|&(number, start, _)| (start, number));
        let step = |(start, end): (Nanos, Nanos)| {
            let after = self.steps.partition_point(|step| step.1 <= start);
            let (number, _, until) = self.steps.get(after.checked_sub(1)?)?;
            (end <= *until).then_some((*number, start, end))
        };
        busy.into_iter().filter_map(step).collect()
    }

    /// Work of the host between passes of GPipe, which has no name: from the end of a pass, or of the last
    /// transfer that the host may have waited for behind it, until the next pass begins or waits for its input.
    /// None is known where no send is traced: the host waits for sends between forwards and backwards.
    fn unnamed_work(&self) -> Vec<(Nanos, Nanos)> {
        if self.sent.is_empty() {
            return Vec::new();
        }
        let mut passes: Vec<&Action> = self.host.iter().filter(|one| one.chunk.is_none()).collect();
        passes.sort_by_key(|one| (one.start, one.end));
        let received = self.received.iter().map(|(_, end)| *end);
        let mut over: Vec<Nanos> = received.chain(self.sent.iter().copied()).collect();
        over.sort_unstable();
        let mut posted: Vec<Nanos> = self.received.iter().map(|(start, _)| *start).collect();
        posted.sort_unstable();
        let work = |two: &[&Action]| {
            let (before, next) = (two[0], two[1]);
            let last = over.partition_point(|at| *at <= next.start).checked_sub(1);
            let from = last.map_or(before.end, |last| before.end.max(over[last]));
            let asks = posted.get(posted.partition_point(|at| *at < next.start));
            let until = asks.filter(|at| **at <= next.end).map_or(next.start, |at| *at);
            (from < until).then_some((from, until))
        };
        passes.windows(2).filter_map(work).collect()
    }

    /// Whether its passes say which stage they belong to.
    pub(crate) fn names_stages(&self) -> bool {
        self.host.iter().chain(&self.device).all(|one| one.chunk.is_some())
    }

    /// Chunks whose backward passes get their gradients from another rank.
    pub(crate) fn with_gradients(&self) -> impl Iterator<Item = u16> + '_ {
        let asked = self.asked.iter().filter(|one| one.kind == Kind::BW);
        asked.filter_map(|one| one.chunk)
    }

    /// Whether it says when values arrived.
    pub(crate) fn has_arrivals(&self) -> bool {
        self.device.is_empty() && !self.received.is_empty()
    }

    /// Its passes by start, as the device ran them where that is known, each from when its input was there.
    pub(crate) fn passes(mut self) -> Vec<Action> {
        if !self.device.is_empty() {
            self.device.sort_by_key(|one| (one.start, one.end));
            return self.device;
        }
        self.host.sort_by_key(|one| (one.start, one.end));
        self.received.sort_unstable();
        self.asked.sort_by_key(|one| (one.chunk, one.kind, one.microbatch, one.start));
        let mut passes = std::mem::take(&mut self.host);
        for one in &mut passes {
            if let Some(arrival) = self.arrival(one) {
                one.start = arrival.clamp(one.start, one.end);
            }
        }
        passes
    }

    /// When the input of `pass` was there: a receive that was posted while it was asked for, or in the pass itself.
    fn arrival(&self, pass: &Action) -> Option<Nanos> {
        let kind = if pass.kind == Kind::F { Kind::F } else { Kind::BW };
        let key = (pass.chunk, kind, pass.microbatch, pass.start);
        let before = self
            .asked
            .partition_point(|one| (one.chunk, one.kind, one.microbatch, one.start) <= key);
        let asked = before.checked_sub(1).and_then(|at| self.asked.get(at));
        let same =
            asked.filter(|one| (one.chunk, one.kind, one.microbatch) == (key.0, key.1, key.2));
        let (from, to) = same.map_or((pass.start, pass.end), |one| (one.start, one.end));
        let first = self.received.partition_point(|one| one.0 < from);
        let posted = self.received[first..].iter().take_while(|one| one.0 <= to);
        posted.map(|one| one.1).max()
    }
}

/// Whether `name` is that of a pass.
pub(crate) fn names_pass(name: &str) -> bool {
    matches!(kind_of(name), EventKind::Passes(_))
}

/// Reads a name.
fn kind_of(name: &str) -> EventKind {
    let of_step = name.strip_prefix("ProfilerStep#").and_then(|number| number.parse().ok());
    if let Some(number) = of_step {
        return EventKind::Step(number);
    }
    match name {
        "gloo:recv" => return EventKind::Received,
        "gloo:send" => return EventKind::Sent,
        _ => {}
    }
    let gpipe =
        [("Forward ", Kind::F), ("Backward ", Kind::BW)].into_iter().find_map(|(of, kind)| {
            let microbatch = name.strip_prefix(of)?.parse().ok()?;
            Some(EventKind::Passes([Some((None, kind, microbatch)), None]))
        });
    if let Some(kind) = gpipe {
        return kind;
    }
    let Some(action) = name.strip_prefix("PP:") else { return EventKind::Other };
    if let Some(both) = action.strip_prefix('(').and_then(|rest| rest.strip_suffix(")OVERLAP_F_B"))
        && let Some((first, second)) = both.split_once(';')
    {
        return EventKind::Passes([pass(first), pass(second)]);
    }
    match pass(action) {
        Some(pass) => EventKind::Passes([Some(pass), None]),
        None if action.contains("WAIT") => EventKind::Other,
        None => asked(action).map_or(EventKind::Busy, EventKind::Asked),
    }
}

/// Splits `3F12` into the stage, the action and the microbatch.
fn parts(action: &str) -> Option<(u16, &str, u32)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let rest = action.trim_start_matches(is_digit);
    let name = rest.trim_end_matches(is_digit);
    let stage = action[..action.len() - rest.len()].parse().ok()?;
    Some((stage, name, rest[name.len()..].parse().ok()?))
}

/// Reads a pass such as `3F12`: I is what is called B elsewhere, and B is the whole pass.
fn pass(action: &str) -> Option<Named> {
    let (stage, name, microbatch) = parts(action)?;
    let kind = match name {
        "F" => Kind::F,
        "B" => Kind::BW,
        "I" => Kind::B,
        "W" => Kind::W,
        _ => return None,
    };
    Some((Some(stage), kind, microbatch))
}

/// Reads the receive of a pass, such as `3RECV_F12`.
fn asked(action: &str) -> Option<Named> {
    let (stage, name, microbatch) = parts(action)?;
    let kind = match name {
        "RECV_F" => Kind::F,
        "RECV_B" => Kind::BW,
        _ => return None,
    };
    Some((Some(stage), kind, microbatch))
}
