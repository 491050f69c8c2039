//! One set-up given by the user: its step and its memory, whether it fits or not.

use pipeline::Bytes;
use sim::Replay;

use crate::costed::{Costed, Rejected, fits};
use crate::finalist::{Finalist, FinalistError};
use crate::inputs::Inputs;
use crate::machine::Machine;
use crate::memory::StageMemory;
use crate::memory_budget::{MemoryBudget, Overflow};
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
        let shortage = shortage.map(|overflow| self.shortage(&finalist, overflow));
        Ok(SetupRun { finalist, shortage })
    }

    /// `finalist`, found in more memory than there surely is, with its shortage.
    #[must_use]
    pub fn with_shortage(&self, mut finalist: Finalist) -> SetupRun {
        let budget = self.recipe.memory_budget;
        let setup = finalist.costed().setup;
        let machines = self.machines(&setup);
        finalist.evaluation.costed.capacities = machines.map(|one| budget.of(one)).collect();
        let needs = finalist.evaluation.memory.iter().map(StageMemory::sum);
        let shortage = match fits(needs, &finalist.costed().capacities) {
            Err(Rejected::Memory(overflow)) => Some(self.shortage(&finalist, overflow)),
            _ => None,
        };
        SetupRun { finalist, shortage }
    }

    fn shortage(&self, finalist: &Finalist, overflow: Overflow) -> Shortage {
        let budget = self.recipe.memory_budget;
        let setup = &finalist.costed().setup;
        let all =
            || finalist.evaluation.memory.iter().map(StageMemory::sum).zip(self.machines(setup));
        let has = self.machines(setup).nth(overflow.stage).map(|one| budget.if_exact(one));
        let may = all().all(|(needs, machine)| needs <= budget.at_best(machine));
        Shortage { overflow, may_hold: has.filter(|_| may) }
    }

    /// The odds that every device holds its part of `finalist`, by published peaks: those of the fullest, since all run
    /// one program.
    #[must_use]
    pub fn odds(&self, finalist: &Finalist) -> f64 {
        let budget = MemoryBudget { cap: None, ..self.recipe.memory_budget };
        let needs = finalist.evaluation.memory.iter().map(StageMemory::sum);
        let all = needs.zip(self.machines(&finalist.costed().setup));
        let odds = all.map(|(needs, machine)| budget.peaks.odds(needs, budget.if_exact(machine)));
        odds.fold(1.0, f64::min)
    }

    /// The machine of each stage of `setup`.
    fn machines(&self, setup: &Setup) -> impl Iterator<Item = &Machine> {
        let kinds = self.cluster.machine_of_stages(setup.pipeline).unwrap_or_default();
        kinds.into_iter().map(|kind| &self.cluster.parts[kind].0)
    }

    fn run(&self, costed: &Costed, orders: &Orders<'_>) -> Result<Finalist, FinalistError> {
        self.check_least(costed)?;
        let all = self.evaluate_all(costed, &mut Replay::new(), orders)?;
        self.settle(all, orders)
    }
}
