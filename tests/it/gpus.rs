//! A question that GPUs cannot answer is refused with its remedy before anything is run.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cli::{refused, run};
use stand_in::{StandIn, stand_in};

#[path = "../../executor/cuda/src/tests/stand_in.rs"]
mod stand_in;

/// Runs a command line where no GPU is seen, whatever this machine has.
fn without_gpus(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    command.args(line.split_whitespace()).env("CUDA_VISIBLE_DEVICES", "-1").output().unwrap()
}

const RUN: &str = "execute --stages 2 --microbatches 2 --schedule 1f1b";

#[test]
fn without_a_gpu_it_is_said_what_is_missing_and_what_to_do() {
    let what = if cfg!(feature = "cuda") { "is missing" } else { "built without CUDA" };
    for line in [
        format!("{RUN} --device cuda"),
        format!("{RUN} --device cuda --processes"),
        format!("{RUN} --device cuda --element f32 --gpus 0"),
        "calibrate --device cuda".to_owned(),
        "calibrate --device cuda --partition 8".to_owned(),
    ] {
        refused(&without_gpus(&line), &["--device cuda: ", what, "help: "]);
    }
}

#[test]
fn flags_of_gpus_are_refused_elsewhere() {
    for flag in ["--element bf16", "--gpus 0,1", "--shared"] {
        for device in ["cpu", "timed"] {
            let line = format!("{RUN} --forward 1ms --device {device} {flag}");
            refused(&run(&line), &["is for --device cuda"]);
        }
    }
    for flag in ["--element f32", "--gpu 0", "--partition 2"] {
        refused(&run(&format!("calibrate {flag}")), &["is for --device cuda"]);
    }
    for link in ["hand-over", "peer", "host-copy"] {
        let parts = [&*format!("--links {link}"), "--device cuda"];
        refused(&run(&format!("calibrate --links {link}")), &parts);
    }
    refused(&run(&format!("{RUN} --device cpu --links nccl")), &["NCCL joins GPUs"]);
    if !cfg!(feature = "nccl") {
        let asked = without_gpus(&format!("{RUN} --device cuda --links nccl"));
        refused(&asked, &["built without NCCL", "--features nccl"]);
    }
}

#[test]
fn a_run_is_held_against_f64_or_against_its_own_device() {
    let model = "--device cpu --hidden 16 --heads 2 --seq 8 --vocabulary 32 --steps 1";
    for (flag, most) in [("--check", 1e-5), ("--check=f64", 1e-5), ("--check=device", 1e-6)] {
        let ran = crate::cli::results(&format!("{RUN} {model} {flag} --json"));
        let check = &ran[0]["measured"]["check"];
        assert!(check["gradient_error"].as_f64().unwrap() < most, "{flag} {check}");
        assert_eq!(check["tolerance"], 1e-4);
    }
    refused(&run(&format!("{RUN} {model} --check=what")), &["f64", "device"]);
}

// ---- on libraries that stand in for those of a GPU

/// A model that a processor computes in moments, thread by thread.
const TINY: &str = "--hidden 8 --heads 1 --seq 4 --vocabulary 8 --microbatch-size 1";

/// The stand-ins, where this debubble can use them.
fn libraries() -> Option<StandIn> {
    if cfg!(feature = "cuda") { stand_in() } else { None }
}

/// A command line on stand-ins, and the file in which they write down what they were asked.
struct OnStandIn {
    command: Command,
    log: tempfile::NamedTempFile,
}

impl OnStandIn {
    fn new(libraries: &StandIn, line: &str) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        libraries.all(&mut command).env("STAND_IN_LOG", log.path());
        command.env_remove("CUDA_DEVICE_MAX_CONNECTIONS").args(line.split_whitespace());
        Self { command, log }
    }

    fn output(&mut self) -> Output {
        self.command.output().unwrap()
    }

    /// Its results.
    fn results(&mut self) -> Value {
        let output = self.command.arg("--json").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The rests of the lines that begin with `head`.
    fn told(&self, head: &str) -> Vec<String> {
        let log = fs::read_to_string(self.log.path()).unwrap();
        log.lines().filter_map(|line| line.strip_prefix(head)).map(str::to_owned).collect()
    }
}

#[test]
fn a_run_keeps_one_context_stays_near_its_gpu_and_allocates_in_no_measured_step() {
    let Some(libraries) = libraries() else { return };
    let line = format!(
        "execute --device cuda --stages 2 --microbatches 24 --layers 2 {TINY} --element f32 \
         --schedule zb-h1 --warm-up 1 --steps 1 --check=device"
    );
    let mut run = OnStandIn::new(&libraries, &line);
    let ran = run.results();
    for one in ran["results"].as_array().unwrap() {
        let measured = &one["measured"];
        assert_eq!(measured["allocations"], 0, "{measured}");
        assert!(measured["check"]["gradient_error"].as_f64().unwrap() < 1e-4, "{measured}");
        assert!(
            measured["device"].as_str().unwrap().contains("2 stages on 64 of 132"),
            "{measured}"
        );
    }
    assert_eq!(run.told("retain "), ["0"], "a run and a reference, one context");
    assert!(run.told("release").is_empty());
    // The driver has begun with a queue for every stream, though nobody said so.
    assert!(!run.told("init ").is_empty() && run.told("init ").iter().all(|queues| queues == "32"));
    assert!(run.told("compile").iter().all(|options| options.contains("--generate-line-info")));
    let streams = run.told("stream part ");
    let numbers = |line: &String| -> Vec<i64> {
        line.split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    // Those of stages: the reference is alone, and holds up nobody.
    let streams: Vec<_> = streams.iter().map(numbers).filter(|stream| stream[0] >= 0).collect();
    assert!(streams.iter().any(|stream| stream[1] > 2_000), "too few to tell: {streams:?}");
    assert!(streams.iter().all(|stream| stream[2] < 1_000), "{streams:?}");
}

#[test]
#[ignore = "slow"]
fn copies_and_versions_of_weights_are_trained_on_gpus_and_segments_refused() {
    let Some(libraries) = libraries() else { return };
    let line = |schedules: &str| {
        format!(
            "execute --device cuda --stages 2 --microbatches 4 --layers 2 {TINY} --element f32 \
             --schedule {schedules} --warm-up 1 --steps 2 --check=device"
        )
    };
    let mut run = OnStandIn::new(&libraries, &line("dualpipe,chimera,pipedream,pipedream-2bw"));
    let ran = run.results();
    let ran = ran["results"].as_array().unwrap();
    assert_eq!(ran.len(), 4);
    for one in ran {
        let check = &one["measured"]["check"];
        let errors = ["loss_error", "gradient_error"].map(|key| check[key].as_f64().unwrap());
        assert!(errors.iter().all(|error| *error < 1e-6), "{} {check}", one["schedule"]);
    }
    let mut run = OnStandIn::new(&libraries, &line("seq1f1b"));
    refused(&run.output(), &["seq1f1b", "no kernels", "--device cpu or timed"]);
}

#[test]
fn processes_whose_gpus_wait_for_the_host_say_so() {
    let Some(libraries) = libraries() else { return };
    let line = format!(
        "execute --device cuda --stages 2 --microbatches 2 {TINY} --schedule 1f1b --steps 1"
    );
    let notes = |flags: &str| {
        let mut run = OnStandIn::new(&libraries, &format!("{line} {flags}"));
        let output = run.command.env("STAND_IN_GPUS", "2").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let said = notes("--processes --links tcp");
    let cure = if cfg!(feature = "nccl") { "--links nccl" } else { "--features nccl" };
    assert!(said.contains("over TCP by way of the hosts") && said.contains(cure), "{said}");
    assert!(!notes("").contains("by way of the hosts"));
}

#[test]
fn parts_of_a_gpu_are_demanded_unless_stages_may_share() {
    let Some(libraries) = libraries() else { return };
    let line = format!(
        "execute --device cuda --stages 2 --microbatches 2 {TINY} --schedule 1f1b --steps 1"
    );
    let mut run = OnStandIn::new(&libraries, &line);
    run.command.env("STAND_IN_NO_PARTS", "1");
    refused(&run.output(), &["cuDevSmResourceSplitByCount", "--shared"]);
    let ran = run.command.arg("--shared").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("no multiprocessors of their own"), "{said}");
}

/// A run on a device that computes nothing, whose passes take as long as is asked.
const TIMED: &str = "execute --device cuda-timed --warm-up 1 --steps 1";

#[test]
#[ignore = "slow"]
fn a_row_of_table_5_is_measured_on_a_gpu_that_computes_nothing() {
    let Some(libraries) = libraries() else { return };
    let row = "scenarios/execute/table5-row.toml --schedule 1f1b,zb-h1,zb-2p --duration 800ms";
    let mut run = OnStandIn::new(&libraries, &format!("{TIMED} {row}"));
    let ran = run.results();
    let rows = ran["results"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "three schedules in two settings");
    for one in rows {
        // Never shorter than simulated: all that is waited for is waited for. How much longer, depends
        // on what else this machine does.
        let makespans = [&one["makespan_ns"], &one["measured"]["makespan_ns"]];
        let [simulated, measured] = makespans.map(|time| time.as_f64().unwrap());
        let ratio = measured / simulated;
        assert!((0.999..1.5).contains(&ratio), "{}: {simulated} {measured}", one["schedule"]);
        let host: Vec<_> = one["measured"]["host_bound"].as_array().unwrap().iter().collect();
        assert_eq!(host.len(), 8);
        assert!(host.iter().all(|stage| stage["passes"].as_u64().unwrap() > 40), "{host:?}");
    }
    let host = &ran["overheads"];
    assert_eq!(host["threads"], 8);
    for rate in ["launches_per_second", "launches_per_second_together"] {
        assert!(host[rate].as_f64().unwrap() > 0.0, "{host}");
    }
    assert!(host["hand_over_ns"].as_u64().is_some(), "{host}");
}

/// Two stages, and how many of their passes the host holds up where a launch costs it so much.
fn host_bound(libraries: &StandIn, launch_us: u32) -> (f64, String) {
    let line = format!(
        "{TIMED} --stages 2 --microbatches 12 --schedule zb-h1 --forward 8ms --backward-input 8ms \
         --backward-weight 8ms"
    );
    let mut run = OnStandIn::new(libraries, &line);
    run.command.env("STAND_IN_LAUNCH_US", launch_us.to_string()).arg("--json");
    let output = run.output();
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{notes}");
    let ran: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stages = ran["results"][0]["measured"]["host_bound"].as_array().unwrap().clone();
    let sum = |key: &str| stages.iter().map(|stage| stage[key].as_f64().unwrap()).sum::<f64>();
    (sum("host_bound_passes") / sum("passes"), notes)
}

#[test]
#[ignore = "slow"]
fn a_host_that_falls_behind_its_gpu_is_noted_and_one_that_keeps_ahead_is_not() {
    let Some(libraries) = libraries() else { return };
    let (share, notes) = host_bound(&libraries, 12_000);
    assert!(share > 0.5 && notes.contains("the host is too slow"), "{share} {notes}");
    let (share, notes) = host_bound(&libraries, 0);
    assert!(share < 0.01 && !notes.contains("the host is too slow"), "{share} {notes}");
}

#[test]
fn a_timed_gpu_has_one_clock_one_process_and_no_elements() {
    let Some(libraries) = libraries() else { return };
    let line = format!(
        "{TIMED} --stages 2 --microbatches 4 --schedule 1f1b --forward 1ms --backward-input 1ms \
         --backward-weight 1ms"
    );
    let mut run = OnStandIn::new(&libraries, &format!("{line} --hop 100us"));
    run.command.env("STAND_IN_GPUS", "2");
    refused(&run.output(), &["hops are timed by the clock of one GPU", "--gpus 0"]);
    let ran = run.command.args(["--gpus", "0"]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let mut run = OnStandIn::new(&libraries, &format!("{line} --element f32"));
    refused(&run.output(), &["--element", "nothing is computed"]);
    let mut run = OnStandIn::new(&libraries, &line);
    run.command.envs([("RANK", "0"), ("WORLD_SIZE", "2"), ("DEBUBBLE_TOKEN", "secret")]);
    run.command.envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29512")]);
    refused(&run.output(), &["runs all stages in one process", "--processes"]);
    let mut run = OnStandIn::new(&libraries, "calibrate --device cuda-timed");
    refused(&run.output(), &["cuda-timed"]);
}

#[test]
#[ignore = "slow"]
fn a_part_of_a_gpu_is_timed_while_neighbours_compute_on_others_of_the_same_split() {
    let Some(libraries) = libraries() else { return };
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("gpu.toml");
    let line = format!(
        "calibrate --device cuda --partition 4 --workers 3 {TINY} --element f32 --effort quick \
         --max-time 1s --links hand-over --out {}",
        profile.display()
    );
    let mut run = OnStandIn::new(&libraries, &line);
    let said = run.output();
    let notes = String::from_utf8_lossy(&said.stderr);
    assert!(
        said.status.success() && notes.contains("2 other parts compute and 1 are idle"),
        "{notes}"
    );
    assert_eq!(run.told("split "), ["4 of 32"], "all are parts of one split");
    let work = |part: &str| -> u64 {
        let of_part = format!("stream part {part} enqueued ");
        let counts = run.told(&of_part).into_iter();
        counts.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
    };
    assert!(["0", "1", "2"].iter().all(|part| work(part) > 100) && work("3") == 0);
    let written = fs::read_to_string(&profile).unwrap();
    assert!(written.contains("neighbours = 2") && written.contains("one of 4 parts"), "{written}");

    let too_many =
        OnStandIn::new(&libraries, "calibrate --device cuda --partition 2 --workers 3").output();
    refused(&too_many, &["--workers 3", "--partition 3"]);
    let mut alone = OnStandIn::new(&libraries, "calibrate --device cuda --links peer --hidden 0");
    alone.command.env("STAND_IN_GPUS", "1");
    refused(&alone.output(), &["--links peer: it needs a second GPU"]);
}

#[test]
#[ignore = "slow"]
fn a_gpu_without_its_libraries_is_no_machine_without_a_gpu() {
    let Some(libraries) = libraries() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu.sh");
    let path = std::env::var_os("PATH").unwrap();
    let gpu_sh = |set: &dyn Fn(&mut Command)| {
        let mut command = Command::new("bash");
        libraries.driver_only(&mut command).arg(&script).arg("smoke").env("PATH", &path);
        // What is not a program fails: the steps need not run here.
        command.env("TESTS", "/bin/false").env("DEBUBBLE", env!("CARGO_BIN_EXE_debubble"));
        command.env("OUT", folder.path().join("out")).env("WORK", folder.path().join("work"));
        command.env("PARTS", "2").env("ONLY", "parts").env("SMALL", TINY);
        set(&mut command);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let summary = || fs::read_to_string(folder.path().join("out/summary.md")).unwrap();
    let (code, said) = gpu_sh(&|command| {
        command.env("STAND_IN_GPUS", "0").env("DEBUBBLE_NEEDS_GPU", "0");
    });
    assert!(code == Some(0) && said.contains("skipped: no GPU"), "{said}");
    let (code, said) = gpu_sh(&|command| {
        command.env("STAND_IN_GPUS", "0");
    });
    assert!(code == Some(1) && said.contains("there is no GPU"), "{said}");
    // Only where the Python of this machine has no wheels of NVIDIA.
    let (code, said) = gpu_sh(&|_| {});
    if said.contains("is missing") {
        assert!(code == Some(1) && said.contains("libnvrtc"), "{said}");
        assert!(said.contains("failed: device parts (repeat with: again)"), "{said}");
        assert!(summary().contains("| parts | FAILED |"), "{}", summary());
    }
    // What is found in an environment's wheels is used, and what has passed is not done again.
    libraries.install(folder.path()).unwrap();
    for done in [false, true] {
        let (code, said) = gpu_sh(&|command| {
            command.env("VIRTUAL_ENV", folder.path());
        });
        assert!(code == Some(0) && said.contains("all of it passed"), "{said}");
        assert_eq!(said.contains("== parts: has passed"), done, "{said}");
        assert!(summary().contains("| parts | passed |"), "{}", summary());
    }
    let mut names: Vec<_> = fs::read_dir(folder.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["gpu-results.tar.gz", "summary.md"]);
}
