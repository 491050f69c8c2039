//! The entry of a search in files.

use ilp::End;
use pipeline::Placement;
use question::object;
use search::{FiguresOnHardware, FoundOnHardware, FoundUnderNoise};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{SearchRow, on_hardware, under_noise};
use crate::front::Standing;

/// The figures of a search, with the lists that a line of a table has no place for.
pub(in crate::search) fn full(row: &SearchRow) -> impl Serialize {
    // The choice of a joint search, the alternatives that it beats, and the question with the choice made, as a scenario
    // has it.
    let joint = row.chosen.as_ref().map(|chosen| {
        object!(
            chosen = &chosen.summary,
            published = &chosen.published,
            scenario = &chosen.setting.keys,
        )
    });
    object!(
        flat(entry) = Entry::from(row),
        solution = row.solution(),
        some(joint) = joint,
        some(hardware) = row.searched.on_hardware.as_ref().map(judged),
        some(elsewhere) = row.elsewhere,
    )
}

/// The orders that a search on hardware has judged by the event engine, and the links of its proxy.
fn judged(found: &FoundOnHardware) -> impl Serialize + use<> {
    let published = found.published.iter().map(|(family, one)| {
        object!(
            schedule = family.name(),
            (span_ns, makespan_ns, step_ns) = (one.span.0, one.makespan.0, one.step.0),
            out_of_memory = one.is_out_of_memory,
        )
    });
    object!(
        [published] = published,
        // How long a transfer takes over each link while nothing else moves, and over each of the proxy that was fitted
        // last.
        [links_alone_ns] = found.alone.iter().map(|link| link.0),
        [links_fitted_ns] = found.fitted.iter().map(|link| link.0),
    )
}

/// The figures of a search, key by key. Those under noise, on hardware, of simulated keys and of a joint search are there
/// where such a search was asked for.
struct Entry(Vec<(&'static str, Value)>);

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// The lines of a table of `rows`: the keys, and their values.
pub(in crate::search) fn table(rows: &[SearchRow]) -> Vec<Vec<Value>> {
    let entries: Vec<Entry> = rows.iter().map(Entry::from).collect();
    let keys = entries.first().map(|entry| entry.0.iter().map(|(key, _)| (*key).into()).collect());
    let values = |entry: Entry| entry.0.into_iter().map(|(_, value)| value).collect();
    keys.into_iter().chain(entries.into_iter().map(values)).collect()
}

impl From<&SearchRow> for Entry {
    fn from(row: &SearchRow) -> Self {
        let mut entry = Self(Vec::new());
        entry.nominal(row);
        let searched = &row.searched;
        match (&searched.under_noise, &searched.on_hardware) {
            (Some(found), _) => entry.under_noise(row, found),
            (None, Some(found)) => entry.on_hardware(row, found),
            (None, None) => {}
        }
        entry.simulated(row);
        entry.jointly(row);
        entry
    }
}

impl Entry {
    fn put(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.push((key, value.into()));
    }

    /// Puts a value that may be left out.
    fn put_some(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        self.0.extend(value.map(|value| (key, value.into())));
    }

    fn nominal(&mut self, row: &SearchRow) {
        let instance = &row.searched.instance;
        let (shape, published, solved) = (instance.shape, row.published(), row.solved());
        self.put("setting", row.setting());
        self.put("stages", shape.stages());
        self.put("microbatches", shape.microbatches());
        self.put("chunks", shape.chunks_per_stage());
        let is_vee = instance.placement == Placement::Vee;
        self.put("placement", if is_vee { "v" } else { "looped" });
        self.put("objective", row.objective.name());
        self.put("memory_limit", row.limit.clone());
        self.put("cost_ns", row.cost.0);
        self.put("bubble_rate", row.bubble());
        self.put("bound_ns", row.bound().0);
        self.put("bound_rate", row.rate(row.bound()));
        self.put("gap_ns", row.gap().0);
        self.put("argument", row.argument());
        self.put("binaries", solved.map(|solved| solved.binaries));
        self.put("nodes", solved.map(|solved| solved.nodes));
        self.put("solved", solved.map(|solved| solved.end == End::Proved));
        // The step where stages run on without a barrier, if the span of one step was searched.
        if let Some(running) = row.running {
            self.put("running_step_ns", running.step.0);
            self.put("running_bound_ns", running.bound.cost.0);
            self.put("running_argument", running.bound.argument.to_string());
        }
        self.put("published", published.map(|one| one.family.name()));
        self.put("published_ns", published.map(|one| one.cost.0));
        self.put("published_rate", published.map(|one| row.rate(one.cost)));
        self.put("peak_microbatches", row.peak());
        self.put("on_front", row.found_standing.map(Standing::is_on_front));
        let peak = published.map(|one| row.in_microbatches(one.peak));
        self.put("published_peak_microbatches", peak);
        self.put("published_on_front", row.published_standing.map(Standing::is_on_front));
        // Whether the times of a recording separate the order from the best published one.
        self.put_some("told_apart", row.recorded.as_ref().map(|_| row.within_noise().is_none()));
        self.put_some("trainer_schedule", row.trainer().map(|(runs, _)| runs.family.name()));
        self.put_some("trainer_cost_ns", row.trainer().map(|(runs, _)| runs.cost.0));
        self.put_some("trainer_gain", row.trainer().map(|(_, gain)| gain));
    }

    fn under_noise(&mut self, row: &SearchRow, found: &FoundUnderNoise) {
        let FoundUnderNoise { answer, nominal, robust_gain, published_gain, published, .. } = found;
        self.put("boundary", under_noise::boundary(row));
        self.put("replicas", found.replicas);
        self.put("value_ns", answer.value);
        self.put_ends(["value_low_ns", "value_high_ns"], answer.ci95);
        self.put("mean_ns", answer.times.mean);
        self.put("p50_ns", answer.times.p50.value);
        self.put("p95_ns", answer.times.p95.value);
        self.put("p99_ns", answer.times.p99.value);
        self.put("value_bound_ns", found.bound.map(|bound| bound.cost.0));
        self.put("value_argument", found.bound.map(|bound| bound.argument.to_string()));
        self.put("is_nominal", found.is_nominal);
        self.put("nominal_cost_ns", nominal.nominal.0);
        self.put("nominal_value_ns", nominal.value);
        // By how much the best order tried is below the nominal one.
        self.put("gain_ns", robust_gain.by);
        self.put_ends(["gain_low_ns", "gain_high_ns"], robust_gain.ci95);
        self.put("mean_times_value_ns", found.expected.as_ref().map(|one| one.value));
        let name = published.as_ref().map(|(family, _)| family.name());
        self.put("published_under_noise", name);
        self.put("published_value_ns", published.as_ref().map(|(_, one)| one.value));
        self.put("gain_over_published_ns", published_gain.map(|gain| gain.by));
        let keys = ["gain_over_published_low_ns", "gain_over_published_high_ns"];
        self.put_ends(keys, published_gain.and_then(|gain| gain.ci95));
    }

    /// Puts the ends of an interval.
    fn put_ends(&mut self, [low, high]: [&'static str; 2], ends: Option<[f64; 2]>) {
        self.put(low, ends.map(|[low, _]| low));
        self.put(high, ends.map(|[_, high]| high));
    }

    #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
    fn on_hardware(&mut self, row: &SearchRow, found: &FoundOnHardware) {
        let hardware = row.searched.case.hardware.as_ref();
        let FoundOnHardware { answer, nominal, published, bound, .. } = found;
        let value = |one: &FiguresOnHardware| one.value.0 as f64;
        let over = |one: &FiguresOnHardware| value(one) - value(answer);
        let published = published.first();
        self.put_some("boundary", hardware.map(on_hardware::boundary));
        self.put("value_ns", value(answer));
        self.put("value_bound_ns", bound.cost.0);
        self.put("value_argument", on_hardware::argument(row, found));
        self.put("is_nominal", found.is_nominal);
        self.put("nominal_value_ns", nominal.as_ref().map(value));
        self.put_some("gain_ns", nominal.as_ref().map(over));
        self.put("published_value_ns", published.map(|(_, one)| value(one)));
        self.put("gain_over_published_ns", published.map(|(_, one)| over(one)));
        self.put_some("steps", hardware.map(|hardware| hardware.steps));
        self.put("span_ns", answer.span.0);
        self.put("makespan_ns", answer.makespan.0);
        self.put("step_ns", answer.step.0);
        self.put("out_of_memory", answer.is_out_of_memory);
        self.put("published_on_hardware", published.map(|(family, _)| family.name()));
        // By the last fitted proxy.
        self.put("proxy_value_ns", found.proxy.0);
        self.put("rounds", found.rounds);
        self.put("judged", found.judged);
        self.put("stuck", found.stuck);
    }

    #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
    fn simulated(&mut self, row: &SearchRow) {
        let Some(simulated) = row.simulated.as_ref() else { return };
        let figures = simulated.figures.as_ref();
        if let Some(figures) = figures {
            let value = figures.value.0 as f64;
            let nominal = figures.nominal.map(|one| one.0 as f64);
            let published = figures.published.map(|(_, one)| one.0 as f64);
            self.put("value_ns", value);
            self.put("value_bound_ns", figures.bound.map(|bound| bound.0));
            self.put("is_nominal", figures.is_nominal);
            self.put("nominal_value_ns", nominal);
            self.put_some("gain_ns", nominal.map(|one| one - value));
            self.put("published_value_ns", published);
            self.put("gain_over_published_ns", published.map(|one| one - value));
        }
        self.put("simulated_keys", simulated.keys.join(","));
        self.put("simulated_orders", simulated.simulated);
        let name = figures.map(|figures| figures.published.map(|(family, _)| family.name()));
        self.put_some("published_simulated", name);
    }

    fn jointly(&mut self, row: &SearchRow) {
        let Some(chosen) = &row.chosen else { return };
        let (summary, best) = (&chosen.summary, chosen.published.first());
        self.put("layout", summary.layout.clone());
        self.put("recompute", summary.recompute.clone());
        self.put_some("offload", summary.offload());
        self.put_some("pairs", summary.pairs);
        self.put("choices", chosen.tried);
        self.put("asked_ns", chosen.asked.map(|asked| asked.0));
        self.put_some("choices_bound_ns", chosen.bound.map(|bound| bound.0));
        self.put("best_published", best.map(|one| one.schedule));
        self.put("best_published_ns", best.map(|one| one.cost_ns));
    }
}
