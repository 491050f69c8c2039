//! Levers: changes of a pipeline, and the step time that each would save, found by trying them.
//!
//! `LEVERS` is the table of all changes: each entry says where it is tried and makes its
//! `Variant`s; a new lever is a new entry.

mod links;
mod memory;
mod pace;
mod segments;
mod trials;

#[cfg(test)]
mod tests;

use pipeline::{Bytes, Costs, Family, Fault, Limit, Limits, Nanos, Placement, Problem, Schedule};

use self::trials::Trials;
use crate::hardware::Hardware;
use crate::lanes::CompiledOrder;
use crate::simulation::{FasterLinks, Simulation, SimulationError};

/// Passes that trying all levers may time; beyond that, single stages and links are left out.
const MOST_WORK: usize = 200_000_000;

/// A simulation with what its order was made for, so that changes can have an order of their own.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'a> {
    /// The simulation that is changed.
    pub simulation: Simulation<'a>,
    /// The problem that the order was made for.
    pub problem: &'a Problem,
    /// The family that made the order, unless it was written by hand.
    pub family: Option<Family>,
    /// The memory limits of the stages, if there are any.
    pub limits: Option<&'a Limits>,
    /// Layers of each stage, if they are known.
    pub layers_per_stage: Option<u64>,
    /// Whether the footprints are bytes of whole stages.
    pub has_whole_bytes: bool,
    /// The activations of one microbatch on the stage that holds most: M_B, the unit of limits.
    pub microbatch_bytes: Bytes,
}

/// A change, and the step with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lever {
    /// The change, as in `stage 3 5 % faster`.
    pub name: String,
    /// Step time with the change, as in [`crate::explain::Causes`].
    pub step: Nanos,
    /// By how many nanoseconds that is longer.
    pub change: i64,
    /// Whether the family made a new order for the change; else the order was kept.
    pub rebuilt: bool,
}

/// All levers of a simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Levers {
    /// The levers, what saves most first.
    pub ranked: Vec<Lever>,
    /// Step time without any change.
    pub base: Nanos,
    /// The assumptions and omissions.
    pub notes: Vec<LeverNote>,
}

/// An assumption about levers, or an omission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeverNote {
    /// Layers per stage are unknown: the number assumed.
    AssumedLayers(u64),
    /// The pipeline is so large that single stages and links are left out.
    OnlyWhole,
    /// Not all single stages and links were tried, since [`Watch::stopped`] returned true.
    Interrupted,
    /// The only step begins on all stages at once, as after a barrier, though there is none
    /// ([`Hardware::starts_cold`]).
    StartsCold,
}

/// Observer of the progress of the trials, which may also stop them.
pub trait Watch {
    /// Called before single stages and links are tried: the number of `places`, and about how many `passes` are timed
    /// for them.
    fn begin(&self, places: u64, passes: u64) {
        let _ = (places, passes);
    }

    /// One more of the places is reached.
    fn reached(&self) {}

    /// Whether no more places are to be tried.
    fn stopped(&self) -> bool {
        false
    }
}

/// No observer.
impl Watch for () {}

/// Where a lever is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    /// Once, on the whole pipeline.
    Whole,
    /// On each stage.
    Stages,
    /// On each link between two stages.
    Links,
}

/// One place where a lever is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Whole,
    Stage(usize),
    /// Between two stages, the lower first.
    Link(usize, usize),
}

/// The changed simulation; everything that is not given stays as it is.
#[derive(Default)]
struct Variant {
    name: String,
    costs: Option<Costs>,
    /// The order that the family makes for the change, where it makes one.
    schedule: Option<Schedule>,
    hardware: Option<Hardware>,
    links: FasterLinks,
    note: Option<LeverNote>,
}

type Variants = Result<Vec<Variant>, SimulationError>;

/// A kind of change: where it is tried, and the variants it makes there.
struct Entry {
    places: Places,
    variants: fn(&Baseline<'_>, Place) -> Variants,
}

/// Every lever. Of those that change the step alike, the first stands first.
const LEVERS: [Entry; 7] = [
    Entry { places: Places::Whole, variants: memory::more },
    Entry { places: Places::Whole, variants: pace::move_layer },
    Entry { places: Places::Whole, variants: links::faster },
    Entry { places: Places::Whole, variants: segments::hidden },
    Entry { places: Places::Stages, variants: pace::slower_and_faster },
    Entry { places: Places::Stages, variants: memory::more },
    Entry { places: Places::Links, variants: links::faster },
];

impl Levers {
    /// Tries all levers on `baseline`, whose step takes `base`; under noise, in replica 0.
    ///
    /// # Errors
    /// If the clock overflows or the pipeline gets stuck.
    pub fn of(
        baseline: &Baseline<'_>,
        base: Nanos,
        watch: &impl Watch,
    ) -> Result<Self, SimulationError> {
        let schedule = baseline.simulation.schedule();
        let mut levers = Self { ranked: Vec::new(), base, notes: Vec::new() };
        for entry in LEVERS.iter().filter(|entry| entry.places == Places::Whole) {
            levers.try_at(baseline, entry, Place::Whole)?;
        }
        let passes = 3 * schedule.shape().stages() * schedule.passes();
        if passes <= MOST_WORK {
            levers.try_each(baseline, passes as u64, watch)?;
        } else {
            levers.notes.push(LeverNote::OnlyWhole);
        }
        if baseline.simulation.hardware().is_some_and(Hardware::starts_cold) {
            levers.notes.push(LeverNote::StartsCold);
        }
        levers.ranked.sort_by_key(|lever| lever.change);
        Ok(levers)
    }

    /// The changes of single stages and links.
    fn try_each(
        &mut self,
        baseline: &Baseline<'_>,
        passes: u64,
        watch: &impl Watch,
    ) -> Result<(), SimulationError> {
        let places: Vec<(&Entry, Place)> = LEVERS
            .iter()
            .filter(|entry| entry.places != Places::Whole)
            .flat_map(|entry| entry.places.of(baseline).into_iter().map(move |at| (entry, at)))
            .collect();
        watch.begin(places.len() as u64, passes);
        let order = baseline.simulation.is_replayed().then_some(baseline.simulation.schedule());
        let order = order.and_then(CompiledOrder::new);
        let mut trials = Trials::new(order.as_ref());
        for (entry, place) in places {
            watch.reached();
            if watch.stopped() {
                self.notes.push(LeverNote::Interrupted);
                break;
            }
            for variant in (entry.variants)(baseline, place)? {
                trials.add(self, baseline, variant)?;
            }
        }
        trials.finish(self, baseline)
    }

    fn try_at(
        &mut self,
        baseline: &Baseline<'_>,
        entry: &Entry,
        place: Place,
    ) -> Result<(), SimulationError> {
        for variant in (entry.variants)(baseline, place)? {
            let step = baseline.step(&variant)?;
            self.rank(variant, step)?;
        }
        Ok(())
    }

    /// Adds `variant`, whose step takes `step`.
    fn rank(&mut self, variant: Variant, step: Nanos) -> Result<(), SimulationError> {
        let change = i128::from(step.0) - i128::from(self.base.0);
        let change = i64::try_from(change).map_err(|_| Fault::Overflow { what: "the times" })?;
        let rebuilt = variant.schedule.is_some();
        self.ranked.push(Lever { name: variant.name, step, change, rebuilt });
        self.notes.extend(variant.note);
        Ok(())
    }
}

impl Places {
    fn of(self, baseline: &Baseline<'_>) -> Vec<Place> {
        match self {
            Self::Whole => vec![Place::Whole],
            Self::Stages => (0..baseline.stages()).map(Place::Stage).collect(),
            Self::Links => links::neighbours(baseline.simulation.schedule()),
        }
    }
}

impl Baseline<'_> {
    /// Step time of `variant`.
    fn step(&self, variant: &Variant) -> Result<Nanos, SimulationError> {
        let Variant { costs, schedule, hardware, links, .. } = variant;
        let simulation = Simulation::new(
            schedule.as_ref().unwrap_or(self.simulation.schedule()),
            costs.as_ref().unwrap_or(self.simulation.costs()),
            self.simulation.footprints(),
        );
        let simulation = simulation.in_place_of(&self.simulation);
        match hardware {
            Some(hardware) => simulation.on(hardware).step(*links),
            None => simulation.step(*links),
        }
    }

    fn stages(&self) -> usize {
        self.simulation.schedule().shape().stages()
    }

    fn placement(&self) -> Placement {
        self.simulation.schedule().placement()
    }

    /// The problem with other costs and limits.
    fn problem(&self, costs: Costs, limits: Option<&Limits>) -> Result<Problem, Fault> {
        let problem = self.problem.clone().with_costs(costs)?;
        let Some(limits) = limits else { return Ok(problem) };
        let limits: Vec<Limit> = limits.by_stage().iter().copied().map(Limit::Bytes).collect();
        problem.with_limits(&limits)
    }

    /// The order that the family makes for `costs`, where its orders depend on them and there is one.
    fn rebuilt(&self, costs: &Costs) -> Option<Schedule> {
        let family = self.family.filter(|&family| family.depends_on_times())?;
        let problem = self.problem(costs.clone(), self.limits).ok()?;
        Some(problem.offloaded(family.schedule(&problem).ok()?))
    }

    /// Other times, with a new order where the order depends on them.
    fn with_costs(&self, name: String, costs: Costs) -> Result<Variant, Fault> {
        let schedule = self.rebuilt(&costs);
        if schedule.is_none() {
            self.problem(costs.clone(), self.limits)?;
        }
        Ok(Variant { name, costs: Some(costs), schedule, ..Variant::default() })
    }
}
