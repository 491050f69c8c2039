//! What this program is in the copy: its first process, the one that becomes the script, and the stand-ins.
#![allow(clippy::exit, clippy::print_stdout)]

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{
    Resource, Rlimit, Signal, WaitOptions, nice, set_parent_process_death_signal, setrlimit, setsid,
};

use crate::copy::{self, OWN};
use crate::names::{self, Role, has_value};
use crate::slurm::Job;
use crate::wire;

/// Variables of the caller's numbers of nodes and of GPUs of each, and the numbers without them.
pub(crate) const NODES: (&str, u64) = ("DEBUBBLE_NODES", 1);
pub(crate) const GPUS: (&str, u64) = ("DEBUBBLE_GPUS", 8);
/// Set in a job that is submitted, and in a step of one.
const SUBMITTED: &str = "DEBUBBLE_SUBMITTED";
const STEP: &str = "SLURM_STEP_ID";
/// Names of this program by what it is to do: enter namespaces, be their first process, become the script.
pub(crate) const STAGES: [&str; 3] = ["debubble-enter", "debubble-first", "debubble-become"];
/// The most processes of a script, and their memory.
const MOST_PROCESSES: usize = 512;
const MOST_BYTES: u64 = 4 << 30;
/// The most bytes of its records, and the most of them that are read at a time.
const MOST_RECORDED: usize = 64 << 20;
const MOST_AT_ONCE: usize = 1000;
/// The beginnings of records of commands.
const COMMANDS: [&[u8]; 2] = [b"launch\0", b"missing\0"];
/// Limits of a process: seconds, bytes of a file and of memory, processes, dumps.
const LIMITS: [(Resource, u64); 5] = [
    (Resource::Cpu, 60),
    (Resource::Fsize, 64 << 20),
    (Resource::As, 8 << 30),
    (Resource::Nproc, 1024),
    (Resource::Core, 0),
];
/// Commands of git that reach other machines.
const OF_NETWORK: &str = "clone fetch lfs ls-remote pull push remote submodule";
/// How long processes may outlive the script.
const AFTER: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(10);
const GPU: &str = "NVIDIA H100 80GB HBM3";

/// Acts as the stand-in or a stage where the name of this process says so.
pub(crate) fn stand_in() {
    let mut words = env::args_os().map(|word| word.to_string_lossy().into_owned());
    let name = words.next().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    if let Some(stage) = STAGES.iter().position(|own| *own == name) {
        let run = [enter, first, become_script][stage];
        let Err(error) = run(&words);
        tell("refused", &error.to_string());
        exit(2);
    }
    if let Some(role) = names::role(name).filter(|_| Path::new(OWN).join("socket").exists()) {
        act(name, role, &words);
        exit(0);
    }
}

/// Never returned.
enum Never {}

/// Writes a record of the first process.
fn tell(kind: &str, text: &str) {
    // Without a reader nobody waits for it.
    let _ = wire::write(&mut io::stdout(), &wire::joined([kind.as_bytes(), text.as_bytes()]));
}

/// Enters namespaces and waits for the first process in them.
fn enter(words: &[String]) -> io::Result<Never> {
    let program = env::current_exe()?;
    // What the caller's caller left open is no part of the copy.
    let open: Vec<_> =
        fs::read_dir("/proc/self/fd")?.flatten().map(|own| own.file_name()).collect();
    for number in open.iter().filter_map(|name| name.to_str()?.parse::<i32>().ok()) {
        if number > 2 {
            let _ = nix::unistd::close(number);
        }
    }
    copy::enter()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let status = Command::new(program).arg0(STAGES[1]).args(words).status()?;
    exit(status.code().unwrap_or(2));
}

/// Makes the copy, runs the script in it and collects records. `words`: seconds, the folder, paths to make, `--`, the
/// command. When it ends the kernel ends all that is left.
fn first(words: &[String]) -> io::Result<Never> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let end_of_made = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let [seconds, folder, made @ ..] = &words[..end_of_made] else { exit(2) };
    let listener = copy::make(Path::new(&env::var("HOME").unwrap_or_default()))?;
    listener.set_nonblocking(true)?;
    rustix::system::sethostname(b"node0")?;
    for path in made.iter().map(Path::new) {
        let is_name =
            path.file_name().is_some_and(|name| names::role(&name.to_string_lossy()).is_some());
        let folder = if is_name { path.parent().unwrap_or(path) } else { path };
        // What cannot be made stays missing.
        let _ = fs::create_dir_all(folder);
        if is_name {
            let _ = symlink(Path::new(OWN).join("stand-in"), path);
        }
    }
    let limit = Duration::from_secs(seconds.parse().unwrap_or(0));
    let why = format!("it took more than {seconds} s");
    thread::spawn(move || {
        sleep(limit);
        end(&why);
    });
    let script = Command::new(Path::new(OWN).join("stand-in"))
        .arg0(STAGES[2])
        .arg(folder)
        .args(words.get(end_of_made + 1..).unwrap_or_default())
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .spawn()?;
    let mut ended: Option<(i32, Instant)> = None;
    let mut bytes = 0;
    loop {
        bytes += collect(&listener);
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if u32::try_from(pid.as_raw_nonzero().get()).ok() == Some(script.id()) {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                ended = Some((status.exit_status().or(signal).unwrap_or(2), Instant::now()));
            }
        }
        let processes = processes();
        match ended {
            Some((code, at)) if processes.len() <= 1 || at.elapsed() > AFTER => {
                collect(&listener);
                end(&code.to_string());
            }
            _ if processes.len() > MOST_PROCESSES => end("it began too many processes"),
            _ if memory(&processes) > MOST_BYTES => end("it took too much memory"),
            _ if bytes > MOST_RECORDED => end("it launched too much"),
            _ => sleep(TICK),
        }
    }
}

/// Ends all processes of the copy, and says why.
fn end(why: &str) -> ! {
    tell("ended", why);
    exit(0);
}

/// Passes on some of the records of commands that have come; their bytes.
fn collect(listener: &UnixListener) -> usize {
    let mut sum = 0;
    for (stream, _) in iter::from_fn(|| listener.accept().ok()).take(MOST_AT_ONCE) {
        let mut bytes = Vec::new();
        let is_read = stream.set_nonblocking(false).is_ok()
            && stream.take(wire::LONGEST).read_to_end(&mut bytes).is_ok();
        sum += bytes.len();
        if is_read && COMMANDS.iter().any(|kind| bytes.starts_with(kind)) && bytes.ends_with(&[0]) {
            let _ = wire::write(&mut io::stdout(), &bytes);
        }
    }
    sum
}

/// The folders of all processes.
fn processes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_bytes().iter().all(u8::is_ascii_digit))
    };
    entries.map(|entry| entry.path()).filter(is_process).collect()
}

/// The bytes of memory of some processes.
fn memory(processes: &[PathBuf]) -> u64 {
    let pages = |path: &PathBuf| {
        let text = fs::read_to_string(path.join("statm")).unwrap_or_default();
        text.split(' ').nth(1).and_then(|own| own.parse().ok()).unwrap_or(0_u64)
    };
    processes.iter().map(pages).sum::<u64>() * 4096
}

/// Becomes the command behind the folder in `words`, without rights and within limits.
fn become_script(words: &[String]) -> io::Result<Never> {
    let [folder, program, rest @ ..] = words else { exit(2) };
    setsid()?;
    nice(19)?;
    for (resource, most) in LIMITS {
        let most = rustix::process::getrlimit(resource).maximum.map_or(most, |own| own.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    copy::give_up()?;
    env::set_current_dir(folder)?;
    Err(Command::new(program).args(rest).exec())
}

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
fn act(name: &str, role: Role, words: &[String]) {
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
            let at = behind_options(valued, words) + usize::from(name == "ssh");
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
    let at = behind_options("-W -X", words);
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

/// The place behind the options of `words`, of which those in `valued` have a value in the next word.
fn behind_options(valued: &str, words: &[String]) -> usize {
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

/// The place of the command among the `words` of a wrapper: the first program behind options and their values.
fn command_in(valued: &str, words: &[String]) -> usize {
    let mut at = behind_options(valued, words);
    while words.get(at).is_some_and(|word| !is_program(word)) {
        at += 1;
        at += behind_options(valued, &words[at..]);
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
    let at = behind_options(valued, words);
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
