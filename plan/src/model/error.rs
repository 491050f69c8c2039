//! Why sizes make no model, and how many kinds of layers one may have.

use thiserror::Error;

/// The most kinds of layers of a model.
pub const MAX_KINDS: usize = 8;

/// A size that no model has.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ModelError {
    /// Zero, or absurdly large.
    #[error("{what} is {value}: it must be from 1 to {most}")]
    Size {
        /// Which size, as its key is called.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The largest.
        most: u64,
    },
    /// Query heads that cannot share the heads of keys and values.
    #[error("heads is {heads}, which is not a multiple of kv-heads, {kv_heads}")]
    KvHeads {
        /// Query heads.
        heads: u64,
        /// Heads of keys and values.
        kv_heads: u64,
    },
    /// Heads, or groups of them, of which one number must divide the other.
    #[error("{what} is {value}, which is not a multiple of {of}, {divisor}")]
    Groups {
        /// Key of the number that must be a multiple.
        what: &'static str,
        value: u64,
        /// Key of the divisor.
        of: &'static str,
        /// Value of the divisor.
        divisor: u64,
    },
    /// Latent attention whose keys are shared by several heads of queries.
    #[error("kv-heads is {kv_heads}, but latent attention makes keys for each of {heads} heads")]
    LatentHeads {
        /// Query heads.
        heads: u64,
        /// Heads of keys and values.
        kv_heads: u64,
    },
    /// Latent attention whose heads are rotated as a whole.
    #[error("rotary-size is {rotary}: it must be less than head-size, {head_size}")]
    Rotary {
        /// The part of a head that is rotated.
        rotary: u64,
        /// The size of a head.
        head_size: u64,
    },
    /// Sequences beyond the learned positions.
    #[error("the sequence has {sequence} tokens, but there are only {positions} learned positions")]
    Positions {
        /// Learned positions.
        positions: u64,
        /// Tokens of a sequence.
        sequence: u64,
    },
    /// More parameters than can be counted.
    #[error("the model has more than 2^56 parameters")]
    Parameters,
    /// The list of layer kinds has another length than the model.
    #[error("kinds are given for {kinds} layers, but the model has {layers}")]
    Kinds {
        /// Length of the list.
        kinds: usize,
        layers: u64,
    },
    /// More kinds of layers than are planned.
    #[error("the layers are of more than {MAX_KINDS} kinds")]
    ManyKinds,
    /// Layers of a kind whose sizes are missing.
    #[error("there are layers with {kind}, but {what} is missing")]
    Missing {
        /// The kind of layer, in words.
        kind: &'static str,
        /// Key of the missing size.
        what: &'static str,
    },
    /// A layer that neither mixes tokens nor has an MLP.
    #[error("a layer neither mixes tokens nor has an MLP or experts")]
    Empty,
    /// More experts visited than there are.
    #[error("top-k is {top_k}, but there are {count} experts")]
    TopK {
        /// Experts per token.
        top_k: u64,
        /// Experts.
        count: u64,
    },
}
