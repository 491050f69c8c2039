//! One process at a time writes a file.
//!
//! The lock is that of the system on the file beside the output, and ends with the process, however
//! that ends. The line in the file that says who holds it is for people alone.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process;

use crate::error::Error;

/// Length of the line that says who holds a file, filled up with spaces.
pub const HOLDER: usize = 96;

/// Opens `path`, made if need be, for this process alone, until it is closed.
///
/// # Errors
/// If another process has it, or it cannot be written.
pub fn open(path: &Path) -> Result<File, Error> {
    let fail = |cause: io::Error| Error::write(path, &cause);
    loop {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(path, &file)),
            Err(TryLockError::Error(cause)) => return Err(fail(cause)),
        }
        // Who had it before may have removed it between our opening and locking.
        if is_still(path, &file).map_err(fail)? {
            return Ok(file);
        }
    }
}

/// Writes who holds `file` as a line that begins at `at`.
pub fn sign(mut file: &File, at: u64) -> io::Result<()> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname");
    let host = host.or_else(|_| std::env::var("HOSTNAME").map_err(io::Error::other));
    let host = host.unwrap_or_else(|_| "this machine".to_owned());
    let text = format!("# held by process {} on {}", process::id(), host.trim());
    let cut: String = text.chars().filter(char::is_ascii).take(HOLDER - 1).collect();
    file.seek(SeekFrom::Start(at))?;
    file.write_all(format!("{cut:<width$}\n", width = HOLDER - 1).as_bytes())
}

fn held(path: &Path, file: &File) -> Error {
    let mut text = Vec::new();
    let read = file.take(4096).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let signed = text.lines().take(2).find_map(|line| line.strip_prefix("# held by "));
    let who = signed.filter(|_| read.is_ok()).map_or("another process", str::trim);
    Error::question(format!("{} is being written by {who}", path.display()))
        .with_help("wait until it is done, end it, or choose another --out")
}

#[cfg(unix)]
fn is_still(path: &Path, file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file that is open cannot be removed elsewhere.
#[cfg(not(unix))]
fn is_still(_: &Path, _: &File) -> io::Result<bool> {
    Ok(true)
}
