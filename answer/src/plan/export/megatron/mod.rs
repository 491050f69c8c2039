//! Arguments of Megatron-LM.

mod model;

use pipeline::{Choice, Family, Vocabulary};
use plan::{Boundary, Loss, Offload, Recompute, Setup, Zero};

use super::super::chunk_layers;
use super::super::priced::Plan;
use planning::{Framework, Question};

/// A script of bash with the arguments as an array, and the environment that they need. What Megatron-LM
/// cannot do of the plan is said in comments.
pub(super) fn script(question: &Question, plan: &Plan) -> String {
    let costed = plan.finalist.costed();
    let own = &costed.setup;
    let is_fsdp = matches!(own.zero, Zero::Gradients | Zero::Parameters);
    let connections = match (is_fsdp, own.tensor > 1 || own.context > 1) {
        (true, _) => "unset CUDA_DEVICE_MAX_CONNECTIONS # FSDP overlaps on more than one\n",
        (false, true) => "export CUDA_DEVICE_MAX_CONNECTIONS=1\n",
        (false, false) => "",
    };
    let copies = match own.offload(&question.recipe) {
        Offload::NONE => "",
        _ => {
            "export NVTE_CPU_OFFLOAD_V1=1 # so that Transformer Engine 2.10 or newer copies no weights\n"
        }
    };
    let program = match model::is_hybrid(&question.model) {
        true => "pretrain_mamba.py",
        false => "pretrain_gpt.py",
    };
    let head = format!(
        "# Arguments of Megatron-LM, written by `debubble plan`. Beside those of data, checkpoints and \
         learning rate:\n#   source megatron.sh\n\
         #   torchrun --nproc-per-node 8 .. {program} \"${{MEGATRON_ARGS[@]}}\" ..\n{connections}{copies}"
    );
    super::array(&head, "MEGATRON_ARGS", &arguments(question, plan))
}

/// The arguments of `plan`, a line each; those that begin with # are comments.
pub(super) fn arguments(question: &Question, plan: &Plan) -> Vec<String> {
    let own = &plan.finalist.costed().setup;
    let lines = [
        model::arguments(&question.model, question.rotary_base),
        parallelism(question, own),
        recipe(question, own),
        super::software::megatron(question, plan),
        schedule(question, plan),
    ];
    lines.concat()
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
    match own.zero {
        Zero::None => {}
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
    if question.recipe.overlap_gradients && own.data > 1 {
        add("--overlap-grad-reduce".to_owned());
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
    lines
}

/// Schedule and layers.
fn schedule(question: &Question, plan: &Plan) -> Vec<String> {
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
    let is_interleaved = matches!(own.family, Family::Interleaved | Family::InterleavedOverlap);
    let even = costed.layers.iter().all(|layers| *layers == costed.layers[0]);
    let is_given = own.split.is_given();
    // The pattern of a hybrid says where its chunks end.
    if (is_given || !even) && is_placed && !is_hybrid {
        let layout = chunk_layers::layout(question, plan);
        lines.extend(layout.map(|one| format!("--pipeline-model-parallel-layout '{one}'")));
    } else if is_interleaved && !is_hybrid {
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

/// Why Megatron-LM cannot run the order of the plan, and who can; `None` if it can.
pub(super) fn lacks(question: &Question, plan: &Plan) -> Option<String> {
    let own = &plan.finalist.costed().setup;
    if !question.model.frozen().is_none() {
        let reason = "its scripts of pre-training train all weights; Megatron-Bridge has adapters";
        return Some(reason.to_owned());
    }
    if Framework::Megatron.runs(own, &question.recipe) {
        return None;
    }
    let name = own.schedule_name();
    let reason = match own.family {
        _ if own.pipeline == 1 || (own.family.in_megatron() && !own.searched) => {
            return Some("Megatron-LM does not run this set-up".to_owned());
        }
        _ if own.searched => "it takes no order that is found by search",
        family if family.vocabulary() != Vocabulary::Whole => {
            "the authors' fork is sail-sg/VocabularyParallelism"
        }
        family if family.about().choice == Choice::Offload => {
            "the authors' fork is sail-sg/zero-bubble-pipeline-parallelism"
        }
        _ => "its fork sail-sg/zero-bubble has --enable-zero-bubble and --zero-bubble-v-schedule",
    };
    Some(format!("{name} is not in Megatron-LM; {reason}"))
}
