//! `[setup]` and `--against`: one set-up with every part of its step and its memory, and two of them side by
//! side.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::plan::{SMALL, command, json, refusal};

/// A set-up of [`SMALL`] for 16 devices.
const SETUP: &str = "[setup]\ntensor = 2\npipeline = 4\nmicrobatch = 2\nrecompute = \"full\"\n";

/// [`SMALL`] with `table` instead of a search.
fn with(table: &str) -> String {
    SMALL.replace("devices = [8, 16]", "devices = 16") + table
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Runs `debubble plan FIRST --against SECOND FLAGS`.
fn against(first: &str, second: &str, flags: &[&str]) -> Output {
    let folder = TempDir::new().unwrap();
    let files = [("first.toml", first), ("second.toml", second)].map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let mut ask = command();
    ask.arg("plan").arg(&files[0]).arg("--against").arg(&files[1]).args(flags).output().unwrap()
}

fn against_json(first: &str, second: &str) -> Value {
    let out = against(first, second, &["--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn a_set_up_is_answered_as_a_search_of_it_alone() {
    let search = "[search]\ntensor = 2\npipeline = 4\nmicrobatch = 2\nrecompute = \"full\"\nzero = 1\n\
                  split = \"even\"\nschedule = \"SCHEDULE\"\nchunks = 3\n";
    for (schedule, more) in
        [("1f1b", ""), ("1f1b-i", "chunks = 3\n"), ("v-half", ""), ("po-h", "chunks = 3\n")]
    {
        let own = json(&with(&format!("{SETUP}schedule = \"{schedule}\"\n{more}")));
        let found = json(&with(&search.replace("SCHEDULE", schedule)));
        assert_eq!(own["plans"].as_array().unwrap().len(), 1);
        assert_eq!(own["plans"][0], found["plans"][0], "{schedule}");
        assert_eq!(own["winner"], 0);
        // Only what was asked for is told part by part.
        assert!(found.get("setups").is_none());
    }
}

#[test]
fn parts_add_up_to_the_step_and_to_the_memory() {
    for more in ["", "chunks = 2\n", "schedule = \"zb-h1\"\n", "schedule = \"dualpipe\"\n"] {
        let answer = json(&with(&format!("{SETUP}{more}")));
        let (plan, told) = (&answer["plans"][0], &answer["setups"][0]);
        let time = told["time"].as_array().unwrap();
        let sum: f64 = time.iter().map(|part| number(&part["seconds"])).sum();
        assert!((1e9 * sum - number(&plan["step_ns"])).abs() < 1.0, "{more}: {sum}");
        let shares: f64 = time.iter().map(|part| number(&part["share"])).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{more}");
        assert!(time.len() >= 8, "{time:?}");
        assert!(time.iter().all(|part| number(&part["seconds"]) >= 0.0), "{more}: {time:?}");
        let stages = told["memory"].as_array().unwrap();
        assert_eq!(stages.len(), 4);
        for stage in stages {
            let parts = stage["parts"].as_array().unwrap();
            let sum: f64 = parts.iter().map(|part| number(&part["bytes"])).sum();
            assert_eq!(sum, number(&stage["bytes"]));
        }
        let fullest = usize::try_from(told["fullest_stage"].as_u64().unwrap()).unwrap();
        let most = stages.iter().map(|stage| number(&stage["bytes"])).fold(0.0, f64::max);
        assert_eq!(number(&stages[fullest]["bytes"]), most);
        assert_eq!(number(&plan["peak_bytes"]), most);
        assert_eq!(told["fits"], true);
        let rate = 16.0 * number(&told["tokens_per_second_per_device"]);
        assert!((rate / number(&plan["tokens_per_second"]) - 1.0).abs() < 1e-12);
        // MFU is the rate over the peak of an A100.
        let mfu = number(&told["tflops_per_device"]) / 312.0;
        assert!((mfu / number(&plan["mfu"]) - 1.0).abs() < 1e-9);
    }
}

#[test]
fn what_does_not_fit_is_answered_and_says_what_it_lacks() {
    let large =
        with("[setup]\npipeline = 2\nmicrobatch = 8\n").replace("hidden = 2048", "hidden = 8192");
    let answer = json(&large);
    let told = &answer["setups"][0];
    assert_eq!((&told["fits"], &answer["winner"]), (&Value::from(false), &Value::Null));
    let fullest = usize::try_from(told["fullest_stage"].as_u64().unwrap()).unwrap();
    let stage = &told["memory"][fullest];
    let lacks = number(&stage["bytes"]) - number(&stage["device_bytes"]);
    assert!(lacks > 0.0);
    assert_eq!(number(&told["memory_shortfall_bytes"]), lacks);
    assert_eq!(told["lacks_bytes"], told["memory_shortfall_bytes"]);
    assert!(number(&told["step_ns"]) > 0.0);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, &large).unwrap();
    let out = command().arg("plan").arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("does not fit: stage 1 needs"), "{text}");
    // Schedules that take a limit, and copies to the host, too.
    for schedule in ["v-half", "po-h"] {
        let answer = json(&format!("{large}schedule = \"{schedule}\"\n"));
        assert_eq!(answer["setups"][0]["fits"], false, "{schedule}");
    }
}

#[test]
fn several_clusters_have_an_answer_each() {
    let table = "\n[[cluster]]\nmachine = \"h100\"\ndevices = [8, 32]\n\n[setup]\ntensor = 2\npipeline = 2\n";
    let answer = json(&(SMALL.to_owned() + table));
    let devices = |key: &str| -> Vec<u64> {
        let all = answer[key].as_array().unwrap();
        all.iter().map(|one| one["devices"].as_u64().unwrap()).collect()
    };
    assert_eq!(devices("plans"), [8, 16, 8, 32]);
    assert_eq!(devices("setups"), [8, 16, 8, 32]);
    assert_eq!(answer["plans"][3]["data"], 8);
    let machines: Vec<&str> = answer["setups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["machine"].as_str().unwrap())
        .collect();
    assert_eq!(machines, ["a100-80g", "a100-80g", "h100", "h100"]);
}

#[test]
fn a_wrong_set_up_is_refused_at_its_key_with_a_cure() {
    for (table, said) in [
        ("tensor = 3", "data 5 x tensor 3 x pipeline 1 x context 1 is 15 devices"),
        ("tensor = 32", "is 32 devices, but the cluster has 16"),
        ("data = 4\npipeline = 2", "data 4 x tensor 1 x pipeline 2 x context 1 is 8 devices"),
        ("data = 4\npipeline = 2", "write data = 8, or take data out"),
        ("pipeline = 3", "is 15 devices, but the cluster has 16"),
        ("pipeline = 16\nchunks = 2", "32 chunks, but the model has 24 layers"),
        ("microbatch = 3", "not a multiple of microbatch 3 x data 16"),
        ("microbatch = 3", "write batch = 48"),
        ("context = 0", "context is 0: from 1"),
        ("expert = 4", "but the model has no experts"),
        ("zero = 9", "zero is 9: the stages are 0, 1, 2 and 3"),
        ("reshard = \"sometimes\"", "write after-forward, after-last or never"),
        ("shard-groups = 3", "does not divide 16 replicas"),
        ("schedule = \"zb-v\"", "one stage has no schedule to choose"),
        (
            "pipeline = 4\nschedule = \"1f1bi\"",
            "there is no schedule `1f1bi`: did you mean `1f1b-i`",
        ),
        ("pipeline = 4\nschedule = \"zb-v\"\nchunks = 3", "zb-v has 2 chunks for each stage"),
        ("recompute = [\"mlp\", \"attn\"]", "or some of core_attn"),
        (
            "pipeline = 4\nlayout = \"Et*12|t*12L\"",
            "the layout has 2 chunks, not a multiple of 4 stages",
        ),
        ("pipeline = 2\nlayout = \"Et*12|t*11L\"", "layout has 23 layers, but the model has 24"),
        ("pipeline = 2\nlayout = \"Et*12|t*12mL\"", "but the model has 0"),
        ("pipeline = 2\nlayout = \"Et*12L|t*12\"", "which ends the last chunk"),
        ("pipeline = 2\nsplit = \"even\"\nlayout = \"Et*12|t*12L\"", "both place layers"),
        ("pipeline = 4\nfirst-stage-layers = 4", "20 layers are left for 3 stages"),
        ("pipeline = 4\nfirst-stage-layers = 99", "take 99 of 24 layers"),
        ("last-stage-layers = 3", "there is one stage"),
        ("pipeline = 4\nschedule = \"zb-v\"\nlast-stage-layers = 3", "zb-v goes back and forth"),
        (
            "pipeline = 2\ntensor = 1048576\ncontext = 1048576\ndata = 1048576\nexpert = 1048576",
            "devices",
        ),
        ("tp = 2", "there is no key `tp`"),
    ] {
        let text = refusal(&with(&format!("[setup]\n{table}\n")));
        assert!(text.contains(said), "{table}: {text}");
        assert!(text.contains("plan.toml:"), "{table}: {text}");
    }
    let few = with("[setup]\ntensor = 8\n").replace("heads = 16", "heads = 4");
    let few = refusal(&few);
    assert!(few.contains("tensor is 8, which does not divide 4 heads"), "{few}");
    assert!(few.contains("write one of 1, 2, 4"), "{few}");
    let both = refusal(&with("[setup]\ntensor = 2\n[search]\ntensor = 2\n"));
    assert!(both.contains("one set-up, [setup], or several, [search]"), "{both}");
    let framework = with("[setup]\npipeline = 4\nschedule = \"zb-v\"\n");
    let framework = refusal(&format!("framework = \"megatron\"\n{framework}"));
    assert!(framework.contains("Megatron-LM does not run the schedule zb-v"), "{framework}");
    // A cap on memory may stay.
    let capped = json(&with("[setup]\ntensor = 2\n[search]\nmemory-cap = \"1GiB\"\n"));
    assert_eq!(capped["setups"][0]["fits"], false);
}

/// The lines about the layout in what is exported for Megatron-LM of the set-up `table`.
fn exported(table: &str) -> String {
    let folder = TempDir::new().unwrap();
    let (path, export) = (folder.path().join("plan.toml"), folder.path().join("export"));
    fs::write(&path, with(table)).unwrap();
    let out = command().arg("plan").arg(&path).arg("--export").arg(&export).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    fs::read_to_string(export.join("megatron.sh")).unwrap()
}

#[test]
fn first_and_last_stages_have_the_layers_that_they_are_told() {
    let table = "[setup]\npipeline = 4\nfirst-stage-layers = 5\nlast-stage-layers = 3\n";
    let answer = json(&with(table));
    let layers: Vec<u64> = answer["setups"][0]["memory"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| stage["layers"].as_u64().unwrap())
        .collect();
    assert_eq!(layers, [5, 8, 8, 3]);
    let script = exported(table);
    assert!(script.contains("--pipeline-model-parallel-layout 'Et*5|t*8|t*8|t*3L'"), "{script}");
    let two = "[setup]\npipeline = 4\nchunks = 2\nlast-stage-layers = 6\n";
    assert_eq!(json(&with(two))["setups"][0]["layout"], "Et*3|(t*3|)*6t*3L");
}

/// Sizes with a layer of multi-token prediction.
fn predicting(table: &str) -> String {
    with(table).replace("layers = 24", "layers = 24\nmtp = 1\ngated = true\nffn = 5504")
}

#[test]
fn a_layer_of_multi_token_prediction_lies_where_the_layout_has_it() {
    let ask = |layout: &str| {
        let table = format!("[setup]\npipeline = 4\nlayout = \"{layout}\"\n");
        json(&predicting(&table))["setups"][0].clone()
    };
    let [with_loss, before] = ["Et*6|t*6|t*6|t*6mL", "Et*6|t*9|t*9m|L"].map(ask);
    assert_eq!(with_loss["layout"], "Et*6|t*6|t*6|t*6mL");
    assert_eq!(before["layout"], "Et*6|t*9|t*9m|L");
    let held = |told: &Value, stage: usize| number(&told["memory"][stage]["parts"][0]["bytes"]);
    let plain = json(
        &with("[setup]\npipeline = 4\nlayout = \"Et*6|t*6|t*6|t*6L\"\n")
            .replace("layers = 24", "layers = 24\ngated = true\nffn = 5504"),
    );
    // The last stage has its weights, and no other has.
    assert!(held(&with_loss, 3) > held(&plain["setups"][0], 3));
    assert_eq!(held(&with_loss, 1), held(&plain["setups"][0], 1));
    assert!(held(&before, 2) > held(&before, 1));
    let lacking = refusal(&predicting("[setup]\npipeline = 2\nlayout = \"Et*12|t*12L\"\n"));
    assert!(
        lacking.contains("has 0 layers of multi-token prediction (m), but the model has 1"),
        "{lacking}"
    );
    let early = refusal(&predicting("[setup]\npipeline = 2\nlayout = \"Et*12|t*12m||L\"\n"));
    assert!(early.contains("only the last 2 chunks may hold them"), "{early}");
}

#[test]
fn formats_and_software_are_read_and_checked() {
    let h100 = |training: &str| {
        with(&format!("[setup]\ntensor = 2\n[training]\n{training}")).replace("a100-80g", "h100")
    };
    let step = |training: &str| number(&json(&h100(training))["plans"][0]["step_ns"]);
    let plain = step("");
    for faster in ["precision = \"fp8\"", "cuda-graphs = \"full\"", "overlap-tensor = true"] {
        assert!(step(faster) <= plain, "{faster}");
    }
    assert!(step("precision = \"fp8\"") < plain);
    let on_a100 = refusal(&with("[setup]\ntensor = 2\n[training]\nprecision = \"fp8\"\n"));
    assert!(on_a100.contains("the machine a100-80g has no peak rate for fp8"), "{on_a100}");
    // Hopper has 8-bit products, and none with a scale for each block; AMD's have no NVFP4.
    for (machine, format, others) in [
        ("h100", "mxfp8", "bf16, fp8, fp8-blockwise"),
        ("mi355x", "nvfp4", "bf16, fp8, fp8-blockwise, mxfp8"),
    ] {
        let training = format!("[setup]\ntensor = 2\n[training]\nprecision = \"{format}\"\n");
        let text = refusal(&with(&training).replace("a100-80g", machine));
        assert!(text.contains(&format!("the devices of {machine} have no {format}")), "{text}");
        assert!(text.contains(&format!("write {others}, or take another machine")), "{text}");
    }
    for (wrong, said) in [
        ("precision = \"nvfp4\"", "the machine h100 has no peak rate for nvfp4"),
        ("precision = \"fp88\"", "precision is `fp88`: did you mean `fp8`"),
        ("cuda-graphs = \"some\"", "cuda-graphs is `some`: write none, partial, full"),
        ("dispatcher = \"deepep\"", "dispatcher is about experts, and the model has none"),
        ("weight-bytes = 0", "weight-bytes is 0: from 1 to 64"),
    ] {
        let text = refusal(&h100(wrong));
        assert!(text.contains(said), "{wrong}: {text}");
    }
}

#[test]
fn two_set_ups_stand_side_by_side() {
    let (first, second) = (with(SETUP), with(&SETUP.replace("\"full\"", "\"none\"")));
    let both = against_json(&first, &second);
    for key in ["time", "memory", "figures"] {
        for line in both[key].as_array().unwrap() {
            let [a, b, difference] =
                ["first", "second", "difference"].map(|key| number(&line[key]));
            assert_eq!(difference, b - a, "{line}");
        }
    }
    let [one, other] = [&first, &second].map(|question| json(question));
    for (side, answer) in [("first", &one), ("second", &other)] {
        assert_eq!(both[side]["step_ns"], answer["plans"][0]["step_ns"]);
        for (key, total) in [
            ("time", number(&both[side]["step_ns"]) / 1e9),
            ("memory", number(&answer["plans"][0]["peak_bytes"]) / f64::from(1 << 30)),
        ] {
            let lines = both[key].as_array().unwrap();
            let (all, parts) = lines.split_last().unwrap();
            let sum: f64 = parts.iter().map(|line| number(&line[side])).sum();
            assert!((sum / total - 1.0).abs() < 1e-9 && number(&all[side]) == total, "{key}");
        }
    }
    let verdict = both["verdict"].to_string();
    // Nothing is computed again in the second, which holds more for it.
    assert!(verdict.contains("the second is") && verdict.contains("the second holds"), "{verdict}");
    let text = String::from_utf8(against(&first, &second, &[]).stdout).unwrap();
    assert!(text.contains("difference  relative") && text.contains("dollars less"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let same = against_json(&first, &first);
    let lines = ["time", "memory", "figures"].map(|key| same[key].as_array().unwrap().clone());
    assert!(lines.concat().iter().all(|line| line["difference"] == 0.0));
    assert!(same["verdict"].to_string().contains("both are as fast"));
}

#[test]
fn a_search_stands_beside_a_set_up() {
    let search = with("[search]\ntensor = [1, 2]\npipeline = [2, 4]\nschedule = \"1f1b\"\n");
    let both = against_json(&search, &with(SETUP));
    let winner = usize::try_from(both["answers"][0]["winner"].as_u64().unwrap()).unwrap();
    let winner = &both["answers"][0]["plans"][winner];
    assert_eq!(both["first"]["step_ns"], winner["step_ns"]);
    // What is wrong with the second question is said of its file.
    let out = against(&search, &with("[setup]\ntensor = 3\n"), &[]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("second.toml"));
    let out = command().args(["plan", "--against", "a.toml", "--validate"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
}

/// 180,000 GPU-hours a trillion tokens (arXiv 2412.19437, table 1 and section 3).
#[test]
fn deepseek_v3_is_answered_as_it_was_trained() {
    let path = Path::new("scenarios/plan/deepseek-v3.toml");
    let out = command().arg("plan").arg(path).arg("--json").output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let plan = &answer["plans"][0];
    assert_eq!((&plan["data"], &plan["microbatches"]), (&Value::from(128), &Value::from(120)));
    let steps = 1e12 / (15_360.0 * 4_096.0);
    let hours = number(&plan["step_ns"]) / 1e9 * steps * 2048.0 / 3600.0;
    assert!((130_000.0..230_000.0).contains(&hours), "{hours} GPU-hours");
}

/// 400 TFLOP/s and an MFU of 41 % (arXiv 2407.21783, table 4), without recomputation on 80 GB.
#[test]
fn llama_3_405b_is_answered_as_it_was_trained() {
    let path = Path::new("scenarios/plan/llama3-405b.toml");
    let out = command().arg("plan").arg(path).arg("--json").output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let (plan, told) = (&answer["plans"][0], &answer["setups"][0]);
    assert_eq!((&plan["data"], &plan["microbatches"]), (&Value::from(128), &Value::from(16)));
    // Its authors do not say how they count FLOPs: 6 for a parameter and token, or attention, too.
    let tokens = 2048.0 * 8192.0 / 16_384.0;
    let seconds = number(&plan["step_ns"]) / 1e9;
    let of_products = 6.0 * 405.85e9 * tokens / seconds / 989e12;
    let with_attention = number(&told["tflops_per_device"]) / 989.0;
    assert!((0.361..0.460).contains(&of_products), "{of_products}");
    assert!((0.361..0.465).contains(&with_attention), "{with_attention}");
    assert_eq!(told["may_fit"], true);
}

/// The answer for torchtitan has the time that torchtitan takes longer.
#[test]
fn torchtitan_is_slower_than_megatron() {
    let of = |framework: &str| {
        let setup = with("[setup]\npipeline = 4\nmicrobatch = 2\n");
        let answer = json(&format!("framework = \"{framework}\"\n{setup}"));
        number(&answer["setups"][0]["step_ns"])
    };
    let ratio = of("torchtitan") / of("megatron");
    assert!((1.05..1.2).contains(&ratio), "{ratio}");
}

#[test]
fn activations_can_wait_at_the_host_or_in_8_bits() {
    let of = |training: &str| {
        let setup = "[setup]\ntensor = 2\npipeline = 4\nmicrobatch = 2\n";
        json(&with(&format!("{setup}\n[training]\n{training}\n")))["setups"][0].clone()
    };
    let activations = |told: &Value| {
        let parts = told["memory"][0]["parts"].as_array().unwrap().iter();
        parts
            .filter(|part| part["name"] == "activations")
            .map(|part| number(&part["bytes"]))
            .sum::<f64>()
    };
    let plain = of("");
    let copied = of("offload = [\"core_attn\", \"attn_proj\"]");
    assert!(activations(&copied) < activations(&plain));
    assert!(number(&copied["step_ns"]) >= number(&plain["step_ns"]));
    let small = of("fp8-activation-input = true");
    assert!(activations(&small) < activations(&plain));
    assert_eq!(small["step_ns"], plain["step_ns"]);
    let text = refusal(&with("[setup]\ntensor = 2\n\n[training]\noffload = \"core_atn\"\n"));
    assert!(text.contains("core_atn") && text.contains("core_attn"), "{text}");
    let alone = with("[setup]\ntensor = 2\n\n[training]\noffload = \"attn_proj\"\n");
    let text = refusal(&alone);
    assert!(
        text.contains("attn_proj without core_attn") && text.contains("add core_attn"),
        "{text}"
    );
}

#[test]
fn documents_in_sequences_take_less_attention_and_differ() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("lengths.txt"), "128 128\n256 # and so on\n512\n").unwrap();
    let ask = |lengths: &str, setup: &str| {
        let path = folder.path().join("plan.toml");
        fs::write(&path, with(&format!("[setup]\n{setup}\n{lengths}"))).unwrap();
        let out = command().arg("plan").arg(&path).arg("--json").output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice::<Value>(&out.stdout).unwrap()["setups"][0].clone()
    };
    let documents = |lengths: &str| format!("[lengths]\ndocuments = \"{lengths}\"\n");
    let attention = |told: &Value| {
        let parts = told["time"].as_array().unwrap().iter();
        let own = parts.filter(|part| part["name"] == "attention");
        own.map(|part| number(&part["seconds"])).sum::<f64>()
    };
    let whole = ask("", "tensor = 2");
    assert!(whole.get("documents").is_none());
    // In this order four documents fill a sequence of 1,024 tokens.
    let listed = ask(&documents("in-order:lengths.txt"), "tensor = 2");
    let share = [128.0, 128.0, 256.0, 512.0].map(|l: f64| l * (l + 1.0)).iter().sum::<f64>()
        / (1024.0 * 1025.0);
    assert!((number(&listed["documents"]["attended"]) / share - 1.0).abs() < 1e-9);
    assert!((attention(&listed) / attention(&whole) / share - 1.0).abs() < 0.01);
    // All sequences are alike: no replica has more to do.
    assert_eq!(listed["documents"]["mean_step_ns"], listed["documents"]["even_step_ns"]);
    assert_eq!(listed["documents"]["mean_step_ns"], listed["step_ns"]);
    let drawn = ask(&documents("lognormal:300:1.2:4096"), "tensor = 2");
    let own = &drawn["documents"];
    assert!(number(&own["mean_step_ns"]) > number(&own["even_step_ns"]), "{own}");
    assert!(number(&drawn["step_ns"]) < number(&whole["step_ns"]));
    // With one replica nobody waits for another.
    let alone = ask(&documents("lognormal:300:1.2:4096"), "tensor = 2\npipeline = 8");
    let one = &alone["documents"];
    let (slowest, mean) = (number(&one["slowest_attended"]), number(&one["attended"]));
    assert!((slowest / mean - 1.0).abs() < 1e-6, "{one}");
    let core = with("[setup]\ntensor = 2\n[lengths]\ndocuments = \"uniform:8-99\"\n");
    let core = refusal(&format!("attention = \"core\"\n{core}"));
    assert!(core.contains("computes all pairs of tokens"), "{core}");
    let none = refusal(&with("[setup]\ntensor = 2\n[lengths]\ndocuments = \"file:none.txt\"\n"));
    assert!(none.contains("none.txt"), "{none}");
}

#[test]
fn keys_and_values_are_gathered_or_go_round() {
    let ask = |training: &str| {
        let table = format!("[setup]\ncontext = 4\n[training]\n{training}");
        let answer = json(&with(&table).replace("a100-80g", "h100"));
        number(&answer["plans"][0]["step_ns"])
    };
    assert_eq!(ask(""), ask("context-exchange = \"ring\""));
    assert_ne!(ask(""), ask("context-exchange = \"all-gather\""));
    let wrong = refusal(&with("[setup]\ncontext = 2\n[training]\ncontext-exchange = \"rings\"\n"));
    assert!(wrong.contains("write ring, all-gather"), "{wrong}");
}

/// A batch that no set-up divides is refused with the next ones that some set-up does.
#[test]
fn a_batch_that_nothing_divides_is_refused_with_its_neighbours() {
    let search = "[search]\npipeline = [1, 2]\ntensor = [1, 2]\nmicrobatch = [2]\n";
    let asked = |batch: u64| {
        let model =
            "[model]\nlayers = 8\nhidden = 1024\nheads = 8\nffn = 4096\nvocabulary = 32000\n";
        let cluster = "[[cluster]]\nmachine = \"h100\"\ndevices = 64\n";
        format!("tokens = 1e9\nbatch = {batch}\nsequence = 1024\n{model}{cluster}{search}")
    };
    // Replicas are 16, 32 and 64, so batches are multiples of 32, 64 and 128.
    let message = refusal(&asked(1009));
    assert!(message.contains("write batch = 992 or 1024"), "{message}");
    json(&asked(992));
    // Nothing below.
    let message = refusal(&asked(31));
    assert!(message.contains("write batch = 32,"), "{message}");
}
