//! Advice for a run: its log calibrates the machine, gains are those of plans, the difference of a script is read as the
//! change, and a growing log is followed.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cli::{Folder, refused, run, stdout};

const SCRIPT: &str = "#!/bin/bash\n# Llama 3 8B\nTP=4\nexport PP=${PP:-4}\nMODEL_ARGS=(\n  --num-layers 32\n  \
    --hidden-size 4096\n  --ffn-hidden-size 14336\n  --num-attention-heads 32\n  --group-query-attention\n  \
    --num-query-groups 8\n  --swiglu\n  --normalization RMSNorm\n  --disable-bias-linear\n  \
    --position-embedding-type rope\n  --untie-embeddings-and-output-weights\n  --seq-length 8192\n  \
    --max-position-embeddings 8192\n  --vocab-size 128256\n)\ntorchrun --nproc-per-node 8 --nnodes 8 pretrain_gpt.py \\\n  \
    \"${MODEL_ARGS[@]}\" \\\n  --tensor-model-parallel-size $TP \\\n  --pipeline-model-parallel-size $PP \\\n  \
    --sequence-parallel \\\n  --use-distributed-optimizer \\\n  --micro-batch-size 1 \\\n  --global-batch-size 128 \\\n  \
    --recompute-granularity full \\\n  --recompute-method uniform \\\n  --recompute-num-layers 1 \\\n  --bf16 \\\n  \
    --train-iters 1000\n";

fn iteration(at: usize, seconds: f64) -> String {
    let ms = seconds * 1e3;
    format!(
        " iteration {at:8}/ 1000 | elapsed time per iteration (ms): {ms:.1} | global batch size: 128 |\n"
    )
}

/// A log of a slow start and `steps`.
fn log(steps: &[f64]) -> String {
    let mut text = iteration(1, 40.0);
    for (at, step) in (2..).zip(steps) {
        text += &iteration(at, *step);
    }
    text
}

fn advice(line: &str) -> Value {
    serde_json::from_str(&stdout(&run(&format!("advise {line} --json")))).unwrap()
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {value}"))
}

#[test]
fn a_log_calibrates_the_prediction_of_its_set_up() {
    let folder = Folder::new();
    let script = folder.with("train.sh", SCRIPT);
    let blind = number(&advice(&format!("{script} --machine h100")), "/current/step_ns") / 1e9;
    for share in [1.3, 0.9] {
        let own = folder.with("run.log", &log(&[share * blind; 12]));
        let found = advice(&format!("{script} {own} --machine h100"));
        let calibration = &found["calibration"];
        assert_eq!(calibration["iterations"], 12);
        let [measured, before, after] = ["measured", "blind", "calibrated"]
            .map(|name| number(calibration, &format!("/{name}")));
        assert!((before / blind - 1.0).abs() < 1e-6, "{calibration}");
        assert!(
            (after / measured - 1.0).abs() < 0.4 * (before / measured - 1.0).abs(),
            "{calibration}"
        );
        assert_eq!(calibration["is_unknown"], false);
    }
    let far = folder.with("far.log", &log(&[4.0 * blind; 12]));
    let found = advice(&format!("{script} {far} --machine h100"));
    assert_eq!(found["calibration"]["is_unknown"], true);
    let all = found["changes"].as_array().unwrap();
    assert!(all.iter().all(|change| change["certainty"] == "not-resolved"), "{found}");
}

/// The calibrated machine is written also where no change is likely to help; its plans have the errors of calibrated pairs,
/// and default software is not counted again.
#[test]
fn a_calibrated_machine_is_the_machine_of_the_software_that_ran() {
    let folder = Folder::new();
    let script = folder.with("train.sh", SCRIPT);
    let blind = number(&advice(&format!("{script} --machine b200")), "/current/step_ns") / 1e9;
    let out = folder.path("out");
    let export = |times: f64| -> Value {
        let log = folder.with("run.log", &log(&[times * blind; 12]));
        let line =
            format!("advise {script} {log} --machine b200 --export {} --json", out.display());
        serde_json::from_str(&stdout(&run(&line))).unwrap()
    };
    let found = export(1.3);
    let machine = fs::read_to_string(out.join("machine.toml")).unwrap();
    assert!(machine.contains("[[calibrated]]") && machine.contains("groups = [4, 4, 1, 1, 1]"));
    let question = fs::read_to_string(out.join("question.toml")).unwrap();
    let plan = |from: &str, to: &str| -> Value {
        assert!(question.contains(from), "{question}");
        fs::write(out.join("own.toml"), question.replace(from, to)).unwrap();
        let path = out.join("own.toml");
        let answer = stdout(&run(&format!("plan {} --json", path.display())));
        serde_json::from_str::<Value>(&answer).unwrap()["plans"][0].clone()
    };
    let own = plan("[setup]", "[setup]");
    let step = number(&own, "/step_ns");
    assert!((step / 1e9 / number(&found, "/calibration/calibrated") - 1.0).abs() < 1e-3, "{own}");
    let bar =
        |plan: &Value| ["/error_low", "/error_high"].map(|key| (100.0 * number(plan, key)).round());
    assert_eq!((bar(&own), &own["stock_days"]), ([11.0, 13.0], &Value::Null));
    let stock = plan("[training]", "[training]\ntuning = \"stock\"");
    assert!((number(&stock, "/step_ns") / step - 1.0).abs() < 0.03, "{stock} {step}");
    assert_eq!(bar(&stock), [11.0, 13.0]);
    let groups = plan("tensor = 4", "tensor = 2");
    assert_eq!(bar(&groups), [12.0, 14.0]);
    // Of another model nothing was measured.
    let other = plan("layers = 32", "layers = 16");
    assert!(number(&other, "/error_high") > 0.2, "{other}");
    // A run so far off that no gain is likely says nothing of other errors.
    fs::remove_dir_all(&out).unwrap();
    assert_eq!(export(1.6)["calibration"]["is_unknown"], true);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
    let [own, stock] = [("[setup]", "[setup]"), ("[training]", "[training]\ntuning = \"stock\"")]
        .map(|(from, to)| plan(from, to));
    assert!(number(&own, "/error_high") > 0.2, "{own}");
    assert!((number(&stock, "/step_ns") / number(&own, "/step_ns") - 1.0).abs() < 0.03, "{stock}");
    let wrong = machine.replace("precision = \"bf16\"\ngroups", "precision = \"bf17\"\ngroups");
    fs::write(out.join("machine.toml"), wrong).unwrap();
    let out = run(&format!("plan {}", out.join("question.toml").display()));
    refused(&out, &["precision of [[calibrated]] is `bf17`"]);
}

#[test]
fn a_gain_is_that_of_the_plan_with_the_change() {
    let folder = Folder::new();
    let script = folder.with("train.sh", SCRIPT);
    let found = advice(&format!("{script} --machine h100"));
    let now = number(&found, "/current/step_ns");
    let without = SCRIPT
        .replace("--recompute-granularity full", "")
        .replace("--recompute-method uniform", "");
    let without = without.replace("--recompute-num-layers 1", "").replace("  \\\n", "");
    let without = folder.with("without.sh", &without);
    let plan = stdout(&run(&format!(
        "import {without} --machine h100 --output {}",
        folder.path("w.toml").display()
    )));
    assert!(plan.is_empty());
    let plan = stdout(&run(&format!("plan {} --json", folder.path("w.toml").display())));
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let expected = number(&plan, "/plans/0/step_ns");
    let all = found["changes"].as_array().unwrap();
    let change = all.iter().find(|one| one["area"] == "recomputation").unwrap();
    assert_eq!(change["change"], "recompute = none");
    assert_eq!(number(change, "/step_ns"), expected, "{change}");
    assert!((number(change, "/gain") - (1.0 - expected / now)).abs() < 1e-9);
    // The larger, the earlier; and all together is no worse than any part in this trainer.
    let gains: Vec<f64> = all.iter().map(|one| number(one, "/gain")).collect();
    assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
    let together = all.iter().find(|one| one["area"] == "together").unwrap();
    let own = all.iter().filter(|one| one["framework"] == "Megatron-LM");
    assert!(
        own.into_iter().all(|one| number(one, "/gain") <= number(together, "/gain") + 1e-9),
        "{found}"
    );
}

/// `text` with the unified difference `patch`, whose lines must all be found.
fn applied(text: &str, patch: &str) -> String {
    let old: Vec<&str> = text.lines().collect();
    let (mut new, mut at) = (String::new(), 0);
    for line in patch.lines().skip(2) {
        if let Some(head) = line.strip_prefix("@@ -") {
            let start: usize = head.split([',', ' ']).next().unwrap().parse().unwrap();
            old[at..start - 1].iter().for_each(|kept| new += &format!("{kept}\n"));
            at = start - 1;
            continue;
        }
        let (sign, rest) = line.split_at(1);
        if sign != "+" {
            assert_eq!(old[at], rest, "{patch}");
            at += 1;
        }
        if sign != "-" {
            new += &format!("{rest}\n");
        }
    }
    old[at..].iter().for_each(|kept| new += &format!("{kept}\n"));
    new
}

#[test]
fn the_difference_of_a_script_is_read_as_the_change() {
    let folder = Folder::new();
    let script = folder.with("train.sh", SCRIPT);
    let found = advice(&format!("{script} --machine h100"));
    let all = found["changes"].as_array().unwrap();
    let mut written = 0;
    for (at, change) in (1..).zip(all) {
        let out = folder.path(&format!("out-{at}"));
        let line =
            format!("advise {script} --machine h100 --export {} --change {at}", out.display());
        stdout(&run(&line));
        let difference = out.join("train.sh.diff");
        assert_eq!(difference.exists(), change["framework"] == "Megatron-LM", "{change}");
        if !difference.exists() {
            continue;
        }
        written += 1;
        let patched = folder.path(&format!("patched-{at}.sh"));
        let text = fs::read_to_string(&difference).unwrap();
        fs::write(&patched, applied(SCRIPT, &text)).unwrap();
        let again = advice(&format!("{} --machine h100", patched.display()));
        assert_eq!(again["current"]["step_ns"], change["step_ns"], "{text}");
    }
    assert!(written > 3, "{found}");
}

/// Rows of `scenarios/paper/today-simumax.csv`: the example's 0.843 s, and 0.7255 s with t = 2 and p = 1.
#[test]
fn a_gain_that_was_measured_lies_within_its_error() {
    let run = "scenarios/runs/llama3-70b-12-layers";
    let found = advice(&format!("{run}.sh {run}.log --machine b200"));
    assert_eq!(number(&found, "/calibration/measured"), 0.843);
    let all = found["changes"].as_array().unwrap();
    let change = all.iter().find(|one| one["area"] == "groups").unwrap();
    assert_eq!(change["change"], "d4 t2 p1 b1 z1");
    // Nothing was measured of other schedules.
    let other = all.iter().find(|one| one["area"] == "other-trainer").unwrap();
    assert!(number(other, "/gain") > number(other, "/error") && other["certainty"] == "likely");
    let measured = 1.0 - 0.7255 / 0.843;
    assert!((number(change, "/gain") - measured).abs() < number(change, "/error"), "{change}");
    assert!((number(change, "/gain") - measured).abs() < 0.06, "{change}");
}

#[test]
fn a_growing_log_is_followed() {
    let folder = Folder::new();
    let mut steps = vec![2.0; 20];
    steps.extend([2.6; 10]);
    let path = folder.with("run.log", &log(&steps));
    let before = fs::read_dir(folder.root()).unwrap().count();
    let text = stdout(&run(&format!("advise {path} --watch --timeout 200ms")));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("steady at 2.000 s") && lines[1].contains("+30.00 %"), "{text}");
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), before);
    let script = folder.with("train.sh", SCRIPT);
    let json = stdout(&run(&format!("advise {script} {path} --watch --timeout 200ms --json")));
    let causes: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(causes.iter().map(|one| &one["cause"]).collect::<Vec<_>>(), ["steady", "unknown"]);
    assert!(causes[0]["words"].as_str().unwrap().contains("predicted"));
}

#[test]
fn lines_that_come_later_are_seen() {
    let folder = Folder::new();
    let path = folder.with("run.log", &log(&[2.0; 12]));
    let child = Command::new(env!("CARGO_BIN_EXE_debubble"))
        .args(["advise", &path, "--watch", "--timeout", "5s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let mut more = String::new();
    (14..22).for_each(|at| more += &iteration(at, 3.0));
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(more.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("3.000 s a step instead of 2.000 s"), "{text}");
}

#[test]
fn a_log_of_another_run_is_refused() {
    let folder = Folder::new();
    let script = folder.with("train.sh", SCRIPT);
    let blind = number(&advice(&format!("{script} --machine h100")), "/current/step_ns") / 1e9;
    let own = log(&[1.1 * blind; 12]);
    let dump = |tensor: u64| {
        format!(
            "  num_layers ........................... 32\n  hidden_size .......................... 4096\n  \
             world_size ........................... 64\n  tensor_model_parallel_size ........... {tensor}\n"
        )
    };
    let batch = folder.with("batch.log", &own.replace("size: 128", "size: 192"));
    let set_up = folder.with("set-up.log", &(dump(2) + &own));
    let drift: Vec<f64> = (0..30).map(|at| blind * (1.0 + 0.03 * f64::from(at))).collect();
    let drift = folder.with("drift.log", &log(&drift));
    for (log, says) in [
        (&batch, ["another run", "global batch 192 in the log, 128"]),
        (&set_up, ["another run", "tensor parallelism 2 in the log, 4"]),
        (&drift, ["drift.log", "not steady"]),
    ] {
        refused(&run(&format!("advise {script} {log} --machine h100")), &says);
    }
    // What a log says in part, and as the script does, is not a contradiction.
    let part = folder.with("part.log", &(dump(4) + &own));
    assert_eq!(advice(&format!("{script} {part} --machine h100"))["calibration"]["iterations"], 12);
}

/// A dump of the arguments of [`SCRIPT`], without recomputation.
const DUMP: &str = "  num_layers ........................... 32\n  hidden_size .......................... 4096\n  \
    ffn_hidden_size ...................... 14336\n  num_attention_heads .................. 32\n  \
    group_query_attention ................ True\n  num_query_groups ..................... 8\n  \
    swiglu ............................... True\n  normalization ........................ RMSNorm\n  \
    add_bias_linear ...................... False\n  position_embedding_type .............. rope\n  \
    untie_embeddings_and_output_weights .. True\n  seq_length ........................... 8192\n  \
    max_position_embeddings .............. 8192\n  vocab_size ........................... 128256\n  \
    world_size ........................... 64\n  tensor_model_parallel_size ........... 4\n  \
    pipeline_model_parallel_size ......... 4\n  sequence_parallel .................... True\n  \
    use_distributed_optimizer ............ True\n  micro_batch_size ..................... 1\n  \
    global_batch_size .................... 128\n  bf16 ................................. True\n  \
    train_iters .......................... 1000\n";

#[test]
fn the_arguments_of_a_log_count_before_those_of_a_script() {
    let folder = Folder::new();
    let script = folder.with("train.sh", SCRIPT);
    let own = folder.with("run.log", &(DUMP.to_owned() + &log(&[2.0; 12])));
    let found = advice(&format!("{script} {own} --machine h100"));
    let alone = advice(&format!("{own} --machine h100"));
    assert_eq!(found["current"], alone["current"]);
    let notes = found["notes"].to_string();
    assert!(
        notes.contains("the log says recompute none, the script")
            && notes.contains("12 steady iterations"),
        "{notes}"
    );
    let other = folder
        .with("ramp.log", &(DUMP.to_owned() + &log(&[2.0; 12]).replace("size: 128", "size: 64")));
    let found = advice(&format!("{other} --machine h100"));
    assert!(found["calibration"].is_null());
    assert!(found["notes"].to_string().contains("global batch 64 in the log, 128"), "{found}");
}

#[test]
fn a_new_batch_is_predicted_and_a_pipe_ends_with_its_time() {
    let folder = Folder::new();
    let script = folder.with("train.sh", SCRIPT);
    let later: String = (14..30).map(|at| iteration(at, 4.0).replace("128", "256")).collect();
    let path = folder.with("run.log", &(log(&[2.0; 12]) + &later));
    let line = format!("advise {script} {path} --machine h100 --watch --timeout 200ms");
    let text = stdout(&run(&line));
    let last = text.lines().last().unwrap();
    assert!(
        last.contains("steady at 4.000 s") && last.contains("for a global batch of 256"),
        "{text}"
    );
    let pipe = folder.path("pipe");
    if Command::new("mkfifo").arg(&pipe).status().is_ok_and(|made| made.success()) {
        let line = format!("advise {script} {} --watch --timeout 200ms", pipe.display());
        assert!(stdout(&run(&line)).is_empty());
    }
}

#[test]
fn bad_files_are_refused() {
    let folder = Folder::new();
    let script = folder.with("train.sh", SCRIPT);
    let few = folder.with("few.log", &log(&[1.0]));
    let bytes = folder.path("bytes.log");
    let mut hostile = vec![0xff; 1 << 20];
    hostile.extend(b"\x1b[31m elapsed time per iteration (ms): 1e999 |\n");
    fs::write(&bytes, hostile).unwrap();
    let mut search = String::from("tokens = 1e9\nbatch = 8\nsequence = 1024\n");
    let _ =
        writeln!(search, "model = {{ layers = 4, hidden = 256, heads = 4, vocabulary = 1000 }}");
    search += "[[cluster]]\nmachine = \"h100\"\ndevices = 8\n";
    let search = folder.with("search.toml", &search);
    let bytes = bytes.display();
    for (line, says) in [
        (format!("{script} {few}"), &["few.log", "2 iterations", "three steady iterations"][..]),
        (format!("{script} {bytes}"), &["bytes.log"]),
        (few.clone(), &["few.log", "not a configuration of a training run"]),
        (search, &["no set-up", "[setup]"]),
        (format!("{script} --machine nothing"), &["nothing"]),
        ("nowhere.log --watch --timeout 1s".to_owned(), &["nowhere.log"]),
        (format!("{script} --timeout 1s"), &["--watch"]),
        (format!("{script} --change 1"), &["--export"]),
        (
            format!("{script} --machine h100 --export {} --change 99", folder.path("x").display()),
            &["no change 99"],
        ),
    ] {
        refused(&run(&format!("advise {line}")), says);
    }
}
