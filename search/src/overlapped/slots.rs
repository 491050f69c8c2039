//! Orders of slots on two streams: the passes of a slot, its duration, and the times of all slots.

use pipeline::{Order, Pass, Schedule, Slot};

use crate::compiled_instance::{CompiledInstance, NONE};
use crate::instance::Instance;
use crate::timing::{self, Score};

/// The work of one slot: an F, a B or a whole backward, a pair of these, or a W. Chunks are numbered by
/// their place on the stage; the k-th slot with F of a chunk is that of microbatch k, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Doing {
    /// The chunk whose F it is.
    pub(super) forward: Option<u8>,
    /// The chunk whose B it is.
    pub(super) backward: Option<u8>,
    /// The chunk whose W it is: beside a B that of the same microbatch.
    pub(super) weight: Option<u8>,
}

impl Doing {
    pub(super) const fn f(chunk: u8) -> Self {
        Self { forward: Some(chunk), backward: None, weight: None }
    }

    pub(super) const fn w(chunk: u8) -> Self {
        Self { forward: None, backward: None, weight: Some(chunk) }
    }

    /// A B, with its W if `whole`.
    pub(super) const fn b(chunk: u8, whole: bool) -> Self {
        let weight = if whole { Some(chunk) } else { None };
        Self { forward: None, backward: Some(chunk), weight }
    }

    /// The same beside F of `chunk`.
    pub(super) const fn with_forward(self, chunk: u8) -> Self {
        Self { forward: Some(chunk), ..self }
    }

    pub(super) const fn is_empty(self) -> bool {
        self.forward.is_none() && self.backward.is_none() && self.weight.is_none()
    }
}

/// The slots of every stage, in order.
pub(super) type Slots = Vec<Vec<Doing>>;

/// An instance with the durations of all slots.
pub(super) struct Table {
    pub(super) compiled: CompiledInstance,
    /// By stage, chunk of F or none, chunk of B or none, and whether W is with it.
    durations: Vec<i64>,
    /// The chunks of each stage, in model order.
    chunks: Vec<Vec<u16>>,
}

impl Table {
    pub(super) fn of(instance: &Instance) -> Self {
        let Instance { shape, placement, costs, .. } = instance;
        let chunks: Vec<Vec<u16>> =
            (0..shape.stages()).map(|stage| placement.chunks_of(*shape, stage).collect()).collect();
        let mut durations = Vec::new();
        for here in &chunks {
            let forwards = || std::iter::once(None).chain(here.iter().copied().map(Some));
            for forward in forwards() {
                for backward in forwards() {
                    for whole in [false, true] {
                        let back = backward.map(|chunk| match whole {
                            true => Pass::bw(chunk, 0),
                            false => Pass::b(chunk, 0),
                        });
                        let slot = match (forward.map(|chunk| Pass::f(chunk, 1)), back) {
                            (Some(forward), Some(back)) => Slot::Pair(forward, back),
                            (Some(one), None) | (None, Some(one)) => Slot::One(one),
                            (None, None) => {
                                durations.push(0);
                                continue;
                            }
                        };
                        let time = costs.of_slot(slot).0;
                        durations.push(i64::try_from(time).unwrap_or(i64::MAX / 4));
                    }
                }
            }
        }
        Self { compiled: CompiledInstance::of(instance), durations, chunks }
    }

    /// The places of the chunks of a stage.
    pub(super) fn chunks(&self) -> std::ops::Range<u8> {
        0..u8::try_from(self.compiled.chunks).unwrap_or(u8::MAX)
    }

    /// Duration of `doing` on `stage`.
    #[inline]
    pub(super) fn duration(&self, stage: usize, doing: Doing) -> i64 {
        let side = self.compiled.chunks + 1;
        let place = |chunk: Option<u8>| chunk.map_or(0, |chunk| usize::from(chunk) + 1);
        if let Doing { forward: None, backward: None, weight: Some(chunk) } = doing {
            return self.compiled.lanes[self.lane(stage, 2, chunk)].duration;
        }
        let row = (stage * side + place(doing.forward)) * side + place(doing.backward);
        self.durations[2 * row + usize::from(doing.weight.is_some())]
    }

    /// The lane of `kind` (F, B, W) of `chunk` on `stage`.
    #[inline]
    pub(super) fn lane(&self, stage: usize, kind: usize, chunk: u8) -> usize {
        stage * self.compiled.width + kind * self.compiled.chunks + usize::from(chunk)
    }

    /// The slots of `schedule` with microbatches named in order; none if it has other pairs than those of a
    /// forward and a backward.
    pub(super) fn slots(&self, schedule: &Schedule) -> Option<Slots> {
        let stages = schedule.orders().iter().enumerate();
        let of = |(stage, order): (usize, &Order)| {
            order.slots().map(|slot| self.doing(stage, slot)).collect()
        };
        stages.map(of).collect()
    }

    fn doing(&self, stage: usize, slot: Slot) -> Option<Doing> {
        let mut doing = Doing::default();
        for pass in slot.passes() {
            let place = self.chunks[stage].iter().position(|&one| one == pass.chunk)?;
            let chunk = Some(u8::try_from(place).ok()?);
            let free = match pass.kind {
                pipeline::Kind::F => std::mem::replace(&mut doing.forward, chunk).is_none(),
                pipeline::Kind::B => std::mem::replace(&mut doing.backward, chunk).is_none(),
                pipeline::Kind::BW => {
                    doing.weight = chunk;
                    std::mem::replace(&mut doing.backward, chunk).is_none()
                }
                pipeline::Kind::W => std::mem::replace(&mut doing.weight, chunk).is_none(),
                _ => false,
            };
            if !free || (pass.kind == pipeline::Kind::W && slot.passes().count() > 1) {
                return None;
            }
        }
        Some(doing)
    }

    /// The orders that `slots` stand for.
    pub(super) fn orders(&self, slots: &Slots) -> Vec<Order> {
        let of = |(stage, slots): (usize, &Vec<Doing>)| {
            let mut next = vec![0u32; self.compiled.width];
            let mut pass = |kind: usize, chunk: u8, make: fn(u16, u32) -> Pass| {
                let microbatch = &mut next[kind * self.compiled.chunks + usize::from(chunk)];
                *microbatch += 1;
                make(self.chunks[stage][usize::from(chunk)], *microbatch - 1)
            };
            let mut order = Order::with_capacity(slots.len());
            for doing in slots {
                let forward = doing.forward.map(|chunk| pass(0, chunk, Pass::f));
                let back = doing.backward.map(|chunk| match doing.weight {
                    Some(_) => {
                        pass(2, chunk, Pass::w);
                        pass(1, chunk, Pass::bw)
                    }
                    None => pass(1, chunk, Pass::b),
                });
                match (forward, back, doing.weight) {
                    (Some(forward), Some(back), _) => order.push(Slot::Pair(forward, back)),
                    (Some(one), None, _) | (None, Some(one), _) => order.push(one),
                    (None, None, Some(chunk)) => order.push(pass(2, chunk, Pass::w)),
                    (None, None, None) => {}
                }
            }
            order
        };
        slots.iter().enumerate().map(of).collect()
    }
}

/// Times slots, with the tables of the clock of passes.
#[derive(Default)]
pub(super) struct Clock {
    tables: timing::Clock,
    /// The slots timed so far.
    pub(super) steps: u64,
}

impl Clock {
    /// Times `slots`; none if they wait for each other, a pass stands before one that it needs, or a stage
    /// goes over its limit.
    pub(super) fn time(&mut self, table: &Table, slots: &Slots) -> Option<Score> {
        self.tables.prepare(&table.compiled);
        while let Some(stage) = self.tables.ready.pop() {
            while let Some(&doing) = slots[stage].get(self.tables.at[stage]) {
                self.steps += 1;
                if !self.place(table, stage, doing)? {
                    break;
                }
                self.tables.at[stage] += 1;
            }
        }
        let done = self.tables.at.iter().zip(slots).all(|(&at, slots)| at == slots.len());
        done.then(|| timing::score(&table.compiled, &self.tables.first, &self.tables.free))
    }

    /// Does the next slot of `stage`, unless what it needs is not made: then `false`.
    fn place(&mut self, table: &Table, stage: usize, doing: Doing) -> Option<bool> {
        let compiled = &table.compiled;
        let columns = compiled.microbatches as usize;
        let lane = |kind, chunk: Option<u8>| chunk.map(|chunk| table.lane(stage, kind, chunk));
        let lanes = [lane(0, doing.forward), lane(1, doing.backward), lane(2, doing.weight)];
        let mut start = self.tables.free[stage];
        for (kind, lane) in lanes.into_iter().enumerate() {
            let Some(lane) = lane else { continue };
            let (one, number) = (compiled.lanes[lane], self.tables.next[lane]);
            // The W of a whole backward is that of its own B.
            let whole = kind == 2 && lanes[1].is_some();
            match whole {
                true if self.tables.next[one.local as usize] != number => return None,
                false if one.local != NONE && self.tables.next[one.local as usize] <= number => {
                    return None;
                }
                _ => {}
            }
            if one.remote != NONE {
                let remote = one.remote as usize;
                if self.tables.next[remote] <= number {
                    return Some(false);
                }
                start = start.max(self.tables.ends[remote * columns + number as usize] + one.hop);
            }
        }
        let lanes = || lanes.into_iter().flatten();
        let takes: i64 = lanes().map(|lane| compiled.lanes[lane].take).sum();
        let leaves: i64 = lanes().map(|lane| compiled.lanes[lane].leave).sum();
        let (most, after) =
            (self.tables.held[stage] + takes, self.tables.held[stage] + takes + leaves);
        if most.max(after) > compiled.limit[stage] {
            return None;
        }
        self.tables.held[stage] = after;
        if self.tables.at[stage] == 0 {
            self.tables.first[stage] = start;
        }
        let end = start + table.duration(stage, doing);
        self.tables.free[stage] = end;
        for lane in lanes() {
            let number = self.tables.next[lane] as usize;
            self.tables.ends[lane * columns + number] = end;
            self.tables.next[lane] += 1;
            if compiled.lanes[lane].wakes != NONE {
                self.tables.ready.push(compiled.lanes[lane].wakes as usize);
            }
        }
        Some(true)
    }
}
