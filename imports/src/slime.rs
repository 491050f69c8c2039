//! The step of reinforcement learning that a launch script of slime, or of miles, runs: its arguments, and those of
//! Megatron-LM. Defaults are those of slime's `arguments.py` (624b824a).

use question::diagnostic::Diagnostic;
use question::rl::RlKeys;
use question::values::packing::{PlacementKey, RecomputeKey, StrategyKey};

use super::arguments::{Arguments, Wrong};
use super::assumed::{Assumed, prompts_of};
use super::shell;
use super::table::{MEGATRON, SLIME};
use super::verl::Step;
use super::{Given, Source};

/// The argument that no other framework has.
const PROMPTS: &str = "--rollout-batch-size";
/// The array with the sizes of the model, from a file of slime.
const SIZES: &str = "MODEL_ARGS";
/// Sequences that a server of SGLang takes at a time.
const CONCURRENCY: u64 = 512;

/// Whether `source` launches slime.
pub(super) fn is_script(source: &Source<'_>) -> bool {
    let has = |name: &str| source.text.contains(name);
    has(PROMPTS) && has("--hf-checkpoint") && !source.is_toml()
}

/// The step that the script `source` runs.
pub(super) fn of_script(source: &Source<'_>, given: &Given) -> Result<Step, Diagnostic> {
    let script = shell::read(source.text, &given.variables, &|name| source.script_beside(name));
    let script = script.map_err(|why| source.wrong(&why).with_help(super::RUN))?;
    let is_launch = |words: &&Vec<String>| words.iter().any(|word| word.contains(PROMPTS));
    let words = script.commands.iter().rfind(is_launch);
    let words = words.ok_or_else(|| {
        let message = format!("no command that is followed has {PROMPTS}");
        source.wrong(&message).with_help(super::RUN)
    })?;
    let arguments = Arguments::of_launch(words);
    arguments.are_of(&SLIME);
    let hide = |wrong| source.hide(wrong, &script.sourced);
    let mut notes = Vec::new();
    match arguments.open_variable() {
        // The model is known by its name.
        Some(SIZES) | None => {}
        Some(_) => super::refuse_unknown(source, &arguments).map_err(hide)?,
    }
    let keys = Reader { arguments: &arguments, given, notes: &mut notes }
        .keys()
        .map_err(|wrong| hide(source.of_argument(&arguments, wrong)))?;
    let (costs, unread) = arguments.left_out();
    notes.extend(costs.map(|note| (None, note)));
    // Of those of Megatron-LM a step needs the parallel sizes alone; what else costs time is named.
    let is_left = |written: &String| {
        let name = written.trim_start_matches('-').replace('_', "-");
        let row = MEGATRON.row(&name);
        row.is_none_or(|row| row.usage == "not modelled" || row.usage == "not planned")
    };
    let left_out = unread.into_iter().filter(is_left).collect();
    Ok(Step { keys, notes, left_out })
}

struct Reader<'a> {
    arguments: &'a Arguments,
    given: &'a Given,
    notes: &'a mut Vec<(Option<&'static str>, String)>,
}

impl Reader<'_> {
    fn keys(self) -> Result<RlKeys, Wrong> {
        let base = RlKeys {
            strategy: StrategyKey::Megatron,
            recompute: RecomputeKey::None,
            max_sequences: CONCURRENCY,
            ..RlKeys::default()
        };
        let keys: RlKeys = self.arguments.fill("rl", &base)?;
        let [training, rollout] = self.devices()?;
        let mini_batch = self.mini_batch(&keys)?;
        let dynamic = self.arguments.has("use-dynamic-batch-size");
        let tokens = self.arguments.whole("max-tokens-per-gpu")?.filter(|_| dynamic);
        let alone = self.arguments.whole("log-probs-max-tokens-per-gpu")?.filter(|_| dynamic);
        let kl = self.arguments.number("kl-coef")?.unwrap_or(0.0);
        let estimator = self.arguments.text("advantage-estimator")?.unwrap_or_default();
        let critic = estimator == "ppo";
        // One update of a step takes the log-probabilities of its own forward.
        let reused =
            mini_batch == Some(keys.prompts) && !critic && kl == 0.0 && estimator != "gspo";
        let arguments = self.arguments;
        let mut assumed = Assumed { given: self.given, notes: self.notes, file: "script" };
        let path = arguments.raw("hf-checkpoint");
        let mut lengths = |what: &str| {
            let name = format!("rollout-max-{what}-len");
            let most = arguments.whole(&name)?;
            assumed.lengths(what, most).map_err(|message| Wrong::new(&name, message))
        };
        let [prompt_lengths, response_lengths] = [lengths("prompt")?, lengths("response")?];
        Ok(RlKeys {
            model: assumed.model(path).map(Into::into),
            machine: Some(assumed.machine()),
            devices: training.saturating_add(rollout),
            placement: if rollout == 0 { PlacementKey::Colocated } else { PlacementKey::Separate },
            rollout_devices: Some(rollout).filter(|devices| *devices > 0),
            prompt_lengths,
            response_lengths,
            mini_batch,
            max_tokens: tokens,
            log_prob_max_tokens: alone.or(tokens),
            reference: self.arguments.has("use-kl-loss") || kl > 0.0,
            no_old_log_probs: reused || self.arguments.has("use-rollout-logprobs"),
            critic,
            ..keys
        })
    }

    /// Devices that train, and those that generate, where they have their own.
    fn devices(&self) -> Result<[u64; 2], Wrong> {
        let nodes = self.arguments.whole("actor-num-nodes")?.unwrap_or(1);
        let each = self.arguments.whole("actor-num-gpus-per-node")?.unwrap_or(8);
        let own = self.arguments.whole("rollout-num-gpus")?;
        let training = nodes.saturating_mul(each);
        let rollout = match self.arguments.has("colocate") {
            true => 0,
            false => own.unwrap_or(training),
        };
        let all = self.given.devices;
        Ok([all.map_or(training, |all| all.saturating_sub(rollout)), rollout])
    }

    /// Prompts of an update: slime counts responses.
    fn mini_batch(&self, keys: &RlKeys) -> Result<Option<u64>, Wrong> {
        const NAME: &str = "global-batch-size";
        let updates = self.arguments.whole("num-steps-per-rollout")?.filter(|updates| *updates > 0);
        let of_updates = updates.map(|updates| keys.prompts / updates);
        match self.arguments.whole(NAME)? {
            None => Ok(of_updates),
            Some(all) => prompts_of(NAME, all, keys.responses).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use question::Context;

    use super::*;
    use crate::read_step;

    /// A script in the form of slime's own, whose model's sizes are in another file.
    const SCRIPT: &str = r#"NUM_GPUS=${NUM_GPUS:-8}
SCRIPT_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
source "${SCRIPT_DIR}/models/qwen3-4B.sh"
CKPT_ARGS=(--hf-checkpoint /root/Qwen3-4B --ref-load /root/Qwen3-4B_torch_dist)
ROLLOUT_ARGS=(
   --rollout-batch-size 32 --n-samples-per-prompt 8
   --rollout-max-response-len 8192
   #--rollout-max-response-len 4096
   --global-batch-size 128
)
PERF_ARGS=(--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 1
   --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
   --use-dynamic-batch-size --max-tokens-per-gpu 9216)
ray job submit --address="http://127.0.0.1:8265" -- python3 train.py --actor-num-nodes 1 \
   --actor-num-gpus-per-node 8 --colocate ${MODEL_ARGS[@]} ${CKPT_ARGS[@]} ${ROLLOUT_ARGS[@]} ${PERF_ARGS[@]} \
   --advantage-estimator grpo --use-kl-loss --rollout-num-gpus-per-engine 2 --sglang-mem-fraction-static 0.7 \
   --optimizer-cpu-offload --colours blue
"#;

    fn step_of(text: &str) -> Result<Step, Diagnostic> {
        let files: BTreeMap<PathBuf, Vec<u8>> =
            [(PathBuf::from("run.sh"), text.as_bytes().to_vec())].into();
        let context = Context::new(&files);
        Ok(read_step(&context, Path::new("run.sh"), &Given::default())?.ok().unwrap())
    }

    #[test]
    fn a_script_is_the_question_of_its_arguments() {
        let Step { keys, notes, left_out } = step_of(SCRIPT).unwrap();
        assert_eq!(keys.model, Some(PathBuf::from("Qwen3-4B")));
        let counts = [keys.devices, keys.prompts, keys.responses, keys.tensor, keys.train_tensor];
        assert_eq!(counts, [8, 32, 8, 2, 2]);
        assert_eq!((keys.mini_batch, keys.max_tokens), (Some(16), Some(9216)));
        assert_eq!((keys.strategy, keys.recompute), (StrategyKey::Megatron, RecomputeKey::Full));
        assert_eq!((keys.engine_memory, keys.placement), (Some(0.7), PlacementKey::Colocated));
        assert!(keys.reference && !keys.no_old_log_probs && !keys.critic);
        assert_eq!(keys.response_lengths.to_string(), "lognormal:1000:0.9:8192");
        let notes: Vec<&str> = notes.iter().map(|(_, note)| note.as_str()).collect();
        let said = notes.join("; ");
        assert!(said.contains("--optimizer-cpu-offload (the optimizer's step"), "{said}");
        assert!(said.contains("does not say the longest prompt"), "{said}");
        assert_eq!(left_out, ["--colours"]);
    }

    #[test]
    fn one_update_takes_its_own_log_probabilities_and_devices_apart_count_twice() {
        let one = SCRIPT.replace("--global-batch-size 128", "--num-steps-per-rollout 1");
        let keys = step_of(&one.replace(" --colocate", " --rollout-num-gpus 4")).unwrap().keys;
        assert!(keys.no_old_log_probs);
        assert_eq!((keys.mini_batch, keys.devices, keys.rollout_devices), (Some(32), 12, Some(4)));
        let critic = step_of(&one.replace("estimator grpo", "estimator ppo")).unwrap().keys;
        assert!(critic.critic && !critic.no_old_log_probs);
    }

    #[test]
    fn what_only_a_run_knows_is_refused_by_name() {
        for (from, to, part) in [
            ("--rollout-batch-size 32", "--rollout-batch-size $(nproc)", "rollout-batch-size"),
            ("--global-batch-size 128", "--global-batch-size 100", "not whole prompts"),
            ("ROLLOUT_ARGS=(", "ROLLOUT_ARGS=($(more)", "ROLLOUT_ARGS"),
        ] {
            let said = match step_of(&SCRIPT.replace(from, to)) {
                Err(said) => said.message,
                Ok(step) => panic!("{from}: {:?}", step.left_out),
            };
            assert!(said.contains(part), "{said}");
        }
    }
}
