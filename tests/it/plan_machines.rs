//! Machines of a plan that make no sense, or never get done.

use std::fs;

use tempfile::TempDir;

use crate::plan::{SMALL, ask, refusal};

/// The A100 machine with `from` made `to`, in a file.
fn changed_machine(from: &str, to: &str) -> (TempDir, String) {
    let whole = fs::read_to_string("scenarios/machines/a100-80g.toml").unwrap();
    assert!(whole.contains(from), "{from}");
    let folder = TempDir::new().unwrap();
    let own = folder.path().join("own.toml");
    fs::write(&own, whole.replace(from, to)).unwrap();
    let name = own.to_str().unwrap().to_owned();
    (folder, name)
}

/// The refusal of the small question on an A100 whose file has `to` instead of `from`.
fn refusal_of_machine(from: &str, to: &str) -> String {
    let (_folder, own) = changed_machine(from, to);
    refusal(&SMALL.replace("a100-80g", &own))
}

#[test]
fn machines_with_absurd_numbers_are_refused_at_their_line() {
    for (from, to, message) in [
        ("on-demand = 2.2", "on-demand = 0.0", "on-demand is 0"),
        ("on-demand = 2.2", "on-demand = nan", "on-demand is NaN"),
        ("memory = \"79.15GiB\"", "memory = \"80 parsec\"", "unknown unit"),
        ("bandwidth = \"2039GB/s\"", "bandwidth = \"2039GB\"", "not a bandwidth"),
        ("peak-tflops = 312.0", "peak-tflops = -1.0", "peak-tflops is -1"),
        ("matmul = 0.7878", "matmul = 2.0", "matmul is 2"),
        ("per-node = 8", "per-node = 0", "per-node is 0"),
    ] {
        let text = refusal_of_machine(from, to);
        assert!(text.contains(message) && text.contains("own.toml"), "{message}: {text}");
    }
}

/// Times that no clock can show, and jobs that fail all the time, are not plans.
#[test]
fn machines_that_never_get_done_are_left_out() {
    for (from, to, message) in [
        ("bandwidth = \"2039GB/s\"", "bandwidth = \"1B/s\"", "x a step of more than 30 years"),
        ("checkpoint = \"2GB/s\"", "checkpoint = \"1B/s\"", "x fails before a checkpoint"),
    ] {
        let text = refusal_of_machine(from, to);
        assert!(text.contains(message), "{message}: {text}");
    }
    // Beside one that gets done they cost no answer.
    let (_folder, own) = changed_machine("bandwidth = \"2039GB/s\"", "bandwidth = \"1B/s\"");
    let slow = format!("[[cluster]]\nmachine = \"{own}\"\ndevices = [8]\n\n[noise]");
    let (_, out) = ask(&SMALL.replace("[noise]", &slow), &[]);
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert!(String::from_utf8_lossy(&out.stdout).contains("8 a100-80g"), "{text}");
}
