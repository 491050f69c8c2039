//! One set-up that somebody asks for: its step and its memory, whether its devices hold it or not.

use pipeline::Bytes;
use sim::Replay;

use crate::costed::{Costed, Overflow, Rejected, fits};
use crate::finalist::{Finalist, FinalistError};
use crate::inputs::Inputs;
use crate::memory::StageMemory;
use crate::orders::Orders;
use crate::setup::{Setup, Split};

/// A set-up that was run as it was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its run by the event engine.
    pub finalist: Finalist,
    /// What its devices lack, where they do not surely hold it.
    pub lacks: Option<Lacks>,
}

/// What devices lack that do not surely hold a set-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lacks {
    /// The stage that lacks most of what may be used.
    pub overflow: Overflow,
    /// The memory of that stage's device, where every device may hold its part: it lacks no more than predictions were
    /// off.
    pub may_hold: Option<Bytes>,
}

impl Inputs<'_> {
    /// `setup` run by the engine as [`run_with`](crate::run_with) would run it alone. Where its devices
    /// do not hold it, it is run as if they did, and the answer says what they lack. Layers that are to be dealt
    /// together with its order ([`Split::Searched`]) are so where it is held with balanced ones.
    ///
    /// # Errors
    /// What does not divide, or that its schedule cannot do it.
    pub fn asked(&self, setup: &Setup, orders: &Orders<'_>) -> Result<Asked, FinalistError> {
        if setup.split != Split::Searched {
            return self.asked_as_dealt(setup, orders);
        }
        let balanced = Setup { split: Split::Balanced, ..*setup };
        let Asked { mut finalist, lacks } = self.asked_as_dealt(&balanced, orders)?;
        if lacks.is_none() {
            finalist = self.with_layers_dealt(finalist, orders);
        }
        Ok(Asked { finalist, lacks })
    }

    fn asked_as_dealt(&self, setup: &Setup, orders: &Orders<'_>) -> Result<Asked, FinalistError> {
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
        let lacks = lacks.map(|overflow| Lacks {
            overflow,
            may_hold: self.at_best(&finalist).map(|all| all[overflow.stage]),
        });
        Ok(Asked { finalist, lacks })
    }

    /// The memory of the device of each stage, if each may hold what is predicted of `finalist`.
    fn at_best(&self, finalist: &Finalist) -> Option<Vec<Bytes>> {
        let kinds = self.cluster.machine_of_stages(finalist.costed().setup.pipeline)?;
        let machine = |kind: &usize| &self.cluster.parts[*kind].0;
        let room = self.recipe.room;
        let most: Vec<Bytes> = kinds.iter().map(|kind| room.at_best(machine(kind))).collect();
        let needs = finalist.evaluation.memory.iter().map(StageMemory::sum);
        let exact = || kinds.iter().map(|kind| room.if_exact(machine(kind))).collect();
        fits(needs, &most).is_ok().then(exact)
    }

    fn run(&self, costed: &Costed, orders: &Orders<'_>) -> Result<Finalist, FinalistError> {
        self.check_least(costed)?;
        let all = self.evaluate_all(costed, &mut Replay::new(), orders)?;
        self.settle(all, orders)
    }
}
