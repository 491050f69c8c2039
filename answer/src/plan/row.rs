//! A plan for machines: an entry of the JSON, and a line of the CSV.

use plan::{Split, StageMemory};
use planning::{Framework, Question};
use serde::Serialize;

use super::priced::Plan;

/// One plan for machines, and a line of the CSV.
#[derive(Serialize)]
pub struct PlanRow {
    machine: String,
    devices: u64,
    schedule: &'static str,
    data: u64,
    tensor: u64,
    pipeline: u64,
    context: u64,
    expert: u64,
    chunks: u64,
    microbatch: u64,
    microbatches: u32,
    zero: u8,
    recompute: String,
    vocabulary_parallel: bool,
    /// How stages meet between steps.
    boundary: &'static str,
    step_ns: u64,
    /// The step by replay, by which set-ups are searched.
    replay_step_ns: u64,
    /// Lower bound over all orders of its passes in the memory of its devices; nothing where no bound
    /// is known.
    step_lower_bound_ns: Option<u64>,
    /// Deprecated name of `step_lower_bound_ns`.
    least_step_ns: Option<u64>,
    step_p50_ns: Option<u64>,
    step_p95_ns: Option<u64>,
    /// How far the step may be off, as a share: the larger of the next two; nothing if nothing is known of its devices.
    error: Option<f64>,
    /// Share of the step by which a run may be faster, in 95 % of runs.
    error_low: Option<f64>,
    /// Share by which it may be slower.
    error_high: Option<f64>,
    /// Its kind, in words.
    kind: String,
    tokens_per_second: f64,
    mfu: f64,
    hfu: f64,
    bubble_rate: f64,
    /// All parameters of the model, and those that a token meets.
    parameters_total: u64,
    parameters_active: u64,
    peak_bytes: u64,
    /// The memory that a plan may use of that device.
    device_bytes: u64,
    /// Whether every device surely holds its part: with the error of predicted memory to spare.
    fits: bool,
    /// Odds that it does, by published peaks.
    fit_odds: f64,
    parameter_bytes: u64,
    gradient_bytes: u64,
    optimizer_bytes: u64,
    activation_bytes: u64,
    buffer_bytes: u64,
    goodput: f64,
    checkpoint_interval_s: f64,
    days: f64,
    dollars: f64,
    /// Days and dollars by which half of such trainings are done, and nine in ten.
    days_p50: f64,
    days_p90: f64,
    dollars_p50: f64,
    dollars_p90: f64,
    /// The odds that training is done by the deadline, and within the budget.
    deadline_odds: Option<f64>,
    budget_odds: Option<f64>,
    /// Days as a first run of stock Megatron-LM, where that runs it and the question does not say whose software runs.
    stock_days: Option<f64>,
    dollars_per_million_tokens: f64,
    /// Energy of all devices at the watts that they may draw, in kWh.
    energy_kwh: Option<f64>,
    on_front: bool,
    /// The limit that the order was made under, where the schedule takes one.
    memory_limit: Option<String>,
    /// Hours of all devices together.
    gpu_hours: f64,
    /// Split of layers into chunks: balanced, even, by the layout of the question, or searched with the
    /// order.
    split: &'static str,
    /// The layers of each chunk, where no rule says them: as `layout` in `[setup]` takes them.
    layout: Option<String>,
    /// The software that the search turned on: lines of `[training]` with commas between.
    software: String,
    /// Whether Megatron-LM runs the set-up.
    runs_in_megatron: bool,
    /// Whether torchtitan does.
    runs_in_torchtitan: bool,
}

impl PlanRow {
    /// The row of `plan`, which answers `question`.
    #[must_use]
    #[allow(clippy::too_many_lines)] // One for each column.
    pub fn of(question: &Question, plan: &Plan) -> Self {
        let (cluster, costed) = (&question.clusters[plan.cluster], plan.finalist.costed());
        let own = &costed.setup;
        let [half, most] = [0.5, 0.9].map(|odds| plan.overrun.factor(odds));
        let [deadline_odds, budget_odds] = plan.odds_of_limits(question);
        let (_, held) = plan.finalist.evaluation.fullest();
        let StageMemory { parameters, gradients, optimizer, activations, buffers } = held;
        Self {
            machine: cluster.name(),
            devices: cluster.devices(),
            schedule: own.schedule_name(),
            data: own.data,
            tensor: own.tensor,
            pipeline: own.pipeline,
            context: own.context,
            expert: own.expert,
            chunks: own.chunks,
            microbatch: own.microbatch,
            microbatches: costed.shape.microbatches(),
            zero: own.zero.stage(),
            recompute: own.recompute.name(),
            vocabulary_parallel: own.vocabulary_parallel,
            boundary: question.recipe.boundary.name(),
            step_ns: plan.step.0,
            replay_step_ns: plan.finalist.evaluation.step.0,
            step_lower_bound_ns: plan.least_step.map(|least| least.0),
            least_step_ns: plan.least_step.map(|least| least.0),
            step_p50_ns: plan.percentiles.map(|[median, _]| median.0),
            step_p95_ns: plan.percentiles.map(|[_, p95]| p95.0),
            error: plan.error.map(|[low, high]| low.max(high)),
            error_low: plan.error.map(|[low, _]| low),
            error_high: plan.error.map(|[_, high]| high),
            kind: plan.kind.to_string(),
            tokens_per_second: plan.tokens_per_second,
            mfu: plan.mfu,
            hfu: plan.hfu,
            bubble_rate: plan.finalist.bubble_rate(),
            parameters_total: question.model.parameters(),
            parameters_active: question.model.active_parameters(),
            peak_bytes: held.sum().0,
            device_bytes: plan.memory()[0].0,
            fits: plan.shortage.is_none(),
            fit_odds: plan.fit_odds,
            memory_limit: costed.limit.map(|limit| limit.to_string()),
            parameter_bytes: parameters.0,
            gradient_bytes: gradients.0,
            optimizer_bytes: optimizer.0,
            activation_bytes: activations.0,
            buffer_bytes: buffers.0,
            goodput: plan.goodput,
            checkpoint_interval_s: plan.checkpoint_interval,
            days: plan.days,
            dollars: plan.dollars,
            days_p50: plan.days * half,
            days_p90: plan.days * most,
            dollars_p50: plan.dollars * half,
            dollars_p90: plan.dollars * most,
            deadline_odds,
            budget_odds,
            stock_days: plan.stock.map(|times| plan.days * times),
            dollars_per_million_tokens: plan.dollars / question.tokens * 1e6,
            energy_kwh: plan.energy,
            on_front: plan.on_front,
            gpu_hours: plan.gpu_hours,
            split: split(own.split),
            layout: super::chunk_layers::given_layout(plan),
            software: super::software::line(question, plan),
            runs_in_megatron: plan.runs_in(Framework::Megatron, question),
            runs_in_torchtitan: plan.runs_in(Framework::Torchtitan, question),
        }
    }
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
