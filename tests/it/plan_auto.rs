//! `zb-auto` in plans: an order that is searched for the best set-ups, beside published schedules.

use std::fs;

use serde_json::Value;

use crate::plan::{SMALL, ask, command, json, refusal};

/// [`SMALL`] on 16 devices, as pipelines alone, with `more` in its search.
fn pipelines(more: &str) -> String {
    let small = SMALL.replace("devices = [8, 16]", "devices = 16");
    format!("{small}\n[search]\npipeline = [4, 8]\nzero = 1\n{more}\n")
}

/// [`SMALL`] on 16 devices in one set-up under `schedule`.
fn set_up(schedule: &str, chunks: u64) -> String {
    let small = SMALL.replace("devices = [8, 16]", "devices = 16");
    let chunks = if chunks > 1 { format!("chunks = {chunks}\n") } else { String::new() };
    format!("{small}\n[setup]\npipeline = 4\nmicrobatch = 2\nschedule = \"{schedule}\"\n{chunks}")
}

fn plans(answer: &Value) -> &[Value] {
    answer["plans"].as_array().unwrap()
}

fn step(plan: &Value) -> u64 {
    plan["step_ns"].as_u64().unwrap()
}

#[test]
fn it_is_faster_than_every_named_schedule_and_leaves_the_best_of_them() {
    let (all, named) = (
        json(&pipelines("")),
        json(&pipelines(
            "schedule = [\"1f1b\", \"1f1b-i\", \
        \"zb-h1\", \"zb-v\", \"v-half\", \"po-h\", \"vocab-1\", \"v-half-vocab-1\"]",
        )),
    );
    let (best, best_named) = (&plans(&all)[0], &plans(&named)[0]);
    assert_eq!(best["schedule"], "zb-auto");
    assert!(step(best) < step(best_named), "{} {}", step(best), step(best_named));
    let told = |plan: &Value| {
        ["schedule", "data", "tensor", "pipeline", "step_ns", "peak_bytes"]
            .map(|key| plan[key].clone())
    };
    assert_eq!(told(&plans(&all)[1]), told(best_named));
    assert!(plans(&named).iter().all(|plan| plan["schedule"] != "zb-auto"));
    for plan in plans(&all) {
        assert!(plan["peak_bytes"].as_u64() <= plan["device_bytes"].as_u64(), "{plan}");
    }
    let counted = &all["searched"][0];
    let left_out = counted["left_out"].as_object().unwrap().values();
    let left_out: u64 = left_out.map(|count| count.as_u64().unwrap()).sum();
    let setups = counted["setups"].as_u64().unwrap();
    assert_eq!(counted["simulated"].as_u64().unwrap() + left_out, setups);
}

#[test]
fn alone_it_makes_all_plans() {
    let answer = json(&pipelines("schedule = [\"zb-auto\"]"));
    assert!(!plans(&answer).is_empty());
    assert!(plans(&answer).iter().all(|plan| plan["schedule"] == "zb-auto"));
}

#[test]
fn any_number_of_threads_makes_the_same_bytes() {
    let on = |threads: &str| {
        let (folder, _) = ask(&pipelines(""), &["--help"]);
        let mut ask = command();
        ask.arg("plan").arg(folder.path().join("plan.toml")).arg("--json");
        let out = ask.env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    };
    assert!(on("1") == on("3"));
}

/// Lower bound over all orders of a plan's passes, in nanoseconds, where one is known.
fn least(plan: &Value) -> Option<u64> {
    plan["step_lower_bound_ns"].as_u64()
}

#[test]
fn no_plan_is_faster_than_the_bound_of_its_passes() {
    for schedules in [
        "\"zb-auto\"",
        "\"1f1b\", \"1f1b-i\", \"zb-h1\", \"zb-2p\"",
        "\"zb-v\", \"v-half\", \"gpipe\"",
    ] {
        let answer = json(&pipelines(&format!("schedule = [{schedules}]")));
        assert!(!plans(&answer).is_empty());
        for plan in plans(&answer) {
            let least = least(plan).unwrap();
            assert!(0 < least && least <= step(plan), "{plan}");
        }
    }
}

/// Transfers beside passes, where stages lie near each other and far: replay has the longest way for all of them, the
/// wires have not, and with few microbatches the way is much of a step.
#[test]
fn no_plan_is_faster_than_its_bound_where_stages_lie_near_and_far() {
    for boundary in ["barrier", "post-validation"] {
        let text =
            pipelines("tensor = [1, 2]\nmicrobatch = [1, 2]\nschedule = [\"zb-h1\", \"1f1b\"]");
        let text = text.replace("a100-80g", "h100").replace("batch = 64", "batch = 16");
        let text = text.replace("plans = 2", "plans = 6");
        let training = format!("[training]\nboundary = \"{boundary}\"\noverlap-transfers = true\n");
        let answer = json(&format!("{text}\n{training}"));
        assert!(plans(&answer).len() > 3);
        for plan in plans(&answer) {
            let least = least(plan).unwrap();
            assert!(0 < least && least <= step(plan), "{boundary}: {plan}");
        }
    }
}

/// The questions of the repository, each with fewer devices and set-ups, with and without a barrier between
/// steps: no plan of any machine undercuts what the passes of its orders take at least on its wires.
#[test]
#[ignore = "slow"]
fn no_plan_of_a_real_question_is_faster_than_its_bound() {
    let few = [
        ("gpt3", "tensor = 4\npipeline = [4, 8]\nmicrobatch = 2\nzero = 1", "64"),
        ("llama3-70b", "tensor = 4\npipeline = [2, 4]\nmicrobatch = 1\nzero = 1", "64"),
        ("moe", "tensor = [1, 2]\npipeline = 8\nexpert = 8\nmicrobatch = 1\nzero = 1", "128"),
    ];
    let schedules =
        ["\"1f1b\", \"1f1b-i\", \"gpipe\"", "\"zb-h1\", \"zb-v\", \"v-half\", \"zb-auto\""];
    let mut told = 0;
    for (name, search, devices) in few {
        let file = format!("{}/scenarios/plan/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(file).unwrap();
        let line = |line: &str| match line.split_once('=').map(|(key, _)| key.trim()) {
            Some("devices") => format!("devices = {devices}"),
            Some("batch") => "batch = 32".to_owned(),
            Some("deadline-days" | "boundary" | "jitter") => String::new(),
            _ => line.to_owned(),
        };
        let text: Vec<String> = text.lines().map(line).collect();
        for boundary in ["barrier", "post-validation"] {
            for schedules in schedules {
                let text = text.join("\n");
                let training = "[training]";
                let keys = format!("[training]\nboundary = \"{boundary}\"");
                let text = match text.contains(training) {
                    true => text.replace(training, &keys),
                    false => format!("{text}\n{keys}\n"),
                };
                let search =
                    format!("\n[search]\n{search}\nchunks = [2, 4]\nschedule = [{schedules}]\n");
                let (folder, out) = ask(&(text + &search), &["--json"]);
                drop(folder);
                // Where there is no room on such a machine there is no plan.
                let Ok(answer) = serde_json::from_slice::<Value>(&out.stdout) else { continue };
                for plan in plans(&answer) {
                    // A step that does not fit has no bound.
                    if plan["fits"] == false {
                        assert_eq!(least(plan), None, "{name} {boundary}: {plan}");
                        continue;
                    }
                    let least = least(plan).unwrap();
                    assert!(0 < least && least <= step(plan), "{name} {boundary}: {plan}");
                    told += 1;
                }
            }
        }
    }
    assert!(told > 20, "{told}");
}

#[test]
fn a_bound_is_told_where_one_is_known() {
    let (folder, out) = ask(&pipelines("schedule = [\"zb-auto\"]"), &[]);
    drop(folder);
    let text = String::from_utf8(out.stdout).unwrap();
    let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let bound = told.split_once("of all orders of passes in this memory: ").map(|(_, bound)| bound);
    let is_said =
        |bound: &str| ["lower bound ", "proved optimal"].iter().any(|one| bound.starts_with(one));
    assert!(bound.is_some_and(is_said), "{text}");
    for schedule in ["po-h", "vocab-1"] {
        let answer = json(&pipelines(&format!("schedule = [\"{schedule}\"]")));
        assert!(!plans(&answer).is_empty(), "{schedule}");
        assert!(plans(&answer).iter().all(|plan| least(plan).is_none()), "{schedule}");
    }
}

/// One set-up that is asked for: its chunks lie in a V where there are two, else looped.
#[test]
fn a_set_up_may_ask_for_it() {
    for (chunks, named) in [(1, "zb-h1"), (2, "zb-v"), (3, "gis")] {
        let own = json(&set_up("zb-auto", chunks));
        let other = json(&set_up(named, chunks));
        let (own, other) = (&plans(&own)[0], &plans(&other)[0]);
        assert_eq!((&own["schedule"], &own["chunks"]), (&"zb-auto".into(), &chunks.into()));
        assert!(step(own) <= step(other), "{named}: {} {}", step(own), step(other));
    }
}

#[test]
fn the_order_is_exported() {
    for (chunks, class) in [(1, "1F1B"), (2, "ZBVZeroBubble"), (3, "Interleaved1F1B")] {
        let (folder, _) = ask(&set_up("zb-auto", chunks), &["--help"]);
        let winner = folder.path().join("winner");
        let mut ask = command();
        ask.arg("plan").arg(folder.path().join("plan.toml")).arg("--json").arg("--export");
        let out = ask.arg(&winner).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
        let titan = fs::read_to_string(winner.join("torchtitan.toml")).unwrap();
        assert!(titan.contains(&format!("pipeline_parallel_schedule = \"{class}\"")), "{titan}");
        assert!(titan.contains("pipeline_parallel_schedule_csv"), "{titan}");
        let said = String::from_utf8_lossy(&out.stderr);
        let script = fs::read_to_string(winner.join("megatron.sh")).ok();
        if class == "ZBVZeroBubble" {
            assert!(said.contains("no megatron.sh: zb-auto is not in Megatron-LM"), "{said}");
            assert_eq!(script, None);
        } else {
            assert!(script.is_some_and(|text| text.contains("--debubble-order")), "{said}");
        }
        // Simulated from the file of the order, and from that which torch reads, a step is the plan's.
        let scenario = winner.join("scenario.toml");
        let text = fs::read_to_string(&scenario).unwrap();
        assert!(text.contains("schedule = [\"zb-auto.txt\"]"), "{text}");
        let csv = winner.join("torch.toml");
        fs::write(&csv, text.replace("zb-auto.txt", "schedule.csv")).unwrap();
        for file in [&scenario, &csv] {
            let out = command().args(["simulate", "--json"]).arg(file).output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            let simulated: Value = serde_json::from_slice(&out.stdout).unwrap();
            let hardware = &simulated["results"][0]["hardware"];
            assert_eq!(hardware["step_ns"], plans(&answer)[0]["step_ns"], "{chunks} {file:?}");
        }
    }
}

/// [`SMALL`] on 8 devices with layers that differ: the first have a wide MLP, the others experts.
fn uneven(table: &str) -> String {
    let small = SMALL.replace("devices = [8, 16]", "devices = 8");
    let experts = "layers = 22\ngated = true\nffn = 1024\nexperts = 8\ntop-k = 2\ndense-layers = 9\ndense-ffn = 12288";
    format!("{}\n{table}\n", small.replace("layers = 24", experts))
}

/// Layers are dealt together with the order where that is faster; the answer says how, and who asks for it gets the
/// same; and that is what is exported.
#[test]
#[ignore = "slow"]
fn layers_are_dealt_together_with_the_order() {
    let search = |split: &str| {
        let keys = "[search]\ntensor = 2\npipeline = 4\nmicrobatch = 1\nzero = 1\nschedule = \"zb-auto\"\n";
        uneven(&format!("{keys}{split}"))
    };
    let [dealt, named, balanced] =
        ["", "split = \"searched\"", "split = \"balanced\""].map(|split| json(&search(split)));
    assert_eq!(plans(&dealt), plans(&named));
    let is_dealt = |plan: &&Value| plan["split"] == "searched";
    let best = plans(&dealt).iter().find(is_dealt).unwrap();
    let other = plans(&balanced).iter().find(|plan| plan["chunks"] == best["chunks"]).unwrap();
    assert!(step(best) < step(other), "{} {}", step(best), step(other));
    assert!(plans(&balanced).iter().all(|plan| plan["split"] == "balanced"));
    assert!(other["layout"].is_null());
    let layout = best["layout"].as_str().unwrap();
    let chunks = best["chunks"].as_u64().unwrap();
    assert_eq!(layout.matches('|').count() as u64 + 1, 4 * chunks, "{layout}");
    // Asked for as a set-up, by its layers or by the search of them.
    let setup = format!(
        "[setup]\ntensor = 2\npipeline = 4\nmicrobatch = 1\nzero = 1\nexpert = {}\nschedule = \"zb-auto\"\n",
        best["expert"]
    );
    let by_layout = uneven(&format!("{setup}layout = \"{layout}\"\n"));
    let again = json(&by_layout);
    assert_eq!(again["plans"][0]["step_ns"], best["step_ns"]);
    assert_eq!(again["setups"][0]["layout"], layout);
    let searched = json(&uneven(&format!("{setup}split = \"searched\"\nchunks = {chunks}\n")));
    assert_eq!(searched["plans"][0]["step_ns"], best["step_ns"]);
    assert_eq!(searched["plans"][0]["layout"], layout);
    // In words and in files.
    let (folder, out) = ask(&search(""), &[]);
    let text = String::from_utf8(out.stdout).unwrap();
    let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("searched: layers placed by the search"), "{text}");
    let (file, winner) = (folder.path().join("set-up.toml"), folder.path().join("winner"));
    let by_search = uneven(&format!("{setup}split = \"searched\"\nchunks = {chunks}\n"));
    let (other, out) = ask(&by_search, &[]);
    drop(other);
    let told = String::from_utf8(out.stdout).unwrap();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("its layers are placed by the search: layout ="), "{told}");
    fs::write(&file, by_layout).unwrap();
    let out = command().arg("plan").arg(&file).arg("--export").arg(&winner).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let titan = fs::read_to_string(winner.join("torchtitan.toml")).unwrap();
    let parts = titan.lines().filter(|line| line.starts_with("  [")).count() as u64;
    assert_eq!(parts, 4 * chunks, "{titan}");
    let out = command().args(["simulate", "--json"]).arg(winner.join("scenario.toml")).output();
    let simulated: Value = serde_json::from_slice(&out.unwrap().stdout).unwrap();
    assert_eq!(simulated["results"][0]["hardware"]["step_ns"], best["step_ns"]);
}

/// Keys of a set-up for its layers: accepted and refused ones.
#[test]
fn how_layers_are_dealt_is_checked() {
    let small = SMALL.replace("devices = [8, 16]", "devices = 16");
    let with = |table: &str| format!("{small}\n{table}\n");
    let text = refusal(&with("[search]\nsplit = \"some\""));
    assert!(text.contains("write even, balanced or searched"), "{text}");
    let text = refusal(&with("[setup]\npipeline = 4\nsplit = \"searched\""));
    assert!(text.contains("split is searched, but no order is"), "{text}");
    assert!(text.contains("schedule = \"zb-auto\""), "{text}");
    let text = refusal(&with("[setup]\npipeline = 4\nsplit = \"some\""));
    assert!(text.contains("write even, balanced or searched"), "{text}");
    // Chunks of a V are told one after the other; a stage of it has no layers of its own to tell.
    let vee = "[setup]\npipeline = 4\nschedule = \"zb-v\"\n";
    let answer = json(&with(&format!("{vee}layout = \"Ett|(t*3|)*6t*4L\"")));
    assert_eq!(answer["setups"][0]["layout"], "Ett|(t*3|)*6t*4L");
    let even = json(&with(&format!("{vee}layout = \"E(t*3|)*7t*3L\"")));
    assert_eq!(even["plans"][0]["step_ns"], json(&with(vee))["plans"][0]["step_ns"]);
    let text = refusal(&with(&format!("{vee}first-stage-layers = 3")));
    assert!(text.contains("zb-v goes back and forth"), "{text}");
    let mirrored = "[setup]\npipeline = 4\nschedule = \"dualpipe\"\nlayout = \"E(t*6|)*3t*6L\"";
    let text = refusal(&with(mirrored));
    assert!(text.contains("dualpipe has it on two, one for each direction"), "{text}");
}

#[test]
fn what_cannot_have_it_is_refused_and_goes_without() {
    let of = |framework: &str, question: &str| {
        question.replace("plans = 2", &format!("plans = 2\nframework = \"{framework}\""))
    };
    let asked = pipelines("schedule = [\"zb-auto\", \"1f1b\"]");
    let text = refusal(&of("megatron", &asked));
    assert!(text.contains("Megatron-LM takes no order that is found by search"), "{text}");
    assert!(text.contains("take zb-auto out"), "{text}");
    let text = refusal(&of("megatron", &set_up("zb-auto", 1)));
    assert!(text.contains("Megatron-LM does not run zb-auto"), "{text}");
    let answer = json(&of("megatron", &pipelines("")));
    assert!(plans(&answer).iter().all(|plan| plan["schedule"] != "zb-auto"));
    let answer = json(&of("torchtitan", &asked));
    assert!(plans(&answer).iter().any(|plan| plan["schedule"] == "zb-auto"));
    let streams = |question: &str| {
        let experts = "experts = 8\ntop-k = 2\nffn = 4096\nvocabulary";
        question.replace("vocabulary", experts) + "\n[training]\ntwo-streams = true\n"
    };
    let text = refusal(&streams(&asked));
    assert!(text.contains("no order is searched for passes that share two streams"), "{text}");
    let text = refusal(&streams(&set_up("zb-auto", 2)));
    assert!(text.contains("zb-auto never overlaps a forward with a backward"), "{text}");
    let text = refusal(&set_up("zb-auto", 1).replace("pipeline = 4", "pipeline = 1"));
    assert!(text.contains("one stage has no schedule to choose"), "{text}");
    let text = refusal(&set_up("zb-auta", 1));
    assert!(text.contains("zb-auto"), "{text}");
}
