//! Passes, the values that they exchange, and the slots that they run in.
//!
//! "May this run yet?" is answered here and nowhere else:
//!
//! | pass | needs | makes |
//! |---|---|---|
//! | F(c, m) | Output(c-1, m) | Output(c, m) |
//! | B(c, m), BW(c, m) | Output(c, m), Gradient(c+1, m) | Gradient(c, m) |
//! | W(c, m) | Gradient(c, m) | nothing |
//! | R(c, m) | Output(c, m) | nothing for others: its stage has the activations again, which B needs |
//!
//! Chunks are numbered in model order over the whole model. A need with no such chunk falls away.
//!
//! A chunk recomputes for all microbatches or for none ([`Schedule`](crate::Schedule)). R stands behind
//! F, which has discarded what it made but its input, and before B; it waits for no gradient.
//!
//! Where the output layer is cut over all stages ([`Vocabulary`]), every stage s holds shard s of it
//! and the last chunk has a need more:
//!
//! | pass | needs | makes, with its like on all other stages |
//! |---|---|---|
//! | S(s, m) | Output(last, m) | Statistics(m) |
//! | T(s, m) | Statistics(m) | HiddenGradient(m) |
//! | B(last, m), BW(last, m) | HiddenGradient(m), with one barrier Statistics(m) | Gradient(last, m) |

use std::fmt;

use crate::shape::{Placement, Shape, Vocabulary};

/// The kind of work of a pass (Zero Bubble, section 2: the backward split into B and W; Vocabulary
/// Parallelism, section 4: the output layer split into S and T; GPipe, section 2.3: recomputation).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Forward.
    F,
    /// Backward for the input: the gradient the previous chunk waits for.
    B,
    /// Backward for the weights: no pass waits for it.
    W,
    /// Both parts of the backward in one pass.
    BW,
    /// Output layer on a shard of the vocabulary, up to the barrier: logits, and the maximum and sum
    /// of their softmax within the shard.
    S,
    /// Output layer on a shard behind the barrier: the rest of its gradients.
    T,
    /// Recompute: forward once more, from the input that F has kept, so that B finds the activations.
    R,
}

impl Kind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 7] = [Self::F, Self::B, Self::W, Self::BW, Self::S, Self::T, Self::R];

    /// Whether it is work on a shard of the vocabulary.
    #[inline]
    #[must_use]
    pub const fn is_of_vocabulary(self) -> bool {
        matches!(self, Self::S | Self::T)
    }

    /// The name in the text form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F => "F",
            Self::B => "B",
            Self::W => "W",
            Self::BW => "BW",
            Self::S => "S",
            Self::T => "T",
            Self::R => "R",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One piece of work: a kind of pass on one microbatch in one chunk of the model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pass {
    /// Forward, backward for the input, for the weights, or both; recompute; or work on the
    /// vocabulary.
    pub kind: Kind,
    /// Slice of the model, from 0, in model order; of S and T the shard of the vocabulary, which is
    /// the stage that holds it.
    pub chunk: u16,
    /// Slice of the batch, from 0.
    pub microbatch: u32,
}

/// A value that passes exchange and links carry. Each is made by exactly one pass, or by one on
/// every stage ([`Value::chunk`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Value {
    /// The output of a chunk's forward, for the next chunk.
    Output {
        /// The chunk that made it.
        chunk: u16,
        /// The microbatch.
        microbatch: u32,
    },
    /// The gradient from a chunk's backward, for the previous chunk.
    Gradient {
        /// The chunk that made it.
        chunk: u16,
        /// The microbatch.
        microbatch: u32,
    },
    /// The statistics that the S of all shards make together, by an all-reduce: maximum and sum of
    /// the softmax, and with one barrier the gradient of the last chunk's output too.
    Statistics {
        /// The microbatch.
        microbatch: u32,
    },
    /// The gradient of the last chunk's output, which the T of all shards make together by a
    /// reduction. With one barrier it came with the statistics, and no pass needs it.
    HiddenGradient {
        /// The microbatch.
        microbatch: u32,
    },
}

/// The values a pass waits for: none, one or two.
pub type Needs = std::iter::Flatten<std::array::IntoIter<Option<Value>, 2>>;

impl Pass {
    /// The forward of `chunk` for `microbatch`.
    #[must_use]
    #[inline]
    pub const fn f(chunk: u16, microbatch: u32) -> Self {
        Self { kind: Kind::F, chunk, microbatch }
    }

    /// The input gradient of `chunk` for `microbatch`.
    #[must_use]
    #[inline]
    pub const fn b(chunk: u16, microbatch: u32) -> Self {
        Self { kind: Kind::B, chunk, microbatch }
    }

    /// The weight gradient of `chunk` for `microbatch`.
    #[must_use]
    #[inline]
    pub const fn w(chunk: u16, microbatch: u32) -> Self {
        Self { kind: Kind::W, chunk, microbatch }
    }

    /// The whole backward of `chunk` for `microbatch` in one pass.
    #[must_use]
    #[inline]
    pub const fn bw(chunk: u16, microbatch: u32) -> Self {
        Self { kind: Kind::BW, chunk, microbatch }
    }

    /// The recomputation of `chunk` for `microbatch`.
    #[must_use]
    #[inline]
    pub const fn r(chunk: u16, microbatch: u32) -> Self {
        Self { kind: Kind::R, chunk, microbatch }
    }

    /// The values that must be at hand before this pass starts, in a pipeline of `shape`.
    #[inline]
    pub fn needs(self, shape: Shape) -> Needs {
        self.both_needs(shape).into_iter().flatten()
    }

    /// The same, at most two.
    #[inline]
    pub(crate) fn both_needs(self, shape: Shape) -> [Option<Value>; 2] {
        let Self { kind, chunk, microbatch } = self;
        let output = |chunk| Some(Value::Output { chunk, microbatch });
        let gradient = |chunk| Some(Value::Gradient { chunk, microbatch });
        let statistics = Some(Value::Statistics { microbatch });
        match kind {
            Kind::F if chunk == 0 => [None, None],
            Kind::F => [output(chunk - 1), None],
            Kind::B | Kind::BW if chunk + 1 == shape.chunks() => {
                let behind = match shape.vocabulary() {
                    Vocabulary::Whole => None,
                    Vocabulary::TwoBarriers => Some(Value::HiddenGradient { microbatch }),
                    Vocabulary::OneBarrier => statistics,
                };
                [output(chunk), behind]
            }
            Kind::B | Kind::BW => [output(chunk), gradient(chunk + 1)],
            Kind::W => [gradient(chunk), None],
            Kind::R => [output(chunk), None],
            Kind::S => [output(shape.chunks() - 1), None],
            Kind::T => [statistics, None],
        }
    }

    /// The value that this pass needs and that is not of its own chunk, if there is one.
    #[inline]
    #[must_use]
    pub fn input(self, shape: Shape) -> Option<Value> {
        self.needs(shape).find(|value| value.chunk() != Some(self.chunk))
    }

    /// The value this pass makes, alone or with its like on all other stages, if any.
    #[inline]
    #[must_use]
    pub const fn makes(self) -> Option<Value> {
        let Self { kind, chunk, microbatch } = self;
        match kind {
            Kind::F => Some(Value::Output { chunk, microbatch }),
            Kind::B | Kind::BW => Some(Value::Gradient { chunk, microbatch }),
            Kind::W | Kind::R => None,
            Kind::S => Some(Value::Statistics { microbatch }),
            Kind::T => Some(Value::HiddenGradient { microbatch }),
        }
    }
}

impl Value {
    /// The chunk whose pass makes this value; none if a pass on every stage makes it.
    #[must_use]
    #[inline]
    pub const fn chunk(self) -> Option<u16> {
        match self {
            Self::Output { chunk, .. } | Self::Gradient { chunk, .. } => Some(chunk),
            Self::Statistics { .. } | Self::HiddenGradient { .. } => None,
        }
    }

    /// The row of this value in a table of [`Shape::rows`] rows with one column per microbatch:
    /// outputs by chunk, then gradients by chunk, then what all stages make.
    #[inline]
    #[must_use]
    pub const fn row(self, shape: Shape) -> usize {
        let chunks = shape.chunks() as usize;
        match self {
            Self::Output { chunk, .. } => chunk as usize,
            Self::Gradient { chunk, .. } => chunks + chunk as usize,
            Self::Statistics { .. } => 2 * chunks,
            Self::HiddenGradient { .. } => 2 * chunks + 1,
        }
    }

    /// Whether all stages take part in how this value is made or handed on: what all make together,
    /// and the last chunk's output where shards of the vocabulary wait for it.
    #[inline]
    #[must_use]
    pub const fn is_collective(self, shape: Shape) -> bool {
        match self {
            Self::Output { chunk, .. } => {
                !matches!(shape.vocabulary(), Vocabulary::Whole) && chunk + 1 == shape.chunks()
            }
            Self::Gradient { .. } => false,
            Self::Statistics { .. } => true,
            Self::HiddenGradient { .. } => {
                matches!(shape.vocabulary(), Vocabulary::TwoBarriers)
            }
        }
    }

    /// The chunk next to the maker's that needs this value, in a model of `chunks` chunks: the
    /// following one for an output, the preceding one for a gradient. What is handed on by a
    /// collective has none.
    #[inline]
    #[must_use]
    pub fn taken_by(self, chunks: u16) -> Option<u16> {
        match self {
            Self::Output { chunk, .. } => Some(chunk + 1).filter(|&next| next < chunks),
            Self::Gradient { chunk, .. } => chunk.checked_sub(1),
            Self::Statistics { .. } | Self::HiddenGradient { .. } => None,
        }
    }

    /// The microbatch this value belongs to.
    #[inline]
    #[must_use]
    pub const fn microbatch(self) -> u32 {
        match self {
            Self::Output { microbatch, .. }
            | Self::Gradient { microbatch, .. }
            | Self::Statistics { microbatch }
            | Self::HiddenGradient { microbatch } => microbatch,
        }
    }
}

/// The unit of work of a stage: one pass, or two at once. Both values of a pair leave when the pair
/// ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Slot {
    /// One pass.
    One(Pass),
    /// Two passes run together: they start when all needs of both are at hand.
    Pair(Pass, Pass),
}

impl Slot {
    /// The passes of the slot, one or two.
    #[inline]
    pub fn passes(self) -> impl Iterator<Item = Pass> {
        let (first, second) = match self {
            Self::One(pass) => (pass, None),
            Self::Pair(first, second) => (first, Some(second)),
        };
        std::iter::once(first).chain(second)
    }

    /// Whether it is a single pass, or a pair of a forward and a backward: what trainers run.
    #[must_use]
    pub const fn is_overlap(self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Pair(one, other) => matches!(
                (one.kind, other.kind),
                (Kind::F, Kind::B | Kind::BW) | (Kind::B | Kind::BW, Kind::F)
            ),
        }
    }

    /// The values that this slot of `stage` needs and that the stage does not make alone: they come
    /// from other stages, or from a collective.
    #[inline]
    pub fn received(
        self,
        (shape, placement): (Shape, Placement),
        stage: usize,
    ) -> impl Iterator<Item = Value> {
        let needs = self.passes().flat_map(move |pass| pass.needs(shape));
        needs.filter(move |&value| placement.maker(shape, value) != Some(stage))
    }
}

impl From<Pass> for Slot {
    fn from(pass: Pass) -> Self {
        Self::One(pass)
    }
}

impl fmt::Display for Pass {
    /// Kind, chunk and microbatch: `F0.3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}.{}", self.kind.name(), self.chunk, self.microbatch)
    }
}

impl fmt::Display for Slot {
    /// A pass, `F0.3`, or a pair of them, `F1.4&BW0.2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(pass) => pass.fmt(f),
            Self::Pair(first, second) => write!(f, "{first}&{second}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dependency_table() {
        let shape = Shape::new(3, 1, 8).unwrap();
        let needs = |pass: Pass| pass.needs(shape).collect::<Vec<_>>();
        let output = |chunk| Value::Output { chunk, microbatch: 7 };
        let gradient = |chunk| Value::Gradient { chunk, microbatch: 7 };
        assert_eq!(needs(Pass::f(0, 7)), []);
        assert_eq!(needs(Pass::f(2, 7)), [output(1)]);
        assert_eq!(needs(Pass::b(1, 7)), [output(1), gradient(2)]);
        assert_eq!(needs(Pass::bw(2, 7)), [output(2)]);
        assert_eq!(needs(Pass::w(1, 7)), [gradient(1)]);
        assert_eq!(needs(Pass::r(1, 7)), [output(1)]);
        assert_eq!(Pass::r(1, 7).makes(), None);
        assert_eq!(Pass::r(1, 7).input(shape), None, "its input is kept");
        assert_eq!(Pass::f(1, 7).makes(), Some(output(1)));
        assert_eq!(Pass::bw(1, 7).makes(), Some(gradient(1)));
        assert_eq!(Pass::w(1, 7).makes(), None);
    }

    #[test]
    fn the_dependency_table_of_a_vocabulary_in_shards() {
        let shape = |vocabulary| Shape::new(3, 1, 8).unwrap().with_vocabulary(vocabulary).unwrap();
        let [one, two] = [Vocabulary::OneBarrier, Vocabulary::TwoBarriers].map(shape);
        let [output, statistics, hidden] = [
            Value::Output { chunk: 2, microbatch: 7 },
            Value::Statistics { microbatch: 7 },
            Value::HiddenGradient { microbatch: 7 },
        ];
        let pass = |kind, chunk| Pass { kind, chunk, microbatch: 7 };
        for shape in [one, two] {
            assert_eq!(pass(Kind::S, 0).needs(shape).collect::<Vec<_>>(), [output]);
            assert_eq!(pass(Kind::S, 1).makes(), Some(statistics));
            assert_eq!(pass(Kind::T, 0).needs(shape).collect::<Vec<_>>(), [statistics]);
            assert!([output, statistics].iter().all(|value| value.is_collective(shape)));
            assert!(!Value::Output { chunk: 1, microbatch: 7 }.is_collective(shape));
        }
        assert_eq!(Pass::b(2, 7).needs(one).collect::<Vec<_>>(), [output, statistics]);
        assert_eq!(Pass::bw(2, 7).needs(two).collect::<Vec<_>>(), [output, hidden]);
        assert_eq!(pass(Kind::T, 1).makes(), Some(hidden));
        assert!(hidden.is_collective(two) && !hidden.is_collective(one));
        assert_eq!([statistics, hidden].map(|value| value.row(two)), [6, 7]);
    }

    #[test]
    fn what_one_chunk_makes_and_another_needs_is_taken_by_that_other() {
        let shape = Shape::new(3, 1, 1).unwrap();
        let passes = |kind| (0..3).map(move |chunk| Pass { kind, chunk, microbatch: 0 });
        let mut taken = Vec::new();
        for pass in [Kind::F, Kind::B, Kind::W, Kind::BW].into_iter().flat_map(passes) {
            if let Some(value) = pass.input(shape) {
                assert_eq!(value.taken_by(3), Some(pass.chunk), "{value:?}");
                taken.push(value);
            }
        }
        for value in passes(Kind::F).chain(passes(Kind::B)).filter_map(Pass::makes) {
            assert_eq!(value.taken_by(3).is_some(), taken.contains(&value), "{value:?}");
        }
    }

    #[test]
    fn a_pass_is_packed() {
        assert_eq!(size_of::<Pass>(), 8);
    }
}
