//! Takes from a profile the times, hop, footprints and message of a question: explicit keys
//! override it, and it is not used for another model.

use std::path::Path;
use std::sync::Arc;

use pipeline::{Bytes, Costs, Footprints, Limit, PassTimes, Placement, Shape};
use profile::{AnyProfile, Profile, TrainerError, TrainerProfile, Unsplit, predict};

use super::checks::check_limit;
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::Keys;
use crate::quote;
use crate::scenario::{Scenario, Setting};
use crate::source::ScheduleSource;

/// The largest profile file.
const MAX_PROFILE: u64 = 64 << 20;

/// The profile in that file, which is read once however many questions name it.
pub fn read(context: &Context<'_>, path: &Path) -> Result<Arc<AnyProfile>, Diagnostic> {
    context.profile(path, || {
        let profile = parse(context, path)?;
        if let Some(text) = doubts(&profile) {
            context.warn(format!("profile {}: {text}", quote::path(path)));
        }
        Ok(profile)
    })
}

/// Reads the profile in that file.
pub fn parse(context: &Context<'_>, path: &Path) -> Result<AnyProfile, Diagnostic> {
    let text = context.read_toml(path, MAX_PROFILE)?;
    AnyProfile::parse(&text).map_err(|error| {
        Diagnostic::at(path, &text, error.place, error.message).with_help(error.cure)
    })
}

/// The quantities of `profile` that its own verdicts call unreliable, in words, if there are any.
fn doubts(profile: &AnyProfile) -> Option<String> {
    const MOST: usize = 3;
    let bad: Vec<String> =
        profile.doubts().into_iter().map(|(name, verdict)| format!("{name} ({verdict})")).collect();
    let named = bad.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match bad.len().checked_sub(MOST) {
        None | Some(0) => String::new(),
        Some(more) => format!(" and {more} more"),
    };
    let again = match profile {
        AnyProfile::Machine(_) => {
            "measure again with `debubble calibrate` on a quiet machine, with --effort thorough"
        }
        AnyProfile::Trainer(_) => "record more steps, with nothing else on the machine",
    };
    (!bad.is_empty()).then(|| {
        format!("its own verdict is bad on {named}{more}: times from it may be off; {again}")
    })
}

/// The profile that `keys` name, if they name one.
pub fn of(context: &Context<'_>, keys: &Keys) -> Result<Option<Arc<AnyProfile>>, Diagnostic> {
    keys.profile.as_deref().map(|path| read(context, path)).transpose()
}

/// The profile of a machine that `setting` names, if it names one.
pub fn of_machine(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
) -> Result<Option<Arc<AnyProfile>>, Diagnostic> {
    let profile = of(context, &setting.keys)?;
    if profile.as_deref().is_some_and(|profile| profile.machine().is_none()) {
        let message = "it is the profile of a trainer, and a machine is needed here";
        let error = scenario.error(setting, Some("profile"), message.to_owned());
        return Err(error.with_help("measure the machine with `debubble calibrate`"));
    }
    Ok(profile)
}

/// `setting` with what its profile says of a pipeline of `shape` under `rule`; `None` if it names none.
pub fn fill(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    (shape, placement): (Shape, Placement),
) -> Result<Option<Setting>, Diagnostic> {
    let Some(profile) = of(context, &setting.keys)? else {
        refuse_memory(scenario, setting)?;
        let message =
            "layers are for a profile or a chain: name one with --profile, or give --chain";
        return match setting.keys.layers {
            Some(_) if !setting.keys.has_chain() => {
                Err(scenario.error(setting, Some("layers"), message.to_owned()))
            }
            _ => Ok(None),
        };
    };
    let filled = match &*profile {
        AnyProfile::Machine(profile) => {
            refuse_memory(scenario, setting)?;
            of_parts(scenario, setting, profile, (shape, placement))
        }
        AnyProfile::Trainer(profile) => {
            warn_of_whole(context, profile, rule, &setting.keys);
            warn_of_one_device(context, profile, &setting.keys);
            let mut filled = of_chunks(scenario, setting, profile, rule, shape)?;
            filled.keys.memory_limit =
                left(scenario, setting, profile, (shape, placement))?.or(filled.keys.memory_limit);
            Ok(filled)
        }
    };
    filled.map(Some)
}

/// Says that the time of whole backwards is not known where orders have some.
fn warn_of_whole(
    context: &Context<'_>,
    profile: &TrainerProfile,
    rule: &ScheduleSource,
    keys: &Keys,
) {
    let lacks = profile.chunks.iter().any(|chunk| chunk.backward.whole().is_none());
    let asked = rule.has_whole_backwards() || matches!(rule, ScheduleSource::Searched(_));
    if lacks && asked && keys.backward.is_none() {
        context.warn(
            "the profile has no time of a whole backward, so BW takes B + W, where trainers mostly take less: \
             record again with two steps or more, merge a recording of 1f1b, or give --backward"
                .to_owned(),
        );
    }
}

/// How much longer B and W may take than a whole backward before a note says so.
const DEAR_SPLIT: f64 = 1.2;

/// Says what passes that ran on one device do not show.
fn warn_of_one_device(context: &Context<'_>, profile: &TrainerProfile, keys: &Keys) {
    if profile.one_device && keys.hop.is_none() && keys.hardware.cluster.is_none() {
        context.warn(
            "the profile was measured on one device: transfers between stages take no time in it; give --hop or \
             --cluster"
                .to_owned(),
        );
    }
    if let Some((chunk, ratio)) = profile.dearest_split().filter(|&(_, ratio)| ratio > DEAR_SPLIT) {
        context.warn(format!(
            "B and W of chunk {chunk} take {ratio:.2} times as long as a whole backward: orders that split \
             backwards do that work again; layers of Transformer Engine with delay_wgrad_compute split without it"
        ));
    }
}

/// Refuses the memory of a device where nothing says what of it is left for activations.
fn refuse_memory(scenario: &Scenario, setting: &Setting) -> Result<(), Diagnostic> {
    if setting.keys.memory.is_none() {
        return Ok(());
    }
    let message =
        "memory needs the profile of a trainer with its weights, gradients and optimizer state";
    let cure = "give memory-limit, the memory of activations alone, or make such a profile with \
                `python -m debubble.megatron profile`";
    Err(scenario.error(setting, Some("memory"), message.to_owned()).with_help(cure))
}

/// The memory limit of each stage that `memory` leaves for activations, if it is given.
fn left(
    scenario: &Scenario,
    setting: &Setting,
    profile: &TrainerProfile,
    (shape, placement): (Shape, Placement),
) -> Result<Option<Vec<Limit>>, Diagnostic> {
    let keys = &setting.keys;
    let Some(memory) = &keys.memory else { return Ok(None) };
    let fail = |message| Err(scenario.error(setting, Some("memory"), message));
    if keys.memory_limit.is_some() {
        let message = "memory and memory-limit exclude each other: the first is of a whole device";
        return fail(message.to_owned());
    }
    let Some(stages) = profile.resident(shape, placement) else {
        return refuse_memory(scenario, setting).map(|()| None);
    };
    if memory.len() != 1 && memory.len() != stages.len() {
        let message =
            format!("{} sizes for {} stages: give one, or one each", memory.len(), stages.len());
        return fail(message);
    }
    let mut limits = Vec::with_capacity(stages.len());
    for (at, stage) in stages.iter().enumerate() {
        let given = memory[at.min(memory.len() - 1)];
        let held = stage.held().and_then(|held| held.0.checked_add(stage.pass.0)).map(Bytes);
        match held.and_then(|held| given.0.checked_sub(held.0)).filter(|&left| left > 0) {
            Some(left) => limits.push(Limit::Bytes(Bytes(left))),
            None => {
                let held = held.map_or_else(|| "too much".to_owned(), |held| held.to_string());
                let message = format!(
                    "stage {at} holds {held} without activations (weights {}, gradients {}, optimizer {}, a pass \
                     {}): {given} leave nothing",
                    stage.weights, stage.gradients, stage.optimizer, stage.pass
                );
                return fail(message);
            }
        }
    }
    Ok(Some(limits))
}

/// The schedule to record for times of B and W apart, as a call of the recorder's package.
fn splitting(profile: &TrainerProfile) -> String {
    let chunks = profile.chunks.len() / profile.stages.max(1);
    let m = profile.microbatches;
    let named = |name: &str| {
        format!("debubble.torch.schedule(stages, \"{name}\", n_microbatches={m}, loss_fn=loss)")
    };
    match (profile.placement, chunks) {
        (Placement::Looped, 1) => named("zb-h1"),
        (Placement::Vee, 2) => named("zb-v"),
        _ => "ScheduleInterleavedZeroBubble of torch, which runs them apart".to_owned(),
    }
}

/// Gives `keys` the times of `costs`, where they have none.
fn take_times(keys: &mut Keys, costs: &Costs) {
    let chunks = costs.chunks().iter();
    if costs.has_whole() && keys.backward_input.is_none() && keys.backward_weight.is_none() {
        keys.backward = Some(chunks.clone().map(PassTimes::whole_backward).collect());
    }
    keys.forward.get_or_insert_with(|| chunks.clone().map(|one| one.forward).collect());
    keys.backward_input
        .get_or_insert_with(|| chunks.clone().map(|one| one.backward_input).collect());
    keys.backward_weight
        .get_or_insert_with(|| chunks.clone().map(|one| one.backward_weight).collect());
    if keys.hardware.cluster.is_none() {
        keys.hop.get_or_insert_with(|| costs.hops().by_link().to_vec());
    }
}

/// Gives `keys` the activations of `footprints`, where they have none.
fn take_footprints(keys: &mut Keys, shape: Shape, footprints: &Footprints) {
    if keys.activation.is_none() {
        let all = (0..shape.chunks()).map(|chunk| footprints.of(chunk));
        keys.activation = Some(all.clone().map(|one| one.until_backward).collect());
        keys.activation_until_weight = Some(all.map(|one| one.until_weight).collect());
    }
}

/// `setting` with chunks made of the parts of a transformer.
fn of_parts(
    scenario: &Scenario,
    setting: &Setting,
    profile: &Profile,
    (shape, placement): (Shape, Placement),
) -> Result<Setting, Diagnostic> {
    let fail = |key, message: String| scenario.error(setting, Some(key), message);
    agree(scenario, setting, profile)?;
    let layers = layers(&setting.keys, shape).map_err(|message| fail("layers", message))?;
    let predicted = predict(profile, layers, shape);
    let predicted = predicted.map_err(|error| fail("layers", format!("layers: {error}")))?;
    let mut filled = setting.clone();
    let keys = &mut filled.keys;
    take_times(keys, &predicted.costs);
    take_footprints(keys, shape, &predicted.footprints);
    if keys.hardware.given().next().is_some() {
        keys.hardware.message.get_or_insert(predicted.message);
        let optimizer = profile::optimizer(profile, layers, shape, placement);
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
    Ok(filled)
}

/// `setting` with the chunks of a trainer.
fn of_chunks(
    scenario: &Scenario,
    setting: &Setting,
    profile: &TrainerProfile,
    rule: &ScheduleSource,
    shape: Shape,
) -> Result<Setting, Diagnostic> {
    let fail = |key, message: String| scenario.error(setting, Some(key), message);
    if setting.keys.layers.is_some() {
        let message = "layers are for the profile of a machine: a trainer's knows its chunks";
        return Err(fail("layers", message.to_owned()));
    }
    // Where both are given, the profile need not split the backward.
    let apart = setting.keys.backward_input.is_some() && setting.keys.backward_weight.is_some();
    let unsplit = match rule {
        _ if rule.has_whole_backwards() || apart => Unsplit::Halves,
        ScheduleSource::Searched(_) => Unsplit::Doubled,
        _ => Unsplit::Refused,
    };
    let costs = profile.costs(shape, unsplit).map_err(|error| {
        let cure = match error {
            TrainerError::Chunks { recorded, .. } => format!(
                "ask for a number of chunks that divides {recorded}, or record the trainer with as many \
                 stages as there shall be chunks"
            ),
            TrainerError::NotSplit { .. } if profile.one_device => {
                "its machine's remark says why no backward of that chunk is split: ask for schedules of whole \
                 backwards, or give backward-input and backward-weight"
                    .to_owned()
            }
            TrainerError::NotSplit { .. } => format!(
                "record {}, or give backward-input and backward-weight",
                splitting(profile)
            ),
            TrainerError::Overflow(_) => "record it again".to_owned(),
        };
        fail("profile", error.to_string()).with_help(cure)
    })?;
    let mut filled = setting.clone();
    let keys = &mut filled.keys;
    take_times(keys, &costs.costs);
    keys.overhead.get_or_insert(costs.overhead);
    match &costs.footprints {
        Some(footprints) => take_footprints(keys, shape, footprints),
        None => {
            let has_footprints = keys.activation.is_some() || keys.hidden.is_some();
            check_limit(scenario, setting, has_footprints)?;
        }
    }
    if let (Some(message), Some(_)) = (profile.message, keys.hardware.given().next()) {
        keys.hardware.message.get_or_insert(message);
    }
    Ok(filled)
}

/// Checks that the keys describe the model of the profile.
pub fn agree(scenario: &Scenario, setting: &Setting, profile: &Profile) -> Result<(), Diagnostic> {
    let keys = &setting.keys;
    let given = |key| match key {
        "hidden" => keys.hidden,
        "heads" => keys.heads,
        "seq" => keys.seq,
        "microbatch-size" => keys.microbatch_size,
        _ => keys.hardware.vocabulary,
    };
    for (key, measured) in profile.model.sizes() {
        if let Some(given) = given(key).filter(|&given| given != measured as u64) {
            let message = format!("{key} is {given}, but the profile was measured for {measured}");
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
        (None, None) => Err("the question is incomplete: --layers missing".to_owned()),
    }
}
