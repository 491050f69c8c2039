//! The order of passes on each stage, valid from birth.

use crate::fault::Fault;
use crate::offload::{Copies, Part, Streams};
use crate::pass::{Kind, Pass, Slot};
use crate::shape::{Placement, Shape};
use crate::walk::{self, Run};

/// The slots of one stage, first to last, packed as passes; pairs are kept aside.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Order {
    passes: Vec<Pass>,
    /// Ascending positions in `passes` of the first pass of each pair.
    pairs: Vec<usize>,
}

impl Order {
    /// An empty order with room for `passes` passes.
    #[must_use]
    pub fn with_capacity(passes: usize) -> Self {
        Self { passes: Vec::with_capacity(passes), pairs: Vec::new() }
    }

    /// Adds a slot at the end.
    #[inline]
    pub fn push(&mut self, slot: impl Into<Slot>) {
        match slot.into() {
            Slot::One(pass) => self.passes.push(pass),
            Slot::Pair(first, second) => {
                self.pairs.push(self.passes.len());
                self.passes.extend([first, second]);
            }
        }
    }

    /// All passes in order, the two of a pair one after the other.
    #[inline]
    #[must_use]
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// Whether every slot is a single pass.
    #[must_use]
    pub fn is_unpaired(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The slot that begins at position `at` of [`Self::passes`].
    ///
    /// # Panics
    /// Past the end.
    #[inline]
    #[must_use]
    pub fn slot_at(&self, at: usize) -> Slot {
        if !self.pairs.is_empty() && self.pairs.binary_search(&at).is_ok() {
            return Slot::Pair(self.passes[at], self.passes[at + 1]);
        }
        Slot::One(self.passes[at])
    }

    /// All slots in order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots_from(0)
    }

    /// The slots from the one on that begins at position `at` of [`Self::passes`].
    pub fn slots_from(&self, mut at: usize) -> impl Iterator<Item = Slot> {
        std::iter::from_fn(move || {
            let slot = (at < self.passes.len()).then(|| self.slot_at(at))?;
            at += slot.passes().count();
            Some(slot)
        })
    }
}

impl<S: Into<Slot>> FromIterator<S> for Order {
    fn from_iter<I: IntoIterator<Item = S>>(slots: I) -> Self {
        let mut order = Self::default();
        slots.into_iter().for_each(|slot| order.push(slot));
        order
    }
}

/// An order for every stage: complete, well placed and free of deadlock.
///
/// It keeps the proof of that last property, an order over all stages in which every need is made
/// before it is used ([`Schedule::walk`]), so that timing it is one pass over packed arrays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    shape: Shape,
    placement: Placement,
    orders: Vec<Order>,
    walk: Vec<Run>,
    copies: Option<Copies>,
}

impl Schedule {
    /// The only door: checks that `orders` has every pass once, on the stage that holds its chunk
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
    pub fn with_copies(self, part: Part, streams: Vec<Streams>) -> Result<Self, Fault> {
        let copies = Copies::new(&self, part, streams)?;
        Ok(self.with_checked(copies))
    }

    /// The same with copies that are known to be valid.
    pub(crate) fn with_checked(self, copies: Copies) -> Self {
        let copies = Some(copies).filter(|copies| copies.count() > 0);
        Self { copies, ..self }
    }

    /// What goes to the host between forward and backward, if anything does.
    #[must_use]
    pub const fn copies(&self) -> Option<&Copies> {
        self.copies.as_ref()
    }

    /// Stages, chunks and microbatches.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Which stage holds which chunk.
    #[must_use]
    pub const fn placement(&self) -> Placement {
        self.placement
    }

    /// The order of each stage.
    #[must_use]
    pub fn orders(&self) -> &[Order] {
        &self.orders
    }

    /// Number of passes over all stages.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.orders.iter().map(|order| order.passes.len()).sum()
    }

    /// Runs of passes that, taken one after the other, never use a value before it is made.
    #[must_use]
    pub fn walk(&self) -> &[Run] {
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
        for &pass in &order.passes {
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
