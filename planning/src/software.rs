//! `[search] software`: the software that a search turns on, as far as framework and machines have it.
//!
//! Sources, read in 2026: Megatron-LM's `arguments.py` and `transformer_config.py`, torchtitan's
//! `config/job_config.py` and `distributed/dual_pipe_v.py`.

use pipeline::Family;
use plan::{
    Cluster, Graphs, Module, Modules, Offload, Offloaded, Options, Recipe, Recompute, Setup,
    Software, Transformer, Zero,
};
use sim::cluster::Host;

use crate::checked::Question;
use crate::framework::Framework;

/// The activations that a search copies to the host: of the lists that were compared on GB200, this one is the fastest.
const OFFLOADED: [Offloaded; 2] = [Offloaded::CoreAttention, Offloaded::QkvLinear];
/// The least rate of the host link of a device over which a search copies, in bytes per second: between PCI Express 5
/// and NVLink-C2C. Over a slower one copies meet data, checkpoints and the network, and no list gained on H100 and
/// B200.
const FAST_HOST_LINK: f64 = 1e11;
/// [`OFFLOADED`] as TOML writes it.
const OFFLOAD: &str = "[\"core_attn\", \"qkv_linear\"]";

/// A key of `[training]` with a value that a search found or a lever tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SoftwareKey {
    pub key: &'static str,
    /// Its value, as TOML writes it without quotes.
    pub value: &'static str,
    /// The key and its value as options of a set-up.
    pub options: Options,
}

impl SoftwareKey {
    /// Its line in `[training]`.
    #[must_use]
    pub fn line(&self) -> String {
        Self::line_of(self.key, self.value)
    }

    /// The line in `[training]` that gives `key` the value `value`.
    #[must_use]
    pub fn line_of(key: &str, value: &str) -> String {
        let is_word = value != "true" && !value.starts_with('[');
        if is_word { format!("{key} = \"{value}\"") } else { format!("{key} = {value}") }
    }
}

/// Whether whole layers are computed again.
const fn is_full(recompute: Recompute) -> bool {
    matches!(recompute, Recompute::Full | Recompute::First(_))
}

/// Whether Megatron-LM overlaps the all-to-alls of experts in `setup`: beside another chunk's microbatch or, without
/// a pipeline, beside another microbatch; layers that are computed again whole leave nothing to run beside.
const fn overlaps_experts(setup: &Setup) -> bool {
    (setup.pipeline == 1 || setup.chunks > 1) && !is_full(setup.recompute)
}

impl Framework {
    /// Whether this framework refuses to overlap the all-to-alls of experts of `setup` as `software` says.
    pub(crate) fn lacks_overlap(self, setup: &Setup, software: &Software) -> bool {
        let overlaps = software.overlap_experts && setup.expert > 1;
        let is_paired = setup.family == Family::OneFOneBOverlap;
        self == Self::Megatron && overlaps && !is_paired && !overlaps_experts(setup)
    }

    /// Whether it has the software of `options`, which were chosen for another framework.
    pub(crate) const fn has_options(self, options: Options) -> bool {
        match self {
            Self::Any | Self::Megatron => true,
            Self::Torchtitan => {
                matches!(options.graphs, Graphs::None)
                    && !options.overlap_experts
                    && matches!(options.offload, Offload::NONE)
            }
        }
    }

    /// All software that it has for `setup` of `model`.
    fn options(self, setup: &Setup, model: &Transformer) -> Options {
        let all = self.software(model);
        let exchanges = setup.expert > 1;
        // FSDP gathers parameters into new buffers, and graphs want old ones.
        let is_whole = matches!(setup.zero, Zero::None | Zero::Optimizer);
        let graphs = if is_full(setup.recompute) || !is_whole { Graphs::None } else { all.graphs };
        let beside = exchanges && is_whole && overlaps_experts(setup);
        Options {
            graphs,
            sends_once: all.sends_once && exchanges,
            overlap_experts: all.overlap_experts && beside,
            overlap_tensor: all.overlap_tensor && setup.tensor > 1,
            // Layers that are computed again whole keep nothing to copy, and some schedules copy by themselves.
            offload: match is_full(setup.recompute) || setup.copies() {
                true => Offload::NONE,
                false => all.offload,
            },
        }
    }

    /// All software that it has for some set-up of `model`.
    fn software(self, model: &Transformer) -> Options {
        let experts = model.experts.is_some();
        match self {
            Self::Any | Self::Megatron => Options {
                graphs: if experts { Graphs::Partial } else { Graphs::Full },
                sends_once: experts,
                overlap_experts: experts && model.mtp <= 1,
                overlap_tensor: true,
                offload: Offload::of(&OFFLOADED),
            },
            Self::Torchtitan => {
                Options { sends_once: experts, overlap_tensor: !experts, ..Options::NONE }
            }
        }
    }
}

/// Whether constants of software are known of all machines of `cluster`.
fn is_known(cluster: &Cluster) -> bool {
    cluster.parts.iter().all(|(machine, _)| machine.efficiency.has_hidden_exchanges())
}

impl Question {
    /// Whether the software that the question leaves out is searched on `cluster`: constants of it must be known of
    /// its machines.
    #[must_use]
    pub fn searches_software(&self, cluster: &Cluster) -> bool {
        self.software_searched && is_known(cluster)
    }

    /// Whether copies to the host are searched on `cluster`: the link of each device must be fast.
    #[must_use]
    pub fn searches_offload(&self, cluster: &Cluster) -> bool {
        let is_fast = |host: &Host| host.rate_of_device() >= FAST_HOST_LINK;
        let mut machines = cluster.parts.iter().map(|(machine, _)| machine);
        let fast = machines.all(|machine| machine.host.as_ref().is_some_and(is_fast));
        self.searches_software(cluster) && self.open.offload && fast
    }

    /// `setup` on `cluster` with the software that a search turns on for it.
    #[must_use]
    pub fn with_software(&self, setup: Setup, cluster: &Cluster) -> Setup {
        if !self.searches_software(cluster) {
            return setup;
        }
        let mut options = self.open.of(self.options(&setup));
        if !self.searches_offload(cluster) {
            options.offload = Offload::NONE;
        }
        Setup { options, ..setup }
    }

    /// The modules whose recomputation is searched on `cluster` beside that of whole layers: those that Megatron-LM
    /// has for layers of this kind and that take least time for the memory which they free.
    pub(crate) fn modules(&self, cluster: &Cluster) -> Option<Recompute> {
        if !(self.open.recompute && self.searches_software(cluster)) {
            return None;
        }
        let modules: &[Module] = match (self.model.experts, self.model.latent) {
            (Some(_), Some(_)) => &[Module::LayerNorm, Module::MoeActivation, Module::LatentUp],
            (Some(_), None) => &[Module::LayerNorm, Module::MoeActivation],
            (None, _) => &[Module::Mlp],
        };
        let recompute = Modules::of(modules).map(Recompute::Modules);
        recompute.filter(|recompute| self.framework.has_recompute(*recompute))
    }

    /// All software that a framework which runs `setup` has for it.
    fn options(&self, setup: &Setup) -> Options {
        let framework = match self.framework {
            Framework::Any => Framework::that_runs(setup, &self.recipe).unwrap_or(Framework::Any),
            own => own,
        };
        framework.options(setup, &self.model)
    }

    /// The keys of software that the question leaves out, each with the value that a search would give it on `cluster`;
    /// none where constants of software are not known of its machines, or where a search has them already.
    #[must_use]
    pub fn open_software(&self, cluster: &Cluster) -> Vec<SoftwareKey> {
        if self.software_searched || !is_known(cluster) {
            return Vec::new();
        }
        let all = self.framework.software(&self.model);
        // Copies to the host free memory and save no time.
        self.keys(self.open.of(Options { offload: Offload::NONE, ..all }), cluster)
    }

    /// The keys of `[training]` that say `options` on `cluster`.
    #[must_use]
    pub fn keys(&self, options: Options, cluster: &Cluster) -> Vec<SoftwareKey> {
        let key = |options: Options| {
            let (key, value) = match options {
                Options { sends_once: true, .. } => ("dispatcher", dispatcher_on(cluster)),
                Options { overlap_experts: true, .. } => ("overlap-experts", "true"),
                Options { overlap_tensor: true, .. } => ("overlap-tensor", "true"),
                Options { offload, .. } if offload != Offload::NONE => ("offload", OFFLOAD),
                Options { graphs, .. } => ("cuda-graphs", graphs.name()),
            };
            SoftwareKey { key, value, options }
        };
        options.each().into_iter().map(key).collect()
    }

    /// The same question with `key` in `[training]`.
    #[must_use]
    pub fn with_key(&self, key: SoftwareKey) -> Self {
        let software = self.recipe.software.with(key.options);
        let recipe = Recipe { software, ..self.recipe.clone() };
        let dispatcher = if key.options.sends_once { key.value } else { self.dispatcher };
        Self { recipe, dispatcher, ..self.clone() }
    }

    /// How tokens get to their experts in `setup` on `cluster`, by name.
    #[must_use]
    pub fn dispatcher_of(&self, setup: &Setup, cluster: &Cluster) -> &'static str {
        match self.recipe.software.sends_once || !setup.options.sends_once {
            true => self.dispatcher,
            false => dispatcher_on(cluster),
        }
    }
}

/// The dispatcher that sends a token once to each node of `cluster`: HybridEP where fast links reach beyond a node.
fn dispatcher_on(cluster: &Cluster) -> &'static str {
    let beyond = cluster.parts.iter().any(|(machine, _)| machine.domain > machine.node);
    if beyond { "hybridep" } else { "deepep" }
}
