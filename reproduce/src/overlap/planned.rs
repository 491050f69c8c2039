//! The planner's prediction of the pair that DeepSeek published, by its own kernels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pipeline::overlap::{Overlap, Part};
use pipeline::{Nanos, Pass, Slot};
use plan::Inputs;
use question::Context;

/// DeepSeek-V3 as it was trained.
const QUESTION: &str = include_str!("../../../scenarios/plan/deepseek-v3.toml");

/// The segments of a chunk of four layers, with tokens spread evenly over experts and streams that take
/// `contention`.
fn overlap(contention: &str) -> Overlap {
    let streams = format!("two-streams = true\ncontention = \"{contention}\"");
    let text = QUESTION.replace("overlap-experts = true", &streams);
    let text = text.replace("imbalance = 1.08", "imbalance = 1");
    let file = PathBuf::from("plan.toml");
    let host: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::from([(file, text.into_bytes())]);
    let context = Context::new(&host);
    let question =
        planning::read(&context, Path::new("plan.toml"), planning::MemoryError::default()).unwrap();
    let cluster = &question.clusters[0];
    let setup = question.setups(cluster).unwrap()[0];
    let inputs = Inputs::new(&question.model, &question.recipe, cluster);
    inputs.cost(&setup).unwrap().costs.overlap().unwrap().clone()
}

/// Milliseconds of the mean layer, by part and segment (`overlap-pair.csv`; W of experts on two streams at once).
const MEASURED: [(Part, &str, f64); 10] = [
    (Part::F, "attention", 4.370),
    (Part::F, "dispatch", 6.690),
    (Part::F, "experts", 4.604),
    (Part::F, "combine", 8.684),
    (Part::B, "combine", 5.769),
    (Part::B, "experts", 5.306),
    (Part::B, "dispatch", 7.487),
    (Part::B, "attention", 9.341),
    (Part::W, "experts", 6.378),
    (Part::W, "attention", 2.389),
];

/// The whole pair of four layers, in milliseconds.
const PAIR: f64 = 129.012;

#[test]
#[allow(clippy::cast_precision_loss)] // Times are far below 2^53 ns.
fn the_planner_comes_near_the_published_pair() {
    let millis = |time: Nanos| time.0 as f64 / 1e6;
    let own = overlap("0,1");
    let layer = own.chain(1).layers().next().unwrap().clone();
    let mut sums = [[0.0; 2]; 2];
    for (part, name, measured) in MEASURED {
        let segment = layer.of(part).find(|one| one.name.as_str() == name).unwrap();
        let ours = millis(segment.time);
        // Single segments are as far off as the sums of their kernels on any one machine.
        assert!((ours / measured - 1.0).abs() < 0.40, "{part:?} {name}: {ours} {measured}");
        let sum = &mut sums[segment.stream as usize];
        *sum = [sum[0] + ours, sum[1] + measured];
    }
    for [ours, measured] in sums {
        assert!((ours / measured - 1.0).abs() < 0.10, "{ours} {measured}");
    }
    let pair = |contention| {
        let slot = Slot::Pair(Pass::f(1, 1), Pass::bw(1, 0));
        overlap(contention).composition(slot).unwrap()
    };
    let free = pair("0,1");
    let ours = millis(free.duration);
    assert!((ours / PAIR - 1.0).abs() < 0.08, "{ours}");
    // As in the profile nearly all of the all-to-alls is hidden, and a held share of compute makes it
    // longer.
    assert!(millis(free.exposed) < 0.15 * ours, "{} of {ours}", free.exposed);
    let held = millis(pair("0.152,1").duration);
    assert!(held > ours && held < 1.15 * PAIR, "{held}");
}
