//! A slot while it runs: which segment is on which stream, and when the next one ends.
//!
//! The rule of the two streams, event by event: a composition runs a slot to its end at once, while the
//! event engine may delay its communication on the wires in between.

use std::ops::Range;

use super::segment::{Contention, Part, Segment, Stream};
use crate::units::{Bytes, Nanos};

/// A segment on its way to the streams.
pub(super) struct Item<'a> {
    pub(super) segment: &'a Segment,
    pub(super) part: Part,
    pub(super) layer: Option<u32>,
    /// The items whose ends it waits for.
    pub(super) needs: Vec<usize>,
}

/// The segments of a slot in the order in which they come to their streams, packed to be run often.
#[derive(Clone, Default, Debug)]
pub struct Program {
    steps: Vec<Step>,
    /// The steps that each waits for, one after the other.
    needs: Vec<usize>,
    /// By stream, its steps in order.
    streams: [Vec<usize>; 2],
    /// The step that comes to its stream last.
    last: Option<usize>,
}

#[derive(Clone, Debug)]
struct Step {
    time: Nanos,
    bytes: Bytes,
    contention: Contention,
    /// Of [`Program::needs`].
    needs: Range<usize>,
}

impl Program {
    /// `items`, which come to their streams in `order`; a step is the position of its item.
    pub(super) fn new(items: &[Item<'_>], order: &[usize]) -> Self {
        let mut program = Self::default();
        program.append(items, order);
        program
    }

    /// Adds `items`, which come to their streams in `order` when all that is there has ended.
    pub(super) fn append(&mut self, items: &[Item<'_>], order: &[usize]) {
        let before = self.steps.len();
        for item in items {
            let first = self.needs.len();
            self.needs.extend(item.needs.iter().map(|need| need.saturating_add(before)));
            if item.needs.is_empty() {
                self.needs.extend(self.last);
            }
            let segment = item.segment;
            let bytes = match segment.stream {
                Stream::Compute => Bytes(0),
                Stream::Communication => segment.bytes.unwrap_or_default(),
            };
            let needs = first..self.needs.len();
            let (time, contention) = (segment.time, segment.contention);
            self.steps.push(Step { time, bytes, contention, needs });
        }
        for &item in order {
            self.streams[items[item].segment.stream as usize].push(before + item);
            self.last = Some(before + item);
        }
    }

    /// Whether a segment is to move bytes over the wires of a cluster.
    #[must_use]
    pub fn moves_bytes(&self) -> bool {
        self.steps.iter().any(|step| step.bytes > Bytes(0))
    }

    /// The bytes that `step` is to move.
    ///
    /// # Panics
    /// If there is no such step.
    #[must_use]
    pub fn bytes(&self, step: usize) -> Bytes {
        self.steps[step].bytes
    }
}

/// How passes take longer, or shorter, than their segments say: `actual` in place of `nominal`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Duration of the passes of the slot one after the other.
    pub actual: Nanos,
    /// How long they take by their segments.
    pub nominal: Nanos,
}

impl Pace {
    /// As the segments say.
    pub const NOMINAL: Self = Self { actual: Nanos(1), nominal: Nanos(1) };

    /// `time` at this pace, in ticks, rounded down.
    fn ticks(self, time: Nanos) -> u128 {
        let (time, actual) = (u128::from(time.0), u128::from(self.actual.0));
        if self.actual == self.nominal {
            return time * TICKS;
        }
        let nominal = u128::from(self.nominal.0.max(1));
        let (whole, rest) = (time * actual / nominal, time * actual % nominal);
        whole.saturating_mul(TICKS).saturating_add(rest * TICKS / nominal)
    }
}

/// Parts of a nanosecond that the clock of a slot counts, from its start.
pub const TICKS: u128 = 1_000_000;

/// The end of a communication that its wires have not determined yet.
const HELD: u128 = u128::MAX;

/// A moment that has not come.
const NEVER: u128 = u128::MAX;

/// A segment on its stream.
#[derive(Clone, Copy, Debug)]
struct Running {
    step: usize,
    /// Work left, in ticks at full pace.
    left: u128,
    /// Before this moment the wires do not let it end.
    held_until: u128,
    /// When its own work was done.
    done_at: u128,
}

impl Default for Pace {
    fn default() -> Self {
        Self::NOMINAL
    }
}

/// How far a slot has run its [`Program`].
#[derive(Clone, Default, Debug)]
pub struct Execution {
    pace: Pace,
    now: u128,
    /// By stream, how many of its steps have started.
    started: [usize; 2],
    running: [Option<Running>; 2],
    ended: Vec<bool>,
    /// Number of steps that have not ended.
    left: usize,
    is_delayed: bool,
}

impl Execution {
    /// Goes back to the start, of `program` at `pace`.
    pub fn begin(&mut self, program: &Program, pace: Pace) {
        let mut ended = std::mem::take(&mut self.ended);
        ended.clear();
        ended.resize(program.steps.len(), false);
        *self = Self { pace, ended, left: program.steps.len(), ..Self::default() };
    }

    /// The clock, in [`TICKS`] from the start of the slot: when the last segment ended.
    #[must_use]
    pub const fn now(&self) -> u128 {
        self.now
    }

    /// Whether the wires have kept a segment longer than its own work.
    #[must_use]
    pub const fn is_delayed(&self) -> bool {
        self.is_delayed
    }

    /// Starts what can start on each stream. `started` hears of each step, and says whether wires hold it
    /// until [`Self::release`].
    pub fn start(&mut self, program: &Program, started: &mut impl FnMut(usize) -> bool) {
        for stream in 0..program.streams.len() {
            let Some(&step) = program.streams[stream].get(self.started[stream]) else { continue };
            let needs = &program.needs[program.steps[step].needs.clone()];
            let has_ended = |&need: &usize| self.ended.get(need).copied().unwrap_or(false);
            if self.running[stream].is_some() || !needs.iter().all(has_ended) {
                continue;
            }
            self.started[stream] += 1;
            let left = self.pace.ticks(program.steps[step].time);
            let held_until = if started(step) { HELD } else { 0 };
            self.running[stream] = Some(Running { step, left, held_until, done_at: NEVER });
        }
    }

    /// The wires let the segment that they hold end at `moment`, or later.
    pub fn release(&mut self, moment: u128) {
        if let Some(held) = &mut self.running[Stream::Communication as usize] {
            held.held_until = moment;
        }
    }

    /// When the next segment ends, unless that is for the wires to say.
    #[must_use]
    pub fn next(&self, program: &Program) -> Option<u128> {
        let steps = self.ends(program);
        steps.into_iter().flatten().min().map(|step| self.now.saturating_add(step))
    }

    /// Whether all segments have ended; with nothing on the streams, else, the rest waits for ever.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Contention at present, in thousandths: the share of compute lost, and the slowdown of communication.
    fn rates(&self, program: &Program) -> (u128, u128) {
        match self.running {
            [Some(_), Some(beside)] => {
                let contention = program.steps[beside.step].contention;
                (u128::from(contention.hold()), u128::from(contention.slow()))
            }
            _ => (0, 1000),
        }
    }

    /// Ticks until each stream ends its segment at the present rates.
    fn ends(&self, program: &Program) -> [Option<u128>; 2] {
        let (hold, slow) = self.rates(program);
        let [compute, communication] = self.running;
        [
            compute.and_then(|running| match (running.left, 1000 - hold) {
                (0, _) => Some(0),
                (_, 0) => None,
                (left, rate) => Some(left.saturating_mul(1000).div_ceil(rate)),
            }),
            communication.filter(|running| running.held_until != HELD).map(|running| {
                let own = own_work(&running, slow);
                let held = running.held_until.saturating_sub(self.now);
                // The wires count whole nanoseconds: less than one is not a delay.
                if held >= own.saturating_add(TICKS) { held } else { own }
            }),
        ]
    }

    /// Goes on to the next end, and says which steps have ended.
    pub fn advance(&mut self, program: &Program, ended: &mut impl FnMut(usize)) {
        let ends = self.ends(program);
        let Some(step) = ends.iter().flatten().copied().min() else { return };
        let (hold, slow) = self.rates(program);
        let before = self.now;
        self.now = before.saturating_add(step);
        if let Some(running) = &mut self.running[Stream::Communication as usize] {
            let own = own_work(running, slow);
            if running.done_at == NEVER && own <= step {
                running.done_at = before.saturating_add(own);
            }
        }
        let done = [step.saturating_mul(1000 - hold) / 1000, step.saturating_mul(1000) / slow];
        for ((slot, end), done) in self.running.iter_mut().zip(ends).zip(done) {
            let Some(running) = slot else { continue };
            running.left = running.left.saturating_sub(done);
            if end != Some(step) {
                continue;
            }
            self.is_delayed |= self.now >= running.done_at.saturating_add(TICKS);
            self.ended[running.step] = true;
            self.left -= 1;
            ended(running.step);
            *slot = None;
        }
    }
}

/// Ticks until the work of a segment of communication itself is done, which takes `slow` thousandths of
/// its time.
fn own_work(running: &Running, slow: u128) -> u128 {
    running.left.saturating_mul(slow).div_ceil(1000)
}
