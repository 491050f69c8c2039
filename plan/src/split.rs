//! Split of layers into chunks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::number;
use crate::setup::Split;

/// Halvings of the time of the slowest chunk: to a millionth of a millionth of the whole.
const HALVINGS: u32 = 40;

/// The inputs for assigning layers to chunks, the chunks in model order.
pub(crate) struct LayerSplit<'a> {
    /// Layers of the model.
    pub(crate) layers: u64,
    /// The stage of each chunk.
    pub(crate) stages: &'a [usize],
    /// The duration of a layer on each stage, in seconds.
    pub(crate) layer: &'a [f64],
    /// The duration of each chunk without its layers, in seconds: the ends of the model.
    pub(crate) ends: &'a [f64],
    /// The duration of each layer in model order over the mean, where frozen layers make them differ; empty where all
    /// count alike.
    pub(crate) weights: &'a [f64],
}

impl LayerSplit<'_> {
    /// Layers of each chunk.
    #[must_use]
    pub(crate) fn by(&self, split: Split) -> Vec<u64> {
        match split {
            Split::Even | Split::Layout => self.even(),
            Split::Balanced | Split::Searched if self.weights.is_empty() => self.balanced(),
            Split::Balanced | Split::Searched => {
                self.by_weight().unwrap_or_else(|| self.balanced())
            }
        }
    }

    /// Equally many to each chunk, the rest to the middle ones.
    fn even(&self) -> Vec<u64> {
        let chunks = self.stages.len() as u64;
        let (each, rest) = (self.layers / chunks, self.layers % chunks);
        let first = (chunks - rest) / 2;
        (0..chunks).map(|at| each + u64::from(at >= first && at < first + rest)).collect()
    }

    /// Assigns one layer after the other to the stage that finishes it first, the last of those: it holds
    /// activations for the shortest time. Those of a stage are shared by its chunks; what is left over goes to
    /// the chunks with the lightest ends, the last first.
    fn balanced(&self) -> Vec<u64> {
        let mut work = vec![0.0; self.layer.len()];
        for (&stage, end) in self.stages.iter().zip(self.ends) {
            work[stage] += end;
        }
        let mut of_stages = self.certain(&work);
        for (stage, &layers) in of_stages.iter().enumerate() {
            work[stage] += number(layers) * self.layer[stage];
        }
        // Times are not negative, so their bits are in their order.
        let after = |work: f64, stage: usize| {
            Reverse(((work + self.layer[stage]).to_bits(), Reverse(stage)))
        };
        let all = work.iter().enumerate().map(|(stage, &work)| after(work, stage));
        let mut next: BinaryHeap<Reverse<(u64, Reverse<usize>)>> = all.collect();
        for _ in of_stages.iter().sum()..self.layers {
            let Some(mut first) = next.peek_mut() else { break };
            let Reverse((bits, Reverse(stage))) = *first;
            of_stages[stage] += 1;
            *first = after(f64::from_bits(bits), stage);
        }
        let mut chunks_of = vec![Vec::new(); of_stages.len()];
        for (chunk, &stage) in self.stages.iter().enumerate() {
            chunks_of[stage].push(chunk);
        }
        let mut layers_of = vec![0; self.stages.len()];
        for (layers, mut own) in of_stages.into_iter().zip(chunks_of) {
            let chunks = own.len().max(1) as u64;
            own.sort_by_key(|&chunk| (self.ends[chunk].to_bits(), Reverse(chunk)));
            for (at, chunk) in (0..).zip(own) {
                layers_of[chunk] = layers / chunks + u64::from(at < layers % chunks);
            }
        }
        layers_of
    }

    /// Runs of layers of which the slowest chunk is as fast as can be, each with a layer at least; `None` where there
    /// are not enough.
    fn by_weight(&self) -> Option<Vec<u64>> {
        let work: f64 =
            self.weights.iter().sum::<f64>() * self.layer.iter().copied().fold(0.0, f64::max);
        let ends: f64 = self.ends.iter().sum();
        let (mut low, mut high) = (0.0, work + ends);
        let mut best = self.within(high)?;
        for _ in 0..HALVINGS {
            let most = (low + high) / 2.0;
            match self.within(most) {
                Some(layers) => (best, high) = (layers, most),
                None => low = most,
            }
        }
        Some(best)
    }

    /// Layers of each chunk, as many as take `most` at most, if all find a place.
    fn within(&self, most: f64) -> Option<Vec<u64>> {
        let mut left = self.weights;
        let chunks = self.stages.len();
        let one = |(chunk, (&stage, &end)): (usize, (&usize, &f64))| {
            let spare = left.len().checked_sub(chunks - 1 - chunk)?;
            let mut work = end;
            let fits = |weight: &&f64| {
                work += **weight * self.layer[stage];
                work <= most
            };
            let count = left.iter().take_while(fits).count().min(spare);
            left = &left[count..];
            (count > 0).then_some(count as u64)
        };
        let layers: Option<Vec<u64>> =
            self.stages.iter().zip(self.ends).enumerate().map(one).collect();
        layers.filter(|_| left.is_empty())
    }

    /// Layers that each stage surely gets, so that few are left to assign one by one: all but one of
    /// those that would bring the stage, whose ends take `work`, to the time at which all stages finish
    /// if layers were divisible.
    fn certain(&self, work: &[f64]) -> Vec<u64> {
        let rate: f64 = self.layer.iter().map(|layer| 1.0 / layer).sum();
        let begun: f64 = work.iter().zip(self.layer).map(|(work, layer)| work / layer).sum();
        let level = (number(self.layers) + begun) / rate;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast saturates.
        let share = |(work, layer): (&f64, &f64)| ((level - work) / layer - 1.0).max(0.0) as u64;
        let all: Vec<u64> = work.iter().zip(self.layer).map(share).collect();
        // Ends that take longer than the level leave less for the other chunks than it says.
        let sum = all.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
        if sum <= self.layers { all } else { vec![0; self.layer.len()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_goes_to_the_middle() {
        let stages: Vec<usize> = (0..8).collect();
        let split = LayerSplit {
            weights: &[],
            layers: 30,
            stages: &stages,
            layer: &[1.0; 8],
            ends: &[0.0; 8],
        };
        assert_eq!(split.by(Split::Even), [3, 4, 4, 4, 4, 4, 4, 3]);
        let split = LayerSplit { layers: 33, ..split };
        assert_eq!(split.by(Split::Even).iter().sum::<u64>(), 33);
    }

    #[test]
    fn slow_stages_and_heavy_ends_get_fewer() {
        let mut ends = [0.0; 4];
        ends[3] = 2.0;
        let split = LayerSplit {
            weights: &[],
            layers: 14,
            stages: &[0, 1, 2, 3],
            layer: &[1.0; 4],
            ends: &ends,
        };
        assert_eq!(split.by(Split::Balanced), [4, 4, 4, 2]);
        // A layer over goes to the last stage that takes it as soon, and there to its last chunk without an end.
        let twice: Vec<usize> = (0..8).map(|chunk| chunk % 4).collect();
        let heavy = LayerSplit {
            layers: 16,
            stages: &twice,
            ends: &[0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.5],
            ..split
        };
        assert_eq!(heavy.by(Split::Balanced), [2, 2, 2, 2, 2, 2, 3, 1]);
        let split =
            LayerSplit { layers: 12, layer: &[2.0, 2.0, 1.0, 1.0], ends: &[0.0; 4], ..split };
        assert_eq!(split.by(Split::Balanced), [2, 2, 4, 4]);
        // An end that takes longer than all layers gets none of them.
        let split = LayerSplit { ends: &[0.0, 0.0, 0.0, 100.0], layer: &[1.0; 4], ..split };
        assert_eq!(split.by(Split::Balanced), [4, 4, 4, 0]);
        // Ten thousand layers are split as fast as ten.
        let split = LayerSplit { layers: 10_000, ..split };
        assert_eq!(split.by(Split::Balanced), [2525, 2525, 2525, 2425]);
    }

    #[test]
    fn light_layers_make_long_chunks() {
        let weights = [vec![0.4; 8], vec![1.6; 8]].concat();
        let (stages, ends) = ([0, 1, 2, 3], [0.0; 4]);
        let split = LayerSplit {
            weights: &weights,
            layers: 16,
            stages: &stages,
            layer: &[1.0; 4],
            ends: &ends,
        };
        let layers = split.by(Split::Balanced);
        assert!(layers[0] >= 8 && layers.iter().sum::<u64>() == 16, "{layers:?}");
        assert!(layers[1..].iter().all(|&count| count <= 3), "{layers:?}");
        // Each chunk has a layer, however long an end is.
        let split = LayerSplit { ends: &[100.0, 0.0, 0.0, 0.0], ..split };
        let layers = split.by(Split::Balanced);
        assert!(layers[0] == 1 && layers.iter().sum::<u64>() == 16, "{layers:?}");
    }
}
