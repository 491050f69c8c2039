//! A recorded run becomes a profile, and questions of the profile are answered as those of its times.

use std::fs;

use tempfile::TempDir;

use crate::cli::{results, run, said, stdout};

const TIMES: &str = "--forward 10ms --backward-input 11ms --backward-weight 7ms --hop 1ms \
                     --overhead 300us";

/// A run of `schedule` with [`TIMES`] on four stages as if it had been measured, in a file of `folder`.
fn recorded(folder: &TempDir, schedule: &str) -> String {
    let path = folder.path().join(format!("{schedule}.json")).to_str().unwrap().to_owned();
    let question = format!("--schedule {schedule} --stages 4 --microbatches 8 {TIMES}");
    assert_eq!(run(&format!("simulate {question} --timeline {path}")).status.code(), Some(0));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"simulated\"", "\"measured\"", 1)).unwrap();
    path
}

/// The profile of that run.
fn profile(folder: &TempDir, schedule: &str) -> String {
    let (run_file, made) = (recorded(folder, schedule), folder.path().join("profile.toml"));
    let made = made.to_str().unwrap().to_owned();
    let output = run(&format!("profile {run_file} --output {made}"));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(stdout(&output).contains("10.000 ms"), "{}", stdout(&output));
    made
}

#[test]
fn a_profile_answers_as_the_times_that_ran() {
    let folder = TempDir::new().unwrap();
    let profile = profile(&folder, "zb-h1");
    for schedule in ["1f1b", "zb-2p", "zb-auto", "gpipe"] {
        let question =
            format!("simulate --json --schedule {schedule} --stages 4 --microbatches 12");
        let of_profile = results(&format!("{question} --profile {profile}"));
        assert_eq!(of_profile, results(&format!("{question} {TIMES}")), "{schedule}");
    }
    // Two chunks of two layers each, in a pipeline of two stages.
    let halves = results(&format!(
        "simulate --json --schedule 1f1b --stages 2 --microbatches 12 --profile {profile}"
    ));
    let double =
        "--forward 20ms --backward-input 22ms --backward-weight 14ms --hop 1ms --overhead 300us";
    let expected =
        results(&format!("simulate --json --schedule 1f1b --stages 2 --microbatches 12 {double}"));
    assert_eq!(halves, expected);
}

#[test]
fn overhead_is_work_of_every_pass_and_no_part_of_its_time() {
    let span = |schedule: &str, times: &str| {
        let question =
            format!("simulate --json --schedule {schedule} --stages 4 --microbatches 12");
        results(&format!("{question} {times}"))[0]["span_ns"].as_u64().unwrap()
    };
    let times = "--forward 10ms --backward-input 11ms --backward-weight 7ms --hop 1ms";
    let longer = "--forward 10.3ms --backward-input 11.3ms --backward-weight 7.3ms --hop 1ms";
    assert_eq!(span("zb-h1", TIMES), span("zb-h1", longer));
    // A whole backward pass begins once.
    assert_eq!(span("1f1b", TIMES), span("1f1b", &longer.replace("7.3ms", "7ms")));
    // A timeline shows passes without it.
    let folder = TempDir::new().unwrap();
    let measured = recorded(&folder, "zb-h1");
    let predicted = folder.path().join("predicted.json");
    let predicted = predicted.to_str().unwrap();
    let question = "--schedule zb-h1 --stages 4 --microbatches 8";
    run(&format!("simulate {question} {times} --timeline {predicted}"));
    let output = run(&format!("compare {predicted} {measured} --json"));
    let compared: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let parts = compared["difference"].as_array().unwrap();
    let of = |name: &str| parts.iter().find(|part| part["part"] == name).unwrap();
    assert_eq!(of("kernels")["makespan_ns"], 0);
    assert!(of("overhead")["makespan_ns"].as_i64().unwrap() > 0, "{compared}");
}

#[test]
fn what_a_profile_does_not_know_is_said() {
    let folder = TempDir::new().unwrap();
    let profile = profile(&folder, "1f1b");
    let asked = |rest: &str| {
        let output = run(&format!("simulate --profile {profile} --microbatches 8 {rest}"));
        assert_eq!(output.status.code(), Some(2), "{rest}");
        said(&output)
    };
    let cases = [
        ("--stages 4 --schedule zb-h1", "recorded under `1f1b`"),
        (
            "--stages 4 --schedule zb-h1",
            "record debubble.torch.schedule(stages, \"zb-h1\", n_microbatches=8",
        ),
        ("--stages 3 --schedule 1f1b", "4 chunks, which cannot be put together to 3"),
        ("--stages 4 --schedule 1f1b --layers 4", "a trainer's knows its chunks"),
        ("--stages 4 --schedule 1f1b --memory-limit 1GiB", "needs the sizes of activations"),
        ("--schedule 1f1b", "--stages missing"),
    ];
    for (rest, message) in cases {
        let said = asked(rest);
        assert!(said.contains(message), "{rest}: {said}");
    }
    let times = "--backward-input 1ms --backward-weight 1ms";
    let own = format!("simulate --profile {profile} --stages 4 --microbatches 8 --schedule zb-h1");
    assert_eq!(run(&format!("{own} {times}")).status.code(), Some(0));
    let plan = run(&format!("profile {profile}"));
    assert!(said(&plan).contains("is a profile"), "{}", said(&plan));
    let of_a_machine = run(&format!(
        "execute --device cpu --stages 2 --microbatches 2 --schedule 1f1b --profile {profile} --layers 2"
    ));
    assert!(said(&of_a_machine).contains("the profile of a trainer"), "{}", said(&of_a_machine));
}

#[test]
fn a_prediction_is_no_recording() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("predicted.json");
    let path = path.to_str().unwrap();
    run(&format!("simulate --schedule 1f1b --stages 4 --microbatches 8 {TIMES} --timeline {path}"));
    let output = run(&format!("profile {path}"));
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("it is a prediction"), "{}", said(&output));
}
