//! Arithmetic of places and sizes.

/// `number` in 32 bits, or the largest such number.
pub(super) fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// `number * times / over`, rounded down.
pub(super) fn scale(number: u64, times: u64, over: u64) -> u64 {
    let scaled = u128::from(number) * u128::from(times) / u128::from(over);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
