//! Times and sizes in the small whole numbers of the solver.

use pipeline::Nanos;
use search::{Instance, Objective};

/// The longest time and the greatest size that the solver is asked to count to.
const MOST: u64 = 1 << 28;

/// Times in ticks and sizes in units, rounded down where they do not fit otherwise.
///
/// Rounding down only makes more orders possible: if every start is rounded down to a tick, no pass
/// comes too soon after another, for sums of rounded times are at most rounded sums; and what is
/// held, a sum of sizes, stays below the limit when all of them are rounded down.
pub(crate) struct Scaled {
    /// F, B and W of each chunk.
    pub(crate) times: Vec<[i32; 3]>,
    /// From each chunk to the next.
    pub(crate) hops: Vec<i32>,
    /// M_B and M_W of each chunk.
    pub(crate) held: Vec<[i32; 2]>,
    /// By stage.
    pub(crate) limits: Option<Vec<i32>>,
    /// Whether no time was rounded.
    pub(crate) is_exact: bool,
    tick: u64,
    objective: Objective,
    longest: i32,
}

impl Scaled {
    /// `None` where a pass takes no tick.
    pub(crate) fn of(instance: &Instance) -> Option<Self> {
        let times: Vec<[u64; 3]> = instance
            .costs
            .chunks()
            .iter()
            .map(|one| [one.forward.0, one.backward_input.0, one.backward_weight.0])
            .collect();
        let at = (instance.shape, instance.placement);
        let hop = |chunk| instance.costs.hop_after(at, chunk).0;
        let hops: Vec<u64> = (0..instance.shape.chunks() - 1).map(hop).collect();
        let all: u64 = times.iter().flatten().sum::<u64>() + 2 * hops.iter().sum::<u64>();
        let longest = all.checked_mul(u64::from(instance.shape.microbatches()))?;
        let common = times.iter().flatten().chain(&hops);
        let common = common.fold(0, |one, &other| divisor(one, other)).max(1);
        // A multiple of what divides all times, so large that all of them can be counted.
        let tick = common * (longest / common).div_ceil(MOST).max(1);
        let ticks = |time: u64| i32::try_from(time / tick).ok();
        let footprints: Vec<[u64; 2]> = (0..instance.shape.chunks())
            .map(|chunk| instance.footprints.of(chunk))
            .map(|one| [one.until_backward.0, one.until_weight.0])
            .collect();
        let one: u64 = footprints.iter().flatten().sum();
        let most = one.checked_mul(u64::from(instance.shape.microbatches()))?;
        let common_size = footprints.iter().flatten().fold(0, |one, &other| divisor(one, other));
        let common_size = common_size.max(1);
        let unit = common_size * (most / common_size).div_ceil(MOST).max(1);
        let units = |size: u64| i32::try_from((size / unit).min(MOST)).ok();
        let times = times.iter().map(|one| {
            let [f, b, w] = one.map(ticks);
            Some([f?, b?, w?]).filter(|one| !one.contains(&0))
        });
        let held = footprints.iter().map(|one| {
            let [until_backward, until_weight] = one.map(units);
            Some([until_backward?, until_weight?])
        });
        let limits = instance.limits.as_ref();
        let limits = limits
            .map(|limits| limits.by_stage().iter().map(|one| units(one.0)).collect::<Option<_>>());
        Some(Self {
            times: times.collect::<Option<_>>()?,
            hops: hops.into_iter().map(ticks).collect::<Option<_>>()?,
            held: held.collect::<Option<_>>()?,
            limits: match limits {
                Some(limits) => Some(limits?),
                None => None,
            },
            is_exact: tick == common,
            tick,
            objective: instance.objective,
            longest: ticks(longest)? + 1,
        })
    }

    /// A cost in ticks, rounded down.
    pub(crate) fn ticks_down(&self, cost: Nanos) -> i32 {
        i32::try_from(cost.0 / self.tick).unwrap_or(self.longest)
    }

    /// More ticks than any order worth looking at takes.
    pub(crate) fn longest(&self) -> i32 {
        self.longest
    }

    /// The least cost of an order, if there is none whose rounded starts and ends make it cost
    /// `ticks` or less. A makespan rounded down is then `ticks` + 1 at least. Of a span both ends
    /// are rounded down, so it may be almost a tick shorter.
    pub(crate) fn above(&self, ticks: i32) -> Nanos {
        let ticks = u64::try_from(ticks).unwrap_or(0);
        match self.objective {
            Objective::Span if !self.is_exact => Nanos(ticks * self.tick + 1),
            _ => Nanos((ticks + 1) * self.tick),
        }
    }
}

/// The greatest common divisor.
fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { divisor(other, one % other) }
}
