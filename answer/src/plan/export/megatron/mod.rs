//! Arguments of Megatron-LM.

mod model;
mod route;
mod software;

use pipeline::Family;
use plan::{Boundary, Loss, Offload, Optimizer, Precision, Recompute, Setup, Update, Zero};

pub(super) use self::route::Route;
use super::super::chunk_layers;
use super::super::priced::Plan;
use planning::Question;

/// A script of bash with the arguments as an array, and the environment that they need. What Megatron-LM
/// cannot do of the plan is said in comments.
pub(super) fn script(question: &Question, plan: &Plan, route: &Route) -> String {
    let costed = plan.finalist.costed();
    let own = &costed.setup;
    let is_fsdp = matches!(own.zero, Zero::Gradients | Zero::Parameters);
    let connections = match (is_fsdp, own.tensor > 1 || own.context > 1) {
        (true, _) => "unset CUDA_DEVICE_MAX_CONNECTIONS # FSDP overlaps on more than one\n",
        (false, true) => "export CUDA_DEVICE_MAX_CONNECTIONS=1\n",
        (false, false) => "",
    };
    let copies = match (own.offload(&question.recipe), route) {
        (Offload::NONE, _) | (_, Route::Runner(_) | Route::No(_)) => "",
        _ => {
            "export NVTE_CPU_OFFLOAD_V1=1 # so that Transformer Engine 2.10 or newer copies no weights\n"
        }
    };
    let program = match model::is_hybrid(&question.model) {
        true => "pretrain_mamba.py",
        false => "pretrain_gpt.py",
    };
    let (runner, module) = match route {
        Route::Runner(file) => (
            format!(
                "# Megatron-LM has no such order: debubble.megatron runs that of {file}, and without it Megatron-LM \
                 refuses\n# --debubble-order. Scripts of your own call `debubble.megatron.use()` before pretrain(..).\n"
            ),
            "-m debubble.megatron ",
        ),
        Route::Own | Route::No(_) => (String::new(), ""),
    };
    let head = format!(
        "# Arguments of Megatron-LM, written by `debubble plan`. Add those of data, checkpoints and learning rate:\n#   source megatron.sh\n\
         #   torchrun --nproc-per-node 8 .. {module}{program} \"${{MEGATRON_ARGS[@]}}\" ..\n{runner}{connections}{copies}"
    );
    super::array(&head, "MEGATRON_ARGS", &arguments(question, plan, route))
}

/// The arguments of `plan`, a line each; those that begin with # are comments.
pub(super) fn arguments(question: &Question, plan: &Plan, route: &Route) -> Vec<String> {
    let own = &plan.finalist.costed().setup;
    let lines = [
        super::unsure(plan).map(|line| format!("# {line}")).into_iter().collect(),
        model::arguments(&question.model, question.rotary_base),
        parallelism(question, own),
        recipe(question, own),
        software::arguments(question, plan, route),
        schedule(question, plan, route),
    ];
    lines.concat()
}

/// The comments among the arguments of `plan`: what they lack of it.
pub(super) fn comments(
    question: &Question,
    plan: &Plan,
    route: &Route,
) -> impl Iterator<Item = String> + use<> {
    let lines = arguments(question, plan, route).into_iter();
    lines.filter_map(|line| line.strip_prefix("# ").map(str::to_owned))
}

/// Groups of devices, and the state that replicas shard.
fn parallelism(question: &Question, own: &Setup) -> Vec<String> {
    let mut lines = vec![
        format!("--tensor-model-parallel-size {}", own.tensor),
        format!("--pipeline-model-parallel-size {}", own.pipeline),
    ];
    let mut add = |line: String| lines.push(line);
    if question.model.experts.is_some() {
        add(format!("--expert-model-parallel-size {}", own.expert));
    }
    if own.context > 1 {
        add(format!("--context-parallel-size {}", own.context));
    }
    if question.dynamic_context {
        let tokens = own.microbatch.saturating_mul(question.model.sequence).div_ceil(own.context);
        add("--hybrid-context-parallel".to_owned());
        add(format!("--max-seqlen-per-dp-cp-rank {tokens}"));
    }
    if own.tensor > 1 {
        match question.recipe.sequence_parallel {
            true => add("--sequence-parallel".to_owned()),
            false if question.model.experts.is_some() => {
                add("# sequence-parallel = false: Megatron-LM trains experts only with it"
                    .to_owned());
            }
            false => {}
        }
    }
    lines.extend(sharding(question, own));
    if question.recipe.overlap_gradients && own.data > 1 {
        lines.push("--overlap-grad-reduce".to_owned());
    }
    lines
}

/// The optimizer, and what replicas share of its state, of gradients and of parameters.
fn sharding(question: &Question, own: &Setup) -> Vec<String> {
    let Optimizer { update, on_host, .. } = question.recipe.optimizer;
    let mut lines = Vec::new();
    let mut add = |line: String| lines.push(line);
    match (update, own.zero) {
        (Update::Muon, Zero::None) => add("--optimizer muon".to_owned()),
        // It divides whole matrices among replicas by itself.
        (Update::Muon, _) => add("--optimizer dist_muon".to_owned()),
        (Update::Sgd, _) => add("--optimizer sgd".to_owned()),
        (Update::AdamW, _) => {}
    }
    if on_host > 0.0 {
        add("--optimizer-cpu-offload".to_owned());
        add(format!("--optimizer-offload-fraction {on_host}"));
        add("--use-precision-aware-optimizer".to_owned());
    }
    match own.zero {
        Zero::None => {}
        Zero::Optimizer if update == Update::Muon => {}
        Zero::Optimizer => add("--use-distributed-optimizer".to_owned()),
        Zero::Gradients | Zero::Parameters => {
            let shared = match own.zero {
                Zero::Gradients => "optim_grads",
                _ => "optim_grads_params",
            };
            add("--use-megatron-fsdp".to_owned());
            add(format!("--data-parallel-sharding-strategy {shared}"));
            add("--ckpt-format fsdp_dtensor".to_owned());
        }
    }
    if own.zero != Zero::None && own.shard_groups > 1 {
        add(format!("--num-distributed-optimizer-instances {}", own.shard_groups));
    }
    lines
}

/// Batch, precision and recomputation.
fn recipe(question: &Question, own: &Setup) -> Vec<String> {
    let mut lines = vec![
        format!("--micro-batch-size {}", own.microbatch),
        format!("--global-batch-size {}", question.recipe.batch),
        "--bf16".to_owned(),
    ];
    match own.recompute {
        Recompute::None => {}
        Recompute::Selective => lines.push("--recompute-granularity selective".to_owned()),
        Recompute::Modules(modules) => {
            let names = modules.to_string().replace(',', " ");
            lines.push("--recompute-granularity selective".to_owned());
            lines.push(format!("--recompute-modules {names}"));
        }
        Recompute::First(layers) => lines.extend([
            "--recompute-granularity full".to_owned(),
            "--recompute-method block".to_owned(),
            format!("--recompute-num-layers {layers}"),
        ]),
        Recompute::Full => lines.extend(
            [
                "--recompute-granularity full",
                "--recompute-method uniform",
                "--recompute-num-layers 1",
            ]
            .map(str::to_owned),
        ),
    }
    if question.recipe.loss == Loss::Fused {
        lines.push("--cross-entropy-loss-fusion".to_owned());
    }
    if question.recipe.boundary == Boundary::PostValidation {
        lines.push(
            "# post-validation: not in Megatron-LM; its fork sail-sg/zero-bubble has \
             --enable-optimizer-post-validation"
                .to_owned(),
        );
    }
    lines.extend(super::state(question).map(|line| format!("# {line}")));
    if question.recipe.head != Precision::Bf16 {
        let head = question.recipe.head.name();
        lines.push(format!("# head-precision = \"{head}\": the head stays in BF16 here"));
    }
    lines
}

/// Schedule and layers.
fn schedule(question: &Question, plan: &Plan, route: &Route) -> Vec<String> {
    let costed = plan.finalist.costed();
    let own = &costed.setup;
    let is_placed = own.pipeline > 1;
    let mut lines = Vec::new();
    let is_hybrid = model::is_hybrid(&question.model);
    if is_hybrid {
        let whole = [question.model.layers];
        let chunks = if is_placed { &costed.layers[..] } else { &whole };
        lines.push(model::hybrid_pattern(&question.model, chunks));
    }
    if own.pipeline == 1 {
        return lines;
    }
    if let Route::Runner(file) = route {
        lines.push(format!("--debubble-order \"$(dirname \"${{BASH_SOURCE[0]}}\")/{file}\""));
        if plan.finalist.schedule().splits_backward() {
            // Gradients of weights that are computed apart.
            lines.push("--no-gradient-accumulation-fusion".to_owned());
        }
    }
    let is_interleaved = matches!(own.family, Family::Interleaved | Family::InterleavedOverlap);
    let even = costed.layers.iter().all(|layers| *layers == costed.layers[0]);
    let is_given = own.split.is_given();
    // The pattern of a hybrid says where its chunks end.
    if (is_given || !even) && is_placed && !is_hybrid {
        let layout = chunk_layers::layout(plan);
        lines.extend(layout.map(|one| format!("--pipeline-model-parallel-layout '{one}'")));
    } else if (is_interleaved || own.chunks > 1) && !is_hybrid {
        lines.push(format!("--num-layers-per-virtual-pipeline-stage {}", costed.layers[0]));
    }
    if is_interleaved {
        // Groups of 1f1b-i are larger than p where p does not divide m.
        let group = u64::from(pipeline::interleaved_group(costed.shape));
        if group != own.pipeline {
            lines.push(format!("--microbatch-group-size-per-virtual-pipeline-stage {group}"));
        }
    }
    if own.family == Family::InterleavedOverlap {
        lines.push("--overlap-moe-expert-parallel-comm".to_owned());
        // W of a pair is done where it fits.
        if question.recipe.software.streams.is_some() {
            lines.push("--delay-wgrad-compute".to_owned());
        }
    }
    lines
}
