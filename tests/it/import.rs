//! Questions from launch scripts: what a plan exports is imported to the same plan, scripts are planned by themselves,
//! and bad files are refused.

use std::fs;

use serde_json::Value;

use crate::cli::{Folder, refused, run, said, stdout};

/// Questions of one set-up that Megatron-LM runs: the machine, the devices, and the rest.
const QUESTIONS: [(&str, u64, &str); 5] = [
    (
        "a100-80g",
        256,
        "batch = 1536\nsequence = 2048\n[model]\nlayers = 96\nhidden = 12288\nheads = 96\nvocabulary = 51200\n\
         positions = 2048\n[setup]\ntensor = 8\npipeline = 8\nchunks = 3\n",
    ),
    (
        "h100",
        128,
        "batch = 1024\nsequence = 4096\n[model]\nlayers = 32\nhidden = 4096\nheads = 32\nkv-heads = 8\nffn = 14336\n\
         gated = true\nvocabulary = 32000\nexperts = 8\ntop-k = 2\n[setup]\ntensor = 2\npipeline = 4\nexpert = 8\n\
         recompute = \"full\"\n[training]\nprecision = \"fp8\"\nloss = \"fused\"\n",
    ),
    (
        "h200",
        64,
        "batch = 2048\nsequence = 4096\n[model]\nlayers = 24\nhidden = 2048\nheads = 16\nlatent-keys = 512\n\
         latent-query = 1536\nrotary-size = 64\nhead-size = 192\nvalue-size = 128\nffn = 1408\ngated = true\n\
         vocabulary = 102400\nexperts = 64\ntop-k = 6\nshared-ffn = 2816\ndense-layers = 1\ndense-ffn = 10944\nmtp = 1\n\
         [setup]\npipeline = 2\nexpert = 8\nrecompute = [\"mla_up_proj\", \"moe_act\"]\n[training]\n\
         precision = \"fp8-blockwise\"\ndispatcher = \"deepep\"\n",
    ),
    (
        "h200",
        64,
        "batch = 512\nsequence = 16384\n[model]\nlayers = 24\nhidden = 2048\nheads = 16\nlatent-keys = 512\n\
         latent-query = 1536\nrotary-size = 64\nhead-size = 192\nvalue-size = 128\nindex-heads = 16\nindex-head-size = 64\n\
         index-top-k = 1024\nffn = 8192\ngated = true\nvocabulary = 102400\n[setup]\npipeline = 2\ncontext = 2\n\
         [training]\ncontext-exchange = \"all-gather\"\n",
    ),
    (
        "h100",
        16,
        "batch = 64\nsequence = 8192\n[model]\nlayers = 32\nhidden = 4096\nheads = 32\nkv-heads = 8\nffn = 14336\n\
         gated = true\nvocabulary = 128256\n[setup]\ntensor = 2\nzero = 3\ncontext = 2\n",
    ),
];

fn planned(line: &str) -> Value {
    let answer: Value =
        serde_json::from_str(&stdout(&run(&format!("plan {line} --json")))).unwrap();
    let mut plan = answer["plans"][0].clone();
    // What a script names is not left to the defaults of stock software.
    for key in ["stock_days", "error", "error_low", "error_high"] {
        plan.as_object_mut().unwrap().remove(key);
    }
    plan
}

#[test]
fn what_a_plan_exports_is_imported_to_the_same_plan() {
    for (number, (machine, devices, question)) in QUESTIONS.into_iter().enumerate() {
        let folder = Folder::new();
        let cluster = format!("[[cluster]]\nmachine = \"{machine}\"\ndevices = {devices}\n");
        let question = folder.with(
            "asked.toml",
            &format!("tokens = 1e12\nframework = \"megatron\"\n{question}{cluster}"),
        );
        let export = folder.path("out");
        let asked = planned(&format!("{question} --export {}", export.display()));
        let script = export.join("megatron.sh").display().to_string();
        let imported = folder.path("imported.toml");
        stdout(&run(&format!(
            "import {script} --machine {machine} --devices {devices} --tokens 1e12 --output {}",
            imported.display()
        )));
        let text = fs::read_to_string(&imported).unwrap();
        assert!(!text.contains("left out"), "{number}: {text}");
        assert_eq!(planned(&imported.display().to_string()), asked, "{number}: {text}");
    }
}

const SCRIPT: &str = "#!/bin/bash\nLAYERS=32\nMODEL=(--num-layers $LAYERS --hidden-size 4096 --num-attention-heads 32\n\
    --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000)\n\
    torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py ${MODEL[@]} --micro-batch-size 1 --global-batch-size 64 \\\n\
    --tensor-model-parallel-size 4 --train-iters 100 --bf16 --wombat 3\n";

#[test]
fn a_script_is_a_question_by_itself() {
    let folder = Folder::new();
    let script = folder.with("train.sh", SCRIPT);
    let output = run(&format!("plan {script}"));
    let text = stdout(&output);
    assert!(text.contains("16 h100: 1f1b d4 t4 p1 b1 z0"), "{text}");
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("--wombat") && notes.contains("--machine"), "{notes}");
    let toml = stdout(&run(&format!("import {script} --machine a100-80g")));
    assert!(toml.contains("machine = \"a100-80g\"") && toml.contains("# left out"), "{toml}");
    let again = folder.with("again.toml", &toml);
    assert!(stdout(&run(&format!("plan {again}"))).contains("16 a100-80g: 1f1b d4 t4 p1 b1 z0"));
}

#[test]
fn bad_files_and_flags_are_refused() {
    let folder = Folder::new();
    let script = folder.with("train.sh", &SCRIPT.replace("LAYERS=32", "LAYERS=$N"));
    let empty = folder.with("empty.sh", "");
    let bytes = folder.path("bytes");
    fs::write(&bytes, [0xff, 0xfe, 0, 1, 2, 3]).unwrap();
    for (line, says) in [
        (script.clone(), &["only a run of the script knows N", "--set N=VALUE", "train.sh"][..]),
        (format!("{script} --set N=many"), &["not a whole number"]),
        (format!("{script} --set N"), &["NAME=VALUE"]),
        (format!("{script} --set N=2 --devices -1"), &["--devices"]),
        (empty, &["not a configuration", "launch script"]),
        (bytes.display().to_string(), &["not a configuration", "launch script"]),
        (folder.root().display().to_string(), &["folder"]),
        ("nowhere.sh".to_owned(), &["nowhere.sh"]),
    ] {
        refused(&run(&format!("import {line}")), says);
    }
}

#[test]
fn configurations_of_other_frameworks_are_questions_by_themselves() {
    let folder = Folder::new();
    let job = folder.with(
        "llama3_70b.toml",
        "# a preset for 64 H100 GPUs\n[model]\nname = \"llama3\"\nflavor = \"70B\"\n[training]\nlocal_batch_size = 1\n\
         seq_len = 8192\nsteps = 100\n[parallelism]\ntensor_parallel_degree = 8\n[activation_checkpoint]\nmode = \"full\"\n",
    );
    let text = stdout(&run(&format!("plan {job}")));
    assert!(text.contains("64 h100: 1f1b d8 t8 p1 b1 z3 full"), "{text}");
    let experiment = folder.with(
        "llama3.yaml",
        "modules:\n  pre_trainer:\n    framework: megatron\n    model: llama3_8B.yaml\n    overrides:\n      \
         micro_batch_size: 1\n      global_batch_size: 64\n      seq_length: 4096\n      train_iters: 10\n      \
         pipeline_model_parallel_size: ${PP:2}\n",
    );
    let toml = stdout(&run(&format!("import {experiment} --set PP=4 --machine h100")));
    assert!(toml.contains("pipeline = 4") && toml.contains("layers = 32"), "{toml}");
    let recipes = folder.with(
        "recipes.py",
        "def a_config() -> ConfigContainer:\n    cfg = llama3_8b_pretrain_config()\n    cfg.model.seq_length = 4096\n    \
         cfg.train.global_batch_size = 64\n    return cfg\ndef b_config() -> ConfigContainer:\n    return a_config()\n",
    );
    refused(&run(&format!("import {recipes}")), &["2 recipes", "--recipe: a_config, b_config"]);
    let toml = stdout(&run(&format!("import {recipes} --recipe b_config --model llama3-8b")));
    assert!(toml.contains("title = \"b_config\"") && toml.contains("batch = 64"), "{toml}");
}

#[test]
fn arguments_of_megatron_deepspeed_are_read() {
    let folder = Folder::new();
    let script = folder.with(
        "old.sh",
        "deepspeed --num_gpus 8 --num_nodes 2 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \
         --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 --global-batch-size 64 --vocab-size 50257 \
         --tensor-model-parallel-size 2 --checkpoint-activations --deepspeed --zero-stage 1 --train-iters 100\n",
    );
    let toml = stdout(&run(&format!("import {script} --machine a100-80g")));
    for line in ["devices = [16]", "recompute = [\"full\"]", "zero = 1", "tensor = 2"] {
        assert!(toml.contains(line), "{line}: {toml}");
    }
}

/// A script whose launch no reader follows, for `--run`.
const LOOPED: &str = "#!/bin/bash\nset -euo pipefail\nfor TP in 1 2 $1; do\n  if [ $TP -lt ${LEAST:-4} ]; then continue; fi\n  torchrun \
    --nproc_per_node ${GPUS:=8} pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \
    --max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --train-iters 10 --bf16 \
    --tensor-model-parallel-size $TP $MORE\n  rm -rf \"$0\"\ndone\n";

#[test]
fn a_run_of_a_script_is_read() {
    let folder = Folder::new();
    let script = folder.with("train.sh", LOOPED);
    refused(&run(&format!("import {script}")), &["a `for` loop", "debubble import --run"]);
    let imported = run(&format!("import {script} --run --env MORE=--sequence-parallel -- 4"));
    if said(&imported).contains("gives no namespaces") {
        eprintln!("skipped: {}", said(&imported));
        return;
    }
    let toml = stdout(&imported);
    assert!(toml.contains("tensor = 4") && toml.contains("devices = [8]"), "{toml}");
    assert!(said(&imported).contains("a copy of this machine"), "{}", said(&imported));
    for (flags, says) in [
        ("--run -- 4", &["MORE: unbound variable", "--env MORE=VALUE"][..]),
        (
            "--run --env MORE= --env LEAST=2 -- 4",
            &["--tensor-model-parallel-size 4", "2 runs that differ", "--launch N"],
        ),
        ("--run --env MORE= --env LEAST=2 --launch 3 -- 4", &["2 runs that differ"]),
        (
            "--run --env MORE=--pipeline-model-parallel-size -- 4",
            &["--pipeline-model-parallel-size has no value"],
        ),
        ("--run --env MORE= -- 3", &["launches nothing"]),
        ("--run --set A=1 -- 4", &["--env"]),
        ("--env A=1", &["--run"]),
        ("--run --nodes 0", &["--nodes"]),
    ] {
        refused(&run(&format!("import {script} {flags}")), says);
    }
    let second = run(&format!("import {script} --run --env MORE= --env LEAST=2 --launch 2 -- 4"));
    assert!(stdout(&second).contains("tensor = 4"));
    assert_eq!(fs::read_to_string(&script).unwrap(), LOOPED);
}
