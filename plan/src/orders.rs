//! Orders shared by many set-ups: those that depend on the shape alone, and those made for the same
//! times, which questions about other links or more memory ask for again.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use pipeline::{Costs, Family, Fault, Footprints, Limit, Schedule, Shape};
use search::Instance;

use crate::costed::Costed;
use crate::searched;

/// Most passes of all orders that are kept: some hundred megabytes.
const MOST_PASSES: usize = 20_000_000;

/// Returns whether the user asked to stop.
type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Orders made so far, for any number of threads.
#[derive(Default)]
pub struct Orders<'a> {
    known: Mutex<Known>,
    stop: Option<Stop<'a>>,
    /// One order for every set-up, if it is given.
    given: Option<Arc<Schedule>>,
}

impl fmt::Debug for Orders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orders").field("known", &self.known).finish_non_exhaustive()
    }
}

#[derive(Default, Debug)]
struct Known {
    by_shape: HashMap<Key, Vec<Order>>,
    passes: usize,
}

/// The family, whether the order is searched, the shape and the limit.
type Key = (Family, bool, Shape, Option<Limit>);

/// An order, and the problem that it was made for.
#[derive(Debug)]
struct Order {
    made_for: MadeFor,
    schedule: Arc<Schedule>,
}

/// The inputs that an order depends on.
#[derive(PartialEq, Debug)]
enum MadeFor {
    /// The shape alone.
    Shape,
    /// Costs and footprints that the family was given.
    Problem(Box<(Costs, Footprints)>),
    /// The instance that was searched.
    Instance(Box<Instance>),
}

impl MadeFor {
    /// The inputs of the order of `costed`.
    fn of(costed: &Costed) -> Result<Self, Fault> {
        Ok(match costed.setup {
            setup if setup.searched => Self::Instance(Box::new(searched::instance(costed)?)),
            setup if setup.family.depends_on_times() => {
                let problem = (costed.ordering.clone(), costed.held_by_microbatch().into_owned());
                Self::Problem(Box::new(problem))
            }
            _ => Self::Shape,
        })
    }
}

impl<'a> Orders<'a> {
    /// No orders yet; searches end with their best order so far once `stop` returns true.
    #[must_use]
    pub fn until(stop: Stop<'a>) -> Self {
        Self { stop: Some(stop), ..Self::default() }
    }

    /// Returns whether the user asked to stop.
    pub(crate) fn stop(&self) -> Stop<'a> {
        self.stop.unwrap_or(&|| false)
    }

    /// `schedule` for every set-up.
    pub(crate) fn given(schedule: Arc<Schedule>) -> Self {
        Self { given: Some(schedule), ..Self::default() }
    }

    pub fn of(&self, costed: &Costed) -> Result<Arc<Schedule>, Fault> {
        if let Some(schedule) = &self.given {
            return Ok(Arc::clone(schedule));
        }
        let setup = &costed.setup;
        let key = (setup.family, setup.searched, costed.shape, costed.limit);
        let made_for = MadeFor::of(costed)?;
        // Orders are inserted whole: the map is valid after a panic of another thread.
        let locked = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |known: &Known| {
            let orders = known.by_shape.get(&key)?;
            let own = orders.iter().find(|one| one.made_for == made_for)?;
            Some(Arc::clone(&own.schedule))
        };
        if let Some(schedule) = known(&locked()) {
            return Ok(schedule);
        }
        let schedule = Arc::new(costed.schedule_until(self.stop())?);
        let mut locked = locked();
        if locked.passes + schedule.passes() <= MOST_PASSES {
            locked.passes += schedule.passes();
            let order = Order { made_for, schedule: Arc::clone(&schedule) };
            locked.by_shape.entry(key).or_default().push(order);
        }
        Ok(schedule)
    }
}

impl Costed {
    /// The order.
    pub fn schedule(&self) -> Result<Schedule, Fault> {
        self.schedule_until(&|| false)
    }

    /// The same; a search for it ends with the best order so far where `stop` says so.
    pub(crate) fn schedule_until(
        &self,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Schedule, Fault> {
        match self.setup.searched {
            true => searched::order(&searched::instance(self)?, stop),
            false => self.setup.family.schedule(&self.problem()?),
        }
    }
}
