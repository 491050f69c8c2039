//! Reading files of strangers: never more than a limit, and never a half-read one.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use question::{ReadError, quote};

use crate::memory;

/// The most that a pipe or a device may give: it does not say how much it has before it is read.
const MAX_STREAM: u64 = 64 << 20;

/// How long to wait for a writer of a named pipe.
const WRITER_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens `path`; a named pipe only if a writer opens it within [`WRITER_TIMEOUT`], since nothing else ends
/// the wait for one.
fn open(path: &Path) -> io::Result<File> {
    if !is_named_pipe(path) {
        return File::open(path);
    }
    let (sender, opened) = mpsc::channel();
    let own = path.to_owned();
    // A thread whose pipe has no writer stays until the process ends.
    thread::spawn(move || sender.send(File::open(own)));
    let late = || io::Error::other("it is a pipe without a writer");
    opened.recv_timeout(WRITER_TIMEOUT).map_err(|_| late())?
}

#[cfg(unix)]
fn is_named_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
}

#[cfg(not(unix))]
const fn is_named_pipe(_: &Path) -> bool {
    false
}

/// Reads a file of at most `limit` bytes; a pipe or a device of at most 64 MiB.
///
/// # Errors
/// If there is none, it cannot be read, or it is larger.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let other = |cause: io::Error| ReadError::Other(cause.to_string());
    let file = open(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => ReadError::Missing,
        _ => other(cause),
    })?;
    let metadata = file.metadata().map_err(other)?;
    if metadata.is_dir() {
        return Err(ReadError::Other("it is a folder".to_owned()));
    }
    let limit = if metadata.is_file() { limit } else { limit.min(MAX_STREAM) };
    if metadata.len() > limit {
        return Err(ReadError::TooLarge(limit));
    }
    let cure = "give the process more memory";
    memory::demand(&quote::path(path), metadata.len(), cure).map_err(ReadError::Memory)?;
    let mut bytes = Vec::new();
    // One more, for the end: a growing vector takes up to three times the size of the file.
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX).saturating_add(1);
    bytes.try_reserve_exact(size).map_err(|error| ReadError::Other(error.to_string()))?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(other)?;
    match bytes.len() as u64 > limit {
        true => Err(ReadError::TooLarge(limit)),
        false => Ok(bytes),
    }
}
