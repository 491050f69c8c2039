//! When the collectives of parameters and gradients run beside the passes of their stage.
//!
//! Each stage has a stream for them, which runs its operations one after the other. While a pass runs beside
//! one, compute runs at rate `1 - hold` and the collective at rate `1/slow`
//! ([`pipeline::overlap::Contention`]); alone both run at full rate. All of it happens on one stage, so that
//! replay and the event engine read the same clock. Ends are whole nanoseconds, rounded up; without
//! contention nothing is rounded.

use pipeline::sharding::{ParameterAct, ParameterOp, ParameterOps, ParameterTimes};
use pipeline::{Metrics, Nanos, Schedule};

/// A collective in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParameterSpan {
    /// Its stage.
    pub stage: usize,
    /// The step.
    pub step: u32,
    /// The operation.
    pub op: ParameterOp,
    /// Start time.
    pub start: Nanos,
    /// End time.
    pub end: Nanos,
    /// Whether the first pass of its stage waits for it.
    pub leads: bool,
}

/// The stream of a stage, and its progress.
#[derive(Clone, Default)]
struct Stream {
    step: u32,
    /// Slots that have ended.
    ended: usize,
    /// The first operation that is not over.
    next: usize,
    /// When that one began, and what is left of it in thousandths of a nanosecond beside a pass; none before
    /// it begins.
    running: Option<(u64, u128)>,
    /// The moment up to which all this holds.
    now: u64,
}

/// The streams of all stages, while slots end one after the other.
pub(crate) struct Clock<'a> {
    ops: &'a ParameterOps,
    times: Option<&'a ParameterTimes>,
    streams: Vec<Stream>,
    spans: Vec<ParameterSpan>,
}

/// Thousandths.
const MILLE: u128 = 1000;

fn nanos(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl<'a> Clock<'a> {
    /// At the beginning of `schedule`, whose collectives take `times`; none if it has none.
    pub(crate) fn new(schedule: &'a Schedule, times: Option<&'a ParameterTimes>) -> Option<Self> {
        let ops = schedule.parameter_ops()?;
        let streams = vec![Stream::default(); schedule.shape().stages()];
        Some(Self { ops, times, streams, spans: Vec::new() })
    }

    /// `stage` begins `step` at `time`.
    pub(crate) fn begin(&mut self, stage: usize, step: u32, time: u64) {
        self.streams[stage] = Stream { step, now: time, ..Stream::default() };
    }

    /// When the parameters are there that the next slot of `stage` uses, which begins at `time` at the
    /// earliest: until then no pass runs.
    pub(crate) fn ready(&mut self, stage: usize, time: u64) -> u64 {
        self.idle(stage, time);
        let wanted = self.ops.before(stage, self.streams[stage].ended);
        self.finish(stage, wanted);
        self.streams[stage].now
    }

    /// The end of the next slot of `stage`, which begins at `start` and takes `work` where no collective runs
    /// beside it.
    pub(crate) fn run(&mut self, stage: usize, start: u64, work: u64) -> u64 {
        self.idle(stage, start);
        let mut left = u128::from(work) * MILLE;
        while left > 0 {
            let now = self.streams[stage].now;
            let Some((op, beside)) = self.current(stage) else {
                self.streams[stage].now = now.saturating_add(nanos(left.div_ceil(MILLE)));
                break;
            };
            let hold = self.times.map_or(0, |times| times.contention(op.act).hold());
            let pace = MILLE - u128::from(hold);
            let until_over = beside.div_ceil(MILLE);
            let length = match pace {
                0 => until_over,
                _ => until_over.min(left.div_ceil(pace)),
            };
            left = left.saturating_sub(length * pace);
            let rest = beside.saturating_sub(length * MILLE);
            self.advance(stage, now.saturating_add(nanos(length)), rest);
        }
        self.streams[stage].ended += 1;
        self.streams[stage].now
    }

    /// When all collectives of the step of `stage` are over, whose slots have all ended.
    pub(crate) fn drain(&mut self, stage: usize) -> u64 {
        self.finish(stage, self.ops.stage(stage).len());
        self.streams[stage].now
    }

    /// Every collective, by stage and time, once all slots have ended.
    pub(crate) fn into_spans(mut self) -> Vec<ParameterSpan> {
        for stage in 0..self.streams.len() {
            self.drain(stage);
        }
        self.spans.sort_by_key(|span| (span.step, span.stage, span.start, span.end));
        self.spans
    }

    /// The operation of `stage` that runs now, begun if it may begin, and what is left of it.
    fn current(&mut self, stage: usize) -> Option<(ParameterOp, u128)> {
        loop {
            let stream = &mut self.streams[stage];
            let op = *self.ops.stage(stage).get(stream.next)?;
            if op.after as usize > stream.ended {
                return None;
            }
            if let Some((_, left)) = stream.running {
                return Some((op, left));
            }
            let time = self.times.map_or(Nanos(0), |times| times.of(op.act, op.chunk));
            let slow = self.times.map_or(1000, |times| times.contention(op.act).slow());
            let left = u128::from(time.0) * u128::from(slow);
            stream.running = Some((stream.now, left));
            if left > 0 {
                return Some((op, left));
            }
            let now = stream.now;
            self.advance(stage, now, 0);
        }
    }

    /// `now` it is, and `left` of the operation of `stage` that runs.
    fn advance(&mut self, stage: usize, now: u64, left: u128) {
        let stream = &mut self.streams[stage];
        stream.now = now;
        let Some((start, rest)) = &mut stream.running else { return };
        *rest = left;
        if left > 0 {
            return;
        }
        let (op, start, end) = (self.ops.stage(stage)[stream.next], Nanos(*start), Nanos(now));
        stream.running = None;
        stream.next += 1;
        if op.act != ParameterAct::Reshard {
            let leads = stream.next <= self.ops.before(stage, 0);
            self.spans.push(ParameterSpan { stage, step: stream.step, op, start, end, leads });
        }
    }

    /// Lets the stream of `stage` run until `time`, while no pass does.
    fn idle(&mut self, stage: usize, time: u64) {
        while self.streams[stage].now < time && self.alone(stage, time) {}
        let stream = &mut self.streams[stage];
        stream.now = stream.now.max(time);
    }

    /// Lets the stream of `stage` run until the first `wanted` of its operations are over, while no pass does.
    fn finish(&mut self, stage: usize, wanted: usize) {
        // Those that take no time are over as soon as they may begin, and what follows them is not waited for.
        while self.current(stage).is_some() && self.streams[stage].next < wanted {
            if !self.alone(stage, u64::MAX) {
                return;
            }
        }
    }

    /// Lets the operation of `stage` run that runs now, at full pace, until it is over, or until `time`, which
    /// is later than now; false if there is none.
    fn alone(&mut self, stage: usize, time: u64) -> bool {
        let Some((op, left)) = self.current(stage) else { return false };
        let slow = self.times.map_or(1000, |times| times.contention(op.act).slow());
        let now = self.streams[stage].now;
        let length = nanos(left.div_ceil(u128::from(slow))).min(time - now);
        let done = u128::from(length) * u128::from(slow);
        self.advance(stage, now.saturating_add(length), left.saturating_sub(done));
        length > 0
    }
}

/// Lets each stage of `metrics`, which are those of slots alone, begin with the collectives that its first
/// pass waits for, right before it, and end with its last collective. `spans` are those of the same step on the same clock.
pub(crate) fn widen(metrics: &mut Metrics, spans: impl IntoIterator<Item = ParameterSpan>) {
    for ParameterSpan { stage, start, end, leads, .. } in spans {
        let times = &mut metrics.stages[stage];
        if leads {
            times.first_start = Nanos(times.first_start.0.saturating_sub(end.0 - start.0));
        }
        times.last_end = times.last_end.max(end);
    }
}

#[cfg(test)]
mod tests {
    use pipeline::overlap::Contention;
    use pipeline::sharding::{Reshard, Sharding};
    use pipeline::{Costs, PassTimes};

    use super::*;
    use crate::Replay;

    const FLUSHED: &str = "F0.0 F0.1 F2.0 F2.1 BW2.0 BW2.1 BW0.0 BW0.1\n\
                           F1.0 F1.1 F3.0 F3.1 BW3.0 BW3.1 BW1.0 BW1.1";

    /// The metrics of `orders`: `times` of F, B and W, of a gather and of a reduction.
    fn metrics(
        orders: &str,
        sharding: Sharding,
        times: [u64; 5],
        contention: Contention,
    ) -> Metrics {
        let schedule = orders.parse::<Schedule>().unwrap().sharded(sharding);
        let [forward, backward_input, backward_weight, gather, reduce] = times.map(Nanos);
        let pass = PassTimes::new(forward, backward_input, backward_weight);
        let chunks = usize::from(schedule.shape().chunks());
        let parameters = ParameterTimes::new(vec![gather; chunks], vec![reduce; chunks]);
        let costs = Costs::uniform(schedule.shape(), pass, Nanos(0))
            .with_parameters(parameters.under(contention));
        Replay::new().metrics(&schedule, &costs).unwrap()
    }

    fn spans(metrics: &Metrics) -> Vec<[u64; 2]> {
        metrics.stages.iter().map(|stage| [stage.first_start.0, stage.last_end.0]).collect()
    }

    #[test]
    fn the_distributed_optimizer_by_hand() {
        let orders = "F0.0 F0.1 BW0.0 BW0.1\nF1.0 BW1.0 F1.1 BW1.1";
        let plain = metrics(orders, Sharding::Optimizer, [2, 2, 2, 0, 0], Contention::NONE);
        assert_eq!(spans(&plain), [[0, 18], [2, 14]]);
        // Stage 0 gathers until 3 and reduces from 21; stage 1 waits for its input anyway, until 5, and
        // reduces from 17.
        let both = metrics(orders, Sharding::Optimizer, [2, 2, 2, 3, 5], Contention::NONE);
        assert_eq!(spans(&both), [[0, 26], [2, 22]]);
        // Divided gradients: those of microbatch 0 are hidden, those of the last not.
        let all = metrics(orders, Sharding::Gradients, [2, 2, 2, 3, 5], Contention::NONE);
        assert_eq!(spans(&all), [[0, 26], [2, 22]]);
        let slow = metrics(orders, Sharding::Gradients, [2, 2, 2, 3, 9], Contention::NONE);
        // From 15 to 24, then from 24 to 33; and from 11 to 20, then from 20 to 29.
        assert_eq!(spans(&slow), [[0, 33], [2, 29]]);
    }

    #[test]
    fn fsdp_by_hand() {
        let of = |prefetch, reshard, times| {
            metrics(FLUSHED, Sharding::Fsdp { prefetch, reshard }, times, Contention::NONE)
        };
        let times = [1, 1, 1, 1, 1];
        assert_eq!(of(0, Reshard::AfterUse, [1, 1, 1, 0, 0]).makespan(), Nanos(15));
        assert_eq!(spans(&of(0, Reshard::AfterUse, times)), [[0, 20], [1, 18]]);
        assert_eq!(spans(&of(1, Reshard::AfterUse, times)), [[0, 17], [1, 15]]);
        assert_eq!(of(1, Reshard::AfterUse, times), of(7, Reshard::Never, times));
        // Without a look-ahead, the second chunk is gathered once.
        assert!(
            of(0, Reshard::Never, times).makespan() < of(0, Reshard::AfterUse, times).makespan()
        );
    }

    #[test]
    fn passes_are_stretched_beside_a_collective() {
        let orders = "F0.0 F1.0 BW1.0 BW0.0";
        let of = |hold, slow| {
            let contention = Contention::new(hold, slow).unwrap();
            metrics(orders, Sharding::Optimizer, [10, 10, 0, 4, 0], contention).makespan().0
        };
        assert_eq!(of(0, 1000), 44);
        // Until 4 nothing runs; then 4 beside the gather of chunk 1, in which F0.0 does 2.
        assert_eq!(of(500, 1000), 46);
        // Then 8, in which it does 4.
        assert_eq!(of(500, 2000), 48);
        // A collective that takes all: one after the other.
        assert_eq!(of(1000, 1000), 48);
        // A pace that is not a whole number is rounded up, once.
        assert_eq!(of(333, 1000), 46);
    }

    #[test]
    fn a_gather_that_takes_no_time_does_not_wait_for_the_next() {
        let schedule = "F0.0 F1.0 BW1.0 BW0.0".parse::<Schedule>().unwrap();
        let schedule = schedule.sharded(Sharding::Optimizer);
        let times = ParameterTimes::new([0, 8].map(Nanos).to_vec(), vec![Nanos(0); 2]);
        let pass = PassTimes { forward: Nanos(10), ..PassTimes::default() };
        let costs = Costs::uniform(schedule.shape(), pass, Nanos(0)).with_parameters(times);
        let timeline = Replay::new().timeline(&schedule, &costs).unwrap();
        assert_eq!(timeline.stages[0][1].end, Nanos(20), "the second is hidden");
    }
}
