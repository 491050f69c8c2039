//! The products with weights of each kind of layer, and the sizes of their inputs and outputs.

use super::{Ffn, Indexer, LayerKind, Linear, Mamba, Mixer, Sizes, Transformer, number};

/// The use of a product with weights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Queries, keys and values of the heads, and the output projection.
    Attention,
    /// Down to a latent of queries, or of keys and values.
    LatentDown,
    /// A projection of an indexer, which every device of a tensor group has whole and does for all tokens.
    Indexer,
    /// An MLP.
    Dense,
    /// An expert that every token visits.
    SharedExpert,
    /// A routed expert, of which each token visits some.
    RoutedExpert,
    /// The choice of experts.
    Router,
    /// A projection of a Mamba-2 mixer.
    Mamba,
    /// A projection of linear attention.
    Linear,
    /// The two inputs of a layer of multi-token prediction, joined.
    Prediction,
}

/// Which side of a product the devices of a tensor group share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The outer one: each device has some of the results.
    Outer,
    /// The inner one: each device has a part of every result, and they are added up.
    Inner,
    /// None: each device does all of it.
    Neither,
}

/// A product with weights in the forward: of each token, `inner` numbers become `outer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    /// Numbers of a token before, K.
    pub inner: u64,
    /// Numbers of a token behind, N.
    pub outer: u64,
    /// Its use; [`Role::RoutedExpert`] is the product of one expert.
    pub role: Role,
    /// The side of its weights that a tensor group divides.
    pub side: Side,
}

impl Product {
    const fn outer(inner: u64, outer: u64, role: Role) -> Self {
        Self { inner, outer, role, side: Side::Outer }
    }

    const fn inner(inner: u64, outer: u64, role: Role) -> Self {
        Self { inner, outer, role, side: Side::Inner }
    }

    const fn whole(inner: u64, outer: u64, role: Role) -> Self {
        Self { inner, outer, role, side: Side::Neither }
    }

    /// The outer and the inner size of its weights on a device of a tensor group of `group`.
    pub(crate) fn divided(&self, group: f64) -> [f64; 2] {
        let (outer, inner) = (number(self.outer), number(self.inner));
        match self.side {
            Side::Outer => [outer / group, inner],
            Side::Inner => [outer, inner / group],
            Side::Neither => [outer, inner],
        }
    }
}

impl Mamba {
    /// The width of the mixer: all heads side by side.
    #[must_use]
    pub const fn inner(&self) -> u64 {
        self.heads * self.head_size
    }

    /// The numbers of a token that are convolved: those of the heads, and B and C of each group.
    #[must_use]
    pub const fn channels(&self) -> u64 {
        self.inner() + 2 * self.groups * self.state
    }

    /// Outputs of the projection into the mixer: gate, input of the convolution, and a step for each
    /// head.
    #[must_use]
    pub const fn projected(&self) -> u64 {
        self.inner() + self.channels() + self.heads
    }
}

impl Linear {
    /// The width of all queries, and of all keys.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.key_heads * self.key_size
    }

    /// The width of all values.
    #[must_use]
    pub const fn values(&self) -> u64 {
        self.value_heads * self.value_size
    }

    /// The numbers of a token that are convolved: queries, keys and values.
    #[must_use]
    pub const fn channels(&self) -> u64 {
        2 * self.keys() + self.values()
    }

    /// Outputs of the projections into it: input of the convolution, a gate of the size of the values,
    /// a step and a decay for each head.
    #[must_use]
    pub const fn projected(&self) -> u64 {
        self.channels() + self.values() + 2 * self.value_heads
    }
}

impl Transformer {
    /// The products with weights of the forward of a layer of `kind`, in their order; none of a kind that
    /// the model has not.
    #[must_use]
    pub fn products_of(&self, kind: LayerKind) -> &[Product] {
        let at = self.layer_kinds().iter().position(|one| *one == kind);
        at.and_then(|at| self.products.get(at)).map_or(&[], Vec::as_slice)
    }

    /// The kind of a layer of multi-token prediction: that of the last layer.
    #[must_use]
    pub fn mtp_kind(&self) -> LayerKind {
        self.by_kind.last()
    }

    /// Whether `product` makes queries, keys or values from a latent, or queries where they have none:
    /// Megatron-LM recomputes it as `mla_up_proj`.
    #[must_use]
    pub(crate) fn is_up(&self, product: &Product) -> bool {
        let heads = product.role == Role::Attention && product.side == Side::Outer;
        self.latent.is_some() && heads
    }
}

impl Sizes {
    /// The products with weights of the forward of a layer of `kind`, in their order.
    pub(super) fn products(&self, kind: LayerKind) -> Vec<Product> {
        let mut all = match kind.mixer {
            Mixer::Full | Mixer::Window => self.attention_products(),
            Mixer::Mamba => self.mamba.map_or_else(Vec::new, |mamba| {
                vec![
                    Product::outer(self.hidden, mamba.projected(), Role::Mamba),
                    Product::inner(mamba.inner(), self.hidden, Role::Mamba),
                ]
            }),
            Mixer::Linear => self.linear.map_or_else(Vec::new, |linear| {
                vec![
                    Product::outer(self.hidden, linear.projected(), Role::Linear),
                    Product::inner(linear.values(), self.hidden, Role::Linear),
                ]
            }),
            Mixer::None => Vec::new(),
        };
        all.extend(self.indexer_products(kind));
        match (kind.ffn, self.experts) {
            (Ffn::Dense, _) => all.extend(self.mlp(self.dense_width(), Role::Dense)),
            (Ffn::Experts, Some(experts)) => {
                let shared_gate = u64::from(self.shared_gate && experts.shared > 0);
                all.push(Product::whole(self.hidden, experts.count + shared_gate, Role::Router));
                if experts.shared > 0 {
                    all.extend(self.mlp(experts.shared, Role::SharedExpert));
                }
                all.extend(self.mlp(self.ffn, Role::RoutedExpert));
            }
            (Ffn::Experts | Ffn::None, _) => {}
        }
        all
    }

    /// The projections of attention; with latents down to them and up to the heads.
    fn attention_products(&self) -> Vec<Product> {
        let (hidden, queries) = (self.hidden, self.query_size());
        let gate = if self.attention_gate { self.attended_size() } else { 0 };
        let output = Product::inner(self.attended_size(), hidden, Role::Attention);
        let Some(latent) = self.latent else {
            let qkv = queries + gate + self.kv_size();
            return vec![Product::outer(hidden, qkv, Role::Attention), output];
        };
        let mut all = Vec::new();
        match latent.query {
            Some(size) => all.extend([
                Product::whole(hidden, size, Role::LatentDown),
                Product::outer(size, queries + gate, Role::Attention),
            ]),
            None => all.push(Product::outer(hidden, queries + gate, Role::Attention)),
        }
        let unrotated = self.head_size - latent.rotary;
        let up = self.heads * (unrotated + self.value_head_size());
        all.extend([
            Product::whole(hidden, latent.keys + latent.rotary, Role::LatentDown),
            Product::outer(latent.keys, up, Role::Attention),
            output,
        ]);
        all
    }

    /// The indexer of a layer of `kind`, if it has one.
    #[must_use]
    pub fn indexer_of(&self, kind: LayerKind) -> Option<Indexer> {
        self.indexer.filter(|_| kind.mixer == Mixer::Full)
    }

    /// The projections of an indexer: its queries, of the latent of queries if there is one, its key, and a weight of
    /// each head (`DSAIndexer` in megatron/core/transformer/experimental_attention_variant/dsa.py).
    fn indexer_products(&self, kind: LayerKind) -> Vec<Product> {
        let Some(indexer) = self.indexer_of(kind) else { return Vec::new() };
        let of_queries = self.latent.and_then(|latent| latent.query).unwrap_or(self.hidden);
        let one = |inner, outer| Product::whole(inner, outer, Role::Indexer);
        vec![
            one(of_queries, indexer.queries()),
            one(self.hidden, indexer.head_size),
            one(self.hidden, indexer.heads),
        ]
    }

    /// Both products of an MLP of `width`; the gate goes with the first.
    fn mlp(&self, width: u64, role: Role) -> [Product; 2] {
        let up = if self.gated { 2 * width } else { width };
        [Product::outer(self.hidden, up, role), Product::inner(width, self.hidden, role)]
    }

    /// The product of a layer of multi-token prediction that joins the last hidden state and the
    /// embedding of the next token.
    #[must_use]
    pub fn mtp_product(&self) -> Product {
        Product::outer(2 * self.hidden, self.hidden, Role::Prediction)
    }

    /// The size of a head's values.
    #[must_use]
    pub fn value_head_size(&self) -> u64 {
        self.value_size.unwrap_or(self.head_size)
    }

    /// Numbers of all queries of a token in attention.
    #[must_use]
    pub fn query_size(&self) -> u64 {
        self.heads * self.head_size
    }

    /// Numbers of all keys and values of a token, as attention takes them: those of latents are made
    /// larger before, for each head.
    #[must_use]
    pub fn kv_size(&self) -> u64 {
        self.kv_heads * (self.head_size + self.value_head_size())
    }

    /// Numbers of a token that attention gives, before they are projected.
    #[must_use]
    pub fn attended_size(&self) -> u64 {
        self.heads * self.value_head_size()
    }

    /// Numbers of a token's latents, which no tensor group shares; 0 without.
    #[must_use]
    pub fn latent_size(&self) -> u64 {
        self.latent.map_or(0, |latent| latent.query.unwrap_or(0) + latent.keys + latent.rotary)
    }

    /// The width of the MLP of layers with [`Ffn::Dense`].
    #[must_use]
    pub fn dense_width(&self) -> u64 {
        self.dense_ffn.unwrap_or(self.ffn)
    }

    /// The most tokens that a token attends to in a layer of `kind`: the sequence, those that an indexer
    /// chooses, or the window; none where there is no attention.
    #[must_use]
    pub fn attended_tokens(&self, kind: LayerKind) -> u64 {
        match kind.mixer {
            Mixer::Full => self.indexer.map_or(self.sequence, |one| one.top_k.min(self.sequence)),
            Mixer::Window => self.window.map_or(self.sequence, |window| window.min(self.sequence)),
            Mixer::Mamba | Mixer::Linear | Mixer::None => 0,
        }
    }
}
