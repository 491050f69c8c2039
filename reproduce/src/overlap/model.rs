//! The work of a transformer layer, part by part, and of the parts after the layers.
//!
//! A token takes two FLOPs for each number of a matrix in F, and as many in B and in W; causal
//! attention takes 2 (s/2) heads (q + v) FLOPs in F, and twice that in B. The router and elementwise
//! kernels are left out, as in Megatron-LM's count.

use std::path::Path;

use question::Diagnostic;
use serde::Deserialize;

use super::super::sources::{Sources, error_in};

/// The file of the models' sizes.
pub(in super::super) const MODELS: &str = "overlap-models.csv";

const MOST: u32 = 1 << 20;

/// The sizes of a model, as the columns of the file.
#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in super::super) struct Model {
    pub(in super::super) name: String,
    pub(in super::super) layers: u32,
    pub(in super::super) hidden: u32,
    heads: u32,
    kv_heads: u32,
    qk_head: u32,
    v_head: u32,
    q_rank: u32,
    kv_rank: u32,
    rope: u32,
    ffn: u32,
    /// Experts that each token visits.
    pub(in super::super) routed: u32,
    shared: u32,
    vocabulary: u32,
    pub(in super::super) mtp: u32,
}

/// FLOPs of F, B and W.
pub(in super::super) type Flops = [f64; 3];

impl Model {
    pub(in super::super) fn all(sources: &Sources<'_>) -> Result<Vec<Self>, Diagnostic> {
        let (path, models) = sources.records_or_built_in::<Self>(MODELS)?;
        models.iter().try_for_each(|model| model.check(&path))?;
        Ok(models)
    }

    pub(in super::super) fn named<'a>(models: &'a [Self], name: &str) -> Option<&'a Self> {
        models.iter().find(|model| model.name == name)
    }

    fn check(&self, path: &Path) -> Result<(), Diagnostic> {
        let Self { layers, hidden, heads, kv_heads, qk_head, v_head, ffn, vocabulary, .. } = self;
        let needed = [layers, hidden, heads, kv_heads, qk_head, v_head, ffn, vocabulary];
        let others = [self.q_rank, self.kv_rank, self.rope, self.routed, self.shared, self.mtp];
        let most = needed.iter().copied().chain(&others).max().copied().unwrap_or(0);
        if needed.contains(&&0) || most > MOST || *layers > 1024 || self.rope > *qk_head {
            let message = format!("{}: a size is 0, or far beyond all models", self.name);
            return Err(error_in(path, None, &message));
        }
        Ok(())
    }

    /// Numbers of the matrices that make queries, keys and values.
    fn projections_into(&self) -> f64 {
        let [hidden, heads, qk, v] =
            [self.hidden, self.heads, self.qk_head, self.v_head].map(f64::from);
        let [q_rank, kv_rank, rope] = [self.q_rank, self.kv_rank, self.rope].map(f64::from);
        match self.kv_rank {
            0 => hidden * (heads * qk + f64::from(self.kv_heads) * (qk + v)),
            _ => {
                let keys = hidden * (kv_rank + rope) + kv_rank * heads * (qk - rope + v);
                hidden * q_rank + q_rank * heads * qk + keys
            }
        }
    }

    /// Numbers of the matrices around attention.
    fn projections(&self) -> f64 {
        let [hidden, heads, v] = [self.hidden, self.heads, self.v_head].map(f64::from);
        self.projections_into() + heads * v * hidden
    }

    /// FLOPs before attention: queries, keys and values of `tokens`.
    pub(in super::super) fn queries_keys_values(&self, tokens: f64) -> Flops {
        [2.0 * tokens * self.projections_into(); 3]
    }

    /// Attention with its projections, for `tokens` of a sequence of `sequence` tokens.
    pub(in super::super) fn attention(&self, tokens: f64, sequence: f64) -> Flops {
        let products = 2.0 * tokens * self.projections();
        let heads = f64::from(self.heads) * f64::from(self.qk_head + self.v_head);
        let scores = 2.0 * tokens * heads * sequence / 2.0;
        [products + scores, products + 2.0 * scores, products]
    }

    /// The experts that a token visits, or the MLP.
    pub(in super::super) fn experts(&self, tokens: f64) -> Flops {
        let each = 3.0 * f64::from(self.hidden) * f64::from(self.ffn);
        [2.0 * tokens * each * f64::from(self.routed + self.shared); 3]
    }

    /// The output layer; with layers of multi-token prediction once for each of them more.
    pub(in super::super) fn output(&self, tokens: f64) -> Flops {
        let heads = 1.0 + f64::from(self.mtp);
        [2.0 * tokens * heads * f64::from(self.hidden) * f64::from(self.vocabulary); 3]
    }

    /// FLOPs before a layer of multi-token prediction: a projection of two activations to one.
    pub(in super::super) fn projection(&self, tokens: f64) -> Flops {
        [2.0 * tokens * 2.0 * f64::from(self.hidden) * f64::from(self.hidden); 3]
    }

    /// The whole model with its output layer, F, B and W.
    pub(in super::super) fn flops(&self, tokens: f64, sequence: f64) -> f64 {
        let layer = sum(self.attention(tokens, sequence)) + sum(self.experts(tokens));
        let before = f64::from(self.mtp) * sum(self.projection(tokens));
        f64::from(self.layers + self.mtp) * layer + before + sum(self.output(tokens))
    }

    /// Bytes of keys and values of one token, in 16 bits, where heads share them.
    pub(in super::super) fn kv_bytes(&self) -> f64 {
        2.0 * f64::from(self.kv_heads) * f64::from(self.qk_head + self.v_head)
    }

    /// Bytes of an activation of one token, in 16 bits.
    pub(in super::super) fn activation_bytes(&self) -> f64 {
        2.0 * f64::from(self.hidden)
    }

    /// Bytes that a device sends of `tokens` to experts, a copy to each of those that a token visits.
    pub(in super::super) fn routed_bytes(&self, tokens: f64) -> f64 {
        tokens * f64::from(self.routed) * self.activation_bytes()
    }
}

fn sum(flops: Flops) -> f64 {
    flops.iter().sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use question::Context;

    use super::*;

    /// Megatron-LM counts 6,031.1 TFLOP a device and step for 64 sequences of 4,096 tokens (Megatron-Bridge).
    #[test]
    fn the_work_of_qwen3_is_what_its_trainer_counts() {
        let host: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let context = Context::new(&host);
        let models = Model::all(&Sources::new(&context, None)).unwrap();
        let model = Model::named(&models, "qwen3-30b-a3b").unwrap();
        let tera = model.flops(64.0 * 4096.0, 4096.0) / 1e12;
        assert!((tera - 6031.1).abs() < 1.0, "{tera}");
    }
}
