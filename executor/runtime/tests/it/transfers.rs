//! Transfers in their agreed order never deadlock, even where each blocks both ends until both are
//! ready.

use pipeline::{Order, Pass, Placement, Schedule, Shape};
use proptest::prelude::*;
use runtime::{Boundary, Direction, P2pAction, Transfers};

use crate::hashed::Mishap;
use crate::support::{pairs, schedules};
use crate::threads::same_as_serial;

/// The actions of a stage, in order: `None` is a slot.
fn program(schedule: &Schedule, transfers: &Transfers, stage: usize) -> Vec<Option<P2pAction>> {
    let slots = schedule.orders()[stage].slots().count();
    let actions = transfers.of_stage(stage);
    let mut program = Vec::new();
    for slot in 0..=slots {
        program.extend(actions.iter().filter(|action| action.before == slot).copied().map(Some));
        program.extend((slot < slots).then_some(None));
    }
    assert_eq!(program.len(), slots + actions.len(), "every post has its place, in order");
    program
}

/// Runs the programs with transfers that need both ends at once. Asserts that they end, and that
/// slots have their inputs.
fn rendezvous(name: &str, schedule: &Schedule) {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let transfers = Transfers::of(schedule);
    let mut left: Vec<_> = (0..shape.stages())
        .map(|s| program(schedule, &transfers, s).into_iter().peekable())
        .collect();
    let mut slots: Vec<_> = schedule.orders().iter().map(Order::slots).collect();
    let mut here = std::collections::HashSet::new();
    loop {
        let mut moved = false;
        for stage in 0..shape.stages() {
            while left[stage].peek() == Some(&None) {
                left[stage].next();
                let slot = slots[stage].next().unwrap();
                for value in slot.passes().flat_map(|pass| pass.needs(shape)) {
                    assert!(
                        here.contains(&(stage, value)),
                        "{name}: {slot} on stage {stage} lacks {value:?}"
                    );
                }
                here.extend(slot.passes().filter_map(Pass::makes).map(|value| (stage, value)));
                moved = true;
            }
            let Some(&Some(P2pAction { direction: Direction::Send, peer, value, .. })) =
                left[stage].peek()
            else {
                continue;
            };
            let matches = |other: &Option<P2pAction>| {
                other.is_some_and(|action| {
                    (action.direction, action.peer, action.value)
                        == (Direction::Receive, stage, value)
                })
            };
            if left[peer].peek().is_some_and(matches) {
                assert!(
                    here.contains(&(stage, value)),
                    "{name}: {value:?} is sent before it is made"
                );
                let taker = value.taken_by(shape.chunks()).unwrap();
                assert_eq!(placement.stage(shape, taker, value.microbatch()), peer);
                here.insert((peer, value));
                left[stage].next();
                left[peer].next();
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    assert!(left.iter_mut().all(|program| program.peek().is_none()), "{name}: deadlock");
}

#[test]
fn no_family_deadlocks() {
    let counts = [1, 2, 4, 5].into_iter().flat_map(|p| [1, 2, 4, 7, 8].map(|m| (p, m)));
    for (name, schedule) in counts.flat_map(|(p, m)| schedules(p, m)).chain(pairs()) {
        rendezvous(&name, &schedule);
    }
}

/// A valid schedule from any numbers: passes are done in a random order that respects what they need,
/// some of them in pairs.
fn random(shape: Shape, placement: Placement, mut draw: impl FnMut(usize) -> usize) -> Schedule {
    let split = draw(2) == 0;
    let cells = || (0..shape.chunks()).flat_map(|c| (0..shape.microbatches()).map(move |m| (c, m)));
    let mut open: Vec<Pass> = cells().map(|(c, m)| Pass::f(c, m)).collect();
    open.extend(cells().flat_map(|(c, m)| match split {
        true => vec![Pass::b(c, m), Pass::w(c, m)],
        false => vec![Pass::bw(c, m)],
    }));
    let mut made = std::collections::HashSet::new();
    let mut orders = vec![Order::default(); shape.stages()];
    let home = |pass: &Pass| placement.stage(shape, pass.chunk, pass.microbatch);
    while !open.is_empty() {
        let is_ready = |pass: &Pass| pass.needs(shape).all(|value| made.contains(&value));
        let ready: Vec<usize> = (0..open.len()).filter(|&i| is_ready(&open[i])).collect();
        let first = ready[draw(ready.len())];
        let mates: Vec<usize> = ready
            .into_iter()
            .filter(|&i| i != first && home(&open[i]) == home(&open[first]))
            .collect();
        let stage = home(&open[first]);
        let mut done = vec![first];
        if !mates.is_empty() && draw(3) == 0 {
            let second = mates[draw(mates.len())];
            done.push(second);
            orders[stage].push(pipeline::Slot::Pair(open[first], open[second]));
        } else {
            orders[stage].push(open[first]);
        }
        made.extend(done.iter().filter_map(|&i| open[i].makes()));
        done.sort_unstable();
        for i in done.into_iter().rev() {
            open.remove(i);
        }
    }
    Schedule::new(shape, placement, orders).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..Default::default() })]

    #[test]
    fn no_random_schedule_deadlocks_or_computes_something_else(
        (p, v, m) in (1..6u64, 1..3u64, 1..6u64),
        kind in 0..3usize,
        seed in any::<u64>(),
    ) {
        let placement = [Placement::Looped, Placement::Vee, Placement::Mirrored][kind];
        let v = if placement == Placement::Mirrored { 1 } else { v };
        let shape = Shape::new(p, v, m).unwrap();
        let mut state = seed;
        let schedule = random(shape, placement, |below| {
            state = crate::hashed::mix(&[state, 3]);
            (state >> 33) as usize % below
        });
        rendezvous("random", &schedule);
        same_as_serial("random", &schedule, 2, Boundary::PostValidation { max_norm: 700.0 }, Mishap::None);
    }
}
