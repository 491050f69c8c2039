//! Bytes that a layer moves: through memory for kernels with little compute, and over links.

use super::part::{Group, Kernels, Part};
use super::products::rows;
use super::{BACKWARD_TRAFFIC, HALF, Task};
use crate::machine::all_reduce;
use crate::model::{Experts, Ffn, LayerKind, Mixer, number};

/// How often the forward of a layer moves one activation of size h that every device of a tensor
/// group has whole: two normalisations, two dropouts with residuals. Fitted; 11 by counting without
/// fusion. Half of it is attention's, half the MLP's.
const WHOLE_TRAFFIC: f64 = 8.07;
/// The same for one activation of the size of all queries, for queries, keys and values, which the
/// group shares.
const SHARED_TRAFFIC: f64 = 4.48;
/// The same for the queries of an indexer: read and written by the rotation of positions, and by the Hadamard transform
/// behind it, by counting.
const INDEX_TRAFFIC: f64 = 4.0;
/// The same for the width of the MLP: read and written by the activation function.
const MLP_TRAFFIC: f64 = 2.0;
/// The same for queries and keys where they are normalised: read and written, by counting.
const QK_NORM_TRAFFIC: f64 = 2.0;
/// Bytes moved for one number of a partial result of a context group: a part is read in 16 bits, the
/// sum read and written in 32.
const MERGED: f64 = 10.0;
/// Bytes moved for one number of a row on its way to an expert: it is permuted to the experts' order
/// and back, forward and backward, read and written each time.
const PERMUTED: f64 = 16.0;

/// Adds all that is done to single numbers.
pub(super) fn elementwise(task: &Task<'_>, kind: LayerKind, kernels: &mut Kernels) {
    let eager = task.software.elementwise_slowdown(&task.machine.efficiency);
    let mut add = |group: Group, numbers: f64, times: f64| {
        let seconds = task.machine.stream(numbers * HALF) * eager * times;
        let passes = [seconds, seconds * BACKWARD_TRAFFIC, 0.0];
        kernels.add(Part::Elementwise, group, passes);
    };
    let tokens = task.tokens();
    for (group, each) in numbers(task, kind) {
        add(group, tokens * each, task.software.compute * task.fused());
    }
    let Some(experts) = task.model.experts.filter(|_| kind.ffn == Ffn::Experts) else { return };
    let rows = rows(task, experts) * task.load.sent / number(task.partition.expert_tensor);
    let width = number(task.model.ffn) * MLP_TRAFFIC * gate(task);
    let unfused = task.software.activation_slowdown(&task.machine.efficiency);
    add(Group::RoutedActivation, rows * width * unfused, task.experts());
    let permuted =
        task.machine.stream(rows * number(task.model.hidden) * PERMUTED) * task.experts();
    kernels.add(Part::Elementwise, Group::Routed, [permuted / 2.0, permuted / 2.0, 0.0]);
}

/// How often the forward moves how many numbers of each token, by group; without routed experts.
fn numbers(task: &Task<'_>, kind: LayerKind) -> Vec<(Group, f64)> {
    let (model, t) = (task.model, number(task.partition.tensor));
    let half = number(model.hidden) * WHOLE_TRAFFIC / 2.0 / task.shared();
    let mut all = Vec::new();
    if kind.mixer != Mixer::None {
        all.push((Group::Norms, half));
    }
    if matches!(kind.mixer, Mixer::Full | Mixer::Window) {
        let queries = number(model.query_size());
        let keys = number(model.kv_heads * model.head_size);
        let normed = if model.qk_norm { (queries + keys) * QK_NORM_TRAFFIC } else { 0.0 };
        all.push((Group::Norms, (queries * SHARED_TRAFFIC + normed) / t));
    }
    if let Some(indexer) = model.indexer_of(kind) {
        all.push((Group::Scores, number(indexer.queries()) * INDEX_TRAFFIC));
    }
    if kind.ffn != Ffn::None {
        all.push((Group::Norms, half));
    }
    let shared = model.experts.map_or(0, |experts| experts.shared);
    let (group, width) = match kind.ffn {
        Ffn::Dense => (Group::Mlp, model.dense_width()),
        Ffn::Experts => (Group::Shared, shared),
        Ffn::None => (Group::Mlp, 0),
    };
    all.push((group, number(width) * MLP_TRAFFIC * gate(task) / t));
    all
}

/// How much more an activation function with a gate moves.
fn gate(task: &Task<'_>) -> f64 {
    if task.model.gated { 1.5 } else { 1.0 }
}

/// Adds collectives: all-reduces of b s h in the tensor group, one after the mixer and one after the
/// MLP, or as many all-gathers and reduce-scatters of the same bytes; keys and values around the
/// context group; tokens to their experts and back.
pub(super) fn collectives(task: &Task<'_>, kind: LayerKind, kernels: &mut Kernels) {
    let (machine, partition) = (task.machine, task.partition);
    let latency = machine.efficiency.collective_latency;
    let bytes = task.tokens() * number(task.model.hidden) * HALF;
    let one = all_reduce(bytes, partition.tensor, machine.tensor_ring(partition.tensor), latency)
        * task.software.tensor_exposed(&machine.efficiency);
    let pair = [one, one, 0.0];
    if kind.mixer != Mixer::None {
        kernels.add(Part::Tensor, Group::Projections, pair);
    }
    let has_shared = task.model.experts.is_some_and(|experts| experts.shared > 0);
    match kind.ffn {
        Ffn::Dense => kernels.add(Part::Tensor, Group::Mlp, pair),
        Ffn::Experts if has_shared => kernels.add(Part::Tensor, Group::Shared, pair),
        _ => {}
    }
    if task.model.indexer_of(kind).is_some() && partition.tensor > 1 && partition.sequence_parallel
    {
        // All tokens are gathered for the indexer, which has no gradient of its input.
        kernels.add(Part::Tensor, Group::Scores, [one / 2.0, 0.0, 0.0]);
    }
    if matches!(kind.mixer, Mixer::Full | Mixer::Window) {
        let around = context(task);
        kernels.add(Part::Context, Group::Scores, [around, 2.0 * around, 0.0]);
        merged(task, kernels);
    }
    if let Some(experts) = task.model.experts.filter(|_| kind.ffn == Ffn::Experts) {
        let there_and_back = 2.0 * all_to_all(task, experts);
        kernels.add(Part::AllToAll, Group::Routed, [there_and_back, there_and_back, 0.0]);
    }
}

/// Keys and values once around the context group; their gradients come the same way in the backward.
fn context(task: &Task<'_>) -> f64 {
    let (machine, partition) = (task.machine, task.partition);
    if partition.context < 2 {
        return 0.0;
    }
    // Sparse attention goes to latents, which no tensor group shares, and to the indexer's key.
    let keys = match (task.model.indexer, task.model.latent) {
        (Some(indexer), Some(latent)) => number(latent.keys + latent.rotary + indexer.head_size),
        _ => number(task.model.kv_size()) / number(partition.tensor),
    };
    let others = number(partition.context - 1);
    let rate = machine.ring(partition.context, partition.tensor);
    // Attention begins when all that is gathered is there (Llama 3, arXiv 2407.21783, section 3.3.2).
    let gathers = gathers_context(task);
    let exposed = if gathers { 1.0 } else { machine.efficiency.context_exposed };
    others * (task.tokens() * keys * HALF / rate * exposed + machine.efficiency.collective_latency)
}

/// Whether a context group gathers keys and values: an indexer chooses among all of them.
fn gathers_context(task: &Task<'_>) -> bool {
    task.software.gathers_context || task.model.indexer.is_some()
}

/// Adds the sums of partial results of a context group with a ring of keys and values, in memory: the
/// output in the forward, gradients of queries, keys and values in the backward.
fn merged(task: &Task<'_>, kernels: &mut Kernels) {
    if gathers_context(task) {
        return;
    }
    let parts = number(task.partition.context.saturating_sub(1)) / number(task.partition.tensor);
    let queries = number(task.model.query_size());
    let keys = number(task.model.kv_size());
    let rates = &task.machine.efficiency;
    let of = |numbers: f64| {
        let bytes = MERGED * parts * task.tokens() * numbers;
        task.machine.stream(bytes) * rates.elementwise * task.software.compute
    };
    kernels.add(Part::Elementwise, Group::Scores, [of(queries), of(queries + keys), 0.0]);
}

/// One way of the tokens of a device to their experts, or back.
fn all_to_all(task: &Task<'_>, experts: Experts) -> f64 {
    let (machine, partition) = (task.machine, task.partition);
    if partition.expert < 2 {
        return 0.0;
    }
    // Once the tokens of all devices of the group.
    let tokens = task.tokens() * task.load.sent / number(partition.tensor);
    let bytes = tokens * number(task.model.hidden) * HALF;
    let [inside, outside] = copies(task, experts);
    let rates = &machine.efficiency;
    let near = bytes * inside / (machine.link * rates.expert_link);
    let far = bytes * outside / (machine.network * rates.expert_network);
    (near + far) * task.software.all_to_all_share(rates) + rates.collective_latency
}

/// Copies of a token that its device sends to others of its domain of fast links, and to other
/// domains. One token goes to `k` experts, of which several may be on a device and on a node; where
/// tokens are sent once (DeepEP), a node gets one copy and hands it on.
fn copies(task: &Task<'_>, experts: Experts) -> [f64; 2] {
    let (group, k) = (task.partition.expert, number(experts.top_k));
    let inner = number(task.machine.members_in_node(group, task.partition.expert_tensor));
    let e = number(group);
    let nodes = e / inner;
    if !task.software.sends_once {
        return [k * (inner - 1.0) / e, k * (nodes - 1.0) / nodes];
    }
    // Of as many places, the share that none of k tokens' experts is in.
    let missed = |places: f64| libm::pow(1.0 - 1.0 / places, k);
    let here = (inner - 1.0) * (1.0 - missed(e)) * nodes;
    let there = if nodes > 1.0 { (nodes - 1.0) * (1.0 - missed(nodes)) } else { 0.0 };
    [here, there]
}
