//! The layers of each chunk of a plan, as questions and Megatron-LM write them.

use pipeline::LayerLayout;
use plan::Split;

use super::priced::Plan;

/// The layers of the chunks of `plan` in model order, with those of multi-token prediction; none where
/// Megatron-LM has no words for them.
pub(super) fn layout(plan: &Plan) -> Option<LayerLayout> {
    plan.finalist.costed().layout()
}

/// The layers of each chunk of `plan` as `layout` takes them, where no rule says them.
pub(super) fn given_layout(plan: &Plan) -> Option<String> {
    let is_given = plan.finalist.costed().setup.split.is_given();
    let layout = layout(plan).filter(|_| is_given);
    layout.map(|layout| layout.to_string())
}

/// The layers of each chunk of `plan` in words, where a search deals them.
#[must_use]
pub fn dealt(plan: &Plan) -> Option<String> {
    let is_dealt = plan.finalist.costed().setup.split == Split::Searched;
    let layout = given_layout(plan).filter(|_| is_dealt)?;
    Some(format!("its layers are placed by the search: layout = \"{layout}\""))
}
