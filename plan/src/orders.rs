//! Orders that many set-ups share: those that depend on the shape alone, and those that were made for
//! the same times, as questions about other links or more memory ask for them again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pipeline::{Costs, Family, Fault, Footprints, Limit, Schedule, Shape};

use crate::costed::Costed;

/// The most passes of all orders that are kept: some hundred megabytes.
const MOST_PASSES: usize = 20_000_000;

/// Orders made so far, for any number of threads.
#[derive(Default, Debug)]
pub struct Orders(Mutex<Known>);

#[derive(Default, Debug)]
struct Known {
    by_shape: HashMap<(Family, Shape, Option<Limit>), Vec<Order>>,
    passes: usize,
}

/// An order, and what it was made for if it depends on that.
#[derive(Debug)]
struct Order {
    made_for: Option<(Costs, Footprints)>,
    schedule: Arc<Schedule>,
}

impl Order {
    fn is_of(&self, costed: &Costed) -> bool {
        self.made_for.as_ref().is_none_or(|(costs, footprints)| {
            *costs == costed.ordering && *footprints == costed.footprints
        })
    }
}

impl Orders {
    /// The order of `costed`.
    ///
    /// # Errors
    /// If the family cannot do the shape or finds no order in the memory.
    pub fn of(&self, costed: &Costed) -> Result<Arc<Schedule>, Fault> {
        let family = costed.setup.family;
        let key = (family, costed.shape, costed.limit);
        // Orders are put in whole: what a thread that broke down left is right.
        let locked = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |known: &Known| {
            let orders = known.by_shape.get(&key)?;
            orders.iter().find(|one| one.is_of(costed)).map(|one| Arc::clone(&one.schedule))
        };
        if let Some(schedule) = known(&locked()) {
            return Ok(schedule);
        }
        let schedule = Arc::new(costed.schedule()?);
        let mut locked = locked();
        if locked.passes + schedule.passes() <= MOST_PASSES {
            locked.passes += schedule.passes();
            let made_for = family
                .depends_on_times()
                .then(|| (costed.ordering.clone(), costed.footprints.clone()));
            let order = Order { made_for, schedule: Arc::clone(&schedule) };
            locked.by_shape.entry(key).or_default().push(order);
        }
        Ok(schedule)
    }
}
