//! How the passes of a slot share the two streams.

use super::interleaving::Interleaving;

/// Where W of a pair, or of a whole backward, is done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Weights {
    /// When it fits: nothing of B waits for it (DualPipe; Megatron-LM's `--delay-wgrad-compute`).
    #[default]
    Delayed,
    /// Right behind its segment of B, which the next one waits for too.
    WithBackward,
}

/// How the passes of a slot share the two streams.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rule {
    /// The order of segments.
    pub interleaving: Interleaving,
    /// Where W is done.
    pub weights: Weights,
    /// Whether a whole backward that stands alone hides its own communication behind its own W, as in
    /// Megatron-LM; DualPipe's code runs it in one piece.
    pub lone: bool,
}
