//! How long the parts of a model take on a device: layers, the head, and what travels for them.

use pipeline::Vocabulary;

use crate::cut::{Cut, Loss};
use crate::machine::{Machine, all_reduce};
use crate::model::{Attention, Module, Recompute, Transformer, number};
use crate::times::Times;

/// Bytes of a 16-bit number.
const HALF: f64 = 2.0;
/// How often the forward of attention moves one score through memory: written by the product, read
/// and written by softmax and by dropout, its mask, read by the second product, and what fusing
/// them does not save. Fitted; 6.5 by counting.
const SCORE_TRAFFIC: f64 = 8.78;
/// How often the forward of a layer moves one activation of size h that every device of a tensor
/// group has whole: two normalisations, two dropouts with residuals. Fitted; 11 by counting without
/// fusion.
const WHOLE_TRAFFIC: f64 = 8.07;
/// The same for one activation of the size of all queries, for queries, keys and values, which the
/// group shares.
const SHARED_TRAFFIC: f64 = 4.48;
/// The same for the width of the MLP: read and written by the activation function.
const MLP_TRAFFIC: f64 = 2.0;
/// The same for queries and keys where they are normalised: read and written, by counting.
const QK_NORM_TRAFFIC: f64 = 2.0;
/// The traffic of the backward over that of the forward. Fitted.
const BACKWARD_TRAFFIC: f64 = 0.923;
/// Bytes moved for one logit by a loss that is one kernel each way, forward and backward together.
/// Fitted to Zero Bubble's table 4.
const FUSED_LOGIT_BYTES: f64 = 5.9;
/// Bytes moved for one logit, forward and backward, by a loss in 32 bits that is a kernel for each
/// operation. Counted in Megatron-LM's cross entropy: the logits made 32-bit, their maximum, the
/// difference, its exponential, their sum, the quotient; and the gradient scaled and made 16-bit.
/// What the vocabulary profile measured is 39 to 49, and 13 to 19.
const LOGIT_BYTES: [f64; 2] = [38.0, 14.0];
/// Bytes moved for one parameter of the embedding in every backward: its gradient is written whole and
/// added up in 32 bits. Fitted to the first stage of the vocabulary profile; 12 by counting.
const EMBEDDING_BYTES: f64 = 8.9;
/// Bytes moved for one activation at the head: last normalisation, and its backward.
const HEAD_BYTES: f64 = 60.0;
/// Share of the launches of a layer that its forward is; the rest are backward and forward again.
const FORWARD_LAUNCHES: f64 = 0.27;
/// FLOPs of the backward of fused attention over its forward: five products in place of two (Dao
/// 2023, arXiv 2307.08691, section 3.1).
const FLASH_BACKWARD: f64 = 2.5;

/// The duration of a layer, and its parts.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct LayerTimes {
    /// With everything below.
    pub times: Times,
    /// The same if collectives took no time: what links have no part in.
    pub alone: Times,
    /// Seconds of all three that are products.
    pub products: f64,
    /// Seconds that are attention.
    pub attention: f64,
    /// Seconds that are elementwise kernels.
    pub elementwise: f64,
    /// Seconds that are collectives of tensor, context and expert groups.
    pub collectives: f64,
}

/// The kernels of one layer's forward and backward, before anything is put together.
struct Parts {
    products: [f64; 3],
    /// Forward and backward.
    attention: [f64; 2],
    elementwise: [f64; 2],
    /// Of one direction.
    collectives: f64,
}

/// The duration of a layer of `model`, cut as `cut` says, on `machine` under `recompute`.
///
/// The device takes the sum of its kernels and collectives, or the host its launches, whatever is
/// longer; near each other both count, as the fourth root of the sum of fourth powers.
#[must_use]
pub fn layer(model: &Transformer, machine: &Machine, cut: Cut, recompute: Recompute) -> LayerTimes {
    if let Some(measured) = machine.measured.filter(|measured| measured.is_of(cut)) {
        return measured_layer(measured.layer, recompute);
    }
    let parts = parts(model, machine, cut);
    let [f, b, w] = parts.products;
    let [attention, attention_back] = parts.attention;
    let [elementwise, elementwise_back] = parts.elementwise;
    let launch = machine.efficiency.launch
        * if cut.tensor > 1 { machine.efficiency.launch_tensor } else { 1.0 };
    let with = |collectives: f64| {
        let forward = f + attention + elementwise + collectives;
        let again = match recompute {
            Recompute::None => 0.0,
            Recompute::Selective => attention,
            Recompute::Modules(modules) if modules.has(Module::CoreAttention) => attention,
            Recompute::Modules(_) => 0.0,
            Recompute::Full => forward,
        };
        let backward = b + attention_back + elementwise_back + collectives + again;
        let stretch = longer(backward + w, launch * (1.0 - FORWARD_LAUNCHES)) / (backward + w);
        Times {
            forward: longer(forward, launch * FORWARD_LAUNCHES),
            backward_input: backward * stretch,
            backward_weight: w * stretch,
        }
    };
    let repeats = if recompute == Recompute::Full { 1.0 } else { 0.0 };
    let repeats_attention = if recompute.has(Module::CoreAttention) { 1.0 } else { 0.0 };
    LayerTimes {
        times: with(parts.collectives),
        alone: with(0.0),
        products: f * (1.0 + repeats) + b + w,
        attention: attention * (1.0 + repeats_attention) + attention_back,
        elementwise: elementwise * (1.0 + repeats) + elementwise_back,
        collectives: parts.collectives * (2.0 + repeats),
    }
}

/// A layer whose times were measured without computing anything again; attention is not told apart.
fn measured_layer(layer: Times, recompute: Recompute) -> LayerTimes {
    let again = if recompute == Recompute::None { 0.0 } else { layer.forward };
    let times = Times { backward_input: layer.backward_input + again, ..layer };
    LayerTimes { times, alone: times, products: times.sum(), ..LayerTimes::default() }
}

fn parts(model: &Transformer, machine: &Machine, cut: Cut) -> Parts {
    let [attention, attention_back] = attention(model, machine, cut);
    let elementwise = elementwise(model, machine, cut);
    Parts {
        products: products(model, machine, cut),
        attention: [attention, attention_back],
        elementwise: [elementwise, elementwise * BACKWARD_TRAFFIC],
        collectives: collectives(model, machine, cut),
    }
}

/// Tokens of a microbatch on one device of a context group.
fn tokens(model: &Transformer, cut: Cut) -> f64 {
    number(cut.microbatch) * number(model.sequence) / number(cut.context)
}

/// F, B and W of the products with weights: each backward has the sizes of the forward in another
/// order.
fn products(model: &Transformer, machine: &Machine, cut: Cut) -> [f64; 3] {
    let (tokens, t) = (tokens(model, cut), number(cut.tensor));
    let hidden = number(model.hidden);
    let queries = number(model.heads * model.head_size) / t;
    let keys = number(model.kv_heads * model.head_size) / t;
    let up = number(model.ffn) / t * if model.gated { 2.0 } else { 1.0 };
    let down = number(model.ffn) / t;
    let (groups, visits) = match model.experts {
        Some(experts) => {
            let local = number(experts.count) / number(cut.expert);
            (local.max(1.0), number(experts.top_k))
        }
        None => (1.0, 1.0),
    };
    // The tokens of all devices of an expert group meet at its experts: as many as each brought.
    let routed = tokens * visits / groups;
    let all = [
        ([tokens, queries + 2.0 * keys, hidden], 1.0),
        ([tokens, hidden, queries], 1.0),
        ([routed, up, hidden], groups),
        ([routed, hidden, down], groups),
    ];
    let sum = |sizes: fn([f64; 3]) -> [f64; 3]| {
        all.iter().map(|&(one, batch)| machine.matmul(sizes(one), batch)).sum()
    };
    [sum(|[m, n, k]| [m, n, k]), sum(|[m, n, k]| [m, k, n]), sum(|[m, n, k]| [n, k, m])]
}

/// Forward and backward of scores, softmax and weighted values.
fn attention(model: &Transformer, machine: &Machine, cut: Cut) -> [f64; 2] {
    let (sequence, size) = (number(model.sequence), number(model.head_size));
    let own = sequence / number(cut.context);
    let heads = number(cut.microbatch) * number(model.heads) / number(cut.tensor);
    match model.attention {
        Attention::Core => {
            let products = machine.matmul([own, sequence, size], heads)
                + machine.matmul([own, size, sequence], heads);
            let traffic = machine.stream(heads * own * sequence * HALF * SCORE_TRAFFIC);
            [products + traffic, 2.0 * products + traffic * BACKWARD_TRAFFIC]
        }
        Attention::Flash => {
            // Half of all pairs: those behind a token are left out.
            let flops = 2.0 * heads * own * sequence * size;
            let forward = flops / (machine.peak * machine.efficiency.flash);
            [forward, forward * FLASH_BACKWARD]
        }
    }
}

/// The forward of all that is done to single numbers.
fn elementwise(model: &Transformer, machine: &Machine, cut: Cut) -> f64 {
    let t = number(cut.tensor);
    let hidden = number(model.hidden);
    let whole = hidden * WHOLE_TRAFFIC / if cut.sequence_parallel { t } else { 1.0 };
    let visited = number(model.experts.map_or(1, |experts| experts.top_k));
    let gate = if model.gated { 1.5 } else { 1.0 };
    let queries = number(model.heads * model.head_size);
    let keys = number(model.kv_heads * model.head_size);
    let normed = if model.qk_norm { (queries + keys) * QK_NORM_TRAFFIC } else { 0.0 };
    let mlp = number(model.ffn) * MLP_TRAFFIC * gate * visited;
    let shared = queries * SHARED_TRAFFIC + normed + mlp;
    machine.stream(tokens(model, cut) * HALF * (whole + shared / t))
}

/// The time of the collectives of one direction: two all-reduces of b s h in the tensor group, or
/// as many all-gathers and reduce-scatters of the same bytes; keys and values around the context
/// group; tokens to their experts and back.
fn collectives(model: &Transformer, machine: &Machine, cut: Cut) -> f64 {
    let tokens = tokens(model, cut);
    let bytes = tokens * number(model.hidden) * HALF;
    let latency = machine.efficiency.collective_latency;
    let tensor = all_reduce(bytes, cut.tensor, machine.tensor_ring(cut.tensor), latency);
    let mut sum = 2.0 * tensor;
    if cut.context > 1 {
        let keys = 2.0 * number(model.kv_heads * model.head_size) / number(cut.tensor);
        let others = number(cut.context - 1);
        let rate = machine.ring(cut.context, cut.tensor);
        sum += others * (tokens * keys * HALF / rate + latency);
    }
    if let Some(experts) = model.experts.filter(|_| cut.expert > 1) {
        let e = number(cut.expert);
        let sent = bytes * number(experts.top_k) / number(cut.tensor) * (e - 1.0) / e;
        let rate = machine.ring(cut.expert, cut.tensor * cut.context);
        sum += 2.0 * (sent / rate + latency);
    }
    sum
}

/// The duration of the head and the loss: a product with the vocabulary, V/t columns on each device
/// of the tensor group, and the memory traffic of the logits.
#[must_use]
pub fn head(model: &Transformer, machine: &Machine, cut: Cut) -> Times {
    if let Some(measured) = machine.measured.filter(|measured| measured.is_of(cut)) {
        return measured.ends;
    }
    logits(model, machine, cut, number(model.vocabulary)).plus(last_norm(model, machine, cut))
}

/// The duration of `rows` rows of the vocabulary, shared by the tensor group of a device: a product
/// in each direction, and the memory traffic of the logits.
fn logits(model: &Transformer, machine: &Machine, cut: Cut, rows: f64) -> Times {
    let (tokens, columns) = (tokens(model, cut), rows / number(cut.tensor));
    let product = machine.matmul([tokens, columns, number(model.hidden)], 1.0);
    let traffic = |bytes: f64| machine.stream(tokens * columns * bytes);
    // One kernel computes the gradient with the loss, and what is left is a third of each pass.
    let third = traffic(FUSED_LOGIT_BYTES) / 3.0;
    let [forward, backward, weight] = match cut.loss {
        Loss::Separate => [traffic(LOGIT_BYTES[0]), traffic(LOGIT_BYTES[1]), 0.0],
        Loss::Fused => [third; 3],
    };
    Times {
        forward: product + forward,
        backward_input: product + backward,
        backward_weight: product + weight,
    }
}

/// The duration of the embedding: the gradient of its V/t rows on each device of the tensor group.
/// The lookup is left out: below 0.1 % of a layer.
#[must_use]
pub(crate) fn embedding(model: &Transformer, machine: &Machine, cut: Cut) -> Times {
    if machine.measured.is_some_and(|measured| measured.is_of(cut)) {
        // It is in what was measured of the ends.
        return Times::default();
    }
    let own = number(model.vocabulary) * number(model.hidden) / number(cut.tensor);
    Times { backward_weight: machine.stream(own * EMBEDDING_BYTES), ..Times::default() }
}

/// The duration of the last normalisation, which runs once however the head is shared.
#[must_use]
pub(crate) fn last_norm(model: &Transformer, machine: &Machine, cut: Cut) -> Times {
    if machine.measured.is_some_and(|measured| measured.is_of(cut)) {
        // It is in what was measured of the ends.
        return Times::default();
    }
    let third = machine.stream(tokens(model, cut) * number(model.hidden) * HEAD_BYTES) / 3.0;
    Times { forward: third, backward_input: third, backward_weight: third }
}

/// A third of what one of `shards` of the head takes, in seconds; how many of them are done before
/// the barrier, [`Vocabulary::thirds`] says.
#[must_use]
pub(crate) fn shard(model: &Transformer, machine: &Machine, cut: Cut, shards: usize) -> f64 {
    let count = number(shards as u64);
    if let Some(measured) = machine.measured.filter(|measured| measured.is_of(cut)) {
        return measured.ends.sum() / 3.0 / count;
    }
    let rows = number(Vocabulary::padded(model.vocabulary, shards)) / count;
    logits(model, machine, cut, rows).sum() / 3.0
}

/// The longer of two things that run side by side: near each other a little more than that.
fn longer(a: f64, b: f64) -> f64 {
    let fourth = |x: f64| x * x * x * x;
    // Roots are exact to the last bit everywhere; powers are not.
    (fourth(a) + fourth(b)).sqrt().sqrt()
}
