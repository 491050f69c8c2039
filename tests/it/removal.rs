//! Removing a cause moves the step by the time that was attributed to it.

use pipeline::Family;
use sim::boundary::Synchronisation;
use sim::cluster::Seating;
use sim::explain::{Cause, Causes};
use sim::straggler::{Stragglers, Target};

use crate::bench::{Bench, nodes, question};
use crate::causes::{explained, of, of_engine, zb_h2};

/// Asserts that the step of `with` is longer than that of `without` by what `cause` is given, less
/// the time that stages are longer busy, and that it is given nothing in `without`.
fn assert_moves(with: &Causes, without: &Causes, cause: Cause) {
    let moved = i64::try_from(with.cost.0).unwrap() - i64::try_from(without.cost.0).unwrap();
    assert!(moved > 0 && of(without, cause).iter().all(|&share| share == 0));
    for (stage, share) in of(with, cause).into_iter().enumerate() {
        let [with, without] =
            [with, without].map(|causes| i64::try_from(causes.busy[stage].0).unwrap());
        assert_eq!(share + with - without, moved, "stage {stage}");
    }
}

#[test]
fn without_its_straggler_the_step_is_shorter_by_what_that_was_given() {
    let bench = || Bench::family(Family::ZbH1, [4, 1, 8], [10, 20, 10], 3);
    let mut stragglers = Stragglers::new(4, 1);
    stragglers.slow(Target::Stage(2), 1.5).unwrap();
    let slow = bench();
    let run = slow.simulation().under(&stragglers).record(Some(0)).unwrap();
    let with = of_engine(&slow, Some(&stragglers), &run).unwrap();
    assert_moves(&with, &explained(&bench()), Cause::Noise);
    assert!(of(&with, Cause::Noise)[0] > of(&with, Cause::Noise)[2]);
}

#[test]
fn with_a_nic_each_the_step_is_shorter_by_what_sharing_was_given() {
    // Stages 0 and 2 on one node, 1 and 3 on the other: outputs of both cross at a time. A transfer
    // takes less than a pass, so that a stage's own never meet.
    let with_nics = |nics| {
        let bench = Bench::family(Family::GPipe, [4, 1, 6], [10, 20, 10], 0);
        explained(&bench.on(nodes(2, nics), &Seating::AcrossNodes, 9))
    };
    assert_moves(&with_nics(1), &with_nics(2), Cause::SharedLinks);
}

#[test]
fn with_room_for_all_the_step_is_shorter_by_what_memory_was_given() {
    // Nine tenths of every activation go to the host and come back only when they are needed, on
    // devices with room for six.
    let with_room = |room: Option<u64>| {
        let bench = Bench::family(Family::OneFOneB, [2, 1, 4], [10, 20, 10], 0);
        let bench = bench.on(nodes(1, 1), &Seating::Contiguous, 0).holding(160, 0);
        let mut bench = bench.with_room(room.unwrap_or(u64::MAX));
        if room.is_some() {
            bench = bench.offloaded(900, 0);
        }
        explained(&bench)
    };
    assert_moves(&with_room(Some(1000)), &with_room(None), Cause::Memory);
}

#[test]
fn without_a_barrier_the_step_is_shorter_by_what_synchronisation_was_given() {
    let with = explained(&zb_h2(Synchronisation::Barrier, 2));
    let without = explained(&zb_h2(Synchronisation::Asynchronous, 2));
    assert_moves(&with, &without, Cause::Synchronisation);
}

#[test]
fn with_equal_stages_the_step_is_shorter_by_what_inequality_was_given() {
    let bench = |times: &[[u64; 3]]| {
        let (schedule, costs) = question(Family::OneFOneB, [3, 8], times, 0).unwrap();
        explained(&Bench::ideal(schedule, costs))
    };
    let with = bench(&[[10, 10, 10], [10, 10, 10], [22, 13, 16]]);
    assert_moves(&with, &bench(&[[14, 11, 12]]), Cause::UnequalStages);
}
