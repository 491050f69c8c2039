//! The plans that the training framework of a question can run.
//!
//! Which schedules a framework has is a fact of each family (`pipeline/src/family/frameworks.rs`); this
//! module has its further restrictions. Sources, read in 2026: Megatron-LM's
//! `core/pipeline_parallel/schedules.py` and `arguments.py`; torchtitan's `distributed/pipeline_parallel.py`
//! and `distributed/fsdp.py`.

use pipeline::{Family, InTorch, Placement};
use plan::{Module, Modules, Precision, Recipe, Recompute, Setup, Software, Transformer, Zero};

/// A training framework, or any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framework {
    /// No framework in particular: every plan that can be simulated.
    Any,
    /// Megatron-LM.
    Megatron,
    /// torchtitan, and so `torch.distributed.pipelining`.
    Torchtitan,
}

impl Framework {
    /// Actual frameworks, without `Any`.
    pub const REAL: [Self; 2] = [Self::Megatron, Self::Torchtitan];

    /// The framework of that name in a question.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "any" => Some(Self::Any),
            "megatron" => Some(Self::Megatron),
            "torchtitan" => Some(Self::Torchtitan),
            _ => None,
        }
    }

    /// The name that its users know.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Any => "any framework",
            Self::Megatron => "Megatron-LM",
            Self::Torchtitan => "torchtitan",
        }
    }

    /// `software` as it runs in this framework: constants are those of Megatron-LM, and of torchtitan, whose
    /// attention and other kernels were measured to take longer.
    pub fn runs_like(self, software: Software) -> Software {
        match self {
            Self::Any | Self::Megatron => software,
            Self::Torchtitan => software.of_torchtitan(),
        }
    }

    /// Bytes of a logit while the loss is computed: see [`plan::Recipe::logit_bytes`].
    pub const fn logit_bytes(self) -> u64 {
        match self {
            Self::Any | Self::Megatron => 6,
            Self::Torchtitan => 12,
        }
    }

    /// Whether it takes an order that no schedule of its own makes.
    pub const fn takes_orders(self) -> bool {
        matches!(self, Self::Any | Self::Torchtitan)
    }

    /// Whether it runs the schedule of `setup` only with as many microbatches as stages, and there are fewer: Megatron-LM
    /// wants groups of p to m where it interleaves, torch where each device has one stage.
    pub(crate) fn lacks_microbatches(self, setup: &Setup, batch: u64) -> bool {
        let needs = match self {
            Self::Any => false,
            Self::Megatron => {
                matches!(setup.family, Family::Interleaved | Family::InterleavedOverlap)
            }
            Self::Torchtitan => {
                matches!(setup.family, Family::OneFOneB | Family::GPipe) && !setup.searched
            }
        };
        let count = setup.microbatches(batch);
        needs && setup.pipeline > 1 && count.is_some_and(|count| count < setup.pipeline)
    }

    /// Whether Megatron-LM would overlap the communication of experts where there is none.
    pub(crate) fn overlaps_nothing(setup: &Setup) -> bool {
        setup.family == Family::InterleavedOverlap && setup.expert <= 1
    }

    /// Whether it has the schedule `family`.
    pub fn has_schedule(self, family: Family) -> bool {
        match self {
            Self::Any => true,
            Self::Megatron => family.in_megatron(),
            Self::Torchtitan => !matches!(family.in_torch(), InTorch::No(_)),
        }
    }

    /// Whether it can compute `recompute` again. The selective recomputation of torchtitan is another:
    /// it keeps some matrix products, and has no attention that writes scores to memory.
    pub fn has_recompute(self, recompute: Recompute) -> bool {
        let of_torchtitan = Modules::of(&[Module::SelectiveOp]).map(Recompute::Modules);
        match self {
            Self::Any => true,
            Self::Megatron => recompute == Recompute::Full || !recompute.has(Module::SelectiveOp),
            Self::Torchtitan => {
                matches!(recompute, Recompute::None | Recompute::Full)
                    || Some(recompute) == of_torchtitan
            }
        }
    }

    /// Whether it has the layers of `model`: torchtitan has no indexer.
    #[must_use]
    pub fn has_layers(self, model: &Transformer) -> bool {
        self != Self::Torchtitan || model.indexer.is_none()
    }

    /// Whether all stages can share embedding and head.
    pub fn has_vocabulary_parallel(self) -> bool {
        self == Self::Any
    }

    /// Whether it runs `setup` by `recipe`. Of the formats that are planned, torchtitan has no 8 bits with a scale for
    /// each block of 128 x 128 weights.
    pub fn runs(self, setup: &Setup, recipe: &Recipe) -> bool {
        let has_format = self != Self::Torchtitan || recipe.precision != Precision::Fp8Block;
        has_format && self.runs_on(setup, recipe.batch, &setup.software(recipe))
    }

    /// The first of the real ones that runs `setup` by `recipe`.
    #[must_use]
    pub fn that_runs(setup: &Setup, recipe: &Recipe) -> Option<Self> {
        Self::REAL.into_iter().find(|one| one.runs(setup, recipe))
    }

    /// Whether it runs `setup` on batches of `batch` sequences with `software`.
    fn runs_on(self, setup: &Setup, batch: u64, software: &Software) -> bool {
        let stages = setup.pipeline;
        let has_order = self.has_schedule(setup.family) && (self.takes_orders() || !setup.searched);
        let can = (stages == 1 || has_order)
            && self.has_recompute(setup.recompute)
            && (self.has_vocabulary_parallel() || !setup.vocabulary_parallel)
            && self.has_options(setup.options)
            && !self.lacks_microbatches(setup, batch)
            && !self.lacks_overlap(setup, software);
        can && match self {
            Self::Any => true,
            Self::Megatron => stages == 1 || !Self::overlaps_nothing(setup),
            // Its V has two chunks. FSDP keeps parameters and gradients whole while a pipeline
            // runs, which is stage 1 of ZeRO; without a pipeline it is stage 2 or 3.
            Self::Torchtitan => {
                let wave = setup.family.about().placement == Placement::Vee && setup.chunks != 2;
                (stages == 1 || !wave) && (setup.zero != Zero::Optimizer || stages > 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plan::{Reshard, Split};

    use super::*;

    const PLAIN: Setup = Setup {
        data: 2,
        tensor: 1,
        pipeline: 4,
        context: 1,
        expert: 1,
        expert_tensor: 1,
        zero: Zero::Optimizer,
        reshard: Reshard::AfterForward,
        shard_groups: 1,
        microbatch: 1,
        chunks: 1,
        family: Family::OneFOneB,
        searched: false,
        recompute: Recompute::None,
        split: Split::Even,
        vocabulary_parallel: false,
        options: plan::Options::NONE,
    };

    /// By `Megatron`, then `Torchtitan`, at 8 microbatches.
    fn runs(setup: Setup) -> [bool; 2] {
        let software = Software::default();
        Framework::REAL.map(|framework| framework.runs_on(&setup, 16, &software))
    }

    #[test]
    fn frameworks_differ_in_what_they_run() {
        assert_eq!(runs(PLAIN), [true, true]);
        let two = Setup { chunks: 2, ..PLAIN };
        assert_eq!(runs(Setup { family: Family::Interleaved, ..two }), [true, true]);
        assert_eq!(runs(Setup { family: Family::ZbV, ..two }), [false, true]);
        assert_eq!(runs(Setup { family: Family::Hanayo, chunks: 4, ..PLAIN }), [false, false]);
        assert_eq!(runs(Setup { family: Family::PoH, ..two }), [false, false]);
        assert_eq!(runs(Setup { vocabulary_parallel: true, ..PLAIN }), [false, false]);
        assert_eq!(runs(Setup { recompute: Recompute::Selective, ..PLAIN }), [true, false]);
        // One stage has no schedule, and torchtitan no ZeRO stage 1 there.
        assert_eq!(runs(Setup { pipeline: 1, ..PLAIN }), [true, false]);
        assert_eq!(runs(Setup { pipeline: 1, zero: Zero::Parameters, ..PLAIN }), [true, true]);
        // Fewer microbatches than stages cannot be interleaved in Megatron-LM.
        let few = Setup { family: Family::Interleaved, microbatch: 4, ..two };
        assert_eq!(runs(few), [false, true]);
        // Nor can those of one stage per device in torch.
        assert_eq!(runs(Setup { microbatch: 4, ..PLAIN }), [true, false]);
    }
}
