//! Runs of a script, again while it asks for what the copy can be given.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::copy::OWN;
use crate::inside::{GPUS, NODES, STAGES};
use crate::slurm::Job;
use crate::{Launch, Options, Recording, Refused, names, wire};

/// The most runs of a script.
const MOST_RUNS: usize = 6;
/// The bytes of its output that are looked at.
const MOST_OUTPUT: u64 = 4 << 20;
const HELP: &str =
    "run it where user namespaces are allowed (Linux 5.11 or newer), or give the log of the run";

/// What a run gives back.
struct Run {
    launches: Vec<Launch>,
    missing: Vec<String>,
    /// Folders in which it was.
    folders: BTreeSet<PathBuf>,
    ended: Result<i32, String>,
    output: String,
}

impl Run {
    /// Adds a command that is not here; a folder is gone into all the same.
    fn add_missing(&mut self, command: Option<Launch>) {
        let Some(Launch { words, folder, .. }) = command else { return };
        if let [_, cd, .., to] = &words[..]
            && cd == "cd"
        {
            self.folders.insert(folder.join(to));
        }
        self.missing.push(words[1..].join(" "));
    }
}

/// Runs `script` with `arguments` and records its launches.
///
/// # Errors
/// If it cannot be read, or this kernel gives no namespaces.
pub fn record(
    script: &Path,
    arguments: &[String],
    options: &Options,
) -> Result<Recording, Refused> {
    let refused = |error: io::Error| Refused {
        message: format!("{}: {error}", script.display()),
        help: "name a launch script",
    };
    let script = fs::canonicalize(script).map_err(refused)?;
    let text = fs::read(&script).map_err(refused)?;
    let folder = script.parent().unwrap_or(Path::new("/")).to_owned();
    let variables = variables(&String::from_utf8_lossy(&text), &folder, options);
    let mut command = vec!["bash".to_owned(), script.display().to_string()];
    command.extend_from_slice(arguments);
    let mut made: Vec<PathBuf> = Vec::new();
    let mut goes_on = false;
    for run in 1.. {
        let own = once(&command, &folder, &made, &variables, (options.seconds, goes_on))?;
        let gone: Vec<&str> = own.output.lines().filter_map(gone).collect();
        let all = |path: &&str| own.folders.iter().map(|own| own.join(path)).collect::<Vec<_>>();
        let wanted = gone.iter().flat_map(all).filter_map(|path| wanted(&path));
        let mut wanted: Vec<PathBuf> = wanted.filter(|path| !made.contains(path)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let stops = wanted.is_empty() && (goes_on || !own.launches.is_empty());
        if stops || run >= MOST_RUNS || own.ended.is_err() {
            let mut missing = own.missing;
            missing.extend(gone.into_iter().map(str::to_owned));
            let mut known = BTreeSet::new();
            missing.retain(|name| known.insert(name.clone()));
            let Run { launches, ended, output, .. } = own;
            return Ok(Recording {
                launches,
                missing,
                made,
                without_set_e: goes_on,
                ended,
                output,
            });
        }
        goes_on |= wanted.is_empty();
        made.extend(wanted);
    }
    unreachable!("the last run returns")
}

/// The path that a message of bash or `tee` says is not there.
fn gone(line: &str) -> Option<&str> {
    let line = line.strip_suffix(": No such file or directory")?;
    let (before, path) = line.rsplit_once(": ").unwrap_or(("", line));
    let is_of = before.contains(": line ") || before == "tee";
    (is_of && path.contains('/') && !path.contains(char::is_whitespace)).then_some(path)
}

/// What the copy can be given for `path`: a launcher there, or the folder of the file.
fn wanted(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    match names::role(&name) {
        Some(_) => Some(path.to_owned()),
        None => path.parent().filter(|folder| !folder.is_dir()).map(Path::to_owned),
    }
}

/// The environment of the script `text`.
fn variables(text: &str, folder: &Path, options: &Options) -> BTreeMap<String, String> {
    let kept = ["PATH", "HOME", "USER"].map(|name| (name, env::var(name).unwrap_or_default()));
    let path = format!("{OWN}/bin:{}", kept[0].1);
    let fixed = [("PATH", path), ("LANG", "C.UTF-8".into()), ("TERM", "dumb".into())];
    let begin = [("BASH_ENV", format!("{OWN}/begin"))];
    let all = kept.into_iter().chain(fixed).chain(begin);
    let mut all: BTreeMap<String, String> =
        all.map(|(name, value)| (name.to_owned(), value)).collect();
    let mut job = Job::default();
    for ((variable, option), value) in
        [((NODES.0, "nodes"), options.nodes), ((GPUS.0, "gpus-per-node"), options.gpus_per_node)]
    {
        if let Some(value) = value {
            all.insert(variable.to_owned(), value.to_string());
            job.set(option, value.to_string());
        }
    }
    let is_job = text.lines().any(|line| line.starts_with("#SBATCH"));
    if is_job || options.nodes.is_some() && text.contains("SLURM_") {
        job.add_script(text);
        all.extend(job.variables(NODES.1, GPUS.1, &folder.display().to_string()));
    }
    all.extend(options.environment.iter().cloned());
    all
}

/// Runs the `command` once in a copy that has the paths `made`.
fn once(
    command: &[String],
    folder: &Path,
    made: &[PathBuf],
    variables: &BTreeMap<String, String>,
    (seconds, goes_on): (u64, bool),
) -> Result<Run, Refused> {
    let refused = |error: io::Error| refused(&error.to_string());
    let mut own = Command::new(env::current_exe().map_err(refused)?);
    own.arg0(STAGES[0]).arg(seconds.to_string()).arg(folder).args(made).arg("--").args(command);
    own.env_clear().envs(variables);
    if goes_on {
        own.env("DEBUBBLE_GO_ON", "1");
    }
    own.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = own.spawn().map_err(refused)?;
    let mut output = child.stderr.take();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(output) = &mut output {
            // What cannot be read ends it.
            let _ = output.take(MOST_OUTPUT).read_to_end(&mut bytes);
            let _ = io::copy(output, &mut io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let mut run = Run {
        launches: Vec::new(),
        missing: Vec::new(),
        folders: BTreeSet::from([folder.to_owned()]),
        ended: Err("it was ended".to_owned()),
        output: String::new(),
    };
    let mut cannot = None;
    let mut records = child.stdout.take();
    while let Some(record) = records.as_mut().and_then(wire::read) {
        match (record[0].as_str(), record.get(1)) {
            ("refused", Some(why)) => cannot = Some(why.clone()),
            ("ended", Some(code)) => run.ended = code.parse().map_err(|_| code.clone()),
            ("missing", _) => run.add_missing(launch(&record)),
            ("launch", _) => run.launches.extend(launch(&record)),
            _ => {}
        }
    }
    child.wait().map_err(refused)?;
    run.output = reader.join().unwrap_or_default();
    match cannot {
        Some(why) => Err(self::refused(&why)),
        None => Ok(run),
    }
}

/// The launch of a `record`: its kind, the folder, the number of words, these and the environment.
fn launch(record: &[String]) -> Option<Launch> {
    let [_, folder, count, rest @ ..] = record else { return None };
    let count = count.parse().ok().filter(|count| (1..=rest.len()).contains(count))?;
    let (words, variables) = rest.split_at(count);
    let pairs = variables.iter().filter_map(|pair| pair.split_once('='));
    let environment = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Some(Launch { words: words.to_vec(), folder: folder.into(), environment })
}

/// That no copy can be made.
fn refused(why: &str) -> Refused {
    let message = format!(
        "a script is run only in a copy of the machine, and this kernel gives no namespaces for one: {why}"
    );
    Refused { message, help: HELP }
}
