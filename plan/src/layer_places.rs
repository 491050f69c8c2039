//! The places of chunks with a layer more than the others, where layers do not divide evenly.
//!
//! [`Split::Balanced`] says how many layers each stage has; which of the chunks and stages that take as long has the
//! layer over changes neither, but the bubble and the memory.

use pipeline::LayerLayout;
use rayon::prelude::*;
use sim::Replay;

use crate::costed::Costed;
use crate::evaluate::Evaluation;
use crate::finalist::Finalist;
use crate::inputs::Inputs;
use crate::limits;
use crate::orders::Orders;
use crate::setup::{Setup, Split};

/// The most places that are tried for a set-up.
const MOST: usize = 64;

impl Inputs<'_> {
    /// `run`, or a run of the same set-up with a heavy chunk at another place, where that saves more than chance does.
    /// Only families whose order does not depend on times are tried: others would need another order for each place.
    #[must_use]
    pub fn with_heavy_chunk_placed(&self, run: Finalist, orders: &Orders<'_>) -> Finalist {
        let Costed { setup, layers, .. } = run.costed();
        let is_tried = setup.split == Split::Balanced && setup.chunks > 1 && !setup.searched;
        if !is_tried
            || setup.family.depends_on_times()
            || limits::are_tried(setup)
            || (orders.stop())()
        {
            return run;
        }
        let places = places(layers);
        let evaluated =
            |replay: &mut Replay, layers: &Vec<u64>| self.with_layers(&run, layers, replay, orders);
        let all: Vec<Option<Evaluation>> =
            places.par_iter().map_init(Replay::new, evaluated).collect();
        let best = all.into_iter().flatten().min_by_key(|one| one.step);
        let placed = best.and_then(|one| self.settle(vec![one], orders).ok());
        placed.filter(|other| limits::saves(other.step, run.step)).unwrap_or(run)
    }

    /// The set-up of `known` with `layers` in its chunks, if that may save something and fits.
    fn with_layers(
        &self,
        known: &Finalist,
        layers: &[u64],
        replay: &mut Replay,
        orders: &Orders<'_>,
    ) -> Option<Evaluation> {
        let saves = |step| limits::saves(step, known.evaluation.step);
        let layout =
            LayerLayout::of(layers.to_vec()).ok()?.with_mtp_by_chunk(&known.costed().mtp)?;
        let inputs = Inputs { layout: Some(&layout), ..*self };
        let setup = Setup { split: Split::Searched, ..known.costed().setup };
        let costed = inputs.cost(&setup).ok().filter(|costed| saves(inputs.least(costed)))?;
        inputs.evaluate_one(costed, replay, orders).ok().filter(|one| saves(one.step))
    }
}

/// `layers` with the layer over of a chunk with most in each chunk with one less: of all chunks with most or, where
/// those are too many, of the last.
fn places(layers: &[u64]) -> Vec<Vec<u64>> {
    let most = layers.iter().copied().max().unwrap_or_default();
    let having = |count: u64| (0..layers.len()).filter(move |&at| layers[at] == count);
    let (heavy, light) = (having(most).count(), having(most.saturating_sub(1)).count());
    let skipped = if heavy * light > MOST { heavy - 1 } else { 0 };
    let moved = |(from, to): (usize, usize)| {
        let mut layers = layers.to_vec();
        layers.swap(from, to);
        layers
    };
    let pairs = having(most).skip(skipped);
    let pairs = pairs.flat_map(|from| having(most.saturating_sub(1)).map(move |to| (from, to)));
    pairs.take(MOST).map(moved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_tried_once() {
        assert_eq!(places(&[2, 3, 2, 1]), [[3, 2, 2, 1], [2, 2, 3, 1]]);
        assert_eq!(places(&[3, 2, 3]), [[2, 3, 3], [3, 3, 2]]);
        assert!(places(&[4, 4, 4]).is_empty() && places(&[]).is_empty());
        let many = [vec![3; 20], vec![2; 70]].concat();
        let all = places(&many);
        assert_eq!(all.len(), MOST);
        assert!(all.iter().all(|one| one[..19] == many[..19] && one.iter().sum::<u64>() == 200));
    }
}
