//! Assumptions for fields that tables of runs leave out: one function for each rule, with its reason.
//!
//! The recipes that NVIDIA's tables were made with are published beside them, but not with them:
//! `src/megatron/bridge/perf_recipes` of Megatron-Bridge, as of the releases named here.

use pipeline::LayerLayout;
use plan::{Adapters, Loss, Precision, Recompute, Reshard, Targets, Tuning};

use super::models::Model;
use super::published::{Published, Source, amount, whole};

/// Of the launches that a host makes, the share that CUDA graphs of attention and router replace, where
/// experts stay outside of them.
const PARTIAL_GRAPHS: f64 = 0.5;

/// A line with its table and its model: the input of rules.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) source: Source,
    pub(super) row: &'a Published,
    pub(super) model: Model<'a>,
    /// Whether its devices are of NVIDIA's Hopper generation.
    pub(super) hopper: bool,
}

impl Line<'_> {
    /// Whether it is of a published table or a verification card: runs with performance recipes.
    fn is_of_table(&self) -> bool {
        ["table", "card"].contains(&self.row.kind.as_str())
    }

    /// Whether it is of the pull request whose figures are those of release 26.06.
    fn is_of_new_recipe(&self) -> bool {
        self.row.path.ends_with("pull/4330")
    }

    /// Releases before 26.06 of NVIDIA's containers: software of experts got about 5 % faster with each
    /// (tables of one configuration over releases). A study or pull request without a release is of the
    /// half year before. MLPerf's rounds are tuned by hand: as the newest.
    pub(super) fn releases_before(&self) -> u32 {
        if self.source != Source::Bridge {
            return 0;
        }
        match self.row.release.get(..5).unwrap_or_default() {
            "25.09" => 4,
            "25.11" => 3,
            "26.02" => 2,
            "26.04" => 1,
            "" if !self.is_of_new_recipe() => 1,
            _ => 0,
        }
    }

    /// Whether it is of the newest software: rows of tables from 26.06 on are 10 to 40 % faster than those
    /// of the release before. MLPerf's are too.
    fn is_newest(&self) -> bool {
        match self.source {
            Source::MlPerf => true,
            Source::Bridge => {
                self.is_of_table() && self.releases_before() == 0 || self.is_of_new_recipe()
            }
            _ => false,
        }
    }

    /// Whether kernels of experts are fused: in the newest software, which joins their products with a
    /// gated activation function.
    pub(super) fn fuses_experts(&self) -> bool {
        self.is_newest() && self.model.is_gated()
    }

    /// Whether the activation function of experts is many kernels: that of gpt-oss (clamps, biases,
    /// probabilities) before the newest software.
    pub(super) fn has_unfused_activation(&self) -> bool {
        self.model.name().starts_with("gpt-oss") && !self.is_newest()
    }

    /// Whether all-to-alls of experts are hidden behind another microbatch. Where a row does not say:
    /// the recipe of DeepSeek-V3 on H100 does so, and from 26.06 on recipes with a pipeline do.
    pub(super) fn overlaps_experts(&self) -> bool {
        match self.row.a2a_overlap.as_str() {
            "" if self.source != Source::Bridge => false,
            "" if self.is_deepseek() && self.hopper => true,
            "" => self.model.has_experts() && self.is_newest() && self.has_pipeline(),
            given => given == "on",
        }
    }

    /// Whether collectives of tensor groups run beside products: given by MLPerf and torchtitan;
    /// recipes of dense models set `tp_comm_overlap`, those of experts do not.
    pub(super) fn overlaps_tensor(&self) -> bool {
        match self.source {
            Source::MlPerf | Source::Lora => self.row.tp_comm_overlap == "on",
            Source::Bridge | Source::Nemo => !self.model.has_experts(),
            Source::Torchtitan => self.row.async_tp == "on",
            Source::SimuMax | Source::CclBench | Source::Fsdp => false,
        }
    }

    /// Whether gradients, parameters and the sends of stages overlap with compute: by the defaults of
    /// Megatron-LM, which the runs of SimuMax keep, they do not.
    pub(super) fn overlaps_exchange(&self) -> bool {
        self.source != Source::SimuMax
    }

    /// The share of launches that CUDA graphs replace. Where a row of a table does not say: dense
    /// models run as full graphs on Blackwell and without any on Hopper; experts in part, from 26.06 on
    /// Blackwell in full. Studies and pull requests that do not say run without.
    pub(super) fn graphs(&self) -> f64 {
        let given = self.row.cuda_graphs.as_str();
        if given.starts_with("full") {
            return 1.0;
        }
        if self.source == Source::Lora && given == "partial" {
            return PARTIAL_GRAPHS;
        }
        if self.source != Source::Bridge || given == "none" {
            return 0.0;
        }
        match (given.is_empty(), self.is_of_table(), self.model.has_experts()) {
            (false, ..) => PARTIAL_GRAPHS,
            (true, false, _) => 0.0,
            (true, true, true) if self.is_newest() && !self.hopper => 1.0,
            (true, true, true) => PARTIAL_GRAPHS,
            (true, true, false) => f64::from(u8::from(!self.hopper)),
        }
    }

    /// Whether layers of multi-token prediction are trained, where the model has any: not in release
    /// 25.11; the FLOPs that other sources print count it.
    pub(super) fn trains_mtp(&self) -> bool {
        self.model.mtp() > 0 && self.row.mtp != "no"
    }

    /// Recomputation. Where a row does not say: none, except for DeepSeek-V3 on H100, whose recipe
    /// names two modules.
    pub(super) fn recompute(&self) -> Result<Recompute, String> {
        if self.source == Source::Bridge && self.is_deepseek() && self.hopper {
            return recompute("mla_up_proj, mlp");
        }
        if self.is_torchtitan() && self.row.recompute.starts_with("selective") {
            // Every second product and elementwise kernels, not the scores of attention.
            return recompute("selective_op");
        }
        recompute(&self.row.recompute)
    }

    /// Whether a token is sent once to each node and rank (DeepEP and HybridEP): recipes do so, rows
    /// with plain all-to-alls say so.
    pub(super) fn sends_once(&self) -> bool {
        match self.source {
            Source::MlPerf => true,
            Source::Bridge => self.row.dispatcher != "alltoall",
            _ => false,
        }
    }

    /// Factor on the time of attention: FlashAttention-2 of early 2024 reaches 0.38 of the peak of Hopper at any
    /// length, where later kernels reach 0.50.
    pub(super) fn attention(&self) -> f64 {
        let is_of_2024 = self.source == Source::Nemo && self.row.note.starts_with("NeMo 24.03");
        if is_of_2024 { 0.5016 / 0.38 } else { 1.0 }
    }

    /// Whether the load of experts follows the data, and is not forced into balance.
    pub(super) fn routes_freely(&self) -> bool {
        self.source == Source::MlPerf && self.model.has_experts()
    }

    /// Whether elementwise kernels run one by one: neither fused by hand as in Megatron nor compiled.
    pub(super) fn is_eager(&self) -> bool {
        self.is_torchtitan() && !["on", "inductor"].contains(&self.row.compile.as_str())
    }

    /// The framework that ran it, and whether it was tuned for the model and the machine.
    pub(super) fn tuning(&self) -> Tuning {
        match self.source {
            _ if self.is_torchtitan() => Tuning::Torchtitan,
            Source::MlPerf | Source::Bridge | Source::Lora | Source::Nemo => Tuning::Tuned,
            _ => Tuning::Stock,
        }
    }

    /// Whether it is a run of torchtitan, or of the same sharding in PyTorch.
    pub(super) fn is_torchtitan(&self) -> bool {
        [Source::Torchtitan, Source::Fsdp].contains(&self.source)
            || self.row.framework.starts_with("torchtitan")
    }

    /// Bytes of a gradient that is reduced: performance recipes reduce in 16 bits (`grad_reduce_in_fp32`
    /// off; read in those of DeepSeek-V3 and Qwen3), as MLPerf does; plain Megatron and torchtitan in 32.
    pub(super) fn gradient_bytes(&self) -> u64 {
        match self.source {
            Source::MlPerf | Source::Lora | Source::Nemo => 2,
            Source::Bridge if self.row.kind == "pull request" && self.is_megatron() => 4,
            Source::Bridge => 2,
            Source::Torchtitan | Source::SimuMax | Source::CclBench | Source::Fsdp => 4,
        }
    }

    /// Bytes of the optimizer's state for a parameter: 12; 8 with moments in 16 bits, as in the recipe
    /// of Moonlight (`use_precision_aware_optimizer`). torchtitan has weights in 32 bits alone, 2 of
    /// whose 4 bytes are counted as weights; where they stay gathered, reduced gradients are added.
    pub(super) fn optimizer_bytes(&self) -> u64 {
        match (self.is_torchtitan(), self.has_pipeline()) {
            (true, true) => 16,
            (true, false) => 10,
            _ if self.model.name().starts_with("moonlight") => 8,
            _ => 12,
        }
    }

    /// Bytes of a weight as products read it: 2; of 8 and 4 bits 1, and on Hopper a transposed copy.
    /// torchtitan casts for every product.
    pub(super) fn weight_bytes(&self, precision: Precision) -> u64 {
        if precision.is_low() && !self.hopper && !self.is_torchtitan() { 1 } else { 2 }
    }

    /// Bytes of a logit while the loss is computed: PyTorch's has 32-bit copies.
    pub(super) fn logit_bytes(&self) -> u64 {
        if self.is_torchtitan() { 12 } else { 6 }
    }

    /// Load imbalance of an expert group: with real data 1.08, about the rest that a balancing bias
    /// leaves.
    pub(super) fn imbalance(&self) -> f64 {
        if self.routes_freely() { 1.08 } else { 1.0 }
    }

    /// The format of the head: 16 bits but where its source says otherwise.
    pub(super) fn head(&self) -> Precision {
        let is_low = self.row.note.contains("output projection in MXFP8");
        if is_low { Precision::MxFp8 } else { Precision::Bf16 }
    }

    fn has_pipeline(&self) -> bool {
        !["", "1"].contains(&self.row.pp.as_str())
    }

    /// Whether parameters are shared by replicas.
    pub(super) fn shares_parameters(&self) -> bool {
        match self.source {
            Source::Bridge => !["", "0", "1"].contains(&self.row.fsdp.as_str()),
            _ => self.is_torchtitan(),
        }
    }

    /// Lifetime of gathered parameters: torchtitan keeps them under a pipeline
    /// (`fsdp_reshard_after_forward = "default"`).
    pub(super) fn reshard(&self) -> Reshard {
        if self.is_torchtitan() && self.has_pipeline() {
            Reshard::Never
        } else {
            Reshard::AfterForward
        }
    }

    /// Microbatches of a step on each replica, where sizes do not say it: torchtitan runs as many as there
    /// are stages.
    pub(super) fn microbatches(&self, stages: u64) -> u64 {
        if self.is_torchtitan() { stages } else { 1 }
    }

    /// Chunks per stage: two with an interleaved schedule, else one.
    pub(super) fn chunks(&self) -> u64 {
        if self.row.schedule.starts_with("interleaved") { 2 } else { 1 }
    }

    /// How the loss is computed: in one kernel by Transformer Engine and by the compiler, else step by
    /// step.
    pub(super) fn loss(&self) -> Loss {
        if self.is_eager() || self.source == Source::CclBench {
            Loss::Separate
        } else {
            Loss::Fused
        }
    }

    /// The adapters that are trained in place of the model, if there are any.
    pub(super) fn adapters(&self) -> Result<Option<Adapters>, String> {
        let rank = whole("lora_rank", &self.row.lora_rank, 0)?;
        if rank == 0 {
            return Ok(None);
        }
        let mut targets = Targets::default();
        for name in self.row.lora_modules.split_whitespace() {
            let own = Targets::named(name);
            targets = targets.and(own.ok_or("lora_modules must be names of products")?);
        }
        Ok(Some(Adapters { rank, targets }))
    }

    /// The share of the pairs of tokens of a sequence that attend to each other: all, unless documents are packed.
    pub(super) fn attended(&self) -> Result<f64, String> {
        let share = amount("attended", &self.row.attended)?.unwrap_or(1.0);
        if share > 1.0 { Err("attended must be at most 1".to_owned()) } else { Ok(share) }
    }

    /// The format of products. Rowwise scales are no slower than one for a tensor where they are fused.
    pub(super) fn precision(&self) -> Result<Precision, String> {
        let name = self.row.precision.trim_end_matches("-rowwise");
        let known = Precision::named(name);
        known.ok_or_else(|| format!("precision must be one of {}", names()))
    }

    /// The layers of each of `chunks` chunks, where a split other than even is printed or known: the
    /// layout as printed, else Bridge's own for 61 layers, and places for embedding and loss in models
    /// of 126 and 94 layers.
    pub(super) fn layout(&self, chunks: u64) -> Result<LayerLayout, String> {
        let given = self.row.layout.as_str();
        // Some tables describe the layout in words: they do not begin as layouts do.
        if given.starts_with('E') {
            return given.parse().map_err(|error: pipeline::LayoutError| error.to_string());
        }
        let mut layers = self.layers_of_chunks(chunks);
        let mtp = if self.trains_mtp() { "m" } else { "" };
        let last = layers.pop().unwrap_or_default();
        let run = |count: &u64| if *count == 0 { String::new() } else { format!("t*{count}") };
        let mut text: String = layers.iter().map(|count| run(count) + "|").collect();
        text.insert(0, 'E');
        text += &format!("{}{mtp}L", run(&last));
        text.parse().map_err(|error: pipeline::LayoutError| error.to_string())
    }

    fn layers_of_chunks(&self, chunks: u64) -> Vec<u64> {
        let layers = self.model.layers();
        let of_61 = layers == 61 && ["deepseek-v3-671b", "kimi-k2"].contains(&self.model.name());
        if let Some(own) = of_61.then(|| bridge_layout_of_61(chunks)).flatten() {
            return own;
        }
        let with_ends = layers + 2;
        let has_places = ["llama3.1-405b", "qwen3-235b-a22b"].contains(&self.model.name());
        let count = usize::try_from(chunks).unwrap_or(usize::MAX);
        if chunks > 1 && has_places && with_ends.is_multiple_of(chunks) {
            let mut own = vec![with_ends / chunks; count];
            own[0] -= 1;
            own[count - 1] -= 1;
            return own;
        }
        let more = layers % chunks;
        (0..chunks).map(|chunk| layers / chunks + u64::from(chunk < more)).collect()
    }

    fn is_deepseek(&self) -> bool {
        self.model.name() == "deepseek-v3-671b" && self.model.layers() == 61
    }

    /// Whether it is of Megatron-LM's own pull requests.
    fn is_megatron(&self) -> bool {
        ["pull/6311", "pull/6429"].iter().any(|pull| self.row.path.ends_with(pull))
    }
}

/// Bridge's table of layouts for 61 layers (`get_deepseek_v3_pipeline_layout`): embedding and MTP stand
/// beside full chunks, and the last is short.
fn bridge_layout_of_61(chunks: u64) -> Option<Vec<u64>> {
    Some(match chunks {
        2 => vec![31, 30],
        4 => vec![16, 16, 16, 13],
        8 => [vec![8; 7], vec![5]].concat(),
        16 => [vec![4; 15], vec![1]].concat(),
        32 => [vec![1], vec![2; 30], vec![0]].concat(),
        _ => return None,
    })
}

/// Recomputation as tables write it: `full (uniform, 1)`, `selective (per op)`, names of modules.
fn recompute(given: &str) -> Result<Recompute, String> {
    let name = given.split('(').next().unwrap_or_default().trim();
    if name.is_empty() {
        return Ok(Recompute::None);
    }
    let known = Recompute::named(name);
    known.ok_or_else(|| "recompute must be none, full, selective, modules, or empty".to_owned())
}

fn names() -> String {
    Precision::ALL.map(Precision::name).join(", ")
}
