//! The order whose neighbourhoods are searched.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use pipeline::{Kind, Pass, Schedule};

use crate::compiled_instance::CompiledInstance;
use crate::windows::{Windows, range_at_first};

/// An order with every pass as soon as it can be.
pub(super) struct Incumbent {
    pub(super) schedule: Schedule,
    pub(super) cost: i64,
    /// The passes of each stage as they run.
    pub(super) sequences: Vec<Vec<usize>>,
    /// By pass, its start.
    pub(super) starts: Vec<i64>,
    /// By pass, its earliest start in any order.
    pub(super) arrivals: Vec<i64>,
    /// By stage, the memory held before each of its passes.
    pub(super) held: Vec<Vec<i64>>,
    /// By pass, its place in the sequence of its stage.
    places: Vec<usize>,
    /// By pass, the latest start with which this order costs no more than some cost, less that cost.
    tails: Vec<i64>,
    /// By pass and lane of its stage, the passes of the lane before it.
    counts: Vec<u16>,
}

impl Incumbent {
    /// `schedule` is one of `compiled`, and costs `cost`; `arrivals` are those of the windows.
    pub(super) fn new(
        compiled: &CompiledInstance,
        arrivals: &[i64],
        schedule: Schedule,
        cost: i64,
    ) -> Self {
        let sequences: Vec<_> =
            (0..compiled.stages).map(|stage| sequence(compiled, &schedule, stage)).collect();
        let mut walk = Vec::with_capacity(compiled.passes());
        let mut at = vec![0; compiled.stages];
        for step in schedule.walk() {
            let (stage, passes) = (step.stage as usize, step.passes as usize);
            walk.extend(&sequences[stage][at[stage]..at[stage] + passes]);
            at[stage] += passes;
        }
        let mut incumbent = Self {
            schedule,
            cost,
            starts: starts(compiled, &walk),
            arrivals: arrivals.to_vec(),
            held: Vec::with_capacity(compiled.stages),
            places: vec![0; compiled.passes()],
            tails: Vec::new(),
            counts: vec![0; compiled.passes() * compiled.width],
            sequences,
        };
        incumbent.tails = incumbent.tails(compiled, &walk);
        (0..compiled.stages).for_each(|stage| incumbent.count(compiled, stage));
        incumbent
    }

    /// Counts what runs before each pass of `stage`.
    fn count(&mut self, compiled: &CompiledInstance, stage: usize) {
        let mut before = vec![0u16; compiled.lanes_of(stage).len()];
        let mut memory = 0;
        let mut held = Vec::with_capacity(self.sequences[stage].len());
        for (place, &pass) in self.sequences[stage].iter().enumerate() {
            let lane = compiled.lane_of(pass);
            self.places[pass] = place;
            self.counts[pass * compiled.width..][..before.len()].copy_from_slice(&before);
            before[lane.place] += 1;
            held.push(memory);
            memory += lane.leaves;
        }
        self.held.push(held);
    }

    /// By pass, the latest start with which the order of `walk` costs no more than some cost, less that cost.
    fn tails(&self, compiled: &CompiledInstance, walk: &[usize]) -> Vec<i64> {
        let mut tails = vec![0; compiled.passes()];
        let mut ends: Vec<i64> =
            (0..compiled.stages).map(|stage| self.deadline(compiled, stage)).collect();
        for &pass in walk.iter().rev() {
            let lane = compiled.lane_of(pass);
            let mut tail = ends[lane.stage] - lane.time;
            if let Some((to, hop)) = lane.output {
                let output = tails[compiled.pass(to, pass % compiled.microbatches)];
                tail = tail.min(output - hop - lane.time);
            }
            tails[pass] = tail;
            ends[lane.stage] = tail;
        }
        tails
    }

    /// The latest end of the last pass of `stage`, less the cost.
    fn deadline(&self, compiled: &CompiledInstance, stage: usize) -> i64 {
        let first = compiled.pass(compiled.lanes_of(stage).start, 0);
        if compiled.makespan { 0 } else { self.arrivals[first] }
    }

    /// The end of the last pass.
    pub(super) fn end(&self) -> i64 {
        let lasts = self.sequences.iter().filter_map(|sequence| sequence.last());
        lasts.map(|&pass| self.starts[pass]).max().unwrap_or(0) + 1
    }

    /// The places of the passes of each stage that start within `times`, later by `slant`; never that of the first.
    pub(super) fn bands(&self, times: &Range<i64>, slant: &[i64]) -> Vec<Range<usize>> {
        let place = |sequence: &[usize], time| {
            sequence.partition_point(|&pass| self.starts[pass] < time).max(1)
        };
        let band = |(sequence, slant): (&Vec<usize>, &i64)| {
            place(sequence, times.start + slant)..place(sequence, times.end + slant)
        };
        self.sequences.iter().zip(slant).map(band).collect()
    }

    /// The first start of a pass behind `bands`, earlier by `slant`.
    pub(super) fn next_start(&self, bands: &[Range<usize>], slant: &[i64]) -> Option<i64> {
        let behind = self.sequences.iter().zip(bands).zip(slant);
        let starts = behind.filter_map(|((sequence, band), slant)| {
            Some(self.starts[*sequence.get(band.end)?] - slant)
        });
        starts.min()
    }

    /// The passes before `pass`, one count for each lane of its stage.
    fn before(&self, compiled: &CompiledInstance, pass: usize) -> &[u16] {
        let lanes = compiled.lanes_of(compiled.lane_of(pass).stage).len();
        &self.counts[pass * compiled.width..][..lanes]
    }

    /// Leaves `windows` this order alone.
    pub(super) fn fix(&self, compiled: &CompiledInstance, windows: &mut Windows) {
        (0..compiled.passes()).for_each(|pass| self.fix_pass(compiled, pass, windows));
    }

    fn fix_pass(&self, compiled: &CompiledInstance, pass: usize, windows: &mut Windows) {
        windows.set_window(pass, [self.starts[pass]; 2]);
        let counts = self.before(compiled, pass).iter().map(|&count| [count; 2]);
        windows.set_counts(compiled, pass, counts);
    }

    /// Opens the windows of the passes of `bands` for all orders that cost `most` or less, and closes those of their
    /// outputs in other places at their latest start.
    pub(super) fn open(
        &self,
        compiled: &CompiledInstance,
        bands: &[Range<usize>],
        most: i64,
        windows: &mut Windows,
    ) {
        for (stage, band) in bands.iter().enumerate().filter(|(_, band)| !band.is_empty()) {
            let sequence = &self.sequences[stage];
            let last = sequence[band.start - 1];
            let begin = self.starts[last] + compiled.lane_of(last).time;
            let low = self.before(compiled, sequence[band.start]);
            let next = sequence.get(band.end);
            let due = next.map_or_else(|| self.deadline(compiled, stage), |&pass| self.tails[pass]);
            for &pass in &sequence[band.clone()] {
                let [lane, place] = [pass / compiled.microbatches, pass % compiled.microbatches];
                let latest = most + due - compiled.lanes[lane].time;
                windows.set_window(pass, [self.arrivals[pass].max(begin), latest]);
                let ranges = compiled.lanes_of(stage).enumerate().map(|(at, other)| {
                    let [fewest, most] = range_at_first(compiled, [lane, place], other);
                    let high = next.map_or(most, |&pass| self.before(compiled, pass)[at]);
                    [fewest.max(low[at]), most.min(high)]
                });
                windows.set_counts(compiled, pass, ranges);
                if let Some(to) = self.output(compiled, pass)
                    && !bands[compiled.lane_of(to).stage].contains(&self.places[to])
                {
                    windows.set_window(to, [most + self.tails[to]; 2]);
                }
            }
        }
    }

    /// Closes the windows that [`Self::open`] has opened.
    pub(super) fn close(
        &self,
        compiled: &CompiledInstance,
        bands: &[Range<usize>],
        windows: &mut Windows,
    ) {
        for (sequence, band) in self.sequences.iter().zip(bands) {
            for &pass in &sequence[band.clone()] {
                self.fix_pass(compiled, pass, windows);
                if let Some(to) = self.output(compiled, pass) {
                    self.fix_pass(compiled, to, windows);
                }
            }
        }
    }

    /// The pass that waits for the output of `pass`.
    fn output(&self, compiled: &CompiledInstance, pass: usize) -> Option<usize> {
        let (to, _) = compiled.lane_of(pass).output?;
        Some(compiled.pass(to, pass % compiled.microbatches))
    }
}

/// The passes of `stage` by their numbers, with W that take as long and free as much in the order of their B, as
/// windows have them.
fn sequence(compiled: &CompiledInstance, schedule: &Schedule, stage: usize) -> Vec<usize> {
    let number = |&Pass { kind, chunk, microbatch }: &Pass| {
        let mut lanes = compiled.lanes_of(stage);
        let lane = lanes.find(|&lane| {
            let lane = &compiled.lanes[lane];
            (lane.kind, lane.chunk) == (kind, chunk)
        })?;
        Some(compiled.pass(lane, microbatch as usize))
    };
    // The first of the lanes of W that are like that of a pass.
    let alike = |lane: usize| {
        let pairs = compiled.twins[stage].iter().filter(|pair| pair[1] == lane);
        pairs.map(|pair| pair[0]).min().unwrap_or(lane)
    };
    let mut waiting: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
    let mut sequence = Vec::new();
    for pass in schedule.orders()[stage].passes().iter().filter_map(number) {
        let lane = pass / compiled.microbatches;
        let mut pass = pass;
        match compiled.lanes[lane].kind {
            Kind::B => {
                let weight = pass + compiled.microbatches;
                waiting.entry(alike(lane + 1)).or_default().push_back(weight);
            }
            Kind::W => {
                let next = waiting.get_mut(&alike(lane)).and_then(VecDeque::pop_front);
                pass = next.unwrap_or(pass);
            }
            _ => {}
        }
        sequence.push(pass);
    }
    sequence
}

/// The start of every pass as soon as it can be, along `walk`.
fn starts(compiled: &CompiledInstance, walk: &[usize]) -> Vec<i64> {
    let mut starts = vec![0; compiled.passes()];
    let mut ends = vec![0; compiled.stages];
    for &pass in walk {
        let lane = compiled.lane_of(pass);
        let mut start = ends[lane.stage];
        if let Some((from, hop)) = lane.input {
            let input = starts[compiled.pass(from, pass % compiled.microbatches)];
            start = start.max(input + compiled.lanes[from].time + hop);
        }
        starts[pass] = start;
        ends[lane.stage] = start + lane.time;
    }
    starts
}
