//! A schedule: the order of passes on every stage, complete, well placed and free of deadlock from
//! the moment it exists.

use crate::copy_op::CopyPart;
use crate::fault::Fault;
use crate::offload::{Copies, CopyStreams};
use crate::order::Order;
use crate::pass::{Kind, Pass};
use crate::shape::{Placement, Shape};
use crate::walk::{self, WalkStep};

/// An order for every stage: complete, well placed and free of deadlock.
///
/// It keeps the proof of that last property, an order over all stages in which every need is made
/// before it is used ([`Schedule::walk`]), so that timing it is one pass over packed arrays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    shape: Shape,
    placement: Placement,
    orders: Vec<Order>,
    walk: Vec<WalkStep>,
    copies: Option<Copies>,
}

impl Schedule {
    /// The only constructor: checks that `orders` has every pass once, on the stage that holds its chunk
    /// (F once, and B with W or BW once, per chunk and microbatch; S and T once per shard and
    /// microbatch where the vocabulary is in shards), and that no passes wait for each other.
    ///
    /// # Errors
    /// The first fault found, with the passes and stages it concerns.
    pub fn new(shape: Shape, placement: Placement, orders: Vec<Order>) -> Result<Self, Fault> {
        if shape.has_shards() && placement == Placement::Mirrored {
            return Err(Fault::MirroredShards);
        }
        check_complete(shape, placement, &orders)?;
        let walk = walk::walk(shape, placement, &orders)?;
        Ok(Self { shape, placement, orders, walk, copies: None })
    }

    /// The same with `part` of some activations copied to the host and back, by the streams of each
    /// stage.
    ///
    /// # Errors
    /// [`Fault::Copies`] if a copy is of no activation, comes at the wrong time, or would make the
    /// stage wait for ever.
    pub fn with_copies(self, part: CopyPart, streams: Vec<CopyStreams>) -> Result<Self, Fault> {
        let copies = Copies::new((self.shape, self.placement), &self.orders, part, streams)?;
        Ok(self.with_checked(copies))
    }

    /// The same with `part` of every activation copied to the host and back, out on one stream of each
    /// stage and back on another, where enough slots lie between: a copy back may begin when its
    /// backward is `ahead` slots before the one the stage comes to. An activation whose backward
    /// comes no later than that after its forward stays on the device.
    #[must_use]
    pub fn offloaded(self, part: CopyPart, ahead: u32) -> Self {
        let copies = Copies::of_all((self.shape, self.placement), &self.orders, part, ahead);
        self.with_checked(copies)
    }

    /// The same with copies that are known to be valid.
    fn with_checked(self, copies: Copies) -> Self {
        let copies = Some(copies).filter(|copies| copies.count() > 0);
        Self { copies, ..self }
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
        &self.walk
    }
}

/// Which parts of the work on a cell a pass does, as bits: F, B, W; on a cell of a shard S, T.
const fn parts(kind: Kind) -> u8 {
    match kind {
        Kind::F | Kind::S => 1,
        Kind::B | Kind::T => 2,
        Kind::W => 4,
        Kind::BW => 6,
    }
}
const ALL_PARTS: u8 = 7;
const ALL_PARTS_OF_SHARD: u8 = 3;

fn check_complete(shape: Shape, placement: Placement, orders: &[Order]) -> Result<(), Fault> {
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
    let lacks = |cells: &[u8], all: u8| cells.iter().position(|&cell| cell != all);
    if let Some(cell) = lacks(chunks, ALL_PARTS) {
        let kinds = [Kind::F, Kind::BW, Kind::B, Kind::W];
        return Err(missing(shape, placement, chunks, cell, &kinds));
    }
    match lacks(shards, ALL_PARTS_OF_SHARD) {
        None => Ok(()),
        Some(cell) => Err(missing(shape, placement, shards, cell, &[Kind::S, Kind::T])),
    }
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
    let others = done[cell + 1..].iter().filter(|&&other| other != all).count();
    let columns = shape.microbatches() as usize;
    let chunk = u16::try_from(cell / columns).unwrap_or(u16::MAX);
    let microbatch = u32::try_from(cell % columns).unwrap_or(u32::MAX);
    let wanted = kinds.iter().copied().find(|&kind| done[cell] & parts(kind) == 0);
    let pass = Pass { kind: wanted.unwrap_or(Kind::F), chunk, microbatch };
    Fault::Missing { pass, stage: placement.stage_of(shape, pass), others }
}
