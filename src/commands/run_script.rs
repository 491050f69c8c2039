//! `debubble import --run`: the launch that a run of the script records.

use std::path::Path;

use clap::Args;
use imports::{Asked, Given, Launched, of_launch};
use launches::{Launch, Options, Recording, record};
use question::{Context, Diagnostic, quote};

use crate::error::Error;
use crate::messages::note;

/// Help heading of the flags of a run.
const RUN: &str = "A run of the script";
/// GPUs of a node where neither a flag nor the script says them.
const GPUS: u64 = 8;

/// How the script is run.
#[derive(Args)]
pub struct Runs {
    /// Run the script with bash in a sandbox that discards all changes, with stand-ins for launchers (Linux)
    #[arg(long, help_heading = RUN)]
    pub run: bool,
    /// Value of an environment variable; a run sees PATH, HOME and USER only; repeatable
    #[arg(long, help_heading = RUN, requires = "run", value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Nodes of the job [default: those that the script asks for, or 1]
    #[arg(long, help_heading = RUN, requires = "run", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    nodes: Option<u64>,
    /// GPUs of a node [default: those that the script asks for, or 8]
    #[arg(long, help_heading = RUN, requires = "run", value_name = "G", value_parser = clap::value_parser!(u64).range(1..=1 << 10))]
    gpus_per_node: Option<u64>,
    /// Which one of several launches
    #[arg(long, help_heading = RUN, requires = "run", value_name = "N")]
    launch: Option<usize>,
    /// Seconds after which the run is ended
    #[arg(long, help_heading = RUN, requires = "run", value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    run_seconds: u64,
    /// Arguments of the script
    #[arg(last = true, help_heading = RUN, requires = "run", value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// A launch, and the question that it asks.
struct Candidate<'a> {
    launch: &'a Launch,
    asked: Result<Asked, Diagnostic>,
}

impl Runs {
    /// The question of the run that `script` launches.
    pub fn asked(
        &self,
        context: &Context<'_>,
        script: &Path,
        given: &Given,
    ) -> Result<Asked, Error> {
        if !given.variables.is_empty() {
            let message = "--set is for a script that is read: a run has its variables by --env";
            return Err(Error::question(message));
        }
        let name = quote::path(script);
        note(&format!(
            "bash runs {name} in a copy of this machine, for at most {} s: what it writes is forgotten, it has no network, \
             devices and other processes, and launchers only record their words",
            self.run_seconds
        ));
        let options = Options {
            environment: self.env.clone(),
            nodes: self.nodes,
            gpus_per_node: self.gpus_per_node,
            seconds: self.run_seconds,
        };
        let recording = record(script, &self.arguments, &options);
        let recording =
            recording.map_err(|why| Error::question(why.message).with_help(why.help))?;
        say(&recording);
        let candidates = self.candidates(context, script, given, &recording.launches);
        let chosen = match (self.launch, &candidates[..]) {
            (_, []) => return Err(nothing(&name, &recording)),
            (None, [_]) => 0,
            (Some(number), all) if (1..=all.len()).contains(&number) => number - 1,
            (_, all) => {
                list(all).iter().for_each(|line| note(line));
                let message = format!("{name} launches {} runs that differ", all.len());
                return Err(Error::question(message).with_help("choose one: --launch N"));
            }
        };
        let chosen = candidates.into_iter().nth(chosen);
        let Candidate { launch, asked } = chosen.ok_or_else(|| nothing(&name, &recording))?;
        note(&format!("it launches {}", launch.words.join(" ")));
        Ok(asked?)
    }

    /// The launches of trainers, those that ask the same question once.
    fn candidates<'a>(
        &self,
        context: &Context<'_>,
        script: &Path,
        given: &Given,
        launches: &'a [Launch],
    ) -> Vec<Candidate<'a>> {
        let mut all: Vec<Candidate<'a>> = Vec::new();
        let mut known = Vec::new();
        for launch in launches {
            let launched = self.launched(launch);
            if !launched.is_known() {
                continue;
            }
            let asked = of_launch(context, script, &launched, given);
            let text = match &asked {
                Ok(asked) => asked.to_toml().unwrap_or_default(),
                Err(error) => error.to_string(),
            };
            if !known.contains(&text) {
                known.push(text);
                all.push(Candidate { launch, asked });
            }
        }
        all
    }

    fn launched<'a>(&self, launch: &'a Launch) -> Launched<'a> {
        Launched {
            words: &launch.words,
            folder: &launch.folder,
            environment: &launch.environment,
            gpus_per_node: self.gpus_per_node.unwrap_or(GPUS),
            nodes: self.nodes,
        }
    }
}

/// Says where the run was not as one of the script on its own machine.
fn say(recording: &Recording) {
    let list =
        |all: &[String]| all.iter().map(|own| quote::clip(own)).collect::<Vec<_>>().join(", ");
    if !recording.missing.is_empty() {
        note(&format!(
            "not on this machine, so that what they do is not known: {}",
            list(&recording.missing)
        ));
    }
    if recording.without_set_e && !recording.launches.is_empty() {
        note("it launches only where errors do not end it: `set -e` was not in effect");
    }
    if let Err(why) = &recording.ended {
        note(&format!("it was ended: {why}"));
    }
}

/// That the script launches nothing that is read.
fn nothing(name: &str, recording: &Recording) -> Error {
    let message = match recording.launches.last() {
        Some(last) => {
            format!("{name} launches {}, which is not read", quote::clip(&last.words.join(" ")))
        }
        None => format!("{name} launches nothing"),
    };
    let lines = || recording.output.lines().rev().map(str::trim);
    let last = lines().find(|line| !line.is_empty());
    let last =
        last.map_or(String::new(), |line| format!("; its last line is: {}", quote::clip(line)));
    let unset =
        lines().find_map(|line| line.strip_suffix(": unbound variable")?.rsplit(' ').next());
    let help = match unset {
        Some(name) => format!("give it: --env {}=VALUE", quote::clip(name)),
        None => "give its arguments after --, its variables with --env NAME=VALUE, or the log of the run".to_owned(),
    };
    Error::question(format!("{message}{last}")).with_help(help)
}

/// A line for each launch: the arguments that not all have.
fn list(candidates: &[Candidate<'_>]) -> Vec<String> {
    let all: Vec<Vec<String>> = candidates.iter().map(|own| arguments(&own.launch.words)).collect();
    let line = |(at, own): (usize, &Vec<String>)| {
        let is_own = |part: &&String| !all.iter().all(|other| other.contains(part));
        let own: Vec<&str> = own.iter().filter(is_own).map(String::as_str).collect();
        format!("--launch {}: {} .. {}", at + 1, candidates[at].launch.words[0], own.join(" "))
    };
    all.iter().enumerate().map(line).collect()
}

/// The words with each value next to its flag.
fn arguments(words: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        match all.last_mut().filter(|last| last.starts_with('-') && !word.starts_with('-')) {
            Some(last) => *last += &format!(" {word}"),
            None => all.push(word.clone()),
        }
    }
    all
}

/// The name and the value of a variable.
pub fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_name {
        true => Ok((name.to_owned(), value.to_owned())),
        false => Err("a name has letters, digits and underscores".to_owned()),
    }
}
