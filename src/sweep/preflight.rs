//! What is found out before a sweep runs: that it has answers, and that there is room for them.

use std::path::Path;

use pipeline::Bytes;

use super::grid::Grid;
use crate::error::Error;
use crate::format;
use question::case;

/// The most questions that are tried; with more, some may have an answer.
const MOST_TRIED: u64 = 2_000;

/// Refuses a sweep none of whose questions has an answer.
///
/// # Errors
/// That of the first question.
pub fn check_answers(grid: &Grid) -> Result<(), Error> {
    let attempt = |index| {
        let question = grid.question(index)?;
        case::try_out(&grid.scenario, &question.setting, question.rule)
    };
    let Err(first) = attempt(0) else { return Ok(()) };
    if grid.questions > MOST_TRIED || (1..grid.questions).any(|index| attempt(index).is_ok()) {
        return Ok(());
    }
    Err(match first {
        Error::Question { message, help, key } => {
            let message = format!("no question of the sweep has an answer. The first: {message}");
            Error::Question { message, help, key }
        }
        other => other,
    })
}

/// Refuses `questions` rows of `columns` columns for which the disk of `out` has no room, `done`
/// bytes of which are there from an earlier run.
pub fn check_room(out: &Path, questions: u64, columns: usize, done: u64) -> Result<(), Error> {
    // No row is shorter, and there are two of each at the end: in the journal and in the file.
    const SHORTEST: u64 = 50;
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Some(free) = free(folder.unwrap_or(Path::new("."))) else { return Ok(()) };
    let needed = questions.saturating_mul(SHORTEST + columns as u64).saturating_mul(2);
    let needed = needed.saturating_sub(done);
    if needed <= free {
        return Ok(());
    }
    let [needed, free] = [needed, free].map(|bytes| format::size(Bytes(bytes)));
    let message = format!(
        "{questions} rows take {needed} or more while they are written, and the disk of {} has {free}",
        out.display()
    );
    Err(Error::question(message).with_help(match done {
        0 => "sweep in shards onto several disks, or ask less",
        _ => "what is answered is kept: make room, and run the same command again",
    }))
}

/// Bytes that are free where `folder` lies, if the system says.
#[cfg(unix)]
fn free(folder: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(folder).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}
