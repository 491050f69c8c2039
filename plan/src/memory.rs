//! The memory of a device: parameters, gradients, optimizer state, activations and buffers.

use pipeline::{Bytes, Footprint, Vocabulary};

use crate::cut::Cut;
use crate::model::{Attention, Module, Recompute, Transformer, number};
use crate::setup::{Recipe, Setup, Zero};

/// Bytes of a parameter, and of an activation, in 16 bits.
const PARAMETER: f64 = 2.0;
/// Bytes of a logit while the loss is computed: 16 bits, and 32 for softmax.
const LOGIT: f64 = 6.0;

/// The most a device of one stage holds, by part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StageMemory {
    /// Weights in 16 bits.
    pub parameters: Bytes,
    /// Gradients.
    pub gradients: Bytes,
    /// Weights in 32 bits and moments.
    pub optimizer: Bytes,
    /// Activations at the peak of the order.
    pub activations: Bytes,
    /// Logits, a layer that is computed again, and what the framework reserves.
    pub buffers: Bytes,
}

impl StageMemory {
    /// All of it.
    #[must_use]
    pub fn sum(&self) -> Bytes {
        let parts =
            [self.parameters, self.gradients, self.optimizer, self.activations, self.buffers];
        Bytes(parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.0)))
    }

    /// The memory without activations, which is held all the time.
    #[must_use]
    pub fn resident(&self) -> Bytes {
        Bytes(self.sum().0 - self.activations.0)
    }
}

/// The part of the model on a stage: layers, and ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Share {
    /// Layers.
    pub layers: u64,
    /// Whether the embeddings are on it.
    pub embedding: bool,
    /// Whether the head is.
    pub head: bool,
}

/// Parameters of a stage on one device: those all replicas have alike, and those of its experts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameters {
    /// Without experts.
    pub dense: f64,
    /// Of experts.
    pub experts: f64,
}

impl Parameters {
    /// Of `share`, before replicas share anything. Tensor groups share every matrix; of
    /// normalisations, which are not shared, only t - 1 in t are left out: far below 0.1 %.
    #[must_use]
    pub fn of(model: &Transformer, setup: &Setup, share: Share) -> Self {
        let t = number(setup.tensor);
        let vocabulary = |here: bool, parameters: u64| match (setup.vocabulary_parallel, here) {
            (true, _) => number(parameters) / number(setup.pipeline),
            (false, true) => number(parameters),
            (false, false) => 0.0,
        };
        // A tied head on another stage is a copy of the embedding.
        let copied = model.tied && setup.pipeline > 1 && !setup.vocabulary_parallel;
        let head = match copied {
            true => model.vocabulary * model.hidden,
            false => model.head_parameters(),
        };
        let ends = vocabulary(share.embedding, model.embedding_parameters())
            + vocabulary(share.head, head);
        let layers = number(share.layers);
        Self {
            dense: (layers * number(model.dense_parameters()) + ends) / t,
            experts: layers * number(model.expert_parameters()) / (t * number(setup.expert)),
        }
    }

    /// All.
    #[must_use]
    pub fn sum(self) -> f64 {
        self.dense + self.experts
    }

    /// Of what replicas share from ZeRO stage `from` on, the part of one device.
    #[must_use]
    pub fn shared(self, setup: &Setup, from: Zero) -> f64 {
        if setup.zero < from {
            return self.sum();
        }
        let replicas = number(setup.data * setup.context);
        self.dense / replicas + self.experts / (replicas / number(setup.expert)).max(1.0)
    }
}

/// The memory of a stage without activations: held all the time, or while it computes.
#[must_use]
pub fn resident(model: &Transformer, setup: &Setup, recipe: &Recipe, share: Share) -> StageMemory {
    let parameters = Parameters::of(model, setup, share);
    let cut = setup.cut(recipe);
    let tokens = number(cut.microbatch) * number(model.sequence) / number(cut.context);
    let head = share.head || setup.vocabulary_parallel;
    let columns = number(model.vocabulary)
        / number(cut.tensor)
        / if setup.vocabulary_parallel { number(setup.pipeline) } else { 1.0 };
    // Of shards, those of every microbatch on its way are among the activations.
    let whole = setup.family.vocabulary() == Vocabulary::Whole;
    let logits = if head && whole { tokens * columns * LOGIT } else { 0.0 };
    let again = match setup.recompute {
        Recompute::None => 0.0,
        Recompute::Selective => {
            held(model, cut, Recompute::None) - held(model, cut, setup.recompute)
        }
        Recompute::Modules(_) => {
            held(model, cut, Recompute::None) - held(model, cut, setup.recompute)
        }
        Recompute::Full => held(model, cut, Recompute::None),
    };
    // ZeRO 3 gathers the parameters of the layer at work and of the next.
    let gathered = if setup.zero == Zero::Parameters {
        2.0 * PARAMETER * parameters.sum() / number(share.layers.max(1))
    } else {
        0.0
    };
    let buffers = bytes(logits.max(again) + gathered).0.saturating_add(recipe.reserved.0);
    StageMemory {
        parameters: bytes(PARAMETER * parameters.shared(setup, Zero::Parameters)),
        gradients: bytes(number(recipe.gradient_bytes) * parameters.shared(setup, Zero::Gradients)),
        optimizer: bytes(
            number(recipe.optimizer_bytes) * parameters.shared(setup, Zero::Optimizer),
        ),
        activations: Bytes(0),
        buffers: Bytes(buffers),
    }
}

/// The memory that one microbatch holds in a shard of the head, from S to T: its logits, and the
/// last chunk's output, which the tensor group shares as it shares other activations.
#[must_use]
pub(crate) fn shard(model: &Transformer, cut: Cut, shards: usize) -> Bytes {
    let rows = number(Vocabulary::padded(model.vocabulary, shards)) / number(shards as u64);
    let output = PARAMETER * number(model.hidden) / shared(cut);
    bytes(tokens(model, cut) * (rows / number(cut.tensor) * LOGIT + output))
}

/// The activations that one microbatch holds in a chunk of `layers` layers.
#[must_use]
pub fn footprint(model: &Transformer, cut: Cut, recompute: Recompute, layers: u64) -> Footprint {
    let layers = number(layers);
    // Whatever is computed again in B stays for W, but for the scores of attention and the masks.
    let hidden = number(model.hidden) / shared(cut);
    let masks = 2.0 * hidden * tokens(model, cut);
    let until_weight = held(model, cut, Recompute::Selective) - masks;
    Footprint {
        until_backward: bytes(layers * held(model, cut, recompute)),
        until_weight: bytes(layers * until_weight),
    }
}

fn tokens(model: &Transformer, cut: Cut) -> f64 {
    number(cut.microbatch) * number(model.sequence) / number(cut.context)
}

/// By how many what is between products is shared.
fn shared(cut: Cut) -> f64 {
    if cut.sequence_parallel { number(cut.tensor) } else { 1.0 }
}

/// Bytes that a layer holds for a microbatch between F and B. For GPT: s b h (10 + 24/t + 5 a s/(h
/// t)), with sequence parallelism s b h (34/t + 5 a s/(h t)), without the last term where attention
/// is computed again or in tiles; 2 s b h where all is computed again (Korthikanti et al. 2022,
/// table 2).
fn held(model: &Transformer, cut: Cut, recompute: Recompute) -> f64 {
    let (tokens, t) = (tokens(model, cut), number(cut.tensor));
    let hidden = number(model.hidden);
    if recompute == Recompute::Full {
        return 2.0 * tokens * hidden / shared(cut);
    }
    let visited = number(model.experts.map_or(1, |experts| experts.top_k));
    // Inputs of two normalisations, of queries, keys and values, and of the MLP; two masks.
    let whole = hidden * (8.0 + 2.0 * visited) / shared(cut);
    let queries = number(model.heads * model.head_size);
    let keys = number(model.kv_heads * model.head_size);
    let mlp = number(model.ffn) * visited * if model.gated { 6.0 } else { 4.0 };
    // What QK norm reads: queries and keys as they were projected.
    let projected = if model.qk_norm { 2.0 * (queries + keys) } else { 0.0 };
    // Queries and what attention gives; keys and values; inside the MLP.
    let inner = (4.0 * queries + 4.0 * keys + projected + mlp) / t;
    let scores = match (model.attention, recompute) {
        (Attention::Core, again) if !again.has(Module::CoreAttention) => {
            5.0 * number(model.heads) * number(model.sequence) / t
        }
        // The sum of exponentials of each row, in 32 bits.
        (Attention::Flash, _) => 4.0 * number(model.heads) / t,
        (Attention::Core, _) => 0.0,
    };
    tokens * (whole + inner + scores)
}

/// Whole bytes, rounded up.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast of floats saturates.
pub(crate) fn bytes(size: f64) -> Bytes {
    Bytes(size.max(0.0).ceil() as u64)
}
