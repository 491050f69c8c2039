//! Simulated and measured side by side as CSV.

use executor::Overheads;
use pipeline::Metrics;
use serde::Serialize;

use super::host_overheads;
use super::report::Ran;
use crate::error::Error;
use question::object;
use question::scenario::Convention;

fn rate(rate: f64) -> String {
    format!("{rate:.4}")
}

fn millis(metrics: &Metrics) -> String {
    milliseconds(metrics.makespan().0)
}

#[allow(clippy::cast_precision_loss)]
fn milliseconds(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

/// Launches per second of one thread, of all of them together, and microseconds of a hand-over.
#[allow(clippy::cast_precision_loss)]
fn host(overheads: Option<&Overheads>) -> [Option<String>; 3] {
    let micros = |time: pipeline::Nanos| format!("{:.3}", time.0 as f64 / 1e3);
    [
        overheads.map(|one| format!("{:.0}", one.launches_per_second)),
        overheads.map(|one| format!("{:.0}", one.launches_per_second_together)),
        overheads.and_then(|one| one.hand_over).map(micros),
    ]
}

/// A row of the table: a schedule of a setting.
fn row<'a>(one: &'a Ran, overheads: Option<&Overheads>) -> impl Serialize + use<'a> {
    let (case, simulated) = (&one.outcome.case, &one.outcome.metrics);
    let (_, measured) = one.median();
    let shape = case.schedule.shape();
    let [by_span, by_makespan] = one.points();
    let (busy, published) = (one.by_busy_stages.as_ref(), one.published.as_ref());
    let convention = published.and_then(|one| one.convention);
    let [host_bound, worst_host_bound] = host_overheads::cells(&one.host_bound);
    let [launches, launches_together, hand_over] = host(overheads);
    object!(
        setting = case.setting.as_deref().unwrap_or_default(),
        schedule = &case.name,
        stages = shape.stages(),
        microbatches = case.microbatches(),
        chunks = shape.chunks_per_stage(),
        device = &one.measured.device,
        steps = one.measured.steps.len(),
        bubble_rate_simulated = rate(simulated.bubble_rate()),
        bubble_rate_measured = rate(measured.bubble_rate()),
        difference_points = format!("{by_span:+.2}"),
        bubble_rate_makespan_simulated = rate(simulated.bubble_rate_makespan()),
        bubble_rate_makespan_measured = rate(measured.bubble_rate_makespan()),
        difference_makespan_points = format!("{by_makespan:+.2}"),
        makespan_ms_simulated = millis(simulated),
        makespan_ms_measured = millis(&measured),
        period_ms_measured = one.period().map(|period| milliseconds(period.0)),
        bubble_rate_published = published.map_or("", |one| &one.rate),
        published_convention = convention.map_or("", Convention::name),
        host_bound_percent = host_bound,
        host_bound_percent_of_worst_stage = worst_host_bound,
        launches_per_second = launches,
        launches_per_second_together = launches_together,
        hand_over_us = hand_over,
        bubble_rate_by_busy_stages = busy.map(|busy| rate(busy.bubble_rate())),
        difference_by_busy_stages_points = busy.map(|_| format!("{:+.2}", one.judged_points()[0])),
        makespan_ms_by_busy_stages = busy.map(millis),
    )
}

/// All as CSV; cells of the host are empty where passes run on it.
///
/// # Errors
/// If memory runs out.
pub fn csv(all: &[Ran], overheads: Option<&Overheads>) -> Result<Vec<u8>, Error> {
    let rows: Vec<_> = all.iter().map(|one| row(one, overheads)).collect();
    Ok(answer::csv(rows)?)
}
