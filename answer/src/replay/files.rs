//! Reads the files of a run, each recognised by its content.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use pipeline::{Measurement, Nanos};
use question::kinds::{self, InputKind};
use question::{Context, Diagnostic, quote};
use traces::{Form, OpType, Operation, Reader, Run, Trace, TraceError};

use crate::parquet;
use crate::timelines::{self, Recorded};

/// The largest trace, in bytes.
const MAX_TRACE: u64 = 2 << 30;
/// Largest file whose content is examined for another format.
const MAX_TEXT: u64 = 16 << 20;

/// The run in the files at `paths`, without its first `warmup` steps.
pub(super) fn read(
    context: &Context<'_>,
    paths: &[PathBuf],
    warmup: u64,
) -> Result<Run, Diagnostic> {
    let (first, others) =
        paths.split_first().ok_or_else(|| Diagnostic::new("no trace is given"))?;
    let content = context.read_bytes(first, MAX_TRACE)?;
    let content = match traces::unpacked(&content, spare_memory(context)) {
        Ok(Cow::Owned(unpacked)) => unpacked,
        Ok(Cow::Borrowed(_)) => content,
        Err(fault) => return Err(wrong(first, &fault)),
    };
    let trace = if timelines::is_one(&content) {
        if let Some(other) = others.first() {
            let text = "a timeline holds all stages: replay it without other files";
            return Err(Diagnostic::file(other, format!("{}: {text}", quote::path(other))));
        }
        of_recorded(first, &timelines::read_content(context, first, &content)?)?
    } else {
        of_traces(context, first, content, others)?
    };
    let skipped = trace.skipped;
    let trace = trace.without_first_steps(warmup);
    if trace.operations.is_empty() {
        let text = format!("the trace has no more than {warmup} steps: none is left");
        return Err(Diagnostic::new(text).about("warmup-steps"));
    }
    let run = Run::new(trace).map_err(|fault| wrong(first, &fault))?;
    if skipped > 0 {
        context.warn(format!("{skipped} events are not operations of a pipeline"));
    }
    let (steps, ranks) = (run.steps().len(), run.dp_ranks().len());
    let operations = run.operations().len();
    context.warn(format!("{operations} operations, {steps} steps, {ranks} data-parallel ranks"));
    Ok(run)
}

fn spare_memory(context: &Context<'_>) -> u64 {
    context.host().spare_memory().unwrap_or(u64::MAX)
}

fn of_traces(
    context: &Context<'_>,
    first: &Path,
    content: Vec<u8>,
    others: &[PathBuf],
) -> Result<Trace, Diagnostic> {
    let mut reader = Reader::within(spare_memory(context));
    let mut add = |path: &Path, content: Vec<u8>| {
        let added = reader.add(content);
        added.map_err(|fault| misplaced(context, path, wrong(path, &fault)))
    };
    add(first, content)?;
    for path in others {
        add(path, context.read_bytes(path, MAX_TRACE)?)?;
    }
    reader.finish().map_err(|fault| wrong(first, &fault))
}

fn wrong(path: &Path, fault: &TraceError) -> Diagnostic {
    let cause = quote::brief(&fault.to_string());
    let error = Diagnostic::file(path, format!("{}: {cause}", quote::path(path)));
    match fault {
        TraceError::NoParquet => error.with_help(parquet::CURE),
        _ => error,
    }
}

/// `error`, unless the file at `path` is of another kind than a trace.
fn misplaced(context: &Context<'_>, path: &Path, error: Diagnostic) -> Diagnostic {
    match context.read_text(path, MAX_TEXT) {
        Ok(text) => kinds::misplaced(path, &text, &[InputKind::Trace, InputKind::Timeline], error),
        Err(_) => error,
    }
}

/// The passes of a timeline as the operations of a trace.
fn of_recorded(path: &Path, recorded: &Recorded) -> Result<Trace, Diagnostic> {
    if recorded.shape().has_shards() {
        let text = "it has passes of an output layer in shards, which are not replayed";
        return Err(Diagnostic::file(path, format!("{}: {text}", quote::path(path))));
    }
    let mut operations = Vec::new();
    for (step, recorded) in (0u64..).zip(&recorded.steps) {
        for (stage, slots) in (0u16..).zip(&recorded.stages) {
            let passes = slots.iter().flat_map(|one| operations_of(step, stage, one));
            operations.extend(passes);
        }
    }
    Ok(Trace::of(operations, Form::Timeline))
}

fn operations_of(
    step: u64,
    stage: u16,
    measured: &Measurement,
) -> impl Iterator<Item = Operation> + use<> {
    let Measurement { slot, start, end, .. } = *measured;
    let duration = Nanos(end.0.saturating_sub(start.0));
    slot.passes().map(move |pass| Operation {
        step,
        dp_rank: 0,
        stage,
        optype: OpType::Pass(pass.kind),
        chunk: pass.chunk,
        microbatch: pass.microbatch,
        start,
        duration,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_parquet_says_how_to_get_it() {
        let error = wrong(Path::new("trace.parquet"), &TraceError::NoParquet);
        assert!(
            error.message.contains(&format!(
                "trace.parquet: it is a Parquet file, and {}",
                parquet::MISSING
            ))
        );
        assert!(
            error.help.unwrap_or_default().contains("cargo build --release --features parquet")
        );
    }
}
