//! The shape of the model that a profile is of, and what its tensors hold.

use pipeline::Bytes;

use crate::model::{Model, ModelError};

/// The number format of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// IEEE 754 single precision.
    F32,
    /// The upper half of single precision.
    Bf16,
}

impl Element {
    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// Bytes of one.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// The element of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::F32, Self::Bf16].into_iter().find(|element| element.name() == name)
    }
}

/// The shape of a model but for its layers: what decides how long one layer takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelShape {
    one_layer: Model,
    element: Element,
}

impl ModelShape {
    /// The shape of `model`, computed in `element`.
    pub fn new(model: Model, element: Element) -> Result<Self, ModelError> {
        let one_layer = Model::new(
            model.hidden(),
            model.heads(),
            1,
            model.vocabulary(),
            model.sequence(),
            model.microbatch_size(),
        )?;
        Ok(Self { one_layer, element })
    }

    /// The model of this shape with one layer.
    #[must_use]
    pub const fn one_layer(self) -> Model {
        self.one_layer
    }

    /// The number format of its tensors.
    #[must_use]
    pub const fn element(self) -> Element {
        self.element
    }

    /// The model of this shape with `layers` layers.
    pub fn with_layers(self, layers: usize) -> Result<Model, ModelError> {
        let one = self.one_layer;
        let (vocabulary, sequence) = (one.vocabulary(), one.sequence());
        Model::new(one.hidden(), one.heads(), layers, vocabulary, sequence, one.microbatch_size())
    }

    /// Its sizes by the names of their keys.
    #[must_use]
    pub fn sizes(self) -> [(&'static str, usize); 5] {
        let one = self.one_layer;
        [
            ("hidden", one.hidden()),
            ("heads", one.heads()),
            ("seq", one.sequence()),
            ("microbatch-size", one.microbatch_size()),
            ("vocabulary", one.vocabulary()),
        ]
    }

    /// The bytes that cross between stages: b s h elements.
    #[must_use]
    pub fn message(self) -> Bytes {
        let one = self.one_layer;
        // At most 2^20 each: no overflow.
        Bytes((one.tokens() * one.hidden()) as u64 * self.element.bytes())
    }
}
