//! `debubble profile`: the profile of a trainer, from a recording or a log of it.

#[cfg(test)]
mod tests;

use ::profile::{Backward, Facts, Quantity, RecordedChunk, TrainerProfile};
use std::path::{Path, PathBuf};

use imports::timers;
use pipeline::Bytes;
use question::cell::Cell;
use question::sheet::Sheet;
use question::{Context, Diagnostic, object, table};
use serde::Serialize;

use crate::compare::seconds as seconds_of;
use crate::timelines::{self, Recorded, Source};

/// The profile of the trainer that was `recorded`.
pub fn of(recorded: &Recorded) -> Result<TrainerProfile, Diagnostic> {
    if recorded.source != Source::Measured {
        let error = Diagnostic::new("it is a prediction: a profile is made of what was measured");
        return Err(error.with_help("record the trainer, or run `debubble execute --timeline`"));
    }
    let unknown = || Facts { name: recorded.name.clone(), ..Facts::default() };
    let mut facts = recorded.facts.clone().unwrap_or_else(unknown);
    facts.machine.device.clone_from(&recorded.device);
    TrainerProfile::recorded(&recorded.schedule, &recorded.steps, facts)
        .map_err(|error| Diagnostic::new(error.to_string()))
}

/// The profile of the recordings and logs in the files at `paths`: of one trainer under several schedules.
pub fn of_files(context: &Context<'_>, paths: &[PathBuf]) -> Result<TrainerProfile, Diagnostic> {
    let mut profiles =
        paths.iter().map(|path| of_file(context, path)).collect::<Result<Vec<_>, _>>()?;
    if profiles.is_empty() {
        return Err(Diagnostic::new("no recording is named"));
    }
    let first = profiles.remove(0);
    first.merged(profiles).map_err(|error| Diagnostic::new(error.to_string()))
}

/// The profile of the recording or log in the file at `path`.
fn of_file(context: &Context<'_>, path: &Path) -> Result<TrainerProfile, Diagnostic> {
    let content = context.read_bytes(path, timelines::MAX_FILE)?;
    if !timers::is_log(&content) {
        return of(&timelines::read_content(context, path, &content)?);
    }
    let times = timers::of_log(path, &String::from_utf8_lossy(&content))?;
    let name = if times.shape.chunks_per_stage() > 1 { "1f1b-i" } else { "1f1b" };
    let mut facts = Facts { name: name.to_owned(), ..Facts::default() };
    facts.machine.program = "Megatron-LM".to_owned();
    facts.machine.device = "devices that the log does not name".to_owned();
    let profile = TrainerProfile::timed(times.shape, times.placement, &times.passes, facts);
    times.notes.into_iter().for_each(|note| context.warn(note));
    profile.map_err(|error| Diagnostic::new(error.to_string()))
}

/// The passes of a chunk: B, W, and both at once.
fn backwards(chunk: &RecordedChunk) -> [Option<&Quantity>; 3] {
    match &chunk.backward {
        Backward::Whole(whole) => [None, None, Some(whole)],
        Backward::Split { input, weight, whole } => [Some(input), Some(weight), whole.as_ref()],
    }
}

/// `profile` for programs: means in seconds, of the hop the median; sizes in bytes.
#[must_use]
pub fn json(profile: &TrainerProfile) -> impl Serialize {
    let seconds = |one: &Quantity| seconds_of(one.mean());
    let chunks = profile.chunks.iter().map(|chunk| {
        let [input, weight, whole] = backwards(chunk).map(|one| one.map(seconds));
        object!(
            forward_seconds = seconds(&chunk.forward),
            backward_input_seconds = input,
            backward_weight_seconds = weight,
            backward_seconds = whole,
            activation_bytes = chunk.footprint.map(|one| one.until_backward.0),
            activation_until_weight_bytes = chunk.footprint.map(|one| one.until_weight.0),
        )
    });
    object!(
        schedule = &profile.schedule,
        stages = profile.stages,
        placement = profile.placement,
        microbatches = profile.microbatches,
        program = &profile.machine.program,
        device = &profile.machine.device,
        message_bytes = profile.message.map(|bytes| bytes.0),
        hop_seconds = profile.hop.as_ref().map(|one| seconds_of(one.median())),
        overhead_seconds = profile.overhead.as_ref().map(seconds),
        [chunks] = chunks,
    )
}

/// `profile` for people: a row for each chunk, the hop and the overhead below.
#[must_use]
pub fn sheet(profile: &TrainerProfile) -> Sheet {
    let size = |one: Option<Bytes>| one.map(|bytes| bytes.to_string());
    let chunks = profile.chunks.iter().map(|chunk| (chunk, backwards(chunk)));
    let table = table!(
        (at, (chunk, [input, weight, whole])) = chunks.enumerate(),
        "chunk" = at,
        "F" = chunk.forward.mean(),
        "B" = input.map(Quantity::mean),
        "W" = weight.map(Quantity::mean),
        "B and W at once" = whole.map(Quantity::mean),
        "M_B" = size(chunk.footprint.map(|one| one.until_backward)),
        "M_W" = size(chunk.footprint.map(|one| one.until_weight)),
    );
    let doubts = match profile.doubts().as_slice() {
        [] => String::new(),
        [(one, _)] => format!("{one} is known less well than its mean shows\n"),
        [(one, _), rest @ ..] => {
            format!("{one} and {} more are known less well than their means show\n", rest.len())
        }
    };
    let TrainerProfile { schedule, stages, microbatches, .. } = profile;
    Sheet::default()
        .and_text(format!(
            "recorded: {schedule} on {}, {stages} stages, {microbatches} microbatches\n\n",
            profile.machine.device
        ))
        .and(table)
        .and_text(format!(
            "\nhop {}, overhead of a pass {}, message {}\n{doubts}",
            profile.hop.as_ref().map(Quantity::median).cell(),
            profile.overhead.as_ref().map(Quantity::mean).cell(),
            size(profile.message).cell(),
        ))
}
