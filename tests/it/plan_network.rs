//! `debubble plan --network`: the network as nccl-tests measured it, by flag and by key, and the plan without it.

use std::fs;

use serde_json::Value;

use crate::cli::{debubble, refused, stdout};

const LOG: &str = "scenarios/runs/nccl-h100.log";
const MODEL: &str = "llama3-8b --tokens 1e10 --batch 64 --sequence 4096 --machine h100";

fn plan(words: &str) -> std::process::Output {
    debubble(["plan"].into_iter().chain(words.split_whitespace()))
}

fn json(words: &str) -> Value {
    serde_json::from_str(&stdout(&plan(&format!("{words} --json")))).unwrap()
}

/// All-reduces over two nodes at `rate` GB/s a device, of eight.
fn table(rate: f64) -> String {
    let rows = (20..33).map(|power| format!("all_reduce,16,2,{},{}\n", 1_u64 << power, 8.0 * rate));
    "collective,ranks,nodes,bytes,busbw\n".to_owned() + &rows.collect::<String>()
}

#[test]
fn rates_are_those_of_the_log_and_the_rest_is_named() {
    let answer = json(&format!("{MODEL} --devices 16 --network {LOG}"));
    let [network] = &answer["networks"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((&network["file"], &network["machine"]), (&"nccl-h100.log".into(), &"h100".into()));
    let ring =
        network["rates"].as_array().unwrap().iter().find(|one| one["rate"] == "ring").unwrap();
    let rate = ring["bytes_per_second"].as_f64().unwrap() / 1e9;
    assert!(
        (36.0..40.0).contains(&rate) && ring["median_residual"].as_f64().unwrap() < 0.15,
        "{ring}"
    );
    let kept: Vec<&Value> =
        network["kept"].as_array().unwrap().iter().map(|one| &one["rate"]).collect();
    assert!(
        kept.contains(&&Value::from("hop")) && kept.contains(&&Value::from("expert-network")),
        "{kept:?}"
    );
    // A network that was measured is no unknown.
    assert_eq!(answer.get("network"), None);
    assert!(
        answer["built_in_network"]
            .as_str()
            .unwrap()
            .contains("with the network of the machine's file")
    );
    let unmeasured = json(&format!("{MODEL} --devices 16"));
    assert!(unmeasured["network"].as_str().unwrap().contains("stays the fastest of these plans"));
    let text = stdout(&plan(&format!("{MODEL} --devices 16 --network {LOG}")));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "network of h100 from nccl-h100.log",
        "by all_reduce on 16 devices of 2 nodes",
        "not measured",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_slow_network_changes_the_plan_and_the_key_is_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("slow.csv"), table(0.3)).unwrap();
    let flags = json(&format!("{MODEL} --devices 32 --network {}", path("slow.csv")));
    let said = flags["built_in_network"].as_str().unwrap();
    assert!(
        said.contains("the plan to take would be 32 h100") && said.contains("more a step"),
        "{said}"
    );
    let built_in = json(&format!("{MODEL} --devices 32"));
    let step = |answer: &Value| answer["plans"][0]["step_ns"].as_u64().unwrap();
    assert!(step(&flags) > step(&built_in));
    assert!(
        built_in.get("networks").is_none()
            && built_in["network"].as_str().unwrap().contains("at half")
    );
    let question = "title = \"llama3-8b\"\ntokens = 1e10\nbatch = 64\nsequence = 4096\n\
        model = { layers = 32, hidden = 4096, heads = 32, kv-heads = 8, ffn = 14336, gated = true, vocabulary = 128256 }\n\
        [[cluster]]\nmachine = \"h100\"\ndevices = 32\nnetwork = \"slow.csv\"\n";
    fs::write(path("plan.toml"), question).unwrap();
    assert_eq!(step(&json(&path("plan.toml"))), step(&flags));
    // A flag goes over the key, and its file is not looked for next to the question.
    let over = json(&format!("{} --network {LOG}", path("plan.toml")));
    assert_eq!(over["networks"][0]["file"], "nccl-h100.log");
}

#[test]
fn networks_that_say_nothing_of_the_machine_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("fast.csv"), table(60.0)).unwrap();
    let with =
        |file: &str, more: &str| plan(&format!("{MODEL} --devices 16 --network {file} {more}"));
    refused(&with(&path("fast.csv"), ""), &["reached 60 GB/s a device", "NCCL_ALGO=Ring"]);
    refused(&with(LOG, "--machine gb200"), &["network is measured on one kind", "[[cluster]]"]);
    refused(&with(LOG, "--machine b200,h100"), &["network is measured on one kind of machine"]);
    refused(&with("Cargo.toml", ""), &["neither the output of nccl-tests"]);
    refused(&with("none.log", ""), &["none.log"]);
    let four = table(6.0).replace(",16,2,", ",8,2,");
    fs::write(path("four.csv"), four).unwrap();
    refused(&with(&path("four.csv"), ""), &["ran on 4 devices a node, and h100 has 8", "per-node"]);
}
