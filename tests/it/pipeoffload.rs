//! The schedules in memory of PipeOffload: GIS in any groups against its formulas and against what
//! the authors' generator makes; PO-H and PO-F against the rules of their copies.

use pipeline::closed_form::{Uniform, offload_ratio};
use pipeline::{
    Bytes, CopyPart, CopyPolicy, CopyTimes, Costs, Family, Fault, Footprint, Footprints, Nanos,
    PassTimes, Problem, Schedule, Shape, Slot, peak_in_flight,
};
use proptest::prelude::*;
use serde_json::Value;
use sim::occupancy::activation_peaks;
use sim::timed::{self, Nominal};
use sim::{HostCopy, Replay};

use crate::bench::Bench;
use crate::cli::{refused, results, run, stdout};
use crate::draw::{self, cases, copying, reference};

/// GIS in groups of `group` and its makespan, where a chunk takes 1/v of the times of `one`.
fn gis(one: &Uniform, chunks: u64, group: u64) -> (Schedule, Nanos) {
    let shape = Shape::new(one.stages, chunks, one.microbatches).unwrap();
    let PassTimes { forward, backward_input, backward_weight, .. } = one.times;
    let [forward, backward_input, backward_weight] =
        [forward, backward_input, backward_weight].map(|time| Nanos(time.0 / chunks));
    let times = PassTimes::new(forward, backward_input, backward_weight);
    let problem = Problem::new(shape, Costs::uniform(shape, times, one.hop)).unwrap();
    let schedule = Family::Gis.schedule(&problem.clone().with_group(group)).unwrap();
    let metrics = Replay::new().metrics(&schedule, problem.costs()).unwrap();
    (schedule, metrics.makespan())
}

fn uniform(sizes: [u64; 2], times: [u64; 3]) -> Uniform {
    let [forward, backward_input, backward_weight] = times.map(Nanos);
    Uniform {
        stages: sizes[0],
        microbatches: sizes[1],
        times: PassTimes::new(forward, backward_input, backward_weight),
        hop: Nanos(0),
    }
}

/// d, v, g, m, peak chunk activations, length in unit passes: rows of the authors' generator.
const REGENERATED: [[u64; 6]; 12] = [
    [4, 2, 2, 8, 6, 56],
    [4, 2, 3, 8, 7, 55],
    [4, 2, 4, 8, 8, 54],
    [4, 4, 3, 8, 13, 105],
    [6, 3, 5, 12, 16, 124],
    [8, 4, 5, 16, 23, 233],
    [8, 4, 8, 16, 32, 206],
    [16, 3, 10, 32, 36, 354],
    [16, 4, 13, 32, 55, 435],
    [4, 2, 1, 8, 7, 72],
    [8, 3, 1, 16, 16, 207],
    [16, 4, 1, 32, 43, 582],
];

fn check_row([d, v, g, m, peak, length]: [u64; 6]) {
    let one = uniform([d, m], [v; 3]);
    let (schedule, makespan) = gis(&one, v, g);
    let in_flight = peak_in_flight(&schedule);
    let most = in_flight.iter().copied().map(u64::from).max();
    assert_eq!(most, Some(peak), "d={d} v={v} g={g} m={m}");
    assert_eq!(u64::from(in_flight[0]), peak, "stage 0 holds most");
    if 2 * g >= d {
        assert_eq!(makespan, Nanos(length), "d={d} v={v} g={g} m={m}");
    } else {
        // The published length is that of the uniform repetition, with its gaps.
        assert_eq!(one.gis_repetition(v, g), Some(length), "d={d} v={v} g={g} m={m}");
        assert!(makespan < Nanos(length));
    }
}

#[test]
fn what_the_authors_generator_makes() {
    REGENERATED.into_iter().for_each(check_row);
}

#[test]
fn every_row_of_the_reference_table() {
    let Some(table) = reference("pipeoffload_gis_regenerated.csv") else { return };
    let mut rows = 0;
    for line in table.lines().skip(1) {
        let numbers: Vec<u64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        check_row([numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[7]]);
        rows += 1;
    }
    assert!(rows > 0);
}

#[test]
fn groups_that_cannot_be() {
    let shape = Shape::new(4, 2, 8).unwrap();
    let times = PassTimes::default();
    let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).unwrap();
    for group in [0, 5, u64::MAX] {
        let fault = Family::Gis.schedule(&problem.clone().with_group(group)).unwrap_err();
        assert!(matches!(fault, Fault::Needs { key: "group", .. }), "{fault:?}");
        assert!(fault.to_string().contains(&format!("1 to p = 4 microbatches, not {group}")));
        assert!(Family::GisH.schedule(&problem.clone().with_group(group)).is_ok());
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// Formulas are right or silent, and they speak in the domain they state.
    #[test]
    fn formulas(
        stages in 1..=9u64,
        chunks in 1..=4u64,
        group in 1..=9u64,
        groups in 1..=5u64,
        [w, f, b] in [0..9u64, 0..9u64, 0..9u64],
        near: bool,
    ) {
        let group = group.min(stages);
        let [f, b] = if near { [w + f, w + f + b.min(w)] } else { [f, b] };
        let times = [f, b, w].map(|time| time * chunks);
        let one = uniform([stages, group * groups], times);
        let (schedule, makespan) = gis(&one, chunks, group);
        let formula = one.gis(chunks, group);
        prop_assert!(formula.is_none_or(|formula| formula == makespan), "{:?}", formula);
        let half = 2 * group == stages && groups >= 2 && near;
        prop_assert!(formula.is_some() || (group != stages && !half));
        for (stage, count) in (0..).zip(peak_in_flight(&schedule)) {
            let formula = one.gis_in_flight(chunks, group, stage);
            prop_assert_eq!(formula.is_some(), 2 * group >= stages);
            prop_assert!(formula.is_none_or(|most| most == u64::from(count)));
        }
    }

    /// Any group, any m: there is an order, and it is never longer than its repetition.
    #[test]
    fn every_group_has_an_order(
        stages in 1..=17u64,
        chunks in 1..=6u64,
        group in 1..=17u64,
        microbatches in 1..=40u64,
    ) {
        let group = group.min(stages);
        let one = uniform([stages, microbatches], [chunks; 3]);
        let (_, makespan) = gis(&one, chunks, group);
        let repetition = one.gis_repetition(chunks, group);
        prop_assert!(repetition.is_none_or(|length| makespan.0 <= length));
    }
}

/// Chunk activations on the device of each stage that has most, and the makespan.
fn on_device(schedule: &Schedule, problem: &Problem) -> (u64, Nanos) {
    let timing = Nominal(problem.costs());
    let timeline = timed::timeline(schedule, &timing);
    let copies = timed::host_copies(schedule, &timing, problem.footprints());
    let peaks = activation_peaks(schedule, &timeline, &copies, problem.footprints()).unwrap();
    let metrics = pipeline::Metrics::of(&timeline);
    (peaks.into_iter().max().unwrap().0, metrics.makespan())
}

/// `one` over v chunks whose copies take k times a chunk's passes, there and back, in thousandths.
fn offloading(one: &Uniform, chunks: u64, k: u64) -> Problem {
    let shape = Shape::new(one.stages, chunks, one.microbatches).unwrap();
    let part = |time: Nanos| Nanos(time.0 / chunks);
    let PassTimes { forward, backward_input, backward_weight, .. } = one.times;
    let times = PassTimes::new(part(forward), part(backward_input), part(backward_weight));
    let work = times.forward + times.backward_input + times.backward_weight;
    let way = work.0 * k / 2000;
    let costs = copying(Costs::uniform(shape, times, one.hop), shape, [way, way]);
    Problem::new(shape, costs).unwrap()
}

proptest! {
    #![proptest_config(cases(40))]

    /// Table 1 where F = B = W: PO-H keeps about (v+2)/(8v) M, PO-F about 4 whatever p, and both have
    /// less bubble than 1F1B.
    #[test]
    fn memory_and_bubble_of_table_1(stages in 2..=24u64, chunks in 2..=8u64, unit in 100..2000u64) {
        let one = uniform([stages, 4 * stages], [unit * chunks; 3]);
        let problem = offloading(&one, chunks, 0);
        let (peak, makespan) = on_device(&Family::PoH.schedule(&problem).unwrap(), &problem);
        let average = one.po_h_on_device(chunks);
        prop_assert!(average <= peak as f64 && peak as f64 <= average + 3.0, "{peak} {average}");
        prop_assert!(makespan < one.po_bound().unwrap());
        if chunks % 2 == 0 && stages % 2 == 0 {
            let published = (chunks + 2) as f64 / (8 * chunks) as f64 * (stages * chunks) as f64;
            prop_assert!((average - published).abs() < 1e-9);
        }
        let problem = offloading(&one, chunks, 700);
        let (peak, makespan) = on_device(&Family::PoF.schedule(&problem).unwrap(), &problem);
        prop_assert!((2..=5).contains(&peak), "{peak}");
        prop_assert!(makespan < one.po_bound().unwrap());
    }

    /// For all times: no backward waits for a copy, so the step is that of GIS; what leaves is
    /// planned by the rules; slower copies never let more leave than the copy stream has time for; and
    /// the engine does as replay does.
    #[test]
    fn copies_keep_their_rules(
        stages in 1..=7u64,
        chunks in 1..=4u64,
        microbatches in 1..=12u64,
        times in prop::collection::vec([0..40u64, 0..40u64, 0..40u64], 28),
        hop in 0..20u64,
        [out, back] in [0..120u64, 0..120u64],
        group in 1..=7u64,
        part in 1..=1000u32,
        full: bool,
    ) {
        let shape = Shape::new(stages, chunks, microbatches).unwrap();
        let passes = times.iter().take(usize::from(shape.chunks()));
        let costs = Costs::new(passes.map(|&one| crate::bench::times(one)).collect(), Nanos(hop));
        let costs = copying(costs, shape, [out, back]);
        let part = CopyPart::new(part).unwrap();
        let held = Footprint { until_backward: Bytes(1000), until_weight: Bytes(700) };
        let problem = Problem::new(shape, costs.clone()).unwrap().with_group(group.min(stages));
        let problem = problem.with_offload_part(part);
        let problem = problem.with_footprints(Footprints::uniform(shape, held)).unwrap();
        let family = if full { Family::PoF } else { Family::PoH };
        let schedule = family.schedule(&problem).unwrap();
        let plain = Family::Gis.schedule(&problem).unwrap();
        prop_assert_eq!(schedule.orders(), plain.orders());
        let timeline = Replay::new().timeline(&schedule, &costs).unwrap();
        prop_assert_eq!(&timeline, &Replay::new().timeline(&plain, &costs).unwrap());
        let copies = timed::host_copies(&schedule, &Nominal(&costs), problem.footprints());
        prop_assert_eq!(copies.len(), schedule.copies().map_or(0, |copies| copies.count()));
        let trip = part.of_time(Nanos(out)) + part.of_time(Nanos(back));
        for copy in &copies {
            check_copy(&timeline, copy, trip)?;
            prop_assert_eq!(copy.bytes, part.of_bytes(Bytes(1000)));
        }
        for stage in 0..shape.stages() {
            let of_stage = copies.iter().filter(|copy| copy.stage == stage);
            let mut stream: Vec<_> = of_stage.flat_map(|copy| [copy.out, copy.back]).collect();
            stream.sort();
            prop_assert!(stream.windows(2).all(|two| two[0][1] <= two[1][0]));
        }
        let peaks = activation_peaks(&schedule, &timeline, &copies, problem.footprints()).unwrap();
        let kept = activation_peaks(&plain, &timeline, &[], problem.footprints()).unwrap();
        prop_assert!(peaks.iter().zip(&kept).all(|(with, without)| with <= without));
        let text = schedule.to_string();
        prop_assert_eq!(text.parse::<Schedule>().map(|read| read.to_string()), Ok(text.clone()));
        let bench = Bench::ideal(schedule, costs).holding(1000, 700);
        let run = bench.run();
        prop_assert_eq!(&run.timeline, &timeline);
        let mut engine = run.copies;
        engine.sort_by_key(|copy| (copy.out, copy.stage, copy.pass));
        prop_assert_eq!(engine, copies);
    }

    /// Any order with copies called back late: replay and engine agree, and nothing is faster than
    /// without.
    #[test]
    fn engine_and_replay_agree_where_backwards_wait(
        (schedule, costs) in draw::schedule(),
        [out, back] in [0..60u64, 0..60u64],
        ahead in 0..4u32,
        per_mille in 1..=1000u32,
        max_inflight in proptest::option::of(0..4u32),
    ) {
        let shape = schedule.shape();
        let costs = copying(costs, shape, [out, back]);
        let plain = Replay::new().metrics(&schedule, &costs).unwrap().makespan();
        let (part, without) = (CopyPart::new(per_mille).unwrap(), schedule.clone());
        let overlapped = schedule.clone().offloaded(part, ahead);
        let overlapped = Replay::new().metrics(&overlapped, &costs).unwrap().makespan();
        let schedule = schedule.offloaded(CopyPolicy { part, max_inflight }, ahead);
        if let Some(copies) = schedule.copies() {
            // What is made to be valid is valid.
            let again = schedule.clone().with_copies(copies.policy(), copies.stages().to_vec());
            prop_assert_eq!(again.as_ref(), Ok(&schedule));
        }
        let text = schedule.to_string();
        prop_assert_eq!(text.parse::<Schedule>().map(|read| read.to_string()), Ok(text.clone()));
        let replayed = Replay::new().timeline(&schedule, &costs).unwrap();
        let makespan = pipeline::Metrics::of(&replayed).makespan();
        prop_assert!(makespan >= overlapped && overlapped >= plain);
        if let Some(most) = max_inflight {
            check_in_flight((&schedule, &without), &costs, &replayed, (most, ahead))?;
        }
        prop_assert_eq!(&Bench::ideal(schedule.clone(), costs.clone()).run().timeline, &replayed);
        let free = costs.with_copies(Vec::new());
        let free = Replay::new().metrics(&schedule, &free).unwrap();
        prop_assert_eq!(free.makespan(), plain, "copies that take no time");
    }
}

/// With at most `most` copies out in flight: when a slot begins, all but the last `most` copies of earlier forwards of its
/// stage have ended. So a stage holds, of what is copied, at most `most` + 1 activations on their way out, and those
/// whose backward is at most `ahead` + 1 slots away; `plain` are its peaks without copies, of 1000 bytes each.
fn check_in_flight(
    (schedule, plain): (&Schedule, &Schedule),
    costs: &Costs,
    timeline: &pipeline::Timeline,
    (most, ahead): (u32, u32),
) -> Result<(), TestCaseError> {
    let Some(part) = schedule.copies().map(pipeline::Copies::part) else { return Ok(()) };
    let held = Footprint { until_backward: Bytes(1000), until_weight: Bytes(0) };
    let footprints = Footprints::uniform(schedule.shape(), held);
    let copies = timed::host_copies(schedule, &Nominal(costs), &footprints);
    for (stage, spans) in timeline.stages.iter().enumerate() {
        let forward = |copy: &HostCopy| {
            spans.iter().position(|span| span.slot.passes().any(|pass| pass == copy.pass))
        };
        let mut out: Vec<_> = copies.iter().filter(|copy| copy.stage == stage).collect();
        out.sort_by_key(|copy| forward(copy));
        for (at, span) in spans.iter().enumerate() {
            let ended = out.iter().take_while(|copy| forward(copy) < Some(at)).count();
            let joined = ended.saturating_sub(most as usize);
            prop_assert!(out[..joined].iter().all(|copy| copy.out[1] <= span.start));
        }
    }
    let peaks = activation_peaks(schedule, timeline, &copies, &footprints).unwrap();
    let kept = pipeline::Memory::of(plain, &footprints).unwrap().peak;
    // The slot that runs, and each of those with such a backward, may be a pair of two forwards or two backwards.
    let passes = if schedule.orders().iter().all(pipeline::Order::is_unpaired) { 1 } else { 2 };
    let (copied, near) = (part.of_bytes(Bytes(1000)).0, u64::from(most + passes * (ahead + 3)));
    for (peak, kept) in peaks.iter().zip(kept) {
        prop_assert!(peak.0 <= kept.0 / 1000 * (1000 - copied) + near * copied, "{peak} {kept}");
    }
    Ok(())
}

/// Out after the forward, back a backward's time before the backward, and enough time between.
fn check_copy(
    timeline: &pipeline::Timeline,
    copy: &HostCopy,
    trip: Nanos,
) -> Result<(), TestCaseError> {
    let span = |wanted: pipeline::Pass| {
        let mut spans = timeline.stages[copy.stage].iter();
        *spans.find(|span| span.slot == Slot::One(wanted)).unwrap()
    };
    let backward = pipeline::Pass { kind: pipeline::Kind::B, ..copy.pass };
    let (forward, backward) = (span(copy.pass), span(backward));
    let length = backward.end - backward.start;
    prop_assert!(forward.end <= copy.out[0] && copy.out[1] <= copy.back[0]);
    prop_assert!(copy.back[1] + length <= backward.start);
    prop_assert!((backward.start - length - forward.end).0 > 3 * trip.0);
    Ok(())
}

#[test]
fn slow_copies_leave_activations_where_they_are() {
    let one = uniform([8, 32], [4000; 3]);
    let count = |k: u64| {
        let problem = offloading(&one, 4, k);
        let schedule = Family::PoF.schedule(&problem).unwrap();
        schedule.copies().map_or(0, |copies| copies.count())
    };
    let counts: Vec<usize> = [0, 500, 1000, 1500, 2000, 4000, 100_000].map(count).to_vec();
    assert!(counts.is_sorted_by(|more, less| more >= less), "{counts:?}");
    assert!(counts[0] > 32 * 8 * 4 * 9 / 10 && counts[6] == 0, "{counts:?}");
}

#[test]
fn what_po_needs() {
    let shape = Shape::new(4, 2, 8).unwrap();
    let problem = Problem::new(shape, crate::bench::uniform(shape, [10; 3], 0)).unwrap();
    for family in [Family::PoH, Family::PoF] {
        let fault = family.schedule(&problem).unwrap_err();
        assert!(matches!(fault, Fault::Needs { key: "offload-time", .. }), "{fault:?}");
    }
    let costs = problem.costs().clone().with_copies(vec![CopyTimes::default(); 8]);
    let problem = problem.with_costs(costs).unwrap();
    for chunks in [0, 3, u64::MAX] {
        let fault = Family::PoH.schedule(&problem.clone().with_offload_chunks(chunks)).unwrap_err();
        assert!(matches!(fault, Fault::Needs { key: "offload-chunks", .. }), "{fault:?}");
    }
    let chosen = Family::PoH.schedule(&problem.clone().with_offload_chunks(2)).unwrap();
    assert_eq!(Ok(chosen), Family::PoF.schedule(&problem));
    let fault = Family::PoF.schedule(&problem.with_group(5)).unwrap_err();
    assert!(matches!(fault, Fault::Needs { family: "po-f", key: "group", .. }), "{fault:?}");
}

#[test]
fn k_of_a_layer() {
    let k = |hidden: f64, seq: f64| offload_ratio(hidden, seq, 220e12, 15e9);
    // 2 x 20 b s h bytes over 15 GB/s, over 12 b s h (6h+s) FLOPs at 220 TFLOP/s.
    let (h, s) = (5120.0, 8192.0);
    let direct = 40.0 * s * h / 15e9 / (12.0 * s * h * (6.0 * h + s) / 220e12);
    assert!((k(h, s) - direct).abs() < 1e-12);
    assert!((k(4096.0, 4096.0) - 1.7051).abs() < 5e-5);
}

const QUESTION: &str = "simulate --stages 4 --microbatches 8 --forward 2ms --backward-input 2ms \
                        --backward-weight 2ms";

#[test]
fn keys_that_cannot_be() {
    let ask = |rest: &str| run(&format!("{QUESTION} --schedule po-h {rest}"));
    for (rest, words) in [
        ("", "po-h needs the time of a copy to the host: --offload-time"),
        ("--offload-ratio NaN", "write a number from 0 to 1000"),
        ("--offload-ratio -1", "write a number from 0 to 1000"),
        ("--offload-ratio 1e300", "write a number from 0 to 1000"),
        ("--host-bandwidth 0B/s", "it must be from 1 B/s"),
        ("--host-bandwidth 15GB/s", "host-bandwidth needs the bytes of activations"),
        ("--offload-time 1", "1"),
        ("--offload-time 1ms,2ms,3ms", "offload-time has 3 values"),
        ("--offload-time 1ms --offload-ratio 1", "exclude each other"),
        ("--offload-ratio 1 --devices-per-host-link 3", "devices-per-host-link is 1 or 2, not 3"),
        ("--offload-ratio 1 --offload-chunks 3", "needs 1 to v = 2 chunks"),
        ("--offload-ratio 1 --offload 0", "a part of the activations above 0"),
        ("--offload-ratio 1 --offload 0.5", "where their sizes are known"),
    ] {
        refused(&ask(rest), &[words]);
    }
    // Where copies take for ever, nothing leaves.
    let long = "--schedule po-h --offload-time 999999s --json";
    assert!(results(&format!("{QUESTION} {long}"))[0].get("host_copies").is_none());
}

#[test]
fn memory_with_copies_is_in_every_answer() {
    let ask = |rest: &str| {
        results(&format!(
            "{} --activation 1GiB --json {rest}",
            QUESTION.replace("microbatches 8", "microbatches 16")
        ))
    };
    let peak = |one: &serde_json::Value| one["peak_activation_bytes"][0].as_u64().unwrap();
    let plain = &ask("--chunks 4 --schedule gis --group 1")[0];
    let fast = &ask("--chunks 4 --schedule po-f --host-bandwidth 1000GB/s")[0];
    let slow = &ask("--chunks 4 --schedule po-f --host-bandwidth 300GB/s")[0];
    assert_eq!(fast["span_ns"], plain["span_ns"]);
    assert!(peak(fast) < peak(slow) && peak(slow) < peak(plain), "{fast} {slow} {plain}");
    // The same time, said in three ways: 1 GiB over 1 GiB/ms is 1 ms, of 6 ms of passes.
    let bytes = &ask("--chunks 4 --schedule po-h --host-bandwidth 1024GiB/s")[0];
    let time = &ask("--chunks 4 --schedule po-h --offload-time 976563ns")[0];
    assert_eq!(bytes["peak_activation_bytes"], time["peak_activation_bytes"]);
    let ratio = &ask("--chunks 4 --schedule po-h --offload-ratio 0.3255208")[0];
    assert_eq!(ratio["peak_activation_bytes"], time["peak_activation_bytes"]);
    // A link of its own is faster; half of an activation leaves half of the memory that leaves.
    let own =
        &ask("--chunks 4 --schedule po-f --host-bandwidth 300GB/s --devices-per-host-link 1")[0];
    assert!(peak(own) <= peak(slow));
    let half = &ask("--chunks 4 --schedule po-f --host-bandwidth 1000GB/s --offload 0.5")[0];
    assert_eq!(half["host_copies"]["part"], 0.5);
    assert!(peak(fast) < peak(half) && peak(half) < peak(plain));
    // Any order can copy, on its own terms.
    let other = &ask("--schedule gpipe --offload-ratio 0.1 --offload 1")[0];
    assert!(peak(other) < 8 << 30, "{other}");
}

#[test]
fn copies_are_run() {
    let short = "--stages 2 --microbatches 6 --forward 2ms --backward-input 2ms \
                 --backward-weight 2ms --offload-time 500us --chunks 2 --schedule po-f,po-h";
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let ran = results(&format!("execute {short} --steps 1 --json"));
    let simulated = results(&format!("simulate {short} --json"));
    for (ran, simulated) in ran.iter().zip(&simulated) {
        assert!(ran["host_copies"]["activations"].as_u64().unwrap() > 0, "{ran}");
        assert_eq!(ran["makespan_ns"], simulated["makespan_ns"]);
        assert!(ran["measured"]["makespan_ns"].as_u64() >= ran["makespan_ns"].as_u64());
    }
    let one = short.replace("po-f,po-h", "po-f");
    let (trace, timeline) = (path("trace.json"), path("timeline.json"));
    let svg = path("both.svg");
    let files = format!("--trace {trace} --timeline {timeline} --svg {svg}");
    stdout(&run(&format!("execute {one} --steps 1 {files}")));
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("copies of stage 1") && trace.contains("\"cat\":\"copy\""));
    let predicted = path("predicted.json");
    stdout(&run(&format!("simulate {one} --gantt never --timeline {predicted}")));
    stdout(&run(&format!("compare {predicted} {timeline}")));
    let cuda = run(&format!("execute {one} --device cuda"));
    assert!(!cuda.status.success());
}

#[test]
fn a_model_is_trained_with_copies_in_the_memory_that_was_planned() {
    // The last stage holds the logits of the output layer: stages differ.
    let model = "--device cpu --stages 2 --microbatches 8 --hidden 16 --heads 2 --seq 8 --layers 8 \
                 --vocabulary 64 --chunks 4";
    let flags = "--schedule gis,po-h,po-f --offload-ratio 0.1 --check=device --steps 2 --json";
    let place = ["", "--processes"];
    for place in place {
        let ran = results(&format!("execute {model} {flags} {place}"));
        let peak = |one: &Value, key: &str| -> Vec<u64> {
            one["measured"][key].as_array().unwrap().iter().map(|b| b.as_u64().unwrap()).collect()
        };
        for one in &ran {
            let check = &one["measured"]["check"];
            // In f32 on the same device: the same numbers but for the sum of losses over stages.
            assert_eq!(check["gradient_error"].as_f64(), Some(0.0), "{check}");
            assert_eq!(check["loss_error"].as_f64(), Some(0.0), "{check}");
            let held = peak(one, "peak_activation_bytes");
            match one["host_copies"].is_null() {
                true => assert_eq!(
                    one["peak_activation_bytes"],
                    one["measured"]["peak_activation_bytes"]
                ),
                false => assert_eq!(held, peak(one, "planned_peak_activation_bytes")),
            }
        }
        let most = |one: &Value| peak(one, "peak_activation_bytes").into_iter().max();
        assert!(most(&ran[1]) < most(&ran[0]) && most(&ran[2]) <= most(&ran[1]), "{place}");
    }
    let said =
        stdout(&run(&format!("execute {model} --schedule po-f --offload-ratio 0.1 --steps 1")));
    assert!(said.contains("of activations on a stage, as planned on every stage"), "{said}");
}

#[test]
fn what_is_exported() {
    let short = "--stages 4 --microbatches 8 --forward 2ms --backward-input 2ms \
                 --backward-weight 2ms --offload-ratio 0.5 --chunks 2";
    let text = stdout(&run(&format!("export {short} --schedule po-f")));
    assert!(text.lines().all(|line| line.contains(" | O")), "{text}");
    let trace = stdout(&run(&format!("export --format chrome {short} --schedule po-f")));
    assert!(trace.contains("copies of stage 3") && trace.contains("\"cat\":\"copy\""));
    let lone = run(&format!("{QUESTION} --schedule 1f1b --offload 0.5 --activation 1GiB"));
    refused(&lone, &["links to the host", "--offload-time"]);
}

/// With chunks on the host, one microbatch alone takes less than its activations.
#[test]
fn limits_below_the_activations_of_a_microbatch_suit_orders_that_copy() {
    let question = "--stages 2 --microbatches 6 --chunks 4 --forward 30ms --backward-input 30ms \
                    --backward-weight 20ms --activation 4GiB --offload-ratio 0.7";
    let under = |limit: &str, schedule: &str| {
        format!("simulate {question} --schedule {schedule} --memory-limit {limit}")
    };
    let fits = &results(&(under("3GiB", "po-f") + " --json"))[0]["fits"];
    assert_eq!(fits, true);
    let cause = "but one microbatch alone takes 1GiB on stage 0";
    refused(&run(&under("1023MiB", "po-f")), &[cause, "at least 1GiB"]);
    refused(&run(&under("3GiB", "gis")), &["at least 4GiB, without copies to the host"]);
    // A search that may copy keeps the order that it finds; one that may not names copies.
    let folder = tempfile::tempdir().unwrap();
    let [scenario, order] = ["best.toml", "best.txt"].map(|name| folder.path().join(name));
    let [scenario, order] = [scenario, order].map(|path| path.display().to_string());
    let search = format!("search {question} --placement looped --memory-limit 3GiB");
    let varied = format!("{search} --layers 8 --vary offload --effort 0");
    let found = results(&format!("{varied} --json --export-scenario {scenario} --export {order}"));
    let again = results(&format!("simulate {scenario} --schedule {order} --json"));
    assert_eq!((&again[0]["span_ns"], &again[0]["fits"]), (&found[0]["cost_ns"], &true.into()));
    refused(&run(&search), &["at least 4GiB, without copies to the host"]);
}
