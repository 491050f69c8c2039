//! What torchtitan lacks of a plan or does otherwise, a sentence each.

use pipeline::Nanos;
use plan::{Boundary, Loss, Offload, Precision, Recompute, Update, Zero};
use planning::Question;
use question::format;

use super::super::super::priced::Plan;
use super::super::torch_order::TorchOrder;
use super::formats::{self, Formats};

/// The lines of the file for 0.2.x, and those of the arguments for the main branch.
pub(in super::super) fn comments(
    question: &Question,
    plan: &Plan,
    order: &TorchOrder,
) -> [Vec<String>; 2] {
    let own = &plan.finalist.costed().setup;
    let both = of_both(question, plan, order);
    let software = own.software(&question.recipe);
    let mut old = both.clone();
    if own.zero == Zero::None && own.data > 1 && own.data != own.devices() {
        old.push(
            "0.2.x replicates only where nothing else is parallel; its main branch does".to_owned(),
        );
    }
    if own.tensor > 1 && !question.recipe.sequence_parallel {
        old.push("0.2.x has tensor groups only with sequence parallelism".to_owned());
    }
    old.extend(Formats::of(question, plan).lacks);
    if software.graphs > 0.0 {
        old.push("cuda-graphs: not in torchtitan 0.2.x".to_owned());
    }
    let dispatcher = question.dispatcher_of(own, &question.clusters[plan.cluster]);
    if software.sends_once && dispatcher != "deepep" {
        old.push(format!("dispatcher = \"{dispatcher}\": not in torchtitan 0.2.x"));
    }
    let mut main = both;
    main.extend(formats::of_main(question));
    if software.graphs > 0.0 && own.pipeline > 1 {
        main.push("cuda-graphs: not in torchtitan with a pipeline".to_owned());
    }
    if question.model.experts.is_some() && own.expert_tensor > 1 {
        main.push(format!(
            "expert-tensor = {}: not in torchtitan, whose experts are whole on a device",
            own.expert_tensor
        ));
    }
    let overlap = (software.overlap_tensor && own.tensor > 1).then_some("overlap-tensor = true");
    let sends = software.sends_once.then(|| format!("dispatcher = \"{dispatcher}\""));
    let keys: Vec<String> = overlap.map(str::to_owned).into_iter().chain(sends).collect();
    if !keys.is_empty() {
        main.push(format!("{}: set them in the configuration of the model", keys.join(", ")));
    }
    [old, main]
}

/// The lines of both files.
fn of_both(question: &Question, plan: &Plan, order: &TorchOrder) -> Vec<String> {
    let own = &plan.finalist.costed().setup;
    let name = own.schedule_name();
    let update = question.recipe.optimizer.update;
    let all = [
        super::super::unsure(plan),
        match order {
            TorchOrder::No(lacks) => {
                Some(format!("{name}: not in torchtitan, whose orders have no {lacks}"))
            }
            TorchOrder::Class(_) | TorchOrder::File { .. } => None,
        },
        pairs(plan, order),
        (own.zero == Zero::Optimizer && own.pipeline > 1).then(|| {
            "ZeRO stage 1: FSDP that does not reshard keeps parameters and gradients whole while the \
             pipeline runs"
                .to_owned()
        }),
        (own.zero == Zero::Optimizer && own.pipeline == 1).then(|| {
            "ZeRO stage 1: not in torchtitan without a pipeline; this is stage 2".to_owned()
        }),
        (own.recompute == Recompute::Selective)
            .then(|| "selective recomputation: torchtitan recomputes other parts".to_owned()),
        matches!(own.recompute, Recompute::First(_))
            .then(|| "recomputation of some layers: torchtitan recomputes all".to_owned()),
        (question.recipe.optimizer.on_host > 0.0)
            .then(|| "optimizer-offload: not in torchtitan".to_owned()),
        (update != Update::AdamW)
            .then(|| format!("optimizer = {}: not in torchtitan, this is AdamW", update.name())),
        (question.recipe.boundary == Boundary::PostValidation)
            .then(|| "post-validation: not in torchtitan".to_owned()),
        own.vocabulary_parallel
            .then(|| "vocabulary-parallel: not in torchtitan".to_owned()),
        (!question.model.frozen().is_none()).then(|| {
            "frozen weights and adapters: they belong to the model's configuration, as LoRAConverter of torchtitan's \
             main branch"
                .to_owned()
        }),
        question.model.indexer.map(|_| "index-heads: torchtitan has no indexer".to_owned()),
        recomputed_twice(plan),
    ];
    let mut all: Vec<String> = all.into_iter().flatten().collect();
    all.extend(of_keys(question, plan));
    all.extend(super::super::state(question));
    all
}

/// Keys of `[training]` that torchtitan has no word for, in either branch.
fn of_keys(question: &Question, plan: &Plan) -> Vec<String> {
    let own = &plan.finalist.costed().setup;
    let recipe = &question.recipe;
    let software = own.software(recipe);
    let named =
        |is: bool, key: &str| is.then(|| format!("{key}: not in torchtitan as the plan has it"));
    let experts = software.overlap_experts && own.expert > 1;
    let capacity = recipe.imbalance.routing().is_some_and(|one| one.capacity().is_some());
    let head = recipe.head != Precision::Bf16 && recipe.precision == Precision::Bf16;
    let all = [
        match own.offload(recipe) {
            Offload::NONE => None,
            parts => named(true, &format!("offload = {parts}")),
        },
        named(experts, "overlap-experts = true"),
        named(recipe.loss == Loss::Fused, "loss = \"fused\""),
        named(recipe.fp8_activation_input, "fp8-activation-input = true"),
        named(capacity, "capacity-factor"),
        named(head, "head-precision"),
        named(question.dynamic_context, "dynamic-context = true"),
    ];
    all.into_iter().flatten().collect()
}

/// Note on passes that run together: where they do.
fn pairs(plan: &Plan, order: &TorchOrder) -> Option<String> {
    let TorchOrder::File { .. } = order else { return None };
    let orders = plan.finalist.schedule().orders();
    orders.iter().any(|order| !order.is_unpaired()).then(|| {
        "pairs of passes (OVERLAP_F_B) run at once in GraphPP of the main branch (--compile.mode aot_fx_trace), else one \
         after the other"
            .to_owned()
    })
}

/// Note on checkpointing with split backwards: torch recomputes for B and once more for W.
fn recomputed_twice(plan: &Plan) -> Option<String> {
    let costed = plan.finalist.costed();
    let schedule = plan.finalist.schedule();
    if !schedule.splits_backward() || costed.setup.recompute == Recompute::None {
        return None;
    }
    let (shape, placement) = (costed.shape, schedule.placement());
    let forward = |stage| -> Nanos {
        placement
            .chunks_of(shape, stage)
            .map(|at| plan.finalist.costs.chunks()[usize::from(at)].forward)
            .sum()
    };
    let most = (0..shape.stages()).map(forward).max().unwrap_or_default();
    let most = Nanos(most.0.saturating_mul(u64::from(shape.microbatches())));
    Some(format!(
        "checkpointing with split backwards: torch recomputes for B and once more for W, up to {} a step that the \
         plan does not have; a schedule of whole backwards does not pay it",
        format::time(most)
    ))
}
