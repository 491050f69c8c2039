//! Lines of logs of reinforcement learning: what frameworks call the facts of a step.
//!
//! Formats, read in 2026: verl's `tracking.py` and `metric_utils.py` (b178a3cd: `step:1 - timing_s/gen:29.6 - ..`, also
//! wrapped, as JSON lines, or as CSV of its trackers); slime's `rollout_metrics.py` and `train_metric_utils.py` (624b824a:
//! `perf 1: {'perf/rollout_time': 98.6, ..}`), which miles follows; NeMo-RL's `grpo.py` (7ea279ab: `• policy_training:
//! 25.05s (37.6%)`).

use crate::measured::line::without_colours;

/// A fact of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// Seconds of generation; of verl and slime with whatever wakes engines.
    Rollout,
    Reward,
    /// Seconds of old log-probabilities.
    Old,
    Reference,
    /// Of old log-probabilities and the reference's together.
    Both,
    Values,
    Update,
    Critic,
    /// Of new weights to engines.
    Sync,
    /// Of the whole step.
    Step,
    Evaluation,
    Checkpoint,
    /// Mean tokens of prompts, the longest, and the share of prompts as long as the limit.
    PromptMean,
    PromptLongest,
    PromptAtLimit,
    /// The same of responses.
    ResponseMean,
    ResponseLongest,
    ResponseAtLimit,
    /// Mean tokens of responses as they are trained, where a log has them besides.
    TrainedMean,
    /// Mean tokens of prompts and responses together, of these.
    BothMean,
    /// Tokens of all samples.
    Tokens,
    /// Of the average device.
    DeviceTokens,
    /// Tokens per second of each device.
    Rate,
    /// What only runs have whose rollout does not wait for training.
    Asynchronous,
}

/// How many facts there are.
pub(super) const FACTS: usize = Fact::Asynchronous as usize + 1;

use Fact::{
    Asynchronous, Both, BothMean, Checkpoint, Critic, DeviceTokens, Evaluation, Old, PromptAtLimit,
    PromptLongest, PromptMean, Rate, Reference, ResponseAtLimit, ResponseLongest, ResponseMean,
    Reward, Rollout, Step, Sync, Tokens, TrainedMean, Update, Values,
};

/// What frameworks call them.
const NAMES: [(&str, Fact); 49] = [
    // verl.
    ("timing_s/gen", Rollout),
    ("timing_s/reward", Reward),
    ("timing_s/old_log_prob", Old),
    ("timing_s/ref", Reference),
    ("timing_s/values", Values),
    ("timing_s/update_actor", Update),
    ("timing_s/update_critic", Critic),
    ("timing_s/update_weights", Sync),
    ("timing_s/sync_rollout_weights", Sync),
    ("timing_s/step", Step),
    ("timing_s/testing", Evaluation),
    ("timing_s/save_checkpoint", Checkpoint),
    ("prompt_length/mean", PromptMean),
    ("prompt_length/max", PromptLongest),
    ("prompt_length/clip_ratio", PromptAtLimit),
    ("response_length/mean", ResponseMean),
    ("response_length/max", ResponseLongest),
    ("response_length/clip_ratio", ResponseAtLimit),
    ("perf/total_num_tokens", Tokens),
    ("global_seqlen/mean", DeviceTokens),
    ("perf/throughput", Rate),
    ("perf/time_per_step", Step),
    ("timing_s/generate_async", Asynchronous),
    // slime and miles.
    ("perf/rollout_time", Rollout),
    ("perf/log_probs_time", Old),
    ("perf/ref_log_probs_time", Reference),
    ("perf/actor_train_time", Update),
    ("perf/update_weights_time", Sync),
    ("perf/step_time", Step),
    ("rollout/response_len/mean", ResponseMean),
    ("rollout/response_len/max", ResponseLongest),
    ("rollout/truncated_ratio", ResponseAtLimit),
    ("rollout/response_lengths", TrainedMean),
    ("rollout/total_lengths", BothMean),
    // NeMo-RL, as its trackers have them; the console leaves the beginning out.
    ("timing/train/generation", Rollout),
    ("timing/train/reward_calculation", Reward),
    ("timing/train/policy_and_reference_logprobs", Both),
    ("timing/train/policy_training", Update),
    ("timing/train/prepare_for_generation/total", Sync),
    ("timing/train/weight_sync", Sync),
    ("timing/train/total_step_time", Step),
    ("timing/train/total_validation_time", Evaluation),
    ("timing/train/checkpointing", Checkpoint),
    ("timing/train/exposed_generation", Asynchronous),
    ("timing/train/Total step time", Step),
    ("timing/train/Mean Generation Length", ResponseMean),
    ("train/mean_gen_tokens_per_sample", ResponseMean),
    ("train/mean_prompt_length", PromptMean),
    ("train/total_num_tokens", Tokens),
];
/// The beginning of names of NeMo-RL's timers in its trackers.
const TIMING: &str = "timing/train/";
/// The beginning of names that only fully asynchronous runs of verl have.
const FULLY_ASYNCHRONOUS: &str = "fully_async/";
/// The part of a line that is read.
const MOST: usize = 1 << 16;
/// Larger numbers are none of a step.
const LARGEST: f64 = 1e15;

/// What a line says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Said {
    /// What follows is of the step with this number.
    Number(u64),
    Fact(Fact, f64),
}

/// The fact called `name`.
pub(super) fn fact(name: &str) -> Option<Fact> {
    if name.starts_with(FULLY_ASYNCHRONOUS) {
        return Some(Asynchronous);
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, fact)| *fact)
}

/// The number at the start of `text`, in quotes or as numpy prints it.
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim_start_matches([' ', '\'', '"']);
    let text = match text.split_once('(') {
        Some(("np.float64" | "np.float32" | "np.int64" | "tensor", inner)) => inner,
        _ => text,
    };
    let is_part = |c: &char| c.is_ascii_digit() || ".eE+-".contains(*c);
    let digits: String = text.chars().take_while(is_part).take(40).collect();
    digits.parse().ok().filter(|number| (0.0..LARGEST).contains(number))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Bounded, and positive.
fn whole(number: f64) -> u64 {
    number as u64
}

/// What `line` says, in its order. Colours, the names of processes, times, and whatever else stands between are skipped.
pub(super) fn said(line: &str) -> Vec<Said> {
    let end = (0..=MOST.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    let line = without_colours(&line[..end]);
    if let Some((_, rest)) = line.split_once("= Step ") {
        return number(rest).map(|number| Said::Number(whole(number))).into_iter().collect();
    }
    if let Some((_, bullet)) = line.split_once('\u{2022}') {
        let fact = bullet.split_once(':').and_then(|(name, value)| {
            Some(Said::Fact(fact(&format!("{TIMING}{}", name.trim()))?, number(value)?))
        });
        return fact.into_iter().collect();
    }
    let mut said = Vec::new();
    for (at, _) in line.match_indices(':') {
        let before = line[..at].trim_end_matches(['\'', '"']);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_/".contains(c);
        let rest = before.trim_end_matches(is_name);
        let name = &before[rest.len()..];
        let Some(value) = number(&line[at + 1..]).or_else(|| is_digits(name).then_some(0.0)) else {
            continue;
        };
        match rest.trim_end().rsplit([' ', ':', '-']).next() {
            // slime: `perf 3: {..}`; an evaluation has the names of a rollout.
            Some("perf" | "rollout" | "step") if is_digits(name) => {
                said.extend(number(name).map(|number| Said::Number(whole(number))));
            }
            Some("eval") if is_digits(name) => return said,
            _ if name == "step" => said.push(Said::Number(whole(value))),
            _ => said.extend(fact(name).map(|fact| Said::Fact(fact, value))),
        }
    }
    said
}

fn is_digits(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_digit())
}

/// The columns of a table whose head is `line`: the number of a step, or a fact; `None` where it is not one.
pub(super) fn columns(line: &str) -> Option<Vec<Option<Said>>> {
    if line.contains(':') || !line.contains(',') {
        return None;
    }
    let column = |cell: &str| {
        // wandb puts the name of the run in front.
        let name = cell.rsplit(" - ").next().unwrap_or_default();
        match name {
            "step" | "Step" | "_step" => Some(Said::Number(0)),
            _ => fact(name).map(|fact| Said::Fact(fact, 0.0)),
        }
    };
    let columns: Vec<Option<Said>> = cells(line).map(column).collect();
    let is_fact = |column: &Option<Said>| matches!(column, Some(Said::Fact(..)));
    columns.iter().any(is_fact).then_some(columns)
}

/// What the row `line` says under `columns`; `None` where it is not one.
pub(super) fn row(line: &str, columns: &[Option<Said>]) -> Option<Vec<Said>> {
    if cells(line).count() != columns.len() {
        return None;
    }
    let cell = |(cell, column): (&str, &Option<Said>)| {
        let value = number(cell)?;
        match (*column)? {
            Said::Number(_) => Some(Said::Number(whole(value))),
            Said::Fact(fact, _) => Some(Said::Fact(fact, value)),
        }
    };
    let mut said: Vec<Said> = cells(line).zip(columns).filter_map(cell).collect();
    said.sort_by_key(|said| matches!(said, Said::Fact(..)));
    Some(said)
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"'))
}
