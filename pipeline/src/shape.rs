//! How big a pipeline is, and which stage holds which chunk.

use crate::fault::Fault;
use crate::pass::{Pass, Value};

/// The most passes a schedule may have. Bounds the memory a hostile input can ask for.
pub const MAX_PASSES: u64 = 100_000_000;

/// The most chunks a model may be cut into (stages times chunks per stage).
pub const MAX_CHUNKS: u64 = u16::MAX as u64;

/// How the output layer is spread (Vocabulary Parallelism, section 4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Vocabulary {
    /// It is a part of the last chunk: there are no passes S and T.
    #[default]
    Whole,
    /// A shard on every stage and two barriers, behind S and behind T (Algorithm 1).
    TwoBarriers,
    /// A shard on every stage and one barrier, behind S (Algorithm 2).
    OneBarrier,
}

impl Vocabulary {
    /// Number of barriers that lie between the forward and the backward of the last chunk.
    #[must_use]
    #[inline]
    pub const fn barriers(self) -> u32 {
        match self {
            Self::Whole => 0,
            Self::TwoBarriers => 2,
            Self::OneBarrier => 1,
        }
    }

    /// How many thirds of the output layer's work, which are its logits, the gradient of its input
    /// and that of its weights, S does and T does: with one barrier the gradient of the input is
    /// before it.
    #[must_use]
    #[inline]
    pub const fn thirds(self) -> [u32; 2] {
        match self {
            Self::OneBarrier => [2, 1],
            Self::Whole | Self::TwoBarriers => [1, 2],
        }
    }

    /// The rows of a `vocabulary` over `stages`: up to a multiple of twice as many, so that every
    /// shard has as many. Saturates.
    #[must_use]
    #[inline]
    pub fn padded(vocabulary: u64, stages: usize) -> u64 {
        let even = (stages as u64).saturating_mul(2);
        vocabulary.checked_next_multiple_of(even).unwrap_or(u64::MAX)
    }
}

/// Stages (p), chunks per stage (v) and microbatches (m): all at least one, and small enough; and how
/// the output layer is spread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    stages: u16,
    chunks_per_stage: u16,
    microbatches: u32,
    vocabulary: Vocabulary,
}

impl Shape {
    /// A pipeline of `stages` with `chunks_per_stage` chunks on each, run over `microbatches`.
    ///
    /// # Errors
    /// A zero, more than [`MAX_CHUNKS`] chunks, or more than [`MAX_PASSES`] passes (three per
    /// chunk and microbatch).
    pub fn new(stages: u64, chunks_per_stage: u64, microbatches: u64) -> Result<Self, Fault> {
        let parts = [
            ("stages", stages),
            ("chunks per stage", chunks_per_stage),
            ("microbatches", microbatches),
        ];
        if let Some((what, _)) = parts.into_iter().find(|(_, count)| *count == 0) {
            return Err(Fault::Zero { what });
        }
        let chunks = u128::from(stages) * u128::from(chunks_per_stage);
        if chunks > u128::from(MAX_CHUNKS) {
            return Err(Fault::TooManyChunks { chunks });
        }
        let passes = 3 * chunks * u128::from(microbatches);
        if passes > u128::from(MAX_PASSES) {
            return Err(Fault::TooManyPasses { passes });
        }
        let fits = |count: u64| u16::try_from(count).unwrap_or(u16::MAX);
        Ok(Self {
            stages: fits(stages),
            chunks_per_stage: fits(chunks_per_stage),
            microbatches: u32::try_from(microbatches).unwrap_or(u32::MAX),
            vocabulary: Vocabulary::Whole,
        })
    }

    /// The same with other `microbatches`.
    ///
    /// # Errors
    /// Those of [`Self::new`] and [`Self::with_vocabulary`].
    pub fn with_microbatches(self, microbatches: u32) -> Result<Self, Fault> {
        let (stages, chunks) = (self.stages.into(), self.chunks_per_stage.into());
        Self::new(stages, chunks, microbatches.into())?.with_vocabulary(self.vocabulary)
    }

    /// The same with the output layer spread as `vocabulary` says.
    ///
    /// # Errors
    /// More than [`MAX_PASSES`] passes: there are two more for each stage and microbatch.
    pub fn with_vocabulary(self, vocabulary: Vocabulary) -> Result<Self, Fault> {
        let shape = Self { vocabulary, ..self };
        let passes = 3 * shape.cells() as u128 + 2 * shape.shard_cells() as u128;
        if passes > u128::from(MAX_PASSES) {
            return Err(Fault::TooManyPasses { passes });
        }
        Ok(shape)
    }

    /// How the output layer is spread.
    #[inline]
    #[must_use]
    pub const fn vocabulary(self) -> Vocabulary {
        self.vocabulary
    }

    /// Whether every stage holds a shard of the output layer.
    #[inline]
    #[must_use]
    pub const fn has_shards(self) -> bool {
        !matches!(self.vocabulary, Vocabulary::Whole)
    }

    /// Shards of the vocabulary times microbatches.
    #[must_use]
    #[inline]
    pub const fn shard_cells(self) -> usize {
        if self.has_shards() { self.stages as usize * self.microbatches as usize } else { 0 }
    }

    /// Rows of a table of values, see [`Value::row`].
    #[must_use]
    #[inline]
    pub const fn rows(self) -> usize {
        2 * self.chunks() as usize + if self.has_shards() { 2 } else { 0 }
    }

    /// The cells of a table of values with one column per microbatch.
    #[must_use]
    #[inline]
    pub const fn value_cells(self) -> usize {
        self.rows() * self.microbatches as usize
    }

    /// The cell of `value` in such a table.
    #[inline]
    #[must_use]
    pub const fn value_cell(self, value: Value) -> usize {
        value.row(self) * self.microbatches as usize + value.microbatch() as usize
    }

    /// Number of stages, p.
    #[must_use]
    #[inline]
    pub const fn stages(self) -> usize {
        self.stages as usize
    }

    /// Number of chunks on each stage, v.
    #[must_use]
    #[inline]
    pub const fn chunks_per_stage(self) -> u16 {
        self.chunks_per_stage
    }

    /// Number of chunks of the whole model, p v.
    #[must_use]
    #[inline]
    pub const fn chunks(self) -> u16 {
        self.stages * self.chunks_per_stage
    }

    /// Number of microbatches, m.
    #[must_use]
    #[inline]
    pub const fn microbatches(self) -> u32 {
        self.microbatches
    }

    /// Chunks times microbatches: the cells of a table with one entry for each.
    #[must_use]
    #[inline]
    pub const fn cells(self) -> usize {
        self.chunks() as usize * self.microbatches as usize
    }

    /// The cell of `chunk` and `microbatch`, row by row in model order.
    #[inline]
    #[must_use]
    pub const fn cell(self, chunk: u16, microbatch: u32) -> usize {
        chunk as usize * self.microbatches as usize + microbatch as usize
    }
}

/// Which stage holds a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Placement {
    /// Chunk c on stage c mod p: one chunk per stage, or the loops of interleaved 1F1B.
    Looped,
    /// Down and up again: stages 0..p-1, then p-1..0, and so on (ZB-V; torch's style `v`).
    #[cfg_attr(feature = "serde", serde(rename = "v"))]
    Vee,
    /// One chunk per stage and direction: the first half of the microbatches goes down, the
    /// others go up (DualPipe, Chimera). Every stage holds two chunks of the model.
    Mirrored,
}

impl Placement {
    /// The stage that runs `chunk` for `microbatch`.
    #[inline]
    #[must_use]
    pub const fn stage(self, shape: Shape, chunk: u16, microbatch: u32) -> usize {
        let lap = (chunk / shape.stages) % 2;
        let step = chunk % shape.stages;
        let up = match self {
            Self::Looped => false,
            Self::Vee => lap == 1,
            Self::Mirrored => microbatch >= shape.microbatches.div_ceil(2),
        };
        (if up { shape.stages - 1 - step } else { step }) as usize
    }

    /// The stage that runs `pass`.
    #[inline]
    #[must_use]
    pub const fn stage_of(self, shape: Shape, pass: Pass) -> usize {
        match pass.kind.is_of_vocabulary() {
            true => pass.chunk as usize,
            false => self.stage(shape, pass.chunk, pass.microbatch),
        }
    }

    /// The stage that makes `value`; none if all do.
    #[inline]
    #[must_use]
    pub const fn maker(self, shape: Shape, value: Value) -> Option<usize> {
        match value.chunk() {
            Some(chunk) => Some(self.stage(shape, chunk, value.microbatch())),
            None => None,
        }
    }

    /// The other stage that holds the chunks of `stage`, if another does: of two copies of the model,
    /// one on the way down and one on the way up.
    #[must_use]
    #[inline]
    pub const fn twin(self, shape: Shape, stage: usize) -> Option<usize> {
        let stages = shape.stages();
        match self {
            Self::Mirrored if stage < stages && 2 * stage + 1 != stages => Some(stages - 1 - stage),
            _ => None,
        }
    }

    /// Whether what `chunk` hands to `chunk + 1` crosses from one stage to another.
    #[must_use]
    #[inline]
    pub const fn crosses(self, shape: Shape, chunk: u16) -> bool {
        self.stage(shape, chunk, 0) != self.stage(shape, chunk + 1, 0)
    }

    /// The chunks of the model that `stage` holds, ascending.
    pub fn chunks_of(self, shape: Shape, stage: usize) -> impl Iterator<Item = u16> {
        let last = shape.microbatches - 1;
        let stages = shape.stages();
        // In every lap over the stages only two chunks can lie here: by the way down and by the way
        // up.
        let up = stages.saturating_sub(stage + 1);
        let both = [stage.min(up), stage.max(up)].into_iter().take(if stage == up { 1 } else { 2 });
        let laps = (0..usize::from(shape.chunks_per_stage)).filter(move |_| stage < stages);
        let chunks = laps.flat_map(move |lap| both.clone().map(move |step| lap * stages + step));
        chunks.filter_map(|chunk| u16::try_from(chunk).ok()).filter(move |&chunk| {
            self.stage(shape, chunk, 0) == stage || self.stage(shape, chunk, last) == stage
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages_of(placement: Placement, shape: Shape, microbatch: u32) -> Vec<usize> {
        (0..shape.chunks()).map(|chunk| placement.stage(shape, chunk, microbatch)).collect()
    }

    #[test]
    fn placements() {
        let shape = Shape::new(3, 3, 4).unwrap();
        assert_eq!(stages_of(Placement::Looped, shape, 0), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(stages_of(Placement::Vee, shape, 0), [0, 1, 2, 2, 1, 0, 0, 1, 2]);
        let single = Shape::new(3, 1, 4).unwrap();
        assert_eq!(stages_of(Placement::Mirrored, single, 1), [0, 1, 2]);
        assert_eq!(stages_of(Placement::Mirrored, single, 2), [2, 1, 0]);
        assert!(!Placement::Vee.crosses(shape, 2) && Placement::Looped.crosses(shape, 2));
        assert_eq!(Placement::Mirrored.chunks_of(single, 0).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(Placement::Vee.chunks_of(shape, 1).collect::<Vec<_>>(), [1, 4, 7]);
    }

    #[test]
    fn the_chunks_of_a_stage_are_those_whose_stage_it_is() {
        for placement in [Placement::Looped, Placement::Vee, Placement::Mirrored] {
            for (stages, laps) in [(1, 1), (1, 3), (2, 2), (5, 1), (5, 4)] {
                let shape = Shape::new(stages, laps, 2).unwrap();
                for stage in 0..shape.stages() + 1 {
                    let lives = |&chunk: &u16| {
                        (0..2).any(|microbatch| placement.stage(shape, chunk, microbatch) == stage)
                    };
                    let expected: Vec<u16> = (0..shape.chunks()).filter(lives).collect();
                    let chunks: Vec<u16> = placement.chunks_of(shape, stage).collect();
                    assert_eq!(chunks, expected, "{placement:?} {shape:?} stage {stage}");
                    let holds = |other: &usize| {
                        *other != stage && placement.chunks_of(shape, *other).any(|c| lives(&c))
                    };
                    let twin = (0..shape.stages()).find(holds);
                    assert_eq!(placement.twin(shape, stage), twin, "{placement:?} {shape:?}");
                }
            }
        }
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert_eq!(Shape::new(0, 1, 1), Err(Fault::Zero { what: "stages" }));
        assert_eq!(Shape::new(1, 1, 0), Err(Fault::Zero { what: "microbatches" }));
        assert!(matches!(Shape::new(70_000, 1, 1), Err(Fault::TooManyChunks { .. })));
        assert!(matches!(Shape::new(8, 1, 1 << 40), Err(Fault::TooManyPasses { .. })));
        assert!(matches!(Shape::new(u64::MAX, u64::MAX, 1), Err(Fault::TooManyChunks { .. })));
    }
}
