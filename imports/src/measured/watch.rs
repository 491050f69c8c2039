//! A growing log, watched for steps that leave what they were.

use std::collections::VecDeque;

use super::Log;
use super::alarm::of_timer;
pub use super::alarm::{Alarm, Cause, Change};
use super::line::{self, Event, Timer};
use super::steady::median;

/// Steady iterations that say how long a step takes.
const BASELINE: usize = 10;
/// Iterations without a steady state, after which those before are forgotten.
const FORGOTTEN: usize = 256;
/// Iterations in a row whose median is compared.
const WINDOW: usize = 5;
/// The least relative change that counts.
const LEAST: f64 = 0.03;
/// Spreads of the baseline beyond which a change counts.
const FAR: f64 = 4.0;

/// A log that is watched.
#[derive(Debug, Default)]
pub struct Watcher {
    log: Log,
    /// Steps taken so far.
    seen: u64,
    number: u64,
    batch: Option<u64>,
    baseline: Option<Baseline>,
    recent: VecDeque<f64>,
    /// The timers of the iterations in `recent`, the last of each name.
    timers: Vec<Timer>,
    /// Whether the step has left the baseline.
    is_away: bool,
    /// Whether the last iteration may still get timers.
    is_open: bool,
}

/// How long a step took at first.
#[derive(Debug)]
struct Baseline {
    step: f64,
    /// Relative spread of steps.
    spread: f64,
    timers: Vec<Timer>,
}

impl Watcher {
    /// A watcher of a log of `tokens` of each device a step.
    #[must_use]
    pub fn new(tokens: f64) -> Self {
        Self { log: Log::of("", tokens), ..Self::default() }
    }

    /// Takes the next line. Returns the changes that are known by then.
    pub fn add(&mut self, line: &str) -> Vec<Alarm> {
        let Some(event) = line::event(line) else { return Vec::new() };
        let is_step = matches!(event, Event::Step(_));
        // Timers follow their iteration: it is whole when the next one begins.
        let before = if is_step { self.idle() } else { None };
        let own = self.taken(event);
        self.is_open |= is_step;
        before.into_iter().chain(own).collect()
    }

    /// The change that the last iteration shows, where no line has followed for a while.
    pub fn idle(&mut self) -> Option<Alarm> {
        if !std::mem::take(&mut self.is_open) {
            return None;
        }
        self.alarm()
    }

    fn taken(&mut self, event: Event) -> Option<Alarm> {
        let before = self.log.steps().len();
        self.log.add(&event);
        match event {
            // Another rank may print the same iteration.
            Event::Step(_) if self.log.steps().len() == before => None,
            Event::Step(step) => {
                self.seen += 1;
                self.number = step.number.unwrap_or(self.seen);
                let batch = step.batch;
                let last = *self.log.steps().last()?;
                if let (Some(before), Some(now)) = (self.batch, batch)
                    && before != now
                {
                    self.batch = batch;
                    return Some(self.other_batch(before, now, last.seconds));
                }
                self.batch = batch.or(self.batch);
                // The cost of evaluations and checkpoints is not a change of the run.
                if last.behind.is_some() {
                    return None;
                }
                self.recent.push_back(last.seconds);
                if self.recent.len() > WINDOW {
                    self.recent.pop_front();
                }
                None
            }
            Event::Timer(timer) => {
                let known = self.timers.iter().position(|one| one.name == timer.name);
                match known {
                    Some(at) => self.timers[at] = timer,
                    None if self.timers.len() < 64 => self.timers.push(timer),
                    None => {}
                }
                None
            }
            _ => None,
        }
    }

    /// The change that the iterations so far show.
    fn alarm(&mut self) -> Option<Alarm> {
        let Some(baseline) = &self.baseline else { return self.steady() };
        if self.recent.len() < WINDOW {
            return None;
        }
        let recent: Vec<f64> = self.recent.iter().copied().collect();
        let now = median(&recent)?;
        let far = LEAST.max(FAR * baseline.spread);
        let is_away = (now / baseline.step - 1.0).abs() > far;
        if is_away == self.is_away {
            return None;
        }
        self.is_away = is_away;
        let cause = if is_away { self.cause() } else { Cause::Back };
        Some(self.alarm_of(self.baseline.as_ref()?.step, now, cause))
    }

    fn alarm_of(&self, before: f64, now: f64, cause: Cause) -> Alarm {
        Alarm { iteration: self.number, before, now, batch: self.batch, cause }
    }

    /// The first steady step.
    fn steady(&mut self) -> Option<Alarm> {
        if self.log.steps().len() > FORGOTTEN {
            self.log = Log::of("", self.log.tokens);
        }
        let measured = self.log.measured().ok().filter(|one| one.steady.len() >= BASELINE)?;
        let deviations: Vec<f64> =
            measured.steady.iter().map(|one| (one / measured.step - 1.0).abs()).collect();
        let spread = median(&deviations)?;
        let step = measured.step;
        self.baseline = Some(Baseline { step, spread, timers: measured.timers });
        self.recent.clear();
        Some(self.alarm_of(step, step, Cause::Steady))
    }

    /// Another batch: all before is forgotten.
    fn other_batch(&mut self, before: u64, now: u64, seconds: f64) -> Alarm {
        let step = self.baseline.take().map_or(seconds, |baseline| baseline.step);
        let tokens = self.log.tokens * plan::number(now) / plan::number(before.max(1));
        self.log = Log::of("", tokens);
        self.recent.clear();
        self.is_away = false;
        self.alarm_of(step, seconds, Cause::Batch { before, now })
    }

    /// The timer that has grown most, as a cause.
    fn cause(&self) -> Cause {
        let Some(baseline) = &self.baseline else { return Cause::Unknown };
        let grown = |now: &Timer| {
            let before = baseline.timers.iter().find(|one| one.name == now.name)?;
            // A sum of others says nothing of its own.
            let is_sum = now.name == "forward-backward" || now.name == "interval-time";
            (!is_sum).then(|| Change { before: before.clone(), now: now.clone() })
        };
        let growth = |one: &Change| one.now.most - one.before.most;
        let all = self.timers.iter().filter_map(grown);
        let Some(change) = all.max_by(|a, b| growth(a).total_cmp(&growth(b))) else {
            return Cause::Unknown;
        };
        if growth(&change) < LEAST * baseline.step / 2.0 {
            return Cause::Unknown;
        }
        of_timer(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: u64, seconds: f64, batch: u64) -> String {
        let ms = seconds * 1e3;
        format!(
            "iteration {at}/ 900 | elapsed time per iteration (ms): {ms:.1} | global batch size: {batch} |"
        )
    }

    fn timer(name: &str, least: f64, most: f64) -> String {
        format!("    {name} ..............: ({:.2}, {:.2})", least * 1e3, most * 1e3)
    }

    /// The alarms of a run of steps with their timers.
    fn watched(steps: impl IntoIterator<Item = (f64, u64, Vec<String>)>) -> Vec<Alarm> {
        let mut watcher = Watcher::new(0.0);
        let mut all = Vec::new();
        for (at, (seconds, batch, timers)) in (1..).zip(steps) {
            all.extend(watcher.add(&step(at, seconds, batch)));
            timers.iter().for_each(|line| drop(watcher.add(line)));
        }
        all.extend(watcher.idle());
        all
    }

    fn causes(alarms: &[Alarm]) -> Vec<&Cause> {
        alarms.iter().map(|alarm| &alarm.cause).collect()
    }

    /// Twenty steady steps, ten slower ones and ten as at first, with a timer that grows as said.
    fn with(name: &str, least: f64, most: f64) -> Vec<Alarm> {
        let of = |is_slow: bool| match is_slow {
            false => (1.0, 8, vec![timer(name, 0.40, 0.42), timer("optimizer", 0.02, 0.02)]),
            true => (1.2, 8, vec![timer(name, least, most), timer("optimizer", 0.02, 0.021)]),
        };
        watched((0..40).map(|at| of((20..30).contains(&at))))
    }

    #[test]
    fn causes_follow_from_timers() {
        type Is = fn(&Cause) -> bool;
        let cases: [(&str, f64, f64, Is); 5] = [
            ("forward-compute", 0.40, 0.62, |one| matches!(one, Cause::Straggler(_))),
            ("backward-compute", 0.59, 0.62, |one| matches!(one, Cause::Compute(_))),
            ("backward-send-forward-recv", 0.4, 0.62, |one| matches!(one, Cause::StageLink(_))),
            ("all-grads-sync", 0.5, 0.62, |one| matches!(one, Cause::Exchange(_))),
            ("batch-generator", 0.5, 0.62, |one| matches!(one, Cause::Other(_))),
        ];
        for (name, least, most, is) in cases {
            let alarms = with(name, least, most);
            let [steady, slow, back] = &alarms[..] else { panic!("{name}: {alarms:?}") };
            assert_eq!((&steady.cause, steady.now), (&Cause::Steady, 1.0));
            assert!(is(&slow.cause), "{name}: {slow:?}");
            assert!(
                slow.words().contains(name) && slow.words().contains("+20.00 %"),
                "{}",
                slow.words()
            );
            assert_eq!((slow.iteration, &back.cause), (23, &Cause::Back));
        }
        let unknown = with("forward-compute", 0.40, 0.42);
        assert_eq!(unknown[1].cause, Cause::Unknown);
        assert!(unknown[1].words().contains("--timing-log-level 2"));
    }

    #[test]
    fn another_batch_is_no_slower_run() {
        let steps =
            (0..40).map(|at| if at < 20 { (1.0, 8, Vec::new()) } else { (2.0, 16, Vec::new()) });
        let alarms = watched(steps);
        let expected = [&Cause::Steady, &Cause::Batch { before: 8, now: 16 }, &Cause::Steady];
        assert_eq!(causes(&alarms), expected);
        assert!(alarms[1].words().contains("16 instead of 8"), "{}", alarms[1].words());
    }

    #[test]
    fn noise_checkpoints_and_single_steps_raise_no_alarm() {
        let noise = |at: u32| 1.0 + f64::from(at % 7) * 0.004;
        let steps = (0..60).map(|at| (if at == 30 { 3.0 } else { noise(at) }, 8, Vec::new()));
        assert_eq!(causes(&watched(steps)), [&Cause::Steady]);
        let mut watcher = Watcher::new(0.0);
        let mut alarms = 0;
        for at in 0..60 {
            watcher.add("saving checkpoint at iteration 3 to /x");
            alarms += watcher.add(&step(at, if at < 20 { 1.0 } else { 2.0 }, 8)).len();
        }
        assert_eq!(alarms, 1, "all later steps are behind a checkpoint");
    }
}
