//! `imbalance` as a law or as counts, `capacity-factor`, and `two-streams`: what experts and their all-to-alls
//! make of a step.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::plan::{command, json, refusal};

/// A model with experts on 32 devices, eight of which share its experts.
pub(crate) const MOE: &str = r#"
tokens = 1e12
batch = 256
sequence = 4096
[model]
layers = 16
hidden = 4096
heads = 32
kv-heads = 8
gated = true
ffn = 1536
experts = 64
top-k = 8
vocabulary = 65536
[[cluster]]
machine = "h100"
devices = 32
[noise]
jitter = 0.0
"#;

/// Its set-up.
const SETUP: &str = "[setup]\npipeline = 4\nexpert = 8\n";

fn with(training: &str) -> String {
    format!("{MOE}{SETUP}[training]\n{training}\n")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// The set-up with these keys of `[training]`, part by part.
fn told(training: &str) -> Value {
    json(&with(training))["setups"][0].clone()
}

/// Seconds of the part `name` of a step.
fn part(told: &Value, name: &str) -> f64 {
    let parts = told["time"].as_array().unwrap();
    parts.iter().find(|part| part["name"] == name).map_or(0.0, |part| number(&part["seconds"]))
}

fn most_bytes(told: &Value) -> f64 {
    told["memory"].as_array().unwrap().iter().map(|one| number(&one["bytes"])).fold(0.0, f64::max)
}

#[test]
fn the_mean_is_what_a_step_takes_and_the_tail_what_devices_hold() {
    let own = told("imbalance = \"zipf:0.5\"");
    let experts = &own["experts"];
    let [mean, tail] = ["fullest", "fullest_p95"].map(|key| number(&experts[key]));
    assert!(mean > 1.3 && tail > mean * 1.05, "{experts}");
    assert_eq!(experts["dropped"], 0.0);
    // A factor of the mean takes the same step, one of the tail the same memory.
    let of_mean = told(&format!("imbalance = {mean:?}"));
    assert_eq!(own["step_ns"], of_mean["step_ns"]);
    let of_tail = told(&format!("imbalance = {tail:?}"));
    assert_eq!(most_bytes(&own), most_bytes(&of_tail));
    assert!(most_bytes(&own) > most_bytes(&of_mean));
    // A number is always so, and has no tail to tell.
    assert!(of_mean.get("experts").is_none());
    // Where every microbatch is as uneven as one in twenty, experts take as much longer.
    let more = number(&experts["p95_step_ns"]) - number(&own["step_ns"]);
    let wanted = 1e9 * part(&own, "experts") * (tail / mean - 1.0);
    assert!((more - wanted).abs() < 1e-6 * wanted + 2.0, "{more} {wanted}");
    let plan = &json(&with("imbalance = \"zipf:0.5\""))["plans"][0];
    assert_eq!(plan["step_p95_ns"], experts["p95_step_ns"]);
    assert_eq!(plan["step_p50_ns"], own["step_ns"]);
}

#[test]
fn more_devices_of_a_group_are_less_even_and_more_tokens_more() {
    let of = |setup: &str, sequence: &str| {
        let question = format!("{MOE}{setup}[training]\nimbalance = \"zipf:0\"\n");
        let question = question.replace("sequence = 4096", &format!("sequence = {sequence}"));
        let told = &json(&question)["setups"][0]["experts"];
        ["fullest", "fullest_p95"].map(|key| number(&told[key]))
    };
    let groups = ["1", "2", "8"];
    let groups = groups.map(|expert| of(&SETUP.replace('8', expert), "256")[0]);
    assert!((groups[0] - 1.0).abs() < 1e-9, "{groups:?}");
    assert!(groups[0] < groups[1] && groups[1] < groups[2], "{groups:?}");
    // Chance alone evens out with tokens: a sixteenth of them has four times as much spread.
    let [few, many] = ["256", "4096"].map(|sequence| of(SETUP, sequence)[0] - 1.0);
    assert!((few / many / 4.0 - 1.0).abs() < 0.05, "{few} {many}");
    // The seed of all chance is that of the noise.
    let seeded = |seed: u64| {
        let question = with("imbalance = \"lognormal:0.5\"");
        let question = question.replace("[noise]\n", &format!("[noise]\nseed = {seed}\n"));
        number(&json(&question)["setups"][0]["experts"]["fullest"])
    };
    assert_eq!(seeded(3).to_bits(), seeded(3).to_bits());
    assert!(
        (seeded(3) / seeded(4) - 1.0).abs() < 0.05 && seeded(3).to_bits() != seeded(4).to_bits()
    );
}

/// Asks with the counts in a file beside the question.
fn with_counts(counts: &str) -> (Option<Value>, String) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("counts.csv"), counts).unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, with("imbalance = \"file:counts.csv\"")).unwrap();
    let out = command().arg("plan").arg(&path).arg("--json").output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).replace('│', " ");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    (out.status.success().then(|| serde_json::from_slice(&out.stdout).unwrap()), said)
}

#[test]
fn measured_counts_are_read_and_checked() {
    // Of 64 experts the first device has eight that are chosen twice as often.
    let count = |expert: u32| if expert < 8 { 18_000 } else { 9_000 };
    let line: Vec<String> = (0..64).map(|expert| count(expert).to_string()).collect();
    let wanted = 2.0 * 64.0 / 72.0;
    for text in [
        line.join(","),
        line.join("\n"),
        format!("# layer by layer\n{}\n{}\n", line.join(" "), line.join(",")),
    ] {
        let answer = with_counts(&text).0.unwrap();
        let fullest = number(&answer["setups"][0]["experts"]["fullest"]);
        assert!((fullest / wanted - 1.0).abs() < 0.01, "{fullest} {wanted}");
    }
    for (counts, said) in [
        (line[1..].join(","), "list 1 has 63 counts, but a layer has 64 experts"),
        (line.join(",").replace("9000,9000", "9000,many"), "is not a count of tokens"),
        (String::new(), "no token was counted"),
        (
            line.join(",").replacen("18000", "9000000", 1),
            "expert 0 of list 1 has more than one in 8",
        ),
    ] {
        let (answer, text) = with_counts(&counts);
        assert!(answer.is_none() && text.contains(said), "{text}");
    }
    let missing = refusal(&with("imbalance = \"file:absent.csv\""));
    assert!(missing.contains("absent.csv"), "{missing}");
}

#[test]
fn full_experts_drop_tokens_or_are_padded() {
    let free = told("imbalance = \"zipf:0.5\"");
    let full = told("imbalance = \"zipf:0.5\"\ncapacity-factor = 1.25");
    let dropped = number(&full["experts"]["dropped"]);
    assert!((0.05..0.3).contains(&dropped), "{dropped}");
    assert!(number(&full["experts"]["fullest_p95"]) <= 1.25 * 1.001);
    assert!(number(&full["step_ns"]) < number(&free["step_ns"]));
    assert!(most_bytes(&full) < most_bytes(&free));
    // What is dropped does not travel.
    let travel = "all-to-alls of experts";
    assert!(part(&full, travel) < part(&free, travel) * (1.0 - 0.9 * dropped));
    // Padded, every expert has as many rows, and these travel too.
    let padded = told("imbalance = \"zipf:0.5\"\ncapacity-factor = 1.25\npad-to-capacity = true");
    let rows = number(&padded["experts"]["fullest"]);
    assert!((rows - 1.25).abs() < 0.01 && padded["experts"]["fullest_p95"] == rows, "{padded}");
    assert_eq!(padded["experts"]["dropped"], dropped);
    assert!(part(&padded, travel) > part(&free, travel) * 1.2);
    // With room for every token nothing is dropped.
    let ample = told("imbalance = \"zipf:0.5\"\ncapacity-factor = 8");
    assert!(number(&ample["experts"]["dropped"]) < 1e-4, "{ample}");
    assert!((number(&ample["step_ns"]) / number(&free["step_ns"]) - 1.0).abs() < 1e-3);
    // Unless told, tokens choose all experts alike, and only chance fills one.
    let chance = told("capacity-factor = 1.25");
    assert!(number(&chance["experts"]["dropped"]) < 1e-3, "{chance}");
}

#[test]
fn what_cannot_be_is_refused_with_a_cure() {
    for (wrong, said) in [
        ("dispatcher = \"deepp\"", "dispatcher is `deepp`: write alltoall, deepep, hybridep"),
        ("imbalance = 0.5", "imbalance is 0.5: from 1"),
        ("imbalance = nan", "imbalance is NaN: from 1"),
        (
            "imbalance = \"zipf\"",
            "`zipf` is not an imbalance: write a number from 1, zipf:EXPONENT",
        ),
        ("imbalance = \"zipf:-1\"", "the spread of popularity is -1: from 0"),
        ("imbalance = \"lognormal:11\"", "the spread of popularity is 11: from 0"),
        ("capacity-factor = 0", "capacity-factor is 0: it must be more than 0"),
        ("capacity-factor = -1.0", "capacity-factor is -1: it must be more than 0"),
        ("capacity-factor = nan", "capacity-factor is NaN: it must be more than 0"),
        ("capacity-factor = 8.5", "at most 8, where an expert has room for every token"),
        ("capacity-factor = 1.0\nimbalance = 1.2", "imbalance is 1.2, but what a capacity drops"),
        ("pad-to-capacity = true", "give capacity-factor, or take pad-to-capacity out"),
        (
            "capacity-factor = 1.0\npad-to-capacity = true\ndispatcher = \"deepep\"",
            "deepep sends tokens alone, and pads no experts",
        ),
        ("two-streams = true", "never overlaps a forward with a backward"),
        (
            "two-streams = true\noverlap-experts = true",
            "both say what of the all-to-alls is hidden",
        ),
        ("contention = \"0.1,1\"", "contention is between two streams, and there is one"),
    ] {
        let text = refusal(&with(wrong));
        assert!(text.contains(said), "{wrong}: {text}");
        assert!(!wrong.starts_with("capacity") || text.contains("help:"), "{text}");
    }
    let dense = MOE.replace("experts = 64\ntop-k = 8\n", "");
    for key in [
        "imbalance = \"zipf:1\"",
        "capacity-factor = 1.0",
        "two-streams = true",
        "dispatcher = \"alltoall\"",
        "overlap-experts = true",
        "fused-experts = true",
    ] {
        let text = refusal(&format!("{dense}[setup]\npipeline = 4\n[training]\n{key}\n"));
        assert!(text.contains("the model has none"), "{key}: {text}");
    }
    let torchtitan =
        with("capacity-factor = 1.0").replace("tokens", "framework = \"torchtitan\"\ntokens");
    let text = refusal(&torchtitan);
    assert!(text.contains("torchtitan drops no tokens"), "{text}");
}

#[test]
fn a_capacity_is_exported_for_megatron() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, with("capacity-factor = 1.25\npad-to-capacity = true")).unwrap();
    let mut ask = command();
    let out = ask.arg("plan").arg(&path).arg("--export").arg(folder.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let script = fs::read_to_string(folder.path().join("megatron.sh")).unwrap();
    assert!(script.contains("--moe-expert-capacity-factor 1.25\n"), "{script}");
    assert!(script.contains("--moe-pad-expert-input-to-capacity\n"), "{script}");
}

/// The set-up under a schedule of pairs, with these keys of `[training]`.
fn paired(schedule: &str, training: &str) -> Value {
    let setup = format!("{SETUP}schedule = \"{schedule}\"\n");
    let question = format!("{MOE}{setup}[training]\ndispatcher = \"deepep\"\n{training}\n");
    json(&question)["setups"][0].clone()
}

#[test]
fn what_streams_hide_comes_of_the_timeline() {
    for schedule in ["dualpipe", "dualpipe-v", "1f1b-overlap", "1f1b-i-overlap"] {
        let apart = paired(schedule, "");
        let own = paired(schedule, "two-streams = true");
        let hidden = number(&own["streams"]["hidden"]);
        assert!((0.2..1.0).contains(&hidden), "{schedule}: {hidden}");
        assert!(number(&own["step_ns"]) < number(&apart["step_ns"]), "{schedule}");
        // The parts still add up, and none is below nothing.
        let parts = own["time"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|part| number(&part["seconds"])).sum();
        assert!((1e9 * sum - number(&own["step_ns"])).abs() < 1.0, "{schedule}: {sum}");
        // But for bubbles: both values of a pair travel at once, and are told one after the other.
        let is_work = |part: &&Value| !part["name"].as_str().unwrap().starts_with("bubble");
        let mut work = parts.iter().filter(is_work);
        assert!(work.all(|part| number(&part["seconds"]) >= -1e-6), "{parts:?}");
        // Less is left of all-to-alls than they take, by about what is hidden.
        let travel = "all-to-alls of experts";
        assert!(part(&own, travel) < part(&apart, travel), "{schedule}");
        // Kernels that take nothing from compute hide no less, and take no longer.
        let free = paired(schedule, "two-streams = true\ncontention = \"0,1\"");
        assert!(number(&free["step_ns"]) <= number(&own["step_ns"]), "{schedule}");
        assert_eq!(free["streams"]["stretched_ns"], 0);
        // Memory is that of the schedule.
        assert_eq!(most_bytes(&own), most_bytes(&apart), "{schedule}");
    }
}

/// With nothing that travels two streams are one: the same step, to the roundings of segments.
#[test]
fn without_all_to_alls_streams_change_nothing() {
    let of = |training: &str| {
        let setup = SETUP.replace("expert = 8", "expert = 1") + "schedule = \"dualpipe\"\n";
        json(&format!("{MOE}{setup}[training]\n{training}\n"))["setups"][0].clone()
    };
    let [one, two] = ["", "two-streams = true"].map(of);
    let [one_step, two_steps] = [&one, &two].map(|told| number(&told["step_ns"]));
    assert!((two_steps / one_step - 1.0).abs() < 1e-6, "{one_step} {two_steps}");
    assert_eq!(two["streams"]["hidden"], 0.0);
}
