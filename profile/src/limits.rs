//! Limits of what a profile may hold.

/// The longest time of a sample: 1,000,000 s.
pub const MAX_NANOS: u64 = 1_000_000_000_000_000;
/// The largest size: 1 EiB.
pub const MAX_BYTES: u64 = 1 << 60;
/// The most samples of one quantity.
pub const MAX_SAMPLES: usize = 1_000_000;
