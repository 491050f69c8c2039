//! Configurations in the form of NeMo-RL's own, one over another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use question::Context;

use super::*;
use crate::read_step;

const BASE: &str = r#"
grpo:
  num_prompts_per_step: 32
  num_generations_per_prompt: 16
  max_rollout_turns: 1
loss_fn: {reference_policy_kl_penalty: 0.01}
policy:
  model_name: "Qwen/Qwen2.5-1.5B"
  tokenizer: {name: "${policy.model_name}"}
  train_global_batch_size: 512
  train_micro_batch_size: 4
  logprob_batch_size: ${policy.train_micro_batch_size}
  max_total_sequence_length: 512
  precision: "bfloat16"
  dtensor_cfg: {enabled: true, tensor_parallel_size: 1, activation_checkpointing: false, cpu_offload: false}
  megatron_cfg: {enabled: false, tensor_model_parallel_size: 8, pipeline_dtype: "${policy.precision}"}
  sequence_packing:
    enabled: true
    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}
    logprob_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${policy.logprob_batch_size}}
  generation:
    backend: "vllm"
    max_new_tokens: ${policy.max_total_sequence_length}
    temperature: 1.0
    val_temperature: ${.temperature}
    vllm_cfg: {tensor_parallel_size: 1, gpu_memory_utilization: 0.6, precision: "${policy.precision}"}
    colocated: {enabled: true, resources: {gpus_per_node: null, num_nodes: null}}
data: {max_input_seq_length: "${policy.max_total_sequence_length}", shuffle: true}
cluster: {gpus_per_node: 1, num_nodes: 1}
"#;

const OVER: &str = r#"
defaults: "../base.yaml"
grpo:
  num_generations_per_prompt: 8
policy:
  model_name: meta-llama/Llama-3.1-8B-Instruct
  train_global_batch_size: 128
  max_total_sequence_length: 4096
  train_micro_batch_size: 1
  dtensor_cfg: {enabled: false}
  megatron_cfg:
    enabled: true
    tensor_model_parallel_size: 2
    pipeline_model_parallel_size: 2
    activation_checkpointing: true
  generation:
    vllm_cfg: {tensor_parallel_size: 4}
cluster: {gpus_per_node: 8, num_nodes: 2}
"#;

fn step_of(over: &str) -> Result<Step, Diagnostic> {
    let text = |text: &str| text.as_bytes().to_vec();
    let files: BTreeMap<PathBuf, Vec<u8>> =
        [("base.yaml".into(), text(BASE)), ("llm/run.yaml".into(), text(over))].into();
    let context = Context::new(&files);
    Ok(read_step(&context, Path::new("llm/run.yaml"), &Given::default())?.ok().unwrap())
}

#[test]
fn a_configuration_is_read_over_its_defaults() {
    let Step { keys, notes, left_out } = step_of(BASE).unwrap();
    assert_eq!([keys.devices, keys.prompts, keys.responses, keys.train_tensor], [1, 32, 16, 1]);
    assert_eq!(
        (keys.mini_batch, keys.max_tokens, keys.engine_memory),
        (Some(32), Some(2048), Some(0.6))
    );
    assert_eq!((keys.strategy, keys.recompute), (RlKeys::default().strategy, RecomputeKey::None));
    assert_eq!(left_out, [""; 0]);
    assert!(notes.iter().all(|(key, _)| key.is_some()), "{notes:?}");

    let Step { keys, left_out, .. } = step_of(OVER).unwrap();
    assert_eq!(keys.model, Some(PathBuf::from("Llama-3.1-8B-Instruct")));
    assert_eq!([keys.devices, keys.prompts, keys.responses, keys.tensor], [16, 32, 8, 4]);
    assert_eq!([keys.train_tensor, keys.pipeline], [2, 2]);
    assert_eq!((keys.mini_batch, keys.max_tokens), (Some(16), Some(4096)));
    assert_eq!((keys.strategy, keys.recompute), (StrategyKey::Megatron, RecomputeKey::Full));
    assert_eq!(keys.response_lengths.to_string(), "lognormal:768:0.9:3072");
    assert!(keys.reference && !keys.critic && !keys.no_old_log_probs && left_out.is_empty());
}

#[test]
fn engines_apart_and_what_is_not_modelled_are_said() {
    let over = format!("{OVER}colours: blue\nloss_fn: {{reference_policy_kl_penalty: 0}}\n")
        .replace(
            "  generation:\n",
            "  generation:\n    colocated: {enabled: false, resources: {num_nodes: 1}}\n",
        )
        .replace("grpo:\n", "grpo:\n  async_grpo: {enabled: true}\n  max_rollout_turns: 50\n");
    let Step { keys, notes, left_out } = step_of(&over).unwrap();
    assert_eq!((keys.devices, keys.rollout_devices), (16, Some(8)));
    assert!(!keys.reference && keys.placement == PlacementKey::Separate);
    let said = notes.iter().map(|(_, note)| note.as_str()).collect::<Vec<_>>().join("; ");
    assert!(said.contains("grpo.max_rollout_turns 50 (turns with tools"), "{said}");
    assert!(said.contains("grpo.async_grpo.enabled (training on responses"), "{said}");
    assert_eq!(left_out, ["colours"]);
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let circle = "defaults: run.yaml\ngrpo:\n  seed: 1\npolicy:\n  precision: bf16\n";
    let far = OVER.replace("../base.yaml", "../other.yaml");
    let parts = OVER.replace("train_global_batch_size: 128", "train_global_batch_size: 100");
    let apart = OVER.replace("  generation:\n", "  generation:\n    colocated: {enabled: false}\n");
    let open = OVER.replace("num_nodes: 2", "num_nodes: \"${oc.env:NODES}\"");
    for (text, part) in [
        (circle, "more than 8 files deep"),
        (&far, "its defaults ../other.yaml are not where it says"),
        (&parts, "100 are not whole prompts of 8 responses"),
        (&apart, "does not say how many"),
        (&open, "is not a whole number"),
    ] {
        let said = match step_of(text) {
            Err(said) => said.message,
            Ok(_) => panic!("{text}"),
        };
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_planner_names_the_command_that_answers_it() {
    let files: BTreeMap<PathBuf, Vec<u8>> = [("run.yaml".into(), BASE.as_bytes().to_vec())].into();
    let read = crate::read_run(&Context::new(&files), Path::new("run.yaml"), &Given::default());
    let Err(said) = read else { panic!("it is no plan") };
    assert!(said.message.contains("it is a configuration of NeMo-RL"), "{}", said.message);
    assert!(said.help.is_some_and(|help| help.contains("debubble rl run.yaml")));
}
