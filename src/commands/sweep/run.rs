//! Answers the questions of a sweep on all threads, round by round.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use sim::Replay;

use crate::commands::note;
use crate::error::Error;
use crate::progress;
use crate::sweep::grid::Grid;
use crate::sweep::journal::Journal;
use crate::sweep::row;
use crate::sweep::shard::{self, Identity, Shard};

/// How long a round shall last: what is lost at most when the process is killed.
const ROUND: Duration = Duration::from_millis(400);
/// The most questions of a round, which bounds the memory it takes.
const MAX_ROUND: u64 = 1 << 16;

/// The whole as its only part.
const WHOLE: Shard = Shard { number: 1, of: 1 };

/// Writes the rows of `shard`, or all, into `out`, and says which they are.
pub(super) fn rows(grid: &Grid, shard: Option<Shard>, out: &Path) -> Result<Range<u64>, Error> {
    let range = shard.unwrap_or(WHOLE).range(grid.questions);
    let identity = Identity::of(grid, shard.unwrap_or(WHOLE)).to_string();
    let mut journal = Journal::open(out, &identity)?;
    let total = range.end - range.start;
    if journal.rows > total {
        return Err(Error::question(format!("{}.partial has too many rows", out.display())));
    }
    if journal.rows > 0 {
        note(&format!("{} of {total} questions were answered before", journal.rows));
    }
    let bar = progress::rated_bar(total, journal.rows, "questions");
    let mut round = 64;
    while journal.rows < total {
        let begun = Instant::now();
        let first = range.start + journal.rows;
        let count = round.min(total - journal.rows);
        let bytes = answers(grid, first..first + count);
        journal.add(count, &bytes)?;
        bar.inc(count);
        round = match begun.elapsed() {
            time if time < ROUND / 2 => (round * 2).min(MAX_ROUND),
            time if time > ROUND => (round / 2).max(1),
            _ => round,
        };
    }
    bar.finish_and_clear();
    let header = row::header(grid);
    match shard {
        None => journal.finish(out, &header, |_| String::new())?,
        Some(_) => {
            let head = [identity.as_bytes(), b"\n", &header].concat();
            journal.finish(out, &head, shard::last_line)?;
        }
    }
    Ok(range)
}

/// The rows of `questions`, one after the other.
fn answers(grid: &Grid, questions: Range<u64>) -> Vec<u8> {
    let rows = questions
        .into_par_iter()
        .map_init(Replay::new, |replay, index| row::answer(grid, index, replay));
    rows.fold(Vec::new, |all, row| join(all, &row)).reduce(Vec::new, |all, rows| match all.len() {
        0 => rows,
        _ => join(all, &rows),
    })
}

fn join(mut all: Vec<u8>, more: &[u8]) -> Vec<u8> {
    all.extend_from_slice(more);
    all
}
