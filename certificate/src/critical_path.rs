//! The critical path of one microbatch alone through the pipeline, and the work and memory of each stage
//! for all microbatches. Every time that an argument uses is taken from this path.

use pipeline::Footprint;

use crate::knapsack_bound::{ItemType, knapsack_bound};
use crate::{Certificate, Objective};

/// The critical path and the stages.
pub(crate) struct Pipe {
    /// Start and end of F of every chunk in model order, then of B of every chunk against it. Between the
    /// two lies R of the last chunk; the others may recompute while the microbatch is away.
    legs: Vec<[i128; 2]>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) microbatches: i128,
    pub(crate) objective: Objective,
    /// By place on the path, its stage.
    homes: Vec<usize>,
}

/// One stage; lists are by its chunks in model order.
pub(crate) struct Stage {
    /// Places of its F on the path.
    pub(crate) forwards: Vec<usize>,
    /// Places of its B on the path.
    pub(crate) backwards: Vec<usize>,
    /// Times of its W.
    pub(crate) weights: Vec<i128>,
    /// M_B, or the part of it that is kept, and M_W.
    pub(crate) held: Vec<[i128; 2]>,
    /// Of chunks that recompute, the time of R and the rest of M_B; else none of either.
    pub(crate) again: Vec<[i128; 2]>,
    pub(crate) limit: i128,
    pub(crate) work: i128,
}

impl Pipe {
    pub(crate) fn new(certificate: &Certificate) -> Self {
        let Certificate { schedule, costs, footprints, limits, objective, .. } = certificate;
        let (shape, placement) = (schedule.shape(), schedule.placement());
        let last = shape.chunks() - 1;
        let microbatches = i128::from(shape.microbatches());
        let home = |chunk: u16| placement.stage(shape, chunk, 0);
        let unlimited = i128::from(u64::MAX);
        let limit = |stage| limits.as_ref().map_or(unlimited, |limits| limits.of(stage).0.into());
        let mut stages: Vec<Stage> =
            (0..shape.stages()).map(|one| Stage::idle(limit(one))).collect();
        let mut legs = Vec::with_capacity(2 * usize::from(shape.chunks()));
        let mut homes = Vec::with_capacity(2 * usize::from(shape.chunks()));
        let mut clock = 0i128;
        let mut at = home(0);
        let down = (0..=last).map(|chunk| (chunk, true));
        for (chunk, forward) in down.chain((0..=last).rev().map(|chunk| (chunk, false))) {
            let times = costs.chunks()[usize::from(chunk)];
            if home(chunk) != at {
                clock += i128::from(costs.hops().between(at, home(chunk)).0);
                at = home(chunk);
            }
            let time = if forward { times.forward } else { times.backward_input };
            let again = costs.recompute(chunk).map_or(0, |time| i128::from(time.0));
            if chunk == last && !forward {
                clock += again;
            }
            let stage = &mut stages[at];
            if forward {
                let Footprint { until_backward, until_weight } = footprints.of(chunk);
                let kept = footprints.kept(chunk).unwrap_or(until_backward);
                stage.again.push([again, (until_backward.0 - kept.0).into()]);
                stage.work += microbatches * again;
                stage.forwards.push(legs.len());
                stage.weights.push(times.backward_weight.0.into());
                stage.held.push([kept.0.into(), until_weight.0.into()]);
                stage.work += microbatches * i128::from(times.backward_weight.0);
            } else {
                stage.backwards.insert(0, legs.len());
            }
            stage.work += microbatches * i128::from(time.0);
            legs.push([clock, clock + i128::from(time.0)]);
            homes.push(at);
            clock += i128::from(time.0);
        }
        Self { legs, stages, microbatches, objective: *objective, homes }
    }

    /// Number of F on the path.
    pub(crate) fn forwards(&self) -> usize {
        self.legs.len() / 2
    }

    /// The stage of a place, and how many of its chunks were visited before by F.
    pub(crate) fn visit(&self, place: usize) -> (usize, usize) {
        let home = self.homes[place];
        let before = self.stages[home].forwards.iter().filter(|&&other| other < place);
        (home, before.count())
    }

    /// Start of the pass at `place` on the path.
    pub(crate) fn start(&self, place: usize) -> i128 {
        self.legs[place][0]
    }

    pub(crate) fn end(&self, place: usize) -> i128 {
        self.legs[place][1]
    }

    /// Its duration.
    pub(crate) fn time(&self, place: usize) -> i128 {
        self.end(place) - self.start(place)
    }
}

impl Stage {
    fn idle(limit: i128) -> Self {
        let (forwards, backwards) = (Vec::new(), Vec::new());
        let (weights, held, again) = (Vec::new(), Vec::new(), Vec::new());
        Self { forwards, backwards, weights, held, again, limit, work: 0 }
    }

    fn top(&self) -> usize {
        self.forwards.len() - 1
    }

    /// From the first F to the first B, which is of the last of the stage's chunks.
    pub(crate) fn wait_for_backward(&self, pipe: &Pipe) -> i128 {
        pipe.start(self.backwards[self.top()]) - pipe.start(self.forwards[0])
    }

    /// Whether a chunk of it recomputes.
    pub(crate) fn recomputes(&self) -> bool {
        self.again.iter().any(|again| *again != [0, 0])
    }

    /// The most time that the stage can be at work before its first B: F and R whose memory fits at once.
    pub(crate) fn work_before_backward(&self, pipe: &Pipe) -> i128 {
        let of = |chunk: usize| {
            let [again, rest] = self.again[chunk];
            let forward = [self.held[chunk][0], pipe.time(self.forwards[chunk])];
            [forward, [rest, again]].map(|[size, worth]| ItemType {
                size,
                worth,
                count: pipe.microbatches,
            })
        };
        knapsack_bound((0..=self.top()).flat_map(of).collect(), self.limit)
    }

    /// Lower bound on the idle time of the stage before its first B.
    pub(crate) fn idle_in_head(&self, pipe: &Pipe) -> i128 {
        let filled = self.work_before_backward(pipe);
        (self.wait_for_backward(pipe) - filled).max(0)
    }

    /// Whether not all F of the stage can be held at once, so that a B comes before the last F.
    pub(crate) fn holds_too_few(&self, pipe: &Pipe) -> bool {
        let all: i128 = self.held.iter().map(|[until_backward, _]| until_backward).sum();
        all * pipe.microbatches > self.limit
    }

    /// The time from the last F to the last B that its microbatch spends elsewhere.
    fn away_in_tail(&self, pipe: &Pipe) -> i128 {
        let last_forward = self.forwards[self.top()];
        let own: i128 = self.backwards.iter().map(|&place| pipe.time(place)).sum();
        pipe.end(self.backwards[0]) - pipe.end(last_forward) - own
    }

    /// The most work of B and W that is left when the last F starts, the W of its own microbatch
    /// included, its B not.
    fn left_in_tail(&self, pipe: &Pipe) -> i128 {
        let others = pipe.microbatches - 1;
        let mut items = Vec::new();
        let mut all_of_one = 0;
        let mut held_by_own = 0;
        for (chunk, &[until_backward, until_weight]) in self.held.iter().enumerate() {
            let (b, w) = (pipe.time(self.backwards[chunk]), self.weights[chunk]);
            items.push(ItemType { size: until_backward, worth: b + w, count: others });
            items.push(ItemType { size: until_weight, worth: w, count: others });
            all_of_one += b + w;
            held_by_own += until_backward;
        }
        let own: i128 = self.weights.iter().sum();
        own + knapsack_bound(items, self.limit - held_by_own).min(all_of_one * others)
    }

    /// Lower bound on the idle time of the stage between its last F and its last B.
    pub(crate) fn idle_in_tail(&self, pipe: &Pipe) -> i128 {
        // R of other microbatches may fill all of it.
        if self.recomputes() {
            return 0;
        }
        // The W of the first chunk comes behind the last B.
        let filled = self.left_in_tail(pipe) - self.weights[0];
        (self.away_in_tail(pipe) - filled).max(0)
    }

    /// The most time of W behind the last B.
    pub(crate) fn after_last_backward(&self, pipe: &Pipe) -> i128 {
        let item = |(chunk, &[_, until_weight]): (usize, &[i128; 2])| ItemType {
            size: until_weight,
            worth: self.weights[chunk],
            count: pipe.microbatches - i128::from(chunk == 0),
        };
        let [kept, until_weight] = self.held[0];
        let until_backward = kept + self.again[0][1];
        let room = self.limit - until_backward.max(until_weight);
        self.weights[0] + knapsack_bound(self.held.iter().enumerate().map(item).collect(), room)
    }

    /// The most time of W behind the last B, less the idle time between last F and last B.
    pub(crate) fn after_less_idle(&self, pipe: &Pipe) -> i128 {
        if self.recomputes() {
            return self.after_last_backward(pipe);
        }
        let by_work = self.left_in_tail(pipe) - self.away_in_tail(pipe);
        by_work.min(self.after_last_backward(pipe))
    }

    /// Lower bound on the time from the first F to the end of the last B.
    pub(crate) fn until_last_backward(&self, pipe: &Pipe) -> i128 {
        let head = self.idle_in_head(pipe);
        let after = self.after_last_backward(pipe);
        let less_idle = self.after_less_idle(pipe);
        let apart = self.work + head - less_idle;
        let one_only = (self.work + head - after).max(self.work - less_idle);
        if self.holds_too_few(pipe) { apart } else { one_only }.max(0)
    }

    /// Lower bound on the memory-time area that all microbatches hold, in bytes times nanoseconds.
    pub(crate) fn area(&self, pipe: &Pipe) -> i128 {
        let mut area = 0i128;
        for (chunk, &[until_backward, until_weight]) in self.held.iter().enumerate() {
            let away = pipe.end(self.backwards[chunk]) - pipe.start(self.forwards[chunk]);
            let [again, rest] = self.again[chunk];
            let rest = rest * (again + pipe.time(self.backwards[chunk]));
            let one = until_backward * away + rest + until_weight * self.weights[chunk];
            area = area.saturating_add(one.saturating_mul(pipe.microbatches));
        }
        area
    }
}
