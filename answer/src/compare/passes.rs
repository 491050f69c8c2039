//! Predicted and measured times of each kind of pass in each chunk.

use std::collections::BTreeMap;

use measured::accuracy;
use pipeline::{Nanos, Slot, Step};
use serde::Serialize;

use super::seconds;

/// How long things took: the median and the middle nine tenths.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Spread {
    /// One in twenty took less.
    #[serde(rename = "p5_ns", with = "pipeline::nanoseconds")]
    pub p5: Nanos,
    /// Half took less.
    #[serde(rename = "median_ns", with = "pipeline::nanoseconds")]
    pub median: Nanos,
    /// One in twenty took longer.
    #[serde(rename = "p95_ns", with = "pipeline::nanoseconds")]
    pub p95: Nanos,
}

impl Spread {
    /// The spread of `times`, each quantile by its nearest rank; 0 of none.
    pub fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let quantile = |hundredths: usize| {
            let rank = (times.len() * hundredths).div_ceil(100).max(1);
            Nanos(times.get(rank - 1).copied().unwrap_or(0))
        };
        Self { p5: quantile(5), median: quantile(50), p95: quantile(95) }
    }
}

/// The slots of one kind in one chunk.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Passes {
    /// Kind and chunk, `F1`; of a pair both, `F1&BW0`.
    #[serde(rename = "pass")]
    pub what: String,
    /// Which stage runs them.
    pub stage: usize,
    /// How many there are in the predicted step.
    pub count: usize,
    /// How long they take by the prediction.
    pub predicted: Spread,
    /// How long they took.
    pub measured: Spread,
}

impl Passes {
    /// By how much the predicted median is off, as a share of the measured one.
    pub(super) fn error(&self) -> f64 {
        accuracy::error(seconds(self.predicted.median), seconds(self.measured.median))
    }
}

/// Kind and chunk of each pass of a slot, as sorted.
type Key = (usize, Vec<(u16, pipeline::Kind)>);

/// The slots of `predicted` and of all `measured` steps, by stage, chunk and kind.
pub(super) fn all(predicted: &Step, measured: &[Step]) -> Vec<Passes> {
    let mut measured = durations(measured);
    let predicted = durations(std::slice::from_ref(predicted));
    let passes = predicted.into_iter().map(|(key, times)| Passes {
        what: name(&key),
        stage: key.0,
        count: times.len(),
        predicted: Spread::of(times),
        measured: Spread::of(measured.remove(&key).unwrap_or_default()),
    });
    passes.collect()
}

fn durations(steps: &[Step]) -> BTreeMap<Key, Vec<u64>> {
    let mut all: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
    for step in steps {
        for (stage, slots) in step.stages.iter().enumerate() {
            for one in slots {
                let of = |slot: Slot| slot.passes().map(|pass| (pass.chunk, pass.kind)).collect();
                all.entry((stage, of(one.slot))).or_default().push((one.end - one.start).0);
            }
        }
    }
    all
}

fn name((_, passes): &Key) -> String {
    let names: Vec<String> =
        passes.iter().map(|(chunk, kind)| format!("{}{chunk}", kind.name())).collect();
    names.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let spread = Spread::of((1..=100).rev().collect());
        assert_eq!(spread, Spread { p5: Nanos(5), median: Nanos(50), p95: Nanos(95) });
        assert_eq!(Spread::of(vec![7]).p5, Nanos(7));
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
