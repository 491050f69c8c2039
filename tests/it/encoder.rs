//! `debubble encoder`: an encoder in front of a language model, by schedule and placement.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::cli::{refused, run, stdout};

const SMALL: &str = "encoder --schedule 1f1b,zb-h1 --stages 4 --microbatches 8 --forward 10ms --backward 20ms \
                     --hop 200us --encoder-forward 9ms --encoder-backward 18ms --encoder-layers 9";

fn json(line: &str) -> Value {
    serde_json::from_str(&stdout(&run(line))).unwrap()
}

fn rows(answer: &Value) -> &[Value] {
    answer["results"].as_array().unwrap()
}

/// The step of `schedule` with the encoder at `placement`, in nanoseconds.
fn step(answer: &Value, schedule: &str, placement: &str) -> u64 {
    let is = |row: &&Value| row["schedule"] == schedule && row["placement"] == placement;
    rows(answer).iter().find(is).unwrap()["step_ns"].as_u64().unwrap()
}

#[test]
fn the_encoder_in_front_of_the_first_stage_is_a_schedule_with_a_longer_stage() {
    // The same question to `simulate`: the first stage takes 19 ms forward and 38 ms backward.
    let asked = json(&format!("{SMALL} --placement first-stage --json"));
    let simulated = json(
        "simulate --schedule 1f1b,zb-h1 --stages 4 --microbatches 8 --forward 19ms,10ms,10ms,10ms \
         --backward-input 19ms,10ms,10ms,10ms --backward-weight 19ms,10ms,10ms,10ms --hop 200us --json",
    );
    for (schedule, one) in
        ["1f1b", "zb-h1"].into_iter().zip(simulated["results"].as_array().unwrap())
    {
        assert_eq!(
            step(&asked, schedule, "first-stage"),
            one["makespan_ns"].as_u64().unwrap(),
            "{one}"
        );
    }
}

#[test]
fn bubbles_take_less_than_other_placements_and_no_less_than_the_bound() {
    let answer = json(&format!("{SMALL} --json"));
    assert_eq!(rows(&answer).len(), 8);
    let bound = answer["bound_ns"].as_u64().unwrap();
    let steps: Vec<u64> =
        rows(&answer).iter().map(|row| row["step_ns"].as_u64().unwrap()).collect();
    assert!(steps.is_sorted() && steps[0] >= bound, "{steps:?}");
    assert_eq!(rows(&answer)[0]["placement"], "bubbles");
    for row in rows(&answer) {
        let Some(alone) = row.get("model_alone_ns") else { continue };
        let step = row["step_ns"].as_u64().unwrap();
        assert!(alone.as_u64().unwrap() <= step && row["order_bound_ns"].as_u64().unwrap() <= step);
        let counts = row["microbatches_by_stage"].as_array().unwrap();
        assert_eq!(counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 8);
    }
    assert!(step(&answer, "1f1b", "bubbles") < step(&answer, "1f1b", "spread"));
    // All work in equal parts: 8 microbatches of 4 stages of 30 ms, and of 27 ms.
    assert_eq!(bound, 8 * (4 * 30 + 27) * 1_000_000 / 4);
}

#[test]
fn operations_keep_every_dependency() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("operations.csv");
    let line = SMALL.replace("1f1b,zb-h1", "1f1b") + " --placement bubbles --operations";
    stdout(&run(&format!("{line} {}", file.display())));
    let text = fs::read_to_string(&file).unwrap();
    let mut ends: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    let mut free = BTreeMap::new();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let stage: u64 = cells[0].parse().unwrap();
        let [start, end] =
            [cells.len() - 2, cells.len() - 1].map(|at| cells[at].parse::<u64>().unwrap());
        let free = free.entry(stage).or_insert(0);
        assert!(start >= *free, "{line}");
        *free = end;
        let name = cells[1].to_owned();
        let [first, last] = ends.entry(name.clone()).or_insert([start, end]);
        (*first, *last) = ((*first).min(start), (*last).max(end));
        assert_eq!(*places.entry(name).or_insert(stage), stage, "{line}");
    }
    for microbatch in 0..8 {
        let of = |name: &str| ends[&format!("{name}{microbatch}")];
        let hop = |name: &str| match places[&format!("{name}{microbatch}")] {
            0 => 0,
            _ => 200_000,
        };
        assert!(of("EF")[1] + hop("EF") <= of("F0.")[0], "{microbatch}");
        assert!(of("BW0.")[1] + hop("EB") <= of("EB")[0], "{microbatch}");
        for chunk in 0..3 {
            let [from, to] =
                [chunk, chunk + 1].map(|chunk| ends[&format!("F{chunk}.{microbatch}")]);
            assert!(from[1] + 200_000 <= to[0]);
        }
    }
}

#[test]
fn answers_do_not_depend_on_threads_and_files_say_what_the_answer_says() {
    let line = format!("{SMALL} --seed 7 --json");
    let on = |threads: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        command.args(line.split_whitespace()).env("RAYON_NUM_THREADS", threads);
        stdout(&command.output().unwrap())
    };
    assert_eq!(on("1"), on("4"));
    let folder = tempfile::tempdir().unwrap();
    let [csv, svg] = ["rows.csv", "step.svg"].map(|name| folder.path().join(name));
    let answer = json(&format!("{line} --csv {} --svg {}", csv.display(), svg.display()));
    let text = fs::read_to_string(csv).unwrap();
    assert_eq!(text.lines().count(), 1 + rows(&answer).len());
    assert!(
        text.lines().nth(1).unwrap().contains(&rows(&answer)[0]["step_ns"].to_string()),
        "{text}"
    );
    let picture = fs::read_to_string(svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("encoder"), "no picture");
}

#[test]
fn a_frozen_encoder_has_no_backward() {
    let plain =
        "encoder --schedule 1f1b --stages 4 --microbatches 8 --forward 10ms --encoder-forward 9ms";
    let [trained, frozen] =
        ["", " --frozen-encoder"].map(|more| json(&format!("{plain}{more} --json")));
    for placement in ["first-stage", "own-stages", "spread", "bubbles"] {
        assert!(
            step(&frozen, "1f1b", placement) < step(&trained, "1f1b", placement),
            "{placement}"
        );
    }
    assert_eq!(frozen["encoder_ns"], 9_000_000);
    assert_eq!(trained["encoder_ns"], 27_000_000);
}

#[test]
fn a_text_microbatch_has_no_encoder() {
    let plain = "encoder --schedule 1f1b --stages 2 --microbatches 4 --forward 10ms --encoder-forward 8ms \
                 --json --encoder-work";
    let none = json(&format!("{plain} 0,0,0,0"));
    // The language model alone: (4 + 1) 30 ms.
    for placement in ["first-stage", "bubbles"] {
        assert_eq!(step(&none, "1f1b", placement), 150_000_000, "{placement}");
    }
    let one = json(&format!("{plain} 0,0,1,0"));
    assert!(step(&one, "1f1b", "bubbles") <= step(&one, "1f1b", "first-stage"));
}

#[test]
fn a_memory_limit_is_kept_where_it_can_be() {
    let with = |limit: &str| {
        json(&format!(
            "{SMALL} --activation 1GB --encoder-activation 500MB --placement first-stage,bubbles --json {limit}"
        ))
    };
    let free = with("");
    let peak = |row: &Value| row["peak_bytes"].as_u64().unwrap();
    let most =
        rows(&free).iter().filter(|row| row["placement"] == "bubbles").map(peak).max().unwrap();
    let limited = with(&format!("--memory-limit {}B", most - 1));
    assert!(rows(&limited).iter().any(|row| row["fits"] == true));
    for row in rows(&limited) {
        assert_eq!(row["fits"] == true, peak(row) < most, "{row}");
    }
    let fits: Vec<bool> = rows(&limited).iter().map(|row| row["fits"] == true).collect();
    assert!(fits.is_sorted_by_key(|fits| !fits), "those that do not fit come last");
}

#[test]
fn sizes_and_a_machine_give_times() {
    let line = "encoder --schedule 1f1b --stages 4 --microbatches 8 --model llama2-7b --machine h100 --tensor 2 \
                --encoder-hidden 4096 --encoder-layers 24 --encoder-tokens 1024 --images 4 --json";
    let answer = json(line);
    let times = ["model_ns", "encoder_ns"].map(|key| answer[key].as_u64().unwrap());
    // An encoder of 4.8 B parameters beside a model of 6.7 B, both of 4096 tokens.
    let ratio = times[1] as f64 / times[0] as f64;
    assert!((0.5..1.1).contains(&ratio), "{ratio}");
    let more = json(&line.replace("--images 4", "--images 8"));
    let twice = more["encoder_ns"].as_u64().unwrap() as f64 / times[1] as f64;
    assert!((1.5..2.1).contains(&twice), "{twice}");
}

#[test]
fn a_config_brings_its_encoder() {
    let line = "encoder --schedule 1f1b --stages 4 --microbatches 8 --machine h100 --encoder-tokens 4096 --json \
                --model tests/configs/";
    let qwen = json(&format!("{line}qwen2.5-vl-7b.json"));
    let assumed = qwen["assumed"].to_string();
    assert!(assumed.contains("32 layers of 1280, 16 heads, a gated MLP of 3420"), "{assumed}");
    assert!(assumed.contains("in all but 4 layers in windows of 64"), "{assumed}");
    assert!(!assumed.contains("not planned"), "{assumed}");
    assert!(
        assumed.contains("kernel launches of Megatron-LM's host bound the encoder"),
        "{assumed}"
    );
    // The same sizes by hand, without gate and windows: the MLP has 2 of 3 products, and attention is whole.
    let by_hand = |ffn: &str| {
        let sizes = "--encoder-hidden 1280 --encoder-layers 32 --encoder-heads 16 --encoder-ffn";
        json(&format!("{line}qwen2.5-7b.json {sizes} {ffn}"))["encoder_ns"].as_u64().unwrap()
    };
    let encoder = qwen["encoder_ns"].as_u64().unwrap();
    assert!((by_hand("3420") / 2..by_hand("5130")).contains(&encoder), "{encoder}");
    // Keys say otherwise.
    let fewer = json(&format!("{line}qwen2.5-vl-7b.json --encoder-layers 16"));
    assert!(
        !json(&format!("{line}qwen2.5-vl-7b.json --images 64"))["assumed"]
            .to_string()
            .contains("launches")
    );
    let half = fewer["encoder_ns"].as_u64().unwrap() as f64 / encoder as f64;
    assert!((0.45..0.55).contains(&half), "{half}");
    let gemma = json(&format!("{line}gemma-3-12b.json"));
    assert!(
        gemma["assumed"].to_string().contains("27 layers of 1152, 18 heads, an MLP of 4608"),
        "{gemma}"
    );
}

#[test]
fn wrong_questions_are_refused() {
    let open = "encoder --forward 10ms --encoder-forward 9ms";
    for (more, wanted) in [
        ("--encoder-work 1,2", "2 factors for 32 microbatches"),
        ("--encoder-layers 0", "the encoder has 0 layers"),
        ("--encoder-layers 4294967297", "the encoder has 4294967297 layers"),
        ("--own-stages 8", "both encoder and model need some"),
        ("--schedule 1f2b", "there is no schedule `1f2b`"),
        ("--schedule dualpipe", "microbatches enter at both ends"),
        ("--schedule vocab-1", "its output layer is in shards"),
        ("--schedule pipedream", "it never flushes"),
        ("--weight 30ms", "more than the whole --backward"),
        ("--frozen-encoder --encoder-backward 9ms", "a frozen encoder has no backward"),
        ("--memory-limit 1GB", "--activation is missing"),
        ("--encoder-hidden 1024", "--machine is missing"),
        ("--encoder-hidden 1024 --machine h100", "exclude each other"),
        ("--model llama2-7b --machine h100", "exclude each other"),
        ("--microbatches 100000000", "use fewer microbatches"),
        ("--microbatches 100000", "use fewer microbatches"),
        ("--stages 60000 --microbatches 60000", "use fewer microbatches"),
        ("--effort 1001", "from 0 to 1000"),
        ("--schedule zb-v --placement own-stages", "none of the schedules"),
    ] {
        refused(&run(&format!("{open} {more}")), &[wanted]);
    }
    refused(&run("encoder --forward 10ms"), &["--encoder-forward is missing"]);
    refused(&run("encoder --encoder-forward 10ms"), &["--forward is missing"]);
    refused(&run("encoder nowhere.toml"), &["nowhere.toml"]);
    refused(&run("encoder scenarios/first.toml"), &["is a scenario", "debubble simulate"]);
    refused(
        &run("simulate scenarios/encoder/vit-22b.toml"),
        &["a question for `debubble encoder`"],
    );
    let long =
        "encoder --forward 1000000s --encoder-forward 1000000s --schedule 1f1b --microbatches 1000";
    refused(&run(long), &["64-bit"]);
}

#[test]
fn the_file_of_a_question_is_under_its_flags() {
    let file =
        "encoder scenarios/encoder/vit-22b.toml --schedule 1f1b --placement first-stage --json";
    let answer = json(file);
    assert_eq!(answer["encoder_ns"], 163_200_000);
    assert_eq!(answer["microbatches"], 16);
    let other = json(&format!("{file} --microbatches 8"));
    assert_eq!(other["microbatches"], 8);
    assert!(step(&other, "1f1b", "first-stage") < step(&answer, "1f1b", "first-stage"));
}

#[test]
fn a_key_of_a_file_holds_without_its_flag() {
    let by_file = json("encoder scenarios/encoder/frozen.toml --schedule 1f1b --json");
    let by_flag =
        json("encoder scenarios/encoder/frozen.toml --schedule 1f1b --frozen-encoder --json");
    assert_eq!(by_file["results"], by_flag["results"]);
}
