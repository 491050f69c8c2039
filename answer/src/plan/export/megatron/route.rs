//! How Megatron-LM gets the order of a plan: it is its own, or that of a file, which `debubble.megatron` runs.

use pipeline::{Choice, Family, Placement, Semantics, Vocabulary};
use plan::{Recompute, Setup};
use planning::{Framework, Question};

use super::super::super::chunk_layers;
use super::super::super::priced::Plan;

/// How a plan runs in Megatron-LM.
pub(in super::super) enum Route {
    /// By arguments alone.
    Own,
    /// By arguments, and the order in the file of this name, which `debubble.megatron` runs in the training loop.
    Runner(String),
    /// Not at all, for the reason.
    No(String),
}

impl Route {
    pub(in super::super) fn of(question: &Question, plan: &Plan) -> Self {
        let own = &plan.finalist.costed().setup;
        if !question.model.frozen().is_none() {
            let reason = "Megatron-LM's scripts of pre-training train all weights; Megatron-Bridge has adapters";
            return Self::No(reason.to_owned());
        }
        if chunk_layers::layout(plan).is_some_and(|layout| layout.spreads_mtp()) {
            return Self::No(
                "Megatron-LM runs all layers of multi-token prediction in one chunk".to_owned(),
            );
        }
        if Framework::Megatron.runs(own, &question.recipe) {
            return Self::Own;
        }
        // With the order of Megatron-LM for as many chunks, the rest of the set-up has to run.
        let family = if own.chunks > 1 { Family::Interleaved } else { Family::OneFOneB };
        let with_own_order = Setup { family, searched: false, ..*own };
        let runs_otherwise = Framework::Megatron.runs(&with_own_order, &question.recipe);
        let is_own = own.family.in_megatron() && !own.searched;
        if own.pipeline == 1 || is_own || !runs_otherwise {
            let name = own.schedule_name();
            return Self::No(match own.family.vocabulary() {
                Vocabulary::Whole if own.pipeline == 1 || is_own => {
                    "Megatron-LM does not run this set-up".to_owned()
                }
                Vocabulary::Whole => format!(
                    "{name} is not in Megatron-LM, which does not run the rest of the set-up with its own orders"
                ),
                _ => format!(
                    "{name} is not in Megatron-LM; the authors' fork is sail-sg/VocabularyParallelism"
                ),
            });
        }
        match lacks(question, plan) {
            None => Self::Runner(format!("{}.txt", own.schedule_name())),
            Some(reason) => Self::No(format!(
                "{} is not in Megatron-LM, and debubble.megatron {reason}{}",
                own.schedule_name(),
                fork(own)
            )),
        }
    }
}

/// Why `debubble.megatron` does not run the order of `plan` in a model that Megatron-LM builds; `None` if it does.
fn lacks(question: &Question, plan: &Plan) -> Option<&'static str> {
    let own = &plan.finalist.costed().setup;
    let schedule = plan.finalist.schedule();
    let overlaps = own.software(&question.recipe).overlap_experts && own.expert > 1;
    let about = own.family.about();
    match schedule.placement() {
        _ if about.semantics == Semantics::Asynchronous => Some("runs no updates in the pipeline"),
        _ if matches!(about.choice, Choice::Segments { .. }) => {
            Some("runs no segments of a sequence")
        }
        _ if schedule.copies().is_some() => Some("copies no activations to the host"),
        Placement::Vee => Some(
            "runs a V in a program that builds stages r and 2p-1-r on rank r, for which Megatron-LM has no argument",
        ),
        Placement::Mirrored => Some("runs no two copies of a stage"),
        Placement::Looped if schedule.orders().iter().any(|order| !order.is_unpaired()) => {
            Some("runs no pairs on two streams")
        }
        Placement::Looped if schedule.has_recompute() => Some("recomputes in no pass of its own"),
        Placement::Looped if schedule.early_forward().is_some() => {
            Some("takes data microbatch by microbatch, which the order does not")
        }
        Placement::Looped if schedule.splits_backward() && own.recompute != Recompute::None => {
            Some("splits no backward of checkpointed layers, as Megatron-LM's checkpoints do not")
        }
        Placement::Looped if overlaps => Some("overlaps no all-to-alls of experts"),
        Placement::Looped => None,
    }
}

/// Who else runs the order of `own`, as the end of a sentence.
fn fork(own: &Setup) -> &'static str {
    let about = own.family.about();
    if own.searched {
        return "";
    }
    if about.choice == Choice::Offload {
        return "; the authors' fork is sail-sg/zero-bubble-pipeline-parallelism";
    }
    match own.family {
        Family::ZbV | Family::VHalf | Family::VMin => {
            "; its fork sail-sg/zero-bubble has --enable-zero-bubble and --zero-bubble-v-schedule"
        }
        _ => "",
    }
}
