//! Every key of a question of the planner, changed by itself: it changes the answer, is noted, or is refused with a hint.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use planning::{LengthsDocument, NoiseDocument, SetupDocument, TrainingDocument};
use question::Context;
use serde_json::Value;

use super::Planned;

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
    ("optimizer", "\"muon\""),
    ("optimizer-bytes", "8"),
    ("optimizer-offload", "0.5"),
    ("host-update", "\"2s\""),
    ("weight-bytes", "1"),
    ("logit-bytes", "12"),
    ("fp8-activation-input", "true"),
    ("offload", "[\"core_attn\"]"),
    ("compiled", "false"),
    ("precision", "\"fp8\""),
    ("head-precision", "\"fp8\""),
    ("cuda-graphs", "\"full\""),
    ("cuda-graph-modules", "[\"attn\"]"),
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

/// The answer to `text`; a refusal has to have a hint.
fn planned(text: &str) -> Option<Planned> {
    let path = PathBuf::from("plan.toml");
    let slow =
        scenarios::MACHINES.text("h100").replace("network = \"50GB/s\"", "network = \"15GB/s\"");
    let files = [(path.clone(), text.to_owned()), (PathBuf::from("slow.toml"), slow)];
    let host = BTreeMap::from(files.map(|(path, text)| (path, text.into_bytes())));
    let context = Context::new(&host);
    let error = measured::memory_error().unwrap();
    let planned = imports::question(&context, &path, error, &planning::PlanFlags::default())
        .and_then(|own| super::plan(&context, own));
    planned.map_err(|error| assert!(error.help.is_some(), "{text}{error:?}")).ok()
}

/// The answer to `text` as JSON, without what only repeats the question.
fn answer(text: &str) -> Option<Value> {
    let planned = planned(text)?;
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
    // A barrier more or less is not told by the step of 1F1B, and is said not to be.
    let loose = answer(&format!("{DENSE}training.boundary = \"post-validation\"\n")).unwrap();
    assert!(loose["assumptions"].to_string().contains("post-validation saves no time"), "{loose}");
}

#[test]
fn levers_that_can_be_had_come_first_and_bounds_are_below_steps() {
    let json = answer(&DENSE.replace("setup.tensor = 2\n", "setup.tensor = 1\n")).unwrap();
    let names = json["levers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert!(names[..2].contains(&"half as much memory again"), "{names:?}");
    assert!(names[..2].contains(&"network between nodes twice as fast"), "{names:?}");
    // Of a set-up whose activations fit less and less, one that the bound holds no order of.
    for microbatch in [1, 2, 8] {
        let large = format!(
            "tokens = 1e11\nbatch = 1024\nsequence = 8192\nmodel = {{ layers = 32, hidden = 4096, heads = 32, \
             kv-heads = 8, ffn = 14336, vocabulary = 128256 }}\ncluster = [{{ machine = \"h100\", devices = [64] }}]\n\
             setup.microbatch = {microbatch}\ntraining.precision = \"fp8\"\n"
        );
        let json = answer(&large).unwrap();
        let own = &json["setups"][0];
        let bound = own["step_lower_bound_ns"].as_u64();
        assert!(bound.is_none_or(|bound| bound <= own["step_ns"].as_u64().unwrap()), "{own}");
        assert_eq!(bound.is_some(), own["fits"].as_bool().unwrap());
    }
}

#[test]
fn an_order_that_hangs_on_the_network_is_said_to() {
    let search = "\
tokens = 1e11
batch = 128
sequence = 4096
model = { layers = 32, hidden = 4096, heads = 32, kv-heads = 8, ffn = 14336, vocabulary = 128256 }
plans = 4
cluster = [{ machine = \"slow.toml\", devices = [64] }]
search.pipeline = [1, 4]
search.tensor = [1, 2]
search.context = [1]
search.schedule = [\"1f1b\", \"zb-v\"]
search.software = \"as given\"
";
    // Replicas without a pipeline exchange more than those with one: half the network favours these.
    let said = answer(search).unwrap()["network"].as_str().unwrap().to_owned();
    assert!(said.contains("the network of slow") && said.contains("at half its rate"), "{said}");
    // One plan has no order, and one node no network.
    for (from, to) in [("plans = 4", "plans = 1"), ("devices = [64]", "devices = [8]")] {
        let json = answer(&search.replace(from, to)).unwrap();
        assert_eq!(json.get("network"), None, "{to}");
    }
}

#[test]
fn torch_gets_fewer_microbatches_than_stages_as_a_file() {
    for (schedule, batch, is_file) in
        [("gpipe", 2, true), ("1f1b", 2, true), ("gpipe", 4, false), ("1f1b", 8, false)]
    {
        let text = format!(
            "tokens = 1e11\nbatch = {batch}\nsequence = 2048\nmodel = {{ layers = 8, hidden = 2048, heads = 16, \
             kv-heads = 8, ffn = 8192, vocabulary = 32000 }}\ncluster = [{{ machine = \"h100\", devices = [4] }}]\n\
             setup.pipeline = 4\nsetup.schedule = \"{schedule}\"\n"
        );
        let files = super::export::exported(&planned(&text).unwrap()).unwrap().files;
        assert_eq!(files.iter().any(|(name, _)| name == "schedule.csv"), is_file, "{text}");
        let framework = format!("framework = \"torchtitan\"\n{text}");
        assert_eq!(planned(&framework).is_none(), is_file, "{text}");
    }
}
