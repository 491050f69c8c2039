//! The room for a forward: what must have ended on its stage when it starts.
//!
//! When F of microbatch k of a chunk starts, k + 1 of its F hold memory, but for those whose B have ended, b of
//! them, which hold M_W until their W have, w of them. So for some counts b and w that fit, so many at the least have
//! ended before. Where the stage has two chunks, both count: B of the higher is before B of the lower, so the
//! higher has as many B done or more; and F of the lower chunk leaves room for one M_B of the higher
//! unless B of the higher has ended for the microbatch whose B of the lower one is next: that is still to
//! run, while the F of the lower chunk up to this one hold theirs. Where it has more, the lowest is counted, with the
//! chunk of F or, for that of the lowest itself, the highest: what others hold is left out.

use super::stages::Stages;

/// How many B and W of two chunks of the stage have ended, at the least. The chunks are the same where
/// one is counted; then the counts of the second are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Done {
    /// Chunks of all stages, numbered stage by stage.
    pub(super) chunks: [usize; 2],
    pub(super) backwards: [usize; 2],
    pub(super) weights: [usize; 2],
}

impl Done {
    /// The last B and W of each chunk that have ended, as places.
    pub(super) fn lasts(&self, stages: &Stages) -> impl Iterator<Item = usize> + use<> {
        let Self { chunks, backwards, weights } = *self;
        let [two, m] = [2, stages.microbatches];
        let last = move |at: usize| {
            let (kind, which) = (at / two, at % two);
            let count = if kind == 0 { backwards[which] } else { weights[which] };
            let line = 3 * chunks[which] + 1 + kind;
            (count > 0).then(|| line * m + count - 1)
        };
        (0..2 * two).filter_map(last)
    }

    /// Lowers `fewest`, by line of the stage, to these counts.
    pub(super) fn least(&self, stages: &Stages, fewest: &mut [usize]) {
        // Where one chunk is counted it stands twice, and its first counts say all.
        let count = if self.chunks[0] == self.chunks[1] { 1 } else { 2 };
        for which in 0..count {
            let line = 3 * (self.chunks[which] % stages.chunks) + 1;
            for (kind, done) in [self.backwards[which], self.weights[which]].into_iter().enumerate()
            {
                fewest[line + kind] = fewest[line + kind].min(done);
            }
        }
    }
}

/// More microbatches than this, and the W of a chunk are counted as if those of the other were all done.
const FEW: usize = 12;

/// Calls `each` with all counts of which some hold when F of `microbatch` and `chunk` starts, where the stage has
/// `limit`. `end` stops it.
pub(super) fn each_room<E>(
    stages: &Stages,
    chunk: usize,
    microbatch: usize,
    limit: i128,
    mut each: impl FnMut(Done) -> Result<(), E>,
) -> Result<(), E> {
    let lowest = chunk / stages.chunks * stages.chunks;
    let highest = lowest + stages.chunks - 1;
    if lowest == highest {
        return each_of_one(stages, chunk, microbatch, limit, &mut each);
    }
    let is_lowest = chunk == lowest;
    let chunks = [lowest, if is_lowest { highest } else { chunk }];
    let [low, high] = chunks.map(|one| stages.held[one]);
    for lower in 0..=microbatch {
        let own = (microbatch + 1 - lower) as i128 * low[0];
        for higher in lower..=microbatch {
            let other = (microbatch + 1 - higher) as i128 * high[0];
            let (held, needed) = match is_lowest {
                true => (own, if higher == lower { own + high[0] } else { own }),
                false => (own + other, own + other),
            };
            if needed > limit {
                continue;
            }
            let left = limit - held;
            let backwards = [lower, higher];
            if stages.microbatches > FEW {
                let weights = [weights(lower, low[1], left), weights(higher, high[1], left)];
                each(Done { chunks, backwards, weights })?;
                continue;
            }
            for first in weights(lower, low[1], left)..=lower {
                let left = left - (lower - first) as i128 * low[1];
                let weights = [first, weights(higher, high[1], left)];
                each(Done { chunks, backwards, weights })?;
            }
        }
    }
    Ok(())
}

fn each_of_one<E>(
    stages: &Stages,
    chunk: usize,
    microbatch: usize,
    limit: i128,
    each: &mut impl FnMut(Done) -> Result<(), E>,
) -> Result<(), E> {
    let [most, rest] = stages.held[chunk];
    for backwards in 0..=microbatch {
        let left = limit - (microbatch + 1 - backwards) as i128 * most;
        if left >= 0 {
            let weights = [weights(backwards, rest, left), 0];
            each(Done { chunks: [chunk, chunk], backwards: [backwards, 0], weights })?;
        }
    }
    Ok(())
}

/// How many of `ended` W must be done, where each that is not holds `size` and `left` is left.
fn weights(ended: usize, size: i128, left: i128) -> usize {
    if size == 0 {
        return 0;
    }
    ended.saturating_sub(usize::try_from(left / size).unwrap_or(usize::MAX))
}
