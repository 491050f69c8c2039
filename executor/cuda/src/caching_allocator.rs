//! Free blocks of a caching allocator, and the streams that may reuse them.
//!
//! A block that a stream has freed is ready for reuse on that stream at once, by stream order. Any
//! other stream must wait for an event behind its last use.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// Identifies a stream to the allocator.
pub(crate) type StreamId = u64;

/// A free block. `M` is an event.
#[derive(Debug)]
pub(crate) struct FreeBlock<M> {
    pub(crate) address: u64,
    /// The stream whose order covers all uses, except those that `after` marks; `None`: no stream
    /// uses it.
    pub(crate) stream: Option<StreamId>,
    /// An event after the last use by other streams.
    pub(crate) after: Option<M>,
}

/// Free blocks by size, in bytes.
#[derive(Debug)]
pub(crate) struct BlockPool<M> {
    by_size: HashMap<usize, Vec<FreeBlock<M>>>,
}

impl<M> Default for BlockPool<M> {
    fn default() -> Self {
        Self { by_size: HashMap::new() }
    }
}

/// Sizes, in bytes, are rounded up to a multiple of this, so that similar sizes share blocks and
/// every buffer is aligned for any access.
const GRANULE: usize = 512;

/// `bytes`, rounded up; at least one granule.
pub(crate) fn rounded(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(GRANULE)
}

impl<M> BlockPool<M> {
    /// Adds a free block of `bytes`.
    pub(crate) fn put(&mut self, bytes: usize, freed: FreeBlock<M>) {
        self.by_size.entry(bytes).or_default().push(freed);
    }

    fn take(&mut self, bytes: usize, fits: impl Fn(&FreeBlock<M>) -> bool) -> Option<FreeBlock<M>> {
        let blocks = self.by_size.get_mut(&bytes)?;
        let at = blocks.iter().position(fits)?;
        Some(blocks.swap_remove(at))
    }

    /// A block that `stream` may use at once: `is_complete` tells whether an event has completed.
    pub(crate) fn take_ready(
        &mut self,
        bytes: usize,
        stream: StreamId,
        is_complete: impl Fn(&M) -> bool,
    ) -> Option<FreeBlock<M>> {
        self.take(bytes, |freed| {
            freed.stream.is_none_or(|other| other == stream)
                && freed.after.as_ref().is_none_or(&is_complete)
        })
    }

    /// Any block of that size: the caller must wait for the work of its stream so far and for its
    /// event.
    pub(crate) fn take_any(&mut self, bytes: usize, stream: StreamId) -> Option<FreeBlock<M>> {
        let own = self.take(bytes, |freed| freed.stream.is_none_or(|other| other == stream));
        own.or_else(|| self.take(bytes, |_| true))
    }

    /// Removes `stream`, whose work is done.
    pub(crate) fn retire(&mut self, stream: StreamId) {
        for freed in self.by_size.values_mut().flatten() {
            if freed.stream == Some(stream) {
                freed.stream = None;
                freed.after = None;
            }
        }
    }

    /// Removes all blocks.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = FreeBlock<M>> + '_ {
        self.by_size.drain().flat_map(|(_, blocks)| blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(address: u64, stream: Option<StreamId>, after: Option<bool>) -> FreeBlock<bool> {
        FreeBlock { address, stream, after }
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
        assert_eq!(pool.take_any(512, 7).unwrap().stream, Some(8));
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
