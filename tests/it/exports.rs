//! The files of `plan --export` against the options of Megatron-LM and torchtitan: those that are recorded in
//! `tests/frameworks/*.csv`, always, and their parsers themselves where DEBUBBLE_FRAMEWORKS names a folder
//! with a Python in `venv` and the sources in `megatron`, `torchtitan-0.2` and `torchtitan-main`
//! (`tests/frameworks/parsers.py` has both, and wrote the former).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pipeline::{LayerLayout, Schedule};
use serde_json::Value;
use tempfile::TempDir;

use crate::plan::command;

const LLAMA: &str = "batch = 64\nsequence = 4096\nmodel = \"config.json\"\n";
const GPT: &str = "batch = 64\nsequence = 2048\n[model]\nlayers = 30\nhidden = 4096\nheads = 32\n\
                   vocabulary = 51200\npositions = 2048\ntied = true\n";
const EXPERTS: &str = "batch = 64\nsequence = 4096\n[model]\nlayers = 32\nhidden = 2048\nheads = 16\n\
                       kv-heads = 8\ngated = true\nffn = 4096\nvocabulary = 32000\nexperts = 8\ntop-k = 2\n";

/// A name, the model, and the set-up.
const QUESTIONS: [(&str, &str, &str); 15] = [
    ("llama", LLAMA, "pipeline = 4\ntensor = 2\nzero = 1\nschedule = \"1f1b\"\nsplit = \"even\""),
    (
        "interleaved",
        LLAMA,
        "pipeline = 4\ntensor = 1\nchunks = 2\nschedule = \"1f1b-i\"\nsplit = \"even\"\nzero = 1",
    ),
    ("two stages", LLAMA, "pipeline = 2\ntensor = 1\nchunks = 2\nschedule = \"1f1b-i\"\nzero = 1"),
    (
        "rounds",
        LLAMA,
        "pipeline = 4\ntensor = 1\nchunks = 2\nschedule = \"1f1b-i\"\nzero = 1\nmicrobatch = 1",
    ),
    ("v", LLAMA, "pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"zb-v\""),
    ("half", LLAMA, "pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"zb-h1\""),
    ("shards", LLAMA, "pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"vocab-1\""),
    ("fsdp", LLAMA, "pipeline = 1\ntensor = 1\nzero = 3\nrecompute = \"full\""),
    ("context", LLAMA, "pipeline = 2\ntensor = 2\ncontext = 2\nzero = 0\nschedule = \"1f1b\""),
    (
        "recipe",
        LLAMA,
        "pipeline = 2\ntensor = 2\nzero = 1\nschedule = \"1f1b\"\n[training]\nsequence-parallel = false\n\
         loss = \"fused\"\nboundary = \"post-validation\"",
    ),
    (
        "gpt",
        GPT,
        "pipeline = 4\ntensor = 1\nchunks = 2\nschedule = \"1f1b-i\"\nrecompute = \"full\"",
    ),
    ("experts", EXPERTS, "pipeline = 2\ntensor = 2\nexpert = 4\nzero = 1\nschedule = \"1f1b\""),
    (
        "fp8",
        LLAMA,
        "pipeline = 2\ntensor = 1\nzero = 1\nschedule = \"1f1b\"\n[training]\nprecision = \"fp8\"",
    ),
    (
        "experts in fp8",
        EXPERTS,
        "pipeline = 1\ntensor = 1\nexpert = 4\nzero = 3\n[training]\nprecision = \"fp8\"",
    ),
    ("searched", LLAMA, "pipeline = 4\ntensor = 1\nchunks = 1\nzero = 1\nschedule = \"zb-auto\""),
];

const CONFIG: &str = r#"{ "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
  "rope_theta": 500000.0, "max_position_embeddings": 8192 }"#;

/// A plan and its files.
struct Exported {
    name: &'static str,
    plan: Value,
    devices: u64,
    folder: PathBuf,
}

impl Exported {
    fn number(&self, key: &str) -> u64 {
        self.plan[key].as_u64().unwrap()
    }

    fn runs_in_megatron(&self) -> bool {
        self.plan["runs_in_megatron"] == true
    }

    /// Whether `debubble.megatron` runs its order: that of a searched or split schedule of one chunk.
    fn has_runner(&self) -> bool {
        ["half", "searched"].contains(&self.name)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap()
    }
}

/// The plan of each question, exported under `folder`.
fn exported(folder: &Path) -> Vec<Exported> {
    fs::write(folder.join("config.json"), CONFIG).unwrap();
    let one = |(name, model, search): (&'static str, &str, &str)| {
        // Ten microbatches on four stages go in rounds of five.
        let (devices, model) = match name {
            "rounds" => (4, model.replace("batch = 64", "batch = 10")),
            _ => (16, model.to_owned()),
        };
        // A search would order two chunks of each stage.
        let table = if name == "searched" { "setup" } else { "search" };
        let cluster = format!("[[cluster]]\nmachine = \"h100\"\ndevices = {devices}\n[{table}]\n");
        let question = format!("tokens = 1e9\nplans = 1\n{model}{cluster}{search}\n");
        let (file, winner) = (folder.join(format!("{name}.toml")), folder.join(name));
        fs::write(&file, question).unwrap();
        let out =
            command().arg("plan").arg(&file).args(["--json", "--export"]).arg(&winner).output();
        let out = out.unwrap();
        assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
        let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
        let at = usize::try_from(answer["winner"].as_u64().unwrap()).unwrap();
        Exported { name, plan: answer["plans"][at].clone(), devices, folder: winner }
    };
    QUESTIONS.map(one).into()
}

/// The array that the script at `path` sets, as those who source it see it.
fn sourced(path: &Path, array: &str) -> Vec<String> {
    let print = format!("set -eu; source \"$1\"; printf '%s\\n' \"${{{array}[@]}}\"");
    let out = Command::new("bash").args(["-c", &print, "bash"]).arg(path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The options of a framework: the kind of each, and what may be chosen.
struct Recorded(BTreeMap<String, (String, Vec<String>)>);

impl Recorded {
    fn of(framework: &str) -> Self {
        let text = fs::read_to_string(format!("tests/frameworks/{framework}.csv")).unwrap();
        assert!(text.starts_with("# "), "{framework}: which version?");
        let rows = text.lines().skip(2).map(|row| {
            let [option, kind, choices] = row.split(',').collect::<Vec<_>>()[..] else {
                panic!("{framework}: {row}")
            };
            let choices = choices.split_whitespace().map(str::to_owned).collect();
            (option.to_owned(), (kind.to_owned(), choices))
        });
        Self(rows.collect())
    }

    /// Checks that there is `option`, and that it takes `values`.
    fn check(&self, option: &str, values: &[&str]) {
        let (kind, choices) =
            self.0.get(option).unwrap_or_else(|| panic!("there is no option {option}"));
        let is = match (kind.as_str(), values) {
            ("flag", []) => true,
            ("int", [value]) => value.parse::<i64>().is_ok(),
            ("float", [value]) => value.parse::<f64>().is_ok(),
            ("text" | "subcommand", [value]) => {
                choices.is_empty() || choices.iter().any(|one| one == value)
            }
            ("list" | "lists", [_, ..]) => true,
            _ => false,
        };
        assert!(is, "{option} is {kind} of {choices:?}, not {values:?}");
    }

    /// Checks `arguments`, each option with the values behind it.
    fn check_all(&self, arguments: &[String], named: impl Fn(&str) -> String) {
        let starts = (0..arguments.len()).filter(|&at| arguments[at].starts_with("--"));
        let starts: Vec<usize> = starts.chain([arguments.len()]).collect();
        assert_eq!(starts[0], 0, "{arguments:?}");
        for ends in starts.windows(2) {
            let values: Vec<&str> =
                arguments[ends[0] + 1..ends[1]].iter().map(String::as_str).collect();
            self.check(&named(&arguments[ends[0]]), &values);
        }
    }
}

#[test]
fn exported_files_have_options_that_there_are() {
    let folder = TempDir::new().unwrap();
    let [megatron, old, main] = ["megatron", "torchtitan-0.2", "torchtitan-main"].map(Recorded::of);
    for one in exported(folder.path()) {
        if one.runs_in_megatron() || one.has_runner() {
            let mut arguments = sourced(&one.folder.join("megatron.sh"), "MEGATRON_ARGS");
            if let Some(at) = arguments.iter().position(|one| one == "--debubble-order") {
                // Megatron-LM itself has to refuse it.
                assert!(!megatron.0.contains_key("--debubble-order"));
                arguments.drain(at..at + 2);
            }
            megatron.check_all(&arguments, str::to_owned);
            is_a_clean_script(&one.folder.join("megatron.sh"));
        }
        let mut arguments = sourced(&one.folder.join("torchtitan.sh"), "TORCHTITAN_ARGS");
        let last = arguments.pop().unwrap();
        let (subcommand, policy) = last.split_once(':').unwrap();
        main.check(subcommand, &[policy]);
        main.check_all(&arguments, |option| {
            option
                .trim_start_matches("--")
                .replace(".no-enable-sequence", ".enable_sequence")
                .replace('-', "_")
        });
        let config: toml::Table = one.read("torchtitan.toml").parse().unwrap();
        check_keys(&old, "", &config);
        is_a_clean_script(&one.folder.join("torchtitan.sh"));
        says_what_it_cannot(&one);
    }
}

/// Checks the keys of `table`, whose name is `prefix`, and of the tables in it.
fn check_keys(options: &Recorded, prefix: &str, table: &toml::Table) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        if let Some(inner) = value.as_table() {
            check_keys(options, &format!("{name}."), inner);
            continue;
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let values: &[&str] = if value.is_bool() { &[] } else { &[&text] };
        options.check(&name, values);
    }
}

fn is_a_clean_script(path: &Path) {
    match Command::new("shellcheck").arg(path).output() {
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout)),
        Err(_) => eprintln!("skipped: there is no shellcheck"),
    }
}

/// Checks the comments on what a framework cannot run, and that an order goes with the files that name it.
fn says_what_it_cannot(one: &Exported) {
    let [old, main] = ["torchtitan.toml", "torchtitan.sh"].map(|name| one.read(name));
    let lacks = |text: &str| text.contains(": not in ");
    let recipe = one.name == "recipe";
    let script = fs::read_to_string(one.folder.join("megatron.sh")).ok();
    assert_eq!(script.is_some(), one.runs_in_megatron() || one.has_runner(), "{}", one.name);
    let script = script.unwrap_or_default();
    assert_eq!(lacks(&script), recipe, "{}", one.name);
    assert_eq!(script.contains("--debubble-order"), one.has_runner(), "{}", one.name);
    assert_eq!(script.contains("-m debubble.megatron"), one.has_runner(), "{}", one.name);
    if one.has_runner() {
        let arguments = sourced(&one.folder.join("megatron.sh"), "MEGATRON_ARGS");
        let at = arguments.iter().position(|one| one == "--debubble-order").unwrap();
        let order: Schedule = fs::read_to_string(&arguments[at + 1]).unwrap().parse().unwrap();
        assert_eq!(order.shape().stages() as u64, one.number("pipeline"), "{}", one.name);
    }
    let in_titan = one.plan["runs_in_torchtitan"] == true && !recipe;
    assert_eq!(lacks(&old), !in_titan, "{}: {old}", one.name);
    // Formats stand in its configurations.
    let arguments = main.replace("fp8: not in these arguments", "");
    assert_eq!(lacks(&arguments), !in_titan, "{}: {main}", one.name);
    let has_order = one.folder.join("schedule.csv").exists();
    let expected = ["v", "half", "searched"].contains(&one.name);
    assert_eq!(has_order, expected, "{}", one.name);
    assert_eq!(old.contains("schedule.csv") && main.contains("schedule.csv"), has_order);
    let class = if one.name == "v" { "ZBVZeroBubble" } else { "1F1B" };
    assert!(!has_order || (old.contains(class) && main.contains(class)), "{old}");
}

/// Output of the parser of `framework` for `rest`; `None`, and said so, where it cannot be had.
fn parsed(framework: &str, what: &str, rest: &[String]) -> Option<Value> {
    let Some(folder) = std::env::var_os("DEBUBBLE_FRAMEWORKS").map(PathBuf::from) else {
        eprintln!("skipped: DEBUBBLE_FRAMEWORKS names no folder with {framework}");
        return None;
    };
    let mut ask = Command::new(folder.join("venv/bin/python"));
    ask.arg("tests/frameworks/parsers.py").args([what, framework]).arg(folder.join(framework));
    let out = ask.args(rest).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(serde_json::from_slice(&out.stdout).unwrap())
}

#[test]
fn the_parsers_themselves_take_exported_files() {
    if std::env::var_os("DEBUBBLE_FRAMEWORKS").is_none() {
        eprintln!("skipped: DEBUBBLE_FRAMEWORKS names no folder with Megatron-LM and torchtitan");
        return;
    }
    let folder = TempDir::new().unwrap();
    let all = exported(folder.path());
    let case = |one: &Exported| format!("{}={}", one.folder.display(), one.devices);
    let cases: Vec<String> = all.iter().map(case).collect();
    let [megatron, old, main] = ["megatron", "torchtitan-0.2", "torchtitan-main"]
        .map(|framework| parsed(framework, "check", &cases).unwrap());
    for (at, one) in all.iter().enumerate() {
        let name = one.name;
        agree_on_torchtitan(one, &old[at], &main[at]);
        if !one.runs_in_megatron() {
            assert!(megatron[at].is_null(), "{name}");
            continue;
        }
        let [stages, data, tensor] = ["pipeline", "data", "tensor"].map(|key| one.number(key));
        let read = &megatron[at];
        assert_eq!(read["stages"], stages, "{name}");
        assert_eq!(read["data_parallel_size"], data, "{name}");
        assert_eq!(read["microbatches"], one.number("microbatches"), "{name}");
        // FSDP shards it too.
        assert_eq!(read["use_distributed_optimizer"], one.number("zero") > 0, "{name}");
        assert_eq!(read["use_megatron_fsdp"], one.number("zero") > 1, "{name}");
        assert_eq!(read["chunks"], one.number("chunks"), "{name}");
        let connections = match (one.number("zero") > 1, tensor * one.number("context") > 1) {
            (true, _) => Value::Null,
            (false, true) => "1".into(),
            (false, false) => "7".into(),
        };
        assert_eq!(read["connections"], connections, "{name}");
        let group = if name == "rounds" { 5 } else { stages };
        assert_eq!(read["microbatch_group_size_per_vp_stage"], group, "{name}");
        let llama = !["gpt", "experts"].contains(&name);
        if llama {
            assert_eq!(read["rotary_base"], 500_000, "{name}");
        }
        assert_eq!(read["add_bias_linear"], name == "gpt", "{name}");
        let rms = if name == "gpt" { "LayerNorm" } else { "RMSNorm" };
        assert_eq!(read["normalization"], rms, "{name}");
    }
}

fn agree_on_torchtitan(one: &Exported, old: &Value, main: &Value) {
    let name = one.name;
    for read in [old, main] {
        for (key, titan) in [
            ("pipeline", "pipeline_parallel_degree"),
            ("tensor", "tensor_parallel_degree"),
            ("context", "context_parallel_degree"),
            ("expert", "expert_parallel_degree"),
        ] {
            assert_eq!(read[titan], one.number(key), "{name}");
        }
        let [replicate, shard] = ["replicate", "shard"]
            .map(|kind| read[format!("data_parallel_{kind}_degree")].as_u64().unwrap());
        assert_eq!(replicate * shard, one.number("data"), "{name}");
        let parts = read["module_fqns_per_model_part"].as_array();
        assert_eq!(parts.is_some(), one.number("pipeline") > 1, "{name}");
        if let Some(parts) = parts {
            assert_eq!(parts.len() as u64, one.number("pipeline") * one.number("chunks"), "{name}");
            let layers = parts
                .iter()
                .flat_map(|part| part.as_array().unwrap())
                .filter(|module| module.as_str().unwrap().starts_with("layers."));
            assert_eq!(layers.count(), if name == "gpt" { 30 } else { 32 }, "{name}");
        }
    }
    let last = |read: &Value| {
        let parts = read["module_fqns_per_model_part"].as_array()?;
        parts.last()?.as_array()?.last().cloned()
    };
    if one.number("pipeline") > 1 {
        assert_eq!((last(old), last(main)), (Some("output".into()), Some("lm_head".into())));
        assert_eq!(main["num_pp_microbatches"], one.number("microbatches"), "{name}");
        assert_eq!(main["disable_cuda_graphs"], true);
        let local = old["local_batch_size"].as_u64().unwrap();
        let size = old["pipeline_parallel_microbatch_size"].as_u64().unwrap();
        assert_eq!(local / size, one.number("microbatches"), "{name}");
    } else {
        assert_eq!(old["local_batch_size"], one.number("microbatch"), "{name}");
    }
    assert_eq!(main["enable_sequence_parallel"], name != "recipe");
}

#[test]
fn megatron_reads_layouts_as_they_are_read_here() {
    let texts = [
        "Et*3|(t*3|)*30t*3L",
        "Et*3|(tt|)*29,m|L",
        "E||t|L",
        "E(t,t|)*1,2t*0L",
        "Et|*3L",
        "(E)*1(t|tt)*2L",
        "EtL",
        "Etm*2L",
        "Ettm|L",
        "E(t*2|t)*2L",
        "tEL",
        "EtEL",
        "EtL*2",
        "EmtL",
        "Etm|mL",
        "Ett t L",
        "Ex|tL",
        "E(tt|L",
        "E(tt|)L",
        "E()*3tL",
        "E((t|)*2|)*3L",
        "Et|)*3L",
        "E*tL",
        "*3EtL",
        "Et*2*3L",
        "Et",
        "tL",
    ]
    .map(str::to_owned);
    let Some(theirs) = parsed("megatron", "layouts", &texts) else { return };
    for (text, theirs) in texts.iter().zip(theirs.as_array().unwrap()) {
        let ours = text.parse::<LayerLayout>();
        let Some(theirs) = theirs.as_array() else {
            assert!(ours.is_err(), "{text}");
            continue;
        };
        let layers: Vec<u64> = theirs.iter().map(|chunk| chunk["t"].as_u64().unwrap()).collect();
        assert_eq!(ours.unwrap().layers(), layers, "{text}");
    }
}

/// The files of the set-up `search` of a question with `keys` on 16 H100, and what is printed beside them. Behind
/// `setup ` nothing is searched, and behind `machine NAME ` it is on that machine.
fn export(search: &str, keys: &str) -> (TempDir, std::process::Output) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("config.json"), CONFIG).unwrap();
    let (machine, keys) = match keys.strip_prefix("machine ").and_then(|rest| rest.split_once(' '))
    {
        Some((machine, keys)) => (machine, keys),
        None => ("h100", keys),
    };
    let (table, search) = match search.strip_prefix("setup ") {
        Some(search) => ("setup", search),
        None => ("search", search),
    };
    let cluster = format!("[[cluster]]\nmachine = \"{machine}\"\ndevices = 16\n");
    let file = folder.path().join("plan.toml");
    let question = format!("tokens = 1e9\nplans = 1\n{keys}{LLAMA}{cluster}[{table}]\n{search}\n");
    fs::write(&file, question).unwrap();
    let out =
        command().arg("plan").arg(&file).arg("--export").arg(folder.path().join("out")).output();
    (folder, out.unwrap())
}

/// What a question asks for, and what each file and the notes have to say of it. Where a name begins with !, the file
/// is not there, or lacks the words.
type Said = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const SAID: [Said; 16] = [
    (
        "pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"1f1b\"",
        "",
        &[
            ("megatron.sh", "--pipeline-model-parallel-size 4"),
            ("!megatron.sh", "--debubble-order"),
        ],
    ),
    (
        "pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"zb-v\"",
        "",
        &[
            ("!megatron.sh", ""),
            ("notes", "there is no megatron.sh: zb-v is not in Megatron-LM"),
            ("torchtitan.toml", "\"schedule.csv\""),
            ("torchtitan.sh", "/schedule.csv"),
        ],
    ),
    (
        "setup pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"zb-auto\"\nchunks = 1",
        "",
        &[
            ("megatron.sh", "/zb-auto.txt"),
            ("megatron.sh", "--no-gradient-accumulation-fusion"),
            ("zb-auto.txt", "F0.0"),
            ("torchtitan.toml", "\"schedule.csv\""),
        ],
    ),
    (
        "pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"zb-h1\"\nrecompute = \"full\"",
        "training.precision = \"fp8\"\n",
        &[
            ("!megatron.sh", ""),
            ("notes", "splits no backward of checkpointed layers"),
            ("torchtitan.toml", "torch recomputes for B and once more for W"),
            ("torchtitan.toml", "converters = [\"quantize.linear.float8\"]"),
            ("torchtitan.toml", "recipe_name = \"tensorwise\"\nfilter_fqns = [\"output\"]"),
            ("torchtitan.sh", "Float8LinearConverter"),
            ("notes", "torchtitan.sh: fp8: not in these arguments, which train in BF16"),
        ],
    ),
    (
        "pipeline = 2\ntensor = 1\nzero = 1\nschedule = \"1f1b\"",
        "training.precision = \"fp8-blockwise\"\n",
        &[
            ("megatron.sh", "--fp8-recipe blockwise"),
            ("torchtitan.toml", "fp8-blockwise: not in torchtitan 0.2.x, which trains in BF16"),
            ("torchtitan.sh", "fp8-blockwise: not in torchtitan, which trains in BF16"),
            ("!torchtitan.toml", "converters"),
            ("notes", "fp8-blockwise: not in torchtitan"),
        ],
    ),
    (
        "pipeline = 2\ntensor = 1\nzero = 1\nschedule = \"1f1b\"",
        "machine b200 training.precision = \"mxfp8\"\n",
        &[
            ("megatron.sh", "--fp8-recipe mxfp8"),
            ("torchtitan.toml", "converters = [\"quantize.linear.mx\"]"),
            ("torchtitan.toml", "recipe_name = \"mxfp8_cublas\""),
            ("torchtitan.sh", "MXFP8LinearConverter"),
            ("notes", "mxfp8: not in these arguments"),
        ],
    ),
    (
        "pipeline = 2\ntensor = 1\nzero = 1\nschedule = \"1f1b\"",
        "machine b200 training.precision = \"nvfp4\"\n",
        &[
            ("megatron.sh", "--fp4-recipe nvfp4"),
            ("torchtitan.toml", "nvfp4: not in torchtitan 0.2.x, which trains in BF16"),
            ("torchtitan.sh", "NVFP4LinearConverter"),
            ("notes", "torchtitan.toml: nvfp4: not in torchtitan 0.2.x"),
        ],
    ),
    (
        "pipeline = 1\ntensor = 8\nzero = 1\nrecompute = \"full\"",
        "",
        &[("megatron.sh", "--use-distributed-optimizer"), ("notes", "this is stage 2")],
    ),
    (
        "pipeline = 1\ntensor = 1\nzero = 2\nrecompute = \"full\"",
        "",
        &[
            ("megatron.sh", "--data-parallel-sharding-strategy optim_grads\n"),
            ("torchtitan.toml", "fsdp_reshard_after_forward = \"never\""),
            ("!notes", "ZeRO"),
        ],
    ),
    (
        "setup pipeline = 1\ntensor = 1\nzero = 3\nrecompute = \"full\"\nshard-groups = 2",
        "",
        &[
            ("megatron.sh", "--data-parallel-sharding-strategy optim_grads_params"),
            ("megatron.sh", "--num-distributed-optimizer-instances 2"),
            (
                "torchtitan.toml",
                "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 8",
            ),
            (
                "torchtitan.sh",
                "data_parallel_replicate_degree 2\n  --parallelism.data_parallel_shard_degree 8",
            ),
        ],
    ),
    (
        "setup pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"1f1b\"",
        "training.offload = [\"core_attn\"]\ntraining.cuda-graphs = \"full\"\n",
        &[
            ("megatron.sh", "--offload-modules core_attn"),
            ("megatron.sh", "--cuda-graph-impl full_iteration"),
            ("torchtitan.toml", "# offload = core_attn: not in torchtitan"),
            ("torchtitan.sh", "# cuda-graphs: not in torchtitan with a pipeline"),
            ("notes", "torchtitan.toml: cuda-graphs: not in torchtitan 0.2.x"),
        ],
    ),
    (
        "setup pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"zb-h1\"",
        "training.offload = [\"core_attn\"]\ntraining.cuda-graphs = \"full\"\n",
        &[
            ("megatron.sh", "# offload = core_attn: not tried with debubble.megatron"),
            ("!megatron.sh", "--cuda-graph-impl"),
            ("!megatron.sh", "NVTE_CPU_OFFLOAD_V1"),
            ("notes", "megatron.sh: cuda-graphs: not tried with debubble.megatron"),
        ],
    ),
    (
        "setup pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"1f1b\"",
        "framework = \"torchtitan\"\ntraining.optimizer-bytes = 8\n",
        &[("!notes", "megatron.sh"), ("notes", "optimizer-bytes = 8")],
    ),
    (
        "setup pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"1f1b\"",
        "training.optimizer = \"muon\"\n",
        &[
            ("megatron.sh", "--optimizer dist_muon"),
            ("!megatron.sh", "--use-distributed-optimizer"),
            ("!notes", "optimizer-bytes"),
            ("torchtitan.toml", "# optimizer = muon: not in torchtitan, this is AdamW"),
        ],
    ),
    (
        "setup pipeline = 4\ntensor = 1\nzero = 1\nschedule = \"1f1b\"",
        "training.optimizer-offload = 0.5\n",
        &[
            ("megatron.sh", "--optimizer-cpu-offload"),
            ("megatron.sh", "--optimizer-offload-fraction 0.5"),
            ("megatron.sh", "--use-precision-aware-optimizer"),
            ("torchtitan.toml", "# optimizer-offload: not in torchtitan"),
        ],
    ),
    (
        "setup pipeline = 4\ntensor = 1\nzero = 0\nschedule = \"1f1b\"",
        "training.optimizer = \"sgd\"\n",
        &[
            ("megatron.sh", "--optimizer sgd"),
            ("torchtitan.toml", "# optimizer = sgd: not in torchtitan"),
        ],
    ),
];

#[test]
fn every_file_says_what_it_lacks_and_so_do_the_notes() {
    for (search, keys, said) in SAID {
        let (folder, out) = export(search, keys);
        let notes = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{search}: {notes}");
        for (name, words) in said {
            let (has, name) = name.strip_prefix('!').map_or((true, *name), |name| (false, name));
            let text = match name {
                "notes" => Some(notes.clone()),
                _ => fs::read_to_string(folder.path().join("out").join(name)).ok(),
            };
            let found = text.as_ref().is_some_and(|text| text.contains(words));
            assert_eq!(found, has, "{search}: {name} and `{words}`: {text:?}\n{notes}");
        }
    }
}

/// Pairs on two streams go to torch as OVERLAP_F_B; what has no words for them is not written, and says so.
#[test]
fn pairs_on_two_streams_are_written_and_told() {
    let folder = TempDir::new().unwrap();
    for (schedule, has_script) in [("dualpipe-v", false), ("1f1b-i-overlap", true)] {
        let cluster = "[[cluster]]\nmachine = \"h100\"\ndevices = 16\n";
        let question = format!(
            "tokens = 1e9\nplans = 1\n{EXPERTS}[training]\ntwo-streams = true\n{cluster}[setup]\npipeline = 4\n\
             expert = 4\nzero = 1\nschedule = \"{schedule}\"\n"
        );
        let file = folder.path().join("plan.toml");
        fs::write(&file, question).unwrap();
        let into = folder.path().join(schedule);
        let out = command().arg("plan").arg(&file).arg("--export").arg(&into).output().unwrap();
        let notes = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{notes}");
        let csv = fs::read_to_string(into.join("schedule.csv")).unwrap();
        assert!(csv.contains(")OVERLAP_F_B"), "{csv}");
        assert_eq!(into.join("megatron.sh").exists(), has_script, "{schedule}");
        assert_eq!(notes.contains("there is no megatron.sh"), !has_script, "{notes}");
        assert!(
            notes.contains("there is no scenario.toml") && notes.contains("in GraphPP"),
            "{notes}"
        );
    }
}

/// All of DeepSeek-V3 as it was trained may fit: its files are written, and say so.
#[test]
fn a_set_up_that_may_fit_is_written_and_one_that_does_not_is_refused() {
    let folder = TempDir::new().unwrap();
    let into = folder.path().join("out");
    let mut ask = command();
    let ask = ask.args(["plan", "scenarios/plan/deepseek-v3.toml", "--export"]).arg(&into);
    let out = ask.output().unwrap();
    let notes = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{notes}");
    assert!(notes.contains("torchtitan.sh: may fit:"), "{notes}");
    assert!(notes.contains("there is no megatron.sh: dualpipe is not in Megatron-LM"), "{notes}");
    for name in ["torchtitan.toml", "torchtitan.sh"] {
        let text = fs::read_to_string(into.join(name)).unwrap();
        assert!(text.contains("# may fit: ") && text.contains("# dualpipe: not in"), "{text}");
    }
    let (folder, out) = export("setup pipeline = 1\ntensor = 1\nzero = 0", "");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("this one does not fit: stage 0 needs"), "{said}");
    assert!(!folder.path().join("out").exists());
}
