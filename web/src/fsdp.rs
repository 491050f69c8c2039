//! Data-parallel training: packing and communication side by side, and one minibatch in time.

use answer::fsdp::{FsdpRow, best};
use draw::pictures;
use question::fsdp::{FsdpKeys, FsdpSetting};
use question::{Context, Diagnostic, object};
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

/// A question, and which of its settings is drawn.
#[derive(Deserialize)]
pub(crate) struct Minibatch {
    /// Its keys, as a file.
    text: String,
    /// The number of the setting, from 0.
    setting: usize,
}

impl Request {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let keys: FsdpKeys = table(&self.text)?;
        let settings = settings(context, &planning::samples::of_keys(context, &keys)?)?;
        let answer = answer::fsdp::fsdp(context, &keys)?;
        let svg = pictures::fsdp::bubbles(&answer.results, None)?;
        let best = best(&answer.results).map_or(0, |(_, row)| place(&settings, row));
        Ok(object!(
            flat(forms) = Forms::of(answer)?,
            // The bubble over the minibatch size.
            svg = svg,
            // The settings in words, of each of which the first minibatch can be drawn, and the number of the one in which
            // a way gains most.
            [settings] = settings.iter().map(in_words),
            best = best,
        ))
    }
}

impl Minibatch {
    /// Draws it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<impl Serialize, Diagnostic> {
        let keys: FsdpKeys = table(&self.text)?;
        let keys = planning::samples::of_keys(context, &keys)?;
        let settings = settings(context, &keys)?;
        let Some(setting) = settings.get(self.setting) else {
            return Err(Diagnostic::new(format!("there are {} settings", settings.len())));
        };
        let (ways, layers) = (keys.ways(), keys.layers());
        limits::check_layers(setting, ways.len(), layers)?;
        let svg = pictures::fsdp::timelines(setting, &ways, layers, None)?;
        Ok(object!(svg = svg))
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
