//! Sweeps: the answers to a grid of questions, row by row, in the order of their index.

mod block;
pub mod kinds;
pub mod row;

use std::ops::Range;
use std::time::Duration;

use cases::ScheduleSource;
use question::host::announce_estimate;
use question::sweep::columns::Columns;
use question::sweep::grid::{Grid, GridQuestion};
use question::{Context, Diagnostic, Warnings};
use rayon::prelude::*;

/// The most questions that are tried; with more, some may have an answer.
const MOST_TRIED: u64 = 2_000;

/// How long a round of questions shall last, if they are quick, where the host has a clock: what is lost
/// at most when the process is killed, twice.
const ROUND: Duration = Duration::from_millis(400);
/// The questions of a round where the host has no clock.
const UNTIMED: u64 = 1 << 10;
/// The most questions of a round, which bounds the memory it takes.
const MAX_ROUND: u64 = 1 << 15;
/// The most questions of a block, which share orders.
const MAX_BLOCK: u64 = 1 << 11;
/// From so many replicas on, they are run in parallel, not the questions: each takes memory.
const MANY_REPLICAS: u64 = 1_000;

/// The rows of a whole sweep.
pub struct SweepAnswer {
    /// The rows as CSV, under the line of their names.
    pub csv: Vec<u8>,
    /// Number of rows: all of them unless the sweep was stopped.
    pub rows: u64,
    /// Whether the sweep was stopped before the last row.
    pub interrupted: bool,
}

/// Answers every question of `grid` in memory, on all threads. The bytes do not depend on how many there are.
pub fn sweep(context: &Context<'_>, grid: &Grid) -> Result<SweepAnswer, Diagnostic> {
    warn(context, grid)?;
    check_answers(context, grid)?;
    announce(context, grid)?;
    let (rows, done) = part(context, grid, 0..grid.questions);
    let csv = [grid.columns().header(), rows].concat();
    Ok(SweepAnswer { csv, rows: done, interrupted: context.cut_short() })
}

/// The rows of `questions` without the header, and their number: all of them unless the sweep was stopped.
pub fn part(context: &Context<'_>, grid: &Grid, questions: Range<u64>) -> (Vec<u8>, u64) {
    let work = context.host().begin(questions.end.saturating_sub(questions.start), "questions");
    let (mut csv, mut done) = (Vec::new(), 0);
    in_rounds(context, grid, &grid.columns(), questions, |count, rows| {
        csv.extend(rows.concat());
        work.inc(count);
        done += count;
        true
    });
    (csv, done)
}

/// Answers `questions` on all threads in rounds, until `take` returns false or the user stops the
/// sweep. `take` gets the number of rows of a round, and then its rows in pieces.
pub fn in_rounds(
    context: &Context<'_>,
    grid: &Grid,
    columns: &Columns,
    questions: Range<u64>,
    mut take: impl FnMut(u64, Vec<Vec<u8>>) -> bool,
) {
    let in_parallel = grid.most_replicas() < MANY_REPLICAS;
    // Slow questions keep all threads busy all the same.
    let least = if in_parallel { 4 * rayon::current_num_threads() as u64 } else { 1 };
    let is_timed = context.host().clock().is_some();
    let (mut next, mut round) = (questions.start, if is_timed { least } else { UNTIMED });
    while next < questions.end && !context.stopped() {
        let begun = context.host().clock();
        let end = questions.end.min(next + round);
        let made = match in_parallel {
            true => rows(context, grid, columns, next..end),
            false => vec![block::rows(context, grid, columns, next..end)],
        };
        if !take(end - next, made) {
            return;
        }
        next = end;
        let elapsed = context.host().clock().zip(begun).map(|(now, begun)| now - begun);
        round = match elapsed.unwrap_or(ROUND) {
            time if time < ROUND / 2 => (round * 2).min(MAX_ROUND),
            time if time > ROUND => (round / 2).max(least),
            _ => round,
        };
    }
}

/// The rows of `questions` in pieces one after the other, made on all threads.
fn rows(
    context: &Context<'_>,
    grid: &Grid,
    columns: &Columns,
    questions: Range<u64>,
) -> Vec<Vec<u8>> {
    let count = questions.end - questions.start;
    let size = (count / (4 * rayon::current_num_threads() as u64)).clamp(1, MAX_BLOCK);
    let blocks = (0..count.div_ceil(size)).into_par_iter().map(|block| {
        let begin = questions.start + block * size;
        block::rows(context, grid, columns, begin..questions.end.min(begin + size))
    });
    blocks.collect()
}

/// Warns of keys without effect on the answers, judged by the first question and each value in its place.
pub fn warn(context: &Context<'_>, grid: &Grid) -> Result<(), Diagnostic> {
    let mut warnings = Warnings::default();
    for question in grid.samples(context)? {
        warnings.add_assumed(context, &question.setting);
        warnings.add_ignored(&question.setting, question.rule);
        if question.setting.keys.slowdown.is_some() {
            let case = cases::case(context, &grid.scenario, &question.setting, question.rule);
            case.iter().for_each(|case| {
                warnings.add_idle_links(&question.setting, &case.schedule, &case.name);
            });
        }
    }
    warnings.lines().into_iter().for_each(|line| context.warn(line));
    Ok(())
}

/// Refuses a sweep none of whose questions has an answer.
pub fn check_answers(context: &Context<'_>, grid: &Grid) -> Result<(), Diagnostic> {
    let attempt = |index| {
        let question = grid.question(context, index)?;
        cases::try_out(context, &grid.scenario, &question.setting, question.rule)
    };
    let Err(mut first) = attempt(0) else { return Ok(()) };
    if grid.questions > MOST_TRIED || (1..grid.questions).any(|index| attempt(index).is_ok()) {
        return Ok(());
    }
    if first.is_placeless() {
        let message = &first.message;
        first.message = format!("no question of the sweep has an answer. The first: {message}");
    }
    Err(first)
}

/// Announces before the questions are answered that it takes minutes, judged by samples.
pub fn announce(context: &Context<'_>, grid: &Grid) -> Result<(), Diagnostic> {
    const PASSES_PER_SECOND: u64 = 10_000_000;
    let samples = grid.samples(context)?;
    let passes = |question: &GridQuestion<'_>| {
        let passes = 3 * u128::from(cases::forwards(&question.setting, question.rule));
        let replicas = u128::from(question.setting.keys.replicas.unwrap_or(0)) + 1;
        // A search takes its time for every pass.
        let weight = if matches!(question.rule, ScheduleSource::Searched(_)) { 300 } else { 1 };
        passes * replicas * weight
    };
    let all: u128 = samples.iter().map(passes).sum();
    let all = all.saturating_mul(u128::from(grid.questions)) / (samples.len().max(1) as u128);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let what = format!("{} questions", grid.questions);
    announce_estimate(context.host(), all, PASSES_PER_SECOND * cores, &what);
    Ok(())
}
