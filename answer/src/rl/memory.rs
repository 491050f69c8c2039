//! Whether the training of a step fits, as the planner says it of a set-up.

use plan::{Inputs, Orders};
use planning::rl::TrainingSetup;
use question::Diagnostic;
use question::values::packing::StrategyKey;
use serde::Serialize;

use crate::plan::setup_report::fit_of;

/// The memory of a device while the policy is trained: parameters, gradients, the optimizer's state and activations,
/// without engines, a critic or anything offloaded.
#[derive(Serialize, Clone, Debug)]
pub struct TrainingMemory {
    /// Whether every device surely holds its part.
    pub fits: bool,
    /// Whether every device holds its part if it holds no more than predicted.
    pub may_fit: bool,
    /// The most that a device holds.
    pub bytes: u64,
    /// Shortage of the device that lacks most, if one does.
    pub memory_shortfall_bytes: Option<u64>,
    /// The same in words.
    pub verdict: String,
}

impl TrainingMemory {
    /// Of `training` by `strategy`; nothing where the planner knows no such set-up.
    ///
    /// # Errors
    /// If the error of memory cannot be read.
    pub(super) fn of(
        training: &TrainingSetup,
        strategy: StrategyKey,
    ) -> Result<Option<Self>, Diagnostic> {
        let error = measured::memory_error()?;
        let error = match strategy {
            StrategyKey::Fsdp => error.torchtitan,
            StrategyKey::Megatron => error.megatron,
        };
        let mut recipe = training.recipe.clone();
        recipe.memory_budget.error = error;
        let inputs = Inputs { recipe: &recipe, ..training.inputs() };
        let Ok(run) = inputs.run_single(&training.setup, &Orders::default()) else {
            return Ok(None);
        };
        let shortage = run.shortage;
        let shortfall = shortage.map(|one| one.overflow.needs.0 - one.overflow.has.0);
        let may_fit = shortage.is_none_or(|one| one.may_hold.is_some());
        let verdict = format!("training {}", fit_of(&run.finalist, shortage));
        let cure = "more --devices, a larger --sequence-parallel or a smaller --max-tokens; what the framework offloads \
                    is not counted";
        Ok(Some(Self {
            fits: shortage.is_none(),
            may_fit,
            bytes: run.finalist.evaluation.fullest().1.sum().0,
            memory_shortfall_bytes: shortfall,
            verdict: if may_fit { verdict } else { format!("{verdict}: {cure}") },
        }))
    }
}
