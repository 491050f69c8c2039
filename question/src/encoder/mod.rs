//! The question of an encoder in front of a language model: where it lies, and what a step takes then.

use std::path::{Path, PathBuf};

use pipeline::{Bytes, Nanos};

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::file;
use crate::keys::table::{Lists, keys};
use crate::kinds::InputKind;
use crate::values::packing::RecomputeKey;
use crate::values::passes::WorkFactor;
use crate::values::words::words;

/// Heading in the help of what the encoder does.
const ENCODER: &str = "The encoder";
/// Heading in the help of where the encoder lies.
const PLACEMENT: &str = "Placement";
/// Heading in the help of times by sizes and machine.
const SIZES: &str = "Times by sizes and machine";
/// Heading in the help of what activations take.
const MEMORY: &str = "Activation memory";
/// Heading in the help of the search.
const SEARCH: &str = "The search";

keys! {
    /// A question about an encoder in front of a language model.
    pub struct EncoderKeys as "Keys": "The language model", Lists::OfValues;

    /// Schedules of the language model to compare [default: all published ones that can have an encoder in front]
    schedule: Option<Vec<String>>, label: "Schedules", value: "NAME,..";
    /// Stages of the pipeline [default: 8]
    stages: Option<u64>, label: "Stages (p)", value: "P";
    /// Microbatches of a step [default: 32]
    microbatches: Option<u64>, label: "Microbatches (m)", value: "M";
    /// Chunks per stage, for schedules that take any number
    chunks: Option<u64>, label: "Chunks per stage (v)", value: "V";
    /// Forward time of a stage for a microbatch
    forward: Option<Nanos>, label: "F (forward)", value: "TIME";
    /// Backward time of a stage for a microbatch, inputs and weights together [default: twice the forward]
    backward: Option<Nanos>, label: "Whole backward (B and W)", value: "TIME";
    /// The part of it that is for weights, W [default: half]
    weight: Option<Nanos>, label: "W (weight gradient)", value: "TIME";
    /// Latency of a transfer between two stages [default: 0ns]
    hop: Option<Nanos>, label: "Time of a hop between stages", value: "TIME";
    /// Layers of the language model, for --placement spread and own-stages to cut it between them alone [default:
    /// cut anywhere]
    layers: Option<u64>, label: "Layers of the language model", value: "N";
    /// Forward time of the encoder for a microbatch, all its layers
    encoder_forward: Option<Nanos>, label: "Forward of the encoder", value: "TIME", heading: ENCODER;
    /// Backward time of the encoder for a microbatch, inputs and weights together [default: twice the forward]
    encoder_backward: Option<Nanos>, label: "Backward of the encoder", value: "TIME", heading: ENCODER;
    /// No weight of the encoder is trained: it has no backward
    frozen_encoder: bool, label: "Frozen encoder", heading: ENCODER;
    /// Layers of the encoder, between which its passes are cut [default: those of its config, otherwise 24]
    encoder_layers: Option<u64>, label: "Layers of the encoder", value: "N", heading: ENCODER;
    /// Work of the encoder for each microbatch relative to the one whose times are given, as in 1,0,2.5: unequal
    /// numbers of images
    encoder_work: Option<Vec<WorkFactor>>, label: "Work of each microbatch", value: "FACTOR,..", heading: ENCODER;
    /// How long the output of the encoder takes to the first stage, and its gradient back, where it runs on another
    /// one in bubbles [default: as --hop]
    encoder_transfer: Option<Nanos>, label: "Transfer to the first stage", value: "TIME", heading: ENCODER;
    /// Placement of the encoder: first-stage, own-stages, spread or bubbles [default: all four]
    placement: Option<Vec<EncoderPlacement>>, label: "Placement", value: "WHERE,..", heading: PLACEMENT;
    /// Stages that --placement own-stages gives to the encoder, of all of them [default: those of the shortest step]
    own_stages: Option<u64>, label: "Stages of the encoder", value: "N", heading: PLACEMENT;
    /// Activation bytes of a microbatch on a stage, from F to B
    activation: Option<Bytes>, label: "Activations of a stage", value: "SIZE", heading: MEMORY;
    /// Activation bytes of a microbatch in all layers of the encoder, from forward to backward
    encoder_activation: Option<Bytes>, label: "Activations of the encoder", value: "SIZE", heading: MEMORY;
    /// Memory limit of a stage, for activations of model and encoder
    memory_limit: Option<Bytes>, label: "Memory limit of a stage", value: "SIZE", heading: MEMORY;
    /// The language model, instead of --forward: a config.json of Hugging Face, or a name such as llama3-70b. The
    /// vision_config of a config is the encoder, unless --encoder-hidden or --encoder-forward is given
    model: Option<PathBuf>, label: "Model", value: "MODEL", heading: SIZES;
    /// The machine: a built-in one such as h100, or a file
    machine: Option<String>, label: "Machine", value: "MACHINE", heading: SIZES;
    /// Tensor-parallel devices of a stage, for model and encoder, with sequence parallelism [default: 1]
    tensor: Option<u64>, label: "Tensor parallelism", value: "N", heading: SIZES;
    /// Samples of a microbatch [default: 1]
    microbatch_size: Option<u64>, label: "Samples of a microbatch", value: "B", heading: SIZES;
    /// Tokens of a sample of the language model [default: those of the config, 4096 for names]
    sequence: Option<u64>, label: "Sequence length", value: "TOKENS", heading: SIZES;
    /// Activations that the backward computes again: full (of whole layers) or none [default: none]
    recompute: Option<RecomputeKey>, label: "Recomputation", value: "WHAT", heading: SIZES;
    /// Hidden size of the encoder, a vision transformer, instead of --encoder-forward
    encoder_hidden: Option<u64>, label: "Hidden size of the encoder", value: "H", heading: SIZES;
    /// Attention heads of the encoder [default: those of its config, otherwise of 64 each]
    encoder_heads: Option<u64>, label: "Heads of the encoder", value: "A", heading: SIZES;
    /// Width of the MLP of the encoder [default: that of its config, otherwise four times the hidden size]
    encoder_ffn: Option<u64>, label: "MLP of the encoder", value: "WIDTH", heading: SIZES;
    /// Patches of an image, which all attend to each other [default: those of its config, otherwise 1024]
    encoder_tokens: Option<u64>, label: "Tokens of an image", value: "TOKENS", heading: SIZES;
    /// Images of a sample [default: 1]
    images: Option<u64>, label: "Images of a sample", value: "N", heading: SIZES;
    /// How long to search bubbles, in multiples of the default, which takes seconds [default: 1]
    effort: Option<u64>, label: "Search effort", value: "TIMES", heading: SEARCH;
    /// Seed of the search [default: 0]
    seed: Option<u64>, label: "Seed", value: "N", heading: SEARCH;
}

words! {
    /// Where an encoder lies.
    pub enum EncoderPlacement {
        /// In front of the first chunk, on the first stage, as Megatron-LM has it
        FirstStage = "first-stage";
        /// On the first stages, which have none of the language model
        OwnStages = "own-stages";
        /// Layers of encoder and language model in turn, so that all chunks have equal work
        Spread = "spread";
        /// On every stage, in the time between passes of the language model
        Bubbles = "bubbles";
    }
}

impl EncoderKeys {
    /// The keys of the file at `path`.
    pub fn read(context: &Context<'_>, path: &Path) -> Result<Self, Diagnostic> {
        let file: Self = file::read(context, path, InputKind::Question("encoder"))?;
        let machine = file.machine.map(|name| file::machine_beside(context, path, name));
        let model = file.model.map(|name| file::beside(context, path, name));
        Ok(Self { machine, model, ..file })
    }
}
