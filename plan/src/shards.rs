//! The output layer in shards over all stages (Vocabulary Parallelism, arXiv 2411.05288): times of S, T
//! and the collectives between them. The input layer's lookup is left out, as it is where the embedding
//! is whole.

use pipeline::{Collectives, Costs, ShardTimes, Vocabulary};

use crate::costing::Costing;
use crate::layer;
use crate::machine::{Machine, all_reduce};
use crate::model::number;
use crate::times::nanos;

/// Bytes of the statistics of a token: maximum and sum, in 32 bits.
const STATISTICS: f64 = 8.0;

impl<'a> Costing<'a> {
    /// `costs` with the times of the shards, if the schedule has any.
    pub(crate) fn with_shards(&self, costs: Costs) -> Costs {
        let vocabulary = self.setup.family.vocabulary();
        if vocabulary == Vocabulary::Whole {
            return costs;
        }
        let [before, after] = vocabulary.thirds().map(f64::from);
        let of_stage = |machine: &&'a Machine| {
            let third = layer::shard(&self.task(machine), self.shape.stages());
            ShardTimes { before: nanos(before * third), after: nanos(after * third) }
        };
        costs.with_shards(self.machines.iter().map(of_stage).collect(), self.collectives())
    }

    /// The last chunk's output goes to all stages, its gradient comes together from all, each along
    /// a ring in one go; between them the statistics of the loss are reduced for all. With one
    /// barrier, statistics and gradient are reduced behind S.
    fn collectives(&self) -> Collectives {
        let Self { inputs, setup, .. } = self;
        let tokens = number(setup.microbatch) * number(inputs.model.sequence);
        let statistics = tokens / number(setup.context) * STATISTICS;
        let (stages, stride) = (setup.pipeline, setup.stage_stride());
        let latency = |machine: &Machine| machine.efficiency.collective_latency;
        let along = self
            .slowest(|machine| self.message() / machine.ring(stages, stride) + latency(machine));
        let statistics = self.slowest(|machine| {
            all_reduce(statistics, stages, machine.ring(stages, stride), latency(machine))
        });
        let behind_s = match setup.family.vocabulary() {
            Vocabulary::OneBarrier => statistics + along,
            Vocabulary::Whole | Vocabulary::TwoBarriers => statistics,
        };
        Collectives {
            broadcast: nanos(along),
            statistics: nanos(behind_s),
            hidden_gradient: nanos(along),
        }
    }
}
