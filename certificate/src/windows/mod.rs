//! The arguments by windows: if an order cost less than the bound, the times at which its passes can start would
//! contradict each other.
//!
//! *Proof.* Microbatches are alike, so the passes of a kind and chunk may be taken to run in their order. Let
//! every pass start as soon as it can: no pass then ends later than in any other timing of the order, and the
//! first pass of a stage, the first F of its lowest chunk, starts when it arrives, because that chunk is the
//! first of every stage on its way. If the order costs less than the bound, each pass starts in the window
//! between its earliest and its last start, which follow from the cost and from each other, step by step
//! ([`narrow`]). So where windows contradict each other there is no such order.
//!
//! *Raised heads.* What is left of an order when all passes of the microbatches behind k are taken away is an order
//! of the others: times stay, less is held, and stages are free more often. If the windows of these contradict
//! each other when a pass of microbatch k must start before some time, whatever the order costs, then no order starts
//! it sooner. Later windows may count on that.
//!
//! R, where passes are recomputed, is one more pass of its stage, behind its F and before its B, which nothing of another stage
//! waits for.

mod feasible_counts;
mod heads;
mod narrow;
mod stages;

pub use self::heads::{Heads, MAX_HEADS};
pub(crate) use self::narrow::Windows;
use self::stages::kinds;
pub(crate) use self::stages::{Spent, Stages};
use crate::critical_path::Pipe;
use crate::{Certificate, Refusal};

/// The most pairs of passes of a stage, summed over all stages, for which windows are checked.
const MOST_PAIRS: usize = 1 << 28;

/// The work for all windows, in pairs of passes.
const MOST_WORK: u64 = 1 << 39;

/// Whether windows show that every schedule costs `bound` or more, with the raised `heads`.
pub(crate) fn shows(
    certificate: &Certificate,
    pipe: &Pipe,
    heads: &Heads,
    bound: u64,
) -> Result<bool, Refusal> {
    let refuse = |why| Err(Refusal::Log { why });
    pairs(certificate)?;
    let stages = Stages::of(certificate, pipe, MOST_WORK);
    let shown = match root(&stages, heads, i128::from(bound) - 1) {
        Ok(Root::Open(mut windows)) => windows.conclude(&stages, None).map(|holds| !holds),
        Ok(Root::Refuted) => Ok(true),
        Ok(Root::NotShown) => Ok(false),
        Err(Spent) => Err(Spent),
    };
    shown.or_else(|Spent| refuse("following it takes too long"))
}

/// The pairs of passes of a stage, over all stages, where they are not too many.
pub(crate) fn pairs(certificate: &Certificate) -> Result<usize, Refusal> {
    let shape = certificate.schedule.shape();
    let passes = kinds(certificate) * shape.cells();
    let pairs = passes.saturating_mul(passes / shape.stages());
    let why = "the schedule has too many passes for windows";
    if pairs > MOST_PAIRS { Err(Refusal::Log { why }) } else { Ok(pairs) }
}

/// Result of checking raised heads.
pub(crate) enum Root {
    /// The windows under a cost, consistent so far.
    Open(Windows),
    /// No order costs as little.
    Refuted,
    /// A head is of no pass, or is not shown.
    NotShown,
}

/// The windows of orders that cost `most` or less, with the raised `heads`.
pub(crate) fn root(stages: &Stages, heads: &Heads, most: i128) -> Result<Root, Spent> {
    let mut known = Windows::alone(stages);
    if !heads.list().is_empty() && !known.conclude(stages, None)? {
        return Ok(Root::Refuted);
    }
    for &(pass, start) in heads.list() {
        let Some(place) = stages.place(pass) else { return Ok(Root::NotShown) };
        let first = stages.first_only(pass.microbatch as usize + 1);
        let mut windows = known.first_only(stages, &first);
        let Some(own) = first.place(pass) else { return Ok(Root::NotShown) };
        let open = windows.starts_before(own, i128::from(start));
        let holds = open && windows.conclude(&first, None)?;
        stages.spend_as(&first);
        if holds {
            return Ok(Root::NotShown);
        }
        let open = known.starts_no_sooner(stages, place, i128::from(start));
        if !open || !known.conclude(stages, None)? {
            return Ok(Root::Refuted);
        }
    }
    let Some(mut windows) = Windows::within(stages, most) else { return Ok(Root::Refuted) };
    Ok(if windows.raise(&known) { Root::Open(windows) } else { Root::Refuted })
}
