//! `debubble plan`: steps of the event engine, under jitter, stalls and devices that straggle.

use std::fs;

use serde_json::Value;

use crate::cli::stdout;
use crate::plan::{command, json, refusal};

/// One replica of four stages, ordered by `schedule`; `noise` are lines of `[noise]`.
fn question(devices: u64, schedule: &str, noise: &str) -> String {
    format!(
        "tokens = 1e9\nbatch = 128\nsequence = 1024\nplans = 1\n[model]\nlayers = 24\n\
         hidden = 2048\nheads = 16\nvocabulary = 50304\n[[cluster]]\nmachine = \"a100-80g\"\n\
         devices = [{devices}]\n[search]\ntensor = [1]\npipeline = [4]\nmicrobatch = [1]\n\
         schedule = [\"{schedule}\"]\nrecompute = [\"none\"]\n[noise]\n{noise}\n"
    )
}

fn plan(devices: u64, schedule: &str, noise: &str) -> Value {
    json(&question(devices, schedule, noise))["plans"][0].clone()
}

fn nanos(plan: &Value, key: &str) -> u64 {
    plan[key].as_u64().unwrap_or_else(|| panic!("{key} of {plan}"))
}

/// The boundary between two steps is the same in every replica: `simulate` leaves it out of its
/// statistics of many.
#[test]
fn simulate_draws_the_same_steps_from_the_same_seed() {
    for schedule in ["1f1b", "zb-v"] {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("plan.toml");
        let noise = "jitter = 0.1\nstall = \"0.01:5ms\"\nreplicas = 60\nseed = 3";
        fs::write(&path, question(4, schedule, noise)).unwrap();
        let winner = folder.path().join("winner");
        let out =
            command().arg("plan").arg(&path).arg("--json").arg("--export").arg(&winner).output();
        let answer: Value = serde_json::from_str(&stdout(&out.unwrap())).unwrap();
        let plan = &answer["plans"][0];
        let mut simulate = command();
        simulate.args(["simulate", "--json", "--jitter", "pass=lognormal:0.1", "--stall"]);
        simulate.args(["0.01:5ms", "--seed", "3", "--replicas", "60"]);
        let out = simulate.arg(winner.join("scenario.toml")).output().unwrap();
        let simulated: Value = serde_json::from_str(&stdout(&out)).unwrap();
        let result = &simulated["results"][0];
        let between = nanos(plan, "step_ns") - nanos(&result["noise_free"], "makespan_ns");
        let makespan = &result["monte_carlo"]["makespan_ns"];
        for (ours, theirs) in [("step_p50_ns", "p50"), ("step_p95_ns", "p95")] {
            assert_eq!(nanos(plan, ours), nanos(makespan, theirs) + between, "{schedule} {ours}");
        }
    }
}

#[test]
fn the_engine_says_how_far_it_is_from_replay() {
    let plan = plan(16, "1f1b", "jitter = 0.0");
    let [engine, replay] = ["step_ns", "replay_step_ns"].map(|key| nanos(&plan, key));
    // Replay counts a transfer with every pass, also where a stage sends one way only.
    assert!(engine != replay && engine.abs_diff(replay) * 20 < replay, "{engine} {replay}");
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, question(16, "1f1b", "jitter = 0.0")).unwrap();
    let text = stdout(&command().arg("plan").arg(&path).arg("--details").output().unwrap());
    #[allow(clippy::cast_precision_loss)]
    let over = 100.0 * (engine as f64 / replay as f64 - 1.0);
    assert!(text.contains("over replay") && text.contains(&format!("{over:+.2} %")), "{text}");
}

#[test]
fn a_slow_device_holds_up_all_replicas() {
    let steps = |noise: &str| {
        let plan = plan(16, "1f1b", &format!("jitter = 0.0\nreplicas = 20\n{noise}"));
        ["step_ns", "step_p50_ns", "step_p95_ns"].map(|key| nanos(&plan, key))
    };
    let [nominal, p50, p95] = steps("");
    assert_eq!([p50, p95], [nominal; 2]);
    // Wherever it is: by up to a half, less where its stage has less to do than others.
    for device in [0, 6, 15] {
        let [same, p50, p95] = steps(&format!("slowdown = \"device:{device}=1.5\""));
        assert_eq!([same, p50], [nominal, p95]);
        assert!(p50 * 100 > nominal * 120 && p50 * 100 < nominal * 151, "{p50} {nominal}");
    }
    let [_, twice, _] = steps("slowdown = [\"device:0=1.5\", \"device:1=1.5\"]");
    let [_, once, _] = steps("slowdown = \"device:0=1.5\"");
    assert_eq!(twice, once, "two replicas that are slow side by side");
}

#[test]
fn stragglers_show_at_p95_where_they_are_that_frequent() {
    let steps = |probability: f64| {
        let noise = format!("jitter = 0.0\nstraggler = \"{probability}:2\"\nreplicas = 50");
        let plan = plan(16, "1f1b", &noise);
        ["step_ns", "step_p50_ns", "step_p95_ns"].map(|key| nanos(&plan, key))
    };
    // Of 16 devices one straggles in 1.6 % of all steps, in 15 %, in all but 1 %, and always.
    let [nominal, p50, p95] = steps(0.001);
    assert_eq!([p50, p95], [nominal; 2]);
    let [_, p50, p95] = steps(0.01);
    assert_eq!(p50, nominal);
    assert!(10 * p95 > 15 * nominal, "{p95} {nominal}");
    let [_, p50, _] = steps(0.25);
    assert!(10 * p50 > 15 * nominal, "{p50} {nominal}");
    let [_, p50, p95] = steps(1.0);
    assert!(p50 == p95 && 10 * p50 > 15 * nominal, "{p50} {nominal}");
}

#[test]
fn answers_under_stragglers_do_not_depend_on_threads() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    let noise = "straggler = \"0.01:1.5\"\nslowdown = \"device:3=1.2\"\nreplicas = 30";
    fs::write(&path, question(16, "zb-h1", noise)).unwrap();
    let on = |threads: &str| {
        let out = command().env("RAYON_NUM_THREADS", threads).arg("plan").arg(&path).output();
        stdout(&out.unwrap())
    };
    assert_eq!(on("1"), on("3"));
}

#[test]
fn noise_that_cannot_be_is_refused_at_its_line() {
    for (noise, message) in [
        ("straggler = \"0.1\"", "`0.1` is not a straggler: write PROBABILITY:FACTOR"),
        ("straggler = \"1.1:2\"", "straggler has a probability of 1.1: it must be from 0 to 1"),
        ("straggler = \"nan:2\"", "straggler has a probability of NaN"),
        ("straggler = \"0.1:0.5\"", "straggler has a factor of 0.5: it must be from 1"),
        ("straggler = \"0.1:inf\"", "straggler has a factor of inf"),
        ("stall = \"2:1ms\"", "stall has a probability of 2"),
        ("stall = \"0.1\"", "`0.1` is not a stall"),
        ("slowdown = \"device:16=2\"", "there is no device 16: a cluster has 16, numbered from 0"),
        ("slowdown = \"stage:1=2\"", "write device:N=FACTOR"),
        ("slowdown = [\"device:1=2\", \"device:1=3\"]", "device 1 has two slowdowns"),
        ("slowdown = \"device:1=0\"", "slowdown has a factor of 0"),
        ("slowdown = \"device:x=2\"", "write its number, from 0"),
        ("slow = 2", "no key `slow`"),
    ] {
        let text = refusal(&question(16, "1f1b", noise));
        assert!(text.contains(message), "{noise}: {text}");
        let key = noise.split_once(' ').unwrap().0;
        assert!(text.contains(key) && text.contains("plan.toml:"), "{noise}: {text}");
    }
    let endless = "slowdown = \"device:1=1000000\"\nstraggler = \"1:1000000\"\nreplicas = 2";
    let text = refusal(&question(16, "1f1b", endless));
    assert!(text.contains("the times"), "{text}");
    let many: Vec<String> = (0..17).map(|device| format!("\"device:{device}=2\"")).collect();
    let text = refusal(&question(64, "1f1b", &format!("slowdown = [{}]", many.join(","))));
    assert!(text.contains("17 slow devices: at most 16"), "{text}");
}
