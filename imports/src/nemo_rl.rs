//! The step of reinforcement learning that a configuration of NeMo-RL for GRPO describes: its keys over those of its
//! `defaults`, with references to other keys followed. Defaults are those of `examples/configs` (7ea279ab).

use std::path::{Component, Path, PathBuf};

use question::diagnostic::Diagnostic;
use question::quote;
use question::rl::RlKeys;
use question::values::packing::{PlacementKey, RecomputeKey, StrategyKey};
use serde_json::Value;

use super::arguments::{Arguments, Wrong};
use super::assumed::{Assumed, prompts_of};
use super::table::NEMO_RL;
use super::verl::Step;
use super::{Given, Source};

/// The most files of defaults, one below another, and the most references from one to another.
const DEEPEST: usize = 8;

/// Whether `source` is such a configuration, or one over another.
pub(super) fn is_config(source: &Source<'_>) -> bool {
    const NAME: &str = "grpo";
    if !source.text.contains(NAME) || source.is_toml() {
        return false;
    }
    let has = |key: &str| source.tree().get(key).is_some_and(Value::is_object);
    let files = defaults(source.tree()).unwrap_or_default();
    let is_over = files.iter().any(|file| file.contains(NAME) && file.ends_with(".yaml"));
    (has(NAME) && has("policy")) || is_over
}

/// The step of the configuration `source`.
pub(super) fn of_config(source: &Source<'_>, given: &Given) -> Result<Step, Diagnostic> {
    let folder = source.path.parent().unwrap_or(Path::new(""));
    let mut tree = with_defaults(source, folder, source.tree().clone(), DEEPEST)?;
    drop_unused(&mut tree);
    let root = tree.clone();
    follow(&root, &root, &mut tree);
    let arguments = Arguments::of_tree(&tree);
    arguments.are_of(&NEMO_RL);
    let mut notes = Vec::new();
    let keys = Reader { arguments: &arguments, given, notes: &mut notes }.keys();
    let keys = keys.map_err(|wrong| source.of_argument(&arguments, wrong))?;
    let (costs, left_out) = arguments.left_out();
    notes.extend(costs.map(|note| (None, note)));
    Ok(Step { keys, notes, left_out })
}

/// The files whose keys `tree` is over.
fn defaults(tree: &Value) -> Option<Vec<&str>> {
    match tree.get("defaults")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// `tree` of a file in `folder` over its defaults, which are at most `deepest` files deep.
fn with_defaults(
    source: &Source<'_>,
    folder: &Path,
    mut tree: Value,
    deepest: usize,
) -> Result<Value, Diagnostic> {
    let names: Vec<String> =
        defaults(&tree).unwrap_or_default().into_iter().map(str::to_owned).collect();
    let mut below = Value::Null;
    for name in names {
        let missing = || {
            let message = format!("its defaults {} are not where it says", quote::clip(&name));
            let cure = "keep the folder examples/configs of NeMo-RL together";
            source.wrong(&message).with_help(cure)
        };
        let path = joined(folder, &name);
        let folder = path.parent().unwrap_or(Path::new(""));
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let inner = source.beside(folder, file)?.ok_or_else(missing)?;
        let Some(deepest) = deepest.checked_sub(1) else {
            return Err(source.wrong(&format!("its defaults are more than {DEEPEST} files deep")));
        };
        below = over(with_defaults(source, folder, inner, deepest)?, below);
    }
    if let Value::Object(keys) = &mut tree {
        keys.remove("defaults");
    }
    Ok(over(tree, below))
}

/// The path `name` from `folder` on, without folders that it leaves again.
fn joined(folder: &Path, name: &str) -> PathBuf {
    let mut path = folder.to_owned();
    for part in Path::new(name).components() {
        match part {
            Component::ParentDir if path.file_name().is_some() => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

/// `tree` over `below`, table by table.
fn over(tree: Value, below: Value) -> Value {
    match (tree, below) {
        (Value::Object(own), Value::Object(mut all)) => {
            for (key, value) in own {
                let below = all.remove(&key).unwrap_or_default();
                all.insert(key, over(value, below));
            }
            Value::Object(all)
        }
        (tree, _) => tree,
    }
}

/// Drops the tables of trainers and engines that a step does not use.
fn drop_unused(tree: &mut Value) {
    let is_on = |at: &str| tree.pointer(at) == Some(&Value::Bool(true));
    let megatron = is_on("/policy/megatron_cfg/enabled");
    let engine = tree.pointer("/policy/generation/backend").and_then(Value::as_str);
    let engine = engine.unwrap_or("vllm").to_owned();
    let Some(Value::Object(policy)) = tree.get_mut("policy") else { return };
    policy.remove(if megatron { "dtensor_cfg" } else { "megatron_cfg" });
    if let Some(Value::Object(generation)) = policy.get_mut("generation") {
        let known = ["vllm", "trtllm", "sglang", "mcore_generation_config"];
        generation.retain(|key, _| {
            match key.trim_end_matches("_cfg").trim_end_matches("_kwargs") {
                own if known.contains(&own) => own == engine,
                _ => true,
            }
        });
    }
}

/// Replaces the references in `tree`, which is in the table `here` of `root`, by what they refer to.
fn follow(root: &Value, here: &Value, tree: &mut Value) {
    match tree {
        Value::Object(keys) => {
            let here = Value::Object(keys.clone());
            keys.values_mut().for_each(|value| follow(root, &here, value));
        }
        Value::String(text) if text.starts_with("${") => {
            if let Some(value) = referred(root, here, text, DEEPEST) {
                *tree = value;
            }
        }
        _ => {}
    }
}

/// The value of `text`, a reference such as `${policy.precision}` or `${mul:${a}, 4}`; nothing where it is not followed.
fn referred(root: &Value, here: &Value, text: &str, deepest: usize) -> Option<Value> {
    let deepest = deepest.checked_sub(1)?;
    let text = text.trim();
    let Some(inner) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        return (!text.contains("${")).then(|| super::yaml::plain(text));
    };
    let number = |part: &str| referred(root, here, part, deepest)?.as_f64();
    if let Some((operator, parts)) = inner.split_once(':') {
        let (one, other) = parts.split_at(comma(parts)?);
        let (one, other) = (number(one)?, number(&other[1..])?);
        let value = match operator {
            "add" => one + other,
            "mul" => one * other,
            "div" => one / other,
            "max" => one.max(other),
            _ => return None,
        };
        return serde_json::Number::from_f64(value).map(Value::Number);
    }
    let (table, path) = match inner.strip_prefix('.') {
        Some(own) => (here, own),
        None => (root, inner),
    };
    let value = table.pointer(&format!("/{}", path.replace('.', "/")))?;
    match value.as_str() {
        Some(next) if next.starts_with("${") => referred(root, here, next, deepest),
        _ => Some(value.clone()),
    }
}

/// The comma between two parts, of which each may be a reference.
fn comma(parts: &str) -> Option<usize> {
    let mut depth = 0_usize;
    parts.char_indices().find_map(|(at, letter)| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (letter == ',' && depth == 0).then_some(at)
    })
}

/// The longest prompt, and the longest response.
const PROMPT: &str = "data.max-input-seq-length";
const RESPONSE: &str = "policy.generation.max-new-tokens";

/// The longest prompt and response in tokens, which are also limited together.
fn longest(arguments: &Arguments, assumed: &mut Assumed<'_>) -> Result<[Option<u64>; 2], Wrong> {
    let both = arguments.positive("policy.max-total-sequence-length")?;
    let own = [arguments.positive(PROMPT)?, arguments.positive(RESPONSE)?];
    let Some(both) = both else { return Ok(own) };
    let [prompt, response] = own.map(|own| own.unwrap_or(both).min(both));
    if prompt.saturating_add(response) <= both {
        return Ok([Some(prompt), Some(response)]);
    }
    let prompt = prompt.min((both / 4).max(1));
    let text = format!(
        "prompt and response have at most {both} tokens together: prompts of at most {prompt} are assumed"
    );
    assumed.note("prompt-lengths", text);
    Ok([Some(prompt), Some(response.min(both - prompt))])
}

struct Reader<'a> {
    arguments: &'a Arguments,
    given: &'a Given,
    notes: &'a mut Vec<(Option<&'static str>, String)>,
}

impl Reader<'_> {
    fn keys(self) -> Result<RlKeys, Wrong> {
        let arguments = self.arguments;
        let megatron = arguments.has("policy.megatron-cfg.enabled");
        let strategy = if megatron { StrategyKey::Megatron } else { RlKeys::default().strategy };
        let base = RlKeys { strategy, recompute: RecomputeKey::None, ..RlKeys::default() };
        let keys: RlKeys = arguments.fill("rl", &base)?;
        let [devices, rollout] = self.devices()?;
        let [max_tokens, log_prob_max_tokens] = self.tokens()?;
        let penalty = arguments.number("loss-fn.reference-policy-kl-penalty")?;
        let skipped = arguments.has("grpo.skip-reference-policy-logprobs-calculation");
        let [mini_batch, lora_rank] = [self.mini_batch(&keys)?, self.lora_rank(megatron)?];
        let mut assumed = Assumed { given: self.given, notes: self.notes, file: "configuration" };
        let path = arguments.text("policy.model-name")?;
        let [prompt, response] = longest(arguments, &mut assumed)?;
        let mut lengths = |what, name: &str, most| {
            assumed.lengths(what, most).map_err(|message| Wrong::new(name, message))
        };
        let prompt_lengths = lengths("prompt", PROMPT, prompt)?;
        let response_lengths = lengths("response", RESPONSE, response)?;
        Ok(RlKeys {
            model: assumed.model(path.as_deref()).map(Into::into),
            machine: Some(assumed.machine()),
            devices,
            placement: if rollout == 0 { PlacementKey::Colocated } else { PlacementKey::Separate },
            rollout_devices: Some(rollout).filter(|devices| *devices > 0),
            prompt_lengths,
            response_lengths,
            mini_batch,
            max_tokens,
            log_prob_max_tokens,
            lora_rank,
            reference: penalty.is_some_and(|penalty| penalty > 0.0) && !skipped,
            critic: false,
            ..keys
        })
    }

    /// All devices, and those that only generate.
    fn devices(&self) -> Result<[u64; 2], Wrong> {
        let whole = |name: &str| self.arguments.positive(name);
        let each = whole("cluster.gpus-per-node")?.unwrap_or(1);
        let nodes = whole("cluster.num-nodes")?.unwrap_or(1);
        let all = self.given.devices.unwrap_or(each.saturating_mul(nodes));
        const APART: &str = "policy.generation.colocated.resources.gpus-per-node";
        let own = whole(APART)?;
        let own_nodes = whole("policy.generation.colocated.resources.num-nodes")?;
        if self.arguments.flag("policy.generation.colocated.enabled") != Some(false) {
            return Ok([all, 0]);
        }
        let rollout = match (own, own_nodes) {
            (own, Some(nodes)) => own.unwrap_or(each).saturating_mul(nodes),
            (Some(own), None) => own,
            (None, None) => {
                let message = "engines have devices of their own, and it does not say how many";
                return Err(Wrong::new(APART, message));
            }
        };
        Ok([all, rollout])
    }

    /// Tokens of a microbatch that is updated, and of one of log-probabilities alone, where samples are packed.
    fn tokens(&self) -> Result<[Option<u64>; 2], Wrong> {
        let of = |packing: &str| {
            let tokens = |what: &str| self.arguments.whole(&format!("{packing}.{what}-mb-tokens"));
            let tokens = [tokens("train")?, tokens("logprob")?];
            Ok(tokens.map(|own| own.filter(|_| self.arguments.has(&format!("{packing}.enabled")))))
        };
        let [update, alone] = of("policy.sequence-packing")?;
        let [other_update, other_alone] = of("policy.dynamic-batching")?;
        Ok([update.or(other_update), alone.or(other_alone)])
    }

    /// Prompts of an update: NeMo-RL counts responses.
    fn mini_batch(&self, keys: &RlKeys) -> Result<Option<u64>, Wrong> {
        const NAME: &str = "policy.train-global-batch-size";
        let responses = self.arguments.positive(NAME)?;
        let prompts = responses.map(|all| prompts_of(NAME, all, keys.responses)).transpose()?;
        Ok(prompts.map(|prompts| prompts.min(keys.prompts)))
    }

    /// The rank of adapters, of FSDP or of Megatron-LM.
    fn lora_rank(&self, megatron: bool) -> Result<Option<u64>, Wrong> {
        let table =
            if megatron { "policy.megatron-cfg.peft" } else { "policy.dtensor-cfg.lora-cfg" };
        let rank = self.arguments.positive(&format!("{table}.dim"))?;
        Ok(rank.filter(|_| self.arguments.has(&format!("{table}.enabled"))))
    }
}

#[cfg(test)]
mod tests;
