//! Scores, softmax and weighted values; the recurrence of layers that have one in place of them.

use super::part::{Group, Kernels, Part};
use super::{BACKWARD_TRAFFIC, HALF, Task};
use crate::model::{Attention, Indexer, Latent, LayerKind, Linear, Mamba, Mixer, Trained, number};

/// How often the forward of attention moves one score through memory: written by the product, read
/// and written by softmax and by dropout, its mask, read by the second product, and what fusing
/// them does not save. Fitted; 6.5 by counting.
const SCORE_TRAFFIC: f64 = 8.78;
/// Tokens of a chunk, within which a recurrence is computed as a product (Dao and Gu 2024, arXiv
/// 2405.21060, section 6).
const CHUNK: f64 = 128.0;
/// The traffic of a recurrence's backward over that of its forward: states are computed again. Assumed.
const RECURRENT_BACKWARD: f64 = 3.0;

/// Bytes moved for a score of an indexer: written in 32 bits, and read by the choice of the highest.
const INDEX_SCORE: f64 = 8.0;

/// Adds the part of the mixer without weights.
pub(super) fn add(task: &Task<'_>, kind: LayerKind, kernels: &mut Kernels) {
    let [forward, backward] = match kind.mixer {
        Mixer::Full => match (task.model.indexer, task.model.latent) {
            (Some(indexer), Some(latent)) => chosen(task, indexer, latent, kind.trained),
            _ => scores(task, None),
        },
        Mixer::Window => scores(task, task.model.window),
        Mixer::Mamba => {
            task.model.mamba.map_or([0.0; 2], |mamba| recurrence(task, of_mamba(mamba)))
        }
        Mixer::Linear => {
            task.model.linear.map_or([0.0; 2], |linear| recurrence(task, of_linear(linear)))
        }
        Mixer::None => [0.0; 2],
    };
    let passes = task.slowed([forward, backward, 0.0]);
    let passes = passes.map(|seconds| seconds * task.software.attention);
    kernels.add(Part::Attention, Group::Scores, passes);
}

/// Forward and backward of attention, to the last `window` tokens if there is one.
fn scores(task: &Task<'_>, window: Option<u64>) -> [f64; 2] {
    let (model, machine, partition) = (task.model, task.machine, task.partition);
    let (sequence, size) = (number(model.sequence), number(model.head_size));
    let own = sequence / number(partition.context);
    let heads = number(partition.microbatch) * number(model.heads) / number(partition.tensor);
    match model.attention {
        Attention::Core => {
            let products = machine.matmul([own, sequence, size], heads)
                + machine.matmul([own, number(model.value_head_size()), sequence], heads);
            let traffic = machine.stream(heads * own * sequence * HALF * SCORE_TRAFFIC);
            [products + traffic, 2.0 * products + traffic * BACKWARD_TRAFFIC]
        }
        Attention::Flash => {
            // Half of all pairs: those behind a token are left out; and those of other documents.
            let whole = sequence / 2.0 * task.attended;
            let keys = window.map_or(whole, |window| number(window).min(whole));
            let flops = 2.0 * heads * own * keys * (size + number(model.value_head_size()));
            let forward = flops / machine.flash();
            [forward, forward * machine.efficiency.flash_backward]
        }
    }
}

/// Forward and backward of attention to the keys that an indexer chooses, and of its scores, as fused kernels of
/// Megatron-LM do them (`absorbed_mla.py` and `dsa_cudnn_kernels.py` in
/// megatron/core/transformer/experimental_attention_variant): the latent of a token is the key and the value of all heads, so
/// that a pair takes one product of a latent with its rotated part and one of a latent. Every device of a tensor group
/// scores all pairs. Where the indexer is trained, the scores of chosen pairs are computed once more for its loss
/// (`DeepSeek`-V3.2, arXiv 2512.02556, equation 4), and have gradients.
fn chosen(task: &Task<'_>, indexer: Indexer, latent: Latent, trained: Trained) -> [f64; 2] {
    let (machine, tokens) = (task.machine, task.tokens());
    let sequence = number(task.model.sequence) * task.attended;
    let heads = number(task.model.heads) / number(task.partition.tensor);
    let [score, value] = [latent.keys + latent.rotary, latent.keys].map(number);
    let [all, few] = [sequence / 2.0, indexer.keys_of(sequence)].map(|keys| tokens * keys);
    let product = |pairs: f64, size: f64| 2.0 * pairs * size / machine.flash();
    let queries = number(indexer.queries());
    let core = product(few, heads * (score + value));
    let index = product(all, queries) + machine.stream(all * INDEX_SCORE);
    let [target, graded] = match trained {
        Trained::Whole => [heads * score, queries].map(|size| product(few, size)),
        _ => [0.0; 2],
    };
    [core + index + target, (core + graded) * machine.efficiency.flash_backward]
}

/// FLOPs and bytes of a recurrence's forward for a token.
#[derive(Clone, Copy)]
struct Recurrence {
    flops: f64,
    bytes: f64,
}

/// Scores within a chunk, and the states between chunks.
fn of_mamba(mamba: Mamba) -> Recurrence {
    let inner = number(mamba.inner());
    let (state, groups) = (number(mamba.state), number(mamba.groups));
    let shared = 2.0 * groups * state;
    // Convolution, gate, scan and normalisation read and write each number about so often.
    let numbers = 2.0 * (inner + shared) + (2.0 * inner + shared) + 7.0 * inner;
    Recurrence {
        flops: 2.0 * CHUNK * (groups * state + inner) + 4.0 * inner * state,
        bytes: numbers * HALF,
    }
}

/// The same with the delta rule, which inverts a triangle for each chunk besides.
fn of_linear(linear: Linear) -> Recurrence {
    let values = number(linear.values());
    let keys = number(linear.keys());
    let state = number(linear.key_size);
    let numbers = 4.0 * (2.0 * keys + values) + 7.0 * values;
    Recurrence {
        flops: 2.0 * CHUNK * (2.0 * keys + 2.0 * values) + 6.0 * values * state,
        bytes: numbers * HALF,
    }
}

/// Forward and backward of a recurrence, whose heads a tensor group shares.
fn recurrence(task: &Task<'_>, of: Recurrence) -> [f64; 2] {
    let (machine, tokens) = (task.machine, task.tokens() / number(task.partition.tensor));
    let products = tokens * of.flops / machine.flash();
    let traffic = machine.stream(tokens * of.bytes) * machine.efficiency.elementwise;
    let backward = machine.efficiency.flash_backward;
    [products + traffic, products * backward + traffic * RECURRENT_BACKWARD]
}
