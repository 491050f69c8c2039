//! The kind of a layer: its mixer of tokens (attention, Mamba, linear attention), its feed-forward
//! part, and which of its weights are trained.

use std::ops::Range;

use super::error::{MAX_KINDS, ModelError};
use super::trained::Trained;
use super::{Sizes, number};

/// The kind of a layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct LayerKind {
    /// How it mixes tokens.
    pub mixer: Mixer,
    /// The feed-forward part, which sees one token at a time.
    pub ffn: Ffn,
    /// Which of its weights are trained.
    pub trained: Trained,
}

impl LayerKind {
    /// A layer with this mixer and this feed-forward part, all of whose weights are trained.
    #[must_use]
    pub const fn of(mixer: Mixer, ffn: Ffn) -> Self {
        Self { mixer, ffn, trained: Trained::Whole }
    }

    /// The same layer with all its weights trained.
    #[must_use]
    pub const fn shape(self) -> Self {
        Self::of(self.mixer, self.ffn)
    }

    /// The kind of a letter of a hybrid's pattern, as Megatron-LM and Nemotron-H write them: M is
    /// Mamba-2, * is attention, - an MLP and E experts, each a layer of its own.
    #[must_use]
    pub const fn of_letter(letter: char) -> Option<Self> {
        match letter {
            'M' => Some(Self::of(Mixer::Mamba, Ffn::None)),
            '*' => Some(Self::of(Mixer::Full, Ffn::None)),
            '-' => Some(Self::of(Mixer::None, Ffn::Dense)),
            'E' => Some(Self::of(Mixer::None, Ffn::Experts)),
            _ => None,
        }
    }

    /// Its letter in a hybrid's pattern, if it has one.
    #[must_use]
    pub fn letter(self) -> Option<char> {
        ['M', '*', '-', 'E']
            .into_iter()
            .find(|letter| Self::of_letter(*letter) == Some(self.shape()))
    }
}

/// How a layer mixes tokens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Mixer {
    /// Attention to all tokens before.
    #[default]
    Full,
    /// Attention to the last tokens alone ([`Sizes::window`](super::Sizes::window)).
    Window,
    /// A Mamba-2 mixer.
    Mamba,
    /// Linear attention with a gated delta rule, as Qwen3-Next has it.
    Linear,
    /// Nothing: the layer is an MLP or experts alone.
    None,
}

/// The feed-forward part of a layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Ffn {
    /// An MLP.
    #[default]
    Dense,
    /// Experts, of which each token visits some.
    Experts,
    /// Nothing: the layer mixes tokens alone.
    None,
}

/// The latents of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latent {
    /// The size of the latent that queries are made of; `None` where they are projected directly.
    pub query: Option<u64>,
    /// The size of the latent that keys and values are made of.
    pub keys: u64,
    /// Of a head of queries and keys, the part that is rotated, which all heads share in keys.
    pub rotary: u64,
}

/// The indexer of sparse attention over latents (`DeepSeek`-V3.2, arXiv 2512.02556, section 2.1): in every layer with
/// [`Mixer::Full`] it scores all keys before a query, and attention takes those with the highest scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Indexer {
    /// Heads of its queries, which share one key of a token.
    pub heads: u64,
    /// The size of a head, and of the key.
    pub head_size: u64,
    /// The most keys that a query attends to.
    pub top_k: u64,
}

impl Indexer {
    /// Numbers of all its queries of a token.
    #[must_use]
    pub const fn queries(&self) -> u64 {
        self.heads * self.head_size
    }

    /// The mean keys of a query in a causal sequence of s tokens, k of which are chosen at most: k - k^2/(2 s), or s/2
    /// where there are no more than k. Half of the diagonal is left out, as everywhere.
    #[must_use]
    pub fn keys_of(&self, sequence: f64) -> f64 {
        let chosen = number(self.top_k).min(sequence);
        chosen - chosen * chosen / (2.0 * sequence)
    }
}

/// The sizes of a Mamba-2 mixer (Dao and Gu 2024, arXiv 2405.21060).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mamba {
    pub heads: u64,
    /// The size of a head.
    pub head_size: u64,
    /// The size of the state.
    pub state: u64,
    /// Groups that share B and C.
    pub groups: u64,
    /// The width of the convolution.
    pub convolution: u64,
}

/// The sizes of linear attention with a gated delta rule (Yang et al. 2024, arXiv 2412.06464).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Linear {
    /// Heads of queries and keys.
    pub key_heads: u64,
    /// Heads of values.
    pub value_heads: u64,
    /// The size of a head of queries and keys.
    pub key_size: u64,
    /// The size of a head of values.
    pub value_size: u64,
    /// The width of the convolution.
    pub convolution: u64,
}

/// How many layers there are of each kind of [`Transformer::layer_kinds`](super::Transformer::layer_kinds).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct LayerCounts([u64; MAX_KINDS]);

impl LayerCounts {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The number of each kind, in the order of the kinds.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter()
    }

    /// The sum of `of` over all layers of `kinds`.
    pub fn sum_of(&self, kinds: &[LayerKind], of: impl Fn(LayerKind) -> f64) -> f64 {
        let own = kinds.iter().zip(self.0).filter(|(_, count)| *count > 0);
        own.map(|(kind, count)| number(count) * of(*kind)).sum()
    }
}

impl std::ops::Add for LayerCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|kind| self.0[kind] + other.0[kind]))
    }
}

/// The kind of every layer of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layers {
    kinds: Vec<LayerKind>,
    /// How many of each kind are before each layer, and in all.
    before: Vec<LayerCounts>,
}

impl Layers {
    pub(super) fn of(sizes: &Sizes) -> Result<Self, ModelError> {
        let plain = match sizes.experts {
            Some(_) => LayerKind { ffn: Ffn::Experts, ..LayerKind::default() },
            None => LayerKind::default(),
        };
        let given = sizes.kinds.len();
        if given > 0 && given as u64 != sizes.layers {
            return Err(ModelError::Kinds { kinds: given, layers: sizes.layers });
        }
        let mut kinds: Vec<LayerKind> = Vec::new();
        let mut before = vec![LayerCounts::default()];
        for layer in 0..usize::try_from(sizes.layers).unwrap_or(usize::MAX) {
            let kind = sizes.kinds.get(layer).copied().unwrap_or(plain);
            let known = kinds.iter().position(|one| *one == kind);
            let at = known.unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            let mut counts = before[layer];
            *counts.0.get_mut(at).ok_or(ModelError::ManyKinds)? += 1;
            before.push(counts);
        }
        Ok(Self { kinds, before })
    }

    pub(super) fn kinds(&self) -> &[LayerKind] {
        &self.kinds
    }

    pub(super) fn counts(&self, range: Range<u64>) -> LayerCounts {
        let layers = self.before.len() - 1;
        let at = |layer: u64| self.before[usize::try_from(layer).unwrap_or(layers).min(layers)];
        let (from, to) = (at(range.start), at(range.end));
        let mut counts =
            LayerCounts(std::array::from_fn(|kind| to.0[kind].saturating_sub(from.0[kind])));
        let behind = range.end.saturating_sub(range.start.max(layers as u64));
        let own = |counts: &LayerCounts| (0..MAX_KINDS).find(|&kind| counts.0[kind] > 0);
        if let Some(last) = own(&self.counts_of_last()).filter(|_| behind > 0) {
            counts.0[last] += behind;
        }
        counts
    }

    /// The kind of the last layer.
    pub(super) fn last(&self) -> LayerKind {
        let counts = self.counts_of_last();
        let own = self.kinds.iter().zip(counts.iter()).find(|(_, count)| *count > 0);
        own.map_or_else(LayerKind::default, |(kind, _)| *kind)
    }

    /// The last layer alone.
    fn counts_of_last(&self) -> LayerCounts {
        let [.., before, all] = self.before[..] else { return LayerCounts::default() };
        LayerCounts(std::array::from_fn(|kind| all.0[kind] - before.0[kind]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_counted_by_kind() {
        let dense = LayerKind::default();
        let sparse = LayerKind { ffn: Ffn::Experts, ..dense };
        let kinds = vec![dense, sparse, sparse];
        let layers = Layers::of(&Sizes { layers: 3, kinds, ..Sizes::default() }).unwrap();
        assert_eq!(layers.kinds(), [dense, sparse]);
        let counts = |range| layers.counts(range).iter().take(2).collect::<Vec<_>>();
        assert_eq!(counts(0..3), [1, 2]);
        assert_eq!(counts(1..2), [0, 1]);
        // An MTP layer is one more of the last kind.
        assert_eq!(counts(2..4), [0, 2]);
        assert_eq!(counts(3..5), [0, 2]);
        assert_eq!(layers.counts(0..3).sum_of(layers.kinds(), |_| 2.0), 6.0);
        let few = Sizes { layers: 3, kinds: vec![dense], ..Sizes::default() };
        assert_eq!(Layers::of(&few), Err(ModelError::Kinds { kinds: 1, layers: 3 }));
    }
}
