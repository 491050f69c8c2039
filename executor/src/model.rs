//! The transformer that stages compute: a GPT as in the Zero Bubble paper's experiments.

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
        /// What there is none of.
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
        /// What is too large.
        what: &'static str,
        /// How large.
        value: usize,
        /// The largest.
        most: usize,
    },
    /// Fewer layers than chunks.
    #[error("{layers} layers cannot be cut into {chunks} chunks")]
    TooFewLayers {
        /// Layers of the model.
        layers: usize,
        /// Chunks of the schedule.
        chunks: usize,
    },
}

/// The largest of any dimension: products of three of them fit 64 bits.
const MOST: usize = 1 << 20;

impl Model {
    /// A model of `layers` layers of width `hidden` with `heads` heads, on microbatches of
    /// `microbatch_size` sequences of `sequence` tokens out of `vocabulary`.
    ///
    /// # Errors
    /// A zero, heads that do not divide `hidden`, or more than a million of anything.
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
                _ => return Err(ModelError::TooLarge { what, value, most: MOST }),
            }
        }
        match hidden % heads {
            0 => Ok(Self { hidden, heads, layers, vocabulary, sequence, microbatch_size }),
            _ => Err(ModelError::Heads { hidden, heads }),
        }
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
    ///
    /// # Errors
    /// Fewer layers than chunks.
    pub fn layers_by_chunk(self, shape: Shape) -> Result<Vec<usize>, ModelError> {
        let (layers, chunks) = (self.layers, usize::from(shape.chunks()));
        if layers < chunks {
            return Err(ModelError::TooFewLayers { layers, chunks });
        }
        Ok((0..chunks)
            .map(|chunk| layers / chunks + usize::from(chunk < layers % chunks))
            .collect())
    }
}
