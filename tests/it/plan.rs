//! `debubble plan`: what it answers, that `simulate` agrees, and what it refuses.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pipeline::{Family, Vocabulary};
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::stdout;

/// A question that takes a moment.
pub(crate) const SMALL: &str = r#"
tokens = 1e9
batch = 64
sequence = 1024
plans = 2

[model]
layers = 24
hidden = 2048
heads = 16
vocabulary = 50304

[[cluster]]
machine = "a100-80g"
devices = [8, 16]

[noise]
replicas = 20
"#;

pub(crate) fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_debubble"))
}

pub(crate) fn ask(question: &str, flags: &[&str]) -> (TempDir, Output) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, question).unwrap();
    let out = command().arg("plan").arg(&path).args(flags).output().unwrap();
    (folder, out)
}

pub(crate) fn json(question: &str) -> Value {
    let (_folder, out) = ask(question, &["--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The message of a question that is refused.
pub(crate) fn refusal(question: &str) -> String {
    let (_folder, out) = ask(question, &[]);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{text}");
    // Messages wrap at the width of a terminal.
    text.replace("│", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `debubble plan --validate` of the measurements on A100 that are built in, and of those of others that lie
/// beside a checkout: without today's runs, whose fits take long.
pub(crate) fn validate_a100() -> Command {
    const BUILT_IN: [&str; 7] = [
        "megatron2021.csv",
        "korthikanti2022.csv",
        "zb-throughput.csv",
        "zb-table6.csv",
        "zb-post-validation.csv",
        "megatron2021-zero3.csv",
        "vocabulary-tables.csv",
    ];
    let mut command = command();
    command.args(["plan", "--validate"]);
    command.args(BUILT_IN.map(|name| Path::new("scenarios/paper").join(name)));
    let others = ["vtrain_ground_truth_single.csv", "vtrain_ground_truth_multi.csv"];
    let others = others.map(|name| Path::new("../shared/measured").join(name));
    command.args(others.iter().filter(|path| path.is_file()));
    command
}

#[test]
fn published_measurements_are_predicted_within_the_bars() {
    let out = validate_a100().args(["--check", "--json"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}\n{text}", String::from_utf8_lossy(&out.stdout));
    let sets: Value = serde_json::from_slice(&out.stdout).unwrap();
    let sets = sets.as_array().unwrap();
    // Those of others are there or are not.
    assert!([7, 9].contains(&sets.len()), "{text}");
    let rows: usize = sets.iter().take(7).map(|set| set["rows"].as_array().unwrap().len()).sum();
    assert_eq!(rows, 5 * 2 + 2 * 4 + 24 * 2 + 12 * 2 + 6 + 6 + 56);
    // The first three were fitted whole, and ZeRO 3 of table 2; of the others a tenth at most.
    for set in &sets[3..] {
        let rows = set["rows"].as_array().unwrap().iter();
        let rows: Vec<&Value> =
            rows.filter(|row| row["quantity"] != "s per iteration, ZeRO 3").collect();
        let fitted = rows.iter().filter(|row| row["fitted"] == true).count();
        assert!(10 * fitted <= rows.len(), "{}", set["set"]);
    }
}

/// The times that the set's own column derives by the same equation.
#[test]
fn times_of_table_1_follow_from_its_flops() {
    let out = validate_a100().arg("--json").output().unwrap();
    let sets: Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = sets[0]["rows"].as_array().unwrap();
    let times = rows.iter().filter(|row| row["quantity"] == "s per iteration");
    let times: Vec<f64> = times.map(|row| row["measured"].as_f64().unwrap()).collect();
    let derived = [3.528, 3.696, 14.453, 24.817, 54.085];
    assert!(times.iter().zip(derived).all(|(a, b)| (a - b).abs() < 1e-3), "{times:?}");
}

#[test]
fn a_bar_that_is_missed_is_said() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("slow.csv");
    let header = fs::read_to_string("scenarios/paper/megatron2021.csv").unwrap();
    let header = header.lines().find(|line| !line.starts_with('#')).unwrap();
    // The first row, at half its speed.
    let row = "1.7,24,2304,24,1,1,32,512,68,22,2.2,32,1.6522,15.4668,7.1";
    fs::write(&path, format!("{header}\n{row}\n")).unwrap();
    let check = |flags: &[&str]| {
        let out = command().args(["plan", "--validate"]).args(flags).arg(&path).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    assert_eq!(check(&["--check"]).0, Some(1));
    assert_eq!(check(&[]).0, Some(0));
    assert!(check(&[]).1.contains("NO"));
    for absurd in [
        "a,b\n1,2\n".to_owned(),
        format!("{header}\n{}\n", row.replace(",512,68,", ",512,0,")),
        format!("{header}\n{}\n", row.replace(",512,68,", ",512,NaN,")),
        format!("{header}\n{}\n", row.replace(",512,68,", ",18446744073709551615,68,")),
        format!("{header}\n{}\n", row.replace(",1,1,32,", ",1,1,99999999999999,")),
        format!("{header}\n{}\n", row.replace(",24,2304,24,", ",0,2304,24,")),
    ] {
        fs::write(&path, absurd).unwrap();
        assert_eq!(check(&[]).0, Some(2));
    }
}

#[test]
fn simulate_gives_the_step_of_the_plan() {
    let in_shards = |family: &Family| family.vocabulary() != Vocabulary::Whole;
    let vocabulary = Family::ALL.into_iter().filter(in_shards).map(Family::name);
    let copies = ["po-h", "po-f"];
    let schedules = ["1f1b", "1f1b-i", "zb-h1", "zb-v", "v-half", "zb-2p", "dualpipe-v", "zb-auto"];
    for schedule in schedules.into_iter().chain(vocabulary).chain(copies) {
        // Wide layers, whose activations have the time to go to the host.
        let small = match copies.contains(&schedule) {
            true => SMALL.replace("hidden = 2048", "hidden = 8192"),
            false => SMALL.to_owned(),
        };
        let question = format!("{small}\n[search]\npipeline = [4]\nschedule = [\"{schedule}\"]\n");
        let (folder, out) = ask(&question, &["--json", "--export"]);
        // A flag that lacks its folder is refused; then with it.
        assert_eq!(out.status.code(), Some(2));
        let plan = folder.path().join("plan.toml");
        let winner = folder.path().join("winner");
        let mut ask = command();
        ask.arg("plan").arg(&plan).arg("--json").arg("--export").arg(&winner);
        let out = ask.output().unwrap();
        assert!(out.status.success(), "{schedule}: {}", String::from_utf8_lossy(&out.stderr));
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
        let at = usize::try_from(answer["winner"].as_u64().unwrap()).unwrap();
        assert_eq!(answer["plans"][at]["schedule"], schedule);
        let scenario = winner.join("scenario.toml");
        let out = command().args(["simulate", "--json"]).arg(&scenario).output().unwrap();
        assert!(out.status.success(), "{schedule}: {}", String::from_utf8_lossy(&out.stderr));
        let simulated: Value = serde_json::from_slice(&out.stdout).unwrap();
        let hardware = &simulated["results"][0]["hardware"];
        assert_eq!(hardware["step_ns"], answer["plans"][at]["step_ns"], "{schedule}");
        assert!(hardware["out_of_memory"].is_null(), "{schedule}");
        let result = &simulated["results"][0];
        let held = result["peak_activation_bytes"].as_array().unwrap();
        let most = answer["plans"][at]["activation_bytes"].as_u64();
        assert!(held.iter().any(|held| held.as_u64() == most), "{schedule}");
        let moved = result["host_copies"]["activations"].as_u64().unwrap_or(0);
        assert_eq!(moved > 0, copies.contains(&schedule), "{schedule}");
        let titan = fs::read_to_string(winner.join("torchtitan.toml")).unwrap();
        assert!(titan.contains("pipeline_parallel_degree = 4"), "{titan}");
        let script = winner.join("megatron.sh");
        let is_run =
            fs::read_to_string(&script).is_ok_and(|text| text.contains("--debubble-order"));
        if answer["plans"][at]["runs_in_megatron"] == false && !is_run {
            assert!(said.contains("there is no megatron.sh"), "{schedule}: {said}");
            assert!(!winner.join("megatron.sh").exists(), "{schedule}");
            continue;
        }
        let megatron = fs::read_to_string(winner.join("megatron.sh")).unwrap();
        assert!(megatron.contains("--pipeline-model-parallel-size 4"), "{megatron}");
        let arguments = sourced(&winner.join("megatron.sh"));
        let at = arguments.iter().position(|one| one == "--pipeline-model-parallel-size").unwrap();
        assert_eq!(arguments[at + 1], "4", "{megatron}");
        assert!(arguments.iter().all(|one| !one.contains('#')), "{arguments:?}");
    }
}

/// The arguments that the script at `path` gives who sources it.
fn sourced(path: &Path) -> Vec<String> {
    let print = "set -eu; source \"$1\"; printf '%s\\n' \"${MEGATRON_ARGS[@]}\"";
    let out = Command::new("bash").args(["-c", print, "bash"]).arg(path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn plans_are_ranked_fit_and_add_up() {
    let answer = json(SMALL);
    let plans = answer["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 4);
    for plan in plans {
        let number = |key: &str| plan[key].as_f64().unwrap();
        assert!(number("peak_bytes") <= number("device_bytes"));
        let parts = ["parameter", "gradient", "optimizer", "activation", "buffer"];
        let parts: f64 = parts.iter().map(|part| number(&format!("{part}_bytes"))).sum();
        assert_eq!(parts, number("peak_bytes"));
        assert!(number("step_p50_ns") <= number("step_p95_ns"));
        assert!(number("mfu") <= number("hfu") && number("hfu") < 1.0);
        let groups = ["data", "tensor", "pipeline", "context"].map(number);
        assert_eq!(groups.iter().product::<f64>(), number("devices"));
        let per_million = number("dollars") / 1e9 * 1e6;
        assert!((per_million / number("dollars_per_million_tokens") - 1.0).abs() < 1e-9);
        // 2.2 dollars an hour of every device.
        let dollars = number("days") * 24.0 * number("devices") * 2.2;
        assert!((dollars / number("dollars") - 1.0).abs() < 1e-9);
        assert!(number("goodput") > 0.9 && number("goodput") < 1.0);
    }
    assert!(plans.chunks(2).all(|two| two[0]["step_ns"].as_u64() <= two[1]["step_ns"].as_u64()));
    let winner = usize::try_from(answer["winner"].as_u64().unwrap()).unwrap();
    // Of what it costs, it is no farther from the cheapest than its error bar.
    let dollars = |plan: &Value| plan["dollars"].as_f64().unwrap();
    let bar = 1.0 + plans[winner]["error"].as_f64().unwrap_or(0.05);
    assert!(plans.iter().all(|plan| dollars(&plans[winner]) <= bar * dollars(plan)));
    for searched in answer["searched"].as_array().unwrap() {
        let left_out = searched["left_out"].as_object().unwrap().values();
        let left_out: u64 = left_out.map(|count| count.as_u64().unwrap()).sum();
        let all = searched["setups"].as_u64().unwrap();
        assert_eq!(searched["simulated"].as_u64().unwrap() + left_out, all);
    }
}

#[test]
fn answers_do_not_depend_on_threads() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, SMALL).unwrap();
    let on = |threads: &str| {
        let out = command().env("RAYON_NUM_THREADS", threads).arg("plan").arg(&path).output();
        out.unwrap().stdout
    };
    assert_eq!(on("1"), on("3"));
}

#[test]
fn mixed_machines_and_spot_prices_are_answered() {
    let mixed = SMALL.replace(
        "machine = \"a100-80g\"\ndevices = [8, 16]",
        "parts = [{ machine = \"a100-80g\", devices = 8 }, { machine = \"h100\", devices = 8 }]",
    );
    let answer = json(&mixed);
    let plan = &answer["plans"][0];
    assert_eq!(plan["machine"], "a100-80g+h100");
    // Every kind has whole stages.
    assert!(plan["pipeline"].as_u64().unwrap() >= 2);
    let spot = SMALL.replace("plans = 2", "plans = 2\nprice = \"spot\"");
    let [on_demand, spot] = [json(SMALL), json(&spot)];
    let of = |answer: &Value, key: &str| answer["plans"][0][key].as_f64().unwrap();
    assert!(of(&spot, "goodput") < of(&on_demand, "goodput"));
    assert!(of(&spot, "dollars") < of(&on_demand, "dollars"));
}

#[test]
fn profiles_go_before_formulas_and_must_be_of_the_model() {
    let folder = TempDir::new().unwrap();
    let profile = crate::calibrate::profile(folder.path());
    let question = "tokens = 1e9\nbatch = 64\nsequence = 16\nplans = 1\n[model]\nlayers = 8\n\
                    hidden = 32\nheads = 4\nvocabulary = 64\n[search]\ntensor = [1]\n\
                    pipeline = [1]\nmicrobatch = [2]\n[noise]\nreplicas = 5\n[[cluster]]\n\
                    machine = \"a100-80g\"\ndevices = [8]\n";
    let with = format!("{question}profile = {:?}\n", profile.to_str().unwrap());
    let step = |answer: &Value| answer["plans"][0]["step_ns"].as_u64().unwrap();
    // 4 microbatches of 8 layers of 38 us, embeddings and head of 18 us; the rest is small.
    let measured = step(&json(&with));
    assert!((1_288_000..1_400_000).contains(&measured), "{measured}");
    assert!(step(&json(question)) > 10 * measured);
    let other = refusal(&with.replace("hidden = 32", "hidden = 64"));
    assert!(other.contains("it was measured for a hidden of 32, but the model's is 64"), "{other}");
}

#[test]
fn configs_of_hugging_face_are_read_as_they_are() {
    let with = |config: &str, question: &str| {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("config.json"), config).unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, question).unwrap();
        let out = command().arg("plan").arg(&path).arg("--json").output().unwrap();
        (out.status.code(), crate::cli::said(&out), out.stdout)
    };
    let question = "model = \"config.json\"\ntokens = 1e9\nbatch = 64\nplans = 1\n\
                    [[cluster]]\nmachine = \"h100\"\ndevices = [32]\n[noise]\nreplicas = 5\n";
    let configs = [
        r#"{"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
            "num_hidden_layers":32,"num_key_value_heads":8,"vocab_size":128256,
            "max_position_embeddings":8192,"tie_word_embeddings":false}"#,
        r#"{"model_type":"mixtral","hidden_size":4096,"intermediate_size":14336,
            "num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,
            "num_local_experts":8,"num_experts_per_tok":2,"vocab_size":32000}"#,
        r#"{"model_type":"gpt2","n_embd":1600,"n_head":25,"n_layer":48,"n_positions":1024,
            "vocab_size":50257}"#,
        r#"{"model_type":"qwen2","hidden_size":3584,"intermediate_size":18944,
            "num_attention_heads":28,"num_hidden_layers":28,"num_key_value_heads":4,
            "vocab_size":152064}"#,
    ];
    for config in configs {
        let (code, stderr, out) = with(config, question);
        assert_eq!(code, Some(0), "{stderr}");
        let answer: Value = serde_json::from_slice(&out).unwrap();
        let mfu = answer["plans"][0]["mfu"].as_f64().unwrap();
        assert!((0.05..0.7).contains(&mfu), "{mfu}: {config}");
    }
    let deep = "[".repeat(100_000);
    let bad = [
        ("", "not JSON"),
        (&deep[..], "not JSON"),
        ("[1]", "an object"),
        (r#"{"hidden_size":4096}"#, "there is no num_attention_heads"),
        (r#"{"hidden_size":"big"}"#, "it must be a whole number"),
        (r#"{"hidden_size":-1}"#, "hidden_size is -1"),
        (r#"{"hidden_size":1e300}"#, "hidden_size is 1e+300"),
        (r#"{"model_type":7}"#, "model_type is 7: it must be a name"),
        (&configs[0].replace(":false", ":\"no\""), "it must be true or false"),
        (&configs[0].replace(":32,", ":0,"), "must be"),
        (&configs[0].replace("4096", "18446744073709551615"), "must be from 1"),
        (&configs[0].replace("\"num_key_value_heads\":8", "\"num_key_value_heads\":5"), "multiple"),
        (&configs[1].replace("tok\":2", "tok\":9"), "top-k is 9"),
    ];
    for (config, message) in bad {
        let (code, stderr, _) = with(config, question);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(
            stderr.contains(message) || stderr.contains("cannot be cut"),
            "{message}: {stderr}"
        );
    }
    let (code, stderr, _) = with(&configs[0].replace("\"llama\"", "\"bert\""), question);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("there is no hidden_act"), "{stderr}");
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(2 << 20));
    assert!(with(&large, question).1.contains("larger than"));
}

/// Plans that miss the deadline or the budget are shown, none is to be taken, and nothing is exported.
#[test]
fn plans_that_miss_the_deadline_or_the_budget_are_shown_and_marked() {
    for (keys, said) in [
        ("deadline-days = 0.0001", "no plan keeps within 0.0001 days"),
        ("deadline-days = 1e-300", "no plan keeps within 1e-300 days"),
        ("budget = 0.5", "no plan keeps within 0 dollars"),
        ("deadline-days = 0.0001\nbudget = 0.5", "within 0.0001 days and 0 dollars"),
    ] {
        let question = SMALL.replace("plans = 2", keys);
        let answer = json(&question);
        assert!(answer["winner"].is_null() && !answer["plans"].as_array().unwrap().is_empty());
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, question).unwrap();
        let out = stdout(&command().arg("plan").arg(&path).output().unwrap());
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            out.contains(said) && out.contains("!1") && !out.contains("The plan to take:"),
            "{out}"
        );
    }
}

/// Plans are taken by their odds, and what a miss names as a help is met.
#[test]
fn a_plan_meets_its_deadline_with_the_odds_that_are_asked_for() {
    let one = SMALL.replace("[8, 16]", "8");
    let with = |keys: &str| one.replace("plans = 2", keys);
    let odds = |answer: &Value| answer["plans"][0]["deadline_odds"].as_f64();
    let plain = json(&one);
    assert_eq!((odds(&plain), &plain["confidence"]), (None, &Value::from(0.5)));
    let number = |key: &str| plain["plans"][0][key].as_f64().unwrap();
    let [days, half, most] = ["days", "days_p50", "days_p90"].map(number);
    assert!(days < half && half < most, "{days} {half} {most}");
    // The steps would be done in time: most trainings would not.
    let tight = with(&format!("plans = 2\ndeadline-days = {}", 1.05 * days));
    let late = json(&tight);
    assert!(late["winner"].is_null() && odds(&late) < Some(0.25), "{:?}", odds(&late));
    let (_folder, out) = ask(&tight, &[]);
    let said = stdout(&out);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = |key: &str| {
        let (_, rest) = said.split_once(key).unwrap_or_else(|| panic!("{key}: {said}"));
        rest.split([',', ' ']).next().unwrap().to_owned()
    };
    for keys in [
        format!("deadline-days = {}", hint("deadline-days = ")),
        format!("deadline-days = {}\nconfidence = {}", 1.05 * days, hint("or confidence = ")),
    ] {
        assert!(json(&with(&keys))["winner"].is_number(), "{keys}: {said}");
    }
    // Dollars are hours times a price: the same multiple of them has the same odds.
    let dollars = number("dollars");
    let both = json(&with(&format!("deadline-days = {}\nbudget = {}", 2.0 * days, 2.0 * dollars)));
    let budget = both["plans"][0]["budget_odds"].as_f64().unwrap();
    assert!((odds(&both).unwrap() - budget).abs() < 1e-9 && budget > 0.7, "{budget}");
    // A contingency of one's own is the middle.
    let own = format!("contingency = 1.2\ndeadline-days = {}", 1.2 * days);
    let own = json(&with(&own));
    assert!((odds(&own).unwrap() - 0.5).abs() < 1e-6, "{:?}", odds(&own));
}

/// Without `tuning` a plan has its days with default software, too, and its error reaches there.
#[test]
fn a_plan_answers_for_both_kinds_of_software() {
    let setup = "\n[setup]\ntensor = 2\npipeline = 2\nmicrobatch = 1\n";
    let one = SMALL.replace("[8, 16]", "8").replace("a100-80g", "b200") + setup;
    let figures = |training: &str| json(&(one.clone() + training))["plans"][0].clone();
    let [open, tuned, stock] =
        ["", "[training]\ntuning = \"tuned\"\n", "[training]\ntuning = \"stock\"\n"].map(figures);
    let number = |plan: &Value, key: &str| plan[key].as_f64().unwrap();
    let slower = number(&open, "stock_days") / number(&open, "days");
    let ran = number(&stock, "step_ns") / number(&open, "step_ns");
    assert!(slower > 1.0 && (slower / ran - 1.0).abs() < 1e-6, "{slower} {ran}");
    assert_eq!(open["step_ns"], tuned["step_ns"]);
    assert!(tuned["stock_days"].is_null() && stock["stock_days"].is_null());
    // The hull of both bars, by what the compute of default software takes.
    let machine = fs::read_to_string("scenarios/machines/b200.toml").unwrap();
    let factor = machine.split("\nstock = ").nth(1).unwrap().split_whitespace().next().unwrap();
    let factor: f64 = factor.parse().unwrap();
    let high =
        (factor * (1.0 + number(&stock, "error_high")) - 1.0).max(number(&tuned, "error_high"));
    assert!((number(&open, "error_high") - high).abs() < 1e-6, "{open}");
    assert!(number(&open, "error_low") >= number(&tuned, "error_low"));
}

/// Of plans that predictions do not tell apart, the one that needs least is taken.
#[test]
fn a_searched_order_in_another_framework_is_not_taken_for_little() {
    let text = fs::read_to_string("scenarios/plan/llama3-70b.toml").unwrap();
    let narrow = "\n[search]\ntensor = [4]\npipeline = [2]\nmicrobatch = [2]\nchunks = [8]\n\
                  zero = [1]\nschedule = [\"1f1b-i\", \"zb-auto\"]\nrecompute = [\"none\"]\n";
    assert!(!text.contains("[search]"));
    let question = text + narrow;
    let answer = json(&question);
    let plans = answer["plans"].as_array().unwrap();
    let taken = &plans[usize::try_from(answer["winner"].as_u64().unwrap()).unwrap()];
    let dollars = |plan: &Value| plan["dollars"].as_f64().unwrap();
    let cheapest = plans.iter().min_by(|a, b| dollars(a).total_cmp(&dollars(b))).unwrap();
    assert_eq!((&taken["schedule"], &cheapest["schedule"]), (&"1f1b-i".into(), &"zb-auto".into()));
    assert!(dollars(taken) / dollars(cheapest) < 1.0508, "{taken} {cheapest}");
    let said = stdout(&ask(&question, &[]).1);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("cheaper, but it needs another framework, a searched order"), "{said}");
}

/// A contingency makes training longer, and a price of one's own dearer, by their factor.
#[test]
fn contingency_and_price_are_factors_of_the_bill() {
    let figures = |question: &str| {
        let answer = json(question);
        ["days", "dollars", "energy_kwh"].map(|key| answer["plans"][0][key].as_f64().unwrap())
    };
    let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
    let one = SMALL.replace("[8, 16]", "8");
    let plain = figures(&one.replace("devices = 8", "devices = 8\nprice = 1.0"));
    let dear = figures(&one.replace("devices = 8", "devices = 8\nprice = 2.5"));
    assert!(near(plain[0], dear[0]) && near(2.5 * plain[1], dear[1]), "{plain:?} {dear:?}");
    let long = figures(
        &one.replace("plans = 2", "contingency = 1.5")
            .replace("devices = 8", "devices = 8\nprice = 1.0"),
    );
    for (one, other) in plain.into_iter().zip(long) {
        assert!(near(1.5 * one, other), "{plain:?} {long:?}");
    }
    let published = &json(&one)["contingency"]["published"];
    assert!(published["least"].as_f64() < published["median"].as_f64());
}

/// Storage that takes a quarter of what eight devices write at 2 GB/s each makes checkpoints four times as long, and
/// by Young's rule half as frequent; storage that takes more changes nothing.
#[test]
fn storage_limits_how_fast_checkpoints_are_written() {
    let one = SMALL.replace("[8, 16]", "8");
    let figures = |storage: &str| {
        let answer = json(&one.replace("plans = 2", &format!("plans = 2\n{storage}")));
        ["checkpoint_interval_s", "days"].map(|key| answer["plans"][0][key].as_f64().unwrap())
    };
    let plain = figures("");
    assert_eq!(plain, figures("storage = \"1TB/s\""));
    let slow = figures("storage = \"4GB/s\"");
    assert!((slow[0] / plain[0] - 2.0).abs() < 0.05, "{plain:?} {slow:?}");
    assert!(slow[1] > plain[1], "{plain:?} {slow:?}");
    let nothing = refusal(&one.replace("plans = 2", "storage = \"0GB/s\""));
    assert!(nothing.contains("storage") || nothing.contains("0GB/s"), "{nothing}");
}

#[test]
fn what_cannot_be_planned_is_refused_with_a_cure() {
    let changed = |from: &str, to: &str| refusal(&SMALL.replace(from, to));
    let huge = changed("hidden = 2048", "hidden = 65536");
    assert!(huge.contains("fits on none of these clusters"), "{huge}");
    assert!(huge.contains("the smallest cluster that would hold it:"), "{huge}");
    let odd = changed("[noise]", "[search]\npipeline = [5]\n[noise]");
    assert!(odd.contains("no product of tensor, pipeline and context divides"), "{odd}");
    // Ten thousand layers on stages of two are dealt as fast as on one.
    let wide = refusal(&SMALL.replace("layers = 24", "layers = 10000").replace("2048", "65536"));
    assert!(wide.contains("no cluster of these machines up to 65536 devices"), "{wide}");
    let unknown = changed("a100-80g", "a100-80gb");
    assert!(unknown.contains("did you mean `a100-80g`"), "{unknown}");
    for (from, to, message) in [
        ("tokens = 1e9", "tokens = 0", "tokens is 0"),
        ("tokens = 1e9", "tokens = nan", "tokens is NaN"),
        ("tokens = 1e9", "tokens = \"1e9\"", "a number is needed here"),
        ("batch = 64", "batch = 0", "batch is 0"),
        ("plans = 2", "price = \"free\"", "price is `free`"),
        ("plans = 2", "deadline-days = -1", "deadline-days is -1"),
        ("plans = 2", "budget = 0", "budget is 0"),
        ("plans = 2", "contingency = 0.5", "contingency is 0.5"),
        ("plans = 2", "confidence = 0.8", "confidence is about a deadline or a budget"),
        ("plans = 2", "budget = 9\nconfidence = 1.5", "confidence is 1.5: from 0.01 to 0.99"),
        ("devices = [8, 16]", "devices = 8\nprice = -1", "price is -1"),
        ("devices = [8, 16]", "devices = []", "clusters: from 1"),
        ("devices = [8, 16]", "devices = [0]", "0 devices"),
        ("devices = [8, 16]", "devices = [99999999999]", "devices: from 1 to"),
        ("heads = 16", "heads = 0", "cannot be cut"),
        ("heads = 16", "heads = 15", "cannot be cut into 15 heads"),
        ("heads = 16", "heads = 16\nhead-size = 0", "head-size is 0"),
        ("heads = 16", "heads = 16\nhead-size = -1", "a whole number, from 0 on"),
        ("heads = 16", "heads = 16\nhead-size = 99999999", "head-size is 99999999"),
        ("heads = 16", "heads = 16\npositions = 1023", "only 1023 learned positions"),
        ("heads = 16", "heads = 16\ngated = true", "ffn is missing: MLPs with a gate"),
        ("heads = 16", "heads = 16\nexperts = 8\ntop-k = 2", "ffn is missing: experts"),
        ("heads = 16", "heads = 16\nexperts = 8", "experts and top-k belong together"),
        ("heads = 16", "heads = 16\nkv-heads = 3", "not a multiple of kv-heads"),
        ("layers = 24", "layers = 0", "layers is 0"),
        ("layers = 24", "layers = 99999999999", "layers is 99999999999"),
        ("layers = 24", "layers = 10000\nffn = 16777216\nexperts = 60000\ntop-k = 1", "2^56"),
        ("vocabulary = 50304", "vocab = 1", "no key `vocab`"),
        ("replicas = 20", "replicas = 0", "replicas is 0"),
        ("replicas = 20", "jitter = -1.0", "jitter is -1"),
        ("[noise]", "[search]\nschedule = [\"1f1b2\"]\n[noise]", "schedule has `1f1b2`"),
        ("[noise]", "[search]\nschedule = [\"pipedream\"]\n[noise]", "one that flushes"),
        ("[noise]", "[search]\nschedule = [\"seq1f1b\"]\n[noise]", "one that flushes"),
        ("[noise]", "[search]\ntensor = [0]\n[noise]", "tensor has 0"),
        ("[noise]", "[training]\nreserved = \"4 parsec\"\n[noise]", "unknown unit"),
    ] {
        let text = changed(from, to);
        assert!(text.contains(message), "{to}: {text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_with_what_has_been_found() {
    use std::process::Stdio;

    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    let long = SMALL
        .replace("layers = 24", "layers = 8192")
        .replace("batch = 64", "batch = 65536")
        .replace("[8, 16]", "[4096, 8192, 16384, 65536]");
    fs::write(&path, long).unwrap();
    let mut ask = command();
    ask.arg("plan").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = ask.spawn().unwrap();
    if !crate::ctrl_c::press_ctrl_c(&mut child) {
        return;
    }
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("interrupted"), "{text}");
    // Plans, or that there are none so far.
    let answer = String::from_utf8_lossy(&out.stdout);
    assert!(answer.contains("dollars") || text.contains("before any plan was found"), "{text}");
    assert_eq!(out.status.code(), Some(130), "{text}");
}

#[test]
fn the_page_loads_nothing_and_titles_cannot_become_markup() {
    let title = "title = \"<img alt=x onerror=alert(1)>\"\n";
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("plan.toml"), format!("{title}{SMALL}")).unwrap();
    let mut command = command();
    command.arg("plan").arg(path("plan.toml"));
    for (flag, name) in [("--html", "p.html"), ("--svg", "p.svg"), ("--csv", "p.csv")] {
        command.arg(flag).arg(path(name));
    }
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let page = read(&path("p.html"));
    assert!(!page.contains("<img") && !page.contains("<script"));
    assert!(page.contains("&lt;img"));
    assert!(page.contains("<svg") && page.contains("--num-layers 24"));
    let (_, taken) = page.split_once("<b>The plan to take: plan ").unwrap();
    assert!(taken[1..].starts_with(", 8 a100-80g, "));
    assert!(page.contains("scenario.toml") && page.contains("devices-per-node = "));
    // The answer comes first, and long files are folded.
    let parts = [
        "</h1>",
        "<b>The plan to take: ",
        "<h2>Plans</h2>",
        "<tr class=\"taken\"><td class=\"w\">&gt;",
        "<svg",
        "<h2>Left out and not tried</h2>",
        "<h2>Assumptions</h2>",
        "<h2>Files of the plan to take</h2>",
        "<details><summary>megatron.sh</summary>\n<pre",
    ];
    let at: Vec<usize> = parts.map(|part| page.find(part).expect(part)).to_vec();
    assert!(at.is_sorted(), "{at:?}");
    let page = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains(" src="));
    let picture = read(&path("p.svg"));
    assert!(picture.contains("days for all tokens") && picture.contains("dollars for all tokens"));
    assert!(!picture.lines().any(|line| line.ends_with('%')), "dollars are not shares");
    assert_eq!(read(&path("p.csv")).lines().count(), 5);
    assert!(stdout(&out).starts_with("The plan to take: plan "));
}
