//! The activations that a microbatch holds in a chunk, between F and B and from B to W.

use pipeline::{Bytes, Footprint, Vocabulary};

use super::layers::Keeper;
use super::{HALF, bytes};
use crate::model::{
    LayerCounts, LayerKind, MAX_KINDS, Module, Modules, Recompute, Trained, Transformer, number,
};
use crate::offload::Offload;
use crate::setup::{Recipe, Setup};

/// The activations that a microbatch holds in one layer of each kind, computed once for a set-up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Activations {
    /// Between F and B, by kind: in layers that are computed again as the set-up says.
    held: [f64; MAX_KINDS],
    /// The same in the layers of a chunk behind its first, where only the first are.
    held_behind: [f64; MAX_KINDS],
    /// From B to W.
    until_weight: [f64; MAX_KINDS],
    /// While B has recomputed the layer, and copies from the host are back.
    whole: [f64; MAX_KINDS],
    /// Bytes at the host between F and B.
    away: [f64; MAX_KINDS],
    /// The same in the layers of a chunk behind its first.
    away_behind: [f64; MAX_KINDS],
    /// Between F and B in an MTP layer beside those of a layer.
    mtp: f64,
}

impl Activations {
    #[must_use]
    pub fn of(model: &Transformer, setup: &Setup, recipe: &Recipe) -> Self {
        let partition = setup.partition(recipe);
        let imbalance = recipe.imbalance.load(model, partition).tail;
        let keeper = |recompute, offload| Keeper {
            model,
            partition,
            expert_tensor: setup.expert_tensor,
            precision: recipe.precision,
            imbalance,
            recompute,
            offload,
            fp8_activation_input: recipe.fp8_activation_input,
            trained: Trained::Whole,
        };
        let tokens = partition.tokens(model);
        // Activations that are recomputed in B, or back from the host, stay for W, except scores of
        // attention and masks.
        let scores =
            Modules::of(&[Module::CoreAttention]).map_or(Recompute::None, Recompute::Modules);
        let ([first, behind], _) = setup.recompute.of_chunk(0);
        let [own, behind] =
            [first, behind].map(|recompute| keeper(recompute, setup.offload(recipe)));
        let [none, scores] =
            [Recompute::None, scores].map(|recompute| keeper(recompute, Offload::NONE));
        let mut all = Self {
            held: [0.0; MAX_KINDS],
            held_behind: [0.0; MAX_KINDS],
            until_weight: [0.0; MAX_KINDS],
            whole: [0.0; MAX_KINDS],
            away: [0.0; MAX_KINDS],
            away_behind: [0.0; MAX_KINDS],
            mtp: mtp(model, behind, tokens),
        };
        let whole = |keeper: Keeper<'_>, kind: LayerKind| {
            let kept = keeper.layer(kind);
            tokens * (kept.values + kept.masks)
        };
        for (at, &kind) in model.layer_kinds().iter().enumerate() {
            all.held[at] = whole(own, kind);
            all.held_behind[at] = whole(behind, kind);
            all.whole[at] = whole(none, kind);
            all.until_weight[at] = match kind.trained {
                Trained::Whole => tokens * scores.layer(kind).values,
                Trained::Adapters => {
                    (tokens * none.until_weight_of_adapters(kind)).min(all.whole[at])
                }
                Trained::Frozen | Trained::ForwardOnly => 0.0,
            };
            [all.away[at], all.away_behind[at]] =
                [own, behind].map(|keeper| tokens * keeper.layer(kind).away);
        }
        all
    }

    /// Of a chunk with the layers `first`, which are computed again as the set-up says, the layers
    /// `behind` them, and `mtp` layers of `model`'s multi-token prediction, of which none is the first.
    #[must_use]
    pub fn footprint(
        &self,
        model: &Transformer,
        [first, behind]: [LayerCounts; 2],
        mtp: u64,
    ) -> Footprint {
        let behind = behind + model.counts(model.layers..model.layers + mtp);
        let joined = number(mtp) * self.mtp;
        let joined_until_weight = match model.mtp_kind().trained {
            Trained::Whole => joined,
            _ => 0.0,
        };
        let held = sum(first, &self.held) + sum(behind, &self.held_behind);
        Footprint {
            until_backward: bytes(held + joined),
            until_weight: bytes(sum(first + behind, &self.until_weight) + joined_until_weight),
        }
    }

    /// Bytes that a microbatch copies to the host in a chunk with the layers `first` and `behind`.
    #[must_use]
    pub fn copied(&self, [first, behind]: [LayerCounts; 2]) -> f64 {
        sum(first, &self.away) + sum(behind, &self.away_behind)
    }

    /// The most that B computes again, or has back from the host, of one layer among `layers`.
    #[must_use]
    pub fn again(&self, layers: LayerCounts, recompute: Recompute) -> f64 {
        let one = |(at, count): (usize, u64)| match (count, recompute) {
            (0, _) => 0.0,
            // The input is held all the time, and the layer stands beside it.
            (_, Recompute::Full | Recompute::First(_)) => self.whole[at],
            _ => self.whole[at] - self.held[at],
        };
        layers.iter().enumerate().map(one).fold(0.0, f64::max)
    }
}

/// Of `layers`, which have `each` by kind.
fn sum(layers: LayerCounts, each: &[f64; MAX_KINDS]) -> f64 {
    layers.iter().zip(each).map(|(count, one)| number(count) * one).sum()
}

/// The activations that one microbatch holds in `layers` that are computed again as `setup` says.
#[must_use]
pub fn footprint(
    model: &Transformer,
    setup: &Setup,
    recipe: &Recipe,
    layers: LayerCounts,
) -> Footprint {
    let layers = [layers, LayerCounts::default()];
    Activations::of(model, setup, recipe).footprint(model, layers, 0)
}

/// The memory that one microbatch holds in a shard of the head, from S to T: its logits, and the
/// last chunk's output, which the tensor group shares as it shares other activations.
#[must_use]
pub(crate) fn shard(model: &Transformer, setup: &Setup, recipe: &Recipe, shards: usize) -> Bytes {
    let partition = setup.partition(recipe);
    let rows = number(Vocabulary::padded(model.vocabulary, shards)) / number(shards as u64);
    let output = HALF * number(model.hidden) / partition.shared();
    let logits = rows / number(partition.tensor) * number(recipe.logit_bytes);
    bytes(partition.tokens(model) * (logits + output))
}

/// Bytes that an MTP layer holds beside those of a layer: the inputs of its two normalisations and of
/// the projection that joins their results, 2 h wide.
fn mtp(model: &Transformer, keeper: Keeper<'_>, tokens: f64) -> f64 {
    let is_held = model.mtp_kind().trained != Trained::ForwardOnly;
    if model.mtp == 0 || keeper.recompute == Recompute::Full || !is_held {
        return 0.0;
    }
    tokens * 4.0 * HALF * number(model.hidden) / keeper.shared()
}
