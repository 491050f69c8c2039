//! Twenty public recipes with the keys and values of their files, and what they ask: parameters as their authors publish
//! them, and parallel sizes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use question::Context;
use question::diagnostic::Diagnostic;

use super::*;
use planning::MemoryError;

/// The question of `text` in a file `name`, with files beside it.
pub(super) fn read_named(
    (name, text): (&str, &str),
    beside: &[(&str, &str)],
    given: &Given,
) -> Result<Imported, Diagnostic> {
    let files: BTreeMap<PathBuf, Vec<u8>> =
        beside.iter().map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec())).collect();
    of_text(&Context::new(&files), Path::new(name), text, given)
}

/// A recipe: its file, its text, its parameters in 10^9, and tensor, pipeline, context, expert, devices, batch and
/// sequence.
type Recipe = (&'static str, String, f64, [u64; 7]);

fn holds(
    (name, text, billions, [tensor, pipeline, context, expert, devices, batch, sequence]): Recipe,
) {
    let imported = read_named((name, &text), &[], &Given::default())
        .unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
    let document = &imported.document;
    let setup = document.setup.clone().unwrap();
    let one = |degree: Option<u64>| degree.unwrap_or(1);
    let own = [
        one(setup.tensor),
        one(setup.pipeline),
        one(setup.context),
        one(setup.expert),
        document.cluster[0].devices.clone().unwrap()[0],
        document.batch,
        document.sequence.unwrap(),
    ];
    assert_eq!(
        own,
        [tensor, pipeline, context, expert, devices, batch, sequence],
        "{name}\n{text}"
    );
    let files = BTreeMap::new();
    let context = Context::new(&files);
    let question = planning::check(&context, Path::new(""), document, MemoryError::default())
        .unwrap_or_else(|wrong| panic!("{name}: {wrong:?}\n{text}"));
    #[allow(clippy::cast_precision_loss)]
    let parameters = question.model.parameters() as f64 / 1e9;
    assert!((parameters / billions - 1.0).abs() < 0.008, "{name}: {parameters}");
    let written = imported.to_toml().unwrap();
    assert_eq!(toml::from_str::<Document>(&written).unwrap(), *document, "{name}");
}

/// A job file of torchtitan 0.2.2.
fn job(first: &str, model: [&str; 2], [local, sequence]: [u64; 2], rest: &str) -> String {
    let [name, flavor] = model;
    format!(
        "# {first}\n[model]\nname = \"{name}\"\nflavor = \"{flavor}\"\n[training]\nlocal_batch_size = {local}\n\
         seq_len = {sequence}\nsteps = 1000\n{rest}"
    )
}

/// An experiment of Primus.
fn experiment(framework: &str, model: &str, overrides: &str) -> String {
    let overrides: String = overrides.lines().map(|line| format!("      {line}\n")).collect();
    format!(
        "work_group: ${{PRIMUS_TEAM:amd}}\nmodules:\n  pre_trainer:\n    framework: {framework}\n    \
         config: pre_trainer.yaml\n    model: {model}\n    overrides:\n{overrides}"
    )
}

/// A recipe of Megatron-Bridge.
fn bridge(name: &str, base: &str, precision: &str, fields: &[(&str, &str)]) -> String {
    let fields: String =
        fields.iter().map(|(name, value)| format!("    cfg.{name} = {value}\n")).collect();
    format!(
        "from megatron.bridge.perf_recipes.common import ConfigContainer, _perf_precision\n\n\n\
         def {name}() -> ConfigContainer:\n    \"\"\"A recipe.\"\"\"\n    cfg = {base}()\n    \
         cfg.mixed_precision = _perf_precision(\"{precision}\")\n    cfg.model.seq_length = 4096\n{fields}    return cfg\n"
    )
}

/// Degrees and batch of a recipe of Megatron-Bridge.
fn parallel(
    tensor: &'static str,
    stages: &'static str,
    context: &'static str,
    chunks: &'static str,
    batch: &'static str,
) -> Vec<(&'static str, &'static str)> {
    vec![
        ("model.tensor_model_parallel_size", tensor),
        ("model.pipeline_model_parallel_size", stages),
        ("model.context_parallel_size", context),
        ("model.virtual_pipeline_model_parallel_size", chunks),
        ("model.sequence_parallel", "True"),
        ("train.global_batch_size", batch),
        ("train.micro_batch_size", "1"),
    ]
}

#[test]
fn scripts_of_megatron_are_read() {
    let launch = "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py ${ALL[@]}";
    let gpt = format!(
        "ALL=(--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048\n\
         --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 1536 --train-iters 500000 --fp16\n\
         --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --vocab-file $3)\n{launch}"
    );
    let llama = format!(
        "ALL=(--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32\n\
         --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192\n\
         --position-embedding-type rope --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights\n\
         --disable-bias-linear --micro-batch-size 1 --global-batch-size 128 --train-samples 1953125000 --bf16\n\
         --fp8-format hybrid --tensor-model-parallel-size 1 --sequence-parallel --use-distributed-optimizer\n\
         --tokenizer-type NullTokenizer --vocab-size 128256)\n{launch}"
    );
    let mixtral = format!(
        "ALL=(--disable-bias-linear --seq-length 4096 --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336\n\
         --num-attention-heads 32 --normalization RMSNorm --position-embedding-type rope --swiglu\n\
         --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 8 --num-experts 8\n\
         --moe-router-topk 2 --tokenizer-type Llama2Tokenizer --micro-batch-size 1 --global-batch-size 256\n\
         --train-iters 500000 --bf16 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8\n\
         --use-distributed-optimizer)\n{launch}"
    );
    holds(("gpt.sh", gpt, 174.6, [8, 16, 1, 1, 128, 1536, 2048]));
    holds(("llama.sh", llama, 8.03, [1, 1, 1, 1, 8, 128, 8192]));
    holds(("mixtral.sh", mixtral, 46.7, [1, 4, 1, 8, 32, 256, 4096]));
}

#[test]
fn jobs_of_torchtitan_are_read() {
    let float8 = "[activation_checkpoint]\nmode = \"full\"\n[compile]\nenable = true\n";
    let tensor = format!("[parallelism]\ntensor_parallel_degree = 8\n{float8}");
    let preset =
        |count, machine| format!("NOTE: this toml config is a preset for {count} {machine} GPUs.");
    holds((
        "llama3_8b.toml",
        job(&preset(64, "A100"), ["llama3", "8B"], [1, 8192], ""),
        8.03,
        [1, 1, 1, 1, 64, 64, 8192],
    ));
    holds((
        "llama3_70b.toml",
        job(&preset(64, "A100"), ["llama3", "70B"], [8, 8192], &tensor),
        70.55,
        [8, 1, 1, 1, 64, 64, 8192],
    ));
    holds((
        "llama3_405b.toml",
        job(&preset(128, "H100"), ["llama3", "405B"], [2, 8192], &tensor),
        405.85,
        [8, 1, 1, 1, 128, 32, 8192],
    ));
    let experts = "[parallelism]\ndata_parallel_shard_degree = -1\nexpert_parallel_degree = 8\n\
                   [activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = 'op'\n";
    holds((
        "deepseek_v3_16b.toml",
        job("", ["deepseek_v3", "16B"], [4, 4096], experts),
        15.7,
        [1, 1, 1, 8, 8, 32, 4096],
    ));
    let stages = "[parallelism]\ntensor_parallel_degree = 8\npipeline_parallel_degree = 4\n\
                  [activation_checkpoint]\nmode = \"full\"\n";
    holds((
        "llama4_17bx128e.toml",
        job("", ["llama4", "17bx128e"], [4, 8192], stages),
        400.7,
        [8, 4, 1, 1, 32, 4, 8192],
    ));
}

#[test]
fn experiments_of_primus_are_read() {
    let steps = "train_iters: 50\noverlap_grad_reduce: true\nmock_data: true\n";
    let sizes = |micro, batch, sequence| {
        format!(
            "micro_batch_size: {micro}\nglobal_batch_size: {batch}\nseq_length: {sequence}\n{steps}"
        )
    };
    let deepseek = sizes(1, 256, "${PRIMUS_SEQ_LENGTH:4096}")
        + "recompute_granularity: full # full, selective\nrecompute_method: block\nrecompute_num_layers: 14\n\
           tensor_model_parallel_size: ${PRIMUS_TP:1}\npipeline_model_parallel_size: ${PRIMUS_PP:4}\n\
           expert_model_parallel_size: ${PRIMUS_EP:8}\nuse_turbo_deepep: true\n";
    let model = "${PRIMUS_MODEL:deepseek_v2}.yaml";
    holds((
        "MI300X/deepseek_v2.yaml",
        experiment("megatron", model, &deepseek),
        235.7,
        [1, 4, 1, 8, 32, 256, 4096],
    ));
    let llama =
        sizes(1, 256, "8192") + "tensor_model_parallel_size: 8\npipeline_model_parallel_size: 8\n";
    holds((
        "MI300X/llama3.1_405B.yaml",
        experiment("megatron", "llama3.1_405B.yaml", &llama),
        405.85,
        [8, 8, 1, 1, 64, 256, 8192],
    ));
    let mixtral = sizes(2, 32, "4096") + "expert_model_parallel_size: 8\nuse_turbo_deepep: true\n";
    holds((
        "MI300X/mixtral.yaml",
        experiment("megatron", "mixtral_8x7B_v0.1.yaml", &mixtral),
        46.7,
        [1, 1, 1, 8, 8, 32, 4096],
    ));
    let grok = sizes(2, 128, "8192")
        + "pipeline_model_parallel_size: 4\nnum_virtual_stages_per_pipeline_rank: 4\nexpert_model_parallel_size: 8\n\
           recompute_granularity: full\nrecompute_method: block\nrecompute_num_layers: 8\n";
    holds((
        "MI300X/grok1.yaml",
        experiment("megatron", "grok1.yaml", &grok),
        316.5,
        [1, 4, 1, 8, 32, 128, 8192],
    ));
    let titan = "training:\n  local_batch_size: 1\n  seq_len: 8192\n  steps: 50\nactivation_checkpoint:\n  mode: full\n";
    holds((
        "MI300X/llama3.1_70B.yaml",
        experiment("torchtitan", "llama3.1_70B-fp8.yaml", titan),
        70.55,
        [1, 1, 1, 1, 8, 8, 8192],
    ));
}

#[test]
fn recipes_of_megatron_bridge_are_read() {
    let name = "llama3_70b_pretrain_64gpu_h100_bf16_config";
    let text =
        bridge(name, "llama3_70b_pretrain_config", "bf16", &parallel("4", "4", "2", "5", "256"));
    holds(("llama3.py", text, 70.55, [4, 4, 2, 1, 64, 256, 4096]));
    let mut fields = parallel("8", "8", "2", "8", "1536");
    fields.push(("model.seq_length", "8192"));
    fields.push(("model.account_for_embedding_in_pipeline_split", "True"));
    fields.push(("model.account_for_loss_in_pipeline_split", "True"));
    let name = "llama31_405b_pretrain_1024gpu_h100_fp8cs_config";
    let text = bridge(name, "llama31_405b_pretrain_config", "fp8_cs", &fields);
    holds(("llama31.py", text, 405.85, [8, 8, 2, 1, 1024, 1536, 8192]));
    let mut fields = parallel("2", "8", "1", "4", "16384");
    fields.push(("model.expert_model_parallel_size", "64"));
    fields.push(("model.recompute_granularity", "\"selective\""));
    fields.push(("model.recompute_modules", "[\"mla_up_proj\", \"mlp\"]"));
    fields.push(("model.pipeline_model_parallel_layout", "\"Et|(tt|)*30L\""));
    let name = "deepseek_v3_pretrain_1024gpu_h100_bf16_config";
    let text = bridge(name, "deepseek_v3_pretrain_config", "bf16", &fields);
    holds(("deepseek_v3.py", text, 671.0, [2, 8, 1, 64, 1024, 16384, 4096]));
    let mut fields = parallel("8", "16", "1", "2", "8192");
    fields.push(("model.expert_model_parallel_size", "64"));
    fields.push(("model.pipeline_model_parallel_layout", "\"Et|(tt|)*30L\""));
    fields.push(("model.expert_tensor_parallel_size", "1"));
    let name = "kimi_k2_pretrain_1024gpu_h100_bf16_config";
    let text = bridge(name, "kimi_k2_pretrain_config", "bf16", &fields);
    holds(("kimi_k2.py", text, 1026.4, [8, 16, 1, 64, 1024, 8192, 4096]));
}

#[test]
fn recipes_of_megatron_bridge_for_experts_are_read() {
    let fields = [
        ("model.expert_model_parallel_size", "64"),
        ("train.global_batch_size", "1280"),
        ("train.micro_batch_size", "4"),
        ("model.recompute_modules", "[\"layernorm\", \"moe_act\"]"),
        ("model.recompute_granularity", "\"selective\""),
        ("comm_overlap", "CommOverlapConfig(tp_comm_overlap=False)"),
        ("comm_overlap.overlap_moe_expert_parallel_comm", "True"),
    ];
    let name = "gpt_oss_120b_pretrain_64gpu_gb200_bf16_config";
    let text = bridge(name, "gpt_oss_120b_pretrain_config", "bf16", &fields);
    holds(("gpt_oss.py", text, 116.8, [1, 1, 1, 64, 64, 1280, 4096]));
    let mut fields = parallel("1", "8", "1", "3", "8192");
    fields.push(("model.expert_model_parallel_size", "32"));
    fields.push(("model.moe_flex_dispatcher_backend", "\"hybridep\""));
    fields.push(("model.moe_token_dispatcher_type", "\"flex\""));
    let name = "qwen3_235b_a22b_pretrain_256gpu_gb200_fp8mx_config";
    let text = bridge(name, "qwen3_235b_a22b_pretrain_config", "fp8_mx", &fields);
    let imported = read_named(("qwen3_moe.py", &text), &[], &Given::default()).ok().unwrap();
    let training = &imported.document.training;
    assert_eq!(training.precision.as_deref(), Some("mxfp8"));
    assert_eq!(training.dispatcher.as_deref(), Some("hybridep"));
    assert_eq!(imported.document.cluster[0].machine.as_deref(), Some("gb200"));
    assert!(imported.notes.iter().any(|note| note.contains("qwen3_235b_a22b_pretrain_config")));
    holds(("qwen3_moe.py", text, 235.09, [1, 8, 1, 32, 256, 8192, 4096]));
}

#[test]
fn a_registry_of_torchtitan_is_read() {
    let text = "from torchtitan.trainer import Trainer\n\
        def llama3_70b() -> Trainer.Config:\n    spec = model_registry(\n        \"70B\",\n        \
        converters=[Float8LinearConverter.Config(filter_fqns=[\"lm_head\"])],\n    )\n    \
        return Trainer.Config(\n        model_spec=spec,\n        training=TrainingConfig(\n            \
        num_tokens_per_microbatch_per_dp_rank=8 * 8192,\n            max_context_length=8192,\n            steps=1000,\n        ),\n        \
        parallelism=ParallelismConfig(tensor_parallel_degree=8),\n        activation_checkpoint=FullAC.Config(),\n    )\n";
    let name = "torchtitan/models/llama3/config_registry.py";
    let imported = read_named((name, text), &[], &Given::default()).ok().unwrap();
    let setup = imported.document.setup.as_ref().unwrap();
    assert_eq!(
        (setup.tensor, setup.microbatch, imported.document.sequence),
        (Some(8), Some(8), Some(8192))
    );
    assert_eq!(setup.recompute.as_ref().unwrap().join(" "), "full");
    assert_eq!(imported.document.training.precision.as_deref(), Some("fp8"));
    assert_eq!(imported.document.training.head_precision, None);
}

#[test]
fn pipelines_of_torchtitan_have_its_layers_and_schedules() {
    let rest = "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = \"Interleaved1F1B\"\n\
                data_parallel_replicate_degree = 2\nfoo = 1\n[activation_checkpoint]\nmode = \"none\"\n";
    let text = job("", ["llama3", "8B"], [8, 2048], rest);
    let given = Given { devices: Some(16), ..Given::default() };
    let imported = read_named(("a.toml", &text), &[], &given).ok().unwrap();
    let setup = imported.document.setup.as_ref().unwrap();
    assert_eq!(setup.schedule.as_deref(), Some("1f1b-i"));
    let layout = setup.layout.as_ref().unwrap().to_string();
    assert_eq!(
        layout,
        "Et*4|t*5|t*4|t*4|t*4|t*4|t*4|t*3L".parse::<pipeline::LayerLayout>().unwrap().to_string()
    );
    assert_eq!((setup.shard_groups, setup.zero, setup.microbatch), (Some(2), Some(3), Some(1)));
    assert_eq!(imported.left_out, ["parallelism.foo"]);
    let wrong = |from: &str, to: &str| {
        let wrong = read_named(("a.toml", &text.replace(from, to)), &[], &given).err().unwrap();
        format!("{} {}", wrong.message, wrong.help.unwrap_or_default())
    };
    assert!(wrong("Interleaved1F1B", "Mine").contains("pipeline_parallel_schedule: no schedule"));
    assert!(wrong("\"8B\"", "\"9B\"").contains("--model"));
    assert!(wrong("mode = \"none\"", "mode = \"some\"").contains("activation_checkpoint.mode"));
}

#[test]
fn presets_of_primus_are_read_where_they_lie() {
    let text =
        experiment("megatron", "tiny.yaml", "num_layers: 4\nmicro_batch_size: 2\npp: ${X}\n");
    let beside = [
        (
            "primus/configs/models/megatron/tiny.yaml",
            "extends: [base.yaml]\nhidden_size: 512\nnum_layers: 8\n",
        ),
        (
            "primus/configs/models/megatron/base.yaml",
            "includes:\n- language_model.yaml\nnum_attention_heads: 8\nseq_length: 128\nvocab_size: 1000\n",
        ),
        (
            "primus/configs/models/megatron/language_model.yaml",
            "swiglu: true\nadd_bias_linear: false\nnormalization: RMSNorm\nposition_embedding_type: rope\nsome_default: 3\n",
        ),
    ];
    let read = |given: &Given| read_named(("examples/a.yaml", &text), &beside, given);
    let wrong = read(&Given::default()).err().unwrap();
    assert!(wrong.help.unwrap().contains("--set X=VALUE"));
    let given = Given { variables: [("X".to_owned(), "1".to_owned())].into(), ..Given::default() };
    let imported = read(&given).ok().unwrap();
    let model = tests::sizes(&imported);
    assert_eq!((model.layers, model.hidden, model.gated), (4, 512, Some(true)));
    assert_eq!(imported.left_out, ["pp"]);
    let unknown = experiment("megatron", "nobody.yaml", "micro_batch_size: 1\n");
    let wrong = read_named(("a.yaml", &unknown), &[], &given).err().unwrap();
    assert!(wrong.message.contains("nobody.yaml is not in the same folder"), "{}", wrong.message);
}

#[test]
fn configurations_of_maxtext_are_read() {
    let text = "base_config: base.yml\nmodel_name: llama3-70b\nper_device_batch_size: 2\nmax_target_length: 8192\n\
                steps: 100\nremat_policy: full\nici_tensor_parallelism: 4\nici_fsdp_parallelism: 2\n\
                dcn_pipeline_parallelism: 4\ndcn_data_parallelism: 2\nnum_layers_per_pipeline_stage: 5\n\
                num_pipeline_microbatches: 8\nquantization: fp8\nsparse_matmul: false\nsparser: 1\n";
    let imported = read_named(("a.yml", text), &[], &Given::default()).ok().unwrap();
    let setup = imported.document.setup.as_ref().unwrap();
    assert_eq!((setup.tensor, setup.pipeline, setup.chunks), (Some(4), Some(4), Some(4)));
    assert_eq!((setup.schedule.as_deref(), setup.microbatch), (Some("looped-bfs"), Some(4)));
    assert_eq!((setup.zero, setup.shard_groups), (Some(3), Some(2)));
    assert_eq!(imported.document.cluster[0].devices, Some(vec![64]));
    assert_eq!(imported.document.batch, 128);
    assert!(imported.notes.iter().any(|note| note.contains("circular")), "{:?}", imported.notes);
    assert!(imported.notes.iter().any(|note| note.contains("sparse_matmul false (other kernels")));
    assert_eq!(imported.left_out, ["sparser"]);
    let wrong = read_named(
        ("a.yml", &text.replace("batch_size: 2", "batch_size: 0.01")),
        &[],
        &Given::default(),
    );
    assert!(wrong.err().unwrap().message.contains("per_device_batch_size"));
    let model = "base_emb_dim: 2048\nbase_num_query_heads: 16\nbase_num_kv_heads: 16\nbase_mlp_dim: 8192\n\
                 base_num_decoder_layers: 8\nvocab_size: 32_000\nmlp_activations: [silu, linear]\ndecoder_block: BLOCK\n";
    let own = model.replace("BLOCK", "llama2");
    let imported = read_named(("a.yml", &own), &[], &Given::default()).ok().unwrap();
    assert_eq!(tests::sizes(&imported).vocabulary, 32_000);
    let wrong = read_named(("a.yml", &model.replace("BLOCK", "envy")), &[], &Given::default());
    assert!(wrong.err().unwrap().message.contains("decoder_block"));
}

#[test]
fn files_of_simulators_are_read() {
    let execution = r#"{"num_procs": 512, "tensor_par": 8, "pipeline_par": 64, "data_par": 1, "batch_size": 512,
        "microbatch_size": 1, "activation_recompute": "attn_only", "pipeline_interleaving": 1, "optimizer_sharding": false,
        "tensor_par_comm_type": "rs_ag", "tensor_par_overlap": "none", "weight_offload": false, "training": true}"#;
    holds(("megatron-1T_sel.json", execution.to_owned(), 1008.0, [8, 64, 1, 1, 512, 512, 2048]));
    let strategy = r#"{"seq_len": 4096, "micro_batch_size": 1, "micro_batch_num": 8, "world_size": 8, "tp_size": 1,
        "pp_size": 4, "ep_size": 1, "interleaving_size": 2, "zero_state": 1, "enable_recompute": false}"#;
    let wrong = read_named(("strategy.json", strategy), &[], &Given::default()).err().unwrap();
    assert!(wrong.help.unwrap().contains("--model"));
    let model = r#"{"hidden_size": 4096, "head_num": 32, "kv_head_num": 8, "head_size": 128, "intermediate_size": 14336,
        "layer_num": 32, "vocab_size": 128256, "use_swiglu": true}"#;
    let given = Given {
        model: Some("m.json".to_owned()),
        machine: Some("systems/a100_80g.json".to_owned()),
        ..Given::default()
    };
    let imported =
        read_named(("strategy.json", strategy), &[("m.json", model)], &given).ok().unwrap();
    let setup = imported.document.setup.as_ref().unwrap();
    assert_eq!((setup.pipeline, setup.chunks, imported.document.batch), (Some(4), Some(2), 16));
    assert_eq!(imported.document.cluster[0].machine.as_deref(), Some("a100-80g"));
    let alone = read_named(("m.json", model), &[], &Given::default()).ok().unwrap();
    assert!(alone.document.setup.is_none());
    let system =
        read_named(("s.json", r#"{"networks": [], "matrix": {}}"#), &[], &Given::default());
    assert!(system.err().unwrap().help.unwrap().contains("--machine"));
}

#[test]
fn hostile_configurations_end() {
    let mut bomb = "modules:\n  a: {framework: megatron}\nx0: &a0 [1, 1]\n".to_owned();
    for at in 1..60 {
        bomb += &format!("x{at}: &a{at} [*a{0}, *a{0}]\n", at - 1);
    }
    let deep = format!(
        "ConfigContainer\ndef a():\n    return {}1{}\n",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let long = format!("ConfigContainer\nimport x\na = 1{}\n", " + 1".repeat(200_000));
    let chain = format!(
        "ConfigContainer\nimport x\ndef a():\n    b = 1\n{}    return b\n",
        "    b = [b, b]\n".repeat(20_000)
    );
    let endless =
        "ConfigContainer\ndef a():\n    return a()\ndef b():\n    return [a(), b(), b()]\n"
            .to_owned();
    let classes: String =
        (1..5000).map(|at| format!("class C{at}(C{}):\n    x = C{}\n", at - 1, at - 1)).collect();
    let classes =
        format!("ConfigContainer\nclass C0:\n    x = 1\n{classes}def a():\n    return C4999()\n");
    let doubled: String =
        (1..3000).map(|at| format!("def f{at}():\n    return f{0}(f{0}())\n", at - 1)).collect();
    let doubled = format!("ConfigContainer\nimport x\n{doubled}");
    let wide = format!("modules: {{a: {{framework: {}}}}}", "x".repeat(900_000));
    let brackets = format!("ConfigContainer\nimport x\na = {}", "(".repeat(200_000));
    let nots = format!("ConfigContainer\nimport x\na = {}b\n", "not ".repeat(100_000));
    for text in [bomb, deep, long, chain, endless, classes, wide, brackets, doubled, nots] {
        assert!(read_named(("a.py", &text), &[], &Given::default()).is_err(), "{}", &text[..60]);
    }
    let ring = "extends: a.yaml\n";
    let text = experiment("megatron", "a.yaml", "train_iters: 1\n");
    assert!(read_named(("b.yaml", &text), &[("a.yaml", ring)], &Given::default()).is_err());
}
