//! `debubble rl`: a step of reinforcement learning, phase by phase.

use std::io::Write;
use std::path::{Path, PathBuf};

use answer::rl::rl;
use clap::Args;
use draw::pictures::rl as pictures;
use imports::step_log::StepLog;
use imports::{Given, read_step};
use question::keys::file::MAX_QUESTION;
use question::keys::flags::Flags;
use question::rl::RlKeys;
use question::{Context, Diagnostic, quote};

use super::forms::Forms;
use super::run_script::variable;
use super::{Verdict, note};
use crate::error::Error;
use crate::help;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  GRPO of a 7B model on a node of H100: phases of a step, and the saving of each lever:
    debubble rl --model qwen2.5-7b --machine h100 --devices 8
  Long responses, several updates of a step, packed by token limits with sequence parallelism:
    debubble rl --model qwen2.5-7b --machine h100 --devices 16 --prompts 512 --responses 16 \\
      --response-lengths lognormal:3000:0.9:20480 --mini-batch 32 --sequence-parallel 4 --tensor 2
  Rollout and training on separate devices, one step off-policy:
    debubble rl --model qwen2.5-7b --machine h100 --devices 16 --placement separate --rollout-devices 8
  Updates on pipelines of Megatron-LM, and the saving of other schedules:
    debubble rl --model qwen2.5-7b --machine h100 --devices 16 --strategy megatron --pipeline 4 --train-tensor 2
  Recorded lengths, with partial rollouts of 4096 tokens:
    debubble rl --model qwen2.5-7b --machine h100 --rollout-budget 4096 \\
      --response-lengths file:rollouts.jsonl:response_length
  A question in a file, on more devices:
    debubble rl scenarios/rl/grpo-7b.toml --devices 16
  The step of a launch script of verl, with the lengths of its rollouts:
    debubble rl run_qwen2-7b.sh --machine h100 --response-lengths file:rollouts.jsonl:response_length
  The same, calibrated by the log of its run:
    debubble rl run_qwen2-7b.sh run.log --machine h100
  PPO with a critic and a reference model:
    debubble rl --model qwen2.5-1.5b --machine a100-80g --critic --reference --json

A step draws prompts and responses, and assigns prompts to engines in turn. An engine is a tensor-parallel group
with continuous batching: a decode step takes the longer of its memory reads (weights, keys and values) and its
compute. Sequences are admitted while memory holds their keys and values; the rollout ends with its longest
response, while the batch drains. Log-probabilities are forwards over all responses; updates are forward and
backward over --mini-batch prompts each, packed and timed as in `debubble fsdp`. The times of samples are the
planner's layer formulas.

A lever is one change of the question, tried alone; its saving is a share of the time per trained response,
since with partial rollouts fewer responses end in a step. Longer minibatches make fewer updates, and separate
devices train on responses of the previous policy: both change what is learned.";

/// Predict a step of reinforcement learning (GRPO, PPO): rollout, log-probabilities, updates, and what would save time
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES), mut_arg("svg", |arg| arg.help("Write a picture of the phases")))]
pub struct Rl {
    /// File of the question, with these keys, a launch script of verl or slime, or a configuration of NeMo-RL; flags
    /// override it
    #[arg(value_name = "QUESTION.toml|SCRIPT")]
    question: Option<PathBuf>,
    /// Log of the run, as --log
    #[arg(value_name = "LOG", conflicts_with = "log")]
    run: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags<RlKeys>,
    /// Value of a variable of the script or the environment, over its own; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, requires = "question")]
    set: Vec<(String, String)>,
    #[command(flatten)]
    forms: Forms,
}

impl Rl {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let host = Host::listening();
        let context = Context::new(&host);
        let has_log = self.run.is_some() || self.flags.has("log");
        let given = |key: &str| self.flags.has(key) || has_log && key.ends_with("-lengths");
        let file = match &self.question {
            Some(path) => read(&context, path, given, self.set)?,
            None => RlKeys::default(),
        };
        let keys = self.flags.over(file)?;
        let keys = RlKeys { log: self.run.or(keys.log), ..keys };
        let answer = rl(&context, &keys)?;
        if answer.interrupted.is_some() {
            note("interrupted: over the steps and levers that were done by then, not over all");
        }
        self.forms.write(out, &answer, pictures::phases)
    }
}

/// The keys of the question or of the script `path`, whose `variables` may be given, with notes on keys that are not
/// `given` otherwise.
fn read(
    context: &Context<'_>,
    path: &Path,
    said: impl Fn(&str) -> bool,
    variables: Vec<(String, String)>,
) -> Result<RlKeys, Error> {
    let given = Given { variables: variables.into_iter().collect(), ..Given::default() };
    let bytes = match read_step(context, path, &given)? {
        Ok(step) => {
            step.notes(said).for_each(|text| note(&text));
            return Ok(step.keys);
        }
        Err(bytes) => bytes,
    };
    let read = match std::str::from_utf8(&bytes) {
        Ok(text) if text.len() as u64 <= MAX_QUESTION => RlKeys::of_text(context, path, text),
        // It says why it refuses the file.
        _ => context
            .read_text(path, MAX_QUESTION)
            .and_then(|text| RlKeys::of_text(context, path, &text)),
    };
    let of_log = |wrong: Diagnostic| {
        if StepLog::of(&String::from_utf8_lossy(&bytes)).steps.is_empty() {
            return wrong;
        }
        let file = quote::path(path);
        let message = format!("{file}: it is a log of steps, and does not say what its run asks");
        let help =
            format!("name the question or the launch script in front: `debubble rl run.sh {file}`");
        Diagnostic::new(message).with_help(help)
    };
    Ok(read.map_err(of_log)?)
}
