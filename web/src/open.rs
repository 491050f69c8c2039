//! Files that were opened on the page: their kinds and contents.

use std::path::PathBuf;

use ::profile::AnyProfile;
use answer::advise::{self, AdviceQuestion};
use answer::timelines::{self, Recorded, Source};
use answer::{compare, profile, replay, verify};
use draw::gantt::{self, Chart};
use draw::pictures;
use imports::Given;
use question::kinds::InputKind;
use question::{Context, Diagnostic, keywords, object, profiles, quote};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::sheet::parts;

/// Most bytes of a file that are read to find its kind.
const LOOKED_AT: u64 = 16 << 20;
/// Magic bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";
/// The most slots of a timeline that are drawn.
const MOST_DRAWN: usize = 100_000;

/// A file of the page.
#[derive(Deserialize)]
pub(crate) struct File {
    /// Its name.
    file: PathBuf,
}

impl File {
    /// The kind of the file, by its content.
    pub(crate) fn kind(&self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let content = context.read_bytes(&self.file, limits::MOST_BYTES)?;
        let answered = |kind: Option<InputKind>, text: Option<String>| {
            let words = kind.map_or("a file of no kind that is known", InputKind::words);
            // Its text, where it is a question.
            Ok(object!(kind = kind, words = words, some(text) = text))
        };
        if content.starts_with(PARQUET) {
            return answered(Some(InputKind::Trace), None);
        }
        let text = String::from_utf8(content);
        let text = text.map_err(|_| Diagnostic::unreadable(&self.file, "it is not UTF-8 text"))?;
        if text.len() as u64 > LOOKED_AT {
            // Nothing else is as long.
            return answered(
                text.trim_start().starts_with(['{', '[']).then_some(InputKind::Trace),
                None,
            );
        }
        let kind = match imports::is_known(context, &self.file, &text) {
            true => Some(InputKind::Run),
            false => InputKind::of(&text),
        };
        if kind.is_none() {
            self.check(context, &text)?;
        }
        let asks = |kind: InputKind| {
            kind.question().is_some() || matches!(kind, InputKind::ModelConfig | InputKind::Cluster)
        };
        answered(kind, kind.is_some_and(asks).then_some(text))
    }

    /// Reports what is wrong with `text` of unknown kind, by the format that its name promises.
    fn check(&self, context: &Context<'_>, text: &str) -> Result<(), Diagnostic> {
        let extension = self.file.extension().and_then(|one| one.to_str()).unwrap_or_default();
        match extension {
            "toml" | "cert" => keywords::document(&self.file, text).map(drop),
            "json" => {
                serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(|error| {
                    let message = format!("{}: it is not JSON: {error}", quote::path(&self.file));
                    Diagnostic::file(&self.file, message)
                })
            }
            "txt" | "csv" => cases::read_schedule(context, &self.file).map(drop),
            _ => Ok(()),
        }
    }

    /// The shape of the order in it.
    pub(crate) fn order(&self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let (_, schedule) = cases::read_schedule(context, &self.file)?;
        let shape = schedule.shape();
        Ok(object!(
            stages = shape.stages(),
            microbatches = shape.microbatches(),
            chunks = shape.chunks_per_stage(),
            passes = schedule.passes(),
        ))
    }

    /// The profile in it: of a trainer with its times as a table and what was recorded, or of a machine and the parts of a
    /// transformer.
    pub(crate) fn profile(&self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let trainer = match profiles::parse(context, &self.file)? {
            AnyProfile::Machine(_) => None,
            AnyProfile::Trainer(trainer) => Some(trainer),
        };
        let trainer = trainer.as_ref();
        Ok(object!(
            trainer = trainer.is_some(),
            sheet = trainer.map(|one| parts(profile::sheet(one))),
            stages = trainer.map(|one| one.stages),
            microbatches = trainer.map(|one| one.microbatches),
        ))
    }

    /// Whether the certificate in it holds.
    pub(crate) fn verify(&self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let answer = verify::verify(context, &self.file)?;
        let sheet = parts(answer.sheet());
        Ok(object!(flat(answer) = answer, sheet = sheet))
    }

    /// The timeline in it.
    pub(crate) fn timeline(&self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let recorded = timelines::read(context, &self.file)?;
        let made = match recorded.source {
            Source::Measured => profile::of(&recorded).ok(),
            Source::Simulated => None,
        };
        let shape = recorded.shape();
        Ok(object!(
            name = recorded.name.clone(),
            source = recorded.source.name(),
            device = recorded.device.clone(),
            stages = shape.stages(),
            microbatches = shape.microbatches(),
            steps = recorded.steps.len(),
            // The step that stands for all; nothing if it has too many passes.
            svg = drawn(&recorded)?,
            // The profile of the trainer, if it is a recording that has one, and the same as a table.
            profile = made.as_ref().map(::profile::TrainerProfile::to_toml),
            sheet = made.map(|made| parts(profile::sheet(&made))),
        ))
    }
}

/// The step of `recorded` that stands for all, if it has not too many passes.
fn drawn(recorded: &Recorded) -> Result<Option<String>, Diagnostic> {
    let timeline = recorded.steps[recorded.chosen()].timeline();
    let slots: usize = timeline.stages.iter().map(Vec::len).sum();
    if slots > MOST_DRAWN {
        return Ok(None);
    }
    let chart = Chart {
        title: &recorded.name,
        timeline: &timeline,
        row: "stage",
        copies: &[],
        costs: None,
    };
    Ok(Some(gantt::svg(&[chart])?))
}

/// A question for [`advise::advise`]: the files of a run.
#[derive(Deserialize)]
pub(crate) struct Advise {
    files: Vec<PathBuf>,
    /// The machine of the run.
    machine: Option<String>,
}

impl Advise {
    /// The changes of the run.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let given = Given { machine: self.machine, ..Given::default() };
        let advice = advise::advise(context, &AdviceQuestion { files: self.files, given })?;
        let has_files = advice.first().is_some() || advice.calibration.is_some();
        let files = has_files.then(|| advice.export(context, None)).transpose()?;
        Ok(object!(
            sheet = parts(advice.sheet()?),
            notes = advice.notes.clone(),
            // The gains as a picture; nothing where no change helps.
            svg = pictures::advise::svg(&advice, None).ok(),
            // The files of the change to make first, or of the run on the calibrated machine, by name.
            files = files.map_or_else(Vec::new, |written| written.files),
        ))
    }
}

/// A question for [`replay::replay`].
#[derive(Deserialize)]
pub(crate) struct Replay {
    /// The traces of the run, one or one for each rank.
    files: Vec<PathBuf>,
    #[serde(default)]
    launch_delays: bool,
    #[serde(default)]
    keys: question::replay::ReplayKeys,
}

impl Replay {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let answer = replay::replay(context, &self.files, self.launch_delays, &self.keys)?;
        let sheet = parts(answer.sheet());
        Ok(object!(flat(answer) = answer, sheet = sheet))
    }
}

/// A question for [`compare::Comparison`].
#[derive(Deserialize)]
pub(crate) struct Compare {
    predicted: PathBuf,
    measured: PathBuf,
}

impl Compare {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let predicted = timelines::read(context, &self.predicted)?;
        let measured = timelines::read(context, &self.measured)?;
        let comparison = compare::Comparison::of(&predicted, &measured)?;
        Ok(object!(
            comparison = serde_json::to_value(&comparison).map_err(crate::text::unwritable)?,
            sheet = parts(compare::report::sheet(&comparison)),
            svg = pictures::compare::timelines(&comparison, None)?,
        ))
    }
}
