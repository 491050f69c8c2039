//! Memory in the event engine: passes that wait for room, and activations on the host.

use pipeline::{Bytes, Choice, Family, Kind, Nanos, Order, Pass, Placement, Schedule};
use proptest::prelude::*;
use sim::cluster::Seating;

use crate::bench::{self, Bench, nodes};
use crate::draw;

#[test]
fn a_pass_waits_for_memory_or_the_run_says_why_it_cannot() {
    // Two stages on one device, 10 bytes each until BW. GPipe, m = 1: stage 1's F waits for nobody.
    let bench = Bench::family(Family::GPipe, [2, 1, 2], [10, 20, 10], 0);
    let bench = bench.on(nodes(1, 1), &Seating::Explicit(vec![0, 0]), 0);
    let shape = bench.schedule.shape();
    let mut bench = bench.holding(10, 10);
    bench.hardware.resident = [3, 4].map(Bytes).to_vec();
    let free = bench.run().timeline;
    let mut bench = bench.with_room(47);
    assert_eq!(bench.run().timeline, free);
    bench = bench.with_room(46);
    let message = bench.try_run().unwrap_err().to_string();
    assert!(message.contains("its device would need 47B, but has 46B"), "{message}");
    // A device without stages need not have any.
    bench = bench.with_limits([47, 0].map(Bytes).to_vec());
    assert!(bench.try_run().is_ok());
    // 1F1B on stage 1 needs one activation there: with room for two of stage 0 and one of stage 1
    // it runs, F1.1 waiting until BW1.0 has freed its own.
    let orders = ["F0.0 F0.1 BW0.0 BW0.1", "F1.0 BW1.0 F1.1 BW1.1"];
    let order = |text: &str| -> Order {
        let read = |word: &str| {
            let microbatch = word[word.len() - 1..].parse().unwrap();
            let chunk = word[word.len() - 3..word.len() - 2].parse().unwrap();
            if word.starts_with('F') {
                Pass::f(chunk, microbatch)
            } else {
                Pass::bw(chunk, microbatch)
            }
        };
        text.split(' ').map(read).collect()
    };
    let orders = orders.map(order).to_vec();
    let schedule = Schedule::new(shape, Placement::Looped, orders).unwrap();
    let bench = Bench::ideal(schedule, bench.costs);
    let mut bench = bench.on(nodes(1, 1), &Seating::Explicit(vec![0, 0]), 0).holding(10, 10);
    bench.hardware.resident = [3, 4].map(Bytes).to_vec();
    let bench = bench.with_room(37);
    assert!(bench.try_run().is_ok());
    assert!(bench.with_room(36).try_run().is_err());
}

proptest! {
    #![proptest_config(draw::cases(150))]

    /// Copies leave after the forward and are back before the backward, one at a time on each stream,
    /// and nothing is faster for them.
    #[test]
    fn offloaded_activations_are_back_in_time(
        which in 0..Family::ALL.len(),
        p in 1..6u64,
        m in 1..10u64,
        held in 1..200u64,
        per_mille in 0..1001u32,
        ahead in 0..5u32,
    ) {
        let which = Family::ALL[which];
        // Those that copy by a plan of their own have laws of their own.
        if which.about().choice == Choice::Offload {
            return Ok(());
        }
        let m = if which == Family::Interleaved { p * m } else { m };
        let m = if m % 2 == 1 { m } else { draw::even_microbatches(p, m) };
        let question = bench::question(which, [p, m], &[[20, 21, 15]], 0);
        let Some((schedule, costs)) = question else { return Ok(()) };
        let bench = Bench::ideal(schedule, costs);
        let bench = bench.on(nodes(p.div_ceil(2), 1), &Seating::Contiguous, 3);
        let bench = bench.holding(held, 0);
        let without = bench.run().metrics(0).makespan();
        let offloaded = bench.offloaded(per_mille, ahead).run();
        prop_assert!(offloaded.metrics(0).makespan() >= without);
        let copied = held * u64::from(per_mille) / 1000;
        let mut streams = std::collections::BTreeMap::<_, Vec<_>>::new();
        for copy in &offloaded.copies {
            let span = |wanted: fn(Kind) -> bool| {
                let mut spans = offloaded.timeline.stages[copy.stage].iter();
                let found = spans.find(|span| span.slot.passes().any(|pass| {
                    let same = (pass.chunk, pass.microbatch);
                    wanted(pass.kind) && same == (copy.pass.chunk, copy.pass.microbatch)
                }));
                *found.unwrap()
            };
            prop_assert_eq!(copy.bytes, Bytes(copied));
            prop_assert!(span(|kind| kind == Kind::F).end <= copy.out[0]);
            prop_assert!(copy.out[1] <= copy.back[0]);
            let backward = span(|kind| matches!(kind, Kind::B | Kind::BW));
            prop_assert!(copy.back[1] <= backward.start);
            for (way, times) in [copy.out, copy.back].into_iter().enumerate() {
                prop_assert!(times[1].0 - times[0].0 >= copied);
                streams.entry((copy.stage, way)).or_default().push(times);
            }
        }
        for stream in streams.values_mut() {
            stream.sort();
            prop_assert!(stream.windows(2).all(|pair| pair[0][1] <= pair[1][0]));
        }
    }
}

#[test]
fn offloaded_activations_are_away_between_forward_and_backward() {
    // GPipe, p = 1, m = 3: F 0..10, 10..20, 20..30, then BW of 30 each. 8 of 16 bytes are copied,
    // called back when their BW is one slot away.
    let offload = |bench: Bench, held: u64, ahead| {
        let bench = bench.holding(held, 0).offloaded(500, ahead);
        let run = bench.run();
        let occupancy = bench.simulation().occupancy(&run).unwrap().unwrap();
        (run, occupancy)
    };
    let gpipe = || {
        let bench = Bench::family(Family::GPipe, [1, 1, 3], [10, 20, 10], 0);
        bench.on(nodes(1, 1), &Seating::Contiguous, 0)
    };
    let (run, occupancy) = offload(gpipe(), 16, 1);
    // Microbatch 0: out 10..18, its BW is one slot away when F0.2 starts at 20: back 20..28.
    // Microbatch 1: out 20..28, wanted from 30 on: back 30..38. Microbatch 2: out 30..38, wanted
    // when BW0.1 starts at 60: back 60..68.
    let times: Vec<_> = run.copies.iter().map(|copy| [copy.out, copy.back].concat()).collect();
    let nanos = |times: [u64; 4]| times.map(Nanos).to_vec();
    assert_eq!(times, [[10, 18, 20, 28], [20, 28, 30, 38], [30, 38, 60, 68]].map(nanos));
    let spans: Vec<u64> = run.timeline.stages[0].iter().map(|span| span.end.0).collect();
    assert_eq!(spans, [10, 20, 30, 60, 90, 120], "all copies are hidden");
    // Held: 16 until 10, 32 until 18, 24 until 20; at 20 F0.2 takes 16 and 8 come back: 48; 8 leave
    // at 28: 40; at 30 8 come back: 48; 8 leave at 38: 40. Without copies 48 as well, but longer.
    let peak = &occupancy.peaks[0];
    assert_eq!((peak.bytes, peak.at, peak.on_host), (Bytes(48), Nanos(20), Bytes(0)));
    assert!(occupancy.curves[0].contains(&(Nanos(18), Bytes(24))));
    assert_eq!(occupancy.curves[0].last(), Some(&(Nanos(120), Bytes(0))));

    // Ten times as large, the copies are exposed: out 10..90, 90..170, 170..250; microbatch 0 is
    // back at 170, and its BW runs 170..200; 1 is wanted from 30 on: back 170..250, BW 250..280; 2
    // is away until 250: back 250..330, BW 330..360.
    let (run, _) = offload(gpipe(), 160, 1);
    let spans: Vec<u64> = run.timeline.stages[0].iter().map(|span| span.start.0).collect();
    assert_eq!(spans, [0, 10, 20, 170, 250, 330]);

    // 1F1B on the last stage: every backward follows its forward, so nothing is copied there.
    let bench = Bench::family(Family::OneFOneB, [2, 1, 4], [10, 20, 10], 0);
    let (run, _) = offload(bench.on(nodes(1, 1), &Seating::Contiguous, 0), 16, 0);
    assert!(run.copies.iter().all(|copy| copy.stage == 0) && !run.copies.is_empty());
}

/// GPipe on two stages with three microbatches: F takes 10, BW 30, and a copy of the 15 bytes of an activation 15 each
/// way. Called back only when its backward is next.
#[test]
fn passes_that_wait_for_copies_to_the_host_take_longer_and_hold_less() {
    let run = |max_inflight| {
        let bench = Bench::family(Family::GPipe, [2, 1, 3], [10, 20, 10], 0);
        let bench = bench.on(nodes(1, 1), &Seating::Contiguous, 0).holding(15, 0);
        let bench = bench.offloaded_within(1000, 0, max_inflight);
        let run = bench.run();
        let occupancy = bench.simulation().occupancy(&run).unwrap().unwrap();
        let starts = |stage: usize| -> Vec<u64> {
            run.timeline.stages[stage].iter().map(|span| span.start.0).collect()
        };
        let peaks: Vec<u64> = occupancy.peaks.iter().map(|peak| peak.bytes.0).collect();
        ([starts(0), starts(1)], peaks)
    };
    // Overlapped: copies out on stage 1 are 20..35, 35..50, 50..65, copies back 40..55, 85..100, 130..145; stage 0 is
    // back at 45, 130 and 175 and waits for gradients at 85, 130 and 175. Both hold all three when F2 starts.
    let overlapped = [vec![0, 10, 20, 85, 130, 175], vec![10, 20, 30, 55, 100, 145]];
    assert_eq!(run(None), (overlapped, vec![45, 45]));
    // Blocking: copies out of stage 0 are 10..25, 35..50, 60..75, each before the next slot; those of stage 1 20..35,
    // 45..60, 70..85. Copies back begin at 60 on stage 0 and at 70 on stage 1, beside the last copy out: two are held.
    let blocking = [vec![0, 25, 50, 115, 160, 205], vec![10, 35, 60, 85, 130, 175]];
    assert_eq!(run(Some(0)), (blocking, vec![30, 30]));
    // One in flight: F2 waits on both stages for the first copy out, 10..25 and 20..35; the second is out at 40 and 50.
    let one = [vec![0, 10, 25, 90, 135, 180], vec![10, 20, 35, 60, 105, 150]];
    assert_eq!(run(Some(1)), (one, vec![45, 45]));
    // Three copies are never more than three in flight.
    assert_eq!(run(Some(3)), run(None));
}
