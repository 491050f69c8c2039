//! A question that GPUs cannot answer is refused with its remedy before anything is run.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cli::{refused, run};
use stand_in::{StandIn, stand_in};

#[path = "../../executor/src/cuda/tests/stand_in.rs"]
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

#[test]
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
}

#[test]
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
        command.env("OUT", folder.path()).env("PARTS", "2").env("ONLY", "parts");
        command.env("SMALL", TINY);
        set(&mut command);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = gpu_sh(&|command| {
        command.env("STAND_IN_GPUS", "0");
    });
    assert!(code == Some(0) && said.contains("skipped: no GPU"), "{said}");
    let (code, said) = gpu_sh(&|command| {
        command.env("STAND_IN_GPUS", "0").env("DEBUBBLE_NEEDS_GPU", "1");
    });
    assert!(code == Some(1) && !said.contains("skipped"), "{said}");
    // Only where the Python of this machine has no wheels of NVIDIA.
    let (code, said) = gpu_sh(&|_| {});
    if said.contains("is missing") {
        assert!(
            code == Some(1) && said.contains("libnvrtc") && said.contains("FAILED: parts"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(folder.path().join("failed")).unwrap(), "device\nparts\n");
    }
    // What is found in an environment's wheels is used.
    libraries.install(folder.path()).unwrap();
    let (code, said) = gpu_sh(&|command| {
        command.env("VIRTUAL_ENV", folder.path());
    });
    assert!(code == Some(0) && said.contains("all of it passed"), "{said}");
}
