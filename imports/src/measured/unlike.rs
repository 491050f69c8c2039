//! Whether a log is of another run than a question.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::Imported;
use super::Log;
use super::steady::batch;
use planning::SetupDocument;
use planning::{Document, ModelDocument};

const BATCH: &str = "global_batch_size";
const DEVICES: &str = "world_size";

/// Arguments of a dump that are held against a question, as Megatron-LM and in words.
pub(super) const NAMES: [(&str, &str); 11] = [
    (BATCH, "global batch"),
    ("micro_batch_size", "microbatch"),
    ("seq_length", "sequence length"),
    (DEVICES, "devices"),
    ("tensor_model_parallel_size", "tensor parallelism"),
    ("pipeline_model_parallel_size", "stages"),
    ("context_parallel_size", "context parallelism"),
    ("expert_model_parallel_size", "expert parallelism"),
    ("num_layers", "layers"),
    ("hidden_size", "hidden size"),
    ("num_attention_heads", "attention heads"),
];

/// The values of [`NAMES`] in `document`, as far as it has them.
fn values(document: &Document) -> [Option<u64>; NAMES.len()] {
    let sizes = match &document.model {
        ModelDocument::Sizes(sizes) => Some(sizes),
        ModelDocument::File(_) => None,
    };
    let setup = document.setup.as_ref();
    let degree = |of: fn(&SetupDocument) -> Option<u64>| setup.map(|own| of(own).unwrap_or(1));
    let devices = document.cluster.iter().flat_map(|one| &one.devices).flatten().copied();
    [
        Some(document.batch),
        degree(|own| own.microbatch),
        document.sequence,
        devices.reduce(u64::saturating_add),
        degree(|own| own.tensor),
        degree(|own| own.pipeline),
        degree(|own| own.context),
        // Without experts the degree means nothing.
        sizes.and_then(|own| own.experts).and_then(|_| degree(|own| own.expert)),
        sizes.map(|own| own.layers),
        sizes.map(|own| own.hidden),
        sizes.map(|own| own.heads),
    ]
}

impl Log {
    /// Whether it has a dump of arguments.
    #[must_use]
    pub fn has_arguments(&self) -> bool {
        self.stated.contains_key("num_layers") && self.stated.contains_key("hidden_size")
    }

    /// What the log says of its run and `document` says otherwise, a phrase each; of devices only if it `has_devices`
    /// that are not guess. The global batch is that of the last iteration, else that of the dump.
    #[must_use]
    pub fn unlike(&self, document: &Document, has_devices: bool) -> Vec<String> {
        let differs = |((name, words), asked): (&(&str, &str), Option<u64>)| {
            let of_steps = batch(&self.steps).filter(|_| *name == BATCH);
            let own = of_steps.or(self.stated.get(name).copied())?;
            let asked = asked.filter(|_| has_devices || *name != DEVICES)?;
            (own != asked).then(|| format!("{words} {own} in the log, {asked} in the question"))
        };
        NAMES.iter().zip(values(document)).filter_map(differs).collect()
    }
}

/// Tables of a question that say what a run is.
const TABLES: [&str; 3] = ["model", "setup", "training"];
/// Keys that are 1 where they are not set.
const DEGREES: [&str; 6] = ["tensor", "pipeline", "context", "expert", "chunks", "microbatch"];

/// What the configuration in a log says otherwise than its script, a sentence each.
pub(in super::super) fn contradictions(log: &Imported, script: &Imported) -> Vec<String> {
    let keys = |of: &Imported| {
        let mut all = serde_json::to_value(&of.document).unwrap_or_default();
        let devices = all.pointer("/cluster/0/devices/0").cloned();
        let tables = TABLES.map(|name| all[name].take());
        let tables = tables.into_iter().filter_map(|table| table.as_object().cloned()).flatten();
        let mut keys: BTreeMap<String, Value> = tables.collect();
        keys.extend(
            ["batch", "sequence", "attention"].map(|key| (key.to_owned(), all[key].take())),
        );
        let devices = devices.filter(|_| log.has_devices() && script.has_devices());
        keys.extend(devices.map(|devices| ("devices".to_owned(), devices)));
        keys
    };
    let (own, others) = (keys(log), keys(script));
    let names: BTreeSet<&String> = own.keys().chain(others.keys()).collect();
    let said = |of: &BTreeMap<String, Value>, name: &str| match of.get(name) {
        None | Some(Value::Null | Value::Bool(false)) if DEGREES.contains(&name) => "1".to_owned(),
        None | Some(Value::Null | Value::Bool(false)) => "none".to_owned(),
        Some(Value::String(word)) => word.clone(),
        Some(value) => value.to_string().replace(['"', '[', ']'], "").replace(',', ", "),
    };
    let pairs = names.into_iter().map(|name| (name, said(&own, name), said(&others, name)));
    let differ = pairs.filter(|(_, own, other)| own != other);
    differ
        .map(|(name, own, other)| {
            let name = name.replace('_', "-");
            format!("the log says {name} {own}, the script {other}: the log's is taken")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let text = "tokens = 1e9\nbatch = 16\nsequence = 2048\n\
            model = { layers = 12, hidden = 512, heads = 8, vocabulary = 32000 }\n\
            cluster = [{ machine = \"h100\", devices = 8 }]\nsetup = { pipeline = 2 }\n";
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_log_of_another_batch_or_set_up_is_told() {
        let step =
            "iteration 3/ 9 | elapsed time per iteration (ms): 830.4 | global batch size: 24 |\n";
        let of = |text: &str| Log::of(text, 1.0).unlike(&document(), true);
        assert_eq!(of(step), ["global batch 24 in the log, 16 in the question"]);
        assert_eq!(of(&step.replace("24", "16")), [""; 0]);
        let dump = "  tensor_model_parallel_size ...................... 4\n\
            [rank0]:   pipeline_model_parallel_size .................... 2\n  \
            world_size ...................................... 64\n  \
            context_parallel_size ........................... 1\n  \
            expert_model_parallel_size ...................... 4\n  \
            num_layers ...................................... 12\n  \
            hidden_size ..................................... None\n";
        let expected = [
            "devices 64 in the log, 8 in the question",
            "tensor parallelism 4 in the log, 1 in the question",
        ];
        assert_eq!(of(dump), expected);
        // The devices of a script that does not say them are a guess.
        assert_eq!(Log::of(dump, 1.0).unlike(&document(), false), expected[1..]);
    }
}
