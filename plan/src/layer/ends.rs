//! Times of the ends of a model: embedding, head and loss, the last normalisation, MTP.

use pipeline::Vocabulary;

use super::part::{Part, PartTimes};
use super::products::shared;
use super::{LayerTimes, Task};
use crate::model::number;
use crate::partition::Loss;
use crate::precision::Precision;
use crate::times::Times;

/// Bytes moved for one logit by a loss that is one kernel each way, forward and backward together.
/// Fitted to Zero Bubble's table 4.
const FUSED_LOGIT_BYTES: f64 = 5.9;
/// Bytes moved for one logit, forward and backward, by a loss in 32 bits that is a kernel for each
/// operation. Counted in Megatron-LM's cross entropy: the logits made 32-bit, their maximum, the
/// difference, its exponential, their sum, the quotient; and the gradient scaled and made 16-bit.
/// The vocabulary profile measures 39 to 49, and 13 to 19.
const LOGIT_BYTES: [f64; 2] = [38.0, 14.0];
/// Bytes moved for one parameter of the embedding in every backward: its gradient is written whole and
/// added up in 32 bits. Fitted to the first stage of the vocabulary profile; 12 by counting.
const EMBEDDING_BYTES: f64 = 8.9;
/// Bytes moved for one activation at the head: last normalisation, and its backward.
const HEAD_BYTES: f64 = 60.0;

/// Times of an end without a further breakdown.
fn whole(part: Part, times: Times) -> LayerTimes {
    let mut parts = PartTimes::default();
    parts.add(part, times.sum());
    LayerTimes { times, alone: times, parts, ..LayerTimes::default() }
}

/// The duration of the head and the loss: a product with the vocabulary, V/t columns on each device
/// of the tensor group, and the memory traffic of the logits.
#[must_use]
pub fn head(task: &Task<'_>) -> LayerTimes {
    if let Some(measured) = task.measured() {
        return whole(Part::Products, needed(task, measured.ends));
    }
    logits(task, number(task.model.vocabulary)).plus(last_norm(task))
}

/// Of the passes of the head, those that are needed: a gradient of its input if a weight before it is trained, one
/// of its weights if they are.
fn needed(task: &Task<'_>, times: Times) -> Times {
    let model = task.model;
    let has_gradient = model.trains_before(model.layers);
    Times {
        forward: times.forward,
        backward_input: if has_gradient { times.backward_input } else { 0.0 },
        backward_weight: if model.trains_head() { times.backward_weight } else { 0.0 },
    }
}

/// The duration of `rows` rows of the vocabulary, shared by the tensor group of a device: a product
/// in each direction, and the memory traffic of the logits.
fn logits(task: &Task<'_>, rows: f64) -> LayerTimes {
    let (machine, tokens) = (task.machine, task.tokens());
    let columns = rows / number(task.partition.tensor);
    let gain = if task.head == Precision::Bf16 { machine.efficiency.head } else { 1.0 };
    let rate = machine.rate(task.head) * gain / task.software.compute;
    let product = machine.product([tokens, columns, number(task.model.hidden)], 1.0, rate);
    let slow = task.software.compute;
    let traffic = |bytes: f64| machine.stream(tokens * columns * bytes) * slow;
    // One kernel computes the gradient with the loss, and the rest is a third of each pass.
    let third = traffic(FUSED_LOGIT_BYTES) / 3.0;
    let [forward, backward, weight] = match task.partition.loss {
        Loss::Separate => [traffic(LOGIT_BYTES[0]), traffic(LOGIT_BYTES[1]), 0.0],
        Loss::Fused if task.model.trains_head() => [third; 3],
        Loss::Fused => [third, 2.0 * third, 0.0],
    };
    let loss = Times { forward, backward_input: backward, backward_weight: weight };
    let products = Times { forward: product, backward_input: product, backward_weight: product };
    whole(Part::Products, needed(task, products)).plus(whole(Part::Elementwise, loss))
}

/// The duration of the parts of multi-token prediction beside its layer: the product that joins the
/// last layer's output with the embedding of the next token, and a head of its own (DeepSeek-V3, arXiv
/// 2412.19437, section 2.2).
#[must_use]
pub(crate) fn mtp(task: &Task<'_>) -> LayerTimes {
    let machine = task.machine;
    let rate = machine.rate(task.precision);
    let passes = shared(task, task.model.mtp_product()).passes(machine, rate);
    let passes = task.model.mtp_kind().trained.of_passes(passes);
    let [forward, backward_input, backward_weight] = task.slowed(passes);
    whole(Part::Products, Times { forward, backward_input, backward_weight }).plus(head(task))
}

/// The duration of the embedding: the gradient of its V/t rows on each device of the tensor group.
/// The lookup is left out: below 0.1 % of a layer.
#[must_use]
pub(crate) fn embedding(task: &Task<'_>) -> LayerTimes {
    // Included in the measured ends.
    if task.measured().is_some() || !task.model.trains_embedding() {
        return LayerTimes::default();
    }
    let own =
        number(task.model.vocabulary) * number(task.model.hidden) / number(task.partition.tensor);
    let seconds = task.machine.stream(own * EMBEDDING_BYTES);
    whole(Part::Elementwise, Times { backward_weight: seconds, ..Times::default() })
}

/// The duration of the last normalisation, which runs once however the head is shared.
#[must_use]
pub(crate) fn last_norm(task: &Task<'_>) -> LayerTimes {
    if task.measured().is_some() {
        // Included in the measured ends.
        return LayerTimes::default();
    }
    let bytes = task.tokens() * number(task.model.hidden) * HEAD_BYTES;
    let third = task.machine.stream(bytes) / 3.0;
    let times = Times { forward: third, backward_input: third, backward_weight: third };
    whole(Part::Elementwise, needed(task, times))
}

/// A third of the time of one of `shards` of the head, in seconds; [`Vocabulary::thirds`] is the number
/// of them before the barrier.
#[must_use]
pub(crate) fn shard(task: &Task<'_>, shards: usize) -> f64 {
    let count = number(shards as u64);
    if let Some(measured) = task.measured() {
        return needed(task, measured.ends).sum() / 3.0 / count;
    }
    let rows = number(Vocabulary::padded(task.model.vocabulary, shards)) / count;
    logits(task, rows).times.sum() / 3.0
}
