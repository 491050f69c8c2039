//! Warm-up: the number of forwards of each stage before its first B, such that it idles no longer
//! than a budget.

use crate::compiled_instance::{CompiledInstance, NONE};

/// Warm-up counts by lane, where every stage may wait `budget` of its own before its first B.
pub(crate) fn warm_ups(compiled: &CompiledInstance, budget: &[i64]) -> Vec<u32> {
    let mut warm = vec![u32::MAX; compiled.lanes.len()];
    if compiled.chunks != 1 {
        return warm;
    }
    let mut arrival = 0;
    for stage in (0..compiled.stages).rev() {
        let begin = stage * compiled.width;
        let (f, b) = (compiled.lanes[begin], compiled.lanes[begin + 1]);
        let room = match f.take {
            0 => i64::from(compiled.microbatches),
            take => (compiled.limit[stage] / take).clamp(1, i64::from(compiled.microbatches)),
        };
        // When the first B is there, from the start of the first F of the stage.
        let there = match b.remote {
            NONE => f.duration,
            _ => arrival + f.duration + compiled.lanes[b.remote as usize].hop.max(b.hop) + b.hop,
        };
        let whole = if f.duration == 0 { room } else { there / f.duration };
        let (count, start) = if whole >= room {
            (room, there)
        } else if there - whole * f.duration <= budget[stage] {
            (whole.max(1), there)
        } else {
            (whole + 1, (whole + 1) * f.duration)
        };
        warm[begin] = u32::try_from(count).unwrap_or(u32::MAX);
        arrival = start + b.duration;
    }
    warm
}
