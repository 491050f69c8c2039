//! Stages that slow each other, over any order: without contention it is the replay, and with it no pass
//! runs earlier than alone or later than beside all neighbours.

use std::num::NonZeroU32;

use pipeline::{Costs, Metrics, Nanos, PassTimes, Schedule, Timeline};
use proptest::prelude::*;
use sim::Replay;
use sim::contention::{Contention, ContentionError};

use crate::draw;

/// Whether nothing runs beside the passes of `schedule`.
fn has_passes_alone(schedule: &Schedule) -> bool {
    !schedule.has_streams() && !schedule.shape().has_shards()
}

/// Checks the timeline of `schedule` between those of `alone` and of costs that are by `more` longer, pass by
/// pass.
fn check(schedule: &Schedule, alone: &Costs, more: u64, neighbours: NonZeroU32) {
    let longer = |time: Nanos| Nanos(time.0 + time.0 * more / 20 + more % 2);
    let chunk = |one: &PassTimes| {
        PassTimes::new(longer(one.forward), longer(one.backward_input), one.backward_weight)
    };
    let beside = alone.clone().with_chunks(alone.chunks().iter().map(chunk).collect());
    let same = Contention { alone, beside: alone, neighbours };
    let found = same.timeline(schedule);
    if !has_passes_alone(schedule) {
        let refused =
            [ContentionError::Shards, ContentionError::Copies, ContentionError::Collectives];
        assert!(found.is_err_and(|error| refused.contains(&error)));
        return;
    }
    let least = Replay::new().timeline(schedule, alone).unwrap();
    assert_eq!(found.unwrap(), least);
    let most = Replay::new().timeline(schedule, &beside).unwrap();
    let found = Contention { alone, beside: &beside, neighbours }.timeline(schedule).unwrap();
    let spans = |timeline: &Timeline| timeline.stages.concat();
    for ((one, least), most) in spans(&found).iter().zip(spans(&least)).zip(spans(&most)) {
        assert!(one.slot == least.slot && one.slot == most.slot);
        assert!(least.start <= one.start && one.start <= most.start, "{}", one.slot);
        assert!(least.end <= one.end && one.end <= most.end, "{}", one.slot);
    }
    let [least, found, most] = [&least, &found, &most].map(|one| Metrics::of(one).makespan());
    assert!(least <= found && found <= most);
}

proptest! {
    #![proptest_config(draw::cases(300))]

    #[test]
    fn every_family_lies_between_alone_and_beside(
        (family, problem, _) in draw::question(),
        more in 0..60u64,
        neighbours in 1..9u32,
    ) {
        let Ok(schedule) = family.schedule(&problem) else { return Ok(()) };
        check(&schedule, problem.costs(), more, NonZeroU32::new(neighbours).unwrap());
    }

    #[test]
    fn every_order_lies_between_alone_and_beside(
        (schedule, costs) in draw::schedule(),
        more in 0..60u64,
        neighbours in 1..9u32,
        (wanted, seed) in any::<(u16, u64)>(),
    ) {
        let neighbours = NonZeroU32::new(neighbours).unwrap();
        check(&schedule, &costs, more, neighbours);
        check(&draw::recomputing(&schedule, wanted, seed), &costs, more, neighbours);
    }
}
