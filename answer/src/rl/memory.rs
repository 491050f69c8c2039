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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use crate::Tabular as _;
    use question::Context;
    use question::rl::RlKeys;

    use crate::rl::{RlAnswer, rl};

    fn ask(machine: &str, devices: u64) -> RlAnswer {
        let host: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let keys = RlKeys {
            model: Some("qwen2.5-7b".into()),
            machine: Some(machine.to_owned()),
            devices,
            prompts: 16,
            responses: 2,
            steps: 1,
            ..RlKeys::default()
        };
        rl(&Context::new(&host), &keys).unwrap()
    }

    #[test]
    fn training_that_does_not_fit_is_said_in_the_words_of_plans() {
        let small = ask("h100", 1);
        let memory = small.training_memory.as_ref().unwrap();
        assert!(!memory.may_fit && memory.memory_shortfall_bytes > Some(50 << 30), "{memory:?}");
        assert!(memory.verdict.starts_with("training does not fit: stage 0 needs 1"), "{memory:?}");
        // Weights, gradients and the optimizer's state of 7.6 B parameters, 18 bytes each.
        assert!((120..180).contains(&(memory.bytes >> 30)), "{memory:?}");
        let fits = ask("h100", 8).training_memory.unwrap();
        assert!(fits.fits && fits.bytes < memory.bytes / 3, "{fits:?}");
    }

    #[test]
    fn steps_have_the_digits_and_the_range_of_their_evidence() {
        let [known, unknown] = ["h100", "mi300x"].map(|machine| ask(machine, 8));
        let [low, high] = known.step_range_ns.unwrap();
        assert!(known.step_ns < low && low < high && high < 2 * known.step_ns);
        assert!(known.measured && !unknown.measured);
        let [known, unknown] = [known, unknown].map(|one| format!("{:?}", one.sheet()));
        assert!(
            known.contains("five published steps of verl on H20")
                && !known.contains("nothing is measured")
        );
        assert!(unknown.contains("nothing is measured on mi300x"), "{unknown}");
    }
}
