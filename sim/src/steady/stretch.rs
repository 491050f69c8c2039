//! The stretch of an order that repeats.

use std::collections::BTreeSet;

use pipeline::{Pass, Schedule, Slot};

use super::{NOTHING, Op, Place, SINK, VALUES};

/// A walk over all stages, and its rounds.
pub(super) struct Stretch {
    pub(super) ops: Vec<Op>,
    /// The first pass of the first round.
    pub(super) begin: usize,
    /// The first pass behind the last round.
    pub(super) end: usize,
    /// Passes of a round.
    pub(super) length: usize,
    /// For each pass, where what it needs was made.
    makers: Vec<Option<usize>>,
}

impl Stretch {
    /// The rounds of `period` microbatches about the middle of `schedule`. At least two, and neither the last of them nor
    /// what comes behind reads what was made before the first.
    pub(super) fn of(schedule: &Schedule, period: u32) -> Option<Self> {
        let ops = walk(schedule)?;
        let microbatches = schedule.shape().microbatches() as usize;
        if ops.len() % microbatches != 0 {
            return None;
        }
        let length = (ops.len() / microbatches).checked_mul(usize::try_from(period).ok()?)?;
        let last = ops.len().checked_sub(length)?;
        let same = |at: usize| {
            let (one, next) = (&ops[at], &ops[at + length]);
            let moved = Pass { microbatch: one.pass.microbatch + period, ..one.pass };
            (one.stage, moved) == (next.stage, next.pass)
        };
        let middle = last / 2;
        let begin = (0..middle).rev().find(|&at| !same(at)).map_or(0, |at| at + 1);
        let behind = (middle..last).find(|&at| !same(at)).unwrap_or(last);
        let rounds = 1 + behind.checked_sub(begin)? / length;
        let end = begin + rounds * length;
        let makers = makers(&ops, microbatches);
        let from = end - length;
        let is_own = makers[from..].iter().flatten().all(|&maker| maker >= begin);
        let stretch = Self { ops, begin, end, length, makers };
        (rounds >= 2 && is_own && stretch.is_whole(period)).then_some(stretch)
    }

    /// Number of rounds.
    pub(super) const fn rounds(&self) -> usize {
        (self.end - self.begin) / self.length
    }

    /// Whether a round has each pass of a chunk for `period` microbatches, one in each place of the round: with another
    /// round, no pass comes twice.
    fn is_whole(&self, period: u32) -> bool {
        let round = &self.ops[self.begin..self.begin + self.length];
        let places: BTreeSet<_> = round
            .iter()
            .map(|op| (op.pass.chunk, op.pass.kind, op.pass.microbatch % period))
            .collect();
        let kinds: BTreeSet<_> = self.ops.iter().map(|op| (op.pass.chunk, op.pass.kind)).collect();
        places.len() == self.length && places.len() == kinds.len() * period as usize
    }

    /// The values made before the last round and read in it or later, as of the first round.
    pub(super) fn live(&self, period: u32) -> Option<Vec<Place>> {
        let from = self.end - self.length;
        let moved = u32::try_from(self.rounds() - 1).ok()?.checked_mul(period)?;
        let read = (from..self.ops.len()).filter(|&at| self.makers[at].is_some_and(|by| by < from));
        let place = |at: usize| {
            let Place { row, microbatch } = self.ops[at].needs;
            Place { row, microbatch: microbatch.wrapping_sub(moved) }
        };
        let all: BTreeSet<Place> = read.map(place).collect();
        Some(all.into_iter().collect())
    }

    /// Columns of a table in which microbatches that are as many apart share a place: while a value waits for its
    /// reader, no other one takes its place.
    pub(super) fn columns(&self) -> Option<u32> {
        let rows = self.ops.iter().map(|op| op.makes.row.max(op.needs.row) as usize + 1).max()?;
        let mut newest = vec![0; rows];
        let mut most = 1;
        for Place { row, microbatch } in self.ops.iter().flat_map(|op| [op.needs, op.makes]) {
            if row >= VALUES {
                let newest = &mut newest[row as usize];
                *newest = microbatch.max(*newest);
                most = most.max(*newest - microbatch + 1);
            }
        }
        most.checked_next_power_of_two()
    }
}

/// The passes of `schedule` in the order in which they would run if each took as long as any other and values no time on
/// their way. Numbers so small repeat soon, whatever the times.
fn walk(schedule: &Schedule) -> Option<Vec<Op>> {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let row = |row: usize| u32::try_from(row).ok()?.checked_add(VALUES);
    let mut made = vec![0u32; shape.value_cells()];
    let mut at = vec![0; shape.stages()];
    let passes = schedule.passes();
    let mut ops = Vec::with_capacity(passes);
    let mut now = 0;
    while ops.len() < passes {
        let before = ops.len();
        now += 1;
        for (stage, order) in schedule.orders().iter().enumerate() {
            let Some(&pass) = order.passes().get(at[stage]) else { continue };
            let needs = Slot::from(pass).received((shape, placement), stage).next();
            let is_there = |value| (1..now).contains(&made[shape.value_cell(value)]);
            if !needs.is_none_or(is_there) {
                continue;
            }
            at[stage] += 1;
            let microbatch = pass.microbatch;
            let needs = needs.map_or(Some(NOTHING), |value| row(value.row(shape)))?;
            let sent = pass.makes().filter(|value| {
                let to = value.taken_by(shape.chunks());
                to.is_some_and(|to| placement.stage(shape, to, microbatch) != stage)
            });
            let makes = sent.map_or(Some(SINK), |value| row(value.row(shape)))?;
            if let Some(value) = pass.makes() {
                made[shape.value_cell(value)] = now;
            }
            let [needs, makes] = [needs, makes].map(|row| Place { row, microbatch });
            ops.push(Op { stage: u32::try_from(stage).ok()?, pass, needs, makes });
        }
        if ops.len() == before {
            return None;
        }
    }
    Some(ops)
}

/// For each pass, where what it needs from another stage was made; `ops` are of so many `microbatches`.
fn makers(ops: &[Op], microbatches: usize) -> Vec<Option<usize>> {
    let cell = |place: Place| place.row as usize * microbatches + place.microbatch as usize;
    let rows = ops.iter().map(|op| op.makes.row as usize + 1).max().unwrap_or(0);
    let mut made = vec![None; rows * microbatches];
    let of = |(at, op): (usize, &Op)| {
        if op.makes.row != SINK {
            made[cell(op.makes)] = Some(at);
        }
        made.get(cell(op.needs)).copied().flatten()
    };
    ops.iter().enumerate().map(of).collect()
}
