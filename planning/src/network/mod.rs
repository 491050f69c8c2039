//! The network as its operator measured it: the output of nccl-tests or rccl-tests, or a table of bandwidths, and the
//! rates of a machine that follow from it.

mod collective;
mod constants;
mod fitted;
mod line;
mod log;
mod table;

use std::path::Path;

use plan::Machine;
use question::diagnostic::Diagnostic;
use question::host::Context;
use question::quote;

pub use self::collective::Collective;
pub use self::fitted::{Fitted, Kept, Network};

/// The largest file.
const MAX_FILE: u64 = 16 << 20;
/// The most sizes of a file: the fit is quadratic in their number.
const MAX_POINTS: usize = 2048;
/// The most ranks of a run.
const MAX_RANKS: u64 = 1 << 17;

/// One time of a collective.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// The size as the benchmark counts it.
    pub bytes: u64,
    pub seconds: f64,
}

/// A run of one collective over sizes.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    pub collective: Collective,
    pub ranks: u64,
    pub nodes: u64,
    /// The type of its devices, as the log has it.
    pub device: Option<String>,
    /// The line of the file in which it begins, from 1.
    pub line: usize,
    /// Out of place and in place, in the order of the file.
    pub points: Vec<Point>,
}

/// An error in a line of a file.
struct Fault {
    line: usize,
    message: String,
    help: Option<String>,
}

impl Fault {
    fn at(line: usize, message: String) -> Self {
        Self { line, message, help: None }
    }

    fn cured(self, help: &str) -> Self {
        Self { help: Some(help.to_owned()), ..self }
    }
}

/// The runs in the file at `path`.
pub fn runs(context: &Context<'_>, path: &Path) -> Result<Vec<Run>, Diagnostic> {
    let text = context.read_text(path, MAX_FILE)?;
    let read = match (table::is_table(&text), log::is_log(&text)) {
        (true, _) => table::read(&text),
        (false, true) => log::read(&text),
        (false, false) => {
            let cause =
                "it is neither the output of nccl-tests or rccl-tests nor a table of bandwidths";
            let cure = "such as `all_reduce_perf -b 8 -e 8G -f 2 -g 1 > nccl.log` over all nodes, or a CSV with \
                        columns collective, ranks, nodes, bytes, busbw";
            return Err(Diagnostic::unreadable(path, cause).with_help(cure));
        }
    };
    let runs = read.map_err(|fault| {
        let start =
            text.split_inclusive('\n').take(fault.line.saturating_sub(1)).map(str::len).sum();
        let length = text.get(start..).and_then(|rest| rest.lines().next()).map_or(0, str::len);
        let error = Diagnostic::at(path, &text, Some(start..start + length), fault.message);
        fault.help.into_iter().fold(error, Diagnostic::with_help)
    })?;
    if runs.is_empty() {
        let cause = "it has no sizes with their times: was the run cut short?";
        return Err(Diagnostic::unreadable(path, cause));
    }
    Ok(runs)
}

/// `machine` with the rates that the file at `path` has, and what they are.
pub fn measured(
    context: &Context<'_>,
    path: &Path,
    machine: &Machine,
) -> Result<(Machine, Network), Diagnostic> {
    let runs = runs(context, path)?;
    let file = path
        .file_name()
        .map_or_else(|| quote::path(path), |name| quote::clip(&name.to_string_lossy()));
    let measured = constants::replaced(&file, &runs, machine).map_err(|message| {
        let cure = "measure with all devices of each node, or describe your node in a machine file: per-node, link, network";
        Diagnostic::unreadable(path, &message).with_help(cure)
    })?;
    if let Some(device) = measured.1.devices.iter().find(|one| is_of_another(one, &machine.name)) {
        let name = quote::clip(&machine.name);
        context.warn(format!("{file} was measured on {device}, and the machine is {name}"));
    }
    Ok(measured)
}

/// Whether the name of `device` has the name of another built-in machine, and not that of `machine`, which is built in.
fn is_of_another(device: &str, machine: &str) -> bool {
    let chip = |name: &'static str| name.split(['-', '.']).next().unwrap_or_default();
    let device = device.to_ascii_lowercase();
    let chips: Vec<&str> = scenarios::MACHINES.names().map(chip).collect();
    let own = machine.split('-').next().unwrap_or_default();
    chips.contains(&own) && !device.contains(own) && chips.iter().any(|chip| device.contains(chip))
}

#[cfg(test)]
mod tests;
