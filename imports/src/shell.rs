//! Words of the commands of a shell script, without running it: it is read as a tree and followed as bash does. A value
//! that only a run knows is marked by its name, and so is all that it decides on.

mod commands;
#[cfg(test)]
mod differential;
mod effects;
mod expand;
mod parse;
mod pattern;
mod run;
mod scan;
mod slurm;
mod sum;
mod test;
mod value;

use std::collections::BTreeMap;

use self::run::Reader;
use self::scan::Parser;
pub(super) use self::slurm::Batch;
use self::value::{State, Truth, Value};

/// Stands in a word for a part that only a run of the script knows; its name follows, and [`END`].
pub(super) const UNKNOWN: char = '\u{1}';
/// Ends the name of an unknown part.
pub(super) const END: char = '\u{2}';
/// Stands in front of the name of a part that may be several words.
const MANY: char = '\u{3}';

/// Stands in front of the name of a variable in a number that is made of it.
const COUNTED: char = '=';

/// Variables that bash sets itself.
const OF_BASH: &str = " BASHPID BASH_SOURCE BASH BASH_VERSION DIRSTACK EPOCHSECONDS EUID FUNCNAME GROUPS HOME HOSTNAME \
    HOSTTYPE IFS LINENO LOGNAME MACHTYPE OLDPWD OPTIND OSTYPE PATH PIPESTATUS PPID PWD RANDOM SECONDS SHELL UID USER ";

/// Commands that launch nothing.
const QUIET: &str = " : [ alias awk basename cat cd chmod chown cp curl cut date df dirname du echo env-check export \
    false file find free git grep head hostname kill ln ls lscpu make mkdir module mv nvidia-smi pip pip3 popd printf \
    ps pushd pwd read realpath rm rmdir rsync scancel scontrol sed seq set shopt sleep sort source stat sync tail tar \
    tee test touch tr trap true type ulimit umask uname uniq unset unzip wait wc wget which xargs ";

/// Commands that are programs, and no functions of a script that is not read.
const PROGRAMS: &str = " accelerate bash conda deepspeed docker env exec mpiexec mpirun nohup nsys numactl poetry python \
    python3 ray salloc sbatch sh singularity srun ssh sudo taskset time timeout torchrun uv ";

/// A script that is read.
#[derive(Default)]
pub(super) struct Script {
    /// The words of each command that may be a launch, in order.
    pub(super) commands: Vec<Vec<String>>,
    /// Variables that are set, an array as its words.
    pub(super) variables: BTreeMap<String, Vec<String>>,
    /// What the script asks of a scheduler.
    pub(super) batch: Batch,
    /// The part that is not followed and has a launch.
    pub(super) refused: Option<String>,
    /// Whether its own arguments are taken as none.
    pub(super) alone: bool,
    /// Names and texts of the files beside it that it reads.
    pub(super) sourced: Vec<(String, String)>,
}

impl Script {
    /// What is assumed of it, a sentence each, where it has `launches` that differ.
    pub(super) fn notes(&self, launches: usize) -> Vec<String> {
        let alone = "the script is read as one that is started without arguments".to_owned();
        let last = format!("the script launches {launches} runs that differ: the last is read");
        let all = [(self.alone, alone), (launches > 1, last)];
        all.into_iter().filter_map(|(holds, note)| holds.then_some(note)).collect()
    }
}

/// `text` with ends of lines as on Unix, without the signs that have a meaning here.
fn plain(text: &str) -> String {
    text.replace("\r\n", "\n").replace([UNKNOWN, END, MANY, '\0'], "")
}

/// Reads `text`, where `given` has values of variables that win over the script's own, and `beside` the texts of files
/// that lie beside it.
pub(super) fn read(
    text: &str,
    given: &BTreeMap<String, String>,
    beside: &dyn Fn(&str) -> Option<String>,
) -> Result<Script, String> {
    let text = plain(text);
    let batch = Batch::of(&text);
    let given_values = given.iter().map(|(name, value)| (name.clone(), Value::of(value.clone())));
    let variables = batch.variables().chain(given_values).collect();
    let mut parser = Parser::new(&text);
    let tree = parser.list(&[])?;
    let mut reader = Reader {
        script: Script::default(),
        given,
        beside,
        state: State { variables, ..State::default() },
        status: Truth::Yes,
        depth: 0,
        used: 0,
        doubt: None,
        in_file: false,
    };
    let ended = reader.follow(&tree)?;
    let mut script = reader.script;
    script.batch = batch;
    let is_launched = script.commands.iter().any(|words| is_launch(words));
    if let Some(part) = script.refused {
        return Err(format!("the launch is in {part}: only one that surely runs once is read"));
    }
    if !is_launched && (parser.launches || ended) {
        return Err("it ends without a launch: none of its launches is reached".to_owned());
    }
    let value = |(name, value): (String, Value)| {
        let words = match value {
            Value::Words(all) => all.to_vec(),
            Value::Unknown(true) => vec![format!("{UNKNOWN}{MANY}{name}{END}")],
            Value::Unknown(false) => return None,
        };
        Some((name, words))
    };
    script.variables = reader.state.variables.into_iter().filter_map(value).collect();
    Ok(script)
}

fn is_of_bash(name: &str) -> bool {
    is_in(OF_BASH, name)
}

fn is_in(list: &str, word: &str) -> bool {
    !word.is_empty() && !word.contains(' ') && list.contains(&format!(" {word} "))
}

/// The name of the program at the path `word`.
pub(super) fn program_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or_default()
}

fn is_quiet(word: &str) -> bool {
    is_in(QUIET, program_name(word))
}

fn is_program(word: &str) -> bool {
    is_in(PROGRAMS, word)
}

/// Whether `word` starts a training run.
fn is_launcher(word: &str) -> bool {
    let name = program_name(word.trim_matches(['"', '\'']));
    let is_trainer = name.ends_with(".py") && (name.contains("train") || name.contains("finetune"));
    is_trainer
        || matches!(name, "torchrun" | "deepspeed")
        || name.contains("torch.distributed.")
        || name.starts_with("verl.trainer")
}

/// Whether `words` launch a training run.
pub(super) fn is_launch(words: &[String]) -> bool {
    let has_flags = |word: &String| {
        ["--num-layers", "--hidden-size", "actor_rollout_ref."]
            .iter()
            .any(|flag| word.contains(flag))
    };
    words.iter().any(|word| is_launcher(word) || has_flags(word))
}

/// What is called `name` in words, and whether it can be given by that name.
pub(super) fn in_words(name: &str) -> (String, bool) {
    let name = name.trim_start_matches(COUNTED);
    let text = match name.strip_prefix('%') {
        None if scan::is_name(name) => return (name.to_owned(), true),
        None => "words in braces".to_owned(),
        Some("output") => "the output of a command".to_owned(),
        Some("folder") => "the folder of the script".to_owned(),
        Some("sum") => "the value of a sum".to_owned(),
        Some(argument) if argument.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("${argument}")
        }
        Some(other) => format!("the value of its {other}"),
    };
    (text, false)
}

/// The name of the first part of `word` that is not known.
fn doubt(word: &str) -> Option<String> {
    unknowns(word).0.first().map(|name| (*name).to_owned())
}

/// A mark for a part that only a run knows.
fn mark(name: &str) -> String {
    format!("{UNKNOWN}{name}{END}")
}

/// Arguments of which only a run knows how many there are.
fn any_arguments() -> Vec<String> {
    vec![mark(&format!("{MANY}%arguments"))]
}

/// A mark for a number that is made of what is called `name`.
fn counted(name: &str) -> String {
    mark(&format!("{COUNTED}{}", name.trim_start_matches(COUNTED)))
}

/// The name of what `word` is alone, if it may be several words.
pub(super) fn many(word: &str) -> Option<&str> {
    word.strip_prefix(UNKNOWN)?.strip_prefix(MANY)?.strip_suffix(END)
}

/// The names of the parts of `word` that are not known, and the rest of it.
pub(super) fn unknowns(word: &str) -> (Vec<&str>, String) {
    let mut names = Vec::new();
    let mut rest = String::new();
    for (at, part) in word.split(UNKNOWN).enumerate() {
        match part.split_once(END).filter(|_| at > 0) {
            Some((name, behind)) => {
                names.push(name.trim_start_matches(MANY));
                rest += behind;
            }
            None => rest += part,
        }
    }
    (names, rest)
}
