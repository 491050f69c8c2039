//! Which freed memory may be used again, by whom, and when.
//!
//! Memory that one stream has freed is free for that stream at once: what it does next comes after
//! what it did before. To any other stream it is free only behind a mark (an event) in the first.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// A stream, as memory knows it.
pub(crate) type StreamId = u64;

/// FreeBlock memory. `M` is a mark in a stream.
#[derive(Debug)]
pub(crate) struct FreeBlock<M> {
    /// Where.
    pub(crate) address: u64,
    /// Whose next work comes after all uses but those before `after`; `None`: nobody uses it.
    pub(crate) owner: Option<StreamId>,
    /// A mark behind uses by others.
    pub(crate) after: Option<M>,
}

/// FreeBlock memory by size.
#[derive(Debug)]
pub(crate) struct BlockPool<M> {
    by_size: HashMap<usize, Vec<FreeBlock<M>>>,
}

impl<M> Default for BlockPool<M> {
    fn default() -> Self {
        Self { by_size: HashMap::new() }
    }
}

/// Memory is rounded up to these, so that sizes that differ little share, and every buffer is
/// aligned for any access.
const GRANULE: usize = 512;

/// `bytes`, rounded up; at least one granule.
pub(crate) fn rounded(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(GRANULE)
}

impl<M> BlockPool<M> {
    /// Puts memory of `bytes` back.
    pub(crate) fn put(&mut self, bytes: usize, freed: FreeBlock<M>) {
        self.by_size.entry(bytes).or_default().push(freed);
    }

    fn take(&mut self, bytes: usize, fits: impl Fn(&FreeBlock<M>) -> bool) -> Option<FreeBlock<M>> {
        let blocks = self.by_size.get_mut(&bytes)?;
        let at = blocks.iter().position(fits)?;
        Some(blocks.swap_remove(at))
    }

    /// Memory that `owner` may use at once: `is_past` says whether a mark has been passed.
    pub(crate) fn take_ready(
        &mut self,
        bytes: usize,
        owner: StreamId,
        is_past: impl Fn(&M) -> bool,
    ) -> Option<FreeBlock<M>> {
        self.take(bytes, |freed| {
            freed.owner.is_none_or(|other| other == owner)
                && freed.after.as_ref().is_none_or(&is_past)
        })
    }

    /// Any memory of that size: its owner's work so far and its mark must be waited for.
    pub(crate) fn take_any(&mut self, bytes: usize, owner: StreamId) -> Option<FreeBlock<M>> {
        let own = self.take(bytes, |freed| freed.owner.is_none_or(|other| other == owner));
        own.or_else(|| self.take(bytes, |_| true))
    }

    /// Forgets `owner`, whose work is done.
    pub(crate) fn retire(&mut self, owner: StreamId) {
        for freed in self.by_size.values_mut().flatten() {
            if freed.owner == Some(owner) {
                freed.owner = None;
                freed.after = None;
            }
        }
    }

    /// All of it.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = FreeBlock<M>> + '_ {
        self.by_size.drain().flat_map(|(_, blocks)| blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(address: u64, owner: Option<StreamId>, after: Option<bool>) -> FreeBlock<bool> {
        FreeBlock { address, owner, after }
    }

    fn pool(all: impl IntoIterator<Item = FreeBlock<bool>>) -> BlockPool<bool> {
        let mut pool = BlockPool::default();
        all.into_iter().for_each(|freed| pool.put(512, freed));
        pool
    }

    #[test]
    fn a_stream_gets_back_its_own_memory_of_that_size() {
        let mut pool = pool([freed(1, Some(7), None), freed(2, Some(8), None)]);
        assert!(pool.take_ready(1024, 8, |_| true).is_none());
        assert_eq!(pool.take_ready(512, 8, |_| true).unwrap().address, 2);
        assert!(pool.take_ready(512, 8, |_| true).is_none());
    }

    #[test]
    fn memory_behind_a_mark_waits_for_it() {
        let mut pool = pool([freed(1, Some(7), Some(false)), freed(2, Some(7), Some(true))]);
        assert_eq!(pool.take_ready(512, 7, |past| *past).unwrap().address, 2);
        assert!(pool.take_ready(512, 7, |past| *past).is_none());
        assert_eq!(pool.take_any(512, 7).unwrap().after, Some(false));
    }

    #[test]
    fn in_need_own_memory_comes_before_that_of_others() {
        let mut pool = pool([freed(1, Some(8), None), freed(2, Some(7), Some(false))]);
        assert_eq!(pool.take_any(512, 7).unwrap().address, 2);
        assert_eq!(pool.take_any(512, 7).unwrap().owner, Some(8));
    }

    #[test]
    fn memory_of_a_stream_that_is_gone_is_anybody_s() {
        let mut pool = pool([freed(1, Some(8), Some(false))]);
        assert!(pool.take_ready(512, 7, |past| *past).is_none());
        pool.retire(8);
        assert_eq!(pool.take_ready(512, 7, |past| *past).unwrap().address, 1);
        assert_eq!(pool.drain().count(), 0);
    }

    #[test]
    fn sizes_are_whole_granules() {
        assert_eq!([0, 1, 512, 513].map(rounded), [512, 512, 512, 1024].map(Some));
        assert_eq!(rounded(usize::MAX), None);
    }
}
