//! How good the orders are that the search finds under limits at which none of the published ones
//! is the best: the settings of Zero Bubble (Qi et al. 2023), table 8, with a limit for each stage.
//! Each search ends after some seconds of one thread, so run it where nothing else runs. Prints a
//! table; `cargo bench --package debubble-benches --bench limits -- 3` is that for seeds 0, 1 and 2.

#![allow(clippy::disallowed_methods, clippy::print_stdout)] // A bench has a clock and prints.

use std::time::Instant;

use pipeline::{Bytes, Costs, Footprint, Footprints, Limits, Nanos, PassTimes, Placement, Shape};
use search::{Effort, Found, Instance, Objective, search};

/// A setting: stages, microbatches, F, B, W of a chunk of half a stage and a hop in microseconds,
/// hidden size, attention heads.
struct Setting([u64; 8]);

const SMALL: Setting = Setting([16, 48, 14_407, 14_380, 9_676, 1_610, 4_096, 32]);
const SMALL_64: Setting = Setting([16, 64, 14_412, 14_393, 9_688, 1_621, 4_096, 32]);
const SMALL_128: Setting = Setting([16, 128, 14_316, 14_306, 9_639, 1_619, 4_096, 32]);
const MIDDLE: Setting = Setting([24, 72, 6_763, 6_969, 5_251, 755, 5_120, 40]);
const MIDDLE_96: Setting = Setting([24, 96, 6_783, 6_984, 5_259, 758, 5_120, 40]);
const MIDDLE_192: Setting = Setting([24, 192, 6_785, 6_990, 5_260, 770, 5_120, 40]);
const LARGE: Setting = Setting([32, 96, 9_458, 9_748, 7_288, 879, 6_144, 48]);
const LARGE_128: Setting = Setting([32, 128, 9_469, 9_744, 7_306, 892, 6_144, 48]);
const LARGE_256: Setting = Setting([32, 256, 9_447, 9_644, 7_193, 887, 6_144, 48]);

const ALL: [Setting; 9] =
    [SMALL, SMALL_64, SMALL_128, MIDDLE, MIDDLE_96, MIDDLE_192, LARGE, LARGE_128, LARGE_256];

/// Chunks per stage, limit in eighths of 1p, seconds, settings.
const ROWS: [(u64, u64, f64, &[Setting]); 9] = [
    (1, 4, 10.0, &[SMALL, MIDDLE, LARGE]),
    (1, 6, 10.0, &[SMALL, MIDDLE, LARGE]),
    (1, 10, 10.0, &ALL),
    (1, 12, 10.0, &ALL),
    (2, 8, 30.0, &ALL),
    (2, 9, 75.0, &[SMALL]),
    (2, 10, 75.0, &[SMALL]),
    (2, 11, 75.0, &[SMALL]),
    (2, 12, 75.0, &[SMALL]),
];

fn instance(setting: &Setting, chunks: u64, eighths: u64) -> Instance {
    let Setting([stages, microbatches, f, b, w, hop, hidden, heads]) = *setting;
    let shape = Shape::new(stages, chunks, microbatches).expect("a legal shape");
    let [forward, backward_input, backward_weight] =
        [f, b, w].map(|half| Nanos(1_000 * half * 2 / chunks));
    let times = PassTimes::new(forward, backward_input, backward_weight);
    let costs = Costs::uniform(shape, times, Nanos(1_000 * hop));
    // Of one layer and a sequence of 1024; the layers of a chunk change nothing.
    let held = Footprint {
        until_backward: Bytes(34 * hidden + 5 * heads * 1_024),
        until_weight: Bytes(32 * hidden),
    };
    let limit = Bytes(held.until_backward.0 * stages * chunks * eighths / 8);
    let limits = Limits::new(shape, &[limit]).expect("one limit");
    let placement = if chunks == 1 { Placement::Looped } else { Placement::Vee };
    let footprints = Footprints::uniform(shape, held);
    Instance::new(shape, placement, costs, footprints, Some(limits), Objective::Span)
        .expect("a legal question")
}

/// The bubble rate of an order of `cost`.
fn bubble(instance: &Instance, cost: Nanos) -> f64 {
    let Instance { shape, costs, .. } = instance;
    let first = costs.chunks()[0];
    let once = first.forward + first.backward_input + first.backward_weight;
    let work = once.0 * u64::from(shape.chunks_per_stage()) * u64::from(shape.microbatches());
    1.0 - work as f64 / cost.0 as f64
}

fn found(instance: &Instance, seed: u64, seconds: f64) -> Found {
    let begin = Instant::now();
    let effort = Effort { times: None, seed };
    search(instance, effort, |_| {}, &|| begin.elapsed().as_secs_f64() > seconds)
        .expect("a limit of more than one microbatch")
}

fn main() {
    // Cargo adds `--bench`.
    let seeds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(1);
    println!("v  limit     p     m  seconds    bound  published  by seed, best first");
    for (chunks, eighths, seconds, settings) in ROWS {
        for setting in settings {
            let instance = instance(setting, chunks, eighths);
            let all: Vec<Found> = (0..seeds).map(|seed| found(&instance, seed, seconds)).collect();
            let Some(one) = all.first() else { return };
            let mut rates: Vec<f64> = all.iter().map(|one| bubble(&instance, one.cost)).collect();
            rates.sort_by(f64::total_cmp);
            let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.6}")).collect();
            let published =
                one.best_published().map_or(f64::NAN, |one| bubble(&instance, one.cost));
            println!(
                "{chunks} {:6} {:5} {:5} {seconds:8} {:.6}   {published:.6}  {}",
                format!("{}p", eighths as f64 / 8.0),
                instance.shape.stages(),
                instance.shape.microbatches(),
                bubble(&instance, one.bound.cost),
                rates.join(" ")
            );
        }
    }
}
