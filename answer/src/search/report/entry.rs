//! The entry of a search in files.

use ilp::End;
use pipeline::{Nanos, Placement};
use search::{FiguresOnHardware, FoundOnHardware, FoundUnderNoise};
use serde::Serialize;

use super::{SearchRow, on_hardware, under_noise};
use crate::front::Standing;
use crate::search::{ChosenSettings, WithSettings};

/// The figures of a search, with the lists that a line of a table has no place for.
#[derive(Serialize)]
pub(in crate::search) struct Full<'a> {
    #[serde(flatten)]
    entry: Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    joint: Option<Joint<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hardware: Option<OnHardware>,
}

/// The orders that a search on hardware has judged, and the links of its proxy.
#[derive(Serialize)]
struct OnHardware {
    published: Vec<PublishedOnHardware>,
    /// How long a transfer takes over each link while nothing else moves.
    links_alone_ns: Vec<u64>,
    /// How long it takes over each link of the proxy that was fitted last.
    links_fitted_ns: Vec<u64>,
}

/// A published schedule on hardware, by the event engine.
#[derive(Serialize)]
struct PublishedOnHardware {
    schedule: &'static str,
    span_ns: u64,
    makespan_ns: u64,
    step_ns: u64,
    out_of_memory: bool,
}

impl From<&FoundOnHardware> for OnHardware {
    fn from(found: &FoundOnHardware) -> Self {
        let published = found.published.iter().map(|(family, one)| PublishedOnHardware {
            schedule: family.name(),
            span_ns: one.span.0,
            makespan_ns: one.makespan.0,
            step_ns: one.step.0,
            out_of_memory: one.is_out_of_memory,
        });
        let whole = |links: &[Nanos]| links.iter().map(|link| link.0).collect();
        Self {
            published: published.collect(),
            links_alone_ns: whole(&found.alone),
            links_fitted_ns: whole(&found.fitted),
        }
    }
}

/// The choice of a joint search, and the alternatives that it beats.
#[derive(Serialize)]
struct Joint<'a> {
    chosen: &'a ChosenSettings,
    published: &'a [WithSettings],
    /// The question with the choice made, as a scenario has it.
    scenario: &'a question::keys::Keys,
}

impl<'a> From<&'a SearchRow> for Full<'a> {
    fn from(row: &'a SearchRow) -> Self {
        let joint = row.chosen.as_ref().map(|chosen| Joint {
            chosen: &chosen.summary,
            published: &chosen.published,
            scenario: &chosen.setting.keys,
        });
        let hardware = row.on_hardware.as_ref().map(OnHardware::from);
        Self { entry: Entry::from(row), joint, hardware }
    }
}

/// The figures of a search.
#[derive(Serialize, Default)]
pub(in crate::search) struct Entry {
    setting: Option<String>,
    stages: usize,
    microbatches: u32,
    chunks: u16,
    placement: &'static str,
    objective: &'static str,
    memory_limit: Option<String>,
    cost_ns: u64,
    bubble_rate: f64,
    bound_ns: u64,
    bound_rate: f64,
    gap_ns: u64,
    argument: String,
    binaries: Option<u64>,
    nodes: Option<usize>,
    solved: Option<bool>,
    /// The step of the order where stages run on without a barrier, and the bound on that of any order; there where
    /// the span of one step was searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    running_step_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    running_bound_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    running_argument: Option<String>,
    published: Option<&'static str>,
    published_ns: Option<u64>,
    published_rate: Option<f64>,
    peak_microbatches: f64,
    on_front: Option<bool>,
    published_peak_microbatches: Option<f64>,
    published_on_front: Option<bool>,
    /// Whether the recorded times separate the order from the best published one; only with a
    /// recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    told_apart: Option<bool>,
    /// The rest is there under noise, or on hardware, alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    boundary: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_low_ns: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_high_ns: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bound_ns: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_argument: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_nominal: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nominal_cost_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nominal_value_ns: Option<Option<f64>>,
    /// By how much the best order tried is below the nominal one, and the interval of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    gain_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gain_low_ns: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gain_high_ns: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_times_value_ns: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_under_noise: Option<Option<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_value_ns: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gain_over_published_ns: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gain_over_published_low_ns: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gain_over_published_high_ns: Option<Option<f64>>,
    /// The next are there on hardware alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    makespan_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_memory: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_on_hardware: Option<Option<&'static str>>,
    /// Value by the last fitted proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_value_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    judged: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stuck: Option<u64>,
    /// The keys that were simulated alone, and how many orders were simulated; there where some were.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated_keys: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated_orders: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_simulated: Option<Option<&'static str>>,
    /// The rest is there in a joint search alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recompute: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_ns: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices_bound_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_published: Option<Option<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_published_ns: Option<Option<u64>>,
}

impl From<&SearchRow> for Entry {
    fn from(row: &SearchRow) -> Self {
        let instance = &row.searched.instance;
        let (shape, published) = (instance.shape, row.published());
        Self {
            setting: row.setting().map(str::to_owned),
            stages: shape.stages(),
            microbatches: shape.microbatches(),
            chunks: shape.chunks_per_stage(),
            placement: match instance.placement {
                Placement::Vee => "v",
                _ => "looped",
            },
            objective: row.objective.name(),
            memory_limit: row.limit.clone(),
            cost_ns: row.cost.0,
            bubble_rate: row.bubble(),
            bound_ns: row.bound().0,
            bound_rate: row.rate(row.bound()),
            gap_ns: row.gap().0,
            argument: row.argument(),
            binaries: row.solved().map(|solved| solved.binaries),
            nodes: row.solved().map(|solved| solved.nodes),
            solved: row.solved().map(|solved| solved.end == End::Proved),
            running_step_ns: row.running.map(|running| running.step.0),
            running_bound_ns: row.running.map(|running| running.bound.cost.0),
            running_argument: row.running.map(|running| running.bound.argument.to_string()),
            published: published.map(|one| one.family.name()),
            published_ns: published.map(|one| one.cost.0),
            published_rate: published.map(|one| row.rate(one.cost)),
            told_apart: row.uncertainty.map(|_| row.within_noise().is_none()),
            peak_microbatches: row.peak(),
            on_front: row.found_standing.map(Standing::is_on_front),
            published_peak_microbatches: published.map(|one| row.in_microbatches(one.peak)),
            published_on_front: row.published_standing.map(Standing::is_on_front),
            ..Self::jointly(row)
        }
    }
}

impl Entry {
    /// The fields of a joint search, with those of a search under noise.
    fn jointly(row: &SearchRow) -> Self {
        let Some(chosen) = &row.chosen else { return Self::under_noise(row) };
        let best = chosen.published.first().map(WithSettings::named);
        Self {
            layout: Some(chosen.summary.layout().map(str::to_owned)),
            recompute: Some(chosen.summary.recompute().to_owned()),
            offload: chosen.summary.offload(),
            pairs: chosen.summary.pairs(),
            choices: Some(chosen.tried),
            asked_ns: Some(chosen.asked.map(|asked| asked.0)),
            choices_bound_ns: chosen.bound.map(|bound| bound.0),
            best_published: Some(best.map(|(name, _)| name)),
            best_published_ns: Some(best.map(|(_, cost)| cost)),
            ..Self::under_noise(row)
        }
    }

    /// The fields of a search under noise or, without noise, of a search on hardware.
    fn under_noise(row: &SearchRow) -> Self {
        let Some(found) = row.under_noise.as_ref() else { return Self::on_hardware(row) };
        let low = |ends: Option<[f64; 2]>| Some(ends.map(|[low, _]| low));
        let high = |ends: Option<[f64; 2]>| Some(ends.map(|[_, high]| high));
        let FoundUnderNoise { answer, nominal, robust_gain, published_gain, .. } = found;
        let over_published = published_gain.and_then(|gain| gain.ci95);
        Self {
            boundary: Some(under_noise::boundary(row)),
            replicas: Some(found.replicas),
            value_ns: Some(answer.value),
            value_low_ns: low(answer.ci95),
            value_high_ns: high(answer.ci95),
            mean_ns: Some(answer.times.mean),
            p50_ns: Some(answer.times.p50.value),
            p95_ns: Some(answer.times.p95.value),
            p99_ns: Some(answer.times.p99.value),
            value_bound_ns: Some(found.bound.map(|bound| bound.cost.0)),
            value_argument: Some(found.bound.map(|bound| bound.argument.to_string())),
            is_nominal: Some(found.is_nominal),
            nominal_cost_ns: Some(nominal.nominal.0),
            nominal_value_ns: Some(Some(nominal.value)),
            gain_ns: Some(robust_gain.by),
            gain_low_ns: low(robust_gain.ci95),
            gain_high_ns: high(robust_gain.ci95),
            mean_times_value_ns: Some(found.expected.as_ref().map(|one| one.value)),
            published_under_noise: Some(found.published.as_ref().map(|(family, _)| family.name())),
            published_value_ns: Some(found.published.as_ref().map(|(_, one)| one.value)),
            gain_over_published_ns: Some(published_gain.map(|gain| gain.by)),
            gain_over_published_low_ns: low(over_published),
            gain_over_published_high_ns: high(over_published),
            ..Self::simulated(row)
        }
    }

    /// The fields of a search on hardware, the rest empty.
    #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
    fn on_hardware(row: &SearchRow) -> Self {
        let Some(found) = row.on_hardware.as_ref() else { return Self::simulated(row) };
        let hardware = row.searched.case.hardware.as_ref();
        let FoundOnHardware { answer, nominal, published, bound, .. } = found;
        let value = |one: &FiguresOnHardware| one.value.0 as f64;
        let over = |one: &FiguresOnHardware| value(one) - value(answer);
        let published = published.first();
        Self {
            boundary: hardware.map(on_hardware::boundary),
            steps: hardware.map(|hardware| hardware.steps),
            value_ns: Some(value(answer)),
            value_bound_ns: Some(Some(bound.cost.0)),
            value_argument: Some(Some(on_hardware::argument(row, found))),
            span_ns: Some(answer.span.0),
            makespan_ns: Some(answer.makespan.0),
            step_ns: Some(answer.step.0),
            out_of_memory: Some(answer.is_out_of_memory),
            is_nominal: Some(found.is_nominal),
            nominal_value_ns: Some(nominal.as_ref().map(value)),
            gain_ns: nominal.as_ref().map(over),
            published_on_hardware: Some(published.map(|(family, _)| family.name())),
            published_value_ns: Some(published.map(|(_, one)| value(one))),
            gain_over_published_ns: Some(published.map(|(_, one)| over(one))),
            proxy_value_ns: Some(found.proxy.0),
            rounds: Some(found.rounds),
            judged: Some(found.judged),
            stuck: Some(found.stuck),
            ..Self::default()
        }
    }

    /// The fields of a search whose orders were chosen by simulations with all keys, the rest empty.
    #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
    fn simulated(row: &SearchRow) -> Self {
        let Some(simulated) = row.simulated.as_ref() else { return Self::default() };
        let of_keys = Self {
            simulated_keys: Some(simulated.keys.join(",")),
            simulated_orders: Some(simulated.simulated),
            ..Self::default()
        };
        let Some(figures) = &simulated.figures else { return of_keys };
        let value = figures.value.0 as f64;
        let published = figures.published;
        Self {
            value_ns: Some(value),
            value_bound_ns: Some(figures.bound.map(|bound| bound.0)),
            is_nominal: Some(figures.is_nominal),
            nominal_value_ns: Some(figures.nominal.map(|one| one.0 as f64)),
            gain_ns: figures.nominal.map(|one| one.0 as f64 - value),
            published_simulated: Some(published.map(|(family, _)| family.name())),
            published_value_ns: Some(published.map(|(_, one)| one.0 as f64)),
            gain_over_published_ns: Some(published.map(|(_, one)| one.0 as f64 - value)),
            ..of_keys
        }
    }
}
