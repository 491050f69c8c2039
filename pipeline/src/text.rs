//! The text form of a schedule: one line per stage, `F0.3 B2.1 F1.4&BW0.2 W0.0`.
//!
//! A pass is its kind, chunk and microbatch; a pair is two passes joined by `&`. Behind the passes,
//! each `|` begins a stream of copies to the host (`O0.3@7`: out, after 7 slots of the stage have
//! ended) and back (`R0.3@12`); `|0.5` where half of each activation is copied, `|<=1` where at most
//! one copy out is in flight when the slot after a forward begins, `|0.5<=1` both. The shape is read
//! off the lines: p lines, chunks and microbatches as far as they are numbered. Two chunks or more
//! per stage are taken to lie [`Looped`](Placement::Looped) or as a [`Vee`](Placement::Vee), one
//! chunk per stage `Looped` or [`Mirrored`](Placement::Mirrored), whichever fits more passes, the
//! first where they are the same. A schedule with S and T has a line before the others that says how
//! many barriers they have: `vocabulary 1` for algorithm 1, with two, `vocabulary 2` for algorithm 2.
//! Lines end in `\n` or `\r\n`; white space behind the last pass,
//! blank lines included, says nothing.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::copy_op::{CopyDirection, CopyOp, CopyPart, CopyPolicy};
use crate::fault::Fault;
use crate::offload::CopyStreams;
use crate::order::Order;
use crate::pass::{Kind, Pass, Slot};
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape, Vocabulary};

/// How many characters of a wrong text are said back.
const MOST_SAID: usize = 40;

/// Why a text is not a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TextError {
    /// A word that is not a slot.
    #[error(
        "line {line}, column {column}: `{word}` is not a pass; write kind, chunk (at most {}) and \
         microbatch (at most {}), such as F0.3, B0.3, W0.3, BW0.3 or a pair F1.4&BW0.2",
        u16::MAX,
        u32::MAX
    )]
    Word {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The text found, shortened.
        word: String,
    },
    /// A word behind a `|` that is not a copy.
    #[error(
        "line {line}, column {column}: `{word}` is not a copy; write way (O out, R back), chunk, \
         microbatch and how many slots must have ended, such as O0.3@7 or R0.3@12; or `|`, or `|0.5` \
         with the part that is copied, or `|0.5<=1` with the most copies out in flight, the same in all lines"
    )]
    Copy {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The text found, shortened.
        word: String,
    },
    /// A first line that begins like one about the vocabulary and says something else.
    #[error(
        "line 1: `{line}` says nothing of the vocabulary; write `vocabulary 1` (algorithm 1) or \
         `vocabulary 2` (algorithm 2)"
    )]
    Vocabulary {
        /// The text found, shortened.
        line: String,
    },
    /// A line without passes.
    #[error("line {line} is empty: stage {stage} has no passes")]
    EmptyLine {
        /// Line, from 1.
        line: usize,
        /// Whose line it is.
        stage: usize,
    },
    /// No lines at all.
    #[error("the schedule is empty: write one line per stage")]
    Empty,
    /// More chunks than can be spread evenly.
    #[error("{chunks} chunks cannot be spread evenly over {stages} stages (lines)")]
    Uneven {
        /// One more than the highest chunk.
        chunks: u64,
        /// Number of lines.
        stages: usize,
    },
    /// Well-formed, but not a schedule. The first line of passes is stage 0.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A text that is not a slot.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{text}` is not a pass, such as F0.3, or a pair of them, such as F1.4&BW0.2")]
pub struct SlotError {
    /// The text that was read, shortened.
    pub text: String,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(algorithm) = algorithm(self.shape().vocabulary()) {
            writeln!(f, "{HEADER} {algorithm}")?;
        }
        for (stage, order) in self.orders().iter().enumerate() {
            for (i, slot) in order.slots().enumerate() {
                let sep = if i > 0 { " " } else { "" };
                write!(f, "{sep}{slot}")?;
            }
            let policy = self.copies().map_or(String::new(), |copies| policy_text(copies.policy()));
            for stream in self.copies().iter().flat_map(|copies| &copies.stages()[stage]) {
                write!(f, " |{policy}")?;
                stream.iter().try_for_each(|op| write!(f, " {op}"))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let lines = text.trim_ascii_end();
        if lines.is_empty() {
            return Err(TextError::Empty);
        }
        let (vocabulary, lines) = read_header(lines)?;
        let headers = usize::from(vocabulary != Vocabulary::Whole);
        let mut policy = None;
        let read = |(stage, line)| read_line(stage, stage + 1 + headers, line, &mut policy);
        let lines = lines.split('\n').enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let (orders, streams): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
        let stages = orders.len();
        let passes = || orders.iter().flat_map(Order::passes);
        let passes = || passes().filter(|pass| !pass.kind.is_of_vocabulary());
        let chunks = passes().map(|pass| u64::from(pass.chunk) + 1).max().unwrap_or(0);
        let microbatches = passes().map(|pass| u64::from(pass.microbatch) + 1).max().unwrap_or(0);
        if chunks % stages as u64 != 0 {
            return Err(TextError::Uneven { chunks, stages });
        }
        let shape = Shape::new(stages as u64, chunks / stages as u64, microbatches)?
            .with_vocabulary(vocabulary)?;
        let placement = likeliest_placement(shape, &orders);
        let schedule = Self::new(shape, placement, orders)?;
        Ok(match policy {
            None => schedule,
            Some(policy) => schedule.with_copies(policy, streams)?,
        })
    }
}

/// The placement under which fewer passes stand on a wrong stage.
fn likeliest_placement(shape: Shape, orders: &[Order]) -> Placement {
    let strays = |placement: Placement| {
        let stages = orders.iter().enumerate();
        let strays = stages.map(|(stage, order)| {
            let home = |pass: &&Pass| placement.stage_of(shape, **pass);
            order.passes().iter().filter(|pass| home(pass) != stage).count()
        });
        strays.sum::<usize>()
    };
    let candidates = [Placement::Looped, Placement::Vee, Placement::Mirrored];
    // Only a one-chunk schedule can be mirrored; `min_by_key` keeps the first of equals.
    let allowed = if shape.chunks_per_stage() == 1 { &candidates[..] } else { &candidates[..2] };
    allowed.iter().copied().min_by_key(|&one| strays(one)).unwrap_or(Placement::Looped)
}

/// The word a line about the vocabulary begins with.
const HEADER: &str = "vocabulary";

/// The number of the published algorithm; none where there are no S and T.
const fn algorithm(vocabulary: Vocabulary) -> Option<u8> {
    match vocabulary {
        Vocabulary::Whole => None,
        Vocabulary::TwoBarriers => Some(1),
        Vocabulary::OneBarrier => Some(2),
    }
}

/// How the vocabulary is spread, and the text after that header line.
fn read_header(lines: &str) -> Result<(Vocabulary, &str), TextError> {
    let (first, rest) = lines.split_once('\n').unwrap_or((lines, ""));
    let Some(said) = first.trim_ascii().strip_prefix(HEADER) else {
        return Ok((Vocabulary::Whole, lines));
    };
    let all = [Vocabulary::TwoBarriers, Vocabulary::OneBarrier];
    let named = |one: &Vocabulary| {
        algorithm(*one).is_some_and(|number| said.trim_ascii() == number.to_string())
    };
    let vocabulary = all.into_iter().find(named).filter(|_| said.starts_with(' '));
    let line = || first.trim_ascii().chars().take(MOST_SAID).collect();
    let vocabulary = vocabulary.ok_or_else(|| TextError::Vocabulary { line: line() })?;
    if rest.is_empty() { Err(TextError::Empty) } else { Ok((vocabulary, rest)) }
}

/// The passes of line `number`, from 1, and the streams of copies behind them. All lines copy by the
/// same policy.
fn read_line(
    stage: usize,
    number: usize,
    line: &str,
    policy: &mut Option<CopyPolicy>,
) -> Result<(Order, CopyStreams), TextError> {
    let mut order = Order::default();
    let mut streams = CopyStreams::new();
    let place = |word: &str| {
        let offset = word.as_ptr() as usize - line.as_ptr() as usize;
        let column = line[..offset].chars().count() + 1;
        (number, column, word.chars().take(MOST_SAID).collect())
    };
    for word in line.split_ascii_whitespace() {
        let wrong = || {
            let (line, column, word) = place(word);
            TextError::Copy { line, column, word }
        };
        if let Some(text) = word.strip_prefix('|') {
            let given = read_policy(text).ok_or_else(wrong)?;
            if *policy.get_or_insert(given) != given {
                return Err(wrong());
            }
            streams.push(Vec::new());
        } else if let Some(stream) = streams.last_mut() {
            stream.push(read_copy(word).ok_or_else(wrong)?);
        } else {
            order.push(read_slot(word).ok_or_else(|| {
                let (line, column, word) = place(word);
                TextError::Word { line, column, word }
            })?);
        }
    }
    if order.passes().is_empty() {
        return Err(TextError::EmptyLine { line: number, stage });
    }
    Ok((order, streams))
}

/// The text behind a `|`: nothing for whole activations, else the part, as in `0.5`; then the most copies in flight, as
/// in `<=1`, if there is a limit.
fn policy_text(CopyPolicy { part, max_inflight }: CopyPolicy) -> String {
    let part = match part {
        CopyPart::WHOLE => String::new(),
        part => format!("0.{:03}", part.per_mille()).trim_end_matches('0').to_owned(),
    };
    part + &max_inflight.map_or(String::new(), |most| format!("{IN_FLIGHT}{most}"))
}

/// The mark in front of the most copies out in flight.
const IN_FLIGHT: &str = "<=";

fn read_policy(text: &str) -> Option<CopyPolicy> {
    let (part, most) =
        text.split_once(IN_FLIGHT).map_or((text, None), |(part, most)| (part, Some(most)));
    let max_inflight = match most {
        Some(most) => Some(most.parse().ok().filter(|_| is_plain(most))?),
        None => None,
    };
    Some(CopyPolicy { part: read_part(part)?, max_inflight })
}

fn read_part(text: &str) -> Option<CopyPart> {
    if text.is_empty() {
        return Some(CopyPart::WHOLE);
    }
    let decimals = text.strip_prefix("0.")?;
    let plain = (1..=3).contains(&decimals.len()) && is_plain(decimals);
    plain.then(|| format!("{decimals:0<3}").parse().ok()).flatten().and_then(CopyPart::new)
}

fn read_copy(word: &str) -> Option<CopyOp> {
    let (way, rest) = match word.split_at_checked(1)? {
        ("O", rest) => (CopyDirection::Out, rest),
        ("R", rest) => (CopyDirection::Back, rest),
        _ => return None,
    };
    let (cell, after) = rest.split_once('@')?;
    let (chunk, microbatch) = cell.split_once('.')?;
    if ![chunk, microbatch, after].into_iter().all(is_plain) {
        return None;
    }
    Some(CopyOp {
        way,
        chunk: chunk.parse().ok()?,
        microbatch: microbatch.parse().ok()?,
        after: after.parse().ok()?,
    })
}

impl FromStr for Slot {
    type Err = SlotError;

    /// Reads a pass, `F0.3`, or a pair of them, `F1.4&BW0.2`.
    fn from_str(text: &str) -> Result<Self, SlotError> {
        read_slot(text).ok_or_else(|| SlotError { text: text.chars().take(MOST_SAID).collect() })
    }
}

fn read_slot(word: &str) -> Option<Slot> {
    match word.split_once('&') {
        None => read_pass(word).map(Slot::One),
        Some((first, second)) => Some(Slot::Pair(read_pass(first)?, read_pass(second)?)),
    }
}

fn read_pass(word: &str) -> Option<Pass> {
    let numbers = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
    let name = &word[..word.len() - numbers.len()];
    let kind = Kind::named(name)?;
    let (chunk, microbatch) = numbers.split_once('.')?;
    if !is_plain(chunk) || !is_plain(microbatch) {
        return None;
    }
    Some(Pass { kind, chunk: chunk.parse().ok()?, microbatch: microbatch.parse().ok()? })
}

/// Whether there is no sign in front, which `parse` would take.
fn is_plain(digits: &str) -> bool {
    digits.bytes().all(|b| b.is_ascii_digit())
}
