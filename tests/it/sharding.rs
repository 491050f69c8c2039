//! Collectives of parameters and gradients behind passes: what they add, what hides them, and what is refused.

use std::process::Command;

use pipeline::overlap::Contention;
use pipeline::sharding::{ParameterAct, ParameterOps, ParameterTimes, Reshard, Sharding, exposed};
use pipeline::{Costs, Kind, Nanos, Pass, Placement, Schedule, Shape, Timeline};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use sim::explain::Cause;
use sim::straggler::Stragglers;
use sim::timed::{self, Nominal};
use sim::{Details, Replay, Simulation};

use crate::bench::Bench;
use crate::cli::{refused, results, run, stdout};
use crate::draw::{self, cases};

fn sharding() -> impl Strategy<Value = Sharding> {
    let fsdp = (0..4u16, select(&Reshard::ALL[..]))
        .prop_map(|(prefetch, reshard)| Sharding::Fsdp { prefetch, reshard });
    prop_oneof![Just(Sharding::Optimizer), Just(Sharding::Gradients), fsdp]
}

fn parameter_times() -> impl Strategy<Value = Vec<[u64; 2]>> {
    prop::collection::vec([0..60u64, 0..60u64], 30)
}

/// `costs` whose collectives take `times`, chunk by chunk.
fn collecting(costs: Costs, shape: Shape, times: &[[u64; 2]], contention: Contention) -> Costs {
    let all = || times.iter().take(usize::from(shape.chunks()));
    let gather = all().map(|&[gather, _]| Nanos(gather)).collect();
    let reduce = all().map(|&[_, reduce]| Nanos(reduce)).collect();
    costs.with_parameters(ParameterTimes::new(gather, reduce).under(contention))
}

/// The times of all collectives of a step, one after the other, and how many there are.
fn all_collectives(schedule: &Schedule, costs: &Costs) -> (u64, u64) {
    let ops = schedule.parameter_ops().unwrap();
    let times = costs.parameters().unwrap();
    let stages = 0..schedule.shape().stages();
    let each = stages.flat_map(|stage| ops.stage(stage)).map(|op| times.of(op.act, op.chunk).0);
    (each.clone().sum(), each.count() as u64)
}

fn makespan(schedule: &Schedule, costs: &Costs) -> u64 {
    Replay::new().metrics(schedule, costs).unwrap().makespan().0
}

/// On a stage that never waits, what its collectives add by the formula, from the `plain` timeline.
fn by_formula(ops: &ParameterOps, costs: &Costs, plain: &Timeline) -> u64 {
    let (times, spans) = (costs.parameters().unwrap(), &plain.stages[0]);
    let end = spans.last().unwrap().end;
    let of_chunk = |chunk: u16| {
        spans.iter().filter(move |span| span.slot.passes().any(|pass| pass.chunk == chunk))
    };
    let adds = |pass: Pass| matches!(pass.kind, Kind::W | Kind::BW);
    let timed = |act| ops.stage(0).iter().filter(move |op| op.act == act);
    let gathers = timed(ParameterAct::Gather)
        .map(|op| (times.of(op.act, op.chunk), of_chunk(op.chunk).next().unwrap().start));
    let reduces = timed(ParameterAct::Reduce).rev().map(|op| {
        let mut own = spans.iter().rev();
        let last = own.find(|one| one.slot.passes().any(|p| p.chunk == op.chunk && adds(p)));
        (times.of(op.act, op.chunk), end - last.unwrap().end)
    });
    exposed(gathers).0 + exposed(reduces).0
}

proptest! {
    #![proptest_config(cases(120))]

    /// Without times they change nothing; with them no slot is earlier, and none waits for more than all of
    /// them one after the other.
    #[test]
    fn a_step_is_between_hidden_and_serial(
        (schedule, costs) in draw::schedule(),
        sharding in sharding(),
        times in parameter_times(),
    ) {
        let shape = schedule.shape();
        let plain = Replay::new().metrics(&schedule, &costs).unwrap();
        let timeline = Replay::new().timeline(&schedule, &costs).unwrap();
        let sharded = schedule.clone().sharded(sharding);
        let free = collecting(costs.clone(), shape, &[[0; 2]; 30], Contention::NONE);
        for costs in [&costs, &free] {
            prop_assert_eq!(&Replay::new().metrics(&sharded, costs).unwrap(), &plain);
            prop_assert_eq!(&Replay::new().timeline(&sharded, costs).unwrap(), &timeline);
        }
        let costs = collecting(costs, shape, &times, Contention::NONE);
        let with = Replay::new().metrics(&sharded, &costs).unwrap();
        let (all, _) = all_collectives(&sharded, &costs);
        prop_assert!(with.makespan() >= plain.makespan());
        prop_assert!(with.makespan().0 <= plain.makespan().0 + all);
        prop_assert!(with.span() >= plain.span());
        let later = Replay::new().timeline(&sharded, &costs).unwrap();
        for (later, sooner) in later.stages.iter().flatten().zip(timeline.stages.iter().flatten()) {
            prop_assert!(later.slot == sooner.slot && later.start >= sooner.start);
            prop_assert_eq!(later.end - later.start, sooner.end - sooner.start);
        }
        // A longer collective never makes a shorter step.
        let longer: Vec<[u64; 2]> = times.iter().map(|&[g, r]| [g + 7, r]).collect();
        let longer = collecting(costs, shape, &longer, Contention::NONE);
        prop_assert!(makespan(&sharded, &longer) >= with.makespan().0);
    }

    /// Streams that take from each other: more than without, less than everything one after the other;
    /// and the event engine does as replay does, as does a replay under no noise at all.
    #[test]
    fn contention_is_within_its_bounds(
        (schedule, costs) in draw::schedule(),
        sharding in sharding(),
        times in parameter_times(),
        (hold, slow) in (0..=1000u64, 1000..4000u64),
    ) {
        let shape = schedule.shape();
        let slow = slow.min(1_000_000 / hold.max(1)).max(1000);
        let contention = Contention::new(hold, slow).unwrap();
        let plain = collecting(costs.clone(), shape, &times, Contention::NONE);
        let costs = collecting(costs, shape, &times, contention);
        let sharded = schedule.sharded(sharding);
        let took = Replay::new().metrics(&sharded, &costs).unwrap();
        let (all, count) = all_collectives(&sharded, &costs);
        let slots: u64 = took.stages.iter().zip(sharded.orders()).map(|(_, order)| {
            order.slots().map(|slot| costs.of_slot(slot).0 + 2 * costs.hops().longest().0).sum::<u64>()
        }).sum();
        let barriers = costs.collectives();
        let barriers = barriers.broadcast.0 + barriers.statistics.0 + barriers.hidden_gradient.0;
        let serial = all + slots + barriers * u64::from(shape.microbatches());
        // Each end is rounded up.
        let rounded = 2 * count + sharded.passes() as u64;
        prop_assert!(took.makespan().0 <= serial + rounded);
        prop_assert!(took.makespan().0 >= makespan(&sharded, &plain));
        let (timeline, beside) =
            timed::record(&sharded, &Nominal(&costs), &Bench::ideal(sharded.clone(), costs.clone()).footprints);
        let run = Bench::ideal(sharded.clone(), costs.clone()).run();
        prop_assert_eq!(&run.timeline, &timeline);
        prop_assert_eq!(&run.parameters, &beside.parameters);
        let calm = Stragglers::new(shape.stages(), 1);
        prop_assert_eq!(timed::metrics(&sharded, &calm.sample(0, 0).timing(&costs)), took);
        for stage in 0..shape.stages() {
            let stream: Vec<_> = beside.parameters.iter().filter(|one| one.stage == stage).collect();
            prop_assert!(stream.windows(2).all(|two| two[0].end <= two[1].start));
            let ops = sharded.parameter_ops().unwrap().stage(stage);
            let timed = ops.iter().filter(|op| op.act != ParameterAct::Reshard);
            prop_assert!(stream.iter().map(|one| one.op).eq(timed.copied()));
        }
    }

    /// On one stage, which never waits, the distributed optimizer adds what its formula says.
    #[test]
    fn one_stage_has_a_closed_form(
        seed in any::<u64>(),
        (chunks, microbatches) in (1..=5u64, 1..=6u64),
        passes in prop::collection::vec([1..40u64, 1..40u64, 0..40u64], 30),
        times in parameter_times(),
    ) {
        let shape = Shape::new(1, chunks, microbatches).unwrap();
        let costs = passes.iter().take(usize::from(shape.chunks())).map(|&one| crate::bench::times(one));
        let costs = Costs::new(costs.collect(), Nanos(0));
        let schedule = draw::random(shape, Placement::Looped, true, seed);
        let plain = Replay::new().timeline(&schedule, &costs).unwrap();
        let sharded = schedule.sharded(Sharding::Optimizer);
        let costs = collecting(costs, shape, &times, Contention::NONE);
        let took = makespan(&sharded, &costs);
        let before = pipeline::Metrics::of(&plain).makespan().0;
        prop_assert_eq!(took, before + by_formula(sharded.parameter_ops().unwrap(), &costs, &plain));
    }

    /// The idle time of every stage is given to causes to the nanosecond, with hardware and without; what
    /// the collectives are given vanishes with their times.
    #[test]
    fn causes_add_up(
        (schedule, costs) in draw::schedule(),
        sharding in sharding(),
        times in parameter_times(),
        steps in 1..3u32,
    ) {
        let shape = schedule.shape();
        let costs = collecting(costs, shape, &times, Contention::new(200, 1500).unwrap());
        let mut bench = Bench::ideal(schedule.sharded(sharding), costs);
        bench.hardware.steps = steps;
        let plain = Simulation::new(&bench.schedule, &bench.costs, &bench.footprints);
        let details = Details { run: true, ..Details::default() };
        for simulation in [plain, plain.on(&bench.hardware)] {
            let study = simulation.study(details, &mut Replay::new()).unwrap();
            let run = study.kept.run().unwrap();
            let (causes, gaps) = simulation.causes_and_gaps(run, None).unwrap();
            prop_assert!(causes.collectives);
            if simulation.hardware().is_none() {
                prop_assert_eq!(causes.cost, study.metrics.span());
            }
            for (stage, idle) in causes.idle.iter().enumerate() {
                let waited = causes.cost.0 - causes.busy[stage].0;
                prop_assert_eq!(idle.iter().sum::<i64>(), i64::try_from(waited).unwrap());
                prop_assert_eq!(&gaps.of_stage(stage), idle);
            }
            let free = bench.costs.clone().without_parameters();
            let free = Simulation::new(&bench.schedule, &free, &bench.footprints);
            let run = free.record(None).unwrap();
            let causes = free.causes(&run, None).unwrap();
            prop_assert!(!causes.collectives);
            let cause = Cause::CollectivesNotHidden as usize;
            prop_assert!(causes.idle.iter().all(|idle| idle[cause] == 0));
        }
    }
}

const QUESTION: &str = "--stages 4 --microbatches 8 --chunks 2 --forward 10ms --backward-input 10ms \
                        --backward-weight 10ms";
const COLLECTIVES: &str = "--gather 8ms --reduce 12ms";

fn simulate(more: &str) -> Value {
    results(&format!("simulate --json --schedule 1f1b-i {QUESTION} {more}")).remove(0)
}

fn span(one: &Value) -> u64 {
    one["makespan_ns"].as_u64().unwrap()
}

#[test]
fn the_first_gather_and_the_last_reduction_are_not_hidden() {
    let plain = span(&simulate(""));
    assert_eq!(span(&simulate("--sharding none")), plain);
    let optimizer = simulate(&format!("--sharding optimizer {COLLECTIVES}"));
    // Of stage 0: the gather of its first chunk, 4 ms, and the reduction of the chunk that ends last, 6 ms.
    assert_eq!(span(&optimizer), plain + 10_000_000);
    let gathered = &optimizer["gathered_parameters"];
    assert_eq!(gathered["chunks"].to_string(), "[2,2,2,2]");
    assert_eq!(gathered["gathers"].to_string(), "[2,2,2,2]");
    assert!(gathered["peak_bytes"].is_null());
    let again = simulate(&format!(
        "--sharding fsdp --prefetch 0 --reshard after-use {COLLECTIVES} --parameter-bytes 6GiB"
    ));
    assert!(span(&again) > span(&optimizer), "gathered again at every change of the chunk");
    let gathered = &again["gathered_parameters"];
    assert_eq!(gathered["chunks"].to_string(), "[1,1,1,1]");
    assert_eq!(gathered["peak_bytes"][0].as_u64(), Some(3 << 30));
    let ahead =
        simulate(&format!("--sharding fsdp --prefetch 1 --reshard after-use {COLLECTIVES}"));
    assert_eq!(span(&ahead), span(&optimizer), "both chunks are held all the time");
    let slowed =
        simulate(&format!("--sharding optimizer {COLLECTIVES} --sharding-contention 0.5,1.5"));
    assert!(span(&slowed) > span(&optimizer));
    let divided = simulate(&format!("--sharding gradients {COLLECTIVES}"));
    assert_eq!(divided["gathered_parameters"]["reductions"][0], 16);
}

#[test]
fn a_cluster_and_several_steps_take_the_same() {
    let optimizer = format!("--sharding optimizer {COLLECTIVES}");
    let alone = simulate(&optimizer);
    for steps in [1, 3] {
        let on = simulate(&format!("{optimizer} --steps {steps}"));
        assert_eq!(on["span_ns"], alone["span_ns"], "{steps}");
        assert_eq!(on["busy_ns"], alone["busy_ns"]);
    }
    // What is told of a step on hardware begins with its first gather, and ends with its last reduction.
    let one = simulate(&format!("{optimizer} --steps 3"));
    assert_eq!(one["hardware"]["step_ns"], alone["makespan_ns"]);
}

#[test]
fn what_is_not_hidden_is_explained() {
    let line = format!(
        "simulate --schedule 1f1b-i {QUESTION} --sharding optimizer {COLLECTIVES} --explain"
    );
    let text = stdout(&run(&line));
    for words in ["collectives not hidden", "2 chunks of gathered parameters", "2 reductions"] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    let plain = stdout(&run(&format!("simulate --schedule 1f1b-i {QUESTION} --explain --json")));
    assert!(!plain.contains("collectives_not_hidden") && !plain.contains("gathered"));
    let why = results(&format!("{line} --json")).remove(0)["explain"].clone();
    let first = why["critical_path"][0]["waited_for"].as_str();
    assert_eq!(first, Some("the parameters of chunk 0"));
    let share = &why["stages"][0]["collectives_not_hidden_ns"];
    assert_eq!(share.as_i64(), Some(10_000_000));
}

#[test]
fn the_same_question_has_the_same_bytes_on_any_number_of_threads() {
    let ask = |threads: &str| {
        let line = format!(
            "simulate --json --schedule all {QUESTION} --sharding fsdp --reshard after-use \
             {COLLECTIVES} --sharding-contention 0.3,1.2 --jitter pass=lognormal:0.1 --replicas 20"
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        let command = command.args(line.split_whitespace()).env("RAYON_NUM_THREADS", threads);
        stdout(&command.output().unwrap())
    };
    assert_eq!(ask("1"), ask("3"));
}

#[test]
fn a_trace_has_a_row_for_collectives() {
    let path = std::env::temp_dir().join(format!("debubble-sharding-{}.json", std::process::id()));
    let line = format!(
        "simulate --schedule 1f1b-i {QUESTION} --sharding optimizer {COLLECTIVES} --trace {}",
        path.display()
    );
    stdout(&run(&line));
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of_parameters = events.iter().filter(|event| event["cat"] == "parameters");
    assert_eq!(of_parameters.count(), 4 * 4);
    let names = events.iter().filter_map(|event| event["args"]["name"].as_str());
    assert!(names.into_iter().any(|name| name == "collectives of stage 3"));
}

#[test]
fn what_cannot_be_is_refused_with_a_cure() {
    let simulate = format!("simulate --schedule 1f1b-i {QUESTION}");
    let optimizer = format!("--sharding optimizer {COLLECTIVES}");
    for (more, parts) in [
        ("--gather 1ms".to_owned(), &["gather is about parameters", "--sharding optimizer"][..]),
        ("--sharding optimizer".to_owned(), &["--gather, --reduce missing"][..]),
        ("--sharding fsdp --gather 1ms".to_owned(), &["--reduce missing"][..]),
        ("--sharding zero".to_owned(), &["write none, optimizer, gradients or fsdp"][..]),
        (format!("{optimizer} --prefetch 1"), &["prefetch is for --sharding fsdp"][..]),
        (format!("{optimizer} --reshard never"), &["reshard is for --sharding fsdp"][..]),
        (format!("--sharding fsdp {COLLECTIVES} --reshard soon"), &["never or after-use"][..]),
        (format!("{optimizer} --sharding-contention 2,1"), &["hold is a share"][..]),
        (format!("{optimizer} --gradient-reduction 1ms"), &["exclude each other"][..]),
        ("--sharding optimizer --gather 1ms,2ms,3ms --reduce 1ms".to_owned(), &["gather", "3"][..]),
        ("--sharding optimizer --gather -1ms --reduce 1ms".to_owned(), &["negative"][..]),
        ("--sharding optimizer --gather 9000000000s --reduce 1ms".to_owned(), &["too large"][..]),
        (format!("{optimizer} --seating 0,0,1,1 --steps 1"), &["a device for every stage"][..]),
        (format!("{optimizer} --parameter-bytes 1GiB,2GiB"), &["parameter-bytes"][..]),
    ] {
        refused(&run(&format!("{simulate} {more}")), parts);
    }
    let line = format!("simulate --schedule pipedream {QUESTION} {optimizer}");
    refused(&run(&line), &["never flushes", "leave sharding out"]);
    let execute = format!("execute --schedule 1f1b {QUESTION} {optimizer}");
    refused(&run(&execute), &["--sharding is for `debubble simulate`"]);
    let ignored = run(&format!("{simulate} --sharding none --gather 1ms"));
    assert!(
        String::from_utf8_lossy(&ignored.stderr).contains("nothing is sharded, gather is ignored")
    );
    assert_eq!(ignored.status.code(), Some(0));
}
