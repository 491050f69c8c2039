//! The inputs that all set-ups of a question share: model, recipe and cluster.

use pipeline::LayerLayout;

use crate::model::Transformer;
use crate::setup::{Cluster, Recipe};

/// The inputs that all set-ups of a question share.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub model: &'a Transformer,
    pub recipe: &'a Recipe,
    pub cluster: &'a Cluster,
    /// The layers of each chunk, for set-ups with [`Split::Layout`](crate::Split::Layout).
    pub layout: Option<&'a LayerLayout>,
}

impl<'a> Inputs<'a> {
    /// Those inputs, without a layout.
    #[must_use]
    pub const fn new(model: &'a Transformer, recipe: &'a Recipe, cluster: &'a Cluster) -> Self {
        Self { model, recipe, cluster, layout: None }
    }
}
