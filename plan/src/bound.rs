//! The least that a step can take, before any order is made.

use pipeline::{Family, Nanos, PassTimes, Placement, Shape};

use crate::costed::Costed;
use crate::setup::Boundary;

/// The least that the passes of `costed` take in any order of its family, as `boundary` counts them.
pub(crate) fn least(costed: &Costed, boundary: Boundary) -> Nanos {
    // At best compute hides all that travels.
    let hidden = costed.costs.overlap().map(pipeline::overlap::Overlap::without_communication);
    let hidden = hidden.map(|overlap| overlap.times());
    let bound = Bound {
        shape: costed.shape,
        family: costed.setup.family,
        chunks: hidden.as_deref().unwrap_or(costed.costs.chunks()),
        shards: &costed.costs.shards().iter().map(|one| one.before + one.after).collect::<Vec<_>>(),
    };
    match boundary {
        Boundary::Barrier => bound.makespan(),
        Boundary::PostValidation => bound.work(),
    }
}

/// The inputs of a lower bound.
struct Bound<'a> {
    shape: Shape,
    family: Family,
    chunks: &'a [PassTimes],
    /// Work on the shard of the vocabulary of each stage for a microbatch; empty where it is whole.
    shards: &'a [Nanos],
}

/// Work of a stage for a microbatch, and the least work before and after it, in nanoseconds.
#[derive(Clone)]
struct OfStage {
    /// All its passes, and those without W that is apart.
    all: u64,
    until_last: u64,
    /// Forwards of the chunks before any of its own, and their backwards.
    fill: u64,
    drain: u64,
}

impl Default for OfStage {
    fn default() -> Self {
        Self { all: 0, until_last: 0, fill: u64::MAX, drain: u64::MAX }
    }
}

impl Bound<'_> {
    /// The work of the busiest stage.
    fn work(&self) -> Nanos {
        let mut work = vec![0u64; self.shape.stages()];
        let placement = self.family.about().placement;
        // Of a mirrored pair, each stage runs half of the microbatches.
        let ways: &[u32] = if placement == Placement::Mirrored { &[0, 1] } else { &[0] };
        for (chunk, times) in (0..self.shape.chunks()).zip(self.chunks) {
            for way in ways {
                let microbatch = way * (self.shape.microbatches() - 1);
                let stage = placement.stage(self.shape, chunk, microbatch);
                work[stage] = work[stage].saturating_add(whole(times) / ways.len() as u64);
            }
        }
        for (work, shard) in work.iter_mut().zip(self.shards) {
            *work = work.saturating_add(shard.0);
        }
        Nanos(self.of_all(work.into_iter().max().unwrap_or(0)))
    }

    /// The work of a stage with what must run before and after it: its first pass waits for the
    /// forwards of the chunks before, and its last backward is followed by those of the same chunks,
    /// and by the W of the first where it is split off. With one chunk per stage and equal times, 1F1B
    /// takes no longer.
    fn makespan(&self) -> Nanos {
        let placement = self.family.about().placement;
        if placement == Placement::Mirrored {
            return self.work();
        }
        let is_whole = self.family.has_whole_backwards();
        let back = |times: &PassTimes| {
            times.backward_input.0 + if is_whole { times.backward_weight.0 } else { 0 }
        };
        let fill = sums_before(self.chunks, |times| times.forward.0);
        let drain = sums_before(self.chunks, back);
        let last_weight = match self.chunks.first() {
            Some(first) if !is_whole => first.backward_weight.0,
            _ => 0,
        };
        let mut stages = vec![OfStage::default(); self.shape.stages()];
        let sums = self.chunks.iter().zip(fill.iter().zip(&drain));
        for (chunk, (times, (fill, drain))) in (0..).zip(sums) {
            let own = &mut stages[placement.stage(self.shape, chunk, 0)];
            own.all = own.all.saturating_add(whole(times));
            own.until_last = own.until_last.saturating_add(times.forward.0 + back(times));
            own.fill = own.fill.min(*fill);
            own.drain = own.drain.min(*drain);
        }
        let span = |(stage, own): (usize, &OfStage)| {
            let shard = self.shards.get(stage).map_or(0, |shard| self.of_all(shard.0));
            let all = self.of_all(own.all).saturating_add(shard);
            let behind = own.drain.saturating_add(last_weight);
            own.fill.saturating_add(all.max(self.of_all(own.until_last).saturating_add(behind)))
        };
        Nanos(stages.iter().enumerate().map(span).max().unwrap_or(0))
    }

    /// As many as there are microbatches.
    fn of_all(&self, one: u64) -> u64 {
        one.saturating_mul(u64::from(self.shape.microbatches()))
    }
}

fn whole(times: &PassTimes) -> u64 {
    let back = times.backward_input.0.saturating_add(times.backward_weight.0);
    back.saturating_add(times.forward.0)
}

/// For each chunk, the sum of `time` over all before it.
fn sums_before(chunks: &[PassTimes], time: impl Fn(&PassTimes) -> u64) -> Vec<u64> {
    let add = |sum: &mut u64, times: &PassTimes| {
        let before = *sum;
        *sum = sum.saturating_add(time(times));
        Some(before)
    };
    chunks.iter().scan(0, add).collect()
}

#[cfg(test)]
mod tests {
    use pipeline::{
        Bytes, Choice, Chunks, Collectives, CopyTimes, Costs, Footprint, Footprints, Kind, Problem,
        Semantics, ShardTimes, Vocabulary,
    };
    use proptest::prelude::*;
    use sim::Replay;

    use super::*;

    /// Families that a set-up may name: they flush, and leave microbatches whole.
    fn families() -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|family| {
            let about = family.about();
            about.semantics == Semantics::Synchronous
                && !matches!(about.choice, Choice::Segments { .. })
        })
    }

    fn times() -> impl Strategy<Value = PassTimes> {
        (1..50u64, 1..50u64, 0..50u64)
            .prop_map(|(f, b, w)| PassTimes::new(Nanos(f), Nanos(b), Nanos(w)))
    }

    /// The sizes of a pipeline, times of its passes, and of its shards, collectives and copies.
    fn problem(
        family: Family,
        [p, v, m]: [u64; 3],
        times: &[PassTimes],
        others: [u64; 5],
    ) -> Option<Problem> {
        let chunks = match family.about().chunks {
            Chunks::Exactly(chunks) => u64::from(chunks),
            Chunks::Any { .. } => v,
        };
        let shape = Shape::new(p, chunks, m).ok()?.with_vocabulary(family.vocabulary()).ok()?;
        let own = times.iter().copied().cycle().take(usize::from(shape.chunks())).collect();
        let [before, after, collective, out, back] = others.map(Nanos);
        let mut costs = Costs::new(own, Nanos(0));
        let footprint = Footprint { until_backward: Bytes(3), until_weight: Bytes(2) };
        let mut footprints = Footprints::uniform(shape, footprint);
        if family.vocabulary() != Vocabulary::Whole {
            let shards = vec![ShardTimes { before, after }; shape.stages()];
            let collectives = Collectives {
                broadcast: collective,
                statistics: collective,
                hidden_gradient: collective,
            };
            costs = costs.with_shards(shards, collectives);
            footprints = footprints.with_shards(vec![Bytes(1); shape.stages()]);
        }
        if family.about().choice == Choice::Offload {
            costs = costs.with_copies(vec![CopyTimes { out, back }; usize::from(shape.chunks())]);
        }
        Problem::new(shape, costs).ok()?.with_footprints(footprints).ok()
    }

    fn bound<'a>(family: Family, problem: &'a Problem, shards: &'a [Nanos]) -> Bound<'a> {
        let chunks = problem.costs().chunks();
        Bound { shape: problem.shape(), family, chunks, shards }
    }

    fn shards(problem: &Problem) -> Vec<Nanos> {
        problem.costs().shards().iter().map(|one| one.before + one.after).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(100)
        })]

        #[test]
        fn no_order_is_below_its_bound(
            p in 1u64..7,
            v in 1u64..4,
            rounds in 1u64..5,
            odd in any::<bool>(),
            times in prop::collection::vec(times(), 18),
            others in prop::array::uniform5(0..40u64),
        ) {
            for family in families() {
                let m = 2 * p * rounds + u64::from(odd);
                let Some(problem) = problem(family, [p, v, m], &times, others) else { continue };
                let Ok(schedule) = family.schedule(&problem) else { continue };
                let metrics = Replay::new().metrics(&schedule, problem.costs()).unwrap();
                let shards = shards(&problem);
                let bound = bound(family, &problem, &shards);
                prop_assert!(metrics.makespan() >= bound.makespan(), "{}", family.name());
                prop_assert!(metrics.span() >= bound.work(), "{}", family.name());
                prop_assert!(bound.makespan() >= bound.work(), "{}", family.name());
                let mut passes = schedule.orders().iter().flat_map(|order| order.passes());
                let is_whole = passes.all(|pass| !matches!(pass.kind, Kind::B | Kind::W));
                prop_assert!(is_whole || !family.has_whole_backwards(), "{}", family.name());
            }
        }

        /// Orders are shared between set-ups of one shape with different times.
        #[test]
        fn orders_that_are_shared_do_not_depend_on_times(
            [p, v, rounds] in [1u64..7, 1u64..4, 1u64..4],
            times in prop::array::uniform2(prop::collection::vec(times(), 18)),
            others in prop::array::uniform2(prop::array::uniform5(0..40u64)),
        ) {
            for family in families().filter(|family| !family.depends_on_times()) {
                let order = |which: usize| {
                    let sizes = [p, v, 2 * p * rounds];
                    let problem = problem(family, sizes, &times[which], others[which])?;
                    family.schedule(&problem).ok()
                };
                let [one, other] = [order(0), order(1)];
                prop_assert_eq!(one.is_some(), other.is_some(), "{}", family.name());
                let (Some(one), Some(other)) = (one, other) else { continue };
                prop_assert_eq!(one.orders(), other.orders(), "{}", family.name());
            }
        }

        /// None of the laws above holds for want of orders.
        #[test]
        fn all_families_have_orders(times in times(), others in prop::array::uniform5(0..40u64)) {
            for family in families() {
                let problem = problem(family, [4, 2, 16], &[times], others).unwrap();
                prop_assert!(family.schedule(&problem).is_ok(), "{}", family.name());
            }
        }

        #[test]
        fn one_f_one_b_reaches_it(p in 1u64..9, m in 1u64..30, times in times()) {
            let problem = problem(Family::OneFOneB, [p, 1, m], &[times], [0; 5]).unwrap();
            let schedule = Family::OneFOneB.schedule(&problem).unwrap();
            let metrics = Replay::new().metrics(&schedule, problem.costs()).unwrap();
            prop_assert_eq!(metrics.makespan(), bound(Family::OneFOneB, &problem, &[]).makespan());
        }
    }
}
