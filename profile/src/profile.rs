//! A profile: a machine, the model shape that it was measured for, times and sizes.

use pipeline::Footprint;
use serde::{Deserialize, Serialize};

use crate::link::{Link, Message};
use crate::quantity::Quantity;
use crate::shape::ModelShape;
use crate::statistics::Verdict;

/// The costs of a model's parts on a machine, as `debubble calibrate` measured them.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Where it was measured.
    pub machine: Machine,
    /// The model shape for which it is valid.
    pub model: ModelShape,
    /// Target half-width of the interval of each median, as a fraction of the median.
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
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
    #[serde(default)]
    pub neighbours: u64,
    /// Day of the measurement, UTC, as in 2026-11-30.
    pub date: String,
    /// The program that measured, with its version.
    pub program: String,
    /// A further remark.
    pub remark: Option<String>,
}

/// A part of the model. What of it the executor does in a pass is measured there, be it nothing.
/// In a file its times and its footprint have forms of their own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, expecting = "struct PartDocument")]
pub struct Part<T = Quantity, F = Footprint> {
    /// The activations that it holds of one microbatch.
    pub footprint: F,
    /// F for one microbatch.
    pub forward: T,
    /// B.
    pub backward_input: T,
    /// W.
    pub backward_weight: T,
}

/// A step of the optimizer; in a file its time and its number have forms of their own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "struct OptimizerDocument")]
pub struct Optimizer<T = Quantity, N = u64> {
    /// Number of parameters.
    pub parameters: N,
    /// The time for all of them.
    pub step: T,
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
    /// The quantities that cannot be relied on, those of links included, by name.
    #[must_use]
    pub fn doubts(&self) -> Vec<(String, Verdict)> {
        let of_links = self.links.iter().flat_map(|link| {
            let name = link.kind.name();
            let named = move |one: &'_ Message| format!("{name} link, {} bytes", one.bytes);
            link.messages.iter().map(move |one| (named(one), &one.time))
        });
        let of_passes = self.quantities().map(|(name, one)| (name.to_owned(), one));
        let all = of_passes.into_iter().chain(of_links);
        let all = all.map(|(name, one)| (name, one.verdict(self.half_width)));
        all.filter(|(_, verdict)| *verdict != Verdict::Tight).collect()
    }

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
