//! The order of a schedule as `torch.distributed.pipelining` reads it: CSV with a row for each rank and a
//! cell for each action, as in `0F0,0F1,0I0,0W0,(1F2;0B1)OVERLAP_F_B`.
//!
//! An action is the stage of torch, which is our chunk, a letter, and the microbatch. Torch's letters
//! differ from ours: its `B` is the whole backward (our BW), `I` the one for the input (our B). Written is
//! the form `compute_only`, which holds passes alone and is the same in all versions since 2.6. Read are
//! that form and `compute_comms`, whose transfers and collectives follow from the passes and are passed
//! over. The number of stages, chunks and microbatches and the placement are read off the rows.
//!
//! Not in the file is what torch has no word for: copies to the host and recomputation, which torch does
//! within its backward, are left out; the rest is refused ([`TorchRefusal`]).

use std::fmt::Write;

use thiserror::Error;

use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass, Slot};
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape, Vocabulary};
use crate::text::TextError;

/// How many characters of a wrong cell are said back.
const MOST_SAID: usize = 40;

/// Why torch cannot run a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TorchRefusal {
    /// Two copies of the model, each in one direction.
    #[error("torch holds every chunk on one rank, and a mirrored placement has two copies of each")]
    Mirrored,
    /// Work on shards of the vocabulary.
    #[error("torch has no passes of the output layer in shards (S and T)")]
    Shards,
    /// Forwards of the last chunk out of order.
    #[error(
        "torch keeps losses in a list, so the forwards of the last chunk must come in the order of \
         microbatches: F{chunk}.{later} comes before F{chunk}.{earlier}",
        chunk = .0.chunk, later = .0.microbatch, earlier = .1.microbatch
    )]
    Losses(Pass, Pass),
    /// A pair that is not a forward with a backward.
    #[error("torch has pairs of a forward and a backward alone (OVERLAP_F_B), and no {0}")]
    Pair(Slot),
}

/// Why a text is not a schedule of torch that is known here.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TorchCsvError {
    /// A cell that is not an action.
    #[error(
        "row {row}, cell {cell}: `{text}` is not an action; write stage, letter (F, I, W or B) and \
         microbatch, such as 0F3, or a forward and a backward as (1F4;0B2)OVERLAP_F_B"
    )]
    Cell {
        /// Row, from 1.
        row: usize,
        /// Cell of the row, from 1.
        cell: usize,
        /// The text found, shortened.
        text: String,
    },
    /// A row without passes.
    #[error("row {row} has no passes: every rank needs some")]
    EmptyRow {
        /// Row, from 1.
        row: usize,
    },
    /// No rows at all.
    #[error("the schedule is empty: write one row per rank")]
    Empty,
    /// Stages that cannot be spread evenly.
    #[error("{stages} stages cannot be spread evenly over {ranks} ranks (rows)")]
    Uneven {
        /// One more than the highest stage.
        stages: u64,
        /// Number of rows.
        ranks: usize,
    },
    /// A stage on a rank that has it in no known placement.
    #[error(
        "stage {stage} is on rank {rank}: chunks are placed looped, on rank {looped}, or in a V, on rank {vee}"
    )]
    Placement {
        /// The stage of torch.
        stage: u16,
        /// The rank whose row has it.
        rank: usize,
        /// Its rank if chunks are looped.
        looped: usize,
        /// Its rank in a V.
        vee: usize,
    },
    /// Well-formed, but not a schedule. Stages are those of debubble: the ranks of torch.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// `schedule` as torch reads it, a row for each rank, without copies to the host and without R: an R in a
/// pair leaves the other pass.
///
/// # Errors
/// If torch cannot run it.
pub fn write(schedule: &Schedule) -> Result<String, TorchRefusal> {
    check(schedule)?;
    let mut text = String::new();
    for order in schedule.orders() {
        for (at, slot) in order.slots().filter_map(without_recompute).enumerate() {
            let comma = if at > 0 { "," } else { "" };
            // Writing to a string cannot fail.
            let _ = match slot {
                Slot::One(pass) => write!(text, "{comma}{}", action(pass)),
                Slot::Pair(first, second) => {
                    // Who runs it takes the first for the forward.
                    let turned = second.kind == Kind::F;
                    let (first, second) = if turned { (second, first) } else { (first, second) };
                    write!(text, "{comma}({};{})OVERLAP_F_B", action(first), action(second))
                }
            };
        }
        text.push('\n');
    }
    Ok(text)
}

/// `slot` without R; none if nothing is left.
fn without_recompute(slot: Slot) -> Option<Slot> {
    let mut passes = slot.passes().filter(|pass| pass.kind != Kind::R);
    let first = passes.next()?;
    Some(passes.next().map_or(Slot::One(first), |second| Slot::Pair(first, second)))
}

fn check(schedule: &Schedule) -> Result<(), TorchRefusal> {
    let shape = schedule.shape();
    if schedule.placement() == Placement::Mirrored {
        return Err(TorchRefusal::Mirrored);
    }
    if shape.vocabulary() != Vocabulary::Whole {
        return Err(TorchRefusal::Shards);
    }
    let last = shape.chunks() - 1;
    for order in schedule.orders() {
        let mut slots = order.slots().filter_map(without_recompute);
        if let Some(slot) = slots.find(|slot| !slot.is_overlap()) {
            return Err(TorchRefusal::Pair(slot));
        }
        let own = |pass: &&Pass| pass.kind == Kind::F && pass.chunk == last;
        let losses: Vec<Pass> = order.passes().iter().filter(own).copied().collect();
        let wrong = losses.windows(2).find(|two| two[0].microbatch > two[1].microbatch);
        if let Some(&[later, earlier]) = wrong {
            return Err(TorchRefusal::Losses(later, earlier));
        }
    }
    Ok(())
}

/// The letter of torch for a kind of pass.
const fn letter(kind: Kind) -> &'static str {
    match kind {
        Kind::F => "F",
        Kind::B => "I",
        Kind::W => "W",
        Kind::BW => "B",
        // Schedules with S and T are refused before, and R is left out.
        Kind::S | Kind::T | Kind::R => "",
    }
}

fn action(pass: Pass) -> String {
    format!("{}{}{}", pass.chunk, letter(pass.kind), pass.microbatch)
}

/// Why a text is not a schedule, in the form that it looks like.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ScheduleTextError {
    /// In the text form.
    #[error(transparent)]
    Text(#[from] TextError),
    /// In the CSV of torch.
    #[error(transparent)]
    TorchCsv(#[from] TorchCsvError),
}

/// The schedule in `text`, in the text form or the CSV of torch, whichever it looks like.
///
/// # Errors
/// If it is not a schedule.
pub fn read_either(text: &str) -> Result<Schedule, ScheduleTextError> {
    match is_torch_csv(text) {
        true => Ok(read(text)?),
        false => Ok(text.parse()?),
    }
}

/// Whether `text` looks like a schedule of torch rather than the text form, whose lines begin with a letter.
#[must_use]
pub fn is_torch_csv(text: &str) -> bool {
    let first = text.trim_start().chars().next();
    first.is_some_and(|first| first.is_ascii_digit() || matches!(first, '(' | ',' | '"'))
}

/// The schedule in `text`, the CSV of torch.
///
/// # Errors
/// At the first cell that is not an action, or if the rows are not a schedule.
pub fn read(text: &str) -> Result<Schedule, TorchCsvError> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let rows: Vec<&str> = text.split('\n').collect();
    if text.trim().is_empty() {
        return Err(TorchCsvError::Empty);
    }
    let orders = rows.iter().zip(1..).map(|(row, number)| read_row(row, number));
    let orders = orders.collect::<Result<Vec<_>, _>>()?;
    let ranks = orders.len();
    let passes = || orders.iter().flat_map(Order::passes);
    let stages = passes().map(|pass| u64::from(pass.chunk) + 1).max().unwrap_or(0);
    let microbatches = passes().map(|pass| u64::from(pass.microbatch) + 1).max().unwrap_or(0);
    if stages % ranks as u64 != 0 {
        return Err(TorchCsvError::Uneven { stages, ranks });
    }
    let shape = Shape::new(ranks as u64, stages / ranks as u64, microbatches)?;
    let placement = placement(shape, &orders)?;
    Ok(Schedule::new(shape, placement, orders)?)
}

/// The placement under which every pass stands on its rank.
fn placement(shape: Shape, orders: &[Order]) -> Result<Placement, TorchCsvError> {
    let stray = |placement: Placement| {
        let mut all = orders.iter().enumerate();
        all.find_map(|(rank, order)| {
            let home = |pass: &&Pass| placement.stage_of(shape, **pass);
            Some((rank, *order.passes().iter().find(|pass| home(pass) != rank)?))
        })
    };
    match (stray(Placement::Looped), stray(Placement::Vee)) {
        (None, _) => Ok(Placement::Looped),
        (_, None) => Ok(Placement::Vee),
        (_, Some((rank, pass))) => Err(TorchCsvError::Placement {
            stage: pass.chunk,
            rank,
            looped: Placement::Looped.stage_of(shape, pass),
            vee: Placement::Vee.stage_of(shape, pass),
        }),
    }
}

fn read_row(row: &str, number: usize) -> Result<Order, TorchCsvError> {
    let mut order = Order::default();
    for (text, cell) in row.split(',').zip(1..) {
        let text = text.trim();
        let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let text = quoted.unwrap_or(text).trim();
        let wrong = || TorchCsvError::Cell {
            row: number,
            cell,
            text: text.chars().take(MOST_SAID).collect(),
        };
        if let Some(slot) = read_cell(text).ok_or_else(wrong)? {
            order.push(slot);
        }
    }
    match order.passes().is_empty() {
        true => Err(TorchCsvError::EmptyRow { row: number }),
        false => Ok(order),
    }
}

/// The slot of a cell; nothing if the cell is empty or says what follows from the passes, and no value if
/// it is not an action.
fn read_cell(text: &str) -> Option<Option<Slot>> {
    if text.is_empty() {
        return Some(None);
    }
    let Some(inner) = text.strip_prefix('(') else { return read_action(text) };
    let parts = inner.strip_suffix(")OVERLAP_F_B")?.split(';').map(str::trim);
    let passes: Option<Vec<Pass>> = parts.map(read_pass).collect();
    match passes?[..] {
        [one] => Some(Some(Slot::One(one))),
        [first, second] => {
            Some(Slot::Pair(first, second)).filter(|pair| pair.is_overlap()).map(Some)
        }
        _ => None,
    }
}

/// Actions with a microbatch that follow from the passes.
const TRANSFERS: [&str; 6] = ["SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B"];
/// Actions of a whole stage that do.
const COLLECTIVES: [&str; 4] = ["UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"];

fn read_action(text: &str) -> Option<Option<Slot>> {
    if let Some(pass) = read_pass(text) {
        return Some(Some(Slot::One(pass)));
    }
    let (stage, rest) = split_digits(text);
    let word = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    let microbatch = &rest[word.len()..];
    let known = match microbatch.is_empty() {
        true => COLLECTIVES.contains(&word),
        false => TRANSFERS.contains(&word),
    };
    (known && !stage.is_empty()).then_some(None)
}

fn read_pass(text: &str) -> Option<Pass> {
    let (stage, rest) = split_digits(text);
    let (name, microbatch) = rest.split_at_checked(1)?;
    let kind =
        [Kind::F, Kind::B, Kind::W, Kind::BW].into_iter().find(|&one| letter(one) == name)?;
    if !microbatch.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Pass { kind, chunk: stage.parse().ok()?, microbatch: microbatch.parse().ok()? })
}

/// The digits that `text` begins with, and what is behind them.
fn split_digits(text: &str) -> (&str, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.split_at(text.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Costs, Family, Nanos, PassTimes, Problem};

    fn schedule(family: Family, stages: u64, microbatches: u64) -> Option<Schedule> {
        let chunks = match family.about().chunks {
            crate::Chunks::Exactly(chunks) => u64::from(chunks),
            crate::Chunks::Any { default } => u64::from(default),
        };
        let one = Nanos(1_000);
        let times = PassTimes::new(one, one, one);
        let shape = Shape::new(stages, chunks, microbatches).ok()?;
        let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).ok()?;
        family.schedule(&problem).ok()
    }

    #[test]
    fn every_order_that_torch_can_hold_comes_back_as_it_was() {
        let mut held = 0;
        for family in Family::ALL {
            for (stages, microbatches) in [(2, 4), (4, 8), (4, 12), (8, 16)] {
                let Some(made) = schedule(family, stages, microbatches) else { continue };
                let Ok(text) = write(&made) else { continue };
                let read = read(&text).unwrap_or_else(|error| panic!("{}: {error}", family.name()));
                assert!(is_torch_csv(&text) && !is_torch_csv(&made.to_string()));
                assert_eq!(read.orders(), made.orders(), "{}", family.name());
                held += 1;
            }
        }
        assert!(held > 60, "only {held} orders are held");
    }

    #[test]
    fn what_torch_has_no_word_for_is_refused() {
        let refused = |family| write(&schedule(family, 4, 8).unwrap());
        assert_eq!(refused(Family::named("dualpipe").unwrap()), Err(TorchRefusal::Mirrored));
        let text = "F0.1 F0.0 BW0.0 BW0.1";
        let error = write(&text.parse().unwrap()).unwrap_err().to_string();
        assert!(error.ends_with("F0.1 comes before F0.0"), "{error}");
    }

    #[test]
    fn what_torch_adds_is_passed_over() {
        let plain = read("0F0,0F1,0I0,0W0,0B1\n1F0,1B0,1F1,1B1\n").unwrap();
        let lowered = "0UNSHARD,0F0,0SEND_F0, 0F1 ,,0SEND_F1,0RECV_B0,\"0I0\",0W0,0WAIT_SEND_F0,0RECV_B1,\
                       0B1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\r\n1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,,";
        assert_eq!(read(lowered).unwrap().orders(), plain.orders());
    }

    #[test]
    fn pairs_and_placements_are_read_off_the_rows() {
        let text =
            "0F0,3F0,(3I0;0F1)OVERLAP_F_B,3W0,3F1,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,2B1,1B0,1B1\n";
        let made = read(text).unwrap();
        assert_eq!((made.placement(), made.shape().chunks_per_stage()), (Placement::Vee, 2));
        assert!(write(&made).unwrap().contains("(0F1;3I0)OVERLAP_F_B"));
    }

    #[test]
    fn wrong_rows_are_refused_where_they_are_wrong() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("0F0,0B0,0X0").starts_with("row 1, cell 3: `0X0` is not an action"));
        assert!(error("0F0,0F0.5").contains("cell 2"));
        assert!(error("0F0,0B0\n\n1F0,1B0").starts_with("row 2 has no passes"));
        assert!(error("0SEND_F0").contains("row 1 has no passes"));
        assert_eq!(error(" \n"), "the schedule is empty: write one row per rank");
        assert!(error("0F0,0B0,2F0,2B0\n1F0,1B0").contains("3 stages cannot be spread evenly"));
        let moved = "0F0,0B0,1F0,1B0\n2F0,2B0,3F0,3B0";
        assert!(error(moved).starts_with("stage 1 is on rank 0"), "{}", error(moved));
        assert!(error("()OVERLAP_F_B").contains("cell 1"));
        assert!(error("0F0,(0F1;0W0)OVERLAP_F_B").contains("`(0F1;0W0)OVERLAP_F_B`"));
        let odd: Schedule = "F0.0 B0.0 F0.1&W0.0 BW0.1".parse().unwrap();
        assert!(write(&odd).unwrap_err().to_string().contains("no F0.1&W0.0"));
        assert!(error("0F0,0F0,0B0").contains("F0.0"));
        assert!(error("0B0,0F0").contains("F0.0"));
        assert!(error("0F4294967296").contains("is not an action"));
    }
}
