//! Merges the shards of a sweep into the file of the whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::slice;

use super::run::write_csv;
use crate::error::Error;
use crate::sweep::journal::Journal;
use crate::sweep::parquet;
use question::Diagnostic;
use question::sweep::Checksum;
use question::sweep::shard::{self, Identity};

/// One shard, checked whole.
struct Part {
    path: PathBuf,
    identity: Identity,
    header: Vec<u8>,
}

/// Merges `shards`, in any order, into `out`.
pub(crate) fn merge(shards: &[PathBuf], out: &Path) -> Result<usize, Error> {
    let mut parts = shards.iter().map(|path| check(path)).collect::<Result<Vec<_>, _>>()?;
    parts.sort_by_key(|part| part.identity.shard.number);
    let Some(first) = parts.first() else { return Err(Error::question("no shard is named")) };
    for part in &parts {
        if !part.identity.is_sibling(&first.identity) || part.header != first.header {
            let (one, other) = (part.path.display(), first.path.display());
            let message =
                format!("{one} is not of the same sweep, division and version as {other}");
            let cure = format!("they begin with `{}` and `{}`", part.identity, first.identity);
            return Err(Error::question(message).with_help(cure));
        }
    }
    for pair in parts.windows(2) {
        if pair[0].identity.shard == pair[1].identity.shard {
            let (shard, one, other) =
                (pair[0].identity.shard, pair[0].path.display(), pair[1].path.display());
            return Err(Error::question(format!("shard {shard} comes twice: {one} and {other}")));
        }
    }
    let of = first.identity.shard.of;
    let here = |number: &u64| parts.iter().any(|part| part.identity.shard.number == *number);
    let missing = (1..=of).filter(|number| !here(number)).take(20);
    let missing: Vec<String> = missing.map(|number| format!("{number}/{of}")).collect();
    if !missing.is_empty() {
        return Err(Error::question(format!("missing: shard {}", missing.join(", "))));
    }
    // The journal of nothing keeps other processes off the output.
    let journal = Journal::open(out, &format!("# debubble merge of {}", first.identity))?;
    let rows = || Rows { parts: parts.iter(), lines: None, at: 0 };
    let written = journal.publish(out, |file| match parquet::is_named(out) {
        true => parquet::write(file, &first.header, || Ok(rows())),
        false => write_csv(file, &first.header, rows(), |_| String::new()),
    });
    journal.end()?;
    written.map(|()| parts.len())
}

/// Reads the whole shard in `path`, and checks that it is one.
fn check(path: &Path) -> Result<Part, Error> {
    let fail = |cause: String| Error::from(Diagnostic::unreadable(path, &cause));
    let mut lines = Lines::open(path).map_err(|cause| fail(cause.to_string()))?;
    let (mut header, mut identity, mut rows) = (Vec::new(), None::<Identity>, 0u64);
    let mut checksum = Checksum::default();
    let mut ended = false;
    while lines.next().map_err(|cause| fail(cause.to_string()))? {
        let text = || String::from_utf8_lossy(&lines.line);
        match &identity {
            None => {
                let first = text().trim_end().parse();
                identity =
                    Some(first.map_err(|()| fail("it is not a shard of a sweep".to_owned()))?);
            }
            Some(_) if header.is_empty() => header.clone_from(&lines.line),
            Some(_) if ended => return Err(fail("something follows its last line".to_owned())),
            Some(_) if text() == shard::last_line(checksum.value()) => ended = true,
            Some(_) => rows += 1,
        }
        checksum.add(&lines.line);
    }
    let identity = identity.ok_or_else(|| fail("it is empty".to_owned()))?;
    let range = identity.shard.range(identity.questions);
    if !ended || rows != range.end - range.start {
        return Err(fail("the shard is damaged or not complete".to_owned()));
    }
    Ok(Part { path: path.to_owned(), identity, header })
}

/// The rows of all shards, one after the other: the lines between their first two and their last one.
struct Rows<'a> {
    parts: slice::Iter<'a, Part>,
    lines: Option<Lines>,
    /// The part of the line that was read.
    at: usize,
}

impl Rows<'_> {
    /// Goes to the next row of any shard, and says whether there is one.
    fn next(&mut self) -> io::Result<bool> {
        self.at = 0;
        loop {
            if let Some(lines) = &mut self.lines {
                while lines.next()? {
                    if !lines.line.starts_with(b"#") {
                        return Ok(true);
                    }
                }
            }
            let Some(part) = self.parts.next() else { return Ok(false) };
            let mut lines = Lines::open(&part.path)?;
            // Which shard it is, and the names of the columns.
            lines.next()?;
            lines.next()?;
            lines.line.clear();
            self.lines = Some(lines);
        }
    }
}

impl Read for Rows<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read_all = self.lines.as_ref().is_none_or(|lines| self.at == lines.line.len());
        if read_all && !self.next()? {
            return Ok(0);
        }
        let Some(lines) = &self.lines else { return Ok(0) };
        let rest = &lines.line[self.at..];
        let length = into.len().min(rest.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

/// The lines of a file, one at a time.
struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    /// The longest line that a sweep writes, by far.
    const MOST: u64 = 1 << 20;

    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { reader: BufReader::new(File::open(path)?), line: Vec::new() })
    }

    /// Goes to the next line, and says whether there is one.
    fn next(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut part = io::Read::take(&mut self.reader, Self::MOST);
        Ok(part.read_until(b'\n', &mut self.line)? > 0)
    }
}
