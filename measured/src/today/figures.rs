//! Summaries of errors: by kind of rows, of rows left out, of ranked pairs.

use std::collections::{BTreeMap, BTreeSet};

use plan::number;

use super::published::Source;
use super::row::Run;
use super::study::{Outcome, SEEDS};
use crate::accuracy;

/// How far apart two runs must be for their order to count.
const APART: f64 = 1.05;

#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Errors {
    pub(super) rows: usize,
    pub(super) mean: f64,
    /// 90th percentile.
    pub(super) p90: f64,
    pub(super) max: f64,
}

impl Errors {
    pub(super) fn of(errors: &[f64]) -> Self {
        Self {
            rows: errors.len(),
            mean: accuracy::mean_absolute(errors),
            p90: accuracy::not_exceeded_by(90, errors),
            max: accuracy::not_exceeded_by(100, errors),
        }
    }

    fn median(all: &[Self]) -> Self {
        let median =
            |of: fn(&Self) -> f64| accuracy::median(&all.iter().map(of).collect::<Vec<_>>());
        Self {
            rows: all.first().map_or(0, |one| one.rows),
            mean: median(|one| one.mean),
            p90: median(|one| one.p90),
            max: median(|one| one.max),
        }
    }
}

/// A kind of rows with figures of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RowKind {
    pub(super) source: Source,
    pub(super) experts: bool,
}

impl RowKind {
    pub(super) const ALL: [Self; 12] = [
        Self { source: Source::MlPerf, experts: false },
        Self { source: Source::Bridge, experts: false },
        Self { source: Source::Torchtitan, experts: false },
        Self { source: Source::MlPerf, experts: true },
        Self { source: Source::Bridge, experts: true },
        Self { source: Source::SimuMax, experts: false },
        Self { source: Source::SimuMax, experts: true },
        Self { source: Source::CclBench, experts: false },
        Self { source: Source::Lora, experts: false },
        Self { source: Source::Nemo, experts: false },
        Self { source: Source::Nemo, experts: true },
        Self { source: Source::Fsdp, experts: false },
    ];

    /// The kind of `run`; ccl-bench is one kind.
    pub(super) fn of(run: &Run) -> Self {
        let experts = run.model.experts.is_some() && run.source != Source::CclBench;
        Self { source: run.source, experts }
    }

    pub(super) const fn name(self) -> &'static str {
        match (self.source, self.experts) {
            (Source::MlPerf, false) => "MLPerf, dense",
            (Source::MlPerf, true) => "MLPerf, experts",
            (Source::Bridge, false) => "Megatron-Bridge, dense",
            (Source::Bridge, true) => "Megatron-Bridge, experts",
            (Source::Torchtitan, _) => "torchtitan",
            (Source::SimuMax, false) => "SimuMax, dense",
            (Source::SimuMax, true) => "SimuMax, experts",
            (Source::CclBench, _) => "ccl-bench",
            (Source::Lora, _) => "LoRA",
            (Source::Nemo, false) => "NeMo, dense",
            (Source::Nemo, true) => "NeMo, experts",
            (Source::Fsdp, _) => "FSDP",
        }
    }

    /// Whether it is of dense models in Megatron.
    pub(super) fn is_dense_megatron(self) -> bool {
        !self.experts && [Source::MlPerf, Source::Bridge].contains(&self.source)
    }
}

/// The measured step of a run, in seconds.
pub(super) fn measured(one: &Outcome) -> f64 {
    one.run.seconds.unwrap_or_default()
}

/// The errors with the constants in use.
pub(super) fn in_sample(outcomes: &[&Outcome]) -> Errors {
    let errors: Vec<f64> =
        outcomes.iter().map(|one| accuracy::error(one.prediction.seconds, measured(one))).collect();
    Errors::of(&errors)
}

/// The errors with constants that were fitted without the configuration of each: the median of all
/// shuffles.
pub(super) fn held_out(outcomes: &[&Outcome]) -> Errors {
    let of_shuffle = |shuffle: usize| {
        let own = outcomes.iter().filter_map(|one| Some((*one, *one.held_out.get(shuffle)?)));
        let errors: Vec<f64> =
            own.map(|(one, seconds)| accuracy::error(seconds, measured(one))).collect();
        Errors::of(&errors)
    };
    Errors::median(&(0..SEEDS.len()).map(of_shuffle).collect::<Vec<_>>())
}

/// The errors with constants that were fitted without what `of` says.
pub(super) fn without(outcomes: &[&Outcome], of: fn(&Outcome) -> Option<f64>) -> Errors {
    let own = outcomes.iter().filter_map(|one| Some(accuracy::error(of(one)?, measured(one))));
    Errors::of(&own.collect::<Vec<_>>())
}

/// The errors if every configuration were predicted at its own mean: no function of a set-up does better.
pub(super) fn floor(outcomes: &[&Outcome]) -> Errors {
    let mut repeats: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for one in outcomes {
        repeats.entry(&one.run.configuration).or_default().push(measured(one));
    }
    let errors = repeats.values().flat_map(|steps| {
        let mean = steps.iter().sum::<f64>() / number(steps.len() as u64);
        steps.iter().map(move |step| accuracy::error(mean, *step))
    });
    Errors::of(&errors.collect::<Vec<_>>())
}

fn configurations(outcomes: &[&Outcome]) -> usize {
    let own: BTreeSet<&str> = outcomes.iter().map(|one| one.run.configuration.as_str()).collect();
    own.len()
}

/// Results for a kind of rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Figures {
    pub(super) name: &'static str,
    pub(super) configurations: usize,
    pub(super) in_sample: Errors,
    pub(super) held_out: Errors,
    /// The errors in sample of all steps, those set apart among them.
    pub(super) with_apart: Errors,
    pub(super) floor: Errors,
}

impl Figures {
    /// The figures of `outcomes`: without rows that are set apart, and with them.
    fn of(name: &'static str, outcomes: &[&Outcome]) -> Self {
        let own: Vec<&Outcome> =
            outcomes.iter().copied().filter(|one| one.run.apart.is_none()).collect();
        let steps = outcomes.iter().copied().filter(|one| one.run.seconds.is_some());
        Self {
            with_apart: in_sample(&steps.collect::<Vec<_>>()),
            name,
            configurations: configurations(&own),
            in_sample: in_sample(&own),
            held_out: held_out(&own),
            floor: floor(&own),
        }
    }

    /// The figures of every kind, and of all rows that constants are fitted to.
    pub(super) fn all(outcomes: &[Outcome]) -> Vec<Self> {
        let of_kind = |kind: RowKind| {
            let own = outcomes.iter().filter(|one| RowKind::of(&one.run) == kind);
            Self::of(kind.name(), &own.collect::<Vec<_>>())
        };
        let own = outcomes.iter().filter(|one| one.run.source.is_fitted());
        let all = Self::of("all sources that are fitted", &own.collect::<Vec<_>>());
        RowKind::ALL.into_iter().map(of_kind).chain([all]).collect()
    }
}

/// Pairs of runs of one model, and how many of them are ranked as they were measured.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Ranked {
    pub(super) right: usize,
    pub(super) pairs: usize,
}

impl Ranked {
    /// The share that is ranked right; 1 of no pairs.
    pub(super) fn share(self) -> f64 {
        match self.pairs {
            0 => 1.0,
            pairs => number(self.right as u64) / number(pairs as u64),
        }
    }
}

/// Which pairs are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pairs {
    /// Of one release, on any machines.
    OfOneRelease,
    /// On one machine, of any release of their source.
    OnOneMachine,
}

impl Pairs {
    fn has(self, a: &Run, b: &Run) -> bool {
        let alike = a.source == b.source && a.model_name == b.model_name;
        alike
            && match self {
                Self::OfOneRelease => a.release == b.release,
                Self::OnOneMachine => a.machine.name == b.machine.name,
            }
    }
}

/// How pairs more than [`APART`] apart are ranked by tokens a second and device, with steps predicted as
/// `of` says.
pub(super) fn ranked(outcomes: &[&Outcome], pairs: Pairs, of: impl Fn(&Outcome) -> f64) -> Ranked {
    let mut all = Ranked::default();
    for (at, a) in outcomes.iter().enumerate() {
        for b in &outcomes[..at] {
            if !pairs.has(&a.run, &b.run) {
                continue;
            }
            let measured = rate(&a.run, measured(a)) / rate(&b.run, measured(b));
            if measured.max(1.0 / measured) > APART {
                let predicted = rate(&a.run, of(a)) / rate(&b.run, of(b));
                all.pairs += 1;
                all.right += usize::from((measured > 1.0) == (predicted > 1.0));
            }
        }
    }
    all
}

/// The same with constants that were fitted without them: the median of all shuffles.
pub(super) fn ranked_held_out(outcomes: &[&Outcome], pairs: Pairs) -> f64 {
    let of_shuffle = |shuffle: usize| {
        let held_out = |one: &Outcome| one.held_out.get(shuffle).copied().unwrap_or_default();
        ranked(outcomes, pairs, held_out).share()
    };
    accuracy::median(&(0..SEEDS.len()).map(of_shuffle).collect::<Vec<_>>())
}

/// Tokens a second and device.
fn rate(run: &Run, seconds: f64) -> f64 {
    number(run.recipe.batch) * number(run.model.sequence) / number(run.setup.devices()) / seconds
}
