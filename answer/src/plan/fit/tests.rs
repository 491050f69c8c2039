//! Fits to iterations that the planner itself predicted for another machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plan::Efficiency;
use planning::fit as asked;
use planning::machines;

use super::*;

/// Runs of a model on one and on many nodes, with groups that use each kind of link.
const TABLE: &str = "\
model,gpus,tp,pp,vp,micro_batch,global_batch,sequence,recompute,step_seconds
llama3-8b,8,1,1,1,1,64,4096,none,100
llama3-8b,8,4,1,1,2,64,4096,none,100
llama3-8b,8,2,4,1,1,64,8192,full,100
llama3-8b,64,2,1,1,1,128,4096,none,100
llama3-8b,64,1,4,2,1,128,4096,none,100
llama3-8b,256,8,4,1,1,256,8192,none,100
";

fn read(table: &str, base: &str) -> FitQuestion {
    let path = PathBuf::from("measured.csv");
    let host = BTreeMap::from([(path.clone(), table.as_bytes().to_vec())]);
    super::read(&Context::new(&host), &path, Some(base)).unwrap()
}

/// The iterations of `table` as they take on `machine`, each `noise` times as long.
fn measured(table: &str, machine: &Machine, noise: &[f64]) -> FitQuestion {
    let mut question = read(table, "a100-80g");
    for (run, noise) in question.runs.iter_mut().zip(noise) {
        run.seconds = seconds(run, machine).unwrap() * noise;
    }
    question
}

fn a100(change: impl Fn(&mut Efficiency)) -> Machine {
    let mut machine = machines::of_device("A100 80GB").unwrap();
    change(&mut machine.efficiency);
    machine
}

fn ask(question: &FitQuestion) -> Fitted {
    let host: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    fit(&Context::new(&host), question).unwrap()
}

fn scale(fitted: &Fitted, key: &str) -> f64 {
    let share = fitted.shares.iter().find(|share| share.key == key).unwrap();
    share.fitted / share.base
}

#[test]
fn a_machine_that_computes_a_fifth_slower_is_recovered() {
    let slower = a100(|rates| {
        rates.power /= 1.2;
        rates.memory /= 1.2;
    });
    let question = measured(TABLE, &slower, &[1.0; 6]);
    let fitted = ask(&question);
    assert!(fitted.before.mean > 0.10, "{:?}", fitted.before);
    assert!(fitted.improved && fitted.left_out.mean < 0.01, "{:?}", fitted.left_out);
    assert!((scale(&fitted, "memory") * 1.2 - 1.0).abs() < 0.02, "{:?}", fitted.shares);
    assert!((scale(&fitted, "power") * 1.2 - 1.0).abs() < 0.02, "{:?}", fitted.shares);
    // The written machine is the fitted one, and can be read like any machine.
    let machine = machines::parse("own", Path::new("own.toml"), &fitted.machine).unwrap();
    for (run, row) in question.runs.iter().zip(&fitted.rows) {
        let again = seconds(run, &machine).unwrap();
        assert!((again / row.fitted - 1.0).abs() < 1e-3, "{again} {row:?}");
        assert!((again / row.measured - 1.0).abs() < 0.02, "{again} {row:?}");
    }
    assert!(
        fitted.machine.starts_with("# Made by `debubble plan --fit` from the machine a100-80g")
    );
}

#[test]
fn slow_links_and_slow_devices_are_separated() {
    let slower = a100(|rates| rates.ring *= 0.5);
    let fitted = ask(&measured(TABLE, &slower, &[1.0; 6]));
    assert!((scale(&fitted, "memory") - 1.0).abs() < 0.03, "{:?}", fitted.shares);
    assert!(scale(&fitted, "ring") < 0.8, "{:?}", fitted.shares);
}

#[test]
fn a_base_that_is_right_is_kept() {
    // Within the difference of repeats of one configuration.
    let noise = [1.006, 0.995, 1.004, 0.998, 1.003, 0.994];
    let question = measured(TABLE, &a100(|_| {}), &noise);
    let fitted = ask(&question);
    assert!(!fitted.improved, "{:?} {:?}", fitted.before, fitted.left_out);
    let text = &question.base.text;
    let (comment, machine) = fitted.machine.split_at(fitted.machine.len() - text.len());
    assert_eq!(machine, text);
    assert!(comment.lines().all(|line| line.starts_with("# ")), "{comment}");
    assert!(comment.contains("The base is kept"), "{comment}");
    // Errors without a pattern: a fit to the others is no better than the base.
    let scattered = [1.12, 0.90, 1.10, 0.91, 0.89, 1.11];
    let fitted = ask(&measured(TABLE, &a100(|_| {}), &scattered));
    assert!(fitted.in_sample.mean <= fitted.before.mean + 1e-9);
    assert!(!fitted.improved, "{:?} {:?}", fitted.before, fitted.left_out);
}

#[test]
fn what_is_left_out_is_predicted_without_it() {
    let mut question = measured(TABLE, &a100(|_| {}), &[1.0; 6]);
    // One iteration that no machine explains: a fit to the others is the base.
    question.runs[0].seconds *= 1.5;
    let fitted = ask(&question);
    let row = &fitted.rows[0];
    assert!((row.left_out / row.base - 1.0).abs() < 0.01, "{row:?}");
    assert!(row.fitted > row.left_out, "{row:?}");
}

#[test]
fn answers_say_what_was_compared() {
    let slower = a100(|rates| rates.power /= 1.3);
    let fitted = ask(&measured(TABLE, &slower, &[1.0; 6]));
    let sheet = format!("{:?}", fitted.sheet());
    for text in ["llama3-8b on 256, d8 t8 p4", "left out one by one", "power", "are taken"] {
        assert!(sheet.contains(text), "{sheet}");
    }
    let json = serde_json::to_value(&fitted).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 6);
    assert_eq!(json["rows"][5]["line"], 7);
    assert_eq!(json["improved"], true);
    // Line ends of other systems, and comments, count as lines.
    let other = format!("# mine\r\n{}", TABLE.replace('\n', "\r\n"));
    let lines: Vec<usize> = read(&other, "h100").runs.iter().map(|run| run.line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7, 8]);
}

/// The message of a table that is refused, or that leaves a line out, and its line.
fn refused(table: &str, base: Option<&str>) -> (String, Option<usize>) {
    let path = PathBuf::from("measured.csv");
    let host = BTreeMap::from([(path.clone(), table.as_bytes().to_vec())]);
    let error = match super::read(&Context::new(&host), &path, base) {
        Ok(question) => question.left_out[0].clone(),
        Err(error) => error,
    };
    let line = error.place.as_ref().and_then(|place| place.line);
    (format!("{} {}", error.message, error.help.unwrap_or_default()), line)
}

#[test]
fn a_line_that_is_no_run_is_left_out_with_its_place() {
    let base = Some("a100-80g");
    for (from, to, expected, line) in [
        ("8,4,1,1,2,64", "8,4,x,1,2,64", "pipeline is `x`: it must be a whole number", Some(3)),
        ("8,4,1,1,2,64", "8,3,1,1,2,64", "is 6 devices, but the cluster has 8", Some(3)),
        ("8,4,1,1,2,64", "9,4,1,1,2,64", "is 8 devices, but the cluster has 9", Some(3)),
        ("8,4,1,1,2,64", "8,4,1,1,3,64", "not a multiple of microbatch 3", Some(3)),
        ("8,4,1,1,2,64", "99999999,4,1,1,2,64", "devices is 99999999", Some(3)),
        (
            "64,4096,none,100\nllama3-8b,8,4",
            "64,4096,none,-1\nllama3-8b,8,4",
            "step-seconds is `-1`",
            Some(2),
        ),
        (
            "64,4096,none,100\nllama3-8b,8,4",
            "64,4096,some,1\nllama3-8b,8,4",
            "recompute is `some`",
            Some(2),
        ),
        ("llama3-8b,256", "llama9,256", "there is no model `llama9`", Some(7)),
        ("llama3-8b,256", "none/config.json,256", "cannot read none/config.json", None),
        ("recompute", "recompute_kind", "there is no column `recompute_kind`", Some(1)),
        ("recompute", "pipeline", "the column pipeline is there twice", Some(1)),
        ("step_seconds", "note", "no column step-seconds or tokens-per-s-per-gpu", Some(1)),
        ("llama3-8b,256,8", "llama3-8b,256", "line 7: it has 9 cells, but there are 10", None),
    ] {
        assert!(TABLE.contains(from), "{from}");
        let (message, at) = refused(&TABLE.replacen(from, to, 1), base);
        assert!(message.contains(expected), "{expected}: {message}");
        assert_eq!(at, line, "{message}");
    }
    // The other lines count, and the fit is theirs.
    let rest = read(&TABLE.replacen("8,4,1,1,2,64", "8,4,x,1,2,64", 1), "h100");
    let lines: Vec<usize> = rest.runs.iter().map(|run| run.line).collect();
    assert_eq!((lines, rest.left_out.len()), (vec![2, 4, 5, 6, 7], 1));
    // A table of such lines alone is refused.
    let none = TABLE.replace("llama3-8b", "llama9");
    assert!(refused(&none, Some("h100")).0.contains("there is no model `llama9`"));
}

#[test]
fn tables_without_a_machine_or_with_one_set_up_alone_are_refused() {
    let (message, _) = refused(TABLE, None);
    assert!(message.contains("no column machine") && message.contains("gb300"), "{message}");
    let two: String = TABLE.lines().take(2).map(|line| format!("{line}\n")).collect();
    let again = format!("{two}{}\n", TABLE.lines().nth(1).unwrap());
    let (message, _) = refused(&again, Some("h100"));
    assert!(message.contains("one set-up alone"), "{message}");
    let many = TABLE.to_owned() + &"llama3-8b,8,1,1,1,1,64,4096,none,1\n".repeat(70);
    assert!(refused(&many, Some("h100")).0.contains("more than 64 iterations"));
    let named = |device: &str| {
        let lines = TABLE.lines().skip(1).map(|line| format!("{line},H100\n"));
        let text: String = lines.collect();
        let head = TABLE.lines().next().unwrap();
        format!("{head},machine\n{}", text.replacen("H100", device, 1))
    };
    let (message, line) = refused(&named("H200"), None);
    assert_eq!(line, Some(3));
    assert!(message.contains("measured on H200"), "{message}");
    let (message, _) = refused(&named("H100").replace("H100", "TPU"), None);
    assert!(message.contains("devices of the type TPU"), "{message}");
    let (message, line) =
        refused(&format!("# mine\n\n{}", TABLE.replace("256,8", "256,5")), Some("h100"));
    assert!(message.contains("is 240 devices"), "{message}");
    assert_eq!(line, Some(9));
}

#[test]
fn published_words_are_read_as_keys() {
    let table = "\
source,model,machine,gpus,tp,pp,vp,cp,ep,etp,micro_batch,global_batch,sequence,precision,recompute,\
a2a_overlap,dispatcher,cuda_graphs,mtp,tokens_per_s_per_gpu
a,qwen3-30b-a3b,GB200,8,1,1,1,1,8,1,4,512,4096,mxfp8,none,off,HybridEP,\"attn, moe_router\",,24000
a,qwen3-30b-a3b,GB200,8,1,1,1,1,8,1,4,512,4096,bf16,full (uniform),off,alltoall,full iteration,,20000
";
    let path = PathBuf::from("measured.csv");
    let host = BTreeMap::from([(path.clone(), table.as_bytes().to_vec())]);
    let question: asked::FitQuestion = super::read(&Context::new(&host), &path, None).unwrap();
    assert_eq!(question.base.machine.name, "gb200");
    let [first, second] = &question.runs[..] else { panic!("two runs") };
    assert!(first.recipe.software.sends_once && !second.recipe.software.sends_once);
    let graphs = [first, second].map(|run| run.recipe.software.graphs);
    assert!(graphs[0] > 0.0 && graphs[0] < 1.0 && (graphs[1] - 1.0).abs() < 1e-12, "{graphs:?}");
    assert_eq!(first.recipe.precision, plan::Precision::MxFp8);
    assert_eq!((second.setup.recompute, second.setup.expert), (plan::Recompute::Full, 8));
    assert!((first.seconds - 512.0 * 4096.0 / (24_000.0 * 8.0)).abs() < 1e-9);
}

#[test]
fn a_fit_that_is_far_off_is_not_taken_however_far_the_base_is() {
    let mut question = read(TABLE, "a100-80g");
    question.runs.iter_mut().for_each(|run| run.seconds = 1e-9);
    let fitted = ask(&question);
    assert!(!fitted.improved && fitted.left_out.mean < fitted.before.mean, "{:?}", fitted.left_out);
    assert!(fitted.verdict().contains("50.00 % or more"), "{}", fitted.verdict());
}
