//! What is asked, and what each schedule answers or why it cannot.

use serde::Serialize;
use sim::{Replay, Wants};

use crate::commands::Notes;
use crate::error::Error;
use crate::interrupt;
use crate::outcome::Outcome;
use crate::progress;
use crate::question::{self, Case, Selected};
use crate::scenario::{Scenario, Setting};

/// The most passes of all orders that `all` stands for: some gigabytes.
const MOST_PASSES: u64 = 100_000_000;

/// What a scenario came to.
pub(super) struct Answers {
    /// The schedules that were simulated, setting by setting.
    pub outcomes: Vec<Outcome>,
    /// How many of them belong to each setting.
    pub sizes: Vec<usize>,
    /// Those that `all` stands for and that cannot do the question.
    pub refused: Vec<Refused>,
    /// Whether some setting asks for all families.
    pub all: bool,
}

impl Answers {
    /// The outcomes of each setting.
    pub(super) fn by_setting(&self) -> Vec<&[Outcome]> {
        let mut rest = &self.outcomes[..];
        let parts = self.sizes.iter().map(|&size| {
            let (part, others) = rest.split_at(size);
            rest = others;
            part
        });
        parts.collect()
    }

    /// Calls `change` with the outcomes of each setting.
    pub(super) fn each_setting(&mut self, change: impl Fn(&mut [Outcome])) {
        let mut rest = &mut self.outcomes[..];
        for &size in &self.sizes {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(size);
            change(part);
            rest = others;
        }
    }
}

/// A family that cannot do a question.
#[derive(Serialize)]
pub(super) struct Refused {
    /// Name of the setting, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// Name of the family.
    pub schedule: String,
    /// Why it cannot.
    pub reason: String,
}

impl Refused {
    /// Why the family `name` cannot do `setting`. The error says where and for whom, which stand
    /// beside the reason already.
    fn of(setting: &Setting, name: &str, error: &Error) -> Self {
        let text = error.to_string();
        let mut reason = &text[..];
        if let Some(setting) = &setting.name {
            reason = strip(reason, setting, ": ");
        }
        if let Some((_, rest)) = reason.split_once(": ").filter(|(key, _)| is_flag(key)) {
            reason = rest;
        }
        reason = strip(strip(reason, name, ": "), name, " ");
        Self { setting: setting.name.clone(), schedule: name.to_owned(), reason: reason.to_owned() }
    }
}

fn is_flag(word: &str) -> bool {
    word.starts_with("--") && !word.contains(' ')
}

/// `text` without `name` and `end` in front.
fn strip<'a>(text: &'a str, name: &str, end: &str) -> &'a str {
    text.strip_prefix(name).and_then(|rest| rest.strip_prefix(end)).unwrap_or(text)
}

/// Simulates every schedule of every setting, keeps of each run what it `wants`, and notes what had no
/// influence.
///
/// # Errors
/// If a schedule that is named by itself cannot do its question, or no schedule of a setting can.
pub(super) fn answers(
    scenario: &Scenario,
    wants: impl Fn(&Case) -> Wants,
) -> Result<Answers, Error> {
    let mut questions = Vec::new();
    let mut notes = Notes::default();
    for setting in &scenario.settings {
        notes.add_assumed(setting);
        questions.push((setting, question::selected(scenario, setting)?));
    }
    check_size(&questions)?;
    interrupt::listen();
    let count = questions.iter().map(|(_, selected)| selected.len()).sum();
    let bar = progress::bar(count, "schedules");
    let mut replay = Replay::new();
    let mut budget = Budget::default();
    let mut simulate = |case: Case| {
        let wants = budget.grant(&case, wants(&case));
        Outcome::of(case, wants, &mut replay)
    };
    let mut answers =
        Answers { outcomes: Vec::new(), sizes: Vec::new(), refused: Vec::new(), all: false };
    for (setting, selected) in &questions {
        let (before, mut first) = (answers.outcomes.len(), None);
        if before > 0 && interrupt::asked() {
            break;
        }
        for one in selected {
            if answers.outcomes.len() > before && interrupt::asked() {
                break;
            }
            answers.all |= one.by_all;
            match answer(scenario, setting, one, &mut simulate, &mut notes) {
                Ok(outcome) => answers.outcomes.push(outcome),
                Err(error) if one.by_all && is_refusal(&error) => {
                    answers.refused.push(Refused::of(setting, one.rule.name(), &error));
                    first.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            bar.inc(1);
        }
        let size = answers.outcomes.len() - before;
        if let (0, Some(error)) = (size, first) {
            return Err(error);
        }
        answers.sizes.push(size);
    }
    bar.finish_and_clear();
    notes.print();
    run_replicas(&mut answers.outcomes)?;
    Ok(answers)
}

/// Refuses more orders for `all` than can be held at once.
fn check_size(questions: &[(&Setting, Vec<Selected>)]) -> Result<(), Error> {
    let of = |(setting, selected): &(&Setting, Vec<Selected>)| {
        let all = selected.iter().filter(|one| one.by_all);
        all.map(|one| 3 * question::forwards(setting, &one.rule)).sum::<u64>()
    };
    let passes = questions.iter().map(of).fold(0u64, u64::saturating_add);
    if passes <= MOST_PASSES {
        return Ok(());
    }
    let message = format!("`all` comes to {passes} passes: at most {MOST_PASSES} together");
    Err(Error::question(message).with_help("name fewer schedules, or ask one setting at a time"))
}

/// Whether `error` is about the question, which another family may do, and not about a file.
const fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Question { .. } | Error::Scenario { .. })
}

fn answer(
    scenario: &Scenario,
    setting: &Setting,
    one: &Selected,
    simulate: &mut impl FnMut(Case) -> Result<Outcome, Error>,
    notes: &mut Notes,
) -> Result<Outcome, Error> {
    let case = question::case(scenario, setting, &one.rule)?;
    notes.add_ignored(setting, &one.rule);
    notes.add_idle_links(setting, &case);
    simulate(case)
}

/// How many passes of runs are kept, so that a question of many schedules takes no more memory than one
/// of few: about 100 bytes for each. A run that was not kept is simulated again when it is needed.
const MOST_KEPT: u64 = 4_000_000;

/// What is left of [`MOST_KEPT`].
#[derive(Default)]
struct Budget {
    kept: u64,
}

impl Budget {
    /// What of the `wants` can be kept. The first run on hardware always is: the engine needs more
    /// memory for it than keeping it takes.
    fn grant(&mut self, case: &Case, wants: Wants) -> Wants {
        let steps = case.hardware.as_ref().map_or(1, |hardware| hardware.steps);
        let passes = (case.schedule.passes() as u64).saturating_mul(u64::from(steps));
        let is_first = self.kept == 0 && case.hardware.is_some();
        let sum = self.kept.saturating_add(passes);
        if wants == Wants::default() || (sum > MOST_KEPT && !is_first) {
            return Wants::default();
        }
        self.kept = sum;
        wants
    }
}

/// Passes a second that replicas time at least, on one core: what is foretold is too long rather than
/// too short.
const PASSES_PER_SECOND: u64 = 10_000_000;
/// The same of the event engine.
const ENGINE_PASSES_PER_SECOND: u64 = 2_000_000;

/// Runs the replicas that were asked for; after a Ctrl-C those of the schedules that were begun, as
/// far as they got.
fn run_replicas(outcomes: &mut [Outcome]) -> Result<(), Error> {
    let total = outcomes.iter().filter_map(Outcome::asked_replicas).sum::<u64>();
    foretell(outcomes, total);
    let bar = progress::bar(usize::try_from(total).unwrap_or(usize::MAX), "replicas");
    for (at, outcome) in outcomes.iter_mut().enumerate() {
        if at > 0 && outcome.asked_replicas().is_some() && interrupt::asked() {
            break;
        }
        outcome.run_replicas(|| bar.inc(1), interrupt::asked)?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Says before replicas are run if they take minutes.
fn foretell(outcomes: &[Outcome], total: u64) {
    let passes = |outcome: &Outcome| {
        let slow = PASSES_PER_SECOND / ENGINE_PASSES_PER_SECOND;
        let weight = outcome.case.hardware.as_ref().map_or(1, |one| slow * u64::from(one.steps));
        let replicas = outcome.asked_replicas().unwrap_or(0);
        u128::from(replicas) * outcome.case.schedule.passes() as u128 * u128::from(weight)
    };
    let all = outcomes.iter().map(passes).sum();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    progress::foretell(all, PASSES_PER_SECOND * cores, &format!("{total} replicas"));
}
