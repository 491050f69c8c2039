//! The passes that a rank runs in a step, by Megatron-core's order.
//!
//! Source: `get_schedule_table` and `get_pp_rank_microbatches` in Megatron-core's
//! `pipeline_parallel/schedules.py`, and the warm-up of its 1F1B there. A group of microbatches runs through all chunks
//! of a rank, chunk by chunk; backward passes take the chunks in reverse.

/// What is known of the order of a step.
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) stages: u32,
    /// Chunks of a stage.
    pub(super) chunks: u32,
    pub(super) microbatches: u32,
}

impl Order {
    /// Forward passes of a rank.
    const fn total(self) -> u64 {
        self.chunks as u64 * self.microbatches as u64
    }

    /// Forward passes that `stage` runs before its first backward pass, where groups have `group` microbatches.
    fn first(self, stage: u32, group: u32) -> u64 {
        let below = u64::from(self.stages - stage - 1);
        let warm_up = match self.chunks {
            1 => below,
            chunks => 2 * below + u64::from(chunks - 1) * u64::from(group),
        };
        (warm_up + 1).min(self.total())
    }

    /// Microbatches of a group, by the forward passes that each of `stages` runs before its first backward pass;
    /// the stage that contradicts it where there is none.
    pub(super) fn group(self, stages: &[(u32, usize)]) -> Result<u32, u32> {
        let group = match self.chunks {
            1 => self.microbatches,
            chunks => {
                let of = |&(stage, first): &(u32, usize)| {
                    let first = u64::try_from(first).unwrap_or(u64::MAX);
                    let known = first.checked_sub(1 + 2 * u64::from(self.stages - stage - 1))?;
                    let whole = first < self.total() && known % u64::from(chunks - 1) == 0;
                    u32::try_from(known / u64::from(chunks - 1)).ok().filter(|_| whole)
                };
                // Where all forwards come first, groups can only be as large as they must be.
                let only = (self.microbatches == self.stages).then_some(self.stages);
                let group = stages.iter().find_map(of).or(only);
                group.filter(|group| (self.stages..=self.microbatches).contains(group)).unwrap_or(0)
            }
        };
        let fits = |&&(stage, first): &&(u32, usize)| {
            group > 0 && u64::try_from(first) == Ok(self.first(stage, group))
        };
        match stages.iter().find(|one| !fits(one)) {
            Some((stage, _)) => Err(*stage),
            None => Ok(group),
        }
    }

    /// Chunk of the rank and microbatch of each forward pass in turn.
    pub(super) fn table(self, group: u32) -> impl Iterator<Item = (u32, u32)> {
        let Self { chunks, microbatches, .. } = self;
        let groups = (0..microbatches).step_by(usize::try_from(group.max(1)).unwrap_or(usize::MAX));
        groups.flat_map(move |first| {
            let end = first.saturating_add(group).min(microbatches);
            (0..chunks).flat_map(move |chunk| (first..end).map(move |one| (chunk, one)))
        })
    }
}
