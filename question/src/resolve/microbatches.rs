//! The work of each microbatch: factors, a file of them, or lengths in tokens.

use std::path::Path;

use pipeline::{MicrobatchWork, Vocabulary, Work};

use super::pipeline::Pipeline;
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::Keys;
use crate::source::ScheduleSource;

/// The largest file of work.
const MAX_FILE: u64 = 16 << 20;
/// Cure for a file without the columns.
const COLUMNS: &str =
    "write the column work, or the columns forward, backward-input and backward-weight";

/// Checks that `rule` can have microbatches of unequal work, if `keys` ask for them.
pub(super) fn check(
    keys: &Keys,
    rule: &ScheduleSource,
    pipeline: &Pipeline,
) -> Result<(), (&'static str, String)> {
    let mut given = keys.of_unequal_microbatches();
    let Some(key) = given.next() else { return Ok(()) };
    if let Some(other) = given.next() {
        return Err((key, format!("{key} and {other} exclude each other")));
    }
    let name = rule.name();
    let why = if keys.has_chain() {
        "passes are given as chains of segments, whose times are those of all microbatches"
            .to_owned()
    } else if pipeline.shape.vocabulary() != Vocabulary::Whole {
        format!("{name} has the output layer in shards, whose times are those of all microbatches")
    } else if pipeline.segments > 1 {
        format!("{name} cuts every microbatch into segments")
    } else if pipeline.steady.is_some() {
        format!("{name} never flushes, and the microbatches of other steps are not known")
    } else {
        return Ok(());
    };
    Err((key, format!("{key}: {why}")))
}

/// The work of each of `microbatches`, if `keys` say that they differ.
pub(super) fn work(
    context: &Context<'_>,
    keys: &Keys,
    microbatches: u32,
) -> Result<Option<MicrobatchWork>, Diagnostic> {
    let each: Option<Vec<Work>> = match (&keys.microbatch_work, &keys.microbatch_work_file) {
        (Some(factors), _) => factors.iter().map(|factor| factor.work()).collect(),
        (None, Some(path)) => Some(read(context, path)?),
        (None, None) => by_lengths(context, keys, microbatches)?,
    };
    Ok(each.map(MicrobatchWork::new))
}

/// Checks that the files that `keys` name can be read.
pub(crate) fn check_files(context: &Context<'_>, keys: &Keys) -> Result<(), Diagnostic> {
    if let Some(path) = &keys.microbatch_work_file {
        read(context, path)?;
    }
    keys.microbatch_lengths.iter().try_for_each(|lengths| lengths.read(context).map(drop))
}

/// The work of microbatches by their tokens: with hidden size h, a layer has s(24h + 4s) h FLOPs in F, s(24h + 8s) h
/// in B and 24 s h^2 in W of s tokens (Zero Bubble, arXiv 2401.10241, section 2); without it, as many per token.
fn by_lengths(
    context: &Context<'_>,
    keys: &Keys,
    microbatches: u32,
) -> Result<Option<Vec<Work>>, Diagnostic> {
    let Some(law) = &keys.microbatch_lengths else { return Ok(None) };
    let lengths = law.read(context)?;
    let lengths = lengths.draw(keys.seed.unwrap_or(0), 0, microbatches as usize);
    let all: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    #[allow(clippy::cast_precision_loss)] // Tokens are fewer than 2^53.
    let float = |tokens: u64| tokens as f64;
    let given = match keys.seq {
        Some(seq) => float(seq),
        None => float(all) / f64::from(microbatches.max(1)),
    };
    let hidden = keys.hidden.map_or(f64::INFINITY, float);
    let one = |length: u32| {
        let length = f64::from(length);
        let linear = length / given;
        let growth = |square: f64| {
            let weight = square / (24.0 * hidden);
            linear * (1.0 + weight * length) / (1.0 + weight * given)
        };
        Work::new(growth(4.0), growth(8.0), linear).ok_or_else(|| {
            let message = format!(
                "a microbatch of {length} tokens takes over {} times as long as one of {given}, whose times are given",
                Work::MOST
            );
            Diagnostic::new(message).with_help("give the times of a longer microbatch, or --microbatch-work")
        })
    };
    lengths.into_iter().map(one).collect::<Result<_, _>>().map(Some)
}

/// The work of microbatches from a file.
fn read(context: &Context<'_>, path: &Path) -> Result<Vec<Work>, Diagnostic> {
    let text = context.read_text(path, MAX_FILE)?;
    let wrong = |line: Option<u64>, cause: &str| {
        let at = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        Diagnostic::unreadable(path, &format!("{at}{cause}"))
    };
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| wrong(None, &error.to_string()))?.clone();
    let column = |name: &str| header.iter().position(|one| one.replace('_', "-") == name);
    let parts = ["forward", "backward-input", "backward-weight"].map(column);
    let columns = match (column("work"), parts) {
        (Some(work), _) => [work; 3],
        (None, [Some(forward), Some(input), Some(weight)]) => [forward, input, weight],
        _ => return Err(wrong(Some(1), "no column of work").with_help(COLUMNS)),
    };
    let mut each = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| wrong(None, &error.to_string()))?;
        let line = record.position().map(csv::Position::line);
        let factor = |at: usize| {
            let text = record.get(at).unwrap_or_default();
            text.parse::<f64>().map_err(|_| wrong(line, &format!("`{text}` is not a number")))
        };
        let [forward, input, weight] = columns;
        let work = Work::new(factor(forward)?, factor(input)?, factor(weight)?);
        let range = format!("work lies from 0 to {}", Work::MOST);
        each.push(work.ok_or_else(|| wrong(line, &range))?);
    }
    Ok(each)
}
