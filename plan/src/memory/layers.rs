//! What a layer of each kind keeps of a token between F and B, part by part.
//!
//! For GPT these are the forms of Korthikanti et al. 2022 (arXiv 2205.05198, section 4, table 2). Other
//! parts are counted from what autograd saves in Megatron-LM with Transformer Engine: the input of every
//! product and normalisation, what attention reads and gives, and the input of every activation function.

use super::HALF;
use crate::cut::Cut;
use crate::model::{
    Attention, Ffn, LayerKind, Mixer, Module, Norm, Recompute, Transformer, number,
};
use crate::precision::Precision;

/// Bytes of a number in 32 bits.
const SINGLE: f64 = 4.0;

/// Who keeps: a device's view of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeper<'a> {
    pub(super) model: &'a Transformer,
    pub(super) cut: Cut,
    /// Devices that share a product of an expert.
    pub(super) expert_tensor: u64,
    pub(super) precision: Precision,
    /// How many times as many rows as others the fullest device of an expert group has.
    pub(super) imbalance: f64,
    pub(super) recompute: Recompute,
}

/// Bytes that a token keeps in a layer.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Kept {
    /// All but the masks.
    pub(super) values: f64,
    /// Masks of dropout, which nobody needs after B.
    pub(super) masks: f64,
}

impl Keeper<'_> {
    /// Of a layer of `kind`.
    pub(super) fn layer(&self, kind: LayerKind) -> Kept {
        let whole = number(self.model.hidden) / self.shared();
        if self.recompute == Recompute::Full {
            return Kept { values: HALF * whole, masks: 0.0 };
        }
        let mixer = self.mixer(kind.mixer);
        let ffn = self.ffn(kind.ffn);
        if self.recompute.has(Module::SelectiveOp) {
            return Kept { values: HALF * whole + mixer + ffn, masks: 0.0 };
        }
        // The input of each normalisation; a mask behind what mixes tokens and behind the MLP.
        let norms = number(self.model.norms_of(kind)) * HALF * whole;
        let masked = u64::from(kind.mixer != Mixer::None) + u64::from(kind.ffn != Ffn::None);
        let masks = if self.has_dropout() { number(masked) * whole } else { 0.0 };
        Kept { values: norms + mixer + ffn, masks }
    }

    /// Whether of products only every second result is kept, in their order, as torchtitan's selective
    /// checkpointing of operators does.
    fn is_selective_op(&self) -> bool {
        self.recompute.has(Module::SelectiveOp)
    }

    fn again(&self, module: Module) -> bool {
        self.recompute.has(module)
    }

    /// By how many what is between products is shared.
    pub(super) fn shared(&self) -> f64 {
        if self.cut.sequence_parallel { number(self.cut.tensor) } else { 1.0 }
    }

    fn tensor(&self) -> f64 {
        number(self.cut.tensor)
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

    /// What is kept beside a 16-bit value that another kernel needs, for a product with it: nothing in
    /// 16 bits.
    fn copy(&self) -> f64 {
        if self.precision.is_low() { self.input() } else { 0.0 }
    }

    /// What the products down to latents keep of their normalised input, and what computing the
    /// normalisation again spares: other products are one kernel with the normalisation before them, and a
    /// quantized copy stays.
    fn normed(&self) -> f64 {
        match self.again(Module::LayerNorm) {
            true => self.copy(),
            false => self.input(),
        }
    }

    fn mixer(&self, mixer: Mixer) -> f64 {
        match mixer {
            Mixer::None => 0.0,
            Mixer::Mamba => self.mamba(),
            Mixer::Linear => self.linear(),
            Mixer::Full | Mixer::Window if self.model.latent.is_some() => self.latent(),
            Mixer::Full | Mixer::Window => self.attention(),
        }
    }

    fn ffn(&self, ffn: Ffn) -> f64 {
        match ffn {
            Ffn::None => 0.0,
            Ffn::Dense => self.mlp(),
            Ffn::Experts => self.experts(),
        }
    }

    /// Attention with grouped queries: its input, queries, keys and values, and its result.
    fn attention(&self) -> f64 {
        let model = self.model;
        let queries = number(model.query_size());
        let keys = number(model.kv_heads * model.head_size);
        let values = number(model.kv_size()) - keys;
        let given = number(model.attended_size());
        if self.is_selective_op() {
            // Of queries, keys, values and output every second one, and what attention gives.
            return (HALF * (queries + values + given) + self.scores()) / self.tensor();
        }
        // What QK norm reads: queries and keys as they were projected.
        let projected = if model.qk_norm { HALF * (queries + keys) } else { 0.0 };
        // A gate for what attention gives, and their product.
        let gate = if model.attention_gate { 2.0 * HALF * given } else { 0.0 };
        let held = HALF * (queries + keys + values + given) + projected + gate;
        let held = held + self.copy() * given;
        let input = self.input() * number(model.hidden) / self.shared();
        input + (held + self.scores()) / self.tensor()
    }

    /// Scores of attention, before the tensor group shares them. Kept in whole: scores, what softmax
    /// gives and a mask of dropout (5 a s); in tiles: the sum of exponentials of each row, in 32 bits.
    fn scores(&self) -> f64 {
        let heads = number(self.model.heads);
        match self.model.attention {
            Attention::Core if self.again(Module::CoreAttention) => 0.0,
            Attention::Core => 5.0 * heads * number(self.model.sequence),
            Attention::Flash => SINGLE * heads,
        }
    }

    /// Latent attention: its input, the latents before and after their normalisation, and what is
    /// projected up from them. Tensor groups do not share the latents.
    fn latent(&self) -> f64 {
        let (model, Some(latent)) = (self.model, self.model.latent) else { return 0.0 };
        let queries = number(model.query_size());
        let values = number(model.attended_size());
        let own = number(latent.query.unwrap_or(0) + latent.keys);
        let rotary = HALF * number(latent.rotary);
        let up = HALF * (2.0 * queries + values) / self.tensor();
        let given = (HALF + self.copy()) * values / self.tensor() + self.scores() / self.tensor();
        if self.is_selective_op() {
            return HALF * own / 2.0 + up / 2.0 + HALF * values / self.tensor();
        }
        let input = self.normed() * number(model.hidden) / self.shared();
        let up = if self.again(Module::LatentUp) { 0.0 } else { self.input() * own + up };
        input + HALF * own + rotary + up + given
    }

    /// A Mamba-2 mixer: its input, what is projected, what the convolution and the scan give, and the
    /// input of the output projection. States are computed again.
    fn mamba(&self) -> f64 {
        let (model, Some(mamba)) = (self.model, self.model.mamba) else { return 0.0 };
        let [inner, convolved, projected] =
            [mamba.inner(), mamba.channels(), mamba.projected()].map(number);
        let input = self.input() * number(model.hidden) / self.shared();
        if self.is_selective_op() {
            return (HALF * projected + HALF * inner) / self.tensor();
        }
        let held = HALF * (projected + convolved + inner) + self.input() * inner;
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
        let held = HALF * (projected + convolved + values) + inside + self.input() * values;
        let input = self.input() * number(model.hidden) / self.shared();
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
        let inner = HALF * self.gate() * width + self.input() * width;
        self.input() * hidden + inner / self.tensor()
    }

    /// Experts: the router's input and scores, the rows that are dispatched to a device, what each
    /// expert makes of them, and the shared experts. Probabilities are applied before the second
    /// product, so its result is not kept. A device sees as many rows as its tokens visit experts, times
    /// the members of its expert tensor group, which gather theirs, and more where experts are not
    /// chosen alike.
    fn experts(&self) -> f64 {
        let (model, Some(experts)) = (self.model, self.model.experts) else { return 0.0 };
        let hidden = number(model.hidden);
        // The router works in 16 bits, and the normalisation before it is a kernel of its own.
        let spared = self.again(Module::LayerNorm);
        let router = if spared { 0.0 } else { HALF * hidden / self.shared() };
        if self.again(Module::Moe) {
            return router;
        }
        let scores = 2.0 * SINGLE * number(experts.count) / self.shared();
        let own = number(self.expert_tensor);
        let rows = self.imbalance * number(experts.top_k) * own / self.tensor();
        let width = number(model.ffn) / own;
        let op = self.is_selective_op();
        let again = self.again(Module::MoeActivation);
        let result = if again || op { 0.0 } else { self.input() * width };
        let input = self.input() * hidden + SINGLE;
        let first = HALF * self.gate() * width;
        router + scores + rows * (input + first + result) + self.shared_experts(experts.shared)
    }

    fn shared_experts(&self, width: u64) -> f64 {
        if width == 0 || self.again(Module::SharedExperts) {
            return 0.0;
        }
        let width = number(width) / self.tensor();
        let input = self.copy() * number(self.model.hidden) / self.shared();
        input + HALF * self.gate() * width + self.input() * width
    }
}
