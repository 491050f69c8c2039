//! Steps of reinforcement learning in a log, of verl, slime or NeMo-RL: their phases and lengths, and which of them counts.

mod line;
#[cfg(test)]
mod tests;

use std::path::Path;

use fsdp::Summary;
use question::diagnostic::Diagnostic;
use question::host::Context;
use question::quote;

use self::line::{FACTS, Said};
use super::MOST_BYTES;
use super::measured::steady::{Class, Timed, classes, median};

pub use self::line::Fact;

/// The most steps that are kept: later ones take the place of earlier ones.
const MOST_STEPS: usize = 10_000;
/// How much longer responses are where they make a step slow.
const LONGER: f64 = 1.1;
/// The phases of a step.
pub const PHASES: [Fact; 9] = [
    Fact::Rollout,
    Fact::Reward,
    Fact::Old,
    Fact::Reference,
    Fact::Both,
    Fact::Values,
    Fact::Update,
    Fact::Critic,
    Fact::Sync,
];

/// A step, as the log has it.
#[derive(Clone, PartialEq, Debug)]
pub struct LoggedStep {
    pub number: Option<u64>,
    facts: [Option<f64>; FACTS],
}

impl LoggedStep {
    /// A time in seconds, a number of tokens or a share.
    #[must_use]
    pub const fn fact(&self, fact: Fact) -> Option<f64> {
        self.facts[fact as usize]
    }

    /// The phases that the log has, in seconds together.
    #[must_use]
    pub fn phases(&self) -> f64 {
        PHASES.iter().filter_map(|phase| self.fact(*phase)).sum()
    }

    /// The whole step, or where the log does not have it its phases, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.fact(Fact::Step).unwrap_or_else(|| self.phases())
    }

    /// The lengths of prompts.
    #[must_use]
    pub fn prompts(&self) -> Option<Summary> {
        let both = self.fact(Fact::BothMean);
        let mean = self.fact(Fact::PromptMean);
        let mean =
            mean.or_else(|| Some(both? - self.fact(Fact::TrainedMean).or(self.response_mean())?));
        self.summary(mean, Fact::PromptLongest, Fact::PromptAtLimit)
    }

    /// The lengths of responses.
    #[must_use]
    pub fn responses(&self) -> Option<Summary> {
        self.summary(self.response_mean(), Fact::ResponseLongest, Fact::ResponseAtLimit)
    }

    fn response_mean(&self) -> Option<f64> {
        self.fact(Fact::ResponseMean).or_else(|| self.fact(Fact::TrainedMean))
    }

    fn summary(&self, mean: Option<f64>, longest: Fact, at_limit: Fact) -> Option<Summary> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast saturates.
        let longest = self.fact(longest).map(|longest| longest as u32);
        let share = self.fact(at_limit).unwrap_or(0.0);
        let mean = mean.filter(|mean| *mean >= 1.0)?;
        Some(Summary { mean, longest: longest.map(|longest| (longest, share)) })
    }

    const fn of(number: Option<u64>) -> Self {
        Self { number, facts: [None; FACTS] }
    }

    /// Whether the step is known to have another `value` of `fact`.
    #[allow(clippy::float_cmp)] // The same text is the same number.
    fn differs(&self, fact: Fact, value: f64) -> bool {
        self.fact(fact).is_some_and(|own| own != value)
    }
}

/// The steps of the last run in a log.
#[derive(Clone, Default, Debug)]
pub struct StepLog {
    pub steps: Vec<LoggedStep>,
    /// How many runs the log has.
    pub runs: usize,
}

/// Which steps count.
#[derive(Clone, PartialEq, Debug)]
pub struct Chosen {
    /// The step of median time among those past the warm-up.
    pub median: usize,
    /// The others past it.
    pub others: Vec<usize>,
    /// Those that do not count, a phrase for each reason.
    pub left_out: Vec<String>,
}

impl StepLog {
    /// The steps in `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut log = Self { steps: Vec::new(), runs: 1 };
        let (mut open, mut table) = (LoggedStep::of(None), None);
        for line in text.lines() {
            if let Some(columns) = line::columns(line) {
                table = Some(columns);
                continue;
            }
            let row = table.as_ref().and_then(|columns| line::row(line, columns));
            if row.is_some() {
                log.add(std::mem::replace(&mut open, LoggedStep::of(None)));
            }
            for said in row.unwrap_or_else(|| line::said(line)) {
                let next = match said {
                    Said::Number(number) => Some(number),
                    Said::Fact(fact, value)
                        if open.number.is_none() && open.differs(fact, value) =>
                    {
                        None
                    }
                    Said::Fact(fact, value) => {
                        open.facts[fact as usize].get_or_insert(value);
                        continue;
                    }
                };
                log.add(std::mem::replace(&mut open, LoggedStep::of(next)));
                if let Said::Fact(fact, value) = said {
                    open.facts[fact as usize] = Some(value);
                }
            }
        }
        log.add(open);
        let has_time = |step: &LoggedStep| step.seconds() > 0.0;
        log.steps.retain(has_time);
        log
    }

    /// Takes `step`, or of one that several processes log what is not known of it yet.
    fn add(&mut self, step: LoggedStep) {
        if step.facts.iter().all(Option::is_none) {
            return;
        }
        let same = |own: &LoggedStep| step.number.is_some() && own.number == step.number;
        if let Some(at) = self.steps.iter().rposition(same) {
            let own = &mut self.steps[at];
            let differs = |(one, other): (&Option<f64>, &Option<f64>)| {
                one.is_some() && other.is_some() && one != other
            };
            if !own.facts.iter().zip(&step.facts).any(differs) {
                own.facts.iter_mut().zip(step.facts).for_each(|(one, other)| *one = one.or(other));
                return;
            }
            // A run that was started anew has its first steps again.
            self.steps.clear();
            self.runs += 1;
        }
        if self.steps.len() >= MOST_STEPS {
            self.steps.drain(..MOST_STEPS / 2);
        }
        self.steps.push(step);
    }

    /// The median of `fact` over the steps `own` that have it.
    fn middle(&self, own: &[usize], fact: Fact) -> Option<f64> {
        median(&own.iter().filter_map(|at| self.steps[*at].fact(fact)).collect::<Vec<_>>())
    }

    /// Which steps count; `None` where there are none.
    #[must_use]
    pub fn chosen(&self) -> Option<Chosen> {
        let is_apart = |at: &usize| {
            let has = |fact| self.steps[*at].fact(fact).is_some();
            has(Fact::Evaluation) || has(Fact::Checkpoint)
        };
        let (apart, mut own): (Vec<usize>, Vec<usize>) = (0..self.steps.len()).partition(is_apart);
        let mut left_out = Vec::new();
        match own.is_empty() {
            true => own = apart,
            false if !apart.is_empty() => {
                left_out.push(format!("{} with an evaluation or a checkpoint", apart.len()));
            }
            false => {}
        }
        let timed = |at: &usize| {
            let seconds = self.steps[*at].seconds();
            Timed { number: None, seconds, batch: None, behind: None }
        };
        let classes = classes(&own.iter().map(timed).collect::<Vec<_>>(), 0);
        let usual = [Fact::ResponseMean, Fact::ResponseLongest].map(|fact| self.middle(&own, fact));
        let is_longer = |at: usize| {
            let longer = |(fact, middle): (Fact, Option<f64>)| {
                Some(self.steps[at].fact(fact)? > LONGER * middle?)
            };
            let [mean, longest] = usual;
            longer((Fact::ResponseMean, mean)) == Some(true)
                || longer((Fact::ResponseLongest, longest)) == Some(true)
        };
        // Longer responses explain a slow step, a warm-up does not.
        let is_start = |(at, class): &(usize, Class)| *class == Class::WarmUp && !is_longer(*at);
        let (start, rest): (Vec<_>, Vec<_>) = own.into_iter().zip(classes).partition(is_start);
        if !start.is_empty() {
            left_out.push(format!("{} of warm-up", start.len()));
        }
        let mut steady: Vec<usize> =
            rest.iter().filter(|(_, class)| *class == Class::Steady).map(|(at, _)| *at).collect();
        steady.sort_by(|one, other| {
            self.steps[*one].seconds().total_cmp(&self.steps[*other].seconds())
        });
        let median = *steady.get(steady.len().saturating_sub(1) / 2)?;
        let others = rest.iter().map(|(at, _)| *at).filter(|at| *at != median).collect();
        Some(Chosen { median, others, left_out })
    }
}

/// The steps in the log `path`.
pub fn read(context: &Context<'_>, path: &Path) -> Result<StepLog, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    let log = StepLog::of(&String::from_utf8_lossy(&bytes));
    if log.steps.is_empty() {
        let message = format!("{}: no line has a phase of a step", quote::path(path));
        let help = "give the console log of verl (`timing_s/gen:..`), slime (`perf/rollout_time`) or NeMo-RL \
                    (`Total step time`)";
        return Err(Diagnostic::new(message).with_help(help).about("log"));
    }
    Ok(log)
}
