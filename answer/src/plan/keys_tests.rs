//! Every key of a question of the planner, changed by itself: it changes the answer, is noted, or is refused with a hint.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use planning::{LengthsDocument, NoiseDocument, SetupDocument, TrainingDocument};
use question::Context;
use serde_json::Value;

/// Groups of every kind, so that every key has something to act on.
const DENSE: &str = "\
tokens = 1e11
batch = 32
sequence = 2048
model = { layers = 8, hidden = 2048, heads = 16, kv-heads = 8, ffn = 8192, vocabulary = 32000 }
cluster = [{ machine = \"h100\", devices = [16] }]
setup.tensor = 2
setup.pipeline = 2
setup.context = 2
setup.chunks = 2
";
/// The same with experts.
const EXPERTS: &str = "\
tokens = 1e11
batch = 32
sequence = 2048
model = { layers = 8, hidden = 2048, heads = 16, kv-heads = 8, ffn = 1024, vocabulary = 32000, experts = 16, top-k = 2 }
cluster = [{ machine = \"h100\", devices = [16] }]
setup.tensor = 2
setup.pipeline = 2
setup.context = 2
setup.chunks = 2
setup.expert = 2
";

/// A value of every key other than its default.
const TRAINING: &[(&str, &str)] = &[
    ("tuning", "\"stock\""),
    ("lora-rank", "8"),
    ("lora-modules", "[\"attention\"]"),
    ("frozen", "[\"embedding\"]"),
    ("gradient-bytes", "2"),
    ("optimizer-bytes", "8"),
    ("weight-bytes", "1"),
    ("logit-bytes", "12"),
    ("fp8-activation-input", "true"),
    ("offload", "[\"core_attn\"]"),
    ("compiled", "false"),
    ("precision", "\"fp8\""),
    ("head-precision", "\"fp8\""),
    ("cuda-graphs", "\"full\""),
    ("dispatcher", "\"deepep\""),
    ("overlap-experts", "true"),
    ("two-streams", "true"),
    ("contention", "\"0.2,1\""),
    ("overlap-tensor", "true"),
    ("overlap-transfers", "false"),
    ("overlap-parameters", "false"),
    ("fused-experts", "false"),
    ("context-exchange", "\"all-gather\""),
    ("imbalance", "1.2"),
    ("capacity-factor", "1.0"),
    ("pad-to-capacity", "true"),
    ("sequence-parallel", "false"),
    ("overlap-gradients", "false"),
    ("loss", "\"fused\""),
    ("boundary", "\"post-validation\""),
    ("reserved", "\"2GiB\""),
];
const SETUP: &[(&str, &str)] = &[
    ("tensor", "4"),
    ("pipeline", "4"),
    ("chunks", "4"),
    ("context", "4"),
    ("dynamic-context", "true"),
    ("expert", "4"),
    ("expert-tensor", "1"),
    ("data", "4"),
    ("zero", "2"),
    ("reshard", "\"after-forward\""),
    ("shard-groups", "2"),
    ("microbatch", "2"),
    ("schedule", "\"zb-v\""),
    ("recompute", "[\"full\"]"),
    ("recompute-layers", "1"),
    ("split", "\"balanced\""),
    ("layout", "\"Et|t*2|t*3|t*2L\""),
    ("first-stage-layers", "2"),
    ("last-stage-layers", "2"),
    ("vocabulary-parallel", "true"),
];
const NOISE: &[(&str, &str)] = &[
    ("jitter", "0.2"),
    ("stall", "\"0.01:50ms\""),
    ("straggler", "\"0.01:1.5\""),
    ("slowdown", "[\"device:3=1.5\"]"),
    ("replicas", "20"),
    ("seed", "7"),
];
const LENGTHS: &[(&str, &str)] = &[("documents", "\"lognormal:800:1.2:131072\""), ("seed", "7")];

/// The answer to `text` as JSON, without what only repeats the question; a refusal has to have a hint.
fn answer(text: &str) -> Option<Value> {
    let path = PathBuf::from("plan.toml");
    let host = BTreeMap::from([(path.clone(), text.as_bytes().to_vec())]);
    let context = Context::new(&host);
    let error = measured::memory_error().unwrap();
    let planned = planning::read(&context, &path, error).and_then(|own| super::plan(&context, own));
    let planned = planned.map_err(|error| assert!(error.help.is_some(), "{text}{error:?}")).ok()?;
    let mut json = serde_json::to_value(planned).unwrap();
    for plan in json["plans"].as_array_mut().unwrap() {
        plan.as_object_mut().unwrap().remove("boundary");
    }
    Some(json)
}

#[test]
fn every_key_changes_the_answer_is_noted_or_is_refused_with_a_hint() {
    let tables = [
        ("training", TRAINING, TrainingDocument::NAMES),
        ("setup", SETUP, SetupDocument::NAMES),
        ("noise", NOISE, NoiseDocument::NAMES),
        ("lengths", LENGTHS, LengthsDocument::NAMES),
    ];
    let mut silent = Vec::new();
    for base in [DENSE, EXPERTS] {
        let as_it_is = answer(base).unwrap();
        for (table, changes, names) in tables {
            let changed: BTreeSet<&str> = changes.iter().map(|(key, _)| *key).collect();
            assert_eq!(
                changed,
                names.iter().copied().collect(),
                "a key of [{table}] has no change"
            );
            for (key, value) in changes {
                let path = format!("{table}.{key} = ");
                let others = base.lines().filter(|line| !line.starts_with(&path));
                let text: String = others.map(|line| format!("{line}\n")).collect();
                let text = format!("{text}{path}{value}\n");
                if answer(&text).is_some_and(|own| own == as_it_is) {
                    let of = if base == DENSE { "dense" } else { "experts" };
                    silent.push(format!("{of}: {path}{value}"));
                }
            }
        }
    }
    assert_eq!(silent, [""; 0]);
}
