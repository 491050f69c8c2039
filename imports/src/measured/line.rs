//! Lines of logs: iterations with their time, memory, timers, and events between iterations.
//!
//! Formats, read in 2026: Megatron-LM's `training_log` and `timers.py`, and those of Megatron-DeepSpeed, Primus and
//! Megatron-Bridge, which follow it; the pipeline engine of DeepSpeed; NeMo's progress lines; torchtitan's
//! `components/metrics.py`.

use pipeline::Bytes;

/// The part of a line that is read.
const MOST: usize = 1 << 14;

/// A line that says something about the steps of a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// An iteration, or the mean of several.
    Step(Step),
    /// An iteration whose time is not known, and why: such times ..
    Unclear(&'static str),
    /// A peak of the memory of one device.
    Memory(Bytes),
    /// An evaluation of the model has ended.
    Evaluation,
    /// A checkpoint was written.
    Checkpoint,
    /// A timer of Megatron-LM, of the iteration before it.
    Timer(Timer),
}

/// The time of an iteration, as a log has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// Seconds of a step.
    Seconds(f64),
    /// Tokens a second of each device.
    TokensPerDevice(f64),
}

/// An iteration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    pub number: Option<u64>,
    /// Its time.
    pub pace: Pace,
    /// The samples of its global batch.
    pub batch: Option<u64>,
    /// Model TFLOP/s of each device, as the trainer counts them.
    pub tflops: Option<f64>,
    /// The peak of reserved memory, which torchtitan prints in GiB with each step.
    pub memory: Option<Bytes>,
}

/// A timer with its least and largest time over all ranks, in seconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Timer {
    /// Its name, such as `forward-compute`.
    pub name: String,
    /// The least time of a rank.
    pub least: f64,
    /// The largest time of a rank.
    pub most: f64,
}

/// The event that `line` tells of, if it does. Colours of terminals are ignored.
#[must_use]
pub fn event(line: &str) -> Option<Event> {
    let line = &plain(line);
    if let Some(step) = step(line) {
        return Some(step);
    }
    if let Some(peak) = memory(line) {
        return Some(Event::Memory(peak));
    }
    let lower = line.to_ascii_lowercase();
    if lower.contains("validation loss") || lower.contains("evaluating iter") {
        return Some(Event::Evaluation);
    }
    let is_checkpoint =
        ["saving checkpoint", "saved checkpoint", "saving the checkpoint", "finished saving"];
    if is_checkpoint.iter().any(|words| lower.contains(words)) {
        return Some(Event::Checkpoint);
    }
    timer(line).map(Event::Timer)
}

/// The first [`MOST`] bytes of `line` without control sequences of terminals.
pub(crate) fn plain(line: &str) -> String {
    let end = (0..=MOST.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    without_colours(&line[..end])
}

/// `line` without control sequences of terminals.
pub(crate) fn without_colours(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(one) = rest.next() {
        match one {
            // ESC [ parameters, and a letter at the end.
            '\u{1b}' => drop(rest.by_ref().find(char::is_ascii_alphabetic)),
            _ => text.push(one),
        }
    }
    text
}

/// Names of the time of an iteration, and how many of its units a second has.
const TIMES: [(&str, f64); 6] = [
    ("elapsed time per iteration (ms)", 1e3),
    ("elapsed_time_per_iteration_ms", 1e3),
    // Forks of Megatron-DeepSpeed.
    ("elapsed time per iteration (s)", 1.0),
    ("train_step_timing in s", 1.0),
    ("Step Time ", 1.0),
    // The pipeline engine of DeepSpeed.
    ("iter time (s)", 1.0),
];
/// Of times such as 843,125.
const COMMA: &str = "have a comma before decimals or thousands";

fn step(line: &str) -> Option<Event> {
    let time = |(name, units): &(&str, f64)| Some((parsed(behind(line, name)?)?, *units));
    let pace = match TIMES.iter().find_map(time) {
        Some(((_, true), _)) => return Some(Event::Unclear(COMMA)),
        Some(((time, _), units)) => Pace::Seconds(time / units),
        None => {
            // torchtitan prints a step with its loss and its rate.
            let is_step = line.contains("step:") && line.contains("loss:");
            Pace::TokensPerDevice(value(line, "tps").filter(|_| is_step)?)
        }
    };
    let batch = value(line, "global batch size")
        .or_else(|| value(line, "global_batch_size"))
        .and_then(whole);
    let number = number_after(line, "iteration")
        .or_else(|| value(line, "global_step").and_then(whole))
        .or_else(|| value(line, "step").or_else(|| value(line, "steps")).and_then(whole));
    let tflops = value(line, "throughput per GPU (TFLOP/s/GPU)")
        .or_else(|| value(line, "GPU utilization"))
        .or_else(|| value(line, "TFLOPs"))
        .or_else(|| value(line, "tflops"));
    Some(Event::Step(Step { number, pace, batch, tflops, memory: memory_of_step(line) }))
}

/// The peak of memory in `line`: what the allocator held, in the units that each trainer prints.
fn memory(line: &str) -> Option<Bytes> {
    let in_units = [
        // Megatron-LM divides by 2^20 under the heading (MB).
        ("max allocated", 1_048_576.0),
        ("mem-max-allocated-bytes", 1.0),
        ("mem-max-allocated-gigabytes", 1e9),
    ];
    let peak = in_units.iter().find_map(|(name, unit)| Some(value(line, name)? * unit))?;
    whole(peak).map(Bytes)
}

/// The peak of reserved memory in a step of torchtitan.
fn memory_of_step(line: &str) -> Option<Bytes> {
    if !line.contains("GiB(") {
        return None;
    }
    let gibibytes = value(line, "memory")?;
    whole(gibibytes * 1_073_741_824.0).map(Bytes)
}

/// A timer: a name, dots, and a time or the least and the largest, in milliseconds.
fn timer(line: &str) -> Option<Timer> {
    let (name, times) = line.split_once(" ..").and_then(|(name, rest)| {
        let times = rest.trim_start_matches('.').strip_prefix(':')?;
        Some((name.trim().trim_start_matches(|c: char| !c.is_ascii_alphabetic()), times.trim()))
    })?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
        return None;
    }
    let (least, most) = match times.strip_prefix('(') {
        Some(pair) => {
            let (least, most) = pair.split_once(')')?.0.split_once(',')?;
            (number(least)?, number(most)?)
        }
        None => {
            let one = number(times)?;
            (one, one)
        }
    };
    let is_order = least <= most;
    is_order.then(|| Timer { name: name.to_owned(), least: least / 1e3, most: most / 1e3 })
}

/// The positive number behind `name` and a colon or an equals sign. Of a value and its mean, `a/b`, the value.
fn value(line: &str, name: &str) -> Option<f64> {
    number(behind(line, name)?)
}

/// What follows `name` and a colon or an equals sign.
fn behind<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(at) = line.get(from..)?.find(name) {
        let (start, end) = (from + at, from + at + name.len());
        let is_word = start == 0 || !line.as_bytes()[start - 1].is_ascii_alphanumeric();
        let rest = line.get(end..)?.trim_start();
        if let Some(rest) = rest.strip_prefix([':', '=']).filter(|_| is_word) {
            return Some(rest);
        }
        from = end;
    }
    None
}

/// The number of an iteration behind its name: `iteration       10/     100`.
fn number_after(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    let rest = rest.trim_start_matches(['=', ':', ' ']);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The positive number at the start of `text`.
pub(crate) fn number(text: &str) -> Option<f64> {
    parsed(text).map(|(number, _)| number)
}

/// The positive number at the start of `text`, and whether its comma may as well stand before decimals. Commas group
/// digits where all groups behind are of three; else the only one stands before decimals.
fn parsed(text: &str) -> Option<(f64, bool)> {
    let is_part = |c: &char| c.is_ascii_digit() || ".,eE+-".contains(*c);
    let digits: String = text.trim_start().chars().take_while(is_part).take(40).collect();
    let digits = digits.trim_end_matches(',');
    let groups: Vec<&str> = digits.split(',').collect();
    let is_three = |group: &&str| group.split('.').next().is_some_and(|whole| whole.len() == 3);
    let is_first = groups[0].len() <= 3 && !groups[0].starts_with('0');
    let is_grouped = is_first && groups[1..].iter().all(is_three);
    let plain = match groups[..] {
        [whole, decimals] if !is_grouped => format!("{}.{decimals}", whole.replace('.', "")),
        _ if is_grouped => digits.replace(',', ""),
        _ => digits.to_owned(),
    };
    let number: f64 = plain.parse().ok()?;
    let is_unclear = is_grouped && groups.len() == 2 && !digits.contains('.');
    (number.is_finite() && number > 0.0).then_some((number, is_unclear))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Bounded above, and positive.
fn whole(number: f64) -> Option<u64> {
    (number < 1e15).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_of(line: &str) -> Step {
        match event(line) {
            Some(Event::Step(step)) => step,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn iterations_of_all_trainers_are_read() {
        let of_megatron = " [2026-04-13 23:41:12] iteration       10/    1000 | consumed samples:          160 | elapsed \
            time per iteration (ms): 1147.6 | throughput per GPU (TFLOP/s/GPU): 401.5 | learning rate: 0.0E+00 | \
            global batch size:    16 | loss scale: 1.0 | number of skipped iterations:  10 |";
        let expected = Step {
            number: Some(10),
            pace: Pace::Seconds(1.1476),
            batch: Some(16),
            tflops: Some(401.5),
            memory: None,
        };
        assert_eq!(step_of(of_megatron), expected);
        let of_primus = "iteration 3/ 50 | elapsed time per iteration (ms): 6011.3/6020.1 | throughput per GPU \
            (TFLOP/s/GPU): 512.0/511.0 | tokens per GPU (tokens/s/GPU): 9000/8990 | global batch size: 128 |";
        let step = step_of(of_primus);
        assert_eq!((step.pace, step.tflops), (Pace::Seconds(6.0113), Some(512.0)));
        let of_deepspeed = "iteration=       1/  635782 | elapsed_time_per_iteration_ms=29570.0 | global_batch_size=768";
        let step = step_of(of_deepspeed);
        assert_eq!(
            (step.number, step.pace, step.batch),
            (Some(1), Pace::Seconds(29.57), Some(768))
        );
        let of_nemo = "Training epoch 0, iteration 1/249 | lr: 3.922e-06 | global_batch_size: 8 | global_step: 1 | \
            reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | consumed_samples: 16";
        let step = step_of(of_nemo);
        assert_eq!((step.pace, step.batch), (Pace::Seconds(2.505), Some(8)));
        let of_torchtitan = "[rank0]:2026-01-01 00:00:00,000 - root - INFO - \u{1b}[31mstep: 10  \u{1b}[32mloss:  7.1  \
            \u{1b}[38;2;180;60;0mgrad_norm:  2.0  \u{1b}[33mmemory: 51.47GiB(54.20%)  \u{1b}[34mtps: 5,762  \
            \u{1b}[36mtflops: 333.66  \u{1b}[35mmfu: 33.74%\u{1b}[39m";
        let step = step_of(of_torchtitan);
        assert_eq!(step.pace, Pace::TokensPerDevice(5762.0));
        assert_eq!((step.number, step.tflops), (Some(10), Some(333.66)));
        let peak = step.memory.unwrap();
        assert_eq!(peak.0 >> 20, 52705);
    }

    #[test]
    fn memory_timers_and_events_between_iterations_are_read() {
        let memory = "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1894.6 | max allocated: 9752.0 | reserved: \
            11342.0 | max reserved: 11342.0";
        assert_eq!(event(memory), Some(Event::Memory(Bytes(9752 << 20))));
        let of_bridge = "[Rank 1] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 63.66 | \
            mem-max-allocated-gigabytes: 153.4 | mem-max-reserved-gigabytes: 182.2";
        assert_eq!(event(of_bridge), Some(Event::Memory(Bytes(153_400_000_000))));
        let timer = "    forward-compute ................................: (812.50, 901.00)";
        let expected = Timer { name: "forward-compute".to_owned(), least: 0.8125, most: 0.901 };
        assert_eq!(event(timer), Some(Event::Timer(expected)));
        let most = "    optimizer ......................................: 12.50";
        assert!(matches!(event(most), Some(Event::Timer(one)) if one.least == one.most));
        let evaluation =
            " validation loss at iteration 100 | lm loss value: 2.1 | lm loss PPL: 8.1 |";
        assert_eq!(event(evaluation), Some(Event::Evaluation));
        let checkpoint = "saving checkpoint at iteration     500 to /ckpt in torch_dist format";
        assert_eq!(event(checkpoint), Some(Event::Checkpoint));
    }

    #[test]
    fn lines_that_say_nothing_and_hostile_ones_are_no_events() {
        let long = format!("{}elapsed time per iteration (ms): 1.0", "x".repeat(MOST));
        let lines = [
            "",
            "\u{1b}[",
            "elapsed time per iteration (ms): nan |",
            "elapsed time per iteration (ms): -5 |",
            "elapsed time per iteration (ms): |",
            "elapsed time per iteration (ms)",
            "  num_layers ...................................... 32",
            "tps: 1,000",
            "  name ...: (2.0, 1.0)",
            "  name ...: (",
            &long,
        ];
        for line in lines {
            assert_eq!(event(line), None, "{line:?}");
        }
    }
    #[test]
    fn seconds_and_steps_of_deepspeed_are_read() {
        let of_fork = "[default7]: iteration   12/  500 | consumed samples: 768 | elapsed time per iteration (s): 104.60 | \
            learning rate: 1.0E-05 | global batch size:  2048 | samples per second: 19.579 | TFLOPs: 149.60 |";
        let step = step_of(of_fork);
        assert_eq!((step.number, step.pace), (Some(12), Pace::Seconds(104.6)));
        assert_eq!((step.batch, step.tflops), (Some(2048), Some(149.6)));
        let of_engine = "steps: 40 loss: 7.1042 iter time (s): 0.523 samples/sec: 61.185";
        let step = step_of(of_engine);
        assert_eq!((step.number, step.pace), (Some(40), Pace::Seconds(0.523)));
    }

    #[test]
    fn commas_part_decimals_or_thousands_or_are_refused() {
        let of = |time: &str| {
            event(&format!("iteration 3/ 9 | elapsed time per iteration (ms): {time} |"))
        };
        for (time, milliseconds) in [
            ("843,1", 843.1),
            ("1147,600", 1147.6),
            ("0,843", 0.843),
            ("21,480.5", 21480.5),
            ("1.147,6", 1147.6),
            ("1,234,567", 1_234_567.0),
            ("843,", 843.0),
        ] {
            let step = of(time).map(|event| match event {
                Event::Step(step) => step.pace,
                other => panic!("{time}: {other:?}"),
            });
            assert_eq!(step, Some(Pace::Seconds(milliseconds / 1e3)), "{time}");
        }
        assert_eq!(of("843,125"), Some(Event::Unclear(COMMA)));
        assert_eq!(of("1,2,3"), None);
    }
}
