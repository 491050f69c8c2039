//! Data-parallel training: packing and communication side by side, and one minibatch in time.

use answer::fsdp::{FsdpAnswer, FsdpRow, best};
use draw::pictures;
use question::fsdp::{FsdpKeys, FsdpSetting};
use question::{Context, Diagnostic};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::sheet::Forms;
use crate::text::table;

/// A question for [`answer::fsdp::fsdp`].
#[derive(Deserialize)]
pub(crate) struct Request {
    /// Its keys, as a file.
    text: String,
}

/// Every way in every setting.
#[derive(Serialize)]
pub(crate) struct Answer {
    #[serde(flatten)]
    forms: Forms<FsdpAnswer>,
    /// The bubble over the minibatch size.
    svg: String,
    /// The settings in words, of each of which the first minibatch can be drawn.
    settings: Vec<String>,
    /// The number of the one in which a way gains most.
    best: usize,
}

/// A question, and which of its settings is drawn.
#[derive(Deserialize)]
pub(crate) struct Minibatch {
    /// Its keys, as a file.
    text: String,
    /// The number of the setting, from 0.
    setting: usize,
}

/// A minibatch in time.
#[derive(Serialize)]
pub(crate) struct Drawn {
    /// Its timelines, one for each way.
    svg: String,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<Answer, Diagnostic> {
        let keys: FsdpKeys = table(&self.text)?;
        let settings = settings(context, &planning::samples::of_keys(context, &keys)?)?;
        let answer = answer::fsdp::fsdp(context, &keys)?;
        Ok(Answer {
            svg: pictures::fsdp::bubbles(&answer.results, None)?,
            best: best(&answer.results).map_or(0, |(_, row)| place(&settings, row)),
            settings: settings.iter().map(in_words).collect(),
            forms: Forms::of(answer)?,
        })
    }
}

impl Minibatch {
    /// Draws it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<Drawn, Diagnostic> {
        let keys: FsdpKeys = table(&self.text)?;
        let keys = planning::samples::of_keys(context, &keys)?;
        let settings = settings(context, &keys)?;
        let Some(setting) = settings.get(self.setting) else {
            return Err(Diagnostic::new(format!("there are {} settings", settings.len())));
        };
        let (ways, layers) = (keys.ways(), keys.layers());
        limits::check_layers(setting, ways.len(), layers)?;
        let svg = pictures::fsdp::timelines(setting, &ways, layers, None)?;
        Ok(Drawn { svg })
    }
}

/// The settings of `keys`, which have what follows from a model and a machine, if a browser bears them.
fn settings(context: &Context<'_>, keys: &FsdpKeys) -> Result<Vec<FsdpSetting>, Diagnostic> {
    let settings = keys.settings(context)?;
    limits::check_packing(&settings, keys.minibatches())?;
    Ok(settings)
}

fn in_words(setting: &FsdpSetting) -> String {
    let FsdpSetting { devices, minibatch_size, max_tokens, .. } = setting;
    format!(
        "{devices} devices, minibatch size {minibatch_size}, at most {max_tokens} tokens of a microbatch"
    )
}

/// The number of the setting of `row`.
fn place(settings: &[FsdpSetting], row: &FsdpRow) -> usize {
    let own = |one: &FsdpSetting| {
        (one.devices, one.minibatch_size, one.max_tokens)
            == (row.devices, row.minibatch_size, row.max_tokens)
    };
    settings.iter().position(own).unwrap_or(0)
}
