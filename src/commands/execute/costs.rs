//! The costs of a run: stretched or shrunk, or as they were measured.

use cases::Case;
use executor::{Measured, MeasuredCopy};
use pipeline::{
    Collectives, CopyDirection, CopyTimes, Costs, Fault, Kind, Nanos, PassTimes, Problem, Schedule,
    ShardTimes, Step,
};

use crate::error::Error;

/// Times that are `by` times as long, a fraction, rounded.
pub fn scaled(costs: &Costs, by: (u128, u128)) -> Costs {
    let time = |time: Nanos| {
        let scaled = (u128::from(time.0) * by.0 + by.1 / 2) / by.1;
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    };
    let chunk = |times: &PassTimes| PassTimes {
        forward: time(times.forward),
        backward_input: time(times.backward_input),
        backward_weight: time(times.backward_weight),
        backward: times.backward.map(time),
    };
    let copy = |times: &CopyTimes| CopyTimes { out: time(times.out), back: time(times.back) };
    let shard =
        |times: &ShardTimes| ShardTimes { before: time(times.before), after: time(times.after) };
    let Collectives { broadcast, statistics, hidden_gradient } = costs.collectives();
    let collectives = Collectives {
        broadcast: time(broadcast),
        statistics: time(statistics),
        hidden_gradient: time(hidden_gradient),
    };
    let chunks = (0u16..).zip(costs.chunks());
    let recompute = chunks.map(|(chunk, _)| costs.recompute(chunk).map(time)).collect();
    let scaled = Costs::new(costs.chunks().iter().map(chunk).collect(), Nanos(0))
        .with_hops(costs.hops().map(time))
        .with_recompute(recompute)
        .with_copies(costs.copies().iter().map(copy).collect())
        .with_shards(costs.shards().iter().map(shard).collect(), collectives);
    match costs.microbatch_work() {
        Some(work) => scaled.with_microbatch_work(work.clone()),
        None => scaled,
    }
}

/// Gives `case` other costs and leaves its order as it is.
pub fn replace_costs(case: &mut Case, costs: Costs) -> Result<(), Error> {
    let old = &case.problem;
    let problem = || -> Result<Problem, Fault> {
        let problem = Problem::new(case.schedule.shape(), costs)?;
        let problem = problem.with_footprints(old.footprints().clone())?;
        problem.with_segments(old.segments())?.with_updates(old.updates())
    };
    case.problem = problem().map_err(|fault| case.error(&fault))?;
    Ok(())
}

/// The costs of passes and copies by the medians over the steps of `measured`; of a chunk without any B and W
/// all of BW is B. Values that cross need no time of their own.
pub fn measured_costs(schedule: &Schedule, measured: &Measured) -> Costs {
    let shape = schedule.shape();
    let passes = PassMedians::of(schedule, &measured.steps);
    let chunk = |chunk: u16| {
        let of = |kind| passes.median(kind, chunk);
        let (forward, backward) = (of(Kind::F).unwrap_or_default(), of(Kind::BW));
        let (backward_input, backward_weight) =
            of(Kind::B).zip(of(Kind::W)).unwrap_or((backward.unwrap_or_default(), Nanos(0)));
        PassTimes { forward, backward_input, backward_weight, backward }
    };
    let recompute = (0..shape.chunks()).map(|chunk| passes.median(Kind::R, chunk)).collect();
    let costs = Costs::new((0..shape.chunks()).map(chunk).collect(), Nanos(0))
        .with_recompute(recompute)
        .with_copies(copy_medians(schedule, &measured.copies));
    if !shape.has_shards() {
        return costs;
    }
    let shard = |stage: u16| ShardTimes {
        before: passes.median(Kind::S, stage).unwrap_or_default(),
        after: passes.median(Kind::T, stage).unwrap_or_default(),
    };
    let stages = u16::try_from(shape.stages()).unwrap_or(u16::MAX);
    costs.with_shards((0..stages).map(shard).collect(), Collectives::default())
}

/// The times of all passes, by kind and chunk or shard.
struct PassMedians {
    rows: usize,
    times: Vec<Vec<u64>>,
}

impl PassMedians {
    fn of(schedule: &Schedule, steps: &[Step]) -> Self {
        let shape = schedule.shape();
        let rows = usize::from(shape.chunks()).max(shape.stages());
        let mut all = Self { rows, times: vec![Vec::new(); Kind::ALL.len() * rows] };
        for one in steps.iter().flat_map(|step| step.stages.iter().flatten()) {
            let length = (one.end - one.start).0;
            let passes: Vec<_> = one.slot.passes().collect();
            for pass in &passes {
                let at = all.at(pass.kind, pass.chunk);
                all.times[at].push(length / passes.len() as u64);
            }
        }
        all.times.iter_mut().for_each(|times| times.sort_unstable());
        all
    }

    fn at(&self, kind: Kind, chunk: u16) -> usize {
        kind as usize * self.rows + usize::from(chunk)
    }

    fn median(&self, kind: Kind, chunk: u16) -> Option<Nanos> {
        median(&self.times[self.at(kind, chunk)])
    }
}

/// The lower median of `sorted` times.
fn median(sorted: &[u64]) -> Option<Nanos> {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().map(Nanos)
}

/// How long a copy of a whole activation of each chunk takes, by the medians of those measured; none if
/// there were none.
fn copy_medians(schedule: &Schedule, steps: &[Vec<MeasuredCopy>]) -> Vec<CopyTimes> {
    let Some(copies) = schedule.copies() else { return Vec::new() };
    let per_mille = u128::from(copies.part().per_mille());
    let of = |chunk: u16, way: CopyDirection| {
        let all = steps.iter().flatten();
        let those = all.filter(|copy| copy.op.chunk == chunk && copy.op.way == way);
        let mut times: Vec<u64> = those.map(|copy| (copy.end - copy.start).0).collect();
        times.sort_unstable();
        let whole = u128::from(median(&times).unwrap_or_default().0) * 1000 / per_mille;
        Nanos(u64::try_from(whole).unwrap_or(u64::MAX))
    };
    let chunk = |chunk| CopyTimes {
        out: of(chunk, CopyDirection::Out),
        back: of(chunk, CopyDirection::Back),
    };
    (0..schedule.shape().chunks()).map(chunk).collect()
}
