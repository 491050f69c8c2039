//! All set-ups of a question on a cluster.

use pipeline::{Chunks, Family, Vocabulary};

use crate::model::Recompute;
use crate::setup::{Cluster, Reshard, Setup, Split, Zero};
use crate::software::Options;

/// The most set-ups of one cluster.
pub const MAX_SETUPS: usize = 200_000;

/// The values that each part of a set-up may take; the replicas follow.
#[derive(Clone, PartialEq, Debug)]
pub struct Space {
    /// t.
    pub tensor: Vec<u64>,
    /// p.
    pub pipeline: Vec<u64>,
    /// c.
    pub context: Vec<u64>,
    /// e.
    pub expert: Vec<u64>,
    pub zero: Vec<Zero>,
    /// b.
    pub microbatch: Vec<u64>,
    /// v, for schedules that have a choice.
    pub chunks: Vec<u64>,
    /// Schedules.
    pub families: Vec<Family>,
    /// Recomputation.
    pub recompute: Vec<Recompute>,
    /// Splits of layers into chunks.
    pub split: Vec<Split>,
    /// Whether the vocabulary is shared by all stages.
    pub vocabulary_parallel: Vec<bool>,
}

impl Space {
    /// The set-ups on `cluster` whose groups multiply to its devices; `None` if there are more than
    /// [`MAX_SETUPS`].
    #[must_use]
    pub fn setups(&self, cluster: &Cluster) -> Option<Vec<Setup>> {
        let lists = [
            self.tensor.len(),
            self.pipeline.len(),
            self.context.len(),
            self.expert.len(),
            self.microbatch.len(),
        ];
        let products = lists.iter().fold(1, |product: usize, &len| product.saturating_mul(len));
        if products > 10 * MAX_SETUPS {
            return None;
        }
        let mut all = Vec::new();
        for groups in self.groups(cluster.devices()) {
            for &family in &self.families {
                // A pipeline of one stage has no order to choose: the first schedule stands for
                // all.
                if groups.pipeline == 1 && family != Family::OneFOneB {
                    continue;
                }
                for chunks in self.chunks_of(family) {
                    self.add_rest(&Setup { family, chunks, ..groups }, &mut all);
                    if all.len() > MAX_SETUPS {
                        return None;
                    }
                }
            }
        }
        Some(all)
    }

    /// Every choice of t, p, c, e and b whose rest is replicas; the other parts are the first ones.
    fn groups(&self, devices: u64) -> Vec<Setup> {
        let mut all = Vec::new();
        for (&tensor, &pipeline) in pairs(&self.tensor, &self.pipeline) {
            for (&context, &expert) in pairs(&self.context, &self.expert) {
                let model = tensor.saturating_mul(pipeline).saturating_mul(context);
                if model == 0 || !devices.is_multiple_of(model) {
                    continue;
                }
                all.extend(self.microbatch.iter().map(|&microbatch| Setup {
                    data: devices / model,
                    tensor,
                    pipeline,
                    context,
                    expert,
                    expert_tensor: tensor,
                    zero: Zero::None,
                    reshard: Reshard::AfterForward,
                    shard_groups: 1,
                    microbatch,
                    chunks: 1,
                    family: Family::OneFOneB,
                    searched: false,
                    recompute: Recompute::None,
                    split: Split::Even,
                    vocabulary_parallel: false,
                    options: Options::default(),
                }));
            }
        }
        all
    }

    /// The numbers of chunks per stage that `family` is tried with.
    fn chunks_of(&self, family: Family) -> Vec<u64> {
        match family.about().chunks {
            Chunks::Exactly(chunks) => vec![u64::from(chunks)],
            // With one chunk, an interleaved schedule is the plain one.
            Chunks::Any { .. } => {
                self.chunks.iter().copied().filter(|&chunks| chunks > 1).collect()
            }
        }
    }

    fn add_rest(&self, setup: &Setup, all: &mut Vec<Setup>) {
        // A schedule with passes for it has the vocabulary on all stages.
        let shared = match setup.family.vocabulary() {
            Vocabulary::Whole => &self.vocabulary_parallel[..],
            Vocabulary::OneBarrier | Vocabulary::TwoBarriers => &[true],
        };
        for (&recompute, &zero) in pairs(&self.recompute, &self.zero) {
            for (&split, &vocabulary_parallel) in pairs(&self.split, shared) {
                // One stage has no layers to split and no activations to share.
                let single = setup.pipeline == 1;
                if single && (split != self.split[0] || vocabulary_parallel) {
                    continue;
                }
                // Resharded in every microbatch: parameters that stay gathered are held, and exchanged,
                // as under stage 1.
                all.push(Setup { recompute, zero, split, vocabulary_parallel, ..*setup });
            }
        }
    }
}

fn pairs<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}
