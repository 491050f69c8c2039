//! The work of a stage with two chunks in a V, and the dependencies between its parts.

use crate::pass::{Kind, Pass};
use crate::shape::Shape;

/// The work in a cell. `Down` is the chunk that a microbatch passes on its way down the stages,
/// `Up` the one on its way back; its backward begins with `Up`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Work {
    FDown,
    FUp,
    BUp,
    BDown,
    WUp,
    WDown,
}
use Work::{BDown, BUp, FDown, FUp, WDown, WUp};

impl Work {
    pub(super) const ALL: [Self; 6] = [FDown, FUp, BUp, BDown, WUp, WDown];
    /// The work that other stages wait for, in the order in which a microbatch passes through it.
    pub(super) const CHAIN: [Self; 4] = [FDown, FUp, BUp, BDown];

    pub(super) const fn is_forward(self) -> bool {
        matches!(self, FDown | FUp)
    }

    pub(super) const fn is_backward(self) -> bool {
        matches!(self, BUp | BDown)
    }

    pub(super) const fn is_weight(self) -> bool {
        matches!(self, WUp | WDown)
    }

    /// The change of the number of chunk activations held; each is held from F to the end of W.
    pub(super) const fn held(self) -> i32 {
        match self {
            FDown | FUp => 1,
            BUp | BDown => 0,
            WUp | WDown => -1,
        }
    }

    /// The W that belongs to a backward.
    pub(super) const fn weight(self) -> Self {
        if matches!(self, BUp) { WUp } else { WDown }
    }

    /// Whether it goes from the first stage to the last.
    pub(super) const fn descends(self) -> bool {
        matches!(self, FDown | BUp)
    }

    /// The stage and pass of the same microbatch that this one on `stage` waits for; `last` is the
    /// last stage.
    pub(super) const fn source(self, stage: usize, last: usize) -> Option<(usize, Self)> {
        match self {
            FDown if stage == 0 => None,
            BUp if stage == 0 => Some((stage, FUp)),
            FDown | BUp => Some((stage - 1, self)),
            FUp if stage == last => Some((stage, FDown)),
            BDown if stage == last => Some((stage, BUp)),
            FUp | BDown => Some((stage + 1, self)),
            WUp => Some((stage, BUp)),
            WDown => Some((stage, BDown)),
        }
    }

    const fn kind(self) -> Kind {
        match self {
            FDown | FUp => Kind::F,
            BUp | BDown => Kind::B,
            WUp | WDown => Kind::W,
        }
    }

    pub(super) fn pass(self, shape: Shape, stage: usize, microbatch: u32) -> Pass {
        let stage = u16::try_from(stage).unwrap_or(u16::MAX);
        let up = matches!(self, FUp | BUp | WUp);
        let chunk = if up { shape.chunks() - 1 - stage } else { stage };
        Pass { kind: self.kind(), chunk, microbatch }
    }
}
