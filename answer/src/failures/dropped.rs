//! Steps of the pipelines that are left when others are left out.

use cases::{Case, ScheduleSource};
use failures::Pipelines;
use question::failures::FailureKeys;
use question::keys::Keys;
use question::scenario::{Scenario, Setting};
use question::{Context, Diagnostic};
use serde::Serialize;

use super::asked::{costs, update};
use super::{StepRow, diagnostic, fits};

/// The most pipelines that are left out.
const MOST: u64 = 32;

/// A step of the pipelines that are left.
#[derive(Serialize, Clone, Debug)]
pub struct DroppedRow {
    /// Pipelines that are left.
    pub pipelines: u64,
    /// Microbatches of the one that has most.
    pub microbatches: u64,
    #[serde(flatten)]
    pub step: StepRow,
    /// Whether its workers keep the memory limit, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
}

/// The step with 0, 1, 2 .. pipelines left out: none where the schedule takes no such number of microbatches, or
/// no pipeline is left. A schedule whose numbers of microbatches are multiples of its stages gets the next of them.
pub(super) fn steps(
    context: &Context<'_>,
    of: (&Scenario, &Setting, &ScheduleSource),
    case: &Case,
    keys: &FailureKeys,
) -> Result<Vec<Option<DroppedRow>>, Diagnostic> {
    let pipelines = keys.data_parallel.unwrap_or_default();
    let all = pipelines.saturating_mul(u64::from(case.microbatches()));
    let stages = case.schedule.shape().stages() as u64;
    let one = |out: u64| -> Result<Option<DroppedRow>, Diagnostic> {
        let left = pipelines.saturating_sub(out);
        if left == 0 {
            return Ok(None);
        }
        let each = all.div_ceil(left);
        let numbers = [each, each.next_multiple_of(stages)];
        let cases = numbers.into_iter().find_map(|number| {
            let microbatches = Some(number);
            let setting = of.1.with(Keys { microbatches, ..of.1.keys.clone() });
            let case = cases::case(context, of.0, &setting, of.2).ok()?;
            (case.microbatches() == u32::try_from(number).ok()?).then_some((number, case))
        });
        let Some((microbatches, case)) = cases else { return Ok(None) };
        let costs = costs(&case)?;
        let pipelines = Pipelines {
            schedule: &case.schedule,
            costs: &costs,
            footprints: case.problem.footprints(),
            pipelines: 1,
            peer_hop: None,
            optimizer: update(keys, of.1),
        };
        let step = pipelines.healthy().map_err(|fault| diagnostic(&case, &fault))?;
        let fits = fits(&step, &case);
        Ok(Some(DroppedRow { pipelines: left, microbatches, step: StepRow::of(&step), fits }))
    };
    (0..=MOST.min(pipelines)).map(one).collect()
}
