//! Times of the parts of a model on a device: layers, the head, and their collectives.

mod adapters;
mod attention;
mod ends;
mod part;
mod products;
mod traffic;

use crate::experts::Load;
use crate::machine::Machine;
use crate::model::{Ffn, LayerKind, Mixer, Recompute, Trained, Transformer, number};
use crate::partition::Partition;
use crate::precision::Precision;
use crate::setup::{Recipe, Setup};
use crate::software::Software;
use crate::times::Times;

pub use self::ends::head;
pub(crate) use self::ends::{embedding, last_norm, mtp, shard};
pub use self::part::{Part, PartTimes, Segments};

use self::part::Kernels;

/// Bytes of a 16-bit number.
const HALF: f64 = 2.0;
/// The traffic of the backward over that of the forward. Fitted.
const BACKWARD_TRAFFIC: f64 = 0.923;
/// Share of the launches of a layer that its forward is; the rest are backward and forward again.
const FORWARD_LAUNCHES: f64 = 0.27;
/// Share of the launches of a layer that gradients of weights are, which frozen weights have not. Assumed.
const WEIGHT_LAUNCHES: f64 = 0.2;
/// The launches of an adapter over those of a layer: ten small kernels forward and backward. Assumed.
const ADAPTER_LAUNCHES: f64 = 0.05;
/// Of the launches of a layer with experts, those before its experts: attention and its normalisation.
const MIXER_LAUNCHES: f64 = 0.3;

/// A layer, as a device of a set-up sees it.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    pub model: &'a Transformer,
    /// The device.
    pub machine: &'a Machine,
    /// The partition of the model.
    pub partition: Partition,
    /// The format of products.
    pub precision: Precision,
    /// Optimisations of the software.
    pub software: Software,
    /// Recomputation.
    pub recompute: Recompute,
    /// The format of the head's product.
    pub head: Precision,
    /// Rows of the experts of a device over those with tokens spread evenly.
    pub load: Load,
    /// The share of the pairs of tokens of a causal sequence that attend to each other.
    pub attended: f64,
}

impl<'a> Task<'a> {
    /// The task of `model` on `machine`, partitioned by `setup`, by `recipe`.
    #[must_use]
    pub fn new(
        model: &'a Transformer,
        machine: &'a Machine,
        setup: &Setup,
        recipe: &Recipe,
        recompute: Recompute,
    ) -> Self {
        let Recipe { precision, head, attended, .. } = *recipe;
        let partition = setup.partition(recipe);
        let load = recipe.imbalance.load(model, partition);
        let software = setup.software(recipe).on(&machine.efficiency);
        Self { model, machine, partition, precision, software, recompute, head, load, attended }
    }

    /// Tokens of a microbatch on one device of a context group.
    fn tokens(&self) -> f64 {
        self.partition.tokens(self.model)
    }

    /// Devices that share the activations between products.
    fn shared(&self) -> f64 {
        self.partition.shared()
    }

    /// F, B and W of kernels as the software runs them.
    fn slowed(&self, passes: [f64; 3]) -> [f64; 3] {
        passes.map(|seconds| seconds * self.software.compute)
    }

    /// Factor on the time of kernels of routed experts.
    fn experts(&self) -> f64 {
        self.software.compute * self.software.experts * self.fused()
    }

    /// Factor on the time of elementwise kernels in a model with experts.
    fn fused(&self) -> f64 {
        let fused = self.software.fused_experts && self.model.experts.is_some();
        if fused { self.machine.efficiency.fused_experts } else { 1.0 }
    }

    /// The machine's measured times of a layer, where they apply to this partition.
    fn measured(&self) -> Option<crate::machine::Measured> {
        self.machine.measured.filter(|measured| measured.is_of(self.partition))
    }
}

/// The duration of a layer, and its parts.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct LayerTimes {
    /// With everything below.
    pub times: Times,
    /// The same without collectives.
    pub alone: Times,
    /// Breakdown of the time of F, B and W together.
    pub parts: PartTimes,
    /// Segments between all-to-alls.
    pub segments: Segments,
}

impl LayerTimes {
    /// `count` times as long.
    #[must_use]
    pub fn times(self, count: f64) -> Self {
        Self {
            times: self.times.times(count),
            alone: self.alone.times(count),
            parts: self.parts.times(count),
            segments: self.segments.times(count),
        }
    }

    /// One after the other.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            times: self.times.plus(other.times),
            alone: self.alone.plus(other.alone),
            parts: self.parts.plus(other.parts),
            segments: self.segments.plus(other.segments),
        }
    }
}

/// The duration of a layer of `kind` as `task` says.
///
/// The time is the sum of kernels and collectives on the device, or that of launches on the host,
/// whichever is longer; near each other both count, as the fourth root of the sum of fourth powers.
#[must_use]
pub fn layer(task: &Task<'_>, kind: LayerKind) -> LayerTimes {
    if let Some(measured) = task.measured() {
        return measured_layer(measured.layer, task, kind);
    }
    let kernels = kernels(task, kind);
    let [ahead, behind] = launches(task, kind);
    let with = |[forward, backward, weight]: [f64; 3]| {
        let both = backward + weight;
        let back = longer(both, behind);
        let stretch = if both > 0.0 { back / both } else { 1.0 };
        Times {
            forward: longer(forward, ahead),
            backward_input: backward * stretch,
            backward_weight: weight * stretch,
        }
    };
    let latency = latency(task, kind);
    let times = with(kernels.sum()).plus(latency);
    let mut parts = kernels.parts();
    parts.add(Part::Host, times.sum() - parts.sum());
    let segments = kernels.segments.within(passes_of(times));
    LayerTimes { times, alone: with(kernels.without_collectives()).plus(latency), parts, segments }
}

/// A layer of `kind` whose times were measured with all weights trained and without recomputation; attention
/// is not split off.
fn measured_layer(layer: Times, task: &Task<'_>, kind: LayerKind) -> LayerTimes {
    let recomputes = task.recompute != Recompute::None && kind.trained != Trained::ForwardOnly;
    let again = if recomputes { layer.forward } else { 0.0 };
    let mut beside = Kernels::default();
    adapters::add(task, kind, &mut beside);
    beside.again(task.recompute, task.precision.is_low());
    let [forward, backward_input, backward_weight] = kind.trained.of_passes(passes_of(layer));
    let own = Times { forward, backward_input: backward_input + again, backward_weight };
    let times = own.plus(times_of(beside.sum()));
    let mut parts = PartTimes::default();
    parts.add(Part::Products, times.sum());
    let segments = Segments::default().within(passes_of(times));
    LayerTimes { times, alone: times, parts, segments }
}

/// F, B and W, in seconds.
const fn times_of([forward, backward_input, backward_weight]: [f64; 3]) -> Times {
    Times { forward, backward_input, backward_weight }
}

/// F, B and W.
const fn passes_of(times: Times) -> [f64; 3] {
    [times.forward, times.backward_input, times.backward_weight]
}

/// All that a device does for a layer, pass by pass.
fn kernels(task: &Task<'_>, kind: LayerKind) -> Kernels {
    let mut kernels = Kernels::default();
    products::add(task, kind, &mut kernels);
    adapters::add(task, kind, &mut kernels);
    attention::add(task, kind, &mut kernels);
    traffic::elementwise(task, kind, &mut kernels);
    traffic::collectives(task, kind, &mut kernels);
    if kind.trained == Trained::ForwardOnly {
        return kernels.forward_only();
    }
    kernels.again(task.recompute, task.precision.is_low());
    kernels
}

/// Host time to launch the kernels of a layer of `kind`, in seconds: of its forward, and of its backward.
fn launches(task: &Task<'_>, kind: LayerKind) -> [f64; 2] {
    let rates = &task.machine.efficiency;
    let own = match (kind.mixer, kind.ffn) {
        (Mixer::None, Ffn::Experts) => rates.launch_experts * (1.0 - MIXER_LAUNCHES),
        (_, Ffn::Experts) => rates.launch_experts,
        (Mixer::None, _) | (_, Ffn::None) => rates.launch / 2.0,
        _ => rates.launch,
    };
    let has_latent = task.model.latent.is_some() && kind.mixer != Mixer::None;
    let latent = if has_latent { rates.launch_latent } else { 1.0 };
    let tensor = if task.partition.tensor > 1 { rates.launch_tensor } else { 1.0 };
    let all = own * latent * tensor * (1.0 - task.software.graphs);
    let products = task.model.products_of(kind).iter();
    let adapters =
        products.map(|product| task.model.adapters_of(kind, product).len()).sum::<usize>();
    let adapters = number(adapters as u64) * ADAPTER_LAUNCHES;
    let ahead = FORWARD_LAUNCHES + adapters * FORWARD_LAUNCHES;
    let behind = match kind.trained {
        Trained::Whole => 1.0 - FORWARD_LAUNCHES,
        Trained::Adapters | Trained::Frozen => {
            1.0 - FORWARD_LAUNCHES - WEIGHT_LAUNCHES + adapters * (1.0 - FORWARD_LAUNCHES)
        }
        Trained::ForwardOnly => 0.0,
    };
    [all * ahead, all * behind]
}

/// Additional latency of a layer with experts, in seconds: tokens are sorted before they are sent.
fn latency(task: &Task<'_>, kind: LayerKind) -> Times {
    if kind.ffn != Ffn::Experts {
        return Times::default();
    }
    let half = task.machine.efficiency.expert_latency / 2.0;
    let back = if kind.trained == Trained::ForwardOnly { 0.0 } else { half };
    Times { forward: half, backward_input: back, backward_weight: 0.0 }
}

/// The longer of two things that run side by side: near each other a little more than that.
pub(crate) fn longer(a: f64, b: f64) -> f64 {
    let fourth = |x: f64| x * x * x * x;
    // Roots are exact to the last bit everywhere; powers are not.
    (fourth(a) + fourth(b)).sqrt().sqrt()
}
