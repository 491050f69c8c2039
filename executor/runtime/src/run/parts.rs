//! The parts of collective values that each stage sends and receives where the output layer is in shards.

use pipeline::{Kind, Pass, Schedule, Value, Vocabulary};

/// The stages of a pipeline whose output layer is in shards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    stages: usize,
    last: u16,
    /// The stage of the last chunk.
    home: usize,
    vocabulary: Vocabulary,
}

impl Parts {
    /// The stages of `schedule`.
    pub(super) fn of(schedule: &Schedule) -> Self {
        let shape = schedule.shape();
        let last = shape.chunks() - 1;
        let home = schedule.placement().stage(shape, last, 0);
        Self { stages: shape.stages(), last, home, vocabulary: shape.vocabulary() }
    }

    /// The parts that `pass` of `stage` sends, and their destination stages, in order. With one
    /// barrier, S also sends its part of the hidden gradient.
    pub(super) fn sent(self, stage: usize, pass: Pass) -> Vec<(Value, usize)> {
        let Pass { kind, chunk, microbatch } = pass;
        let to_all = |value| self.others(stage).map(move |to| (value, to));
        let hidden = Some((Value::HiddenGradient { microbatch }, self.home));
        let hidden = hidden.filter(|_| stage != self.home);
        match (self.vocabulary, kind) {
            (Vocabulary::Whole, _) => Vec::new(),
            (_, Kind::F) if chunk == self.last => {
                to_all(Value::Output { chunk, microbatch }).collect()
            }
            (Vocabulary::OneBarrier, Kind::S) => {
                to_all(Value::Statistics { microbatch }).chain(hidden).collect()
            }
            (_, Kind::S) => to_all(Value::Statistics { microbatch }).collect(),
            (Vocabulary::TwoBarriers, Kind::T) => hidden.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The parts that `pass` of `stage` receives, and their source stages.
    pub(super) fn needed(self, stage: usize, pass: Pass) -> Vec<(Value, usize)> {
        let Pass { kind, chunk, microbatch } = pass;
        let of_all = |value| self.others(stage).map(move |from| (value, from));
        let (statistics, hidden) =
            (Value::Statistics { microbatch }, Value::HiddenGradient { microbatch });
        let is_behind = matches!(kind, Kind::B | Kind::BW) && chunk == self.last;
        match (self.vocabulary, kind) {
            (Vocabulary::Whole, _) => Vec::new(),
            (_, Kind::S) => {
                let output = (Value::Output { chunk: self.last, microbatch }, self.home);
                Some(output).filter(|_| stage != self.home).into_iter().collect()
            }
            (_, Kind::T) => of_all(statistics).collect(),
            (Vocabulary::OneBarrier, _) if is_behind => {
                of_all(statistics).chain(of_all(hidden)).collect()
            }
            (Vocabulary::TwoBarriers, _) if is_behind => of_all(hidden).collect(),
            _ => Vec::new(),
        }
    }

    /// The value that `pass` needs and that all stages make, its own stage included.
    pub(super) fn own(self, pass: Pass) -> Option<Value> {
        let microbatch = pass.microbatch;
        let is_behind = matches!(pass.kind, Kind::B | Kind::BW) && pass.chunk == self.last;
        match (self.vocabulary, pass.kind) {
            (Vocabulary::OneBarrier | Vocabulary::TwoBarriers, Kind::T) => {
                Some(Value::Statistics { microbatch })
            }
            (Vocabulary::OneBarrier, _) if is_behind => Some(Value::Statistics { microbatch }),
            (Vocabulary::TwoBarriers, _) if is_behind => Some(Value::HiddenGradient { microbatch }),
            _ => None,
        }
    }

    fn others(self, stage: usize) -> impl Iterator<Item = usize> {
        (0..self.stages).filter(move |&other| other != stage)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use pipeline::{Collectives, Costs, Family, Nanos, PassTimes, Problem, Shape, ShardTimes};

    #[test]
    fn what_one_stage_needs_another_gives() {
        let us = Nanos(1_000);
        let shape = Shape::new(3, 1, 4).unwrap();
        let times = PassTimes::new(us, us, us);
        let shards = vec![ShardTimes { before: us, after: us }; 3];
        let costs = Costs::uniform(shape, times, us).with_shards(shards, Collectives::default());
        for family in [Family::Vocab1, Family::Vocab2, Family::Interlaced1F1B] {
            let problem = Problem::new(shape, costs.clone()).unwrap();
            let schedule = family.schedule(&problem).unwrap();
            let parts = Parts::of(&schedule);
            let (mut given, mut needed) = (BTreeSet::new(), BTreeSet::new());
            for (stage, order) in schedule.orders().iter().enumerate() {
                for pass in order.slots().flat_map(pipeline::Slot::passes) {
                    let gives = parts.sent(stage, pass).into_iter();
                    given.extend(gives.map(|(value, to)| (value, stage, to)));
                    let needs = parts.needed(stage, pass).into_iter();
                    needed.extend(needs.map(|(value, from)| (value, from, stage)));
                }
            }
            assert_eq!(given, needed, "{}", family.name());
            // Per microbatch the output to 2, statistics from each to each, and 2 hidden gradients.
            assert_eq!(given.len(), 4 * (2 + 6 + 2), "{}", family.name());
        }
    }
}
