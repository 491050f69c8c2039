//! The omissions of an answer: what real runs have and the model of its steps has not, a line each,
//! only where it applies to a plan told.

use pipeline::{Choice, Family};
use plan::{Boundary, Machine, Reshard, Setup, Zero};

use super::answer::Answer;
use super::priced::Plan;
use question::plan::Question;

/// A thing left out: whether it applies to a plan, and the line.
type Rule = (fn(&Question, &Plan) -> bool, &'static str);

/// All of them, what makes the largest difference first.
const RULES: [Rule; 12] = [
    (
        |question, plan| {
            let exchanged = question.model.experts.is_some() && setup(plan).expert > 1;
            exchanged && !question.recipe.software.overlap_experts
        },
        "the all-to-all of experts is not overlapped: passes wait for dispatch and combine",
    ),
    (
        |question, _| question.model.experts.is_some() && question.recipe.imbalance <= 1.0,
        "experts are perfectly balanced: each gets as many tokens as any other, and none is dropped",
    ),
    (
        |question, plan| {
            let wide = !question.recipe.precision.is_low();
            wide && machines(question, plan).any(|machine| machine.peak_fp8.is_some())
        },
        "no FP8: all products run in 16 bits, although the devices have an 8-bit rate",
    ),
    (
        |_, plan| matches!(setup(plan).family, Family::DualPipe | Family::DualPipeV),
        "no overlap inside a pair: its forward and its backward take the sum of their times",
    ),
    (
        |question, plan| {
            let rates = machines(question, plan).map(|machine| machine.efficiency);
            let exposed = rates.map(|rates| question.recipe.software.tensor_exposed(&rates));
            setup(plan).tensor > 1 && exposed.fold(0.0, f64::max) >= 1.0
        },
        "collectives of tensor groups are not overlapped with the products beside them",
    ),
    (
        |question, plan| {
            let whole = |machine: &Machine| machine.efficiency.context_exposed >= 1.0;
            let gathers = question.recipe.software.gathers_context;
            setup(plan).context > 1 && (gathers || machines(question, plan).any(whole))
        },
        "keys and values that go round a context group are not overlapped with attention",
    ),
    (
        |_, plan| {
            let gathers = setup(plan).reshard == Reshard::AfterForward;
            setup(plan).zero >= Zero::Gradients && gathers && replicas(plan) > 1
        },
        "a tenth of what ZeRO 2 and 3 exchange beside passes is not hidden, an assumption",
    ),
    (
        |question, plan| {
            let whole = setup(plan).zero < Zero::Gradients && replicas(plan) > 1;
            whole && !question.recipe.overlap_gradients
        },
        "gradients are reduced behind the step: the data-parallel exchange is not overlapped",
    ),
    (
        |question, plan| {
            let whole = setup(plan).zero < Zero::Gradients && replicas(plan) > 1;
            whole && question.recipe.overlap_gradients && !question.recipe.overlap_parameters
        },
        "gradients are reduced beside the last backward alone, parameters gathered behind the step",
    ),
    (
        |question, _| question.recipe.boundary == Boundary::PostValidation,
        "post-validation never fails: no step is taken back",
    ),
    (
        |_, plan| setup(plan).family.about().choice == Choice::Offload,
        "copies to the host slow down nothing else: no kernel, and no transfer between stages",
    ),
    (|_, _| true, "data loading, logging and evaluation take no time"),
];

fn setup(plan: &Plan) -> &Setup {
    &plan.finalist.costed().setup
}

fn replicas(plan: &Plan) -> u64 {
    setup(plan).data.saturating_mul(setup(plan).context)
}

fn machines<'a>(question: &'a Question, plan: &Plan) -> impl Iterator<Item = &'a Machine> {
    question.clusters[plan.cluster].parts.iter().map(|(machine, _)| machine)
}

/// The omissions of the plans of `answer`.
pub fn of(question: &Question, answer: &Answer) -> Vec<&'static str> {
    let applies = |rule: &&Rule| answer.plans.iter().any(|plan| (rule.0)(question, plan));
    RULES.iter().filter(applies).map(|&(_, line)| line).collect()
}
