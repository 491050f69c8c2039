//! A process per stage: what comes out is what threads give, and nobody is left behind when one of
//! them is lost, stands still, or is told the wrong secret.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cli::{refused, results, run};
use crate::ctrl_c::press_ctrl_c;

const TINY: &str = "--stages 3 --microbatches 4 --forward 2ms --backward-input 2ms \
                    --backward-weight 1ms --schedule zb-h1";

/// Long enough that whatever is to happen has happened, however busy the machine is.
const AGES: Duration = Duration::from_secs(60);

/// The processes that `parent` started and that have not ended.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let numbers = processes.filter_map(|one| one.file_name().to_string_lossy().parse().ok());
    numbers.filter(|&process| alive(process).is_some_and(|(of, _)| of == parent)).collect()
}

/// The parent of `process` and what it does, as a letter, if it has not ended.
fn alive(process: u32) -> Option<(u32, char)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?.chars().next()?;
    let parent = words.next()?.parse().ok()?;
    (state != 'Z').then_some((parent, state))
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < AGES, "{what} did not happen");
        sleep(Duration::from_millis(10));
    }
}

fn start(line: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_debubble"))
        .args(line.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A run that would take very long, and its processes by stage once all are there.
fn endless(rest: &str) -> (Child, Vec<u32>) {
    started(&format!("execute {TINY} --processes --steps 100000 {rest}"))
}

/// The run of `line`, and its three processes once all are there.
fn started(line: &str) -> (Child, Vec<u32>) {
    let child = start(line);
    let stages = wait_for("the start", || {
        let mut all = children(child.id());
        all.sort_unstable();
        let ready = all.len() == 3 && all.iter().all(|&one| has_met(one));
        ready.then_some(all)
    });
    (child, stages)
}

/// Whether `process` listens to both others, on a thread for each.
fn has_met(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return false };
    let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).ok();
    let names = threads.filter_map(|thread| name(thread.ok()?));
    names.filter(|name| name.starts_with("from ")).count() == 2
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

fn gone(processes: &[u32]) {
    for &process in processes {
        wait_for("the end of a process", || alive(process).is_none().then_some(()));
    }
}

#[test]
fn processes_do_what_threads_do() {
    let model = "--device cpu --stages 2 --microbatches 4 --hidden 16 --heads 2 --seq 8 --layers 4 \
                 --boundary post-validation --max-norm 0.5 --steps 2 --json";
    let stale = "--device cpu --stages 2 --microbatches 4 --hidden 16 --heads 2 --seq 8 --layers 4 \
                 --schedule pipedream,pipedream-2bw --steps 2 --json";
    let of_threads = results(&format!("execute {stale}"));
    let of_processes = results(&format!("execute {stale} --processes --check=device"));
    for (one, other) in of_threads.iter().zip(&of_processes) {
        assert_eq!(one["measured"]["update_losses"].as_array().map(Vec::len), Some(8));
        assert_eq!(one["measured"]["update_losses"], other["measured"]["update_losses"]);
        assert_eq!(other["measured"]["check"]["loss_error"], 0.0);
    }
    for (more, count) in [
        ("--schedule 1f1b,zb-v,chimera,seq1f1b", 4),
        ("--schedule 1f1b,zb-v,chimera --recompute full", 3),
        ("--schedule 1f1b,zb-v,chimera --recompute none,1", 3),
    ] {
        let model = format!("{model} {more}");
        let threads = results(&format!("execute {model}"));
        let processes = results(&format!("execute {model} --processes --check"));
        assert_eq!(threads.len(), count);
        for (one, other) in threads.iter().zip(&processes) {
            let losses = |one: &serde_json::Value| {
                let steps = one["measured"]["steps"].as_array().unwrap().clone();
                steps.iter().map(|step| step["loss"].as_f64().unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(losses(one), losses(other));
            assert_eq!(other["measured"]["device"], "cpu, processes over TCP");
            assert!(other["measured"]["check"]["gradient_error"].as_f64().unwrap() <= 1e-4);
        }
    }
}

#[test]
fn a_lost_process_ends_the_run() {
    let (child, stages) = endless("");
    signal("-KILL", stages[1]);
    let output = child.wait_with_output().unwrap();
    refused(&output, &["the process of stage", "was lost", "signal: 9"]);
    gone(&stages);
}

/// Data-parallel devices that would run for very long.
const DEVICES: &str = "fsdp --execute --devices 3 --minibatch-size 2 --minibatches 20000 --layers 2 --hidden 16 \
                       --heads 2 --lengths uniform:32-64 --method lb-micro";

#[test]
fn a_lost_device_ends_data_parallel_runs() {
    for how in ["collectives", "on-demand"] {
        let (child, devices) = started(&format!("{DEVICES} --communication {how}"));
        signal("-KILL", devices[1]);
        let output = child.wait_with_output().unwrap();
        refused(&output, &["the process of device", "was lost", "signal: 9"]);
        gone(&devices);
    }
}

#[test]
fn a_device_that_stands_still_is_named() {
    let (child, devices) = started(&format!("{DEVICES} --communication on-demand --timeout 1s"));
    signal("-STOP", devices[1]);
    let output = child.wait_with_output().unwrap();
    refused(&output, &["waited 1s for", "from devices [", "in vain"]);
    gone(&devices);
}

/// Presses Ctrl-C where `line` runs in three processes, which hear it too if it comes from a terminal,
/// and checks that nothing but a note is left of them.
fn ends_by_ctrl_c(line: &str, from_terminal: bool) {
    let (mut child, processes) = started(line);
    let begin = Instant::now();
    if from_terminal {
        processes.iter().for_each(|&one| signal("-INT", one));
    }
    if !press_ctrl_c(&mut child) {
        return;
    }
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted: all processes of the run end"), "{stderr}");
    assert!(!stderr.contains("error") && output.stdout.is_empty(), "{stderr}");
    gone(&processes);
    assert!(begin.elapsed() < AGES / 2, "{:?}", begin.elapsed());
}

#[test]
fn ctrl_c_ends_all_processes_with_a_note() {
    let line = format!("execute {TINY} --processes --steps 100000");
    for from_terminal in [false, true] {
        ends_by_ctrl_c(&line, from_terminal);
        ends_by_ctrl_c(&format!("{line} --json"), from_terminal);
        ends_by_ctrl_c(DEVICES, from_terminal);
    }
}

#[test]
fn ctrl_c_is_answered_by_the_first_process_of_a_launcher() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let line = format!("execute {TINY}").replace("--stages 3", "--stages 2");
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    command.args(line.split_whitespace()).env("RANK", "0").env("WORLD_SIZE", "2");
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    command.env("DEBUBBLE_TOKEN", "right");
    let mut first = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The other never comes.
    if !press_ctrl_c(&mut first) {
        return;
    }
    let output = first.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted: all processes of the run end"), "{stderr}");
    assert!(!stderr.contains("error") && output.stdout.is_empty(), "{stderr}");
}

#[test]
fn a_lost_parent_leaves_no_orphans() {
    let (mut child, stages) = endless("");
    child.kill().unwrap();
    child.wait().unwrap();
    gone(&stages);
}

#[test]
fn a_process_that_stands_still_is_named() {
    let (child, stages) = endless("--timeout 1s");
    signal("-STOP", stages[1]);
    let output = child.wait_with_output().unwrap();
    refused(&output, &["nothing came for 1.0s", "stage"]);
    gone(&stages);
}

#[test]
fn processes_know_each_other_by_a_secret() {
    let one = |rank: u32, port: u16, token: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        let line = format!("execute {TINY} --timeout 2s");
        command.args(line.replace("--stages 3", "--stages 2").split_whitespace());
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", "2");
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        token.map(|token| command.env("DEBUBBLE_TOKEN", token));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let port = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let none = one(0, port(), None).wait_with_output().unwrap();
    refused(&none, &["DEBUBBLE_TOKEN", "--token-file"]);
    let port = port();
    let (first, second) = (one(0, port, Some("right")), one(1, port, Some("wrong")));
    refused(&second.wait_with_output().unwrap(), &["token"]);
    refused(&first.wait_with_output().unwrap(), &["ranks [1] did not come", "token"]);
}

#[test]
fn half_a_launcher_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_debubble"))
        .args(format!("execute {TINY}").split_whitespace())
        .env("RANK", "0")
        .output()
        .unwrap();
    refused(&output, &["RANK is set, but WORLD_SIZE is not"]);
    let two = TINY.replace("--schedule zb-h1", "--schedule zb-h1 --token-file missing");
    refused(&run(&format!("execute {two} --processes")), &["missing"]);
}
