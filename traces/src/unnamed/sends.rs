//! Which pass of a rank made what it sends: an output goes to the next stage, a gradient to the one before.
//!
//! A trainer sends a value when its pass is over, or the values of a forward and a backward pass together. With several
//! passes since the last send, the peer says whose value it is; where no peer is known, or both are the same rank, it
//! is that of the last pass, and two values are those of the last two.

use pipeline::Kind;

use super::messages::Message;
use super::passes::{Entry, Pass};
use crate::error::NotInferred;

/// The passes of a rank by start, and the ranks that it sends to, where they are known: outputs, and gradients.
pub(super) struct Passes {
    pub(super) passes: Vec<Pass>,
    pub(super) next: Option<u32>,
    pub(super) previous: Option<u32>,
}

/// Marks the passes that send.
pub(super) fn resolve(entries: Vec<Entry>, rank: u32) -> Result<Passes, NotInferred> {
    let mut known = Passes { passes: Vec::new(), next: None, previous: None };
    let mut gaps: Vec<Gap> = Vec::new();
    let mut pending: Vec<usize> = Vec::new();
    let mut is_gap = false;
    for entry in entries {
        match entry {
            Entry::Pass(pass) => {
                if is_gap && gaps.last().is_some_and(|gap| !gap.sends.is_empty()) {
                    pending.clear();
                }
                is_gap = false;
                if pass.kind != Kind::W {
                    pending.push(known.passes.len());
                }
                known.passes.push(pass);
            }
            Entry::Message(message) => {
                if !is_gap {
                    gaps.push(Gap { made: last_two(&pending), sends: Vec::new() });
                }
                is_gap = true;
                if let (true, Some(gap)) = (message.is_send, gaps.last_mut()) {
                    gap.sends.push(message);
                }
            }
        }
    }
    gaps.retain(|gap| !gap.sends.is_empty());
    for gap in &gaps {
        if let [pass] = gap.made[..] {
            gap.sends.iter().try_for_each(|send| known.send(pass, send, rank))?;
        }
    }
    for gap in &gaps {
        if gap.made.len() != 1 {
            known.together(gap, rank)?;
        }
    }
    Ok(known)
}

/// Messages between two passes.
struct Gap {
    /// The last passes since a send: both kinds, if there were both.
    made: Vec<usize>,
    sends: Vec<Message>,
}

/// The last two of `pending`, or the last one.
fn last_two(pending: &[usize]) -> Vec<usize> {
    pending[pending.len().saturating_sub(2)..].to_vec()
}

impl Passes {
    /// The rank that values of `kind` go to.
    fn peer(&mut self, kind: Kind) -> &mut Option<u32> {
        if kind == Kind::F { &mut self.next } else { &mut self.previous }
    }

    /// Notes that the value of the pass at `pass` is what `send` sends.
    fn send(&mut self, pass: usize, send: &Message, rank: u32) -> Result<(), NotInferred> {
        let kind = self.passes[pass].kind;
        self.passes[pass].sends = true;
        let Some(found) = send.peer else { return Ok(()) };
        let peer = *self.peer(kind).get_or_insert(found);
        if peer != found {
            let value = if kind == Kind::F { "outputs" } else { "gradients" };
            return Err(NotInferred::Peers { rank, value, peers: [peer, found] });
        }
        Ok(())
    }

    /// Finds the passes of the sends in `gap`, before which more than one pass has ended, or none.
    fn together(&mut self, gap: &Gap, rank: u32) -> Result<(), NotInferred> {
        let Some(&last) = gap.made.last() else { return Err(NotInferred::Senders { rank }) };
        let kind = |at: usize, all: &[Pass]| all[at].kind == Kind::F;
        let both = match gap.made[..] {
            [first, last] if kind(first, &self.passes) != kind(last, &self.passes) => {
                let is_forward = kind(first, &self.passes);
                Some(if is_forward { [first, last] } else { [last, first] })
            }
            _ => None,
        };
        if let (Some(both), [_, _], true) = (both, &gap.sends[..], self.next == self.previous) {
            let sends = both.into_iter().zip(&gap.sends);
            return sends.into_iter().try_for_each(|(pass, send)| self.send(pass, send, rank));
        }
        for send in &gap.sends {
            let pass = match (both, send.peer) {
                (Some([forward, backward]), Some(to)) if self.next != self.previous => {
                    let other = |known: Option<u32>| known.is_some_and(|known| known != to);
                    if self.next == Some(to) || other(self.previous) {
                        forward
                    } else if self.previous == Some(to) || other(self.next) {
                        backward
                    } else {
                        last
                    }
                }
                (Some(_), _) if gap.sends.len() > 1 => return Err(NotInferred::Senders { rank }),
                _ => last,
            };
            self.send(pass, send, rank)?;
        }
        Ok(())
    }
}
