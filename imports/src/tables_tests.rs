//! What rows of the tables do: old names, values that a plan does not model, schedules of forks, stages of DeepSpeed.

use std::path::PathBuf;

use super::tests::{imported, refused, sizes};
use super::*;
use planning::SetupDocument;

const SIZES: &str = "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \
    --max-position-embeddings 2048 --vocab-size 32000 --global-batch-size 64 --train-iters 10 --bf16";

fn launch(flags: &str) -> String {
    format!("torchrun --nproc-per-node 8 --nnodes 8 pretrain_gpt.py {SIZES} {flags}\n")
}

fn setup(flags: &str) -> SetupDocument {
    imported(&launch(flags)).document.setup.unwrap()
}

#[test]
fn old_names_mean_what_those_of_today_do() {
    let full = Some(vec!["full".to_owned()]);
    assert_eq!(setup("--checkpoint-activations").recompute, full);
    assert_eq!(setup("--activations-checkpoint-method uniform").recompute, full);
    assert_eq!(setup("--recompute-method uniform").recompute, None);
    let blocks = "--activations-checkpoint-method block --activations-checkpoint-num-layers 2";
    assert_eq!(setup(blocks).recompute_layers, Some(2));
    let old = setup("--model-parallel-size 2 --batch-size 4 --ds-sequence-parallel-size 2");
    assert_eq!((old.tensor, old.microbatch, old.context), (Some(2), Some(4), Some(2)));
    let experts =
        setup("--num-experts 8 --topk 1 --moe-expert-parallel-size 8 --moe-layer-recompute");
    assert_eq!(
        (experts.expert, experts.recompute.unwrap().join(" ")),
        (Some(8), "core_attn moe".into())
    );
    let text =
        launch("--num-key-value-heads 4 --normalization rmsnorm --use-rotary-position-embeddings")
            .replace("--vocab-size", "--pad-vocab-size-to");
    let old = imported(&text);
    let model = sizes(&old);
    assert_eq!((model.kv_heads, model.norm.as_deref()), (Some(4), Some("rms")));
    assert_eq!((model.vocabulary, model.positions), (32000, None));
    assert!(old.left_out.is_empty(), "{:?}", old.left_out);
    assert!(
        refused(&launch("--moe-expert-parallel-size $N --num-experts 8")).contains("--moe-expert")
    );
    let given = Given::default();
    let job = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nbatch_size = 16\ntensor_parallel_degree = 2\n\
               enable_float8_linear = true\n[experimental]\npipeline_parallel_degree = 4\n\
               pipeline_parallel_schedule = \"Interleaved1F1B\"\n";
    let files = BTreeMap::new();
    let job = of_text(&Context::new(&files), Path::new("a.toml"), job, &given).ok().unwrap();
    let setup = job.document.setup.unwrap();
    assert_eq!((setup.tensor, setup.pipeline, setup.microbatch), (Some(2), Some(4), Some(4)));
    assert_eq!(setup.schedule.as_deref(), Some("1f1b-i"));
    assert_eq!(job.document.training.precision.as_deref(), Some("fp8"));
}

#[test]
fn modules_in_graphs_are_read_by_either_name() {
    let of = |flags: &str| {
        let training = imported(&launch(flags)).document.training;
        (training.cuda_graphs.unwrap_or_default(), training.cuda_graph_modules)
    };
    let some = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let partial = |names: &[&str]| ("partial".to_owned(), some(names));
    let te = "--cuda-graph-impl transformer_engine";
    assert_eq!(of(&format!("{te} --cuda-graph-modules attn")), partial(&["attn"]));
    assert_eq!(of(&format!("{te} --cuda-graph-scope mlp")), partial(&["mlp"]));
    assert_eq!(of(&format!("{te} --cuda-graph-scope '[attn, mlp]'")), partial(&["attn", "mlp"]));
    assert_eq!(of("--external-cuda-graph --cuda-graph-scope attn"), partial(&["attn"]));
    // Without names, whole layers.
    assert_eq!(of("--enable-cuda-graph"), partial(&["attn", "mlp"]));
    assert_eq!(of(te), partial(&["attn", "mlp"]));
    assert_eq!(of(&format!("{te} --cuda-graph-scope full")), partial(&["attn", "mlp"]));
    assert_eq!(of("--cuda-graph-impl none --cuda-graph-scope attn"), (String::new(), None));
    let whole = "--cuda-graph-impl local --cuda-graph-scope full_iteration";
    assert_eq!(of(whole), ("full".to_owned(), None));
}

#[test]
fn optimizers_are_read_with_what_they_share() {
    let of = |flags: &str| {
        let imported = imported(&launch(flags));
        let zero = imported.document.setup.and_then(|setup| setup.zero);
        let costs = imported.notes.iter().filter(|note| note.starts_with("not modelled"));
        (imported.document.training.optimizer, zero, costs.cloned().collect::<Vec<_>>())
    };
    let named = |name: &str| Some(name.to_owned());
    let muon = "--muon-momentum 0.95 --muon-num-ns-steps 5 --muon-tp-mode blockwise";
    assert_eq!(of(&format!("--optimizer dist_muon {muon}")), (named("muon"), Some(1), Vec::new()));
    assert_eq!(of(&format!("--optimizer muon {muon}")), (named("muon"), Some(0), Vec::new()));
    assert_eq!(of("--optimizer sgd"), (named("sgd"), Some(0), Vec::new()));
    assert_eq!(of("--optimizer adam --use-distributed-optimizer"), (None, Some(1), Vec::new()));
    let share = |flags: &str| imported(&launch(flags)).document.training.optimizer_offload;
    let on_host =
        "--use-distributed-optimizer --overlap-cpu-optimizer-d2h-h2d --optimizer-cpu-offload";
    assert_eq!(share(on_host), Some(1.0));
    assert_eq!(share(&format!("{on_host} --optimizer-offload-fraction 0.5")), Some(0.5));
    assert_eq!(share("--optimizer-offload-fraction 0.5"), None);
    let (_, _, notes) = of("--optimizer muon --muon-num-ns-steps 6 --muon-tp-mode distributed");
    let said = notes.join(" ");
    assert!(
        said.contains("--muon-num-ns-steps 6 (") && said.contains("--muon-tp-mode distributed ("),
        "{said}"
    );
}

#[test]
fn what_a_plan_does_not_model_is_named_with_its_cost() {
    let flags = "--fp8-param-gather --optimizer lion --rampup-batch-size 16 16 1000 --frobnicate 3 \
                 --reset-attention-mask --disable-mystery --log-mystery 3 --lr 1 --no-save-optim --cp-comm-type a2a";
    let other = imported(&launch(flags));
    let note = |imported: &Imported| {
        imported.notes.iter().find(|note| note.starts_with("not modelled: ")).cloned()
    };
    let said = note(&other).unwrap();
    for part in [
        "--fp8-param-gather (may halve the memory of parameters and their gathers)",
        "--optimizer lion (",
        "--rampup-batch-size (",
        "--reset-attention-mask (",
        "--cp-comm-type a2a (",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // No name is known by its beginning.
    assert_eq!(other.left_out, ["--disable-mystery", "--frobnicate", "--log-mystery"]);
    let plain =
        imported(&launch("--optimizer adam --cp-comm-type p2p --lr 1 --context-parallel-size 1"));
    assert_eq!((note(&plain), plain.left_out.len()), (None, 0));
    let bytes = |flags: &str| imported(&launch(flags)).document.training.gradient_bytes;
    assert_eq!(bytes("--main-grads-dtype bf16 --use-precision-aware-optimizer"), Some(2));
    assert_eq!(bytes("--main-grads-dtype fp32"), None);
    let loss = imported(&launch("--fp16-lm-cross-entropy")).document.training.logit_bytes;
    assert_eq!(loss, Some(4));
    // A switch that no row knows may be followed by further arguments.
    assert!(refused(&launch("--mystery $MORE")).contains("MORE, which may have arguments"));
    let dump = |more: &str| {
        let names =
            SIZES.split(" --").map(|one| one.trim_start_matches("--").replacen(' ', " ...... ", 1));
        let lines: Vec<String> = names
            .map(|line| if line.contains(' ') { line } else { format!("{line} ...... True") })
            .map(|line| format!("  {}", line.replace('-', "_")))
            .collect();
        imported(&format!("{}\n{more}\n", lines.join("\n")))
    };
    let defaults = "  optimizer ........ adam\n  wgrad_deferral_limit ........ 0\n  fp8_param_gather ........ False\n  \
                    cp_comm_type ........ ['p2p']\n  anything ........ 3";
    assert_eq!(note(&dump(defaults)), None);
    let said = note(&dump("  optimizer ........ lion\n  fp8_param_gather ........ True")).unwrap();
    assert!(said.contains("lion") && said.contains("fp8-param-gather"), "{said}");
}

#[test]
fn schedules_of_forks_are_theirs() {
    for (flags, name) in [
        ("--enable-zero-bubble --zero-bubble-max-pending-backward 8", "zb-2p"),
        ("--enable-zero-bubble --zero-bubble-max-pending-backward 4", "zb-1p"),
        ("--enable-zero-bubble", "zb-auto"),
        ("--zero-bubble-v-schedule", "zb-v"),
        ("--zero-bubble-v-schedule --zero-bubble-v-schedule-mem-setup half", "v-half"),
        ("--enable-1f1b-v", "1f1b-v"),
        ("--enable-zbh1-pipeline", "zb-h1"),
        ("--interleave-group-size 2 --num-layers-per-virtual-pipeline-stage 3", "gis"),
    ] {
        let own = imported(&launch(&format!("{flags} --pipeline-model-parallel-size 4")));
        let setup = own.document.setup.as_ref().unwrap();
        assert_eq!(
            (setup.schedule.as_deref(), &own.document.framework),
            (Some(name), &None),
            "{flags}"
        );
    }
    assert_eq!(setup("--enable-zero-bubble").schedule, None);
}

#[test]
fn the_stage_of_deepspeed_is_read_or_refused() {
    let launch = |before: &str, more: &str| {
        let flags = launch(&format!("--deepspeed --deepspeed_config $F {more}"));
        format!("F=ds.json\nZ=2\n{before}\n{flags}")
    };
    let json = |stage: &str| format!("{{ \"zero_optimization\": {{ \"stage\": {stage} }} }}");
    let here = |stage: &str| format!("cat > $F <<EOF\n{}\nEOF", json(stage));
    let files = BTreeMap::from([(PathBuf::from("runs/ds.json"), json("3").into_bytes())]);
    let read = |text: &str, folder: &str| {
        let path = Path::new(folder).join("run.sh");
        let read = of_text(&Context::new(&files), &path, text, &Given::default());
        read.map(|own| own.document.setup.unwrap().zero).map_err(|wrong| wrong.message)
    };
    for (before, more, folder, zero) in [
        (here("1"), "", "", 1),
        (here("$Z"), "", "", 2),
        (here("${Z}"), "--zero-stage 0", "", 2),
        (String::new(), "", "runs", 3),
        (String::new(), "--zero-stage 1", "", 1),
    ] {
        assert_eq!(read(&launch(&before, more), folder), Ok(Some(zero)), "{before}{more}{folder}");
    }
    // The value at that place is not known.
    let twice = format!("{}\nZ=3", here("$Z"));
    for before in [String::new(), here("$UNSET"), twice, format!("{}\n{}", here("1"), here("2"))] {
        let wrong = read(&launch(&before, ""), "").unwrap_err();
        assert!(wrong.contains("--deepspeed-config: the ZeRO stage"), "{wrong}");
    }
}
