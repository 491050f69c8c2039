//! The profile of a trainer that was measured on one device: it is a question by itself, under the memory of a device.

use std::fmt::Write;
use std::fs;

use crate::cli::{results, run, said};

/// Four chunks on two stages; the last one holds more, and its backward is never split where `is_whole`.
fn profile(folder: &std::path::Path, is_whole: bool) -> String {
    let quantity = |key: &str, time: u64| format!("[chunk.{key}]\nsamples = {:?}\n", [time; 20]);
    let mut text = "version = 1\nkind = \"trainer\"\nschedule = \"1f1b-i\"\nstages = 2\n\
                    placement = \"looped\"\nmicrobatches = 4\none-device = true\n\
                    half-width = 0.05\n[machine]\ncpu = \"x\"\ncores = 2\nos = \"x\"\n\
                    device = \"cpu\"\npinned = false\ndate = \"2026-11-29\"\nprogram = \"torch\"\n"
        .to_owned();
    for chunk in 0..4 {
        let weights = if chunk == 3 { 4000 } else { 1000 };
        text += "[[chunk]]\n";
        write!(
            text,
            "footprint = {{ until-backward = 100, until-weight = 60 }}\n\
             resident = {{ weights = {weights}, gradients = 500, optimizer = 1500, pass = 50 }}\n"
        )
        .unwrap();
        text += &quantity("forward", 1_000_000);
        if chunk < 3 || !is_whole {
            text += &quantity("backward-input", 1_500_000);
            text += &quantity("backward-weight", 1_200_000);
        }
        text += &quantity("backward", 2_000_000);
    }
    let path = folder.join("profile.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_profile_is_the_question_of_its_own_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let path = profile(folder.path(), false);
    let own = results(&format!("search --json {path} --memory 10kB"));
    let asked = format!("--profile {path} --stages 2 --microbatches 4 --chunks 2");
    let same =
        results(&format!("search --json {asked} --placement looped --memory-limit 3850B,850B"));
    for key in ["cost_ns", "bound_ns", "placement", "microbatches", "trainer_cost_ns"] {
        assert_eq!(own[0][key], same[0][key], "{key}");
    }
    assert_eq!(own[0]["trainer_schedule"], "1f1b-i");
    assert_eq!(own[0]["memory_limit"], "10kB");
    let simulated = results(&format!("simulate --json {path} --schedule 1f1b-i"));
    assert_eq!(simulated[0]["span_ns"], own[0]["trainer_cost_ns"]);
    let gain =
        1.0 - own[0]["cost_ns"].as_f64().unwrap() / own[0]["trainer_cost_ns"].as_f64().unwrap();
    assert!((own[0]["trainer_gain"].as_f64().unwrap() - gain).abs() < 1e-9);
    let told = said(&run(&format!("search {path} --memory 10kB")));
    assert!(told.contains("transfers between stages take no time in it"), "{told}");
    assert!(told.contains("take 1.35 times as long as a whole backward"), "{told}");
}

#[test]
fn memory_that_leaves_nothing_names_the_stage_and_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = profile(folder.path(), true);
    for (flags, part) in [
        ("--memory 9050B", "stage 1 holds 9050B without activations (weights 5kB"),
        (
            "--memory 9200B",
            "the memory limit is 150B, what memory leaves, but one microbatch alone",
        ),
        ("--memory 10kB --memory-limit 1p", "memory and memory-limit exclude each other"),
        ("--memory 10kB,10kB,10kB", "3 sizes for 2 stages"),
    ] {
        let refused = run(&format!("search {path} {flags}"));
        assert_eq!(refused.status.code(), Some(2), "{flags}");
        assert!(said(&refused).contains(part), "{flags}: {}", said(&refused));
    }
    let no_profile =
        "search --stages 2 --microbatches 4 --forward 1ms --backward 2ms --memory 1GiB";
    assert!(said(&run(no_profile)).contains("memory needs the profile of a trainer"));
    // A chunk whose backward is never split has no order that splits it.
    let split = run(&format!("simulate {path} --schedule zb-v"));
    assert!(said(&split).contains("remark says why"), "{}", said(&split));
    assert_eq!(results(&format!("simulate --json {path} --schedule 1f1b-i"))[0]["microbatches"], 4);
    let order = folder.path().join("best.txt").display().to_string();
    assert_eq!(
        run(&format!("search {path} --memory 10kB --export {order}")).status.code(),
        Some(0)
    );
    let order = fs::read_to_string(order).unwrap();
    assert!(order.contains("BW3.0") && !order.contains(" W3."), "{order}");
}
