//! Two streams in a device: what passes do segment by segment, and how long two of them take together.
//!
//! A pass is a [`Chain`] of [`Segment`]s, each on the compute stream or on the communication stream. A pair
//! of a forward and a backward, and a backward with its own W, is the composition of its chains on the
//! two streams ([`Composition`]): communication of the one is hidden behind compute of the other. The
//! duration of a slot depends on the two chains alone, so that it is computed once per kind of pair, and
//! replay stays one pass over the order.
//!
//! Sources: DeepSeek-V3 (arXiv 2412.19437, section 3.2.1), deepseek-ai/profile-data; Megatron-LM
//! (`combined_1f1b.py`, `model_chunk_schedule_plan.py`).

mod best;
mod chain;
mod compose;
mod execution;
mod interleaving;
mod rule;
mod segment;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use chain::{Chain, Layer, MAX_LAYERS, WeightSegment};
pub use compose::{Composition, SegmentSpan};
pub use execution::{Execution, Pace, Program, TICKS};
pub use interleaving::{Interleaving, Line};
pub use rule::{Rule, Weights};
pub use segment::{
    Contention, ContentionError, Part, Segment, SegmentName, SegmentNameError, Stream,
};

use self::compose::{Items, composition};
use crate::costs::PassTimes;
use crate::fault::Fault;
use crate::pass::{Kind, Pass, Slot};
use crate::shape::Shape;
use crate::units::Nanos;

/// The most kinds of chunks, by the names and streams of their layers, that a line is tried on.
const MAX_KINDS: usize = 64;

/// The chain of F, if there is one, that of B, and whether W is with it.
type SlotKind = (Option<u16>, u16, bool);

/// By pass of a slot, its chain and its kind.
type SlotKinds = [Option<(u16, Kind)>; 2];

/// The chains of all chunks, and what slots of them take.
#[derive(Clone, Debug)]
pub struct Overlap {
    chains: Vec<Chain>,
    /// By chunk, its chain.
    of_chunk: Vec<u16>,
    rule: Rule,
    /// Filled as slots are asked for: which are there depends on the order.
    compositions: Arc<Mutex<HashMap<SlotKind, Arc<Composition>>>>,
    /// The same as programs, to run them step by step.
    programs: Arc<Mutex<HashMap<SlotKinds, Option<Arc<Program>>>>>,
}

impl PartialEq for Overlap {
    /// Compositions follow from the rest.
    fn eq(&self, other: &Self) -> bool {
        (&self.chains, &self.of_chunk, &self.rule) == (&other.chains, &other.of_chunk, &other.rule)
    }
}

impl Eq for Overlap {}

impl Overlap {
    /// The chains of all chunks, in model order, under `rule`.
    ///
    /// # Errors
    /// [`Fault::Interleaving`] if a line does not fit the layers, or blocks.
    pub fn new(of_chunks: Vec<Chain>, rule: Rule) -> Result<Self, Fault> {
        let overlap = Self::of(of_chunks, rule);
        if let Interleaving::Line(line) = &overlap.rule.interleaving {
            line.check(&overlap.chains)?;
            overlap.check_pairs()?;
        }
        Ok(overlap)
    }

    /// Chains of which no pair blocks under `rule`.
    fn of(of_chunks: Vec<Chain>, rule: Rule) -> Self {
        let mut chains: Vec<Chain> = Vec::new();
        let mut of_chunk = Vec::with_capacity(of_chunks.len());
        for chain in of_chunks {
            let known = chains.iter().position(|one| *one == chain);
            of_chunk.push(u16::try_from(known.unwrap_or(chains.len())).unwrap_or(u16::MAX));
            if known.is_none() {
                chains.push(chain);
            }
        }
        let (compositions, programs) = Default::default();
        Self { chains, of_chunk, rule, compositions, programs }
    }

    /// Tries every pair of chains. Whether one blocks depends on the names and streams of their layers
    /// alone.
    fn check_pairs(&self) -> Result<(), Fault> {
        let mut kinds: Vec<Chain> = Vec::new();
        for chain in &self.chains {
            let kind = chain.map(|_, segment| Segment { time: Nanos(1), ..segment.clone() });
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if kinds.len() > MAX_KINDS {
            let what = format!("more than {MAX_KINDS} kinds of chunks have segments of their own");
            return Err(Fault::Segments { what });
        }
        for backward in &kinds {
            for forward in std::iter::once(None).chain(kinds.iter().map(Some)) {
                for is_whole in [true, false] {
                    let items = Items::new([forward, Some(backward)], is_whole, &self.rule)?;
                    composition(&items, &items.order, false)?;
                }
            }
        }
        Ok(())
    }

    /// The different chains.
    #[must_use]
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// The chain of `chunk`.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    pub fn chain(&self, chunk: u16) -> &Chain {
        &self.chains[usize::from(self.of_chunk[usize::from(chunk)])]
    }

    /// The position of the chain of `chunk` in [`Self::chains`].
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    pub fn kind(&self, chunk: u16) -> u16 {
        self.of_chunk[usize::from(chunk)]
    }

    /// How passes share the streams.
    #[must_use]
    pub const fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Number of chunks that it has.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.of_chunk.len()
    }

    /// Whether any pass takes time on the communication stream.
    #[must_use]
    pub fn communicates(&self) -> bool {
        self.chains.iter().any(Chain::communicates)
    }

    /// How long F, B and W of each chunk take with their segments one after the other.
    #[must_use]
    pub fn times(&self) -> Vec<PassTimes> {
        let times: Vec<PassTimes> = self.chains.iter().map(Chain::times).collect();
        self.of_chunk.iter().map(|&at| times[usize::from(at)]).collect()
    }

    /// The work of the passes of `slot` on `stream`.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    pub fn work(&self, slot: Slot, stream: Stream) -> Nanos {
        let of = |pass: Pass| {
            let work = |part| self.chain(pass.chunk).work(part, stream);
            match pass.kind {
                Kind::F => work(Part::F),
                Kind::B => work(Part::B),
                Kind::W => work(Part::W),
                Kind::BW => work(Part::B) + work(Part::W),
                Kind::S | Kind::T | Kind::R => Nanos(0),
            }
        };
        slot.passes().map(of).sum()
    }

    /// The same rule over chains whose passes take `times`, by chunk in model order: segments are stretched
    /// or shortened alike.
    #[must_use]
    pub fn at_pace(&self, times: &[PassTimes]) -> Self {
        let chunks = (0u16..).zip(times);
        self.with_chains(chunks.map(|(chunk, times)| self.chain(chunk).at_pace(*times)).collect())
    }

    /// The same where communication takes no time.
    #[must_use]
    pub fn without_communication(&self) -> Self {
        let chunks = self.of_chunk.iter();
        let quiet: Vec<Chain> = self.chains.iter().map(Chain::without_communication).collect();
        self.with_chains(chunks.map(|&at| quiet[usize::from(at)].clone()).collect())
    }

    /// The same rule over `chains`, whose layers are like these.
    fn with_chains(&self, chains: Vec<Chain>) -> Self {
        Self::of(chains, self.rule.clone())
    }

    /// When the segments of `slot` run, if it is one whose passes share the streams or that has segments
    /// at all; none of work that has none (R, S, T).
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    pub fn composition(&self, slot: Slot) -> Option<Arc<Composition>> {
        let class = |pass: Pass| self.of_chunk[usize::from(pass.chunk)];
        match self.shared(slot) {
            Some([forward, backward]) => {
                let is_whole = backward?.kind == Kind::BW;
                Some(self.known(forward.map(class), class(backward?), is_whole))
            }
            None => self.one_by_one(slot).map(Arc::new),
        }
    }

    /// Forward and backward of `slot`, if they share the streams; the backward is there.
    #[inline]
    #[must_use]
    pub fn shared(&self, slot: Slot) -> Option<[Option<Pass>; 2]> {
        let is_backward = |pass: Pass| matches!(pass.kind, Kind::B | Kind::BW);
        match slot {
            Slot::Pair(one, other) if one.kind == Kind::F && is_backward(other) => {
                Some([Some(one), Some(other)])
            }
            Slot::Pair(one, other) if other.kind == Kind::F && is_backward(one) => {
                Some([Some(other), Some(one)])
            }
            Slot::One(pass) if pass.kind == Kind::BW && self.rule.lone => Some([None, Some(pass)]),
            _ => None,
        }
    }

    /// The segments of the passes of `slot` one after the other.
    fn one_by_one(&self, slot: Slot) -> Option<Composition> {
        let rule = Rule::default();
        let mut all: Option<Composition> = None;
        for pass in slot.passes() {
            if matches!(pass.kind, Kind::S | Kind::T | Kind::R) {
                continue;
            }
            let items = self.alone(pass, &rule)?;
            let next = composition(&items, &items.order, false).ok()?;
            all = Some(match all {
                None => next,
                Some(before) => before.then(next),
            });
        }
        all
    }

    /// The segments of `pass` one after the other, as `rule`, which interleaves nothing, says.
    fn alone(&self, pass: Pass, rule: &Rule) -> Option<Items<'_>> {
        let chain = Some(self.chain(pass.chunk));
        let chains = match pass.kind {
            Kind::F => [chain, None],
            Kind::B | Kind::W | Kind::BW => [None, chain],
            Kind::S | Kind::T | Kind::R => return None,
        };
        let items = Items::new(chains, pass.kind != Kind::B, rule).ok()?;
        Some(if pass.kind == Kind::W { items.weights_alone() } else { items })
    }

    /// Whether a segment of any chunk is to move bytes over the wires of a cluster.
    #[must_use]
    pub fn moves_bytes(&self) -> bool {
        self.chains.iter().any(Chain::moves_bytes)
    }

    /// The segments of `slot` to be run step by step, as [`Self::composition`] has them; none of a slot
    /// with work that has no segments (R, S, T).
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    pub fn program(&self, slot: Slot) -> Option<Arc<Program>> {
        let mut kinds = SlotKinds::default();
        for (kind, pass) in kinds.iter_mut().zip(slot.passes()) {
            *kind = Some((self.of_chunk[usize::from(pass.chunk)], pass.kind));
        }
        let lock = || self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&kinds) {
            return known.clone();
        }
        let program = self.new_program(slot).map(Arc::new);
        lock().entry(kinds).or_insert(program).clone()
    }

    fn new_program(&self, slot: Slot) -> Option<Program> {
        let class = |pass: Pass| self.of_chunk[usize::from(pass.chunk)];
        if let Some([forward, backward]) = self.shared(slot) {
            let (forward, is_whole) = (forward.map(class), backward?.kind == Kind::BW);
            let items = self.items(forward, class(backward?), is_whole).ok()?;
            let (order, _) = self.chosen(&items).ok()?;
            return Some(Program::new(&items.all, &order));
        }
        let (rule, mut program) = (Rule::default(), Program::default());
        for pass in slot.passes() {
            let items = self.alone(pass, &rule)?;
            program.append(&items.all, &items.order);
        }
        Some(program)
    }

    fn known(&self, forward: Option<u16>, backward: u16, is_whole: bool) -> Arc<Composition> {
        let lock = || self.compositions.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = (forward, backward, is_whole);
        if let Some(known) = lock().get(&kind) {
            return Arc::clone(known);
        }
        // Orders that can block were refused when the rule was made.
        let composed = self.compose(forward, backward, is_whole);
        let composed = Arc::new(composed.unwrap_or_else(|_| Composition::empty()));
        Arc::clone(lock().entry(kind).or_insert(composed))
    }

    fn compose(
        &self,
        forward: Option<u16>,
        backward: u16,
        is_whole: bool,
    ) -> Result<Composition, Fault> {
        let items = self.items(forward, backward, is_whole)?;
        Ok(self.chosen(&items)?.1)
    }

    /// The segments of a forward, if there is one, and a backward of these chains.
    fn items(
        &self,
        forward: Option<u16>,
        backward: u16,
        is_whole: bool,
    ) -> Result<Items<'_>, Fault> {
        let chain = |at: u16| &self.chains[usize::from(at)];
        Items::new([forward.map(chain), Some(chain(backward))], is_whole, &self.rule)
    }

    /// The order of `items` by the rule, and its composition.
    fn chosen(&self, items: &Items<'_>) -> Result<(Vec<usize>, Composition), Fault> {
        match self.rule.interleaving {
            Interleaving::Best => {
                let (order, is_best) = best::best(items, &items.order)?;
                let found = composition(items, &order, is_best)?;
                let published = composition(items, &items.order, is_best)?;
                // The best order without contention may be worse with it.
                Ok(if published.duration <= found.duration {
                    (items.order.clone(), published)
                } else {
                    (order, found)
                })
            }
            _ => Ok((items.order.clone(), composition(items, &items.order, false)?)),
        }
    }

    /// Duration of `slot` where its passes would take `apart` one after the other: less, where they
    /// share the streams.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[inline]
    #[must_use]
    pub fn duration(&self, slot: Slot, apart: Nanos) -> Nanos {
        match self.shared(slot) {
            Some(_) => self.composition(slot).map_or(apart, |one| one.duration),
            None => apart,
        }
    }

    /// Checks that this is the overlap of a pipeline of `shape`.
    ///
    /// # Errors
    /// [`Fault::ChunkCount`].
    pub(crate) fn check(&self, shape: Shape) -> Result<(), Fault> {
        let (given, chunks) = (self.of_chunk.len(), shape.chunks());
        if given == usize::from(chunks) {
            return Ok(());
        }
        Err(Fault::ChunkCount { what: "segments", given, chunks })
    }
}

#[cfg(test)]
mod tests;
