//! `debubble plan`: what a plan may use of a device, and that having more of anything is not worse.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::plan::{SMALL, ask, json, refusal, validate_a100};

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// The largest error of memory in what `--validate` prints.
fn largest_error() -> f64 {
    let out = validate_a100().arg("--json").output().unwrap();
    let sets: Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = sets.as_array().unwrap().iter().flat_map(|set| set["rows"].as_array().unwrap());
    let own = rows.filter(|row| row["quantity"] == "peak GB");
    own.map(|row| number(row, "error").abs()).fold(0.0, f64::max)
}

#[test]
fn a_plan_may_use_what_is_seen_less_reserve_and_error() {
    let error = largest_error();
    assert!(error > 0.01 && error < 0.1, "{error}");
    let answer = json(SMALL);
    for plan in answer["plans"].as_array().unwrap() {
        let may = (79.15 * f64::from(1 << 30) - 4e9) / (1.0 + error);
        assert!((number(plan, "device_bytes") / may - 1.0).abs() < 1e-9, "{plan}");
        assert!(number(plan, "peak_bytes") <= number(plan, "device_bytes"));
    }
    let capped = json(&format!("{SMALL}\n[search]\nmemory-cap = \"20GB\"\n"));
    for plan in capped["plans"].as_array().unwrap() {
        assert_eq!(number(plan, "device_bytes"), 20e9);
        assert!(number(plan, "peak_bytes") <= 20e9);
    }
    let none = refusal(&format!("{SMALL}\n[search]\nmemory-cap = \"0GB\"\n"));
    assert!(none.contains("memory-cap is 0"), "{none}");
}

/// A cap takes the place of the margin for the error of predictions, as far as the device goes; odds stay.
#[test]
fn a_cap_may_reach_into_the_margin() {
    let capped = json(&format!("{SMALL}\n[search]\nmemory-cap = \"75GiB\"\n"));
    for plan in capped["plans"].as_array().unwrap() {
        assert_eq!(number(plan, "device_bytes"), 75.0 * f64::from(1 << 30));
        assert!(plan["fits"] == true && number(plan, "fit_odds") > 0.5, "{plan}");
    }
    let more = refusal(&format!("{SMALL}\n[search]\nmemory-cap = \"90GiB\"\n"));
    assert!(more.contains("memory-cap is 90.00 GiB, and the devices have 75.42 GiB"), "{more}");
}

/// Llama 3 70B in FP8 on few H100.
fn scarce(devices: u64) -> String {
    format!(
        "sequence = 8192\ntokens = 1e12\nbatch = 128\nframework = \"megatron\"\n[model]\nlayers = 80\n\
         hidden = 8192\nheads = 64\nkv-heads = 8\nffn = 28672\ngated = true\nvocabulary = 128256\n\
         [[cluster]]\nmachine = \"h100\"\ndevices = {devices}\n[search]\ntensor = [4, 8]\npipeline = [1, 2, 4]\n\
         chunks = [2, 4]\nschedule = \"1f1b-i\"\ncontext = 1\nmicrobatch = 1\nzero = 1\n[training]\n\
         precision = \"fp8\"\n"
    )
}

/// A faster set-up that may fit stands beside the plan to take, with its odds; it is taken by nobody unasked.
#[test]
fn what_may_fit_is_shown_and_not_taken() {
    let answer = json(&scarce(32));
    let plans = answer["plans"].as_array().unwrap();
    let winner = &plans[usize::try_from(answer["winner"].as_u64().unwrap()).unwrap()];
    let unsure: Vec<&Value> = plans.iter().filter(|plan| plan["fits"] == false).collect();
    let [unsure] = unsure[..] else { panic!("{plans:?}") };
    assert_eq!(winner["fits"], true);
    assert!(number(unsure, "step_ns") < 0.995 * number(winner, "step_ns"), "{unsure}");
    assert!((0.5..0.99).contains(&number(unsure, "fit_odds")), "{unsure}");
    assert!(number(unsure, "peak_bytes") > number(unsure, "device_bytes"), "{unsure}");
    assert_eq!(unsure["on_front"], false);
    let (_folder, out) = ask(&scarce(32), &[]);
    let text =
        String::from_utf8_lossy(&out.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("and may fit, with odds of") && text.contains("?4 d2 t8"), "{text}");
}

/// A key that would make it fit is named before more devices.
#[test]
fn keys_are_named_before_devices() {
    let none = refusal(&scarce(16));
    assert!(none.contains("it would fit with optimizer-bytes = 8 in [training]"), "{none}");
    assert!(!none.contains("smallest cluster"), "{none}");
}

#[test]
fn the_reserve_is_a_key_of_the_machine() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("own.toml");
    let own = fs::read_to_string("scenarios/machines/a100-80g.toml").unwrap();
    let with = |reserve: &str| {
        fs::write(&path, own.replace("reserve = \"4GB\"", reserve)).unwrap();
        SMALL.replace("a100-80g", path.to_str().unwrap())
    };
    let may = |reserve: &str| number(&json(&with(reserve))["plans"][0], "device_bytes");
    let none = may("reserve = \"0GB\"");
    // Unless the file says, it is that of the built-in machines.
    assert_eq!(may(""), may("reserve = \"4GB\""));
    assert!((none / may("reserve = \"4GB\"") - 84.987 / 80.987).abs() < 1e-4);
    let all = refusal(&with("reserve = \"90GB\""));
    assert!(all.contains("reserve is 90GB") && all.contains("nothing would be left"), "{all}");
}

/// 405B on 16,384 devices: more memory, a faster network or another cluster beside makes no best plan
/// slower, if orders are not searched: which set-up has a search follows from which is the best, so that a
/// plan with one may be slower by a trifle.
#[test]
fn more_of_anything_is_never_worse() {
    let folder = TempDir::new().unwrap();
    let own = fs::read_to_string("scenarios/machines/h100.toml").unwrap();
    let step = |from: &str, to: &str, devices: &str| {
        assert!(own.contains(from), "{from}");
        let machine = folder.path().join("own.toml");
        fs::write(&machine, own.replace(from, to)).unwrap();
        let answer = json(&format!(
            "tokens = 15.6e12\nbatch = 2048\nsequence = 8192\n[model]\nlayers = 126\n\
             hidden = 16384\nheads = 128\nkv-heads = 8\nffn = 53248\ngated = true\n\
             vocabulary = 128256\n[[cluster]]\nmachine = {:?}\ndevices = {devices}\n\
             [search]\ntensor = [8]\nmicrobatch = [1]\nzero = [1]\nchunks = [2, 4]\n\
             schedule = [\"1f1b\", \"1f1b-i\", \"zb-h1\", \"zb-v\", \"v-half\", \"po-h\", \"vocab-1\", \
             \"v-half-vocab-1\"]\n[noise]\njitter = 0.0\nreplicas = 1\n",
            machine.to_str().unwrap()
        ));
        let steps = answer["plans"].as_array().unwrap().iter().map(|plan| number(plan, "step_ns"));
        steps.fold(f64::MAX, f64::min)
    };
    let memory = "memory = \"79.1GiB\"";
    let all: Vec<f64> = ["74.51GiB", "79.1GiB", "83.82GiB", "90GiB", "120GiB"]
        .iter()
        .map(|size| step(memory, &format!("memory = \"{size}\""), "[16384]"))
        .collect();
    assert!(all.windows(2).all(|two| two[1] <= two[0]), "{all:?}");
    let faster = step("network = \"50GB/s\"", "network = \"60GB/s\"", "[16384]");
    assert!(faster <= all[1], "{faster} {all:?}");
    let more = step(memory, memory, "[8192, 16384]");
    assert!(more <= all[1], "{more} {all:?}");
}
