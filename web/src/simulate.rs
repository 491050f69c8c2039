//! Schedules side by side: their figures, and their timelines as the page draws them.

use answer::explain::report as why;
use answer::front::Standing;
use answer::outcome::{self, Outcome};
use answer::simulate::{Wants, point, report};
use draw::html::Drawing;
use draw::pictures::explain as pictures;
use pipeline::{Bytes, Limits, Span, Timeline};
use question::keys::Keys;
use question::scenario::Scenario;
use question::{Context, Diagnostic, format, object};
use serde::{Deserialize, Serialize};

use crate::edit::{self, Changes};
use crate::sheet::parts;
use crate::text::scenario;
use crate::wording::said;

/// The most passes of all schedules and steps of a question: some hundred megabytes.
const MOST_PASSES: u64 = 3_000_000;
/// The most passes that are drawn.
const MOST_DRAWN: u64 = 300_000;

/// A question for [`answer::simulate`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The scenario.
    text: String,
    /// Keys of it that are changed first.
    #[serde(default)]
    change: Changes,
    /// The schedules, in place of those of the scenario.
    #[serde(default)]
    schedules: Option<Vec<String>>,
    /// Whether to answer for the schedules that can do the question, where some cannot.
    #[serde(default)]
    partial: bool,
    /// Whether to say why stages wait.
    #[serde(default)]
    explain: bool,
    /// Whether to say which of all schedules that apply is the best.
    #[serde(default)]
    applicable: bool,
    /// Whether to say which schedules nothing beats in bubble and memory.
    #[serde(default)]
    front: bool,
    /// Whether to give the timelines, slot by slot.
    #[serde(default)]
    timelines: bool,
    /// How the timelines are wanted as the page draws them.
    #[serde(default)]
    draw: Draw,
}

/// The detail of drawn timelines.
#[derive(Deserialize, Default, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Draw {
    /// None.
    #[default]
    None,
    /// Passes and the waits before them: as fast as possible.
    Passes,
    /// The causes of each gap and all transfers, too.
    All,
}

/// A timeline, slot by slot.
#[derive(Serialize, Default)]
struct Columns {
    title: String,
    stage: Vec<usize>,
    slot: Vec<String>,
    start: Vec<u64>,
    end: Vec<u64>,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let text = edit::changed(self.text, &self.change)?;
        let scenario = scenario(context, text.clone())?;
        let flags = Keys { schedule: self.schedules, ..Keys::default() };
        let scenario = scenario.with(context, &flags)?;
        check_size(context, &scenario)?;
        let wants = Wants {
            explanation: self.explain,
            front: self.front,
            runs: self.draw != Draw::None,
            partial: self.partial,
            ..Wants::default()
        };
        let mut answers = answer::simulate::simulate(context, &scenario, wants)?;
        answers.refused.iter_mut().for_each(|one| one.reason = said(&one.reason));
        let outcomes = &answers.outcomes[..];
        let drawn = outcomes.iter().filter(|_| self.timelines);
        let columns = |one| Ok(Columns::of(outcome::title(one), &*outcome::timeline(one)?));
        let timelines = drawn.map(columns).collect::<Result<Vec<_>, Diagnostic>>()?;
        let (drawing, not_drawn) = drawing(outcomes, self.draw)?;
        let speedups = answer::simulate::speedups(context, &scenario, &answers);
        let sheet = parts(report::sheet(&answers));
        let applicable = self.applicable.then(|| applicable(context, &scenario)).flatten();
        let points: Vec<_> =
            outcomes.iter().zip(speedups).map(|(one, faster)| in_plane(one, faster)).collect();
        let why = outcomes.iter().filter_map(why_it_waits).collect::<Result<Vec<_>, _>>()?;
        Ok(object!(
            // The scenario that was answered, as a file.
            text = text,
            // Output of the command line: as JSON, and as text with the parts that belong to each table.
            flat(answers) = answers,
            sheet = sheet,
            // The best of all schedules that apply, if it was asked and they are few enough.
            applicable = applicable,
            // By result, the standing in bubble and memory.
            points = points,
            // The timelines of all results, if they were asked for; the same as the page draws them, or why they are not
            // drawn.
            timelines = timelines,
            (drawing, not_drawn) = (drawing, not_drawn),
            // By result, why stages wait, if it was asked.
            why = why,
        ))
    }
}

/// Refuses a question of more passes than a browser can bear.
fn check_size(context: &Context<'_>, scenario: &Scenario) -> Result<(), Diagnostic> {
    let mut passes = 0u64;
    for setting in &scenario.settings {
        let steps = u64::from(setting.keys.hardware.steps.unwrap_or(1));
        for one in cases::selected(context, scenario, setting)? {
            let forwards = cases::forwards(setting, &one.rule);
            passes = passes.saturating_add(forwards.saturating_mul(3).saturating_mul(steps));
        }
    }
    if passes <= MOST_PASSES {
        return Ok(());
    }
    let message = format!("{passes} passes are too many for this page: at most {MOST_PASSES}");
    Err(Diagnostic::new(message)
        .with_help("ask for fewer stages, microbatches or schedules, or ask the command line"))
}

/// The timelines of `outcomes` as the page draws them, or why they are not drawn.
fn drawing(
    outcomes: &[Outcome],
    draw: Draw,
) -> Result<(Option<Drawing>, Option<String>), Diagnostic> {
    let passes = pictures::passes(outcomes);
    if draw == Draw::None {
        return Ok((None, None));
    }
    if passes > MOST_DRAWN {
        let why = format!("{passes} passes are too many to be drawn: at most {MOST_DRAWN}");
        return Ok((None, Some(why)));
    }
    let all = draw == Draw::All;
    // A schedule of passes that take no time has figures, and no picture.
    let timed = |outcome: &Outcome| outcome.metrics.makespan().0 > 0;
    if !outcomes.iter().any(timed) {
        return Ok((None, Some("no pass takes time".to_owned())));
    }
    pictures::drawing(outcomes, all, all).map(|drawing| (Some(drawing), None))
}

/// The best of all schedules that apply to `scenario`, where a browser bears them.
fn applicable(context: &Context<'_>, scenario: &Scenario) -> Option<impl Serialize + use<>> {
    // Replicas of all schedules are too much for an answer that nobody asked for.
    if scenario.settings.iter().any(|setting| setting.keys.replicas.is_some()) {
        return None;
    }
    let quiet = Context::new(context.host());
    let flags = Keys { schedule: Some(vec![question::source::ALL.to_owned()]), ..Keys::default() };
    let scenario = scenario.clone().with(&quiet, &flags).ok()?;
    check_size(&quiet, &scenario).ok()?;
    let answers = answer::simulate::simulate(&quiet, &scenario, Wants::default()).ok()?;
    let best = answers.by_setting().into_iter().filter_map(|setting| {
        answer::simulate::best(setting).map(|at| setting[at].case.name.clone())
    });
    // The headline of their answer, and the best of each setting.
    Some(object!(headline = answers.headline(), [best] = best))
}

/// A result in the plane of bubble and memory.
fn in_plane(outcome: &Outcome, faster: Option<f64>) -> impl Serialize + use<> {
    let (memory, bubble) = point(outcome);
    let (_, peak) = outcome.worst();
    let limits = outcome.case.limits.as_ref();
    let amount = |bytes: Bytes| amount(outcome, bytes);
    let stages = 0..outcome.memory.peak.len();
    object!(
        title = outcome::title(outcome),
        schedule = outcome.case.name.clone(),
        // The bubble rate and the peak memory, each as a number and in words.
        bubble = (bubble, format::percent(bubble)),
        memory = (memory, outcome.size_in_words(peak)),
        // The memory limit in words, where it is the same for all stages.
        limit = limits.and_then(Limits::same).map(|limit| outcome.size_in_words(limit)),
        // Peaks and limits of the stages, in the unit of `memory`.
        stages = object!(
            [peaks] = outcome.memory.peak.iter().copied().map(amount),
            limits = limits
                .map(|limits| stages.map(|stage| amount(limits.of(stage))).collect::<Vec<_>>()),
        ),
        // Whether it keeps all limits, if there are any.
        fits = outcome.fits_in_memory(),
        // Whether it never flushes, so that it is not compared.
        asynchronous = outcome.is_asynchronous(),
        // Its speed-up over 1F1B.
        faster = faster,
        // Its standing among all results, if that was asked.
        standing = outcome.standing.map(Standing::name),
    )
}

/// `bytes` of `outcome`, or multiples of M_B where no sizes are known.
#[allow(clippy::cast_precision_loss)]
fn amount(outcome: &Outcome, bytes: Bytes) -> f64 {
    if outcome.case.has_footprints { bytes.0 as f64 } else { outcome.in_microbatches(bytes) }
}

/// Why the stages of `outcome` wait, in words, and the savings of changes as a picture, if that was asked.
fn why_it_waits(outcome: &Outcome) -> Option<Result<impl Serialize + use<>, Diagnostic>> {
    let explanation = outcome.explanation.as_ref()?;
    let title = outcome::title(outcome);
    let sheet = parts(why::sheet(&title, explanation));
    let svg = pictures::tornado(std::slice::from_ref(outcome), None);
    Some(svg.map(|svg| object!(title = title, sheet = sheet, svg = svg)))
}

impl Columns {
    fn of(title: String, timeline: &Timeline) -> Self {
        let mut all = Self { title, ..Self::default() };
        for (stage, spans) in timeline.stages.iter().enumerate() {
            spans.iter().for_each(|span| all.add(stage, span));
        }
        all
    }

    fn add(&mut self, stage: usize, span: &Span) {
        self.stage.push(stage);
        self.slot.push(span.slot.to_string());
        self.start.push(span.start.0);
        self.end.push(span.end.0);
    }
}

#[cfg(test)]
mod tests;
