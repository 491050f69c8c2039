//! Logs whose times are known, and what is refused of them.

use super::*;

/// What the timers of megatron-core print on two stages of two replicas each: 8 microbatches, 5 iterations.
const LOG: &str = include_str!("../../../tests/traces/megatron-timers.log");

fn read(text: &str) -> Result<StageTimes, Diagnostic> {
    of_log(Path::new("train.log"), text)
}

/// [`LOG`] with `to` instead of the first `from`.
fn with(from: &str, to: &str) -> String {
    let text = LOG.replacen(from, to, 1);
    assert_ne!(text, LOG, "{from}");
    text
}

/// The log with only the first `count` iterations.
fn first(count: usize) -> &'static str {
    let end = LOG.match_indices(" [2026").nth(count).map_or(LOG.len(), |(at, _)| at);
    &LOG[..end]
}

/// The times of rank `rank` of `timer` in the log, in milliseconds.
fn of_rank(timer: &str, rank: u64) -> Vec<f64> {
    let (name, line) = (format!("  {timer}:\n"), format!("rank  {rank}: "));
    let blocks = LOG.split(&name).skip(1);
    blocks.map(|block| number(block.split_once(&line).unwrap().1).unwrap()).collect()
}

#[test]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn a_pass_takes_the_mean_of_the_ranks_of_its_stage_over_microbatches() {
    let times = read(LOG).unwrap();
    assert_eq!(times.shape, Shape::new(2, 1, 8).unwrap());
    for (stage, ranks) in [(0, [0, 1]), (1, [2, 3])] {
        for (which, timer) in TIMERS.iter().enumerate() {
            let [one, other] = ranks.map(|rank| of_rank(timer, rank));
            let mean = one.iter().zip(other).map(|(one, other)| (one + other) / 2.0 / 8.0);
            // The first iteration takes three times as long, and is left out.
            let expected: Vec<u64> = mean.skip(1).map(|one| (one * 1e6).round() as u64).collect();
            assert_eq!(times.passes[stage][which], expected, "{timer} of stage {stage}");
            assert_eq!(expected.len(), 4);
        }
    }
    let [hops, beside] = &times.notes[..] else { panic!("{:?}", times.notes) };
    assert!(hops.contains("B and W apart"), "{hops}");
    assert!(beside.contains("gradients (overlap_grad_reduce)"), "{beside}");
    assert!(!beside.contains("overlap_p2p_comm"), "{beside}");
}

#[test]
fn chunks_of_a_rank_share_its_time_and_ranks_may_lie_otherwise() {
    let whole = read(LOG).unwrap();
    let two = read(&with(
        "virtual_pipeline_model_parallel_size ............ None",
        "virtual_pipeline_model_parallel_size ............ 2",
    ));
    let two = two.unwrap();
    assert_eq!(two.shape, Shape::new(2, 2, 8).unwrap());
    assert_eq!(two.passes[0][0][0], whole.passes[0][0][0].div_ceil(2));
    assert!(two.notes[1].contains("2 chunks of each are taken to be alike"), "{:?}", two.notes);
    // Stages next to each other: ranks 0 and 2 are the first one.
    let mapped = read(&with(
        "use_tp_pp_dp_mapping ............................ False",
        "use_tp_pp_dp_mapping ............................ True",
    ))
    .unwrap();
    let mean = (of_rank(TIMERS[0], 0)[1] + of_rank(TIMERS[0], 2)[1]) / 2.0 / 8.0;
    assert!((mapped.passes[0][0][0] as f64 / 1e6 - mean).abs() < 1e-6);
}

#[test]
fn lines_may_have_ranks_in_front_and_the_last_run_counts() {
    let named: String = LOG.lines().map(|line| format!("[default3]:{line}\n")).collect();
    let labelled: String = LOG.lines().map(|line| format!("3: {line}\n")).collect();
    let expected = read(LOG).unwrap().passes;
    for text in [named, labelled, LOG.replace('\n', "\r\n")] {
        assert_eq!(read(&text).unwrap().passes, expected);
    }
    let twice = first(3).to_owned() + LOG;
    assert_eq!(read(&twice).unwrap().passes, expected);
    // A run that fails before its first iteration has no times.
    let failed = LOG.to_owned() + first(0);
    assert_eq!(read(&failed).unwrap().passes, expected);
    // A log that ends within its timers.
    let cut = &LOG[..LOG.rfind("backward-compute").unwrap()];
    assert_eq!(read(cut).unwrap().passes[0][0].len(), 3);
    // While the batch grows, each iteration has microbatches of its own.
    let grown = LOG.replacen("global batch size:    32", "global batch size:    16", 2);
    assert_eq!(read(&grown).unwrap().passes[0][0][0], 2 * expected[0][0][0]);
}

/// Checks that `text` is refused for the reason `why`, at `line` and with a cure.
fn check_refused((text, line, why): (String, usize, &str)) {
    let error = read(&text).expect_err(why);
    assert!(error.message.contains(why), "{}", error.message);
    assert_eq!(error.place.and_then(|place| place.line), Some(line), "{why}");
    assert!(error.help.is_some(), "{why}");
}

#[test]
fn what_names_no_stage_is_refused_with_line_and_cure() {
    let minmax =
        "(min, max) time across ranks (ms):\n    forward-compute ......: (81.00, 120.00)\n";
    let head = first(0);
    // Without a stage.
    let is_other = |line: &&str| !line.contains("rank  0") && !line.contains("rank  1");
    let alone: String = LOG.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
    let batch =
        |size: &str| with("global batch size:    32", &format!("global batch size: {size}"));
    let time = |text: &str| with("rank  3: 335.03", text);
    [
        (format!("{head}{minmax}"), 16, "do not say how long the passes of each rank took"),
        (format!("{head}max {}", &minmax[11..]), 16, "of all ranks together"),
        (LOG.replace("forward-compute", "forward-other"), 149, "have no forward-compute"),
        (first(1).to_owned(), 17, "only once"),
        (head.to_owned(), 1, "printed no timers"),
        (alone, 17, "no time of a rank of stage 0"),
        (time("rank  9: 335.03"), 17, "rank 9 is none of the 4"),
        (time("rank  3: nan"), 37, "not a time of a rank"),
        (time("rank  3: 1e300"), 37, "not a time of a rank"),
        (time("rank  99999999999999999999: 1"), 37, "not a time of a rank"),
        (batch("33"), 17, "batch of 33"),
        (batch("999999999999998"), 17, "is not a number of microbatches"),
    ]
    .into_iter()
    .for_each(check_refused);
    let help = read(&format!("{head}{minmax}")).unwrap_err().help.unwrap();
    assert!(help.contains("--timing-log-option all"), "{help}");
}

#[test]
fn arguments_that_say_no_stages_are_refused() {
    let arguments = LOG.find("end of arguments").unwrap();
    let missing = (LOG[arguments..].to_owned(), 1, "pipeline_model_parallel_size is missing");
    let set = |name: &str, from: &str, to: &str| {
        let line = |value: &str| format!("{name} {} {value}", ".".repeat(48 - name.len()));
        with(&line(from), &line(to))
    };
    let pairs = set("overlap_p2p_comm", "False", "True")
        .replace("overlap_p2p_comm ....", "overlap_moe_expert_parallel_comm ....");
    [
        missing,
        (set("world_size", "4", "0"), 1, "world_size is not a number from 1"),
        (set("world_size", "4", "3"), 1, "on 3 ranks cannot be"),
        (
            set("pipeline_model_parallel_size", "2", "99999999999"),
            1,
            "pipeline_model_parallel_size is not a number",
        ),
        (pairs, 1, "timers are of pairs"),
    ]
    .into_iter()
    .for_each(check_refused);
}

/// For changes of any byte, the log is read or refused, and nothing breaks.
#[test]
fn a_damaged_log_breaks_nothing() {
    for at in (0..LOG.len()).step_by(5) {
        for byte in [0, b'9', b'\n', b':', 0xff] {
            let mut bytes = LOG.as_bytes().to_vec();
            bytes[at] = byte;
            let _ = read(&String::from_utf8_lossy(&bytes));
        }
    }
}
