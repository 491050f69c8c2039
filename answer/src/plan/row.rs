//! A plan for machines: an entry of the JSON, and a line of the CSV.

use plan::Split;
use planning::{Framework, Question};
use question::object;
use serde::Serialize;

use super::priced::Plan;

/// One plan for machines, which answers `question`: an entry of the JSON, and a line of the CSV. Its bytes of graphs are
/// there if some plan beside it `has_graphs`.
pub(super) fn row(question: &Question, plan: &Plan, has_graphs: bool) -> impl Serialize {
    let (cluster, costed) = (&question.clusters[plan.cluster], plan.finalist.costed());
    let own = &costed.setup;
    let (_, held) = plan.finalist.evaluation.fullest();
    let least = plan.least_step.map(|least| least.0);
    let [half, most] = [0.5, 0.9].map(|odds| plan.overrun.factor(odds));
    object!(
        (machine, devices, schedule) = (cluster.name(), cluster.devices(), own.schedule_name()),
        (data, tensor, pipeline) = (own.data, own.tensor, own.pipeline),
        (context, expert, chunks) = (own.context, own.expert, own.chunks),
        (microbatch, microbatches) = (own.microbatch, costed.shape.microbatches()),
        (zero, recompute) = (own.zero.stage(), own.recompute.name()),
        vocabulary_parallel = own.vocabulary_parallel,
        // How stages meet between steps.
        boundary = question.recipe.boundary.name(),
        // A step by the event engine, and by replay, by which set-ups are searched.
        (step_ns, replay_step_ns) = (plan.step.0, plan.finalist.evaluation.step.0),
        // Lower bound over all orders of its passes in the memory of its devices, if one is known, and its deprecated name.
        (step_lower_bound_ns, least_step_ns) = (least, least),
        (step_p50_ns, step_p95_ns) = plan.percentiles.map(|[half, most]| (half.0, most.0)).unzip(),
        // How far the step may be off in 95 % of runs, as a share, if anything is known of its devices: the larger of how
        // much faster and how much slower a run may be.
        error = plan.error.map(|[low, high]| low.max(high)),
        (error_low, error_high) = plan.error.map(|[low, high]| (low, high)).unzip(),
        kind = plan.kind.to_string(),
        tokens_per_second = plan.tokens_per_second,
        (mfu, hfu, bubble_rate) = (plan.mfu, plan.hfu, plan.finalist.bubble_rate()),
        parameters_total = question.model.parameters(),
        // Those that a token meets.
        parameters_active = question.model.active_parameters(),
        // Of the fullest device, and the memory that a plan may use of it.
        (peak_bytes, device_bytes) = (held.sum().0, plan.memory()[0].0),
        // Whether every device surely holds its part, and the odds that it does, by published peaks.
        (fits, fit_odds) = (plan.shortage.is_none(), plan.fit_odds),
        (parameter_bytes, gradient_bytes) = (held.parameters.0, held.gradients.0),
        (optimizer_bytes, activation_bytes) = (held.optimizer.0, held.activations.0),
        some(graph_bytes) = has_graphs.then_some(held.graphs.0),
        (buffer_bytes, goodput) = (held.buffers.0, plan.goodput),
        checkpoint_interval_s = plan.checkpoint_interval,
        (days, dollars) = (plan.days, plan.dollars),
        // By which half of such trainings are done, and nine in ten.
        (days_p50, days_p90) = (plan.days * half, plan.days * most),
        (dollars_p50, dollars_p90) = (plan.dollars * half, plan.dollars * most),
        (deadline_odds, budget_odds) = plan.odds_of_limits(question).into(),
        // As a first run of stock Megatron-LM, where that runs it and the question does not say whose software runs.
        stock_days = plan.stock.map(|times| plan.days * times),
        dollars_per_million_tokens = plan.dollars / question.tokens * 1e6,
        // Of all devices at the watts that they may draw.
        (energy_kwh, on_front) = (plan.energy, plan.on_front),
        // The limit that the order was made under, where the schedule takes one.
        memory_limit = costed.limit.map(|limit| limit.to_string()),
        (gpu_hours, split) = (plan.gpu_hours, split(own.split)),
        // The layers of each chunk, where no rule says them, and the software that the search turned on, as plans have
        // them.
        layout = super::chunk_layers::given_layout(plan),
        software = super::software::line(question, plan),
        runs_in_megatron = plan.runs_in(Framework::Megatron, question),
        runs_in_torchtitan = plan.runs_in(Framework::Torchtitan, question),
    )
}

/// Name of a split of layers.
const fn split(split: Split) -> &'static str {
    match split {
        Split::Even => "even",
        Split::Balanced => "balanced",
        Split::Layout => "layout",
        Split::Searched => "searched",
    }
}
