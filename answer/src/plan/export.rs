//! A plan for those who run it: Megatron-LM's flags, torchtitan's configuration, and the scenario
//! that reproduces it here.

use std::fmt::Write;

use pipeline::{Bandwidth, Bytes, Choice, Family, Nanos, PassTimes, Vocabulary};
use plan::{Boundary, Loss, Recompute, Transformer, Zero};
use sim::cluster::ClusterSpec;

use super::answer::Plan;
use super::torch::TorchOrder;
use question::plan::Question;

/// The order of the plan, beside the configuration of torchtitan that names it.
pub const SCHEDULE_CSV: &str = "schedule.csv";

/// The files that `plan` is run from, by name: in Megatron-LM, in torchtitan, and here.
#[must_use]
pub fn files(question: &Question, plan: &Plan) -> Vec<(String, String)> {
    let mut files = vec![
        ("scenario.toml".to_owned(), scenario(question, plan)),
        ("cluster.toml".to_owned(), cluster(question, plan)),
    ];
    files.extend(order_file(plan).map(|name| (name, plan.finalist.schedule().to_string())));
    files.push(("megatron.sh".to_owned(), megatron(question, plan)));
    files.push(("torchtitan.toml".to_owned(), torchtitan(question, plan)));
    if let TorchOrder::File { csv, .. } = TorchOrder::of(plan) {
        files.push((SCHEDULE_CSV.to_owned(), csv));
    }
    files
}

/// The scenario whose simulation is this plan: its step is the plan's, to the nanosecond.
pub fn scenario(question: &Question, plan: &Plan) -> String {
    let costed = plan.finalist.costed();
    let chunks = plan.finalist.costs.chunks();
    let times = |of: fn(&PassTimes) -> Nanos| times(chunks.iter().map(of));
    let footprints = || (0..costed.shape.chunks()).map(|chunk| costed.footprints.of(chunk));
    let layout = &plan.finalist.layout;
    let seats: Vec<String> = layout.devices.iter().map(usize::to_string).collect();
    let shape = costed.shape;
    let mut text = format!(
        "# Written by `debubble plan`: {} on {} {}, {}.\n# The step on hardware is the plan's; \
         under noise, that of one replica.\n",
        question.title.replace(['\r', '\n'], " "),
        question.clusters[plan.cluster].devices(),
        question.clusters[plan.cluster].name(),
        super::tables::setup(&costed.setup),
    );
    let mut add = |key: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key} = {value}");
    };
    add(
        "schedule",
        format!("[\"{}\"]", order_file(plan).unwrap_or(costed.setup.family.name().to_owned())),
    );
    add("stages", shape.stages().to_string());
    add("microbatches", shape.microbatches().to_string());
    add("chunks", shape.chunks_per_stage().to_string());
    add("forward", times(|one| one.forward));
    add("backward-input", times(|one| one.backward_input));
    add("backward-weight", times(|one| one.backward_weight));
    add("cluster", "\"cluster.toml\"".to_owned());
    add("seating", format!("\"{}\"", seats.join(",")));
    add("message", format!("\"{}B\"", plan.finalist.message().0));
    add("communication", "\"blocking\"".to_owned());
    for (key, value) in vocabulary(plan) {
        add(key, value);
    }
    add("activation", sizes(footprints().map(|one| one.until_backward)));
    add("activation-until-weight", sizes(footprints().map(|one| one.until_weight)));
    add("resident", sizes(plan.finalist.resident.iter().copied()));
    add("device-memory", sizes(layout.by_device(&costed.capacities).into_iter()));
    let crossing = plan.finalist.crossing();
    add("steps", plan.finalist.steps().to_string());
    add("boundary", format!("\"{}\"", question.recipe.boundary.name()));
    add("gradient-reduction", format!("\"{}ns\"", crossing.reduction.time.0));
    add("exchange", format!("\"{}ns\"", crossing.exchange.0));
    add("optimizer", format!("\"{}ns\"", crossing.optimizer.0));
    text
}

/// The file with the order of `plan`, beside the scenario, where it depends on times: it was made for
/// others than the scenario's, the same on all links.
pub fn order_file(plan: &Plan) -> Option<String> {
    let family = plan.finalist.costed().setup.family;
    family.depends_on_times().then(|| format!("{}.txt", family.name()))
}

/// The keys about the vocabulary on all stages, if it is there.
fn vocabulary(plan: &Plan) -> Vec<(&'static str, String)> {
    let (shards, waits) = (plan.finalist.costs.shards(), plan.finalist.costs.collectives());
    if shards.is_empty() {
        return Vec::new();
    }
    let [behind_s, behind_t] = [waits.statistics, waits.hidden_gradient];
    vec![
        ("vocab-s", times(shards.iter().map(|one| one.before))),
        ("vocab-t", times(shards.iter().map(|one| one.after))),
        ("vocab-barrier", format!("\"{}ns,{}ns\"", behind_s.0, behind_t.0)),
        ("vocab-broadcast", format!("\"{}ns\"", waits.broadcast.0)),
        ("vocab-activation", sizes(plan.finalist.costed().footprints.shards().iter().copied())),
    ]
}

/// A list of times.
fn times(values: impl Iterator<Item = Nanos>) -> String {
    let all: Vec<String> = values.map(|one| format!("\"{}ns\"", one.0)).collect();
    format!("[{}]", all.join(", "))
}

/// A list of sizes.
fn sizes(values: impl Iterator<Item = Bytes>) -> String {
    let all: Vec<String> = values.map(|one| format!("\"{}B\"", one.0)).collect();
    format!("[{}]", all.join(", "))
}

/// The part of the cluster that the scenario runs on: one device of each stage.
pub fn cluster(question: &Question, plan: &Plan) -> String {
    let ClusterSpec { nodes, devices_per_node, intra, inter, host, .. } = plan.finalist.layout.spec;
    let host = host.map_or_else(String::new, |host| {
        let (rate, devices) = (host.bandwidth.bytes_per_second(), host.devices_per_link);
        format!("\n[host]\nbandwidth = \"{rate}B/s\"\ndevices-per-link = {devices}\n")
    });
    let wire = |bandwidth: Bandwidth, latency: Nanos| {
        let rate = bandwidth.bytes_per_second();
        format!("bandwidth = \"{rate}B/s\"\nlatency = \"{}ns\"\n", latency.0)
    };
    format!(
        "# Written by `debubble plan`: one device of each stage of {}, at the rates that transfers \
         reach.\nnodes = {nodes}\ndevices-per-node = {devices_per_node}\n\n[intra]\n{}\n[inter]\n\
         nics = {}\n{}{host}",
        question.clusters[plan.cluster].name(),
        wire(intra.bandwidth, intra.latency),
        inter.nics,
        wire(inter.bandwidth, inter.latency),
    )
}

/// Arguments of Megatron-LM as a script of bash: an array, and the environment that they need. What it
/// cannot do is said in comments.
pub fn megatron(question: &Question, plan: &Plan) -> String {
    let own = &plan.finalist.costed().setup;
    let is_fsdp = matches!(own.zero, Zero::Gradients | Zero::Parameters);
    let connections = match (is_fsdp, own.tensor > 1 || own.context > 1) {
        (true, _) => "unset CUDA_DEVICE_MAX_CONNECTIONS # FSDP overlaps on more than one\n",
        (false, true) => "export CUDA_DEVICE_MAX_CONNECTIONS=1\n",
        (false, false) => "",
    };
    let flags =
        [megatron_model(&question.model), megatron_setup(question, plan), megatron_schedule(plan)];
    let lines = flags.iter().flat_map(|flags| flags.lines());
    let lines: String = lines.map(|line| format!("  {line}\n")).collect();
    format!(
        "#!/bin/bash\n# Arguments of Megatron-LM, written by `debubble plan`. Beside those of data, \
         checkpoints and learning rate:\n#   source megatron.sh\n\
         #   torchrun --nproc-per-node 8 .. pretrain_gpt.py \"${{MEGATRON_ARGS[@]}}\" ..\n\
         {connections}# shellcheck disable=SC2034 # Whoever sources this file uses it.\n\
         MEGATRON_ARGS=(\n{lines})\n"
    )
}

/// The flags of batch, parallelism and memory.
fn megatron_setup(question: &Question, plan: &Plan) -> String {
    let own = &plan.finalist.costed().setup;
    let mut text = String::new();
    let mut flag = |line: String| text += &format!("{line}\n");
    if question.model.experts.is_some() {
        flag(format!("--expert-model-parallel-size {}", own.expert));
    }
    flag(format!("--micro-batch-size {}", own.microbatch));
    flag(format!("--global-batch-size {}", question.recipe.batch));
    flag(format!("--tensor-model-parallel-size {}", own.tensor));
    flag(format!("--pipeline-model-parallel-size {}", own.pipeline));
    if own.context > 1 {
        flag(format!("--context-parallel-size {}", own.context));
    }
    if question.recipe.sequence_parallel && own.tensor > 1 {
        flag("--sequence-parallel".to_owned());
    }
    match own.zero {
        Zero::None => {}
        Zero::Optimizer => flag("--use-distributed-optimizer".to_owned()),
        Zero::Gradients | Zero::Parameters => {
            flag(format!(
                "--use-megatron-fsdp\n--data-parallel-sharding-strategy {}\n\
                 --ckpt-format fsdp_dtensor",
                if own.zero == Zero::Gradients { "optim_grads" } else { "optim_grads_params" }
            ));
        }
    }
    if question.recipe.overlap_gradients && own.data > 1 {
        flag("--overlap-grad-reduce".to_owned());
    }
    match own.recompute {
        Recompute::None => {}
        Recompute::Selective => flag("--recompute-granularity selective".to_owned()),
        Recompute::Full => flag(
            "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1"
                .to_owned(),
        ),
    }
    if question.recipe.loss == Loss::Fused {
        flag("--cross-entropy-loss-fusion".to_owned());
    }
    if question.recipe.boundary == Boundary::PostValidation {
        flag(
            "# post-validation: not in Megatron-LM; its fork sail-sg/zero-bubble has \
             --enable-optimizer-post-validation"
                .to_owned(),
        );
    }
    flag("--bf16".to_owned());
    text
}

/// The flags of the model.
fn megatron_model(model: &Transformer) -> String {
    let mut text = String::new();
    let mut flag = |line: String| text += &format!("{line}\n");
    flag(format!("--num-layers {}", model.layers));
    flag(format!("--hidden-size {}", model.hidden));
    flag(format!("--ffn-hidden-size {}", model.ffn));
    flag(format!("--num-attention-heads {}", model.heads));
    if model.kv_heads != model.heads {
        flag(format!("--group-query-attention\n--num-query-groups {}", model.kv_heads));
    }
    if model.heads * model.head_size != model.hidden {
        flag(format!("--kv-channels {}", model.head_size));
    }
    if model.qk_norm {
        flag("--qk-layernorm".to_owned());
    }
    if !model.biases.mlp {
        flag("--disable-bias-linear".to_owned());
        if model.biases.qkv {
            flag("--add-qkv-bias".to_owned());
        }
    }
    if model.gated {
        flag("--swiglu\n--normalization RMSNorm\n--position-embedding-type rope".to_owned());
        flag("# --rotary-base: that of the model's config.json, 10000 unless told".to_owned());
    }
    if let Some(experts) = model.experts {
        flag(format!("--num-experts {}", experts.count));
        flag(format!("--moe-router-topk {}", experts.top_k));
    }
    if !model.tied {
        flag("--untie-embeddings-and-output-weights".to_owned());
    }
    flag(format!("--vocab-size {}", model.vocabulary));
    flag(format!("--seq-length {}", model.sequence));
    flag(format!("--max-position-embeddings {}", model.positions.max(model.sequence)));
    text
}

/// The flags of schedule and layers.
fn megatron_schedule(plan: &Plan) -> String {
    let costed = plan.finalist.costed();
    let own = &costed.setup;
    let even = costed.layers.iter().all(|layers| *layers == costed.layers[0]);
    let mut text = String::new();
    match own.family {
        Family::OneFOneB => {}
        Family::Interleaved if even => {
            text += &format!("--num-layers-per-virtual-pipeline-stage {}\n", costed.layers[0]);
        }
        // The layout below says how many chunks there are.
        Family::Interleaved => {}
        other if other.vocabulary() != Vocabulary::Whole => {
            text += &format!(
                "# {}: not in Megatron-LM; the authors' fork is sail-sg/VocabularyParallelism\n",
                other.name()
            );
        }
        other if other.about().choice == Choice::Offload => {
            text += &format!(
                "# {}: not in Megatron-LM; the authors' fork is \
                 sail-sg/zero-bubble-pipeline-parallelism\n",
                other.name()
            );
        }
        other => {
            text += &format!(
                "# {}: not in Megatron-LM; its fork sail-sg/zero-bubble has --enable-zero-bubble and \
                 --zero-bubble-v-schedule\n",
                other.name()
            );
        }
    }
    if !even {
        text += &format!("--pipeline-model-parallel-layout '{}'\n", layout(&costed.layers));
    }
    text
}

/// The `layers` of the chunks in model order, as Megatron-LM writes a layout: `E` the embedding, `t` a
/// layer, `L` the loss, `|` between two chunks.
fn layout(layers: &[u64]) -> String {
    let chunks: Vec<String> = layers
        .iter()
        .map(|&layers| match layers {
            0 => String::new(),
            1 => "t".to_owned(),
            more => format!("t*{more}"),
        })
        .collect();
    format!("E{}L", chunks.join("|"))
}

/// A configuration of torchtitan, whose schedules are those of torch.distributed.pipelining.
pub fn torchtitan(question: &Question, plan: &Plan) -> String {
    let costed = plan.finalist.costed();
    let own = &costed.setup;
    let (replicate, shard) = match own.zero {
        Zero::None => (own.data, 1),
        _ => (1, own.data),
    };
    let checkpoint = match own.recompute {
        Recompute::None => "none",
        Recompute::Selective => "selective",
        Recompute::Full => "full",
    };
    let local = question.recipe.batch / own.data.max(1);
    let schedule = match TorchOrder::of(plan) {
        TorchOrder::Class(name) => format!("pipeline_parallel_schedule = \"{name}\""),
        TorchOrder::File { class, .. } => format!(
            "pipeline_parallel_schedule = \"{class}\" # where chunks lie; the order is in the file\n\
             pipeline_parallel_schedule_csv = \"{SCHEDULE_CSV}\""
        ),
        TorchOrder::No(lacks) => {
            format!("# {}: not in torchtitan, whose orders have no {lacks}", own.family.name())
        }
    };
    // FSDP keeps parameters whole while a pipeline runs, as stages 1 and 2 of ZeRO do.
    let reshard = match own.zero {
        Zero::None => "",
        Zero::Optimizer | Zero::Gradients => "fsdp_reshard_after_forward = \"never\"\n",
        Zero::Parameters => "fsdp_reshard_after_forward = \"always\"\n",
    };
    let starts: Vec<String> = costed
        .layers
        .iter()
        .scan(0, |sum, layers| {
            *sum += layers;
            Some(*sum)
        })
        .take(costed.layers.len().saturating_sub(1))
        .map(|first| format!("\"layers.{first}\""))
        .collect();
    format!(
        "# Configuration of torchtitan, written by `debubble plan`.\n\
         # chunks begin at layers: {starts}\n\
         [training]\nlocal_batch_size = {local}\nglobal_batch_size = {batch}\nseq_len = {sequence}\n\n\
         [parallelism]\ndata_parallel_replicate_degree = {replicate}\n\
         data_parallel_shard_degree = {shard}\n{reshard}tensor_parallel_degree = {tensor}\n\
         context_parallel_degree = {context}\nexpert_parallel_degree = {expert}\n\
         pipeline_parallel_degree = {stages}\n\
         pipeline_parallel_microbatch_size = {microbatch}\n{schedule}\n\n\
         [activation_checkpoint]\nmode = \"{checkpoint}\"\n",
        starts = starts.join(" "),
        batch = question.recipe.batch,
        sequence = question.model.sequence,
        tensor = own.tensor,
        context = own.context,
        expert = own.expert,
        stages = own.pipeline,
        microbatch = own.microbatch,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_names_the_layers_of_every_chunk() {
        assert_eq!(layout(&[3, 4, 4, 1]), "Et*3|t*4|t*4|tL");
        assert_eq!(layout(&[0, 2]), "E|t*2L");
    }
}
