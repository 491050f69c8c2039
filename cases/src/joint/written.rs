//! The setting of the best choice, as a scenario has it: with times of each chunk.

use pipeline::{Costs, PassTimes};

use question::scenario::Setting;
use question::values::segments::LoneBackward;

/// `setting` with the times of each chunk, which are those of `costs`, in place of what its layers do; as it is
/// where it has no layers of segments. Where passes run in pairs on two streams, their segments stay, with what the
/// search takes a backward that stands alone to do.
pub(super) fn written(mut setting: Setting, costs: &Costs) -> Setting {
    let keys = &mut setting.keys;
    if costs.overlap().is_some() {
        keys.lone_backward = keys.lone_backward.or(Some(LoneBackward::Overlapped));
        return setting;
    }
    if !keys.has_chain() || keys.communication_buffers.is_some() {
        return setting;
    }
    let each = costs.chunks().iter();
    keys.forward = Some(each.clone().map(|times| times.forward).collect());
    keys.backward_input = Some(each.clone().map(|times| times.backward_input).collect());
    keys.backward_weight = Some(each.clone().map(|times| times.backward_weight).collect());
    keys.backward = costs.has_whole().then(|| each.map(PassTimes::whole_backward).collect());
    let again = (0..).zip(costs.chunks()).map(|(chunk, _)| costs.recompute(chunk));
    if let (Some(_), true) = (&keys.recompute, costs.has_recompute()) {
        keys.recompute_time = Some(again.map(Option::unwrap_or_default).collect());
    }
    keys.chain = None;
    keys.chain_dense = None;
    keys.dense_layers = None;
    keys.chain_head = None;
    keys.chain_tail = None;
    keys.chain_mtp = None;
    keys.interleaving = None;
    keys.weight_gradient = None;
    keys.lone_backward = None;
    keys.contention = None;
    keys.chain_measured = None;
    keys.expert_parallel = None;
    setting
}
