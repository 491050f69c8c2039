//! One process per stage, or per device, on this machine: starts them, waits for all, and ends all when one fails.
//!
//! A child notices the end of its parent by the end of its standard input, for any reason of that: none
//! is left behind. A Ctrl-C reaches the parent alone, which ends all.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher};
use std::io::{Read, stdin};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::commands::Verdict;
use crate::error::Error;
use crate::{interrupt, messages};

/// Set for processes that end when their standard input does.
const LIFELINE: &str = "DEBUBBLE_LIFELINE";

/// The word that all processes of a run share.
pub const TOKEN: &str = "DEBUBBLE_TOKEN";

/// Note on a run in processes after Ctrl-C: no stage can go on alone.
pub const INTERRUPTED: &str = "interrupted: all processes of the run end, and nothing was measured";

/// How often children are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How long the other processes may take to end by themselves once one has failed.
const GRACE: Duration = Duration::from_secs(2);

/// Most failures that are reported.
const SHOWN: usize = 3;

/// Most bytes of a child's output that are kept.
const MAX_WORDS: u64 = 1 << 16;

/// Ends this process with its parent, which hears Ctrl-C for it, if it was started by [`supervise`].
pub fn hold_lifeline() {
    if std::env::var_os(LIFELINE).is_some() {
        interrupt::leave_to_parent();
        std::thread::spawn(|| {
            let mut byte = [0];
            while stdin().read(&mut byte).is_ok_and(|count| count > 0) {}
            std::process::exit(2);
        });
    }
}

/// A token that cannot be guessed: the keys of [`RandomState`] are drawn by the system.
fn new_token() -> String {
    let draw = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", draw(), draw())
}

/// A process, with its stderr.
struct Stage {
    child: Child,
    words: Option<JoinHandle<String>>,
    ended: Option<ExitStatus>,
    /// At which look at all of them it had ended.
    look: u64,
    /// Its role in messages: `stage`, `device`.
    role: &'static str,
}

/// All processes; those still alive are killed when this is dropped.
struct Crew(Vec<Stage>);

impl Drop for Crew {
    fn drop(&mut self) {
        for stage in &mut self.0 {
            // One that has ended cannot be killed any more, which is just as well.
            let _ = stage.child.kill();
            let _ = stage.child.wait();
        }
    }
}

/// Runs this very command once for each of `stages` stages or devices, as `role` names them. The first
/// answers for all; run number k of `jobs` is given the k-th of as many ports in a row. A Ctrl-C ends
/// all of them at once.
///
/// # Errors
/// A process that cannot be started, or the first that fails.
pub fn supervise(role: &'static str, stages: usize, jobs: usize) -> Result<Verdict, Error> {
    let ports = u16::try_from(jobs).map_err(|_| Error::question("there are too many runs"))?;
    let port = executor::free_ports(ports).map_err(|error| Error::question(error.to_string()))?;
    interrupt::listen_silently();
    let token = std::env::var_os(TOKEN).unwrap_or_else(|| new_token().into());
    let mut crew = Crew(Vec::with_capacity(stages));
    for rank in 0..stages {
        crew.0.push(start(role, rank, stages, port, &token)?);
    }
    let (mut failed, mut look): (Option<Instant>, u64) = (None, 0);
    while crew.0.iter().any(|stage| stage.ended.is_none()) {
        look += 1;
        for stage in &mut crew.0 {
            if stage.ended.is_none() {
                stage.look = look;
                let ended = stage.child.try_wait();
                stage.ended = ended.map_err(|cause| {
                    Error::question(format!("cannot wait for the processes: {cause}"))
                })?;
            }
        }
        if crew.0.iter().enumerate().any(has_failed) {
            let since = *failed.get_or_insert_with(Instant::now);
            if since.elapsed() > GRACE {
                break;
            }
        }
        std::thread::sleep(LOOK);
        // Children that a Ctrl-C ended before they left it to this process are not a failure.
        let lacks = |one: (usize, &Stage)| one.1.ended.is_none() || has_failed(one);
        if crew.0.iter().enumerate().any(lacks) && interrupt::asked() {
            drop(crew);
            messages::note(INTERRUPTED);
            return Ok(Verdict::Done);
        }
    }
    conclude(crew)
}

/// Whether the process of a stage has failed. The first may end with 1: a check failed.
fn has_failed((rank, stage): (usize, &Stage)) -> bool {
    let fine = |code: Option<i32>| code == Some(0) || (rank == 0 && code == Some(1));
    stage.ended.is_some_and(|status| !fine(status.code()))
}

fn start(
    role: &'static str,
    rank: usize,
    stages: usize,
    port: u16,
    token: &OsString,
) -> Result<Stage, Error> {
    let fail = |cause: std::io::Error| {
        Error::question(format!("cannot start a process for {role} {rank}: {cause}"))
    };
    let arguments = std::env::args_os().skip(1).filter(|one| one != "--processes");
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["SLURM_", "OMPI_", "TORCHELASTIC_"].iter().any(|other| name.starts_with(other)) {
            command.env_remove(&*name);
        }
    }
    command
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", stages.to_string())
        .env("LOCAL_RANK", rank.to_string())
        .env("MASTER_ADDR", "127.0.0.1")
        .env("MASTER_PORT", port.to_string())
        .env(TOKEN, token)
        .env(LIFELINE, "1")
        .stdin(Stdio::piped())
        .stdout(if rank == 0 { Stdio::inherit() } else { Stdio::null() })
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(fail)?;
    let words = child.stderr.take().map(|mut stderr| {
        std::thread::spawn(move || {
            let mut words = Vec::new();
            // Bytes that cannot be read are not shown; the rest is drained from the pipe.
            let _ = stderr.by_ref().take(MAX_WORDS).read_to_end(&mut words);
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            String::from_utf8_lossy(&words).into_owned()
        })
    });
    Ok(Stage { child, words, ended: None, look: 0, role })
}

/// The verdict on the run. Of the processes that failed, one that a signal ended comes first, then the
/// one that ended first: the rest report its consequences.
fn conclude(mut crew: Crew) -> Result<Verdict, Error> {
    for stage in &mut crew.0 {
        // None is to write on; one that has ended cannot be killed, which is just as well.
        let _ = stage.child.kill();
    }
    let mut failed: Vec<usize> =
        (0..crew.0.len()).filter(|&rank| has_failed((rank, &crew.0[rank]))).collect();
    failed.sort_by_key(|&rank| {
        let stage = &crew.0[rank];
        (stage.ended.is_some_and(|status| status.code().is_some()), stage.look)
    });
    let messages = failed.iter().take(SHOWN).map(|&rank| crew.0[rank].message(rank));
    let messages = messages.collect::<Vec<_>>();
    if messages.is_empty() {
        messages::print(&crew.0[0].said().to_string());
        let missed = crew.0[0].ended.is_some_and(|status| status.code() == Some(1));
        return Ok(if missed { Verdict::Missed } else { Verdict::Done });
    }
    Err(Error::question(messages.join("; ")))
}

impl Stage {
    /// All it said.
    fn said(&mut self) -> String {
        self.words.take().and_then(|words| words.join().ok()).unwrap_or_default()
    }

    /// Why it failed.
    fn message(&mut self, rank: usize) -> String {
        if let Some(status) = self.ended.filter(|status| status.code().is_none()) {
            return format!("the process of {} {rank} was lost: {status}", self.role);
        }
        let said = self.said();
        let words = said.trim().trim_start_matches("error: ").split_whitespace();
        let said = words.collect::<Vec<_>>().join(" ");
        format!("the process of {} {rank} failed: {said}", self.role)
    }
}
