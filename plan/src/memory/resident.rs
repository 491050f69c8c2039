//! The memory of a stage without activations.

use pipeline::{Bytes, Vocabulary};

use super::activations::Activations;
use super::parameters::{Parameters, Share};
use super::{HALF, StageMemory, bytes};
use crate::model::{Transformer, number};
use crate::setup::{Recipe, Reshard, Setup, Zero};

/// Units of parameters that are gathered at once: the layer at work, and the next.
const GATHERED: f64 = 2.0;

/// The memory of a stage without activations: held all the time, or while it computes. Gradients and the optimizer's
/// state are those of the `trained` parameters.
#[must_use]
pub fn resident(
    model: &Transformer,
    setup: &Setup,
    recipe: &Recipe,
    activations: &Activations,
    share: Share,
    parameters: Parameters,
    trained: Parameters,
) -> StageMemory {
    let logits = logits(model, setup, recipe, share);
    let again = activations.again(share.layers, setup.recompute);
    let buffers = bytes(logits.max(again) + gathered(setup, recipe, parameters, share));
    StageMemory {
        parameters: bytes(weights(setup, recipe, parameters)),
        gradients: bytes(number(recipe.gradient_bytes) * gradients(setup, trained)),
        optimizer: bytes(recipe.optimizer.state(setup, trained)),
        activations: Bytes(0),
        graphs: Bytes(0),
        buffers: Bytes(buffers.0.saturating_add(recipe.reserved.0)),
    }
}

/// Whether a stage keeps gathered parameters, and accumulates gradients before they are reduced.
fn keeps(setup: &Setup) -> bool {
    setup.reshard != Reshard::AfterForward
}

/// Bytes of the weights: embeddings, head and adapters in 16 bits, the rest in the precision of the recipe.
fn weights(setup: &Setup, recipe: &Recipe, parameters: Parameters) -> f64 {
    let [layers, ends] = parameters.by_precision();
    let own = |part: Parameters| match keeps(setup) {
        true => part.sum(),
        false => part.shared(setup, Zero::Parameters),
    };
    number(recipe.weight_bytes) * own(layers) + HALF * own(ends)
}

/// The gradients that a device holds all the time, in parameters.
fn gradients(setup: &Setup, parameters: Parameters) -> f64 {
    match setup.reshard {
        Reshard::Never => parameters.sum(),
        Reshard::AfterForward | Reshard::AfterLast => parameters.shared(setup, Zero::Gradients),
    }
}

/// Bytes of parameters that are gathered for a while, where replicas share them.
fn gathered(setup: &Setup, recipe: &Recipe, parameters: Parameters, share: Share) -> f64 {
    if setup.zero != Zero::Parameters || keeps(setup) {
        return 0.0;
    }
    let layers = number((share.layers.total() + share.mtp).max(1));
    let each = (parameters.sum() - parameters.ends) / layers;
    GATHERED * number(recipe.weight_bytes) * each + HALF * parameters.ends
}

/// Bytes of the logits on a stage, of the head and of each MTP layer: of shards, those of every
/// microbatch on its way are among the activations.
fn logits(model: &Transformer, setup: &Setup, recipe: &Recipe, share: Share) -> f64 {
    let whole = setup.family.vocabulary() == Vocabulary::Whole;
    if !whole || !(share.head || setup.vocabulary_parallel) {
        return 0.0;
    }
    let stages = if setup.vocabulary_parallel { number(setup.pipeline) } else { 1.0 };
    let columns = number(model.vocabulary) / number(setup.tensor) / stages;
    let heads = number(1 + share.mtp);
    setup.partition(recipe).tokens(model) * columns * number(recipe.logit_bytes) * heads
}
