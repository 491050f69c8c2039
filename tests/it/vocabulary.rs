//! The output layer in shards, from the command line: its keys, its text form, and what is refused.

use std::fs;

use pipeline::{
    Collectives, Costs, Family, Fault, Nanos, PassTimes, Problem, Schedule, Shape, ShardTimes,
    TextError, Vocabulary,
};
use sim::Replay;

use crate::cli::{refused, results, run, stdout};

const QUESTION: &str = "--stages 4 --microbatches 8 --forward 2ms --backward-input 3ms \
                        --backward-weight 1ms";

fn ask(rest: &str) -> std::process::Output {
    run(&format!("simulate {QUESTION} {rest}"))
}

fn span(rest: &str) -> u64 {
    results(&format!("simulate --json {QUESTION} {rest}"))[0]["span_ns"].as_u64().unwrap()
}

#[test]
fn one_stage_does_all_after_each_other() {
    let alone = "--stages 1 --microbatches 5 --forward 2ms --backward-input 3ms \
                 --backward-weight 1ms --vocab-s 4ms --vocab-t 7ms";
    for schedule in ["vocab-1", "vocab-2", "interlaced"] {
        let line = format!("simulate --json {alone} --schedule {schedule}");
        assert_eq!(results(&line)[0]["span_ns"], 5 * 17_000_000, "{schedule}");
    }
}

/// F = 2, BW = 4, S = 1, T = 1 on 2 stages and a single microbatch: F0 0-2, F1 2-4, S on both 4-5, T on
/// both behind the barrier, BW1 behind T with two barriers and behind S with one, BW0 behind that.
#[test]
fn barriers_by_hand() {
    let two = "--stages 2 --microbatches 1 --forward 2ms --backward-input 3ms --backward-weight 1ms \
               --vocab-s 1ms";
    let makespan = |rest: &str| {
        let after = if rest.contains("vocab-t") { "" } else { "--vocab-t 1ms" };
        let line = format!("simulate --json {two} {after} {rest}");
        results(&line)[0]["makespan_ns"].as_u64().unwrap()
    };
    assert_eq!(makespan("--schedule vocab-1"), 14_000_000);
    assert_eq!(makespan("--schedule vocab-1 --vocab-barrier 500us"), 15_000_000);
    // S on the last stage needs no broadcast, but the barrier waits for that of the first.
    assert_eq!(makespan("--schedule vocab-1 --vocab-broadcast 500us"), 14_500_000);
    // With one barrier T goes before BW1 in the order, and is not waited for on the other stage.
    assert_eq!(makespan("--schedule vocab-2 --vocab-barrier 500us"), 14_500_000);
    let behind =
        |barriers: &str| makespan(&format!("--schedule vocab-1 --vocab-barrier {barriers}"));
    assert_eq!(behind("500us,500us"), behind("500us"));
    assert_eq!(behind("1ms,0ns"), behind("0ns,1ms"));
    assert_eq!(makespan("--schedule vocab-2 --vocab-t 1ms,0ms"), 13_000_000);
    assert_eq!(makespan("--schedule vocab-1 --vocab-t 1ms,0ms"), 14_000_000);
    assert_eq!(makespan("--schedule vocab-1 --vocab-input-forward 1ms"), 15_000_000);
    assert_eq!(makespan("--schedule vocab-1 --vocab-input-backward 0ms,2ms"), 16_000_000);
}

#[test]
fn a_cluster_without_contention_is_the_replay() {
    let times = "--vocab-s 300us --vocab-t 700us --vocab-barrier 90us --vocab-broadcast 40us";
    let in_shards = |family: &Family| family.vocabulary() != Vocabulary::Whole;
    for schedule in Family::ALL.into_iter().filter(in_shards).map(Family::name) {
        let rest = format!("--schedule {schedule} {times}");
        assert_eq!(span(&rest), span(&format!("{rest} --steps 1")), "{schedule}");
    }
}

/// The span of `family` in microseconds, passes of 300 us a stage, S and T of 40 and 80 us, barriers of 100.
fn span_of(family: Family, stages: u64, microbatches: u64) -> u64 {
    let shape = Shape::new(stages, family.about().chunks.of(None), microbatches).unwrap();
    let pass = Nanos(300 / u64::from(shape.chunks_per_stage()));
    let times = PassTimes::new(pass, pass, pass);
    let barrier = Nanos(100);
    let collectives =
        Collectives { broadcast: Nanos(10), statistics: barrier, hidden_gradient: barrier };
    let shards = vec![ShardTimes { before: Nanos(40), after: Nanos(80) }; shape.stages()];
    let costs = Costs::uniform(shape, times, Nanos(0)).with_shards(shards, collectives);
    let problem = Problem::new(shape, costs).unwrap();
    let schedule = family.schedule(&problem).unwrap();
    Replay::new().metrics(&schedule, problem.costs()).unwrap().span().0
}

/// The building block promises that S and T cost no more than their own time, however many microbatches
/// there are, but for what the first and the last wait longer: a repetition for each barrier.
#[test]
fn shards_keep_the_bubble_of_the_order_they_are_put_into() {
    for (base, families) in [
        (Family::Interleaved, [Family::InterleavedVocab1, Family::InterleavedVocab2]),
        (Family::ZbH1, [Family::ZbH1Vocab1, Family::ZbH1Vocab2]),
        (Family::Zb2p, [Family::Zb2pVocab1, Family::Zb2pVocab2]),
        (Family::ZbV, [Family::ZbVVocab1, Family::ZbVVocab2]),
        (Family::VMin, [Family::VMinVocab1, Family::VMinVocab2]),
        (Family::VHalf, [Family::VHalfVocab1, Family::VHalfVocab2]),
        (Family::DualPipeV, [Family::DualPipeVVocab1, Family::DualPipeVVocab2]),
    ] {
        for (stages, rounds) in [(2, 4), (4, 4), (4, 16), (8, 4), (8, 16)] {
            let microbatches = stages * rounds;
            let shards = 120 * microbatches;
            let whole = span_of(base, stages, microbatches);
            for family in families {
                let span = span_of(family, stages, microbatches);
                let repetition = 900 + 120;
                let most = whole + shards + u64::from(family.vocabulary().barriers()) * repetition;
                let name = family.name();
                assert!(span <= most, "{name}, p = {stages}, m = {microbatches}: {span} > {most}");
            }
        }
    }
}

#[test]
fn what_it_waits_for_is_named() {
    let rest =
        "--schedule vocab-1,interlaced --vocab-s 300us --vocab-t 700us --vocab-barrier 900us";
    let json = stdout(&ask(&format!("{rest} --explain --json")));
    assert!(json.contains("the barrier behind S (C1), 900.000 us long"), "{json}");
    assert!(json.contains("the barrier behind T (C2)"), "{json}");
}

/// 6bshV FLOPs over p stages: 2 x 1 x 8 x 4 x 1000 / 4 = 16000 FLOPs a third, at 1 MFLOP/s 16 ms; V = 997
/// goes up to 1000, a multiple of 2p.
#[test]
fn times_from_flops() {
    let sizes = "--hidden 4 --heads 2 --seq 8 --layers-per-stage 1 --microbatch-size 1";
    let derived = |v: u32| format!("--vocabulary {v} --vocab-tflops 0.000001 {sizes}");
    let told = format!("--vocab-s 16ms --vocab-t 32ms {sizes} --steps 1");
    let [one, two] = ["vocab-1", "vocab-2"].map(|name| format!("--schedule {name}"));
    assert_eq!(span(&format!("{one} {}", derived(997))), span(&format!("{one} {told}")));
    let told = format!("--vocab-s 32ms --vocab-t 16ms {sizes} --steps 1");
    assert_eq!(span(&format!("{two} {}", derived(1000))), span(&format!("{two} {told}")));
    let output = ask(&format!("{one} {}", derived(997)));
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("the vocabulary of 997 is padded to 1000, a multiple of 2p"), "{notes}");
}

#[test]
fn a_shard_holds_from_s_to_t() {
    let peak = |rest: &str| {
        let line = format!("simulate --json {QUESTION} --activation 1000B --vocab-s 1ms {rest}");
        results(&line)[0]["peak_activation_bytes"].as_array().unwrap().clone()
    };
    assert_eq!(peak("--vocab-t 1ms --schedule vocab-1"), [6000, 5000, 4000, 3000]);
    let with = peak("--vocab-t 1ms --schedule vocab-1 --vocab-activation 7B,0B,7B,7B");
    assert_eq!(with, [6007, 5000, 4007, 3007]);
}

#[test]
fn bad_questions() {
    let one = |rest: &str| ask(&format!("--schedule vocab-1 {rest}"));
    refused(&one(""), &["vocab-1 needs the times", "vocab-s"]);
    refused(&one("--vocab-s 1ms"), &["--vocab-t missing"]);
    refused(&one("--vocab-t 1ms"), &["--vocab-s missing"]);
    refused(&one("--vocab-barrier 1ms"), &["--vocab-s, --vocab-t missing"]);
    refused(&one("--vocab-barrier 1ms,2ms,3ms"), &["2ms,3ms"]);
    refused(
        &one("--vocab-s 1ms,2ms --vocab-t 1ms"),
        &["vocab-s has 2 values", "4 (one per stage)"],
    );
    refused(&one("--vocab-s 1ms --vocab-t -1ms"), &["negative"]);
    refused(&one("--vocab-s 1 --vocab-t 1ms"), &["unit"]);
    refused(&one("--vocab-s NaNms --vocab-t 1ms"), &["NaN"]);
    refused(&one("--vocab-s 4000000000s --vocab-t 1ms"), &["too large"]);
    let long = "--vocab-s 1000000s --vocab-t 1ms --vocab-input-forward 1000000s";
    let line = QUESTION.replace("--microbatches 8", "--microbatches 10000");
    let output = run(&format!("simulate {line} --schedule vocab-1 {long}"));
    refused(&output, &["add up to more than a 64-bit number"]);
    for rate in ["0", "-1", "NaN", "inf", "1e30"] {
        let sizes = "--vocabulary 64 --hidden 4 --heads 2 --seq 8 --layers-per-stage 1 \
                     --microbatch-size 1";
        refused(&one(&format!("--vocab-tflops {rate} {sizes}")), &["vocab-tflops"]);
    }
    refused(&one("--vocab-tflops 1"), &["--vocabulary", "--hidden", "--seq", "missing"]);
    refused(&one("--vocab-tflops 1 --vocab-s 1ms --vocab-t 1ms"), &["exclude each other"]);
    let sizes = "--vocab-tflops 0.000001 --vocabulary 100000000000000 --hidden 4 --heads 1 --seq 8 \
                 --layers-per-stage 1 --microbatch-size 1";
    refused(&one(sizes), &["64-bit"]);
    let plain = ask("--schedule 1f1b --vocab-s 1ms --vocab-t 1ms");
    let notes = String::from_utf8(plain.stderr).unwrap();
    assert!(plain.status.success() && notes.contains("vocab-s, vocab-t is ignored"), "{notes}");
}

#[test]
fn shards_are_run() {
    let line = format!("execute {QUESTION} --device timed --vocab-s 1ms --vocab-t 1ms");
    let flags = "--schedule vocab-1,vocab-2 --vocab-barrier 300us,200us --vocab-broadcast 100us";
    let ran = results(&format!("{line} {flags} --time-scale 0.1 --steps 1 --json"));
    for one in &ran {
        let measured = &one["measured"];
        assert!(measured["makespan_ns"].as_u64() >= one["makespan_ns"].as_u64(), "{one}");
        assert!(measured["work_ns"].as_u64() >= one["work_ns"].as_u64(), "{one}");
    }
}

#[test]
fn a_model_is_trained_with_its_output_layer_in_shards() {
    let model = "--device cpu --stages 3 --microbatches 4 --hidden 16 --heads 2 --seq 8 --layers 6 \
                 --vocabulary 50 --check --steps 2 --boundary post-validation --max-norm 0.5 --json";
    let all = "1f1b,vocab-1,vocab-2,interlaced,v-half-vocab-1,v-half-vocab-2";
    for place in ["", "--processes"] {
        let ran = results(&format!("execute {model} --schedule {all} {place}"));
        assert_eq!(ran.len(), 6);
        for one in &ran {
            let check = &one["measured"]["check"];
            // Sums in another order, in f32.
            assert!(check["gradient_error"].as_f64().unwrap() < 1e-5, "{check}");
            assert!(check["loss_error"].as_f64().unwrap() < 1e-5, "{check}");
            assert_eq!(one["measured"]["peak_activation_bytes"], one["peak_activation_bytes"]);
        }
    }
    let few = model.replace("--vocabulary 50", "--vocabulary 4");
    let output = run(&format!("execute {few} --schedule vocab-1"));
    refused(&output, &["the vocabulary of 4 leaves stage 2 without a token"]);
}

#[test]
fn the_text_form() {
    let fault = |text: &str| text.parse::<Schedule>().unwrap_err();
    let text = "vocabulary 1\nF0.0 S0.0 T0.0 BW0.0\nF1.0 S1.0 T1.0 BW1.0\n";
    let schedule: Schedule = text.parse().unwrap();
    assert_eq!(schedule.shape().vocabulary(), Vocabulary::TwoBarriers);
    assert_eq!(schedule.to_string(), text);
    let one = text.replace('1', "2").replacen("F2", "F1", 1);
    assert!(one.starts_with("vocabulary 2"));
    for (text, what) in [
        ("F0.0 S0.0 T0.0 BW0.0\n", "the output layer is not in shards"),
        ("vocabulary 3\nF0.0 BW0.0\n", "`vocabulary 3` says nothing"),
        ("vocabulary1\nF0.0 BW0.0\n", "`vocabulary1` says nothing"),
        ("vocabulary 1\nF0.0 BW0.0\n", "S0.0 is missing from stage 0 (and work for"),
        ("vocabulary 1\nF0.0 S0.0 BW0.0\n", "T0.0 is missing from stage 0"),
        ("vocabulary 2\nF0.0 S0.0 S0.0 T0.0 BW0.0\n", "S0.0 on stage 0 does work that was already"),
        ("vocabulary 2\nF0.0 S1.0 T0.0 BW0.0\n", "there are only 1 shards"),
        ("vocabulary 2\nF0.0 S0.1 T0.0 BW0.0\n", "1 microbatches"),
        ("vocabulary 1\nF0.0 S0.0 BW0.0 T0.0\n", "BW0.0 on stage 0 waits for T0.0 on stage 0"),
        ("vocabulary 2\nF0.0 T0.0 S0.0 BW0.0\n", "T0.0 on stage 0 waits for S0.0 on stage 0"),
        (
            "vocabulary 1\nF0.0 S1.0 T0.0 BW0.0\nF1.0 S0.0 T1.0 BW1.0\n",
            "S1.0 is on stage 0, but its shard is on stage 1",
        ),
    ] {
        let said = fault(text).to_string();
        let only_one_shard = what.contains("work for") && said.contains("is missing");
        assert!(said.contains(what) || only_one_shard, "{text}: {said}");
    }
    assert_eq!(fault("vocabulary 1"), TextError::Empty);
    let empty = TextError::EmptyLine { line: 3, stage: 1 };
    assert_eq!(fault("vocabulary 1\nF0.0 S0.0 T0.0 BW0.0\n\nF1.0 S1.0 T1.0 BW1.0"), empty);
    let mirrored = "vocabulary 1\nF0.0 F1.1 S0.0 S0.1 T0.0 T0.1 BW0.0 BW1.1\n\
                    F1.0 F0.1 S1.0 S1.1 T1.0 T1.1 BW1.0 BW0.1\n";
    assert_eq!(fault(mirrored), TextError::Fault(Fault::MirroredShards));
}

#[test]
fn a_timeline_is_written_and_compared_with_itself() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("timeline.json");
    let times = "--schedule vocab-1 --vocab-s 1ms --vocab-t 2ms --vocab-barrier 300us";
    stdout(&ask(&format!("{times} --timeline {}", file.display())));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(r#""order":["vocabulary 1","F0.0"#), "{}", &text[..200]);
    assert!(text.contains(r#""statistics_ns":300000"#));
    let compared = stdout(&run(&format!("compare {0} {0} --json", file.display())));
    assert!(compared.contains("\"bubble"), "{compared}");
}
