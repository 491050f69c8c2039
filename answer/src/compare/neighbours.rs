//! How many other stages were busy while each slot of a step ran.

use pipeline::{Measurement, Step};

/// How much time all stages together had been busy up to each time at which a slot began or ended.
struct Busy {
    /// Such a time, and the sum up to it; ascending.
    moments: Vec<(u64, u128)>,
}

impl Busy {
    fn of(step: &Step) -> Self {
        let mut changes: Vec<(u64, i64)> = Vec::new();
        for one in step.stages.iter().flatten() {
            changes.extend([(one.start.0, 1), (one.end.0, -1)]);
        }
        changes.sort_unstable();
        let mut moments: Vec<(u64, u128)> = Vec::with_capacity(changes.len());
        let (mut stages, mut sum, mut last) = (0i64, 0u128, 0);
        for (time, change) in changes {
            sum += u128::from(time - last) * u128::from(stages.unsigned_abs());
            (stages, last) = (stages + change, time);
            moments.push((time, sum));
        }
        Self { moments }
    }

    /// The sum up to `time`, at which a slot begins or ends.
    fn up_to(&self, time: u64) -> u128 {
        let at = self.moments.partition_point(|&(moment, _)| moment < time);
        self.moments.get(at).map_or(0, |&(_, sum)| sum)
    }
}

/// For each slot of `step`, by stage and in order, the nanoseconds that other stages were busy while it ran,
/// all of them added up: divided by how long it ran, the mean number of busy neighbours.
pub(super) fn busy_beside(step: &Step) -> Vec<Vec<u128>> {
    let busy = Busy::of(step);
    let of = |one: &Measurement| {
        let all = busy.up_to(one.end.0) - busy.up_to(one.start.0);
        all.saturating_sub(u128::from((one.end - one.start).0))
    };
    step.stages.iter().map(|slots| slots.iter().map(of).collect()).collect()
}

#[cfg(test)]
mod tests {
    use pipeline::{Nanos, Pass, Slot};

    use super::*;

    #[test]
    fn time_beside_others_is_added_up_over_all_of_them() {
        let slot = |chunk, microbatch, start, end| Measurement {
            slot: Slot::One(Pass::f(chunk, microbatch)),
            arrived: None,
            start: Nanos(start),
            end: Nanos(end),
        };
        let stages = vec![
            vec![slot(0, 0, 0, 10), slot(0, 1, 10, 30)],
            vec![slot(1, 0, 10, 20), slot(1, 1, 25, 45)],
            vec![slot(2, 0, 20, 20), slot(2, 1, 28, 40)],
        ];
        let found = busy_beside(&Step { stages, ..Step::default() });
        assert_eq!(found, [vec![0, 10 + 5 + 2], vec![10, 5 + 12], vec![0, 2 + 12]]);
    }
}
