//! The faults of a question, each at the key that is to blame.

use pipeline::{Bytes, Fault, Limit, LimitUse, Shape};

use super::{chain, copies, sharding};
use crate::diagnostic::Diagnostic;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
use crate::source::ScheduleSource;

/// Checks that no key is missing, and says all that are at once.
pub fn complete(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
) -> Result<(), Diagnostic> {
    let keys = &setting.keys;
    if some_size(keys) && keys.activation.is_some() {
        let message = "activation and hidden, heads, seq exclude each other".to_owned();
        return Err(scenario.error(setting, Some("activation"), message));
    }
    chain::check(keys).map_err(|(key, message)| scenario.error(setting, Some(key), message))?;
    sharding::check(keys).map_err(|(key, message)| scenario.error(setting, Some(key), message))?;
    check_limit(scenario, setting, has_footprints(keys))?;
    if let (Some(_), Some(key)) = (keys.vocab_tflops, given_shard_time(keys)) {
        let message = format!("vocab-tflops and {key} exclude each other");
        let cure = "vocab-tflops derives the times of S and T, vocab-s and vocab-t give them";
        return Err(scenario.error(setting, Some("vocab-tflops"), message).with_help(cure));
    }
    if let Some(rate) = keys.vocab_tflops.filter(|rate| !(1e-6..=1e9).contains(rate)) {
        let message = format!("vocab-tflops is {rate}: it must be between 0.000001 and 1000000000");
        return Err(scenario.error(setting, Some("vocab-tflops"), message));
    }
    let missing = missing(keys, !matches!(rule, ScheduleSource::File(..)));
    if missing.is_empty() {
        return Ok(());
    }
    let flags: Vec<String> = missing.iter().map(|key| format!("--{key}")).collect();
    let message = format!("the question is incomplete: {} missing", flags.join(", "));
    let cure = "times carry units, as in --forward 29.718ms; --backward gives B and W together; every \
                flag is also a scenario key";
    Err(scenario.error(setting, None, message).with_help(cure))
}

/// Checks that a memory limit in bytes has sizes of activations to be held against.
pub(super) fn check_limit(
    scenario: &Scenario,
    setting: &Setting,
    has_footprints: bool,
) -> Result<(), Diagnostic> {
    let (Some(limit), false) = (limit_in_bytes(&setting.keys), has_footprints) else {
        return Ok(());
    };
    let message = format!("a memory limit in bytes, {limit}, needs the sizes of activations");
    let cure = "give --hidden, --heads and --seq, or --activation; or a limit such as 1.5p";
    Err(scenario.error(setting, Some("memory-limit"), message).with_help(cure))
}

/// The key that limits the memory of activations.
pub fn limit_key(keys: &Keys) -> &'static str {
    if keys.memory.is_some() { "memory" } else { "memory-limit" }
}

/// The first memory limit that is a number of bytes.
pub(crate) fn limit_in_bytes(keys: &Keys) -> Option<Bytes> {
    keys.memory_limit.iter().flatten().find_map(|limit| match limit {
        Limit::Bytes(bytes) => Some(*bytes),
        Limit::TimesP { .. } => None,
    })
}

fn given_shard_time(keys: &Keys) -> Option<&'static str> {
    let times = [("vocab-s", &keys.vocab_s), ("vocab-t", &keys.vocab_t)];
    times.into_iter().find(|(_, times)| times.is_some()).map(|(name, _)| name)
}

fn some_size(keys: &Keys) -> bool {
    [keys.hidden, keys.heads, keys.seq].iter().any(Option::is_some)
}

/// The keys without which the question makes no sense; a written schedule brings its own shape.
fn missing(keys: &Keys, needs_shape: bool) -> Vec<&'static str> {
    let measured = keys.profile.is_some();
    let timed = measured || keys.has_chain();
    // Beside a chain they may say no more than how many layers there are.
    let of_chain = keys.has_chain() && !some_size(keys) && keys.microbatch_size.is_none();
    let scale = !of_chain && (keys.layers_per_stage.is_some() || keys.microbatch_size.is_some());
    let (sizes, scale) = (!measured && (some_size(keys) || scale), !measured && scale);
    let derived = keys.vocab_tflops.is_some();
    let shards = keys.of_vocabulary().next().is_some();
    let required = [
        ("stages", needs_shape && keys.stages.is_none()),
        ("microbatches", needs_shape && keys.microbatches.is_none()),
        ("forward", !timed && keys.forward.is_none()),
        ("backward-input", !timed && keys.backward_input.is_none()),
        ("backward-weight", !timed && keys.backward_weight.is_none()),
        ("hidden", sizes && keys.hidden.is_none()),
        ("heads", sizes && keys.heads.is_none()),
        ("seq", sizes && keys.seq.is_none()),
        ("layers-per-stage", scale && keys.layers_per_stage.is_none()),
        ("microbatch-size", scale && keys.microbatch_size.is_none()),
        ("vocabulary", derived && keys.hardware.vocabulary.is_none()),
        ("vocab-s", shards && !derived && keys.vocab_s.is_none()),
        ("vocab-t", shards && !derived && keys.vocab_t.is_none()),
        ("hidden", derived && !sizes && keys.hidden.is_none()),
        ("seq", derived && !sizes && keys.seq.is_none()),
        ("microbatch-size", derived && !scale && keys.microbatch_size.is_none()),
        ("activation", keys.activation_until_weight.is_some() && keys.activation.is_none()),
    ];
    required.into_iter().filter(|(_, lacks)| *lacks).map(|(key, _)| key).collect()
}

/// Checks that the schedule of a file is for the pipeline of the keys.
pub(super) fn agree(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    shape: Shape,
    segments: u32,
) -> Result<(), Diagnostic> {
    let ScheduleSource::File(name, _) = rule else { return Ok(()) };
    let keys = &setting.keys;
    let passes = shape.microbatches();
    if !passes.is_multiple_of(segments) {
        let message =
            format!("{name} has {passes} microbatches: not a multiple of {segments} segments");
        return Err(scenario.error(setting, Some("segments"), message));
    }
    let given = [
        ("stages", keys.stages, shape.stages() as u64),
        ("microbatches", keys.microbatches, u64::from(passes / segments)),
        ("chunks", keys.chunks, u64::from(shape.chunks_per_stage())),
    ];
    for (key, given, has) in given {
        if let Some(given) = given.filter(|&given| given != has) {
            let message = format!("the schedule {name} has {key} = {has}, not {given}");
            return Err(scenario.error(setting, Some(key), message));
        }
    }
    Ok(())
}

/// The error of a schedule that never flushes, asked to run in `steps` steps one after the other.
pub(super) fn flushes(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    steps: u32,
) -> Diagnostic {
    let message = format!(
        "{} never flushes, but on hardware steps end before the next begins (here {steps})",
        rule.name()
    );
    let cure = "ask it without hardware: its time is that of the steady state, hops included";
    scenario.error(setting, Some("schedule"), message).with_help(cure)
}

/// The key that is to blame for a fault.
fn key_of(fault: &Fault, keys: &Keys) -> Option<&'static str> {
    match fault {
        Fault::Zero { what: "chunks per stage" } => Some("chunks"),
        Fault::Zero { what } | Fault::ValueCount { what, .. } => Some(what),
        Fault::TooManyChunks { .. } => Some("stages"),
        Fault::TooManyPasses { .. } => Some("microbatches"),
        Fault::Needs { key, .. } => Some(key),
        Fault::BelowOneMicrobatch { .. } | Fault::Infeasible { .. } => Some(limit_key(keys)),
        Fault::ShardCount { .. } => Some("vocab-s"),
        Fault::HopCount { .. } => Some("hop"),
        Fault::MicrobatchCount { .. } => keys.of_unequal_microbatches().next(),
        _ => None,
    }
}

/// Turns a fault into an error at the key that is to blame.
pub fn explain(
    scenario: &Scenario,
    setting: &Setting,
    rule: &ScheduleSource,
    fault: &Fault,
) -> Diagnostic {
    let amount = |bytes: &Bytes| match has_footprints(&setting.keys) {
        true => bytes.to_string(),
        false if bytes.0 == 1 => "1 chunk activation".to_owned(),
        false => format!("{} chunk activations", bytes.0),
    };
    let given = |stage: usize| match given_limits(setting, rule) {
        [] => None,
        [all] => Some(all.to_string()),
        each => each.get(stage).map(Limit::to_string),
    };
    // A limit as it was given, followed by its amount where that reads differently.
    let limit_of = |stage: usize, limit: &Bytes| match given(stage) {
        Some(given) if given != amount(limit) => format!("{given}, {}", amount(limit)),
        _ if setting.keys.memory.is_some() => format!("{}, what memory leaves", amount(limit)),
        _ => amount(limit),
    };
    let name = rule.name();
    let message = match fault {
        Fault::BelowOneMicrobatch { stage, needs, limit } => format!(
            "{name}: the memory limit is {}, but one microbatch alone takes {} on stage {stage}",
            limit_of(*stage, limit),
            amount(needs)
        ),
        Fault::Infeasible { stage, pass, needs, limit, .. } => format!(
            "{name} finds no order under the memory limit: stage {stage} would need {} to run \
             {pass}, but the limit is {}",
            amount(needs),
            limit_of(*stage, limit)
        ),
        Fault::Needs { .. } | Fault::Zero { .. } => fault.to_string(),
        _ => format!("{name}: {fault}"),
    };
    let error = scenario.error(setting, key_of(fault, &setting.keys), message);
    match fault {
        Fault::BelowOneMicrobatch { needs, .. } => {
            let without = without_copies(scenario, setting, rule);
            error.with_help(format!("the limit must be at least {}{without}", amount(needs)))
        }
        _ => error,
    }
}

/// That a smallest limit is one without copies to the host, where copies could lower it.
fn without_copies(scenario: &Scenario, setting: &Setting, rule: &ScheduleSource) -> &'static str {
    let shape = super::shape(scenario, setting, rule);
    let is_of_chunks = shape.is_ok_and(|(shape, _)| shape.chunks_per_stage() > 1);
    if is_of_chunks && !copies::are_of(rule) { ", without copies to the host" } else { "" }
}

/// The memory limits that `rule` keeps to, as `setting` gives them; none where it has its own.
fn given_limits<'a>(setting: &'a Setting, rule: &ScheduleSource) -> &'a [Limit] {
    match rule.family().map(|family| family.about().limit) {
        Some(LimitUse::Own(_)) => &[],
        _ => setting.keys.memory_limit.as_deref().unwrap_or_default(),
    }
}

/// Whether `keys` give the activation bytes of a microbatch.
pub fn has_footprints(keys: &Keys) -> bool {
    keys.activation.is_some() || keys.hidden.is_some() || keys.profile.is_some()
}
