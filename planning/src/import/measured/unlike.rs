//! Whether a log is of another run than a question.

use super::Log;
use super::steady::batch;
use crate::document::{Document, ModelDocument};

/// Arguments of a dump that are held against a question, as Megatron-LM and in words.
pub(super) const NAMES: [(&str, &str); 11] = [
    ("global_batch_size", "global batch"),
    ("micro_batch_size", "microbatch"),
    ("seq_length", "sequence length"),
    ("world_size", "devices"),
    ("tensor_model_parallel_size", "tensor-parallel degree"),
    ("pipeline_model_parallel_size", "pipeline-parallel degree"),
    ("context_parallel_size", "context-parallel degree"),
    ("expert_model_parallel_size", "expert-parallel degree"),
    ("num_layers", "layers"),
    ("hidden_size", "hidden size"),
    ("num_attention_heads", "attention heads"),
];

impl Log {
    /// Whether it has a dump of arguments.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.stated.contains_key("num_layers") && self.stated.contains_key("hidden_size")
    }

    /// What the log says of its run and `document` says otherwise, a phrase each. The global batch is that of the last
    /// iteration, else that of the dump; `is_counted` says whether the number of devices is known.
    #[must_use]
    pub fn unlike(&self, document: &Document, is_counted: bool) -> Vec<String> {
        let differs = |&(name, words): &(&str, &str)| {
            let of_dump = self.stated.get(name).copied();
            let is_batch = name == "global_batch_size";
            let own = if is_batch { batch(&self.steps).or(of_dump) } else { of_dump }?;
            let asked = asked(document, name).filter(|_| is_counted || name != "world_size")?;
            (own != asked).then(|| format!("{words} {own} in the log, {asked} in the question"))
        };
        NAMES.iter().filter_map(differs).collect()
    }
}

/// The value of argument `name` in `document`, if it has one.
fn asked(document: &Document, name: &str) -> Option<u64> {
    let setup = document.setup.as_ref();
    let degree = |of: Option<u64>| setup.map(|_| of.unwrap_or(1));
    let sizes = match &document.model {
        ModelDocument::Sizes(sizes) => Some(sizes),
        ModelDocument::File(_) => None,
    };
    match name {
        "global_batch_size" => Some(document.batch),
        "micro_batch_size" => degree(setup?.microbatch),
        "seq_length" => document.sequence,
        "world_size" => document
            .cluster
            .iter()
            .flat_map(|one| &one.devices)
            .flatten()
            .copied()
            .reduce(|a, b| a + b),
        "tensor_model_parallel_size" => degree(setup?.tensor),
        "pipeline_model_parallel_size" => degree(setup?.pipeline),
        "context_parallel_size" => degree(setup?.context),
        // Without experts the degree means nothing.
        "expert_model_parallel_size" => sizes?.experts.and_then(|_| degree(setup?.expert)),
        "num_layers" => Some(sizes?.layers),
        "hidden_size" => Some(sizes?.hidden),
        "num_attention_heads" => Some(sizes?.heads),
        _ => None,
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
            "tensor-parallel degree 4 in the log, 1 in the question",
        ];
        assert_eq!(of(dump), expected);
        // The devices of a script that does not say them are a guess.
        assert_eq!(Log::of(dump, 1.0).unlike(&document(), false), expected[1..]);
    }
}
