use std::fmt::Write;

use super::*;
use planning::ModelDocument;

/// The question of `text` in a file `run.sh` with nothing beside it.
fn read_text(text: &str, given: &Given) -> Result<Imported, Diagnostic> {
    let files = BTreeMap::new();
    of_text(&Context::new(&files), Path::new("run.sh"), text, given)
}

pub(super) fn imported(text: &str) -> Imported {
    read_text(text, &Given::default()).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

pub(super) fn refused(text: &str) -> String {
    let wrong = read_text(text, &Given::default()).err().unwrap();
    format!("{} {}", wrong.message, wrong.help.unwrap_or_default())
}

pub(super) fn sizes(imported: &Imported) -> &planning::SizesDocument {
    match &imported.document.model {
        ModelDocument::Sizes(sizes) => sizes,
        ModelDocument::File(_) => panic!("a file"),
    }
}

const SCRIPT: &str = r#"#!/bin/bash
# --num-layers 99 in a comment is none.
NODES=${SLURM_NNODES:-2}
GPUS=8
LAYERS=$((4 * (6 + 2)))
TP=2 PP=4
SIZES="--num-layers $LAYERS --hidden-size 4096 \
  --num-attention-heads 32"
MODEL=(
  $SIZES
  --group-query-attention --num-query-groups 8   # grouped
  --ffn-hidden-size 14336 --swiglu
  --normalization RMSNorm
  --position-embedding-type rope --max-position-embeddings 8192
  --untie-embeddings-and-output-weights --disable-bias-linear
  --seq-length=8192 --vocab_size 128256
)
TRAIN=( "--micro-batch-size 1" --global-batch-size 128 --train-iters 1000 --lr 3e-4 --bf16 )
if [[ "$GPUS" == "8" && $PP -gt 1 ]]; then
  TRAIN+=(--num-layers-per-virtual-pipeline-stage 2)
else
  TRAIN+=(--num-layers-per-virtual-pipeline-stage 4)
fi
if [ -n "$WANDB_API_KEY" ]; then TRAIN+=(--hidden-size 1); fi
case "$TP" in
  1) EXTRA="" ;;
  2|4) EXTRA="--sequence-parallel --tp-comm-overlap" ;;
  *) EXTRA="--hidden-size 4" ;;
esac
for i in $(seq 3); do
  OTHERS+=(--hidden-size 5)
done
[ "$PP" -ge 2 ] && EXTRA="$EXTRA --frobnicate 3"
torchrun --nproc_per_node $GPUS --nnodes $NODES pretrain_gpt.py ${MODEL[@]} "${TRAIN[@]}" \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} --use-distributed-optimizer \
  --overlap-grad-reduce --recompute-granularity selective --recompute-modules core_attn layernorm \
  --fp8-format hybrid $EXTRA --save $1
"#;

#[test]
fn a_script_is_followed_without_being_run() {
    let imported = imported(SCRIPT);
    let model = sizes(&imported);
    assert_eq!((model.layers, model.hidden, model.heads), (32, 4096, 32));
    assert_eq!((model.kv_heads, model.ffn, model.vocabulary), (Some(8), Some(14336), 128_256));
    assert_eq!((model.gated, model.tied, model.biases), (Some(true), Some(false), Some(false)));
    assert_eq!((model.positions, model.norm.as_deref()), (None, Some("rms")));
    let document = &imported.document;
    assert_eq!((document.batch, document.sequence), (128, Some(8192)));
    assert!((document.tokens - 1000.0 * 128.0 * 8192.0).abs() < 1.0);
    assert_eq!(document.cluster[0].devices, Some(vec![16]));
    let setup = document.setup.as_ref().unwrap();
    assert_eq!((setup.tensor, setup.pipeline, setup.chunks), (Some(2), Some(4), Some(4)));
    assert_eq!(setup.recompute.as_ref().unwrap().join(" "), "core_attn layernorm");
    assert_eq!((setup.zero, setup.microbatch), (Some(1), Some(1)));
    let training = &document.training;
    assert_eq!(training.precision.as_deref(), Some("fp8"));
    assert_eq!((training.sequence_parallel, training.overlap_tensor), (Some(true), Some(true)));
    assert_eq!(imported.left_out, ["--frobnicate"]);
    assert!(imported.notes.iter().any(|note| note.contains("--machine")), "{:?}", imported.notes);
}

#[test]
fn the_question_of_a_script_can_be_written_and_read() {
    let text = imported(SCRIPT).to_toml().unwrap();
    assert!(text.starts_with("# ") && text.contains("--frobnicate"), "{text}");
    let again: Document = toml::from_str(&text).unwrap();
    assert_eq!(again, imported(SCRIPT).document);
}

#[test]
fn what_only_a_run_knows_is_asked_for() {
    let text = SCRIPT.replace("PP=4", "PP=$STAGES");
    let wrong = refused(&text);
    assert!(wrong.contains("only a run of the script knows STAGES"), "{wrong}");
    assert!(wrong.contains("--set STAGES=VALUE"), "{wrong}");
    let variables = [("STAGES".to_owned(), "8".to_owned())].into();
    let given = Given { variables, devices: Some(64), ..Given::default() };
    let imported = read_text(&text, &given).ok().unwrap();
    assert_eq!(imported.document.setup.unwrap().pipeline, Some(8));
    assert_eq!(imported.document.cluster[0].devices, Some(vec![64]));
    for (from, to, says) in [
        ("--vocab_size 128256", "", "--vocabulary"),
        ("--global-batch-size 128", "--global-batch-size many", "not a whole number"),
        ("--seq-length=8192", "", "is missing"),
    ] {
        let wrong = refused(&SCRIPT.replace(from, to));
        assert!(wrong.contains(says), "{from}: {wrong}");
    }
    assert!(refused("echo hello").contains("launch script"));
}

#[test]
fn files_of_sizes_alone_are_read() {
    let text = "MODEL_ARGS=\" \\\n --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 \\\n \
                --vocab-size 100 \"\n";
    let imported = imported(text);
    assert_eq!((sizes(&imported).layers, imported.document.batch), (2, 1));
}

#[test]
fn experts_stand_in_the_layers_of_their_pattern() {
    let moe = |pattern: &str| {
        let more = format!(
            "--num-experts 8 --moe-ffn-hidden-size 512 --moe-layer-freq {pattern} $EXTRA --save"
        );
        SCRIPT.replace("$EXTRA --save", &more)
    };
    let of = |pattern: &str| {
        let imported = imported(&moe(pattern));
        let model = sizes(&imported);
        (model.dense_layers, model.experts_every, model.dense_ffn, imported.notes.len())
    };
    assert_eq!(of("'[0]*3+[1]*29'"), (Some(3), None, Some(14336), 1));
    assert_eq!(of("[1]*32"), (None, None, None, 1));
    assert_eq!(of("'([0,1]*16)'"), (None, Some(2), Some(14336), 1));
    assert_eq!(of("2"), (None, Some(2), Some(14336), 2));
    assert!(refused(&moe("'[0]*1+[1]*3+[0]*28'")).contains("not a pattern of layers"));
    assert!(refused(&moe("'[1]*99999999999'")).contains("not a pattern of layers"));
}

#[test]
fn values_that_name_values_end() {
    let mut text = "A0=--num-layers\n".to_owned();
    for at in 1..64 {
        writeln!(text, "A{at}=\"$A{0} $A{0}\"", at - 1).unwrap();
    }
    let wrong = refused(&text);
    assert!(wrong.contains("beyond"), "{wrong}");
    let deep = format!("X={}--num-layers{}", "${A:-".repeat(100), "}".repeat(100));
    assert!(!refused(&deep).is_empty());
}

/// A dump as a run prints it, and lines of steps.
fn log() -> String {
    let mut text =
        "[rank0] starting\n------------------------ arguments ------------------------\n"
            .to_owned();
    for (name, value) in [
        ("add_bias_linear", "False"),
        ("bf16", "True"),
        ("context_parallel_size", "1"),
        ("expert_model_parallel_size", "1"),
        ("ffn_hidden_size", "14336"),
        ("global_batch_size", "256"),
        ("group_query_attention", "True"),
        ("hidden_size", "4096"),
        ("kv_channels", "128"),
        ("max_position_embeddings", "4096"),
        ("micro_batch_size", "2"),
        ("normalization", "RMSNorm"),
        ("num_attention_heads", "32"),
        ("num_experts", "None"),
        ("num_layers", "32"),
        ("num_query_groups", "8"),
        ("overlap_grad_reduce", "True"),
        ("padded_vocab_size", "32000"),
        ("pipeline_model_parallel_size", "2"),
        ("position_embedding_type", "rope"),
        ("recompute_granularity", "None"),
        ("recompute_modules", "None"),
        ("seq_length", "4096"),
        ("sequence_parallel", "True"),
        ("swiglu", "True"),
        ("tensor_model_parallel_size", "4"),
        ("train_iters", "5000"),
        ("untie_embeddings_and_output_weights", "True"),
        ("use_distributed_optimizer", "True"),
        ("world_size", "64"),
    ] {
        writeln!(text, "  {name} {} {value}", ".".repeat(48 - name.len())).unwrap();
    }
    text += "-------------------- end of arguments ---------------------\n";
    for at in 1..=12 {
        let step = if at == 1 { 60_000.0 } else { 5000.0 + f64::from(at) };
        writeln!(
            text,
            " [2026-01-01] iteration {at}/5000 | consumed samples: {at} | elapsed time per iteration (ms): {step:.1} | lm loss: 9"
        )
        .unwrap();
    }
    text
}

#[test]
fn the_dump_of_a_log_is_a_question_with_its_steps() {
    let imported = imported(&log());
    let model = sizes(&imported);
    assert_eq!((model.layers, model.kv_heads, model.head_size), (32, Some(8), None));
    assert_eq!((model.biases, model.tied, model.experts), (Some(false), Some(false), None));
    let setup = imported.document.setup.as_ref().unwrap();
    assert_eq!((setup.tensor, setup.pipeline, setup.expert), (Some(4), Some(2), None));
    assert_eq!(imported.document.cluster[0].devices, Some(vec![64]));
    assert!(imported.left_out.is_empty());
    let measured = imported.measured.unwrap();
    assert_eq!((measured.steady.len(), measured.step), (11, 5.007));
    assert!(
        imported.notes.iter().any(|note| note.contains("11 steady iterations")),
        "{:?}",
        imported.notes
    );
}

#[test]
fn a_log_of_anything_is_no_question() {
    for text in [
        "",
        "\u{0}\u{1}\u{2}",
        "num_layers ......",
        "\u{1b}[31m  num_layers .... 3\n hidden_size ... x",
    ] {
        assert!(!refused(text).is_empty());
    }
}

/// The arguments of Megatron-LM's functional test gpt3_mcore_te_tp2_pp2_dsa.
const SPARSE: &str = "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 \
     --num-attention-heads 8 --multi-latent-attention --q-lora-rank 192 --kv-lora-rank 64 --qk-head-dim 16 \
     --qk-pos-emb-head-dim 8 --v-head-dim 16 --experimental-attention-variant dsa --disable-bias-linear \
     --dsa-indexer-n-heads 64 --dsa-indexer-head-dim 128 --dsa-indexer-topk 2048 --dsa-indexer-loss-coeff 0.01 \
     --seq-length 1024 --vocab-size 51200 --micro-batch-size 4 --global-batch-size 32 --bf16 \
     --position-embedding-type rope";

#[test]
fn an_indexer_is_read_with_the_defaults_that_a_plan_does_not_have() {
    let own = imported(SPARSE);
    let read = sizes(&own);
    let indexer = [read.index_heads, read.index_head_size, read.index_top_k];
    assert_eq!(indexer, [Some(64), Some(128), Some(2048)]);
    assert_eq!((read.latent_keys, read.head_size), (Some(64), Some(24)));
    let noted = own.to_toml().unwrap();
    assert!(noted.contains("--dsa-kernel-backend is none: a plan has fused"), "{noted}");
    assert!(noted.contains("--dsa-indexer-use-sparse-loss is not there"), "{noted}");
    let untrained = SPARSE.replace("coeff 0.01", "coeff 0.0");
    let noted = imported(&untrained).to_toml().unwrap();
    assert!(noted.contains("--dsa-indexer-loss-coeff is not there"), "{noted}");
    let fused = format!("{SPARSE} --dsa-indexer-use-sparse-loss --dsa-kernel-backend tilelang");
    let noted = imported(&fused).to_toml().unwrap();
    assert!(!noted.contains("--dsa-"), "{noted}");
    // Without the variant it is dense.
    let dense = SPARSE.replace("--experimental-attention-variant dsa", "");
    assert_eq!(sizes(&imported(&dense)).index_heads, None);
    let shared = refused(&format!("{SPARSE} --dsa-indexer-topk-freq 4"));
    assert!(shared.contains("dsa-indexer-topk-freq") && shared.contains("take it out"), "{shared}");
}
