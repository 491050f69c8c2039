//! Bytes of messages, from the first to the last.

/// The next `N` bytes of `rest`.
pub fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk::<N>()?;
    *rest = others;
    Some(*first)
}
