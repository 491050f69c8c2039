//! How long passes took, by how many stages were at work meanwhile: stages that share memory, caches or
//! power slow each other, and a single median says nothing of that.

use std::collections::BTreeMap;

use pipeline::{Kind, Measurement, Nanos, Step};
use question::object;

use super::report::Ran;
use crate::error::Error;

/// Passes of one kind and chunk during which equally many stages were at work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// F, B, W or BW.
    pub kind: Kind,
    /// Which chunk.
    pub chunk: u16,
    /// Stages at work half-way through the pass, its own with them.
    pub busy: usize,
    /// Their times, ascending.
    times: Vec<u64>,
}

impl Group {
    /// The time that `percent` of the passes are not longer than: the nearest rank.
    fn at(&self, percent: usize) -> Nanos {
        let rank = (self.times.len() * percent).div_ceil(100).max(1);
        Nanos(self.times.get(rank - 1).copied().unwrap_or(0))
    }
}

/// How many stages of `step` are at work at `moment`.
fn busy(step: &Step, moment: Nanos) -> usize {
    let at_work = |slots: &&Vec<Measurement>| {
        // Slots of a stage follow one another.
        let begun = slots.partition_point(|slot| slot.start <= moment);
        begun.checked_sub(1).is_some_and(|last| moment < slots[last].end)
    };
    step.stages.iter().filter(at_work).count()
}

/// All passes of `steps`, but those of slots of two: each has the time of both.
pub fn groups(steps: &[Step]) -> Vec<Group> {
    let mut times: BTreeMap<(usize, u16, usize), Vec<u64>> = BTreeMap::new();
    for step in steps {
        for slot in step.stages.iter().flatten() {
            let mut passes = slot.slot.passes();
            let (Some(pass), None) = (passes.next(), passes.next()) else { continue };
            let middle = Nanos(u64::midpoint(slot.start.0, slot.end.0));
            let key = (pass.kind as usize, pass.chunk, busy(step, middle));
            times.entry(key).or_default().push(slot.end.0.saturating_sub(slot.start.0));
        }
    }
    let group = |((kind, chunk, busy), mut times): (_, Vec<u64>)| {
        times.sort_unstable();
        let kind = Kind::ALL.into_iter().find(|one| *one as usize == kind).unwrap_or(Kind::F);
        Group { kind, chunk, busy, times }
    };
    times.into_iter().map(group).collect()
}

/// The passes of all that was run as CSV.
///
/// # Errors
/// If memory runs out.
pub fn csv(all: &[Ran]) -> Result<Vec<u8>, Error> {
    let mut rows = Vec::new();
    for one in all {
        let case = &one.outcome.case;
        for group in groups(&one.measured.steps) {
            #[allow(clippy::cast_precision_loss)]
            let micros = |percent| format!("{:.3}", group.at(percent).0 as f64 / 1e3);
            rows.push(object!(
                setting = case.setting.as_deref().unwrap_or_default(),
                schedule = &case.name,
                stages = case.schedule.shape().stages(),
                pass = format!("{:?}", group.kind),
                chunk = group.chunk,
                busy_stages = group.busy,
                passes = group.times.len(),
                p10_us = micros(10),
                median_us = micros(50),
                p90_us = micros(90),
            ));
        }
    }
    Ok(answer::csv(rows)?)
}

#[cfg(test)]
mod tests {
    use pipeline::{Pass, Slot};

    use super::*;

    fn slot(pass: Pass, start: u64, end: u64) -> Measurement {
        let (start, end) = (Nanos(start), Nanos(end));
        Measurement { slot: Slot::One(pass), arrived: None, start, end }
    }

    #[test]
    fn passes_are_told_apart_by_how_many_stages_are_at_work() {
        let first = vec![slot(Pass::f(0, 0), 0, 10), slot(Pass::f(0, 1), 10, 22)];
        let second = vec![slot(Pass::f(1, 0), 10, 20), slot(Pass::b(1, 0), 40, 70)];
        let step = Step { stages: vec![first, second], ..Step::default() };
        let found: Vec<_> = groups(&[step])
            .iter()
            .map(|one| (one.kind, one.chunk, one.busy, one.at(50).0))
            .collect();
        let want =
            [(Kind::F, 0, 1, 10), (Kind::F, 0, 2, 12), (Kind::F, 1, 2, 10), (Kind::B, 1, 1, 30)];
        assert_eq!(found, want);
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let group = Group { kind: Kind::F, chunk: 0, busy: 1, times: (1..=10).collect() };
        assert_eq!([0, 10, 50, 90, 100].map(|p| group.at(p).0), [1, 1, 5, 9, 10]);
    }
}
