//! Takes from a profile the times, hop, footprints and message of a question: explicit keys
//! override it, and it is not used for another model.

use std::path::Path;
use std::sync::Arc;

use pipeline::{Placement, Shape};
use profile::{Profile, Verdict, predict};

use crate::diagnostic::Diagnostic;
use crate::echo;
use crate::host::Context;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};

/// The largest profile file.
const MAX_PROFILE: u64 = 64 << 20;

/// The profile in that file, which is read once however many questions name it.
pub fn read(context: &Context<'_>, path: &Path) -> Result<Arc<Profile>, Diagnostic> {
    context.profile(path, || {
        let profile = parse(context, path)?;
        if let Some(text) = doubts(&profile) {
            context.warn(format!("profile {}: {text}", echo::path(path)));
        }
        Ok(profile)
    })
}

/// Reads the profile in that file.
pub fn parse(context: &Context<'_>, path: &Path) -> Result<Profile, Diagnostic> {
    let text = context.read_toml(path, MAX_PROFILE)?;
    Profile::parse(&text).map_err(|error| {
        Diagnostic::at(path, &text, error.place, error.message).with_help(error.cure)
    })
}

/// The quantities of `profile` that its own verdicts call unreliable, in words, if there are any.
fn doubts(profile: &Profile) -> Option<String> {
    const MOST: usize = 3;
    let of_links = profile.links.iter().flat_map(|link| {
        link.messages
            .iter()
            .map(|one| (format!("{} link, {} bytes", link.kind.name(), one.bytes), &one.time))
    });
    let all = profile.quantities();
    let all = all.into_iter().map(|(name, one)| (name.to_owned(), one)).chain(of_links);
    let bad: Vec<String> = all
        .map(|(name, one)| (name, one.verdict(profile.half_width)))
        .filter(|(_, verdict)| *verdict != Verdict::Tight)
        .map(|(name, verdict)| format!("{name} ({verdict})"))
        .collect();
    let named = bad.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match bad.len().checked_sub(MOST) {
        None | Some(0) => String::new(),
        Some(more) => format!(" and {more} more"),
    };
    (!bad.is_empty()).then(|| {
        format!(
            "its own verdict is bad on {named}{more}: times from it may be off; measure again with \
             `debubble calibrate` on a quiet machine, with --effort thorough"
        )
    })
}

/// The profile that `keys` name, if they name one.
pub fn of(context: &Context<'_>, keys: &Keys) -> Result<Option<Arc<Profile>>, Diagnostic> {
    keys.profile.as_deref().map(|path| read(context, path)).transpose()
}

/// `setting` with what its profile says of a pipeline of `shape`; `None` if it names none.
pub fn fill(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    (shape, placement): (Shape, Placement),
) -> Result<Option<Setting>, Diagnostic> {
    let keys = &setting.keys;
    let fail = |key, message: String| scenario.error(setting, Some(key), message);
    let Some(profile) = of(context, keys)? else {
        let message = "layers are for a profile: name one with --profile, or give the times";
        return match keys.layers {
            Some(_) => Err(fail("layers", message.to_owned())),
            None => Ok(None),
        };
    };
    agree(scenario, setting, &profile)?;
    let layers = layers(keys, shape).map_err(|message| fail("layers", message))?;
    let predicted = predict(&profile, layers, shape);
    let predicted = predicted.map_err(|error| fail("layers", format!("layers: {error}")))?;
    let mut filled = setting.clone();
    let keys = &mut filled.keys;
    let chunks = predicted.costs.chunks().iter();
    keys.forward.get_or_insert_with(|| chunks.clone().map(|one| one.forward).collect());
    keys.backward_input
        .get_or_insert_with(|| chunks.clone().map(|one| one.backward_input).collect());
    keys.backward_weight
        .get_or_insert_with(|| chunks.clone().map(|one| one.backward_weight).collect());
    if keys.hardware.cluster.is_none() {
        keys.hop.get_or_insert(predicted.costs.hop());
    }
    if keys.activation.is_none() {
        let all = (0..shape.chunks()).map(|chunk| predicted.footprints.of(chunk));
        keys.activation = Some(all.clone().map(|one| one.until_backward).collect());
        keys.activation_until_weight = Some(all.map(|one| one.until_weight).collect());
    }
    if keys.hardware.given().next().is_some() {
        keys.hardware.message.get_or_insert(predicted.message);
        let optimizer = profile::optimizer(&profile, layers, shape, placement);
        let optimizer = optimizer.map_err(|error| fail("layers", format!("layers: {error}")))?;
        keys.hardware.optimizer.get_or_insert(optimizer);
    }
    if keys.hardware.vocabulary.is_some() {
        let (model, stages) = (profile.model.one_layer(), shape.stages());
        if !layers.is_multiple_of(stages) {
            let message = "vocabulary tells the parameters of stages only where all have as many \
                           layers: give resident";
            return Err(fail("vocabulary", message.to_owned()));
        }
        (keys.hidden, keys.seq) = (Some(model.hidden() as u64), Some(model.sequence() as u64));
        keys.layers_per_stage = Some((layers / stages) as u64);
    }
    Ok(Some(filled))
}

/// Checks that the keys do not speak of another model than the profile.
pub fn agree(scenario: &Scenario, setting: &Setting, profile: &Profile) -> Result<(), Diagnostic> {
    let keys = &setting.keys;
    let told = |key| match key {
        "hidden" => keys.hidden,
        "heads" => keys.heads,
        "seq" => keys.seq,
        "microbatch-size" => keys.microbatch_size,
        _ => keys.hardware.vocabulary,
    };
    for (key, measured) in profile.model.sizes() {
        if let Some(told) = told(key).filter(|&told| told != measured as u64) {
            let message = format!("{key} is {told}, but the profile was measured for {measured}");
            let cure = "take the key out, or measure that shape with `debubble calibrate`";
            return Err(scenario.error(setting, Some(key), message).with_help(cure));
        }
    }
    Ok(())
}

/// The layers of the whole model: as given, or from those of a stage.
fn layers(keys: &Keys, shape: Shape) -> Result<usize, String> {
    let stages = shape.stages() as u64;
    let of_stages = keys.layers_per_stage.map(|layers| layers.saturating_mul(stages));
    match (keys.layers, of_stages) {
        (Some(layers), Some(other)) if layers != other => Err(format!(
            "layers is {layers}, but layers-per-stage over {stages} stages gives {other}"
        )),
        (Some(layers), _) | (None, Some(layers)) => {
            usize::try_from(layers).map_err(|_| format!("layers is {layers}: too many"))
        }
        (None, None) => Err("a profile needs the layers of the model".to_owned()),
    }
}
