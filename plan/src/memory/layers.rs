//! Bytes per token that a layer of each kind keeps between F and B, part by part.
//!
//! For GPT these are the forms of Korthikanti et al. 2022 (arXiv 2205.05198, section 4, table 2). Other
//! parts are counted from what autograd saves in Megatron-LM with Transformer Engine: the input of every
//! product and normalisation, what attention reads and gives, and the input of every activation function. Of a
//! frozen product the input is not kept, unless its adapter needs it; of a layer without a backward nothing is.

use std::ops::Add;

use super::HALF;
use crate::model::{
    Attention, Ffn, LayerKind, Mixer, Module, Norm, Product, Recompute, Role, Side, Trained,
    Transformer, number,
};
use crate::offload::{Offload, Offloaded};
use crate::partition::Partition;
use crate::precision::Precision;

/// Bytes of a number in 32 bits.
const SINGLE: f64 = 4.0;

/// Who keeps: a device's view of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeper<'a> {
    pub(super) model: &'a Transformer,
    pub(super) partition: Partition,
    /// Devices that share a product of an expert.
    pub(super) expert_tensor: u64,
    pub(super) precision: Precision,
    /// Rows of the fullest device of an expert group over the mean.
    pub(super) imbalance: f64,
    pub(super) recompute: Recompute,
    /// Activations that are copied to the host between F and B.
    pub(super) offload: Offload,
    /// Whether the input of activation functions is kept in 8 bits.
    pub(super) fp8_activation_input: bool,
    /// Which weights of the layer are trained.
    pub(super) trained: Trained,
}

/// Bytes that a token keeps in a layer.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Kept {
    /// All but the masks.
    pub(super) values: f64,
    /// Masks of dropout, not needed after B.
    pub(super) masks: f64,
    /// Bytes at the host between F and B.
    pub(super) away: f64,
}

impl Kept {
    fn of(values: f64) -> Self {
        Self { values, ..Self::default() }
    }
}

impl Add for Kept {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            values: self.values + other.values,
            masks: self.masks + other.masks,
            away: self.away + other.away,
        }
    }
}

impl Keeper<'_> {
    /// Of a layer of `kind`.
    pub(super) fn layer(&self, kind: LayerKind) -> Kept {
        match kind.trained {
            Trained::ForwardOnly => Kept::default(),
            trained => Keeper { trained, ..*self }.with_backward(kind),
        }
    }

    fn with_backward(&self, kind: LayerKind) -> Kept {
        let whole = number(self.model.hidden) / self.shared();
        if self.recompute == Recompute::Full {
            return Kept::of(HALF * whole);
        }
        let parts = self.mixer(kind.mixer) + self.ffn(kind.ffn) + Kept::of(self.ranks(kind));
        if self.recompute.has(Module::SelectiveOp) {
            return Kept::of(HALF * whole) + parts;
        }
        // The input of each normalisation; a mask after the mixer and after the MLP.
        let [mixes, feeds] = [kind.mixer != Mixer::None, kind.ffn != Ffn::None].map(u64::from);
        let masks = if self.has_dropout() { number(mixes + feeds) * whole } else { 0.0 };
        let all = self.model.norms_of(kind);
        let of_mixer = mixes.min(all);
        let of_ffn = feeds.min(all - of_mixer);
        let norms = |count: u64| number(count) * HALF * whole;
        let norms = self.part(Offloaded::AttentionNorm, norms(of_mixer))
            + self.part(Offloaded::MlpNorm, norms(of_ffn))
            + Kept::of(norms(all - of_mixer - of_ffn));
        norms + parts + Kept { masks, ..Kept::default() }
    }

    /// The results of the first products of adapters, which the gradients of their second ones need.
    fn ranks(&self, kind: LayerKind) -> f64 {
        self.of_adapters(kind, |_, adapters, rows| rows * HALF * adapters * self.rank())
    }

    /// The sum of `of` over the products of a layer of `kind` that have adapters, given the product, their number and
    /// the rows of a token.
    fn of_adapters(&self, kind: LayerKind, of: impl Fn(&Product, f64, f64) -> f64) -> f64 {
        let one = |product: &Product| {
            let adapters = self.model.adapters_of(kind, product).len();
            let rows = if product.role == Role::RoutedExpert { self.rows() } else { 1.0 };
            if adapters == 0 { 0.0 } else { of(product, number(adapters as u64), rows) }
        };
        self.model.products_of(kind).iter().map(one).sum()
    }

    fn rank(&self) -> f64 {
        self.model.frozen().adapters.map_or(0.0, |adapters| number(adapters.rank))
    }

    /// Between B and W of a layer with adapters: their inputs, the results of their first products, and the
    /// gradients of their results.
    pub(super) fn until_weight_of_adapters(&self, kind: LayerKind) -> f64 {
        let inputs = |product: &Product| {
            let (inner, outer) = (number(product.inner), number(product.outer));
            match (product.role, product.side) {
                (Role::RoutedExpert, Side::Inner) => inner / number(self.expert_tensor) + outer,
                (Role::RoutedExpert, _) => inner + outer / number(self.expert_tensor),
                (_, Side::Inner) => inner / self.tensor() + outer / self.shared(),
                (_, Side::Outer) => inner / self.shared() + outer / self.tensor(),
                (_, Side::Neither) => (inner + outer) / self.shared(),
            }
        };
        self.ranks(kind) + self.of_adapters(kind, |product, _, rows| rows * HALF * inputs(product))
    }

    /// `values` that are copied to the host where `part` is.
    fn part(&self, part: Offloaded, values: f64) -> Kept {
        match self.offload.has(part) {
            true => Kept { away: values, ..Kept::default() },
            false => Kept::of(values),
        }
    }

    /// Bytes of a number of the input of an activation function.
    fn activated(&self) -> f64 {
        if self.fp8_activation_input { 1.0 } else { HALF }
    }

    /// Whether of products only every second result is kept, in their order, as torchtitan's selective
    /// checkpointing of operators does.
    fn is_selective_op(&self) -> bool {
        self.recompute.has(Module::SelectiveOp)
    }

    fn again(&self, module: Module) -> bool {
        self.recompute.has(module)
    }

    /// Devices that share the activations between products.
    pub(super) fn shared(&self) -> f64 {
        self.partition.shared()
    }

    fn tensor(&self) -> f64 {
        number(self.partition.tensor)
    }

    /// Whether dropout is applied: GPT and its kin, whose normalisations have a shift and whose MLP has
    /// no gate, were trained with it, models since Llama without.
    fn has_dropout(&self) -> bool {
        !self.model.gated && self.model.norm == Norm::Layer
    }

    /// Bytes of a number among the inputs of products.
    fn input(&self) -> f64 {
        match self.precision {
            Precision::Bf16 => HALF,
            Precision::Fp8 => 1.0,
            // A scale in 32 bits for each 128 numbers, and one in 8 bits for 32 and for 16.
            Precision::Fp8Block => 1.0 + SINGLE / 128.0,
            Precision::MxFp8 => 1.0 + 1.0 / 32.0,
            Precision::NvFp4 => 0.5 + 1.0 / 16.0,
        }
    }

    /// Bytes per number of the quantized copy kept for a product, beside a 16-bit value that another
    /// kernel needs: zero in 16 bits.
    fn copy(&self) -> f64 {
        if self.precision.is_low() { self.input() } else { 0.0 }
    }

    /// Bytes per number of the input of products of `role` divided on `side`: it is kept for the gradient of their
    /// weights, or in 16 bits for that of their adapters.
    fn input_of(&self, role: Role, side: Side) -> f64 {
        let adapters = self.model.frozen().adapters;
        match self.trained {
            Trained::Whole => self.input(),
            Trained::Adapters if adapters.is_some_and(|one| one.targets.has_any(role, side)) => {
                HALF
            }
            _ => 0.0,
        }
    }

    /// Bytes per number of a quantized copy that is kept for the gradient of weights.
    fn copy_for_weights(&self) -> f64 {
        if self.trained == Trained::Whole { self.copy() } else { 0.0 }
    }

    /// Bytes per number that the products down to latents keep of their normalised input, less what
    /// recomputing the normalisation saves: other products are fused with the normalisation before
    /// them, and a quantized copy stays.
    fn normed(&self) -> f64 {
        match self.again(Module::LayerNorm) {
            true => self.copy_for_weights(),
            false => self.input_of(Role::LatentDown, Side::Neither),
        }
    }

    fn mixer(&self, mixer: Mixer) -> Kept {
        match mixer {
            Mixer::None => Kept::default(),
            Mixer::Mamba => Kept::of(self.mamba()),
            Mixer::Linear => Kept::of(self.linear()),
            Mixer::Full if self.model.indexer.is_some() => self.latent(true) + self.indexer(),
            Mixer::Full | Mixer::Window if self.model.latent.is_some() => self.latent(false),
            Mixer::Full | Mixer::Window => self.attention(),
        }
    }

    fn ffn(&self, ffn: Ffn) -> Kept {
        match ffn {
            Ffn::None => Kept::default(),
            Ffn::Dense => Kept::of(self.mlp()),
            Ffn::Experts => self.experts(),
        }
    }

    /// Attention with grouped queries: its input, queries, keys and values, and its result.
    fn attention(&self) -> Kept {
        let model = self.model;
        let queries = number(model.query_size());
        let keys = number(model.kv_heads * model.head_size);
        let values = number(model.kv_size()) - keys;
        let given = number(model.attended_size());
        if self.is_selective_op() {
            // Of queries, keys, values and output every second one, and the output of attention.
            let held = HALF * (queries + values + given) + self.scores();
            return Kept::of(held / self.tensor());
        }
        // Inputs of QK norm: queries and keys as projected.
        let projected = if model.qk_norm { HALF * (queries + keys) } else { 0.0 };
        // A gate for the output of attention, and their product.
        let gate = if model.attention_gate { 2.0 * HALF * given } else { 0.0 };
        let read = HALF * (queries + keys + values);
        let given = (HALF + self.copy_for_weights()) * given;
        let input =
            self.input_of(Role::Attention, Side::Outer) * number(model.hidden) / self.shared();
        self.part(Offloaded::QkvLinear, input)
            + self.part(Offloaded::CoreAttention, read / self.tensor())
            + self.part(Offloaded::AttentionProjection, given / self.tensor())
            + Kept::of((projected + gate + self.scores()) / self.tensor())
    }

    /// Scores of attention, before the tensor group divides them. Unfused: scores, the output of
    /// softmax and a mask of dropout (5 a s); fused: the sum of exponentials of each row, in 32 bits.
    fn scores(&self) -> f64 {
        let heads = number(self.model.heads);
        match self.model.attention {
            Attention::Core if self.again(Module::CoreAttention) => 0.0,
            Attention::Core => 5.0 * heads * number(self.model.sequence),
            Attention::Flash => SINGLE * heads,
        }
    }

    /// Latent attention: its input, the latents before and after their normalisation, and their
    /// up-projections. Tensor groups do not divide the latents. Sparse attention goes to the latents
    /// themselves: it keeps queries before and after they are brought to the size of a latent, and
    /// what it gives of that size, which is projected to values behind it (`absorbed_mla.py` in
    /// megatron/core/transformer/experimental_attention_variant).
    fn latent(&self, is_sparse: bool) -> Kept {
        let (model, Some(latent)) = (self.model, self.model.latent) else {
            return Kept::default();
        };
        let queries = number(model.query_size());
        let values = number(model.attended_size());
        let own = number(latent.query.unwrap_or(0) + latent.keys);
        let rotary = HALF * number(latent.rotary);
        let heads = number(model.heads);
        let of_latent = heads * number(latent.keys);
        let (read, scores, result) = match is_sparse {
            true => {
                let kept = if self.again(Module::CoreAttention) { 0.0 } else { HALF * of_latent };
                (queries + of_latent, SINGLE * heads, kept / self.tensor())
            }
            false => (2.0 * queries + values, self.scores(), 0.0),
        };
        let up = HALF * read / self.tensor();
        if self.is_selective_op() {
            return Kept::of(HALF * own / 2.0 + up / 2.0 + HALF * values / self.tensor());
        }
        let given = (HALF + self.copy_for_weights()) * values / self.tensor();
        let input = self.normed() * number(model.hidden) / self.shared();
        let again = self.again(Module::LatentUp);
        let [normed, up] =
            if again { [0.0; 2] } else { [self.input_of(Role::Attention, Side::Outer) * own, up] };
        self.part(Offloaded::QkvLinear, input)
            + self.part(Offloaded::CoreAttention, up)
            + self.part(Offloaded::AttentionProjection, given)
            + Kept::of(HALF * own + rotary + normed + scores / self.tensor() + result)
    }

    /// An indexer, which no tensor group divides, as Megatron-LM's fused kernels keep it (`dsa.py` and
    /// `dsa_cudnn_kernels.py`, the same): the number of each chosen key in 32 bits. Where it is trained,
    /// queries, weights, the key before and after its normalisation, and its input, which is gathered
    /// from a tensor group. A context group gathers keys of the indexer and latents of the whole sequence.
    fn indexer(&self) -> Kept {
        let (model, Some(indexer), Some(latent)) =
            (self.model, self.model.indexer, self.model.latent)
        else {
            return Kept::default();
        };
        if self.again(Module::CoreAttention) {
            return Kept::default();
        }
        let elsewhere = number(self.partition.context - 1);
        let gathered = number(latent.keys + latent.rotary + indexer.head_size);
        let chosen = SINGLE * number(indexer.top_k.min(model.sequence));
        let own = number(indexer.queries() + indexer.heads + 2 * indexer.head_size);
        let input = self.input() * number(model.hidden) * (1.0 - 1.0 / self.shared());
        let trained = if self.trained == Trained::Whole { HALF * own + input } else { 0.0 };
        Kept::of(chosen + trained + HALF * gathered * elsewhere)
    }

    /// A Mamba-2 mixer: its input, what is projected, what the convolution and the scan give, and the
    /// input of the output projection. States are computed again.
    fn mamba(&self) -> f64 {
        let (model, Some(mamba)) = (self.model, self.model.mamba) else { return 0.0 };
        let [inner, convolved, projected] =
            [mamba.inner(), mamba.channels(), mamba.projected()].map(number);
        let [into, out] = [Side::Outer, Side::Inner].map(|side| self.input_of(Role::Mamba, side));
        let input = into * number(model.hidden) / self.shared();
        if self.is_selective_op() {
            return (HALF * projected + HALF * inner) / self.tensor();
        }
        let held = HALF * (projected + convolved + inner) + out * inner;
        input + held / self.tensor()
    }

    /// Linear attention with a gated delta rule: its input, what is projected and convolved, gates in 32
    /// bits, the triangular matrix of each chunk of 64 tokens, what it gives and the gated result.
    fn linear(&self) -> f64 {
        const CHUNK: f64 = 64.0;
        let (model, Some(linear)) = (self.model, self.model.linear) else { return 0.0 };
        let [values, convolved, projected, heads] =
            [linear.values(), linear.channels(), linear.projected(), linear.value_heads]
                .map(number);
        if self.is_selective_op() {
            return (HALF * projected + HALF * values) / self.tensor();
        }
        let inside = 2.0 * SINGLE * heads + HALF * CHUNK * heads;
        let [into, out] = [Side::Outer, Side::Inner].map(|side| self.input_of(Role::Linear, side));
        let held = HALF * (projected + convolved + values) + inside + out * values;
        let input = into * number(model.hidden) / self.shared();
        input + held / self.tensor()
    }

    /// How many numbers the input of the activation function has, over those of its result.
    fn gate(&self) -> f64 {
        if self.model.gated { 2.0 } else { 1.0 }
    }

    /// A dense MLP: its input, the results of its first product and of the activation function.
    fn mlp(&self) -> f64 {
        let width = number(self.model.dense_width());
        let hidden = number(self.model.hidden) / self.shared();
        if self.is_selective_op() {
            // The first product's gate or value, and the second product.
            return HALF * width / self.tensor() + HALF * hidden;
        }
        if self.again(Module::Mlp) {
            return 0.0;
        }
        let [first, second] =
            [Side::Outer, Side::Inner].map(|side| self.input_of(Role::Dense, side));
        let inner = self.activated() * self.gate() * width + second * width;
        first * hidden + inner / self.tensor()
    }

    /// Experts: the router's input and scores, the rows that are dispatched to a device, what each
    /// expert makes of them, and the shared experts. Probabilities are applied before the second
    /// product, so its result is not kept. A device sees as many rows as its tokens visit experts, times
    /// the members of its expert tensor group, which gather theirs, and more where experts are not
    /// chosen alike.
    fn experts(&self) -> Kept {
        let (model, Some(experts)) = (self.model, self.model.experts) else {
            return Kept::default();
        };
        let hidden = number(model.hidden);
        // The router works in 16 bits, and the normalisation before it is a kernel of its own.
        let spared = self.again(Module::LayerNorm);
        // Its input is that of shared experts, too.
        let needed = self.trained == Trained::Whole
            || experts.shared > 0 && self.input_of(Role::SharedExpert, Side::Outer) > 0.0;
        let router = if spared || !needed { 0.0 } else { HALF * hidden / self.shared() };
        if self.again(Module::Moe) {
            return Kept::of(router);
        }
        let scores = 2.0 * SINGLE * number(experts.count) / self.shared();
        let own = number(self.expert_tensor);
        let rows = self.rows();
        let width = number(model.ffn) / own;
        let [into, out] =
            [Side::Outer, Side::Inner].map(|side| self.input_of(Role::RoutedExpert, side));
        let op = self.is_selective_op();
        let again = self.again(Module::MoeActivation);
        let result = if again || op { 0.0 } else { out * width };
        let input = into * hidden + SINGLE;
        let first = self.activated() * self.gate() * width;
        self.part(Offloaded::ExpertFirst, rows * input)
            + self.part(Offloaded::ExpertActivation, rows * first)
            + Kept::of(router + scores + rows * result + self.shared_experts(experts.shared))
    }

    /// Rows of experts that a device gets for each of its tokens.
    fn rows(&self) -> f64 {
        let visits = self.model.experts.map_or(0, |experts| experts.top_k);
        self.imbalance * number(visits) * number(self.expert_tensor) / self.tensor()
    }

    fn shared_experts(&self, width: u64) -> f64 {
        if width == 0 || self.again(Module::SharedExperts) {
            return 0.0;
        }
        let width = number(width) / self.tensor();
        let input = self.copy_for_weights() * number(self.model.hidden) / self.shared();
        let out = self.input_of(Role::SharedExpert, Side::Inner);
        input + self.activated() * self.gate() * width + out * width
    }
}
