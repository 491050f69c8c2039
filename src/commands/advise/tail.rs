//! The lines that a growing file gets.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use question::Diagnostic;

/// The most bytes that are read at a time.
const PIECE: u64 = 1 << 20;
/// The longest line that is kept: of a longer one the start.
const LONGEST: usize = 1 << 16;

/// A file that grows. It is open only while it is read.
pub(super) struct Tail {
    path: PathBuf,
    /// Bytes that were read.
    read: u64,
    /// A line without its end.
    open: Vec<u8>,
}

impl Tail {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: 0, open: Vec::new() }
    }

    /// The lines that have come since the last call: at most a mebibyte of them. A file that is shorter than before is
    /// read from its start.
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

    fn bytes(&mut self) -> std::io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() < self.read {
            self.read = 0;
            self.open.clear();
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        self.read += file.take(PIECE).read_to_end(&mut bytes)? as u64;
        Ok(bytes)
    }
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
        // A new log in place of the old one.
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
}
