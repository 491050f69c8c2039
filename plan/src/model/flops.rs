//! Floating-point operations: of layers by kind, of the head, of all.

use super::products::{Product, Role};
use super::{LayerKind, Mixer, Module, Modules, Recompute, Trained, Transformer, number};

/// Operations of a Mamba-2 mixer's state for each of its numbers and each token, as Megatron-LM counts
/// them (`num_floating_point_operations` in megatron/training/training.py).
const MAMBA_STATE: f64 = 7.0;
/// Operations of linear attention's state for each of its numbers and each token: products with the key,
/// of value and key, of the state with both, and with the query, of 2 each (the same).
const LINEAR_STATE: f64 = 8.0;

impl Transformer {
    /// Floating-point operations of the forward of a layer of `kind` for one token: 2 for each weight
    /// of a matrix it meets, and 4 s a d for attention, where no pair of tokens is left out: for GPT
    /// 24 h^2 + 4 s h (Narayanan et al. 2021, arXiv 2104.04473, appendix).
    #[must_use]
    pub fn flops_of(&self, kind: LayerKind) -> f64 {
        self.product_flops(kind)
            + self.attention_flops(kind)
            + self.index_flops(kind)
            + self.state_flops(kind)
    }

    /// Of [`Self::flops_of`], the products with weights.
    #[must_use]
    pub fn product_flops(&self, kind: LayerKind) -> f64 {
        2.0 * number(self.products_of(kind).iter().map(|one| self.weights_met(one)).sum())
    }

    /// The part of [`Self::flops_of`] for scores and weighted values, which selective recomputation
    /// repeats. In windows each token attends to no more than those of the window, with an indexer to no more than
    /// it chooses.
    #[must_use]
    pub fn attention_flops(&self, kind: LayerKind) -> f64 {
        let pair = 2.0 * number(self.heads * (self.head_size + self.value_head_size()));
        pair * number(self.attended_tokens(kind))
    }

    /// The part of [`Self::flops_of`] for the scores of an indexer: of each of its heads a product of the query and
    /// the key of all pairs of tokens (`DeepSeek`-V3.2, arXiv 2512.02556, equation 1).
    #[must_use]
    pub fn index_flops(&self, kind: LayerKind) -> f64 {
        self.index_flops_of(kind, number(self.sequence))
    }

    /// The same of `keys` of each query.
    fn index_flops_of(&self, kind: LayerKind, keys: f64) -> f64 {
        2.0 * number(self.indexer_of(kind).map_or(0, |indexer| indexer.queries())) * keys
    }

    /// Of [`Self::product_flops`], the projections of an indexer.
    fn indexer_product_flops(&self, kind: LayerKind) -> f64 {
        let own = self.products_of(kind).iter().filter(|one| one.role == Role::Indexer);
        2.0 * number(own.map(|one| one.inner * one.outer).sum())
    }

    /// What is missing of twice the forward in the backward of an indexer. Its inputs are detached from the rest of the
    /// model and have no gradient; and its loss, which no layer shares, is one of the chosen keys, whose scores alone
    /// have a gradient (the same, section 2.1.1, equation 4; `--dsa-indexer-use-sparse-loss` of Megatron-LM).
    fn without_gradient(&self, kind: LayerKind) -> f64 {
        let chosen = self.index_flops_of(kind, number(self.attended_tokens(kind)));
        self.indexer_product_flops(kind) + 2.0 * (self.index_flops(kind) - chosen)
    }

    /// The part of [`Self::flops_of`] for the state of a recurrent mixer: its update and readout, and
    /// the convolution before.
    #[must_use]
    pub fn state_flops(&self, kind: LayerKind) -> f64 {
        match (kind.mixer, self.mamba, self.linear) {
            (Mixer::Mamba, Some(mamba), _) => {
                MAMBA_STATE * number(mamba.inner()) * number(mamba.state)
                    + 2.0 * number(mamba.channels() * mamba.convolution)
            }
            (Mixer::Linear, _, Some(linear)) => {
                LINEAR_STATE * number(linear.values()) * number(linear.key_size)
                    + 2.0 * number(linear.channels() * linear.convolution)
            }
            _ => 0.0,
        }
    }

    /// Floating-point operations of the head's forward for one token.
    #[must_use]
    pub fn head_flops(&self) -> f64 {
        2.0 * number(self.vocabulary) * number(self.hidden)
    }

    /// Floating-point operations of the forward of all layers of multi-token prediction for one token: of
    /// each a layer, the product that joins its inputs, and the head once more.
    #[must_use]
    pub fn mtp_flops(&self) -> f64 {
        let joined = self.mtp_product();
        let joined = 2.0 * number(joined.inner * joined.outer);
        number(self.mtp) * (self.flops_of(self.mtp_kind()) + joined + self.head_flops())
    }

    /// Model FLOPs of one token, forward and backward: three times the forward. For GPT and whole
    /// sequences 72 B L s h^2 (1 + s/(6h) + V/(12 h L)) (Korthikanti et al. 2022, arXiv 2205.05198,
    /// equation 7). What MFU counts. Where weights are frozen, those that are left out are not counted:
    /// gradients of frozen weights, and the whole backward of layers before the first that is trained.
    #[must_use]
    pub fn model_flops(&self) -> f64 {
        let counts = self.counts(0..self.layers);
        if self.frozen().is_none() {
            let layers = counts.sum_of(self.layer_kinds(), |kind| self.flops_of(kind));
            let all = self.counts(0..self.layers + self.mtp);
            let without = all.sum_of(self.layer_kinds(), |kind| self.without_gradient(kind));
            return 3.0 * (layers + self.head_flops() + self.mtp_flops()) - without;
        }
        let layers = counts.sum_of(self.layer_kinds(), |kind| self.trained_flops(kind));
        let kind = self.mtp_kind();
        let joined = self.mtp_product();
        let joined = 2.0 * number(joined.inner * joined.outer) * kind.trained.passes();
        let head = self.head_flops() * self.head_passes();
        let mtp = number(self.mtp) * (self.trained_flops(kind) + joined + head);
        layers + head + mtp
    }

    /// The same with the half of all pairs of tokens that causal attention computes, as Megatron-LM counts since 2025;
    /// with an indexer, the pairs that it chooses among them.
    #[must_use]
    pub fn causal_flops(&self) -> f64 {
        let layers = self.counts(0..self.layers + self.mtp);
        let back = |kind: LayerKind| if kind.trained == Trained::ForwardOnly { 1.0 } else { 3.0 };
        let of = |kind| {
            let attended = number(self.attended_tokens(kind)).max(1.0);
            let sequence = number(self.sequence);
            let indexer = self.indexer_of(kind);
            let chosen = indexer.map_or(attended / 2.0, |indexer| indexer.keys_of(sequence));
            let trained = if kind.trained == Trained::Whole { 2.0 } else { 0.0 };
            let index = self.index_flops(kind) / 2.0
                + trained * self.index_flops_of(kind, attended - chosen);
            self.attention_flops(kind) * (1.0 - chosen / attended) * back(kind) + index
        };
        self.model_flops() - layers.sum_of(self.layer_kinds(), of)
    }

    /// Floating-point operations of all passes of a layer of `kind` for one token: attention and states have
    /// no weights, and take twice the forward in the backward.
    fn trained_flops(&self, kind: LayerKind) -> f64 {
        let without = self.attention_flops(kind) + self.state_flops(kind);
        let back = if kind.trained == Trained::ForwardOnly { 1.0 } else { 3.0 };
        // An indexer that is not trained has a forward only.
        let index = match kind.trained {
            Trained::Whole => 3.0 * self.index_flops(kind) - self.without_gradient(kind),
            Trained::ForwardOnly => self.index_flops(kind),
            _ => self.index_flops(kind) - self.indexer_product_flops(kind),
        };
        self.product_flops(kind) * kind.trained.passes()
            + index
            + without * back
            + self.adapter_flops(kind) * 3.0
    }

    /// Products of the size of the head's forward in a step: forward, gradient of its input where a weight
    /// before it is trained, and of its weights where they are.
    fn head_passes(&self) -> f64 {
        let also = |is: bool| if is { 1.0 } else { 0.0 };
        1.0 + also(self.trains_before(self.layers)) + also(self.trains_head())
    }

    /// Hardware FLOPs of one token under `recompute`: model FLOPs and what is done again; what HFU
    /// counts. With full recomputation 96 B s L h^2 (1 + s/(6h) + V/(16 L h)) (Narayanan et al.
    /// 2021, equation 3); with selective 72 B L s h^2 (1 + s/(3h) + V/(12 h L)) (Korthikanti et al.
    /// 2022, equation 9), which counts three forwards of attention as done again, where one is. Of the
    /// first layers of each chunk, those of a model in one chunk
    /// ([`Costed::hardware_flops`](crate::Costed::hardware_flops) knows its chunks).
    #[must_use]
    pub fn hardware_flops(&self, recompute: Recompute) -> f64 {
        let again = |kind: LayerKind| match recompute {
            Recompute::None => 0.0,
            _ if kind.trained == Trained::ForwardOnly => 0.0,
            Recompute::Selective => {
                let index = self.index_flops(kind) + self.indexer_product_flops(kind);
                3.0 * self.attention_flops(kind) + index
            }
            Recompute::Full | Recompute::First(_) => self.flops_again(kind),
            Recompute::Modules(modules) => self.flops_of_modules(kind, modules),
        };
        let all = self.layers + self.mtp;
        let layers = self.counts(0..recompute.of_chunk(all).1);
        self.model_flops() + layers.sum_of(self.layer_kinds(), again)
    }

    /// The forward of a layer of `kind` that is recomputed whole.
    pub(crate) fn flops_again(&self, kind: LayerKind) -> f64 {
        match kind.trained {
            Trained::ForwardOnly => 0.0,
            _ => self.flops_of(kind) + self.adapter_flops(kind),
        }
    }

    /// Of [`Self::flops_of`], those of `modules`. Activations and normalisations have no products.
    fn flops_of_modules(&self, kind: LayerKind, modules: Modules) -> f64 {
        let core = modules.has(Module::CoreAttention);
        let scores = self.attention_flops(kind) + self.index_flops(kind);
        let attention = if core { scores } else { 0.0 };
        let is_again = |one: &Product| match one.role {
            Role::Attention => modules.has(Module::LatentUp) && self.is_up(one),
            Role::Indexer => core,
            Role::Dense => modules.has(Module::Mlp),
            Role::SharedExpert => modules.has(Module::Moe) || modules.has(Module::SharedExperts),
            Role::RoutedExpert | Role::Router => modules.has(Module::Moe),
            Role::LatentDown | Role::Mamba | Role::Linear | Role::Prediction => false,
        };
        let products = self.products_of(kind);
        let with_adapters = |one: &Product| -> u64 {
            let adapters = self.adapters_of(kind, one);
            let adapters = adapters.iter().map(super::Adapter::weights).sum::<u64>();
            self.weights_met(one) + self.visits(one) * adapters
        };
        let again = products.iter().filter(|one| is_again(one)).map(with_adapters);
        attention + 2.0 * number(again.sum())
    }

    /// The weights of `product` that a token meets.
    fn weights_met(&self, product: &Product) -> u64 {
        self.visits(product) * product.inner * product.outer
    }

    /// How many of `product` a token meets: those of the experts that it visits, or one.
    pub(super) fn visits(&self, product: &Product) -> u64 {
        match product.role {
            Role::RoutedExpert => self.experts.map_or(1, |experts| experts.top_k),
            _ => 1,
        }
    }
}
