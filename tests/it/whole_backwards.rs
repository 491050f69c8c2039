//! Whole backwards with a time of their own: orders that mix cost what their passes cost; a search is never above a
//! named schedule, and no order of split or whole backwards below its bound.

use std::fs;

use pipeline::{
    Bytes, Costs, Footprint, Footprints, Kind, Limits, Memory, Nanos, PassTimes, Placement,
    Schedule, Shape,
};
use proptest::prelude::*;
use search::{Effort, Instance, Objective, search};
use serde_json::Value;
use sim::Replay;

use crate::cli::{refused, results, run, stdout};
use crate::draw;
use crate::search::published;

const TIMES: &str = "--forward 1ms --backward-input 1500us --backward-weight 1200us";

fn json(line: &str) -> Vec<Value> {
    results(&format!("{line} --json"))
}

#[test]
fn mixed_orders_cost_what_their_passes_cost() {
    let folder = tempfile::tempdir().unwrap();
    let span = |order: &str| {
        let path = folder.path().join("order.txt");
        fs::write(&path, order).unwrap();
        let line = format!("simulate {TIMES} --backward 2ms --schedule {}", path.display());
        json(&line)[0]["span_ns"].as_u64().unwrap()
    };
    assert_eq!(span("F0.0 BW0.0 F0.1 BW0.1\n"), 6_000_000);
    assert_eq!(span("F0.0 B0.0 W0.0 F0.1 BW0.1\n"), 6_700_000);
    assert_eq!(span("F0.0 B0.0 F0.1 B0.1 W0.0 W0.1\n"), 7_400_000);
}

#[test]
fn a_backward_alone_is_split_and_beside_both_is_a_time_of_its_own() {
    let shape = "simulate --schedule 1f1b,zb-h1 --stages 2 --microbatches 4 --forward 1ms";
    let spans = |times: &str| -> Vec<u64> {
        let rows = json(&format!("{shape} {times}"));
        rows.iter().map(|row| row["span_ns"].as_u64().unwrap()).collect()
    };
    let apart = spans("--backward-input 1ms --backward-weight 1ms");
    assert_eq!(spans("--backward 2ms"), apart);
    let [whole, split] = spans("--backward 1500us --backward-input 1ms --backward-weight 1ms")[..]
    else {
        panic!("two schedules")
    };
    assert_eq!(split, apart[1]);
    // Four microbatches on each stage, and the trip to the other one and back.
    assert_eq!(whole, 4 * 2_500_000 + 2_500_000);
    let lacks = run(&format!("{shape} --backward 2ms --backward-input 1ms"));
    refused(&lacks, &["backward-weight is missing", "or backward alone"]);
}

/// A profile as trainers have it: BW between the longer of B and W and both.
fn instance() -> impl Strategy<Value = Instance> {
    let shape = (2..9u64, 1..3u64, 2..33u64, any::<bool>());
    shape.prop_flat_map(|(p, v, m, vee)| {
        let chunks = usize::try_from(p * v).unwrap();
        let times = proptest::collection::vec((5..40u64, 5..40u64, 1..40u64, 0..=8u64), chunks);
        let sizes = (20..60u64, 0..20u64);
        (times, any::<bool>(), sizes, 0..9u64, 3..12u64).prop_map(
            move |(times, alike, (until_backward, until_weight), hop, quarters)| {
                let shape = Shape::new(p, v, m).unwrap();
                let vee = vee && v == 2;
                let placement = if vee { Placement::Vee } else { Placement::Looped };
                let times = (0..chunks).map(|chunk| {
                    let (f, b, w, eighths) = times[if alike { 0 } else { chunk }];
                    let whole = b.max(w) + b.min(w) * eighths / 8;
                    let backward = Some(Nanos(whole));
                    PassTimes { backward, ..PassTimes::new(Nanos(f), Nanos(b), Nanos(w)) }
                });
                let costs = Costs::new(times.collect(), Nanos(hop));
                let held = Footprint {
                    until_backward: Bytes(until_backward),
                    until_weight: Bytes(until_weight),
                };
                let footprints = Footprints::uniform(shape, held);
                let (span, held) = (Objective::Span, footprints.clone());
                let free = Instance::new(shape, placement, costs, held, None, span).unwrap();
                // 0.75p and more, and enough for one microbatch.
                let asked = until_backward * v * p * quarters / 4;
                let least = search::bounds::smallest_limit(&free);
                let limits: Vec<Bytes> = least.iter().map(|one| Bytes(one.0.max(asked))).collect();
                let limits = Limits::new(shape, &limits).unwrap();
                Instance { limits: Some(limits), ..free }
            },
        )
    })
}

fn check(instance: &Instance, effort: u64) -> Result<(), TestCaseError> {
    let effort = Effort { times: Some(effort), seed: 0 };
    let found = search(instance, effort, |_| {}, &|| false).unwrap();
    for (family, cost) in published(instance) {
        prop_assert!(found.cost <= cost, "{}: {cost} beats {}", family.name(), found.cost);
    }
    let memory = Memory::of(&found.schedule, &instance.footprints).unwrap();
    prop_assert_eq!(memory.over(instance.limits.as_ref().unwrap()), None);
    let metrics = Replay::new().metrics(&found.schedule, &instance.costs).unwrap();
    prop_assert_eq!(metrics.span(), found.cost);
    prop_assert!(found.bound.cost <= found.cost);
    Ok(())
}

proptest! {
    #![proptest_config(draw::cases(60))]

    #[test]
    fn a_search_is_never_above_a_named_schedule_that_fits(instance in instance()) {
        check(&instance, 0)?;
    }
}

proptest! {
    #![proptest_config(draw::cases(300))]

    #[test]
    #[ignore = "takes minutes"]
    fn a_search_is_never_above_a_named_schedule_that_fits_in_300_pipelines(
        instance in instance(),
    ) {
        check(&instance, 1)?;
    }
}

/// A profile of a trainer whose BW is cheaper than B and W: 1F1B in a V takes 52.8 ms and 2 M_B.
fn profile(folder: &std::path::Path) -> String {
    let quantity = |key: &str, time: u64| {
        format!(
            "[{key}]\nmedian = {time}\nlow = {time}\nhigh = {time}\ncount = 20\noutliers = 0\n\
             verdict = \"tight\"\nsamples = {:?}\n",
            [time; 20]
        )
    };
    let mut text = "version = 1\nkind = \"trainer\"\nschedule = \"DualPipeV\"\nstages = 2\n\
                    placement = \"v\"\nmicrobatches = 8\nhalf-width = 0.05\n[machine]\ncpu = \"x\"\n\
                    cores = 2\nos = \"x\"\ndevice = \"cpu\"\npinned = false\nneighbours = 0\n\
                    date = \"2026-11-25\"\nprogram = \"torch\"\n"
        .to_owned();
    text += &quantity("hop", 200_000);
    for _ in 0..4 {
        text += "[[chunk]]\n";
        text += &quantity("chunk.forward", 1_000_000);
        text += &quantity("chunk.backward-input", 1_500_000);
        text += &quantity("chunk.backward-weight", 1_200_000);
        text += &quantity("chunk.backward", 2_000_000);
    }
    let path = folder.join("trainer.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_search_uses_whole_backwards_of_a_trainer_and_its_certificate_holds() {
    let folder = tempfile::tempdir().unwrap();
    let asked =
        format!("--profile {} --stages 2 --microbatches 8 --chunks 2", profile(folder.path()));
    let named = json(&format!("simulate {asked} --schedule 1f1b-v"));
    assert_eq!(named[0]["span_ns"], 52_800_000);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let files = format!("--certificate {} --export {}", at("best.toml"), at("best.txt"));
    let found = json(&format!("search {asked} --memory-limit 1p {files}"));
    assert!(found[0]["cost_ns"].as_u64() <= Some(52_800_000), "{found:?}");
    let again = json(&format!("simulate {asked} --schedule {}", at("best.txt")));
    assert_eq!(again[0]["span_ns"], found[0]["cost_ns"]);
    let order: Schedule = fs::read_to_string(at("best.txt")).unwrap().parse().unwrap();
    let kinds = order.orders().iter().flat_map(|order| order.passes()).map(|pass| pass.kind);
    assert!(kinds.filter(|kind| *kind == Kind::BW).count() > 0, "{order}");
    let said = stdout(&run(&format!("verify {}", at("best.toml"))));
    assert!(said.contains("no order costs less, by the argument"), "{said}");
    // Without the time of BW the same certificate claims another cost.
    let text = fs::read_to_string(at("best.toml")).unwrap();
    let without: String =
        text.lines().filter(|line| !line.starts_with("backward-ns")).collect::<Vec<_>>().join("\n");
    fs::write(at("false.toml"), without).unwrap();
    let refusal = run(&format!("verify {}", at("false.toml")));
    assert_eq!(refusal.status.code(), Some(1));
}

/// A certificate of the first version says nothing of whole backwards, and is read as saying nothing.
#[test]
fn an_older_certificate_is_about_split_backwards() {
    let text = "version = 1\nplacement = \"looped\"\nobjective = \"span\"\nhop-ns = 0\n\
                forward-ns = [1, 1]\nbackward-input-ns = [1, 1]\nbackward-weight-ns = [1, 1]\n\
                until-backward-bytes = [1, 1]\nuntil-weight-bytes = [1, 1]\ncost-ns = 5\n\
                bound-ns = 5\ngap-ns = 0\nargument = \"trip\"\nstages = [0]\n\
                schedule = \"\"\"\nF0.0 B0.0 W0.0\nF1.0 B1.0 W1.0\n\"\"\"\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.toml");
    fs::write(&path, text).unwrap();
    let said = stdout(&run(&format!("verify {}", path.display())));
    assert!(said.contains("no order of split backwards costs less"), "{said}");
    fs::write(&path, format!("backward-ns = [1, 1]\n{text}")).unwrap();
    let refusal = run(&format!("verify {}", path.display()));
    assert_eq!(refusal.status.code(), Some(2));
}

/// A trainer that checkpoints recomputes in B and once more in W: a search keeps such backwards whole.
#[test]
fn what_is_recomputed_again_for_w_makes_splitting_dear() {
    let asked = "--stages 3 --microbatches 6 --forward 10ms --backward-input 10ms --backward-weight 10ms \
                 --activation 100MB --activation-until-weight 40MB --activation-kept 5MB --recompute full";
    let spans = |more: &str| -> Vec<u64> {
        let rows = json(&format!("simulate --schedule 1f1b,zb-h1 {asked} {more}"));
        rows.iter().map(|row| row["span_ns"].as_u64().unwrap()).collect()
    };
    let (once, twice) = (spans(""), spans("--recompute-again 10ms"));
    assert_eq!(once[0], twice[0]);
    assert!(twice[1] >= once[1] + 6 * 10_000_000, "{once:?} {twice:?}");
    let found = json(&format!("search {asked} --recompute-again 10ms --memory-limit 1p"));
    assert!(found[0]["cost_ns"].as_u64() <= Some(twice[0]), "{found:?}");
}

/// A sweep over the time of a whole backward leaves B and W as they are.
#[test]
fn a_sweep_varies_the_whole_backward_beside_both() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sweep.toml");
    let text = "schedule = [\"1f1b\", \"zb-h1\"]\nstages = 2\nmicrobatches = 4\nforward = \"10ms\"\n\
                backward-input = \"10ms\"\nbackward-weight = \"10ms\"\n[sweep]\n\
                backward = [\"12ms\", \"20ms\"]\n";
    fs::write(&path, text).unwrap();
    let out = folder.path().join("rows.csv");
    stdout(&run(&format!("sweep {} --out {}", path.display(), out.display())));
    let rows = fs::read_to_string(out).unwrap();
    let mut lines = rows.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| head.iter().position(|one| *one == name).unwrap();
    let span = |schedule: &str| -> Vec<u64> {
        let of = rows.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let own = of.filter(|line| line[at("schedule")] == schedule);
        own.map(|line| line[at("span_ns")].parse().unwrap()).collect()
    };
    assert_eq!(span("1f1b"), [5 * 22_000_000, 5 * 30_000_000]);
    let split = span("zb-h1");
    assert_eq!(split.len(), 2);
    assert!(split[0] <= split[1]);
}
