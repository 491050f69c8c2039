//! The collectives of one stage, from its order.

use std::collections::{BTreeMap, BTreeSet};

use super::{ParameterAct, ParameterOp, Reshard, Sharding, StageOps};
use crate::order::Order;
use crate::pass::{Kind, Pass};

/// Where the slots of a stage use the parameters of a chunk, and add to its gradients.
#[derive(Default)]
struct Uses {
    /// Ascending slots of its passes.
    slots: Vec<u32>,
    /// How many of them have ended.
    ended: usize,
    /// W and BW passes.
    gradients: u32,
    /// Number of operations that are over once it is gathered.
    gathered: u32,
}

impl Uses {
    fn next(&self) -> Option<u32> {
        self.slots.get(self.ended).copied()
    }
}

/// Whether `pass` uses the parameters of its chunk.
const fn uses(pass: Pass) -> bool {
    !pass.kind.is_of_vocabulary()
}

/// Whether `pass` adds to the gradients of its chunk.
const fn adds(pass: Pass) -> bool {
    matches!(pass.kind, Kind::W | Kind::BW)
}

/// The operations of a stage, as they are written slot by slot.
struct Stage {
    sharding: Sharding,
    /// By chunk.
    chunks: BTreeMap<u16, Uses>,
    /// Chunks that are used again, by the slot of their next use.
    upcoming: BTreeSet<(u32, u16)>,
    /// Chunks that are gathered, and not dropped since.
    held: BTreeSet<u16>,
    made: StageOps,
}

/// The operations of a stage with `order`.
pub(super) fn stage(order: &Order, sharding: Sharding) -> StageOps {
    let mut chunks = BTreeMap::<u16, Uses>::new();
    for (slot, at) in order.slots().zip(0u32..) {
        for pass in slot.passes().filter(|&pass| uses(pass)) {
            let chunk = chunks.entry(pass.chunk).or_default();
            chunk.gradients += u32::from(adds(pass));
            if chunk.slots.last() != Some(&at) {
                chunk.slots.push(at);
            }
        }
    }
    let upcoming = chunks.iter().filter_map(|(&chunk, uses)| Some((uses.next()?, chunk))).collect();
    let (held, made) = (BTreeSet::new(), StageOps::default());
    let mut stage = Stage { sharding, chunks, upcoming, held, made };
    for (slot, at) in order.slots().zip(0u32..) {
        stage.drop_and_gather(at);
        let passes = || slot.passes().filter(|&pass| uses(pass));
        let needs = passes().map(|pass| stage.chunks[&pass.chunk].gathered).max();
        stage.made.needs.push(needs.unwrap_or(0));
        passes().for_each(|pass| stage.end(pass, at));
    }
    stage.made
}

impl Stage {
    fn push(&mut self, act: ParameterAct, chunk: u16, after: u32) {
        self.made.ops.push(ParameterOp { act, chunk, after });
    }

    /// Number of chunks that are held at once, if that is limited.
    fn window(&self) -> usize {
        match self.sharding {
            Sharding::Optimizer | Sharding::Gradients => usize::MAX,
            Sharding::Fsdp { prefetch, .. } => usize::from(prefetch) + 1,
        }
    }

    /// Adds the reshards and gathers that the stage issues before slot `at`.
    fn drop_and_gather(&mut self, at: u32) {
        if at > 0 && !matches!(self.sharding, Sharding::Fsdp { .. }) {
            return;
        }
        let window = self.window();
        let mut wanted: Vec<u16> = Vec::new();
        let mut last = None;
        for &(next, chunk) in &self.upcoming {
            // The two passes of a pair come together.
            if wanted.len() >= window && last != Some(next) {
                break;
            }
            last = Some(next);
            wanted.push(chunk);
        }
        if let Sharding::Fsdp { reshard, .. } = self.sharding {
            let over = |chunk: &u16| match reshard {
                Reshard::Never => self.chunks[chunk].next().is_none(),
                Reshard::AfterUse => !wanted.contains(chunk),
            };
            let dropped: Vec<u16> = self.held.iter().copied().filter(over).collect();
            for chunk in dropped {
                self.held.remove(&chunk);
                self.push(ParameterAct::Reshard, chunk, at);
            }
        }
        for chunk in wanted {
            let number = u32::try_from(self.made.ops.len() + 1).unwrap_or(u32::MAX);
            if self.held.insert(chunk) {
                self.chunks.entry(chunk).or_default().gathered = number;
                self.push(ParameterAct::Gather, chunk, at);
            }
        }
    }

    /// `pass`, of slot `at`, has ended.
    fn end(&mut self, pass: Pass, at: u32) {
        let uses = self.chunks.entry(pass.chunk).or_default();
        if uses.next() == Some(at) {
            uses.ended += 1;
            self.upcoming.remove(&(at, pass.chunk));
            self.upcoming.extend(uses.next().map(|next| (next, pass.chunk)));
        }
        if adds(pass) {
            uses.gradients -= 1;
            if uses.gradients == 0 || self.sharding == Sharding::Gradients {
                self.push(ParameterAct::Reduce, pass.chunk, at + 1);
            }
        }
    }
}
