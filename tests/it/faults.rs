//! Everything that can be wrong with a schedule or a question, provoked, with its exact meaning.

use pipeline::{
    Bytes, Collectives, Costs, Cycle, Family, Fault, Footprint, Footprints, Limit, Limits, Memory,
    Nanos, Order, Pass, PassTimes, Placement, Problem, Schedule, Shape, ShardTimes, Slot,
    TextError, Vocabulary, Wait,
};
use sim::Replay;

use crate::draw::{chunks, copying};

fn shape(stages: u64, chunks_per_stage: u64, microbatches: u64) -> Shape {
    Shape::new(stages, chunks_per_stage, microbatches).unwrap()
}

/// F, B and W of one nanosecond each, and no hops.
fn ones(shape: Shape) -> Costs {
    let one = Nanos(1);
    let times = PassTimes::new(one, one, one);
    Costs::uniform(shape, times, Nanos(0))
}

fn held(until_backward: u64, until_weight: u64) -> Footprint {
    Footprint { until_backward: Bytes(until_backward), until_weight: Bytes(until_weight) }
}

/// A question with unit times and the footprint of each chunk.
fn question(shape: Shape, footprints: Vec<Footprint>) -> Problem {
    let problem = Problem::new(shape, ones(shape)).unwrap();
    problem.with_footprints(Footprints::new(footprints)).unwrap()
}

fn slots<const N: usize>(slots: [Slot; N]) -> Order {
    slots.into_iter().collect()
}

fn passes<const N: usize>(passes: [Pass; N]) -> Order {
    passes.into_iter().collect()
}

fn text_fault(text: &str) -> TextError {
    text.parse::<Schedule>().unwrap_err()
}

fn fault(text: &str) -> Fault {
    match text_fault(text) {
        TextError::Fault(fault) => fault,
        other => panic!("{text:?}: {other:?}"),
    }
}

/// The waits of a deadlock, each as (stage, pass, needs, on).
fn waits(text: &str) -> Vec<(usize, Pass, Pass, usize)> {
    let Fault::Deadlock(Cycle(waits)) = fault(text) else { panic!("{text:?} is not a deadlock") };
    waits.into_iter().map(|Wait { stage, pass, needs, on }| (stage, pass, needs, on)).collect()
}

#[test]
fn work_that_is_missing() {
    let (pass, stage) = (Pass::w(1, 0), 1);
    assert_eq!(fault("F0.0 BW0.0\nF1.0 B1.0"), Fault::Missing { pass, stage, others: 0 });
    let (pass, stage) = (Pass::bw(0, 1), 0);
    let text = "F0.0 BW0.0 F0.1\nF1.0 F1.1 BW1.0";
    assert_eq!(fault(text), Fault::Missing { pass, stage, others: 1 });
    let message = fault(text).to_string();
    assert!(message.starts_with("BW0.1 is missing from stage 0"), "{message}");
    let pass = Pass::b(0, 0);
    assert_eq!(fault("F0.0 W0.0"), Fault::Missing { pass, stage: 0, others: 0 });
    let pass = Pass::f(0, 0);
    assert_eq!(fault("BW0.0"), Fault::Missing { pass, stage: 0, others: 0 });
}

#[test]
fn work_that_is_done_twice() {
    let twice = |pass| Fault::Duplicate { pass, stage: 0 };
    assert_eq!(fault("F0.0 F0.0 BW0.0"), twice(Pass::f(0, 0)));
    assert_eq!(fault("F0.0 BW0.0 B0.0"), twice(Pass::b(0, 0)));
    assert_eq!(fault("F0.0 BW0.0 W0.0"), twice(Pass::w(0, 0)));
    assert_eq!(fault("F0.0 B0.0 BW0.0"), twice(Pass::bw(0, 0)));
    assert_eq!(fault("F0.0&F0.0 BW0.0"), twice(Pass::f(0, 0)));
}

#[test]
fn work_on_the_wrong_stage() {
    let wrong = Fault::WrongStage { pass: Pass::f(0, 1), stage: 1, home: 0 };
    assert_eq!(fault("F0.0 BW0.0 BW0.1\nF1.0 F0.1 F1.1 BW1.0 BW1.1"), wrong);
    assert_eq!(wrong.to_string(), "F0.1 is on stage 1, but its chunk is on stage 0");
}

#[test]
fn work_that_the_shape_does_not_have() {
    let one = shape(1, 1, 1);
    for pass in [Pass::f(1, 0), Pass::f(0, 1), Pass::w(u16::MAX, u32::MAX)] {
        let orders = vec![passes([Pass::f(0, 0), Pass::bw(0, 0), pass])];
        let unknown = Fault::UnknownPass { pass, stage: 0, chunks: 1, microbatches: 1 };
        assert_eq!(Schedule::new(one, Placement::Looped, orders), Err(unknown));
    }
}

#[test]
fn not_one_order_per_stage() {
    let order = || passes([Pass::f(0, 0), Pass::bw(0, 0)]);
    for (stages, orders) in [(2, 1), (1, 2), (1, 0)] {
        let given = vec![order(); orders];
        let shape = shape(stages as u64, 1, 1);
        let fault = Schedule::new(shape, Placement::Looped, given);
        assert_eq!(fault, Err(Fault::OrderCount { stages, orders }));
    }
}

#[test]
fn a_stage_that_waits_for_itself() {
    let wait = (0, Pass::w(0, 0), Pass::b(0, 0), 0);
    assert_eq!(waits("F0.0 W0.0 B0.0"), [wait]);
    let message = fault("F0.0 W0.0 B0.0").to_string();
    let expected = "deadlock: W0.0 on stage 0 waits for B0.0 on stage 0, which starts no sooner \
                    than W0.0";
    assert_eq!(message, expected);
}

#[test]
fn a_pair_that_waits_for_itself() {
    let (first, second) = (Pass::f(0, 0), Pass::bw(0, 0));
    assert_eq!(fault("F0.0&BW0.0"), Fault::PairDepends { first, second, stage: 0 });
    let pair = slots([Slot::Pair(Pass::b(0, 0), Pass::w(0, 0))]);
    let order = [Slot::One(Pass::f(0, 0))].into_iter().chain(pair.slots()).collect();
    let refused = Schedule::new(shape(1, 1, 1), Placement::Looped, vec![order]);
    let (first, second) = (Pass::b(0, 0), Pass::w(0, 0));
    assert_eq!(refused, Err(Fault::PairDepends { first, second, stage: 0 }));
    // Over other stages it is a deadlock.
    let text = "F0.0&BW0.1 BW0.0 F0.1\nF1.0 BW1.0 F1.1 BW1.1";
    assert!(matches!(fault(text), Fault::Deadlock(_)));
}

#[test]
fn two_stages_that_wait_for_each_other() {
    let text = "F0.0 BW0.0 F0.1 BW0.1\nF1.1 BW1.1 F1.0 BW1.0";
    let first = (0, Pass::bw(0, 0), Pass::bw(1, 0), 1);
    let second = (1, Pass::f(1, 1), Pass::f(0, 1), 0);
    assert_eq!(waits(text), [first, second]);
    let message = fault(text).to_string();
    for part in ["BW0.0 on stage 0 waits for BW1.0 on stage 1", "no sooner than F1.1"] {
        assert!(message.contains(part), "{message}");
    }
}

/// A stage may wait for the very pass at which another stage stands still.
#[test]
fn a_stage_that_waits_for_the_head_of_another() {
    let text = "F0.0 BW0.0 F2.0 BW2.0\nF1.0 BW1.0 F3.0 BW3.0";
    let first = (0, Pass::bw(0, 0), Pass::bw(1, 0), 1);
    let second = (1, Pass::bw(1, 0), Pass::bw(2, 0), 0);
    assert_eq!(waits(text), [first, second]);
    let expected = "deadlock: BW0.0 on stage 0 waits for BW1.0 on stage 1; BW1.0 on stage 1 waits \
                    for BW2.0 on stage 0, which starts no sooner than BW0.0";
    assert_eq!(fault(text).to_string(), expected);
}

#[test]
fn a_ring_of_three_stages() {
    let text = "F3.0 F0.0 BW3.0 BW0.0\nF1.0 F4.0 BW4.0 BW1.0\nF2.0 F5.0 BW5.0 BW2.0";
    let ring = [
        (0, Pass::f(3, 0), Pass::f(2, 0), 2),
        (2, Pass::f(2, 0), Pass::f(1, 0), 1),
        (1, Pass::f(1, 0), Pass::f(0, 0), 0),
    ];
    assert_eq!(waits(text), ring);
}

/// A stage that waits for a ring is not part of it.
#[test]
fn a_ring_beside_a_stage_that_waits_for_it() {
    let text = "F0.0 BW0.0 F0.1 BW0.1\nF1.0 BW1.0 F1.1 BW1.1\nF2.1 BW2.1 F2.0 BW2.0";
    let ring = [(1, Pass::bw(1, 0), Pass::bw(2, 0), 2), (2, Pass::f(2, 1), Pass::f(1, 1), 1)];
    assert_eq!(waits(text), ring);
}

/// Only the first passes of a long ring are printed.
#[test]
fn a_long_ring_is_cut() {
    let stages = 20;
    let order = |stage: u16| match stage {
        0 => "F20.0 F0.0 BW20.0 BW0.0".to_owned(),
        s => format!("F{s}.0 F{0}.0 BW{0}.0 BW{s}.0", s + 20),
    };
    let text = (0..stages).map(order).collect::<Vec<_>>().join("\n");
    assert_eq!(waits(&text).len(), usize::from(stages));
    assert!(fault(&text).to_string().ends_with("; and 12 more passes in the same ring"));
}

#[test]
fn shapes_that_cannot_be() {
    let zero = |what| Err(Fault::Zero { what });
    assert_eq!(Shape::new(0, 1, 1), zero("stages"));
    assert_eq!(Shape::new(1, 0, 1), zero("chunks per stage"));
    assert_eq!(Shape::new(1, 1, 0), zero("microbatches"));
    assert_eq!(Shape::new(256, 256, 1), Err(Fault::TooManyChunks { chunks: 65_536 }));
    let chunks = u128::from(u64::MAX) * u128::from(u64::MAX);
    assert_eq!(Shape::new(u64::MAX, u64::MAX, 1), Err(Fault::TooManyChunks { chunks }));
    let passes = 24 * 1_000_000_000_000;
    assert_eq!(Shape::new(8, 1, 1_000_000_000_000), Err(Fault::TooManyPasses { passes }));
    assert!(Shape::new(65_535, 1, 1).is_ok());
}

#[test]
fn counts_that_do_not_fit() {
    let (two, three) = (shape(2, 1, 4), shape(3, 1, 4));
    let wrong = |what| Fault::ChunkCount { what, given: 3, chunks: 2 };
    assert_eq!(Problem::new(two, ones(three)), Err(wrong("costs")));
    let problem = Problem::new(two, ones(two)).unwrap();
    let footprints = Footprints::uniform(three, held(1, 1));
    assert_eq!(problem.clone().with_footprints(footprints.clone()), Err(wrong("footprints")));
    let schedule = Family::OneFOneB.schedule(&problem).unwrap();
    assert_eq!(Replay::new().metrics(&schedule, &ones(three)), Err(wrong("costs")));
    assert_eq!(Replay::new().timeline(&schedule, &ones(three)), Err(wrong("costs")));
    assert_eq!(Memory::of(&schedule, &footprints), Err(wrong("footprints")));
}

#[test]
fn a_wrong_number_of_values_is_explained() {
    let message = |stages, chunks| {
        Fault::ValueCount { what: "forward", given: 3, stages, chunks }.to_string()
    };
    let expected = "forward has 3 values: give 1 (all stages alike), 4 (one per stage)";
    assert_eq!(message(4, 4), expected);
    assert_eq!(message(4, 8), format!("{expected} or 8 (one per chunk, in model order)"));
}

#[test]
fn numbers_that_overflow() {
    let shape = shape(2, 1, 4);
    let schedule = Family::ZbH1.schedule(&Problem::new(shape, ones(shape)).unwrap()).unwrap();
    let none = PassTimes::default();
    let long = PassTimes { backward_input: Nanos(u64::MAX), ..none };
    let overflow = |what| Fault::Overflow { what };
    for (times, hop) in [(long, Nanos(0)), (none, Nanos(u64::MAX / 2))] {
        let costs = Costs::uniform(shape, times, hop);
        let metrics = Replay::new().metrics(&schedule, &costs);
        assert_eq!(metrics, Err(overflow("the times")));
        assert_eq!(Problem::new(shape, costs), Err(overflow("the times")));
    }
    // A clock with finer ticks may overflow where the coarse one does not.
    let end = Nanos(u64::MAX);
    let times = PassTimes::new(end, end, end);
    let fine = Costs::uniform(shape, times, end);
    assert_eq!(fine.check(shape), Err(overflow("the times")));
    let footprints = Footprints::uniform(shape, held(u64::MAX, u64::MAX));
    assert_eq!(Memory::of(&schedule, &footprints), Err(overflow("the activations")));
}

/// The largest numbers that are let in do not overflow on the way.
#[test]
fn numbers_that_just_do_not_overflow() {
    let most = u64::MAX / 4;
    for family in Family::ALL {
        let count = if family == Family::Stp { 16 } else { 8 };
        let shape = shape(4, chunks(family), count);
        let mut times = vec![PassTimes::default(); usize::from(shape.chunks())];
        times[2].forward = Nanos(most / count);
        let mut footprints = vec![held(0, 0); usize::from(shape.chunks())];
        footprints[1] = held(most / count, 0);
        let costs = copying(Costs::new(times, Nanos(0)), shape, [0; 2]);
        let shards = vec![ShardTimes::default(); shape.stages()];
        let costs = costs.with_shards(shards, Collectives::default());
        let problem = Problem::new(shape, costs.clone()).unwrap();
        let problem = problem.with_footprints(Footprints::new(footprints)).unwrap();
        let problem = problem.with_limit(Limit::TimesP { millionths: u64::MAX });
        let schedule = match family.schedule(&problem) {
            // It is made from an order of more microbatches, whose sum would be too large.
            Err(Fault::Overflow { .. }) if family.vocabulary() != Vocabulary::Whole => continue,
            schedule => schedule.unwrap(),
        };
        let metrics = Replay::new().metrics(&schedule, &costs).unwrap();
        // Two stages share the chunk of a mirrored schedule.
        let at_once = if schedule.placement() == Placement::Mirrored { 2 } else { 1 };
        assert_eq!(metrics.makespan(), Nanos(most / count * count / at_once), "{}", family.name());
    }
}

#[test]
fn a_limit_below_one_microbatch() {
    let problem = question(shape(3, 1, 4), vec![held(5, 1), held(7, 2), held(7, 9)]);
    let small = problem.with_limit(Limit::Bytes(Bytes(8)));
    // Stage 1 holds no more than 7, but stage 2 holds 9 between B and W.
    let below = Fault::BelowOneMicrobatch { stage: 2, needs: Bytes(9), limit: Bytes(8) };
    assert_eq!(Family::ZbHeuristic.schedule(&small), Err(below.clone()));
    let expected = "stage 2 needs 9B for a single microbatch, but the memory limit is 8B";
    assert_eq!(below.to_string(), expected);
    assert!(Family::GPipe.schedule(&small).is_ok(), "a limit does not shape GPipe");
    let enough = small.with_limit(Limit::Bytes(Bytes(9)));
    assert!(Family::ZbHeuristic.schedule(&enough).is_ok());
    let vee = question(shape(2, 2, 4), vec![held(3, 2); 4]);
    let small = vee.with_limit(Limit::Bytes(Bytes(5)));
    let below = Fault::BelowOneMicrobatch { stage: 0, needs: Bytes(6), limit: Bytes(5) };
    assert_eq!(Family::ZbV.schedule(&small), Err(below));
    assert!(Family::ZbV.schedule(&small.with_limit(Limit::Bytes(Bytes(6)))).is_ok());
}

/// ZB-V keeps room for activations that grow in B, more than the least it could do with.
#[test]
fn a_limit_that_a_family_cannot_keep() {
    let problem = question(shape(1, 2, 3), vec![held(1, 4), held(3, 3)]);
    let infeasible = Fault::Infeasible {
        family: "zb-v",
        stage: 0,
        pass: Pass::f(0, 0),
        needs: Bytes(7),
        limit: Bytes(6),
    };
    let small = problem.with_limit(Limit::Bytes(Bytes(6)));
    assert_eq!(Family::ZbV.schedule(&small), Err(infeasible.clone()));
    let expected = "zb-v finds no order under the memory limit: stage 0 would need 7B to run F0.0, \
                    but the limit is 6B";
    assert_eq!(infeasible.to_string(), expected);
    assert!(Family::ZbV.schedule(&small.with_limit(Limit::Bytes(Bytes(7)))).is_ok());
}

#[test]
fn shapes_that_a_family_does_not_know() {
    let ask = |family: Family, shape| family.schedule(&Problem::new(shape, ones(shape)).unwrap());
    let needs = |family: Family, what: &str| {
        Err(Fault::Needs { family: family.name(), key: "chunks", what: what.to_owned() })
    };
    assert_eq!(ask(Family::ZbV, shape(4, 1, 8)), needs(Family::ZbV, "chunks per stage = 2, not 1"));
    let needs = needs(Family::GPipe, "chunks per stage = 1, not 2");
    assert_eq!(ask(Family::GPipe, shape(4, 2, 8)), needs);
}

#[test]
fn segments_that_are_no_microbatches() {
    let problem = Problem::new(shape(2, 1, 7), ones(shape(2, 1, 7))).unwrap();
    assert_eq!(problem.clone().with_segments(0), Err(Fault::Zero { what: "segments" }));
    let fault = Family::Seq1F1B.schedule(&problem.clone().with_segments(2).unwrap()).unwrap_err();
    assert!(matches!(fault, Fault::Needs { key: "segments", .. }), "{fault:?}");
    assert!(fault.to_string().contains("7 is not a multiple of 2 segments"), "{fault}");
    let hostile = problem.with_segments(u32::MAX).unwrap().with_limit(Limit::times_p(u64::MAX));
    let limits = Limits::new(shape(2, 1, 7), &[Bytes(u64::MAX)]).unwrap();
    assert_eq!(hostile.limits(Placement::Looped), Ok(Some(limits)));
}

#[test]
fn words_that_are_no_pass() {
    let word = |line, column, word: &str| TextError::Word { line, column, word: word.to_owned() };
    assert_eq!(text_fault("F0.0 junk BW0.0"), word(1, 6, "junk"));
    assert_eq!(text_fault("F0.0 BW0.0\n  F1.0  B1"), word(2, 9, "B1"));
    let junk = [
        "F",
        "F0",
        "F0.",
        "F.0",
        "X0.0",
        "f0.0",
        "FB0.0",
        "F0.0.0",
        "F-1.0",
        "F0.+1",
        "F 0.0",
        "&",
        "F0.0&",
        "&F0.0",
        "F0.0&BW0.0&W0.0",
        "F0,0",
        "F0.0x",
        "F0x1.0",
        "F1e3.0",
        "F٣.0",
    ];
    for text in junk {
        let first = text.split(' ').next().unwrap();
        assert_eq!(text_fault(text), word(1, 1, first), "{text:?}");
    }
    // Columns count characters, not bytes; long words are cut.
    assert_eq!(text_fault("F0.0 é B0.0"), word(1, 6, "é"));
    assert_eq!(text_fault("é0.0 é"), word(1, 1, "é0.0"));
    assert_eq!(text_fault("\u{feff}F0.0"), word(1, 1, "\u{feff}F0.0"));
    assert_eq!(text_fault(&"ü".repeat(1000)), word(1, 1, &"ü".repeat(40)));
    let message = text_fault("F0.0 junk").to_string();
    assert!(message.starts_with("line 1, column 6: `junk` is not a pass"), "{message}");
}

#[test]
fn numbers_too_large_for_a_pass() {
    for text in ["F0.99999999999", "F0.4294967296", "F99999.0", "F65536.0"] {
        assert!(matches!(text_fault(text), TextError::Word { line: 1, column: 1, .. }), "{text}");
        let message = text_fault(text).to_string();
        assert!(message.contains("65535") && message.contains("4294967295"), "{message}");
    }
    // These are passes, but of pipelines that are refused before anything is laid out for them.
    let passes = 3 * 4_294_967_296;
    assert_eq!(fault("F0.4294967295"), Fault::TooManyPasses { passes });
    assert_eq!(fault("F65535.0"), Fault::TooManyChunks { chunks: 65_536 });
    let pass = Pass::bw(0, 0);
    let others = 29_999_999;
    assert_eq!(fault("F0.0 F0.29999999"), Fault::Missing { pass, stage: 0, others });
}

#[test]
fn texts_that_are_no_schedule() {
    for text in ["", "\n", " \r\n\t\n"] {
        assert_eq!(text_fault(text), TextError::Empty, "{text:?}");
    }
    assert_eq!(text_fault("F0.0 BW0.0\n\nF1.0 BW1.0"), TextError::EmptyLine { line: 2, stage: 1 });
    assert_eq!(text_fault("\nF0.0 BW0.0"), TextError::EmptyLine { line: 1, stage: 0 });
    let uneven = TextError::Uneven { chunks: 3, stages: 2 };
    assert_eq!(text_fault("F0.0 F2.0 BW2.0 BW0.0\nF1.0 BW1.0"), uneven);
}

#[test]
fn line_ends_and_white_space_say_nothing() {
    let plain: Schedule = "F0.0 BW0.0\nF1.0 BW1.0\n".parse().unwrap();
    let same = [
        "F0.0 BW0.0\nF1.0 BW1.0",
        "F0.0 BW0.0\r\nF1.0 BW1.0\r\n",
        "F0.0 BW0.0\nF1.0 BW1.0\n\n  \n\r\n",
        "  F0.0\tBW0.0  \n F1.0   BW1.0",
    ];
    for text in same {
        assert_eq!(text.parse::<Schedule>().as_ref(), Ok(&plain), "{text:?}");
    }
}
