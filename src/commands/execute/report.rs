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
use question::scenario::Convention;
use question::{format, object, table};

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
    let has_loss = all.iter().any(|one| loss(one).is_some());
    let is_published = all.iter().any(|one| one.published.is_some());
    let table = table!(
        (one, case, metrics, [by_span, by_makespan]) = all.iter().map(|one| {
            (one, &one.outcome.case, [one.outcome.metrics.clone(), one.median().1], one.points())
        }),
        "setting"[all.iter().any(|one| one.outcome.case.setting.is_some())] =
            case.setting.as_deref().unwrap_or_default(),
        "schedule" = case.name,
        "p" = case.schedule.shape().stages(),
        "m" = case.microbatches(),
        "v" = case.schedule.shape().chunks_per_stage(),
        "bubble, simulated" = format::percent(metrics[0].bubble_rate()),
        "measured" = format::percent(metrics[1].bubble_rate()),
        "difference" = format!("{by_span:+.2} pp"),
        "/makespan, simulated" = format::percent(metrics[0].bubble_rate_makespan()),
        "measured" = format::percent(metrics[1].bubble_rate_makespan()),
        "difference" = format!("{by_makespan:+.2} pp"),
        "makespan, simulated" = metrics[0].makespan(),
        "measured" = metrics[1].makespan(),
        "difference" = longer(&metrics),
        "loss"[has_loss] = loss(one).map(|loss| format!("{loss:.4}")),
        "published"[is_published] = one.published.as_ref().map(Published::percent),
        "of"[is_published] =
            one.published.as_ref().and_then(|one| one.convention).map(Convention::name),
    );
    let mut text = text::sheet(&table) + &by_busy_stages(all);
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

/// By how much the second makespan is longer than the first, as a share of the second.
#[allow(clippy::cast_precision_loss)]
fn longer(both: &[Metrics; 2]) -> String {
    let [simulated, measured] = [0, 1].map(|at| both[at].makespan().0 as f64);
    format::signed_percent(-accuracy::error(simulated, measured))
}

/// The table of predictions by busy stages, if that was asked.
fn by_busy_stages(all: &[Ran]) -> String {
    let rows = all.iter().filter_map(|one| {
        Some((one, [one.by_busy_stages.clone()?, one.median().1], one.judged_points()[0]))
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let table = table!(
        (one, both, points) = rows,
        "by busy stages" = outcome::title(&one.outcome),
        "bubble, predicted" = format::percent(both[0].bubble_rate()),
        "measured" = format::percent(both[1].bubble_rate()),
        "difference" = format!("{points:+.2} pp"),
        "makespan, predicted" = both[0].makespan(),
        "measured" = both[1].makespan(),
        "difference" = longer(&both),
    );
    text::sheet(&table.under_a_gap())
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

impl Published {
    /// The bubble rate in percent, where it is a number.
    fn percent(&self) -> String {
        self.rate.parse().map_or_else(|_| self.rate.clone(), format::percent)
    }
}

/// The loss of the last step.
fn loss(one: &Ran) -> Option<f64> {
    one.measured.steps.last().and_then(|step| step.loss)
}

/// One element of `results`: that of `simulate`, and the measurement.
pub fn json(one: &Ran) -> impl Serialize {
    let (step, metrics) = one.median();
    let bytes = |all: &[Bytes]| all.iter().map(|one| one.0).collect::<Vec<_>>();
    let has_copies = one.outcome.case.schedule.copies().is_some();
    let planned = one.held.as_ref().filter(|_| has_copies).map(|held| bytes(&held.planned));
    let peaks = one.held.as_ref().map(|held| &held.measured[..]);
    let host_bound = host_overheads::json(&one.host_bound);
    let check = one.check.map(|Check { loss_error, gradient_error, tolerance }| {
        object!(loss_error = loss_error, gradient_error = gradient_error, tolerance = tolerance)
    });
    let steps = one.measured.steps.iter().map(|step| {
        let metrics = one.metrics(&step.timeline());
        object!(
            (span_ns, makespan_ns) = (metrics.span().0, metrics.makespan().0),
            // Until every stage was done with the step, its share of the norm and the optimizer too.
            end_ns = step.ends.iter().max().map_or(0, |end| end.0),
            bubble_rate = metrics.bubble_rate(),
            bubble_rate_makespan = metrics.bubble_rate_makespan(),
            loss = step.loss,
        )
    });
    let measured = object!(
        // The step with the median makespan.
        flat(median) = one.outcome.json_of(&metrics, peaks),
        device = &one.measured.device,
        // From the beginning of a step to that of the next, in the median; null of a lone step.
        period_ns = one.period().map(|period| period.0),
        // Which of `steps` has the median makespan.
        step = step,
        [steps] = steps,
        rollbacks = one.rollbacks,
        skipped = one.skipped,
        // Allocations in the steps measured that can hold up a device.
        allocations = one.allocations,
        // By stage, the passes that the host held up; absent where they run on it.
        some(host_bound) = Some(host_bound).filter(|all| !all.is_empty()),
        // By stage, the most activations that it holds by the times that its copies to the host were planned with;
        // absent without copies.
        some(planned_peak_activation_bytes) = planned,
        // The losses of all updates of the steps; absent where weights change only between steps.
        some(update_losses) = Some(&one.update_losses).filter(|all| !all.is_empty()),
        some(check) = check,
    );
    object!(
        flat(simulated) = one.outcome.json(),
        // Prediction by the number of stages busy at each moment; absent unless that was asked.
        some(simulated_by_busy_stages) = one.by_busy_stages.as_ref().map(Figures::from),
        measured = measured,
    )
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
