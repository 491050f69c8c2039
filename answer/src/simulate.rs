//! Schedules side by side: the outcome of each, or why it cannot run the question.

pub mod baseline;
mod best;
pub mod headline;
pub mod report;

use cases::{Case, Selected};
use question::diagnostic::Fault;
use question::host::announce_estimate;
use question::scenario::{Scenario, Setting};
use question::simulate::Sort;
use question::{Context, Diagnostic, Warnings, object};
use serde::{Serialize, Serializer};
use sim::{Details, Replay};

use crate::front::{Candidate, standings};
use crate::outcome::Outcome;
pub use best::{best, speedups};

/// The most passes of all orders that `all` stands for: some gigabytes.
const MOST_PASSES: u64 = 100_000_000;

/// The answers of a scenario.
pub struct Answers {
    /// The schedules that were simulated, setting by setting.
    pub outcomes: Vec<Outcome>,
    /// How many of them belong to each setting.
    pub sizes: Vec<usize>,
    /// Those that cannot do the question, where that refuses them alone.
    pub refused: Vec<Refused>,
    /// Whether some setting asks for all families.
    pub all: bool,
    /// Whether the run was stopped: the answer lacks schedules not yet simulated or explained.
    pub interrupted: bool,
}

impl Serialize for Answers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        object!(
            headline = self.headline(),
            [results] = self.outcomes.iter().map(Outcome::json),
            some(refused) = (self.all || !self.refused.is_empty()).then_some(&self.refused),
            some(interrupted) = self.interrupted.then_some(true),
        )
        .serialize(serializer)
    }
}

/// The details that are wanted of every schedule, beside its times and memory.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wants {
    /// Why stages wait, and the savings of changes.
    pub explanation: bool,
    /// The same of each gap between two slots, for a page.
    pub gaps: bool,
    /// The schedules whose timelines are drawn.
    pub timelines: Timelines,
    /// Everything that happens in a run, transfers too: for traces, pages and recorded timelines.
    pub runs: bool,
    /// Which schedules of a setting nothing beats in bubble and memory; `all` always says it.
    pub front: bool,
    /// The order of the schedules of a setting; as asked, unless given.
    pub sort: Option<Sort>,
    /// Whether a schedule that is named by itself and cannot do its question is refused as one that `all`
    /// stands for, in place of the whole question.
    pub partial: bool,
    /// Whether nothing but figures will be read of outcomes, and no order, timeline or run, now or later: long steps
    /// may then be timed by the period of their order.
    pub figures_alone: bool,
}

/// The schedules whose timelines are drawn, with the copies of activations to the host.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Timelines {
    #[default]
    None,
    /// Orders of fewer passes than this.
    Below(usize),
    All,
}

impl Wants {
    /// Whether figures are all that is wanted.
    fn are_figures(&self) -> bool {
        let drawn = match self.timelines {
            Timelines::None => false,
            Timelines::Below(passes) => passes > cases::FEW_FORWARDS,
            Timelines::All => true,
        };
        self.figures_alone && !(drawn || self.explanation || self.gaps || self.runs)
    }

    /// The details of the run of `case` that are kept for all this.
    fn details(&self, case: &Case) -> Details {
        let drawn = match self.timelines {
            Timelines::None => false,
            Timelines::Below(passes) => case.passes() < passes,
            Timelines::All => true,
        };
        let copies = drawn && case.schedule.copies().is_some();
        Details { timeline: drawn, run: copies || self.runs, causes: self.explanation }
    }
}

impl Answers {
    /// The outcomes of each setting.
    #[must_use]
    pub fn by_setting(&self) -> Vec<&[Outcome]> {
        let mut rest = &self.outcomes[..];
        let parts = self.sizes.iter().map(|&size| {
            let (part, others) = rest.split_at(size);
            rest = others;
            part
        });
        parts.collect()
    }

    /// Calls `change` with the outcomes of each setting.
    fn each_setting(&mut self, change: impl Fn(&mut [Outcome])) {
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
pub struct Refused {
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
    fn of(setting: &Setting, name: &str, error: &Diagnostic) -> Self {
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

/// Simulates every schedule of every setting of `scenario`, with the details that `wants` names.
pub fn simulate(
    context: &Context<'_>,
    scenario: &Scenario,
    wants: Wants,
) -> Result<Answers, Diagnostic> {
    let mut answers = answers(context, scenario, wants)?;
    if answers.all || wants.front {
        answers.each_setting(mark);
    }
    if let Some(by) = wants.sort {
        answers.each_setting(|setting| sort(setting, by));
    }
    if wants.explanation {
        explain(context, &mut answers.outcomes, wants.gaps)?;
    }
    answers.interrupted = context.cut_short();
    Ok(answers)
}

/// Explains the outcomes that have a step to explain, with each gap if `gaps` are wanted: a run that never
/// flushes has none.
fn explain(context: &Context<'_>, outcomes: &mut [Outcome], gaps: bool) -> Result<(), Diagnostic> {
    let work = context.host().begin(0, "runs for explanations");
    for outcome in outcomes.iter_mut().filter(|one| !one.is_asynchronous()) {
        if context.stopped() {
            break;
        }
        outcome.explanation = Some(outcome.explain(context, gaps, &*work)?);
    }
    Ok(())
}

/// Simulates every schedule of every setting, keeps the details of each run that `wants` needs, and
/// notes keys without effect.
fn answers(
    context: &Context<'_>,
    scenario: &Scenario,
    wants: Wants,
) -> Result<Answers, Diagnostic> {
    let mut questions = Vec::new();
    let mut warnings = Warnings::default();
    for setting in &scenario.settings {
        warnings.add_assumed(context, setting);
        questions.push((setting, cases::selected(context, scenario, setting)?));
    }
    check_size(&questions)?;
    let count: usize = questions.iter().map(|(_, selected)| selected.len()).sum();
    let work = context.host().begin(count as u64, "schedules");
    let mut replay = Replay::new();
    let mut budget = Budget::default();
    let mut simulate = |case: Case| {
        let details = budget.grant(&case, wants.details(&case));
        Outcome::of(case, details, &mut replay)
    };
    let mut answers = Answers {
        outcomes: Vec::new(),
        sizes: Vec::new(),
        refused: Vec::new(),
        all: false,
        interrupted: false,
    };
    for (setting, selected) in &questions {
        let (before, mut first) = (answers.outcomes.len(), None);
        if before > 0 && context.stopped() {
            break;
        }
        for one in selected {
            if answers.outcomes.len() > before && context.stopped() {
                break;
            }
            answers.all |= one.by_all;
            match answer((context, scenario, wants), setting, one, &mut simulate, &mut warnings) {
                Ok(outcome) => answers.outcomes.push(outcome),
                Err(error) if (one.by_all || wants.partial) && is_refusal(&error) => {
                    answers.refused.push(Refused::of(setting, one.rule.name(), &error));
                    first.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            work.inc(1);
        }
        let size = answers.outcomes.len() - before;
        if let (0, Some(error)) = (size, first) {
            return Err(error);
        }
        answers.sizes.push(size);
    }
    drop(work);
    warnings.lines().into_iter().for_each(|line| context.warn(line));
    run_replicas(context, &mut answers.outcomes)?;
    Ok(answers)
}

/// Refuses more orders for `all` than can be held at once.
fn check_size(questions: &[(&Setting, Vec<Selected>)]) -> Result<(), Diagnostic> {
    let of = |(setting, selected): &(&Setting, Vec<Selected>)| {
        let all = selected.iter().filter(|one| one.by_all);
        all.map(|one| 3 * cases::forwards(setting, &one.rule)).sum::<u64>()
    };
    let passes = questions.iter().map(of).fold(0u64, u64::saturating_add);
    if passes <= MOST_PASSES {
        return Ok(());
    }
    let message = format!("`all` has {passes} passes: at most {MOST_PASSES} together");
    Err(Diagnostic::new(message).with_help("name fewer schedules, or ask one setting at a time"))
}

/// Whether `error` is about the question, which another family may do, and not about a file.
const fn is_refusal(error: &Diagnostic) -> bool {
    matches!(error.fault, Fault::Question)
}

fn answer(
    (context, scenario, wants): (&Context<'_>, &Scenario, Wants),
    setting: &Setting,
    one: &Selected,
    simulate: &mut impl FnMut(Case) -> Result<Outcome, Diagnostic>,
    warnings: &mut Warnings,
) -> Result<Outcome, Diagnostic> {
    let case = match wants.are_figures() {
        true => cases::figures(context, scenario, setting, &one.rule)?,
        false => cases::case(context, scenario, setting, &one.rule)?,
    };
    warnings.add_ignored(setting, &one.rule);
    warnings.add_idle_links(setting, &case.schedule, &case.name);
    warnings.add_spread(case.hardware.as_ref(), &case.name);
    let outcome = simulate(case)?;
    if outcome.overlaps_near_limit() {
        warnings.add(NEAR_LIMIT, &outcome.case.name);
    }
    Ok(outcome)
}

/// Warning about overlap close to the memory limit.
const NEAR_LIMIT: &str = "its peak is within 5 % of the memory there is, and no model of streams knows what \
     overlap costs there: a measured step took 64 to 83 s with overlap and 23.5 s without (Qwen3.5-35B on 16 \
     H100, Megatron-Bridge): leave room, or measure";

/// The most passes of all runs that are kept, at about 100 bytes each, so that a question of many schedules
/// takes no more memory than one of few. A run that was not kept is simulated again when it is needed.
const MOST_KEPT: u64 = 4_000_000;

/// The passes kept so far, of [`MOST_KEPT`].
#[derive(Default)]
struct Budget {
    kept: u64,
}

impl Budget {
    /// The part of `details` that can be kept. The first run on hardware always is: the engine needs more
    /// memory for it than keeping it takes.
    fn grant(&mut self, case: &Case, details: Details) -> Details {
        let steps = case.hardware.as_ref().map_or(1, |hardware| hardware.steps);
        let passes = (case.passes() as u64).saturating_mul(u64::from(steps));
        let is_first = self.kept == 0 && case.hardware.is_some();
        let sum = self.kept.saturating_add(passes);
        if details == Details::default() || (sum > MOST_KEPT && !is_first) {
            return Details::default();
        }
        self.kept = sum;
        details
    }
}

/// Least number of passes per second that replicas time on one core: the announced time is too long
/// rather than too short.
const PASSES_PER_SECOND: u64 = 10_000_000;
/// The same of the event engine.
const ENGINE_PASSES_PER_SECOND: u64 = 2_000_000;

/// Runs the replicas that were asked for; after a Ctrl-C those of the schedules that were begun, as
/// far as they got.
fn run_replicas(context: &Context<'_>, outcomes: &mut [Outcome]) -> Result<(), Diagnostic> {
    let total = outcomes.iter().filter_map(Outcome::asked_replicas).sum::<u64>();
    announce(context, outcomes, total);
    let work = context.host().begin(total, "replicas");
    for (at, outcome) in outcomes.iter_mut().enumerate() {
        if at > 0 && outcome.asked_replicas().is_some() && context.stopped() {
            break;
        }
        outcome.run_replicas(|| work.inc(1), || context.stopped())?;
    }
    Ok(())
}

/// Says before replicas are run if they take minutes.
fn announce(context: &Context<'_>, outcomes: &[Outcome], total: u64) {
    if total == 0 {
        return;
    }
    let passes = |outcome: &Outcome| {
        let slow = PASSES_PER_SECOND / ENGINE_PASSES_PER_SECOND;
        let weight = outcome.case.hardware.as_ref().map_or(1, |one| slow * u64::from(one.steps));
        let replicas = outcome.asked_replicas().unwrap_or(0);
        u128::from(replicas) * outcome.case.schedule.passes() as u128 * u128::from(weight)
    };
    let all = outcomes.iter().map(passes).sum();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    announce_estimate(context.host(), all, PASSES_PER_SECOND * cores, &format!("{total} replicas"));
}

/// Peak memory and bubble, the figures of the front. Memory is bytes where sizes are known, and else
/// multiples of M_B: units differ between families.
#[must_use]
pub fn point(outcome: &Outcome) -> (f64, f64) {
    (memory(outcome), outcome.metrics.bubble_rate())
}

#[allow(clippy::cast_precision_loss)]
fn memory(outcome: &Outcome) -> f64 {
    let (_, peak) = outcome.worst();
    match outcome.case.has_footprints {
        true => peak.0 as f64,
        false => outcome.in_microbatches(peak),
    }
}

/// Marks the standing of the outcomes of one setting, the same for table, JSON and picture.
fn mark(setting: &mut [Outcome]) {
    let candidate = |outcome: &Outcome| {
        let (at, asynchronous) = (point(outcome), outcome.is_asynchronous());
        Candidate::of_schedule(at, outcome.fits_in_memory(), asynchronous)
    };
    let all: Vec<Candidate> = setting.iter().map(candidate).collect();
    for (outcome, standing) in setting.iter_mut().zip(standings(&all)) {
        outcome.standing = Some(standing);
    }
}

/// Sorts the outcomes of one setting, asynchronous ones behind those that they do not compare with; ties keep their
/// order.
fn sort(setting: &mut [Outcome], by: Sort) {
    match by {
        Sort::Bubble => setting.sort_by(|a, b| point(a).1.total_cmp(&point(b).1)),
        Sort::Memory => setting.sort_by(|a, b| memory(a).total_cmp(&memory(b))),
        Sort::Step => setting.sort_by_key(|outcome| outcome.metrics.span()),
    }
    setting.sort_by_key(Outcome::is_asynchronous);
}

#[cfg(test)]
mod figures_tests;
#[cfg(test)]
mod tests;
