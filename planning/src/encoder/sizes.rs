//! Times of language model and encoder by their sizes and the machine, from the layer formulas of the planner.

use std::path::Path;

use pipeline::{Nanos, PassTimes};
use plan::{
    Attention, Biases, LayerKind, Loss, Machine, Norm, Partition, Precision, Recompute, Software,
    Task, Times, Transformer, head, layer, number,
};
use question::diagnostic::Diagnostic;
use question::encoder::EncoderKeys;
use question::host::Context;
use question::values::packing::RecomputeKey;

use super::{ENCODER_LAYERS, missing, wrong};
use crate::machines;
use crate::samples::{HALF, Samples};

/// Tokens of an image where none are given.
const IMAGE_TOKENS: u64 = 1024;
/// The size of a head of an encoder where the number of heads is not given.
const HEAD_SIZE: u64 = 64;
/// Pairs of tokens that attend to each other over those of a causal sequence: all.
const ALL_PAIRS: f64 = 2.0;
/// The most tokens of a microbatch.
const MAX_TOKENS: u64 = 1 << 30;

/// Sizes on a machine.
pub(super) struct Sizes {
    machine: Machine,
    model: Option<Transformer>,
    encoder: Option<Transformer>,
    tensor: u64,
    samples: u64,
    images: u64,
    recompute: Recompute,
    /// What was assumed, a sentence each.
    pub(super) assumed: Vec<String>,
}

impl Sizes {
    /// The sizes that `keys` give; none without a machine.
    pub(super) fn read(
        context: &Context<'_>,
        keys: &EncoderKeys,
        stages: u64,
    ) -> Result<Option<Self>, Diagnostic> {
        let Some(machine) = &keys.machine else {
            return match (&keys.model, keys.encoder_hidden) {
                (None, None) => Ok(None),
                _ => Err(missing("machine", "times by sizes need one such as h100")),
            };
        };
        let tensor = keys.tensor.unwrap_or(1);
        let samples = keys.microbatch_size.unwrap_or(1);
        let images = keys.images.unwrap_or(1);
        let counts = [
            ("tensor", tensor),
            ("microbatch-size", samples),
            ("images", images),
            ("sequence", keys.sequence.unwrap_or(1)),
        ];
        for (key, number) in counts {
            if number == 0 || number > MAX_TOKENS {
                return Err(wrong(key, format!("--{key} is {number}: from 1 to {MAX_TOKENS}")));
            }
        }
        let (model, machine, assumed) = match &keys.model {
            Some(model) => {
                let samples = Samples::read_with(context, model, machine, keys.sequence)?;
                let Samples { model, machine, assumed } = samples;
                check_layers(&model, stages)?;
                (Some(model), machine, assumed)
            }
            None => {
                let machine = machines::named(context, machine, Path::new(""))
                    .map_err(|error| error.about("machine"))?;
                (None, machine, Vec::new())
            }
        };
        let encoder = encoder(keys)?;
        for one in [&model, &encoder].into_iter().flatten() {
            if one.heads % tensor != 0 {
                let heads = one.heads;
                let message = format!("--tensor {tensor} does not divide {heads} attention heads");
                return Err(wrong("tensor", message));
            }
            let tokens = one.sequence.saturating_mul(samples).saturating_mul(images);
            if tokens > MAX_TOKENS {
                let message = format!("a microbatch has more than {MAX_TOKENS} tokens");
                return Err(wrong("microbatch-size", message));
            }
        }
        let recompute = match keys.recompute {
            Some(RecomputeKey::Full) => Recompute::Full,
            Some(RecomputeKey::None) | None => Recompute::None,
        };
        Ok(Some(Self { machine, model, encoder, tensor, samples, images, recompute, assumed }))
    }

    /// The times of each layer of the language model for a microbatch, and of its head, in seconds.
    pub(super) fn model(&self) -> Option<(Vec<Times>, Times)> {
        let model = self.model.as_ref()?;
        let task = self.task(model, self.samples, 1.0);
        let layers = (0..model.layers).map(|at| layer(&task, model.kind_of(at)).times).collect();
        Some((layers, head(&task).times))
    }

    /// The times of all layers of the encoder for a microbatch.
    pub(super) fn encoder(&self) -> Option<PassTimes> {
        let encoder = self.encoder.as_ref()?;
        let task = self.task(encoder, self.samples.saturating_mul(self.images), ALL_PAIRS);
        let layers = encoder.counts(0..encoder.layers);
        let kinds = encoder.layer_kinds();
        let all = |of: fn(Times) -> f64| {
            plan::nanos(layers.sum_of(kinds, |kind: LayerKind| of(layer(&task, kind).times)))
        };
        Some(PassTimes::new(
            all(|times| times.forward),
            all(|times| times.backward_input),
            all(|times| times.backward_weight),
        ))
    }

    fn task<'a>(&'a self, model: &'a Transformer, samples: u64, attended: f64) -> Task<'a> {
        Task {
            model,
            machine: &self.machine,
            partition: Partition {
                tensor: self.tensor,
                context: 1,
                expert: 1,
                expert_tensor: 1,
                microbatch: samples,
                sequence_parallel: self.tensor > 1,
                loss: Loss::Separate,
            },
            precision: Precision::Bf16,
            software: Software::default(),
            recompute: self.recompute,
            head: Precision::Bf16,
            load: plan::Load::EVEN,
            attended,
        }
    }

    /// A hop between stages: the activations of a microbatch over the link that leaves the tensor group.
    pub(super) fn hop(&self) -> Nanos {
        let Some(model) = &self.model else { return Nanos(0) };
        let tokens = number(model.sequence.saturating_mul(self.samples));
        let bytes = tokens * number(model.hidden) * HALF / number(self.tensor);
        let leaves = self.tensor.saturating_mul(2) > self.machine.domain;
        plan::nanos(self.machine.hop(bytes, leaves))
    }
}

/// Checks that every stage has a layer.
fn check_layers(model: &Transformer, stages: u64) -> Result<(), Diagnostic> {
    if model.layers < stages {
        let layers = model.layers;
        return Err(wrong("stages", format!("the model has {layers} layers for {stages} stages")));
    }
    Ok(())
}

/// The encoder that `keys` give the sizes of.
fn encoder(keys: &EncoderKeys) -> Result<Option<Transformer>, Diagnostic> {
    let Some(hidden) = keys.encoder_hidden else { return Ok(None) };
    let heads = keys.encoder_heads.unwrap_or_else(|| (hidden / HEAD_SIZE).max(1));
    if heads == 0 || hidden % heads != 0 {
        let message = format!("{heads} heads do not divide the hidden size {hidden}");
        return Err(wrong("encoder-heads", message));
    }
    let tokens = keys.encoder_tokens.unwrap_or(IMAGE_TOKENS);
    if tokens > MAX_TOKENS {
        let message = format!("--encoder-tokens is {tokens}: from 1 to {MAX_TOKENS}");
        return Err(wrong("encoder-tokens", message));
    }
    let sizes = plan::Sizes {
        layers: keys.encoder_layers.unwrap_or(ENCODER_LAYERS),
        hidden,
        heads,
        kv_heads: heads,
        head_size: hidden / heads,
        ffn: keys.encoder_ffn.unwrap_or_else(|| hidden.saturating_mul(4)),
        // An encoder has no head: the output layer that the formulas know is not asked for.
        vocabulary: hidden,
        sequence: tokens,
        tied: true,
        biases: Biases { qkv: true, output: true, mlp: true },
        norm: Norm::Layer,
        attention: Attention::Flash,
        ..plan::Sizes::default()
    };
    let encoder = Transformer::new(sizes);
    encoder.map(Some).map_err(|error| wrong("encoder-hidden", format!("the encoder: {error}")))
}
