//! Optimisations of the training software.

use pipeline::overlap::Contention;

use crate::capture::Capture;
use crate::offload::Offload;
use crate::rates::Efficiency;

/// Factor on the compute time of torchtitan over that of Megatron-LM, beyond the parts that are
/// modelled. Fitted.
pub const TORCHTITAN: f64 = 1.1080;
/// Additional factor on its attention: PyTorch's kernel, where Megatron-LM has that of cuDNN. Fitted.
pub const TORCHTITAN_ATTENTION: f64 = 1.2139;

/// Framework that runs a step, and how far it is tuned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tuning {
    /// Megatron-LM by a recipe that its vendor tuned for the model and the machine: MLPerf, Megatron-Bridge.
    Tuned,
    /// Megatron-LM with its defaults, as in a first run.
    Stock,
    Torchtitan,
}

impl Tuning {
    /// The tunings of Megatron-LM that a question may name.
    pub const NAMES: [(&'static str, Self); 2] = [("tuned", Self::Tuned), ("stock", Self::Stock)];

    /// The name, as answers print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tuned => "tuned Megatron-LM",
            Self::Stock => "stock Megatron-LM",
            Self::Torchtitan => "torchtitan",
        }
    }
}

/// The kernels of a layer whose launches CUDA graphs replace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Graphs {
    #[default]
    None,
    /// Graphs of attention and router.
    Partial,
    /// Graphs of a whole step.
    Full,
}

impl Graphs {
    /// All, by the names that a question has for them.
    pub const NAMES: [(&'static str, Self); 3] = [
        (Self::None.name(), Self::None),
        (Self::Partial.name(), Self::Partial),
        (Self::Full.name(), Self::Full),
    ];

    /// The name in questions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Partial => "partial",
            Self::Full => "full",
        }
    }

    /// The share of a layer's launches that is replaced.
    #[must_use]
    pub const fn share(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Partial => 0.5,
            Self::Full => 1.0,
        }
    }
}

/// Software that a search turns on for a set-up, beside that of the recipe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Options {
    /// CUDA graphs.
    pub graphs: Graphs,
    /// [`Software::sends_once`].
    pub sends_once: bool,
    /// [`Software::overlap_experts`].
    pub overlap_experts: bool,
    /// [`Software::overlap_tensor`].
    pub overlap_tensor: bool,
    /// Activations that are copied to the host, beside those of [`Recipe::offload`](crate::Recipe::offload).
    /// In a search, those of a set-up that does not fit without.
    pub offload: Offload,
}

impl Options {
    /// None of them.
    pub const NONE: Self = Self {
        graphs: Graphs::None,
        sends_once: false,
        overlap_experts: false,
        overlap_tensor: false,
        offload: Offload::NONE,
    };

    /// Those that `other` has not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            graphs: if self.graphs == other.graphs { Graphs::None } else { self.graphs },
            sends_once: self.sends_once && !other.sends_once,
            overlap_experts: self.overlap_experts && !other.overlap_experts,
            overlap_tensor: self.overlap_tensor && !other.overlap_tensor,
            offload: if self.offload == other.offload { Offload::NONE } else { self.offload },
        }
    }

    /// Those that Megatron-LM combines with [`Self::offload`]: no graph of a whole step.
    #[must_use]
    pub const fn beside_offload(self) -> Self {
        match self.graphs {
            Graphs::Full => Self { graphs: Graphs::None, ..self },
            Graphs::None | Graphs::Partial => self,
        }
    }

    /// Each option that is on, alone.
    #[must_use]
    pub fn each(self) -> Vec<Self> {
        let Self { graphs, sends_once, overlap_experts, overlap_tensor, offload } = self;
        let all = [
            Self { graphs, ..Self::NONE },
            Self { sends_once, ..Self::NONE },
            Self { overlap_experts, ..Self::NONE },
            Self { overlap_tensor, ..Self::NONE },
            Self { offload, ..Self::NONE },
        ];
        all.into_iter().filter(|one| *one != Self::NONE).collect()
    }
}

/// How a training framework runs a step, as far as sizes do not say it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Software {
    /// Whose it is; where absent, times are those of tuned recipes.
    pub tuning: Option<Tuning>,
    /// The share of a layer's kernels whose launches a CUDA graph replaces: 0 without graphs, 1 where a
    /// whole step is one.
    pub graphs: f64,
    /// The modules that graphs capture, whose static buffers take memory; none where a whole step is one graph.
    pub capture: Capture,
    /// Whether the all-to-alls of experts run beside the compute of another microbatch.
    pub overlap_experts: bool,
    /// Where the passes of a pair share two streams segment by segment, the contention between the
    /// streams: how much of an all-to-all is hidden then follows from the order of passes, and not from
    /// a fitted share.
    pub streams: Option<Contention>,
    /// Whether collectives of tensor groups run beside products.
    pub overlap_tensor: bool,
    /// Whether stages with several chunks go on while their activations and gradients are sent: Megatron-LM
    /// does so in interleaved schedules alone.
    pub overlap_transfers: bool,
    /// Whether tokens are sent once to each node, and not once for each expert on it (DeepEP,
    /// HybridEP).
    pub sends_once: bool,
    /// Whether keys and values of a context group are gathered before attention, in place of a ring beside
    /// it.
    pub gathers_context: bool,
    /// Whether the kernels around experts are fused: Megatron-LM from its releases of 2026 on.
    pub fused_experts: bool,
    /// Whether the activation function of experts is many kernels, as with clamps and biases (gpt-oss)
    /// before it was fused.
    pub unfused_activation: bool,
    /// Whether elementwise kernels run one by one, neither written as one nor compiled.
    pub eager: bool,
    /// Factor on the time of compute over the software that constants were fitted to.
    pub compute: f64,
    /// The same of attention, beside that.
    pub attention: f64,
    /// The same of routed experts, beside that of all compute.
    pub experts: f64,
    /// The same of all-to-alls.
    pub all_to_all: f64,
}

impl Default for Software {
    /// Megatron-LM without graphs and overlap, with plain all-to-alls.
    fn default() -> Self {
        Self {
            tuning: None,
            graphs: 0.0,
            capture: Capture::NONE,
            overlap_experts: false,
            streams: None,
            overlap_tensor: false,
            overlap_transfers: false,
            sends_once: false,
            gathers_context: false,
            fused_experts: false,
            unfused_activation: false,
            eager: false,
            compute: 1.0,
            attention: 1.0,
            experts: 1.0,
            all_to_all: 1.0,
        }
    }
}

impl Software {
    /// The same run by torchtitan, where the question says so for Megatron-LM.
    #[must_use]
    pub fn of_torchtitan(self) -> Self {
        Self {
            tuning: Some(Tuning::Torchtitan),
            compute: self.compute * TORCHTITAN,
            attention: self.attention * TORCHTITAN_ATTENTION,
            ..self
        }
    }

    /// The same with `options` turned on.
    #[must_use]
    pub fn with(self, options: Options) -> Self {
        let capture = match (self.capture, options.graphs) {
            (Capture::NONE, Graphs::Partial) => Capture::DEFAULT,
            (own, _) => own,
        };
        Self {
            graphs: self.graphs.max(options.graphs.share()),
            capture,
            sends_once: self.sends_once || options.sends_once,
            overlap_experts: self.overlap_experts || options.overlap_experts,
            overlap_tensor: self.overlap_tensor || options.overlap_tensor,
            ..self
        }
    }

    /// The same on a machine with these `rates`: compute of default software takes
    /// [`Efficiency::stock`] times as long.
    pub(crate) fn on(self, rates: &Efficiency) -> Self {
        match self.tuning {
            Some(Tuning::Stock) => Self { compute: self.compute * rates.stock, ..self },
            Some(Tuning::Tuned | Tuning::Torchtitan) | None => self,
        }
    }

    /// Ratio of the time of elementwise kernels to that of their bytes.
    pub(crate) fn elementwise_slowdown(&self, rates: &Efficiency) -> f64 {
        rates.elementwise * if self.eager { rates.eager } else { 1.0 }
    }

    /// Factor on the traffic of the activation function of experts.
    pub(crate) fn activation_slowdown(&self, rates: &Efficiency) -> f64 {
        if self.unfused_activation { rates.unfused_activation } else { 1.0 }
    }

    /// The share of the collectives of tensor groups that nothing hides.
    pub(crate) fn tensor_exposed(&self, rates: &Efficiency) -> f64 {
        if self.overlap_tensor { rates.tensor_overlapped } else { rates.tensor_exposed }
    }

    /// The share of a transfer between stages of `chunks` chunks that nothing hides.
    pub(crate) fn transfers_exposed(&self, rates: &Efficiency, chunks: u64) -> f64 {
        if self.overlap_transfers && chunks > 1 { rates.stage_overlapped } else { 1.0 }
    }

    /// Factor on the time of all-to-alls, without their hidden share.
    pub(crate) fn all_to_all_share(&self, rates: &Efficiency) -> f64 {
        self.all_to_all * if self.overlap_experts { rates.expert_overlapped } else { 1.0 }
    }
}
