//! Simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983): the loop of every local search, and how its moves are
//! drawn. Whoever evaluates orders implements [`Walker`], and keeps what it can evaluate incrementally.
// Rounding of temperatures does not matter to a search.
#![allow(clippy::cast_precision_loss)]

use crate::chance::Chance;

/// An order that changes step by step.
pub(crate) trait Walker {
    /// The value by which orders are compared; smaller is better.
    type Value: Copy + PartialOrd;
    /// An order that was met, for the caller.
    type Order;
    /// A change of the order.
    type Change;
    /// After how many steps it is asked whether to stop.
    const ASKED: u64 = 1;

    /// The value of the order as it is.
    fn value(&self) -> Self::Value;

    /// Writes the order as it is.
    fn export(&self, into: &mut Self::Order);

    /// The effort spent so far, in the unit of [`Cooling`].
    fn spent(&self) -> u64;

    /// Draws a change and makes it; `None` if nothing can change there.
    fn propose(&mut self, chance: &mut Chance) -> Option<Self::Change>;

    /// Evaluates the change that was made last: whether it is no worse than `tolerance` allows, and so stays.
    fn takes(&mut self, change: &Self::Change, tolerance: Tolerance<'_>) -> bool;

    /// Takes back a change that does not stay.
    fn undo(&mut self, change: Self::Change);

    /// Whether there is no better order, or no other one.
    fn is_done(&self) -> bool {
        false
    }

    /// Whether the order as it is may be the answer.
    fn may_be_best(&self) -> bool {
        true
    }
}

/// By how much worse a change may be.
pub(crate) struct Tolerance<'a> {
    chance: &'a mut Chance,
    temperature: f64,
}

impl Tolerance<'_> {
    /// Draws it, in nanoseconds: see [`Chance::worse`].
    pub(crate) fn draw(self) -> f64 {
        self.chance.worse(self.temperature)
    }
}

/// How the temperature falls over the steps of an annealing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cooling {
    /// The first temperature, in nanoseconds.
    pub(crate) hot: f64,
    /// The last temperature relative to the first, to which it falls exponentially; where that is zero, in a
    /// straight line.
    pub(crate) ratio: f64,
    /// The steps.
    pub(crate) steps: u64,
}

impl Cooling {
    /// From one temperature to another, in mean passes of `pass` nanoseconds.
    pub(crate) fn between((hot, cold): (f64, f64), pass: f64, steps: u64) -> Self {
        let (hot, cold) = (hot * pass, cold * pass);
        Self { hot, ratio: cold / hot, steps }
    }

    /// The temperature after so many steps, in nanoseconds.
    pub(crate) fn temperature(&self, spent: u64) -> f64 {
        let part = spent as f64 / self.steps.max(1) as f64;
        match self.ratio == 0.0 {
            true => self.hot * (1.0 - part).max(0.0),
            false => self.hot * self.ratio.powf(part),
        }
    }
}

/// Tries changes until the steps are spent, `walker` is done, or `stop` returns true. Worse orders are taken with a
/// probability that falls as it cools down. The best order met goes to `best`, if it is better.
pub(crate) fn anneal<W: Walker>(
    walker: &mut W,
    (chance, cooling): (&mut Chance, Cooling),
    best: &mut (W::Value, W::Order),
    stop: &(dyn Fn() -> bool + '_),
) {
    let (mut ask, mut is_new) = (0, true);
    loop {
        if is_new && walker.value() < best.0 && walker.may_be_best() {
            best.0 = walker.value();
            walker.export(&mut best.1);
        }
        let spent = walker.spent();
        if spent >= cooling.steps || walker.is_done() {
            return;
        }
        if spent >= ask {
            if stop() {
                return;
            }
            ask = spent + W::ASKED;
        }
        is_new = false;
        if let Some(change) = walker.propose(chance) {
            let temperature = cooling.temperature(walker.spent());
            is_new = walker.takes(&change, Tolerance { chance, temperature });
            if !is_new {
                walker.undo(change);
            }
        }
    }
}

/// Draws by how many slots a pass is moved at most: mostly past one other.
pub(crate) fn draw_distance(chance: &mut Chance) -> usize {
    const FAR: [usize; 8] = [1, 1, 1, 2, 3, 5, 9, 17];
    let most = FAR[chance.below(FAR.len())];
    1 + chance.below(most)
}

/// Draws one of `slots`, three of four times one of those that decide over the cost if there are any; and whether it is
/// one of those.
pub(crate) fn draw_slot(chance: &mut Chance, slots: usize, deciding: &[u32]) -> (usize, bool) {
    let any = chance.below(4) == 0 || deciding.is_empty();
    match any {
        true => (chance.below(slots), false),
        false => (deciding[chance.below(deciding.len())] as usize, true),
    }
}
