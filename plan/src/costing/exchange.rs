//! Communication between replicas once a step: gradients reduced, and parameters gathered.

use super::{Costing, HALF};
use crate::layer::longer;
use crate::machine::{Machine, gathered};
use crate::memory::Parameters;
use crate::model::number;
use crate::optimizer::Update;
use crate::setup::{Reshard, Zero};
use crate::times::Times;

/// Of an exchange that runs bucket by bucket beside the backward, the share that comes after it: the
/// last bucket. Assumed.
const LAST_BUCKET: f64 = 1.0 / 8.0;
/// Bytes moved in memory for a parameter that is gathered for a pass: read in 16 bits and written in the
/// format of products. Counted.
const CAST: f64 = 3.0;
/// The same for a gradient that is reduced in every microbatch: read and written where it is handed over.
const COPIED: f64 = 4.0;
/// Of collectives that run beside every pass, the share that nothing hides. Assumed.
const EXPOSED: f64 = 0.1;

/// Bytes per second of each member of a ring, given its size and the distance of its members in
/// devices.
type Ring = fn(&Machine, u64, u64) -> f64;

impl Costing<'_> {
    /// Gradients of all stages reduced side by side, parameters gathered, and the tied embedding between
    /// its two stages, in seconds, as far as nothing hides them: of the trained parameters; where replicas shard
    /// parameters, frozen ones are gathered, too.
    pub(super) fn exchange(
        &self,
        [parameters, trained]: [&[Parameters]; 2],
        stages: &[usize],
        passes: &[Times],
    ) -> f64 {
        let recipe = self.inputs.recipe;
        let bytes = match self.setup.zero {
            Zero::None => 2.0 * number(recipe.gradient_bytes),
            // In every microbatch; of ZeRO 2 the weights are gathered once.
            Zero::Parameters if self.reshards() => 0.0,
            Zero::Gradients if self.reshards() => HALF,
            // Whoever makes a matrix orthogonal needs all of its gradient, so that all replicas get all of them.
            Zero::Optimizer if recipe.optimizer.update == Update::Muon => {
                2.0 * number(recipe.gradient_bytes) + HALF
            }
            _ => number(recipe.gradient_bytes) + HALF,
        };
        let backward = self.last_backward(stages, passes);
        let work = self.work(stages, passes);
        let longest = work.iter().copied().fold(0.0, f64::max);
        let gathers_all = self.setup.zero == Zero::Parameters && !self.reshards();
        let one = |(stage, own): (usize, &Parameters)| {
            let frozen = parameters[stage].without(*own);
            let frozen = if gathers_all { frozen } else { Parameters::default() };
            let time = bytes * self.ring_seconds(*own, stage, Machine::ring)
                + HALF * self.ring_seconds(frozen, stage, Machine::ring);
            match (recipe.overlap_gradients, recipe.overlap_parameters) {
                (true, true) => self.exposed(time, longest),
                (true, false) => (time - backward[stage]).max(0.0),
                (false, _) => time,
            }
        };
        let reduced = trained.iter().enumerate().map(one).fold(0.0, f64::max);
        reduced + self.tied_embedding()
    }

    /// Seconds of an exchange of `time` that nothing hides, where every chunk reduces its gradients
    /// while other chunks still run and gathers its parameters before other chunks need theirs. The
    /// exchange of the last chunk has nothing beside it; the rest overlaps with the passes of a round
    /// of microbatches, of `longest` each.
    fn exposed(&self, time: f64, longest: f64) -> f64 {
        let v = number(u64::from(self.shape.chunks_per_stage()));
        if self.setup.pipeline == 1 {
            return time * LAST_BUCKET + (time * (1.0 - LAST_BUCKET) - longest).max(0.0);
        }
        let others = (v - 1.0) / v;
        let round =
            self.shape.microbatches().min(u32::try_from(self.setup.pipeline).unwrap_or(u32::MAX));
        time / v + (time * others - f64::from(round) * others * longest).max(0.0)
    }

    /// Seconds that a byte of every one of `own` parameters takes in the rings of `stage`: those that no
    /// expert has in the ring of its replicas, those of experts in rings of their own.
    fn ring_seconds(&self, own: Parameters, stage: usize, ring: Ring) -> f64 {
        let machine = self.machines[stage];
        let replicas = self.setup.data * self.setup.context;
        let dense = gathered(own.dense, replicas, ring(machine, replicas, self.setup.tensor));
        let stride = self.setup.expert * self.setup.expert_tensor;
        let replicas = self.setup.expert_replicas();
        dense + gathered(own.experts, replicas, machine.expert_ring(replicas, stride))
    }

    /// `times` of a chunk of `stage` with the collectives of ZeRO in every microbatch: parameters
    /// gathered for F and for B, gradients of those that are trained reduced after W.
    pub(super) fn with_gathers(
        &self,
        times: Times,
        [own, trained]: [Parameters; 2],
        stage: usize,
    ) -> Times {
        if self.setup.zero < Zero::Gradients || !self.reshards() {
            return times;
        }
        let chunks = number(u64::from(self.shape.chunks_per_stage()));
        let beside = |pass: f64, own: Parameters, bytes: f64, moved: f64| {
            let time = bytes * (self.ring_seconds(own, stage, Machine::sharded_ring) / chunks);
            let moved = self.machines[stage].stream(own.sum() / chunks * moved);
            longer(pass, time) + EXPOSED * time + moved
        };
        let gradient = number(self.inputs.recipe.gradient_bytes);
        let backward_weight = beside(times.backward_weight, trained, gradient, COPIED);
        if self.setup.zero == Zero::Gradients {
            return Times { backward_weight, ..times };
        }
        let gathered = |pass: f64| beside(pass, own, HALF, CAST);
        let has_backward = self.has_backward(times);
        Times {
            forward: gathered(times.forward),
            backward_input: if has_backward { gathered(times.backward_input) } else { 0.0 },
            backward_weight,
        }
    }

    /// Whether gathered parameters are freed in every microbatch.
    fn reshards(&self) -> bool {
        self.setup.reshard == Reshard::AfterForward
    }

    /// The gradient of a tied embedding between the first and the last stage, in seconds.
    fn tied_embedding(&self) -> f64 {
        let model = self.inputs.model;
        let is_tied = model.tied && model.trains_head();
        if !is_tied || self.setup.pipeline == 1 || self.setup.vocabulary_parallel {
            return 0.0;
        }
        let embedding = number(model.vocabulary * model.hidden) / number(self.setup.tensor);
        let bytes = embedding * number(self.inputs.recipe.gradient_bytes);
        self.hop(bytes, 0, self.shape.stages() - 1)
    }

    /// The backward of the last microbatch on each stage, in seconds.
    fn last_backward(&self, stages: &[usize], passes: &[Times]) -> Vec<f64> {
        self.sums(stages, passes, |times| times.backward_input + times.backward_weight)
    }

    /// All passes of a microbatch on each stage, in seconds.
    fn work(&self, stages: &[usize], passes: &[Times]) -> Vec<f64> {
        self.sums(stages, passes, Times::sum)
    }

    fn sums(&self, stages: &[usize], passes: &[Times], of: impl Fn(Times) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.shape.stages()];
        for (&stage, times) in stages.iter().zip(passes) {
            sums[stage] += of(*times);
        }
        sums
    }
}

impl Machine {
    /// Bytes per second of each member of a ring of experts' gradients, with members `stride` devices
    /// apart.
    fn expert_ring(&self, members: u64, stride: u64) -> f64 {
        if members.saturating_mul(stride) <= self.node {
            return self.link * self.efficiency.link;
        }
        self.network * self.efficiency.expert_ring
    }

    /// Fixed overhead of a step on `devices`, in seconds.
    pub(super) fn step_latency(&self, devices: u64) -> f64 {
        let doublings = libm::log2(number(devices) / 64.0).max(0.0);
        self.efficiency.step_latency + self.efficiency.step_doubling * doublings
    }
}
