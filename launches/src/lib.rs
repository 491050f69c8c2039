//! What a launch script would launch, as the machine's own bash reads it.
//!
//! [`record`] has bash run the script in a copy of the machine: namespaces of its own, in which every folder is an overlay
//! whose changes are forgotten, without network, devices, other processes and rights. Launchers are stand-ins there,
//! which record how they are called. The program is the stand-in itself: it calls [`stand_in`] first.

// This crate runs programs, reads files of the disk and of /proc, and is a process of its own in the copy.
#![allow(clippy::disallowed_methods, clippy::exit)]

#[cfg(target_os = "linux")]
mod copy;
#[cfg(target_os = "linux")]
mod names;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod slurm;
#[cfg(target_os = "linux")]
mod stages;
#[cfg(target_os = "linux")]
mod stand_in;
#[cfg(target_os = "linux")]
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;

#[cfg(target_os = "linux")]
pub use self::record::record;

/// How a script is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Variables of the environment besides `PATH`, `HOME` and `USER` of the caller.
    pub environment: Vec<(String, String)>,
    /// Nodes of the job, over those that the script asks for.
    pub nodes: Option<u64>,
    /// GPUs of a node, over those that the script asks for.
    pub gpus_per_node: Option<u64>,
    /// Seconds after which all processes of the script are ended.
    pub seconds: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { environment: Vec::new(), nodes: None, gpus_per_node: None, seconds: 20 }
    }
}

/// A command that would launch a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Its words, the program first.
    pub words: Vec<String>,
    /// Its working directory.
    pub folder: PathBuf,
    /// Its environment. It may have secrets that the script reads: look variables up by name.
    pub environment: BTreeMap<String, String>,
}

/// What a script did.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its launches, in order.
    pub launches: Vec<Launch>,
    /// Commands, folders and files that this machine does not have.
    pub missing: Vec<String>,
    /// Paths that the copy has and the machine does not: launchers, and folders of files that are written.
    pub made: Vec<PathBuf>,
    /// Whether `set -e` was not in effect, for it launches nothing where it does.
    pub without_set_e: bool,
    /// Its exit code, or why it was ended.
    pub ended: Result<i32, String>,
    /// Its output and its messages.
    pub output: String,
}

/// Why a script is not run.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What is wrong.
    pub message: String,
    /// What helps.
    pub help: &'static str,
}

/// Acts as the stand-in where this process is one, and does not return then.
pub fn stand_in() {
    #[cfg(target_os = "linux")]
    stages::act();
}

/// Runs `script` with `arguments` and records its launches.
#[cfg(not(target_os = "linux"))]
pub fn record(
    _script: &std::path::Path,
    _arguments: &[String],
    _options: &Options,
) -> Result<Recording, Refused> {
    let message = "a script is run on Linux only, in namespaces of its kernel".to_owned();
    Err(Refused { message, help: "run it there, or give the log of the run" })
}
