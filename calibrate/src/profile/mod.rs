//! A profile: a machine, the model shape that it was measured for, times and sizes.

mod document;
mod form;
mod link;
mod quantities;

use executor::{Model, ModelError};
use pipeline::{Bytes, Footprint, Nanos};

use crate::statistics::{Summary, Verdict};

pub use document::{MAX_BYTES, MAX_NANOS, MAX_SAMPLES, ProfileError, VERSION};
pub use link::{Link, LinkKind, Message};

#[cfg(test)]
pub(crate) use document::tests::example as tests_example;

/// The costs of a model's parts on a machine, as `debubble calibrate` measured them.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Where it was measured.
    pub machine: Machine,
    /// For which shapes; for no others does it say anything.
    pub model: ModelShape,
    /// How narrow half the interval of each median was to be, over the median.
    pub half_width: f64,
    /// A transformer layer.
    pub layer: Part,
    /// Token and position embeddings: what the first chunk does besides.
    pub embedding: Part,
    /// Final layer norm, head and loss: what the last chunk does besides.
    pub head: Part,
    /// The overhead of a pass besides its layers.
    pub overhead: Quantity,
    /// One step of the optimizer.
    pub optimizer: Optimizer,
    /// How values travel; hops go over the first kind that joins stages.
    pub links: Vec<Link>,
}

/// Where and when a profile was measured. Texts are as the machine gives them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Cores that the program may use.
    pub cores: u64,
    /// Operating system and kernel.
    pub os: String,
    /// The device that computed: `cpu`, or the name of the GPU.
    pub device: String,
    /// Driver of the device, where it has one.
    pub driver: Option<String>,
    /// Clocks of processor or device, where they are known.
    pub clocks: Option<String>,
    /// Whether threads were pinned to cores.
    pub pinned: bool,
    /// How many other workers computed at the same time.
    pub neighbours: u64,
    /// Day of the measurement, UTC, as in 2026-11-30.
    pub date: String,
    /// The program that measured, with its version.
    pub program: String,
    /// A further remark.
    pub remark: Option<String>,
}

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
    ///
    /// # Errors
    /// None for a model that exists: it has one layer too.
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
    ///
    /// # Errors
    /// None, or too many.
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

/// A time that was measured again and again, with all samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quantity {
    samples: Vec<u64>,
    summary: Summary,
}

impl Quantity {
    /// From samples in nanoseconds, in the order taken; `None` without any.
    #[must_use]
    pub fn of(samples: Vec<u64>) -> Option<Self> {
        let summary = Summary::of(&samples)?;
        Some(Self { samples, summary })
    }

    /// The median: what predictions reckon with.
    #[must_use]
    pub const fn median(&self) -> Nanos {
        Nanos(self.summary.median)
    }

    /// The summary of the samples.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// All samples in nanoseconds, in the order taken.
    #[must_use]
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    /// Whether it can be relied on.
    #[must_use]
    pub fn verdict(&self, half_width: f64) -> Verdict {
        Verdict::of(&self.samples, half_width)
    }
}

/// A part of the model. What of it the executor does in a pass is measured there, be it nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// F for one microbatch.
    pub forward: Quantity,
    /// B.
    pub backward_input: Quantity,
    /// W.
    pub backward_weight: Quantity,
    /// The activations that it holds of one microbatch.
    pub footprint: Footprint,
}

/// A step of the optimizer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Optimizer {
    /// How many parameters.
    pub parameters: u64,
    /// The time for all of them.
    pub step: Quantity,
}

impl Optimizer {
    /// Nanoseconds for one parameter.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn per_parameter(&self) -> f64 {
        self.step.median().0 as f64 / self.parameters as f64
    }
}

impl Profile {
    /// Every time of a pass, the optimizer's and the overhead, by name.
    #[must_use]
    pub fn quantities(&self) -> [(&'static str, &Quantity); 11] {
        [
            ("layer F", &self.layer.forward),
            ("layer B", &self.layer.backward_input),
            ("layer W", &self.layer.backward_weight),
            ("embedding F", &self.embedding.forward),
            ("embedding B", &self.embedding.backward_input),
            ("embedding W", &self.embedding.backward_weight),
            ("head F", &self.head.forward),
            ("head B", &self.head.backward_input),
            ("head W", &self.head.backward_weight),
            ("overhead of a pass", &self.overhead),
            ("optimizer, one layer", &self.optimizer.step),
        ]
    }
}
