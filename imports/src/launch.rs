//! The question of a command that starts a run, as bash really calls it, and of the files that only its words name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use question::diagnostic::Diagnostic;
use question::host::Context;
use question::quote;
use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::source::Source;
use super::{
    Asked, Given, Imported, maxtext, megatron, of_megatron, of_source, shell, torchtitan, verl,
};

/// Modules that start processes of another.
const LAUNCHERS: &str = "torch.distributed.";
/// The largest file that a launch names.
const MOST_BYTES: u64 = 1 << 20;

/// A command that starts a run.
#[derive(Clone, Copy)]
pub struct Launched<'a> {
    /// Its words, the program first.
    pub words: &'a [String],
    /// Its working directory.
    pub folder: &'a Path,
    pub environment: &'a BTreeMap<String, String>,
    /// GPUs of a node and nodes, where it does not say them.
    pub gpus_per_node: u64,
    /// Nodes, where it does not say them.
    pub nodes: Option<u64>,
}

/// The trainer that a launch starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Megatron,
    Verl,
    Torchtitan,
    Primus,
    MaxText,
}

impl<'a> Launched<'a> {
    /// The words before the program, the program and those after it.
    fn parts(&self) -> (&'a [String], &'a str, &'a [String]) {
        let is_module =
            |at: usize| at > 0 && matches!(self.words[at - 1].as_str(), "-m" | "--module");
        let is_program = |at: &usize| {
            let word = &self.words[*at];
            word.ends_with(".py") || is_module(*at) && !word.starts_with(LAUNCHERS)
        };
        let at = (1..self.words.len()).find(is_program);
        match at {
            Some(at) => (&self.words[..at], &self.words[at], &self.words[at + 1..]),
            None => (self.words, self.words.last().map_or("", String::as_str), &[]),
        }
    }

    /// The trainer, if it is one that is read.
    fn kind(&self) -> Option<Kind> {
        let (_, program, rest) = self.parts();
        let has = |start: &str| rest.iter().any(|word| word.starts_with(start));
        let is = |names: &[&str]| names.iter().any(|name| program.replace('.', "/").contains(name));
        let kinds = [
            (Kind::Verl, has("actor_rollout_ref.") || has("+actor_rollout_ref.")),
            (Kind::Megatron, has("--num-layers") || has("--hidden-size") || has("--hybrid-")),
            (Kind::Torchtitan, is(&["torchtitan/train"]) || has("--job.config")),
            (Kind::Primus, is(&["primus/cli/main", "primus/train", "primus/pretrain"])),
            (Kind::MaxText, is(&["MaxText/train", "maxtext/train", "pre_train/train"])),
        ];
        kinds.into_iter().find(|(_, is)| *is).map(|(kind, _)| kind)
    }

    /// Whether it starts a trainer that is read.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.kind().is_some()
    }

    /// The program that it starts.
    #[must_use]
    pub fn program(&self) -> &'a str {
        self.parts().1
    }

    /// The processes that it starts, as its words and its environment say.
    fn processes(&self, script: &Source<'_>, notes: &mut Vec<String>) -> Option<u64> {
        let (launcher, ..) = self.parts();
        let number = |name: &str| self.environment.get(name)?.parse::<u64>().ok();
        let flag = |names: &[&str]| {
            let value = names.iter().find_map(|name| value(launcher, name))?;
            // Nodes of an elastic run are a range; processes may be one of each GPU.
            let last = value.rsplit(':').next().unwrap_or_default();
            Some(last.parse().unwrap_or(self.gpus_per_node))
        };
        let name = shell::program_name(launcher.first()?);
        let is_torchrun =
            name == "torchrun" || launcher.iter().any(|word| word.starts_with(LAUNCHERS));
        let nodes = flag(&["nnodes", "num-nodes"]);
        let each = flag(&["nproc-per-node", "num-gpus"]);
        match name {
            _ if is_torchrun => Some(nodes.unwrap_or(1).saturating_mul(each.unwrap_or(1))),
            "deepspeed" | "ds" => {
                let slots = value(launcher, "hostfile").and_then(|file| {
                    let slots = slots(script, &self.folder.join(file));
                    if slots.is_none() && nodes.is_none() {
                        notes.push(format!(
                            "{}, which names the nodes, is not here: --nodes gives their number",
                            quote::clip(file)
                        ));
                    }
                    slots
                });
                let nodes = nodes.or(self.nodes).or(number("SLURM_NNODES"));
                match (nodes, each, slots) {
                    (None, None, Some(slots)) => Some(slots),
                    _ => {
                        Some(nodes.unwrap_or(1).saturating_mul(each.unwrap_or(self.gpus_per_node)))
                    }
                }
            }
            "accelerate" => flag(&["num-processes"]),
            _ => {
                let of_step =
                    self.environment.get("SLURM_STEP_ID").and_then(|_| number("SLURM_NTASKS"));
                let of_ranks = number("OMPI_COMM_WORLD_SIZE").or(number("WORLD_SIZE"));
                of_step.or(of_ranks).or(Some(1))
            }
        }
    }
}

/// The value of flag `name` among `words`.
fn value<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    let mut all = words.iter().enumerate().filter_map(|(at, word)| {
        let word = word.strip_prefix("--")?;
        let (own, value) =
            word.split_once('=').map_or((word, None), |(own, value)| (own, Some(value)));
        let next = || words.get(at + 1).map(String::as_str);
        (own.replace('_', "-") == name).then(|| value.or_else(next))?
    });
    all.next_back()
}

/// The devices of the hosts in the file `path`.
fn slots(script: &Source<'_>, path: &Path) -> Option<u64> {
    let text = script.text_of(path)?;
    let all =
        text.lines().filter_map(|line| line.split_once("slots=")?.1.trim().parse::<u64>().ok());
    Some(all.fold(0, u64::saturating_add)).filter(|sum| *sum > 0)
}

/// The question of `launch`, which a run of the script `path` recorded.
pub fn of_launch(
    context: &Context<'_>,
    path: &Path,
    launch: &Launched<'_>,
    given: &Given,
) -> Result<Asked, Diagnostic> {
    let source = Source::new(context, path, "");
    let (_, program, words) = launch.parts();
    let Some(kind) = launch.kind() else {
        let message = format!("it launches {}, which is not read", quote::clip(program));
        return Err(source
            .wrong(&message)
            .with_help("give the log of the run, or its configuration"));
    };
    let mut notes = Vec::new();
    let mut given = given.clone();
    let processes = launch.processes(&source, &mut notes);
    let mut plan = match kind {
        Kind::Verl => return Ok(Asked::Step(Box::new(verl::of_launch(&source, words, &given)?))),
        Kind::Megatron => {
            let mut arguments = Arguments::of_launch(words);
            megatron::stage(&source, &shell::Script::default(), &mut arguments);
            if let Some(processes) = processes {
                arguments.set("world-size", Some(vec![processes.to_string()]));
            }
            let plan = of_megatron(&source, &arguments, &given, None);
            if let Some(name) = arguments.without_value() {
                let message = format!(
                    "{} has no value: a variable that only your environment has is empty",
                    arguments.written(name)
                );
                return Err(source.wrong(&message).with_help("give it: --env NAME=VALUE"));
            }
            plan?
        }
        Kind::Torchtitan | Kind::Primus | Kind::MaxText => {
            if kind != Kind::MaxText {
                given.devices = given.devices.or(processes);
            }
            followed(context, &source, launch, kind, &given)?
        }
    };
    plan.notes.extend(notes);
    Ok(Asked::Plan(Box::new(plan)))
}

/// The configuration that `launch` of `script` names, if it is here.
fn configuration(
    context: &Context<'_>,
    script: &Path,
    launch: &Launched<'_>,
    kind: Kind,
) -> Option<PathBuf> {
    let words = launch.parts().2;
    let in_folder = |name: &str| launch.folder.join(name);
    let path = match (kind, value(words, "module")) {
        (Kind::Torchtitan, Some(module)) => {
            let below = format!("torchtitan/models/{module}/config_registry.py");
            let folders = launch.folder.ancestors().chain(script.ancestors().skip(1));
            folders.map(|own| own.join(&below)).find(|own| context.exists(own))
        }
        (Kind::Torchtitan, None) => value(words, "job.config-file").map(in_folder),
        (Kind::Primus, _) => {
            let of_environment = launch.environment.get("EXP").map(String::as_str);
            value(words, "config").or(of_environment).map(in_folder)
        }
        _ => {
            let is_yaml = |word: &&String| word.ends_with(".yml") || word.ends_with(".yaml");
            words.iter().find(is_yaml).map(|own| in_folder(own))
        }
    };
    path.filter(|path| context.exists(path))
}

/// The question of the configuration that `launch` names, with what its words set over it.
fn followed(
    context: &Context<'_>,
    script: &Source<'_>,
    launch: &Launched<'_>,
    kind: Kind,
    given: &Given,
) -> Result<Imported, Diagnostic> {
    let (_, program, words) = launch.parts();
    let Some(path) = configuration(context, script.path, launch, kind) else {
        let named =
            ["job.config-file", "module", "config"].iter().find_map(|own| value(words, own));
        let [program, named] = [program, named.unwrap_or("none")].map(quote::clip);
        let message = format!("{program} reads a configuration that is not here: {named}");
        let help = "give the configuration itself, or the log of the run";
        return Err(script.wrong(&message).with_help(help));
    };
    let text = context.read_text(&path, MOST_BYTES)?;
    let own = Source::new(context, &path, &text);
    let set = overrides(words);
    let is_registry = path.extension().is_some_and(|ending| ending == "py");
    let mut given = given.clone();
    if kind == Kind::Primus {
        given.variables.extend(launch.environment.clone());
        let mut tree = own.tree().clone();
        let modules = tree.get_mut("modules").and_then(Value::as_object_mut);
        let all = modules.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut);
        for module in all.filter(|_| !set.is_empty()) {
            let own = module.entry("overrides").or_insert_with(|| Value::Object(Map::new()));
            let set = set.iter().map(|(name, value)| (name.replace('-', "_"), json(value)));
            own.as_object_mut().into_iter().for_each(|own| own.extend(set.clone()));
        }
        return of_source(&Source::new(context, &path, &tree.to_string()), &given);
    }
    if is_registry {
        given.recipe = value(words, "config").map(str::to_owned);
        return match set.first() {
            None => of_source(&own, &given),
            Some((name, _)) => {
                let message = format!("--{name} is set over the registry, which is not read");
                Err(script.wrong(&message).with_help("write it into the function of the registry"))
            }
        };
    }
    let mut arguments = Arguments::of_tree(own.tree());
    if kind == Kind::MaxText {
        arguments.inherit();
    }
    set.into_iter().for_each(|(name, values)| arguments.set(&name, values));
    match kind {
        Kind::MaxText => maxtext::of_arguments(&own, &arguments, &given),
        _ => torchtitan::of_arguments(&own, &arguments, &given, None),
    }
}

/// The values of an argument, as JSON.
fn json(values: &Option<Vec<String>>) -> Value {
    match values.as_ref().map(|values| values.first()) {
        None => Value::Bool(false),
        Some(None) => Value::Bool(true),
        Some(Some(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
    }
}

/// The keys that `words` set, `--name value`, `--name=value` or `name=value`, but for the configuration itself; those
/// that are off have no values.
fn overrides(words: &[String]) -> Vec<(String, Option<Vec<String>>)> {
    let mut all = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let (name, value) = match (word.strip_prefix("--"), word.split_once('=')) {
            (_, Some((name, value))) => (name, value),
            (Some(name), None) => {
                (name, words.next_if(|next| !next.starts_with("--")).map_or("true", String::as_str))
            }
            (None, None) => continue,
        };
        let name = name.trim_start_matches('-').replace('_', "-");
        let (name, is_off) = match name.contains(".no-") {
            true => (name.replacen(".no-", ".", 1), true),
            false => (name, false),
        };
        let values = match value.to_lowercase().as_str() {
            "true" => Some(Vec::new()).filter(|_| !is_off),
            "false" => None,
            _ => Some(vec![value.to_owned()]),
        };
        if !["config", "module", "job.config-file"].contains(&name.as_str()) {
            all.push((name, values));
        }
    }
    all
}
