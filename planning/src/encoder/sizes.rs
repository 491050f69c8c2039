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
use crate::config::Vision;
use crate::machines;
use crate::samples::{HALF, Samples};

/// Tokens of an image where none are given.
const IMAGE_TOKENS: u64 = 1024;
/// The size of a head of an encoder where the number of heads is not given.
const HEAD_SIZE: u64 = 64;
/// Pairs of tokens that attend to each other over those of a causal sequence: all.
const ALL_PAIRS: f64 = 2.0;
/// How many times as long as its kernels an encoder takes at least whose launches are said to bound it.
const BOUND: u128 = 2;
/// The most tokens of a microbatch.
const MAX_TOKENS: u64 = 1 << 30;

/// Sizes on a machine.
pub(super) struct Sizes {
    machine: Machine,
    model: Option<Transformer>,
    encoder: Option<Tower>,
    tensor: u64,
    samples: u64,
    images: u64,
    recompute: Recompute,
    /// What was assumed, a sentence each.
    pub(super) assumed: Vec<String>,
}

/// An encoder by its sizes.
struct Tower {
    model: Transformer,
    /// Pairs of tokens that attend to each other over those of a causal sequence, in the mean of all layers.
    attended: f64,
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
        let wants_vision = keys.encoder_hidden.is_none() && keys.encoder_forward.is_none();
        let (model, machine, mut assumed, vision) = match &keys.model {
            Some(model) => {
                let wanted = (keys.sequence, wants_vision);
                let samples = Samples::read_with(context, model, machine, wanted)?;
                let Samples { model, machine, assumed, vision } = samples;
                check_layers(&model, stages)?;
                (Some(model), machine, assumed, vision)
            }
            None => {
                let machine = machines::named(context, machine, Path::new(""))
                    .map_err(|error| error.about("machine"))?;
                (None, machine, Vec::new(), None)
            }
        };
        let encoder = encoder(keys, vision.as_ref())?;
        if let (Some(vision), Some(tower)) = (&vision, &encoder) {
            assumed.push(sentence(keys, vision, tower));
        }
        let tower = encoder.as_ref().map(|tower| &tower.model);
        for one in model.iter().chain(tower) {
            check_group(one, tensor, samples.saturating_mul(images))?;
        }
        let recompute = match keys.recompute {
            Some(RecomputeKey::Full) => Recompute::Full,
            Some(RecomputeKey::None) | None => Recompute::None,
        };
        let mut all = Self { machine, model, encoder, tensor, samples, images, recompute, assumed };
        all.assumed.extend(all.launches());
        Ok(Some(all))
    }

    /// That launches of kernels bound the encoder, if they do.
    fn launches(&self) -> Option<String> {
        let [eager, graphs] = [0.0, 1.0].map(|graphs| self.encoder_with(graphs));
        let [eager, graphs] = [eager?, graphs?].map(|times| times.forward_and_backward());
        let text =
            |time: u128| format!("{:.1} ms", number(u64::try_from(time).unwrap_or(u64::MAX)) / 1e6);
        (eager > BOUND * graphs).then(|| {
            format!(
                "kernel launches of Megatron-LM's host bound the encoder: {} for a microbatch, and {} with CUDA graphs; \
                 --encoder-forward and --encoder-backward take measured times",
                text(eager),
                text(graphs),
            )
        })
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
        self.encoder_with(0.0)
    }

    /// The same where CUDA graphs replace the launches of this share of kernels.
    fn encoder_with(&self, graphs: f64) -> Option<PassTimes> {
        let Tower { model, attended } = self.encoder.as_ref()?;
        let mut task = self.task(model, self.samples.saturating_mul(self.images), *attended);
        task.software.graphs = graphs;
        let layers = model.counts(0..model.layers);
        let kinds = model.layer_kinds();
        let all = |of: fn(Times) -> f64| {
            plan::nanos(layers.sum_of(kinds, |kind: LayerKind| of(layer(&task, kind).times)))
        };
        Some(PassTimes::new(
            all(|times| times.forward),
            all(|times| times.backward_input),
            all(|times| times.backward_weight),
        ))
    }

    /// The layers of the encoder, where its sizes are given.
    pub(super) fn encoder_layers(&self) -> Option<u64> {
        self.encoder.as_ref().map(|tower| tower.model.layers)
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

/// The encoder that `keys` give the sizes of, or else that of the model's config, of which `keys` may change some.
fn encoder(keys: &EncoderKeys, vision: Option<&Vision>) -> Result<Option<Tower>, Diagnostic> {
    let of = |size: fn(&Vision) -> u64| vision.map(size);
    let Some(hidden) = keys.encoder_hidden.or(of(|one| one.hidden)) else { return Ok(None) };
    let heads = keys.encoder_heads.or(vision.and_then(|one| one.heads));
    let heads = heads.unwrap_or_else(|| (hidden / HEAD_SIZE).max(1));
    if heads == 0 || hidden % heads != 0 {
        let message =
            format!("{heads} heads do not divide the hidden size {hidden} of the encoder");
        return Err(wrong("encoder-heads", message));
    }
    let tokens = keys.encoder_tokens.or(vision.and_then(|one| one.tokens)).unwrap_or(IMAGE_TOKENS);
    if tokens > MAX_TOKENS {
        let message = format!("--encoder-tokens is {tokens}: from 1 to {MAX_TOKENS}");
        return Err(wrong("encoder-tokens", message));
    }
    let ffn = keys.encoder_ffn.or(vision.and_then(|one| one.ffn));
    let sizes = plan::Sizes {
        layers: keys.encoder_layers.or(of(|one| one.layers)).unwrap_or(ENCODER_LAYERS),
        hidden,
        heads,
        kv_heads: heads,
        head_size: hidden / heads,
        ffn: ffn.unwrap_or_else(|| hidden.saturating_mul(4)),
        gated: vision.is_some_and(|one| one.gated),
        // An encoder has no head: the output layer that the formulas know is not asked for.
        vocabulary: hidden,
        sequence: tokens,
        tied: true,
        biases: Biases { qkv: true, output: true, mlp: true },
        norm: Norm::Layer,
        attention: Attention::Flash,
        ..plan::Sizes::default()
    };
    let attended = attended(vision, sizes.layers, tokens);
    let model = Transformer::new(sizes)
        .map_err(|error| wrong("encoder-hidden", format!("the encoder: {error}")))?;
    Ok(Some(Tower { model, attended }))
}

/// Pairs of tokens that attend to each other over those of a causal sequence: all, or in windows.
fn attended(vision: Option<&Vision>, layers: u64, tokens: u64) -> f64 {
    let Some(windows) = vision.and_then(|one| one.windows) else { return ALL_PAIRS };
    let whole = number(windows.whole.min(layers)) / number(layers.max(1));
    let share = (number(windows.tokens) / number(tokens.max(1))).min(1.0);
    ALL_PAIRS * (whole + (1.0 - whole) * share)
}

/// How the encoder of a config is read.
fn sentence(keys: &EncoderKeys, vision: &Vision, tower: &Tower) -> String {
    let plan::Sizes { layers, hidden, heads, ffn, sequence, .. } = &*tower.model;
    let gate = if vision.gated { "a gated MLP" } else { "an MLP" };
    let windows = vision.windows.map_or_else(String::new, |windows| {
        format!(", in all but {} layers in windows of {}", windows.whole, windows.tokens)
    });
    let size = match (keys.encoder_tokens, vision.tokens) {
        (None, None) => " (--encoder-tokens: its config has no size of images)",
        _ => "",
    };
    format!(
        "the encoder is the model's vision_config: {layers} layers of {hidden}, {heads} heads, {gate} of {ffn}, \
         {sequence} tokens of an image{windows}{size}; its embeddings and its projector are left out"
    )
}

/// Refuses a `model` whose heads `tensor` devices cannot share, or of whose sequences `count` are too long.
fn check_group(model: &Transformer, tensor: u64, count: u64) -> Result<(), Diagnostic> {
    if !model.heads.is_multiple_of(tensor) {
        let heads = model.heads;
        let message = format!("--tensor {tensor} does not divide {heads} attention heads");
        return Err(wrong("tensor", message));
    }
    if model.sequence.saturating_mul(count) > MAX_TOKENS {
        let message = format!("a microbatch has more than {MAX_TOKENS} tokens");
        return Err(wrong("microbatch-size", message));
    }
    Ok(())
}
