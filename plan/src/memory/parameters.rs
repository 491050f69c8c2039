//! Parameters of a stage, and the shard of one device.

use crate::model::{
    KindParameters, LayerCounts, LayerKind, MAX_KINDS, Side, Trained, Transformer, number,
};
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

impl Share {
    /// Both on one stage.
    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            layers: self.layers + other.layers,
            embedding: self.embedding || other.embedding,
            head: self.head || other.head,
            mtp: self.mtp + other.mtp,
        }
    }
}

/// Parameters of a stage on one device: those that all replicas have, and those of its experts.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Parameters {
    /// Without experts.
    pub dense: f64,
    /// Of these, the embeddings, the head and adapters, which stay in 16 bits.
    pub ends: f64,
    pub experts: f64,
}

impl Parameters {
    /// Of `share`, before replicas share anything. Tensor groups share every matrix but the router and
    /// the projections down to latents; of normalisations, which are not shared, only t - 1 in t are left
    /// out: far below 0.1 %.
    #[must_use]
    pub fn of(model: &Transformer, setup: &Setup, share: Share) -> Self {
        LayerParameters::of(model, setup).stage(model, setup, share)
    }

    /// Those that `other` has not.
    pub(crate) fn without(self, other: Self) -> Self {
        Self {
            dense: self.dense - other.dense,
            ends: self.ends - other.ends,
            experts: self.experts - other.experts,
        }
    }

    /// Those of layers, and those that stay in 16 bits.
    pub(crate) fn by_precision(self) -> [Self; 2] {
        let Self { dense, ends, experts } = self;
        let layers = Self { dense: dense - ends, ends: 0.0, experts };
        [layers, Self { dense: ends, ends, experts: 0.0 }]
    }

    #[must_use]
    pub fn sum(self) -> f64 {
        self.dense + self.experts
    }

    /// The shard of one device of the parameters that replicas divide from ZeRO stage `from` on: those
    /// of experts are divided among all replicas of an expert, d c t/(e e_t).
    #[must_use]
    pub fn shared(self, setup: &Setup, from: Zero) -> f64 {
        let [replicas, of_experts] = sharers(setup, from);
        self.dense / replicas + self.experts / of_experts
    }
}

/// The replicas that divide a parameter from ZeRO stage `from` on: one that all replicas have, and one of an expert.
pub(crate) fn sharers(setup: &Setup, from: Zero) -> [f64; 2] {
    if setup.zero < from {
        return [1.0; 2];
    }
    let groups = number(setup.shard_groups.max(1));
    let replicas = [setup.data * setup.context, setup.expert_replicas()];
    replicas.map(|all| (number(all) / groups).max(1.0))
}

/// Parameters of a layer of each kind on one device, computed once for a set-up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerParameters {
    dense: [f64; MAX_KINDS],
    experts: [f64; MAX_KINDS],
    mtp: [f64; 2],
    /// Adapters of a layer of each kind, beside the experts.
    adapters: [f64; MAX_KINDS],
    /// Whether the embeddings count, and whether the head does.
    ends: [bool; 2],
}

impl LayerParameters {
    /// Of `setup`: weights and adapters.
    #[must_use]
    pub fn of(model: &Transformer, setup: &Setup) -> Self {
        Self::counting(model, setup, [true; 2], |_| true)
    }

    /// Of `setup`, those that are trained.
    #[must_use]
    pub fn trained(model: &Transformer, setup: &Setup) -> Self {
        let ends = [model.trains_embedding(), model.trains_head()];
        Self::counting(model, setup, ends, |kind| kind.trained == Trained::Whole)
    }

    /// Those of the `ends` and of the layers whose weights count; adapters always do.
    fn counting(
        model: &Transformer,
        setup: &Setup,
        ends: [bool; 2],
        counts: impl Fn(LayerKind) -> bool,
    ) -> Self {
        let (t, group) = (number(setup.tensor), number(setup.expert * setup.expert_tensor));
        let kinds = model.layer_kinds();
        let whole = |kind| {
            let products = model.products_of(kind);
            let own = products.iter().filter(|one| one.side == Side::Neither);
            own.map(|one| number(one.inner * one.outer)).sum::<f64>()
        };
        let divided = |parameters: KindParameters, whole: f64| {
            let dense = (number(parameters.dense) - whole) / t + whole;
            [dense, number(parameters.experts) / group]
        };
        let none = [0.0; MAX_KINDS];
        let mut all = Self { dense: none, experts: none, mtp: [0.0; 2], adapters: none, ends };
        for (at, &kind) in kinds.iter().enumerate() {
            if counts(kind) {
                [all.dense[at], all.experts[at]] = divided(model.parameters_of(kind), whole(kind));
            }
            let [adapters, of_experts] = model.adapter_weights(kind).map(number);
            all.adapters[at] = adapters / t;
            all.experts[at] += of_experts / group;
        }
        if model.mtp > 0 {
            let kind = model.mtp_kind();
            if counts(kind) {
                all.mtp = divided(model.mtp_parameters(), whole(kind));
            }
            let [adapters, of_experts] = model.adapter_weights(kind).map(number);
            all.mtp = [all.mtp[0] + adapters / t, all.mtp[1] + of_experts / group];
        }
        all
    }

    /// The parameters of `share`, with its ends.
    #[must_use]
    pub fn stage(&self, model: &Transformer, setup: &Setup, share: Share) -> Parameters {
        let ends = ends(model, setup, share, self.ends) / number(setup.tensor);
        let sum = |each: &[f64; MAX_KINDS], mtp: f64| -> f64 {
            let layers = share.layers.iter().zip(each);
            layers.map(|(count, one)| number(count) * one).sum::<f64>() + number(share.mtp) * mtp
        };
        let [mtp, mtp_experts] = self.mtp;
        let wide = ends + sum(&self.adapters, 0.0);
        Parameters {
            dense: sum(&self.dense, mtp) + wide,
            ends: wide,
            experts: sum(&self.experts, mtp_experts),
        }
    }
}

/// Parameters of embeddings and head on a stage, for a whole tensor group, as far as they count.
fn ends(
    model: &Transformer,
    setup: &Setup,
    share: Share,
    [of_embedding, of_head]: [bool; 2],
) -> f64 {
    let matrix = model.vocabulary * model.hidden;
    let counted = |counts: bool, parameters: u64| if counts { parameters } else { 0 };
    if setup.vocabulary_parallel {
        let all = counted(of_embedding, model.embedding_parameters())
            + counted(of_head, model.head_parameters());
        return number(all) / number(setup.pipeline);
    }
    // A tied head on another stage is a copy of the embedding; so are those that MTP layers need.
    let head = if model.tied && setup.pipeline > 1 { matrix } else { model.head_parameters() };
    let embedding = if share.embedding { model.embedding_parameters() } else { 0 };
    let needed = |here: bool| if share.mtp > 0 && !here { matrix } else { 0 };
    let [of_first, of_last] = match model.tied {
        true => [0, needed(share.embedding || share.head)],
        false => [needed(share.embedding), needed(share.head)],
    };
    let head = if share.head { head } else { 0 };
    number(counted(of_embedding, embedding + of_first) + counted(of_head, head + of_last))
}
