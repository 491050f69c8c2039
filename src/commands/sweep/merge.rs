//! Merges the shards of a sweep into the file of the whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::files;
use crate::sweep::Checksum;
use crate::sweep::shard::{self, Identity};

/// One shard, checked whole.
struct Part {
    path: PathBuf,
    identity: Identity,
    header: Vec<u8>,
}

/// Merges `shards`, in any order, into `out`.
pub(super) fn merge(shards: &[PathBuf], out: &Path) -> Result<usize, Error> {
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
    files::write_by(out, |to| {
        to.write_all(&first.header)?;
        parts.iter().try_for_each(|part| copy_rows(&part.path, to))
    })?;
    Ok(parts.len())
}

/// Reads the whole shard in `path`, and checks that it is one.
fn check(path: &Path) -> Result<Part, Error> {
    let fail = |cause: String| Error::Read { path: path.to_owned(), cause };
    let file = File::open(path).map_err(|cause| fail(cause.to_string()))?;
    let mut lines = Lines { reader: BufReader::new(file), line: Vec::new() };
    let (mut header, mut identity, mut rows) = (Vec::new(), None::<Identity>, 0u64);
    let mut checksum = Checksum::default();
    let mut ended = false;
    while lines.next().map_err(|cause| fail(cause.to_string()))? {
        let text = || String::from_utf8_lossy(&lines.line);
        match &identity {
            None => {
                let first = text().trim_end().parse();
                identity = Some(first.map_err(|()| fail("it is no shard of a sweep".to_owned()))?);
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

/// Writes what lies between the first two lines of a shard and its last one.
fn copy_rows(path: &Path, to: &mut dyn Write) -> io::Result<()> {
    let mut lines = Lines { reader: BufReader::new(File::open(path)?), line: Vec::new() };
    let mut number = 0u64;
    while lines.next()? {
        if number >= 2 && !lines.line.starts_with(b"#") {
            to.write_all(&lines.line)?;
        }
        number += 1;
    }
    Ok(())
}

/// The lines of a file, one at a time.
struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    /// The longest line that a sweep writes, by far.
    const MOST: u64 = 1 << 20;

    /// Goes to the next line, and says whether there is one.
    fn next(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut part = io::Read::take(&mut self.reader, Self::MOST);
        Ok(part.read_until(b'\n', &mut self.line)? > 0)
    }
}
