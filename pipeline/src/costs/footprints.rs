//! The activations that microbatches hold, per chunk and per shard of the vocabulary.

use super::checks::{check_count, check_shards, check_sum};
use crate::fault::Fault;
use crate::pass::{Kind, Pass};
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};
use crate::units::Bytes;

/// The activations that one microbatch holds in one chunk (Zero Bubble, section 2: M_B and M_W).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Footprint {
    /// Bytes held from the start of F to the end of B, M_B.
    pub until_backward: Bytes,
    /// Bytes still held from the end of B to the end of W, M_W.
    pub until_weight: Bytes,
}

/// The memory that a pass allocates and frees on its stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Taken when the pass starts.
    pub taken_at_start: Bytes,
    /// The memory allocated when the pass ends, which is held longer.
    pub taken_at_end: Bytes,
    /// Freed when the pass ends.
    pub freed_at_end: Bytes,
}

/// The activations that one microbatch holds in each chunk, and in each shard of the vocabulary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Footprints {
    chunks: Vec<Footprint>,
    /// By chunk, the bytes that F keeps where R makes the rest again; empty if none recomputes.
    kept: Vec<Option<Bytes>>,
    /// By stage; empty if a shard holds nothing.
    shards: Vec<Bytes>,
    /// By chunk, what F and B hold only while they run; empty if that is nothing.
    buffers: Vec<Bytes>,
}

impl Footprints {
    /// Footprints by chunk in model order.
    #[must_use]
    pub const fn new(chunks: Vec<Footprint>) -> Self {
        Self { chunks, kept: Vec::new(), shards: Vec::new(), buffers: Vec::new() }
    }

    /// The same where F, B and BW of each chunk hold `buffers`, in model order, while they run, such as those
    /// of dispatch and combine; of a pair both passes do.
    #[must_use]
    pub fn with_buffers(self, buffers: Vec<Bytes>) -> Self {
        Self { buffers, ..self }
    }

    /// The same with other sizes of chunks, in model order.
    #[must_use]
    pub fn with_chunks(self, chunks: Vec<Footprint>) -> Self {
        Self { chunks, ..self }
    }

    /// Whether any pass holds more while it runs.
    #[must_use]
    pub const fn has_buffers(&self) -> bool {
        !self.buffers.is_empty()
    }

    /// Temporary bytes that F, B and BW of `chunk` hold only while they run.
    #[inline]
    #[must_use]
    pub fn buffers(&self, chunk: u16) -> Bytes {
        self.buffers.get(usize::from(chunk)).copied().unwrap_or_default()
    }

    /// The same where a shard of the vocabulary on each stage holds `shards` from the start of S to
    /// the end of T: logits, softmax, the copy of the last chunk's output.
    #[must_use]
    pub fn with_shards(self, shards: Vec<Bytes>) -> Self {
        Self { shards, ..self }
    }

    /// The same where F of the chunks that have a size here, in model order, keeps only so much of
    /// M_B, such as the input, until R makes the rest again.
    #[must_use]
    pub fn with_kept(self, kept: Vec<Option<Bytes>>) -> Self {
        Self { kept, ..self }
    }

    /// The bytes that F of `chunk` keeps, at most M_B, if R makes the rest again.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[inline]
    #[must_use]
    pub fn kept(&self, chunk: u16) -> Option<Bytes> {
        let kept = self.kept.get(usize::from(chunk)).copied().flatten()?;
        Some(kept.min(self.of(chunk).until_backward))
    }

    /// Whether F of any chunk keeps only a part.
    #[must_use]
    pub fn has_kept(&self) -> bool {
        self.kept.iter().any(Option::is_some)
    }

    /// The bytes that `chunk` holds when its F has ended: M_B, or what is kept of it.
    #[inline]
    fn after_forward(&self, chunk: u16) -> Bytes {
        self.kept(chunk).unwrap_or_else(|| self.of(chunk).until_backward)
    }

    /// The activations that a shard holds on each stage; empty if they are not given.
    #[must_use]
    #[inline]
    pub fn shards(&self) -> &[Bytes] {
        &self.shards
    }

    /// All chunks alike.
    #[must_use]
    pub fn uniform(shape: Shape, chunk: Footprint) -> Self {
        Self::new(vec![chunk; usize::from(shape.chunks())])
    }

    /// The footprint of `chunk`.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[inline]
    #[must_use]
    pub fn of(&self, chunk: u16) -> Footprint {
        self.chunks[usize::from(chunk)]
    }

    /// The memory that `pass` allocates and frees: F allocates M_B, or what is kept of it, and then R
    /// the rest; B turns M_B into M_W, W frees M_W, and BW frees M_B; S allocates the activations of its
    /// shard and T frees them. F, B and BW hold their buffers meanwhile.
    #[inline]
    #[must_use]
    pub fn change(&self, pass: Pass) -> Change {
        let none = Bytes(0);
        let cell = || self.of(pass.chunk);
        let shard = || self.shards.get(usize::from(pass.chunk)).copied().unwrap_or(none);
        let [taken_at_start, taken_at_end, freed_at_end] = match pass.kind {
            Kind::F => [self.after_forward(pass.chunk), none, none],
            Kind::R => [cell().until_backward - self.after_forward(pass.chunk), none, none],
            Kind::B => [none, cell().until_weight, cell().until_backward],
            Kind::W => [none, none, cell().until_weight],
            Kind::BW => [none, none, cell().until_backward],
            Kind::S => [shard(), none, none],
            Kind::T => [none, none, shard()],
        };
        let meanwhile = match pass.kind {
            Kind::F | Kind::B | Kind::BW if !self.buffers.is_empty() => self.buffers(pass.chunk),
            _ => none,
        };
        Change {
            taken_at_start: taken_at_start + meanwhile,
            taken_at_end,
            freed_at_end: freed_at_end + meanwhile,
        }
    }

    /// The activations that the first microbatch holds on each stage between F and B, over all its
    /// chunks there: the paper's unit for memory limits.
    ///
    /// # Panics
    /// If these are not the footprints of a pipeline of `shape`.
    #[must_use]
    pub fn by_stage(&self, shape: Shape, placement: Placement) -> Vec<Bytes> {
        let mut held = vec![Bytes(0); shape.stages()];
        for chunk in 0..shape.chunks() {
            held[placement.stage(shape, chunk, 0)] += self.of(chunk).until_backward;
        }
        held
    }

    /// The least that each stage must be able to hold: the peak of one microbatch alone. Its chunks
    /// run forward in model order and backward against it, so one in its B or W holds M_B of those
    /// before it, or what is kept of that.
    ///
    /// # Panics
    /// If these are not the footprints of a pipeline of `shape`.
    #[must_use]
    pub fn least_peaks(&self, shape: Shape, placement: Placement) -> Vec<Bytes> {
        self.peaks_of_one(shape, placement, |chunk| self.after_forward(chunk))
    }

    /// The same where everything may be on the host between F and B: of each stage, its largest chunk.
    ///
    /// # Panics
    /// As [`Footprints::least_peaks`].
    #[must_use]
    pub fn least_peaks_with_copies(&self, shape: Shape, placement: Placement) -> Vec<Bytes> {
        self.peaks_of_one(shape, placement, |_| Bytes(0))
    }

    /// The peaks of one microbatch alone, where a chunk holds `between` from its F to its B.
    fn peaks_of_one(
        &self,
        shape: Shape,
        placement: Placement,
        between: impl Fn(u16) -> Bytes,
    ) -> Vec<Bytes> {
        let mut peaks = vec![Bytes(0); shape.stages()];
        // The first and the last microbatch stand for both directions of a mirrored placement.
        for microbatch in [0, shape.microbatches() - 1] {
            let mut held = vec![Bytes(0); shape.stages()];
            for chunk in 0..shape.chunks() {
                let stage = placement.stage(shape, chunk, microbatch);
                let Footprint { until_backward, until_weight } = self.of(chunk);
                let own = (until_backward + self.buffers(chunk)).max(until_weight);
                peaks[stage] = peaks[stage].max(held[stage] + own);
                held[stage] += between(chunk);
            }
        }
        peaks
    }

    /// Checks that these are the footprints of `schedule`: what they say F discards, it must
    /// recompute.
    ///
    /// # Errors
    /// As [`Footprints::check`], or [`Fault::NotRecomputed`].
    pub fn check_for(&self, schedule: &Schedule) -> Result<(), Fault> {
        self.check(schedule.shape())?;
        let lost = (0u16..)
            .zip(&self.kept)
            .find(|&(chunk, kept)| kept.is_some() && !schedule.recomputes(chunk));
        lost.map_or(Ok(()), |(chunk, _)| Err(Fault::NotRecomputed { chunk }))
    }

    /// Checks that these are the footprints of a pipeline of `shape`, and that all microbatches
    /// together can be counted.
    ///
    /// # Errors
    /// [`Fault::ChunkCount`] or [`Fault::Overflow`].
    pub fn check(&self, shape: Shape) -> Result<(), Fault> {
        check_count("footprints", self.chunks.len(), shape)?;
        if !self.kept.is_empty() {
            check_count("kept activations", self.kept.len(), shape)?;
        }
        let sum =
            |one: &Footprint| u128::from(one.until_backward.0) + u128::from(one.until_weight.0);
        if shape.has_shards() && !self.shards.is_empty() {
            check_shards("footprints", self.shards.len(), shape)?;
        }
        if !self.buffers.is_empty() {
            check_count("buffers", self.buffers.len(), shape)?;
        }
        let aside = self.shards.iter().chain(&self.buffers);
        let shards = aside.map(|one| u128::from(one.0)).sum::<u128>();
        let most = self.chunks.iter().map(sum).sum::<u128>() + shards;
        check_sum("the activations", most * u128::from(shape.microbatches()))
    }
}
