//! How long passes take and how much memory they hold, per chunk.
//!
//! A chunk lives on one stage, so a table by chunk says both "per stage" and "per chunk".

use crate::fault::Fault;
use crate::pass::{Kind, Pass, Slot};
use crate::shape::{Placement, Shape};
use crate::units::{Bytes, Nanos};

/// The times of one chunk for one microbatch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PassTimes {
    /// Forward, F.
    pub forward: Nanos,
    /// Backward for the input, B.
    pub backward_input: Nanos,
    /// Backward for the weights, W.
    pub backward_weight: Nanos,
}

/// How long each pass takes, and a hop between two stages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Costs {
    chunks: Vec<PassTimes>,
    hop: Nanos,
}

impl Costs {
    /// Times by chunk in model order; `hop` is the latency of one transfer between stages.
    #[must_use]
    pub const fn new(chunks: Vec<PassTimes>, hop: Nanos) -> Self {
        Self { chunks, hop }
    }

    /// All chunks alike.
    #[must_use]
    pub fn uniform(shape: Shape, chunk: PassTimes, hop: Nanos) -> Self {
        Self::new(vec![chunk; usize::from(shape.chunks())], hop)
    }

    /// The latency of one transfer between stages.
    #[must_use]
    pub const fn hop(&self) -> Nanos {
        self.hop
    }

    /// The times of each chunk, in model order.
    #[must_use]
    pub fn chunks(&self) -> &[PassTimes] {
        &self.chunks
    }

    /// How long `pass` takes.
    ///
    /// # Panics
    /// If the costs have no such chunk.
    #[inline]
    #[must_use]
    pub fn of(&self, pass: Pass) -> Nanos {
        let times = &self.chunks[usize::from(pass.chunk)];
        match pass.kind {
            Kind::F => times.forward,
            Kind::B => times.backward_input,
            Kind::W => times.backward_weight,
            Kind::BW => times.backward_input + times.backward_weight,
        }
    }

    /// How long `slot` takes: the two passes of a pair share the device, so their times add up.
    #[must_use]
    pub fn of_slot(&self, slot: Slot) -> Nanos {
        slot.passes().map(|pass| self.of(pass)).sum()
    }

    /// Checks that these are the costs of a pipeline of `shape`, and that no step under them can
    /// be longer than a clock can show.
    ///
    /// # Errors
    /// [`Fault::ChunkCount`] or [`Fault::Overflow`].
    pub fn check(&self, shape: Shape) -> Result<(), Fault> {
        check_count("costs", self.chunks.len(), shape)?;
        let sum = |times: &PassTimes| {
            let parts = [times.forward, times.backward_input, times.backward_weight];
            parts.into_iter().map(|part| u128::from(part.0)).sum::<u128>()
                + 2 * u128::from(self.hop.0)
        };
        let longest = self.chunks.iter().map(sum).sum::<u128>() * u128::from(shape.microbatches());
        check_sum("the times", longest)
    }
}

/// What one microbatch holds in one chunk (Zero Bubble, section 2: M_B and M_W).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Footprint {
    /// Bytes held from the start of F to the end of B, M_B.
    pub until_backward: Bytes,
    /// Bytes still held from the end of B to the end of W, M_W.
    pub until_weight: Bytes,
}

/// What a pass does to the memory of its stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Taken when the pass starts.
    pub taken_at_start: Bytes,
    /// Taken when the pass ends, for what is kept longer.
    pub taken_at_end: Bytes,
    /// Freed when the pass ends.
    pub freed_at_end: Bytes,
}

/// What one microbatch holds in each chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Footprints {
    chunks: Vec<Footprint>,
}

impl Footprints {
    /// Footprints by chunk in model order.
    #[must_use]
    pub const fn new(chunks: Vec<Footprint>) -> Self {
        Self { chunks }
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

    /// What `pass` takes and frees: F takes M_B, B turns M_B into M_W, W frees M_W, and BW frees
    /// M_B.
    #[inline]
    #[must_use]
    pub fn change(&self, pass: Pass) -> Change {
        let Footprint { until_backward, until_weight } = self.of(pass.chunk);
        let none = Bytes(0);
        let [taken_at_start, taken_at_end, freed_at_end] = match pass.kind {
            Kind::F => [until_backward, none, none],
            Kind::B => [none, until_weight, until_backward],
            Kind::W => [none, none, until_weight],
            Kind::BW => [none, none, until_backward],
        };
        Change { taken_at_start, taken_at_end, freed_at_end }
    }

    /// What the first microbatch holds on each stage between F and B, over all its chunks there:
    /// the paper's unit for memory limits.
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
    /// before it.
    ///
    /// # Panics
    /// If these are not the footprints of a pipeline of `shape`.
    #[must_use]
    pub fn least_peaks(&self, shape: Shape, placement: Placement) -> Vec<Bytes> {
        let mut peaks = vec![Bytes(0); shape.stages()];
        // The first and the last microbatch stand for both directions of a mirrored placement.
        for microbatch in [0, shape.microbatches() - 1] {
            let mut held = vec![Bytes(0); shape.stages()];
            for chunk in 0..shape.chunks() {
                let stage = placement.stage(shape, chunk, microbatch);
                let Footprint { until_backward, until_weight } = self.of(chunk);
                peaks[stage] = peaks[stage].max(held[stage] + until_backward.max(until_weight));
                held[stage] += until_backward;
            }
        }
        peaks
    }

    /// Checks that these are the footprints of a pipeline of `shape`, and that all microbatches
    /// together can be counted.
    ///
    /// # Errors
    /// [`Fault::ChunkCount`] or [`Fault::Overflow`].
    pub fn check(&self, shape: Shape) -> Result<(), Fault> {
        check_count("footprints", self.chunks.len(), shape)?;
        let sum =
            |one: &Footprint| u128::from(one.until_backward.0) + u128::from(one.until_weight.0);
        let most = self.chunks.iter().map(sum).sum::<u128>() * u128::from(shape.microbatches());
        check_sum("the activations", most)
    }
}

fn check_count(what: &'static str, given: usize, shape: Shape) -> Result<(), Fault> {
    let chunks = shape.chunks();
    if given == usize::from(chunks) {
        return Ok(());
    }
    Err(Fault::ChunkCount { what, given, chunks })
}

/// Checks that `sum`, the whole of `what`, is a number that several of can be added up in 64 bits.
///
/// # Errors
/// [`Fault::Overflow`] otherwise.
pub fn check_sum(what: &'static str, sum: u128) -> Result<(), Fault> {
    if sum <= u128::from(u64::MAX / 4) { Ok(()) } else { Err(Fault::Overflow { what }) }
}
