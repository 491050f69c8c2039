//! The order of a plan as `torch.distributed.pipelining` reads it: a line of each stage's passes, in CSV
//! (`compute_only`: F, I, W, B, and a pair as one cell).

use pipeline::{InTorch, Kind, Order, Pass, Placement, Schedule, Slot};

use super::answer::Plan;

/// How torchtitan gets the order of a plan.
pub enum TorchOrder {
    /// By the name of a class.
    Class(&'static str),
    /// As a file; with the class that has chunks where the plan has them.
    File {
        /// Its content.
        csv: String,
        /// The class named beside it, which says where chunks lie.
        class: &'static str,
    },
    /// Not at all, for the reason.
    No(&'static str),
}

impl TorchOrder {
    /// That of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let setup = &plan.finalist.costed().setup;
        if setup.pipeline == 1 {
            return Self::Class("1F1B");
        }
        match setup.family.in_torch() {
            InTorch::Class(name) => Self::Class(name),
            InTorch::No(lacks) => Self::No(lacks),
            InTorch::Order => {
                let schedule = plan.finalist.schedule();
                match (schedule.placement(), setup.chunks) {
                    _ if !losses_are_in_order(schedule) => {
                        Self::No("other than ascending microbatches in the last chunk")
                    }
                    (Placement::Looped, 1) => Self::file(schedule, "1F1B"),
                    (Placement::Looped, _) => Self::file(schedule, "Interleaved1F1B"),
                    (Placement::Vee, 2) => Self::file(schedule, "ZBVZeroBubble"),
                    _ => Self::No("such a placement of chunks"),
                }
            }
        }
    }

    fn file(schedule: &Schedule, class: &'static str) -> Self {
        let lines = schedule.orders().iter().map(|order| line(order) + "\n");
        Self::File { csv: lines.collect(), class }
    }
}

/// Whether the last chunk's forwards ascend, as torch keeps losses in a list.
fn losses_are_in_order(schedule: &Schedule) -> bool {
    let last = schedule.shape().chunks() - 1;
    schedule.orders().iter().all(|order| {
        let own = order.passes().iter().filter(|pass| pass.kind == Kind::F && pass.chunk == last);
        own.map(|pass| pass.microbatch).is_sorted()
    })
}

fn line(order: &Order) -> String {
    let cells = order.slots().map(|slot| match slot {
        Slot::One(pass) => cell(pass),
        Slot::Pair(one, other) => format!("({};{})OVERLAP_F_B", cell(one), cell(other)),
    });
    cells.collect::<Vec<_>>().join(",")
}

/// A pass in torch's letters: its B is both parts of the backward, I the one for the input.
fn cell(pass: Pass) -> String {
    let letter = match pass.kind {
        Kind::F => "F",
        Kind::B => "I",
        Kind::W => "W",
        Kind::BW => "B",
        // Families with these are none of torch's.
        Kind::S | Kind::T => "",
    };
    format!("{}{letter}{}", pass.chunk, pass.microbatch)
}
