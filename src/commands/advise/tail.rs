//! The lines that a growing file gets.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use question::Diagnostic;

/// The most bytes that are read at a time.
const PIECE: u64 = 1 << 20;
/// The longest line that is kept: of a longer one the start.
const LONGEST: usize = 1 << 16;

/// Bytes at the end of those that were read, by which a new file is told.
const LAST: usize = 256;

/// A file that grows. It is open only while it is read; a pipe or a device is read by a thread, which may wait for it.
pub(super) struct Tail {
    path: PathBuf,
    /// Bytes that were read, and the last of them.
    read: u64,
    last: Vec<u8>,
    /// A line without its end.
    open: Vec<u8>,
    stream: Option<Receiver<io::Result<Vec<u8>>>>,
}

impl Tail {
    pub(super) fn new(path: &Path) -> Self {
        let stream = is_stream(path).then(|| stream(path.to_owned()));
        Self { path: path.to_owned(), read: 0, last: Vec::new(), open: Vec::new(), stream }
    }

    /// The lines that have come since the last call: at most a mebibyte of them. A file that does not have
    /// what was read last, where it was, is a new one, and is read from its start.
    pub(super) fn lines(&mut self) -> Result<Vec<String>, Diagnostic> {
        let bytes =
            self.bytes().map_err(|error| Diagnostic::unreadable(&self.path, &error.to_string()))?;
        let mut lines = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' => {
                    lines.push(String::from_utf8_lossy(&self.open).into_owned());
                    self.open.clear();
                }
                _ if self.open.len() < LONGEST => self.open.push(byte),
                _ => {}
            }
        }
        Ok(lines)
    }

    fn bytes(&mut self) -> io::Result<Vec<u8>> {
        if let Some(stream) = &self.stream {
            return stream.try_recv().unwrap_or_else(|_| Ok(Vec::new()));
        }
        let mut file = File::open(&self.path)?;
        let mut at = |start: u64| {
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            (&mut file).take(PIECE).read_to_end(&mut bytes).map(|_| bytes)
        };
        let mut bytes = at(self.read - self.last.len() as u64)?;
        match bytes.starts_with(&self.last) {
            true => drop(bytes.drain(..self.last.len())),
            false => {
                (self.read, self.last, self.open) = (0, Vec::new(), Vec::new());
                bytes = at(0)?;
            }
        }
        self.read += bytes.len() as u64;
        self.last.extend(&bytes);
        self.last.drain(..self.last.len().saturating_sub(LAST));
        Ok(bytes)
    }
}

/// Whether `path` is a pipe or a device.
pub(super) fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|one| !one.is_file() && !one.is_dir())
}

/// The pieces of the pipe or the device `path`, until its end. The thread ends with the process at the latest.
fn stream(path: PathBuf) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, pieces) = mpsc::sync_channel(4);
    thread::spawn(move || {
        let mut file = File::open(path);
        loop {
            let mut bytes = vec![0; 1 << 16];
            let read = file.as_mut().map_err(|error| io::Error::other(error.to_string()));
            let piece =
                read.and_then(|file| file.read(&mut bytes)).map(|count| bytes[..count].to_vec());
            let is_end = piece.as_ref().map_or(true, Vec::is_empty);
            if sender.send(piece).is_err() || is_end {
                break;
            }
        }
    });
    pieces
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_come_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "one\ntw").unwrap();
        let mut tail = Tail::new(&path);
        assert_eq!(tail.lines().unwrap(), ["one"]);
        assert!(tail.lines().unwrap().is_empty());
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"o\nthree\n").unwrap();
        assert_eq!(tail.lines().unwrap(), ["two", "three"]);
        // A new log instead of the old one.
        fs::write(&path, "again\n").unwrap();
        assert_eq!(tail.lines().unwrap(), ["again"]);
        fs::write(&path, vec![b'x'; 3 << 20]).unwrap();
        for _ in 0..4 {
            assert!(tail.lines().unwrap().is_empty());
        }
        assert!(tail.open.len() <= LONGEST);
        fs::remove_file(&path).unwrap();
        assert!(tail.lines().is_err());
    }
    #[test]
    fn a_new_file_that_is_longer_is_read_from_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = |run: u32, count: u32| -> String {
            (0..count).map(|at| format!("run {run}, line {at}\n")).collect()
        };
        fs::write(&path, log(1, 100)).unwrap();
        let mut tail = Tail::new(&path);
        assert_eq!(tail.lines().unwrap().len(), 100);
        fs::write(folder.path().join("new"), log(2, 300)).unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(tail.lines().unwrap().len(), 300);
        assert!(tail.lines().unwrap().is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_without_a_writer_blocks_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut tail = Tail::new(&path);
        assert!(tail.lines().unwrap().is_empty());
        fs::write(&path, "one\ntwo\n").unwrap();
        let mut lines = Vec::new();
        for _ in 0..500 {
            lines.extend(tail.lines().unwrap());
            if lines.len() == 2 {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(lines, ["one", "two"]);
    }
}
