//! Which training frameworks run a schedule.
//!
//! Sources, read in 2026: Megatron-LM's `core/pipeline_parallel/schedules.py` has 1F1B and interleaved
//! 1F1B (`combined_1f1b` lays the all-to-all of experts beside compute in the order of these two), and
//! loads no order from outside. `torch.distributed.pipelining` has classes by name and reads any
//! order of whole microbatches as CSV; torchtitan's `pipeline_parallel.py` hands both through, with as many
//! chunks on every stage, looped, or two in a V.

use super::{Choice, Family, Semantics};
use crate::shape::{Placement, Vocabulary};

/// How `torch.distributed.pipelining` runs a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InTorch {
    /// A class of this name makes the same order.
    Class(&'static str),
    /// An order in a CSV file.
    Order,
    /// Not at all: what its orders have no word for.
    No(&'static str),
}

impl Family {
    /// Whether Megatron-LM has it.
    #[must_use]
    pub const fn in_megatron(self) -> bool {
        self.about().in_megatron
    }

    /// How `torch.distributed.pipelining` runs it.
    ///
    /// Its classes of zero bubble schedules and DualPipeV make orders for other times than a problem
    /// has, so those are [`InTorch::Order`].
    #[must_use]
    pub fn in_torch(self) -> InTorch {
        let about = self.about();
        if let Some(class) = about.torch_class {
            return InTorch::Class(class);
        }
        match about.choice {
            _ if about.vocabulary != Vocabulary::Whole => {
                InTorch::No("passes of the output layer in shards")
            }
            Choice::Offload => InTorch::No("copies to the host"),
            Choice::Segments { .. } => InTorch::No("segments of a sequence"),
            _ if about.placement == Placement::Mirrored => InTorch::No("chunk on two stages"),
            _ if about.semantics == Semantics::Asynchronous => {
                InTorch::No("updates while the pipeline runs")
            }
            Choice::Nothing | Choice::Group => InTorch::Order,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_that(is: impl Fn(Family) -> bool) -> Vec<&'static str> {
        Family::ALL.into_iter().filter(|&family| is(family)).map(Family::name).collect()
    }

    #[test]
    fn frameworks_run_what_they_have_words_for() {
        assert_eq!(all_that(Family::in_megatron), ["1f1b", "1f1b-i", "1f1b-i-overlap"]);
        let no = all_that(|family| matches!(family.in_torch(), InTorch::No(_)));
        let expected = [
            "po-h",
            "po-f",
            "seq1f1b",
            "dualpipe",
            "chimera",
            "pipedream",
            "pipedream-2bw",
            "vocab-1",
            "vocab-2",
            "vocab-1-timed",
            "vocab-2-timed",
            "interlaced",
            "v-half-vocab-1",
            "v-half-vocab-2",
            "1f1b-i-vocab-1",
            "1f1b-i-vocab-2",
            "zb-h1-vocab-1",
            "zb-h1-vocab-2",
            "zb-2p-vocab-1",
            "zb-2p-vocab-2",
            "zb-v-vocab-1",
            "zb-v-vocab-2",
            "v-min-vocab-1",
            "v-min-vocab-2",
            "dualpipe-v-vocab-1",
            "dualpipe-v-vocab-2",
        ];
        assert_eq!(no, expected);
        let classes = all_that(|family| matches!(family.in_torch(), InTorch::Class(_)));
        assert_eq!(classes, ["gpipe", "1f1b", "1f1b-i", "looped-bfs"]);
    }
}
