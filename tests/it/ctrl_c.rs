//! A Ctrl-C, as a terminal sends it.

#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// The signals of a mask in what Linux says of a process.
fn signals(process: u32, mask: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(mask));
    line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0)
}

/// Sends a Ctrl-C as soon as `child` listens to it; not where it is ignored.
pub(crate) fn press_ctrl_c(child: &mut Child) -> bool {
    const SIGINT: u64 = 1 << 1;
    if signals(child.id(), "SigIgn:") & SIGINT != 0 {
        eprintln!("skipped: Ctrl-C is ignored here");
        child.kill().unwrap();
        child.wait().unwrap();
        return false;
    }
    while signals(child.id(), "SigCgt:") & SIGINT == 0 {
        assert_eq!(child.try_wait().unwrap(), None);
        thread::sleep(Duration::from_millis(10));
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    true
}

/// The program with the arguments of `line`, its output to be read.
pub(crate) fn spawn(line: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_debubble"));
    child.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    child.spawn().unwrap()
}

/// The output of `line` when Ctrl-C is pressed as soon as it listens; none where it cannot be
/// pressed.
pub(crate) fn interrupted(line: &str) -> Option<Output> {
    let mut child = spawn(line);
    press_ctrl_c(&mut child).then(|| child.wait_with_output().unwrap())
}
