//! A lower bound where microbatches differ in their work.

use pipeline::{Costs, Nanos, Pass, Placement, Shape};

use super::argument::{Argument, Bound, highest};
use crate::instance::{Instance, Objective};

/// No order of passes of `instance`, whose microbatches may differ, has a lower cost, without a memory limit or with
/// any. It is the highest of four.
///
/// 1. *Work.* A stage is busy for the work of all microbatches, with the cheaper of B and W or BW for each.
/// 2. *Down and work.* The first pass of a stage is an F of its first chunk, of some microbatch, which has come down
///    all chunks before it: the least of that over the microbatches lies before the work, in the makespan.
/// 3. *Down, work and up.* Of the F, B and BW of a stage the last is a B or BW, of some microbatch; its gradient then
///    goes up all chunks before the first one of the stage, whose B are still to be run, and the microbatch has its W
///    on chunk 0. That ends on the stage of chunk 0, which begins at 0, since all other passes of it need its first F.
/// 4. *Trip.* Each microbatch goes down all chunks and up again.
///
/// Wherever an order may run B and W or BW, the shorter counts.
#[must_use]
pub(super) fn bound(instance: &Instance) -> Bound {
    let Instance { shape, placement, costs, objective, .. } = instance;
    let line = Unequal { at: (*shape, *placement), costs };
    let first = placement.stage(*shape, 0, 0);
    let of_stage = |stage: usize| {
        let Times { work, trips, down, up, is_first } = line.of_stage(stage);
        let held = match objective {
            Objective::Span => (work, Argument::Work { stage }),
            Objective::Makespan if is_first => (work, Argument::Work { stage }),
            Objective::Makespan => (down + work, Argument::Path { from: first, via: stage }),
        };
        let path =
            (!is_first).then_some((down + trips + up, Argument::Path { from: first, via: stage }));
        std::iter::once(held).chain(path)
    };
    let trips =
        (0..shape.microbatches()).map(|at| (line.trip(at), Argument::Trip { stage: first }));
    let all = (0..shape.stages()).flat_map(of_stage).chain(trips);
    let all = all.map(|(cost, argument)| (u64::try_from(cost).unwrap_or(u64::MAX), argument));
    let nothing = Bound { argument: Argument::Work { stage: first }, cost: Nanos(0) };
    highest(all).unwrap_or(nothing)
}

/// Instances without differences between microbatches that no bound of costs more than `instance`: the heaviest of its
/// microbatches alone, each with the least work among them. For any order of `instance`, the starts of these passes
/// keep to the order, the hops and the limits with fewer and shorter passes, and no span is longer.
pub(super) fn alike(instance: &Instance) -> Vec<Instance> {
    /// Numbers of microbatches that are tried, in parts of all.
    const PARTS: u64 = 8;
    let Instance { shape, costs, .. } = instance;
    if shape.has_shards() || costs.overlap().is_some() {
        return Vec::new();
    }
    let all = u64::from(shape.microbatches());
    let mut counts: Vec<u64> = (1..=PARTS).map(|part| (all * part).div_ceil(PARTS)).collect();
    counts.dedup();
    let of = |count: u64| {
        let [stages, chunks] = [shape.stages() as u64, u64::from(shape.chunks_per_stage())];
        let shape = Shape::new(stages, chunks, count).ok()?;
        let count = usize::try_from(count).ok()?;
        let costs = costs.clone().of_heaviest_microbatches(count);
        Some(Instance { shape, costs, ..instance.clone() })
    };
    counts.into_iter().filter_map(of).collect()
}

/// Times of a stage, in nanoseconds.
struct Times {
    /// All its work.
    work: u128,
    /// That of F and, of a backward, what a gradient waits for.
    trips: u128,
    /// The least from the first F of a microbatch to its arrival at the stage.
    down: u128,
    /// The least from a gradient of the stage to the end of its microbatch on chunk 0.
    up: u128,
    /// Whether it has chunk 0.
    is_first: bool,
}

/// The way of microbatches that may differ.
struct Unequal<'a> {
    at: (Shape, Placement),
    costs: &'a Costs,
}

impl Unequal<'_> {
    fn of_stage(&self, stage: usize) -> Times {
        let (shape, placement) = self.at;
        let own: Vec<u16> = placement.chunks_of(shape, stage).collect();
        let microbatches = || 0..shape.microbatches();
        let all = |of: &dyn Fn(u16, u32) -> u128| -> u128 {
            own.iter().flat_map(|&chunk| microbatches().map(move |at| of(chunk, at))).sum()
        };
        let again = |chunk, microbatch| match self.costs.recompute(chunk) {
            Some(_) => u128::from(self.costs.of(Pass::r(chunk, microbatch)).0),
            None => 0,
        };
        let least = |of: &dyn Fn(u32) -> u128| microbatches().map(of).min().unwrap_or(0);
        let first = own.iter().copied().min().unwrap_or(0);
        Times {
            work: all(&|chunk, microbatch| {
                let times = self.costs.times(chunk, microbatch);
                let passes = u128::from(times.forward.0) + u128::from(times.least_backward().0);
                passes + again(chunk, microbatch)
            }),
            trips: all(&|chunk, microbatch| {
                let times = self.costs.times(chunk, microbatch);
                u128::from(times.forward.0) + u128::from(times.least_gradient().0)
            }),
            down: least(&|microbatch| self.down(first, microbatch)),
            up: least(&|microbatch| self.up(first, microbatch)),
            is_first: first == 0,
        }
    }

    fn hops(&self, chunks: u16) -> u128 {
        (0..chunks).map(|chunk| u128::from(self.costs.hop_after(self.at, chunk).0)).sum()
    }

    /// From the first F of `microbatch` to its arrival at chunk number `chunks`.
    fn down(&self, chunks: u16, microbatch: u32) -> u128 {
        let forward = |chunk| u128::from(self.costs.times(chunk, microbatch).forward.0);
        (0..chunks).map(forward).sum::<u128>() + self.hops(chunks)
    }

    /// From the gradient that chunk number `chunks` hands up to the end of `microbatch` on chunk 0.
    fn up(&self, chunks: u16, microbatch: u32) -> u128 {
        if chunks == 0 {
            return 0;
        }
        let times = |chunk| self.costs.times(chunk, microbatch);
        let inner: u128 =
            (1..chunks).map(|chunk| u128::from(times(chunk).least_gradient().0)).sum();
        u128::from(times(0).least_backward().0) + inner + self.hops(chunks)
    }

    /// The whole way of `microbatch`.
    fn trip(&self, microbatch: u32) -> u128 {
        let last = self.at.0.chunks() - 1;
        let turn = self.costs.times(last, microbatch);
        let backward = if last == 0 { turn.least_backward() } else { turn.least_gradient() };
        let bottom = u128::from(turn.forward.0) + u128::from(backward.0);
        self.down(last, microbatch) + bottom + self.up(last, microbatch)
    }
}

#[cfg(test)]
mod tests {
    use pipeline::{Family, Footprint, Footprints, MicrobatchWork, PassTimes, Problem, Work};
    use proptest::prelude::*;
    use sim::Replay;

    use super::*;

    fn instance(
        shape: Shape,
        placement: Placement,
        costs: &Costs,
        objective: Objective,
    ) -> Instance {
        let footprints = Footprints::uniform(shape, Footprint::default());
        Instance::new(shape, placement, costs.clone(), footprints, None, objective).unwrap()
    }

    #[test]
    fn one_stage_takes_its_work() {
        let shape = Shape::new(1, 1, 2).unwrap();
        let work = [1.0, 3.0].map(|factor| Work::alike(factor).unwrap()).to_vec();
        let times = PassTimes::new(Nanos(10), Nanos(10), Nanos(10));
        let costs = Costs::uniform(shape, times, Nanos(0));
        let costs = costs.with_microbatch_work(MicrobatchWork::new(work));
        for objective in [Objective::Span, Objective::Makespan] {
            let found = bound(&instance(shape, Placement::Looped, &costs, objective));
            assert_eq!(found, Bound { argument: Argument::Work { stage: 0 }, cost: Nanos(120) });
        }
    }

    /// Where all have the same work, the bounds are those of microbatches that are alike.
    #[test]
    fn equal_work_has_the_bound_of_alike_microbatches() {
        for (stages, microbatches, factor) in [(4, 8, 1.0), (2, 3, 1.0), (3, 9, 0.5)] {
            let shape = Shape::new(stages, 1, microbatches).unwrap();
            let work = vec![Work::alike(factor).unwrap(); shape.microbatches() as usize];
            let alike =
                Costs::uniform(shape, PassTimes::new(Nanos(20), Nanos(22), Nanos(18)), Nanos(2));
            let unequal = alike.clone().with_microbatch_work(MicrobatchWork::new(work));
            let alike = unequal.clone().of_mean_microbatch();
            for objective in [Objective::Span, Objective::Makespan] {
                let [one, other] = [&alike, &unequal].map(|costs| {
                    crate::bounds::best(&instance(shape, Placement::Looped, costs, objective)).cost
                });
                assert_eq!(one, other, "{stages} {microbatches} {objective:?}");
            }
        }
    }

    proptest! {
        /// No published schedule undercuts it, whatever the work.
        #[test]
        fn no_schedule_undercuts_it(
            stages in 1usize..5,
            factors in prop::collection::vec(0.0f64..4.0, 1..9),
            times in prop::array::uniform3(1u64..40),
            hop in 0u64..10,
        ) {
            let microbatches = factors.len() as u64;
            let work: Option<Vec<Work>> = factors.iter().map(|&one| Work::alike(one)).collect();
            let work = MicrobatchWork::new(work.unwrap());
            let [forward, input, weight] = times.map(Nanos);
            for family in Family::ALL {
                let about = family.about();
                let shape = Shape::new(stages as u64, about.chunks.of(None), microbatches).unwrap();
                if !matches!(about.placement, Placement::Looped | Placement::Vee) {
                    continue;
                }
                let costs = Costs::uniform(shape, PassTimes::new(forward, input, weight), Nanos(hop));
                let Ok(problem) = Problem::new(shape, costs.clone()) else { continue };
                let Ok(schedule) = family.schedule(&problem) else { continue };
                if schedule.shape() != shape || schedule.has_streams() {
                    continue;
                }
                let costs = costs.with_microbatch_work(work.clone());
                let metrics = Replay::new().metrics(&schedule, &costs).unwrap();
                for objective in [Objective::Span, Objective::Makespan] {
                    let instance = instance(shape, schedule.placement(), &costs, objective);
                    let bound = crate::bounds::best(&instance);
                    prop_assert!(bound.cost <= objective.of(&metrics), "{family:?} {bound:?}");
                }
            }
        }
    }
}
