//! The parameters of a list schedule, and how they are drawn and varied.
// Passes, slots and lanes are fewer than `MAX_PASSES`; rounding of times does not matter to a search.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

use crate::chance::Chance;
use crate::compiled_instance::CompiledInstance;
use crate::head;
use crate::list_scheduler::Offsets;

/// A parameter: lower end, upper end, value that changes nothing.
type Range = (f64, f64, f64);

/// The parameters that all lanes share.
const COMMON: [Range; 11] =
    [RELIEF, BUDGET, HEAD, WARM, FLIGHT, CAP, FALL, GREEDY, PACE, GRID, COMMIT];
/// The advance of W, in mean pass durations, where memory blocks a pass.
const RELIEF: Range = (0.0, 4.0, 1.0);
/// The idle time of a stage relative to its slack under the target; no less than 0.
const BUDGET: Range = (-1.0, 3.0, 1.0);
/// The part of that idle time that may lie before the first B.
const HEAD: Range = (0.0, 1.0, 1.0);
/// The number of forwards before the first B beyond those of the head.
const WARM: Range = (-2.0, 2.0, 0.0);
/// The number of forwards in flight beyond that, later on; 7 and more mean any number.
const FLIGHT: Range = (-1.0, 8.0, 8.0);
/// The number of forwards of the first of several chunks in flight on the first stage, in units of
/// p times chunks.
const CAP: Range = (0.3, 1.2, 1.0);
/// The decrease of that number from stage to stage.
const FALL: Range = (0.0, 1.6, 1.0);
/// Above 0.8, memory is filled to the limit.
const GREEDY: Range = (0.0, 1.0, 0.0);
/// The least time between the forwards of the first chunk on the first stage, in average passes.
const PACE: Range = (-2.0, 4.0, 0.0);
/// The grid on which forwards begin on the first stage, in round trips to the next stage: on that
/// grid the forwards on their way down and the backwards on their way up meet nowhere.
const GRID: Range = (-1.0, 2.0, 0.0);
/// Above 0.7, a stage that waits for a pass runs it next even if another one becomes ready meanwhile.
const COMMIT: Range = (0.0, 1.0, 0.0);
/// The place of [`COMMIT`].
const COMMIT_AT: usize = 10;
/// The place of [`GRID`].
const GRID_AT: usize = 9;
/// The offset of a kind and chunk on the first stage, in average passes: of F, B, W and R.
const OFFSET: [Range; 4] = [(-3.0, 3.0, 0.0), (-3.0, 3.0, 0.0), (-0.5, 4.0, 1.0), (-3.0, 4.0, 0.0)];
/// The change of that offset from the first stage to the last.
const SLOPE: Range = (-3.0, 3.0, 0.0);

/// The offset of a single lane of one stage, added to that.
const OWN: Range = (-3.0, 3.0, 0.0);

/// The backwards that are split where they may be whole, in units of p: the first of the first stage, what each
/// stage adds, and the same of the last backwards.
const SPLIT: [Range; 4] = [(-1.0, 2.0, 0.0), (-1.5, 1.5, 0.0), (-1.0, 2.0, 0.0), (-1.5, 1.5, 0.0)];

/// The parameters of a list schedule.
#[derive(Clone, Debug)]
pub(crate) struct Parameters(Vec<f64>);

/// The ranges of the parameters for `instance`: those of all, then offset and slope lane by lane.
fn ranges(compiled: &CompiledInstance) -> Vec<Range> {
    let lanes = (0..compiled.width).flat_map(|lane| [OFFSET[lane / compiled.chunks], SLOPE]);
    let own = std::iter::repeat_n(OWN, compiled.lanes.len());
    let split = SPLIT.into_iter().take(splits(compiled));
    COMMON.into_iter().chain(lanes).chain(own).chain(split).collect()
}

/// Number of parameters that say which backwards are split, the last of all.
fn splits(compiled: &CompiledInstance) -> usize {
    if compiled.mixes { SPLIT.len() } else { 0 }
}

impl Parameters {
    pub(crate) fn plain(compiled: &CompiledInstance) -> Self {
        Self(ranges(compiled).into_iter().map(|(_, _, plain)| plain).collect())
    }

    /// The usual parameters of a `kind`: on a grid or not, committing or not.
    pub(crate) fn usual(compiled: &CompiledInstance, kind: usize) -> Self {
        let mut parameters = Self::plain(compiled);
        parameters.belong(kind);
        parameters
    }

    pub(crate) fn draw(compiled: &CompiledInstance, kind: usize, chance: &mut Chance) -> Self {
        let few = COMMON.len() + 2 * compiled.width;
        let own = few..few + compiled.lanes.len();
        let one = |(at, (low, high, plain)): (usize, Range)| match chance.below(3) {
            _ if own.contains(&at) => plain,
            0 => plain,
            _ => chance.between(low, high),
        };
        let drawn: Vec<f64> = ranges(compiled).into_iter().enumerate().map(one).collect();
        let mut drawn = Self(drawn);
        drawn.belong(kind);
        drawn
    }

    /// Sets by the kind whether forwards lie on a grid and whether stages commit: two of four kinds
    /// do the one, two the other.
    fn belong(&mut self, kind: usize) {
        self.0[COMMIT_AT] = [1.0, 0.0][kind / 2 % 2];
        self.0[GRID_AT] = [0.0, 1.0][kind % 2];
    }

    /// A copy with one or a few parameters changed a little.
    pub(crate) fn near(&self, compiled: &CompiledInstance, chance: &mut Chance) -> Self {
        let mut changed = self.clone();
        let ranges = ranges(compiled);
        let few = COMMON.len() + 2 * compiled.width;
        if compiled.mixes && chance.below(4) == 0 {
            let at = ranges.len() - 1 - chance.below(SPLIT.len());
            let (low, high, plain) = ranges[at];
            changed.0[at] = match chance.below(4) {
                0 => plain,
                1 => chance.between(low, high),
                _ => (self.0[at] + chance.between(-0.3, 0.3)).clamp(low, high),
            };
            return changed;
        }
        if chance.below(2) == 0 {
            changed.bend(compiled, chance);
            return changed;
        }
        for _ in 0..1 + chance.below(3) {
            let at = chance.below(few);
            let (low, high, plain) = ranges[at];
            changed.0[at] = match chance.below(8) {
                _ if at == COMMIT_AT || (at == GRID_AT && self.0[at] == 0.0) => self.0[at],
                0 => chance.between(low, high),
                1 if at == GRID_AT => 1.0,
                1 => plain,
                _ => {
                    let wide = (high - low) * [0.2, 0.05, 0.01][chance.below(3)];
                    (self.0[at] + chance.between(-wide, wide)).clamp(low, high)
                }
            };
        }
        changed
    }

    /// Changes one lane of a few neighbouring stages.
    fn bend(&mut self, compiled: &CompiledInstance, chance: &mut Chance) {
        let few = COMMON.len() + 2 * compiled.width;
        let (lane, first) = (chance.below(compiled.width), chance.below(compiled.stages));
        let count = 1 + if chance.below(2) == 0 { 0 } else { chance.below(compiled.stages) };
        let wide = [2.0, 0.5, 0.1][chance.below(3)];
        let more = if chance.below(6) == 0 { None } else { Some(chance.between(-wide, wide)) };
        for stage in first..(first + count).min(compiled.stages) {
            let own = &mut self.0[few + stage * compiled.width + lane];
            *own = more.map_or(0.0, |more| (*own + more).clamp(OWN.0, OWN.1));
        }
    }

    /// The tables of these parameters for `instance`, where the cost is to be `target`.
    pub(crate) fn tables(&self, compiled: &CompiledInstance, target: i64, offsets: &mut Offsets) {
        let [relief, budget, head, warm, flight, cap, fall, greedy, pace, grid, commit] =
            std::array::from_fn(|at| self.0[at]);
        let (by_lane, own) = self.0[COMMON.len()..].split_at(2 * compiled.width);
        let (width, chunks) = (compiled.width, compiled.chunks);
        let unit = compiled.mean_pass();
        let idle = |stage: usize| (target - compiled.work[stage]).max(0) as f64;
        let share =
            |part: f64| (0..compiled.stages).map(move |stage| (idle(stage) * part.max(0.0)) as i64);
        let heads: Vec<i64> = share(head).collect();
        offsets.budget.clear();
        offsets.budget.extend(share(budget));
        offsets.warm = head::warm_ups(compiled, &heads);
        offsets.offset.clear();
        offsets.relief.clear();
        offsets.cap.clear();
        self.split(compiled, &mut offsets.whole);
        offsets.greedy = greedy > 0.8;
        offsets.commits = commit > 0.7;
        offsets.pace = (pace.max(0.0) * unit) as i64;
        offsets.grid =
            if grid < 0.2 { 0 } else { (grid * trips(compiled).max().unwrap_or(0) as f64) as i64 };
        for stage in 0..compiled.stages {
            let x = stage as f64 / (compiled.stages.max(2) - 1) as f64;
            offsets.relief.push((relief * unit) as i64);
            for lane in 0..width {
                let offset =
                    by_lane[2 * lane] + by_lane[2 * lane + 1] * x + own[stage * width + lane];
                offsets.offset.push((offset * unit) as i64);
                let at = stage * width + lane;
                let more =
                    |count: u32, more: f64| count.saturating_add_signed(more.round() as i32).max(1);
                let most = match lane {
                    0 if chunks == 1 => {
                        offsets.warm[at] = more(offsets.warm[at], warm);
                        if flight >= 7.0 { u32::MAX } else { more(offsets.warm[at], flight) }
                    }
                    0 => {
                        let first = (chunks * compiled.stages) as f64 * cap;
                        (first - fall * stage as f64).round().max(1.0) as u32
                    }
                    _ => u32::MAX,
                };
                offsets.cap.push(most);
            }
        }
    }
}

impl Parameters {
    /// Says which backwards are whole, where they may be.
    fn split(&self, compiled: &CompiledInstance, whole: &mut Vec<bool>) {
        whole.clear();
        if !compiled.mixes {
            return;
        }
        let [early, more, late, later] =
            std::array::from_fn(|at| self.0[self.0.len() - SPLIT.len() + at]);
        let (columns, stages) = (compiled.microbatches as usize, compiled.stages as f64);
        whole.resize(compiled.passes(), false);
        for (lane, whole) in whole.chunks_exact_mut(columns).enumerate() {
            let (stage, own) = (lane / compiled.width, lane % compiled.width);
            if !compiled.is_backward(own) && !compiled.is_weight(own) {
                continue;
            }
            let count = |first: f64, slope: f64| {
                (first * stages + slope * stage as f64).round().max(0.0) as usize
            };
            let from = count(early, more).min(columns);
            let to = columns.saturating_sub(count(late, later)).max(from);
            whole[from..to].fill(true);
        }
    }
}

/// By stage, the way to the next one and back: F and B of the first chunk, and two hops.
pub(crate) fn trips(compiled: &CompiledInstance) -> impl Iterator<Item = i64> {
    compiled.lanes.chunks_exact(compiled.width).map(|lanes| {
        let [down, up] = [&lanes[0], &lanes[compiled.chunks]];
        down.duration + up.duration + 2 * down.hop.max(up.hop)
    })
}
