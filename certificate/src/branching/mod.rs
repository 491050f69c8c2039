//! The argument by branching: every order is in one of the branches of a tree, and each branch ends
//! where no order costs less than the bound.
//!
//! *Proof.* Microbatches are alike, so the passes of a kind and chunk may be taken to run in their order.
//! Of two passes of a stage one ends before the other starts: so every order is in one of the two
//! branches of a node, and by induction in one leaf. Let every pass of an order start as soon as it can;
//! no pass then ends later than in any other timing of the order, and the first pass of a stage,
//! the first F of its lowest chunk, starts when it arrives, because that chunk is the first of every stage
//! on its way. If the order costs less than the bound, each pass starts in the window between its
//! earliest and its last start, where these follow from the cost and from what was decided on the way
//! to the leaf, step by step ([`crate::windows`]). So a leaf whose windows contradict each other holds no such
//! order.

mod log;

pub use self::log::{Log, MAX_WORDS};

use pipeline::Pass;

use crate::critical_path::Pipe;
use crate::windows::{Heads, Root, Spent, Stages, Windows, pairs, root};
use crate::{Certificate, Refusal};

/// The work for one word of a log is bounded by so many times the pairs of passes of all stages.
const ROUNDS: u64 = 1 << 12;

/// The work for a whole log, in pairs of passes.
const MOST_WORK: u64 = 1 << 38;

/// The windows kept at a time: pairs of passes of a stage, for all passes, once for each open branch.
const MOST_KEPT: usize = 1 << 30;

/// Whether `log` shows that every schedule costs `bound` or more.
pub(crate) fn shows(
    certificate: &Certificate,
    pipe: &Pipe,
    heads: &Heads,
    log: &Log,
    bound: u64,
) -> Result<bool, Refusal> {
    let refuse = |why| Err(Refusal::Log { why });
    let pairs = pairs(certificate)?;
    let words = log.branches() as u64 * 2 + 1;
    let words = words + heads.count() as u64;
    let work = words.saturating_mul(ROUNDS).saturating_mul(pairs as u64).min(MOST_WORK);
    let stages = Stages::of(certificate, pipe, work);
    let words = places(log, &stages)?;
    if deepest(&words).saturating_mul(pairs) > MOST_KEPT {
        return refuse("it branches too deep");
    }
    let shown = match root(&stages, heads, i128::from(bound) - 1) {
        Ok(Root::Open(root)) => follow(&stages, &words, root),
        Ok(Root::Refuted) => Ok(true),
        Ok(Root::NotShown) => Ok(false),
        Err(Spent) => Err(Spent),
    };
    shown.or_else(|Spent| refuse("following it takes too long"))
}

/// A word whose passes are those of a pipeline, as places among the passes of all stages.
#[derive(Clone, Copy, Debug)]
enum Word {
    Branch(usize, usize),
    Leaf,
}

/// The words of `log`, where every branch is about two passes of one stage.
fn places(log: &Log, stages: &Stages) -> Result<Vec<Word>, Refusal> {
    let word = |node: &Option<[Pass; 2]>| {
        let Some([first, second]) = node else { return Ok(Word::Leaf) };
        let places = stages.place(*first).zip(stages.place(*second));
        match places.filter(|&(first, second)| first != second && stages.together(first, second)) {
            Some((first, second)) => Ok(Word::Branch(first, second)),
            None => Err(Refusal::Log { why: "a branch is not about two passes of one stage" }),
        }
    };
    log.nodes.iter().map(word).collect()
}

/// Follows the branches from the root: whether every leaf is contradictory.
fn follow(stages: &Stages, words: &[Word], root: Windows) -> Result<bool, Spent> {
    // Branches not yet followed, with what is decided first in each; nothing where they are refuted already.
    let mut open = vec![(Some(root), None)];
    for word in words {
        let Some((mut windows, decided)) = open.pop() else { return Ok(false) };
        if let Some(known) = &mut windows
            && !known.conclude(stages, decided)?
        {
            windows = None;
        }
        match *word {
            Word::Leaf if windows.is_some() => return Ok(false),
            Word::Leaf => {}
            Word::Branch(first, second) => {
                open.push((windows.clone(), Some((second, first))));
                open.push((windows, Some((first, second))));
            }
        }
    }
    Ok(open.is_empty())
}

/// The most branches that are open at a time.
fn deepest(words: &[Word]) -> usize {
    let mut open = 1usize;
    let mut deepest = open;
    for word in words {
        match word {
            Word::Leaf => open = open.saturating_sub(1),
            Word::Branch(..) => open += 1,
        }
        deepest = deepest.max(open);
    }
    deepest
}
