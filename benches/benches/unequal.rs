//! Unequal stages: how often the search beats the published schedules on the same costs. Prints a
//! table; run with `cargo bench --package debubble-benches --bench unequal`.

#![allow(clippy::disallowed_methods, clippy::print_stdout)] // A bench has a clock and prints.

use pipeline::{Bytes, Costs, Footprint, Footprints, Limits, Nanos, PassTimes, Placement, Shape};
use search::{Effort, Instance, Objective, search};

/// Cases of each kind.
const CASES: u64 = 50;

/// The differences between the stages.
const KINDS: [&str; 4] =
    ["light first and last stage", "heavy last stage", "one slow device", "every stage its own"];

/// A whole number below `bound` drawn for `key`.
fn below(bound: u64, key: u64) -> u64 {
    // SplitMix64.
    let x = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x ^ (x >> 31)) % bound
}

/// The factor of the times of `stage`, in percent.
fn percent(kind: usize, stage: u64, stages: u64, key: u64) -> u64 {
    match kind {
        0 if stage == 0 || stage + 1 == stages => 80,
        1 if stage + 1 == stages => 120 + below(60, key),
        2 if stage == below(stages, key) => 110 + below(40, key + 1),
        3 => 80 + below(41, key + stage),
        _ => 100,
    }
}

fn instance(kind: usize, case: u64) -> Instance {
    let key = 1_000_000 * (kind as u64 + 1) + 1_000 * case;
    let stages = [4, 6, 8, 12, 16][usize::try_from(case % 5).unwrap_or(0)];
    let microbatches = stages * (2 + below(3, key + 1));
    let shape = Shape::new(stages, 1, microbatches).expect("a legal shape");
    let part = 10 + below(11, key + 2);
    let times = (0..stages).map(|stage| {
        let percent = percent(kind, stage, stages, key + 100);
        let [forward, backward_input, backward_weight] =
            [200, 205, 10 * part].map(|us| Nanos(us * percent * 1_000));
        PassTimes::new(forward, backward_input, backward_weight)
    });
    let costs = Costs::new(times.collect(), Nanos(500_000));
    let size = Footprint { until_backward: Bytes(300), until_weight: Bytes(131) };
    let quarters = 3 + below(6, key + 3);
    let limits = Limits::new(shape, &[Bytes(300 * stages * quarters / 4)]).expect("one limit");
    let footprints = Footprints::uniform(shape, size);
    let looped = Placement::Looped;
    Instance::new(shape, looped, costs, footprints, Some(limits), Objective::Span)
        .expect("a legal question")
}

fn main() {
    println!("{:28} cases  wins  equal  worse  optimal  mean gain  most", "stages");
    for (kind, name) in KINDS.into_iter().enumerate() {
        let (mut wins, mut equal, mut worse, mut optimal) = (0, 0, 0, 0);
        let (mut sum, mut most) = (0.0, 0.0f64);
        for case in 0..CASES {
            let instance = instance(kind, case);
            let found = search(&instance, Effort::default(), |_| {}, &|| false);
            let found = found.expect("a limit of more than one microbatch");
            let best = found.best_published().expect("one of them fits").cost;
            match found.cost.cmp(&best) {
                std::cmp::Ordering::Less => wins += 1,
                std::cmp::Ordering::Equal => equal += 1,
                std::cmp::Ordering::Greater => worse += 1,
            }
            optimal += u32::from(found.is_optimal());
            let gain = 100.0 * (1.0 - found.cost.0 as f64 / best.0 as f64);
            (sum, most) = (sum + gain, most.max(gain));
        }
        let mean = sum / CASES as f64;
        println!(
            "{name:28} {CASES:5} {wins:5} {equal:6} {worse:6} {optimal:8} {mean:8.2} % {most:5.2} %"
        );
    }
}
