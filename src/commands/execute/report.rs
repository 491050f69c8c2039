//! Simulated and measured side by side: as a table, as JSON.

use executor::{Check, HostBound, MeasuredCopy};
use pipeline::{Bytes, Metrics, Nanos, Step, Timeline};
use serde::Serialize;
use sim::HostCopy;

use super::copies::{self, ActivationPeaks};
use super::host_overheads;
use super::job::Published;
use answer::outcome;
use answer::outcome::{Figures, Outcome};
use answer::timelines::{Recorded, median};
use draw::text;
use measured::accuracy;
use question::format;
use question::scenario::Convention;

/// A schedule, simulated and run.
pub struct Ran {
    /// The simulation.
    pub outcome: Outcome,
    /// The published bubble rate, if the scenario has one.
    pub published: Option<Published>,
    /// Prediction by the number of stages busy at each moment, if that was asked.
    pub by_busy_stages: Option<Metrics>,
    /// The measurement.
    pub measured: Recorded,
    /// Updates taken back, and updates left out.
    pub rollbacks: u32,
    /// In how many steps weights were left as they were.
    pub skipped: u32,
    /// Allocations in the steps measured that can hold up a device.
    pub allocations: u64,
    /// By stage, the passes that the host held up; empty where they run on it.
    pub host_bound: Vec<HostBound>,
    /// The activations that stages kept, if they were counted.
    pub held: Option<ActivationPeaks>,
    /// The copies to the host and back of each step.
    pub copied: Vec<Vec<MeasuredCopy>>,
    /// The losses of all updates, where weights change while the pipeline runs.
    pub update_losses: Vec<f64>,
    /// The comparison with the serial reference, if that was asked.
    pub check: Option<Check>,
}

impl Ran {
    /// The step with the median makespan, and its metrics.
    pub fn median(&self) -> (usize, Metrics) {
        let step = median(&self.measured.steps);
        let timeline = self.measured.steps.get(step).map(Step::timeline);
        let timeline = timeline.unwrap_or(Timeline { stages: Vec::new() });
        (step, self.metrics(&timeline))
    }

    /// The metrics of a step that was measured: of its steady state, if the pipeline never flushes.
    fn metrics(&self, timeline: &Timeline) -> Metrics {
        let case = &self.outcome.case;
        match case.steady {
            Some(steady) => steady.metrics(case.schedule.shape(), timeline),
            None => Metrics::of(timeline),
        }
    }

    /// The copies of step number `step`, as they are drawn.
    pub fn copies(&self, step: usize) -> Vec<HostCopy> {
        let copied = self.copied.get(step).map_or(&[][..], |copied| copied);
        copies::drawn(&self.outcome.case, copied)
    }

    /// From the beginning of a step to that of the next, in the median; `None` of a lone step.
    pub fn period(&self) -> Option<Nanos> {
        let began: Vec<u64> = self.measured.steps.iter().map(|step| step.began.0).collect();
        let mut periods: Vec<u64> =
            began.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        periods.sort_unstable();
        periods.get(periods.len().saturating_sub(1) / 2).copied().map(Nanos)
    }

    /// Whether a step begins before all stages have done the passes of the last one.
    fn overlaps(&self) -> bool {
        let last = |step: &Step| {
            let ends = step.stages.iter().filter_map(|slots| slots.last());
            step.began.0 + ends.map(|slot| slot.end.0).max().unwrap_or(0)
        };
        self.measured.steps.windows(2).any(|pair| pair[1].began.0 < last(&pair[0]))
    }

    /// The simulated makespan over the measured, less 1.
    pub fn step_error(&self) -> f64 {
        let (_, measured) = self.median();
        #[allow(clippy::cast_precision_loss)]
        let [simulated, measured] =
            [&self.outcome.metrics, &measured].map(|one| one.makespan().0 as f64);
        accuracy::error(simulated, measured)
    }

    /// Measured less simulated, by span and by makespan, in percentage points.
    pub fn points(&self) -> [f64; 2] {
        self.points_from(&self.outcome.metrics)
    }

    /// The same of the prediction that a run is judged by.
    pub fn judged_points(&self) -> [f64; 2] {
        self.points_from(self.judged())
    }

    /// The prediction that a run is judged by: by busy stages, if that was asked, or else the simulation.
    fn judged(&self) -> &Metrics {
        self.by_busy_stages.as_ref().unwrap_or(&self.outcome.metrics)
    }

    fn points_from(&self, simulated: &Metrics) -> [f64; 2] {
        let (_, measured) = self.median();
        let by_makespan = measured.bubble_rate_makespan() - simulated.bubble_rate_makespan();
        [measured.bubble_rate() - simulated.bubble_rate(), by_makespan].map(|rate| 100.0 * rate)
    }
}

/// Schedules whose simulated bubble rates differ by less than this come in no order.
const ALIKE: f64 = 0.001;

/// The pairs of schedules of one setting that come in another order than simulated, by busy stages if that
/// was asked, the better one of the simulation first.
pub fn swapped(all: &[Ran]) -> Vec<(String, String)> {
    let rates = |one: &Ran| (one.judged().bubble_rate(), one.median().1.bubble_rate());
    let mut swapped = Vec::new();
    for one in all {
        for other in all {
            let same = one.outcome.case.setting == other.outcome.case.setting;
            let ((simulated, measured), (second, second_measured)) = (rates(one), rates(other));
            if same && simulated + ALIKE < second && measured > second_measured {
                swapped.push((outcome::title(&one.outcome), outcome::title(&other.outcome)));
            }
        }
    }
    swapped
}

/// The note about updates that were left out, if any were.
pub fn left_out(updates: u32) -> Option<String> {
    let (s, were) = if updates == 1 { ("", "was") } else { ("s", "were") };
    (updates > 0).then(|| {
        format!(
            "{updates} update{s} {were} left out for a NaN or an infinity in the gradients: lower \
             --learning-rate"
        )
    })
}

/// The note about allocations in steps that were measured, if there were any.
pub fn allocated(allocations: u64) -> Option<String> {
    (allocations > 0).then(|| {
        format!(
            "memory was allocated in measured steps, {allocations} times, which can hold up all of a \
             GPU: raise --warm-up"
        )
    })
}

/// The table, and whether the schedules come in the simulated order.
pub fn text(all: &[Ran]) -> String {
    let named = all.iter().any(|one| one.outcome.case.setting.is_some());
    let has_loss = all.iter().any(|one| loss(one).is_some());
    let mut header = vec!["schedule", "p", "m", "v", "bubble, simulated", "measured", "difference"];
    header.extend(["/makespan, simulated", "measured", "difference"]);
    header.extend(["makespan, simulated", "measured", "difference"]);
    if has_loss {
        header.push("loss");
    }
    let is_published = all.iter().any(|one| one.published.is_some());
    if is_published {
        header.extend(["published", "of"]);
    }
    if named {
        header.insert(0, "setting");
    }
    let rows = all.iter().map(|one| {
        let mut row = row(one);
        if has_loss {
            row.push(loss(one).map_or_else(|| "-".to_owned(), |loss| format!("{loss:.4}")));
        }
        if is_published {
            row.extend(published(one));
        }
        if named {
            row.insert(0, one.outcome.case.setting.clone().unwrap_or_default());
        }
        row
    });
    let mut text = text::table(&header, rows) + &by_busy_stages(all);
    if all.iter().any(|one| one.check.is_some()) {
        text.push('\n');
    }
    for one in all {
        if let Some(check) = &one.check {
            let name = outcome::title(&one.outcome);
            let verdict = if check.holds() { "equals" } else { "DIFFERS from" };
            text += &format!(
                "{name} {verdict} the serial reference: loss off by {:.1e}, gradients by {:.1e}, \
                 of {:.0e} allowed\n",
                check.loss_error, check.gradient_error, check.tolerance
            );
        }
    }
    for one in all.iter().filter(|one| one.outcome.case.schedule.copies().is_some()) {
        if let Some(held) = &one.held {
            text += &format!("{} {}\n", outcome::title(&one.outcome), held.text());
        }
    }
    let named = all.iter().map(|one| (outcome::title(&one.outcome), &one.host_bound[..]));
    text + &periods(all) + &host_overheads::table(named) + &order(all)
}

/// A line for each run whose steps overlap: their makespans say little about how many there are in a second.
fn periods(all: &[Ran]) -> String {
    let line = |one: &Ran| {
        let period = one.period().filter(|_| one.overlaps())?;
        let (_, measured) = one.median();
        Some(format!(
            "{}: steps overlap: one begins every {}, and its makespan is {}\n",
            outcome::title(&one.outcome),
            format::time(period),
            format::time(measured.makespan()),
        ))
    };
    let lines: String = all.iter().filter_map(line).collect();
    if lines.is_empty() { lines } else { "\n".to_owned() + &lines }
}

/// The table of predictions by busy stages, if that was asked.
fn by_busy_stages(all: &[Ran]) -> String {
    let rows = all.iter().filter_map(|one| {
        let (predicted, (_, measured)) = (one.by_busy_stages.as_ref()?, one.median());
        let [points, _] = one.judged_points();
        let makespans = [predicted, &measured].map(Metrics::makespan);
        #[allow(clippy::cast_precision_loss)]
        let [first, second] = makespans.map(|time| time.0 as f64);
        Some(vec![
            outcome::title(&one.outcome),
            format::percent(predicted.bubble_rate()),
            format::percent(measured.bubble_rate()),
            format!("{points:+.2} pp"),
            format::time(makespans[0]),
            format::time(makespans[1]),
            format::signed_percent(-accuracy::error(first, second)),
        ])
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = ["by busy stages", "bubble, predicted", "measured", "difference"];
    let header = [&header[..], &["makespan, predicted", "measured", "difference"]].concat();
    "\n".to_owned() + &text::table(&header, rows)
}

fn order(all: &[Ran]) -> String {
    let mut settings: Vec<&Option<String>> =
        all.iter().map(|one| &one.outcome.case.setting).collect();
    settings.dedup();
    if settings.len() == all.len() {
        return String::new();
    }
    let swapped = swapped(all);
    let by_busy_stages = all.iter().any(|one| one.by_busy_stages.is_some());
    let simulated = if by_busy_stages { "order by busy stages" } else { "simulated order" };
    if swapped.is_empty() {
        return format!("\nThe schedules come in the {simulated}.\n");
    }
    let pairs: Vec<String> =
        swapped.iter().map(|(one, other)| format!("{one} after {other}")).collect();
    format!("\nNot in the {simulated}: {}.\n", pairs.join(", "))
}

fn row(one: &Ran) -> Vec<String> {
    let (case, simulated) = (&one.outcome.case, &one.outcome.metrics);
    let (_, measured) = one.median();
    let shape = case.schedule.shape();
    let [by_span, by_makespan] = one.points();
    let makespans = [simulated.makespan(), measured.makespan()];
    #[allow(clippy::cast_precision_loss)]
    let seconds = makespans.map(|time| time.0 as f64);
    vec![
        case.name.clone(),
        shape.stages().to_string(),
        case.microbatches().to_string(),
        shape.chunks_per_stage().to_string(),
        format::percent(simulated.bubble_rate()),
        format::percent(measured.bubble_rate()),
        format!("{by_span:+.2} pp"),
        format::percent(simulated.bubble_rate_makespan()),
        format::percent(measured.bubble_rate_makespan()),
        format!("{by_makespan:+.2} pp"),
        format::time(makespans[0]),
        format::time(makespans[1]),
        format::signed_percent(-accuracy::error(seconds[0], seconds[1])),
    ]
}

/// The published bubble rate in percent, and its sources.
fn published(one: &Ran) -> [String; 2] {
    let Some(Published { rate, convention }) = &one.published else {
        return ["-".to_owned(), "-".to_owned()];
    };
    let rate = rate.parse().map_or_else(|_| rate.clone(), format::percent);
    [rate, convention.map_or("-", Convention::name).to_owned()]
}

/// The loss of the last step.
fn loss(one: &Ran) -> Option<f64> {
    one.measured.steps.last().and_then(|step| step.loss)
}

/// One element of `results`: that of `simulate`, and the measurement.
#[derive(Serialize)]
pub struct Json<'a> {
    #[serde(flatten)]
    simulated: outcome::OutcomeJson<'a>,
    /// Prediction by the number of stages busy at each moment; absent unless that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated_by_busy_stages: Option<Figures>,
    measured: Measured<'a>,
}

#[derive(Serialize)]
struct Measured<'a> {
    /// The step with the median makespan.
    #[serde(flatten)]
    median: outcome::OutcomeJson<'a>,
    device: &'a str,
    /// From the beginning of a step to that of the next, in the median; null of a lone step.
    period_ns: Option<u64>,
    /// Which of `steps` that is.
    step: usize,
    steps: Vec<JsonStep>,
    rollbacks: u32,
    skipped: u32,
    /// Allocations in the steps measured that can hold up a device.
    allocations: u64,
    /// By stage, the passes that the host held up; absent where they run on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    host_bound: Vec<host_overheads::StageJson>,
    /// By stage, the most activations that it holds by the times that its copies to the host were
    /// planned with; absent without copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    planned_peak_activation_bytes: Option<Vec<u64>>,
    /// The losses of all updates of the steps; absent where weights change only between steps.
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    update_losses: &'a [f64],
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<JsonCheck>,
}

#[derive(Serialize)]
struct JsonCheck {
    loss_error: f64,
    gradient_error: f64,
    tolerance: f64,
}

impl From<Check> for JsonCheck {
    fn from(check: Check) -> Self {
        let Check { loss_error, gradient_error, tolerance } = check;
        Self { loss_error, gradient_error, tolerance }
    }
}

#[derive(Serialize)]
struct JsonStep {
    span_ns: u64,
    makespan_ns: u64,
    /// Until every stage was done with the step, its share of the norm and the optimizer too.
    end_ns: u64,
    bubble_rate: f64,
    bubble_rate_makespan: f64,
    loss: Option<f64>,
}

impl JsonStep {
    fn of(ran: &Ran, step: &Step) -> Self {
        let metrics = ran.metrics(&step.timeline());
        Self {
            span_ns: metrics.span().0,
            makespan_ns: metrics.makespan().0,
            end_ns: step.ends.iter().max().map_or(0, |end| end.0),
            bubble_rate: metrics.bubble_rate(),
            bubble_rate_makespan: metrics.bubble_rate_makespan(),
            loss: step.loss,
        }
    }
}

impl<'a> From<&'a Ran> for Json<'a> {
    fn from(one: &'a Ran) -> Self {
        let (step, metrics) = one.median();
        let bytes = |all: &[Bytes]| all.iter().map(|one| one.0).collect::<Vec<_>>();
        let median = one.outcome.json_of(&metrics);
        let has_copies = one.outcome.case.schedule.copies().is_some();
        Self {
            simulated: one.outcome.json(),
            simulated_by_busy_stages: one.by_busy_stages.as_ref().map(Into::into),
            measured: Measured {
                median: match &one.held {
                    Some(held) => median.with_peaks(bytes(&held.measured)),
                    None => median,
                },
                planned_peak_activation_bytes: one
                    .held
                    .as_ref()
                    .filter(|_| has_copies)
                    .map(|held| bytes(&held.planned)),
                device: &one.measured.device,
                period_ns: one.period().map(|period| period.0),
                step,
                steps: one.measured.steps.iter().map(|step| JsonStep::of(one, step)).collect(),
                rollbacks: one.rollbacks,
                skipped: one.skipped,
                allocations: one.allocations,
                host_bound: host_overheads::json(&one.host_bound),
                update_losses: &one.update_losses,
                check: one.check.map(Into::into),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_that_were_left_out_are_told() {
        assert_eq!(left_out(0), None);
        let one = left_out(1).unwrap_or_default();
        assert!(one.starts_with("1 update was left out for a NaN"), "{one}");
        let more = left_out(3).unwrap_or_default();
        assert!(more.starts_with("3 updates were left out"), "{more}");
    }
}
