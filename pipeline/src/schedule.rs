//! A schedule: the order of passes on every stage, complete, well placed and free of deadlock from
//! the moment it exists.

use std::collections::HashSet;

use crate::copy_op::CopyPolicy;
use crate::fault::Fault;
use crate::offload::{Copies, CopyStreams};
use crate::order::Order;
use crate::pass::{Kind, Pass, Slot};
use crate::shape::{Placement, Shape};
use crate::sharding::{ParameterOps, Sharding};
use crate::walk::{self, Walk, WalkStep};

/// An order for every stage: complete, well placed and free of deadlock.
///
/// It keeps the proof of that last property, an order over all stages in which every need is made
/// before it is used ([`Schedule::walk`]), so that timing it is one pass over packed arrays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    shape: Shape,
    placement: Placement,
    orders: Vec<Order>,
    walk: Walk,
    /// By chunk; empty if none recomputes.
    recomputed: Vec<bool>,
    copies: Option<Copies>,
    parameter_ops: Option<ParameterOps>,
}

impl Schedule {
    /// The only constructor: checks that `orders` has every pass once, on the stage that holds its chunk
    /// (F once, and B with W or BW once, per chunk and microbatch; R before every B or BW of a chunk
    /// or before none; S and T once per shard and microbatch where the vocabulary is in shards), and that no passes wait for each other.
    ///
    /// # Errors
    /// The first fault found, with the passes and stages it concerns.
    pub fn new(shape: Shape, placement: Placement, orders: Vec<Order>) -> Result<Self, Fault> {
        if shape.has_shards() && placement == Placement::Mirrored {
            return Err(Fault::MirroredShards);
        }
        let recomputed = check_complete(shape, placement, &orders)?;
        orders
            .iter()
            .enumerate()
            .try_for_each(|(stage, order)| check_pairs(shape, stage, order))?;
        let walk = walk::walk(shape, placement, &orders)?;
        Ok(Self { shape, placement, orders, walk, recomputed, copies: None, parameter_ops: None })
    }

    /// The same with a part of some activations copied to the host and back, by the streams of each
    /// stage.
    ///
    /// # Errors
    /// [`Fault::Copies`] if a copy is of no activation, or of one that is discarded, comes at the wrong
    /// time, or would make the stage wait for ever.
    pub fn with_copies(
        self,
        policy: impl Into<CopyPolicy>,
        streams: Vec<CopyStreams>,
    ) -> Result<Self, Fault> {
        let all = streams.iter().enumerate();
        let all = all.flat_map(|(stage, one)| one.iter().flatten().map(move |&copy| (stage, copy)));
        if let Some((stage, copy)) = all.clone().find(|(_, copy)| self.recomputes(copy.chunk)) {
            let what = "is of an activation that is discarded and recomputed";
            return Err(Fault::Copies { copy, stage, what });
        }
        let copies =
            Copies::new((self.shape, self.placement), &self.orders, policy.into(), streams)?;
        Ok(self.with_checked(copies))
    }

    /// The same with a part of every activation copied to the host and back, out on one stream of each
    /// stage and back on another, where enough slots lie between: a copy back may begin when its
    /// backward is `ahead` slots before the one the stage comes to. An activation whose backward
    /// comes no later than that after its forward stays on the device, and so does the input that a
    /// recomputation starts from.
    #[must_use]
    pub fn offloaded(self, policy: impl Into<CopyPolicy>, ahead: u32) -> Self {
        let stays = |chunk| self.recomputes(chunk);
        let at = (self.shape, self.placement);
        let copies = Copies::of_all(at, &self.orders, policy.into(), ahead, stays);
        self.with_checked(copies)
    }

    /// The same with copies that are known to be valid.
    fn with_checked(self, copies: Copies) -> Self {
        let copies = Some(copies).filter(|copies| copies.count() > 0);
        Self { copies, ..self }
    }

    /// The same with the collectives of parameters and gradients that `sharding` asks for.
    #[must_use]
    pub fn sharded(self, sharding: Sharding) -> Self {
        let ops = ParameterOps::of(self.orders(), sharding);
        Self { parameter_ops: Some(ops), ..self }
    }

    /// The same passes with microbatch `order[i]` in the place of microbatch i; without copies or collectives.
    ///
    /// # Errors
    /// If `order` does not have every microbatch once, or microbatches take ways that differ.
    pub fn with_microbatches(&self, order: &[u32]) -> Result<Self, Fault> {
        let dealt = |pass: Pass| {
            let at = pass.microbatch as usize;
            Pass { microbatch: order.get(at).copied().unwrap_or(u32::MAX), ..pass }
        };
        let of_stage = |stage: &Order| {
            let mut new = Order::with_capacity(stage.passes().len());
            for slot in stage.slots() {
                new.push(match slot {
                    Slot::One(pass) => Slot::One(dealt(pass)),
                    Slot::Pair(one, other) => Slot::Pair(dealt(one), dealt(other)),
                });
            }
            new
        };
        Self::new(self.shape, self.placement, self.orders.iter().map(of_stage).collect())
    }

    /// The collectives of parameters and gradients behind its passes, if there are any.
    #[must_use]
    #[inline]
    pub const fn parameter_ops(&self) -> Option<&ParameterOps> {
        self.parameter_ops.as_ref()
    }

    /// Whether more than passes decides when a slot starts: copies to the host, or collectives.
    #[must_use]
    #[inline]
    pub const fn has_streams(&self) -> bool {
        self.copies.is_some() || self.parameter_ops.is_some()
    }

    /// Whether every slot is one pass, of no shard of the vocabulary, and nothing runs beside passes.
    #[must_use]
    pub fn has_lone_passes(&self) -> bool {
        let unpaired = self.orders.iter().all(Order::is_unpaired);
        unpaired && !self.has_streams() && !self.shape.has_shards()
    }

    /// Whether `chunk` discards its activations after F and makes them again by R.
    #[must_use]
    #[inline]
    pub fn recomputes(&self, chunk: u16) -> bool {
        self.recomputed.get(usize::from(chunk)).copied().unwrap_or(false)
    }

    /// Whether any chunk recomputes its activations.
    #[must_use]
    pub const fn has_recompute(&self) -> bool {
        !self.recomputed.is_empty()
    }

    /// Whether some backward is split: it has a W apart from its B.
    #[must_use]
    pub fn splits_backward(&self) -> bool {
        let mut passes = self.orders.iter().flat_map(|order| order.passes());
        passes.any(|pass| pass.kind == Kind::W)
    }

    /// The first forward that runs before one of its chunk with a smaller microbatch, and that one. None where data
    /// can come microbatch by microbatch. Not for mirrored placements, which have each chunk twice.
    #[must_use]
    pub fn early_forward(&self) -> Option<[Pass; 2]> {
        let mut next = vec![0; usize::from(self.shape.chunks())];
        let passes = self.orders.iter().flat_map(|order| order.passes());
        passes.filter(|pass| pass.kind == Kind::F).find_map(|pass| {
            let expected = &mut next[usize::from(pass.chunk)];
            let earlier = Pass { microbatch: *expected, ..*pass };
            *expected += 1;
            (*pass != earlier).then_some([*pass, earlier])
        })
    }

    /// The activations copied to the host between forward and backward, if there are any.
    #[must_use]
    #[inline]
    pub const fn copies(&self) -> Option<&Copies> {
        self.copies.as_ref()
    }

    /// Stages, chunks and microbatches.
    #[must_use]
    #[inline]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Which stage holds which chunk.
    #[must_use]
    #[inline]
    pub const fn placement(&self) -> Placement {
        self.placement
    }

    /// The order of each stage.
    #[must_use]
    #[inline]
    pub fn orders(&self) -> &[Order] {
        &self.orders
    }

    /// Number of passes over all stages.
    #[must_use]
    #[inline]
    pub fn passes(&self) -> usize {
        self.orders.iter().map(|order| order.passes().len()).sum()
    }

    /// Runs of passes that, taken one after the other, never use a value before it is made.
    #[must_use]
    #[inline]
    pub fn walk(&self) -> &[WalkStep] {
        &self.walk.steps
    }

    /// Columns, a power of two, of a table with a row for the values of each chunk and direction, in which value i is in
    /// column i modulo their number: along [`Self::walk`], slot by slot, no value is overwritten before it is read.
    /// Nothing where all microbatches need a column.
    #[must_use]
    #[inline]
    pub const fn columns(&self) -> Option<u32> {
        self.walk.columns
    }
}

/// Which parts of the work on a cell a pass does, as bits: F, B, W, R; on a cell of a shard S, T.
const fn parts(kind: Kind) -> u8 {
    match kind {
        Kind::F | Kind::S => 1,
        Kind::B | Kind::T => 2,
        Kind::W => 4,
        Kind::BW => 6,
        Kind::R => RECOMPUTED,
    }
}
const ALL_PARTS: u8 = 7;
const ALL_PARTS_OF_SHARD: u8 = 3;
const RECOMPUTED: u8 = 8;

/// Checks that every pass is there once; tells by chunk whether it recomputes, nothing if none does.
fn check_complete(
    shape: Shape,
    placement: Placement,
    orders: &[Order],
) -> Result<Vec<bool>, Fault> {
    if orders.len() != shape.stages() {
        return Err(Fault::OrderCount { stages: shape.stages(), orders: orders.len() });
    }
    // By chunk and microbatch, then by shard and microbatch.
    let mut done = vec![0u8; shape.cells() + shape.shard_cells()];
    for (stage, order) in orders.iter().enumerate() {
        for &pass in order.passes() {
            check_known(shape, pass, stage)?;
            let home = placement.stage_of(shape, pass);
            if home != stage {
                return Err(Fault::WrongStage { pass, stage, home });
            }
            let shards = if pass.kind.is_of_vocabulary() { shape.cells() } else { 0 };
            let cell = &mut done[shards + shape.cell(pass.chunk, pass.microbatch)];
            if *cell & parts(pass.kind) != 0 {
                return Err(Fault::Duplicate { pass, stage });
            }
            *cell |= parts(pass.kind);
        }
    }
    let (chunks, shards) = done.split_at(shape.cells());
    let lacks = |cells: &[u8], all: u8| cells.iter().position(|&cell| cell & all != all);
    if let Some(cell) = lacks(chunks, ALL_PARTS) {
        let kinds = [Kind::F, Kind::BW, Kind::B, Kind::W];
        return Err(missing(shape, placement, chunks, cell, &kinds));
    }
    if let Some(cell) = lacks(shards, ALL_PARTS_OF_SHARD) {
        return Err(missing(shape, placement, shards, cell, &[Kind::S, Kind::T]));
    }
    if chunks.iter().all(|cell| cell & RECOMPUTED == 0) {
        return Ok(Vec::new());
    }
    check_recompute(orders)?;
    let rows = chunks.chunks_exact(shape.microbatches() as usize).enumerate();
    let recomputes = |(chunk, row): (usize, &[u8])| {
        let count = row.iter().filter(|&cell| cell & RECOMPUTED != 0).count();
        let lacking = row.iter().position(|cell| cell & RECOMPUTED == 0);
        match lacking.filter(|_| count > 0) {
            None => Ok(count > 0),
            Some(at) => {
                let cell = chunk * row.len() + at;
                Err(missing(shape, placement, &chunks[..(chunk + 1) * row.len()], cell, &[Kind::R]))
            }
        }
    };
    rows.map(recomputes).collect()
}

/// Checks that no pass of a pair needs what the other makes.
fn check_pairs(shape: Shape, stage: usize, order: &Order) -> Result<(), Fault> {
    for &at in order.pairs() {
        let (one, other) = (order.passes()[at], order.passes()[at + 1]);
        for (first, second) in [(one, other), (other, one)] {
            if second.needs(shape).any(|value| Some(value) == first.makes()) {
                return Err(Fault::PairDepends { first, second, stage });
            }
        }
    }
    Ok(())
}

/// Checks that `shape` has the chunk or shard of `pass`, and its microbatch.
#[inline]
fn check_known(shape: Shape, pass: Pass, stage: usize) -> Result<(), Fault> {
    let (chunks, microbatches) = (shape.chunks(), shape.microbatches());
    if pass.kind.is_of_vocabulary() {
        let stages = shape.stages();
        if !shape.has_shards() {
            return Err(Fault::NoShards { pass, stage });
        }
        if usize::from(pass.chunk) >= stages || pass.microbatch >= microbatches {
            return Err(Fault::UnknownShard { pass, stage, stages, microbatches });
        }
    } else if pass.chunk >= chunks || pass.microbatch >= microbatches {
        return Err(Fault::UnknownPass { pass, stage, chunks, microbatches });
    }
    Ok(())
}

/// Names the first of `kinds` that `done[cell]` lacks.
fn missing(shape: Shape, placement: Placement, done: &[u8], cell: usize, kinds: &[Kind]) -> Fault {
    let all = kinds.iter().fold(0, |all, &kind| all | parts(kind));
    let others = done[cell + 1..].iter().filter(|&&other| other & all != all).count();
    let columns = shape.microbatches() as usize;
    let chunk = u16::try_from(cell / columns).unwrap_or(u16::MAX);
    let microbatch = u32::try_from(cell % columns).unwrap_or(u32::MAX);
    let wanted = kinds.iter().copied().find(|&kind| done[cell] & parts(kind) == 0);
    let pass = Pass { kind: wanted.unwrap_or(Kind::F), chunk, microbatch };
    Fault::Missing { pass, stage: placement.stage_of(shape, pass), others }
}

/// Checks that every R comes before its backward, where each has one on the stage that has the R.
fn check_recompute(orders: &[Order]) -> Result<(), Fault> {
    let mut gone = HashSet::new();
    for (stage, order) in orders.iter().enumerate() {
        for slot in order.slots() {
            let of = |kinds: &'static [Kind]| {
                slot.passes().filter(move |pass| kinds.contains(&pass.kind))
            };
            gone.extend(of(&[Kind::B, Kind::BW]).map(|pass| (pass.chunk, pass.microbatch)));
            let late = of(&[Kind::R]).find(|pass| gone.contains(&(pass.chunk, pass.microbatch)));
            if let Some(pass) = late {
                return Err(Fault::LateRecompute { pass, stage });
            }
        }
    }
    Ok(())
}
