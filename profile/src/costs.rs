//! From a profile to what a pipeline costs. A chunk is its layers times the layer, the first one with
//! the embeddings, the last one with the head; nothing else is assumed.

use pipeline::{
    Bytes, Costs, Footprint, Footprints, Nanos, PassTimes, Placement, Shape, check_sum,
};
use thiserror::Error;

use crate::link::LinkKind;
use crate::model::ModelError;
use crate::profile::Profile;

/// The costs of a pipeline on the machine of a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Predicted {
    /// Times by chunk, and of a hop.
    pub costs: Costs,
    /// The activations that a microbatch holds in each chunk.
    pub footprints: Footprints,
    /// The bytes that cross between stages.
    pub message: Bytes,
    /// The link a hop was taken from; `None` if the profile has none, so that hops are free.
    pub link: Option<LinkKind>,
}

/// Why a profile does not cover a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CostsError {
    /// Layers that cannot be cut so.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Times or sizes that overflow.
    #[error(transparent)]
    Overflow(#[from] pipeline::Fault),
}

/// The costs of a model of `layers` layers, of the shape that `profile` was measured for, cut into
/// the chunks of `shape` as the executor cuts it.
///
/// Where a chunk lives does not matter: a hop takes as long between any two stages.
pub fn predict(profile: &Profile, layers: usize, shape: Shape) -> Result<Predicted, CostsError> {
    let by_chunk = profile.model.with_layers(layers)?.layers_by_chunk(shape)?;
    let last = by_chunk.len() - 1;
    let (mut times, mut footprints) = (Vec::new(), Vec::new());
    for (chunk, &layers) in by_chunk.iter().enumerate() {
        let chunk = Chunk { profile, layers, is_first: chunk == 0, is_last: chunk == last };
        times.push(chunk.times()?);
        footprints.push(chunk.footprint()?);
    }
    let message = profile.model.message();
    let link = profile.links.iter().find(|link| link.kind.joins_stages());
    let hop = link.and_then(|link| link.time(message.0)).map_or(Nanos(0), Nanos);
    Ok(Predicted {
        costs: Costs::new(times, hop),
        footprints: Footprints::new(footprints),
        message,
        link: link.map(|link| link.kind),
    })
}

/// The time of an optimizer step on the stage with the most parameters: what was measured for one
/// parameter, times those that the executor puts there.
pub fn optimizer(
    profile: &Profile,
    layers: usize,
    shape: Shape,
    placement: Placement,
) -> Result<Nanos, CostsError> {
    let by_chunk = profile.model.with_layers(layers)?.parameters_by_chunk(shape)?;
    let of_stage = |stage: usize| -> u128 {
        let chunks = placement.chunks_of(shape, stage);
        chunks.map(|chunk| by_chunk[usize::from(chunk)]).sum()
    };
    let most = (0..shape.stages()).map(of_stage).max().unwrap_or(0);
    let measured = &profile.optimizer;
    let all = most.saturating_mul(u128::from(measured.step.median().0));
    checked("the optimizer's time", all / u128::from(measured.parameters.max(1))).map(Nanos)
}

/// One chunk, whose parts add up.
struct Chunk<'a> {
    profile: &'a Profile,
    layers: usize,
    is_first: bool,
    is_last: bool,
}

impl Chunk<'_> {
    fn times(&self) -> Result<PassTimes, CostsError> {
        let Profile { layer, embedding, head, overhead, .. } = self.profile;
        let pass = |layer: Nanos, embedding: Nanos, head: Nanos| {
            let parts = self.total("the times", layer.0, embedding.0, head.0)?;
            let all = u128::from(parts) + u128::from(overhead.median().0);
            checked("the times", all).map(Nanos)
        };
        Ok(PassTimes::new(
            pass(layer.forward.median(), embedding.forward.median(), head.forward.median())?,
            pass(
                layer.backward_input.median(),
                embedding.backward_input.median(),
                head.backward_input.median(),
            )?,
            pass(
                layer.backward_weight.median(),
                embedding.backward_weight.median(),
                head.backward_weight.median(),
            )?,
        ))
    }

    fn footprint(&self) -> Result<Footprint, CostsError> {
        let Profile { layer, embedding, head, .. } = self.profile;
        let parts = [layer.footprint, embedding.footprint, head.footprint];
        let sum = |bytes: fn(Footprint) -> Bytes| {
            let [layer, embedding, head] = parts.map(|part| bytes(part).0);
            self.total("the activations", layer, embedding, head).map(Bytes)
        };
        Ok(Footprint {
            until_backward: sum(|one| one.until_backward)?,
            until_weight: sum(|one| one.until_weight)?,
        })
    }

    fn total(
        &self,
        what: &'static str,
        layer: u64,
        embedding: u64,
        head: u64,
    ) -> Result<u64, CostsError> {
        let at = |is_there: bool, part: u64| if is_there { u128::from(part) } else { 0 };
        let layers = self.layers as u128 * u128::from(layer);
        checked(what, layers + at(self.is_first, embedding) + at(self.is_last, head))
    }
}

fn checked(what: &'static str, sum: u128) -> Result<u64, CostsError> {
    check_sum(what, sum)?;
    Ok(u64::try_from(sum).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::example;

    fn predicted(layers: usize, stages: u64, chunks: u64) -> Result<Predicted, CostsError> {
        let profile = Profile::parse(&example()).unwrap();
        predict(&profile, layers, Shape::new(stages, chunks, 4).unwrap())
    }

    #[test]
    fn chunks_are_layers_with_both_ends() {
        let predicted = predicted(7, 2, 2).unwrap();
        // Layers 2, 2, 2, 1; layer 10, 20, 8 us; embedding 1, 2, 0.8; head 5, 10, 4; overhead 70 ns.
        let times = |f, b, w| PassTimes::new(Nanos(f), Nanos(b), Nanos(w));
        let middle = times(20_070, 40_070, 16_070);
        let all = [times(21_070, 42_070, 16_870), middle, middle, times(15_070, 30_070, 12_070)];
        assert_eq!(predicted.costs.chunks(), all);
        let bytes: Vec<u64> =
            (0..4).map(|chunk| predicted.footprints.of(chunk).until_backward.0).collect();
        assert_eq!(bytes, [714_000, 680_000, 680_000, 510_000]);
        // 2 x 32 tokens of 64 f32: measured at that very size.
        assert_eq!(
            (predicted.message, predicted.costs.hops().longest()),
            (Bytes(16_384), Nanos(4_000))
        );
        assert_eq!(predicted.link, Some(LinkKind::Queue));
    }

    #[test]
    fn one_chunk_has_both_ends() {
        let predicted = predicted(3, 1, 1).unwrap();
        assert_eq!(predicted.costs.chunks()[0].forward, Nanos(36_070));
    }

    #[test]
    fn the_optimizer_takes_as_long_as_on_the_largest_stage() {
        let profile = Profile::parse(&example()).unwrap();
        let time = |layers, stages, chunks, placement| {
            let shape = Shape::new(stages, chunks, 4).unwrap();
            optimizer(&profile, layers, shape, placement).unwrap()
        };
        let model = profile.model.with_layers(4).unwrap();
        let all = profile.optimizer.step.median().0 * model.parameters() as u64;
        let whole = Nanos(all / profile.optimizer.parameters);
        assert_eq!(time(4, 1, 1, Placement::Looped), whole);
        assert_eq!(time(4, 1, 2, Placement::Looped), whole);
        // Both ends of the model lie on stage 0 of a V.
        let [looped, folded] = [Placement::Looped, Placement::Vee].map(|at| time(4, 2, 2, at));
        assert!(looped < folded && folded < whole, "{looped} {folded} {whole}");
    }

    #[test]
    fn layers_that_cannot_be_cut_or_counted() {
        let few = predicted(3, 2, 2).unwrap_err().to_string();
        assert_eq!(few, "3 layers cannot be cut into 4 chunks");
        assert!(predicted(0, 1, 1).is_err());
        assert!(predicted(usize::MAX, 1, 1).is_err());
    }
}
