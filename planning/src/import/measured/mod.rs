//! Measured iterations of a log.

pub mod line;
pub mod steady;
pub mod watch;

use std::collections::BTreeMap;
use std::fmt::Write;

use pipeline::Bytes;
use question::format;

use self::line::{Event, Pace, Timer};
use self::steady::{Class, Timed, classes, median};

/// The most iterations of a log that are kept: later ones take the place of earlier ones.
const MOST: usize = 1 << 20;
/// The fewest steady iterations that determine a step.
pub const FEWEST: usize = 3;

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
}

impl Measured {
    /// The iterations in `text`, of `tokens` of each device a step. `None` without [`FEWEST`] steady ones.
    pub(super) fn of(text: &str, tokens: f64) -> Option<Self> {
        let mut log = Log { tokens, ..Log::default() };
        text.lines().filter_map(line::event).for_each(|event| log.add(&event));
        log.measured()
    }

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
        let name = |class: Class| Class::LEFT_OUT.iter().find(|(one, _)| *one == class);
        let apart: Vec<String> = left_out
            .iter()
            .filter_map(|(class, count)| Some(format!("{count} {}", name(*class)?.1)))
            .collect();
        if !apart.is_empty() {
            let _ = write!(text, "; left out: {}", apart.join(", "));
        }
        if let Some(memory) = self.memory {
            let _ = write!(text, "; a device held {} at most", format::size(memory));
        }
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

/// A log that is read line by line.
#[derive(Clone, Default, Debug)]
pub struct Log {
    /// The tokens of each device a step.
    pub tokens: f64,
    steps: Vec<Timed>,
    tflops: Vec<Option<f64>>,
    timers: BTreeMap<String, Vec<[f64; 2]>>,
    memory: Option<Bytes>,
    /// The event since the last iteration that may make the next one slow.
    behind: Option<Class>,
}

impl Log {
    /// Takes the next event.
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::Step(step) => {
                let seconds = match step.pace {
                    Pace::Seconds(seconds) => seconds,
                    Pace::TokensPerDevice(rate) => self.tokens / rate,
                };
                self.memory = self.memory.max(step.memory);
                if self.steps.len() == MOST {
                    self.steps.drain(..MOST / 2);
                    self.tflops.drain(..MOST / 2);
                }
                let behind = self.behind.take();
                self.steps.push(Timed { seconds, batch: step.batch, behind });
                self.tflops.push(step.tflops);
            }
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

    /// The steady iterations so far; `None` for fewer than [`FEWEST`].
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        let classes = classes(&self.steps);
        let steady = || classes.iter().enumerate().filter(|(_, class)| **class == Class::Steady);
        let seconds: Vec<f64> = steady().map(|(at, _)| self.steps[at].seconds).collect();
        if seconds.len() < FEWEST {
            return None;
        }
        let tflops: Vec<f64> = steady().filter_map(|(at, _)| self.tflops[at]).collect();
        let count = |class: Class| classes.iter().filter(|one| **one == class).count();
        let left_out = Class::LEFT_OUT.iter().map(|(class, _)| (*class, count(*class)));
        Some(Measured {
            step: median(&seconds)?,
            steady: seconds,
            left_out: left_out.filter(|(_, count)| *count > 0).collect(),
            memory: self.memory,
            tflops: median(&tflops),
            timers: self.timers.iter().filter_map(|(name, times)| middle(name, times)).collect(),
        })
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
        let measured = Measured::of(&text, 0.0).unwrap();
        assert_eq!((measured.steady.len(), measured.step), (4, 1.0));
        assert_eq!(measured.left_out, [(Class::WarmUp, 2)]);
        let words = measured.in_words();
        assert!(words.contains("4 steady iterations: 1.000 s") && words.contains("2 of warm-up"));
        assert_eq!(Measured::of(&log(&[1.0, 1.0]), 0.0), None);
    }

    #[test]
    fn rates_are_steps_by_the_tokens_of_a_device() {
        let line =
            "step: 2  loss: 7.1  memory: 10.00GiB(12.5%)  tps: 4,000  tflops: 300.0  mfu: 30.0%\n";
        let measured = Measured::of(&line.repeat(4), 8_000.0).unwrap();
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
        let measured = Measured::of(&text, 0.0).unwrap();
        let expected = [(Class::Evaluation, 1), (Class::Checkpoint, 1), (Class::Outlier, 1)];
        assert_eq!(measured.left_out, expected);
    }
}
