//! Large neighbourhoods: the passes of an order that start within some time are put in another order by branch and
//! bound, and all others stay as they are.
//!
//! What runs before such a time starts when it did, and what runs behind it must start by the latest time that keeps
//! the cost below that of the order. So only the passes within have windows, and a tree with about a node for two of
//! them mostly says whether they have a better order. Every path that is critical crosses every time: one better
//! order of a short time makes the whole step shorter. Times are visited one behind the other, short ones first, and
//! longer ones when those have no better order. They begin later from stage to stage, as forwards go down the pipeline,
//! or as backwards go up: so a short time has all passes of a microbatch in one direction.
//!
//! (Large neighbourhood search is due to Shaw, *Using constraint programming and local search methods to solve
//! vehicle routing problems*, 1998.)

mod incumbent;
#[cfg(test)]
mod tests;
mod trial;

use std::cell::Cell;
use std::ops::Range;

use pipeline::{Fault, Nanos, Schedule};
use search::{Found, Instance};

use crate::branch::{Decision, Question, Weights};
use crate::compiled_instance::{CompiledInstance, signed};
use crate::solve::{cost, fits};
use crate::unsuitable::{Unsuitable, check_kind};
use crate::windows::{Windows, first_arrivals};

use incumbent::Incumbent;
use trial::Trial;

/// The steps of the default effort, in visited pairs of passes of a stage: a second or two.
pub const NEIGHBOURHOOD_STEPS: u64 = 1 << 28;

/// The most passes of a pipeline whose order is improved: every better order is timed as a whole.
const MOST_PASSES: usize = 1 << 18;

/// A better order first has to be better by this part of its cost: a small gain takes as many trees as a large one.
const GAIN: i64 = 2_000;

/// The passes of a neighbourhood for a node of its tree.
const PASSES_OF_A_NODE: usize = 2;

/// Steps for each pass of the stage with most of them, each time that rules are applied to a stage, beside one for each
/// pair; and for each pass of the pipeline, when a better order is timed. Measured.
const STEPS_OF_A_PASS: u64 = 32;
const STEPS_OF_A_TIMED_PASS: u64 = 8;

/// Improves the order of `found` in its neighbourhoods, until none has a better one, about `steps` steps are made, each
/// a look at a pair of passes of a stage, or `stop` returns true. `progress` is called with the cost of each better order.
/// The same order and steps give the same result as long as `stop` returns false.
///
/// Orders with whole backwards stay as they are, and those of pipelines with more than some hundred thousand passes.
///
/// # Errors
///
/// Kinds of pipelines that windows do not model.
pub fn improve(
    instance: &Instance,
    found: &mut Found,
    steps: u64,
    mut progress: impl FnMut(Nanos),
    stop: &dyn Fn() -> bool,
) -> Result<(), Unsuitable> {
    check_kind(instance)?;
    let has_room = instance.shape.microbatches() < u32::from(u16::MAX)
        && found.schedule.passes() <= MOST_PASSES;
    if !has_room || instance.mixes() || !found.schedule.splits_backward() {
        return Ok(());
    }
    let budget = Budget { left: Cell::new(steps), each: Cell::new(0), stop };
    let mut search = Neighbourhoods::new(instance, found.schedule.clone(), &budget)?;
    let slants = slants(&search.compiled);
    let mut width = 1;
    while width * search.work <= search.incumbent.cost && !budget.is_spent() {
        let was = search.incumbent.cost;
        for slant in &slants {
            search.sweep(width * search.work, slant, &mut progress)?;
        }
        if search.incumbent.cost == was {
            width += (width / 2).max(1);
        }
    }
    let Incumbent { schedule, cost, .. } = search.incumbent;
    (found.schedule, found.cost) = (schedule, Nanos(cost.unsigned_abs()));
    Ok(())
}

/// The steps that are left.
struct Budget<'a> {
    left: Cell<u64>,
    /// The steps of each time that rules are applied to a stage.
    each: Cell<u64>,
    stop: &'a dyn Fn() -> bool,
}

impl Budget<'_> {
    fn spend(&self, steps: u64) {
        self.left.set(self.left.get().saturating_sub(steps));
    }

    /// Spends the steps of one time; true if none are left, or the caller stops the search.
    fn is_spent(&self) -> bool {
        self.spend(self.each.get());
        self.left.get() == 0 || (self.stop)()
    }
}

/// The best order known, and memory that is used again from neighbourhood to neighbourhood.
struct Neighbourhoods<'a> {
    instance: &'a Instance,
    compiled: CompiledInstance,
    incumbent: Incumbent,
    /// Those of the incumbent, of no length, but for the passes of a neighbourhood.
    windows: Windows,
    weights: Weights,
    trial: Trial,
    /// The work of the busiest stage on a microbatch.
    work: i64,
    budget: &'a Budget<'a>,
}

impl<'a> Neighbourhoods<'a> {
    fn new(
        instance: &'a Instance,
        schedule: Schedule,
        budget: &'a Budget<'a>,
    ) -> Result<Self, Fault> {
        let compiled = CompiledInstance::of(instance);
        let cost = signed(cost(instance, &schedule)?.0);
        let incumbent = Incumbent::new(&compiled, &first_arrivals(&compiled), schedule, cost);
        let mut windows = Windows::at_first(&compiled, cost);
        incumbent.fix(&compiled, &mut windows);
        let weights = Weights::of(&compiled);
        let trial = Trial::of(&compiled);
        let work = |stage| compiled.lanes_of(stage).map(|lane| compiled.lanes[lane].time).sum();
        let work = (0..compiled.stages).map(work).fold(1, i64::max);
        Ok(Self { instance, compiled, incumbent, windows, weights, trial, work, budget })
    }

    /// Visits all times of the length `width` that begin later by `slant`, stage by stage, from the first to the last, each
    /// as long as it has a better order.
    fn sweep(
        &mut self,
        width: i64,
        slant: &[i64],
        progress: &mut impl FnMut(Nanos),
    ) -> Result<(), Fault> {
        let [latest, earliest] = [slant.iter().max(), slant.iter().min()];
        let mut at = -latest.copied().unwrap_or(0);
        let (earliest, step) = (earliest.copied().unwrap_or(0), (width / 2).max(1));
        while at < self.incumbent.end() - earliest && !self.budget.is_spent() {
            let bands = self.open(at..at + width, slant);
            let widest = bands.iter().map(|band| band.len() as u64).max().unwrap_or(0);
            self.budget.each.set(widest * (widest + STEPS_OF_A_PASS));
            if widest == 0 {
                let Some(next) = self.incumbent.next_start(&bands, slant) else { break };
                at += step * ((next - width - at).max(0) / step + 1);
                continue;
            }
            let cost = self.incumbent.cost;
            let first = self.ask(&bands, cost - cost / GAIN - 1);
            match first.or_else(|| self.ask(&bands, cost - 1)) {
                Some(order) => {
                    self.adopt(order)?;
                    progress(Nanos(self.incumbent.cost.unsigned_abs()));
                }
                None => at += step,
            }
        }
        Ok(())
    }

    /// Takes the passes that start within `times`, later by `slant`, for open; returns their places, stage by stage.
    fn open(&mut self, times: Range<i64>, slant: &[i64]) -> Vec<Range<usize>> {
        let bands = self.incumbent.bands(&times, slant);
        let sequences = self.incumbent.sequences.iter();
        for ((open, sequence), band) in self.compiled.open.iter_mut().zip(sequences).zip(&bands) {
            open.clear();
            let passes = sequence[band.clone()].iter();
            open.extend(passes.map(|&pass| (pass / self.compiled.microbatches, pass)));
            open.sort_unstable();
        }
        bands
    }

    /// An order that costs `most` or less and differs in `bands` alone, if the tree has one.
    fn ask(&mut self, bands: &[Range<usize>], most: i64) -> Option<Schedule> {
        let Self { instance, compiled, incumbent, windows, weights, trial, budget, .. } = self;
        let passes: usize = compiled.open.iter().map(Vec::len).sum();
        incumbent.open(compiled, bands, most, windows);
        trial.note_latest(compiled, windows);
        windows.restart(compiled);
        let (nodes, open) = (passes / PASSES_OF_A_NODE + 1, usize::MAX);
        let question = Question { compiled, nodes, open, stop: &|| budget.is_spent() };
        let mut candidate = |windows: &Windows| {
            let order = trial.order(compiled, incumbent, windows, bands)?;
            let order = Schedule::new(instance.shape, instance.placement, order).ok()?;
            let is_within = |cost: Nanos| signed(cost.0) <= most;
            let suits = fits(instance, &order) && cost(instance, &order).is_ok_and(is_within);
            suits.then_some(order)
        };
        let (decision, _) = question.decide(Some(&mut *windows), weights, &mut candidate);
        windows.undo(0);
        incumbent.close(compiled, bands, windows);
        match decision {
            Decision::Order(order) => Some(order),
            Decision::None(_) | Decision::Unknown => None,
        }
    }

    /// Goes on from `schedule`.
    fn adopt(&mut self, schedule: Schedule) -> Result<(), Fault> {
        self.budget.spend(STEPS_OF_A_TIMED_PASS * schedule.passes() as u64);
        let cost = signed(cost(self.instance, &schedule)?.0);
        self.incumbent = Incumbent::new(&self.compiled, &self.incumbent.arrivals, schedule, cost);
        self.incumbent.fix(&self.compiled, &mut self.windows);
        Ok(())
    }
}

/// How much later than that of the first stage the time of each stage begins: as forwards go down, and as backwards go
/// up. An input always starts before such a time, too, if the pass that waits for it does; where links go round in
/// loops that does not hold, and all stages have the same time.
fn slants(compiled: &CompiledInstance) -> Vec<Vec<i64>> {
    let outputs = || {
        compiled.lanes.iter().filter_map(|lane| {
            let (to, hop) = lane.output?;
            Some(([lane.stage, compiled.lanes[to].stage], lane.time + hop))
        })
    };
    let along = |link: [usize; 2]| {
        let times = outputs().filter(|(other, _)| *other == link).map(|(_, time)| time);
        times.min().unwrap_or(0)
    };
    let sums = |step: &dyn Fn(usize) -> i64| {
        let mut at = 0;
        let later = |stage| {
            at += step(stage);
            at
        };
        [0].into_iter().chain((1..compiled.stages).map(later)).collect::<Vec<i64>>()
    };
    let down = sums(&|stage| along([stage - 1, stage]));
    let up = sums(&|stage| -along([stage, stage - 1]));
    let holds =
        |slant: &Vec<i64>| outputs().all(|([from, to], time)| slant[to] - slant[from] <= time);
    let slants: Vec<_> = [down, up].into_iter().filter(holds).collect();
    if slants.is_empty() { vec![vec![0; compiled.stages]] } else { slants }
}
