//! Parameter counts: of layers by kind, of the ends, and of the whole model.

use super::products::Role;
use super::{Ffn, LayerKind, Mixer, Norm, Transformer};

/// Parameters of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KindParameters {
    /// Those that are no routed expert's.
    pub dense: u64,
    /// Parameters of all routed experts.
    pub experts: u64,
}

impl KindParameters {
    #[must_use]
    pub const fn sum(self) -> u64 {
        self.dense + self.experts
    }
}

impl Transformer {
    /// Parameters of a layer of `kind`: the weights of [`products_of`](Self::products_of), and those
    /// outside of products, such as biases, normalisations and convolutions.
    #[must_use]
    pub fn parameters_of(&self, kind: LayerKind) -> KindParameters {
        let products = self.products_of(kind);
        let plain = products.iter().filter(|one| one.role != Role::RoutedExpert);
        let weights: u64 = plain.map(|one| one.inner * one.outer).sum();
        let beside = self.beside_mixer(kind.mixer) + self.beside_ffn(kind.ffn);
        KindParameters {
            dense: weights + beside + self.norms_of(kind) * self.norm_parameters(),
            experts: match (kind.ffn, self.experts) {
                (Ffn::Experts, Some(experts)) => experts.count * self.expert_of(self.ffn),
                _ => 0,
            },
        }
    }

    /// Normalisations of a layer of `kind`: as the sizes say, or one before its mixer and one before
    /// its feed-forward part.
    #[must_use]
    pub fn norms_of(&self, kind: LayerKind) -> u64 {
        let parts = u64::from(kind.mixer != Mixer::None) + u64::from(kind.ffn != Ffn::None);
        self.norms.unwrap_or(parts)
    }

    /// Parameters of `mixer` outside its products with weights.
    fn beside_mixer(&self, mixer: Mixer) -> u64 {
        match mixer {
            // The normalisation of an indexer's key has a scale and a shift.
            Mixer::Full => self.beside_attention() + self.indexer.map_or(0, |it| 2 * it.head_size),
            Mixer::Window => self.beside_attention(),
            // The convolution with its bias; of each head the bias of its step, A and D; the gated
            // normalisation.
            Mixer::Mamba => self.mamba.map_or(0, |mamba| {
                mamba.channels() * (mamba.convolution + 1) + 3 * mamba.heads + mamba.inner()
            }),
            // The convolution, which has no bias; of each head the bias of its step and A; the gated
            // normalisation, which all heads share.
            Mixer::Linear => self.linear.map_or(0, |linear| {
                linear.channels() * linear.convolution + 2 * linear.value_heads + linear.value_size
            }),
            Mixer::None => 0,
        }
    }

    /// Biases of the projections, scales of QK norm and of latents, sinks.
    fn beside_attention(&self) -> u64 {
        let queries = self.heads * self.head_size;
        let keys = self.kv_heads * (self.head_size + self.value_head_size());
        let qkv = match (self.biases.qkv, self.latent) {
            // The projections down to the latents have the bias.
            (true, Some(latent)) => latent.query.unwrap_or(0) + latent.keys + latent.rotary,
            (true, None) => {
                queries + keys + if self.attention_gate { self.attended_size() } else { 0 }
            }
            (false, _) => 0,
        };
        let output = if self.biases.output { self.hidden } else { 0 };
        let normed = if self.qk_norm { 2 * self.head_size } else { 0 };
        let latents = self.latent.map_or(0, |latent| latent.query.unwrap_or(0) + latent.keys);
        let sinks = if self.sinks { self.heads } else { 0 };
        qkv + output + normed + latents + sinks
    }

    /// Biases of the MLP, of the router and of shared experts.
    fn beside_ffn(&self, ffn: Ffn) -> u64 {
        match (ffn, self.experts) {
            (Ffn::Dense, _) => self.mlp_biases(self.dense_width()),
            (Ffn::Experts, Some(experts)) => {
                let router = if self.router_bias { experts.count } else { 0 };
                let shared = if experts.shared > 0 { self.mlp_biases(experts.shared) } else { 0 };
                router + shared
            }
            _ => 0,
        }
    }

    /// Biases of an MLP of `width`.
    fn mlp_biases(&self, width: u64) -> u64 {
        let inner = if self.gated { 2 * width } else { width };
        if self.biases.mlp { inner + self.hidden } else { 0 }
    }

    /// Parameters of an expert of `width`.
    fn expert_of(&self, width: u64) -> u64 {
        (if self.gated { 3 } else { 2 }) * self.hidden * width + self.mlp_biases(width)
    }

    /// Parameters of one normalisation.
    #[must_use]
    pub fn norm_parameters(&self) -> u64 {
        match self.norm {
            Norm::Layer => 2 * self.hidden,
            Norm::Rms => self.hidden,
        }
    }

    /// Parameters of the embeddings of tokens and positions.
    #[must_use]
    pub fn embedding_parameters(&self) -> u64 {
        (self.vocabulary + self.positions) * self.hidden
    }

    /// Parameters of the head: none of its own where it is tied.
    #[must_use]
    pub fn head_parameters(&self) -> u64 {
        if self.tied { 0 } else { self.vocabulary * self.hidden }
    }

    /// Parameters of one layer of multi-token prediction: a layer, the product that joins its two
    /// inputs, normalisations of both and of its output (DeepSeek-V3, arXiv 2412.19437, section 2.2).
    /// Embedding and head are those of the model. Not among [`parameters`](Self::parameters), as
    /// published counts leave them out.
    #[must_use]
    pub fn mtp_parameters(&self) -> KindParameters {
        let layer = self.parameters_of(self.mtp_kind());
        let joined = self.mtp_product();
        let more = joined.inner * joined.outer + 3 * self.norm_parameters();
        KindParameters { dense: layer.dense + more, ..layer }
    }

    /// All parameters. For GPT with a bias everywhere this is 12 L h^2 (1 + 13/(12 h) + (V+s)/(12 L
    /// h)) (Narayanan et al. 2021, arXiv 2104.04473, equation 2) and the last normalisation.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let ends = self.embedding_parameters() + self.head_parameters() + self.norm_parameters();
        self.sum_of_layers(|kind| self.parameters_of(kind).sum()) + ends
    }

    /// Parameters that a token meets: all but those of the experts it does not visit.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        let idle = self.experts.map_or(0, |experts| experts.count - experts.top_k);
        let expert = self.expert_of(self.ffn);
        let idle = |kind: LayerKind| if kind.ffn == Ffn::Experts { idle * expert } else { 0 };
        self.parameters() - self.sum_of_layers(idle)
    }

    /// The sum of `of` over all layers.
    fn sum_of_layers(&self, of: impl Fn(LayerKind) -> u64) -> u64 {
        let counts = self.counts(0..self.layers);
        self.layer_kinds().iter().zip(counts.iter()).map(|(kind, count)| count * of(*kind)).sum()
    }
}
