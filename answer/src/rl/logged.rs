//! What an answer says of the log of its run.

use pipeline::Nanos;
use question::sheet::Sheet;
use question::{format, table};
use serde::Serialize;

/// A phase of the step that counts: its prediction without the log, and its time in it.
#[derive(Serialize, Clone, Debug)]
pub struct LoggedPhase {
    /// Its name, as phases of the answer have it; `rest` is whatever else a step has.
    pub phase: &'static str,
    /// As it is simulated with the lengths of the log; absent where it is not simulated.
    pub predicted_ns: Option<u64>,
    /// Absent where the log does not say it.
    pub logged_ns: Option<u64>,
    /// The prediction over the logged time, less 1.
    pub off: Option<f64>,
    /// The logged time in seconds.
    #[serde(skip)]
    pub(super) logged: Option<f64>,
}

#[allow(clippy::cast_precision_loss)]
fn apart(predicted: u64, logged: u64) -> Option<f64> {
    (logged > 0).then(|| predicted as f64 / logged as f64 - 1.0)
}

impl LoggedPhase {
    pub(super) fn new(phase: &'static str, predicted: Option<u64>, logged: Option<f64>) -> Self {
        let logged_ns = logged.map(|seconds| plan::nanos(seconds).0);
        let off = predicted.zip(logged_ns).and_then(|(one, other)| apart(one, other));
        Self { phase, predicted_ns: predicted, logged_ns, off, logged }
    }

    /// The time by which the prediction is off.
    fn distance(&self) -> Option<u64> {
        Some(self.predicted_ns?.abs_diff(self.logged_ns?))
    }
}

/// A step that another one predicts, by its own lengths.
#[derive(Serialize, Clone, Debug)]
pub struct HeldStep {
    /// Its number in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    pub predicted_ns: u64,
    pub logged_ns: u64,
    /// The prediction over the logged time, less 1.
    pub off: f64,
}

impl HeldStep {
    pub(super) fn new(step: Option<u64>, predicted_ns: u64, logged: f64) -> Self {
        let logged_ns = plan::nanos(logged).0;
        let off = apart(predicted_ns, logged_ns).unwrap_or(0.0);
        Self { step, predicted_ns, logged_ns, off }
    }
}

/// How far steps are from their predictions that did not calibrate them.
#[derive(Serialize, Clone, Debug)]
pub struct HeldOut {
    /// The median of errors without their signs, and the largest.
    pub median: f64,
    pub largest: f64,
    /// Each of these steps, at most twelve, spread over the log.
    pub steps: Vec<HeldStep>,
}

impl HeldOut {
    pub(super) fn of(steps: Vec<HeldStep>) -> Option<Self> {
        let mut errors: Vec<f64> = steps.iter().map(|step| step.off.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let (median, largest) = (*errors.get(errors.len() / 2)?, *errors.last()?);
        Some(Self { median, largest, steps })
    }
}

/// What the log of a run says of its steps.
#[derive(Serialize, Clone, Debug)]
pub struct LoggedSteps {
    /// The number of the step that calibrates: the one of median time past the warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Steps that count.
    pub counted: usize,
    /// Runs in the log, of which the last counts.
    pub runs: usize,
    /// Steps that do not count, a phrase for each reason.
    pub left_out: Vec<String>,
    /// The phases of the step that calibrates, and the step.
    pub phases: Vec<LoggedPhase>,
    /// Mean tokens of its prompts.
    pub prompt_tokens: Option<f64>,
    pub longest_prompt: Option<u32>,
    /// Mean tokens of its responses.
    pub response_tokens: Option<f64>,
    pub longest_response: Option<u32>,
    /// The steps that it predicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
    /// What the log does not say, by name.
    pub unknown: Vec<String>,
}

impl LoggedSteps {
    /// The step that calibrates, by its number.
    fn name(&self) -> String {
        self.step.map_or_else(|| "a step".to_owned(), |number| format!("step {number}"))
    }

    /// The whole step, if the log has it.
    fn whole(&self) -> Option<&LoggedPhase> {
        self.phases.iter().find(|row| row.phase == "step")
    }

    /// The logged step beside its prediction, and the phase whose prediction is furthest off.
    pub(super) fn headline(&self) -> String {
        let time = |nanos: u64| format::rounded_time(Nanos(nanos));
        let both = |row: &LoggedPhase| Some((time(row.predicted_ns?), time(row.logged_ns?)));
        let whole = self.whole().and_then(both).map_or_else(
            || format!("{} of the log has phases, but not their sum", self.name()),
            |(predicted, logged)| {
                format!("{} of the log takes {logged}; {predicted} was predicted", self.name())
            },
        );
        let phases = self.phases.iter().filter(|row| row.phase != "step");
        let worst = phases.max_by_key(|row| row.distance());
        let worst = worst.and_then(|row| {
            let (predicted, logged) = both(row)?;
            Some(format!("; the {} is furthest off: {logged}, predicted {predicted}", row.phase))
        });
        let text = format!("{whole}{}.", worst.unwrap_or_default());
        text[..1].to_uppercase() + &text[1..]
    }

    /// The shortest and longest step that the errors of other steps make of one of `nanos`.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Rough.
    pub(super) fn range(&self, nanos: u64) -> Option<[u64; 2]> {
        let offs = || self.held_out.iter().flat_map(|held| &held.steps).map(|step| step.off);
        let [least, most] = [offs().reduce(f64::min)?, offs().reduce(f64::max)?];
        // A prediction that is too long is of a shorter step.
        Some([most, least].map(|off| (nanos as f64 / (1.0 + off).max(0.01)) as u64))
    }

    /// How far a calibrated step may be off, in words.
    pub(super) fn confidence(&self) -> String {
        match &self.held_out {
            None => "error: unknown, for the log has one step that counts\n".to_owned(),
            Some(HeldOut { median, largest, steps }) => format!(
                "error: calibrated by {} alone, predictions of {} of the log are off by {:.1} % in the median, {:.1} % at \
                 most\n",
                self.name(),
                match steps.len() {
                    1 => "one other step".to_owned(),
                    count => format!("{count} other steps"),
                },
                100.0 * median,
                100.0 * largest,
            ),
        }
    }

    /// The phases beside their predictions, and what is not known.
    pub(super) fn sheet(&self) -> Sheet {
        let table = table!(
            row = &self.phases,
            "logged phase" = row.phase,
            "predicted" = row.predicted_ns.map(|time| format::rounded_time(Nanos(time))),
            "logged" = row.logged.map_or("unknown".to_owned(), in_words),
            "prediction off" = row.off.map(format::signed_percent),
        );
        let runs = match self.runs {
            0 | 1 => String::new(),
            runs => format!("; the last of {runs} runs"),
        };
        let left_out = match self.left_out.is_empty() {
            true => String::new(),
            false => format!("; left out: {}", self.left_out.join(", ")),
        };
        let counted = match self.counted {
            1 => "the only one that counts".to_owned(),
            count => format!("the median of {count} that count"),
        };
        let text = format!("calibrated by {}, {counted}{left_out}{runs}\n", self.name());
        let unknown = self.unknown.iter().map(|one| format!("unknown: {one}\n"));
        table.and_text(text).and_text(unknown.collect::<String>())
    }
}

/// Seconds as the answer says them.
pub(super) fn in_words(seconds: f64) -> String {
    format::rounded_time(plan::nanos(seconds))
}
