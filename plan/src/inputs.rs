//! What is the same for all set-ups of a question: model, recipe and cluster.

use crate::model::Transformer;
use crate::setup::{Cluster, Recipe};

/// What of a question is the same for all its set-ups.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The model.
    pub model: &'a Transformer,
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The cluster.
    pub cluster: &'a Cluster,
}
