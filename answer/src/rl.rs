//! A step of reinforcement learning: its phases, where devices wait, and what levers would save.

mod calibrated;
mod levers;
mod logged;
mod memory;
mod phase;

use fsdp::CostModel;
use fsdp::rl::{Mean, Trainer};
use pipeline::Nanos;
use planning::rl::Asked;
use serde::Serialize;

use question::host::{Context, announce_estimate};
use question::rl::RlKeys;
use question::sheet::Sheet;
use question::values::packing::PlacementKey;
use question::{Diagnostic, format, table};

use crate::plan::doubts::unmeasured_step;

use self::calibrated::Calibrated;
use self::levers::Lever;
pub use self::levers::LeverRow;
pub use self::logged::{HeldOut, HeldStep, LoggedPhase, LoggedSteps};
pub use self::memory::TrainingMemory;
use self::phase::PHASES;

/// Published steps over their predictions, the least and the most: five steps of verl with a model of 7B on 16 to 128
/// devices (docs/how-to/rl.md).
const PUBLISHED: [f64; 2] = [1.15, 1.48];
/// The devices that these steps ran on.
const PUBLISHED_DEVICE: &str = "H20 ";

/// A phase of a step.
#[derive(Serialize, Clone, Debug)]
pub struct PhaseRow {
    /// Its name.
    pub phase: &'static str,
    /// Mean over the steps.
    pub time_ns: u64,
    /// Its share of the step. With devices of their own, rollout and training run side by side, so that shares
    /// add up to more than 1.
    pub share: f64,
}

/// How engines generate.
#[derive(Serialize, Clone, Debug)]
pub struct RolloutRow {
    /// Replicas.
    pub engines: u64,
    /// Tokens of a step that all of them generate, per second of the rollout.
    pub tokens_per_second: f64,
    /// From when nine of ten responses were done to the end.
    pub tail_ns: u64,
    /// Its share of the rollout.
    pub tail_share: f64,
    /// Share of the rollout in which the average engine has nothing to do: it waits for the slowest.
    pub idle_rate: f64,
    /// Prefills of the average engine.
    pub prefill_ns: u64,
    /// Sequences of an engine in the average decode step.
    pub mean_sequences: f64,
    /// The most sequences of an engine at a time.
    pub most_sequences: u64,
    /// Sequences of a step that had to leave for want of memory.
    pub preemptions: f64,
    /// Tokens whose keys and values an engine holds.
    pub cache_tokens: u64,
    /// Bytes of keys and values of a token.
    pub cache_bytes_per_token: f64,
}

/// How the policy is updated.
#[derive(Serialize, Clone, Debug)]
pub struct UpdateRow {
    /// Updates of a step.
    pub updates: f64,
    /// Of the average device, or group of devices that work on the same samples, in an update.
    pub microbatches: f64,
    /// Share of the updates in which the average device waits or transfers.
    pub idle_rate: f64,
}

/// The pipelines that train.
#[derive(Serialize, Clone, Debug)]
pub struct PipelinesRow {
    pub replicas: u64,
    /// Stages of each.
    pub stages: u64,
    /// Chunks of layers on a stage.
    pub chunks_per_stage: u64,
    /// Order of passes.
    pub schedule: &'static str,
    /// The exchange of gradients and parameters at the end of an update.
    pub exchange_ns: u64,
}

impl PipelinesRow {
    fn in_words(&self) -> String {
        let Self { replicas, stages, chunks_per_stage, schedule, exchange_ns } = self;
        let chunks = match chunks_per_stage {
            1 => String::new(),
            chunks => format!(" of {chunks} chunks"),
        };
        let exchange = format::rounded_time(Nanos(*exchange_ns));
        let stage = if *stages == 1 { "stage" } else { "stages" };
        format!(
            "{replicas} replicas of {stages} {stage}{chunks}, {schedule}; gradients exchanged in {exchange} an update\n"
        )
    }

    fn of(trainer: &Trainer) -> Option<Self> {
        let Trainer::Pipelines(of) = trainer else { return None };
        Some(Self {
            replicas: of.replicas as u64,
            stages: of.stages,
            chunks_per_stage: of.chunks.len() as u64 / of.stages.max(1),
            schedule: of.schedule.name(),
            exchange_ns: of.exchange.0,
        })
    }
}

/// The answer to a question about a step of reinforcement learning.
#[derive(Serialize, Clone, Debug)]
pub struct RlAnswer {
    /// The step, how far published steps were off, its longest phase, and the change that saves most.
    pub headline: String,
    /// Devices that generate.
    pub rollout_devices: u64,
    pub training_devices: u64,
    /// `colocated` or `separate`.
    pub placement: &'static str,
    /// Steps that means are over.
    pub steps: u64,
    /// The mean step.
    pub step_ns: u64,
    /// The shortest and the longest step that published steps over their predictions make of it, or the other steps of
    /// a log over theirs; absent where the log has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_range_ns: Option<[u64; 2]>,
    /// Whether steps were measured on devices of this generation.
    pub measured: bool,
    /// The memory of a device while the policy is trained; absent where the planner knows no such set-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training_memory: Option<TrainingMemory>,
    /// Responses of a step that are trained on.
    pub responses: f64,
    /// Tokens of prompts and responses that are trained on, per second.
    pub tokens_per_second: f64,
    pub phases: Vec<PhaseRow>,
    pub rollout: RolloutRow,
    /// The updates.
    pub update: UpdateRow,
    /// The log that calibrates the phases, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LoggedSteps>,
    /// The pipelines that train, if any do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipelines: Option<PipelinesRow>,
    /// What changes would save, each by itself.
    pub levers: Vec<LeverRow>,
    /// Forward and backward of a sample on one device, as `--cost` takes it.
    pub cost: Option<String>,
    /// What was assumed, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// The name of the machine.
    #[serde(skip)]
    machine: String,
    /// `Some(true)` after a stop: over the steps and levers that were done by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
}

#[allow(clippy::cast_precision_loss)]
fn float(number: u128) -> f64 {
    number as f64
}

/// `part` of `all`; 0 of nothing.
fn share(part: u128, all: u128) -> f64 {
    if all == 0 { 0.0 } else { float(part) / float(all) }
}

/// The mean over steps.
fn mean(sum: u128, of: &Mean) -> u64 {
    u64::try_from(sum / u128::from(of.steps.max(1))).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Positive, and rough.
fn times_as_long(step: u64, times: f64) -> u64 {
    (step as f64 * times) as u64
}

/// The phases that have a time, in their order.
fn phases(of: &Mean) -> Vec<PhaseRow> {
    let [rollout, training @ ..] = PHASES.map(|phase| (phase.name, (phase.time)(of)));
    let all = [rollout, ("reward", of.reward)].into_iter().chain(training);
    let all = all.chain([("rest", of.rest)]);
    let row =
        |(phase, time)| PhaseRow { phase, time_ns: mean(time, of), share: share(time, of.time) };
    all.filter(|(_, time)| *time > 0).map(row).collect()
}

impl RolloutRow {
    fn new(asked: &Asked, of: &Mean) -> Self {
        let per_step = |count: u64| share(u128::from(count), u128::from(of.steps));
        Self {
            engines: of.replicas,
            tokens_per_second: 1e9 * share(u128::from(of.generated), of.rollout),
            tail_ns: mean(of.tail, of),
            tail_share: share(of.tail, of.rollout),
            idle_rate: share(of.engine_idle, of.rollout * u128::from(of.replicas)),
            prefill_ns: mean(of.prefill, of),
            mean_sequences: share(u128::from(of.generated), u128::from(of.decode_steps)),
            most_sequences: of.peak,
            preemptions: per_step(of.preemptions),
            cache_tokens: asked.engine.capacity,
            cache_bytes_per_token: asked.engine.token_bytes,
        }
    }
}

impl UpdateRow {
    fn new(of: &Mean) -> Self {
        let microbatches = u128::from(of.microbatches);
        Self {
            updates: share(u128::from(of.updates), u128::from(of.steps)),
            microbatches: share(microbatches, u128::from(of.updates) * u128::from(of.groups)),
            idle_rate: 1.0 - share(of.update_busy, of.update * u128::from(of.groups)),
        }
    }
}

/// The constants of a cost, as `--cost` takes them.
fn written(cost: CostModel) -> Option<String> {
    cost.constants().map(|[a, b]| format!("quadratic:{a:.6},{b:.6}"))
}

/// Simulates the steps that `keys` ask for, and what levers would make of them.
pub fn rl(context: &Context<'_>, keys: &RlKeys) -> Result<RlAnswer, Diagnostic> {
    let calibrated = calibrated::by_log(context, keys)?;
    let keys = calibrated.as_ref().map_or(keys, |of| &of.keys);
    let ask = |keys: &RlKeys| calibrated::ask(context, calibrated.as_ref(), keys);
    let question = ask(keys)?;
    let levers = levers::of(keys, &question);
    let rounds = 1 + levers.len() as u64;
    let work = context.host().begin(question.steps.steps.saturating_mul(rounds), "steps");
    announce(context, &question, rounds);
    let run = |asked: &Asked| {
        let steps = &asked.steps;
        let run = steps.run(|| work.inc(1), || context.stopped());
        run.map_err(|fault| Diagnostic::new(fault.to_string()))
    };
    let of = run(&question)?;
    let Some(base) = of.per_response() else {
        let message = "no response ends within the steps: give a larger --rollout-budget";
        return Err(Diagnostic::new(message).about("rollout-budget"));
    };
    let memory = |asked: &Asked| TrainingMemory::of(&asked.training, keys.strategy);
    let training_memory = memory(&question)?;
    let may_fit = training_memory.as_ref().is_none_or(|own| own.may_fit);
    let machine = question.training.machine();
    let device = machine.device.as_deref().unwrap_or_default();
    let row = |lever: Lever| {
        let ran = ask(&lever.keys).and_then(|asked| match memory(&asked)? {
            Some(own) if may_fit && !own.may_fit => Err(Diagnostic::new(own.verdict)),
            _ => run(&asked),
        });
        LeverRow::new(lever, ran, base)
    };
    let rows = levers.into_iter().take_while(|_| !context.stopped()).map(row).collect();
    let [rollout_devices, training_devices] = question.devices;
    let answer = RlAnswer {
        headline: String::new(),
        rollout_devices,
        training_devices,
        placement: keys.placement.name(),
        steps: of.steps,
        step_ns: mean(of.time, &of),
        step_range_ns: range(calibrated.as_ref(), mean(of.time, &of)),
        measured: device.starts_with(PUBLISHED_DEVICE) || measured::is_measured(device),
        machine: machine.name.clone(),
        training_memory,
        responses: share(u128::from(of.responses), u128::from(of.steps)),
        tokens_per_second: 1e9 * share(u128::from(of.tokens), of.time),
        phases: phases(&of),
        rollout: RolloutRow::new(&question, &of),
        update: UpdateRow::new(&of),
        log: calibrated.as_ref().map(|log| log.steps.clone()),
        pipelines: PipelinesRow::of(&question.steps.training.trainer),
        levers: levers::ranked(rows),
        cost: written(question.cost),
        assumed: question.assumed,
        interrupted: context.cut_short().then_some(true),
    };
    Ok(RlAnswer { headline: answer.headline(keys.devices), ..answer })
}

/// What errors make of a step of so many nanoseconds: those of the steps of a `log`, or of published ones.
fn range(log: Option<&Calibrated>, step: u64) -> Option<[u64; 2]> {
    match log {
        None => Some(PUBLISHED.map(|times| times_as_long(step, times))),
        Some(log) => log.steps.range(step),
    }
}

/// Says before steps are simulated if that takes minutes.
fn announce(context: &Context<'_>, asked: &Asked, rounds: u64) {
    // Packing goes through all devices for every response.
    const PAIRS_PER_SECOND: u64 = 6_000_000;
    let steps = &asked.steps;
    let responses = steps.rollout.prompts.saturating_mul(steps.rollout.responses);
    let pairs = u128::from(responses) * u128::from(asked.devices[1]);
    let all = pairs.saturating_mul(u128::from(steps.steps.saturating_mul(rounds)));
    let what = format!("{} steps of {responses} responses, {rounds} times", steps.steps);
    announce_estimate(context.host(), all, PAIRS_PER_SECOND, &what);
}

impl crate::Tabular for RlAnswer {
    fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        crate::csv(&self.phases)
    }

    fn sheet(&self) -> Sheet {
        let phases = self.phases.iter().map(|row| (row.phase, row.time_ns, row.share));
        let phases = table!(
            (phase, time, share) = phases.chain([("step", self.step_ns, 1.0)]),
            "phase" = phase,
            "time" = format::rounded_time(Nanos(time)),
            "of the step" = format::percent(share),
        );
        let sheet = phases.and_text("\n").and_text(self.confidence()).and_text(self.in_words());
        let sheet = match &self.log {
            None => sheet,
            Some(log) => sheet.and_text("\n").and(log.sheet()),
        };
        let sheet = match self.levers.is_empty() {
            true => sheet,
            false => sheet.and_text("\n").and(levers::sheet(&self.levers)),
        };
        let assumed = self.assumed.iter().map(|one| format!("assumed: {one}\n"));
        sheet.and_text(assumed.collect::<String>()).headed(&self.headline)
    }
}

impl RlAnswer {
    /// The answer in two sentences, of so many `devices`.
    fn headline(&self, devices: u64) -> String {
        let whole = |share: f64| format!("{:.0} %", 100.0 * share);
        let time = |nanos: u64| format::rounded_time(Nanos(nanos)).trim().to_owned();
        let longest = self.phases.iter().max_by_key(|phase| phase.time_ns);
        let longest = longest.map_or_else(String::new, |PhaseRow { phase, share, .. }| {
            format!("; the {phase} takes {} of it", whole(*share))
        });
        let [low, high] = self.step_range_ns.unwrap_or_default().map(time);
        let step = match &self.log {
            Some(log) => log.headline(),
            None => format!(
                "A step takes about {} on {devices} devices, {low} to {high} by the errors of five published \
                 steps{longest}.",
                time(self.step_ns),
            ),
        };
        let calibrated = if self.log.is_some() { " of the calibrated step" } else { "" };
        match self.levers.first() {
            Some(LeverRow { lever, change, saved: Some(saved), .. }) if *saved >= 0.005 => format!(
                "{step}\nThe change{calibrated} that saves most is {lever} ({change}): {} of the time per response.",
                whole(*saved)
            ),
            Some(LeverRow { saved: Some(saved), .. }) if *saved > 0.0 => {
                format!("{step}\nNo change that was simulated saves half a percent of the time.")
            }
            Some(_) => format!("{step}\nNo change that was simulated saves time."),
            None => step,
        }
    }

    /// How far the step may be off, and whether the training fits.
    fn confidence(&self) -> String {
        let range = self.step_range_ns.unwrap_or_default();
        let [low, high] = range.map(|step| format::rounded_time(Nanos(step)));
        let [least, most] = PUBLISHED;
        let unmeasured = match self.measured {
            true => String::new(),
            false => format!("{}\n", unmeasured_step(&self.machine)),
        };
        let memory = self.training_memory.as_ref();
        let memory = memory.map_or_else(String::new, |memory| format!("{}\n", memory.verdict));
        if let Some(log) = &self.log {
            return format!("{}{memory}", log.confidence());
        }
        format!(
            "error: five published steps of verl on H20 took {least} to {most} times their predictions: {low} to {high} \
             here\n{unmeasured}{memory}"
        )
    }

    fn in_words(&self) -> String {
        let RolloutRow { engines, tail_ns, tail_share, idle_rate, .. } = self.rollout;
        let side_by_side = match self.placement == PlacementKey::Separate.name() {
            true => format!(
                "rollout on {} devices and training on {} run in parallel\n",
                self.rollout_devices, self.training_devices
            ),
            false => String::new(),
        };
        let preempted = match self.rollout.preemptions > 0.0 {
            true => format!("; {:.0} sequences of a step preempted", self.rollout.preemptions),
            false => String::new(),
        };
        let [responses, updates] = [(self.responses, "response"), (self.update.updates, "update")]
            .map(|(count, what)| mean_count(count, what));
        let (pipelines, group) = match &self.pipelines {
            None => (String::new(), "device"),
            Some(of) => (of.in_words(), "replica"),
        };
        format!(
            "{side_by_side}training throughput {:.0} tokens/s, {responses} per step\n\
             {engines} engines generate {:.0} tokens/s, {:.1} sequences each in the mean, {} at most\
             {preempted}\n\
             tail of the rollout, after 90 % of the responses: {}, {} of the rollout; engines idle {}\n\
             {pipelines}{updates} per step, each {:.2} microbatches per {group}; devices idle {}\n",
            format::three_digits(self.tokens_per_second),
            format::three_digits(self.rollout.tokens_per_second),
            self.rollout.mean_sequences,
            self.rollout.most_sequences,
            format::rounded_time(Nanos(tail_ns)),
            format::percent(tail_share),
            format::percent(idle_rate),
            self.update.microbatches,
            format::percent(self.update.idle_rate),
        )
    }
}

/// A mean count of `what`, with a decimal where it is not whole.
fn mean_count(count: f64, what: &str) -> String {
    let rounded = (10.0 * count).round() / 10.0;
    let plural = if rounded == 1.0 { "" } else { "s" };
    format!("{rounded} {what}{plural}")
}
