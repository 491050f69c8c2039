//! Breakdown of the time of a layer.

use crate::model::{Module, Recompute};

/// A component of the time of a layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// Products with weights that are no expert's.
    Products,
    /// Products with weights of routed experts.
    Experts,
    /// Scores, softmax and weighted values; the recurrence of layers that have one.
    Attention,
    /// Kernels that do little for each byte they move.
    Elementwise,
    /// Collectives of tensor groups.
    Tensor,
    /// Tokens on their way to experts and back.
    AllToAll,
    /// Keys and values on their way around a context group.
    Context,
    /// The host, as far as the device waits for it.
    Host,
}

impl Part {
    /// All parts, in the order in which they are reported.
    pub const ALL: [Self; 8] = [
        Self::Products,
        Self::Experts,
        Self::Attention,
        Self::Elementwise,
        Self::Tensor,
        Self::AllToAll,
        Self::Context,
        Self::Host,
    ];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Products => "products",
            Self::Experts => "experts",
            Self::Attention => "attention",
            Self::Elementwise => "elementwise kernels",
            Self::Tensor => "collectives of tensor groups",
            Self::AllToAll => "all-to-alls of experts",
            Self::Context => "collectives of context groups",
            Self::Host => "waits for the host",
        }
    }

    /// Whether links have a part in it.
    const fn is_collective(self) -> bool {
        matches!(self, Self::Tensor | Self::AllToAll | Self::Context)
    }
}

/// How long each part takes, in seconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct PartTimes([f64; Part::ALL.len()]);

impl PartTimes {
    #[must_use]
    pub const fn of(&self, part: Part) -> f64 {
        self.0[part as usize]
    }

    pub(crate) fn add(&mut self, part: Part, seconds: f64) {
        self.0[part as usize] += seconds;
    }

    #[must_use]
    pub fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// `count` times as long.
    #[must_use]
    pub fn times(self, count: f64) -> Self {
        Self(self.0.map(|seconds| seconds * count))
    }

    /// One after the other.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|part| self.0[part] + other.0[part]))
    }
}

/// A group of kernels that is computed again as a whole or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    /// Projections to queries, keys and values, and behind attention.
    Projections,
    /// Projections from the latents of MLA.
    LatentUp,
    /// Scores and weighted values.
    Scores,
    /// The MLP of a dense layer.
    Mlp,
    /// The experts that all tokens visit.
    Shared,
    /// Routed experts, with the router and all-to-alls.
    Routed,
    /// The activation function of routed experts.
    RoutedActivation,
    /// Normalisations, residuals and other elementwise kernels.
    Norms,
}

impl Group {
    /// All, in their order.
    const ALL: [Self; 8] = [
        Self::Projections,
        Self::LatentUp,
        Self::Scores,
        Self::Mlp,
        Self::Shared,
        Self::Routed,
        Self::RoutedActivation,
        Self::Norms,
    ];

    /// The share of the group's forward that `recompute` repeats, of products of few bits if `low`.
    fn again(self, part: Part, recompute: Recompute, low: bool) -> f64 {
        if recompute == Recompute::Full {
            return 1.0;
        }
        if recompute.has(Module::SelectiveOp) {
            return self.again_by_operator(part, low);
        }
        let of = |modules: &[Module]| {
            if modules.iter().any(|module| recompute.has(*module)) { 1.0 } else { 0.0 }
        };
        match self {
            Self::Projections => 0.0,
            Self::LatentUp => of(&[Module::LatentUp]),
            Self::Scores => of(&[Module::CoreAttention]),
            Self::Mlp => of(&[Module::Mlp]),
            Self::Shared => of(&[Module::SharedExperts, Module::Moe]),
            Self::Routed => of(&[Module::Moe]),
            Self::RoutedActivation => of(&[Module::Moe, Module::MoeActivation]),
            Self::Norms => NORMS_TRAFFIC * of(&[Module::LayerNorm]),
        }
    }

    /// The same by torchtitan's selective checkpointing of operators: every second product is kept, but
    /// those of few bits are not on its list; what is scattered is kept, and gathered again.
    fn again_by_operator(self, part: Part, low: bool) -> f64 {
        match (self, part) {
            (Self::Scores, _) => 0.0,
            (_, Part::Products) if !low => 0.5,
            (_, Part::Tensor) => 0.5,
            _ => 1.0,
        }
    }
}

/// The share of normalisations in the elementwise kernels around products. Assumed.
const NORMS_TRAFFIC: f64 = 0.25;

/// Compute of a layer between its all-to-alls, in seconds of F, B and W, and the all-to-alls
/// themselves.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Segments {
    /// Compute before dispatch: attention and the choice of experts.
    pub attention: [f64; 3],
    /// Experts, or the MLP of a layer without them.
    pub experts: [f64; 3],
    /// Dispatch and combine together, in F and in B.
    pub travel: [f64; 2],
}

impl Segments {
    /// `count` times as long.
    pub(super) fn times(self, count: f64) -> Self {
        let Self { attention, experts, travel } = self;
        let [attention, experts] =
            [attention, experts].map(|own| own.map(|seconds| seconds * count));
        Self { attention, experts, travel: travel.map(|seconds| seconds * count) }
    }

    /// One after the other.
    pub(super) fn plus(self, other: Self) -> Self {
        let sum = |one: [f64; 3], other: [f64; 3]| std::array::from_fn(|at| one[at] + other[at]);
        Self {
            attention: sum(self.attention, other.attention),
            experts: sum(self.experts, other.experts),
            travel: std::array::from_fn(|at| self.travel[at] + other.travel[at]),
        }
    }

    /// The same where passes take `whole` seconds of F, B and W with all that they wait for: compute is
    /// stretched, and tokens travel as long as before.
    pub(super) fn within(self, whole: [f64; 3]) -> Self {
        let mut all = self;
        for (pass, whole) in whole.into_iter().enumerate() {
            let travel = self.travel.get(pass).copied().unwrap_or(0.0);
            let compute = self.attention[pass] + self.experts[pass];
            let wanted = (whole - travel).max(0.0);
            if compute > 0.0 {
                all.attention[pass] *= wanted / compute;
                all.experts[pass] *= wanted / compute;
            } else {
                all.attention[pass] = wanted;
            }
        }
        all
    }

    /// Where kernels of `part` and `group` belong, of those that compute.
    fn of(&mut self, part: Part, group: Group) -> &mut [f64; 3] {
        match (part, group) {
            (Part::Products, Group::Routed) => &mut self.attention,
            (_, Group::Mlp | Group::Shared | Group::Routed | Group::RoutedActivation) => {
                &mut self.experts
            }
            _ => &mut self.attention,
        }
    }
}

/// The kernels of a layer: seconds of F, B and W by part and group.
#[derive(Clone, Default)]
pub(super) struct Kernels {
    passes: [[f64; 3]; Part::ALL.len()],
    /// The forward by group, for recomputation.
    forward: [[f64; Group::ALL.len()]; Part::ALL.len()],
    /// The same by the segments of the layer.
    pub(super) segments: Segments,
}

impl Kernels {
    /// Adds kernels of `part` that take `passes` seconds of F, B and W.
    pub(super) fn add(&mut self, part: Part, group: Group, passes: [f64; 3]) {
        let own = &mut self.passes[part as usize];
        own.iter_mut().zip(passes).for_each(|(sum, seconds)| *sum += seconds);
        self.forward[part as usize][group as usize] += passes[0];
        if part == Part::AllToAll {
            self.segments.travel.iter_mut().zip(passes).for_each(|(sum, seconds)| *sum += seconds);
        } else {
            let own = self.segments.of(part, group);
            own.iter_mut().zip(passes).for_each(|(sum, seconds)| *sum += seconds);
        }
    }

    /// Adds the recomputation by `recompute` to B; products are of low precision if `low`.
    pub(super) fn again(&mut self, recompute: Recompute, low: bool) {
        for (part, (passes, forward)) in
            Part::ALL.iter().zip(self.passes.iter_mut().zip(&self.forward))
        {
            let again = Group::ALL.map(|group| group.again(*part, recompute, low));
            passes[1] +=
                again.iter().zip(forward).map(|(share, seconds)| share * seconds).sum::<f64>();
            // Beside a replay nothing runs, so that its all-to-alls hold the compute stream.
            for ((group, share), seconds) in Group::ALL.into_iter().zip(again).zip(forward) {
                self.segments.of(*part, group)[1] += share * seconds;
            }
        }
    }

    /// The same without a backward.
    pub(super) fn forward_only(mut self) -> Self {
        for passes in &mut self.passes {
            *passes = [passes[0], 0.0, 0.0];
        }
        let Segments { attention, experts, travel } = &mut self.segments;
        for passes in [attention, experts] {
            *passes = [passes[0], 0.0, 0.0];
        }
        travel[1] = 0.0;
        self
    }

    /// F, B and W.
    pub(super) fn sum(&self) -> [f64; 3] {
        self.sum_of(|_| true)
    }

    /// F, B and W if collectives took no time.
    pub(super) fn without_collectives(&self) -> [f64; 3] {
        self.sum_of(|part| !part.is_collective())
    }

    fn sum_of(&self, counts: impl Fn(Part) -> bool) -> [f64; 3] {
        let own = Part::ALL.iter().zip(&self.passes).filter(|(part, _)| counts(**part));
        own.fold([0.0; 3], |sum, (_, passes)| std::array::from_fn(|pass| sum[pass] + passes[pass]))
    }

    /// All passes of each part.
    pub(super) fn parts(&self) -> PartTimes {
        PartTimes(self.passes.map(|passes| passes.iter().sum()))
    }
}
