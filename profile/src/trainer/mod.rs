//! A trainer as it was recorded: the times and sizes of the chunks of its own model, of its hops and of
//! its runtime. Where a [`Profile`](crate::Profile) knows the parts of a transformer, this one knows
//! whole chunks, of whatever model.

mod form;
mod merged;
mod recorded;

use pipeline::{Bytes, Costs, Footprint, Footprints, Nanos, PassTimes, Placement, Shape};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use self::form::KIND;
pub use self::recorded::{Facts, RecordedError};
use crate::profile::Machine;
use crate::quantity::Quantity;
use crate::statistics::Verdict;

/// The passes of a trainer, as they were recorded while it ran a schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct TrainerProfile {
    /// Where and when it was recorded, and with which program.
    pub machine: Machine,
    /// The name of the schedule that ran.
    pub schedule: String,
    /// Stages of the pipeline that ran.
    pub stages: usize,
    /// Where its chunks lay.
    pub placement: Placement,
    /// Microbatches of its steps.
    pub microbatches: u32,
    /// Whether its passes ran one after the other on one device: then they hold neither hops nor the
    /// collectives within a pass.
    pub one_device: bool,
    /// How narrow half the interval of each median is to be, over the median, to be called tight.
    pub half_width: f64,
    /// The bytes of a value that crosses between stages, where they are known.
    pub message: Option<Bytes>,
    /// The time from the end of a pass to the arrival of its value at another stage that waited for it;
    /// none where no stage ever waited.
    pub hop: Option<Quantity>,
    /// The time between a pass that could have begun and its beginning: what the trainer's runtime does between passes.
    pub overhead: Option<Quantity>,
    /// By chunk, in the order of the model.
    pub chunks: Vec<RecordedChunk>,
}

/// One chunk of a trainer's model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedChunk {
    /// F for one microbatch.
    pub forward: Quantity,
    /// The backward passes of one microbatch.
    pub backward: Backward,
    /// The activations that it holds of one microbatch, where they were measured.
    pub footprint: Option<Footprint>,
    /// Its memory besides activations, where that was measured.
    pub resident: Option<Resident>,
}

/// The memory of a chunk besides the activations of microbatches.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resident {
    /// Weights, and all else that lies there for good.
    #[serde(with = "crate::size")]
    pub weights: Bytes,
    /// Gradients of the weights.
    #[serde(with = "crate::size")]
    pub gradients: Bytes,
    /// State of the optimizer, master weights included.
    #[serde(with = "crate::size")]
    pub optimizer: Bytes,
    /// The most that a pass takes for itself besides what is held before or after it.
    #[serde(with = "crate::size")]
    pub pass: Bytes,
}

impl Resident {
    /// What lies there between passes, if it can be counted.
    #[must_use]
    pub fn held(self) -> Option<Bytes> {
        let sum = self.weights.0.checked_add(self.gradients.0)?.checked_add(self.optimizer.0)?;
        Some(Bytes(sum))
    }

    /// This chunk and `other` on one stage.
    fn with(self, other: Self) -> Option<Self> {
        let sum = |one: Bytes, other: Bytes| one.0.checked_add(other.0).map(Bytes);
        Some(Self {
            weights: sum(self.weights, other.weights)?,
            gradients: sum(self.gradients, other.gradients)?,
            optimizer: sum(self.optimizer, other.optimizer)?,
            pass: self.pass.max(other.pass),
        })
    }
}

/// The backward passes that were recorded of a chunk: whole ones, split ones, or both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backward {
    /// B and W in one pass.
    Whole(Quantity),
    /// B and W apart.
    Split {
        /// B.
        input: Quantity,
        /// W.
        weight: Quantity,
        /// Both in one pass, where such passes ran as well.
        whole: Option<Quantity>,
    },
}

/// How B and W of a chunk are told apart whose backwards were recorded as whole passes alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsplit {
    /// They are not: its orders need them apart.
    Refused,
    /// Into halves, where every backward of the order is whole.
    Halves,
    /// Each takes as long as the whole backward: an order that splits it only loses.
    Doubled,
}

impl Backward {
    /// How long B and W take in one pass, where such passes were recorded.
    #[must_use]
    pub const fn whole(&self) -> Option<&Quantity> {
        match self {
            Self::Whole(whole) => Some(whole),
            Self::Split { whole, .. } => whole.as_ref(),
        }
    }
}

/// The costs of a pipeline of a trainer's chunks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrainerCosts {
    /// Times by chunk, and of a hop.
    pub costs: Costs,
    /// The time that the runtime takes before every pass.
    pub overhead: Nanos,
    /// The activations that a microbatch holds in each chunk, where they were measured for all.
    pub footprints: Option<Footprints>,
}

/// Why a trainer's profile does not cover a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TrainerError {
    /// Chunks that are not cut so.
    #[error("the profile has {recorded} chunks, which cannot be put together to {asked}")]
    Chunks {
        /// Chunks that were recorded.
        recorded: usize,
        /// Chunks that are asked about.
        asked: usize,
    },
    /// B and W were never run apart.
    #[error(
        "the profile was recorded under `{schedule}`, whose backward passes of chunk {chunk} are whole: \
         it does not know B and W apart"
    )]
    NotSplit {
        /// The schedule that ran.
        schedule: String,
        /// The first chunk without B and W.
        chunk: usize,
    },
    /// Times or sizes that overflow.
    #[error(transparent)]
    Overflow(#[from] pipeline::Fault),
}

impl TrainerProfile {
    /// The costs of a pipeline of `shape`, whose chunks are those of the profile or several of them each. Where no
    /// whole backward was recorded, BW takes B + W; where nothing else was, `unsplit` says what B and W take.
    pub fn costs(&self, shape: Shape, unsplit: Unsplit) -> Result<TrainerCosts, TrainerError> {
        let (recorded, asked) = (self.chunks.len(), usize::from(shape.chunks()));
        if !recorded.is_multiple_of(asked) {
            return Err(TrainerError::Chunks { recorded, asked });
        }
        let mut times = Vec::with_capacity(asked);
        for (at, chunks) in self.chunks.chunks(recorded / asked).enumerate() {
            let mut sums = [0; 4];
            for (within, chunk) in chunks.iter().enumerate() {
                let parts = self.times(chunk, unsplit, at * (recorded / asked) + within)?;
                sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
            }
            let [forward, backward_input, backward_weight, whole] = checked(sums)?;
            let backward =
                chunks.iter().any(|chunk| chunk.backward.whole().is_some()).then_some(whole);
            times.push(PassTimes { forward, backward_input, backward_weight, backward });
        }
        let hop = self.hop.as_ref().map_or(Nanos(0), Quantity::median);
        // A step has all of its overheads, the rare long ones as well: their mean is what it takes.
        let overhead = self.overhead.as_ref().map_or(Nanos(0), Quantity::mean);
        let footprints = self.footprints(asked)?;
        Ok(TrainerCosts { costs: Costs::new(times, hop), overhead, footprints })
    }

    /// F, B, W and BW of a chunk, in nanoseconds: means, for a step has the slow passes as well.
    fn times(
        &self,
        chunk: &RecordedChunk,
        unsplit: Unsplit,
        at: usize,
    ) -> Result<[u128; 4], TrainerError> {
        let mean = |one: &Quantity| u128::from(one.mean().0);
        let (input, weight) = match (&chunk.backward, unsplit) {
            (Backward::Split { input, weight, .. }, _) => (mean(input), mean(weight)),
            // How a whole pass is divided does not matter where it is never divided.
            (Backward::Whole(whole), Unsplit::Halves) => {
                let whole = mean(whole);
                (whole - whole / 2, whole / 2)
            }
            (Backward::Whole(whole), Unsplit::Doubled) => (mean(whole), mean(whole)),
            (Backward::Whole(_), Unsplit::Refused) => {
                return Err(TrainerError::NotSplit { schedule: self.schedule.clone(), chunk: at });
            }
        };
        let whole = chunk.backward.whole().map_or(input + weight, mean);
        Ok([mean(&chunk.forward), input, weight, whole])
    }

    /// The chunk whose B and W take the most over a whole backward, and that ratio of means; none where no
    /// chunk has all three.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn dearest_split(&self) -> Option<(usize, f64)> {
        let ratio = |chunk: &RecordedChunk| match &chunk.backward {
            Backward::Split { input, weight, whole: Some(whole) } if whole.mean().0 > 0 => {
                Some((input.mean().0 as f64 + weight.mean().0 as f64) / whole.mean().0 as f64)
            }
            _ => None,
        };
        let ratios = self.chunks.iter().enumerate().filter_map(|(at, one)| Some((at, ratio(one)?)));
        ratios.max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// By how much the time of a step may be off for what the recording does not know, as a fraction: half the 95 %
    /// intervals of the means of F, B and W, or BW, of all chunks, added up as if all were off the same way, over
    /// the means. Orders whose predicted steps differ by no more are indistinguishable.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn uncertainty(&self) -> f64 {
        let quantities = self.chunks.iter().flat_map(|chunk| {
            let backward = match &chunk.backward {
                Backward::Whole(whole) => [Some(whole), None],
                Backward::Split { input, weight, .. } => [Some(input), Some(weight)],
            };
            [Some(&chunk.forward)].into_iter().chain(backward).flatten()
        });
        let (half, mean) = quantities.fold((0.0, 0.0), |(half, mean), one| {
            (half + one.half_width_of_mean(), mean + one.mean().0 as f64)
        });
        if mean > 0.0 { half / mean } else { 0.0 }
    }

    /// What each stage of a pipeline of `shape` holds besides activations: all of its chunks, and the largest
    /// pass of one; nothing where that was not measured for all, or the chunks are cut otherwise.
    #[must_use]
    pub fn resident(&self, shape: Shape, placement: Placement) -> Option<Vec<Resident>> {
        let joined = self.chunks.len() / usize::from(shape.chunks());
        if joined * usize::from(shape.chunks()) != self.chunks.len() {
            return None;
        }
        let mut stages = vec![Resident::default(); shape.stages()];
        for (at, chunk) in self.chunks.iter().enumerate() {
            let chunk_of = u16::try_from(at / joined).ok()?;
            let (one, stage) = (chunk.resident?, placement.stage(shape, chunk_of, 0));
            stages[stage] = stages[stage].with(one)?;
        }
        Some(stages)
    }

    fn footprints(&self, asked: usize) -> Result<Option<Footprints>, TrainerError> {
        let Some(all) = self.chunks.iter().map(|one| one.footprint).collect::<Option<Vec<_>>>()
        else {
            return Ok(None);
        };
        let sum = |chunks: &[Footprint]| {
            let sum =
                |of: fn(&Footprint) -> u64| chunks.iter().map(|one| u128::from(of(one))).sum();
            let [until_backward, until_weight] =
                checked([sum(|one| one.until_backward.0), sum(|one| one.until_weight.0)])?;
            let [until_backward, until_weight] = [until_backward.0, until_weight.0].map(Bytes);
            Ok(Footprint { until_backward, until_weight })
        };
        let together = all.chunks(all.len() / asked).map(sum);
        Ok(Some(Footprints::new(together.collect::<Result<_, TrainerError>>()?)))
    }

    /// The quantities that cannot be relied on, by name. Samples far from the median are not held against
    /// it: a runtime in Python always has some.
    #[must_use]
    pub fn doubts(&self) -> Vec<(String, Verdict)> {
        let all = self.quantities().into_iter();
        let all = all.map(|(name, one)| (name, one.verdict(self.half_width)));
        let is_bad =
            |verdict: &Verdict| !matches!(verdict, Verdict::Tight | Verdict::Scattered { .. });
        all.filter(|(_, verdict)| is_bad(verdict)).collect()
    }

    /// Every quantity, by name.
    fn quantities(&self) -> Vec<(String, &Quantity)> {
        let of_chunks = self.chunks.iter().enumerate().flat_map(|(at, chunk)| {
            let (split, whole) = match &chunk.backward {
                Backward::Whole(whole) => (None, Some(whole)),
                Backward::Split { input, weight, whole } => (Some([input, weight]), whole.as_ref()),
            };
            let [input, weight] = split.map_or([None; 2], |both| both.map(Some));
            let all =
                [("F", Some(&chunk.forward)), ("B", input), ("W", weight), ("B and W", whole)];
            let named = move |(name, one): (&str, _)| Some((format!("chunk {at} {name}"), one?));
            all.into_iter().filter_map(named)
        });
        let of_all = [("hop", &self.hop), ("overhead of a pass", &self.overhead)];
        let of_all =
            of_all.into_iter().filter_map(|(name, one)| Some((name.to_owned(), one.as_ref()?)));
        of_chunks.chain(of_all).collect()
    }
}

/// Sums as times.
fn checked<const N: usize>(sums: [u128; N]) -> Result<[Nanos; N], TrainerError> {
    for sum in sums {
        pipeline::check_sum("the times and sizes of the profile", sum)?;
    }
    Ok(sums.map(|sum| Nanos(u64::try_from(sum).unwrap_or(u64::MAX))))
}
