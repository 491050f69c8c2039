//! Published and derived formulas equal the replay to the nanosecond, in the domain each states.

use std::collections::VecDeque;

use pipeline::closed_form::Uniform;
use pipeline::{
    Bytes, Collectives, Costs, Family, Footprint, Footprints, Kind, Limit, Memory, Metrics, Nanos,
    Order, PassTimes, Problem, Schedule, Shape, ShardTimes, SteadyState, peak_in_flight,
};
use proptest::prelude::*;
use sim::Replay;

use crate::draw::{cases, footprint};

fn schedule(
    family: Family,
    one: &Uniform,
    chunks: u64,
    held: Option<Footprint>,
) -> (Problem, Schedule) {
    let shape = Shape::new(one.stages, chunks, one.microbatches).unwrap();
    let share = |time: Nanos| Nanos(time.0 / chunks);
    let PassTimes { forward, backward_input, backward_weight, .. } = one.times;
    let times = PassTimes::new(share(forward), share(backward_input), share(backward_weight));
    let shard = ShardTimes { before: share(forward), after: share(backward_weight) };
    let costs = Costs::uniform(shape, times, one.hop)
        .with_shards(vec![shard; shape.stages()], Collectives::default());
    let mut problem = Problem::new(shape, costs).unwrap();
    if let Some(held) = held {
        problem = problem.with_footprints(Footprints::uniform(shape, held)).unwrap();
    }
    let schedule = family.schedule(&problem).unwrap();
    (problem, schedule)
}

fn replay(family: Family, one: &Uniform, chunks: u64) -> Metrics {
    let (problem, schedule) = schedule(family, one, chunks, None);
    Replay::new().metrics(&schedule, problem.costs()).unwrap()
}

fn peak(family: Family, one: &Uniform, held: Footprint) -> Vec<u64> {
    let (problem, schedule) = schedule(family, one, 1, Some(held));
    let memory = Memory::of(&schedule, problem.footprints()).unwrap();
    memory.peak.into_iter().map(|bytes| bytes.0).collect()
}

fn in_flight(family: Family, one: &Uniform, chunks: u64) -> Vec<u64> {
    let (_, schedule) = schedule(family, one, chunks, None);
    peak_in_flight(&schedule).into_iter().map(u64::from).collect()
}

/// The most versions of the weights that one stage needs, with an update after every `microbatches`
/// backwards, if a backward sees what its forward has seen.
fn versions(order: &Order, microbatches: u64) -> u64 {
    let (mut backwards, mut seen, mut most) = (0, VecDeque::new(), 0);
    for pass in order.passes() {
        match pass.kind {
            Kind::F => seen.push_back(backwards / microbatches),
            // Microbatches leave in the order in which they come.
            _ => {
                most = most.max(backwards / microbatches - seen.pop_front().unwrap() + 1);
                backwards += 1;
            }
        }
    }
    most
}

/// Any equal stages with p up to 12 and m up to 5p; every time is a multiple of `unit`.
fn any_with(unit: u64) -> impl Strategy<Value = Uniform> {
    let time = move || (0..40u64).prop_map(move |time| Nanos(unit * time));
    (1..=12u64, 1..=60u64, [time(), time(), time()], 0..60u64).prop_map(
        |(stages, microbatches, [forward, backward_input, backward_weight], hop)| Uniform {
            stages,
            microbatches: microbatches.min(5 * stages),
            times: PassTimes::new(forward, backward_input, backward_weight),
            hop: Nanos(hop),
        },
    )
}

/// Any with m >= 2p and W <= F, B, where 2c <= `longest`(F, B, W).
fn zero_bubble(longest: fn(u64, u64, u64) -> u64) -> impl Strategy<Value = Uniform> {
    let sizes = (1..=12u64, 0..20u64, 0..40u64, 0..40u64, 0..40u64, 0..=100u64);
    sizes.prop_map(move |(stages, more, w, f, b, percent)| {
        let (f, b) = (w + f, w + b);
        Uniform {
            stages,
            microbatches: 2 * stages + more,
            times: PassTimes::new(Nanos(f), Nanos(b), Nanos(w)),
            hop: Nanos(longest(f, b, w) / 2 * percent / 100),
        }
    })
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn gpipe(one in any_with(1)) {
        prop_assert_eq!(replay(Family::GPipe, &one, 1).makespan(), one.gpipe());
    }

    #[test]
    fn one_f_one_b(one in any_with(1)) {
        prop_assert_eq!(replay(Family::OneFOneB, &one, 1).makespan(), one.one_f_one_b());
    }

    #[test]
    fn interleaved(
        any in any_with(12),
        chunks in 2..=4u64,
        rounds in 1..=5u64,
        percent in 0..=100u64,
    ) {
        let PassTimes { forward, backward_input, backward_weight, .. } = any.times;
        let shortest = forward.min(backward_input + backward_weight);
        let hop = Nanos(shortest.0 / chunks * percent / 100);
        let one = Uniform { microbatches: any.stages * rounds, hop, ..any };
        let makespan = replay(Family::Interleaved, &one, chunks).makespan();
        prop_assert_eq!(Some(makespan), one.interleaved(chunks));
    }

    #[test]
    fn zb_h1(one in zero_bubble(|_, _, w| w)) {
        prop_assert_eq!(Some(replay(Family::ZbH1, &one, 1).makespan()), one.zb_h1());
    }

    #[test]
    fn zb_h2(one in zero_bubble(|f, b, _| f + b)) {
        prop_assert_eq!(Some(replay(Family::ZbH2, &one, 1).span()), one.zb_h2());
    }

    /// Where a formula states a domain, it says so outside and is right inside.
    #[test]
    fn a_formula_is_right_or_silent(one in any_with(1), chunks in 1..=4u64) {
        let is = |formula: Option<Nanos>, cost: Nanos| formula.is_none_or(|nanos| nanos == cost);
        prop_assert!(is(one.zb_h1(), replay(Family::ZbH1, &one, 1).makespan()));
        prop_assert!(is(one.zb_h2(), replay(Family::ZbH2, &one, 1).span()));
        let breadth_first = Uniform { hop: Nanos(0), ..one };
        if let Some(formula) = breadth_first.looped_bfs(chunks) {
            let makespan = replay(Family::LoopedBfs, &breadth_first, chunks).makespan();
            prop_assert_eq!(makespan, formula);
        }
        let whole = |time: Nanos| time.0.is_multiple_of(chunks);
        let PassTimes { forward, backward_input, backward_weight, .. } = one.times;
        if one.microbatches.is_multiple_of(one.stages)
            && [forward, backward_input, backward_weight].into_iter().all(whole)
        {
            let makespan = replay(Family::Interleaved, &one, chunks).makespan();
            prop_assert!(is(one.interleaved(chunks), makespan));
        }
    }

    #[test]
    fn microbatches_in_flight(one in any_with(1), chunks in 1..=4u64, rounds in 1..=5u64) {
        let by_stage = |most: &dyn Fn(u64) -> u64| (0..one.stages).map(most).collect::<Vec<_>>();
        let gpipe = by_stage(&|_| one.gpipe_in_flight());
        prop_assert_eq!(in_flight(Family::GPipe, &one, 1), gpipe);
        let one_f_one_b = by_stage(&|stage| one.one_f_one_b_in_flight(stage));
        prop_assert_eq!(in_flight(Family::OneFOneB, &one, 1), one_f_one_b);
        for (barriers, family) in [(2, Family::Vocab1), (1, Family::Vocab2)] {
            let formula = by_stage(&|stage| one.vocabulary_in_flight(barriers, stage));
            prop_assert_eq!(in_flight(family, &one, 1), formula);
        }
        let interlaced = by_stage(&|stage| one.interlaced_in_flight(stage));
        prop_assert_eq!(in_flight(Family::Interlaced1F1B, &one, 1), interlaced);
        let even = Uniform { microbatches: one.stages * rounds, ..one };
        let interleaved = by_stage(&|stage| even.interleaved_in_flight(chunks, stage).unwrap());
        prop_assert_eq!(in_flight(Family::Interleaved, &even, chunks), interleaved);
    }

    #[test]
    fn zero_bubble_peaks(one in zero_bubble(|_, _, w| w), held in footprint()) {
        for stage in 0..one.stages {
            let at = usize::try_from(stage).unwrap();
            if let Some(bytes) = one.zb_h1_peak(held, stage) {
                prop_assert_eq!(peak(Family::ZbH1, &one, held)[at], bytes.0);
            }
            if let Some(bytes) = one.zb_h2_peak(held, stage) {
                prop_assert_eq!(peak(Family::ZbH2, &one, held)[at], bytes.0);
            }
        }
    }

    /// ZB-V has no bubble and holds at most 2p chunk activations where F = B = W and c = 0.
    #[test]
    fn zb_v(stages in 1..=12u64, more in 0..20u64, unit in 1..50u64) {
        let pass = Nanos(2 * unit);
        let times = PassTimes::new(pass, pass, pass);
        let microbatches = 2 * stages + more;
        let one = Uniform { stages, microbatches, times, hop: Nanos(0) };
        let metrics = replay(Family::ZbV, &one, 2);
        prop_assert_eq!(metrics.span(), one.work());
        let most = in_flight(Family::ZbV, &one, 2).into_iter().max().unwrap();
        prop_assert!(most <= 2 * stages, "{} chunk activations", most);
    }

    /// With the same memory the heuristic is never worse than ZB-H1 where ZB-H1 is at its best.
    #[test]
    fn zb_1p_is_zb_h1(one in zero_bubble(|_, _, w| w)) {
        prop_assert!(replay(Family::Zb1p, &one, 1).span() <= one.zb_h1().unwrap());
    }

    /// Seq1F1B is 1F1B over segments; its dependencies over segments are kept by every order.
    #[test]
    fn seq1f1b(any in any_with(1), segments in 1..=5u32) {
        let k = u64::from(segments);
        let microbatches = any.microbatches.div_ceil(3);
        let pieces = Uniform { microbatches: microbatches * k, hop: Nanos(0), ..any };
        let (problem, _) = schedule(Family::OneFOneB, &pieces, 1, None);
        let problem = problem.with_segments(segments).unwrap();
        let schedule = Family::Seq1F1B.schedule(&problem).unwrap();
        let metrics = Replay::new().metrics(&schedule, problem.costs()).unwrap();
        let PassTimes { forward, backward_input, backward_weight, .. } = any.times;
        let times = PassTimes::new(forward * k, backward_input * k, backward_weight * k);
        let one = Uniform { microbatches, times, hop: Nanos(0), ..any };
        prop_assert_eq!(Some(metrics.makespan()), one.seq1f1b(k));
        let most = (0..one.stages).map(|stage| one.seq1f1b_in_flight(k, stage));
        let in_flight: Vec<u64> = peak_in_flight(&schedule).into_iter().map(u64::from).collect();
        prop_assert_eq!(in_flight, most.collect::<Vec<_>>());
        for order in schedule.orders() {
            let of = |kind| order.passes().iter().filter(move |pass| pass.kind == kind);
            prop_assert!(of(Kind::F).map(|pass| pass.microbatch).eq(0..schedule.shape().microbatches()));
            let backwards: Vec<u32> = of(Kind::BW).map(|pass| pass.microbatch).collect();
            for (i, whole) in (0..).zip(backwards.chunks(segments as usize)) {
                prop_assert!(whole.iter().copied().eq((i * segments..(i + 1) * segments).rev()));
            }
        }
    }

    /// The steady state of a pipeline that never flushes, and how often weights are updated while a
    /// microbatch is under way.
    #[test]
    fn pipedream(any in any_with(1), m in 1..=30u64) {
        let steady = SteadyState::of(any.stages, m);
        let run = Uniform { microbatches: m * u64::from(steady.updates()), ..any };
        let (problem, schedule) = schedule(Family::PipeDream, &run, 1, None);
        let timeline = Replay::new().timeline(&schedule, problem.costs()).unwrap();
        let metrics = steady.metrics(schedule.shape(), &timeline);
        let update = Uniform { microbatches: m, ..any };
        prop_assert_eq!(metrics.span(), update.pipedream());
        prop_assert_eq!(metrics.work(), update.work());
        for (stage, order) in (0..).zip(schedule.orders()) {
            prop_assert_eq!(versions(order, 1), run.pipedream_versions(stage));
            if m >= any.stages {
                prop_assert!(versions(order, m) <= 2);
            }
        }
    }

    #[test]
    fn dualpipe(half in 1..=6u64, more in 0..10u64, f in 0..40u64, b in 0..40u64, w in 0..40u64) {
        let times = PassTimes::new(Nanos(2 * f), Nanos(2 * b), Nanos(2 * w));
        let one = |stages, microbatches| Uniform { stages, microbatches, times, hop: Nanos(0) };
        let two_ends = one(2 * half, 4 * half + 2 * more);
        let metrics = replay(Family::DualPipe, &two_ends, 1);
        prop_assert_eq!(Some(metrics.makespan()), two_ends.dualpipe());
        prop_assert_eq!(Some(metrics.span()), two_ends.dualpipe());
        let most = vec![2 * half + 1; usize::try_from(2 * half).unwrap()];
        prop_assert_eq!(in_flight(Family::DualPipe, &two_ends, 1), most);
        let vee = one(half, 2 * half + more);
        let metrics = replay(Family::DualPipeV, &vee, 2);
        prop_assert_eq!(Some(metrics.makespan()), vee.dualpipe_v());
        prop_assert_eq!(Some(metrics.span()), vee.dualpipe_v());
        let most = vec![2 * half + 1; usize::try_from(half).unwrap()];
        prop_assert_eq!(in_flight(Family::DualPipeV, &vee, 2), most);
    }

    #[test]
    fn stp(any in any_with(2), more in 0..20u64) {
        let one = Uniform { microbatches: 3 * any.stages - 1 + more, hop: Nanos(0), ..any };
        let metrics = replay(Family::Stp, &one, 2);
        prop_assert_eq!(Some(metrics.makespan()), one.stp());
        prop_assert_eq!(Some(metrics.span()), one.stp());
        let most: Vec<u64> = (0..one.stages).map(|stage| one.stp_in_flight(stage)).collect();
        prop_assert_eq!(in_flight(Family::Stp, &one, 2), most);
        // Activations that W does not need: one more than published, the forward beside the last backward.
        let held = Footprint { until_backward: Bytes(1), until_weight: Bytes(0) };
        let (problem, schedule) = schedule(Family::Stp, &one, 2, Some(held));
        let memory = Memory::of(&schedule, problem.footprints()).unwrap();
        prop_assert!(memory.peak.iter().all(|peak| peak.0 == 3 * one.stages + 1));
    }

    #[test]
    fn chimera(half in 1..=6u64, units in 1..=4u64, b in 0..20u64, w in 0..20u64) {
        let times = PassTimes::new(Nanos(b + w), Nanos(b), Nanos(w));
        let (stages, microbatches) = (2 * half, 2 * half * units);
        let one = Uniform { stages, microbatches, times, hop: Nanos(0) };
        prop_assert_eq!(Some(replay(Family::Chimera, &one, 1).makespan()), one.chimera());
        let most: Option<Vec<u64>> = (0..stages).map(|stage| one.chimera_in_flight(stage)).collect();
        prop_assert_eq!(Some(in_flight(Family::Chimera, &one, 1)), most);
        // The published idle share, (p-2)/(2m+p-2).
        let (work, idle) = (one.work().0, one.chimera().unwrap().0 - one.work().0);
        prop_assert_eq!(idle * (2 * microbatches + stages - 2), (stages - 2) * (work + idle));
    }

    #[test]
    fn hanayo(stages in 1..=8u64, waves in 1..=3u64, units in 1..=4u64, b in 0..9u64, w in 0..9u64) {
        let chunks = 2 * waves;
        let times = PassTimes::new(Nanos(chunks * (b + w)), Nanos(chunks * b), Nanos(chunks * w));
        let one = Uniform { stages, microbatches: stages * units, times, hop: Nanos(0) };
        let makespan = replay(Family::Hanayo, &one, chunks).makespan();
        prop_assert_eq!(Some(makespan), one.hanayo(chunks));
        let most = (0..stages).map(|stage| one.hanayo_in_flight(chunks, stage));
        let in_flight = in_flight(Family::Hanayo, &one, chunks);
        prop_assert_eq!(Some(in_flight), most.collect());
    }

    /// The same for formulas that have a small domain: silent outside, right inside.
    #[test]
    fn formulas_of_paired_and_mirrored_schedules(any in any_with(2), few: bool) {
        let hop = if few { Nanos(0) } else { any.hop };
        let one = Uniform { hop, ..any };
        let even = Uniform { stages: 2 * one.stages.div_ceil(2), ..one };
        let even = Uniform { microbatches: 2 * even.stages + 2 * one.microbatches, ..even };
        let is = |formula: Option<Nanos>, cost: Nanos| formula.is_none_or(|nanos| nanos == cost);
        prop_assert!(is(even.dualpipe(), replay(Family::DualPipe, &even, 1).makespan()));
        prop_assert!(is(even.dualpipe_v(), replay(Family::DualPipeV, &even, 2).makespan()));
        prop_assert!(is(even.chimera(), replay(Family::Chimera, &even, 1).makespan()));
        prop_assert!(is(one.hanayo(2), replay(Family::Hanayo, &one, 2).makespan()));
        prop_assert_eq!(Uniform { stages: 3, ..even }.dualpipe(), None);
        prop_assert_eq!(Uniform { stages: 3, ..even }.chimera(), None);
    }
}

/// DualPipe of the published table, 8 stages and 20 microbatches of unit passes: 6 of 66 are idle.
#[test]
fn dualpipe_of_the_readme() {
    let unit = Nanos(1);
    let times = PassTimes::new(unit, unit, unit);
    let one = Uniform { stages: 8, microbatches: 20, times, hop: Nanos(0) };
    let metrics = replay(Family::DualPipe, &one, 1);
    assert_eq!((metrics.makespan(), metrics.work()), (Nanos(66), Nanos(60)));
}

proptest! {
    #![proptest_config(cases(150))]

    /// The spans have a domain; what is in flight is exact everywhere.
    #[test]
    fn v_min_and_v_half(stages in 1..=24u64, microbatches in 1..=60u64, unit in 0..50u64) {
        let pass = Nanos(2 * unit);
        let times = PassTimes::new(pass, pass, pass);
        let one = Uniform { stages, microbatches, times, hop: Nanos(0) };
        let most = |family| in_flight(family, &one, 2).into_iter().max();
        prop_assert_eq!(most(Family::VMin), Some(one.v_min_in_flight()));
        prop_assert_eq!(most(Family::VHalf), Some(one.v_half_in_flight()));
        for (barriers, family) in [(2, Family::VHalfVocab1), (1, Family::VHalfVocab2)] {
            prop_assert_eq!(most(family), Some(one.v_half_vocabulary_in_flight(barriers)));
        }
        let is = |family, formula: Option<Nanos>| {
            formula.is_none_or(|nanos| nanos == replay(family, &one, 2).span())
        };
        prop_assert!(is(Family::VMin, one.v_min()));
        prop_assert!(is(Family::VHalf, one.v_half()));
        let inside = stages >= 3 && microbatches >= stages + 2;
        prop_assert_eq!(inside, one.v_half().is_some());
    }

    #[test]
    fn v_adaptive(stages in 1..=7u64, more in 0..15u64, share in 0..=100u64, unit in 1..50u64) {
        let pass = Nanos(2 * unit);
        let times = PassTimes::new(pass, pass, pass);
        let one = Uniform { stages, microbatches: 2 * stages + more, times, hop: Nanos(0) };
        let least = 2 * ((stages + 4) / 3);
        let chunks = least + (2 * stages - least) * share / 100;
        let shape = Shape::new(stages, 2, one.microbatches).unwrap();
        let half = PassTimes::new(Nanos(unit), Nanos(unit), Nanos(unit));
        let problem = Problem::new(shape, Costs::uniform(shape, half, Nanos(0))).unwrap();
        let problem = problem.with_limit(Limit::Bytes(Bytes(chunks)));
        let schedule = Family::VAdaptive.schedule(&problem).unwrap();
        let span = Replay::new().metrics(&schedule, problem.costs()).unwrap().span();
        prop_assert_eq!(Some(span), one.v_adaptive(chunks));
        let most = peak_in_flight(&schedule).into_iter().max().map(u64::from);
        prop_assert_eq!(most, Some(chunks));
    }
}
