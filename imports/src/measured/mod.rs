//! Measured iterations of a log.

pub mod alarm;
pub mod line;
pub mod regimes;
pub mod steady;
mod unlike;
pub mod watch;

use std::collections::BTreeMap;
use std::fmt::Write;

use pipeline::Bytes;
use question::format;

use self::line::{Event, Pace, Timer};
use self::regimes::{Regime, regimes};
use self::steady::{Class, NEAR, Timed, classes, median, unsteady, usual};
pub(super) use self::unlike::contradictions;
use super::arguments::dumped;

/// The most iterations of a log that are kept: later ones take the place of earlier ones.
const MOST: usize = 1 << 20;
/// The fewest steady iterations that determine a step.
pub const FEWEST: usize = 3;
/// The iterations among which another rank may print one again.
const RANKS: usize = 64;
/// The shortest and the longest step that there may be, in seconds.
const POSSIBLE: std::ops::Range<f64> = 1e-7..1e7;
/// The regimes that are named, of several the last.
const NAMED: usize = 4;

/// The iterations of a log.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// The times of steady steps in the order of the log, in seconds.
    pub steady: Vec<f64>,
    /// Their median, in seconds.
    pub step: f64,
    /// Iterations that do not count, by class.
    pub left_out: Vec<(Class, usize)>,
    /// The largest peak of memory of a device, as its allocator counts it.
    pub memory: Option<Bytes>,
    /// The median of model TFLOP/s of a device over steady steps, as the trainer counts them.
    pub tflops: Option<f64>,
    /// Timers over all steady steps: the medians of their least and largest times over ranks.
    pub timers: Vec<Timer>,
    /// Changes of the step, and iterations that could not be read, a phrase each.
    pub remarks: Vec<String>,
}

impl Measured {
    /// The same in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let Self { steady, step, left_out, .. } = self;
        let count = steady.len();
        let mut text =
            format!("the log has {count} steady iterations: {step:.3} s a step in the median");
        let spread = [self.percentile(5), self.percentile(95)];
        if let [Some(low), Some(high)] = spread {
            let _ = write!(text, ", nine in ten from {low:.3} to {high:.3} s");
        }
        if !left_out.is_empty() {
            let _ = write!(text, "; left out: {}", in_words(left_out));
        }
        if let Some(memory) = self.memory {
            let _ = write!(text, "; a device held {} at most", format::size(memory));
        }
        self.remarks.iter().for_each(|remark| text += &format!("; {remark}"));
        text
    }

    /// A percentile of the steady steps, where there are ten or more.
    fn percentile(&self, percent: usize) -> Option<f64> {
        let mut sorted = self.steady.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(at).copied().filter(|_| sorted.len() >= 10)
    }
}

/// Iterations that do not count.
fn in_words(left_out: &[(Class, usize)]) -> String {
    let name = |class: Class| Class::LEFT_OUT.iter().find(|(one, _)| *one == class);
    let words = |(class, count): &(Class, usize)| Some(format!("{count} {}", name(*class)?.1));
    left_out.iter().filter_map(words).collect::<Vec<_>>().join(", ")
}

/// A log that is read line by line.
#[derive(Clone, Default, Debug)]
pub struct Log {
    /// The tokens of each device a step.
    pub tokens: f64,
    steps: Vec<Timed>,
    /// The place of the first iteration since the last restart.
    since: usize,
    tflops: Vec<Option<f64>>,
    timers: BTreeMap<String, Vec<[f64; 2]>>,
    memory: Option<Bytes>,
    /// Numbers in a dump of arguments, by name.
    stated: BTreeMap<&'static str, u64>,
    /// Iterations whose time is not known, by what is wrong with it.
    unclear: BTreeMap<&'static str, usize>,
    /// The event since the last iteration that may make the next one slow.
    behind: Option<Class>,
}

impl Log {
    /// The log `text`, of `tokens` of each device a step.
    #[must_use]
    pub fn of(text: &str, tokens: f64) -> Self {
        let mut log = Self { tokens, ..Self::default() };
        for line in text.lines() {
            line::event(line).iter().for_each(|event| log.add(event));
            let stated = dumped(line).and_then(|(name, value)| {
                let (name, _) = unlike::NAMES.iter().find(|(known, _)| *known == name)?;
                Some((*name, value.parse().ok()?))
            });
            log.stated.extend(stated);
        }
        log
    }

    /// Takes the next event.
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::Step(step) => {
                let seconds = match step.pace {
                    Pace::Seconds(seconds) => seconds,
                    Pace::TokensPerDevice(rate) => self.tokens / rate,
                };
                self.memory = self.memory.max(step.memory);
                let timed = Timed { number: step.number, seconds, batch: step.batch, behind: None };
                if !POSSIBLE.contains(&seconds) {
                    *self.unclear.entry("are shorter or longer than any step").or_default() += 1;
                    return;
                }
                if self.is_again(&timed) {
                    return;
                }
                if self.steps.len() == MOST {
                    self.steps.drain(..MOST / 2);
                    self.tflops.drain(..MOST / 2);
                    self.since = self.since.saturating_sub(MOST / 2);
                }
                let behind = self.behind.take();
                self.steps.push(Timed { behind, ..timed });
                self.tflops.push(step.tflops);
            }
            Event::Unclear(why) => *self.unclear.entry(why).or_default() += 1,
            Event::Memory(peak) => self.memory = self.memory.max(Some(*peak)),
            Event::Evaluation => self.behind = Some(Class::Evaluation),
            Event::Checkpoint => self.behind = Some(Class::Checkpoint),
            Event::Timer(timer) => {
                let may = self.timers.len() < 64 || self.timers.contains_key(&timer.name);
                if may {
                    let own = self.timers.entry(timer.name.clone()).or_default();
                    if own.len() < 10_000 {
                        own.push([timer.least, timer.most]);
                    }
                }
            }
        }
    }

    /// All iterations so far, in seconds.
    #[must_use]
    pub fn steps(&self) -> &[Timed] {
        &self.steps
    }

    /// Whether another rank has printed `step` already: its number, with a time that is like its own. With another
    /// time it is a restart, behind which iterations count again.
    fn is_again(&mut self, step: &Timed) -> bool {
        let mut known = self.steps[self.since..].iter().rev().take(RANKS);
        let is_it = |one: &&Timed| step.number.is_some() && one.number == step.number;
        let Some(one) = known.find(is_it) else { return false };
        let is_like = (one.seconds / step.seconds - 1.0).abs() < NEAR;
        if !is_like {
            self.since = self.steps.len();
        }
        is_like
    }

    /// Whether the log says something of iterations.
    #[must_use]
    pub fn has_iterations(&self) -> bool {
        !self.steps.is_empty() || !self.unclear.is_empty()
    }

    /// The steady iterations so far.
    pub fn measured(&self) -> Result<Measured, String> {
        let regimes = regimes(&self.steps, &usual(&self.steps));
        let start = regimes.last().filter(|_| regimes.len() > 1).map_or(0, |last| last.start);
        let classes = classes(&self.steps, start);
        let steady = || classes.iter().enumerate().filter(|(_, class)| **class == Class::Steady);
        let seconds: Vec<f64> = steady().map(|(at, _)| self.steps[at].seconds).collect();
        let count = |class: Class| classes.iter().filter(|one| **one == class).count();
        let left_out = Class::LEFT_OUT.iter().map(|(class, _)| (*class, count(*class)));
        let left_out: Vec<_> = left_out.filter(|(_, count)| *count > 0).collect();
        let remarks = self.remarks(&regimes);
        let few = || {
            format!(
                "it has {} iterations, {} of them steady: three steady iterations are needed",
                self.steps.len(),
                seconds.len()
            )
        };
        let step = median(&seconds).filter(|_| seconds.len() >= FEWEST);
        let why = step.map_or_else(|| Some(few()), |_| unsteady(&seconds, count(Class::Outlier)));
        if let Some(why) = why {
            let apart =
                (!left_out.is_empty()).then(|| format!("left out: {}", in_words(&left_out)));
            return Err([why]
                .into_iter()
                .chain(apart)
                .chain(remarks)
                .collect::<Vec<_>>()
                .join("; "));
        }
        let tflops: Vec<f64> = steady().filter_map(|(at, _)| self.tflops[at]).collect();
        Ok(Measured {
            step: step.unwrap_or_default(),
            steady: seconds,
            left_out,
            memory: self.memory,
            tflops: median(&tflops),
            timers: self.timers.iter().filter_map(|(name, times)| middle(name, times)).collect(),
            remarks,
        })
    }

    /// Changes of the step, and iterations that could not be read, a phrase each.
    fn remarks(&self, regimes: &[Regime]) -> Vec<String> {
        let named = regimes.iter().skip(regimes.len().saturating_sub(NAMED));
        let named: Vec<String> = named.map(Regime::in_words).collect();
        let changed = (regimes.len() > 1).then(|| {
            let parts = regimes.len();
            format!(
                "the step changes, and only the last of {parts} parts counts: {}",
                named.join(", ")
            )
        });
        let unclear = self.unclear.iter();
        changed
            .into_iter()
            .chain(unclear.map(|(why, count)| format!("{count} times {why}")))
            .collect()
    }
}

/// The medians of the least and of the largest times of a timer.
fn middle(name: &str, times: &[[f64; 2]]) -> Option<Timer> {
    let of = |at: usize| median(&times.iter().map(|both| both[at]).collect::<Vec<_>>());
    Some(Timer { name: name.to_owned(), least: of(0)?, most: of(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(steps: &[f64]) -> String {
        let line = |(at, step): (usize, &f64)| {
            let milliseconds = step * 1e3;
            format!(
                " iteration {at}/ 100 | elapsed time per iteration (ms): {milliseconds:.1} | global batch size: 8 |\n"
            )
        };
        (1..).zip(steps).map(line).collect()
    }

    #[test]
    fn steady_iterations_are_those_past_the_warm_up() {
        let text = log(&[20.0, 3.0, 1.0, 1.01, 0.99, 1.0]);
        let measured = Log::of(&text, 0.0).measured().unwrap();
        assert_eq!((measured.steady.len(), measured.step), (4, 1.0));
        assert_eq!(measured.left_out, [(Class::WarmUp, 2)]);
        let words = measured.in_words();
        assert!(words.contains("4 steady iterations: 1.000 s") && words.contains("2 of warm-up"));
        let why = Log::of(&log(&[1.0, 1.0]), 0.0).measured().unwrap_err();
        assert!(why.starts_with("it has 2 iterations, 2 of them steady: three"), "{why}");
    }

    #[test]
    fn rates_are_steps_by_the_tokens_of_a_device() {
        let line = |at: usize| {
            format!(
                "step: {at}  loss: 7.1  memory: 10.00GiB(12.5%)  tps: 4,000  tflops: 300.0  mfu: 30.0%\n"
            )
        };
        let measured = Log::of(&(1..5).map(line).collect::<String>(), 8_000.0).measured().unwrap();
        assert_eq!((measured.step, measured.tflops), (2.0, Some(300.0)));
        assert_eq!(measured.memory, Some(Bytes(10 << 30)));
    }

    #[test]
    fn events_explain_slow_iterations() {
        let mut text = log(&[1.0; 8]);
        text += " validation loss at iteration 4 | lm loss value: 2.0 |\n";
        text += &log(&[5.0, 1.0]);
        text += "  successfully saved checkpoint from iteration 6 to /x\n";
        text += &log(&[4.0, 1.0, 7.0, 1.0, 1.0]);
        let measured = Log::of(&text, 0.0).measured().unwrap();
        let expected = [(Class::Evaluation, 1), (Class::Checkpoint, 1), (Class::Outlier, 1)];
        assert_eq!(measured.left_out, expected);
    }
    #[test]
    fn an_iteration_that_several_ranks_print_counts_once() {
        let line = |rank: u64, at: u64| {
            let time = 2000.0 + (at + 3 * rank) as f64;
            format!("{rank}: iteration {at}/ 90 | elapsed time per iteration (ms): {time:.1} |\n")
        };
        let both = |rank: u64| (1..13).map(move |at| (rank, at));
        let mixed = (1..13).flat_map(|at| [(0, at), (1, at)]).map(|(rank, at)| line(rank, at));
        let apart = both(0).chain(both(1)).map(|(rank, at)| line(rank, at));
        for text in [mixed.collect::<String>(), apart.collect()] {
            assert_eq!(Log::of(&text, 0.0).measured().unwrap().steady.len(), 12);
        }
        // A restart is slow at first, and runs the same iterations again.
        let text = log(&[1.0; 8]) + &log(&[3.0, 1.0, 1.0, 1.0]);
        assert_eq!(Log::of(&text, 0.0).measured().unwrap().steady.len(), 11);
    }

    #[test]
    fn a_changed_step_is_said_and_the_last_counts() {
        let text = log(&[[20.0; 15], [35.0; 15]].concat());
        let measured = Log::of(&text, 0.0).measured().unwrap();
        assert_eq!((measured.step, measured.steady.len()), (35.0, 15));
        assert_eq!(measured.left_out, [(Class::Earlier, 15)]);
        let words = measured.in_words();
        let said = "the step changes, and only the last of 2 parts counts: 20.000 s in iterations 1 to 15, \
            35.000 s in iterations 16 to 30";
        assert!(words.contains(said), "{words}");
    }

    #[test]
    fn no_step_is_taken_where_there_is_none() {
        let grown: Vec<f64> = (0..39).map(|at| 0.8 + 0.02 * f64::from(at)).collect();
        let alternating: Vec<f64> = (0..40).map(|at| [0.8, 1.6][at % 2]).collect();
        let absurd = " iteration 7/ 9 | elapsed time per iteration (ms): 1e-300 |\n".repeat(6);
        let commas = " iteration 7/ 9 | elapsed time per iteration (ms): 843,125 |\n".repeat(6);
        for (text, why) in [
            (log(&grown), "its step is not steady: it goes from"),
            (log(&alternating), "not steady: half of all steps are between 0.800 s and 1.600 s"),
            (
                absurd,
                "it has 0 iterations, 0 of them steady: three steady iterations are needed; 6 times are shorter",
            ),
            (commas, "6 times have a comma before decimals or thousands"),
            (String::new(), "it has 0 iterations"),
        ] {
            let said = Log::of(&text, 0.0).measured().unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
