//! The search of all that may be chosen together: layers of each chunk, chunks per stage, where they lie,
//! what becomes of the activations of each chunk, whether passes run in pairs, and the order of passes.
//!
//! A choice of all but the order gives an [`Instance`]. The outer search keeps a few choices, tries those next
//! to them by orders that are quickly found, and leaves out what a lower bound excludes; then orders are
//! searched in full for the best choices, and for the one that the question makes itself. What goes to the host,
//! and whether passes run in pairs, is chosen from there on, so that choosing it makes nothing worse.

mod copied;
mod neighbourhood;
mod probe;
mod published;
mod space;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use pipeline::overlap::{Overlap, Part, Stream};
use pipeline::{Fault, Nanos, Schedule};
use rayon::prelude::*;

pub use self::neighbourhood::{Neighbour, NeighbourhoodEffort, probe_neighbourhood};
pub use self::published::BestPublished;
pub use self::space::{Choice, Space};

use self::copied::{Copied, Outcome, Simulated, TURNS, relaxed};
use self::probe::{CLOSE, QUICK, Tried, Worth, try_choice, work};
use crate::chance::Chance;
use crate::error::SearchError;
use crate::found::{Effort, Found, Phase, Progress};
use crate::instance::Instance;
use crate::search::search;
use crate::side_by_side::Stop;
use crate::start::Starts;

/// The choices that are tried by a search of default effort, besides those that it begins with.
const CHOICES: u64 = 400;
/// The choices tried side by side: more than the threads of most machines, so that they do not decide.
const SIDE_BY_SIDE: usize = 32;
/// The neighbours of the best choices among which those to try are picked.
const NEAR: usize = 256;
/// The beam width: the best choices whose neighbours the outer search tries.
const WIDTH: usize = 4;
/// The number of best choices that are probed again at [`CLOSE`] effort in the end.
const CLOSELY: usize = 8;
/// The choices for which an order is searched in full, besides those known before.
const IN_FULL: usize = 2;

/// The result of a joint search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundJointly {
    /// The best choice.
    pub choice: Choice,
    /// Durations and memory of its passes.
    pub instance: Instance,
    /// The order found for it, and the bound of orders with that choice.
    pub found: Found,
    /// Cost of the best order found with the choice of the question itself, if that fits.
    pub asked: Option<Nanos>,
    /// Each published schedule that fits any choice tried, with the best of them, the cheapest first.
    pub published: Vec<BestPublished>,
    /// No order of any choice costs less: the mean stage must do its share of the least work, and some stage the
    /// work of its p-th part of the layers, rounded up.
    pub bound: Nanos,
    /// Number of choices that were tried.
    pub tried: u64,
    /// Whether it was stopped from outside before its effort was spent.
    pub interrupted: bool,
}

/// The parts of a question that a joint search asks for again and again.
pub struct Jointly<'a> {
    /// The search space.
    pub space: &'a Space,
    /// The instance of a choice; `None` where the question has none for it.
    pub instance: &'a (dyn Fn(&Choice) -> Option<Instance> + Sync),
    /// Choices that are worth trying, with an order each, such as those of smaller limits.
    pub known: &'a [(Choice, Schedule)],
    /// For how long: `times` multiplies the choices tried and the effort of each search in full; `None` is
    /// once.
    pub effort: Effort,
}

/// Searches for the best choice and its best order. The result is never worse than what [`search`] of the same
/// effort finds for the choice that the question makes, nor than a published schedule with any choice tried, nor than
/// the order of a known choice that fits.
///
/// `progress` and `stop` are those of [`search`]. As long as `stop` returns false, the same question and effort
/// give the same result on any number of threads.
///
/// # Errors
/// Those of [`search`] for the choice that the question makes, where no choice fits; and where an instance is
/// too large.
pub fn search_jointly(
    jointly: &Jointly<'_>,
    progress: &mut dyn FnMut(Progress),
    stop: Stop<'_>,
) -> Result<FoundJointly, SearchError> {
    let choices = CHOICES.saturating_mul(jointly.effort.times.unwrap_or(1));
    let limits = NeighbourhoodEffort { choices, orders: choices, effort: QUICK, known: None };
    let mut outer = Outer::of(jointly, (limits, Starts::All), progress, stop);
    outer.try_all()?;
    if *jointly.space != outer.space {
        match outer.is_over() {
            true => outer.interrupted |= stop(),
            false => {
                outer.space = jointly.space.clone();
                outer.try_all()?;
            }
        }
    }
    outer.conclude()
}

/// The state of a running joint search.
struct Outer<'a> {
    jointly: &'a Jointly<'a>,
    /// The choices that are searched now.
    space: Space,
    progress: &'a mut dyn FnMut(Progress),
    stop: Stop<'a>,
    seen: HashSet<Choice>,
    /// The choices probed at [`CLOSE`] effort, and those for which an order was searched in full.
    close: HashSet<Choice>,
    in_full: HashSet<Choice>,
    /// Cost of the best order with the choice of the question itself, and the error if its search failed.
    asked: Option<Nanos>,
    refused: Option<SearchError>,
    interrupted: bool,
    /// The best choices of all, the best first.
    best: Vec<Tried>,
    published: Vec<BestPublished>,
    chance: Chance,
    /// The least work of all stages for a microbatch that any choice has.
    least_work: u64,
    tried: u64,
    of: u64,
    times: u64,
    limits: NeighbourhoodEffort,
    starts: Starts,
}

impl<'a> Outer<'a> {
    /// A search within `limits`, each choice searched from the published orders among `starts`.
    fn of(
        jointly: &'a Jointly<'a>,
        (limits, starts): (NeighbourhoodEffort, Starts),
        progress: &'a mut dyn FnMut(Progress),
        stop: Stop<'a>,
    ) -> Self {
        let times = jointly.effort.times.unwrap_or(1);
        let space = jointly.space.plain();
        let phases = 1 + u64::from(space != *jointly.space);
        let begun = 1 + 2 * jointly.space.uniform().len();
        Self {
            jointly,
            space,
            progress,
            stop,
            seen: HashSet::new(),
            close: HashSet::new(),
            in_full: HashSet::new(),
            asked: None,
            refused: None,
            interrupted: false,
            best: Vec::new(),
            published: Vec::new(),
            chance: Chance::new(jointly.effort.seed, u64::MAX),
            least_work: u64::MAX,
            tried: 0,
            of: (begun as u64).saturating_add(limits.choices.saturating_mul(phases)),
            times,
            limits,
            starts,
        }
    }

    fn cost(&self) -> Option<Nanos> {
        self.best.iter().filter_map(Tried::cost).min()
    }

    /// Searches all choices of the space.
    fn try_all(&mut self) -> Result<(), SearchError> {
        self.begin()?;
        self.try_neighbours()?;
        self.probe_closely()?;
        self.search_in_full();
        Ok(())
    }

    /// Whether there is no better choice, or no time to look for one beside those that are known.
    fn is_over(&self) -> bool {
        let mut known = self.jointly.known.iter();
        let is_known = known.any(|(choice, _)| !self.space.allows(choice));
        let stopped = (self.stop)() && !is_known;
        self.cost().is_some_and(|cost| stopped || cost <= self.bound())
    }

    /// Tries what is uniform, with layers cut evenly and with stages balanced, and what is known.
    fn begin(&mut self) -> Result<(), SearchError> {
        let mut all = vec![self.space.asked.clone()];
        let known = self.jointly.known.iter().map(|(choice, _)| choice);
        all.extend(known.filter(|choice| self.space.allows(choice)).cloned());
        for choice in self.space.uniform() {
            if self.space.moves_layers {
                all.push(self.balanced(&choice));
            }
            all.push(choice);
        }
        for choice in &all {
            self.count_work(choice);
        }
        all.retain(|choice| self.seen.insert(choice.clone()));
        // The first is tried whatever `stop` says, so that there is an answer.
        for some in all.chunks(SIDE_BY_SIDE) {
            self.probe(some, (self.limits.effort, None))?;
            self.tell();
            if (self.stop)() && self.cost().is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Tries the neighbours of the best choices.
    fn try_neighbours(&mut self) -> Result<(), SearchError> {
        let NeighbourhoodEffort { choices: mut left, mut orders, .. } = self.limits;
        while left > 0 && orders > 0 && !(self.stop)() {
            let mut next = self.next();
            let most = usize::try_from(left.min(orders)).unwrap_or(usize::MAX);
            next.truncate(most.min(SIDE_BY_SIDE));
            if next.is_empty() {
                return Ok(());
            }
            left -= next.len() as u64;
            self.seen.extend(next.iter().cloned());
            let known = self.cost().into_iter().chain(self.limits.known).min();
            let found = self.probe(&next, (self.limits.effort, known))?;
            orders = orders.saturating_sub(found);
            self.tell();
        }
        Ok(())
    }

    /// Probes the best choices again with more effort for their orders, which separates them.
    fn probe_closely(&mut self) -> Result<(), SearchError> {
        let fit = self.best.iter().filter(|one| one.cost().is_some());
        let best = fit.take(CLOSELY).map(|one| one.choice.clone());
        let best: Vec<Choice> = best.filter(|one| !self.close.contains(one)).collect();
        self.close.extend(best.iter().cloned());
        for some in best.chunks(SIDE_BY_SIDE) {
            if (self.stop)() {
                break;
            }
            self.probe(some, (CLOSE, None))?;
        }
        self.tell();
        Ok(())
    }

    /// The choices next to the best that were not seen: in turn one whose busiest stage has least work, and any.
    fn next(&mut self) -> Vec<Choice> {
        let space = &self.space;
        let from: Vec<Choice> =
            self.best.iter().take(WIDTH).map(|one| one.choice.clone()).collect();
        let mut taken = HashSet::new();
        let mut all: Vec<Choice> = from.iter().flat_map(|choice| space.near(choice)).collect();
        all.retain(|choice| !self.seen.contains(choice) && taken.insert(choice.clone()));
        for at in (1..all.len()).rev() {
            all.swap(at, self.chance.below(at + 1));
        }
        all.truncate(NEAR);
        let half = all.len().div_ceil(2);
        let any = all.split_off(half);
        all.sort_by_cached_key(|choice| self.busiest(choice));
        let mut next = Vec::with_capacity(half + any.len());
        let mut any = any.into_iter();
        for choice in all {
            next.push(choice);
            next.extend(any.next());
        }
        next
    }

    /// Tries `choices` in parallel, each with the given effort, and keeps the best; returns the number of choices for
    /// which an order was made.
    fn probe(
        &mut self,
        choices: &[Choice],
        (effort, known): (u64, Option<Nanos>),
    ) -> Result<u64, SearchError> {
        let (seed, starts) = (self.jointly.effort.seed, self.starts);
        let one = |choice: &Choice| {
            let instance = (self.jointly.instance)(choice)?;
            let hosted = self.space.hosted(choice);
            let instance = (instance, &hosted[..]);
            Some(try_choice(choice.clone(), instance, known, (effort, seed, starts), self.stop))
        };
        let tried: Vec<_> = choices.par_iter().map(one).collect();
        self.tried += choices.len() as u64;
        let mut orders = 0;
        for tried in tried.into_iter().flatten() {
            let tried = tried?;
            orders += u64::from(tried.cost().is_some());
            // A choice with copies has the schedules published with copies among its orders.
            if let Worth::Found(found) = &tried.worth
                && (tried.choice.is_uniform() || self.space.hosted(&tried.choice).contains(&true))
            {
                published::keep(&mut self.published, &found.1.published, &tried.choice);
            }
            self.keep(tried);
        }
        Ok(orders)
    }

    /// Keeps `tried` if it is among the best, and the better of two orders of a choice.
    fn keep(&mut self, tried: Tried) {
        let Some(rank) = tried.rank() else { return };
        if let Some(at) = self.best.iter().position(|known| known.choice == tried.choice) {
            if self.best[at].rank().is_some_and(|known| known <= rank) {
                return;
            }
            self.best.remove(at);
        }
        // Stable: of equal ranks the earlier choice stays first.
        let at = self.best.partition_point(|known| known.rank().is_some_and(|one| one <= rank));
        self.best.insert(at, tried);
        self.best.truncate(CLOSELY);
    }

    /// Searches in full for the best choices, those known before and that of the question.
    fn search_in_full(&mut self) {
        let fit = self.best.iter().filter(|one| one.cost().is_some());
        let best = fit.take(IN_FULL).map(|one| one.choice.clone());
        let mut all: Vec<Choice> = std::iter::once(self.space.asked.clone()).chain(best).collect();
        all.extend(self.jointly.known.iter().map(|(choice, _)| choice.clone()));
        self.interrupted |= (self.stop)();
        for choice in all {
            if !self.space.allows(&choice) || !self.in_full.insert(choice.clone()) {
                continue;
            }
            let Some(instance) = (self.jointly.instance)(&choice) else { continue };
            let is_asked = choice == self.space.asked;
            if !is_asked && self.is_beaten(&choice, &instance) {
                continue;
            }
            match self.order(&choice, &instance) {
                Ok(Some(found)) => {
                    self.interrupted |= found.interrupted;
                    if is_asked {
                        self.asked = Some(found.cost);
                    }
                    let worth = Worth::Found(Box::new((instance, found)));
                    self.keep(Tried { choice, worth });
                }
                Err(error) if is_asked => self.refused = Some(error),
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// The best order of `choice` by a search in full, or one that is known for it; nothing where none that was tried
    /// fits.
    fn order(&self, choice: &Choice, instance: &Instance) -> Result<Option<Found>, SearchError> {
        let effort = Effort { times: Some(self.times), ..self.jointly.effort };
        let hosted = self.space.hosted(choice);
        if !hosted.contains(&true) {
            let mut found = search(instance, effort, |_| {}, self.stop)?;
            self.use_known(choice, instance, &mut found);
            return Ok(Some(found));
        }
        let bound = crate::bounds::best(&relaxed(instance, &hosted));
        let steps = effort.steps(crate::check::passes(instance));
        let copied = Copied::of((instance, &hosted), bound, TURNS[1]);
        let Outcome::Found(mut found) = copied.search((effort.seed, steps), self.stop)? else {
            return Ok(None);
        };
        self.use_known(choice, instance, &mut found);
        Ok(Some(*found))
    }

    /// The answer.
    fn conclude(self) -> Result<FoundJointly, SearchError> {
        let bound = self.bound();
        let best = self.best.into_iter().find_map(|one| match one.worth {
            Worth::Found(found) => Some((one.choice, *found)),
            Worth::Lacks(_) | Worth::Bounded => None,
        });
        let Some((choice, (instance, found))) = best else {
            let none = SearchError::Fault(Fault::Zero { what: "choices" });
            return Err(self.refused.unwrap_or(none));
        };
        let mut published = self.published;
        published.sort_by_key(|one| (one.cost, one.peak));
        let Self { asked, tried, interrupted, .. } = self;
        Ok(FoundJointly { choice, instance, found, asked, published, bound, tried, interrupted })
    }

    /// Puts the order that is known for `choice` into `found` where it fits and is cheaper.
    fn use_known(&self, choice: &Choice, instance: &Instance, found: &mut Found) {
        let known = self.jointly.known.iter().filter(|(known, _)| known == choice);
        for (_, schedule) in known {
            let Some(simulated) = Simulated::of(schedule, instance) else { continue };
            if simulated.lacks(instance) == 0 && simulated.cost < found.cost {
                (found.cost, found.schedule) = (simulated.cost, schedule.clone());
            }
        }
    }

    /// Whether no order of `choice` is cheaper than one that was found for another.
    fn is_beaten(&self, choice: &Choice, instance: &Instance) -> bool {
        let others = self.best.iter().filter(|one| one.choice != *choice);
        let known = others.filter_map(Tried::cost).min();
        let least = || relaxed(instance, &self.space.hosted(choice));
        known.is_some_and(|known| crate::bounds::best(&least()).cost >= known)
    }

    /// `choice` with its layers where the busiest stage has least work: one after the other goes from that stage
    /// to where it leaves least.
    fn balanced(&self, choice: &Choice) -> Choice {
        let mut best = choice.clone();
        let mut least = self.busiest(&best);
        let layers: u64 = choice.layers.iter().sum();
        for _ in 0..layers {
            let Some(instance) = (self.jointly.instance)(&best) else { break };
            let work = work(&instance);
            let most = work.iter().max().copied().unwrap_or(0);
            let at = |chunk| instance.placement.stage(instance.shape, chunk, 0);
            let busy: Vec<usize> = (0..instance.shape.chunks())
                .filter(|&chunk| work[at(chunk)] == most)
                .map(usize::from)
                .collect();
            let near = self.space.shifts_from(&best, &busy);
            let Some(next) = near.into_iter().min_by_key(|one| self.busiest(one)) else { break };
            let work = self.busiest(&next);
            if work >= least {
                break;
            }
            (best, least) = (next, work);
        }
        best
    }

    /// The work of the busiest stages of `choice`, the busiest first.
    fn busiest(&self, choice: &Choice) -> Vec<u64> {
        let Some(instance) = (self.jointly.instance)(choice) else { return vec![u64::MAX] };
        let mut work = work(&instance);
        work.sort_unstable_by(|one, other| other.cmp(one));
        work
    }

    /// Takes note of the least work of any choice with as many chunks as `choice`: that of `choice` without R,
    /// less what rounding to whole nanoseconds may take from three passes of each chunk.
    fn count_work(&mut self, choice: &Choice) {
        let Some(instance) = (self.jointly.instance)(choice) else { return };
        let work = own_work(&instance, 0..instance.shape.chunks());
        let rounded = 3 * instance.costs.chunks().len() as u64;
        self.least_work = self.least_work.min(work.saturating_sub(rounded));
    }

    /// *Proof.* All chunks together do the work of all layers for every microbatch, wherever the layers are; so
    /// some stage does the mean or more. And some stage has the p-th part of the layers, rounded up, or more, and does
    /// at least their work. Its span and the makespan are no shorter.
    fn bound(&self) -> Nanos {
        let stages = self.space.stages.max(1) as u64;
        let instance = (self.jointly.instance)(&self.space.asked);
        let microbatches = instance.map_or(0, |one| u64::from(one.shape.microbatches()));
        if self.least_work == u64::MAX {
            return Nanos(0);
        }
        let mean = self.least_work.saturating_mul(microbatches).div_ceil(stages);
        let whole = self.whole_layers().unwrap_or(0).saturating_mul(microbatches);
        Nanos(mean.max(whole))
    }

    /// The least work for a microbatch of the stage that has most layers, where all layers are alike: of all
    /// layers in one chunk, less that of the same chunk without any, less what rounding to whole nanoseconds
    /// may take from three passes of each chunk.
    fn whole_layers(&self) -> Option<u64> {
        let space = &self.space;
        let asked = &space.asked;
        let layers: u64 = asked.layers.iter().sum();
        if !space.are_alike || asked.layers.len() < 2 || layers == 0 {
            return None;
        }
        let first_of = |at: usize| {
            let mut all = vec![0; asked.layers.len()];
            all[at] = layers;
            let instance = (self.jointly.instance)(&Choice { layers: all, ..asked.clone() })?;
            Some(own_work(&instance, 0..1))
        };
        let work = first_of(0)?.checked_sub(first_of(1)?)?.saturating_sub(3);
        let own = space.forms.iter().map(|(own, _)| u64::from(*own)).max();
        let own = own.unwrap_or(1).max(u64::from(asked.chunks_per_stage));
        let most = u128::from(layers.div_ceil(space.stages.max(1) as u64));
        let of_most = most * u128::from(work) / u128::from(layers);
        Some(u64::try_from(of_most).unwrap_or(u64::MAX).saturating_sub(3 * own))
    }

    fn tell(&mut self) {
        let now = Progress {
            phase: Phase::Jointly,
            best: self.cost(),
            bound: None,
            steps: self.tried.min(self.of),
            of: Some(self.of),
        };
        (self.progress)(now);
    }
}

/// F, B and W of the chunks of `instance` for a microbatch; where passes share two streams, what the busier of them has
/// of that.
fn own_work(instance: &Instance, chunks: std::ops::Range<u16>) -> u64 {
    let sum = |times: &mut dyn Iterator<Item = Nanos>| {
        times.fold(0_u64, |all, time| all.saturating_add(time.0))
    };
    let Some(overlap) = instance.costs.overlap().filter(|overlap| overlap.communicates()) else {
        let times = chunks.map(|chunk| instance.costs.chunks()[usize::from(chunk)]);
        return sum(&mut times.flat_map(|one| [one.forward, one.least_backward()]));
    };
    let on = |stream: Stream| {
        let of = |chunk| Part::ALL.map(|part| Overlap::chain(overlap, chunk).work(part, stream));
        sum(&mut chunks.clone().flat_map(of))
    };
    on(Stream::Compute).max(on(Stream::Communication))
}
