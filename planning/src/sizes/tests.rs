//! Tables of models of today beside their configs, and tables that make no sense.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plan::Transformer;
use question::host::Context;

use crate::{MemoryError, read};

/// The model of a question whose table `[model]` is `table`, or the error.
fn model(table: &str) -> Result<Transformer, String> {
    let text = format!(
        "tokens = 1e9\nbatch = 16\nsequence = 4096\n{table}\n[[cluster]]\nmachine = \"h200\"\ndevices = 8\n"
    );
    answer(&BTreeMap::from([(PathBuf::from("plan.toml"), text.into_bytes())]))
}

/// The model of a question about the file `config`.
fn of_config(config: &str) -> Transformer {
    let text = "model = \"config.json\"\ntokens = 1e9\nbatch = 16\nsequence = 4096\n\
                cluster = [{ machine = \"h200\", devices = 8 }]\n";
    let files = [("plan.toml", text), ("config.json", config)];
    let files = files.map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec()));
    answer(&BTreeMap::from(files)).unwrap()
}

fn answer(host: &BTreeMap<PathBuf, Vec<u8>>) -> Result<Transformer, String> {
    match read(&Context::new(host), Path::new("plan.toml"), MemoryError::default()) {
        Ok(question) => Ok(question.model),
        Err(error) => Err(format!("{error} {}", error.help.clone().unwrap_or_default())),
    }
}

macro_rules! config {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/configs/", $name, ".json"))
    };
}

const DEEPSEEK: &str = "[model]
layers = 61
hidden = 7168
heads = 128
head-size = 192
value-size = 128
latent-query = 1536
latent-keys = 512
rotary-size = 64
ffn = 2048
gated = true
vocabulary = 129280
experts = 256
top-k = 8
shared-ffn = 2048
router-bias = true
dense-layers = 3
dense-ffn = 18432
mtp = 1
";

const GPT_OSS: &str = "[model]
layers = 24
hidden = 2880
heads = 64
kv-heads = 8
head-size = 64
ffn = 2880
gated = true
biases = true
vocabulary = 201088
experts = 32
top-k = 4
router-bias = true
sinks = true
window = 128
full-every = 2
";

const GEMMA: &str = "[model]
layers = 26
hidden = 1152
heads = 4
kv-heads = 1
head-size = 256
qk-norm = true
ffn = 6912
gated = true
norms = 4
tied = true
vocabulary = 262144
window = 512
full-every = 6
";

const NEMOTRON: &str = "[model]
layers = 52
hidden = 2688
heads = 32
kv-heads = 2
head-size = 128
ffn = 1856
norm = \"rms\"
biases = false
vocabulary = 131072
experts = 128
top-k = 6
shared-ffn = 3712
router-bias = true
pattern = \"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME\"
mamba-heads = 64
mamba-head-size = 64
mamba-state = 128
mamba-groups = 8
";

const QWEN_NEXT: &str = "[model]
layers = 48
hidden = 2048
heads = 16
kv-heads = 2
head-size = 256
qk-norm = true
attention-gate = true
ffn = 512
gated = true
vocabulary = 151936
experts = 512
top-k = 10
shared-ffn = 512
shared-gate = true
full-every = 4
linear-key-heads = 16
linear-value-heads = 32
linear-key-size = 128
linear-value-size = 128
";

/// The same sizes, kind by kind.
#[test]
fn tables_describe_what_configs_do() {
    for (table, config) in [
        (DEEPSEEK, config!("deepseek-v3")),
        (GPT_OSS, config!("gpt-oss-20b")),
        (GEMMA, config!("gemma-3-1b")),
        (NEMOTRON, config!("nemotron-3-nano-30b-a3b")),
    ] {
        let by_table = model(table).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(by_table, of_config(config));
    }
    let next = model(QWEN_NEXT).unwrap();
    assert_eq!(next.layer_kinds().len(), 2);
    let billions = plan::number(next.parameters()) / 1e9;
    assert!((79.0..80.0).contains(&billions), "{billions}");
}

#[test]
fn experts_can_come_in_every_second_layer() {
    let table = format!("{DEEPSEEK}experts-every = 2\n");
    let model = model(&table).unwrap();
    let counts: Vec<u64> = model.counts(0..8).iter().take(2).collect();
    // Of the first eight the fourth, sixth and eighth.
    assert_eq!(counts, [5, 3]);
}

#[test]
fn tables_that_make_no_sense_are_refused_with_the_key_and_a_cure() {
    let without = |table: &str, key: &str| -> String {
        table
            .lines()
            .filter(|line| !line.starts_with(key))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let with = |table: &str, line: &str| format!("{table}{line}\n");
    let changed = |table: &str, from: &str, to: &str| {
        assert!(table.contains(from), "{from}");
        table.replace(from, to)
    };
    for (table, message) in [
        (without(DEEPSEEK, "rotary-size"), "latent-keys and rotary-size belong together"),
        (without(DEEPSEEK, "head-size"), "head-size is missing: with latent-keys"),
        (without(&without(DEEPSEEK, "rotary"), "latent-keys"), "latent-query is given, but not"),
        (with(DEEPSEEK, "kv-heads = 8"), "kv-heads is 8, but latent attention makes keys for each"),
        (with(DEEPSEEK, "index-heads = 64"), "index-head-size is missing: layers with an indexer"),
        (with(QWEN_NEXT, "index-top-k = 8"), "index-top-k is given, but not latent-keys"),
        (with(QWEN_NEXT, "index-top-k = 8"), "an indexer chooses among latents: give latent-keys"),
        (
            with(DEEPSEEK, "index-heads = 64\nindex-head-size = 128\nindex-top-k = 0"),
            "index-top-k is 0: it must be from 1",
        ),
        (changed(DEEPSEEK, "rotary-size = 64", "rotary-size = 192"), "rotary-size is 192: it must"),
        (without(DEEPSEEK, "dense-ffn"), "dense-ffn is missing: some layers have an MLP instead"),
        (without(DEEPSEEK, "dense-layers"), "dense-ffn is given, but all layers are alike"),
        (
            changed(DEEPSEEK, "dense-layers = 3", "dense-layers = 61"),
            "dense-layers is 61, but there",
        ),
        (changed(DEEPSEEK, "mtp = 1", "mtp = 1000"), "mtp is 1000: it must be from 1 to 64"),
        (without(QWEN_NEXT, "shared-ffn"), "shared-gate is given, but there is no shared-ffn"),
        (without(QWEN_NEXT, "linear-key-size"), "linear-key-size is missing: layers of linear"),
        (with(QWEN_NEXT, "window = 8"), "with a window or with linear attention, not both"),
        (changed(QWEN_NEXT, "full-every = 4", "full-every = 0"), "full-every is 0: it must be"),
        (without(GEMMA, "window"), "full-every is given, but neither window nor"),
        (changed(GEMMA, "window = 512", "window = 0"), "window is 0: it must be from 1"),
        (with(GEMMA, "shared-ffn = 8"), "shared-ffn is given, but there are no experts"),
        (with(GEMMA, "mamba-state = 8"), "mamba-state is given, but no layer is of Mamba-2"),
        (with(GEMMA, "linear-convolution = 4"), "linear-convolution is given, but there is no"),
        (with(GEMMA, "norm = \"batch\""), "norm is `batch`: write rms or layer"),
        (with(NEMOTRON, "window = 8"), "window is given, but pattern says what each layer is"),
        (
            changed(NEMOTRON, "layers = 52", "layers = 51"),
            "pattern has 52 letters, but there are 51",
        ),
        (changed(NEMOTRON, "\"MEM", "\"MXM"), "pattern has the letter `X`: it has M, *, - and E"),
        (without(NEMOTRON, "mamba-groups"), "mamba-groups is missing: layers of Mamba-2 need it"),
        (without(&without(NEMOTRON, "experts"), "top-k"), "shared-ffn is given, but there are no"),
    ] {
        let refused = model(&table).map_or_else(|error| error, |_| "it is planned".to_owned());
        assert!(refused.contains(message), "{message}: {refused}");
    }
}
