//! Answers the questions of a sweep on all threads, round by round, while the last is written.

use std::io::{self, BufReader, BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use answer::sweep::in_rounds;
use question::Context;
use question::sweep::Checksum;
use question::sweep::grid::Grid;
use question::sweep::shard::{self, Identity, Shard};

use crate::commands::note;
use crate::error::Error;
use crate::interrupt;
use crate::progress::{self, Progress};
use crate::sweep::journal::Journal;
use crate::sweep::{parquet, preflight};

/// The whole as its only part.
const WHOLE: Shard = Shard { number: 1, of: 1 };

/// Rows with a journal of them that is not ended yet.
pub(super) struct Answered {
    /// Which rows they are.
    pub range: Range<u64>,
    pub journal: Journal,
    header: Vec<u8>,
    /// The first line of the file of a shard.
    first_line: Option<String>,
}

/// Answers the questions of `shard`, or all, into the journal of `out`; after a Ctrl-C no more.
pub(super) fn answer(
    context: &Context<'_>,
    grid: &Grid,
    shard: Option<Shard>,
    out: &Path,
) -> Result<Answered, Error> {
    let range = shard.unwrap_or(WHOLE).range(grid.questions);
    let identity = Identity::of(grid, shard.unwrap_or(WHOLE)).to_string();
    let columns = grid.columns();
    let header = columns.header();
    let mut journal = Journal::open(out, &identity)?;
    let total = range.end - range.start;
    if journal.rows > total {
        return Err(Error::question(format!("{}.partial has too many rows", out.display())));
    }
    let done = if journal.rows == 0 { 0 } else { journal.bytes() };
    let room = preflight::check_room(out, total, columns.count(), done);
    if let Err(error) = room {
        return Err(if journal.rows == 0 { journal.end().err().unwrap_or(error) } else { error });
    }
    if journal.rows > 0 {
        note(&format!("{} of {total} questions were answered before", journal.rows));
    }
    interrupt::listen();
    let bar = progress::rated_bar(total, journal.rows, "questions");
    let rest = range.start + journal.rows..range.end;
    thread::scope(|scope| {
        let (sender, blocks) = mpsc::sync_channel::<Block>(1);
        let (journal, bar) = (&mut journal, &bar);
        let writer = scope.spawn(move || write_blocks(journal, &blocks, bar));
        in_rounds(context, grid, &columns, rest, |count, rows| sender.send((count, rows)).is_ok());
        drop(sender);
        writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    bar.finish_and_clear();
    Ok(Answered { range, journal, header, first_line: shard.map(|_| identity) })
}

/// How many rows, and the rows in order.
type Block = (u64, Vec<Vec<u8>>);

fn write_blocks(
    journal: &mut Journal,
    blocks: &mpsc::Receiver<Block>,
    bar: &Progress,
) -> Result<(), Error> {
    blocks.iter().try_for_each(|(count, rows)| {
        journal.add(count, &rows)?;
        bar.inc(count);
        Ok(())
    })
}

impl Answered {
    /// Writes the rows into `out`, in the form that its name says.
    pub(super) fn publish(&self, out: &Path) -> Result<(), Error> {
        let Self { journal, header, first_line, .. } = self;
        journal.publish(out, |file| match first_line {
            None if parquet::is_named(out) => parquet::write(file, header, || journal.reader()),
            None => write_csv(file, header, journal.reader()?, |_| String::new()),
            Some(first) => {
                let head = [first.as_bytes(), b"\n", header].concat();
                write_csv(file, &head, journal.reader()?, shard::last_line)
            }
        })
    }

    /// The rows with their names, as CSV.
    pub(super) fn csv(&self) -> io::Result<impl io::Read> {
        Ok(io::Read::chain(&self.header[..], self.journal.reader()?))
    }
}

/// Writes `head`, `rows`, and the foot that `foot` makes of the checksum of both.
pub(super) fn write_csv(
    file: impl Write,
    head: &[u8],
    rows: impl io::Read,
    foot: impl FnOnce(u64) -> String,
) -> io::Result<()> {
    let (mut out, mut rows) = (BufWriter::new(file), BufReader::with_capacity(1 << 16, rows));
    let mut checksum = Checksum::default();
    out.write_all(head)?;
    checksum.add(head);
    loop {
        let part = io::BufRead::fill_buf(&mut rows)?;
        if part.is_empty() {
            break;
        }
        let length = part.len();
        out.write_all(part)?;
        checksum.add(part);
        io::BufRead::consume(&mut rows, length);
    }
    out.write_all(foot(checksum.value()).as_bytes())?;
    out.flush()
}
