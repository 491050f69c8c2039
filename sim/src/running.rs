//! The step time of a pipeline whose stages run on from step to step without waiting for each other.

use pipeline::{Costs, Fault, Nanos, Schedule};

use crate::replay::Replay;

/// The most passes that are timed for a step time.
const MOST_PASSES: usize = 1 << 30;

/// The time per step, in the long run, of a pipeline that runs `schedule` step after step: each stage begins its next
/// step as soon as it has ended its last pass and its first input is there. Rounded down to a nanosecond.
/// `None` where passes have streams beside them, as copies to the host do, and where more than 2^30 passes would be
/// timed before the steps settle.
///
/// It is at most the longest span of a stage ([`pipeline::Metrics::span`]), and less where a stage that begins early
/// only waits. Let `x_j(k)` be the end of step k on stage j; the step time is the largest mean weight of a
/// cycle in the graph of the stages whose edge from i to j is the longest chain from the first pass of i to
/// the last one of j, and with p stages that is max over j of min over k < p of `(x_j(p) - x_j(k)) / (p - k)`:
/// R. Karp, A characterization of the minimum cycle mean in a digraph, 1978, theorem 1.
///
/// Where the ends of all stages move by the same time from one step to the next, that is the step time, and no more
/// steps are looked at.
///
/// # Errors
/// If `costs` are those of another pipeline, or so large that the clock overflows.
pub fn running_step(schedule: &Schedule, costs: &Costs) -> Result<Option<Nanos>, Fault> {
    let stages = schedule.shape().stages();
    let mut replay = Replay::new();
    // From step to step the clock is set back, so that many steps do not overflow it.
    let mut set_back = 0_u128;
    let mut begins = vec![0_u64; stages];
    let mut ends: Vec<Vec<u128>> = vec![vec![0; stages]];
    let most = MOST_PASSES / schedule.passes().max(1);
    for step in 0..stages {
        if step >= most.max(2) {
            return Ok(None);
        }
        let Some(last) = replay.ends(schedule, costs, &begins)? else { return Ok(None) };
        let next: Vec<u128> = last.iter().map(|&end| set_back + u128::from(end)).collect();
        let before = ends.last().map_or(&[][..], |last| &last[..]);
        let mut moved = next.iter().zip(before).map(|(end, before)| end - before);
        let by = moved.next().unwrap_or_default();
        if moved.all(|other| other == by) {
            return Ok(Some(Nanos(u64::try_from(by).unwrap_or(u64::MAX))));
        }
        ends.push(next);
        let first = last.iter().min().copied().unwrap_or_default();
        set_back += u128::from(first);
        begins = last.iter().map(|end| end - first).collect();
    }
    let mean = |stage: usize, step: usize| {
        (ends[stages][stage] - ends[step][stage]) / (stages - step) as u128
    };
    let least = |stage| (0..stages).map(|step| mean(stage, step)).min();
    let step = (0..stages).filter_map(least).max().unwrap_or_default();
    Ok(Some(Nanos(u64::try_from(step).unwrap_or(u64::MAX))))
}

#[cfg(test)]
mod tests {
    use pipeline::{
        Costs, Family, Kind, Nanos, Order, Pass, PassTimes, Placement, Problem, Schedule, Shape,
    };

    use super::running_step;
    use crate::Replay;

    #[test]
    fn stages_that_never_wait_for_the_next_step_take_their_span() {
        let shape = Shape::new(3, 1, 6).unwrap();
        let times = PassTimes::new(Nanos(4), Nanos(5), Nanos(6));
        let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(1))).unwrap();
        let schedule = Family::ZbH1.schedule(&problem).unwrap();
        let span = Replay::new().metrics(&schedule, problem.costs()).unwrap().span();
        assert_eq!(running_step(&schedule, problem.costs()), Ok(Some(span)));
    }

    /// Stage 1 begins when the first microbatch of the slow stage 0 arrives, and waits 18 for the second one. It has 64
    /// of work, and no cycle over both stages is longer.
    #[test]
    fn a_stage_that_can_begin_later_takes_less_than_its_span() {
        let shape = Shape::new(2, 1, 2).unwrap();
        let pass = |(kind, microbatch)| Pass { kind, chunk: 0, microbatch };
        let on = |chunk, passes: [(Kind, u32); 6]| -> Order {
            passes.map(pass).into_iter().map(|pass| Pass { chunk, ..pass }).collect()
        };
        let [f, b, w] = [Kind::F, Kind::B, Kind::W];
        let orders = vec![
            on(0, [(f, 0), (f, 1), (b, 0), (b, 1), (w, 0), (w, 1)]),
            on(1, [(f, 0), (b, 0), (f, 1), (b, 1), (w, 0), (w, 1)]),
        ];
        let schedule = Schedule::new(shape, Placement::Looped, orders).unwrap();
        let times = [[20, 1, 1], [1, 1, 30]];
        let times = times.map(|[f, b, w]| PassTimes::new(Nanos(f), Nanos(b), Nanos(w)));
        let costs = Costs::new(times.to_vec(), Nanos(0));
        assert_eq!(Replay::new().metrics(&schedule, &costs).unwrap().span(), Nanos(82));
        assert_eq!(running_step(&schedule, &costs), Ok(Some(Nanos(64))));
    }
}
