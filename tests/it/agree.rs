//! A profile's prediction is compared with a run only on the machine and for the model that it was
//! measured for; and a model that does not fit is refused before anything is allocated.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use ::calibrate::machine;
use pipeline::Shape;
use profile::{Profile, predict};
use serde_json::Value;

use crate::calibrate;
use crate::cli::{refused, results, run, stdout};

const SHAPE: &str = "--hidden 32 --heads 4 --seq 16 --vocabulary 64 --microbatch-size 2";
const PIPELINE: &str = "--stages 2 --microbatches 4 --layers 5";

/// A profile of this machine.
fn calibrated(folder: &Path) -> String {
    let path = folder.join("here.toml").display().to_string();
    let flags = "--effort quick --max-time 1s --links queue --workers 2";
    stdout(&run(&format!("calibrate {SHAPE} {flags} --out {path}")));
    path
}

fn execute(profile: &str, rest: &str) -> std::process::Output {
    run(&format!("execute --device cpu {PIPELINE} --profile {profile} {rest}"))
}

#[test]
fn a_run_is_predicted_from_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let profile = calibrated(folder.path());
    let schedules = "--schedule gpipe,1f1b,zb-2p,zb-v";
    let flags = format!("{schedules} --pin --check --steps 2 --json");
    let said = stdout(&execute(&profile, &flags));
    let ran: Value = serde_json::from_str(&said).unwrap();
    let question = format!("{PIPELINE} --profile {profile} {schedules}");
    let simulated = results(&format!("simulate {question} --json"));
    for (ran, simulated) in ran["results"].as_array().unwrap().iter().zip(&simulated) {
        for key in ["schedule", "makespan_ns", "busy_ns", "span_ns", "peak_activation_bytes"] {
            assert_eq!(ran[key], simulated[key], "{key}");
        }
        assert!(ran["measured"]["makespan_ns"].as_u64() > Some(0));
        let check = &ran["measured"]["check"];
        assert!(check["gradient_error"].as_f64() <= check["tolerance"].as_f64(), "{check}");
    }
    // No prediction is as exact as a millionth of a percent.
    let output = execute(&profile, "--schedule 1f1b --fail-steps-above 0.000001");
    assert_eq!(output.status.code(), Some(1));
}

/// F and B of four layers with both ends as a fresh profile tells them, over their medians in a run of one
/// stage right after.
fn told_over_run(folder: &Path) -> [f64; 2] {
    let [file, passes] = ["one.toml", "passes.csv"].map(|name| folder.join(name));
    let (profile, table) = (file.display(), passes.display());
    let flags = "--effort quick --max-time 1s --links queue";
    stdout(&run(&format!("calibrate {SHAPE} {flags} --out {profile}")));
    let one_stage = "--stages 1 --microbatches 4 --layers 4 --schedule zb-h1 --steps 5";
    let flags = format!("--profile {profile} --passes {table}");
    stdout(&run(&format!("execute --device cpu {one_stage} {flags}")));
    let profile = Profile::parse(&fs::read_to_string(file).unwrap()).unwrap();
    let told = predict(&profile, 4, Shape::new(1, 1, 4).unwrap()).unwrap().costs.chunks()[0];
    let mut table = csv::Reader::from_path(passes).unwrap();
    let rows: Vec<HashMap<String, String>> = table.deserialize().map(Result::unwrap).collect();
    [("F", told.forward), ("B", told.backward_input)].map(|(pass, told)| {
        let row = rows.iter().find(|row| row["pass"] == pass).unwrap();
        #[allow(clippy::cast_precision_loss)]
        let micros = told.0 as f64 / 1e3;
        micros / row["median_us"].parse::<f64>().unwrap()
    })
}

#[test]
fn a_profile_is_of_the_kernels_that_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut tries = Vec::new();
    // Kernels that nothing optimises take many times as long. A busy machine has three tries.
    let agrees = (0..3).any(|_| {
        tries.push(told_over_run(folder.path()));
        tries.last().unwrap().iter().all(|ratio| (0.5..2.0).contains(ratio))
    });
    assert!(agrees, "F and B of the profile over those of a run: {tries:?}");
}

#[test]
fn a_profile_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let profile = calibrated(folder.path());
    for (key, value) in
        [("hidden", 64), ("heads", 8), ("seq", 32), ("vocabulary", 65), ("microbatch-size", 1)]
    {
        let output = execute(&profile, &format!("--schedule 1f1b --{key} {value}"));
        let message = format!("{key} is {value}, but the profile was measured for");
        refused(&output, &[&message, "debubble calibrate"]);
    }
    let text = fs::read_to_string(&profile).unwrap();
    let line = |key: &str| {
        let start = format!("{key} = ");
        text.lines().find(|line| line.starts_with(&start)).unwrap().to_owned()
    };
    for (key, other, what) in [
        ("cpu", "\"Z80\"", "processor is Z80"),
        ("cores", "4096", "number of cores is 4096"),
        ("device", "\"gpu\"", "device is gpu"),
        ("element", "\"bf16\"", "element is bf16"),
    ] {
        fs::write(&profile, text.replace(&line(key), &format!("{key} = {other}"))).unwrap();
        let output = execute(&profile, "--schedule 1f1b");
        refused(&output, &["the profile is of another machine", what, "debubble calibrate --pin"]);
    }
}

/// A profile of round numbers as if measured here beside `neighbours`, with F and B of a layer of `times`.
fn rounded(folder: &Path, name: &str, neighbours: u64, [f, b]: [u64; 2]) -> String {
    let text = fs::read_to_string(calibrate::profile(folder)).unwrap();
    let machine = format!("cores = {}\nneighbours = {neighbours}\n", machine::cores());
    let text = text
        .replace("cpu = \"example\"", &format!("cpu = {:?}", machine::cpu()))
        .replace("cores = 2\n", &machine)
        .replace("device = \"cpu\"", "device = \"cpu, one core\"")
        .replace("10000", &f.to_string())
        .replace("20000", &b.to_string());
    let path = folder.join(name).display().to_string();
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_run_is_also_predicted_by_its_busy_stages() {
    let folder = tempfile::tempdir().unwrap();
    let alone = rounded(folder.path(), "alone.toml", 0, [10_000, 20_000]);
    let beside = rounded(folder.path(), "beside.toml", 1, [17_000, 29_000]);
    let csv = folder.path().join("table.csv");
    let ran = |microbatches: u64, rest: &str| -> Value {
        let line = format!(
            "execute --device cpu --stages 2 --layers 5 --microbatches {microbatches} --schedule 1f1b,zb-h1 \
             --steps 1 --profile {beside} --csv {} {rest}",
            csv.display()
        );
        serde_json::from_str(&stdout(&run(&format!("{line} --json")))).unwrap()
    };
    let simulated = |microbatches: u64, profile: &str| {
        results(&format!(
            "simulate --stages 2 --layers 5 --microbatches {microbatches} --schedule 1f1b,zb-h1 --json \
             --profile {profile}"
        ))
    };
    let with = format!("--profile-alone {alone}");
    for microbatches in [1, 4] {
        let [least, most] = [&alone, &beside].map(|profile| simulated(microbatches, profile));
        let ran = ran(microbatches, &with);
        for (at, one) in ran["results"].as_array().unwrap().iter().enumerate() {
            let by_busy_stages = &one["simulated_by_busy_stages"];
            let [least, found, most] =
                [&least[at], by_busy_stages, &most[at]].map(|one| one["makespan_ns"].as_u64());
            assert_eq!(one["makespan_ns"].as_u64(), most);
            // W of one stage may run beside another's F or B; in 1F1B a lone microbatch is never beside any.
            let is_alone = microbatches == 1 && at == 0;
            assert!(if is_alone { found == least } else { least <= found && found < most });
            assert!(by_busy_stages["bubble_rate"].as_f64() > Some(0.0));
            assert!(by_busy_stages["span_ns"].as_u64() <= found);
        }
        let table = fs::read_to_string(&csv).unwrap();
        let columns = "bubble_rate_by_busy_stages,difference_by_busy_stages_points,\
                       makespan_ms_by_busy_stages";
        assert!(table.lines().next().unwrap().ends_with(columns), "{table}");
        let makespan = &ran["results"][1]["simulated_by_busy_stages"]["makespan_ns"];
        #[allow(clippy::cast_precision_loss)]
        let millis = format!(",{:.3}", makespan.as_u64().unwrap() as f64 / 1e6);
        assert!(table.trim_end().ends_with(&millis), "{table}");
    }
    let plain = ran(4, "");
    assert!(plain["results"][0].get("simulated_by_busy_stages").is_none());
    assert!(fs::read_to_string(&csv).unwrap().trim_end().ends_with(",,,"));
    let text = stdout(&execute(&beside, &format!("--schedule 1f1b,zb-h1 --steps 1 {with}")));
    assert!(text.contains("\nby busy stages  bubble, predicted"), "{text}");
    // No prediction is as exact as a millionth of a point.
    let judged = execute(&beside, &format!("--schedule 1f1b --fail-above 0.000001 {with}"));
    assert_eq!(judged.status.code(), Some(1));
}

#[test]
fn a_run_is_judged_by_its_busy_stages_where_that_is_asked() {
    const BAR: f64 = 10.0;
    let folder = tempfile::tempdir().unwrap();
    // Ramps that take a hundred times as long as the rest: twice the bubble.
    let alone = rounded(folder.path(), "alone.toml", 0, [1_000_000, 2_000_000]);
    let beside = rounded(folder.path(), "beside.toml", 1, [10_000, 20_000]);
    let flags = format!("--schedule 1f1b --steps 1 --json --fail-above {BAR}");
    let with = format!("--profile-alone {alone}");
    for (rest, judged) in [("", ""), (&with[..], "simulated_by_busy_stages")] {
        let output = execute(&beside, &format!("{flags} {rest}"));
        let ran: Value = serde_json::from_slice(&output.stdout).unwrap();
        let one = &ran["results"][0];
        let predicted = if judged.is_empty() { one } else { &one[judged] };
        let rates = ["bubble_rate", "bubble_rate_makespan"].into_iter();
        let mut off = rates.map(|key| {
            let of = |one: &Value| one[key].as_f64().unwrap();
            100.0 * (of(&one["measured"]) - of(predicted)).abs()
        });
        let missed = off.any(|off| off > BAR);
        assert_eq!(output.status.code(), Some(i32::from(missed)), "{one}");
    }
}

#[test]
fn profiles_that_say_nothing_of_neighbours_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name, neighbours| rounded(folder.path(), name, neighbours, [10_000, 20_000]);
    let (alone, beside, wide) = (of("alone.toml", 0), of("beside.toml", 1), of("wide.toml", 3));
    let both = |profile: &str, alone: &str, schedule: &str| {
        execute(profile, &format!("--schedule {schedule} --profile-alone {alone}"))
    };
    refused(&both(&beside, &wide, "1f1b"), &["with 3 busy workers", "--workers 1"]);
    refused(&both(&wide, &beside, "1f1b"), &["with 1 busy worker", "--workers 1"]);
    refused(&both(&alone, &alone, "1f1b"), &["no busy neighbours", "--workers N"]);
    refused(&both(&beside, "none.toml", "1f1b"), &["none.toml"]);
    let text = fs::read_to_string(&alone).unwrap();
    let other = folder.path().join("other.toml").display().to_string();
    for (line, changed, what) in [
        ("hidden = 32", "hidden = 64", "its hidden is 64, that of --profile 32"),
        (
            "device = \"cpu",
            "device = \"gpu",
            "its device is gpu, one core, that of --profile cpu, one",
        ),
    ] {
        fs::write(&other, text.replace(line, changed)).unwrap();
        refused(&both(&beside, &other, "1f1b"), &["--profile-alone is not of", what, "--workers"]);
    }
    let copies = "po-h --chunks 2 --layers 4 --offload-ratio 0.1";
    let pipeline = "execute --device cpu --stages 2 --microbatches 4 --layers 4";
    let line = format!("{pipeline} --profile {beside} --profile-alone {alone} --schedule {copies}");
    let line = line.replace("--layers 4 --profile", "--profile");
    refused(&run(&line), &["po-h", "copies to the host", "leave --profile-alone out"]);
    let bare = format!("{pipeline} --schedule 1f1b --profile-alone {alone}");
    refused(&run(&bare), &["no profile measured with", "--profile", "--workers N"]);
    let timed =
        format!("execute {PIPELINE} --schedule 1f1b --profile {beside} --profile-alone {alone}");
    refused(&run(&timed), &["--profile-alone", "--device cpu"]);
}

#[test]
fn a_model_that_does_not_fit_is_refused_before_it_is_built() {
    let huge = "execute --device cpu --stages 2 --microbatches 4 --schedule 1f1b --hidden 65536 \
                --heads 1 --layers 64";
    for rest in ["", "--check", "--processes"] {
        let output = run(&format!("{huge} {rest}"));
        refused(&output, &["training", "parameters takes about", "are free", "--layers"]);
    }
    // What overflows nothing but the memory for activations.
    let long = "execute --device cpu --stages 2 --microbatches 1024 --schedule gpipe --hidden 64 \
                --heads 4 --seq 16384";
    refused(&run(long), &["are free"]);
}

#[test]
fn peaks_of_a_run_are_those_of_the_executor() {
    // A layer keeps 16 h + a s elements of 4 bytes and mean and rstd of two norms; the first stage
    // its tokens; both microbatches at once under GPipe.
    let line = format!("execute --device cpu --stages 2 --microbatches 2 --layers 2 {SHAPE}");
    let ran = &results(&format!("{line} --schedule gpipe --json"))[0];
    let layer = 16 * (4 * (16 * 32 + 4 * 16) + 16);
    assert_eq!(ran["peak_activation_bytes"][0], 2 * 2 * (layer + 16 * 4));
}
