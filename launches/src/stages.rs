//! What this program is on the way into the copy: the process that enters namespaces, the first one in them, and the one
//! that becomes the script.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{
    Resource, Rlimit, Signal, WaitOptions, nice, set_parent_process_death_signal, setrlimit, setsid,
};

use crate::copy::{self, OWN};
use crate::{names, stand_in, wire};

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
/// How long processes may outlive the script.
const AFTER: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(10);

/// Acts as a stage or a stand-in where the name of this process says so.
pub(crate) fn act() {
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
        stand_in::act(name, role, &words);
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
    // What the caller's caller left open is not a part of the copy.
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
    let limit = Duration::from_secs(seconds.parse().unwrap_or(0));
    let why = format!("it took more than {seconds} s");
    thread::spawn(move || {
        sleep(limit);
        end(&why);
    });
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

/// Becomes the command after the folder in `words`, without rights and within limits.
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
