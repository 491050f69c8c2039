//! The order of a neighbourhood by the heads of its windows, timed by itself.

use std::ops::Range;

use pipeline::Order;

use super::incumbent::Incumbent;
use crate::compiled_instance::CompiledInstance;
use crate::windows::Windows;

/// Times and memory of the open passes, in memory that is used again.
pub(super) struct Trial {
    /// Heads, passes before, latest starts, and the passes.
    order: Vec<(i64, usize, i64, usize)>,
    /// By pass, where it is open: its start.
    starts: Vec<i64>,
    /// By pass, where it is open or waits for one that is: its latest start.
    latest: Vec<i64>,
    /// By stage, the end of its last pass and the memory held.
    ends: Vec<i64>,
    held: Vec<i64>,
}

impl Trial {
    pub(super) fn of(compiled: &CompiledInstance) -> Self {
        let [starts, latest] = [0; 2].map(|none| vec![none; compiled.passes()]);
        let [ends, held] = [0; 2].map(|none| vec![none; compiled.stages]);
        Self { order: Vec::new(), starts, latest, ends, held }
    }

    /// Notes the latest starts of `windows`, before anything is concluded.
    pub(super) fn note_latest(&mut self, compiled: &CompiledInstance, windows: &Windows) {
        for &(lane, pass) in compiled.open.iter().flatten() {
            self.latest[pass] = windows.latest[pass];
            if let Some((to, _)) = compiled.lanes[lane].output {
                let to = compiled.pass(to, pass % compiled.microbatches);
                self.latest[to] = windows.latest[to];
            }
        }
    }

    /// The whole order with the open passes by the heads of `windows`, if all start in time and fit the limits.
    pub(super) fn order(
        &mut self,
        compiled: &CompiledInstance,
        incumbent: &Incumbent,
        windows: &Windows,
        bands: &[Range<usize>],
    ) -> Option<Vec<Order>> {
        self.order.clear();
        let open = compiled.open.iter().flatten().map(|&(_, pass)| {
            let before = windows.surely_before(compiled, pass);
            (windows.heads[pass], before, windows.latest[pass], pass)
        });
        self.order.extend(open);
        self.order.sort_unstable();
        if !self.runs(compiled, incumbent, bands) {
            return None;
        }
        let mut sequences = incumbent.sequences.clone();
        let mut at: Vec<usize> = bands.iter().map(|band| band.start).collect();
        for &(_, _, _, pass) in &self.order {
            let stage = compiled.lane_of(pass).stage;
            sequences[stage][at[stage]] = pass;
            at[stage] += 1;
        }
        let named = |sequence: &Vec<usize>| {
            sequence.iter().map(|&pass| compiled.name(pass)).collect::<Order>()
        };
        Some(sequences.iter().map(named).collect())
    }

    /// Whether the passes of the order start in time and fit the limits.
    fn runs(
        &mut self,
        compiled: &CompiledInstance,
        incumbent: &Incumbent,
        bands: &[Range<usize>],
    ) -> bool {
        for (stage, band) in bands.iter().enumerate().filter(|(_, band)| !band.is_empty()) {
            let last = incumbent.sequences[stage][band.start - 1];
            self.ends[stage] = incumbent.starts[last] + compiled.lane_of(last).time;
            self.held[stage] = incumbent.held[stage][band.start];
        }
        // Inputs that are not open start when they did.
        let open = compiled.open.iter().flatten();
        for (lane, pass) in open.clone() {
            if let Some((from, _)) = compiled.lanes[*lane].input {
                let from = compiled.pass(from, pass % compiled.microbatches);
                self.starts[from] = incumbent.starts[from];
            }
        }
        self.order.iter().all(|&(_, _, _, pass)| {
            let (lane, place) = (compiled.lane_of(pass), pass % compiled.microbatches);
            let mut start = self.ends[lane.stage];
            if let Some((from, hop)) = lane.input {
                let input = self.starts[compiled.pass(from, place)];
                start = start.max(input + compiled.lanes[from].time + hop);
            }
            self.starts[pass] = start;
            let end = start + lane.time;
            self.ends[lane.stage] = end;
            let held = self.held[lane.stage];
            self.held[lane.stage] += lane.leaves;
            let arrives =
                |(to, hop): (usize, i64)| end + hop <= self.latest[compiled.pass(to, place)];
            let fits = |limits: &Vec<i64>| held + lane.takes <= limits[lane.stage];
            start <= self.latest[pass]
                && lane.output.is_none_or(arrives)
                && compiled.limits.as_ref().is_none_or(fits)
        })
    }
}
