//! The work of each microbatch: factors, a file of them, or lengths in tokens.

use std::path::Path;

use pipeline::{MicrobatchWork, Vocabulary, Work};

use super::pipeline::Pipeline;
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::Keys;
use crate::source::ScheduleSource;
use crate::values::packing::PackingKey;

/// The largest file of work.
const MAX_FILE: u64 = 16 << 20;
/// The most documents of a step.
const MAX_DOCUMENTS: u64 = fsdp::MAX_SAMPLES;
/// Cure for a file without the columns.
const COLUMNS: &str =
    "write the column work, or the columns forward, backward-input and backward-weight";

/// Checks that `rule` can have microbatches of unequal work, if `keys` ask for them.
pub(super) fn check(
    keys: &Keys,
    rule: &ScheduleSource,
    pipeline: &Pipeline,
) -> Result<(), (&'static str, String)> {
    if keys.microbatch_lengths.is_none()
        && let Some(key) = keys.given().find(|key| ["documents", "packing"].contains(key))
    {
        return Err((
            key,
            format!("{key} needs the lengths of documents: give --microbatch-lengths"),
        ));
    }
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

/// The work of microbatches by the tokens of their documents.
fn by_lengths(
    context: &Context<'_>,
    keys: &Keys,
    microbatches: u32,
) -> Result<Option<Vec<Work>>, Diagnostic> {
    let Some(law) = &keys.microbatch_lengths else { return Ok(None) };
    let documents = keys.documents.unwrap_or_else(|| microbatches.into());
    if documents < u64::from(microbatches) {
        let message = format!("{documents} documents do not fill {microbatches} microbatches");
        return Err(Diagnostic::new(message).with_help("give --documents, at least one for each"));
    }
    if documents > MAX_DOCUMENTS {
        let message = format!("documents is {documents}: a step has at most {MAX_DOCUMENTS}");
        return Err(Diagnostic::new(message));
    }
    let documents = usize::try_from(documents).unwrap_or(usize::MAX);
    let lengths = law.read(context)?.draw(keys.seed.unwrap_or(0), 0, documents);
    let each: Vec<[f64; 3]> = lengths.iter().map(|&length| flops_of(length.into(), keys)).collect();
    let packed = packed(&lengths, &each, microbatches as usize, keys.packing.unwrap_or_default());
    let sums: Vec<[f64; 3]> =
        packed.iter().map(|own| sum(own.iter().map(|&at| each[at as usize]))).collect();
    let given = match keys.seq {
        #[allow(clippy::cast_precision_loss)] // Tokens are fewer than 2^53.
        Some(seq) => flops_of(seq as f64, keys),
        None => sum(sums.iter().copied()).map(|all| all / f64::from(microbatches)),
    };
    let one = |own: &[f64; 3]| {
        let [forward, input, weight] = [0, 1, 2].map(|kind| own[kind] / given[kind]);
        Work::new(forward, input, weight).ok_or_else(too_long)
    };
    sums.iter().map(one).collect::<Result<_, _>>().map(Some)
}

fn too_long() -> Diagnostic {
    let message = format!(
        "a microbatch takes over {} times as long as the one whose times are given",
        Work::MOST
    );
    Diagnostic::new(message)
        .with_help("give the times of a longer microbatch, or --microbatch-work")
}

/// FLOPs of F, B and W of a document of `length` tokens in a layer of hidden size h, over 24 h: s(24h + 4s) h in F,
/// s(24h + 8s) h in B and 24 s h^2 in W of s tokens (Zero Bubble, arXiv 2401.10241, section 2). As many per token
/// where h is not given.
fn flops_of(length: f64, keys: &Keys) -> [f64; 3] {
    #[allow(clippy::cast_precision_loss)] // Sizes are fewer than 2^53.
    let hidden = keys.hidden.map_or(f64::INFINITY, |hidden| hidden as f64);
    let attended = |flops: f64| length * (1.0 + flops * length / (24.0 * hidden));
    [attended(4.0), attended(8.0), length]
}

fn sum(all: impl Iterator<Item = [f64; 3]>) -> [f64; 3] {
    all.fold([0.0; 3], |sum, one| [0, 1, 2].map(|kind| sum[kind] + one[kind]))
}

/// The documents of each microbatch, which begin in the order in which they come.
fn packed(
    lengths: &[u32],
    flops: &[[f64; 3]],
    microbatches: usize,
    packing: PackingKey,
) -> Vec<Vec<u32>> {
    let mut parts = match packing {
        PackingKey::InOrder => return in_order(lengths, microbatches),
        PackingKey::Tokens => {
            let tokens: Vec<f64> = lengths.iter().map(|&length| f64::from(length)).collect();
            fsdp::equal_parts(&tokens, microbatches)
        }
        PackingKey::Work => {
            let work: Vec<f64> = flops.iter().map(|kinds| kinds.iter().sum()).collect();
            fsdp::equal_parts(&work, microbatches)
        }
    };
    parts.sort_by_key(|part| part.first().copied());
    parts
}

/// Documents one behind the other: a microbatch ends where it has its share of the tokens that are left, and leaves a
/// document for each of those behind it.
fn in_order(lengths: &[u32], microbatches: usize) -> Vec<Vec<u32>> {
    let mut left: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    let mut next = 0;
    let of_one = |behind: usize| {
        let share = left / (behind as u64 + 1);
        let (mut own, mut tokens) = (Vec::new(), 0);
        while next + behind < lengths.len() {
            let length = u64::from(lengths[next]);
            // Half of a document or more goes to the microbatch before.
            let is_over = tokens + length / 2 >= share;
            if !own.is_empty() && behind > 0 && is_over {
                break;
            }
            own.extend(u32::try_from(next));
            (tokens, next) = (tokens + length, next + 1);
        }
        left -= tokens;
        own
    };
    (0..microbatches).rev().map(of_one).collect()
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
        let range = format!("work must be between 0 and {}", Work::MOST);
        each.push(work.ok_or_else(|| wrong(line, &range))?);
    }
    Ok(each)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn documents_in_order_fill_microbatches_evenly() {
        assert_eq!(in_order(&[5, 5, 5, 5], 2), [[0, 1], [2, 3]]);
        // The long one stands alone.
        assert_eq!(in_order(&[100, 1, 1, 1], 2), [vec![0], vec![1, 2, 3]]);
        assert_eq!(in_order(&[1, 1, 100], 3), [[0], [1], [2]]);
    }

    #[test]
    fn attention_grows_with_the_square() {
        let keys = Keys { hidden: Some(1_000), ..Keys::default() };
        let [forward, input, weight] = flops_of(6_000.0, &keys);
        assert_eq!([forward, input, weight], [12_000.0, 18_000.0, 6_000.0]);
        assert_eq!(flops_of(6_000.0, &Keys::default()), [6_000.0; 3]);
    }

    proptest! {
        #[test]
        fn every_document_is_in_one_microbatch(
            lengths in prop::collection::vec(1u32..10_000, 1..60),
            microbatches in 1usize..20,
            hidden in 1u64..8_192,
        ) {
            prop_assume!(microbatches <= lengths.len());
            let keys = Keys { hidden: Some(hidden), ..Keys::default() };
            let each: Vec<[f64; 3]> = lengths.iter().map(|&one| flops_of(one.into(), &keys)).collect();
            for packing in [PackingKey::InOrder, PackingKey::Tokens, PackingKey::Work] {
                let parts = packed(&lengths, &each, microbatches, packing);
                prop_assert_eq!(parts.len(), microbatches);
                prop_assert!(parts.iter().all(|part| !part.is_empty()));
                let mut all: Vec<u32> = parts.concat();
                all.sort_unstable();
                prop_assert!(all.into_iter().eq(0..u32::try_from(lengths.len()).unwrap()));
            }
        }
    }
}
