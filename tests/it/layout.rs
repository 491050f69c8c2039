//! `--layout`: layers of each chunk as Megatron-LM writes them, in questions and plans.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{run, stdout};
use crate::plan::{SMALL, command, json, refusal};

const TIMES: &str = "--microbatches 8 --backward-input 10ms --backward-weight 10ms";

/// The results of a simulation, without the name of the file that a schedule came from.
fn simulated(line: &str) -> Value {
    let out = run(&format!("simulate --json {line}"));
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    answer["results"][0].clone()
}

fn refused(line: &str) -> String {
    let out = run(&format!("simulate {line}"));
    assert_eq!(out.status.code(), Some(2), "{line}");
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn a_layout_is_the_list_of_times_by_layers() {
    let more = "--microbatches 8 --schedule 1f1b --hop 1ms";
    let dealt = simulated(&format!(
        "{more} --layout Et*3|t*5|t*4|t*4L --forward 8ms --backward-input 12ms --backward-weight 4ms \
         --activation 16MiB --memory-limit 1p"
    ));
    let listed = simulated(&format!(
        "{more} --stages 4 --forward 6ms,10ms,8ms,8ms --backward-input 9ms,15ms,12ms,12ms \
         --backward-weight 3ms,5ms,4ms,4ms --activation 12MiB,20MiB,16MiB,16MiB --memory-limit 1p"
    ));
    assert_eq!(dealt, listed);
    // A stage's own time is shared by its chunks, in a V as in a loop.
    let more = "--microbatches 8 --schedule zb-v --stages 2";
    let dealt = simulated(&format!(
        "{more} --layout Et|ttt|t|L --forward 4ms,8ms --backward-input 10ms --backward-weight 10ms"
    ));
    let listed = simulated(&format!(
        "{more} --forward 4ms,6ms,2ms,0ms --backward-input 4ms,12ms,4ms,0ms \
         --backward-weight 4ms,12ms,4ms,0ms"
    ));
    // A chunk without layers holds nothing; without a layout every chunk counts as much.
    let without_memory = |mut answer: Value| {
        answer.as_object_mut().unwrap().remove("peak_in_flight");
        answer
    };
    assert_eq!(without_memory(dealt), without_memory(listed));
}

#[test]
fn a_layout_gives_stages_and_chunks() {
    let shape = |line: &str| {
        let result = simulated(&format!("{TIMES} --forward 10ms {line}"));
        ["stages", "chunks"].map(|key| result[key].as_u64().unwrap())
    };
    let loose = "--layout E(t*2|)*7t*2L";
    assert_eq!(shape(&format!("--schedule 1f1b {loose}")), [8, 1]);
    assert_eq!(shape(&format!("--schedule 1f1b-i --stages 2 {loose}")), [2, 4]);
    assert_eq!(shape(&format!("--schedule 1f1b-i --chunks 4 {loose}")), [2, 4]);
    assert_eq!(shape(&format!("--schedule zb-v --stages 4 {loose}")), [4, 2]);
    // Commas mean nothing, and alike chunks are the even split.
    let [even, dealt] = ["", "--layout E,(t|)*3,tL"].map(|layout| {
        simulated(&format!("{TIMES} --forward 10ms --schedule zb-h1 --stages 4 {layout}"))
    });
    assert_eq!(even, dealt);
}

#[test]
fn layouts_that_cannot_be_honoured_are_refused_with_the_reason() {
    let with = |line: &str| refused(&format!("{TIMES} --forward 10ms --schedule 1f1b {line}"));
    for (line, said) in [
        ("--stages 3 --layout Et|t|t|tL", "4 chunks, not a multiple of 3 stages"),
        ("--chunks 3 --layout Et|t|t|tL", "not a multiple of 3 per stage"),
        ("--stages 2 --layout Et|t|t|tL", "1f1b has 2 chunks, 1 on each of 2 stages"),
        ("--layout Et*4|tmL", "forward is not given by chunk"),
        ("--layout Et*4|t*9999999999999tL", "more than 1048576 layers"),
        ("--layout E(t*999999999|)*999999999L", "more than 65535 chunks"),
        ("--layout tEL", "character 1"),
        ("--layout Et|tL --layers 2", "layout and layers exclude each other"),
        ("--layout Et|tL --profile none.toml", "layout and profile exclude each other"),
        (
            "--layout Et|tL --hidden 64 --heads 2 --seq 8 --microbatch-size 1 --layers-per-stage 2",
            "2 layers on 2 stages, not 2 on each",
        ),
    ] {
        let text = with(line);
        assert!(text.contains(said), "{line}: {text}");
    }
    let by_chunk = "--schedule 1f1b --microbatches 4 --layout Et*4|tmL --forward 4ms,9ms \
                    --backward-input 4ms,9ms --backward-weight 4ms,9ms";
    assert_eq!(simulated(by_chunk)["stages"], 2);
}

#[test]
fn a_plan_has_the_layout_that_it_is_told() {
    let ask = |search: &str| SMALL.to_owned() + "[search]\n" + search;
    let layout = "layout = \"Et*5|(t*6|)*2t*7L\"\n";
    let folder = TempDir::new().unwrap();
    let (file, winner) = (folder.path().join("plan.toml"), folder.path().join("winner"));
    fs::write(&file, ask(layout)).unwrap();
    let out = command().arg("plan").arg(&file).args(["--json", "--export"]).arg(&winner).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let plans = answer["plans"].as_array().unwrap();
    assert!(!plans.is_empty());
    for plan in plans {
        assert_eq!(plan["pipeline"].as_u64().unwrap() * plan["chunks"].as_u64().unwrap(), 4);
        assert_eq!(plan["split"], "layout");
    }
    let modules = fs::read_to_string(winner.join("torchtitan.toml")).unwrap();
    assert!(modules.contains("\"tok_embeddings\", \"layers.0\", \"layers.1\", \"layers.2\", \"layers.3\", \"layers.4\"]"), "{modules}");
    let even = json(&ask("layout = \"Et*6|(t*6|)*2t*6L\"\npipeline = 4\nschedule = \"1f1b\"\n"));
    let split = json(&ask("split = \"even\"\npipeline = 4\nschedule = \"1f1b\"\n"));
    assert_eq!(even["plans"][0]["step_ns"], split["plans"][0]["step_ns"]);
    for (search, said) in [
        ("layout = \"Et*5|tL\"\n", "layout has 6 layers, but the model has 24"),
        (
            "layout = \"Et*12|t*12mL\"\n",
            "layers of multi-token prediction (m), but the model has 0",
        ),
        ("layout = \"Et*12|t*12L\"\nsplit = \"even\"\n", "layout and split exclude each other"),
        ("layout = \"Et*12|t*12L\"\npipeline = 4\n", "not a multiple of 4 stages"),
        ("layout = \"Et*12|t*12\"\n", "no loss (L)"),
    ] {
        let text = refusal(&ask(search));
        assert!(text.contains(said), "{search}: {text}");
    }
}

/// Without sizes activations are counted by layers, as times are dealt: the stage with most layers holds most, as with
/// any size of a stage.
#[test]
fn without_sizes_memory_is_dealt_by_layers() {
    let peaks = |layout: &str, rest: &str| -> Vec<f64> {
        let line = format!(
            "--layout {layout} --stages 4 --microbatches 8 --forward 4ms --backward-input 4ms \
             --backward-weight 4ms {rest}"
        );
        let table = stdout(&run(&format!("simulate --gantt never {line}")));
        let last = table.lines().last().unwrap();
        last.split_whitespace().skip(1).map(|peak| peak.parse().unwrap()).collect()
    };
    for (layout, schedule, expected) in [
        ("Et|t|t|t*13L", "1f1b", [4.0 / 13.0, 3.0 / 13.0, 2.0 / 13.0, 1.0]),
        ("Et|t*5|t|tL", "zb-h1", [0.8, 4.0, 0.8, 0.8]),
        ("Et*2|t|t|t|t|t|t|t*2L", "v-half", [3.0, 1.5, 1.5, 1.5]),
    ] {
        let found = peaks(layout, &format!("--schedule {schedule}"));
        let sized = peaks(layout, &format!("--schedule {schedule} --activation 4GiB"));
        for (at, expected) in expected.into_iter().enumerate() {
            assert!((found[at] - expected).abs() < 0.01, "{layout}: {found:?}");
            assert!((found[at] - sized[at]).abs() < 0.01, "{layout}: {found:?} {sized:?}");
        }
    }
}

/// A refusal names the one reason and what to write.
#[test]
fn a_set_up_that_a_framework_does_not_run_has_one_reason() {
    let ask = |batch: u64, setup: &str| {
        let small = SMALL
            .replace("devices = [8, 16]", "devices = 4")
            .replace("batch = 64", &format!("batch = {batch}"));
        refusal(&format!(
            "framework = \"megatron\"\n{small}\n[setup]\npipeline = 4\nmicrobatch = 1\n{setup}\n"
        ))
    };
    let few = ask(3, "chunks = 2\nschedule = \"1f1b-i\"");
    assert!(few.contains("1f1b-i with 3 microbatches on 4 stages"), "{few}");
    assert!(few.contains("batch = 4 or more") && !few.contains("ZeRO"), "{few}");
}

#[test]
fn a_plan_for_megatron_writes_its_layout_back() {
    let folder = TempDir::new().unwrap();
    let (file, winner) = (folder.path().join("plan.toml"), folder.path().join("winner"));
    let layout = "Ett|(t*3|)*6t*4L";
    let search = format!("[search]\npipeline = 4\nschedule = \"1f1b-i\"\nlayout = \"{layout}\"\n");
    fs::write(&file, format!("framework = \"megatron\"\n{SMALL}{search}")).unwrap();
    let out = command().arg("plan").arg(&file).args(["--json", "--export"]).arg(&winner).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let script = fs::read_to_string(winner.join("megatron.sh")).unwrap();
    assert!(script.contains(&format!("--pipeline-model-parallel-layout '{layout}'")), "{script}");
    assert!(!script.contains("virtual-pipeline-stage"), "{script}");
}

/// A plan of 16 layers and two of multi-token prediction, with this layout.
fn with_mtp(layout: &str) -> Value {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    let text = format!(
        "tokens = 1e12\nbatch = 64\nsequence = 4096\n[model]\nlayers = 16\nhidden = 4096\nheads = 32\nffn = 11008\n\
         vocabulary = 32000\nmtp = 2\n[[cluster]]\nmachine = \"h100\"\ndevices = [16]\n[setup]\ntensor = 2\n\
         pipeline = 4\ndata = 2\nmicrobatch = 1\nlayout = \"{layout}\"\n"
    );
    fs::write(&path, text).unwrap();
    let export = folder.path().join("out");
    let line = format!("plan {} --export {} --json", path.display(), export.display());
    let out = run(&line);
    let mut answer: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    answer["said"] = String::from_utf8_lossy(&out.stderr).into();
    answer
}

#[test]
fn layers_of_multi_token_prediction_lie_in_several_chunks() {
    let (one, several) = (with_mtp("Et*4|t*4|t*4|t*4mmL"), with_mtp("Et*6|t*6|t*4m|mL"));
    let step = |answer: &Value| answer["plans"][0]["step_ns"].as_u64().unwrap();
    // Each such layer has a head of its own.
    assert!(step(&several) < step(&one), "{} {}", step(&several), step(&one));
    assert_eq!(several["plans"][0]["layout"], "Et*6|t*6|t*4m|mL");
    let said = several["said"].as_str().unwrap();
    assert!(said.contains("multi-token prediction in one chunk"), "{said}");
    assert!(!one["said"].as_str().unwrap().contains("in one chunk"));
    // All of them must be there.
    let few = with_mtp("Et*6|t*5|t*5m|L");
    assert!(few["said"].as_str().unwrap().contains("1 layers of multi-token prediction"), "{few}");
    let vary = run(
        "search --layout Et|t|m|mL --microbatches 4 --forward 4ms,4ms,2ms,3ms --backward-input 4ms,4ms,2ms,3ms \
         --backward-weight 4ms,4ms,2ms,3ms --stages 4 --activation 1GiB,1GiB,1GiB,1GiB --memory-limit 5GiB --vary layers",
    );
    assert_eq!(vary.status.code(), Some(2));
    let said = String::from_utf8_lossy(&vary.stderr).into_owned();
    assert!(said.contains("in several chunks, which --vary does not move"), "{said}");
}
