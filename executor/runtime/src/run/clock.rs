//! Time in nanoseconds since the epoch of a run, and waiting for a point in it.

use std::time::{Duration, Instant};

/// A sleep may overrun by this much; the rest of a wait is a spin.
const AWAKE: Duration = Duration::from_micros(90);

/// Nanoseconds from `epoch` to `now`, 0 if `now` is earlier.
pub fn nanos_since(epoch: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(epoch).as_nanos()).unwrap_or(u64::MAX)
}

/// Waits until `deadline`: sleeps as long as the system reliably wakes this thread in time, then
/// spins, yielding the core to threads that have work.
pub(crate) fn wait_until(deadline: Instant) {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(AWAKE) {
            Some(asleep) if !asleep.is_zero() => std::thread::sleep(asleep),
            _ => std::thread::yield_now(),
        }
    }
}
