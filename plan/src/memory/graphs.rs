//! Static buffers of CUDA graphs of modules, as Megatron-LM captures them by Transformer Engine.
//!
//! A graph reads and writes fixed addresses, so a module is captured for each microbatch in flight. Its inputs are static
//! (`get_layer_static_inputs` in Megatron-LM's `transformer_layer.py`), and its outputs stay in the pool of the graphs up
//! to its backward (`make_graphed_callables` in Transformer Engine's `graph.py`). Counted is what the same layer without
//! graphs does not keep: static hidden states take the place of the input that a normalisation keeps.

use pipeline::Bytes;

use super::{HALF, bytes};
use crate::capture::Capture;
use crate::model::{Ffn, LayerCounts, LayerKind, Mixer, Module, Trained, Transformer, number};
use crate::setup::{Recipe, Setup};

/// The static buffers of `layers`, none of which is computed again whole, for a microbatch in flight.
pub(crate) fn static_buffers(
    model: &Transformer,
    setup: &Setup,
    recipe: &Recipe,
    layers: LayerCounts,
) -> Bytes {
    let capture = setup.software(recipe).capture;
    let partition = setup.partition(recipe);
    let hidden = HALF * number(model.hidden) / partition.shared();
    let of_token = |kind: &LayerKind| {
        if kind.trained == Trained::ForwardOnly {
            return 0.0;
        }
        let (attends, mixer) = match kind.mixer {
            Mixer::None => (false, Capture::ATTENTION.and(Capture::MAMBA)),
            Mixer::Mamba => (false, Capture::MAMBA),
            Mixer::Full | Mixer::Window | Mixer::Linear => (true, Capture::ATTENTION),
        };
        let ffn = match kind.ffn {
            Ffn::None => Capture::MLP.and(Capture::EXPERTS).and(Capture::ROUTER),
            Ffn::Dense => Capture::MLP,
            Ffn::Experts => Capture::EXPERTS,
        };
        // A mask of all pairs, a byte for each, which every kernel gets.
        let mask = if attends && capture.has(mixer) { model.sequence } else { 0 };
        // Where one graph ends and the next begins, the output of one stays beside the input of the other.
        let joint = u64::from(capture.has(mixer) && capture.has(ffn));
        let routed = if kind.ffn == Ffn::Experts { routed(model, setup, recipe) } else { 0 };
        number(mask) + number(joint + routed) * hidden
    };
    let all = layers.iter().zip(model.layer_kinds());
    bytes(
        partition.tokens(model)
            * all.map(|(count, kind)| number(count) * of_token(kind)).sum::<f64>(),
    )
}

/// Hidden states of a token that the graph of a router gives, of those that are else given up in the forward: the output
/// of shared experts, permuted tokens, and the normalised input where it is to be computed again.
fn routed(model: &Transformer, setup: &Setup, recipe: &Recipe) -> u64 {
    let software = setup.software(recipe);
    let (Some(experts), true) = (model.experts, software.capture.has(Capture::ROUTER)) else {
        return 0;
    };
    let is_permuted =
        software.capture.has(Capture::PREPROCESS) && setup.expert > 1 && !software.sends_once;
    let normed = setup.recompute.has(Module::LayerNorm) && !is_permuted;
    let permuted = if is_permuted { experts.top_k } else { 0 };
    u64::from(experts.shared > 0) + u64::from(normed) + permuted
}
