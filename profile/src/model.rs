//! The sizes of a GPT, and how it is cut into chunks.

use pipeline::Shape;
use thiserror::Error;

/// A GPT: embeddings, layers (layer norm, causal attention, layer norm, MLP of 4 h with GELU, both
/// with residuals and biases), a final layer norm, a head, and the loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Model {
    hidden: usize,
    heads: usize,
    layers: usize,
    vocabulary: usize,
    sequence: usize,
    microbatch_size: usize,
}

/// Why there is no such model.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ModelError {
    /// A model with none of something.
    #[error("{what} must be at least 1")]
    Zero {
        /// The quantity that is zero.
        what: &'static str,
    },
    /// Heads that do not share the hidden size evenly.
    #[error("hidden {hidden} is not a multiple of {heads} heads")]
    Heads {
        /// Hidden size.
        hidden: usize,
        /// Number of heads.
        heads: usize,
    },
    /// A model beyond what can be counted or held.
    #[error("{what} is {value}: at most {most}")]
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// How large.
        value: u128,
        /// The largest.
        most: u128,
    },
    /// Fewer layers than chunks.
    #[error("{layers} layers cannot be cut into {chunks} chunks")]
    TooFewLayers {
        layers: usize,
        /// Chunks of the schedule.
        chunks: usize,
    },
}

/// The largest of any dimension.
const MOST: usize = 1 << 20;

/// The most parameters, and the most elements kept of a microbatch: their bytes can be counted in 64
/// bits, and no index overflows.
const MOST_ELEMENTS: u128 = 1 << 48;

impl Model {
    /// A model of `layers` layers of width `hidden` with `heads` heads, on microbatches of
    /// `microbatch_size` sequences of `sequence` tokens out of `vocabulary`.
    pub fn new(
        hidden: usize,
        heads: usize,
        layers: usize,
        vocabulary: usize,
        sequence: usize,
        microbatch_size: usize,
    ) -> Result<Self, ModelError> {
        let all = [
            ("hidden", hidden),
            ("heads", heads),
            ("layers", layers),
            ("vocabulary", vocabulary),
            ("seq", sequence),
            ("microbatch-size", microbatch_size),
        ];
        for (what, value) in all {
            match value {
                0 => return Err(ModelError::Zero { what }),
                1..=MOST => {}
                _ => {
                    let (value, most) = (value as u128, MOST as u128);
                    return Err(ModelError::TooLarge { what, value, most });
                }
            }
        }
        if !hidden.is_multiple_of(heads) {
            return Err(ModelError::Heads { hidden, heads });
        }
        let model = Self { hidden, heads, layers, vocabulary, sequence, microbatch_size };
        model.check_counts()?;
        Ok(model)
    }

    fn check_counts(self) -> Result<(), ModelError> {
        let wide = |x: usize| x as u128;
        let (h, s) = (wide(self.hidden), wide(self.sequence));
        let per_layer = 16 * h + wide(self.heads) * s;
        let per_token = wide(self.layers) * per_layer + wide(self.vocabulary);
        let activations = s * wide(self.microbatch_size) * per_token;
        let counts = [
            ("the number of parameters", self.count_parameters()),
            ("the number of activations of a microbatch", activations),
        ];
        match counts.into_iter().find(|&(_, value)| value > MOST_ELEMENTS) {
            Some((what, value)) => Err(ModelError::TooLarge { what, value, most: MOST_ELEMENTS }),
            None => Ok(()),
        }
    }

    const fn count_parameters(self) -> u128 {
        self.layers as u128 * self.layer_parameters()
            + self.embedding_parameters()
            + self.head_parameters()
    }

    /// Two layer norms, Q, K and V, the output projection and an MLP of 4 h, all with biases.
    const fn layer_parameters(self) -> u128 {
        let h = self.hidden as u128;
        12 * h * h + 13 * h
    }

    /// A vector for each token of the vocabulary and for each position.
    const fn embedding_parameters(self) -> u128 {
        (self.vocabulary as u128 + self.sequence as u128) * self.hidden as u128
    }

    /// The final layer norm, and the head without a bias.
    const fn head_parameters(self) -> u128 {
        (self.vocabulary as u128 + 2) * self.hidden as u128
    }

    /// Parameters of the whole model: 12 h^2 + 13 h per layer, two tables of the vocabulary,
    /// positions, and the final layer norm.
    #[must_use]
    pub fn parameters(self) -> usize {
        usize::try_from(self.count_parameters()).unwrap_or(usize::MAX)
    }

    /// Width of the residual stream, h.
    #[must_use]
    pub const fn hidden(self) -> usize {
        self.hidden
    }

    /// Attention heads, a.
    #[must_use]
    pub const fn heads(self) -> usize {
        self.heads
    }

    /// Transformer layers of the whole model.
    #[must_use]
    pub const fn layers(self) -> usize {
        self.layers
    }

    /// Number of different tokens, V.
    #[must_use]
    pub const fn vocabulary(self) -> usize {
        self.vocabulary
    }

    /// Tokens of a sequence, s.
    #[must_use]
    pub const fn sequence(self) -> usize {
        self.sequence
    }

    /// Sequences of a microbatch, b.
    #[must_use]
    pub const fn microbatch_size(self) -> usize {
        self.microbatch_size
    }

    /// Tokens of a microbatch, b s.
    #[must_use]
    pub const fn tokens(self) -> usize {
        self.microbatch_size * self.sequence
    }

    /// Layers of each chunk, in model order: as equal as can be, the longer ones first.
    pub fn layers_by_chunk(self, shape: Shape) -> Result<Vec<usize>, ModelError> {
        let (layers, chunks) = (self.layers, usize::from(shape.chunks()));
        if layers < chunks {
            return Err(ModelError::TooFewLayers { layers, chunks });
        }
        Ok((0..chunks)
            .map(|chunk| layers / chunks + usize::from(chunk < layers % chunks))
            .collect())
    }

    /// Parameters of each chunk, in model order: its layers, in the first one the embeddings, in the
    /// last one the final layer norm and the head.
    pub fn parameters_by_chunk(self, shape: Shape) -> Result<Vec<u128>, ModelError> {
        let layers = self.layers_by_chunk(shape)?.into_iter();
        let mut by_chunk: Vec<u128> =
            layers.map(|layers| layers as u128 * self.layer_parameters()).collect();
        if let Some(first) = by_chunk.first_mut() {
            *first += self.embedding_parameters();
        }
        if let Some(last) = by_chunk.last_mut() {
            *last += self.head_parameters();
        }
        Ok(by_chunk)
    }
}
