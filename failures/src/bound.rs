//! What no order of passes undercuts, however the microbatches of dead workers are dealt.
//!
//! A stage with n live workers runs the passes of all pipelines, so that one of its workers runs at least its
//! share of them. Before its first pass a forward goes through all chunks before its first one; behind its last
//! backward one goes back through them, and where B and W are apart the first stage ends with a W.

use pipeline::{Kind, Nanos, Pass, Placement, Shape};

use crate::dead::Dead;
use crate::pipelines::Pipelines;

/// Lower bounds of a step, in whole nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Of a step in which all stages wait for each other.
    pub step: Nanos,
    /// Of one with a staggered optimizer, in the long run.
    pub staggered: Nanos,
    /// The stage that decides the first.
    pub stage: u32,
}

/// The bounds of a step of `of` where the workers of `dead` run nothing. `split` says whether whole backwards are
/// run as a B and a W.
#[must_use]
pub fn bound(of: &Pipelines<'_>, dead: &Dead, split: bool) -> Bound {
    let shape = of.schedule.shape();
    let backwards = Backwards::new(of, split);
    let paths = Paths::new(of, backwards);
    let one = paths.one_microbatch();
    let mut best = Bound { step: of.optimizer + Nanos(one), staggered: Nanos(0), stage: 0 };
    for stage in 0..dead.stages() {
        let share = Share::new(of, dead, stage, backwards);
        let first = of.schedule.placement().chunks_of(shape, stage as usize).next().unwrap_or(0);
        let head = paths.head(first);
        let all = share.before_weights.saturating_add(share.weights);
        let through = share.before_weights.saturating_add(paths.tail(first));
        let passes = head.saturating_add(all.max(through));
        let step = Nanos(passes.saturating_add(of.optimizer.0));
        if step > best.step {
            (best.step, best.stage) = (step, stage);
        }
        best.staggered = best.staggered.max(Nanos(all.saturating_add(of.optimizer.0)));
    }
    best
}

/// The least work of the worker of a stage that has most.
struct Share {
    /// F and all that comes back through the stage.
    before_weights: u64,
    /// W, where it is apart.
    weights: u64,
}

impl Share {
    fn new(of: &Pipelines<'_>, dead: &Dead, stage: u32, backwards: Backwards) -> Self {
        let shape = of.schedule.shape();
        let live = dead.live(stage).count().max(1) as u64;
        let pipelines = u64::from(dead.pipelines());
        let placement = of.schedule.placement();
        let sums = |microbatch: u32| {
            let chunks = placement.chunks_of(shape, stage as usize);
            chunks.fold([0u64; 2], |[before, weights], chunk| {
                let [back, weight] = backwards.of(of, chunk, microbatch);
                let forward = of.costs.times(chunk, microbatch).forward.0;
                [
                    before.saturating_add(forward).saturating_add(back),
                    weights.saturating_add(weight),
                ]
            })
        };
        let microbatches = u64::from(shape.microbatches());
        let [before, weights] = if of.costs.microbatch_work().is_none() {
            // Microbatches are not cut in pieces.
            let most = (pipelines * microbatches).div_ceil(live);
            sums(0).map(|one| one.saturating_mul(most))
        } else {
            let all = (0..shape.microbatches())
                .map(sums)
                .fold([0u128; 2], |[a, b], [c, d]| [a + u128::from(c), b + u128::from(d)]);
            // The worker with most of both need not be the one with most of the first: W counts as none.
            let share = |sum: u128| {
                let share = (sum * u128::from(pipelines)).div_ceil(u128::from(live));
                u64::try_from(share).unwrap_or(u64::MAX)
            };
            let both = share(all[0] + all[1]);
            let first = share(all[0]).min(both);
            [first, both - first]
        };
        Self { before_weights: before, weights }
    }
}

/// How the backwards of a step are run.
#[derive(Clone, Copy)]
enum Backwards {
    Whole,
    Split,
    /// Some so, some so.
    Mixed,
}

impl Backwards {
    fn new(of: &Pipelines<'_>, split: bool) -> Self {
        let has = |kind: Kind| {
            let mut passes = of.schedule.orders().iter().flat_map(|order| order.passes());
            passes.any(|pass| pass.kind == kind)
        };
        match (has(Kind::W), has(Kind::BW) && !split) {
            (false, true) => Self::Whole,
            (true, true) => Self::Mixed,
            (_, false) => Self::Split,
        }
    }

    /// The least time of the backward of `chunk` that others wait for, and of what may follow later.
    fn of(self, of: &Pipelines<'_>, chunk: u16, microbatch: u32) -> [u64; 2] {
        let times = of.costs.times(chunk, microbatch);
        let again = match of.schedule.recomputes(chunk) {
            true => of.costs.of(Pass::r(chunk, microbatch)).0,
            false => 0,
        };
        let [first, later] = match self {
            Self::Whole => [times.whole_backward(), Nanos(0)],
            Self::Split => [times.backward_input, times.backward_weight],
            Self::Mixed => {
                let first = times.least_gradient();
                [first, times.least_backward() - first]
            }
        };
        [first.0.saturating_add(again), later.0]
    }

    /// Whether the first stage has a W behind its last B.
    const fn ends_with_weights(self) -> bool {
        matches!(self, Self::Split)
    }
}

/// Ways of a microbatch through the chunks, each chunk by its fastest microbatch.
struct Paths {
    /// By chunk: F, and the hop to the next one.
    down: Vec<[u64; 2]>,
    /// By chunk: the backward, and the hop to the one before.
    up: Vec<[u64; 2]>,
    /// W of the first chunk, where it is apart.
    last_weight: u64,
}

impl Paths {
    fn new(of: &Pipelines<'_>, backwards: Backwards) -> Self {
        let shape = of.schedule.shape();
        let placement = of.schedule.placement();
        let all = || 0..shape.microbatches();
        let least = |time: &dyn Fn(u32) -> u64| match of.costs.microbatch_work() {
            None => time(0),
            Some(_) => all().map(time).min().unwrap_or(0),
        };
        let hop = |chunk: u16| hop(of, (shape, placement), chunk);
        let down = |chunk: u16| [least(&|one| of.costs.times(chunk, one).forward.0), hop(chunk)];
        let up = |chunk: u16| {
            let time = least(&|one| backwards.of(of, chunk, one)[0]);
            let is_empty = chunk <= of.costs.forward_only_chunks();
            [time, if chunk == 0 || is_empty { 0 } else { hop(chunk - 1) }]
        };
        let chunks = || 0..shape.chunks();
        let last_weight = match backwards.ends_with_weights() {
            true => least(&|one| backwards.of(of, 0, one)[1]),
            false => 0,
        };
        Self { down: chunks().map(down).collect(), up: chunks().map(up).collect(), last_weight }
    }

    /// The least time before the forward of `chunk` can begin.
    fn head(&self, chunk: u16) -> u64 {
        let before = self.down[..usize::from(chunk)].iter();
        before.fold(0, |sum, [time, hop]| sum.saturating_add(*time).saturating_add(*hop))
    }

    /// The least time behind a backward of `chunk` until all chunks before it are done.
    fn tail(&self, chunk: u16) -> u64 {
        let before = &self.up[..usize::from(chunk)];
        let hops = self.up[1..=usize::from(chunk)].iter().map(|[_, hop]| *hop);
        let all = before.iter().map(|[time, _]| *time).chain(hops);
        all.fold(self.last_weight, u64::saturating_add)
    }

    /// The least time of one microbatch, alone.
    fn one_microbatch(&self) -> u64 {
        let last = self.down.len() - 1;
        let both = |chunk: usize| self.down[chunk][0].saturating_add(self.up[chunk][0]);
        let at = u16::try_from(last).unwrap_or(u16::MAX);
        self.head(at).saturating_add(both(last)).saturating_add(self.tail(at))
    }
}

/// The shortest way from `chunk` to the next one, within a pipeline or to another.
fn hop(of: &Pipelines<'_>, at: (Shape, Placement), chunk: u16) -> u64 {
    if chunk + 1 == at.0.chunks() {
        return 0;
    }
    let within = of.costs.hop_after(at, chunk).0;
    of.peer_hop.map_or(within, |other| other.0.min(within))
}
