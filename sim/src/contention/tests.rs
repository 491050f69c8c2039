use std::sync::LazyLock;

use pipeline::{
    Choice, Collectives, CopyTimes, Family, Hops, Metrics, PassTimes, Problem, Shape, ShardTimes,
};
use proptest::prelude::*;

use super::*;
use crate::Replay;

fn neighbours(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

fn times(forward: u64, backward_input: u64, backward_weight: u64) -> PassTimes {
    let [forward, backward_input, backward_weight] =
        [forward, backward_input, backward_weight].map(Nanos);
    PassTimes::new(forward, backward_input, backward_weight)
}

/// The starts and ends of each stage.
fn spans(timeline: &Timeline) -> Vec<Vec<(u64, u64)>> {
    let of = |spans: &Vec<Span>| spans.iter().map(|one| (one.start.0, one.end.0)).collect();
    timeline.stages.iter().map(of).collect()
}

/// Stages of one chunk each, with forwards of the given durations alone and beside others, and other passes of zero time.
fn forwards(alone: &[u64], beside: &[u64], hop: u64) -> [Costs; 2] {
    let chunk = |&forward: &u64| times(forward, 0, 0);
    [alone, beside].map(|all| Costs::new(all.iter().map(chunk).collect(), Nanos(hop)))
}

#[test]
fn the_work_that_is_left_goes_on_at_the_new_speed() {
    // F0.0 alone 0-100. F0.1 and F1.0 then run side by side, each twice as long as alone: F1.0 ends at
    // 100 + 2 * 40 = 180, when 80 of the 200 ns of F0.1 are over, and with them 40 % of it; the other 60 %
    // take 60 ns alone. F1.1 begins at 240.
    let schedule: Schedule = "F0.0 F0.1 BW0.0 BW0.1\nF1.0 F1.1 BW1.0 BW1.1\n".parse().unwrap();
    let [alone, beside] = forwards(&[100, 40], &[200, 80], 0);
    let contention = Contention { alone: &alone, beside: &beside, neighbours: neighbours(1) };
    let timeline = contention.timeline(&schedule).unwrap();
    let found = spans(&timeline);
    assert_eq!(found[0][..2], [(0, 100), (100, 240)]);
    assert_eq!(found[1][..2], [(100, 180), (240, 280)]);
}

#[test]
fn fewer_neighbours_than_measured_slow_by_their_part_and_more_by_no_more() {
    let schedule: Schedule = "F0.0 F0.1 BW0.0 BW0.1\nF1.0 F1.1 BW1.0 BW1.1\n".parse().unwrap();
    let [alone, beside] = forwards(&[100, 100], &[400, 400], 0);
    let ends = |count| {
        let contention =
            Contention { alone: &alone, beside: &beside, neighbours: neighbours(count) };
        spans(&contention.timeline(&schedule).unwrap())[0][1]
    };
    // One neighbour of 3, of 2 and of 1: 100 + 300 / 3 and so on.
    assert_eq!([3, 2, 1].map(ends), [(100, 300), (100, 350), (100, 500)]);
    // Of three stages side by side the third has two neighbours, and was measured beside one.
    let three: Schedule = "F0.0 F0.1 F0.2 BW0.0 BW0.1 BW0.2\nF1.0 F1.1 F1.2 BW1.0 BW1.1 BW1.2\n\
         F2.0 F2.1 F2.2 BW2.0 BW2.1 BW2.2\n"
        .parse()
        .unwrap();
    let [alone, beside] = forwards(&[100; 3], &[130; 3], 0);
    let contention = Contention { alone: &alone, beside: &beside, neighbours: neighbours(1) };
    let found = spans(&contention.timeline(&three).unwrap());
    let all = [(230, 360); 3];
    assert_eq!([found[0][2], found[1][1], found[2][0]], all);
}

#[test]
fn a_hop_occupies_nobody_and_is_that_of_alone() {
    let schedule: Schedule = "F0.0 F0.1 BW0.0 BW0.1\nF1.0 F1.1 BW1.0 BW1.1\n".parse().unwrap();
    let [alone, beside] = forwards(&[100, 40], &[200, 80], 30);
    let beside = beside.with_hop(Nanos(7));
    let contention = Contention { alone: &alone, beside: &beside, neighbours: neighbours(1) };
    let found = spans(&contention.timeline(&schedule).unwrap());
    // F1.0 begins one hop after F0.0, when 30 % of F0.1 are done; it ends at 210, with 40 % more of it done.
    assert_eq!((found[1][0], found[0][1]), ((130, 210), (100, 240)));
}

#[test]
fn neighbours_may_make_a_pass_shorter_too() {
    let schedule: Schedule = "F0.0 F0.1 BW0.0 BW0.1\nF1.0 F1.1 BW1.0 BW1.1\n".parse().unwrap();
    let [alone, beside] = forwards(&[100, 100], &[60, 60], 0);
    let contention = Contention { alone: &alone, beside: &beside, neighbours: neighbours(1) };
    let found = spans(&contention.timeline(&schedule).unwrap());
    assert_eq!((found[0][1], found[1][0]), ((100, 160), (100, 160)));
}

#[test]
fn what_runs_beside_passes_is_refused() {
    let shape = Shape::new(2, 1, 4).unwrap();
    let costs = Costs::uniform(shape, times(3, 3, 3), Nanos(1));
    let copying = costs.clone().with_copies(vec![CopyTimes::default(); 2]);
    let sharded = costs.clone().with_shards(vec![ShardTimes::default(); 2], Collectives::default());
    let refused = |family: Family, costs: &Costs, shape| {
        let problem = Problem::new(shape, costs.clone()).unwrap();
        let schedule = family.schedule(&problem).unwrap();
        let contention = Contention { alone: costs, beside: costs, neighbours: neighbours(1) };
        contention.timeline(&schedule).unwrap_err()
    };
    assert_eq!(refused(Family::Vocab1, &sharded, shape), ContentionError::Shards);
    let interleaved = Shape::new(2, 2, 4).unwrap();
    let copying = Costs::uniform(interleaved, times(3, 3, 3), Nanos(1))
        .with_copies([copying.copies(), copying.copies()].concat());
    assert_eq!(refused(Family::PoF, &copying, interleaved), ContentionError::Copies);
    let schedule = Family::OneFOneB.schedule(&Problem::new(shape, costs.clone()).unwrap()).unwrap();
    let three = Costs::uniform(Shape::new(3, 1, 4).unwrap(), times(3, 3, 3), Nanos(1));
    for (alone, beside) in [(&costs, &three), (&three, &costs)] {
        let contention = Contention { alone, beside, neighbours: neighbours(1) };
        let error = contention.timeline(&schedule).unwrap_err();
        assert!(matches!(error, ContentionError::Costs(Fault::ChunkCount { .. })), "{error}");
    }
}

/// Schedules of all families with nothing beside their passes, over shapes that each can do.
static SCHEDULES: LazyLock<Vec<(Schedule, Costs)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for family in Family::ALL {
        let mut any = false;
        for (stages, rounds) in [(1, 2), (2, 2), (4, 2), (4, 6)] {
            let chunks = family.about().chunks.of(Some(2));
            let shape = Shape::new(stages, chunks, rounds * stages).unwrap();
            let chunk = |at: u64| times(100 + 7 * at, 130 + 3 * at, 60 + at % 3);
            let costs = Costs::new((0..u64::from(shape.chunks())).map(chunk).collect(), Nanos(9));
            let shards = vec![ShardTimes::default(); shape.stages()];
            let problem = Problem::new(shape, costs.with_shards(shards, Collectives::default()));
            let problem = problem.unwrap();
            let Ok(schedule) = family.schedule(&problem) else { continue };
            any = true;
            if !schedule.has_streams() && !schedule.shape().has_shards() {
                all.push((schedule, problem.costs().clone()));
            }
        }
        assert!(any || family.about().choice == Choice::Offload, "{}", family.name());
    }
    all
});

#[test]
fn without_contention_it_is_the_replay_of_every_family() {
    assert!(SCHEDULES.len() > 60, "{}", SCHEDULES.len());
    for (schedule, costs) in SCHEDULES.iter() {
        let contention = Contention { alone: costs, beside: costs, neighbours: neighbours(3) };
        let replayed = Replay::new().timeline(schedule, costs).unwrap();
        assert_eq!(contention.timeline(schedule).unwrap(), replayed);
    }
}

/// Number of stages that are busy in an instant behind `moment`.
fn busy(timeline: &Timeline, moment: u64) -> u32 {
    let at_work = |span: &Span| span.start.0 <= moment && moment < span.end.0;
    let count = timeline.stages.iter().filter(|stage| stage.iter().any(at_work)).count();
    u32::try_from(count).unwrap()
}

/// Adds up the shares of work that each slot does between any two events, by their definition.
fn check_work(timeline: &Timeline, contention: &Contention<'_>) {
    let spans = || timeline.stages.iter().flatten();
    let mut moments: Vec<u64> = spans().flat_map(|one| [one.start.0, one.end.0]).collect();
    moments.sort_unstable();
    moments.dedup();
    let most = f64::from(contention.neighbours.get());
    for span in spans() {
        let [alone, beside] = [contention.alone, contention.beside]
            .map(|costs| f64::from(u32::try_from(costs.of_slot(span.slot).0).unwrap()));
        let within =
            moments.windows(2).filter(|two| span.start.0 <= two[0] && two[1] <= span.end.0);
        let (mut done, mut slack) = (0.0, 0.0);
        for two in within {
            let others = f64::from(busy(timeline, two[0]) - 1).min(most);
            let duration = alone + (beside - alone) * others / most;
            let part = f64::from(u32::try_from(two[1] - two[0]).unwrap());
            done += part / duration;
            // Half a nanosecond of the duration.
            slack += 0.5 * part / (duration * (duration - 0.5));
        }
        // Half a nanosecond of the end.
        slack += 0.51 / alone.min(beside);
        let none = span.start == span.end;
        assert!(none || (done - 1.0).abs() <= slack, "{span:?}: {done} of the work, {slack}");
    }
}

/// Costs as `base` has them, each more by some of the percents of `more`.
fn slower(base: &Costs, more: [u64; 3]) -> Costs {
    let by = |time: Nanos, at: usize| Nanos(time.0 + time.0 * (more[at % 3] + at as u64) / 100);
    let chunk = |(at, one): (usize, &PassTimes)| {
        PassTimes::new(
            by(one.forward, at),
            by(one.backward_input, at + 1),
            by(one.backward_weight, at + 2),
        )
    };
    base.clone().with_chunks(base.chunks().iter().enumerate().map(chunk).collect())
}

#[test]
fn each_slot_does_all_its_work() {
    for (schedule, costs) in SCHEDULES.iter() {
        for count in [1, 3] {
            let beside = slower(costs, [30, 200, 5]);
            for (alone, beside) in [(costs, &beside), (&beside, costs)] {
                let contention = Contention { alone, beside, neighbours: neighbours(count) };
                check_work(&contention.timeline(schedule).unwrap(), &contention);
            }
        }
    }
}

#[test]
fn times_as_large_as_a_clock_shows_are_no_obstacle() {
    let shape = Shape::new(2, 1, 2).unwrap();
    let large = u64::MAX / 4 / 13;
    let alone = Costs::uniform(shape, times(large / 2, large / 2, large / 2), Nanos(0));
    let beside = Costs::uniform(shape, times(large, large, large), Nanos(0));
    let schedule = Family::ZbH1.schedule(&Problem::new(shape, alone.clone()).unwrap()).unwrap();
    let contention =
        Contention { alone: &alone, beside: &beside, neighbours: neighbours(u32::MAX) };
    let timeline = contention.timeline(&schedule).unwrap();
    let makespan = Metrics::of(&timeline).makespan();
    let least = Replay::new().metrics(&schedule, &alone).unwrap().makespan();
    assert!(least < makespan && makespan < least + Nanos(least.0 / 100));
}

#[test]
fn interpolation_rounds_to_the_nearest_and_keeps_its_ends() {
    let between = |part, whole| interpolated(Nanos(10), Nanos(20), part, whole).0;
    assert_eq!([between(0, 7), between(7, 7), between(9, 7), between(3, 0)], [10, 20, 20, 10]);
    assert_eq!([between(1, 3), between(2, 3), between(1, 20)], [13, 17, 11]);
    assert_eq!(interpolated(Nanos(20), Nanos(10), 1, 4), Nanos(18));
}

/// Pairs are one slot with the duration that both have together.
#[test]
fn pairs_take_the_time_of_their_slot() {
    const TEXT: &str = "F0.0 F0.1 BW0.0 BW0.1\nF1.0 F1.1&BW1.0 BW1.1\n";
    let schedule: Schedule = TEXT.parse().unwrap();
    let alone = Costs::uniform(schedule.shape(), times(10, 10, 10), Nanos(0));
    let beside = Costs::uniform(schedule.shape(), times(20, 20, 20), Nanos(0));
    let contention = Contention { alone: &alone, beside: &beside, neighbours: neighbours(1) };
    let found = spans(&contention.timeline(&schedule).unwrap());
    // F0.1 and F1.0 side by side until 30; then the pair alone, F and B and W.
    assert_eq!((found[1][0], found[1][1]), ((10, 30), (30, 60)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// A slot starts when its stage is free and its values are there, the maximum of sums of durations and
    /// hops; every duration lies between alone and beside, so every start and end does, too.
    #[test]
    fn a_fixed_order_lies_between_alone_and_beside(
        which in any::<prop::sample::Index>(),
        count in 1..6u32,
        more in [0..150u64, 0..150u64, 0..20u64],
        hop in 0..90u64,
    ) {
        let (schedule, costs) = which.get(&SCHEDULES[..]);
        let shape = schedule.shape();
        let alone = costs.clone().with_hops(Hops::alike(Nanos(hop)));
        let beside = slower(&alone, more);
        let contention =
            Contention { alone: &alone, beside: &beside, neighbours: neighbours(count) };
        let timeline = contention.timeline(schedule).unwrap();
        check_work(&timeline, &contention);
        let [least, most] = [&alone, &beside]
            .map(|costs| Replay::new().timeline(schedule, costs).unwrap());
        for stage in 0..shape.stages() {
            let of = |timeline: &Timeline| timeline.stages[stage].clone();
            for ((one, least), most) in of(&timeline).iter().zip(of(&least)).zip(of(&most)) {
                prop_assert!(one.slot == least.slot && one.slot == most.slot);
                prop_assert!(least.start <= one.start && one.start <= most.start);
                prop_assert!(least.end <= one.end && one.end <= most.end);
            }
        }
        let [least, one, most] = [&least, &timeline, &most].map(|one| Metrics::of(one).makespan());
        prop_assert!(least <= one && one <= most);
    }
}
