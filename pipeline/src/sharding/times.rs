//! Times of the collectives of parameters and gradients, and the exposed part of them.

use super::act::ParameterAct;
use crate::overlap::Contention;
use crate::units::Nanos;

/// Duration of the collectives of each chunk while no pass runs beside them, in model order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterTimes {
    /// By chunk, to gather its parameters.
    pub gather: Vec<Nanos>,
    /// By chunk, to reduce its gradients.
    pub reduce: Vec<Nanos>,
    /// Contention between a gather and concurrent passes.
    pub gather_contention: Contention,
    /// The same of reductions.
    pub reduce_contention: Contention,
}

impl ParameterTimes {
    /// Times without contention.
    #[must_use]
    pub const fn new(gather: Vec<Nanos>, reduce: Vec<Nanos>) -> Self {
        let none = Contention::NONE;
        Self { gather, reduce, gather_contention: none, reduce_contention: none }
    }

    /// The same under `contention` between collectives and concurrent passes.
    #[must_use]
    pub fn under(self, contention: Contention) -> Self {
        Self { gather_contention: contention, reduce_contention: contention, ..self }
    }

    /// Duration of `act` of `chunk` alone; nothing for a chunk of which no time is known.
    #[must_use]
    #[inline]
    pub fn of(&self, act: ParameterAct, chunk: u16) -> Nanos {
        let times = match act {
            ParameterAct::Gather => &self.gather,
            ParameterAct::Reduce => &self.reduce,
            ParameterAct::Reshard => return Nanos(0),
        };
        times.get(usize::from(chunk)).copied().unwrap_or_default()
    }

    /// Contention between `act` and concurrent passes.
    #[must_use]
    pub const fn contention(&self, act: ParameterAct) -> Contention {
        match act {
            ParameterAct::Gather => self.gather_contention,
            ParameterAct::Reduce => self.reduce_contention,
            ParameterAct::Reshard => Contention::NONE,
        }
    }
}

/// How much later a stage ends because of collectives on one stream of it, given for each the time it takes
/// and its room, in nanoseconds: how much of the stage's work lies between the moment from which the stream is
/// free for them and the moment at which this one must be over.
///
/// Of gathers, in the order of the stream, the room is what the stage does before the chunk's first pass,
/// and what it waits for its first input. Of reductions, from the last one backwards, it is what the stage does
/// behind the chunk's last W:
///
/// `exposed = max(0, max over j of (time[0] + ... + time[j]) - room[j])`
///
/// since the collectives up to `j` run one after the other, and all that is not hidden in the room of `j`
/// puts off what waits for `j`, and with it all that follows. It is exact for a stage that never waits
/// between its first and its last pass, without contention and with all gathers released at the beginning of the
/// step ([`super::Sharding::Optimizer`]); a stage that waits for other stages hides more.
#[must_use]
pub fn exposed(collectives: impl IntoIterator<Item = (Nanos, Nanos)>) -> Nanos {
    let mut sum = Nanos(0);
    let late = collectives.into_iter().map(|(time, room)| {
        sum = Nanos(sum.0.saturating_add(time.0));
        Nanos(sum.0.saturating_sub(room.0))
    });
    late.max().unwrap_or_default()
}
