//! A lower bound where microbatches differ in their work.

use pipeline::{Costs, Nanos, Pass, PassTimes, Placement, Shape};

use crate::Objective;

/// No order of passes has a lower cost under `costs`, whose microbatches may differ, without a memory limit or with
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
pub fn unequal(at: (Shape, Placement), costs: &Costs, objective: Objective) -> Nanos {
    let (shape, placement) = at;
    let microbatches = 0..shape.microbatches();
    let hops = |chunks: u16| -> u128 {
        (0..chunks).map(|chunk| u128::from(costs.hop_after(at, chunk).0)).sum()
    };
    let sum = |chunks: u16, microbatch: u32, of: fn(PassTimes) -> Nanos| -> u128 {
        (0..chunks).map(|chunk| u128::from(of(costs.times(chunk, microbatch)).0)).sum()
    };
    let down = |chunks, microbatch| sum(chunks, microbatch, |times| times.forward) + hops(chunks);
    let up = |chunks: u16, microbatch: u32| {
        let first = u128::from(costs.times(0, microbatch).least_backward().0);
        let inner: u128 =
            (1..chunks).map(|chunk| u128::from(back(costs.times(chunk, microbatch)).0)).sum();
        if chunks == 0 { 0 } else { first + inner + hops(chunks) }
    };
    let least = |of: &dyn Fn(u32) -> u128| microbatches.clone().map(of).min().unwrap_or(0);
    let of_stage = |stage: usize| {
        let own: Vec<u16> = placement.chunks_of(shape, stage).collect();
        let all = |of: &dyn Fn(u16, u32) -> u128| -> u128 {
            own.iter().flat_map(|&chunk| microbatches.clone().map(move |at| of(chunk, at))).sum()
        };
        let again = |chunk, microbatch| match costs.recompute(chunk) {
            Some(_) => u128::from(costs.of(Pass::r(chunk, microbatch)).0),
            None => 0,
        };
        let work = all(&|chunk, microbatch| {
            let times = costs.times(chunk, microbatch);
            let passes = u128::from(times.forward.0) + u128::from(times.least_backward().0);
            passes + again(chunk, microbatch)
        });
        let trips = all(&|chunk, microbatch| {
            let times = costs.times(chunk, microbatch);
            u128::from(times.forward.0) + u128::from(back(times).0)
        });
        let first = own.iter().copied().min().unwrap_or(0);
        let head = least(&|microbatch| down(first, microbatch));
        let tail = least(&|microbatch| up(first, microbatch));
        let path = if first == 0 { 0 } else { head + trips + tail };
        let held = if objective == Objective::Makespan { head + work } else { work };
        held.max(path)
    };
    let last = shape.chunks() - 1;
    let trip = |microbatch| {
        let turn = costs.times(last, microbatch);
        let bottom = match last {
            0 => turn.forward + turn.least_backward(),
            _ => turn.forward + back(turn),
        };
        down(last, microbatch) + u128::from(bottom.0) + up(last, microbatch)
    };
    let bounds = (0..shape.stages()).map(of_stage).chain(microbatches.clone().map(trip));
    Nanos(u64::try_from(bounds.max().unwrap_or(0)).unwrap_or(u64::MAX))
}

/// The least time from a gradient to the next one.
fn back(times: PassTimes) -> Nanos {
    times.backward_input.min(times.whole_backward())
}

#[cfg(test)]
mod tests {
    use pipeline::{Family, MicrobatchWork, Problem, Work};
    use proptest::prelude::*;
    use sim::Replay;

    use super::*;

    #[test]
    fn one_stage_takes_its_work() {
        let shape = Shape::new(1, 1, 2).unwrap();
        let work = [1.0, 3.0].map(|factor| Work::alike(factor).unwrap()).to_vec();
        let times = PassTimes::new(Nanos(10), Nanos(10), Nanos(10));
        let costs = Costs::uniform(shape, times, Nanos(0));
        let costs = costs.with_microbatch_work(MicrobatchWork::new(work));
        for objective in [Objective::Span, Objective::Makespan] {
            assert_eq!(unequal((shape, Placement::Looped), &costs, objective), Nanos(120));
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
                    let bound = unequal((shape, schedule.placement()), &costs, objective);
                    prop_assert!(bound <= objective.of(&metrics), "{family:?} {bound} {metrics:?}");
                }
            }
        }
    }
}
