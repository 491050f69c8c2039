//! Takes the files of a run one after the other, each recognised by its content.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::error::{NotInferred, Place, TraceError};
use crate::events::{Event, Sink, each, keep};
use crate::form::Form;
use crate::lack::{Lack, missing, without_cut_steps};
use crate::megatron::Passes;
use crate::nsys_fault::NsysFault;
use crate::operation::{BYTES_PER_OPERATION, MAX_OPERATIONS, Operation};
use crate::spans::{self, Spans};
use crate::torch::Rank;
use crate::unnamed::{self, Observed};
use crate::{chrome, gzip, nsys, parquet, torch_ranks};

/// How the send of a value that has no operation of its own holds up the rank that sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sends {
    /// Not at all.
    Free,
    /// Megatron's: after each pass the rank sends its value and receives the input of its next pass
    /// of the same kind, in one batch; that pass waits for both, and a transfer for both ends.
    Paired,
}

/// The contents of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// The operations, as they stand in the files.
    pub operations: Vec<Operation>,
    /// Events that are not operations of a pipeline, such as those of a profiler; never in Parquet.
    pub skipped: usize,
    /// The form of the files.
    pub form: Form,
    /// Information that the trace lacks.
    pub lacks: Vec<Lack>,
}

impl Trace {
    /// A trace of `operations` that something else than [`Reader`] has read.
    #[must_use]
    pub fn of(operations: Vec<Operation>, form: Form) -> Self {
        let lacks = if operations.is_empty() { Vec::new() } else { missing(&operations) };
        Self { operations, skipped: 0, form, lacks }
    }

    /// The same without its first `count` steps.
    #[must_use]
    pub fn without_first_steps(mut self, count: u64) -> Self {
        let steps: BTreeSet<u64> = self.operations.iter().map(|one| one.step).collect();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        match steps.into_iter().nth(count) {
            Some(first) => self.operations.retain(|one| one.step >= first),
            None => self.operations.clear(),
        }
        self
    }

    /// How sends that are not in the trace hold up their rank, by its form.
    pub(crate) const fn sends(&self) -> Sends {
        match self.form {
            Form::Megatron => Sends::Paired,
            _ => Sends::Free,
        }
    }
}

/// Reader of the files of a run, with what they gave so far.
pub struct Reader {
    memory: u64,
    most: usize,
    form: Option<Form>,
    operations: Vec<Operation>,
    ranks: Vec<Rank>,
    /// Ranks that name no passes.
    observed: Vec<Observed>,
    spans: Spans,
    lacks: Vec<Lack>,
    skipped: usize,
}

impl Reader {
    /// One that takes no more than `memory` bytes for the operations, of which each takes
    /// [`BYTES_PER_OPERATION`] in the end.
    #[must_use]
    pub fn within(memory: u64) -> Self {
        let most = usize::try_from(memory / BYTES_PER_OPERATION).unwrap_or(usize::MAX);
        Self {
            memory,
            most: most.min(MAX_OPERATIONS),
            form: None,
            operations: Vec::new(),
            ranks: Vec::new(),
            observed: Vec::new(),
            spans: Spans::default(),
            lacks: Vec::new(),
            skipped: 0,
        }
    }

    /// Takes a file: Parquet if it begins like a Parquet file, spans or lines of Nsight Systems by their first object,
    /// other JSON as trace events; each may be compressed with gzip.
    pub fn add(&mut self, content: Vec<u8>) -> Result<(), TraceError> {
        let content = match gzip::unpacked(&content, self.memory)? {
            Cow::Owned(unpacked) => unpacked,
            Cow::Borrowed(_) => content,
        };
        let first = content.iter().find(|byte| !byte.is_ascii_whitespace());
        match first {
            _ if content.starts_with(b"SQLite format 3\0") => Err(TraceError::Database),
            _ if content.starts_with(b"PAR1") => {
                self.expect(Form::Parquet)?;
                let operations = parquet::read(content, self.room())?;
                self.operations.extend(operations);
                Ok(())
            }
            _ if nsys::is_one(&content) => {
                if self.form == Some(Form::Nsys) {
                    return Err(NsysFault::Several.into());
                }
                self.expect(Form::Nsys)?;
                let (ranks, skipped) = nsys::read(&content, self.room())?;
                self.skipped += skipped;
                self.ranks.extend(ranks);
                Ok(())
            }
            _ if spans::is_one(&content) => {
                self.expect(Form::Spans)?;
                let most = self.room() + self.spans.len();
                spans::read(&content, &mut self.spans, most)
            }
            Some(b'{' | b'[') => self.add_events(&content),
            _ => Err(TraceError::NotATrace),
        }
    }

    fn add_events(&mut self, content: &[u8]) -> Result<(), TraceError> {
        let mut file = File { room: self.room(), ..File::default() };
        let head = each(content, &mut file)?;
        let File { mut rank, mut observed, events, passes, skipped, used, .. } = file;
        let is_observed = rank.is_empty() && events.is_empty() && passes.len() == 0;
        self.skipped += if is_observed { skipped } else { skipped + used };
        if !rank.is_empty() {
            self.expect(Form::Torch)?;
            rank.head(&head)?;
            self.ranks.push(rank);
        } else if !events.is_empty() {
            self.expect(Form::Events)?;
            self.operations.extend(events);
        } else if passes.len() > 0 {
            self.expect(Form::Megatron)?;
            let (operations, lacks) = passes.finish()?;
            self.operations.extend(operations);
            self.lacks.extend(lacks);
        } else if head.is_execution {
            return Err(TraceError::Execution);
        } else if head.by_torch || head.distributed.is_some() {
            self.expect(Form::Torch)?;
            observed.head(&head)?;
            self.observed.push(observed);
        } else {
            return Err(TraceError::Nothing { skipped });
        }
        Ok(())
    }

    /// Number of operations that may still be read.
    fn room(&self) -> usize {
        let ranks: usize = self.ranks.iter().map(Rank::len).sum();
        let observed: usize = self.observed.iter().map(Observed::len).sum();
        self.most.saturating_sub(self.operations.len() + ranks + observed + self.spans.len())
    }

    fn expect(&mut self, found: Form) -> Result<(), TraceError> {
        match self.form.replace(found) {
            Some(first) if first != found => Err(TraceError::Mixed { found, first }),
            _ => Ok(()),
        }
    }

    /// The trace that the files are together.
    pub fn finish(self) -> Result<Trace, TraceError> {
        let Self { form, mut operations, ranks, observed, spans, mut lacks, mut skipped, .. } =
            self;
        let form = form.ok_or(TraceError::Nothing { skipped })?;
        if matches!(form, Form::Torch | Form::Nsys) {
            let (of_ranks, of_torch) = match (ranks.is_empty(), observed.is_empty()) {
                (true, _) => unnamed::operations(observed)?,
                (false, true) => torch_ranks::operations(ranks)?,
                (false, false) => return Err(TraceError::Unnamed(NotInferred::SomeNamed)),
            };
            operations = of_ranks;
            lacks.extend(of_torch);
        }
        if form == Form::Spans {
            skipped += spans.skipped();
            let (of_spans, more) = spans::operations(spans)?;
            operations = of_spans;
            lacks.extend(more);
        }
        if matches!(form, Form::Torch | Form::Nsys | Form::Megatron) {
            let cut;
            (operations, cut) = without_cut_steps(operations);
            lacks.extend(cut);
        }
        if operations.is_empty() {
            return Err(TraceError::Nothing { skipped });
        }
        let mut all = missing(&operations);
        all.extend(lacks);
        Ok(Trace { operations, skipped, form, lacks: all })
    }
}

/// The events of a file, by the form that they have.
#[derive(Default)]
struct File {
    /// The most operations.
    room: usize,
    rank: Rank,
    observed: Observed,
    events: Vec<Operation>,
    passes: Passes,
    skipped: usize,
    /// Events that are none, but for what they show of passes that are not named.
    used: usize,
}

impl Sink for File {
    fn take(&mut self, event: &Event<'_>, place: Place) -> Result<(), TraceError> {
        if event.ph.as_deref() != Some("X") {
            self.passes.take(event, place)?;
        } else {
            // A file that names passes is read by their names.
            let is_used = self.rank.is_empty() && self.observed.take(event, place)?;
            if !self.rank.take(event, place)? {
                match chrome::operation(event, place)? {
                    Some(one) => {
                        let rows = self.events.len() + 1;
                        keep(&mut self.events, one, rows)?;
                    }
                    None if is_used => self.used += 1,
                    None => self.skipped += 1,
                }
            }
        }
        let rows = self.events.len() + self.passes.len() + self.rank.len() + self.observed.len();
        if rows > self.room {
            let most = self.room;
            return Err(TraceError::TooMany {
                rows: i64::try_from(rows).unwrap_or(i64::MAX),
                most,
            });
        }
        Ok(())
    }
}
