//! The order of a plan as `torch.distributed.pipelining` reads it: the name of a class, or a file.

use pipeline::torch_csv::{self, TorchRefusal};
use pipeline::{Family, InTorch, Placement};

use super::super::priced::Plan;

/// How torchtitan gets the order of a plan.
pub(super) enum TorchOrder {
    /// By the name of a class.
    Class(&'static str),
    /// As a file; with the class that has chunks where the plan has them.
    File {
        /// Its content.
        csv: String,
        /// The class named beside it, which sets the placement of chunks.
        class: &'static str,
    },
    /// Not at all, for the reason.
    No(&'static str),
}

impl TorchOrder {
    pub(super) fn of(plan: &Plan) -> Self {
        let setup = &plan.finalist.costed().setup;
        if setup.pipeline == 1 {
            return Self::Class("1F1B");
        }
        match setup.family.in_torch() {
            InTorch::Class(name) if takes_microbatches(plan) => Self::Class(name),
            InTorch::No(lacks) => Self::No(lacks),
            InTorch::Class(_) | InTorch::Order => {
                let schedule = plan.finalist.schedule();
                let csv = match torch_csv::write(schedule) {
                    Ok(csv) => csv,
                    Err(TorchRefusal::Losses(..)) => {
                        return Self::No("other than ascending microbatches in the last chunk");
                    }
                    Err(_) => return Self::No("such a placement of chunks"),
                };
                match (schedule.placement(), setup.chunks) {
                    (Placement::Looped, 1) => Self::File { csv, class: "1F1B" },
                    (Placement::Looped, _) => Self::File { csv, class: "Interleaved1F1B" },
                    (Placement::Vee, 2) => Self::File { csv, class: "ZBVZeroBubble" },
                    _ => Self::No("such a placement of chunks"),
                }
            }
        }
    }
}

/// Whether the class of torch takes the microbatches of `plan`: interleaved ones fall into equal groups, and where a
/// device has one stage there are as many as stages.
fn takes_microbatches(plan: &Plan) -> bool {
    let costed = plan.finalist.costed();
    let (shape, microbatches) = (costed.shape, costed.shape.microbatches());
    match costed.setup.family {
        Family::Interleaved => microbatches.is_multiple_of(pipeline::interleaved_group(shape)),
        Family::OneFOneB | Family::GPipe => u64::from(microbatches) >= costed.setup.pipeline,
        _ => true,
    }
}
