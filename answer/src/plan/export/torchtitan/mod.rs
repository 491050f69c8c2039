//! Configurations of torchtitan: TOML for 0.2.x, arguments for its main branch.

mod formats;
mod lacks;

use plan::{Costed, Recompute, Zero};

use self::formats::Formats;
pub(super) use self::lacks::comments;
use super::super::priced::Plan;
use super::torch_order::TorchOrder;
use super::{SCHEDULE_CSV, array};
use planning::Question;

/// A TOML file for torchtitan 0.2.x.
pub(super) fn toml(question: &Question, plan: &Plan, order: &TorchOrder) -> String {
    let costed = plan.finalist.costed();
    let own = &costed.setup;
    let [replicate, shard] = replicas(costed);
    // Without a pipeline a batch of one replica is run in one piece, and pieces are accumulated.
    let local = match own.pipeline {
        1 => own.microbatch,
        _ => question.recipe.batch / own.data.max(1),
    };
    let formats = Formats::of(question, plan);
    let mut text =
        "# Configuration of torchtitan 0.2.x, written by `debubble plan`: add [optimizer] and the rest of [model] and\n# [training]. torchtitan.sh is for its main branch.\n"
            .to_owned();
    let [lack, _] = comments(question, plan, order);
    text.extend(lack.iter().map(|line| format!("# {line}\n")));
    text += &formats.model();
    text += &format!(
        "\n[training]\nlocal_batch_size = {local}\nglobal_batch_size = {batch}\nseq_len = {sequence}\n\n\
         [parallelism]\ndata_parallel_replicate_degree = {replicate}\n\
         data_parallel_shard_degree = {shard}\n{reshard}tensor_parallel_degree = {tensor}\n\
         context_parallel_degree = {context}\nexpert_parallel_degree = {expert}\n\
         pipeline_parallel_degree = {stages}\n{keys}",
        keys = keys(question, plan),
        batch = question.recipe.batch,
        sequence = question.model.sequence,
        reshard = reshard(own.zero)
            .map_or_else(String::new, |when| format!("fsdp_reshard_after_forward = \"{when}\"\n")),
        tensor = own.tensor,
        context = own.context,
        expert = own.expert,
        stages = own.pipeline,
    );
    if own.pipeline > 1 {
        text += &pipeline(costed, order);
    }
    text += formats.tables();
    text + &format!("\n[activation_checkpoint]\nmode = \"{}\"\n", checkpoint(own.recompute))
}

/// The keys of `[parallelism]` for a pipeline: microbatches, schedule and modules of each chunk.
fn pipeline(costed: &Costed, order: &TorchOrder) -> String {
    let mut text = format!("pipeline_parallel_microbatch_size = {}\n", costed.setup.microbatch);
    let (class, is_file) = named(order);
    if let Some(class) = class {
        text += &format!("pipeline_parallel_schedule = \"{class}\"\n");
    }
    if is_file {
        text += &format!(
            "# The order; relative to where torchtitan is started.\n\
                              pipeline_parallel_schedule_csv = \"{SCHEDULE_CSV}\"\n"
        );
    }
    text += "module_fqns_per_model_part = [\n";
    for part in parts(&costed.layers, "output") {
        let names: Vec<String> = part.iter().map(|name| format!("\"{name}\"")).collect();
        text += &format!("  [{}],\n", names.join(", "));
    }
    text + "]\n"
}

/// A script of bash with arguments for the main branch of torchtitan as an array.
pub(super) fn script(question: &Question, plan: &Plan, order: &TorchOrder) -> String {
    let costed = plan.finalist.costed();
    let own = &costed.setup;
    let [replicate, shard] = replicas(costed);
    let [_, lack] = comments(question, plan, order);
    let mut lines: Vec<String> = lack.iter().map(|line| format!("# {line}")).collect();
    let tokens = question.model.sequence * own.microbatch;
    let mut flag =
        |name: &str, value: &dyn std::fmt::Display| lines.push(format!("--{name} {value}"));
    flag("training.max_context_length", &question.model.sequence);
    flag("training.num_tokens_per_microbatch_per_dp_rank", &tokens);
    flag("training.num_tokens_per_train_step", &(question.model.sequence * question.recipe.batch));
    flag("parallelism.data_parallel_replicate_degree", &replicate);
    flag("parallelism.data_parallel_shard_degree", &shard);
    if let Some(when) = reshard(own.zero) {
        flag("parallelism.fsdp_reshard_after_forward", &when);
    }
    flag("parallelism.tensor_parallel_degree", &own.tensor);
    flag("parallelism.context_parallel_degree", &own.context);
    flag("parallelism.expert_parallel_degree", &own.expert);
    flag("parallelism.pipeline_parallel_degree", &own.pipeline);
    if own.pipeline > 1 {
        flag("parallelism.num_pp_microbatches", &costed.shape.microbatches());
        let (class, is_file) = named(order);
        if let Some(class) = class {
            flag("parallelism.pipeline_parallel_schedule", &class);
        }
        if is_file {
            let path = format!("\"$(dirname \"${{BASH_SOURCE[0]}}\")/{SCHEDULE_CSV}\"");
            flag("parallelism.pipeline_parallel_schedule_csv", &path);
        }
        lines.push("--parallelism.module_fqns_per_model_part".to_owned());
        let parts = parts(&costed.layers, "lm_head");
        lines.extend(parts.iter().map(|part| format!("'{}'", part.join(","))));
        // Its CUDA graphs know no pipelines.
        lines.push("--training.disable_cuda_graphs".to_owned());
    }
    if own.tensor > 1 && !question.recipe.sequence_parallel {
        lines.push("--parallelism.no-enable-sequence-parallel".to_owned());
    }
    // A subcommand of its parser, which must come after all flags.
    lines.push(format!("activation_checkpoint:{}", checkpoint(own.recompute)));
    let head = "# Arguments of the main branch of torchtitan, written by `debubble plan`; torchtitan.toml is \
                for 0.2.x.\n# Your own arguments come first:\n#   source torchtitan.sh\n\
                #   MODULE=llama3 CONFIG=llama3_8b ./run_train.sh .. \"${TORCHTITAN_ARGS[@]}\"\n";
    array(head, "TORCHTITAN_ARGS", &lines)
}

/// The keys of `[parallelism]` in 0.2.x about software and the products of experts.
fn keys(question: &Question, plan: &Plan) -> String {
    let own = &plan.finalist.costed().setup;
    let software = own.software(&question.recipe);
    let mut text = String::new();
    if software.overlap_tensor && own.tensor > 1 {
        text += "enable_async_tensor_parallel = true # needs [compile]\n";
    }
    // HybridEP has no word in 0.2.x.
    let dispatcher = question.dispatcher_of(own, &question.clusters[plan.cluster]);
    if software.sends_once && dispatcher == "deepep" {
        text += "expert_parallel_comm_backend = \"deepep\"\n";
    }
    if question.model.experts.is_some() && own.expert_tensor > 1 {
        text += &format!("expert_tensor_parallel_degree = {}\n", own.expert_tensor);
    }
    text
}

/// Replicas that hold all, and those that share.
fn replicas(costed: &Costed) -> [u64; 2] {
    let groups = costed.setup.shard_groups.max(1);
    match costed.setup.zero {
        Zero::None => [costed.setup.data, 1],
        Zero::Optimizer | Zero::Gradients | Zero::Parameters => {
            [groups, costed.setup.data / groups]
        }
    }
}

/// When parameters that were gathered are given up: FSDP keeps them while a pipeline runs, as stages 1 and
/// 2 of ZeRO do.
const fn reshard(zero: Zero) -> Option<&'static str> {
    match zero {
        Zero::None => None,
        Zero::Optimizer | Zero::Gradients => Some("never"),
        Zero::Parameters => Some("always"),
    }
}

/// The name of torchtitan for a recomputation.
const fn checkpoint(recompute: Recompute) -> &'static str {
    match recompute {
        Recompute::None => "none",
        Recompute::Selective | Recompute::Modules(_) => "selective",
        Recompute::Full | Recompute::First(_) => "full",
    }
}

/// The class of torch that is named, and whether the order is in the file beside.
fn named(order: &TorchOrder) -> (Option<&'static str>, bool) {
    match order {
        TorchOrder::Class(class) => (Some(class), false),
        TorchOrder::File { class, .. } => (Some(class), true),
        TorchOrder::No(_) => (None, false),
    }
}

/// The modules of each chunk, of `layers` layers; the output layer is called `output`.
fn parts(layers: &[u64], output: &str) -> Vec<Vec<String>> {
    let last = layers.len().saturating_sub(1);
    let mut next = 0;
    let part = |(chunk, layers): (usize, &u64)| {
        let first = next;
        next += layers;
        let mut names: Vec<String> = (first..next).map(|layer| format!("layers.{layer}")).collect();
        if chunk == 0 {
            names.insert(0, "tok_embeddings".to_owned());
        }
        if chunk == last {
            names.extend(["norm".to_owned(), output.to_owned()]);
        }
        names
    };
    layers.iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_every_module_once() {
        let parts = parts(&[1, 0, 2], "lm_head");
        let expected = [
            vec!["tok_embeddings", "layers.0"],
            vec![],
            vec!["layers.1", "layers.2", "norm", "lm_head"],
        ];
        assert_eq!(parts, expected);
    }
}
