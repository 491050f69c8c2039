//! Layouts of layers over chunks, as a question gives them.

use pipeline::Shape;

use crate::diagnostic::Diagnostic;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
use crate::source::ScheduleSource;

/// The layers of each chunk, if the question has a layout; else none.
pub(super) fn layers(keys: &Keys) -> &[u64] {
    keys.layout.as_ref().map_or(&[], |layout| layout.layers())
}

/// Gives `setting` the stages, or the chunks of a stage, that follow from its layout: a stage for each chunk
/// where it has neither.
pub(super) fn resolve(scenario: &Scenario, setting: &mut Setting) -> Result<(), Diagnostic> {
    let keys = &setting.keys;
    let Some(layout) = keys.layout.clone() else { return Ok(()) };
    let fail = |message: String| scenario.error(setting, Some("layout"), message);
    if let Some(name) = excluded(keys) {
        return Err(fail(format!("layout and {name} exclude each other")).with_help(
            "a layout deals times and activations that are given, by layers; a profile has its own, cut \
             evenly or as they were measured",
        ));
    }
    let chunks = layout.chunks();
    let stages = match (keys.stages, keys.chunks) {
        (Some(stages), _) => stages,
        (None, Some(own)) if own > 0 && chunks.is_multiple_of(own) => chunks / own,
        (None, Some(own)) => {
            let message =
                format!("the layout has {chunks} chunks, not a multiple of {own} per stage");
            return Err(fail(message));
        }
        (None, None) => chunks,
    };
    let own = layout.chunks_per_stage(stages).map_err(|misfit| fail(misfit.to_string()))?;
    if let Some(given) = keys
        .layers_per_stage
        .filter(|given| u128::from(*given) * u128::from(stages) != u128::from(layout.total()))
    {
        let total = layout.total();
        let message =
            format!("the layout has {total} layers on {stages} stages, not {given} on each");
        return Err(
            fail(message).with_help("layers-per-stage is the mean of all stages of a layout")
        );
    }
    let is_even = layout.layers().iter().all(|layers| *layers == layout.layers()[0]);
    if keys.hardware.vocabulary.is_some() && keys.hardware.resident.is_none() && !is_even {
        let message =
            "vocabulary tells the parameters of stages only where all have as many layers";
        return Err(fail(message.to_owned()).with_help("give resident, one per stage"));
    }
    if let (1.., Some(key)) = (layout.mtp(), dealt(keys, chunks)) {
        let message = format!("the layout has MTP layers (m), and {key} is not given by chunk");
        return Err(fail(message).with_help(
            "an MTP layer has a product and a loss of its own, so work is not divided by layers: give one \
             value per chunk",
        ));
    }
    setting.keys.stages = Some(stages);
    if own > 1 {
        setting.keys.chunks.get_or_insert(own);
    }
    Ok(())
}

/// A key that has no meaning beside a layout.
fn excluded(keys: &Keys) -> Option<&'static str> {
    let all = [("profile", keys.profile.is_some()), ("layers", keys.layers.is_some())];
    all.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
}

/// A key whose values are dealt to `chunks` chunks by their layers.
fn dealt(keys: &Keys, chunks: u64) -> Option<&'static str> {
    fn values<T>(list: &Option<Vec<T>>) -> Option<usize> {
        list.as_ref().map(Vec::len)
    }
    let all = [
        ("forward", values(&keys.forward)),
        ("backward", values(&keys.backward)),
        ("backward-input", values(&keys.backward_input)),
        ("backward-weight", values(&keys.backward_weight)),
        ("activation", values(&keys.activation)),
        ("activation-until-weight", values(&keys.activation_until_weight)),
        ("recompute-time", values(&keys.recompute_time)),
        ("recompute-again", values(&keys.recompute_again)),
        ("activation-kept", values(&keys.activation_kept)),
        ("offload-time", values(&keys.offload_time)),
        ("hidden", keys.hidden.map(|_| 1)),
    ];
    let is_dealt = |given: &Option<usize>| given.is_some_and(|count| count as u64 != chunks);
    all.into_iter().find(|(_, given)| is_dealt(given)).map(|(key, _)| key)
}

/// Checks that the layout of `setting` is for a pipeline of `shape`.
pub(super) fn agree(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    shape: Shape,
) -> Result<(), Diagnostic> {
    let Some(layout) = &setting.keys.layout else { return Ok(()) };
    let (given, has) = (layout.chunks(), u64::from(shape.chunks()));
    if given == has {
        return Ok(());
    }
    let message = format!(
        "{} has {has} chunks, {} on each of {} stages, but the layout has {given}",
        rule.name(),
        shape.chunks_per_stage(),
        shape.stages()
    );
    let cure = "stages times chunks are those of the layout; some schedules have a number of chunks of \
                their own";
    Err(scenario.error(setting, Some("layout"), message).with_help(cure))
}
