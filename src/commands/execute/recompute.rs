//! Recomputation of the trained model: the parts that run again, their times and the activations kept,
//! in place of keys that a question without that model has.

use executor::{Model, ModelError};
use pipeline::{Bytes, Fault, Placement, Shape, Share, spread};
use question::keys::Keys;
use question::values::passes::Recomputed;

/// Recomputation of each chunk, as the executor takes it.
pub fn parts(recomputed: &[Recomputed]) -> Vec<Option<executor::Recomputed>> {
    let part = |one: &Recomputed| match one {
        Recomputed::Nothing => None,
        Recomputed::Selective => Some(executor::Recomputed::Attention),
        Recomputed::Layers(layers) => {
            let layers = usize::try_from(*layers).unwrap_or(usize::MAX);
            Some(executor::Recomputed::Layers(layers))
        }
        Recomputed::Everything => Some(executor::Recomputed::Everything),
    };
    recomputed.iter().map(part).collect()
}

/// Gives `keys` the bytes that F keeps of `model` where a part of it is recomputed.
pub fn keep(
    keys: &mut Keys,
    recomputed: &[Recomputed],
    model: Model,
    element_bytes: usize,
    shape: Shape,
) -> Result<(), ModelError> {
    if !recomputed.is_empty() {
        let kept = executor::kept(model, shape, element_bytes, &parts(recomputed))?;
        // Where nothing is recomputed, the value is not read.
        keys.activation_kept =
            Some(kept.into_iter().map(|kept| kept.unwrap_or(Bytes(0))).collect());
    }
    Ok(())
}

/// Gives `keys` the times of R where they follow from times of F that are given: by the layers of
/// `model` that run again, and by the FLOPs of attention among all.
pub fn time(
    keys: &mut Keys,
    recomputed: &[Recomputed],
    model: Model,
    shape: Shape,
    placement: Placement,
) -> Result<(), Fault> {
    let (None, Some(forward)) = (&keys.recompute_time, &keys.forward) else { return Ok(()) };
    let Ok(layers) = model.layers_by_chunk(shape) else { return Ok(()) };
    if recomputed.is_empty() {
        return Ok(());
    }
    let stage = |chunk| placement.stage(shape, chunk, 0);
    let forward = spread("forward", forward, shape, stage)?;
    let (hidden, sequence) = (model.hidden() as u64, model.sequence() as u64);
    let time = |((forward, part), layers): ((pipeline::Nanos, &Recomputed), &usize)| match part {
        Recomputed::Nothing | Recomputed::Everything => forward,
        Recomputed::Layers(again) => {
            let all = *layers as u64;
            forward.part((*again).min(all), all)
        }
        Recomputed::Selective => forward.part(sequence, 6 * hidden + sequence),
    };
    keys.recompute_time =
        Some(forward.into_iter().zip(recomputed).zip(&layers).map(time).collect());
    Ok(())
}
