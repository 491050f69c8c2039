//! The inputs that all set-ups of a question share: model, recipe and cluster.

use crate::model::Transformer;
use crate::setup::{Cluster, Recipe};

/// The inputs that all set-ups of a question share.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The model.
    pub model: &'a Transformer,
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The cluster.
    pub cluster: &'a Cluster,
}
