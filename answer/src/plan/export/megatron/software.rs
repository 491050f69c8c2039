//! Arguments for number formats and software optimisations.

use plan::{Capture, Offload, Precision, Recipe, Routing, Setup, Software, Zero};

use planning::Question;

use super::super::super::priced::Plan;
use super::route::Route;

/// The arguments of `question` for `plan`. Graphs and copies to the host follow the passes of Megatron-LM's own
/// schedules, and are left out with another order.
pub(super) fn arguments(question: &Question, plan: &Plan, route: &Route) -> Vec<String> {
    let own = &plan.finalist.costed().setup;
    let software = own.software(&question.recipe);
    let dispatcher = question.dispatcher_of(own, &question.clusters[plan.cluster]);
    let Recipe { precision, overlap_parameters, .. } = question.recipe;
    let mut lines: Vec<&str> = formats(precision).to_vec();
    let Software { graphs, capture, overlap_experts, overlap_tensor, sends_once, .. } = software;
    let is_own = matches!(route, Route::Own);
    let router = if question.model.experts.is_some() { Capture::NONE } else { Capture::ROUTER };
    let capture = capture.without(router);
    let modules = format!("--cuda-graph-impl transformer_engine --cuda-graph-modules {capture}");
    match graphs {
        none if none <= 0.0 => {}
        _ if !is_own => lines.push("# cuda-graphs: not tried with debubble.megatron, and left out"),
        full if full >= 1.0 => lines.push("--cuda-graph-impl full_iteration"),
        _ if capture == Capture::NONE => lines.push("--cuda-graph-impl transformer_engine"),
        _ => lines.push(&modules),
    }
    let offload = match own.offload(&question.recipe) {
        Offload::NONE => None,
        parts if is_own => {
            Some(format!("--fine-grained-activation-offloading --offload-modules {parts}"))
        }
        parts => {
            Some(format!("# offload = {parts}: not tried with debubble.megatron, and left out"))
        }
    };
    lines.extend(offload.as_deref());
    if question.recipe.fp8_activation_input {
        lines.push(
            "# fp8-activation-input: activation_func_fp8_input_store of the model's configuration, which \
             has no argument",
        );
    }
    if overlap_tensor && own.tensor > 1 {
        lines.push("--tp-comm-overlap");
    }
    if overlap_parameters && own.zero == Zero::Optimizer && question.recipe.overlap_gradients {
        lines.push("--overlap-param-gather");
    }
    let has_experts = question.model.experts.is_some();
    if has_experts && own.expert > 1 {
        let flex = format!("--moe-flex-dispatcher-backend {dispatcher}");
        let mut dispatch = match sends_once {
            true => vec!["--moe-token-dispatcher-type flex".to_owned(), flex],
            false => vec!["--moe-token-dispatcher-type alltoall".to_owned()],
        };
        // Schedules that overlap them by themselves say so with the schedule.
        if overlap_experts && own.family != pipeline::Family::InterleavedOverlap {
            dispatch.push("--overlap-moe-expert-parallel-comm".to_owned());
        }
        dispatch.extend(capacity(&question.recipe));
        return lines.into_iter().map(str::to_owned).chain(dispatch).chain(groups(own)).collect();
    }
    let groups = if has_experts { groups(own) } else { None };
    lines.into_iter().map(str::to_owned).chain(capacity(&question.recipe)).chain(groups).collect()
}

/// How many tokens an expert takes, if it drops any.
fn capacity(recipe: &Recipe) -> Vec<String> {
    let Some(capacity) = recipe.imbalance.routing().and_then(Routing::capacity) else {
        return Vec::new();
    };
    let padded = capacity.padded.then(|| "--moe-pad-expert-input-to-capacity".to_owned());
    let factor = format!("--moe-expert-capacity-factor {}", capacity.factor);
    std::iter::once(factor).chain(padded).collect()
}

/// The tensor groups of experts, where they differ from those of the rest.
fn groups(own: &Setup) -> Option<String> {
    let size = own.expert_tensor;
    (size != own.tensor).then(|| format!("--expert-tensor-parallel-size {size}"))
}

/// Megatron-LM flags of `precision`; 16 bits are set elsewhere.
const fn formats(precision: Precision) -> &'static [&'static str] {
    match precision {
        Precision::Bf16 => &[],
        Precision::Fp8 => &["--fp8-format hybrid", "--fp8-recipe tensorwise"],
        Precision::Fp8Block => &["--fp8-format e4m3", "--fp8-recipe blockwise"],
        Precision::MxFp8 => &["--fp8-format e4m3", "--fp8-recipe mxfp8"],
        Precision::NvFp4 => &["--fp4-format e2m1", "--fp4-recipe nvfp4"],
    }
}
