//! Steps in logs of all frameworks.

use super::*;

/// A log of `tests/fuzz/step-log`.
macro_rules! logged {
    ($name:literal) => {
        StepLog::of(include_str!(concat!("../../../tests/fuzz/step-log/", $name)))
    };
}

#[test]
fn steps_of_verl_are_read_behind_names_of_processes() {
    let log = logged!("verl-turns.log");
    assert_eq!((log.steps.len(), log.runs), (7, 1));
    let step = &log.steps[4];
    assert_eq!((step.number, step.fact(Fact::Rollout)), (Some(5), Some(199.701)));
    let phases = [Fact::Reference, Fact::Update, Fact::Step].map(|fact| step.fact(fact));
    assert_eq!(phases, [Some(17.37), Some(71.589), Some(308.703)]);
    assert_eq!([Fact::Old, Fact::Sync].map(|fact| step.fact(fact)), [None, None]);
    assert_eq!(step.responses(), Some(Summary { mean: 825.819, longest: Some((2497, 0.001)) }));
    let chosen = log.chosen().unwrap();
    assert_eq!((log.steps[chosen.median].number, chosen.others.len()), (Some(5), 6));
    let of_ppo = logged!("verl-ppo.log");
    assert_eq!(of_ppo.steps[0].fact(Fact::Critic), Some(1.213));
}

#[test]
fn wrapped_steps_lines_of_json_and_tables_are_read() {
    let wrapped = logged!("verl-wrapped.log");
    let [step] = &wrapped.steps[..] else { panic!("{wrapped:?}") };
    let own = [Fact::Step, Fact::Tokens, Fact::Sync].map(|fact| step.fact(fact));
    assert_eq!(own, [Some(93.524_347_591_912_37), Some(4_388_173.0), Some(5.458_046_867_046_505)]);
    for log in [logged!("lines.jsonl"), logged!("wandb.csv")] {
        let steps: Vec<_> = log.steps.iter().map(|step| (step.number, step.seconds())).collect();
        assert_eq!(steps, [(Some(1), 80.5), (Some(2), 78.5)]);
    }
    assert_eq!(logged!("wandb.csv").steps[1].responses().map(|all| all.mean), Some(805.5));
    // As people paste it, without numbers.
    let pasted = "timing_s/gen: 30.5\ntiming_s/step: 60\n\ntiming_s/gen: 31.5\ntiming_s/step: 62\n";
    let times: Vec<f64> = StepLog::of(pasted).steps.iter().map(LoggedStep::seconds).collect();
    assert_eq!(times, [60.0, 62.0]);
}

#[test]
fn records_of_slime_are_one_step_and_evaluations_none() {
    let log = logged!("slime.log");
    let [step] = &log.steps[..] else { panic!("{log:?}") };
    let own = [Fact::Rollout, Fact::Old, Fact::Reference, Fact::Update, Fact::Sync, Fact::Step]
        .map(|fact| step.fact(fact));
    let expected = [371.179_688_930_511_5, 30.5, 29.5, 101.25, 2.1, 545.0];
    assert_eq!(own, expected.map(Some));
    let prompts = step.prompts().unwrap();
    assert!((prompts.mean - 126.785_156_25).abs() < 1e-9 && prompts.longest.is_none());
    assert_eq!(step.responses().unwrap().longest, Some((4096, 0.464_843_75)));
}

#[test]
fn the_table_of_nemo_rl_is_read() {
    let log = logged!("nemo-rl.log");
    let [step] = &log.steps[..] else { panic!("{log:?}") };
    let own = [Fact::Rollout, Fact::Both, Fact::Update, Fact::Sync, Fact::Step];
    assert_eq!(own.map(|fact| step.fact(fact)), [32.52, 4.78, 25.05, 0.13, 66.55].map(Some));
    assert_eq!((step.number, step.fact(Fact::ResponseMean)), (Some(5), Some(512.25)));
}

#[test]
fn ranks_count_once_and_a_restart_begins_anew() {
    let line = |number: u64, step: f64| {
        format!("(TaskRunner pid=7) step:{number} - timing_s/gen:1.5 - timing_s/step:{step}\n")
    };
    let twice = [line(1, 9.0), line(1, 9.0), line(2, 8.0), line(2, 8.0)].concat();
    assert_eq!(StepLog::of(&twice).steps.len(), 2);
    let again = StepLog::of(&(twice + &line(2, 7.5) + &line(3, 7.25)));
    let steps: Vec<f64> = again.steps.iter().map(LoggedStep::seconds).collect();
    assert_eq!((again.runs, steps), (2, vec![7.5, 7.25]));
}

#[test]
fn warm_up_evaluations_and_checkpoints_do_not_count() {
    let line = |number: u64, step: f64, rest: &str| {
        format!("step:{number} - response_length/mean:100 - timing_s/step:{step}{rest}\n")
    };
    let mut text = line(1, 40.0, "");
    (2..8).for_each(|number| text += &line(number, 20.0 + number as f64 / 10.0, ""));
    text += &line(8, 50.0, " - timing_s/testing:30");
    let log = StepLog::of(&text);
    let chosen = log.chosen().unwrap();
    assert_eq!(chosen.left_out, ["1 with an evaluation or a checkpoint", "1 of warm-up"]);
    assert_eq!((log.steps[chosen.median].number, chosen.others.len()), (Some(4), 5));
    // A first step of longer responses is slow for them.
    let longer = text.replacen("response_length/mean:100", "response_length/mean:300", 1);
    let chosen = StepLog::of(&longer).chosen().unwrap();
    assert_eq!((chosen.left_out.len(), chosen.others.len()), (1, 6));
    assert_eq!(StepLog::default().chosen(), None);
}

#[test]
fn other_lines_and_hostile_ones_say_nothing() {
    for text in [
        "",
        "step:0 - val-core/openai/gsm8k/acc/mean@1:0.508",
        "step: 10  loss: 7.1  tps: 5,762",
        "step:1 - timing_s/gen:nan - timing_s/step:-4",
        "step:99999999999999999999999 - timing_s/gen:1e300",
        "eval 0: {'perf/rollout_time': 20.0}",
        "perf : {'perf/rollout_time': }",
        "\u{2022} Total step time: s",
        "timing_s/gen,timing_s/step\n1\n1,2,3",
        "::::'::\"::\u{1b}[",
    ] {
        assert_eq!(StepLog::of(text).steps, [], "{text}");
    }
    let long = format!("{}timing_s/gen:1.0", "x".repeat(1 << 17));
    assert_eq!(StepLog::of(&long).steps, []);
    let many: String =
        (0..30_000).map(|at| format!("step:{at} - timing_s/step:{at}.5\n")).collect();
    let kept = StepLog::of(&many).steps;
    assert!(kept.len() <= MOST_STEPS && kept.last().unwrap().number == Some(29_999));
}
