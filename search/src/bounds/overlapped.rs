//! Lower bounds where passes are segments on two streams.
//!
//! In any order, a slot takes at least the time of each of its passes with its own segments in sequence, less W,
//! which may run concurrently; a stream runs one segment at a time; a forward never overlaps another forward, so its
//! communication is exposed while it runs alone. Contention only lengthens slots.

use pipeline::overlap::{Overlap, Part, Stream};
use pipeline::{Kind, Nanos, Pass, PassTimes, Placement, Slot};

use super::argument::{Argument, Bound, highest};
use super::knapsack_bound::{ItemType, knapsack_bound};
use crate::instance::{Instance, Objective};

/// The work of one microbatch on a stage, on one stream.
#[derive(Clone, Copy, Default)]
struct Work {
    forward: u64,
    backward: u64,
    weight: u64,
}

/// The streams of a device.
const STREAMS: [Stream; 2] = [Stream::Compute, Stream::Communication];

/// Upper bounds on the time that overlapping passes of a stage saves, over all pairs of its chunks, in nanoseconds.
struct Savings {
    /// Serial time of all passes.
    sum: i128,
    /// The longest forward, and the longest backward with its W.
    forward: i128,
    backward: i128,
    /// Time saved by a pair, against the sum of its F, B and W.
    pair: i128,
    /// Time saved by a whole backward outside a pair, against the sum of its B and W.
    lone: i128,
    /// The longest W that a pair may defer, and the saving that the pair loses by deferring it.
    weight: i128,
    price: i128,
}

impl Savings {
    fn of(line: &Line<'_>, stage: usize, whole: bool) -> Self {
        let costs = &line.instance.costs;
        let time = |slot: Slot| i128::from(costs.of_slot(slot).0);
        let chunks: Vec<u16> = line.chunks(stage).collect();
        let weight = |chunk: u16| {
            if whole { i128::from(line.times(chunk).backward_weight.0) } else { 0 }
        };
        let back = |chunk: u16| i128::from(line.times(chunk).backward_input.0);
        let forward = |chunk: u16| i128::from(line.times(chunk).forward.0);
        let most =
            |of: &dyn Fn(u16) -> i128| chunks.iter().map(|&chunk| of(chunk)).max().unwrap_or(0);
        // By every pair of chunks: with W beside them, and without.
        let saved = |kind: fn(u16, u32) -> Pass| {
            let pairs =
                chunks.iter().flat_map(|&one| chunks.iter().map(move |&other| (one, other)));
            let saved = |(one, other): (u16, u16)| {
                let beside = kind(other, 0);
                let w = if beside.kind == Kind::BW { weight(other) } else { 0 };
                let apart = forward(one) + back(other) + w;
                apart - time(Slot::Pair(Pass::f(one, 1), beside))
            };
            pairs.map(saved).max().unwrap_or(0).max(0)
        };
        let (split, full) = (saved(Pass::b), saved(Pass::bw));
        let pair = split.max(full);
        Self {
            sum: chunks.iter().map(|&one| forward(one) + back(one) + weight(one)).sum::<i128>()
                * i128::from(line.microbatches),
            forward: most(&forward),
            backward: most(&|chunk| back(chunk) + weight(chunk)),
            pair,
            lone: most(&|chunk| back(chunk) + weight(chunk) - time(Slot::One(Pass::bw(chunk, 0))))
                .max(0),
            weight: most(&weight),
            price: pair - split,
        }
    }

    /// The least cost of `idle` nanoseconds, filled with deferred W of up to `pairs` pairs or left idle.
    fn put_off(&self, idle: i128, pairs: i128) -> i128 {
        if self.weight == 0 || self.price >= self.weight {
            return idle;
        }
        let filled = idle.min(pairs * self.weight);
        idle - filled + filled * self.price / self.weight
    }
}

/// The instance, its overlap rules and its microbatch count, as the bounds use them.
struct Line<'a> {
    instance: &'a Instance,
    overlap: &'a Overlap,
    microbatches: u64,
}

/// All bounds above zero, the best of each argument.
pub(super) fn all(instance: &Instance, overlap: &Overlap) -> Vec<Bound> {
    let microbatches = u64::from(instance.shape.microbatches());
    let line = Line { instance, overlap, microbatches };
    let stages = 0..instance.shape.stages();
    let bounds = if instance.placement == Placement::Mirrored {
        vec![highest(stages.map(|stage| (line.work_of_both_ways(stage), Argument::Work { stage })))]
    } else {
        vec![
            highest(stages.clone().map(|stage| (line.work(stage), Argument::Work { stage }))),
            highest(stages.clone().map(|stage| (line.trip(stage), Argument::Trip { stage }))),
            highest(stages.clone().map(|stage| (line.head(stage), Argument::Head { stage }))),
            highest(stages.clone().map(|stage| {
                (line.cost(stage, line.slots(stage, true)), Argument::HeadAndTail { stage })
            })),
            highest(stages.skip(1).map(|via| (line.path(via), Argument::Path { from: 0, via }))),
        ]
    };
    bounds.into_iter().flatten().filter(|bound| bound.cost > Nanos(0)).collect()
}

impl Line<'_> {
    fn chunks(&self, stage: usize) -> impl Iterator<Item = u16> {
        self.instance.placement.chunks_of(self.instance.shape, stage)
    }

    fn times(&self, chunk: u16) -> PassTimes {
        self.instance.costs.chunks()[usize::from(chunk)]
    }

    fn work_of_chunk(&self, chunk: u16, stream: Stream) -> Work {
        let work = |part| self.overlap.chain(chunk).work(part, stream).0;
        Work { forward: work(Part::F), backward: work(Part::B), weight: work(Part::W) }
    }

    /// The time of `stage` under the objective, if it takes `span` from its first to its last pass.
    fn cost(&self, stage: usize, span: u64) -> u64 {
        match self.instance.objective {
            Objective::Span => span,
            Objective::Makespan => span + self.down(stage),
        }
    }

    /// The busier stream of `stage`, all microbatches, with what it must idle before the first B; `counts`
    /// says what of the work is counted.
    fn stream(&self, stage: usize, idle: bool, counts: fn(Work) -> u64) -> u64 {
        let on = |stream| {
            let one: u64 =
                self.chunks(stage).map(|chunk| counts(self.work_of_chunk(chunk, stream))).sum();
            let idle = if idle { self.idle_before_backwards(stage, stream) } else { 0 };
            one * self.microbatches + idle
        };
        STREAMS.into_iter().map(on).max().unwrap_or(0)
    }

    /// *Proof.* Each stream runs one segment at a time.
    fn work(&self, stage: usize) -> u64 {
        self.cost(stage, self.stream(stage, false, |one| one.forward + one.backward + one.weight))
    }

    /// The same where microbatches take different ways.
    fn work_of_both_ways(&self, stage: usize) -> u64 {
        let Instance { shape, placement, .. } = self.instance;
        let here =
            |microbatch: u32, chunk: u16| placement.stage(*shape, chunk, microbatch) == stage;
        let on = |stream| -> u64 {
            let ways = (0..shape.microbatches()).flat_map(|microbatch| {
                (0..shape.chunks()).filter(move |&chunk| here(microbatch, chunk))
            });
            let all = |one: Work| one.forward + one.backward + one.weight;
            ways.map(|chunk| all(self.work_of_chunk(chunk, stream))).sum()
        };
        STREAMS.into_iter().map(on).max().unwrap_or(0)
    }

    /// *Proof.* With the idle time before its first B each stream must do all of its work.
    fn head(&self, stage: usize) -> u64 {
        self.cost(stage, self.stream(stage, true, |one| one.forward + one.backward + one.weight))
    }

    /// The least time that the compute or communication stream of `stage` is idle between its first F and
    /// its first B.
    ///
    /// *Proof.* In that time R, no less than the way of a microbatch to the last chunk and back, only
    /// forwards run, of which each takes what both streams have of it, one after the other. Where the
    /// forwards have C on this stream and at least g C on the other, it idles for R - C and for g C at
    /// least, so for R g / (1 + g) whatever C is. Nor is C more than all forwards have, or than
    /// those that the memory limit lets be held before a B.
    fn idle_before_backwards(&self, stage: usize, stream: Stream) -> u64 {
        let window = self.first_backward(stage);
        let other = match stream {
            Stream::Compute => Stream::Communication,
            Stream::Communication => Stream::Compute,
        };
        let exposed = |chunk: u16| {
            let [own, other] = [stream, other].map(|one| self.work_of_chunk(chunk, one).forward);
            let all = u128::from(own) + u128::from(other);
            (own > 0).then(|| u128::from(window) * u128::from(other) / all)
        };
        let least = self.chunks(stage).filter_map(exposed).min();
        let least = least.map_or(window, |idle| u64::try_from(idle).unwrap_or(0));
        let item = |chunk: u16| ItemType {
            bytes: self.instance.footprints.of(chunk).until_backward.0,
            worth: self.work_of_chunk(chunk, stream).forward,
            count: self.microbatches,
        };
        let limit = self.instance.limits.as_ref().map_or(u64::MAX, |limits| limits.of(stage).0);
        let most = knapsack_bound(self.chunks(stage).map(item), limit);
        least.max(window.saturating_sub(most))
    }

    /// The least time that the slots of `stage` take with what it idles before its first B and after its last
    /// F; `whole` counts W, else the time ends with the last B.
    ///
    /// *Proof.* Of N forwards, let n run in no pair; as many backwards do. A pair saves at most what
    /// [`Savings`] says of the sum of its passes. Before the first B the stage takes at least the way R of a
    /// microbatch to the last chunk and back, in which only those n forwards run; after the last F at least
    /// the way R' of that microbatch, in which only the n backwards run, and W, of which that of a pair is
    /// put off at the price of what it would have saved there. The two do not overlap if there is a
    /// pair. The least over n, and over the number of pairs that put off W, is a bound.
    fn slots(&self, stage: usize, whole: bool) -> u64 {
        let all = self.microbatches * self.chunks(stage).count() as u64;
        let save = Savings::of(self, stage, whole);
        let held = self.instance.limits.as_ref().map_or(all, |limits| {
            let bytes = |chunk: u16| self.instance.footprints.of(chunk).until_backward.0;
            let least = self.chunks(stage).map(bytes).min().unwrap_or(0);
            limits.of(stage).0.checked_div(least).unwrap_or(all)
        });
        let head = i128::from(self.first_backward(stage));
        let tail = i128::from(self.last_round(stage));
        let of = |alone: u64| {
            let pairs = i128::from(all - alone);
            // Forwards beyond the memory limit cannot run before the first B.
            let early = i128::from(alone.min(held));
            let alone = i128::from(alone);
            let head = (head - early * save.forward).max(0);
            let tail = (tail - alone * save.backward).max(0);
            let idle = if pairs == 0 { head.max(tail) } else { head + save.put_off(tail, pairs) };
            save.sum + idle - pairs * save.pair - alone * save.lone
        };
        let least = (0..=all).map(of).min().unwrap_or(0);
        u64::try_from(least).unwrap_or(0)
    }

    /// The least time from the end of the last F of `stage` to the start of the same microbatch's B.
    fn last_round(&self, stage: usize) -> u64 {
        let round = |chunk: u16| {
            let both = self.way(chunk, |times| times.forward)
                + self.way(chunk, |times| times.backward_input);
            let own = self.times(chunk);
            both - own.forward.0 - own.backward_input.0
        };
        self.chunks(stage).map(round).min().unwrap_or(0)
    }

    /// *Proof.* A microbatch must run all forwards and backwards from the first chunk of the stage on, one
    /// after the other.
    fn trip(&self, stage: usize) -> u64 {
        let Some(low) = self.chunks(stage).min() else { return 0 };
        let turn =
            self.way(low, |times| times.forward) + self.way(low, |times| times.backward_input);
        self.cost(stage, turn)
    }

    /// *Proof.* The first F of `via` is of a microbatch that has come from chunk 0, and its last B is of
    /// one that goes back there. Between them `via` runs all its F and B, and no other pass of the pipeline
    /// is needed for that.
    fn path(&self, via: usize) -> u64 {
        let Some(low) = self.chunks(via).min() else { return 0 };
        let inner = self.stream(via, true, |one| one.forward + one.backward);
        let inner = inner.max(self.slots(via, false));
        let back: u64 =
            (0..low).map(|chunk| self.leg(chunk, self.times(chunk).backward_input)).sum();
        // A W of the last microbatch is left on the first stage, unless it ran beside the B.
        let rest = match self.overlap.rule().lone {
            true => 0,
            false => self.times(0).backward_weight.0,
        };
        self.cost(0, self.down(via) + inner + back + rest)
    }

    /// `time` and the hop between `chunk` and the next.
    fn leg(&self, chunk: u16, time: Nanos) -> u64 {
        let Instance { shape, placement, costs, .. } = self.instance;
        time.0 + costs.hop_after((*shape, *placement), chunk).0
    }

    /// The least time from the first F of the model to the first F of `stage`.
    fn down(&self, stage: usize) -> u64 {
        let low = self.chunks(stage).min().unwrap_or(0);
        (0..low).map(|chunk| self.leg(chunk, self.times(chunk).forward)).sum()
    }

    /// All of `part` from `chunk` to the last one, with the hops between.
    fn way(&self, chunk: u16, part: fn(PassTimes) -> Nanos) -> u64 {
        let last = self.instance.shape.chunks() - 1;
        let legs = (chunk..last).map(|at| self.leg(at, part(self.times(at))));
        legs.sum::<u64>() + part(self.times(last)).0
    }

    /// The least time from the first F of `stage` to its first B: to the last chunk, and back to its own
    /// last one.
    fn first_backward(&self, stage: usize) -> u64 {
        let (Some(low), Some(top)) = (self.chunks(stage).min(), self.chunks(stage).max()) else {
            return 0;
        };
        let back = self.way(top, |times| times.backward_input);
        self.way(low, |times| times.forward) + back - self.times(top).backward_input.0
    }
}
