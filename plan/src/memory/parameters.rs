//! The parameters of a stage, and of what replicas share the part of one device.

use crate::model::{LayerCounts, Transformer, number};
use crate::setup::{Setup, Zero};

/// The part of the model on a stage: layers, and ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Share {
    /// Layers, by kind.
    pub layers: LayerCounts,
    /// Whether the embeddings are on it.
    pub embedding: bool,
    /// Whether the head is.
    pub head: bool,
    /// Layers of multi-token prediction, which use the head of this stage, and its embedding or a copy
    /// of it.
    pub mtp: u64,
}

/// Parameters of a stage on one device: those all replicas have alike, and those of its experts.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Parameters {
    /// Without experts.
    pub dense: f64,
    /// Of these, the embeddings and the head, which stay in 16 bits.
    pub ends: f64,
    /// Of experts.
    pub experts: f64,
}

impl Parameters {
    /// Of `share`, before replicas share anything. Tensor groups share every matrix; of
    /// normalisations, which are not shared, only t - 1 in t are left out: far below 0.1 %.
    #[must_use]
    pub fn of(model: &Transformer, setup: &Setup, share: Share) -> Self {
        let t = number(setup.tensor);
        let ends = ends(model, setup, share) / t;
        let kinds = model.layer_kinds();
        let predicted = model.counts(model.layers..model.layers + share.mtp);
        let all = share.layers + predicted;
        let dense = all.sum_of(kinds, |kind| number(model.parameters_of(kind).dense));
        let experts = all.sum_of(kinds, |kind| number(model.parameters_of(kind).experts));
        let joined = number(share.mtp) * mtp_parameters(model);
        Self {
            dense: (dense + joined) / t + ends,
            ends,
            experts: experts / number(setup.expert * setup.expert_tensor),
        }
    }

    /// All.
    #[must_use]
    pub fn sum(self) -> f64 {
        self.dense + self.experts
    }

    /// Of what replicas share from ZeRO stage `from` on, the part of one device: of experts, all
    /// replicas of an expert share it, d c t/(e e_t).
    #[must_use]
    pub fn shared(self, setup: &Setup, from: Zero) -> f64 {
        if setup.zero < from {
            return self.sum();
        }
        let groups = number(setup.shard_groups.max(1));
        let replicas = number(setup.data * setup.context);
        let of_experts =
            replicas * number(setup.tensor) / number(setup.expert * setup.expert_tensor);
        self.dense / (replicas / groups).max(1.0) + self.experts / (of_experts / groups).max(1.0)
    }
}

/// Parameters of embeddings and head on a stage, for a whole tensor group.
fn ends(model: &Transformer, setup: &Setup, share: Share) -> f64 {
    let matrix = model.vocabulary * model.hidden;
    if setup.vocabulary_parallel {
        let all = model.embedding_parameters() + model.head_parameters();
        return number(all) / number(setup.pipeline);
    }
    // A tied head on another stage is a copy of the embedding; MTP layers need one beside their head.
    let head = if model.tied && setup.pipeline > 1 { matrix } else { model.head_parameters() };
    let copy = if share.mtp > 0 && !share.embedding && !model.tied { matrix } else { 0 };
    let embedding = if share.embedding { model.embedding_parameters() } else { 0 };
    number(embedding + copy + if share.head { head } else { 0 })
}

/// Parameters of an MTP layer beside those of a layer: the projection of a token's embedding joined to
/// the hidden state, 2 h x h, their normalisations and the last (DeepSeek-V3, arXiv 2412.19437,
/// section 2.2).
fn mtp_parameters(model: &Transformer) -> f64 {
    let hidden = number(model.hidden);
    2.0 * hidden * hidden + 3.0 * number(model.norm_parameters())
}
