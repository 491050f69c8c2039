//! The omissions of an answer: effects of real runs that the model of steps lacks, a line each, only
//! where they apply to one of the plans.

use pipeline::{Choice, Family};
use plan::{
    Boundary, Capture, Efficiency, Imbalance, Inputs, Machine, Recipe, Routing, Setup, Update, Zero,
};

use super::answer::PlanAnswer;
use super::ground::ground;
use super::priced::Plan;
use planning::Question;

/// A thing left out: whether it applies to a plan, and the line.
type Rule = (fn(&Question, &Plan) -> bool, &'static str);

/// All omissions, the largest effect first.
const RULES: [Rule; 28] = [
    (
        |question, plan| {
            let software = setup(plan).software(&question.recipe);
            let apart = !software.overlap_experts && !has_streams(question);
            question.model.experts.is_some() && setup(plan).expert > 1 && apart
        },
        "the all-to-all of experts is not overlapped: passes wait for dispatch and combine",
    ),
    (
        |question, _| question.model.experts.is_some() && is_balanced(question),
        "experts are perfectly balanced: each gets as many tokens as any other, and none is dropped",
    ),
    (
        |question, _| routing(question).is_some(),
        "every token chooses its experts by itself: tokens of one document do not choose alike",
    ),
    (
        |question, _| routing(question).is_some_and(|routing| routing.capacity().is_some()),
        "tokens that full experts drop count as trained on, and their FLOPs as done",
    ),
    (
        |question, plan| {
            let mut all = machines(question, plan);
            !question.recipe.precision.is_low() && all.any(|machine| machine.peak_fp8.is_some())
        },
        "products run in 16 bits, although the devices have an 8-bit rate: see `precision`",
    ),
    (
        |question, _| question.recipe.precision.is_low(),
        "attention, router, normalisations and head stay in 16 bits by default",
    ),
    (
        |question, plan| {
            let is_paired =
                matches!(setup(plan).family, Family::DualPipe | Family::DualPipeV | Family::Stp);
            is_paired && !has_streams(question)
        },
        "no overlap inside a pair: its forward and its backward take the sum of their times",
    ),
    (
        |question, _| has_streams(question),
        "tokens take as long to send as to receive; communication at the ends of a chunk is exposed",
    ),
    (
        |question, plan| {
            setup(plan).tensor > 1 && exposes(question, plan, |rates| rates.tensor_exposed)
        },
        "collectives of tensor groups are not overlapped with matrix products",
    ),
    (
        |question, plan| {
            setup(plan).context > 1 && exposes(question, plan, |rates| rates.context_exposed)
        },
        "keys and values that go round a context group are not overlapped with attention",
    ),
    (
        |_, plan| setup(plan).zero >= Zero::Gradients && replicas(plan) > 1,
        "ZeRO 2 and 3 overlap gathers and reductions with passes of the same layers, a tenth exposed",
    ),
    (
        |question, plan| {
            let whole = setup(plan).zero < Zero::Gradients && replicas(plan) > 1;
            whole && !question.recipe.overlap_gradients
        },
        "gradients are reduced after the step: the data-parallel exchange is not overlapped",
    ),
    (
        |question, plan| {
            let whole = setup(plan).zero < Zero::Gradients && replicas(plan) > 1;
            whole && question.recipe.overlap_gradients && !question.recipe.overlap_parameters
        },
        "the reduction of gradients overlaps the last backward alone; parameters are gathered after it",
    ),
    (
        |_, plan| plan.documents.as_ref().is_some_and(|own| own.dynamic.is_none()),
        "microbatches run in the order in which their documents come, whatever they have to do",
    ),
    (
        |_, plan| plan.documents.as_ref().is_some_and(|own| own.dynamic.is_some()),
        "forming new context groups takes no time, and all groups begin a microbatch together",
    ),
    (
        |question, _| question.packed.is_some(),
        "noise was drawn for even microbatches, and search ranks set-ups by these",
    ),
    (
        |question, _| question.packed.is_some(),
        "MFU and HFU count all pairs of tokens of a sequence, those of different documents, too",
    ),
    (
        |question, _| question.recipe.optimizer.on_host > 0.0,
        "the host updates parameters as fast as `host-update` says, by default as beside one H100 alone",
    ),
    (
        |question, _| question.recipe.optimizer.update != Update::AdamW,
        "no measured step had this optimizer: the error is that of steps with AdamW",
    ),
    (
        |question, _| question.model.indexer.is_some(),
        "no measured step had sparse attention: its fused kernels are taken as fast as dense attention for each pair of \
         an indexer's scores and of chosen keys",
    ),
    (
        |question, _| !question.model.frozen().is_none(),
        "MFU and HFU count what is computed: no gradients of frozen weights, no backward in front of the first trained \
         one",
    ),
    (
        |question, _| {
            question.model.frozen().adapters.is_some() && question.model.experts.is_some()
        },
        "each routed expert has adapters of its own",
    ),
    (
        |question, plan| setup(plan).software(&question.recipe).capture != Capture::NONE,
        "of CUDA graphs of modules, static inputs and outputs are counted as Transformer Engine keeps them: temporaries in \
         their pool and the graphs themselves are not known, nor the buffers of `--cuda-graph-impl local`",
    ),
    (
        |question, plan| {
            let software = setup(plan).software(&question.recipe);
            software.graphs > 0.0 && software.capture == Capture::NONE
        },
        "the memory that CUDA graphs of whole steps, and those of torchtitan, keep is not known, and not counted",
    ),
    (
        |question, _| question.recipe.boundary == Boundary::PostValidation,
        "post-validation never fails: no step is taken back",
    ),
    (
        gains_nothing_without_barrier,
        "post-validation saves no time where one stage begins first and ends last, as in 1F1B: see `boundary`",
    ),
    (
        |_, plan| setup(plan).family.about().choice == Choice::Offload,
        "copies to the host slow down nothing else: no kernel, and no transfer between stages",
    ),
    (|_, _| true, "data loading, logging and evaluation take no time"),
];

/// Whether a step of `plan`, whose stages meet at no barrier, takes as long with one.
fn gains_nothing_without_barrier(question: &Question, plan: &Plan) -> bool {
    if question.recipe.boundary == Boundary::Barrier {
        return false;
    }
    let recipe = Recipe { boundary: Boundary::Barrier, ..question.recipe.clone() };
    let inputs = ground(question, &question.clusters[plan.cluster]);
    let with_barrier = Inputs { recipe: &recipe, ..inputs }.again(&plan.finalist);
    with_barrier.is_ok_and(|one| one.step <= plan.finalist.step)
}

/// Whether every device of an expert group has as much to do as any other.
fn is_balanced(question: &Question) -> bool {
    matches!(question.recipe.imbalance, Imbalance::Factor(factor) if factor <= 1.0)
}

/// Whether passes of a pair share two streams.
const fn has_streams(question: &Question) -> bool {
    question.recipe.software.streams.is_some()
}

fn routing(question: &Question) -> Option<&Routing> {
    question.recipe.imbalance.routing()
}

fn setup(plan: &Plan) -> &Setup {
    &plan.finalist.costed().setup
}

fn replicas(plan: &Plan) -> u64 {
    setup(plan).data.saturating_mul(setup(plan).context)
}

fn machines<'a>(question: &'a Question, plan: &Plan) -> impl Iterator<Item = &'a Machine> {
    question.clusters[plan.cluster].parts.iter().map(|(machine, _)| machine)
}

/// Whether some machine of `plan` hides nothing of collectives of a kind, by `share`.
fn exposes(question: &Question, plan: &Plan, share: fn(&Efficiency) -> f64) -> bool {
    machines(question, plan).any(|machine| share(&machine.efficiency) >= 1.0)
}

/// The omissions of the plans of `answer`.
pub fn of(question: &Question, answer: &PlanAnswer) -> Vec<&'static str> {
    let applies = |rule: &&Rule| answer.plans.iter().any(|plan| (rule.0)(question, plan));
    RULES.iter().filter(applies).map(|&(_, line)| line).collect()
}
