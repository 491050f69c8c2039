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
use crate::slurm::Job;
use crate::stages::STAGES;
use crate::stand_in::{GPUS, NODES};
use crate::{Launch, Options, Recording, Refused, names, wire};

/// The most runs of a script.
const MOST_RUNS: usize = 6;
/// The bytes of its output that are looked at.
const MOST_OUTPUT: u64 = 4 << 20;
/// Variables of an environment by their names.
type Variables = BTreeMap<String, String>;
const HELP: &str =
    "run it where user namespaces are allowed (Linux 5.11 or newer), or give the log of the run";

/// Runs `script` with `arguments` in the working directory, and records its launches.
pub fn record(
    script: &Path,
    arguments: &[String],
    options: &Options,
) -> Result<Recording, Refused> {
    let refused = |error: io::Error| Refused {
        message: format!("{}: {error}", script.display()),
        help: "name a launch script",
    };
    let text = fs::read(script).map_err(refused)?;
    let folder = env::current_dir().map_err(refused)?;
    let variables = variables(&String::from_utf8_lossy(&text), options);
    let mut command = vec!["bash".to_owned(), script.display().to_string()];
    command.extend_from_slice(arguments);
    let (mut made, mut goes_on) = (Vec::new(), false);
    let mut run = 1;
    loop {
        let (mut own, folders) =
            once(&command, &folder, &made, &variables, (options.seconds, goes_on))?;
        let gone: Vec<String> = own.output.lines().filter_map(gone).map(str::to_owned).collect();
        let paths = gone.iter().filter(|path| path.contains('/'));
        let all = paths.flat_map(|path| folders.iter().map(move |own| own.join(path)));
        let wanted = all.filter_map(|path| wanted(&path)).filter(|path| !made.contains(path));
        let wanted: BTreeSet<PathBuf> = wanted.collect();
        let stops = wanted.is_empty() && (goes_on || !own.launches.is_empty());
        if stops || run == MOST_RUNS || own.ended.is_err() {
            own.missing.extend(gone);
            let mut known = BTreeSet::new();
            own.missing.retain(|name| known.insert(name.clone()));
            return Ok(Recording { made, without_set_e: goes_on, ..own });
        }
        goes_on |= wanted.is_empty();
        made.extend(wanted);
        run += 1;
    }
}

/// The path that a message of bash or `tee` says is not there.
fn gone(line: &str) -> Option<&str> {
    let line = line.strip_suffix(": No such file or directory")?;
    let (before, path) = line.rsplit_once(": ").unwrap_or(("", line));
    let is_of = before.contains(": line ") || before == "tee";
    (is_of && !path.contains(char::is_whitespace)).then_some(path)
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
fn variables(text: &str, options: &Options) -> Variables {
    let of_caller = |name: &'static str| Some((name, env::var(name).ok()?));
    let all = [
        Some(("PATH", format!("{OWN}/bin:{}", env::var("PATH").unwrap_or_default()))),
        of_caller("HOME"),
        of_caller("USER"),
        Some(("LANG", "C.UTF-8".to_owned())),
        Some(("TERM", "dumb".to_owned())),
        Some(("BASH_ENV", format!("{OWN}/begin"))),
    ];
    let all = all.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
    let mut all: Variables = all.collect();
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
        all.extend(job.variables(NODES.1, GPUS.1));
    }
    all.extend(options.environment.iter().cloned());
    all
}

/// Runs the `command` once in a copy that has the paths `made`; with it the folders in which it was.
fn once(
    command: &[String],
    folder: &Path,
    made: &[PathBuf],
    variables: &Variables,
    (seconds, goes_on): (u64, bool),
) -> Result<(Recording, BTreeSet<PathBuf>), Refused> {
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
    let mut run = Recording {
        launches: Vec::new(),
        missing: Vec::new(),
        made: Vec::new(),
        without_set_e: goes_on,
        ended: Err("it was ended".to_owned()),
        output: String::new(),
    };
    let mut folders = BTreeSet::from([folder.to_owned()]);
    let mut cannot = None;
    let mut records = child.stdout.take();
    while let Some(record) = records.as_mut().and_then(wire::read) {
        match (record[0].as_str(), record.get(1)) {
            ("refused", Some(why)) => cannot = Some(why.clone()),
            ("ended", Some(code)) => run.ended = code.parse().map_err(|_| code.clone()),
            ("launch", _) => run.launches.extend(launch(&record)),
            _ => {
                let Some(Launch { words, folder, .. }) = launch(&record) else { continue };
                if let [_, cd, .., to] = &words[..]
                    && cd == "cd"
                {
                    folders.insert(folder.join(to));
                }
                run.missing.push(words[1..].join(" "));
            }
        }
    }
    child.wait().map_err(refused)?;
    run.output = reader.join().unwrap_or_default();
    match cannot {
        Some(why) => Err(self::refused(&why)),
        None => Ok((run, folders)),
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
