//! Recomputation as a user asks for it: what hides, what is kept, what is refused.

use pipeline::closed_form::Uniform;
use pipeline::{Costs, Family, Kind, Nanos, PassTimes, Problem, Schedule, Shape};
use proptest::prelude::*;
use serde_json::Value;
use sim::Replay;

use crate::cli::{refused, results, run, said, stdout};
use crate::draw::cases;

const QUESTION: &str = "--stages 4 --microbatches 8 --forward 10ms --backward-input 10ms \
                        --backward-weight 10ms --activation 1GiB";

fn simulate(schedule: &str, more: &str) -> Value {
    results(&format!("simulate --json --schedule {schedule} {QUESTION} {more}")).remove(0)
}

/// The problem of equal stages, which recompute in `again`, and the same whose B has that time instead.
fn both(one: &Uniform, chunks: u64, again: Nanos) -> [Problem; 2] {
    let shape = Shape::new(one.stages, chunks, one.microbatches).unwrap();
    let PassTimes { forward, backward_input, backward_weight, .. } = one.times;
    let own = PassTimes::new(forward, backward_input, backward_weight);
    let with = PassTimes { backward_input: backward_input + again, ..own };
    let recompute = vec![Some(again); usize::from(shape.chunks())];
    let apart = Costs::uniform(shape, own, one.hop).with_recompute(recompute);
    [apart, Costs::uniform(shape, with, one.hop)].map(|costs| Problem::new(shape, costs).unwrap())
}

proptest! {
    #![proptest_config(cases(100))]

    /// R as a pass takes no more than within B, and GPipe what its formula says.
    #[test]
    fn what_waits_for_no_gradient_hides(
        (stages, microbatches) in (1..=6u64, 1..=18u64),
        times in [0..40u64, 0..40, 0..40, 0..40],
        hop in 0..60u64,
    ) {
        let [forward, backward_input, backward_weight, again] = times.map(Nanos);
        let times = PassTimes::new(forward, backward_input, backward_weight);
        let one = Uniform { stages, microbatches, times, hop: Nanos(hop) };
        for family in Family::ALL {
            let chunks = family.about().chunks.of(None);
            let [apart, within] = both(&one, chunks, again);
            let (Ok(order), Ok(plain)) = (family.schedule(&apart), family.schedule(&within)) else {
                continue;
            };
            let passes = |schedule: &Schedule| -> Vec<_> {
                let all = schedule.orders().iter().flat_map(|order| order.passes());
                all.copied().filter(|pass| pass.kind != Kind::R).collect()
            };
            prop_assert_eq!(passes(&order), passes(&plain), "{}", family.name());
            let mut replay = Replay::new();
            let span = replay.metrics(&order, apart.costs()).unwrap();
            let fused = replay.metrics(&plain, within.costs()).unwrap();
            prop_assert!(span.makespan() <= fused.makespan(), "{}", family.name());
            if family == Family::GPipe {
                prop_assert_eq!(span.makespan(), one.gpipe_recomputing(again));
                let hidden = Nanos((stages - 1) * again.0);
                prop_assert_eq!(span.makespan() + hidden, fused.makespan());
            }
        }
    }
}

#[test]
fn gpipe_discards_and_recomputes() {
    let plain = simulate("gpipe", "");
    let again = simulate("gpipe", "--recompute full --activation-kept 64MiB");
    let number = |json: &Value, key: &str| json[key].as_u64().unwrap();
    // (m+p-1)(F+B+W), and m R more.
    assert_eq!(number(&plain, "makespan_ns"), 330_000_000);
    assert_eq!(number(&again, "makespan_ns"), 410_000_000);
    // Inputs of all microbatches, and one whole.
    let peak = |json: &Value| {
        let peaks = json["peak_activation_bytes"].as_array().unwrap();
        peaks.iter().map(|one| one.as_u64().unwrap() >> 20).collect::<Vec<_>>()
    };
    assert_eq!((peak(&plain), peak(&again)), (vec![8 << 10; 4], vec![7 * 64 + 1024; 4]));
}

#[test]
fn parts_have_their_times_and_sizes() {
    let sizes = "--stages 2 --microbatches 4 --forward 28ms --backward-input 10ms \
                 --backward-weight 10ms --hidden 1024 --heads 16 --seq 1024 --layers-per-stage 4 \
                 --microbatch-size 2";
    let of = |schedule: &str, more: &str| {
        let one = &results(&format!("simulate --json --schedule {schedule} {sizes} {more}"))[0];
        let peaks = one["peak_activation_bytes"].as_array().unwrap();
        let peaks: Vec<u64> = peaks.iter().map(|peak| peak.as_u64().unwrap()).collect();
        (one["work_ns"].as_u64().unwrap(), peaks[1])
    };
    let ask = |more: &str| of("1f1b", more);
    let (b, layer) = (2 * 1024u64, 34 * 1024 + 5 * 16 * 1024);
    let whole = 4 * layer * b;
    // The last stage holds one microbatch at a time: all of it in the end.
    let (_, peak) = ask("");
    assert_eq!(peak, whole);
    for part in ["full", "1", "selective", "none,2"] {
        assert_eq!(ask(&format!("--recompute {part}")).1, whole, "{part}");
    }
    // Four microbatches in a GPipe: what is kept of three, and one whole.
    let gpipe = |more: &str| of("gpipe", more).1 - whole;
    let input = 2 * 1024 * b;
    assert_eq!(gpipe("--recompute full"), 3 * input);
    assert_eq!(gpipe("--recompute 1"), 3 * (3 * layer * b + input));
    assert_eq!(gpipe("--recompute selective"), 3 * 4 * 34 * 1024 * b);
    // R by layers, by FLOPs of the core of attention (s of 6h + s), or as given.
    let work = |more: &str| ask(more).0;
    let plain = work("");
    let more = |more: &str| work(more) - plain;
    let each = more("--recompute full") / 28;
    assert_eq!(more("--recompute 1"), 7 * each);
    assert_eq!(more("--recompute selective"), 4 * each);
    assert_eq!(more("--recompute full --recompute-time 3ms"), 3 * each);
}

#[test]
fn orders_bring_their_own_recomputation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.txt");
    std::fs::write(&path, "F0.0 F0.1 R0.0 BW0.0 R0.1 BW0.1\nF1.0 BW1.0 F1.1 BW1.1\n").unwrap();
    let path = path.display().to_string();
    let times = "--forward 10ms --backward-input 10ms --backward-weight 10ms";
    let line = |more: &str| format!("simulate --json --schedule {path} {times} {more}");
    let makespan = |more: &str| results(&line(more))[0]["makespan_ns"].as_u64().unwrap();
    // R0.0 hides in the wait; R0.1 is done before its gradient comes.
    assert_eq!(makespan(""), 90_000_000);
    assert_eq!(makespan("--recompute-time 40ms"), 140_000_000);
    // R of the last chunk lies between its F and its B.
    assert_eq!(makespan("--recompute full"), 110_000_000);
    refused(&run(&line("--recompute none")), &["recomputes chunk 0, so it cannot be none there"]);
}

#[test]
fn what_cannot_be_recomputed_is_refused() {
    let refuse = |schedule: &str, more: &str, why: &str| {
        let line = format!("simulate --schedule {schedule} {QUESTION} {more}");
        refused(&run(&line), &[why]);
    };
    refuse("gpipe", "--recompute full", "activation-kept is missing");
    refuse("gpipe", "--recompute 2", "layers");
    refuse("gpipe", "--recompute selective", "recompute-time is missing");
    refuse("gpipe", "--recompute most", "nothing to recompute");
    refuse("gpipe", "--recompute full,none --activation-kept 1MiB", "recompute has 2 values");
    let copies = "--recompute full --activation-kept 1MiB --offload-ratio 0.1";
    refuse("po-h", copies, "chunks that it copies to the host");
    let ignored = run(&format!("simulate --schedule gpipe {QUESTION} --recompute-time 1ms"));
    let told = String::from_utf8_lossy(&ignored.stderr).into_owned();
    assert!(told.contains("recomputes nothing, recompute-time is ignored"), "{told}");
}

/// The proof by branches for an order without R holds where R takes nothing and F as much as before, and not where F
/// takes less.
#[test]
fn a_branching_log_speaks_of_what_recomputation_leaves_as_it_was() {
    let mut text = include_str!("../golden/branching.cert").to_owned();
    assert!(certificate::verify(&text).is_ok());
    for microbatch in 0..4 {
        let backward = format!(" B0.{microbatch} ");
        text = text.replacen(&backward, &format!(" R0.{microbatch}{backward}"), 1);
    }
    let keeping = |kept: u64| {
        let lists = format!("recompute-ns = [0, 0, 0, 0]\nkept-bytes = [{kept}, 1, 1, 1]");
        text.replacen("memory-limit", &format!("{lists}\nmemory-limit"), 1)
    };
    assert!(certificate::verify(&keeping(1)).is_ok_and(|verdict| verdict.is_optimal()));
    let refusal = certificate::verify(&keeping(0)).unwrap_err();
    assert!(refusal.to_string().contains("does not show"), "{refusal}");
    // R of a chunk that has none is not a pass of a pair.
    let strange = keeping(1).replacen("B2.2<F2.3", "R2.2<F2.3", 1);
    let refusal = certificate::verify(&strange).unwrap_err();
    assert!(refusal.to_string().contains("two passes of one stage"), "{refusal}");
}

#[test]
fn a_searched_order_with_recomputation_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proof.toml");
    let path = path.display().to_string();
    let more = "--recompute full --activation-kept 64MiB --activation-until-weight 256MiB \
                --memory-limit 3GiB";
    stdout(&run(&format!("search --certificate {path} {QUESTION} {more}")));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("recompute-ns = [10000000, ") && text.contains("R0.0"), "{text}");
    stdout(&run(&format!("verify {path}")));
    // One microbatch that is not recomputed is one too few.
    let broken = text.replacen(" R0.0", "", 1);
    assert_ne!(broken, text);
    std::fs::write(&path, broken).unwrap();
    let verdict = run(&format!("verify {path}"));
    assert_eq!(verdict.status.code(), Some(1));
    let told = String::from_utf8_lossy(&verdict.stdout).into_owned() + &said(&verdict);
    assert!(told.contains("R0.0 is missing"), "{told}");
}
