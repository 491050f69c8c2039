//! Orders where some chunks spend the time between F and B on the host.
//!
//! The order is searched on a proxy: a chunk that goes to the host holds between F and B only the part that waits
//! for its copy out, and each stage keeps a reserve of its memory for what is on its way. Of the order found the copies
//! are planned by the rule of PO-H and PO-F, and the simulator gives their time and memory. Where it finds that a stage
//! exceeds its limit, the reserve grows by the excess; where it stays below, the reserve shrinks.

use pipeline::{
    Bytes, CopyDirection, CopyPart, Family, Footprint, Limits, Nanos, Placement, ROUND_TRIPS,
    Schedule, copied_in_turn,
};
use sim::{Details, Replay, Simulation};

use crate::bounds::{self, Bound, Proof};
use crate::check;
use crate::compiled_instance::CompiledInstance;
use crate::error::SearchError;
use crate::found::Found;
use crate::instance::Instance;
use crate::run::search_within;
use crate::start::{self, Published, Starts};

/// For how many round trips an activation must be able to stay away, in the plans that are tried.
const TRIPS: [u64; 2] = [ROUND_TRIPS, 1];
/// How often an order is searched with another reserve, for each part that waits, where a choice is tried; and where
/// its order is searched in full.
pub(super) const TURNS: [u64; 2] = [3, 6];

/// Cost and peak memory of an order by the simulator.
pub(super) struct Simulated {
    /// Its cost.
    pub(super) cost: Nanos,
    /// The most that each stage holds of activations.
    pub(super) peaks: Vec<Bytes>,
}

impl Simulated {
    /// `schedule`, with its copies, under the costs and footprints of `instance`.
    pub(super) fn of(schedule: &Schedule, instance: &Instance) -> Option<Self> {
        let simulation = Simulation::new(schedule, &instance.costs, &instance.footprints);
        let study = simulation.study(Details::default(), &mut Replay::new()).ok()?;
        Some(Self { cost: instance.objective.of(&study.metrics), peaks: study.memory.peak })
    }

    /// By how many bytes it exceeds the limits of `instance`, over all stages.
    pub(super) fn lacks(&self, instance: &Instance) -> u64 {
        let Some(limits) = &instance.limits else { return 0 };
        let over = self.peaks.iter().zip(limits.by_stage());
        over.fold(0, |all, (peak, limit)| all.saturating_add(peak.0.saturating_sub(limit.0)))
    }
}

/// `instance` with nothing held by what goes to the host: no order of it holds more, so its bounds hold.
pub(super) fn relaxed(instance: &Instance, hosted: &[bool]) -> Instance {
    held_by(instance, hosted, |_, _| Footprint::default())
}

/// `instance` where a chunk that goes to the host holds what `held` says of its number and of what it holds.
fn held_by(
    instance: &Instance,
    hosted: &[bool],
    held: impl Fn(u16, Footprint) -> Footprint,
) -> Instance {
    let all = (0..).zip(hosted).map(|(chunk, &is_hosted)| {
        let own = instance.footprints.of(chunk);
        if is_hosted { held(chunk, own) } else { own }
    });
    let footprints = instance.footprints.clone().with_chunks(all.collect());
    Instance { footprints, ..instance.clone() }
}

/// The search of an order with copies.
pub(super) struct Copied<'a> {
    instance: &'a Instance,
    hosted: &'a [bool],
    bound: Bound,
    turns: u64,
    published: Vec<Published>,
    /// The best that fits.
    best: Option<(Nanos, Schedule)>,
    /// The smallest excess over the limits of any order tried, in bytes summed over all stages.
    lacks: u64,
    interrupted: bool,
}

/// Outcome of the search of a choice with copies.
pub(super) enum Outcome {
    /// No order tried fits: bytes that are lacking, summed over all stages.
    Lacks(u64),
    /// The best that was found.
    Found(Box<Found>),
}

impl<'a> Copied<'a> {
    /// The search for `instance` whose chunks go to the host where `hosted` says so, with another reserve so many times;
    /// `bound` is one of its relaxation.
    pub(super) fn of(
        (instance, hosted): (&'a Instance, &'a [bool]),
        bound: Bound,
        turns: u64,
    ) -> Self {
        let (published, best, lacks) = (Vec::new(), None, u64::MAX);
        Self { instance, hosted, bound, turns, published, best, lacks, interrupted: false }
    }

    /// Searches by so many passes placed or timed.
    ///
    /// # Errors
    /// If the proxy cannot be searched.
    pub(super) fn search(
        mut self,
        (seed, steps): (u64, u64),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Outcome, SearchError> {
        self.try_published();
        let mut waiting = self.waiting();
        waiting.dedup();
        let turns = self.turns.max(1) * waiting.len() as u64;
        if self.instance.limits.is_some() {
            for waiting in &waiting {
                self.try_proxies(waiting, (seed, steps / turns), stop)?;
            }
        }
        let Self { best, bound, published, lacks, interrupted, .. } = self;
        let Some((cost, schedule)) = best else { return Ok(Outcome::Lacks(lacks.max(1))) };
        let proof = Proof::default();
        let found = Found { schedule, cost, bound, proof, published, interrupted };
        Ok(Outcome::Found(Box::new(found)))
    }

    /// Tries PO-H and PO-F where the chunks that go to the host are the first of each stage, as they are and with
    /// each backward split in place.
    fn try_published(&mut self) {
        let Instance { shape, placement, .. } = self.instance;
        let (stages, own) = (shape.stages(), usize::from(shape.chunks_per_stage()));
        let count = self.hosted.iter().filter(|hosted| **hosted).count();
        let are_first = self.hosted.iter().take(count).all(|hosted| *hosted);
        let is_whole = count % stages == 0 && are_first;
        if *placement != Placement::Looped || !is_whole {
            return;
        }
        let first = count / stages;
        let named = [(Family::PoH, own.div_ceil(2)), (Family::PoF, own)];
        let named = named.into_iter().filter(|(_, of)| *of == first).map(|(family, _)| family);
        let named: Vec<Family> = named.collect();
        // Another number of chunks than theirs is a beginning like any other.
        let family = named.first().copied().unwrap_or(Family::PoF);
        let Some(problem) = start::problem(self.instance) else { return };
        let Ok(whole) = family.schedule(&problem.with_offload_chunks(first as u64)) else { return };
        let split = self.split(&whole);
        let split = split.into_iter().flat_map(|order| self.plans(&order));
        let all: Vec<Schedule> = std::iter::once(whole).chain(split).collect();
        let simulated: Vec<_> = all.into_iter().filter_map(|one| self.simulate(one)).collect();
        let fit = simulated.iter().filter(|(lacks, _)| *lacks == 0);
        if let Some((_, Simulated { cost, peaks })) = fit.min_by_key(|(_, one)| one.cost) {
            let peak = peaks.iter().max().copied().unwrap_or_default();
            let one = |family| Published { family, cost: *cost, peak };
            self.published.extend(named.into_iter().map(one));
        }
    }

    /// The passes of `schedule` with each whole backward split in place, and nothing copied.
    fn split(&self, schedule: &Schedule) -> Option<Schedule> {
        let Instance { shape, placement, costs, .. } = self.instance;
        if costs.overlap().is_some() {
            return None;
        }
        let compiled = CompiledInstance::split(self.instance);
        let sequence = compiled.sequence(schedule)?;
        let recomputes = |chunk| costs.recompute(chunk).is_some();
        let orders = compiled.orders(&sequence, (*shape, *placement), recomputes);
        Schedule::new(*shape, *placement, orders).ok()
    }

    /// `order` with its copies planned in every way that is tried.
    fn plans(&self, order: &Schedule) -> Vec<Schedule> {
        let leaves = |chunk: u16| self.hosted[usize::from(chunk)];
        let costs = &self.instance.costs;
        let plan = |trips| copied_in_turn(order.clone(), costs, (CopyPart::WHOLE, trips), leaves);
        let mut plans: Vec<Schedule> = TRIPS.into_iter().filter_map(|one| plan(one).ok()).collect();
        plans.dedup();
        plans
    }

    /// Simulates `schedule`, and keeps it if it fits and is the best; returns its excess over the limits in bytes, too.
    fn simulate(&mut self, schedule: Schedule) -> Option<(u64, Simulated)> {
        let simulated = Simulated::of(&schedule, self.instance)?;
        let lacks = simulated.lacks(self.instance);
        self.lacks = self.lacks.min(lacks);
        let known = self.best.as_ref().map(|(cost, _)| *cost);
        if lacks == 0 && known.is_none_or(|known| simulated.cost < known) {
            self.best = Some((simulated.cost, schedule));
        }
        Some((lacks, simulated))
    }

    /// By stage, the part of an activation that waits for its copy, in thousandths: in a steady state, where so many
    /// copies out and back take longer than the work of a microbatch; and in a warm-up, where a forward follows another.
    fn waiting(&self) -> Vec<Vec<u64>> {
        let Instance { shape, placement, costs, .. } = self.instance;
        let stage = |stage: usize, steady: bool| {
            let mut work = 0_u64;
            let [mut count, mut out, mut back] = [0_u64; 3];
            for chunk in placement.chunks_of(*shape, stage) {
                let times = costs.chunks()[usize::from(chunk)];
                let all = times.forward.0 + times.least_backward().0;
                work = work.saturating_add(if steady { all } else { times.forward.0 });
                if self.hosted[usize::from(chunk)] {
                    count += 1;
                    out = out.max(costs.copy(chunk, CopyDirection::Out).0);
                    back = back.max(costs.copy(chunk, CopyDirection::Back).0);
                }
            }
            let copies = count.saturating_mul(out.saturating_add(back));
            let left = u128::from(copies.saturating_sub(work)) * 1000;
            u64::try_from(left / u128::from(copies.max(1))).unwrap_or(1000)
        };
        let all = |steady| (0..shape.stages()).map(|one| stage(one, steady)).collect();
        [true, false].into_iter().map(all).collect()
    }

    /// Searches proxies of which so many thousandths wait, with reserves that follow what the simulator finds held.
    fn try_proxies(
        &mut self,
        waiting: &[u64],
        (seed, steps): (u64, u64),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), SearchError> {
        let Some(limits) = self.instance.limits.clone() else { return Ok(()) };
        let Instance { shape, placement, .. } = *self.instance;
        let at = |chunk| placement.stage(shape, chunk, 0);
        let proxy = held_by(self.instance, self.hosted, |chunk, own| {
            let part = u128::from(own.until_backward.0) * u128::from(waiting[at(chunk)]) / 1000;
            let until_backward = Bytes(u64::try_from(part).unwrap_or(u64::MAX));
            Footprint { until_backward, ..own }
        });
        let least = bounds::smallest_limit(&proxy);
        if let Err(SearchError::Infeasible(_)) = check::check(&proxy) {
            let lacking = least.iter().zip(limits.by_stage());
            let lacking = lacking.map(|(least, limit)| least.0.saturating_sub(limit.0));
            self.lacks = self.lacks.min(lacking.fold(0, u64::saturating_add));
            return Ok(());
        }
        let mut reserves = self.first_reserves();
        for turn in 0..self.turns {
            if self.is_done() || (turn > 0 && stop()) {
                break;
            }
            let left = limits.by_stage().iter().zip(&reserves).zip(&least);
            let left = left.map(|((limit, reserve), least)| {
                Bytes(limit.0.saturating_sub(*reserve).max(least.0).min(limit.0).max(1))
            });
            let left: Vec<Bytes> = left.collect();
            let proxy = Instance { limits: Some(Limits::new(shape, &left)?), ..proxy.clone() };
            let bound = bounds::best(&proxy);
            let found = search_within(&proxy, (bound, Starts::All), (seed ^ turn, steps), stop)?;
            self.interrupted |= found.interrupted;
            let Some(peaks) = self.try_order(&found.schedule) else { break };
            let adapted = adapt(&left, &peaks, limits.by_stage());
            if adapted == reserves {
                break;
            }
            reserves = adapted;
        }
        Ok(())
    }

    /// Whether nothing better can be found.
    fn is_done(&self) -> bool {
        self.best.as_ref().is_some_and(|(cost, _)| *cost <= self.bound.cost)
    }

    /// Initial reserve of each stage in bytes: one activation that is copied out and one that is copied back.
    fn first_reserves(&self) -> Vec<u64> {
        let Instance { shape, placement, footprints, .. } = self.instance;
        let stage = |stage| {
            let chunks = placement.chunks_of(*shape, stage);
            let hosted = chunks.filter(|&chunk| self.hosted[usize::from(chunk)]);
            let most = hosted.map(|chunk| footprints.of(chunk).until_backward.0).max();
            most.unwrap_or(0).saturating_mul(2)
        };
        (0..shape.stages()).map(stage).collect()
    }

    /// Simulates `order` with every plan of copies; returns the peaks of the plan of least excess, and of those that fit
    /// the cheapest.
    fn try_order(&mut self, order: &Schedule) -> Option<Vec<Bytes>> {
        let plans = self.plans(order);
        let simulated: Vec<_> = plans.into_iter().filter_map(|plan| self.simulate(plan)).collect();
        let nearest = simulated.into_iter().min_by_key(|(lacks, one)| (*lacks, one.cost));
        nearest.map(|(_, one)| one.peaks)
    }
}

/// The next reserves, where an order made for what was `left` of the `limits` holds `peaks`: as much more as it holds
/// too much, or half of what it holds too little less.
fn adapt(left: &[Bytes], peaks: &[Bytes], limits: &[Bytes]) -> Vec<u64> {
    let stages = left.iter().zip(peaks).zip(limits);
    let one = |((left, peak), limit): ((&Bytes, &Bytes), &Bytes)| {
        let reserve = limit.0.saturating_sub(left.0);
        match peak.0.checked_sub(limit.0) {
            Some(over) => reserve.saturating_add(over),
            None => reserve.saturating_sub((limit.0 - peak.0).div_ceil(2)),
        }
    };
    stages.map(one).collect()
}
