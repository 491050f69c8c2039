//! The state of every stage, for diagnosing a stall.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeline::{Slot, Value};

/// The event that a stage waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Awaited {
    /// A value that the slot needs.
    Value(Slot, Value),
    /// A norm of gradients, to end this step.
    Norm(u32),
    /// The gradients of this step that another stage has accumulated for weights that both stages
    /// hold.
    Gradients(u32),
    /// The signal that all stages are ready to begin.
    Start,
    /// The signal that all stages are done.
    Report,
}

/// The current activity of a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Doing {
    /// Building its worker.
    #[default]
    Preparing,
    Running(Slot),
    /// Waiting for another stage.
    Waiting {
        /// The awaited event.
        what: Awaited,
        /// The stage that is to send it.
        from: usize,
    },
    /// Ending a step: waiting for its device, stepping its optimizer.
    Stepping(u32),
    /// Done with all its steps.
    Done,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(slot, Value::Output { chunk, microbatch }) => {
                write!(f, "the output of chunk {chunk} for microbatch {microbatch} (for {slot})")
            }
            Self::Value(slot, Value::Gradient { chunk, microbatch }) => {
                write!(f, "the gradient of chunk {chunk} for microbatch {microbatch} (for {slot})")
            }
            Self::Value(slot, Value::Statistics { microbatch }) => {
                write!(f, "the statistics of microbatch {microbatch} (for {slot})")
            }
            Self::Value(slot, Value::HiddenGradient { microbatch }) => {
                write!(f, "the hidden gradient of microbatch {microbatch} (for {slot})")
            }
            Self::Norm(step) => write!(f, "the norm of the gradients of step {step}"),
            Self::Gradients(step) => {
                write!(f, "the gradients of step {step} of the weights that both hold")
            }
            Self::Start => f.write_str("word that all stages are ready"),
            Self::Report => f.write_str("word that all stages are done"),
        }
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preparing => f.write_str("has been preparing its worker"),
            Self::Running(slot) => write!(f, "has been running {slot}"),
            Self::Waiting { what, from } => {
                write!(f, "has been waiting for {what} from stage {from}")
            }
            Self::Stepping(step) => write!(f, "has been ending step {step}"),
            Self::Done => f.write_str("has been done"),
        }
    }
}

/// The activity of one stage and its duration so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    pub stage: usize,
    /// Its activity; `None` if it did not answer.
    pub doing: Option<Doing>,
    /// Its duration so far.
    pub lasted: Duration,
}

/// The chain of waits: each stage waits for the next one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain(pub Vec<Sighting>);

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 12;
        for (i, Sighting { stage, doing, lasted }) in self.0.iter().take(SHOWN).enumerate() {
            let sep = if i > 0 { "; " } else { "" };
            match doing {
                Some(doing) => write!(f, "{sep}stage {stage} {doing} for {lasted:.1?}")?,
                None => write!(f, "{sep}stage {stage} does not answer")?,
            }
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            rest => write!(f, "; and {rest} more stages"),
        }
    }
}

impl Chain {
    /// Follows the waits from `stage`, until a stage does not wait or was asked before.
    pub(crate) fn follow<E>(
        mut stage: usize,
        mut ask: impl FnMut(usize) -> Result<Option<(Doing, Duration)>, E>,
    ) -> Result<Self, E> {
        let mut chain: Vec<Sighting> = Vec::new();
        while chain.iter().all(|seen| seen.stage != stage) {
            let answer = ask(stage)?;
            let doing = answer.map(|(doing, _)| doing);
            let lasted = answer.map_or(Duration::ZERO, |(_, lasted)| lasted);
            chain.push(Sighting { stage, doing, lasted });
            let Some(Doing::Waiting { from, .. }) = doing else { break };
            stage = from;
        }
        Ok(Self(chain))
    }
}

/// The published activity of every stage.
#[derive(Debug)]
pub(crate) struct Board {
    stages: Vec<Mutex<(Doing, Instant)>>,
}

impl Board {
    /// A board of `stages` stages, none of which has begun.
    pub(crate) fn new(stages: usize) -> Self {
        let now = Instant::now();
        Self { stages: (0..stages).map(|_| Mutex::new((Doing::default(), now))).collect() }
    }

    fn entry(&self, stage: usize) -> MutexGuard<'_, (Doing, Instant)> {
        // An entry is written as a whole: it is valid even if its thread panicked.
        self.stages[stage].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the activity of `stage` from `now` on.
    pub(crate) fn publish(&self, stage: usize, doing: Doing, now: Instant) {
        *self.entry(stage) = (doing, now);
    }

    /// The activity of `stage` and its duration so far.
    pub(crate) fn look(&self, stage: usize) -> (Doing, Duration) {
        let (doing, since) = *self.entry(stage);
        (doing, since.elapsed())
    }
}
