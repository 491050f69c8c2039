//! The tests that need a GPU, on stand-ins: what can be checked of the calls without one.

use std::env;
use std::process::Command;

use super::stand_in::stand_in;

/// Runs the tests of this program whose names hold one of `filters`, on stand-ins.
fn run(filters: &[&str]) -> Option<String> {
    let libraries = stand_in()?;
    let mut command = Command::new(env::current_exe().unwrap());
    libraries.all(&mut command).env("DEBUBBLE_NEEDS_GPU", "1");
    command.args(filters).args(["--nocapture", "--skip", "on_stand_in", "--skip", "emulator"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(said)
}

#[test]
fn all_that_needs_a_gpu_runs_on_stand_ins() {
    let Some(said) = run(&["cuda::tests::gpu", "cuda::tests::model", "cuda::tests::operations"])
    else {
        return;
    };
    assert!(said.contains("test result: ok"), "{said}");
    println!("{said}");
}
