//! The transformer that stages compute: a GPT as in the Zero Bubble paper's experiments.

mod attention;
pub(crate) mod chunk;
pub(crate) mod device;
mod ends;
mod footprints;
mod layer;
mod layout;
mod linear;
mod not_at_hand;
mod offloaded;
mod parts;
mod recompute;
mod replica;
pub(crate) mod segments;
mod shard;
mod shard_ops;
mod stage;
mod starts;
#[cfg(test)]
mod tests;
mod training;
mod versions;

pub use profile::{Model, ModelError};

pub use device::{Activations, Buffer, Device};
pub use ends::{Embedding, Head, HeadBackwarded, HeadForwarded};
pub use footprints::{footprints, kept, needs, reference_needs};
pub use layer::{Backwarded, Forwarded, Layer};
pub use layout::Layout;
pub use recompute::Recomputed;
pub use shard_ops::{ShardOps, ShardSizes};
pub use stage::{Gpt, Parameters};
pub use starts::initial;
pub use training::{BuildError, Training};
