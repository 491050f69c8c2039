//! The step of reinforcement learning that a launch script of verl runs: its overrides of the configuration. Defaults are
//! those of `verl/trainer/config` (b178a3cd).

use std::collections::BTreeMap;

use fsdp::Lengths;
use question::diagnostic::Diagnostic;
use question::quote;
use question::rl::RlKeys;
use question::values::packing::{LengthsKey, OrderKey, PlacementKey, RecomputeKey, StrategyKey};
use serde_json::Value;

use super::arguments::{Arguments, Wrong};
use super::assemble::MACHINE;
use super::measured::steady::median;
use super::printed::{self, Kind};
use super::shell::{self, END, UNKNOWN};
use super::{Given, Source, left_out_in_words, python, with_notes};
use planning::models;

/// Names of settings that change no time of a step, or that are read beside others; those of groups end in a dot.
const HARMLESS: &[&str] = &[
    "actor-rollout-ref.actor.checkpoint.",
    "actor-rollout-ref.actor.clip-ratio",
    "actor-rollout-ref.actor.entropy-coeff",
    "actor-rollout-ref.actor.grad-clip",
    "actor-rollout-ref.actor.kl-loss",
    "actor-rollout-ref.actor.loss-agg-mode",
    "actor-rollout-ref.actor.megatron.",
    "actor-rollout-ref.actor.optim.",
    "actor-rollout-ref.actor.policy-loss.",
    "actor-rollout-ref.actor.shuffle",
    "actor-rollout-ref.actor.tis-imp-ratio",
    "actor-rollout-ref.hybrid-engine",
    "actor-rollout-ref.model.lora-alpha",
    "actor-rollout-ref.model.lora.alpha",
    "actor-rollout-ref.model.lora.dropout",
    "actor-rollout-ref.model.trust-remote-code",
    "actor-rollout-ref.model.use-remove-padding",
    "actor-rollout-ref.model.use-shm",
    "actor-rollout-ref.ref.log-prob-",
    "actor-rollout-ref.ref.megatron.",
    "actor-rollout-ref.ref.ulysses-sequence-parallel-size",
    "actor-rollout-ref.rollout.calculate-log-probs",
    "actor-rollout-ref.rollout.do-sample",
    "actor-rollout-ref.rollout.enable-chunked-prefill",
    "actor-rollout-ref.rollout.ignore-eos",
    "actor-rollout-ref.rollout.load-format",
    "actor-rollout-ref.rollout.log-prob-micro-batch-size",
    "actor-rollout-ref.rollout.mode",
    "actor-rollout-ref.rollout.name",
    "actor-rollout-ref.rollout.temperature",
    "actor-rollout-ref.rollout.top-",
    "actor-rollout-ref.rollout.val-kwargs.",
    "algorithm.gamma",
    "algorithm.kl-ctrl.",
    "algorithm.kl-penalty",
    "algorithm.lam",
    "algorithm.norm-adv-by-std-in-grpo",
    "critic.checkpoint.",
    "critic.megatron.",
    "critic.model.path",
    "critic.optim.",
    "custom-reward-function.",
    "data.dataloader-num-workers",
    "data.filter-overlong",
    "data.prompt-key",
    "data.return-raw-chat",
    "data.reward-fn-key",
    "data.seed",
    "data.shuffle",
    "data.train-files",
    "data.trust-remote-code",
    "data.truncation",
    "data.val-",
    "global-profiler.",
    "ray-",
    "reward-model.overlong-buffer",
    "reward-model.reward-kwargs.",
    "reward-model.reward-manager",
    "trainer.critic-warmup",
    "trainer.default-",
    "trainer.experiment-name",
    "trainer.log",
    "trainer.max-actor-ckpt",
    "trainer.max-critic-ckpt",
    "trainer.project-name",
    "trainer.resume",
    "trainer.rollout-data-dir",
    "trainer.save-freq",
    "trainer.test-freq",
    "trainer.total-",
    "trainer.val",
];

/// The end of settings that change a step, of whatever group they are.
const OFFLOAD: &str = "-offload";
/// The share of the longest response that the median is taken for, where nothing says more.
pub(super) const MEDIAN: u32 = 4;
/// The most steps of a log.
const MOST_STEPS: usize = 10_000;
/// The default medians of prompts and responses, in tokens.
pub(super) const MEDIANS: [u32; 2] = [150, 1000];
/// The spread of the lengths of prompts and of responses that is assumed: sigma of a log-normal law.
pub const SIGMA: [f64; 2] = [0.5, 0.9];

/// A step of reinforcement learning that a script runs.
pub struct Step {
    /// The question.
    pub keys: RlKeys,
    /// Assumptions, and settings that the question cannot have, a sentence each, with the key that is assumed.
    pub notes: Vec<(Option<&'static str>, String)>,
    /// Settings that are not known to be harmless, and that the question does not have.
    pub left_out: Vec<String>,
}

impl Step {
    /// The notes but for those on keys that are `given` otherwise, and the settings that are left out in one of them.
    pub fn notes(&self, given: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
        let left_out = left_out_in_words("a step of `debubble rl`", &self.left_out);
        let is_said = move |key: &Option<&str>| !key.is_some_and(&given);
        let notes = self.notes.iter().filter(move |(key, _)| is_said(key));
        notes.map(|(_, text)| text.clone()).chain(left_out)
    }

    /// The question as a file, with the notes in front.
    pub fn to_toml(&self) -> Result<String, String> {
        with_notes(self.notes(|_| false), &self.keys)
    }
}

/// Whether `source` launches verl. A question that was made of such a script names its settings in comments.
pub(super) fn is_script(source: &Source<'_>) -> bool {
    if source.printed().last().is_some_and(|last| last.kind == Kind::Step) {
        return true;
    }
    let has = |name: &str| source.text.contains(name);
    has("actor_rollout_ref.") && has("data.train_") && !source.is_toml()
}

/// The step that the script or the log `source` runs.
pub(super) fn of_script(source: &Source<'_>, given: &Given) -> Result<Step, Diagnostic> {
    let count = source.printed().len();
    if let Some(last) = source.printed().last() {
        let arguments = in_words(last.tree(source)?);
        let steps = Some(Steps::of(&source.text[last.begin..]));
        let reader =
            Reader { arguments: &arguments, given, steps: steps.as_ref(), notes: Vec::new() };
        let mut step = reader.step().map_err(|wrong| source.of_argument(&arguments, wrong))?;
        step.notes.extend(steps.and_then(|steps| steps.in_words()).map(|note| (None, note)));
        step.notes.extend(printed::others(source, count - 1..count).map(|note| (None, note)));
        return Ok(step);
    }
    let script = shell::read(source.text, &given.variables, &|name| source.script_beside(name));
    let script = script.map_err(|why| source.wrong(&why).with_help(super::RUN))?;
    let arguments = Arguments::of_overrides(&script);
    let hide = |wrong| source.hide(wrong, &script.sourced);
    super::refuse_unknown(source, &arguments).map_err(hide)?;
    of_arguments(source, &arguments, given).map_err(hide)
}

/// The step that a launch with `words` runs.
pub(super) fn of_launch(
    source: &Source<'_>,
    words: &[String],
    given: &Given,
) -> Result<Step, Diagnostic> {
    of_arguments(source, &Arguments::of_settings(words.iter()), given)
}

fn of_arguments(
    source: &Source<'_>,
    arguments: &Arguments,
    given: &Given,
) -> Result<Step, Diagnostic> {
    let reader = Reader { arguments, given, steps: None, notes: Vec::new() };
    reader.step().map_err(|wrong| source.of_argument(arguments, wrong))
}

/// A number of tokens, at most `most`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Bounded.
fn tokens(number: f64, most: u32) -> u32 {
    number.clamp(1.0, f64::from(most.max(1))) as u32
}

/// The keys of `tree` in the words of Python; those without a value are left out.
fn in_words(tree: &Value) -> Arguments {
    let mut arguments = Arguments::of_tree(&Value::Null);
    python::leaves(tree, "", &mut |name, value| {
        let word = match value {
            Ok(Value::Null) => return,
            Ok(Value::Bool(is)) => (if *is { "True" } else { "False" }).to_owned(),
            Ok(Value::String(text)) => text.clone(),
            Ok(value) => value.to_string(),
            Err(line) => return arguments.set_unknown(name, line, true),
        };
        arguments.set(name, Some(vec![word]));
    });
    arguments.is_dump = true;
    arguments
}

/// Whether activations are computed again, as a key.
const fn recompute(all: bool) -> RecomputeKey {
    if all { RecomputeKey::Full } else { RecomputeKey::None }
}

/// Numbers that the steps of a log have, by name.
struct Steps(BTreeMap<String, Vec<f64>>);

impl Steps {
    fn of(text: &str) -> Self {
        let mut own = Self(BTreeMap::new());
        for line in text.lines() {
            let parts = line
                .split_once("step:")
                .into_iter()
                .flat_map(|(_, rest)| rest.split(" - ").skip(1));
            for (name, value) in parts.filter_map(|part| part.rsplit_once(':')) {
                let is_used = name.starts_with("timing_s/") || name.ends_with("_length/mean");
                let value = value.trim().trim_start_matches("np.float64(").trim_end_matches(')');
                let value = value
                    .parse()
                    .ok()
                    .filter(|value: &f64| value.is_finite() && is_used && *value >= 0.0);
                let all = value.map(|value| (own.0.entry(name.to_owned()).or_default(), value));
                all.into_iter()
                    .filter(|(all, _)| all.len() < MOST_STEPS)
                    .for_each(|(all, value)| all.push(value));
            }
        }
        own
    }

    fn median(&self, name: &str) -> Option<f64> {
        median(self.0.get(name)?)
    }

    /// The measured step and its longest phases.
    fn in_words(&self) -> Option<String> {
        let step = self.median("timing_s/step")?;
        let phases = self
            .0
            .keys()
            .filter_map(|name| Some((name.strip_prefix("timing_s/")?, self.median(name)?)));
        let mut phases: Vec<(&str, f64)> = phases.filter(|(name, _)| *name != "step").collect();
        phases.sort_by(|one, other| other.1.total_cmp(&one.1));
        let phases: Vec<String> =
            phases.iter().take(6).map(|(name, time)| format!("{name} {time:.1} s")).collect();
        let count = self.0.get("timing_s/step").map_or(0, Vec::len);
        Some(format!(
            "{count} measured steps take {step:.1} s in the median: {}",
            phases.join(", ")
        ))
    }
}

struct Reader<'a> {
    arguments: &'a Arguments,
    given: &'a Given,
    /// Steps of a log.
    steps: Option<&'a Steps>,
    notes: Vec<(Option<&'static str>, String)>,
}

impl Reader<'_> {
    fn step(mut self) -> Result<Step, Wrong> {
        let keys = self.rollout()?;
        let keys = self.forwards(keys)?;
        let strategy = self.arguments.text("actor-rollout-ref.actor.strategy")?;
        let keys = match strategy.as_deref() == Some("megatron")
            || self.arguments.has_prefix("actor-rollout-ref.actor.megatron.")
        {
            true => self.megatron(keys)?,
            false => self.fsdp(keys)?,
        };
        self.say_what_is_not_simulated()?;
        let is_left = |name: &&str| {
            let is_known = HARMLESS.iter().any(|known| name.starts_with(known));
            // A printed configuration has every setting there is, most of them by default.
            let is_set = !is_known && !self.arguments.is_dump;
            (is_set || name.ends_with(OFFLOAD)) && !self.arguments.is_none(name)
        };
        let unread = self.arguments.unread().into_iter().filter(is_left);
        let left_out = unread.map(|name| name.replace('-', "_")).collect();
        Ok(Step { keys, notes: self.notes, left_out })
    }

    /// Devices, and what is generated.
    fn rollout(&mut self) -> Result<RlKeys, Wrong> {
        let rollout = "actor-rollout-ref.rollout";
        let mini_batch = self.whole("actor-rollout-ref.actor.ppo-mini-batch-size", 256)?;
        let prompts = self.prompts(mini_batch)?;
        let [devices, rollout_devices] = self.devices()?;
        let [prompt_lengths, response_lengths] = self.lengths()?;
        Ok(RlKeys {
            model: self.model()?.map(Into::into),
            machine: Some(self.machine()),
            devices: devices + rollout_devices,
            prompts,
            responses: self.whole(&format!("{rollout}.n"), 1)?,
            prompt_lengths,
            response_lengths,
            tensor: self.whole(&format!("{rollout}.tensor-model-parallel-size"), 2)?,
            engine_memory: Some(self.number(&format!("{rollout}.gpu-memory-utilization"), 0.5)?),
            max_sequences: self.whole(&format!("{rollout}.max-num-seqs"), 256)?,
            placement: match rollout_devices {
                0 => PlacementKey::Colocated,
                _ => PlacementKey::Separate,
            },
            rollout_devices: Some(rollout_devices).filter(|devices| *devices > 0),
            mini_batch: Some(mini_batch.min(prompts)),
            ..RlKeys::default()
        })
    }

    /// `keys` with forwards, and with what updates have of whatever trains.
    fn forwards(&mut self, keys: RlKeys) -> Result<RlKeys, Wrong> {
        let rollout = "actor-rollout-ref.rollout";
        let dynamic = self.flag("actor-rollout-ref.actor.use-dynamic-bsz", false)?;
        let tokens = "actor-rollout-ref.actor.ppo-max-token-len-per-gpu";
        let max_tokens = self.whole(tokens, 16_384)?;
        let log_prob_dynamic =
            self.flag(&format!("{rollout}.log-prob-use-dynamic-bsz"), dynamic)?;
        let log_prob_tokens =
            self.whole(&format!("{rollout}.log-prob-max-token-len-per-gpu"), max_tokens)?;
        let in_reward = self.flag("algorithm.use-kl-in-reward", false)?;
        let in_loss = self.flag("actor-rollout-ref.actor.use-kl-loss", false)?;
        let advantages = self.arguments.text("algorithm.adv-estimator")?;
        Ok(RlKeys {
            no_old_log_probs: self.flag("async-training.use-rollout-log-probs", false)?,
            reference: in_reward || in_loss,
            critic: matches!(advantages.as_deref(), None | Some("gae")),
            epochs: self.whole("actor-rollout-ref.actor.ppo-epochs", 1)?,
            max_tokens: dynamic.then_some(max_tokens),
            log_prob_max_tokens: log_prob_dynamic.then_some(log_prob_tokens),
            lora_rank: self.lora_rank()?,
            ..keys
        })
    }

    /// `keys` with the settings of FSDP.
    fn fsdp(&self, keys: RlKeys) -> Result<RlKeys, Wrong> {
        let checkpoints =
            self.flag("actor-rollout-ref.model.enable-gradient-checkpointing", true)?;
        Ok(RlKeys {
            sequence_parallel: self
                .whole("actor-rollout-ref.actor.ulysses-sequence-parallel-size", 1)?,
            recompute: recompute(checkpoints),
            ..keys
        })
    }

    /// The rank of adapters, of FSDP or of Megatron-LM.
    fn lora_rank(&mut self) -> Result<Option<u64>, Wrong> {
        let names = ["lora-rank", "lora.rank"].map(|key| format!("actor-rollout-ref.model.{key}"));
        let [fsdp, megatron] = [self.whole(&names[0], 0)?, self.whole(&names[1], 0)?];
        Ok(Some(fsdp.max(megatron)).filter(|rank| *rank > 0))
    }

    /// `keys` with the settings of Megatron-LM.
    fn megatron(&mut self, keys: RlKeys) -> Result<RlKeys, Wrong> {
        let name = |key: &str| format!("actor-rollout-ref.actor.megatron.{key}");
        let size = |key: &str| self.whole(&name(key), 1);
        let optional = |key: &str| match self.arguments.is_none(&name(key)) {
            true => Ok(None),
            false => self.arguments.whole(&name(key)),
        };
        let chunks = optional("virtual-pipeline-model-parallel-size")?;
        let chunks = chunks.filter(|chunks| *chunks > 1);
        let granularity = "override-transformer-config.recompute-granularity";
        let granularity = self.arguments.text(&name(granularity))?;
        let keys = RlKeys {
            strategy: StrategyKey::Megatron,
            pipeline: size("pipeline-model-parallel-size")?,
            train_tensor: size("tensor-model-parallel-size")?,
            context: size("context-parallel-size")?,
            expert: size("expert-model-parallel-size")?,
            expert_tensor: optional("expert-tensor-parallel-size")?,
            schedule: chunks.map_or(OrderKey::OneFOneB, |_| OrderKey::Interleaved),
            chunks,
            recompute: recompute(granularity.as_deref() == Some("full")),
            ..keys
        };
        let dealt = [
            "override-transformer-config.num-layers-in-first-pipeline-stage",
            "override-transformer-config.num-layers-in-last-pipeline-stage",
            "override-transformer-config.account-for-embedding-in-pipeline-split",
            "override-transformer-config.account-for-loss-in-pipeline-split",
        ];
        if keys.pipeline > 1 && dealt.iter().any(|key| self.arguments.has_prefix(&name(key))) {
            self.note(format!(
                "layers are divided evenly among stages, not as the {} says",
                self.kind()
            ));
        }
        Ok(keys)
    }

    /// The model by the last part of its path, which is its name.
    fn model(&mut self) -> Result<Option<String>, Wrong> {
        if let Some(name) = &self.given.model {
            return Ok(Some(name.clone()));
        }
        const PATH: &str = "actor-rollout-ref.model.path";
        let written = self.arguments.raw(PATH);
        let path = written.unwrap_or_default().trim_matches(['\'', '"', '/']);
        let name = path.rsplit('/').next().unwrap_or_default();
        match name.is_empty() || name.contains([UNKNOWN, END]) {
            true => {
                self.notes.push((
                    Some("model"),
                    format!("the {} does not say the model: name it with --model", self.kind()),
                ));
                Ok(None)
            }
            false => Ok(Some(self.language_model(name))),
        }
    }

    /// The name of the model called `name`, or where that is one with vision, of its language model: Qwen2-VL to
    /// Qwen3-VL have the sizes of the model that is called so without VL.
    fn language_model(&mut self, name: &str) -> String {
        let language = name.replacen("-VL-", "-", 1);
        if models::named(name).is_some() || models::named(&language).is_none() {
            return name.to_owned();
        }
        self.notes.push((
            Some("model"),
            format!(
                "{name} is simulated as its language model, {language}, without its vision encoder"
            ),
        ));
        language
    }

    fn machine(&mut self) -> String {
        self.given.machine.clone().unwrap_or_else(|| {
            let note =
                format!("the {} names no machine: {MACHINE} is assumed (--machine)", self.kind());
            self.notes.push((Some("machine"), note));
            MACHINE.to_owned()
        })
    }

    /// Prompts of a step: of fully asynchronous training those of an update, so often as weights wait for it.
    fn prompts(&mut self, mini_batch: u64) -> Result<u64, Wrong> {
        let batch = self.whole("data.train-batch-size", 1024)?;
        let generated = self.whole("data.gen-batch-size", batch)?;
        if batch > 0 {
            if generated > batch {
                self.note(format!(
                    "prompts that dynamic sampling drops are not simulated: {generated} are drawn, and {batch} trained"
                ));
            }
            return Ok(batch);
        }
        let batches = self.whole("async-training.require-batches", 1)?;
        let updates = self.whole("async-training.trigger-parameter-sync-step", 1)?;
        self.note(format!(
            "training is fully asynchronous: a step has the {updates} updates between two exchanges of weights"
        ));
        Ok(mini_batch.saturating_mul(batches).saturating_mul(updates))
    }

    /// Devices of training, and of the rollout where it has its own.
    fn devices(&self) -> Result<[u64; 2], Wrong> {
        let of = |part: &str, nodes: u64, each: u64| {
            let nodes = self.whole(&format!("{part}.nnodes"), nodes)?;
            Ok(nodes.saturating_mul(self.whole(&format!("{part}.n-gpus-per-node"), each)?))
        };
        let [training, rollout] = [of("trainer", 1, 8)?, of("rollout", 0, 8)?];
        Ok([self.given.devices.map_or(training, |all| all.saturating_sub(rollout)), rollout])
    }

    /// The laws of prompts and responses: only the longest are known.
    fn lengths(&mut self) -> Result<[LengthsKey; 2], Wrong> {
        let mut laws = [LengthsKey::default(), LengthsKey::default()];
        let of = [("prompt", "prompt-lengths"), ("response", "response-lengths")];
        for (at, (what, key)) in of.into_iter().enumerate() {
            let name = format!("data.max-{what}-length");
            let name = name.as_str();
            let most = self.whole(name, 512)?;
            let wrong = |message: String| Wrong { name: name.to_owned(), message, cure: None };
            let most =
                u32::try_from(most).map_err(|_| wrong(format!("{most} tokens are too many")))?;
            let mean = self.steps.and_then(|steps| steps.median(&format!("{what}_length/mean")));
            let median = match mean {
                // The mean of a log-normal law is that much above its median.
                Some(mean) => tokens(mean / libm::exp(SIGMA[at] * SIGMA[at] / 2.0), most),
                None => (most / MEDIAN).clamp(1, MEDIANS[at]),
            };
            let law = Lengths::log_normal(median, SIGMA[at], most.max(1));
            let text = format!("lognormal:{median}:{}:{most}", SIGMA[at]);
            laws[at] = LengthsKey::Known(law.map_err(|fault| wrong(fault.to_string()))?, text);
            let known = match mean {
                Some(mean) => format!(
                    "the log has the mean of a {what}, {mean:.0} tokens, and the longest, {most}"
                ),
                None => format!("the {} has only the longest {what}, {most} tokens", self.kind()),
            };
            let note = format!(
                "{known}: a median of {median} is assumed (--{key} file:FILE takes those of a run)"
            );
            self.notes.push((Some(key), note));
        }
        Ok(laws)
    }

    /// A word for the file.
    fn kind(&self) -> &'static str {
        if self.arguments.is_dump { "log" } else { "script" }
    }

    fn note(&mut self, text: String) {
        self.notes.push((None, text));
    }

    /// Notes on settings that change a step in ways that the question does not have.
    fn say_what_is_not_simulated(&mut self) -> Result<(), Wrong> {
        let text = |name: &str| self.arguments.text(name);
        let mut said = Vec::new();
        if self.flag("async-training.partial-rollout", false)? {
            said.push(
                "partial rollouts end where weights are exchanged: --rollout-budget is near it"
                    .to_owned(),
            );
        }
        if self.flag("actor-rollout-ref.rollout.enforce-eager", false)? {
            said.push(
                "engines run without CUDA graphs: a larger --step-latency accounts for it"
                    .to_owned(),
            );
        }
        if self.flag("actor-rollout-ref.rollout.multi-turn.enable", false)? {
            said.push("turns with tools are not simulated".to_owned());
        }
        if self.flag("reward-model.enable", false)? {
            said.push("the reward model is not simulated: --reward takes its time".to_owned());
        }
        if let Some(samples) = text("actor-rollout-ref.actor.ppo-micro-batch-size-per-gpu")?
            && !self.flag("actor-rollout-ref.actor.use-dynamic-bsz", false)?
        {
            said.push(format!(
                "microbatches of {samples} samples are simulated as those of as many tokens as the longest sample"
            ));
        }
        said.into_iter().for_each(|text| self.note(text));
        Ok(())
    }

    fn whole(&self, name: &str, default: u64) -> Result<u64, Wrong> {
        Ok(self.arguments.whole(name)?.unwrap_or(default))
    }

    fn number(&self, name: &str, default: f64) -> Result<f64, Wrong> {
        Ok(self.arguments.number(name)?.unwrap_or(default))
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Wrong> {
        match self.arguments.text(name)?.as_deref() {
            None => Ok(default),
            Some("True" | "true") => Ok(true),
            Some("False" | "false") => Ok(false),
            Some(other) => Err(Wrong {
                name: name.to_owned(),
                message: format!("{} is neither True nor False", quote::clip(other)),
                cure: None,
            }),
        }
    }
}
