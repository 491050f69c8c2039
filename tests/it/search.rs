//! The search: no schedule that breaks a limit, none worse than a published one, none below the
//! bound, the same on any number of threads, and the best so far when it is stopped.

use std::fs;

use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Limit, Limits, Memory, Nanos, PassTimes,
    Placement, Problem, Schedule, Shape,
};
use proptest::prelude::*;
use search::{Effort, Found, Instance, Objective, SearchError, search};
use serde_json::Value;
use sim::Replay;

use crate::cli::{refused, results, run, stdout};
use crate::draw;

/// A pipeline with unequal stages under limits that at least one microbatch fits.
fn instance() -> impl Strategy<Value = Instance> {
    let shape = (1..5u64, 1..4u64, 1..9u64, any::<bool>(), any::<bool>());
    shape.prop_flat_map(|(p, v, m, vee, makespan)| {
        let chunks = usize::try_from(p * v).unwrap();
        let times = (1..40u64, 1..40u64, 0..40u64, 0..9u64);
        let sizes = (1..60u64, 0..60u64);
        let each = (
            proptest::collection::vec(times, chunks),
            proptest::collection::vec(sizes, chunks),
            draw::hops(Shape::new(p, v, m).unwrap()),
            proptest::option::of(0..200u64),
        );
        each.prop_map(move |(times, sizes, hops, more)| {
            let shape = Shape::new(p, v, m).unwrap();
            let placement = if vee { Placement::Vee } else { Placement::Looped };
            let times = times.into_iter().map(|(f, b, w, quarters)| PassTimes {
                // Between the longer of B and W and both, as trainers have it; half of the time unknown.
                backward: (2 * quarters < 9).then(|| Nanos(b.max(w) + b.min(w) * quarters / 4)),
                ..PassTimes::new(Nanos(f), Nanos(b), Nanos(w))
            });
            let sizes = sizes.into_iter().map(|(until_backward, until_weight)| Footprint {
                until_backward: Bytes(until_backward),
                until_weight: Bytes(until_weight),
            });
            let costs = Costs::new(times.collect(), Nanos(0)).with_hops(hops);
            let footprints = Footprints::new(sizes.collect());
            let objective = if makespan { Objective::Makespan } else { Objective::Span };
            let free = Instance::new(shape, placement, costs, footprints, None, objective).unwrap();
            let least = search::bounds::smallest_limit(&free);
            let limits = more.map(|more| {
                let limits: Vec<Bytes> = least.iter().map(|one| Bytes(one.0 + more)).collect();
                Limits::new(shape, &limits).unwrap()
            });
            Instance { limits, ..free }
        })
    })
}

fn found(instance: &Instance, seed: u64) -> Found {
    let effort = Effort { times: Some(0), seed };
    search(instance, effort, |_| {}, &|| false).unwrap()
}

fn cost(instance: &Instance, schedule: &Schedule) -> Nanos {
    instance.objective.of(&Replay::new().metrics(schedule, &instance.costs).unwrap())
}

fn fits(instance: &Instance, schedule: &Schedule) -> bool {
    let memory = Memory::of(schedule, &instance.footprints).unwrap();
    instance.limits.as_ref().is_none_or(|limits| memory.over(limits).is_none())
}

/// The published schedules of the same placement that fit, with what they cost.
fn published(instance: &Instance) -> Vec<(Family, Nanos)> {
    let problem = Problem::new(instance.shape, instance.costs.clone()).unwrap();
    let mut problem = problem.with_footprints(instance.footprints.clone()).unwrap();
    if let Some(limits) = &instance.limits {
        let limits: Vec<Limit> = limits.by_stage().iter().copied().map(Limit::Bytes).collect();
        problem = problem.with_limits(&limits).unwrap();
    }
    let families = Family::ALL.into_iter().filter_map(|family| {
        let schedule = family.schedule(&problem).ok()?;
        let same = schedule.placement() == instance.placement
            && schedule.shape() == instance.shape
            && family != Family::Seq1F1B;
        (same && fits(instance, &schedule)).then(|| (family, cost(instance, &schedule)))
    });
    families.collect()
}

fn short(times: u64) -> Effort {
    Effort { times: Some(times), seed: 7 }
}

proptest! {
    #![proptest_config(draw::cases(60))]

    #[test]
    fn what_is_found_fits_and_lies_between_the_bound_and_what_was_published(
        instance in instance(),
    ) {
        let found = search(&instance, short(0), |_| {}, &|| false).unwrap();
        prop_assert_eq!(cost(&instance, &found.schedule), found.cost);
        prop_assert!(fits(&instance, &found.schedule));
        prop_assert!(found.cost >= found.bound.cost);
        prop_assert!(found.history.windows(2).all(|two| two[0].1 >= two[1].1));
        for (family, cost) in published(&instance) {
            prop_assert!(found.cost <= cost, "{}: {cost} beats {}", family.name(), found.cost);
        }
    }
}

proptest! {
    #![proptest_config(draw::cases(12))]

    #[test]
    fn more_effort_is_no_worse_and_threads_change_nothing(instance in instance(), seed in 0..4u64) {
        let effort = Effort { times: Some(1), seed };
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| search(&instance, effort, |_| {}, &|| false).unwrap())
        };
        let (one, three) = (on(1), on(3));
        prop_assert_eq!(&one, &three);
        prop_assert!(fits(&instance, &one.schedule));
        prop_assert_eq!(cost(&instance, &one.schedule), one.cost);
        prop_assert!(one.cost >= one.bound.cost);
        prop_assert!(one.cost <= found(&instance, seed).cost);
    }
}

/// A setting of the paper's table 5, with a limit of `limit` p.
fn paper(p: u64, m: u64, [f, b, w]: [u64; 3], hop: u64, model: [u64; 2], limit: u64) -> Instance {
    let shape = Shape::new(p, 1, m).unwrap();
    let us = |time: u64| Nanos(time * 1000);
    let times =
        PassTimes { forward: us(f), backward_input: us(b), backward_weight: us(w), backward: None };
    let [hidden, heads] = model;
    let size = Footprint {
        until_backward: Bytes(34 * hidden + 5 * heads * 1024),
        until_weight: Bytes(32 * hidden),
    };
    let limits = Limits::new(shape, &[Bytes(limit * p * size.until_backward.0)]).unwrap();
    let costs = Costs::uniform(shape, times, us(hop));
    let footprints = Footprints::uniform(shape, size);
    let limits = Some(limits);
    Instance::new(shape, Placement::Looped, costs, footprints, limits, Objective::Span).unwrap()
}

#[test]
fn published_rates_of_table_5_are_beaten_and_the_bound_is_met() {
    let rate = |instance: &Instance, found: &Found| {
        let metrics = Replay::new().metrics(&found.schedule, &instance.costs).unwrap();
        format!("{:.6}", metrics.bubble_rate())
    };
    let settings = [
        (paper(8, 32, [18513, 18086, 9331], 626, [2304, 24], 2), "0.001681"),
        (paper(8, 64, [18546, 18097, 9321], 762, [2304, 24], 2), "0.001095"),
        (paper(8, 32, [18513, 18086, 9331], 626, [2304, 24], 1), "0.124186"),
    ];
    for (instance, best) in settings {
        let found = search(&instance, Effort::default(), |_| {}, &|| false).unwrap();
        assert!(found.is_optimal());
        assert_eq!(rate(&instance, &found), best);
    }
}

#[test]
fn a_search_that_is_stopped_has_the_best_so_far() {
    let instance = paper(8, 32, [18513, 18086, 9331], 626, [2304, 24], 1);
    let limits = Limits::new(instance.shape, &[Bytes(1_100_000)]).unwrap();
    let instance = Instance { limits: Some(limits), ..instance };
    let stopped = search(&instance, Effort { times: None, seed: 0 }, |_| {}, &|| true).unwrap();
    assert!(stopped.interrupted && fits(&instance, &stopped.schedule));
    assert!(published(&instance).iter().all(|(_, cost)| stopped.cost <= *cost));
    let asked = std::sync::atomic::AtomicU32::new(0);
    let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 2_000;
    let mut told = Vec::new();
    let later = search(&instance, Effort { times: None, seed: 0 }, |now| told.push(now), &stop);
    let later = later.unwrap();
    assert!(later.cost < stopped.cost && later.interrupted);
    assert_eq!(told.last().map(|now| (now.best, now.bound)), Some((later.cost, later.bound.cost)));
    assert!(told.iter().all(|now| now.of.is_none()));
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let instance = paper(4, 8, [3, 2, 1], 0, [16, 1], 1);
    let with = |instance: &Instance| search(instance, Effort::default(), |_| {}, &|| false);
    let tight = Limits::new(instance.shape, &[Bytes(100)]).unwrap();
    let tight = Instance { limits: Some(tight), ..instance.clone() };
    assert!(matches!(with(&tight), Err(SearchError::Infeasible(_))));
    let mirrored = Instance { placement: Placement::Mirrored, ..instance };
    assert_eq!(with(&mirrored).unwrap_err(), SearchError::Mirrored);
    let huge = Shape::new(2, 1, 1_000_000).unwrap();
    let costs = Costs::uniform(huge, PassTimes::default(), Nanos(0));
    let footprints = Footprints::uniform(huge, Footprint::default());
    let huge = Instance::new(huge, Placement::Looped, costs, footprints, None, Objective::Span);
    assert_eq!(with(&huge.unwrap()).unwrap_err(), SearchError::TooLarge(6_000_000));
}

/// Light first and last stages, a heavy last one, a slow device: never worse than published.
#[test]
fn unequal_stages_are_never_worse_than_published() {
    let mut wins = 0;
    for case in 0..9u64 {
        let (p, m) = (3 + case % 3, 8 + 2 * case);
        let shape = Shape::new(p, 1, m).unwrap();
        let times = (0..p).map(|stage| {
            let part = match (case % 3, stage) {
                (0, 0) => 80,
                (0, last) if last + 1 == p => 80,
                (1, last) if last + 1 == p => 140,
                (2, 1) => 125,
                _ => 100,
            };
            let [f, b, w] = [29 * part, 30 * part, (15 + case) * part].map(Nanos);
            PassTimes { forward: f, backward_input: b, backward_weight: w, backward: None }
        });
        let costs = Costs::new(times.collect(), Nanos(100));
        let size = Footprint { until_backward: Bytes(300), until_weight: Bytes(130) };
        let limits = Limits::new(shape, &[Bytes(300 * p * (2 + case % 4) / 2)]).unwrap();
        let (footprints, limits) = (Footprints::uniform(shape, size), Some(limits));
        let looped = Placement::Looped;
        let instance = Instance::new(shape, looped, costs, footprints, limits, Objective::Span);
        let instance = instance.unwrap();
        let found = search(&instance, Effort::default(), |_| {}, &|| false).unwrap();
        let best = published(&instance).into_iter().map(|(_, cost)| cost).min().unwrap();
        assert!(found.cost <= best, "case {case}");
        wins += u32::from(found.cost < best);
    }
    assert!(wins >= 4, "{wins} of 9");
}

const QUESTION: &str = "--stages 4 --microbatches 12 --forward 20ms --backward-input 21ms \
                        --backward-weight 15ms --hop 500us --hidden 2304 --heads 24 --seq 1024";

fn json(line: &str) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&stdout(&run(&format!("{line} --json")))).unwrap();
    answer["results"].as_array().unwrap().clone()
}

#[test]
fn the_command_line_finds_writes_and_certifies() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, text, svg) = (at("best.toml"), at("best.txt"), at("best.svg"));
    let files = format!("--certificate {certificate} --export {text} --svg {svg}");
    let answer = json(&format!("search {QUESTION} --memory-limit 2p {files}"));
    let [one] = &answer[..] else { panic!("{answer:?}") };
    let verdict = certificate::verify(&fs::read_to_string(certificate).unwrap()).unwrap();
    assert_eq!(one["gap_ns"] == 0, verdict.is_optimal());
    assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
    let replayed = json(&format!("simulate --schedule {text} {QUESTION}"));
    assert_eq!(replayed[0]["span_ns"], one["cost_ns"]);
    let named = json(&format!("simulate --schedule zb-auto,zb-2p {QUESTION} --memory-limit 2p"));
    assert_eq!(named[0]["span_ns"], one["cost_ns"]);
    assert!(named[0]["span_ns"].as_u64() <= named[1]["span_ns"].as_u64());
    let table = stdout(&run(&format!("search {QUESTION} --memory-limit 2p")));
    assert!(table.contains("optimal") && table.contains("published"), "{table}");
}

#[test]
fn more_memory_is_never_worse() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (csv, svg) = (at("front.csv"), at("front.svg"));
    let limits = "--memory-limits 2p,0.5p,1p,0.75p --effort 0";
    let rows = json(&format!("search {QUESTION} {limits} --csv {csv} --pareto {svg}"));
    let mut by_limit: Vec<(f64, u64)> = rows
        .iter()
        .map(|row| {
            let limit = row["memory_limit"].as_str().unwrap().trim_end_matches('p');
            (limit.parse().unwrap(), row["cost_ns"].as_u64().unwrap())
        })
        .collect();
    by_limit.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(by_limit.windows(2).all(|two| two[0].1 >= two[1].1), "{by_limit:?}");
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 5);
    assert!(fs::read_to_string(svg).unwrap().contains("bound"));
}

#[test]
fn chunks_lie_in_a_v_or_in_loops() {
    for (rest, placement, chunks) in [
        ("--chunks 2", "v", 2),
        ("--chunks 2 --placement looped", "looped", 2),
        ("--chunks 3", "looped", 3),
        ("--placement v", "v", 2),
    ] {
        let answer = json(&format!("search {QUESTION} --memory-limit 1p --effort 0 {rest}"));
        assert_eq!(answer[0]["placement"], placement);
        assert_eq!(answer[0]["chunks"], chunks);
        let makespan = format!("search {QUESTION} --effort 0 {rest} --objective makespan");
        assert_eq!(json(&makespan)[0]["objective"], "makespan");
    }
}

#[test]
fn a_wrong_search_says_what_is_wrong() {
    let two = format!("search {QUESTION} --memory-limits 1p,2p --export x.txt");
    let huge = "search --stages 4 --microbatches 2000000 --forward 1ms --backward-input 1ms \
                --backward-weight 1ms";
    let long = "search --stages 4 --microbatches 300 --forward 1000000s --backward-input 1ms \
                --backward-weight 1ms";
    for (line, says) in [
        (long.to_owned(), "too long to search"),
        (format!("search {QUESTION} --memory-limit 0.1p"), "at least"),
        (format!("search {QUESTION} --memory-limits 1p,0.1p"), "at least"),
        (two, "one search"),
        (format!("search {QUESTION} --effort -1"), "effort"),
        (format!("search {QUESTION} --time-limit 5"), "unit"),
        (format!("search {QUESTION} --placement mirrored"), "placement"),
        (format!("search {QUESTION} --memory-limits NaNp"), "NaN"),
        ("search --stages 4".to_owned(), "missing"),
        (huge.to_owned(), "at most 4000000"),
        ("simulate --schedule zb-auto --stages 2 --microbatches 2".to_owned(), "missing"),
    ] {
        refused(&run(&line), &[says]);
    }
}

#[test]
fn what_a_search_does_not_know_is_refused_or_said() {
    for rest in [
        "--jitter pass=lognormal:0.05",
        "--slowdown stage:3=1.2",
        "--replicas 10",
        "--offload 0.5 --offload-ratio 1",
    ] {
        let key = rest.split_whitespace().next().unwrap().trim_start_matches("--");
        refused(&run(&format!("search {QUESTION} {rest}")), &[key, "cannot be taken into account"]);
    }
    for (rest, says) in [
        ("--vocab-s 1ms --vocab-t 1ms", "vocab-s, vocab-t is ignored"),
        ("--offload-ratio 0.5", "offload-ratio is ignored"),
        ("--schedule 1f1b", "schedule is ignored"),
        ("--segments 2", "segments = 2 is ignored"),
        ("--group 2", "group = 2 is ignored"),
    ] {
        let output = run(&format!("search {QUESTION} --effort 0 {rest}"));
        assert!(stdout(&output).contains("bubble"));
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(notes.contains(says), "{notes}");
    }
    let seeded = run(&format!("search {QUESTION} --effort 0 --seed 3"));
    assert!(is_silent(&seeded) && !stdout(&seeded).is_empty());
    let named = run(&format!("simulate {QUESTION} --schedule zb-auto --memory-limit 1p --seed 3"));
    assert!(is_silent(&named) && !stdout(&named).is_empty());
}

#[test]
fn settings_of_a_file_are_searched_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.toml");
    let keys = "schedule = \"1f1b\"\nstages = 4\nforward = \"20ms\"\nbackward-input = \"21ms\"\n\
                backward-weight = \"15ms\"\nmemory-limit = \"1p\"\n";
    let settings = "[[setting]]\nname = \"few\"\nmicrobatches = 6\n\
                    [[setting]]\nname = \"many\"\nmicrobatches = 12\n";
    fs::write(&file, format!("{keys}{settings}")).unwrap();
    let file = file.display();
    let rows = json(&format!("search {file} --effort 0"));
    let names: Vec<&str> = rows.iter().map(|row| row["setting"].as_str().unwrap()).collect();
    assert_eq!(names, ["few", "many"]);
    assert!(rows[0]["cost_ns"].as_u64() < rows[1]["cost_ns"].as_u64());
    refused(&run(&format!("search {file} --export x.txt")), &["one search"]);
    let slow = folder.path().join("slow.toml");
    fs::write(&slow, format!("{keys}{settings}slowdown = \"stage:1=1.5\"\n")).unwrap();
    let refusal = run(&format!("search {}", slow.display()));
    refused(&refusal, &["slowdown cannot be taken into account", "slow.toml", "here"]);
}

/// Whether `output` says nothing on stderr but how far it is, on a machine that is busy.
fn is_silent(output: &std::process::Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines().all(|line| line.starts_with("progress: "))
}

/// The signals of a mask in what Linux says of a process.
#[cfg(target_os = "linux")]
fn signals(process: u32, mask: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(mask));
    line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0)
}

/// Sends a Ctrl-C as soon as `child` listens to it; not where it is ignored.
#[cfg(target_os = "linux")]
pub(crate) fn press_ctrl_c(child: &mut std::process::Child) -> bool {
    const SIGINT: u64 = 1 << 1;
    if signals(child.id(), "SigIgn:") & SIGINT != 0 {
        eprintln!("skipped: Ctrl-C is ignored here");
        child.kill().unwrap();
        child.wait().unwrap();
        return false;
    }
    while signals(child.id(), "SigCgt:") & SIGINT == 0 {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    true
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_keeps_the_best() {
    use std::process::{Command, Stdio};

    let long = "search --stages 8 --microbatches 24 --forward 20ms --backward-input 21ms \
                --backward-weight 15ms --hop 5ms --memory-limit 1.3p --effort 1000000";
    let mut child = Command::new(env!("CARGO_BIN_EXE_debubble"));
    child.args(long.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    if !press_ctrl_c(&mut child) {
        return;
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stdout).contains("published"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted: the best so far"));
}

/// A small question whose best order a search without effort does not prove.
const OPEN: &str = "--stages 3 --microbatches 6 --forward 4ms --backward-input 4ms \
                    --backward-weight 4ms --hop 1ms --memory-limit 0.7p";

#[cfg(not(feature = "exact"))]
#[test]
fn a_program_without_the_solver_says_how_to_build_it() {
    let output = run(&format!("search {OPEN} --exact"));
    refused(&output, &["built without the solver", "--features exact"]);
}

#[cfg(feature = "exact")]
#[test]
fn the_solver_proves_what_is_best_and_certificates_leave_that_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, text) = (at("best.toml"), at("best.txt"));
    let searched = &json(&format!("search {OPEN} --effort 0"))[0];
    assert_ne!(searched["gap_ns"], 0);
    let files = format!("--certificate {certificate} --export {text}");
    let exact = format!("search {OPEN} --effort 0 --exact --time-limit 120s {files}");
    let output = run(&exact);
    let table = stdout(&output);
    assert!(table.contains("0: optimal") && table.contains("solver: a constraint"), "{table}");
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("the solver found an order of"), "{notes}");
    assert!(notes.contains("nobody can check what the solver proves"), "{notes}");
    // The certificate holds, but not the bound of the solver.
    let verdict = certificate::verify(&fs::read_to_string(certificate).unwrap()).unwrap();
    assert!(!verdict.is_optimal());
    let proved = &json(&exact)[0];
    assert_eq!((&proved["argument"], &proved["gap_ns"]), (&"solver".into(), &0.into()));
    assert!(proved["bound_ns"].as_u64() > searched["bound_ns"].as_u64());
    assert!(proved["cost_ns"].as_u64() <= searched["cost_ns"].as_u64());
    let replayed = json(&format!("simulate --schedule {text} {OPEN}"));
    assert_eq!(replayed[0]["span_ns"], proved["cost_ns"]);
}

#[cfg(feature = "exact")]
#[test]
fn what_the_solver_does_not_model_is_refused_and_what_is_settled_is_not_asked() {
    let large = format!("search {QUESTION} --microbatches 300 --memory-limit 0.6p --effort 0");
    let large = large.replace("--microbatches 12 ", "");
    refused(&run(&format!("{large} --exact")), &["--exact: 3600 passes: at most 3000"]);
    let settled = json(&format!("search {QUESTION} --memory-limit 1p --effort 0 --exact"));
    assert_eq!((&settled[0]["gap_ns"], &settled[0]["argument"]), (&0.into(), &"cycles 0 0".into()));
}

/// Passes as chains of segments: 4 stages, 12 microbatches, two chunks per stage.
const CHAINED: &str = "--stages 4 --microbatches 12 --chunks 2 --layers 16 --hop 1ms --chain \
     attention=4ms/9ms/2ms,dispatch=6ms/7ms,experts=4ms/5ms/6ms,combine=8ms/5ms";

#[test]
fn pairs_are_searched_and_what_is_found_is_simulated_alike() {
    let folder = tempfile::tempdir().unwrap();
    let best = folder.path().join("best.txt");
    let best = best.to_str().unwrap();
    let found = &results(&format!("search {CHAINED} --json --export {best}"))[0];
    let [cost, bound, published] =
        ["cost_ns", "bound_ns", "published_ns"].map(|key| found[key].as_u64().unwrap());
    assert!(bound < cost && cost < published, "{found}");
    assert_eq!(found["published"], "dualpipe-v");
    // What is known of the trip, of forwards alone and of pairs comes near.
    assert!(cost - bound < cost / 10, "{found}");
    assert!(fs::read_to_string(best).unwrap().contains('&'));
    let lone = "--lone-backward overlapped --json";
    let simulated = &results(&format!("simulate {CHAINED} --schedule {best} {lone}"))[0];
    assert_eq!(simulated["span_ns"].as_u64(), Some(cost), "{simulated}");
}

#[test]
fn proofs_of_pairs_are_refused() {
    for flag in ["--ilp", "--certificate c.cert", "--write-lp c.lp"] {
        let told = format!("{} knows passes on one stream", flag.split(' ').next().unwrap());
        refused(&run(&format!("search {CHAINED} {flag}")), &[&told, "help: leave it out"]);
    }
}
