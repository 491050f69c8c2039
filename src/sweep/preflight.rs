//! Whether the disk has room for the rows of a sweep, before it runs.

use std::path::Path;

use pipeline::Bytes;
use question::format;

use crate::error::Error;

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

/// Free bytes on the disk of `folder`, if the system reports them.
#[cfg(unix)]
fn free(folder: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(folder).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}
