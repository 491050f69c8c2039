//! Logs of reinforcement learning calibrate `debubble rl`: three public ones of verl, and those of slime and NeMo-RL.

use std::fs;

use serde_json::Value;

use crate::cli::{refused, run, said, stdout};

/// A log of `tests/fuzz/step-log`, whose first line names its source.
fn log(name: &str) -> String {
    format!("{}/tests/fuzz/step-log/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The settings of the run of `verl-turns.log`, as its file has them.
const TURNS: &str = "python3 -m verl.trainer.main_ppo data.train_files=t.parquet data.train_batch_size=384 \
    data.max_prompt_length=4096 data.max_response_length=500 algorithm.adv_estimator=grpo \
    actor_rollout_ref.model.path=models/Qwen2.5-3B-Instruct actor_rollout_ref.model.use_remove_padding=True \
    actor_rollout_ref.actor.use_kl_loss=true actor_rollout_ref.actor.ppo_mini_batch_size=128 \
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 actor_rollout_ref.rollout.gpu_memory_utilization=0.7 \
    actor_rollout_ref.rollout.n=3 trainer.n_gpus_per_node=4 trainer.nnodes=1";
/// Those of `verl-ppo.log`.
const PPO: &str = "rl --model qwen2.5-0.5b --machine a100-80g --devices 1 --prompts 32 --responses 1 --critic --reference \
    --recompute none --engine-memory 0.35";
/// Of the size of `verl-wrapped.log`, whose model is not known.
const WRAPPED: &str = "rl --model qwen2.5-7b --machine h100 --devices 16 --prompts 1024 --responses 8 --reference \
    --mini-batch 256 --steps 1";
const SMALL: &str =
    "rl --model qwen2.5-1.5b --machine a100-80g --devices 8 --prompts 16 --responses 8 --steps 1";

fn json(line: &str) -> Value {
    serde_json::from_str(&stdout(&run(line))).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// The row of `phase` in the list `of` an answer.
fn row<'a>(of: &'a Value, phase: &str) -> &'a Value {
    let mut rows = of.as_array().unwrap().iter();
    rows.find(|row| row["phase"] == phase).unwrap_or_else(|| panic!("no {phase} in {of}"))
}

fn unknown(answer: &Value) -> String {
    answer["log"]["unknown"].to_string()
}

#[test]
fn one_step_predicts_the_other_steps_of_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("run.sh");
    fs::write(&script, TURNS).unwrap();
    let turns =
        format!("rl {} {} --machine a100-80g --json", script.display(), log("verl-turns.log"));
    let ppo = format!("{PPO} --log {} --json", log("verl-ppo.log"));
    for (line, step, time) in [(turns, 5, 308.703), (ppo, 387, 5.634)] {
        let answer = json(&line);
        let held = &answer["log"]["held_out"];
        assert_eq!(
            (&answer["log"]["step"], held["steps"].as_array().unwrap().len()),
            (&step.into(), 6)
        );
        assert!(number(&held["largest"]) < 0.1, "{held}");
        // Calibrated, the step is that of the log, and the errors of others are its range.
        assert!((number(&answer["step_ns"]) / 1e9 / time - 1.0).abs() < 1e-3);
        let [low, high] = [0, 1].map(|end| number(&answer["step_range_ns"][end]) / 1e9);
        assert!(low < time && time < high && high < 1.11 * time, "{low} {high}");
        let update = row(&answer["log"]["phases"], "update");
        let off = number(&update["predicted_ns"]) / number(&update["logged_ns"]) - 1.0;
        assert!((off - number(&update["off"])).abs() < 1e-9 && off < -0.2, "{update}");
        // What a log does not have is said, and has no time of its own.
        assert!(
            unknown(&answer).contains("the time of old log-probabilities"),
            "{}",
            unknown(&answer)
        );
        let phases = &answer["phases"];
        assert!(!phases.to_string().contains("old log-prob"), "{phases}");
        assert!(row(phases, "rest")["time_ns"].as_u64() > Some(0));
    }
}

#[test]
fn a_single_step_calibrates_phases_and_levers() {
    let line = format!("{WRAPPED} --log {}", log("verl-wrapped.log"));
    let answer = json(&format!("{line} --json"));
    let logged = [
        ("rollout", 24.533),
        ("old log-probabilities", 13.636),
        ("reference log-probabilities", 12.548),
        ("update", 35.834),
        ("weights to engines", 5.458),
    ];
    for (phase, seconds) in logged {
        let time = number(&row(&answer["phases"], phase)["time_ns"]) / 1e9;
        assert!((time - seconds).abs() < 1e-3 * seconds, "{phase}: {time}");
    }
    assert!(answer["step_range_ns"].is_null() && answer["log"]["held_out"].is_null());
    assert!(unknown(&answer).contains("the log has no other that counts"));
    assert!(!unknown(&answer).contains("devices of the log"), "its rate says them");
    // A lever keeps the factors: two updates for four take as long, but for what each has by itself.
    let lever = |name: &str| {
        let levers = answer["levers"].as_array().unwrap();
        levers.iter().find(|row| row["lever"] == name).unwrap().clone()
    };
    assert!(number(&lever("longer minibatches")["saved"]).abs() < 0.01);
    assert!(number(&lever("separate devices")["step_ns"]) > 93.5e9);
    let shown = said(&run(&line)) + &stdout(&run(&line));
    for part in [
        "Step 1 of the log takes 93.5 s",
        "the rollout is furthest off",
        "error: unknown",
        "calibrated by step 1",
    ] {
        assert!(shown.contains(part), "no `{part}` in {shown}");
    }
}

#[test]
fn logs_of_slime_nemo_rl_and_trackers_are_read() {
    let of = |name: &str, keys: &str| json(&format!("{SMALL} {keys} --log {} --json", log(name)));
    let slime = of("slime.log", "--reference --response-lengths uniform:10-4096");
    let update = row(&slime["log"]["phases"], "update");
    assert_eq!(update["logged_ns"], 101_250_000_000_u64);
    assert!(unknown(&slime).contains("the longest of prompts"));
    let nemo = of("nemo-rl.log", "--reference");
    let both = row(&nemo["log"]["phases"], "old and reference log-probabilities");
    assert_eq!(both["logged_ns"], 4_780_000_000_u64);
    let [old, reference] = ["old log-probabilities", "reference log-probabilities"]
        .map(|phase| number(&row(&nemo["phases"], phase)["time_ns"]));
    assert!((old + reference - 4.78e9).abs() < 1e3, "{old} {reference}");
    assert!(unknown(&nemo).contains("the lengths of prompts"));
    for name in ["wandb.csv", "lines.jsonl"] {
        let answer = of(name, "");
        assert_eq!(answer["log"]["counted"], 2, "{name}");
    }
}

#[test]
#[ignore = "slow"]
fn lengths_of_a_file_stay() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lengths.txt");
    fs::write(&file, "400\n500\n600\n").unwrap();
    let log = log("verl-wrapped.log");
    let lengths = format!("--response-lengths file:{}", file.display());
    let answer = json(&format!("{WRAPPED} --log {log} {lengths} --json"));
    let tokens = number(&answer["tokens_per_second"]) * number(&answer["step_ns"]) / 1e9;
    // 8192 responses after prompts of 111.1 tokens, as the log has them.
    assert!((tokens / (8192.0 * 611.0) - 1.0).abs() < 1e-2, "{tokens}");
    assert!(!unknown(&answer).contains("lengths of responses spread"));
}

#[test]
fn other_logs_are_refused_with_a_cure() {
    let (turns, ppo, wrapped) =
        (log("verl-turns.log"), log("verl-ppo.log"), log("verl-wrapped.log"));
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let step = "step:1 - timing_s/gen:30 - timing_s/update_actor:40 - timing_s/step:50\n";
    let parallel = written("parallel.log", step);
    let asynchronous = written("async.log", &format!("{} - fully_async/x:1\n", step.trim()));
    let absurd = written(
        "absurd.log",
        &format!(
            "{} - response_length/mean:9 - response_length/max:4\n",
            step.trim().replace(":50", ":90")
        ),
    );
    let empty = written("empty.log", "step:0 - val-core/acc:0.5\n");
    for (line, parts) in [
        (format!("rl {turns}"), &["it is a log of steps", "debubble rl run.sh"][..]),
        (format!("rl {turns} {ppo}"), &["it is a log of steps"]),
        (
            format!("{WRAPPED} --log {turns}"),
            &["have 4608 responses", "1024 x 8 = 8192", "--responses"],
        ),
        (
            format!("{} --log {wrapped}", WRAPPED.replace("--devices 16", "--devices 8")),
            &["those of 16.0 devices", "has 8"],
        ),
        (format!("{SMALL} --log {wrapped}"), &["those of 16.0 devices"]),
        (format!("{} --log {ppo}", PPO.replace("--critic", "")), &["have values", "add --critic"]),
        (format!("{SMALL} --log {parallel}"), &["70.0 s together", "in parallel"]),
        (format!("{SMALL} --log {asynchronous}"), &["beside training"]),
        (format!("{SMALL} --placement separate --log {parallel}"), &["beside training"]),
        (format!("{SMALL} --log {absurd}"), &["the mean of lengths"]),
        (format!("{SMALL} --log {empty}"), &["no line has a phase", "timing_s/gen"]),
        (format!("{SMALL} --log nothing.log"), &["there is no such file"]),
    ] {
        refused(&run(&line), parts);
    }
}

#[test]
fn a_question_in_a_file_names_its_log_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(log("verl-ppo.log"), folder.path().join("run.log")).unwrap();
    let question = folder.path().join("ppo.toml");
    let keys = "model = \"qwen2.5-0.5b\"\nmachine = \"a100-80g\"\ndevices = 1\nprompts = 32\nresponses = 1\ncritic = true\n\
                reference = true\nrecompute = \"none\"\nengine-memory = 0.35\n";
    fs::write(&question, format!("{keys}log = \"run.log\"\n")).unwrap();
    let answer = json(&format!("rl {} --json", question.display()));
    assert_eq!(answer, json(&format!("{PPO} --log {} --json", log("verl-ppo.log"))));
}
