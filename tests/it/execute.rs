//! Schedules run for real. Nothing here depends on how fast this machine is: only on what was done,
//! in which order, and on what a user is told when it goes wrong.

use std::fs;
use std::sync::Arc;

use executor::{
    Batches, Boundary, Cpu, DeviceError, Gpt, Model, Norm, Plan, Random, Reference, Trainer,
    Training, Undo, Worker,
};
use serde_json::Value;

use crate::cli::{refused, results, run, stdout};

const TINY: &str = "--stages 3 --microbatches 4 --forward 2ms --backward-input 2ms \
                    --backward-weight 1ms --hop 200us";
const MODEL: &str = "--device cpu --stages 2 --microbatches 4 --hidden 16 --heads 2 --seq 8 \
                     --layers 4 --vocabulary 256 --microbatch-size 2";

fn tiny(rest: &str) -> std::process::Output {
    run(&format!("execute {TINY} {rest}"))
}

#[test]
fn a_result_has_what_was_simulated_and_what_was_measured() {
    let all = "gpipe,1f1b,zb-h1,zb-h2,zb-1p,zb-2p,zb-v";
    let ran = results(&format!("execute {TINY} --schedule {all} --steps 2 --warm-up 0 --json"));
    let simulated = results(&format!("simulate {TINY} --schedule {all} --json"));
    assert_eq!(ran.len(), 7);
    for (ran, simulated) in ran.iter().zip(&simulated) {
        let keys = simulated.as_object().unwrap();
        for (key, value) in keys {
            assert_eq!(ran[key], *value, "{key}");
            assert!(ran["measured"].get(key).is_some(), "{key}");
        }
        let measured = &ran["measured"];
        assert_eq!(measured["steps"].as_array().unwrap().len(), 2);
        // A pass may take longer than asked, but never less.
        assert!(measured["work_ns"].as_u64() >= ran["work_ns"].as_u64());
        assert!(measured["makespan_ns"].as_u64() >= ran["makespan_ns"].as_u64());
    }
}

#[test]
fn what_is_measured_is_compared_with_what_was_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (predicted, measured) = (path("predicted.json"), path("measured.json"));
    let (svg, trace) = (path("both.svg"), path("trace.json"));
    let flags = "--schedule zb-h1 --duration 60ms";
    let said = stdout(&tiny(&format!(
        "{flags} --timeline {measured} --svg {svg} --trace {trace} --csv {}",
        path("table.csv")
    )));
    assert!(said.contains("zb-h1") && said.contains("pp"), "{said}");
    stdout(&run(&format!("simulate {TINY} --schedule zb-h1 --gantt never --timeline {predicted}")));
    let said = stdout(&run(&format!("compare {predicted} {measured} --json")));
    let compared: Value = serde_json::from_str(&said).unwrap();
    let parts = compared["difference"].as_array().unwrap();
    let sum: i64 = parts[..4].iter().map(|part| part["makespan_ns"].as_i64().unwrap()).sum();
    assert_eq!(sum, parts[4]["makespan_ns"].as_i64().unwrap());
    // The order is kept, and a pass takes what was asked at the least, scaled to 60 ms in all.
    assert_eq!(parts[0]["makespan_ns"], 0);
    assert!(compared["measured"]["makespan_ns"].as_u64().unwrap() >= 59_999_000);
    assert_eq!(compared["measured_steps"].as_array().unwrap().len(), 3);
    let events: Value = serde_json::from_str(&fs::read_to_string(trace).unwrap()).unwrap();
    let passes = events["traceEvents"].as_array().unwrap().iter().filter(|one| one["ph"] == "X");
    assert_eq!(passes.count(), 3 * 4 * 3);
    assert!(fs::read_to_string(svg).unwrap().ends_with("</svg>\n"));
    let table = fs::read_to_string(path("table.csv")).unwrap();
    assert_eq!(table.lines().count(), 2, "{table}");
}

#[test]
fn a_model_is_trained_as_in_one_piece() {
    let boundaries = ["asynchronous", "barrier --max-norm 0.5", "post-validation --max-norm 0.5"];
    for boundary in boundaries {
        let flags = format!("--check --steps 2 --boundary {boundary} --json");
        let schedules = "1f1b,zb-h2,zb-v,dualpipe,chimera";
        let ran = results(&format!("execute {MODEL} {flags} --schedule {schedules}"));
        let loss = |one: &Value| one["measured"]["steps"][1]["loss"].as_f64().unwrap();
        for one in &ran {
            let check = &one["measured"]["check"];
            let tolerance = check["tolerance"].as_f64().unwrap();
            assert!(check["loss_error"].as_f64().unwrap() <= tolerance, "{boundary} {check}");
            assert!(check["gradient_error"].as_f64().unwrap() <= tolerance, "{boundary} {check}");
            assert!(loss(one).is_finite() && (loss(one) - loss(&ran[0])).abs() < 1e-3);
            let clipped = one["measured"]["rollbacks"].as_u64().unwrap() > 0;
            assert_eq!(clipped, boundary.starts_with("post-validation"), "{boundary}");
        }
    }
}

#[test]
fn two_copies_of_the_weights_are_trained_to_the_bit_as_in_one_piece() {
    for boundary in ["barrier --max-norm 0.5", "post-validation --max-norm 0.5"] {
        let flags = format!("--check=device --steps 3 --boundary {boundary} --json");
        let ran = results(&format!("execute {MODEL} {flags} --schedule dualpipe,chimera"));
        for one in &ran {
            let check = &one["measured"]["check"];
            let errors = ["loss_error", "gradient_error"].map(|key| check[key].as_f64());
            assert_eq!(errors, [Some(0.0); 2], "{boundary} {check}");
        }
    }
}

#[test]
fn segments_of_sequences_are_trained_as_whole_ones() {
    for boundary in ["barrier --max-norm 0.5", "post-validation --max-norm 0.5"] {
        let flags = format!("--check --steps 2 --boundary {boundary} --schedule seq1f1b --json");
        for segments in [2, 4] {
            let ran = results(&format!("execute {MODEL} {flags} --segments {segments}"));
            assert_eq!(ran[0]["segments"], segments);
            assert_eq!(ran[0]["microbatches"], 4);
            let check = &ran[0]["measured"]["check"];
            let tolerance = check["tolerance"].as_f64().unwrap();
            for key in ["loss_error", "gradient_error"] {
                assert!(check[key].as_f64().unwrap() <= tolerance, "{boundary} {segments} {check}");
            }
        }
    }
    let again = run(&format!("execute {MODEL} --schedule seq1f1b --recompute full"));
    refused(&again, &["seq1f1b", "cannot be recomputed", "leave --recompute out"]);
    let odd = run(&format!("execute {MODEL} --schedule seq1f1b --segments 3"));
    refused(&odd, &["seq1f1b", "a sequence of 8 tokens has no 3 equal segments"]);
}

#[test]
fn weights_that_change_while_the_pipeline_runs_are_as_old_as_one_after_the_other() {
    let schedules = "pipedream,pipedream-2bw";
    let ran =
        results(&format!("execute {MODEL} --check=device --steps 2 --schedule {schedules} --json"));
    let simulated = "--forward 1ms --backward-input 1ms --backward-weight 1ms --json";
    let simulated = results(&format!(
        "simulate --stages 2 --microbatches 4 --schedule {schedules} {simulated}"
    ));
    for (one, simulated) in ran.iter().zip(&simulated) {
        let (measured, check) = (&one["measured"], &one["measured"]["check"]);
        let errors = ["loss_error", "gradient_error"].map(|key| check[key].as_f64());
        assert_eq!(errors, [Some(0.0); 2], "{check}");
        // What is measured is the steady state, as it is simulated.
        assert_eq!(one["measured_updates"], simulated["measured_updates"]);
        assert_eq!(measured["measured_updates"], simulated["measured_updates"]);
        // Of four updates a step: two fill the pipeline and settle it, one is measured, one drains it.
        let losses = measured["update_losses"].as_array().unwrap();
        assert_eq!(losses.len(), 2 * 4);
        assert_eq!(losses[7], measured["steps"][1]["loss"]);
    }
    assert!(
        results(&format!("execute {MODEL} --schedule 1f1b --json"))[0]["measured"]
            .get("update_losses")
            .is_none()
    );
    // What is recomputed is recomputed with the version that the forward had.
    let again = format!("--check=device --steps 1 --recompute full --schedule {schedules},chimera");
    for one in results(&format!("execute {MODEL} {again} --json")) {
        let check = &one["measured"]["check"];
        let errors = ["loss_error", "gradient_error"].map(|key| check[key].as_f64());
        assert_eq!(errors, [Some(0.0); 2], "{} {check}", one["schedule"]);
    }
    for schedule in ["pipedream", "pipedream-2bw"] {
        let with = |flags: &str| run(&format!("execute {MODEL} --schedule {schedule} {flags}"));
        refused(&with("--boundary barrier"), &[schedule, "update while others run"]);
        refused(&with("--max-norm 1"), &[schedule, "--max-norm 1", "leave --max-norm out"]);
    }
}

#[test]
fn a_text_is_learned_with_old_weights() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    fs::write(&text, "the quick brown fox jumps over the lazy dog. ".repeat(40)).unwrap();
    let flags = format!("--data {} --steps 6 --learning-rate 0.01 --json", text.display());
    let ran = results(&format!("execute {MODEL} --schedule pipedream,pipedream-2bw {flags}"));
    for one in &ran {
        let losses = one["measured"]["update_losses"].as_array().unwrap();
        let mean = |part: &[Value]| {
            part.iter().map(|loss| loss.as_f64().unwrap()).sum::<f64>() / part.len() as f64
        };
        let (first, last) = (mean(&losses[..4]), mean(&losses[losses.len() - 4..]));
        assert!(last < 0.8 * first, "{}: {losses:?}", one["schedule"]);
    }
}

#[test]
fn a_text_is_learned() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    fs::write(&text, "the quick brown fox jumps over the lazy dog. ".repeat(40)).unwrap();
    let flags = format!("--data {} --steps 12 --learning-rate 0.01 --json", text.display());
    let ran = results(&format!("execute {MODEL} --schedule zb-h1 {flags}"));
    let steps = ran[0]["measured"]["steps"].as_array().unwrap();
    let loss = |step: &Value| step["loss"].as_f64().unwrap();
    assert!(loss(&steps[11]) < 0.8 * loss(&steps[0]), "{steps:?}");
    let flags = format!("--data {} --vocabulary 100", text.display());
    let small = run(&format!("execute {MODEL} --schedule zb-h1 {flags}").replacen(
        "--vocabulary 256 ",
        "",
        1,
    ));
    refused(&small, &["text.txt", "256 or more"]);
    fs::write(&text, "short").unwrap();
    let short = run(&format!("execute {MODEL} --schedule zb-h1 --data {}", text.display()));
    refused(&short, &["text.txt", "5 bytes"]);
}

#[test]
fn a_schedule_from_a_file_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.txt");
    let text = "F0.0 F0.1 F0.2&BW0.0 BW0.1 BW0.2\nF1.0 BW1.0 F1.1 BW1.1 F1.2 BW1.2\n";
    fs::write(&file, text).unwrap();
    let times = "--forward 1ms --backward-input 1ms --backward-weight 1ms";
    let schedule = format!("--schedule {}", file.display());
    let ran = results(&format!("execute {schedule} {times} --json"));
    assert_eq!(ran[0]["schedule"], "mine");
    let output = run(&format!("execute {schedule} {times} --stages 4"));
    refused(&output, &["mine has stages = 2, not 4"]);
}

#[test]
fn bad_questions_are_refused() {
    let with = |rest: &str| tiny(&format!("--schedule zb-h1 {rest}"));
    refused(&tiny("--schedule zb-h9"), &["there is no schedule `zb-h9`"]);
    refused(&with("--cluster dgx-a100"), &["--cluster is for `debubble simulate`"]);
    refused(&with("--stall 0.1:5ms"), &["--stall is for `debubble simulate`"]);
    refused(&with("--steps 0"), &["steps must be at least 1"]);
    refused(&with("--steps 4000000000"), &["steps"]);
    refused(&with("--timeout 0ns"), &["timeout"]);
    refused(&with("--patience 100us"), &["a hop of 200us is longer than the timeout"]);
    refused(&with("--max-norm NaN"), &["max norm NaN"]);
    refused(&with("--duration 0ms"), &["--duration must be more than 0"]);
    refused(&with("--duration 1s --time-scale 2"), &["cannot be used with"]);
    refused(&with("--time-scale NaN"), &["--time-scale"]);
    refused(&with("--fail-above -1"), &["--fail-above"]);
    refused(&with("--check"), &["--device timed computes nothing", "--device cpu"]);
    refused(&with("--boundary post-validation:0.5"), &["not with a probability"]);
    refused(&tiny("--schedule 1f1b,zb-h1 --timeline x.json"), &["--timeline takes one"]);
    refused(
        &tiny("--device cpu --schedule zb-h1 --duration 1s"),
        &["is for --device timed and cuda-timed"],
    );
    refused(&tiny("--device cpu --schedule zb-h1 --layers 2"), &["2 layers", "3 chunks"]);
    refused(&tiny("--device cpu --schedule zb-h1 --hidden 65"), &["65 is not a multiple of 4"]);
    let huge = "--device cpu --schedule zb-h1 --hidden 1048576 --heads 1 --layers 1048576";
    refused(&tiny(huge), &["the number of parameters"]);
    refused(&tiny("--device cpu --schedule zb-h1 --learning-rate NaN"), &["--learning-rate"]);
}

#[test]
fn a_failed_bar_is_an_exit_code() {
    // No run is as exact as a millionth of a point.
    let output = tiny("--schedule gpipe --fail-above 0.000001");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("gpipe"));
}

/// A stage whose gradients are NaN in step 1.
struct Poisoned {
    gpt: Gpt<Cpu<f64>>,
    begun: u32,
    /// The step whose gradients it holds.
    step: u32,
}

impl Worker for Poisoned {
    type Value = <Gpt<Cpu<f64>> as Worker>::Value;

    fn run(
        &mut self,
        pass: pipeline::Pass,
        input: Option<Self::Value>,
    ) -> Result<Option<Self::Value>, DeviceError> {
        self.gpt.run(pass, input)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.gpt.synchronize()
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        self.gpt.forget()
    }
}

impl Trainer for Poisoned {
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        let norm = self.gpt.norm()?;
        Ok(if self.step == 1 { Norm { squares: f64::NAN, is_bad: true } } else { norm })
    }

    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        self.gpt.update(scale)
    }

    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        self.gpt.undo(scale)
    }

    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        self.begun = step;
        self.gpt.begin_step(step)
    }

    fn clear(&mut self) -> Result<(), DeviceError> {
        self.step = self.begun;
        self.gpt.clear()
    }

    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        self.gpt.loss()
    }
}

#[test]
fn a_step_with_nan_gradients_leaves_the_weights_alone() {
    let text = "F0.0 F0.1 B0.0 W0.0 B0.1 W0.1\nF1.0 B1.0 F1.1 B1.1 W1.0 W1.1\n";
    let schedule: pipeline::Schedule = text.parse().unwrap();
    let model = Model::new(16, 2, 2, 32, 8, 1).unwrap();
    let batches: Arc<dyn Batches> = Arc::new(Random::new(model, 7));
    let training = Training { seed: 7, undo: Undo::Snapshot, ..Training::default() };
    let device = Cpu::<f64>::new();
    let mut reference = Reference::new(device, model, Arc::clone(&batches), training).unwrap();
    let serial: Vec<f64> = (0..3)
        .map(|step| {
            let loss = reference.run(step, 2).unwrap();
            if step != 1 {
                reference.update(1.0).unwrap();
            }
            loss
        })
        .collect();
    let max_norm = f64::INFINITY;
    for boundary in [Boundary::Barrier { max_norm }, Boundary::PostValidation { max_norm }] {
        let plan = Plan::new(schedule.clone(), 3).unwrap().with_boundary(boundary).unwrap();
        let (schedule, batches) = (schedule.clone(), Arc::clone(&batches));
        let make = move |stage| {
            let gpt = Gpt::new(device, model, &schedule, stage, Arc::clone(&batches), training);
            Ok(Poisoned { gpt: gpt.unwrap(), begun: 0, step: 0 })
        };
        let measured = executor::run(&plan, make).unwrap();
        assert_eq!(measured.skipped, 1, "{boundary:?}");
        let losses: Vec<f64> = measured.steps.iter().map(|step| step.loss.unwrap()).collect();
        let close = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-9;
        assert!(losses.iter().zip(&serial).all(close), "{boundary:?}: {losses:?} {serial:?}");
    }
}
