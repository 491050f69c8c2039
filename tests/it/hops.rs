//! A hop for each link: what is timed, searched, proved and written knows the link that a value crosses.

use std::fs;

use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Hops, Limits, Nanos, Placement, Problem, Schedule,
    Shape,
};
use proptest::prelude::*;
use search::{Effort, Instance, Objective, search};
use serde_json::Value;
use sim::Replay;

use crate::bench::{Bench, uniform};
use crate::cli::{refused, results, run, stdout};
use crate::draw;

const QUESTION: &str = "--stages 4 --forward 10ms --backward-input 12ms --backward-weight 8ms";

#[test]
fn one_microbatch_crosses_every_link_twice() {
    for hops in ["1ms,3ms,2ms", "1ms,3ms,2ms,50ms"] {
        let line = format!(
            "simulate {QUESTION} --microbatches 1 --schedule gpipe,1f1b --hop {hops} --json"
        );
        for result in results(&line) {
            // All of F and BW, and down and up 1 + 3 + 2 ms.
            assert_eq!(result["makespan_ns"], 132_000_000, "{line}");
        }
    }
}

#[test]
fn loops_cross_the_link_from_the_last_stage_to_the_first() {
    const LOOPS: &str = "F0.0 F4.0 BW4.0 BW0.0\nF1.0 F5.0 BW5.0 BW1.0\nF2.0 F6.0 BW6.0 BW2.0\n\
                         F3.0 F7.0 BW7.0 BW3.0\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("loops.txt");
    fs::write(&file, LOOPS).unwrap();
    for last in [9, 50] {
        let line = format!("simulate {QUESTION} --schedule {} --json", file.display());
        let result = &results(&format!("{line} --hop 1ms,3ms,2ms,{last}ms"))[0];
        // Every link but the last is crossed in two laps, down and up.
        let hops = 2 * (2 * (1 + 3 + 2) + last) * 1_000_000;
        assert_eq!(result["makespan_ns"], 120_000_000 + hops, "{last}");
    }
}

#[test]
fn equal_hops_are_one_hop() {
    let folder = tempfile::tempdir().unwrap();
    let texts = ["1ms", "1ms,1ms,1ms", "1ms,1ms,1ms,1ms"].map(|hops| {
        let file = folder.path().join("timeline.json");
        let line = format!("simulate {QUESTION} --microbatches 6 --schedule zb-h1 --hop {hops}");
        let shown = stdout(&run(&format!("{line} --timeline {}", file.display())));
        (shown, fs::read_to_string(file).unwrap())
    });
    assert!(texts[0] == texts[1] && texts[0] == texts[2]);
    assert!(
        texts[0].1.contains("\"hop_ns\": 1000000") || texts[0].1.contains("\"hop_ns\":1000000")
    );
}

#[test]
fn other_numbers_of_hops_are_refused() {
    let asked = |rest: &str| run(&format!("simulate {QUESTION} --microbatches 8 {rest}"));
    let count = ["hop has 2 values: give 1", "3 (one per link", "or 4"];
    refused(&asked("--schedule 1f1b --hop 1ms,2ms"), &count);
    refused(&asked("--schedule 1f1b --hop 1ms,1ms"), &count);
    refused(&asked("--schedule zb-v,zb-h1 --hop 1ms,2ms,3ms,4ms,5ms"), &["hop has 5 values"]);
    let loops = ["chunks go round in loops, from stage 3 back to stage 0", "or 4"];
    refused(&asked("--schedule 1f1b-i --chunks 2 --hop 1ms,2ms,1ms"), &loops);
    let two =
        run("simulate --stages 2 --microbatches 4 --schedule 1f1b --forward 1ms --backward 2ms \
                   --hop 1ms,2ms");
    refused(&two, &["two stages share one link"]);
    refused(
        &asked("--schedule 1f1b --hop 1ms,2ms,3ms --seating across-nodes"),
        &["leave out seating"],
    );
    let search =
        run(&format!("search {QUESTION} --microbatches 8 --hop 1ms,2ms --memory-limit 1p"));
    refused(&search, &count);
}

#[test]
fn certificates_hold_the_hop_of_every_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("best.toml");
    let file = path.display();
    let line = format!("search {QUESTION} --microbatches 6 --hop 1ms,9ms,2ms --memory-limit 1p");
    stdout(&run(&format!("{line} --effort 100 --certificate {file}")));
    assert!(stdout(&run(&format!("verify {file}"))).contains("cost"));
    let text = fs::read_to_string(&path).unwrap();
    let written = "hop-ns = [1000000, 9000000, 2000000]";
    assert!(text.contains(written));
    let nonsense = ("[1, -1, 1]", 2);
    let wrong =
        ["[1000000, 9500000, 2000000]", "[1000000, 9000000]", "9000000"].map(|list| (list, 1));
    for (changed, code) in wrong.into_iter().chain([nonsense]) {
        fs::write(&path, text.replacen(written, &format!("hop-ns = {changed}"), 1)).unwrap();
        assert_eq!(run(&format!("verify {file}")).status.code(), Some(code), "{changed}");
    }
}

#[test]
fn timelines_hold_the_hop_of_every_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timeline.json");
    let file = path.display();
    let line = format!("simulate {QUESTION} --microbatches 6 --schedule 1f1b --hop 1ms,9ms,2ms");
    stdout(&run(&format!("{line} --timeline {file}")));
    let text = fs::read_to_string(&path).unwrap();
    let mut whole: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(whole["costs"]["hop_ns"], serde_json::json!([1_000_000, 9_000_000, 2_000_000]));
    stdout(&run(&format!("compare {file} {file}")));
    whole["costs"]["hop_ns"].as_array_mut().unwrap().pop();
    fs::write(&path, whole.to_string()).unwrap();
    refused(&run(&format!("compare {file} {file}")), &["hop has 2 values"]);
}

/// An instance of equal stages over `hops` under `limit` chunk activations.
fn instance(shape: Shape, placement: Placement, hops: Hops, limit: u64) -> Instance {
    let costs = uniform(shape, [10, 11, 9], 0).with_hops(hops);
    let footprint = Footprint { until_backward: Bytes(1), until_weight: Bytes(1) };
    let footprints = Footprints::uniform(shape, footprint);
    let limits = Some(Limits::new(shape, &[Bytes(limit)]).unwrap());
    Instance::new(shape, placement, costs, footprints, limits, Objective::Span).unwrap()
}

/// A search gains from the lengths of links: it is no slower than the order found for links that are as long in the
/// mean, and than that for links all as long as the longest.
#[test]
fn an_order_searched_for_unequal_links_is_no_slower_than_one_for_equal_links() {
    let cases = [
        ([4, 1, 8], Placement::Looped, [1, 30, 2, 0], 4),
        ([4, 1, 8], Placement::Looped, [25, 1, 1, 0], 6),
        ([4, 2, 6], Placement::Vee, [1, 2, 30, 0], 8),
        ([3, 2, 6], Placement::Looped, [2, 3, 40, 0], 6),
    ];
    for ([p, v, m], placement, links, limit) in cases {
        let shape = Shape::new(p, v, m).unwrap();
        let links: Vec<Nanos> = links[..shape.stages()].iter().copied().map(Nanos).collect();
        let hops = Hops::placed(shape, placement, &links).unwrap();
        let effort = Effort { times: Some(100), seed: 1 };
        let asked = instance(shape, placement, hops.clone(), limit);
        let found = search(&asked, effort, |_| {}, &|| false).unwrap();
        let replayed =
            |schedule: &Schedule| Replay::new().metrics(schedule, &asked.costs).unwrap().span();
        assert_eq!(found.cost, replayed(&found.schedule), "{links:?}");
        assert!(found.bound.cost <= found.cost, "{links:?}");
        let mean = links.iter().copied().sum::<Nanos>().0 / links.len() as u64;
        for alike in [Nanos(mean), hops.longest()] {
            let equal = instance(shape, placement, Hops::alike(alike), limit);
            let other = search(&equal, effort, |_| {}, &|| false).unwrap();
            assert!(found.cost <= replayed(&other.schedule), "{links:?} {alike}");
        }
    }
}

proptest! {
    #![proptest_config(draw::cases(100))]

    /// Families that order by times know links, too: their orders are timed alike by replay and engine.
    #[test]
    fn replay_and_engine_agree_on_the_orders_of_families(
        which in 0..Family::ALL.len(),
        p in 3..7u64,
        m in 1..14u64,
        links in prop::collection::vec(0..60u64, 6),
    ) {
        let family = Family::ALL[which];
        let shape = Shape::new(p, draw::chunks(family), m).unwrap();
        let links: Vec<Nanos> = links[..shape.stages()].iter().copied().map(Nanos).collect();
        let costs = uniform(shape, [10, 11, 9], 0).with_hops(Hops::new(shape, &links).unwrap());
        let costs = crate::bench::with_shards(costs, shape, &[[10, 11, 9]]);
        let problem = Problem::new(shape, costs.clone()).unwrap();
        let Ok(schedule) = family.schedule(&problem) else { return Ok(()) };
        let replayed = Replay::new().timeline(&schedule, &costs).unwrap();
        let alike: Costs = costs.clone().with_hop(costs.hops().longest());
        prop_assert!(Replay::new().metrics(&schedule, &alike).unwrap().makespan()
            >= replayed.stages.iter().flatten().map(|span| span.end).max().unwrap_or_default());
        prop_assert_eq!(Bench::ideal(schedule, costs).run().timeline, replayed);
    }
}
