//! Questions of the planner from the files that people have: scripts, logs, configurations and recipes of training
//! frameworks. Nothing of them is run.

// The readers of other files are compiled, and not linked.
#![cfg_attr(not(feature = "recipes"), allow(dead_code))]

mod adapters;
mod arguments;
mod assemble;
mod assumed;
pub mod edit;
#[cfg(test)]
mod hold_tests;
mod launch;
#[cfg(test)]
mod launch_tests;
mod maxtext;
pub mod measured;
mod megatron;
mod nemo_rl;
mod primus;
mod printed;
#[cfg(test)]
mod printed_tests;
mod python;
#[cfg(test)]
mod recipes_tests;
#[cfg(test)]
mod scripts_tests;
mod shell;
mod simulators;
mod slime;
mod source;
pub mod step_log;
mod table;
#[cfg(test)]
mod tables_tests;
#[cfg(test)]
mod tests;
pub mod timers;
mod torchtitan;
pub mod verl;
mod yaml;

use std::collections::BTreeMap;
use std::path::Path;

use question::diagnostic::Diagnostic;
use question::host::Context;
use question::quote;
use serde::Serialize;

use self::arguments::Arguments;
pub use self::launch::{Launched, of_launch};
pub use self::measured::{Log, Measured};
use self::python::DUMP;
use self::source::Source;
use planning::{Document, MemoryError, PlanFlags, Question, SizesDocument, models};

/// Reads the question of the planner in `path`, or that of a file which [`read`] reads, with the keys of `flags` over it.
pub fn question(
    context: &Context<'_>,
    path: &Path,
    memory_error: MemoryError,
    flags: &PlanFlags,
) -> Result<Question, Diagnostic> {
    if PlanFlags::is_named(context, path) {
        return planning::read_with(context, path, memory_error, flags);
    }
    let text = context.read_toml(path, planning::MAX_FILE)?;
    if !is_known(context, path, &text) {
        return planning::read_text(context, path, &text, memory_error, flags);
    }
    let imported = of_text(context, path, &text, &Given::default())?;
    let notes = imported.notes.iter().cloned().chain(imported.left_out_in_words());
    notes.for_each(|note| context.warn(note));
    planning::check(context, Path::new(""), &flags.over(imported.document), memory_error)
}

/// The largest file that is read.
const MOST_BYTES: u64 = 256 << 20;

/// The bytes at the start of a file that are looked at.
const HEAD: usize = 4 << 20;

/// What helps where a script is not followed.
const RUN: &str = "have bash run it: `debubble import --run`, on Linux";

/// Facts of a run that its files may lack.
#[derive(Clone, Default, Debug)]
pub struct Given {
    /// The machine: one that is built in, or a file.
    pub machine: Option<String>,
    /// The number of devices.
    pub devices: Option<u64>,
    /// The tokens to train on.
    pub tokens: Option<f64>,
    /// The size of the vocabulary.
    pub vocabulary: Option<u64>,
    /// Values of variables of a script.
    pub variables: BTreeMap<String, String>,
    /// The recipe of a file that has several.
    pub recipe: Option<String>,
    /// The model, by a name that recipes use, or a file of a model of SimuMax or Calculon.
    pub model: Option<String>,
}

/// A question that a file asks.
pub struct Imported {
    /// The question.
    pub document: Document,
    /// Assumptions, and parts that were left out though they matter, a sentence each.
    pub notes: Vec<String>,
    /// The iterations that a log has.
    pub measured: Option<Measured>,
    /// Arguments that are not known to be harmless, and that the question does not have.
    pub left_out: Vec<String>,
    /// Whether the file is a question of the planner.
    pub is_question: bool,
}

impl Imported {
    /// The arguments that are left out, in a sentence.
    #[must_use]
    pub fn left_out_in_words(&self) -> Option<String> {
        left_out_in_words("a plan", &self.left_out)
    }

    /// Whether the file says how many devices there are, as notes have it.
    #[must_use]
    pub fn has_devices(&self) -> bool {
        !self.notes.iter().any(|note| note.contains("how many devices"))
    }

    /// The question as a file, with the notes in front.
    pub fn to_toml(&self) -> Result<String, String> {
        with_notes(self.notes.iter().cloned().chain(self.left_out_in_words()), &self.document)
    }
}

/// That `asked`, a kind of question, does not know the arguments `names`, if there are any.
fn left_out_in_words(asked: &str, names: &[String]) -> Option<String> {
    let names: Vec<String> = names.iter().map(|name| quote::clip(name)).collect();
    (!names.is_empty())
        .then(|| format!("left out, since {asked} does not know them: {}", names.join(", ")))
}

/// The `question` as a file, with the `notes` in front.
fn with_notes(
    notes: impl Iterator<Item = String>,
    question: &impl Serialize,
) -> Result<String, String> {
    let mut text: String =
        notes.map(|note| format!("# {}\n", note.replace(['\n', '\r'], " "))).collect();
    text += &toml::to_string(question).map_err(|error| error.to_string())?;
    Ok(text)
}

/// A kind of file.
struct Format {
    /// Whether a file is of it.
    is_it: fn(&Source<'_>) -> bool,
    read: fn(&Source<'_>, &Given) -> Result<Imported, Diagnostic>,
}

/// Logs that begin with a configuration.
#[cfg(feature = "recipes")]
const LOG: Format = Format { is_it: printed::is_log, read: printed::of_log };
/// Logs that begin with the arguments of Megatron-LM.
#[cfg(not(feature = "recipes"))]
const LOG: Format = Format {
    is_it: |source| is_dump(source.text),
    read: |source, given| of_megatron(source, &Arguments::of_dump(source.text), given, None),
};
/// Those, and scripts of Megatron-LM.
const OF_MEGATRON: [Format; 2] = [LOG, Format { is_it: is_script, read: of_script }];

/// Files of all other kinds.
#[cfg(feature = "recipes")]
const OTHERS: &[Format] = &[
    Format { is_it: python::is_dump, read: python::of_dump },
    Format { is_it: python::is_recipe, read: python::of_recipe },
    Format { is_it: torchtitan::is_job, read: torchtitan::of_job },
    Format { is_it: primus::is_experiment, read: primus::of_experiment },
    Format { is_it: maxtext::is_configuration, read: maxtext::of_configuration },
    Format { is_it: simulators::is_file, read: simulators::of_file },
];
#[cfg(not(feature = "recipes"))]
const OTHERS: &[Format] = &[];

/// All formats; a file is of the first that says so. Those that look at words stand before those that parse.
fn formats() -> impl Iterator<Item = &'static Format> {
    OF_MEGATRON.iter().chain(OTHERS)
}

/// The files that are read, for an error about another one.
const KINDS: &str = "give a launch script of Megatron-LM, a log with a printed configuration, a job file of torchtitan, an \
                     experiment of Primus, a recipe of Megatron-Bridge, NeMo or torchtitan, a \
                     configuration of MaxText, or JSON of SimuMax or Calculon";

/// Whether `text` of the file `path` is not a question of the planner, but of a kind that [`read`] reads.
#[must_use]
pub fn is_known(context: &Context<'_>, path: &Path, text: &str) -> bool {
    is_of_a_format(&Source::new(context, path, text))
}

fn is_of_a_format(source: &Source<'_>) -> bool {
    match source.is_toml() {
        true => cfg!(feature = "recipes") && torchtitan::is_job(source),
        false => step_format(source).is_some() || formats().any(|format| (format.is_it)(source)),
    }
}

/// Whether `text` has a dump of arguments.
fn is_dump(text: &str) -> bool {
    let of = |name: &str| text.lines().filter_map(arguments::dumped).any(|(own, _)| own == name);
    of("num_layers") && of("hidden_size")
}

/// The question of a file of any kind.
pub enum Asked {
    /// One of the planner.
    Plan(Box<Imported>),
    /// A step of reinforcement learning.
    Step(Box<verl::Step>),
}

impl Asked {
    /// Assumptions, and what is left out, a sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Plan(plan) => {
                plan.notes.iter().cloned().chain(plan.left_out_in_words()).collect()
            }
            Self::Step(step) => step.notes(|_| false).collect(),
        }
    }

    /// The question as a file, with the notes in front.
    pub fn to_toml(&self) -> Result<String, String> {
        match self {
            Self::Plan(plan) => plan.to_toml(),
            Self::Step(step) => step.to_toml(),
        }
    }
}

/// A kind of file that runs steps of reinforcement learning.
struct StepFormat {
    /// What it is, in words.
    name: &'static str,
    /// Whether a file is of it.
    is_it: fn(&Source<'_>) -> bool,
    read: fn(&Source<'_>, &Given) -> Result<verl::Step, Diagnostic>,
}

/// All of these; a file is of the first that says so.
const STEPS: [StepFormat; 3] = [
    StepFormat { name: "launch script of verl", is_it: verl::is_script, read: verl::of_script },
    StepFormat { name: "launch script of slime", is_it: slime::is_script, read: slime::of_script },
    StepFormat {
        name: "configuration of NeMo-RL",
        is_it: nemo_rl::is_config,
        read: nemo_rl::of_config,
    },
];

/// The kind of steps that `source` runs, if it runs any.
fn step_format(source: &Source<'_>) -> Option<&'static StepFormat> {
    STEPS.iter().find(|format| (format.is_it)(source))
}

/// Reads the script, the log or the configuration in `path`.
pub fn read(context: &Context<'_>, path: &Path, given: &Given) -> Result<Asked, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let source = looked_at(context, path, &text);
    match step_format(&source) {
        Some(format) => (format.read)(&source, given).map(|step| Asked::Step(Box::new(step))),
        None => of_source(&source, given).map(|plan| Asked::Plan(Box::new(plan))),
    }
}

/// All of `text` if it is a log with a printed configuration, else its start, behind which anything may stand.
fn looked_at<'a>(context: &'a Context<'a>, path: &'a Path, text: &'a str) -> Source<'a> {
    let all = Source::new(context, path, text);
    if !all.printed().is_empty() {
        return all;
    }
    let is_end = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=HEAD.min(text.len())).rev().find(is_end).unwrap_or(0);
    Source::new(context, path, &text[..end])
}

/// The step of reinforcement learning that the launch script or the log `path` of verl or slime, or the configuration of
/// NeMo-RL, runs; the bytes of any other file, which may be a pipe.
pub fn read_step(
    context: &Context<'_>,
    path: &Path,
    given: &Given,
) -> Result<Result<verl::Step, Vec<u8>>, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let source = looked_at(context, path, &text);
    if let Some(format) = step_format(&source) {
        return (format.read)(&source, given).map(Ok);
    }
    drop(source);
    drop(text);
    Ok(Err(bytes))
}

/// The run that the file `path` describes: a question of the planner, or a file that [`read`] reads.
pub fn read_run(context: &Context<'_>, path: &Path, given: &Given) -> Result<Imported, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let source = Source::new(context, path, &text);
    if source.is_toml() && !is_of_a_format(&source) {
        let text = context.read_toml(path, planning::MAX_FILE)?;
        let document: Document =
            toml::from_str(&text).map_err(|error| Diagnostic::toml(path, &text, &error, &[]))?;
        return Ok(Imported {
            document,
            notes: Vec::new(),
            measured: None,
            left_out: Vec::new(),
            is_question: true,
        });
    }
    of_source(&source, given)
}

/// The log `path`, of `tokens` of each device a step.
pub fn read_log(context: &Context<'_>, path: &Path, tokens: f64) -> Result<Log, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    Ok(Log::of(&String::from_utf8_lossy(&bytes), tokens))
}

/// The log `path` of the run `script`, and its run by the configuration that its framework has printed, with a note on
/// each contradiction; `None` if there is none. The file is read once.
pub fn read_log_of(
    context: &Context<'_>,
    path: &Path,
    given: &Given,
    script: &Imported,
) -> Result<(Option<Imported>, Log), Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let source = Source::new(context, path, &text);
    let log = || Log::of(&text, tokens_per_device(&script.document));
    if script.is_question || !printed::is_log(&source) {
        return Ok((None, log()));
    }
    let mut given = given.clone();
    let mut own = match of_source(&source, &given) {
        Err(_) if printed::is_part(&source) => return Ok((None, log())),
        own => own?,
    };
    let cluster = script.document.cluster.first();
    let devices = cluster.and_then(|one| one.devices.clone()).filter(|_| script.has_devices());
    if let Some(devices) = devices.filter(|_| !own.has_devices()) {
        given.devices = Some(devices.into_iter().fold(0, u64::saturating_add));
        own = of_source(&source, &given)?;
    }
    own.notes.extend(measured::contradictions(&own, script));
    let log = Log::of(&text, tokens_per_device(&own.document));
    Ok((Some(own), log))
}

/// The text of `path`, if it is a launch script with arguments of Megatron-LM.
pub fn script(context: &Context<'_>, path: &Path) -> Result<Option<String>, Diagnostic> {
    let bytes = context.read_bytes(path, MOST_BYTES)?;
    let text = String::from_utf8(bytes).ok();
    Ok(text.filter(|text| text.contains("--num-layers") && !is_dump(text)))
}

/// The question of the `text` in `path`.
pub fn of_text(
    context: &Context<'_>,
    path: &Path,
    text: &str,
    given: &Given,
) -> Result<Imported, Diagnostic> {
    of_source(&Source::new(context, path, text), given)
}

fn of_source(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    if let Some(StepFormat { name, .. }) = step_format(source) {
        let file = quote::path(source.path);
        let message = format!("it is a {name}, a step of reinforcement learning");
        return Err(source.wrong(&message).with_help(format!("`debubble rl {file}` answers it")));
    }
    let Some(format) = formats().find(|format| (format.is_it)(source)) else {
        let help = match Log::of(source.text, 1.0).has_iterations() {
            true => "it has iterations, but no arguments: name the script of the run before it",
            false => KINDS,
        };
        return Err(source.unknown(help));
    };
    let mut given = given.clone();
    let is_system = |name: &&mut String| cfg!(feature = "recipes") && name.ends_with(".json");
    if let Some(machine) = given.machine.as_mut().filter(is_system) {
        *machine = simulators::machine(machine).map_err(Diagnostic::new)?;
    }
    let mut imported = (format.read)(source, &given)?;
    if source.printed().is_empty() {
        measure(&mut imported, source.text);
    }
    Ok(imported)
}

/// Adds the iterations that the log `text` of the run has.
fn measure(imported: &mut Imported, text: &str) {
    let log = Log::of(text, tokens_per_device(&imported.document));
    let unlike = log.unlike(&imported.document, imported.has_devices());
    match log.measured() {
        _ if !log.has_iterations() => {}
        _ if !unlike.is_empty() => {
            imported.notes.push(format!("the iterations do not count: {}", unlike.join("; ")));
        }
        Ok(measured) => {
            imported.notes.push(measured.in_words());
            imported.measured = Some(measured);
        }
        Err(why) => imported.notes.push(format!("the iterations do not count: {why}")),
    }
}

/// The tokens of a step over all devices of `document`.
#[allow(clippy::cast_precision_loss)] // Some 10^7.
#[must_use]
pub fn tokens_per_device(document: &Document) -> f64 {
    let devices: u64 = document.cluster.iter().flat_map(|one| &one.devices).flatten().sum();
    document.batch as f64 * document.sequence.unwrap_or(0) as f64 / devices.max(1) as f64
}

fn is_script(source: &Source<'_>) -> bool {
    let has = |word: &str| source.text.contains(word);
    let is_shell = source.path.extension().is_some_and(|own| own == "sh" || own == "slurm");
    has("--num-layers")
        || has("--hybrid-layer-pattern")
        || is_shell && has("source ") && has("pretrain_")
}

fn of_script(source: &Source<'_>, given: &Given) -> Result<Imported, Diagnostic> {
    let script = shell::read(source.text, &given.variables, &|name| source.script_beside(name));
    let script = script.map_err(|why| source.wrong(&why).with_help(RUN))?;
    let mut arguments = Arguments::of_script(&script);
    megatron::stage(source, &script, &mut arguments);
    let imported = of_megatron(source, &arguments, given, None);
    let imported = imported.and_then(|own| refuse_unknown(source, &arguments).map(|()| own));
    let mut imported = imported.map_err(|wrong| source.hide(wrong, &script.sourced))?;
    imported.notes.extend(script.notes(arguments.launches));
    Ok(imported)
}

/// Refuses a script of whose variables one that only a run knows may have `arguments`.
fn refuse_unknown(source: &Source<'_>, arguments: &Arguments) -> Result<(), Diagnostic> {
    let Some(variable) = arguments.open_variable() else { return Ok(()) };
    let (message, cure) = arguments.unknown_in_words(variable);
    Err(source.wrong(&format!("{message}, which may have arguments")).with_help(cure))
}

/// The question of arguments of Megatron-LM; the model is that which is given or the `base`, where they have no sizes.
fn of_megatron(
    source: &Source<'_>,
    arguments: &Arguments,
    given: &Given,
    base: Option<SizesDocument>,
) -> Result<Imported, Diagnostic> {
    let read = |base| megatron::question(source.path, arguments, given, base);
    source.question_of(arguments, given, base, read)
}
