//! Logs with configurations that their frameworks have printed, cut ones, and several in one log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use question::Context;
use question::diagnostic::Diagnostic;

use super::tests::sizes;
use super::*;

fn log(text: &str) -> Result<Imported, Diagnostic> {
    let files = BTreeMap::new();
    of_text(&Context::new(&files), Path::new("run.log"), text, &Given::default())
}

/// The `text` as a rank prints it.
fn of_rank(rank: u64, text: &str) -> String {
    text.lines().map(|line| format!("[rank{rank}]:{line}\n")).collect()
}

/// Steps of torchtitan.
const STEPS: &str = "[titan] 2025-10-25 10:00:01,000 - root - INFO - step: 1  loss:  8.1  memory: 10.00GiB(12.5%)  tps: 4,000  tflops: 30.0  mfu: 3.0%\n\
    [titan] 2025-10-25 10:00:02,000 - root - INFO - step: 2  loss:  8.0  memory: 10.00GiB(12.5%)  tps: 4,000  tflops: 30.0  mfu: 3.0%\n\
    [titan] 2025-10-25 10:00:03,000 - root - INFO - step: 3  loss:  7.9  memory: 10.00GiB(12.5%)  tps: 4,000  tflops: 30.0  mfu: 3.0%\n\
    [titan] 2025-10-25 10:00:04,000 - root - INFO - step: 4  loss:  7.8  memory: 10.00GiB(12.5%)  tps: 4,000  tflops: 30.0  mfu: 3.0%\n";

/// The configuration of torchtitan 0.2 as a literal of Python, or as JSON in lines.
fn job(tensor: u64, is_json: bool) -> String {
    let keys = serde_json::json!({
        "job": {"config_file": null, "description": "it's a {job", "print_config": true},
        "model": {"name": "llama3", "flavor": "8B", "converters": ["float8"]},
        "training": {"local_batch_size": 2, "global_batch_size": -1, "seq_len": 4096, "steps": 100, "dtype": "float32"},
        "parallelism": {"data_parallel_replicate_degree": 1, "data_parallel_shard_degree": -1, "tensor_parallel_degree": tensor,
            "pipeline_parallel_degree": 1, "context_parallel_degree": 1, "module_fqns_per_model_part": null},
        "activation_checkpoint": {"mode": "full", "selective_ac_option": "2"},
        "compile": {"enable": true, "components": ["model", "loss"]},
        "quantize": {"linear": {"float8": {"filter_fqns": []}}},
    });
    let head = "[titan] 2025-10-25 10:00:00,000 - root - INFO - Running with";
    if is_json {
        return format!("{head} configs: {}\n", serde_json::to_string_pretty(&keys).unwrap());
    }
    let text = keys.to_string().replace("it's a", "its a").replace('"', "'");
    let text = text.replace("null", "None").replace("true", "True").replace("'its a", "'it\\'s a");
    format!("{head} args: {text}\n")
}

const MESH: &str = "[titan] 2025-10-25 10:00:00,500 - root - INFO - Building 2-D device mesh with ['dp_shard', 'tp'], [16, 2]\n";

#[test]
fn what_torchtitan_prints_is_read() {
    for is_json in [false, true] {
        let own = format!("{}{MESH}{STEPS}", job(2, is_json));
        // Another rank prints between the lines of the first.
        let other = of_rank(1, &own);
        let lines = of_rank(0, &own);
        let mixed: String = lines
            .lines()
            .zip(other.lines())
            .map(|(a, b)| format!("\u{1b}[36m{a}\u{1b}[0m\n{b}\n"))
            .collect();
        for text in [&own, &mixed] {
            let imported = log(text).unwrap_or_else(|wrong| panic!("{wrong:?}\n{text}"));
            let (document, model) = (&imported.document, sizes(&imported));
            let setup = document.setup.as_ref().unwrap();
            assert_eq!(
                (model.layers, model.hidden, setup.tensor, setup.microbatch),
                (32, 4096, Some(2), Some(2))
            );
            assert_eq!((document.batch, document.sequence), (32, Some(4096)));
            assert_eq!(document.cluster[0].devices, Some(vec![32]));
            assert_eq!(
                (document.training.precision.as_deref(), document.training.compiled),
                (Some("fp8"), Some(true))
            );
            assert_eq!(setup.recompute.as_ref().unwrap().concat(), "full");
            assert_eq!(imported.measured.unwrap().step, 4096.0 / 4000.0);
        }
    }
}

/// The configuration of torchtitan's main branch, whose classes are not printed.
fn of_main(checkpoint: &str) -> String {
    let mesh =
        "Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=1";
    let line = "[titan] 2026-08-01 10:00:00,000 - root - INFO -";
    format!(
        "{line} torchtitan version: 0.3.0 (0.0.0 means ..).\n{line} Swapped to Float8Linear layers\n{line} Running with configs: {{\n  \
         \"model_spec\": {{\n    \"name\": \"llama3\",\n    \"flavor\": \"8B\",\n    \"model\": {{\"dim\": 4096}}\n  }},\n  \
         \"training\": {{\"num_tokens_per_microbatch_per_dp_rank\": 8192, \"max_context_length\": 8192, \"num_tokens_per_train_step\": -1, \"steps\": 9}},\n  \
         \"parallelism\": {{\"pipeline_parallel_degree\": 2, \"num_pp_microbatches\": 8, \"tensor_parallel_degree\": 2, \
         \"pipeline_parallel_schedule\": \"1F1B\", \"data_parallel_shard_degree\": -1}},\n  \"activation_checkpoint\": {checkpoint},\n  \
         \"compile\": {{\"enable\": false, \"components\": [\"model\", \"loss\"]}}\n}}\n{line} {mesh}\n"
    )
}

#[test]
fn what_the_main_branch_of_torchtitan_prints_is_read() {
    for (keys, recompute) in [
        ("{\"preserve_rng_state\": true, \"debug\": false}", Some("full")),
        ("{\"debug\": false, \"force_recompute_mm_shapes_by_fqns\": []}", Some("selective_op")),
        ("null", None),
    ] {
        let imported = log(&of_main(keys)).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let document = &imported.document;
        let setup = document.setup.as_ref().unwrap();
        assert_eq!(setup.recompute.as_ref().map(|all| all.concat()).as_deref(), recompute);
        assert_eq!((setup.tensor, setup.pipeline, setup.microbatch), (Some(2), Some(2), Some(1)));
        assert_eq!((document.batch, document.cluster[0].devices.clone()), (32, Some(vec![16])));
        assert_eq!(document.training.precision.as_deref(), Some("fp8"));
    }
    let headless: String =
        of_main("null").lines().skip(2).map(|line| format!("{line}\n")).collect();
    assert!(log(&headless).err().unwrap().message.contains("lacks the first lines"));
}

/// The configuration of Megatron-Bridge behind a line.
fn bridge(name: &str) -> String {
    let steps: String = (1..6).map(|at| format!(" iteration {at}/ 50 | elapsed time per iteration (ms): 2000.0 | global batch size:    64 |\n")).collect();
    format!(
        "{name}------- Task Configuration -------\n{name}_target_: megatron.bridge.training.config.ConfigContainer\n{name}comm_overlap: null\n\
         {name}ddp:\n{name}  _target_: megatron.bridge.training.config.DistributedDataParallelConfig\n{name}  use_distributed_optimizer: true\n\
         WARNING of another process\n{name}mixed_precision:\n{name}  _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig\n\
         {name}  fp8: hybrid\n{name}  fp8_recipe: mxfp8\n{name}  pipeline_dtype:\n{name}    _call_: false\n{name}    _target_: torch.bfloat16\n\
         {name}model:\n{name}  _target_: megatron.bridge.models.llama.llama_provider.Llama3ModelProvider8B\n{name}  add_bias_linear: false\n\
         {name}  attention_backend:\n{name}    _args_:\n{name}    - 4\n{name}    _call_: true\n{name}    _target_: megatron.core.transformer.enums.AttnBackend\n\
         {name}  gated_linear_unit: true\n{name}  ffn_hidden_size: 14336\n{name}  hidden_size: 4096\n{name}  normalization: RMSNorm\n\
         {name}  num_attention_heads: 32\n{name}  num_layers: 24\n{name}  num_query_groups: 8\n{name}  pipeline_model_parallel_size: 2\n\
         {name}  position_embedding_type: rope\n{name}  seq_length: 8192\n{name}  share_embeddings_and_output_weights: false\n\
         {name}  tensor_model_parallel_size: 4\n{name}  vocab_size: 128256\n{name}train:\n{name}  _target_: megatron.bridge.training.config.TrainingConfig\n\
         {name}  global_batch_size: 64\n{name}  micro_batch_size: 1\n{name}  train_iters: 50\n{name}\n{name}----------------------------------\n{steps}"
    )
}

#[test]
fn what_megatron_bridge_prints_is_read() {
    let own = bridge(" 0: ");
    let imported = log(&own).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let (document, model) = (&imported.document, sizes(&imported));
    assert_eq!((model.layers, model.vocabulary, model.tied), (24, 128_256, Some(false)));
    let setup = document.setup.as_ref().unwrap();
    assert_eq!(
        (setup.tensor, setup.pipeline, setup.zero, document.batch),
        (Some(4), Some(2), Some(1), 64)
    );
    assert_eq!(
        (document.training.precision.as_deref(), document.attention.as_deref()),
        (Some("mxfp8"), Some("core"))
    );
    assert_eq!(imported.measured.unwrap().step, 2.0);
    let saved: String = bridge("")
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.contains("WARNING"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(log(&saved).ok().unwrap().document, *document);
}

#[test]
fn what_nemo_prints_is_read() {
    let line = "[NeMo I 2024-01-05 10:00:00 megatron_gpt_pretraining:36]";
    let keys = "name: megatron_gpt\ntrainer:\n  devices: 8\n  num_nodes: 2\n  precision: bf16\n  max_steps: 100\nmodel:\n  micro_batch_size: 1\n\
        global_batch_size: 128\n  tensor_model_parallel_size: 2\n  pipeline_model_parallel_size: 4\n  encoder_seq_length: 4096\n\
        max_position_embeddings: ${.encoder_seq_length}\n  num_layers: 32\n  hidden_size: 4096\n  ffn_hidden_size: 11008\n  num_attention_heads: 32\n\
        normalization: rmsnorm\n  bias: false\n  activation: fast-swiglu\n  position_embedding_type: learned_absolute\n  num_query_groups: null\n\
        share_embeddings_and_output_weights: false\n  activations_checkpoint_granularity: full\n  activations_checkpoint_method: block\n\
        activations_checkpoint_num_layers: 3\n  sequence_parallel: true\n  transformer_engine: true\n  fp8: false\n  fsdp: false\n  tokenizer:\n    \
        library: megatron\n    type: GPT2BPETokenizer\n  optim:\n    name: distributed_fused_adam\n";
    // A line that ends in a backslash takes the spaces of the next away.
    let is_of_model = ["global_batch", "max_pos", "normal", "share_emb", "activations_"];
    let keys: String = keys
        .lines()
        .map(|key| {
            let margin = if is_of_model.iter().any(|own| key.starts_with(own)) { "  " } else { "" };
            format!("    {margin}{key}\n")
        })
        .collect();
    let text = format!(
        "{line} \n    \n    ************** Experiment configuration ***********\n{line} \n{keys}    \n{line} GPU available\n"
    );
    let imported = log(&text).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let (document, model) = (&imported.document, sizes(&imported));
    assert_eq!(
        (model.layers, model.vocabulary, model.positions, model.gated),
        (32, 50257, Some(4096), Some(true))
    );
    assert_eq!(
        (model.biases, model.norm.as_deref(), model.kv_heads),
        (Some(false), Some("rms"), None)
    );
    let setup = document.setup.as_ref().unwrap();
    assert_eq!(
        (setup.tensor, setup.pipeline, setup.zero, setup.recompute_layers),
        (Some(2), Some(4), Some(1), Some(3))
    );
    assert_eq!((document.cluster[0].devices.clone(), document.batch), (Some(vec![16]), 128));
    assert_eq!(document.training.precision, None);
    let wrong = log(&text.replace("fsdp: false", "fsdp: true")).err().unwrap();
    assert!(wrong.message.contains("model.fsdp"), "{}", wrong.message);
}

/// What verl prints through Ray.
fn step(nodes: u64) -> String {
    let lines = format!(
        "{{'actor_rollout_ref': {{'actor': {{'ppo_mini_batch_size': 128,\n                                 'strategy': 'fsdp',\n                                 \
         'fsdp_config': {{'param_offload': True}}}},\n                       'model': {{'enable_gradient_checkpointing': False,\n                                 \
         'path': '/models and/a long/path that '\n                                         'goes/on/Qwen2.5-7B-Instruct'}},\n                       \
         'rollout': {{'n': 5, 'tensor_model_parallel_size': 4,\n                                   'max_num_seqs': None}}}},\n \
         'algorithm': {{'adv_estimator': 'grpo'}},\n 'data': {{'max_prompt_length': 1024,\n          'max_response_length': 8192,\n          \
         'train_batch_size': 512}},\n 'trainer': {{'n_gpus_per_node': 8, 'nnodes': {nodes}}}}}\n"
    );
    let steps: String = (1..4).map(|at| format!("step:{at} - global_seqlen/mean:9.5 - response_length/mean:np.float64(1500.0) - prompt_length/mean:90.0 - timing_s/gen:{at}0.5 - timing_s/step:{at}2.5\n")).collect();
    let of_ray = |line: &str| {
        format!(
            "\u{1b}[36m(TaskRunner pid=1234, ip=10.0.0.1)\u{1b}[0m {line}\n\u{1b}[36m(WorkerDict pid=9)\u{1b}[0m {{'a': 1\n"
        )
    };
    lines.lines().chain(steps.lines()).map(of_ray).collect()
}

fn step_of(text: &str) -> Result<verl::Step, Diagnostic> {
    let files: BTreeMap<PathBuf, Vec<u8>> =
        [(PathBuf::from("rl.log"), text.as_bytes().to_vec())].into();
    Ok(read_step(&Context::new(&files), Path::new("rl.log"), &Given::default())?.ok().unwrap())
}

#[test]
fn what_verl_prints_is_read() {
    let own = step_of(&step(2)).ok().unwrap();
    let keys = &own.keys;
    assert_eq!((keys.devices, keys.prompts, keys.responses, keys.tensor), (16, 512, 5, 4));
    assert_eq!((keys.mini_batch, keys.critic, keys.max_sequences), (Some(128), false, 256));
    assert_eq!(keys.recompute, question::values::packing::RecomputeKey::None);
    assert_eq!(own.left_out, ["actor_rollout_ref.actor.fsdp_config.param_offload"]);
    let text = own.to_toml().unwrap();
    assert!(
        text.contains("Qwen2.5-7B-Instruct") && text.contains("lognormal:1000:0.9:8192"),
        "{text}"
    );
    assert!(text.contains("3 measured steps take 22.5 s in the median: gen 20.5 s"), "{text}");
    let both = step_of(&(step(1) + &step(4))).ok().unwrap();
    assert_eq!(both.keys.devices, 32);
    assert!(both.to_toml().unwrap().contains("other configurations in lines 1: that of line"));
}

/// A log of Megatron-LM.
fn megatron(tensor: u64, is_sequence_parallel: &str, steps: usize) -> String {
    let keys = format!(
        "num_layers 16\nhidden_size 2048\nnum_attention_heads 16\nseq_length 2048\nmax_position_embeddings 2048\npadded_vocab_size 50304\n\
         vocab_size 50257\nmicro_batch_size 2\nglobal_batch_size 64\nworld_size 8\nbf16 True\ntrain_iters 100\noptimizer adam\nadd_bias_linear True\n\
         tensor_model_parallel_size {tensor}\nsequence_parallel {is_sequence_parallel}\n"
    );
    let keys = keys.lines().filter_map(|line| line.split_once(' '));
    let keys: String = keys
        .map(|(name, value)| format!("  {name} {} {value}\n", ".".repeat(45 - name.len())))
        .collect();
    let steps: String = (1..=steps).map(|at| format!(" iteration {at}/ 100 | elapsed time per iteration (ms): {}.0 | global batch size:    64 |\n    optimizer ....................: 12.50\n", 1000 * tensor)).collect();
    format!(
        "using world size: 8\n------------------------ arguments ------------------------\n{keys}-------------------- end of arguments ---------------------\n{steps}"
    )
}

#[test]
fn of_two_configurations_the_last_with_iterations_counts() {
    let tensor = |text: &str| {
        let imported = log(text).ok().unwrap();
        let says =
            imported.notes.iter().find(|note| note.contains("other configurations")).cloned();
        let setup = imported.document.setup.unwrap();
        let training = imported.document.training;
        (
            setup.tensor,
            training.sequence_parallel,
            imported.measured.map(|own| own.steady.len()),
            says,
        )
    };
    let other =
        |text: &str| Some(format!("the log has other configurations in lines {text} is taken"));
    let (two, four) = (megatron(2, "True", 9), megatron(4, "False", 6));
    assert_eq!(
        tensor(&(two.clone() + &four)),
        (Some(4), Some(false), Some(6), other("2: that of line 39"))
    );
    // The second did not run.
    let idle = megatron(4, "False", 0);
    assert_eq!(
        tensor(&(two.clone() + &idle)),
        (Some(2), Some(true), Some(9), other("39: that of line 2"))
    );
    // The same run, started again.
    let again = two.replace("adam", "lion").replace("\n iteration ", "\n iteration 1");
    let (_, _, count, says) = tensor(&(two.clone() + &again));
    assert_eq!((count, says), (Some(18), None));
    let jobs = format!("{}{MESH}{STEPS}{}{MESH}{STEPS}", job(2, false), job(4, true));
    let imported = log(&jobs).ok().unwrap();
    assert_eq!(imported.document.setup.as_ref().unwrap().tensor, Some(4));
    assert!(
        imported.notes.iter().any(|note| note.contains("in lines 1: that of line 7")),
        "{:?}",
        imported.notes
    );
}

#[test]
fn a_configuration_that_is_cut_is_refused() {
    let first = |text: &str, count: usize| -> String {
        text.lines().take(count).map(|line| format!("{line}\n")).collect()
    };
    let line = "[NeMo I 2024-01-05 10:00:00 a:1]";
    let nemo = format!(
        "{line} \n    ************** Experiment configuration ***********\n{line} \n    trainer:\n      devices: 8\n"
    );
    for (text, ends) in [
        (job(2, false)[..200].to_owned(), "of line 1 ends in line 1,"),
        (first(&of_rank(3, &job(2, true)), 9), "of line 1 ends in line 9,"),
        (first(&bridge(""), 20), "of line 2 ends in line 20,"),
        (first(&megatron(2, "True", 0), 10), "of line 2 ends in line 10,"),
        (nemo, "of line 2 ends in line 5,"),
        // Another one begins.
        (first(&job(2, true), 9) + &job(2, true), ""),
        ("Running with args: {'a': $}\n".to_owned(), "of line 1 cannot be read"),
        (format!("Running with args: {{'a': {}}}\n", "[".repeat(100_000)), "ends in line 1,"),
        (
            format!("Running with args: {{'a': {}{}}}\n", "[".repeat(90), "]".repeat(90)),
            "of line 1 cannot be read",
        ),
    ] {
        match log(&text) {
            Ok(imported) => {
                assert!(ends.is_empty() && imported.document.setup.unwrap().tensor == Some(2));
            }
            Err(wrong) => assert!(
                !ends.is_empty() && wrong.message.contains(ends),
                "{}\n{text}",
                wrong.message
            ),
        }
    }
    let wrong = step_of(&first(&step(2), 7)).err().unwrap();
    assert!(
        wrong.message.contains("of line 1 ends in line 7, and is not whole"),
        "{}",
        wrong.message
    );
}

#[test]
fn a_printed_configuration_wins_over_the_script() {
    let script = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 \
        --max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 2 --global-batch-size 64 --bf16 --train-iters 100 --recompute-activations\n";
    let text = megatron(2, "True", 9);
    let files: BTreeMap<PathBuf, Vec<u8>> = [("a.sh", script), ("a.log", &text)]
        .map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec()))
        .into();
    let context = Context::new(&files);
    let own = read_run(&context, Path::new("a.sh"), &Given::default()).ok().unwrap();
    let printed =
        read_log_of(&context, Path::new("a.log"), &Given::default(), &own).ok().unwrap().0.unwrap();
    assert_eq!((printed.document.setup.unwrap().tensor, sizes(&own).hidden), (Some(2), 1024));
    let said: Vec<&String> =
        printed.notes.iter().filter(|note| note.starts_with("the log says")).collect();
    let expected = [
        "the log says ffn 8192, the script 4096: the log's is taken",
        "the log says hidden 2048, the script 1024: the log's is taken",
        "the log says recompute none, the script selective: the log's is taken",
        "the log says sequence-parallel true, the script none: the log's is taken",
        "the log says tensor 2, the script 1: the log's is taken",
    ];
    assert_eq!(said, expected);
    assert!(
        read_log_of(&context, Path::new("a.sh"), &Given::default(), &own).ok().unwrap().0.is_none()
    );
}
