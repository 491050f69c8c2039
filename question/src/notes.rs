//! Warnings about keys that have no influence, and about assumptions.

use pipeline::{Choice, Chunks, Family, Limit, LimitUse, Placement, SteadyState, Vocabulary};

use crate::hardware;
use crate::host::Context;
use crate::keys::Keys;
use crate::resolve::Split;
use crate::resolve::{has_footprints, limit_in_bytes, notes_on_sharding, steady};
use crate::scenario::Setting;
use crate::source::ScheduleSource;
use crate::values::passes::Recomputed;
use crate::values::segments::Measured;

/// The keys of `setting` that have no influence on `rule`, or are settled by it, in words.
pub fn ignored(setting: &Setting, rule: &ScheduleSource) -> Vec<String> {
    let keys = &setting.keys;
    let family = match rule {
        ScheduleSource::Family(family) => family,
        ScheduleSource::File(..) => return Vec::new(),
        ScheduleSource::Searched(_) => return ignored_by_search(setting),
    };
    let about = family.about();
    let mut notes = Vec::new();
    match (about.chunks, keys.chunks) {
        (Chunks::Exactly(own), Some(given)) if given != u64::from(own) => {
            let s = if own == 1 { "" } else { "s" };
            notes.push(format!("always {own} chunk{s} per stage, chunks = {given} is ignored"));
        }
        (Chunks::Any { default }, None) => {
            notes.push(format!("{default} chunks per stage, since chunks are not given"));
        }
        _ => {}
    }
    if about.placement == Placement::Mirrored && keys.hardware.resident.is_some() {
        notes.push("every stage holds two copies: resident must count both".to_owned());
    }
    match (about.choice, keys.segments) {
        (Choice::Segments { .. }, Some(1)) => {}
        (Choice::Segments { default }, given) => notes.push(format!(
            "microbatches are cut into {} segments, which its passes count as microbatches",
            given.unwrap_or(u64::from(default))
        )),
        (_, Some(given)) => {
            notes.push(format!("microbatches are not cut, segments = {given} is ignored"));
        }
        _ => {}
    }
    notes.extend(of_vocabulary(setting, *family));
    notes.extend(without_recompute(keys));
    notes.extend(of_steady_state(keys, rule));
    let has_groups = matches!(about.choice, Choice::Group | Choice::Offload);
    if let (false, Some(given)) = (has_groups, keys.group) {
        notes.push(format!("has no groups to choose, group = {given} is ignored"));
    }
    if let (false, Some(given)) = (about.choice == Choice::Offload, keys.offload_chunks) {
        notes.push(format!("chooses no chunks for the host, offload-chunks = {given} is ignored"));
    }
    if about.choice == Choice::Offload && keys.hardware.reload_ahead.is_some() {
        notes.push("plans its copies by their times, reload-ahead is ignored".to_owned());
    }
    if let (LimitUse::Own(own), Some(given)) = (about.limit, &keys.memory_limit)
        && given.iter().any(|given| *given != own)
    {
        let given: Vec<String> = given.iter().map(Limit::to_string).collect();
        let given = given.join(",");
        notes.push(format!("built for a memory limit of {own}; {given} is checked, not used"));
    }
    notes
}

/// The warning that times are of a steady state, if they are.
fn of_steady_state(keys: &Keys, rule: &ScheduleSource) -> Option<String> {
    let steady = steady(keys, rule)?;
    let SteadyState { lead, measured, .. } = steady;
    let s = if measured == 1 { "" } else { "s" };
    Some(format!(
        "asynchronous, with stale weights: times are for {measured} update{s} in steady state, in a run of {} after \
         {lead}; do not compare them with synchronous schedules",
        steady.updates()
    ))
}

/// The warning about the keys of the output layer in shards, if there is one.
fn of_vocabulary(setting: &Setting, family: Family) -> Option<String> {
    let keys = &setting.keys;
    if family.vocabulary() == Vocabulary::Whole {
        return without_shards(keys);
    }
    let given = keys.hardware.vocabulary.filter(|_| keys.vocab_tflops.is_some())?;
    let stages = usize::try_from(keys.stages.unwrap_or(1)).unwrap_or(1);
    let padded = Vocabulary::padded(given, stages);
    let note =
        format!("the vocabulary of {given} is padded to {padded}, a multiple of 2p, for S and T");
    Some(note)
}

/// The warning about them where there are no shards.
fn without_shards(keys: &Keys) -> Option<String> {
    let given: Vec<&str> = keys.of_vocabulary().collect();
    let given = given.join(", ");
    let note = || format!("the output layer is a part of the last chunk, {given} is ignored");
    (!given.is_empty()).then(note)
}

/// The warning about the keys of recomputation where there is none.
fn without_recompute(keys: &Keys) -> Option<String> {
    let is_nothing = |one: &Recomputed| *one == Recomputed::Nothing;
    let parts = keys.recompute.iter().flatten();
    let names = ["recompute-time", "recompute-again", "activation-kept"];
    let given: Vec<&str> = keys.given().filter(|name| names.contains(name)).collect();
    let is_ignored = parts.clone().all(is_nothing) && !given.is_empty();
    is_ignored.then(|| format!("recomputes nothing, {} is ignored", given.join(", ")))
}

/// The keys of `setting` that have no influence on the search.
fn ignored_by_search(setting: &Setting) -> Vec<String> {
    let keys = &setting.keys;
    let segments = keys.segments.filter(|&given| given != 1);
    let segments =
        segments.map(|given| format!("microbatches are not cut, segments = {given} is ignored"));
    let group =
        keys.group.map(|given| format!("has no groups to choose, group = {given} is ignored"));
    let others = without_shards(keys).into_iter().chain(without_recompute(keys));
    segments.into_iter().chain(group).chain(others).collect()
}

/// The assumptions where the keys of `setting` leave something open, in words.
pub fn assumed(context: &Context<'_>, setting: &Setting) -> Vec<String> {
    let keys = &setting.keys;
    // A profile that cannot be read is an error elsewhere.
    let split = Split::of(context, keys).ok().flatten().map(Split::note);
    split
        .into_iter()
        .chain(of_memory(keys))
        .chain(of_streams(keys))
        .chain(of_unequal(keys))
        .chain(notes_on_sharding(keys))
        .collect()
}

/// The assumption about the memory of microbatches that differ.
fn of_unequal(keys: &Keys) -> Option<String> {
    let key = keys.of_unequal_microbatches().next()?;
    let note = "every microbatch is taken to hold the memory given: give that of the largest";
    has_footprints(keys).then(|| format!("{key}: {note}"))
}

/// The assumption about the contention of the two streams.
fn of_streams(keys: &Keys) -> Option<String> {
    let interleaves =
        keys.interleaving.as_ref().is_none_or(|key| key.0 != pipeline::overlap::Interleaving::None);
    let beside = keys.chain_measured == Some(Measured::Beside);
    (keys.has_chain() && interleaves && keys.contention.is_none() && !beside).then(|| {
        "overlapped communication is taken to slow no compute, which flatters it: measured steps of \
         Megatron-LM on H100 took 7 to 27 % longer than predicted without it; give --contention (megatron-hopper is fitted to those), or --chain-measured beside if the times include it"
            .to_owned()
    })
}

/// The assumption about memory.
fn of_memory(keys: &Keys) -> Option<String> {
    if !has_footprints(keys) {
        let counted = match &keys.layout {
            Some(layout) if layout.layers().iter().any(|one| *one != layout.layers()[0]) => {
                "the activations of layers"
            }
            _ => "chunk activations",
        };
        return Some(format!(
            "no activation sizes are given (--hidden --heads --seq, or --activation): memory is counted in \
             {counted}, each held whole until its W"
        ));
    }
    if limit_in_bytes(keys).is_some() && !hardware::measures_bytes(keys) {
        let note = "activations are bytes per layer and token, and so is the memory limit: give \
                    --layers-per-stage and --microbatch-size to count whole stages";
        return Some(note.to_owned());
    }
    None
}
