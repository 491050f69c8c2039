//! One set-up given by the user: its step and its memory, whether it fits or not.

use pipeline::Bytes;
use sim::Replay;

use crate::costed::{Costed, Overflow, Rejected, fits};
use crate::finalist::{Finalist, FinalistError};
use crate::inputs::Inputs;
use crate::memory::StageMemory;
use crate::orders::Orders;
use crate::setup::{Setup, Split};

/// A set-up that was run as given.
#[derive(Clone, Debug)]
pub struct SetupRun {
    /// Its run by the event engine.
    pub finalist: Finalist,
    /// The shortage of memory, where the set-up does not surely fit.
    pub shortage: Option<Shortage>,
}

/// The shortage of memory of a set-up that does not surely fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// The stage with the largest shortage.
    pub overflow: Overflow,
    /// The memory of that stage's device, where every device may hold its part: the shortage is within
    /// the error of predicted memory.
    pub may_hold: Option<Bytes>,
}

impl Inputs<'_> {
    /// `setup` run by the engine as [`run_with`](crate::run_with) would run it alone. Where its devices
    /// do not hold it, it is run with unlimited memory, and the answer has the shortage. With
    /// [`Split::Searched`], layers are assigned together with the order only where balanced layers fit.
    ///
    /// # Errors
    /// If a size does not divide, or the schedule cannot run it.
    pub fn run_single(
        &self,
        setup: &Setup,
        orders: &Orders<'_>,
    ) -> Result<SetupRun, FinalistError> {
        if setup.split != Split::Searched {
            return self.run_as_given(setup, orders);
        }
        let balanced = Setup { split: Split::Balanced, ..*setup };
        let SetupRun { mut finalist, shortage } = self.run_as_given(&balanced, orders)?;
        if shortage.is_none() {
            finalist = self.with_layers_assigned(finalist, orders);
        }
        Ok(SetupRun { finalist, shortage })
    }

    fn run_as_given(&self, setup: &Setup, orders: &Orders<'_>) -> Result<SetupRun, FinalistError> {
        let costed = self.cost(setup)?;
        let shortage = match self.run(&costed, orders) {
            Ok(finalist) => return Ok(SetupRun { finalist, shortage: None }),
            Err(FinalistError::Rejected(Rejected::Memory(shortage))) => Some(shortage),
            // A schedule that chooses its order by the memory may have none for so little.
            Err(FinalistError::Rejected(Rejected::Schedule(_))) => None,
            Err(error) => return Err(error),
        };
        let capacities = costed.capacities.clone();
        let endless = vec![Bytes(u64::MAX); capacities.len()];
        let mut finalist = self.run(&Costed { capacities: endless, ..costed }, orders)?;
        let needs = finalist.evaluation.memory.iter().map(StageMemory::sum);
        // The engine also counts tensors in transit, for which there may be no memory left.
        let shortage = match fits(needs, &capacities) {
            Err(Rejected::Memory(whole)) => Some(whole),
            _ => shortage,
        };
        finalist.evaluation.costed.capacities = capacities;
        let shortage = shortage.map(|overflow| Shortage {
            overflow,
            may_hold: self.at_best(&finalist).map(|all| all[overflow.stage]),
        });
        Ok(SetupRun { finalist, shortage })
    }

    /// The memory of the device of each stage, if each may hold the prediction of `finalist`.
    fn at_best(&self, finalist: &Finalist) -> Option<Vec<Bytes>> {
        let kinds = self.cluster.machine_of_stages(finalist.costed().setup.pipeline)?;
        let machine = |kind: &usize| &self.cluster.parts[*kind].0;
        let budget = self.recipe.memory_budget;
        let most: Vec<Bytes> = kinds.iter().map(|kind| budget.at_best(machine(kind))).collect();
        let needs = finalist.evaluation.memory.iter().map(StageMemory::sum);
        let exact = || kinds.iter().map(|kind| budget.if_exact(machine(kind))).collect();
        fits(needs, &most).is_ok().then(exact)
    }

    fn run(&self, costed: &Costed, orders: &Orders<'_>) -> Result<Finalist, FinalistError> {
        self.check_least(costed)?;
        let all = self.evaluate_all(costed, &mut Replay::new(), orders)?;
        self.settle(all, orders)
    }
}
