//! A published run as the planner sees it.

use pipeline::{Bytes, Family, LayerLayout};
use plan::{
    Boundary, Frozen, Imbalance, Machine, MemoryBudget, Optimizer, Recipe, Setup, Software, Split,
    Transformer, Update, Zero, number,
};
use planning::machines;
use question::Diagnostic;

use super::assumptions::Line;
use super::models::{Model, Models};
use super::published::{Published, Source, amount, whole};

/// Memory that frameworks hold on a device of these runs beside the model, as their allocator counts
/// it: buffers of NCCL and workspaces of cuBLAS, 1.5 GiB. Counted in none of the rows, fitted to none.
const RESERVED: Bytes = Bytes(3 << 29);
/// The sequences of configurations that do not print them: torchtitan's default.
const SEQUENCE: u64 = 8192;

#[derive(Clone, Debug)]
pub(in super::super) struct Run {
    /// Its place: the table and the line, from 1.
    pub(super) place: String,
    /// Its name, in words.
    pub(super) name: String,
    pub(super) source: Source,
    /// The model, by the name in the table of models.
    pub(super) model_name: String,
    pub(super) model: Transformer,
    pub(super) machine: Machine,
    /// Devices of a node as the table has them; of the machine's file where it has none.
    pub(super) node: u64,
    pub(super) setup: Setup,
    pub(super) recipe: Recipe,
    pub(super) layout: LayerLayout,
    pub(super) facts: Facts,
    /// The step, in seconds, if it was measured.
    pub(super) seconds: Option<f64>,
    /// The peak of memory that was measured, in GiB.
    pub(super) memory: Option<f64>,
    /// Whether it ran, where that is known.
    pub(super) fits: Option<bool>,
    /// Key that repeats of its set-up share.
    pub(super) configuration: String,
    /// Key that rows of one release share.
    pub(super) release: String,
    /// Why it is set apart, if it is.
    pub(super) apart: Option<String>,
}

impl Run {
    /// The line of a run that is set apart.
    pub(super) fn set_apart(&self) -> Option<Apart> {
        let (place, name) = (self.place.clone(), self.name.clone());
        let lacks = self.seconds.is_none().then_some("no step measured");
        self.apart.clone().map(|reason| Apart { place, name, reason, lacks })
    }
}

/// Properties of the software that constants depend on but [`Software`] does not have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Facts {
    /// Releases before the newest kind.
    pub(super) releases_before: u32,
    /// Whether it is of torchtitan.
    pub(super) torchtitan: bool,
}

/// A line that is not a run of the planner's, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Apart {
    pub(super) place: String,
    /// Its name, in words.
    pub(super) name: String,
    /// Why.
    pub(super) reason: String,
    /// What it lacks for its step to be compared, if anything.
    pub(super) lacks: Option<&'static str>,
}

/// A line of a table, read.
pub(super) enum Read {
    /// A run that can be predicted.
    Run(Box<Run>),
    /// One that cannot.
    Apart(Apart),
}

/// The number of devices and groups of a line, checked against each other.
struct Sizes {
    gpus: u64,
    tensor: u64,
    pipeline: u64,
    context: u64,
    expert: u64,
    expert_tensor: u64,
    chunks: u64,
    data: u64,
    microbatch: u64,
    batch: u64,
    sequence: u64,
}

/// Why no prediction can be compared with `row`, if none can.
fn not_comparable(row: &Published) -> Option<&'static str> {
    match () {
        () if row.gpus.trim().is_empty() => Some("devices and groups are not printed"),
        () if is_without_figures(row) => Some("it failed without a reason"),
        () => None,
    }
}

/// Reads `row`, line `line` of a table of `source`.
pub(super) fn read(
    source: Source,
    line: usize,
    row: &Published,
    models: &Models,
) -> Result<Read, String> {
    let place = format!("{} {line}", source.name());
    let name = words(row);
    let apart = |reason: String| {
        let (place, name) = (place.clone(), name.clone());
        Ok(Read::Apart(Apart { place, name, reason, lacks: Some("not predicted") }))
    };
    let Some(model) = models.named(&row.model) else {
        return apart("the sizes of its model are not known".to_owned());
    };
    let Ok(machine) = machines::of_device(&row.machine) else {
        return apart("no machine of its devices is built in".to_owned());
    };
    if let Some(reason) = not_comparable(row) {
        return apart(reason.to_owned());
    }
    let machine = on_its_network(source, machine);
    let model = model.cut_to(whole("layers", &row.layers, model.layers())?);
    let hopper = is_hopper(&machine);
    let run = Line { source, row, model, hopper };
    let sizes = sizes(&run)?;
    let transformer = model.transformer(sizes.sequence, run.trains_mtp())?;
    let frozen = Frozen { adapters: run.adapters()?, ..Frozen::default() };
    let transformer = transformer.freezing(frozen).map_err(|error| error.to_string())?;
    let seconds = seconds(row, &sizes, &transformer)?.filter(|_| !is_score(row));
    let memory = memory(row)?;
    let setup = setup(&run, &sizes)?;
    let recipe = recipe(&run, &sizes)?;
    let layout = run.layout(sizes.pipeline * sizes.chunks)?;
    // The constants of A100 are of software that is as fast as FSDP there.
    let torchtitan = run.is_torchtitan() && source != Source::Fsdp;
    let facts = Facts { releases_before: run.releases_before(), torchtitan };
    let configuration = configuration(&run, &machine, &setup, &recipe, sizes.sequence);
    Ok(Read::Run(Box::new(Run {
        source,
        model_name: name_of(&model),
        model: transformer,
        node: whole("gpus_per_node", &row.gpus_per_node, machine.node)?,
        machine,
        setup,
        recipe,
        layout,
        facts,
        seconds,
        memory,
        fits: said_to_fit(row),
        configuration,
        release: release(source, line, row),
        apart: set_apart(source, row, seconds),
        place,
        name,
    })))
}

/// Whether it fits, where that is published.
fn said_to_fit(row: &Published) -> Option<bool> {
    match row.fits.as_str() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// Whether nothing was measured and nothing is known of memory.
fn is_without_figures(row: &Published) -> bool {
    let figures = [
        &row.step_seconds,
        &row.tokens_per_s_per_gpu,
        &row.tflops_per_gpu,
        &row.peak_memory,
        &row.peak_memory_gib,
    ];
    figures.iter().all(|cell| cell.trim().is_empty()) && row.fits != "no"
}

/// Whether its figure is in seconds but not the time of a step.
fn is_score(row: &Published) -> bool {
    row.metric == "gpu_step_score"
}

/// The name of a model; of one that is cut, with its layers.
fn name_of(model: &Model<'_>) -> String {
    match model.is_cut() {
        true => format!("{} of {} layers", model.name(), model.layers()),
        false => model.name().to_owned(),
    }
}

/// The run of a line, in words.
fn words(row: &Published) -> String {
    let Published { model, machine, gpus, precision, release, .. } = row;
    let own = [release, &row.table, &row.recompute];
    let own: Vec<&str> =
        own.into_iter().map(String::as_str).filter(|one| !one.is_empty()).collect();
    let more = if own.is_empty() { String::new() } else { format!(", {}", own.join(", ")) };
    format!("{model} on {gpus} {machine}, {precision}{more}")
}

/// The machine with the network of its runs. On Perlmutter's Slingshot rings of gradients reach 6 % of a
/// NIC, 1.55 GB/s, as the steps of ccl-bench with and without replicas say: a constant of that network.
fn on_its_network(source: Source, mut machine: Machine) -> Machine {
    if source == Source::CclBench {
        machine.efficiency.ring = 1.55e9 / machine.network;
        machine.efficiency.expert_ring = machine.efficiency.ring;
    }
    machine
}

/// Whether devices are of the Hopper generation: 8-bit products but no 4-bit ones.
fn is_hopper(machine: &Machine) -> bool {
    machine.peak_fp8.is_some() && machine.peak_fp4.is_none()
}

fn sizes(run: &Line<'_>) -> Result<Sizes, String> {
    let row = run.row;
    let gpus = whole("gpus", &row.gpus, 1)?;
    let tensor = whole("tp", &row.tp, 1)?;
    let pipeline = whole("pp", &row.pp, 1)?;
    let context = whole("cp", &row.cp, 1)?;
    let expert = whole("ep", &row.ep, 1)?;
    let groups = [pipeline, context].into_iter().try_fold(tensor, u64::checked_mul);
    let groups = groups.filter(|groups| gpus.is_multiple_of(*groups));
    let groups = groups.ok_or("tp x pp x cp does not divide gpus")?;
    let data = gpus / groups;
    let batch = whole("global_batch", &row.global_batch, 1)?;
    let together = if row.local_batch.is_empty() { "" } else { &row.local_batch };
    let microbatch = match (row.micro_batch.is_empty(), together.is_empty()) {
        (false, _) => whole("micro_batch", &row.micro_batch, 1)?,
        (true, false) => {
            let own = whole("local_batch", together, 1)?;
            (own / run.microbatches(pipeline)).max(1)
        }
        (true, true) => {
            let count =
                whole("num_microbatches", &row.num_microbatches, run.microbatches(pipeline))?;
            (batch / data / count).max(1)
        }
    };
    if !batch.is_multiple_of(data * microbatch) {
        return Err("global_batch is not a multiple of the microbatches of all replicas".to_owned());
    }
    Ok(Sizes {
        gpus,
        tensor,
        pipeline,
        context,
        expert,
        expert_tensor: whole("etp", &row.etp, 1)?,
        chunks: whole("vp", &row.vp, run.chunks())?,
        data,
        microbatch,
        batch,
        sequence: whole("sequence", &row.sequence, SEQUENCE)?,
    })
}

/// The step that was measured, in seconds: as printed, or from tokens or FLOPs.
fn seconds(row: &Published, sizes: &Sizes, model: &Transformer) -> Result<Option<f64>, String> {
    if let Some(seconds) = amount("step_seconds", &row.step_seconds)? {
        return Ok(Some(seconds));
    }
    let tokens = number(sizes.batch) * number(sizes.sequence) / number(sizes.gpus);
    if let Some(rate) = amount("tokens_per_s_per_gpu", &row.tokens_per_s_per_gpu)? {
        return Ok(Some(tokens / rate));
    }
    let rate = amount("tflops_per_gpu", &row.tflops_per_gpu)?;
    Ok(rate.map(|rate| model.causal_flops() * tokens / (rate * 1e12)))
}

/// The peak of memory, in GiB. Megatron's MB are MiB; other tables print GB, which are read as GiB.
fn memory(row: &Published) -> Result<Option<f64>, String> {
    let own = amount("peak_memory", &row.peak_memory)?;
    let megabytes = row.memory_unit.contains("MB");
    let own = own.map(|own| if megabytes { own / 1024.0 } else { own });
    Ok(own.or(amount("peak_memory_gib", &row.peak_memory_gib)?))
}

fn setup(run: &Line<'_>, sizes: &Sizes) -> Result<Setup, String> {
    Ok(Setup {
        data: sizes.data,
        tensor: sizes.tensor,
        pipeline: sizes.pipeline,
        context: sizes.context,
        expert: sizes.expert,
        expert_tensor: sizes.expert_tensor,
        reshard: run.reshard(),
        shard_groups: 1,
        zero: if run.shares_parameters() { Zero::Parameters } else { Zero::Optimizer },
        microbatch: sizes.microbatch,
        chunks: sizes.chunks,
        family: if sizes.chunks > 1 { Family::Interleaved } else { Family::OneFOneB },
        searched: false,
        recompute: run.recompute()?,
        split: Split::Layout,
        vocabulary_parallel: false,
        options: plan::Options::default(),
    })
}

fn recipe(run: &Line<'_>, sizes: &Sizes) -> Result<Recipe, String> {
    let precision = run.precision()?;
    Ok(Recipe {
        batch: sizes.batch,
        gradient_bytes: run.gradient_bytes(),
        optimizer: Optimizer::new(Update::AdamW, Some(run.optimizer_bytes())),
        weight_bytes: run.weight_bytes(precision),
        logit_bytes: run.logit_bytes(),
        fp8_activation_input: false,
        offload: plan::Offload::NONE,
        sequence_parallel: true,
        scatter_gather: true,
        overlap_gradients: run.overlaps_exchange(),
        overlap_parameters: run.overlaps_exchange(),
        loss: run.loss(),
        boundary: Boundary::Barrier,
        reserved: RESERVED,
        memory_budget: MemoryBudget::default(),
        precision,
        head: run.head(),
        imbalance: Imbalance::Factor(run.imbalance()),
        attended: run.attended()?,
        software: Software {
            tuning: Some(run.tuning()),
            graphs: run.graphs(),
            overlap_experts: run.overlaps_experts(),
            overlap_tensor: run.overlaps_tensor(),
            sends_once: run.sends_once(),
            overlap_transfers: run.overlaps_exchange(),
            fused_experts: run.fuses_experts(),
            unfused_activation: run.has_unfused_activation(),
            eager: run.is_eager(),
            attention: run.attention(),
            ..Software::default()
        },
    })
}

/// Key that repeats share: all sizes, the precision and the recomputation. Overlap by the software is
/// part of it only where one source compared it.
fn configuration(
    run: &Line<'_>,
    machine: &Machine,
    setup: &Setup,
    recipe: &Recipe,
    sequence: u64,
) -> String {
    let Setup { data, tensor, pipeline, context, expert, chunks, microbatch, .. } = *setup;
    let (name, batch) = (name_of(&run.model), recipe.batch);
    let groups = format!("{data} {tensor} {pipeline} {chunks} {context} {expert} {microbatch}");
    let recompute = setup.recompute.name();
    let mut all = format!(
        "{name} {} {groups} {batch} {sequence} {} {recompute} {} {} {}",
        machine.name,
        recipe.precision.name(),
        setup.zero.stage(),
        run.routes_freely(),
        run.trains_mtp()
    );
    if !run.row.lora_rank.is_empty() {
        all += &format!(" lora {} {}", run.row.lora_rank, run.row.lora_modules);
    }
    let software = recipe.software;
    let compared = name.ends_with("layers") || name == "qwen3-30b-a3b" && run.hopper;
    if compared {
        let Software { overlap_experts, sends_once, graphs, .. } = software;
        all += &format!(" {overlap_experts} {sends_once} {graphs}");
    }
    if run.is_torchtitan() {
        all += &format!(" torchtitan {} {}", software.overlap_tensor, software.eager);
    }
    all
}

/// Key that rows of one release share: a round of MLPerf, a release of Bridge; a page, study or pull
/// request is one by itself.
fn release(source: Source, line: usize, row: &Published) -> String {
    match source {
        Source::MlPerf => row.source.split(" (").next().unwrap_or_default().to_owned(),
        Source::Bridge if !row.release.is_empty() => row.release.clone(),
        Source::Lora => format!("{} {}", row.source, row.release),
        Source::Bridge => format!("{} {}", row.kind, row.model),
        Source::Nemo | Source::Fsdp => row.path.clone(),
        Source::Torchtitan | Source::SimuMax => source.name().to_owned(),
        Source::CclBench => format!("ccl-bench {line}"),
    }
}

/// Why a run is set apart from all others, as far as its source or a look at its neighbours says so.
fn set_apart(source: Source, row: &Published, seconds: Option<f64>) -> Option<String> {
    let is = |cell: &str, text: &str| cell == text;
    let reason = match source {
        _ if is_score(row) => "its figure is a score, not the time of a step",
        _ if seconds.is_none() => "no time was printed: its memory alone is compared",
        Source::MlPerf if is(&row.model, "gpt3-175b") && is(&row.gpus, "3072") => {
            "steps of one run from 2.83 to 3.46 s: a spread of 19 %, of others below 1 %"
        }
        Source::Bridge if is(&row.model, "gpt-oss-120b") && is(&row.release, "26.06.01") => {
            "a regression of one release: 18,304 tokens/s against 28,947 before and 28,672 after"
        }
        Source::Bridge
            if is(&row.model, "llama3.1-405b")
                && is(&row.machine, "GB200")
                && is(&row.release, "25.09") =>
        {
            "the first release with MXFP8 on GB200, a fifth slower than those after"
        }
        Source::Bridge if row.note.starts_with("allocator thrashing") => {
            "it ran at the edge of memory: no steady throughput, as its source says"
        }
        Source::Nemo if row.model.starts_with("deepseek") => {
            "software of early 2025, whose recomputation and dispatcher are not printed: up to 40 % off"
        }
        Source::Fsdp if row.framework.contains("HSDP for") && is(&row.model, "llama2-13b") => {
            "its parameters are sharded within a node"
        }
        Source::Torchtitan if row.precision.ends_with("-rowwise") => {
            "its authors call this baseline, rowwise scales without fusion, low"
        }
        Source::Torchtitan if row.table == "issue773" => {
            "an issue about a defect of that version, which made it ten times as slow"
        }
        Source::Torchtitan if row.table == "table6.4" => {
            "sequences of 262,144 over 8 devices: 20 % off, with what hides the exchange unknown"
        }
        _ => return None,
    };
    Some(reason.to_owned())
}

/// All lines of the table at `path`.
pub(super) fn all(
    path: &std::path::Path,
    source: Source,
    text: &str,
    models: &Models,
) -> Result<Vec<Read>, Diagnostic> {
    let lines = super::published::lines(path, text)?;
    let wrong =
        |line: usize, cause: String| Diagnostic::unreadable(path, &format!("row {line}: {cause}"));
    let one = |(line, row): (usize, &Published)| {
        read(source, line, row, models).map_err(|cause| wrong(line, cause))
    };
    (1..).zip(&lines).map(one).collect()
}
