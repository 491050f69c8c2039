//! How long passes take and how much memory they hold, per chunk.
//!
//! A chunk lives on one stage, so a table by chunk says both "per stage" and "per chunk".

mod checks;
mod footprints;
mod hops;
mod microbatch_work;
mod pass_times;

use std::sync::Arc;

pub use self::checks::check_sum;
use self::checks::{check_count, check_shards};
pub use self::footprints::{Change, Footprint, Footprints};
pub use self::hops::Hops;
pub use self::microbatch_work::{MicrobatchWork, Work};
pub use self::pass_times::PassTimes;
use crate::copy_op::{CopyDirection, CopyTimes};
use crate::fault::Fault;
use crate::overlap::Overlap;
use crate::pass::{Kind, Pass, Slot, Value};
use crate::shape::{Placement, Shape};
use crate::sharding::ParameterTimes;
use crate::units::Nanos;

/// The times of one shard of the vocabulary for one microbatch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShardTimes {
    /// S: up to the barrier.
    pub before: Nanos,
    /// T: behind it.
    pub after: Nanos,
}

/// How long the collectives between the passes of the vocabulary take. Each begins when the last
/// pass that takes part has ended, and occupies no stage.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Collectives {
    /// C0: the last chunk's output to all stages.
    pub broadcast: Nanos,
    /// C1: the all-reduce behind S.
    pub statistics: Nanos,
    /// C2: the reduction behind T, where there are two barriers.
    pub hidden_gradient: Nanos,
}

impl Collectives {
    /// How long the one about `value` takes; of an output the broadcast.
    #[inline]
    #[must_use]
    pub const fn of(&self, value: Value) -> Nanos {
        match value {
            Value::Output { .. } | Value::Gradient { .. } => self.broadcast,
            Value::Statistics { .. } => self.statistics,
            Value::HiddenGradient { .. } => self.hidden_gradient,
        }
    }
}

/// Duration of each pass, a hop between two stages, a copy to the host, and a collective among
/// all stages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Costs {
    chunks: Vec<PassTimes>,
    hops: Hops,
    /// By chunk; empty if copies take no time.
    copies: Vec<CopyTimes>,
    /// The times of R by chunk; empty if none recomputes.
    recompute: Vec<Option<Nanos>>,
    /// By stage; empty if the vocabulary is not in shards.
    shards: Vec<ShardTimes>,
    collectives: Collectives,
    /// The segments of passes, if they are known: their sums are the times of `chunks`.
    overlap: Option<Arc<Overlap>>,
    /// Times of the collectives of parameters and gradients, if known.
    parameters: Option<Arc<ParameterTimes>>,
    /// The work of each microbatch, where they differ.
    work: Option<Arc<MicrobatchWork>>,
}

impl Costs {
    /// Times by chunk in model order; `hop` is the latency of one transfer between any two
    /// stages.
    #[must_use]
    pub const fn new(chunks: Vec<PassTimes>, hop: Nanos) -> Self {
        let zero = Nanos(0);
        let collectives = Collectives { broadcast: zero, statistics: zero, hidden_gradient: zero };
        Self {
            chunks,
            hops: Hops::alike(hop),
            copies: Vec::new(),
            recompute: Vec::new(),
            shards: Vec::new(),
            collectives,
            overlap: None,
            parameters: None,
            work: None,
        }
    }

    /// Passes that are chains of segments, which share the two streams of their device as `overlap` says;
    /// `hop` as in [`Self::new`].
    #[must_use]
    pub fn overlapped(overlap: Overlap, hop: Nanos) -> Self {
        let overlap = Some(Arc::new(overlap));
        let chunks = overlap.iter().flat_map(|overlap| overlap.times()).collect();
        Self { overlap, ..Self::new(chunks, hop) }
    }

    /// Whether a whole backward of any chunk takes another time than B and W one after the other.
    #[must_use]
    pub fn has_whole(&self) -> bool {
        self.chunks.iter().any(PassTimes::has_whole)
    }

    /// How passes share the streams of their device, if their segments are known.
    #[must_use]
    #[inline]
    pub fn overlap(&self) -> Option<&Overlap> {
        self.overlap.as_deref()
    }

    /// The same where the communication within passes takes no time.
    #[must_use]
    pub fn without_segment_communication(self) -> Self {
        match self.overlap.as_deref().map(Overlap::without_communication) {
            None => self,
            Some(overlap) => {
                let chunks = overlap.times();
                Self { chunks, overlap: Some(Arc::new(overlap)), ..self }
            }
        }
    }

    /// The same where nothing is known of segments: every slot takes the sum of its passes.
    #[must_use]
    pub fn apart(self) -> Self {
        Self { overlap: None, ..self }
    }

    /// The same where collectives of parameters and gradients take `times`; they take none where nothing is
    /// said.
    #[must_use]
    pub fn with_parameters(self, times: ParameterTimes) -> Self {
        Self { parameters: Some(Arc::new(times)), ..self }
    }

    /// The same where collectives of parameters and gradients take no time.
    #[must_use]
    pub fn without_parameters(self) -> Self {
        Self { parameters: None, ..self }
    }

    /// How long collectives of parameters and gradients take, if they take any time.
    #[must_use]
    #[inline]
    pub fn parameters(&self) -> Option<&ParameterTimes> {
        self.parameters.as_deref()
    }

    /// The same with other times of the chunks, in model order; segments are stretched or shortened
    /// alike.
    #[must_use]
    pub fn with_chunks(self, chunks: Vec<PassTimes>) -> Self {
        let fits = |overlap: &&Overlap| overlap.chunks() == chunks.len();
        let overlap = self.overlap.as_deref().filter(fits);
        let overlap = overlap.map(|overlap| Arc::new(overlap.at_pace(&chunks)));
        Self { chunks, overlap, ..self }
    }

    /// The same with microbatches of unequal `work`: passes of a microbatch take the times of their chunk by its
    /// factors. Segments, shards of the vocabulary, hops and copies take as long for all.
    #[must_use]
    pub fn with_microbatch_work(self, work: MicrobatchWork) -> Self {
        Self { work: Some(Arc::new(work)), ..self }
    }

    /// The work of each microbatch, where they differ.
    #[must_use]
    #[inline]
    pub fn microbatch_work(&self) -> Option<&MicrobatchWork> {
        self.work.as_deref()
    }

    /// The same where all microbatches have the mean work of all.
    #[must_use]
    pub fn of_mean_microbatch(self) -> Self {
        let Some(work) = self.work.clone() else { return self };
        let chunks = self.chunks.iter().map(|&times| work.mean(times)).collect();
        let plain =
            Self { work: None, ..self }.with_recompute_changed(|_, time| work.mean_forward(time));
        plain.with_chunks(chunks)
    }

    /// The same for the `count` microbatches with most work, all with the least work among them: no pass takes longer.
    #[must_use]
    pub fn of_heaviest_microbatches(self, count: usize) -> Self {
        let Some(work) = self.work.clone() else { return self };
        let least = MicrobatchWork::new(vec![work.least_of_heaviest(count)]);
        let chunks = self.chunks.iter().map(|&times| least.times(times, 0)).collect();
        let plain =
            Self { work: None, ..self }.with_recompute_changed(|_, time| least.forward(time, 0));
        plain.with_chunks(chunks)
    }

    /// The times of `chunk` for `microbatch`.
    ///
    /// # Panics
    /// If the costs have no such chunk, or the work of no such microbatch.
    #[must_use]
    #[inline]
    pub fn times(&self, chunk: u16, microbatch: u32) -> PassTimes {
        let times = self.chunks[usize::from(chunk)];
        match &self.work {
            None => times,
            Some(work) => work.times(times, microbatch),
        }
    }

    /// The work of each microbatch on all chunks, where they differ.
    #[must_use]
    pub fn work_by_microbatch(&self) -> Option<Vec<Nanos>> {
        let chunks = 0..u16::try_from(self.chunks.len()).unwrap_or(u16::MAX);
        let of = |microbatch| {
            let times = chunks.clone().map(|chunk| self.times(chunk, microbatch));
            times.map(|times| times.forward + times.least_backward()).sum()
        };
        let each = self.microbatch_work()?.each();
        Some((0u32..).zip(each).map(|(microbatch, _)| of(microbatch)).collect())
    }

    /// The same with another latency of a hop, over all links.
    #[must_use]
    pub fn with_hop(self, hop: Nanos) -> Self {
        self.with_hops(Hops::alike(hop))
    }

    /// The same with other latencies of hops.
    #[must_use]
    pub fn with_hops(self, hops: Hops) -> Self {
        Self { hops, ..self }
    }

    /// The same where activations take `copies`, by chunk in model order, to the host and back. Where
    /// nothing is said, copies take no time.
    #[must_use]
    pub fn with_copies(self, copies: Vec<CopyTimes>) -> Self {
        Self { copies, ..self }
    }

    /// How long an activation of each chunk takes to the host and back; empty where nothing was said.
    #[must_use]
    #[inline]
    pub fn copies(&self) -> &[CopyTimes] {
        &self.copies
    }

    /// How long an activation of `chunk`, all of it, takes one way.
    #[inline]
    #[must_use]
    pub fn copy(&self, chunk: u16, way: CopyDirection) -> Nanos {
        self.copies.get(usize::from(chunk)).map_or(Nanos(0), |times| times.of(way))
    }

    /// The same where the chunks that have a time here, in model order, recompute their activations
    /// in it.
    #[must_use]
    pub fn with_recompute(self, times: Vec<Option<Nanos>>) -> Self {
        Self { recompute: times, ..self }
    }

    /// The same with the times of R changed as `change` says, by chunk.
    #[must_use]
    pub fn with_recompute_changed(mut self, change: impl Fn(u16, Nanos) -> Nanos) -> Self {
        for (chunk, time) in (0u16..).zip(&mut self.recompute) {
            *time = time.map(|time| change(chunk, time));
        }
        self
    }

    /// The time in which `chunk` recomputes its activations; none if it keeps them.
    #[inline]
    #[must_use]
    pub fn recompute(&self, chunk: u16) -> Option<Nanos> {
        self.recompute.get(usize::from(chunk)).copied().flatten()
    }

    /// Whether any chunk recomputes its activations.
    #[must_use]
    pub fn has_recompute(&self) -> bool {
        self.recompute.iter().any(Option::is_some)
    }

    /// The same with the times of the vocabulary by shard, one on each stage.
    #[must_use]
    pub fn with_shards(self, shards: Vec<ShardTimes>, collectives: Collectives) -> Self {
        Self { shards, collectives, ..self }
    }

    /// All chunks alike.
    #[must_use]
    pub fn uniform(shape: Shape, chunk: PassTimes, hop: Nanos) -> Self {
        Self::new(vec![chunk; usize::from(shape.chunks())], hop)
    }

    /// The latency of one transfer over each link between stages.
    #[must_use]
    #[inline]
    pub const fn hops(&self) -> &Hops {
        &self.hops
    }

    /// How long what `chunk` hands to `chunk + 1`, or gets back from it, travels where all microbatches take
    /// the same way, or else the first; no time within a stage.
    #[must_use]
    #[inline]
    pub fn hop_after(&self, (shape, placement): (Shape, Placement), chunk: u16) -> Nanos {
        let stage = |chunk| placement.stage(shape, chunk, 0);
        self.hops.between(stage(chunk), stage(chunk + 1))
    }

    /// The times of each chunk, in model order.
    #[must_use]
    #[inline]
    pub fn chunks(&self) -> &[PassTimes] {
        &self.chunks
    }

    /// The first chunks whose backwards take no time: no weight of them is trained, so that no gradient is sent to
    /// them.
    #[must_use]
    #[inline]
    pub fn forward_only_chunks(&self) -> u16 {
        let has_none =
            |times: &&PassTimes| times.whole_backward().max(times.least_backward()) == Nanos(0);
        (0..)
            .zip(self.chunks.iter().take_while(has_none))
            .map(|(chunk, _)| chunk + 1)
            .last()
            .unwrap_or(0)
    }

    /// Whether `value` has no bytes: the gradient for a chunk of [`Self::forward_only_chunks`].
    #[must_use]
    #[inline]
    pub fn is_empty(&self, value: Value) -> bool {
        matches!(value, Value::Gradient { chunk, .. } if chunk <= self.forward_only_chunks())
    }

    /// The times of each shard of the vocabulary, by stage; none if nothing was said of them.
    #[must_use]
    #[inline]
    pub fn shards(&self) -> &[ShardTimes] {
        &self.shards
    }

    /// Duration of the collectives of the vocabulary.
    #[must_use]
    #[inline]
    pub const fn collectives(&self) -> Collectives {
        self.collectives
    }

    /// Duration of `pass` with all it does one after the other. An R of which no time is given takes as
    /// long as F.
    ///
    /// # Panics
    /// If the costs have no such chunk or shard.
    #[inline]
    #[must_use]
    pub fn of(&self, pass: Pass) -> Nanos {
        let at = usize::from(pass.chunk);
        if self.work.is_some() {
            return self.of_unequal(pass);
        }
        match pass.kind {
            Kind::F => self.chunks[at].forward,
            Kind::B => self.chunks[at].backward_input,
            Kind::W => self.chunks[at].backward_weight,
            Kind::BW => self.chunks[at].whole_backward(),
            Kind::S => self.shards[at].before,
            Kind::T => self.shards[at].after,
            Kind::R => self.recompute(pass.chunk).unwrap_or(self.chunks[at].forward),
        }
    }

    /// The same where microbatches differ.
    #[cold]
    fn of_unequal(&self, pass: Pass) -> Nanos {
        let at = usize::from(pass.chunk);
        let times = || self.times(pass.chunk, pass.microbatch);
        match pass.kind {
            Kind::F => times().forward,
            Kind::B => times().backward_input,
            Kind::W => times().backward_weight,
            Kind::BW => times().whole_backward(),
            Kind::S => self.shards[at].before,
            Kind::T => self.shards[at].after,
            Kind::R => {
                let again = self.recompute(pass.chunk).unwrap_or(self.chunks[at].forward);
                self.work.as_ref().map_or(again, |work| work.forward(again, pass.microbatch))
            }
        }
    }

    /// How long `value` takes from the end of the last pass that makes it to stage `to`, which waits for it:
    /// a hop from another stage, or the collective that hands it on.
    #[inline]
    #[must_use]
    pub fn arrival(&self, value: Value, at: (Shape, Placement), to: usize) -> Nanos {
        match at.1.maker(at.0, value) {
            _ if value.is_collective(at.0) => self.collectives.of(value),
            Some(from) => self.hops.between(from, to),
            None => self.hops.longest(),
        }
    }

    /// Duration of `slot`: the times of its passes add up, unless their segments share the streams of
    /// the device ([`Overlap`]).
    #[must_use]
    #[inline]
    pub fn of_slot(&self, slot: Slot) -> Nanos {
        let apart = slot.passes().map(|pass| self.of(pass)).sum();
        match &self.overlap {
            None => apart,
            Some(overlap) => overlap.duration(slot, apart),
        }
    }

    /// Duration of `slot` if its passes take `apart` one after the other rather than what they cost:
    /// the duration of a pair scales in proportion, to the next whole nanosecond.
    #[must_use]
    pub fn slot_at_pace(&self, slot: Slot, apart: Nanos) -> Nanos {
        let nominal: Nanos = slot.passes().map(|pass| self.of(pass)).sum();
        let shared = self.of_slot(slot);
        if shared == nominal || nominal == apart {
            return if nominal == apart { shared } else { apart };
        }
        let scaled =
            (u128::from(shared.0) * u128::from(apart.0)).div_ceil(u128::from(nominal.0.max(1)));
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Checks that these are the costs of a pipeline of `shape`, and that no step under them can
    /// be longer than a clock can show.
    ///
    /// # Errors
    /// [`Fault::ChunkCount`], [`Fault::HopCount`], [`Fault::MicrobatchCount`] or [`Fault::Overflow`].
    pub fn check(&self, shape: Shape) -> Result<(), Fault> {
        check_count("costs", self.chunks.len(), shape)?;
        if !self.copies.is_empty() {
            check_count("copy times", self.copies.len(), shape)?;
        }
        if !self.recompute.is_empty() {
            check_count("recompute times", self.recompute.len(), shape)?;
        }
        self.hops.check(shape)?;
        let hop = u128::from(self.hops.longest().0);
        let sum = |times: &PassTimes| {
            let backward = times.backward.unwrap_or_default();
            let parts = [times.forward, times.backward_input, times.backward_weight, backward];
            parts.into_iter().map(|part| u128::from(part.0)).sum::<u128>() + 2 * hop
        };
        let copy = |times: &CopyTimes| u128::from(times.out.0) + u128::from(times.back.0);
        let recompute = self.recompute.iter().flatten().map(|time| u128::from(time.0));
        let parts = self.chunks.iter().map(sum).chain(self.copies.iter().map(copy));
        let parts = parts.chain(recompute);
        if let Some(overlap) = self.overlap() {
            overlap.check(shape)?;
        }
        let mut longest = parts.sum::<u128>();
        if let Some(times) = self.parameters() {
            check_count("gather times", times.gather.len(), shape)?;
            check_count("reduce times", times.reduce.len(), shape)?;
            // No more often than there are passes of the chunk, and a nanosecond for rounding.
            let all = times.gather.iter().chain(&times.reduce);
            longest += all.map(|time| 4 * (u128::from(time.0) + 1)).sum::<u128>();
        }
        if shape.has_shards() {
            check_shards("costs", self.shards.len(), shape)?;
            let Collectives { broadcast, statistics, hidden_gradient } = self.collectives;
            let shards = self.shards.iter().flat_map(|times| [times.before, times.after]);
            let all = shards.chain([broadcast, statistics, hidden_gradient]);
            longest += all.map(|time| u128::from(time.0)).sum::<u128>();
        }
        if let Some(work) = self.microbatch_work() {
            work.check(shape.microbatches())?;
            longest = longest.saturating_mul(work.most());
        }
        check_sum("the times", longest.saturating_mul(u128::from(shape.microbatches())))
    }
}
