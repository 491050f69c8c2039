//! The journal of a sweep: the rows written so far, in a file that survives being killed at any
//! moment.
//!
//! The journal is a line that names the sweep, a line that names the process at work, then blocks:
//! rows, how many, how long, and a checksum of both. What follows the last whole block was being written
//! when the process died; it is cut off, and the sweep goes on from there.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use question::sweep::Checksum;

use super::lock;
use crate::error::Error;
use crate::files;

/// How long rows may be in memory of the system alone.
const SYNC: Duration = Duration::from_secs(1);
/// The longest block and the longest first line; more is damage.
const MAX_BLOCK: u64 = 1 << 30;
/// The form of the blocks; a journal of another one is refused.
const FORMAT: u32 = 2;
/// Bytes before the rows of a block: how many bytes, how many rows, the checksum.
const HEAD: usize = 24;

/// A journal that is open for more, by this process alone.
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Rows in whole blocks.
    pub rows: u64,
    begin: u64,
    end: u64,
    synced: Instant,
}

/// The journal of the output `out`.
fn beside(out: &Path, extension: &str) -> PathBuf {
    let mut path = out.as_os_str().to_owned();
    path.push(extension);
    path.into()
}

impl Journal {
    /// Opens the journal of `out`, or begins it. `identity` is the line that names the sweep: a
    /// journal with another one is refused, and so is one that another process writes.
    pub fn open(out: &Path, identity: &str) -> Result<Self, Error> {
        let path = beside(out, ".partial");
        files::check_folder(&path)?;
        let file = lock::open(&path)?;
        let line = format!("{identity} journal {FORMAT}\n");
        let begin = (line.len() + lock::HOLDER) as u64;
        let mut journal = Self { path, file, rows: 0, begin, end: begin, synced: Instant::now() };
        journal.recover(line.as_bytes()).map_err(|cause| journal.full(&cause))?.map_err(
            |found| {
                let message = format!("{} is of another sweep or version", journal.path.display());
                let cure = format!(
                    "it begins with `{found}`, not `{}`: remove it, or choose another --out",
                    line.trim_end()
                );
                Error::question(message).with_help(cure)
            },
        )?;
        Ok(journal)
    }

    /// Finds the end of the last whole block, and cuts off the rest. An inner `Err` is the first line
    /// of another sweep.
    fn recover(&mut self, line: &[u8]) -> io::Result<Result<(), String>> {
        let mut found = vec![0; line.len()];
        let mut reader = BufReader::new(&self.file);
        let length = read_some(&mut reader, &mut found)?;
        if !line.starts_with(&found[..length]) {
            let first = found[..length].split(|byte| *byte == b'\n').next().unwrap_or_default();
            return Ok(Err(String::from_utf8_lossy(first).into_owned()));
        }
        if length == line.len() {
            reader.seek(SeekFrom::Start(self.begin))?;
            while let Some((rows, bytes)) = read_block(&mut reader)? {
                self.rows = self.rows.saturating_add(rows);
                self.end += HEAD as u64 + bytes.len() as u64;
            }
        } else {
            self.file.set_len(0)?;
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(line)?;
        }
        lock::sign(&self.file, line.len() as u64)?;
        self.file.set_len(self.end)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        Ok(Ok(()))
    }

    /// How long it is, in bytes.
    pub const fn bytes(&self) -> u64 {
        self.end
    }

    /// Adds `rows` rows, in `pieces` one after the other.
    pub fn add(&mut self, rows: u64, pieces: &[Vec<u8>]) -> Result<(), Error> {
        let length = pieces.iter().map(Vec::len).sum::<usize>();
        let mut block = Vec::with_capacity(HEAD + length);
        block.extend((length as u64).to_le_bytes());
        block.extend(rows.to_le_bytes());
        block.extend(seal(rows, pieces).to_le_bytes());
        pieces.iter().for_each(|piece| block.extend(piece));
        self.file.write_all(&block).map_err(|cause| self.full(&cause))?;
        self.rows += rows;
        self.end += block.len() as u64;
        if self.synced.elapsed() > SYNC {
            self.file.sync_data().map_err(|cause| self.full(&cause))?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    /// All rows, from the first.
    pub fn reader(&self) -> io::Result<Rows<'_>> {
        let mut reader = BufReader::new(&self.file);
        reader.seek(SeekFrom::Start(self.begin))?;
        Ok(Rows { reader, block: Vec::new(), at: 0, left: self.rows })
    }

    /// Lets `write` fill `out`: it is there whole or not at all.
    pub fn publish(
        &self,
        out: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), Error> {
        let whole = beside(out, ".new");
        let create = || {
            let mut file = File::create(&whole)?;
            write(&mut file)?;
            file.sync_all()?;
            fs::rename(&whole, out)
        };
        create().map_err(|cause| {
            // The rows are in the journal; half a copy only takes room.
            drop(fs::remove_file(&whole));
            drop(self.file.sync_data());
            Error::write(out, &kept(&cause))
        })
    }

    /// Ends the journal: the sweep is complete.
    pub fn end(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(|cause| self.full(&cause))
    }

    fn full(&self, cause: &io::Error) -> Error {
        Error::write(&self.path, &kept(cause))
    }
}

/// The rows of a journal, block by block.
pub struct Rows<'a> {
    reader: BufReader<&'a File>,
    block: Vec<u8>,
    at: usize,
    left: u64,
}

impl Read for Rows<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            let Some((rows, bytes)) = read_block(&mut self.reader)? else {
                return match self.left {
                    0 => Ok(0),
                    _ => Err(io::Error::other("the journal was changed by another process")),
                };
            };
            (self.block, self.at, self.left) = (bytes, 0, self.left.saturating_sub(rows));
        }
        let length = into.len().min(self.block.len() - self.at);
        into[..length].copy_from_slice(&self.block[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

/// The same, and that nothing is lost.
fn kept(cause: &io::Error) -> io::Error {
    let message = format!(
        "{cause}. All complete rows are kept: run the same command again and it goes on from there"
    );
    io::Error::new(cause.kind(), message)
}

/// Reads as much of `into` as there is.
fn read_some(reader: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut bytes = Vec::new();
    reader.take(into.len() as u64).read_to_end(&mut bytes)?;
    into[..bytes.len()].copy_from_slice(&bytes);
    Ok(bytes.len())
}

/// The rows of the next block, and how many; `None` where no whole one follows.
fn read_block(reader: &mut impl Read) -> io::Result<Option<(u64, Vec<u8>)>> {
    let mut head = [0; HEAD];
    if read_some(reader, &mut head)? < HEAD {
        return Ok(None);
    }
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let (length, rows, checksum) = (number(0), number(8), number(16));
    if length > MAX_BLOCK {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    reader.take(length).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() as u64 == length;
    let is_sealed = is_whole && seal(rows, std::slice::from_ref(&bytes)) == checksum;
    Ok(is_sealed.then_some((rows, bytes)))
}

/// The checksum of a block of `rows` rows, which are `pieces`: going on from a wrong count would leave
/// out questions.
fn seal(rows: u64, pieces: &[Vec<u8>]) -> u64 {
    let mut checksum = Checksum::default();
    checksum.add(&rows.to_le_bytes());
    pieces.iter().for_each(|piece| checksum.add(piece));
    checksum.value()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A block whose count of rows was changed is damage, as one whose rows were.
    #[test]
    fn counts_of_rows_are_under_the_checksum() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let out = folder.path().join("rows.csv");
        let mut journal = Journal::open(&out, "a sweep").expect("it is new");
        for block in ["a,1\nb,2\n", "c,3\nd,4\ne,5\n"] {
            journal.add(block.lines().count() as u64, &[block.into()]).expect("there is room");
        }
        let (begin, end) = (journal.begin, journal.end);
        drop(journal);
        let kept = |rows: u64, block: u64| {
            let file =
                File::options().write(true).open(beside(&out, ".partial")).expect("it is there");
            file.write_at(&rows.to_le_bytes(), begin + block + 8).expect("it can be written");
            let journal = Journal::open(&out, "a sweep").expect("it is of this sweep");
            (journal.rows, journal.end)
        };
        assert_eq!(kept(2, 0), (5, end));
        let second = HEAD as u64 + 8;
        assert_eq!(kept(u64::MAX, second), (2, begin + second));
        assert_eq!(kept(1, 0), (0, begin));
    }
}
