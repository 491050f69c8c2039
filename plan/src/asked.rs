//! One set-up that somebody asks for: its step and its memory, whether its devices hold it or not.

use pipeline::Bytes;
use sim::Replay;

use crate::costed::{Costed, Overflow, Rejected, fits};
use crate::finalist::{Finalist, FinalistError};
use crate::inputs::Inputs;
use crate::memory::StageMemory;
use crate::orders::Orders;
use crate::setup::Setup;

/// A set-up that was run as it was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its run by the event engine.
    pub finalist: Finalist,
    /// The stage that lacks most, where its devices do not hold it.
    pub lacks: Option<Overflow>,
}

impl Inputs<'_> {
    /// `setup` run by the engine as [`run_with`](crate::run_with) would run it alone. Where its devices
    /// do not hold it, it is run as if they did, and the answer says what they lack.
    ///
    /// # Errors
    /// What does not divide, or that its schedule cannot do it.
    pub fn asked(&self, setup: &Setup, orders: &Orders) -> Result<Asked, FinalistError> {
        let costed = self.cost(setup)?;
        let lacks = match self.run(&costed, orders) {
            Ok(finalist) => return Ok(Asked { finalist, lacks: None }),
            Err(FinalistError::Rejected(Rejected::Memory(lacks))) => Some(lacks),
            // A schedule that chooses its order by the memory may have none for so little.
            Err(FinalistError::Rejected(Rejected::Schedule(_))) => None,
            Err(error) => return Err(error),
        };
        let capacities = costed.capacities.clone();
        let endless = vec![Bytes(u64::MAX); capacities.len()];
        let mut finalist = self.run(&Costed { capacities: endless, ..costed }, orders)?;
        let needs = finalist.evaluation.memory.iter().map(StageMemory::sum);
        // The engine also counts values on their way, for which all else may leave no room.
        let lacks = match fits(needs, &capacities) {
            Err(Rejected::Memory(whole)) => Some(whole),
            _ => lacks,
        };
        finalist.evaluation.costed.capacities = capacities;
        Ok(Asked { finalist, lacks })
    }

    fn run(&self, costed: &Costed, orders: &Orders) -> Result<Finalist, FinalistError> {
        self.check_least(costed)?;
        let all = self.evaluate_all(costed, &mut Replay::new(), orders)?;
        self.settle(all, orders)
    }
}
