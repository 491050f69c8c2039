//! Orders that many set-ups share: those that depend on the shape alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pipeline::{Family, Fault, Schedule, Shape};

use crate::evaluate::Costed;

/// The most passes of all orders that are kept: some hundred megabytes.
const MOST_PASSES: usize = 20_000_000;

/// Orders made so far, for any number of threads.
#[derive(Default, Debug)]
pub struct Orders(Mutex<Known>);

#[derive(Default, Debug)]
struct Known {
    by_shape: HashMap<(Family, Shape), Arc<Schedule>>,
    passes: usize,
}

impl Orders {
    /// The order of `costed`.
    ///
    /// # Errors
    /// If the family cannot do the shape or finds no order in the memory.
    pub fn of(&self, costed: &Costed) -> Result<Arc<Schedule>, Fault> {
        let family = costed.setup.family;
        if family.depends_on_times() {
            return costed.schedule().map(Arc::new);
        }
        let key = (family, costed.shape);
        // Orders are put in whole: what a thread that broke down left is right.
        let locked = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schedule) = locked().by_shape.get(&key) {
            return Ok(Arc::clone(schedule));
        }
        let schedule = Arc::new(costed.schedule()?);
        let mut known = locked();
        if known.passes + schedule.passes() <= MOST_PASSES {
            known.passes += schedule.passes();
            known.by_shape.insert(key, Arc::clone(&schedule));
        }
        Ok(schedule)
    }
}
