//! Which sizes make a model.

use super::error::ModelError;
use super::kinds::Layers;
use super::{
    Experts, Ffn, Frozen, LayerKind, MAX_LAYERS, MAX_MTP, MAX_SIZE, Mixer, Sizes, Transformer,
};

/// A size by the name of its key, its value, and the largest that is planned.
type Bounded = (&'static str, u64, u64);

impl Transformer {
    /// Checks `sizes`.
    pub fn new(sizes: Sizes) -> Result<Self, ModelError> {
        bounds(&sizes)?;
        relations(&sizes)?;
        let by_kind = Layers::of(&sizes)?;
        by_kind.kinds().iter().try_for_each(|kind| check_kind_sizes(&sizes, *kind))?;
        let products = by_kind.kinds().iter().map(|kind| sizes.products(*kind)).collect();
        let model = Self { sizes, by_kind, products, frozen: Frozen::default() };
        match model.is_beyond_counting() {
            true => Err(ModelError::Parameters),
            false => Ok(model),
        }
    }

    /// Whether there are more than 2^56 parameters: below, no count and no number of bytes overflows. By
    /// the limits of each size a layer has less than 2^63.
    fn is_beyond_counting(&self) -> bool {
        let wide = |kind: LayerKind| {
            let own = self.parameters_of(kind);
            u128::from(own.dense) + u128::from(own.experts)
        };
        let counts = self.counts(0..self.layers);
        let layers: u128 = (self.layer_kinds().iter().zip(counts.iter()))
            .map(|(kind, count)| u128::from(count) * wide(*kind))
            .sum();
        let mtp = u128::from(self.mtp)
            * (wide(self.mtp_kind()) + u128::from(2 * self.hidden) * u128::from(self.hidden));
        let ends = 2
            * u128::from(self.hidden)
            * (u128::from(self.vocabulary) + u128::from(self.positions));
        layers + mtp + ends > 1 << 56
    }
}

/// Whether every size is from 1 to the largest that is planned.
fn bounds(sizes: &Sizes) -> Result<(), ModelError> {
    let plain: [Bounded; 8] = [
        ("layers", sizes.layers, MAX_LAYERS),
        ("hidden", sizes.hidden, 1 << 20),
        ("heads", sizes.heads, 1 << 16),
        ("kv-heads", sizes.kv_heads, 1 << 16),
        ("head-size", sizes.head_size, 1 << 16),
        ("ffn", sizes.ffn, 1 << 24),
        ("vocabulary", sizes.vocabulary, 1 << 24),
        ("sequence", sizes.sequence, 1 << 24),
    ];
    let optional = [
        ("value-size", sizes.value_size, 1 << 16),
        ("window", sizes.window, 1 << 24),
        ("dense-ffn", sizes.dense_ffn, 1 << 24),
        ("norms", sizes.norms, 16),
    ];
    let experts = sizes.experts.iter().flat_map(|one| {
        // Shared experts may be none.
        [
            ("experts", one.count, 1 << 16),
            ("top-k", one.top_k, 1 << 16),
            ("shared-ffn", one.shared.max(1), 1 << 24),
        ]
    });
    let latent = sizes.latent.iter().flat_map(|one| {
        [
            ("latent-query", one.query.unwrap_or(1), 1 << 20),
            ("latent-keys", one.keys, 1 << 20),
            ("rotary-size", one.rotary, 1 << 16),
        ]
    });
    let indexer = sizes.indexer.iter().flat_map(|one| {
        [
            ("index-heads", one.heads, 1 << 12),
            ("index-head-size", one.head_size, 1 << 16),
            ("index-top-k", one.top_k, 1 << 24),
        ]
    });
    let optional =
        optional.into_iter().filter_map(|(what, value, most)| Some((what, value?, most)));
    // Zero means none.
    let counts =
        [("positions", sizes.positions.max(1), MAX_SIZE), ("mtp", sizes.mtp.max(1), MAX_MTP)];
    let all = plain.into_iter().chain(optional).chain(experts).chain(latent).chain(indexer);
    let all = all.chain(recurrent(sizes));
    match all.chain(counts).find(|&(_, value, most)| value == 0 || value > most) {
        Some((what, value, most)) => Err(ModelError::Size { what, value, most }),
        None => Ok(()),
    }
}

/// Sizes of recurrent mixers (Mamba-2, linear attention), with their bounds.
fn recurrent(sizes: &Sizes) -> impl Iterator<Item = Bounded> {
    let mamba = sizes.mamba.iter().flat_map(|one| {
        [
            ("mamba-heads", one.heads, 1 << 16),
            ("mamba-head-size", one.head_size, 1 << 16),
            ("mamba-state", one.state, 1 << 16),
            ("mamba-groups", one.groups, 1 << 16),
            ("mamba-convolution", one.convolution, 1 << 10),
        ]
    });
    let linear = sizes.linear.iter().flat_map(|one| {
        [
            ("linear-key-heads", one.key_heads, 1 << 16),
            ("linear-value-heads", one.value_heads, 1 << 16),
            ("linear-key-size", one.key_size, 1 << 16),
            ("linear-value-size", one.value_size, 1 << 16),
            ("linear-convolution", one.convolution, 1 << 10),
        ]
    });
    mamba.chain(linear)
}

/// Whether sizes go together.
fn relations(sizes: &Sizes) -> Result<(), ModelError> {
    let Sizes { heads, kv_heads, head_size, positions, sequence, .. } = *sizes;
    if !heads.is_multiple_of(kv_heads) {
        return Err(ModelError::KvHeads { heads, kv_heads });
    }
    if let Some(latent) = sizes.latent {
        if heads != kv_heads {
            return Err(ModelError::LatentHeads { heads, kv_heads });
        }
        if latent.rotary >= head_size {
            return Err(ModelError::Rotary { rotary: latent.rotary, head_size });
        }
    }
    if sizes.indexer.is_some() && sizes.latent.is_none() {
        return Err(ModelError::Missing { kind: "an indexer", what: "latent-keys" });
    }
    let grouped = |what, value: u64, of, divisor: u64| match value.is_multiple_of(divisor) {
        true => Ok(()),
        false => Err(ModelError::Groups { what, value, of, divisor }),
    };
    if let Some(mamba) = sizes.mamba {
        grouped("mamba-heads", mamba.heads, "mamba-groups", mamba.groups)?;
    }
    if let Some(linear) = sizes.linear {
        let (values, keys) = (linear.value_heads, linear.key_heads);
        grouped("linear-value-heads", values, "linear-key-heads", keys)?;
    }
    if (1..sequence).contains(&positions) {
        return Err(ModelError::Positions { positions, sequence });
    }
    match sizes.experts {
        Some(Experts { count, top_k, .. }) if top_k > count => {
            Err(ModelError::TopK { top_k, count })
        }
        _ => Ok(()),
    }
}

/// Checks that the sizes of a layer of `kind` are given.
fn check_kind_sizes(sizes: &Sizes, kind: LayerKind) -> Result<(), ModelError> {
    let missing = |kind, what, is_there: bool| match is_there {
        true => Ok(()),
        false => Err(ModelError::Missing { kind, what }),
    };
    match kind.mixer {
        Mixer::Window => missing("windows", "window", sizes.window.is_some())?,
        Mixer::Mamba => missing("Mamba-2", "mamba-heads", sizes.mamba.is_some())?,
        Mixer::Linear => {
            missing("linear attention", "linear-key-heads", sizes.linear.is_some())?;
        }
        Mixer::None if kind.ffn == Ffn::None => return Err(ModelError::Empty),
        Mixer::Full | Mixer::None => {}
    }
    match kind.ffn {
        Ffn::Experts => missing("experts", "experts", sizes.experts.is_some()),
        Ffn::Dense | Ffn::None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Indexer, Latent, Linear, Mamba};

    fn small() -> Sizes {
        Sizes {
            layers: 2,
            hidden: 64,
            heads: 4,
            kv_heads: 4,
            head_size: 16,
            ffn: 256,
            vocabulary: 100,
            sequence: 32,
            ..Sizes::default()
        }
    }

    fn refusal(change: impl Fn(&mut Sizes)) -> String {
        let mut sizes = small();
        change(&mut sizes);
        Transformer::new(sizes).map_or_else(|error| error.to_string(), |_| "fine".to_owned())
    }

    fn all(mixer: Mixer, ffn: Ffn) -> Vec<LayerKind> {
        vec![LayerKind::of(mixer, ffn); 2]
    }

    #[test]
    fn sizes_of_no_model_are_refused_by_their_names() {
        let mamba = Mamba { heads: 8, head_size: 16, state: 16, groups: 3, convolution: 4 };
        let linear =
            Linear { key_heads: 4, value_heads: 6, key_size: 8, value_size: 8, convolution: 4 };
        let latent = Latent { query: None, keys: 32, rotary: 16 };
        let indexer = Indexer { heads: 4, head_size: 16, top_k: 8 };
        assert_eq!(refusal(|_| {}), "fine");
        assert_eq!(refusal(|it| it.latent = Some(Latent { rotary: 8, ..latent })), "fine");
        let said = [
            (refusal(|it| it.value_size = Some(0)), "value-size is 0"),
            (refusal(|it| it.dense_ffn = Some(1 << 25)), "dense-ffn is 33554432"),
            (refusal(|it| it.mtp = 65), "mtp is 65: it must be from 1 to 64"),
            (refusal(|it| it.norms = Some(0)), "norms is 0"),
            (refusal(|it| it.latent = Some(latent)), "rotary-size is 16: it must be less"),
            (
                refusal(|it| (it.latent, it.kv_heads) = (Some(Latent { rotary: 8, ..latent }), 2)),
                "kv-heads is 2, but latent attention makes keys for each of 4 heads",
            ),
            (
                refusal(|it| it.indexer = Some(indexer)),
                "layers with an indexer, but latent-keys is",
            ),
            (
                refusal(|it| it.indexer = Some(Indexer { top_k: 0, ..indexer })),
                "index-top-k is 0: it must be from 1",
            ),
            (refusal(|it| it.mamba = Some(mamba)), "mamba-heads is 8, which is not a multiple of"),
            (refusal(|it| it.linear = Some(linear)), "linear-value-heads is 6, which is no"),
            (
                refusal(|it| it.linear = Some(Linear { key_size: 0, ..linear })),
                "linear-key-size is 0",
            ),
            (refusal(|it| it.kinds = all(Mixer::Window, Ffn::Dense)), "window is missing"),
            (refusal(|it| it.kinds = all(Mixer::Mamba, Ffn::None)), "mamba-heads is missing"),
            (refusal(|it| it.kinds = all(Mixer::Linear, Ffn::Dense)), "linear-key-heads is"),
            (refusal(|it| it.kinds = all(Mixer::Full, Ffn::Experts)), "experts is missing"),
            (refusal(|it| it.kinds = all(Mixer::None, Ffn::None)), "neither mixes tokens nor"),
        ];
        for (ours, wanted) in said {
            assert!(ours.contains(wanted), "{ours}: {wanted}");
        }
    }

    /// The largest of all sizes together: refused without an overflow on the way.
    #[test]
    fn the_largest_sizes_are_too_many_parameters() {
        let (most, width) = (1 << 16, 1 << 24);
        let convolution = 1 << 10;
        let huge = Sizes {
            layers: 4,
            hidden: 1 << 20,
            heads: most,
            kv_heads: most,
            head_size: most,
            ffn: width,
            gated: true,
            vocabulary: width,
            sequence: width,
            experts: Some(Experts { count: most, top_k: most, shared: width }),
            value_size: Some(most),
            latent: Some(super::super::Latent { query: Some(1 << 20), keys: 1 << 20, rotary: 1 }),
            indexer: Some(Indexer { heads: 1 << 12, head_size: most, top_k: width }),
            window: Some(width),
            dense_ffn: Some(width),
            mtp: MAX_MTP,
            mamba: Some(Mamba {
                heads: most,
                head_size: most,
                state: most,
                groups: most,
                convolution,
            }),
            linear: Some(Linear {
                key_heads: most,
                value_heads: most,
                key_size: most,
                value_size: most,
                convolution,
            }),
            kinds: vec![
                LayerKind::of(Mixer::Window, Ffn::Dense),
                LayerKind::of(Mixer::Mamba, Ffn::Experts),
                LayerKind::of(Mixer::Linear, Ffn::Experts),
                LayerKind::of(Mixer::Full, Ffn::Experts),
            ],
            ..Sizes::default()
        };
        assert_eq!(Transformer::new(huge), Err(ModelError::Parameters));
    }
}
