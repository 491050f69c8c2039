//! How layers are dealt to chunks.

use crate::setup::Split;

/// What dealing needs to know: the chunks in model order.
pub(crate) struct Deal<'a> {
    /// Layers of the model.
    pub(crate) layers: u64,
    /// The stage of each chunk.
    pub(crate) stages: &'a [usize],
    /// What a layer takes on each stage, in seconds.
    pub(crate) layer: &'a [f64],
    /// What each chunk takes without layers, in seconds: the ends of the model.
    pub(crate) ends: &'a [f64],
}

impl Deal<'_> {
    /// Layers of each chunk.
    #[must_use]
    pub(crate) fn by(&self, split: Split) -> Vec<u64> {
        match split {
            Split::Even => self.even(),
            Split::Balanced => self.balanced(),
        }
    }

    /// As many to each chunk, the rest to the middle.
    fn even(&self) -> Vec<u64> {
        let chunks = self.stages.len() as u64;
        let (each, rest) = (self.layers / chunks, self.layers % chunks);
        let first = (chunks - rest) / 2;
        (0..chunks).map(|at| each + u64::from(at >= first && at < first + rest)).collect()
    }

    /// One layer after the other to the stage that is done first with it, there to the chunk with the
    /// fewest.
    fn balanced(&self) -> Vec<u64> {
        let mut work = vec![0.0; self.layer.len()];
        for (&stage, end) in self.stages.iter().zip(self.ends) {
            work[stage] += end;
        }
        let mut dealt = vec![0; self.stages.len()];
        for _ in 0..self.layers {
            let after = |stage: &usize| work[*stage] + self.layer[*stage];
            let next = (0..work.len()).min_by(|a, b| after(a).total_cmp(&after(b)));
            let Some(stage) = next else { break };
            work[stage] += self.layer[stage];
            let own = (0..dealt.len()).filter(|&chunk| self.stages[chunk] == stage);
            if let Some(chunk) = own.min_by_key(|&chunk| dealt[chunk]) {
                dealt[chunk] += 1;
            }
        }
        dealt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_goes_to_the_middle() {
        let stages: Vec<usize> = (0..8).collect();
        let deal = Deal { layers: 30, stages: &stages, layer: &[1.0; 8], ends: &[0.0; 8] };
        assert_eq!(deal.by(Split::Even), [3, 4, 4, 4, 4, 4, 4, 3]);
        let deal = Deal { layers: 33, ..deal };
        assert_eq!(deal.by(Split::Even).iter().sum::<u64>(), 33);
    }

    #[test]
    fn slow_stages_and_heavy_ends_get_fewer() {
        let mut ends = [0.0; 4];
        ends[3] = 2.0;
        let deal = Deal { layers: 14, stages: &[0, 1, 2, 3], layer: &[1.0; 4], ends: &ends };
        assert_eq!(deal.by(Split::Balanced), [4, 4, 4, 2]);
        let deal = Deal { layers: 12, layer: &[2.0, 2.0, 1.0, 1.0], ends: &[0.0; 4], ..deal };
        assert_eq!(deal.by(Split::Balanced), [2, 2, 4, 4]);
    }
}
