//! A look around a choice, for those who search orders themselves: which choices near it promise more, by orders
//! that are quickly found.

use pipeline::Nanos;

use super::{Choice, Jointly, Outer};
use crate::instance::Instance;
use crate::run::SearchError;
use crate::start::Starts;

/// How far a look around goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Looks {
    /// How many choices are tried besides those that it begins with.
    pub choices: u64,
    /// For how many of these orders are made; of the others a lower bound says that they are not worth it.
    pub orders: u64,
    /// How many times each pass of a choice is placed or timed, at least once.
    pub effort: u64,
    /// A choice is left out of which a lower bound says that no order is cheaper than this.
    pub known: Option<Nanos>,
}

/// A choice that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Looked {
    /// The choice.
    pub choice: Choice,
    /// What its passes cost and hold.
    pub instance: Instance,
    /// The cost of an order that was quickly found for it.
    pub cost: Nanos,
}

/// The best choices of a short joint search, the cheapest first: by orders that are quickly found, so that costs
/// compare with each other rather than with that of an order searched in full. The choice that the question makes
/// stands among them if it fits and is among the best.
///
/// As long as `stop` returns false, the same question and looks give the same result on any number of threads.
///
/// # Errors
/// If an instance is too large to be searched.
pub fn look_around(
    jointly: &Jointly<'_>,
    looks: Looks,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Looked>, SearchError> {
    let mut outer = Outer::with(jointly, (looks, Starts::Quick), stop);
    outer.begin(&mut |_| {})?;
    outer.go_on(&mut |_| {})?;
    let looked = outer.best.into_iter().filter_map(|one| match one.worth {
        super::Worth::Found(found) => {
            let (instance, found) = *found;
            Some(Looked { choice: one.choice, instance, cost: found.cost })
        }
        super::Worth::Lacks(_) | super::Worth::Bounded => None,
    });
    Ok(looked.collect())
}
