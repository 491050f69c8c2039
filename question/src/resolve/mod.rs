//! The keys of a setting, resolved once: flags over a file, what a layout says of the pipeline, B and W where
//! both are given together, and what is taken of a profile.

mod backward;
mod layout;
pub mod profiles;

use std::path::Path;

use pipeline::{Bytes, Limit};

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
pub(crate) use backward::is_own;
pub use backward::{Split, SplitJson};
pub(crate) use layout::{agree as agree_with_layout, layers as layers_of_layout};

impl Scenario {
    /// The scenario in `file`, or none, with `flags` over what it says.
    ///
    /// # Errors
    /// If the file cannot be read or understood, or B and W are given both together and apart.
    pub fn asked(
        context: &Context<'_>,
        file: Option<&Path>,
        flags: &Keys,
    ) -> Result<Self, Diagnostic> {
        match file {
            Some(file) => Self::read(context, file)?.with(context, flags),
            None => Self::none().with(context, flags),
        }
    }

    /// The same questions with `flags` over what they say, ready to be answered.
    ///
    /// # Errors
    /// If B and W are given both together and apart, or a layout does not fit.
    pub fn with(mut self, context: &Context<'_>, flags: &Keys) -> Result<Self, Diagnostic> {
        for setting in &mut self.settings {
            setting.overrule(flags.clone());
        }
        let mut settings = std::mem::take(&mut self.settings);
        for setting in &mut settings {
            resolve(context, &self, setting)?;
        }
        self.settings = settings;
        Ok(self)
    }
}

/// Gives `setting` what follows from its layout, and B and W where it has only both together.
///
/// # Errors
/// If B and W are given both together and apart, or a layout does not fit.
pub(crate) fn resolve(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &mut Setting,
) -> Result<(), Diagnostic> {
    layout::resolve(scenario, setting)?;
    backward::resolve(context, scenario, setting)
}

/// Checks that a memory limit in bytes has sizes of activations to be held against.
pub(crate) fn check_limit(
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

/// The first memory limit that is a number of bytes.
pub(crate) fn limit_in_bytes(keys: &Keys) -> Option<Bytes> {
    keys.memory_limit.iter().flatten().find_map(|limit| match limit {
        Limit::Bytes(bytes) => Some(*bytes),
        Limit::TimesP { .. } => None,
    })
}
