//! What stand-ins do in the copy: they record how they are called, and say or run what the real ones would.
#![allow(clippy::print_stdout)]

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, exit};

use crate::copy::OWN;
use crate::names::{self, Role, has_value};
use crate::slurm::Job;
use crate::wire;

/// Variables of the caller's numbers of nodes and of GPUs of each, and the numbers without them.
pub(crate) const NODES: (&str, u64) = ("DEBUBBLE_NODES", 1);
pub(crate) const GPUS: (&str, u64) = ("DEBUBBLE_GPUS", 8);
/// Set in a job that is submitted, and in a step of one.
const SUBMITTED: &str = "DEBUBBLE_SUBMITTED";
const STEP: &str = "SLURM_STEP_ID";
/// Commands of git that reach other machines.
const OF_NETWORK: &str = "clone fetch lfs ls-remote pull push remote submodule";
const GPU: &str = "NVIDIA H100 80GB HBM3";

/// Records a command of the script.
fn record(kind: &str, name: &str, words: &[String]) {
    let folder = env::current_dir().unwrap_or_default();
    let count = (words.len() + 1).to_string();
    let variables: Vec<Vec<u8>> = env::vars_os()
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    let head = [kind.as_bytes(), folder.as_os_str().as_bytes(), count.as_bytes(), name.as_bytes()];
    let words = words.iter().map(String::as_bytes);
    let fields = head.into_iter().chain(words).chain(variables.iter().map(Vec::as_slice));
    let bytes = wire::joined(fields);
    let stream = UnixStream::connect(Path::new(OWN).join("socket"));
    // A record that is lost is missed by whoever reads the launches.
    let _ = stream.and_then(|mut stream| stream.write_all(&bytes));
}

/// Does what the command `name` with `words` is to do in the copy.
pub(crate) fn act(name: &str, role: Role, words: &[String]) {
    match role {
        Role::Launcher => record("launch", name, words),
        Role::Python => python(name, words),
        Role::Missing => record("missing", "", words),
        Role::Wrapper(valued) => wrapper(valued, words),
        Role::Container => {
            let is_program = |word: &String| {
                let name = program_name(word);
                matches!(name, "bash" | "sh")
                    || matches!(names::role(name), Some(Role::Launcher | Role::Python))
            };
            run(words.iter().position(is_program).map_or(&[], |at| &words[at..]), &[]);
        }
        Role::Remote(valued) => {
            let at = after_options(valued, words) + usize::from(name == "ssh");
            let command = words.get(at..).unwrap_or_default().join(" ");
            run(&["bash".to_owned(), "-c".to_owned(), command], &[]);
        }
        Role::Submit(valued) => submit(valued, words),
        Role::Gpus => gpus(words),
        Role::Scontrol if words.get(1).is_some_and(|word| word.starts_with("hostname")) => {
            (0..number("SLURM_NNODES", NODES.0, NODES.1)).for_each(|node| println!("node{node}"));
        }
        Role::Says(text) => println!("{text}"),
        Role::Git if words.iter().any(|word| has_value(OF_NETWORK, word)) => {}
        Role::Git => real(name, words, &[]),
        Role::Quiet | Role::Scontrol => {}
    }
}

/// Becomes the real program `name`, if there is one, with `variables`.
fn real(name: &str, words: &[String], variables: &[(&str, String)]) {
    let own = Path::new(OWN);
    if let Ok(path) = fs::read_link(own.join("path").join(name)) {
        let variables = variables.iter().map(|(name, value)| (*name, value));
        let mut command = Command::new(own.join("real").join(name));
        let error = command.arg0(path).args(words).envs(variables).exec();
        println!("{error}");
        exit(126);
    }
}

/// Code in words or from the input is run; a file or a module is a launch.
fn python(name: &str, words: &[String]) {
    let at = after_options("-W -X", words);
    let is_code = |word: &String| !word.starts_with("--") && word.ends_with('c');
    let is_file = words.get(at).is_some_and(|word| word != "-");
    if is_file && !words[..at].iter().any(is_code) {
        return record("launch", name, words);
    }
    let own = format!("{OWN}/python:{}", env::var("PYTHONPATH").unwrap_or_default());
    let count = number("SLURM_GPUS_ON_NODE", GPUS.0, GPUS.1).to_string();
    let variables = [("PYTHONPATH", own), (GPUS.0, count)];
    [name, "python3", "python"].iter().for_each(|name| real(name, words, &variables));
}

/// The place after the options of `words`, of which those in `valued` have a value in the next word.
fn after_options(valued: &str, words: &[String]) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-') && *word != "-") {
        at += if has_value(valued, word) { 2 } else { 1 };
        if word == "--" {
            break;
        }
    }
    at.min(words.len())
}

fn program_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or_default()
}

/// Whether `word` is a program here, or a script.
fn is_program(word: &String) -> bool {
    let path = Path::new(word);
    let all = env::var_os("PATH").unwrap_or_default();
    let is_found = || env::split_paths(&all).any(|folder| folder.join(path).is_file());
    names::role(program_name(word)).is_some()
        || path.is_file() && (word.contains('/') || word.ends_with(".sh"))
        || !word.contains('/') && is_found()
}

/// The place of the command among the `words` of a wrapper: the first program after options and their values.
fn command_in(valued: &str, words: &[String]) -> usize {
    let mut at = after_options(valued, words);
    while words.get(at).is_some_and(|word| !is_program(word)) {
        at += 1;
        at += after_options(valued, &words[at..]);
    }
    at
}

/// Becomes the command `words`, with `variables`.
fn run(words: &[String], variables: &[(String, String)]) {
    let [program, rest @ ..] = words else { return };
    let is_here = Path::new(program).is_file();
    let name = program_name(program);
    let mut command = match names::role(name) {
        Some(_) if !is_here => Command::new(Path::new(OWN).join("bin").join(name)),
        None if is_here && name.ends_with(".sh") => Command::new("bash"),
        _ => Command::new(program),
    };
    if command.get_program() == "bash" && name != "bash" {
        command.arg(program);
    }
    let variables = variables.iter().map(|(name, value)| (name, value));
    let error = command.args(rest).envs(variables).exec();
    println!("{program}: {error}");
    exit(127);
}

/// Runs the command of a wrapper as its first task.
fn wrapper(valued: &str, words: &[String]) {
    let (options, command) = words.split_at(command_in(valued, words));
    let mut variables = Vec::new();
    if valued == names::OF_SLURM {
        let mut job = job(options);
        if !job.has("ntasks") {
            job.add_variable("ntasks-per-node", "SLURM_NTASKS_PER_NODE");
        }
        job.add_variable("nodes", "SLURM_NNODES");
        job.add_variable("gpus-per-node", "SLURM_GPUS_ON_NODE");
        job.add_variable("cpus-per-task", "SLURM_CPUS_PER_TASK");
        variables = job.variables(NODES.1, GPUS.1);
        variables.push((STEP.to_owned(), "0".to_owned()));
    }
    let is_count = |pair: &&[String]| matches!(pair[0].trim_start_matches('-'), "n" | "np");
    if valued == names::OF_MPI
        && let Some(pair) = options.windows(2).find(is_count)
    {
        let values = [("SIZE", pair[1].as_str()), ("RANK", "0"), ("LOCAL_RANK", "0")];
        let all = values.map(|(name, own)| (format!("OMPI_COMM_WORLD_{name}"), own.to_owned()));
        variables.extend(all);
    }
    run(command, &variables);
}

/// The job of `options`, over which the caller's numbers of nodes and GPUs go.
fn job(options: &[String]) -> Job {
    let mut job = Job::default();
    job.add_variable("nodes", NODES.0);
    job.add_variable("gpus-per-node", GPUS.0);
    job.add_words(options);
    job
}

/// Runs the file, the text or the input of a job once; a job within it is not run.
fn submit(valued: &str, words: &[String]) {
    let at = after_options(valued, words);
    let (options, rest) = words.split_at(at);
    let is_bare = options.iter().any(|word| word == "--parsable");
    println!("{}1001", if is_bare { "" } else { "Submitted batch job " });
    if env::var_os(SUBMITTED).is_some() {
        return;
    }
    let value = |name: &str| {
        let next = |at: usize| options.get(at + 1).map(String::as_str);
        let all = options.iter().enumerate();
        let mut found = all.filter_map(|(at, word)| match word.strip_prefix(name)? {
            "" => next(at),
            own => own.strip_prefix('='),
        });
        found.next().map(str::to_owned)
    };
    let mut text = value("--wrap").unwrap_or_default();
    match rest.first() {
        _ if !text.is_empty() => {}
        Some(file) => text = fs::read_to_string(file).unwrap_or_default(),
        None => drop(io::stdin().read_to_string(&mut text)),
    }
    let mut job = job(options);
    job.add_script(&text);
    let exported = value("--export").unwrap_or_default();
    let exported = exported.split(',').filter_map(|pair| pair.split_once('='));
    let exported = exported.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let all = job.variables(NODES.1, GPUS.1).into_iter().chain(exported);
    let mut command = Command::new("bash");
    match rest.is_empty() {
        true => command.arg("-c").arg(text),
        false => command.args(rest),
    };
    // What it prints goes to the file of its log.
    let error = command.env(SUBMITTED, "1").envs(all).stdout(io::stderr()).exec();
    println!("{error}");
}

/// The first of two variables that is a number, or the `default`.
fn number(first: &str, second: &str, default: u64) -> u64 {
    let value = |name| env::var(name).ok()?.parse().ok();
    value(first).or_else(|| value(second)).unwrap_or(default)
}

/// Says what programs that ask for GPUS say of those of a node.
fn gpus(words: &[String]) {
    let all = 0..number("SLURM_GPUS_ON_NODE", GPUS.0, GPUS.1);
    let asked = words.iter().find_map(|word| word.strip_prefix("--query-gpu="));
    let has = |part: &str| words.iter().any(|word| word.contains(part));
    let value = |gpu: u64, key: &str| match key {
        "count" => all.end.to_string(),
        "index" => gpu.to_string(),
        "memory.total" | "memory.free" if has("nounits") => "81559".to_owned(),
        "memory.total" | "memory.free" => "81559 MiB".to_owned(),
        "compute_cap" => "9.0".to_owned(),
        "name" | "gpu_name" => GPU.to_owned(),
        _ => "0".to_owned(),
    };
    if let Some(keys) = asked.filter(|_| !has("noheader")) {
        println!("{keys}");
    }
    for gpu in all.clone() {
        match asked {
            Some(keys) => {
                let values: Vec<_> = keys.split(',').map(|key| value(gpu, key.trim())).collect();
                println!("{}", values.join(", "));
            }
            None if has("topo") => println!("GPU{gpu} NV18 NV18"),
            None if has("-L") || has("--list-gpus") => {
                println!("GPU {gpu}: {GPU} (UUID: GPU-{gpu})");
            }
            None => println!("{GPU}"),
        }
    }
}
