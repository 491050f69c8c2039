//! Whether a log is of another run than a question.

use super::Log;
use super::steady::batch;
use crate::SetupDocument;
use crate::document::{Document, ModelDocument};

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
    /// that are no guess. The global batch is that of the last iteration, else that of the dump.
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
