//! The question of a command that starts a run, as bash really calls it, and of the files that only its words name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use question::diagnostic::Diagnostic;
use question::host::Context;
use question::quote;
use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::source::Source;
use super::{Asked, Given, Imported, of_megatron, of_source, shell, verl};
#[cfg(feature = "recipes")]
use super::{maxtext, torchtitan};

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
    /// Its environment.
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
    /// The words in front of the program, the program and those behind it.
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
    fn processes(&self, context: &Context<'_>, notes: &mut Vec<String>) -> Option<u64> {
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
                    let slots = slots(context, &self.folder.join(file));
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

    /// The path that argument `name` has.
    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(value(self.parts().2, name)?))
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
fn slots(context: &Context<'_>, path: &Path) -> Option<u64> {
    let text = context.exists(path).then(|| context.read_text(path, MOST_BYTES).ok())??;
    let all =
        text.lines().filter_map(|line| line.split_once("slots=")?.1.trim().parse::<u64>().ok());
    Some(all.fold(0, u64::saturating_add)).filter(|sum| *sum > 0)
}

/// The question of `launch`, which a run of the script `path` recorded.
///
/// # Errors
/// If it starts a trainer that is not read, or lacks what a question needs.
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
    let processes = launch.processes(context, &mut notes);
    if matches!(kind, Kind::Torchtitan | Kind::Primus) {
        given.devices = given.devices.or(processes);
    }
    let asked = match kind {
        Kind::Megatron => {
            let mut arguments = Arguments::of_launch(words);
            if let Some(processes) = processes {
                arguments.set("world-size", Some(vec![processes.to_string()]));
            }
            let imported = of_megatron(&source, &arguments, &given, None);
            match arguments.without_value() {
                Some(name) => return Err(empty(&source, &arguments.written(name))),
                None => Asked::Plan(Box::new(imported?)),
            }
        }
        Kind::Verl => Asked::Step(Box::new(verl::of_launch(&source, words, &given)?)),
        Kind::Torchtitan | Kind::Primus | Kind::MaxText => {
            Asked::Plan(Box::new(followed(context, &source, launch, kind, &given)?))
        }
    };
    Ok(match asked {
        Asked::Plan(mut plan) => {
            plan.notes.extend(notes);
            Asked::Plan(plan)
        }
        step @ Asked::Step(_) => step,
    })
}

fn empty(source: &Source<'_>, name: &str) -> Diagnostic {
    let message =
        format!("{name} has no value: a variable that only your environment has is empty");
    source.wrong(&message).with_help("give it: --env NAME=VALUE")
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
    let mut given = given.clone();
    let registry = value(words, "module").filter(|_| kind == Kind::Torchtitan);
    let path = match kind {
        Kind::Torchtitan => match registry {
            Some(module) => {
                let below = format!("torchtitan/models/{module}/config_registry.py");
                given.recipe = value(words, "config").map(str::to_owned);
                let mut folders = launch.folder.ancestors().chain(script.path.ancestors().skip(1));
                folders.find_map(|own| Some(own.join(&below)).filter(|own| context.exists(own)))
            }
            None => launch.file("job.config-file"),
        },
        Kind::Primus => {
            let of_environment =
                || launch.environment.get("EXP").map(|own| launch.folder.join(own));
            given.variables.extend(launch.environment.clone());
            launch.file("config").or_else(of_environment)
        }
        _ => words
            .iter()
            .find(|word| word.ends_with(".yml") || word.ends_with(".yaml"))
            .map(|own| launch.folder.join(own)),
    };
    let Some(path) = path else {
        let message =
            format!("{} is launched without a configuration that is here", quote::clip(program));
        return Err(script
            .wrong(&message)
            .with_help("give the configuration itself, or the log of the run"));
    };
    let text = context.read_text(&path, MOST_BYTES)?;
    let own = Source::new(context, &path, &text);
    let set = overrides(words);
    match kind {
        #[cfg(feature = "recipes")]
        Kind::Torchtitan if registry.is_none() => {
            let mut arguments = Arguments::of_tree(own.tree());
            set.into_iter().for_each(|(name, value)| arguments.set(&name, Some(vec![value])));
            torchtitan::of_arguments(&own, &arguments, &given, None)
        }
        #[cfg(feature = "recipes")]
        Kind::MaxText => {
            let mut arguments = Arguments::of_tree(own.tree());
            arguments.inherit();
            set.into_iter().for_each(|(name, value)| arguments.set(&name, Some(vec![value])));
            maxtext::of_arguments(&own, &arguments, &given)
        }
        Kind::Primus => {
            let mut tree = own.tree().clone();
            let module = tree.pointer_mut("/modules/pre_trainer").and_then(Value::as_object_mut);
            if let Some(module) = module.filter(|_| !set.is_empty()) {
                let all = module.entry("overrides").or_insert_with(|| Value::Object(Map::new()));
                let own = set.into_iter().map(|(name, value)| {
                    let value = serde_json::from_str(&value).unwrap_or(Value::String(value));
                    (name.replace('-', "_"), value)
                });
                all.as_object_mut().into_iter().for_each(|all| all.extend(own.clone()));
            }
            of_source(&Source::new(context, &path, &tree.to_string()), &given)
        }
        _ => match set.iter().find(|(name, _)| name.contains('.') && !name.starts_with("job.")) {
            Some((name, _)) => {
                let message = format!("--{name} is set over the registry, which is not read");
                Err(script.wrong(&message).with_help("write it into the function of the registry"))
            }
            None => of_source(&own, &given),
        },
    }
}

/// The keys that `words` set, `--name value`, `--name=value` or `name=value`, but for the configuration itself.
fn overrides(words: &[String]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let (name, value) = match (word.strip_prefix("--"), word.split_once('=')) {
            (_, Some((name, value))) => (name, value.to_owned()),
            (Some(name), None) => {
                let next = words.next_if(|next| !next.starts_with("--"));
                (name, next.map_or("true", String::as_str).to_owned())
            }
            (None, None) => continue,
        };
        let name = name.trim_start_matches('-').replace('_', "-");
        if !["config", "module", "job.config-file"].contains(&name.as_str()) {
            all.push((name, value));
        }
    }
    all
}
