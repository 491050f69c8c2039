//! `[[calibrated]]`: the measured set-ups that a machine is calibrated by.

use std::fmt::Write;

use plan::{CalibratedRun, Precision, Tuning};
use serde::Deserialize;

/// The table of one set-up.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct CalibratedDocument {
    parameters: u64,
    precision: String,
    /// Tensor, pipeline, context and expert groups, and the stage of ZeRO.
    groups: [u64; 5],
    tuning: Option<String>,
}

/// Name of torchtitan among the tunings of files; a question names it as its framework.
const TORCHTITAN: (&str, Tuning) = ("torchtitan", Tuning::Torchtitan);

fn tunings() -> impl Iterator<Item = (&'static str, Tuning)> {
    Tuning::NAMES.into_iter().chain([TORCHTITAN])
}

impl CalibratedDocument {
    /// The set-up, or the key that is wrong, and why.
    pub(super) fn run(&self) -> Result<CalibratedRun, (&'static str, String)> {
        let Self { parameters, precision, groups, tuning } = self;
        let unknown = |key, given: &str| {
            let brief: String = given.chars().take(40).collect();
            (key, format!("{key} of [[calibrated]] is `{brief}`, which is none that is known"))
        };
        let named = |name: &String| {
            tunings().find(|(known, _)| known == name).ok_or_else(|| unknown("tuning", name))
        };
        Ok(CalibratedRun {
            parameters: *parameters,
            precision: Precision::named(precision)
                .ok_or_else(|| unknown("precision", precision))?,
            tuning: tuning.as_ref().map(named).transpose()?.map(|(_, tuning)| tuning),
            groups: *groups,
        })
    }
}

/// The tables of `runs`, each once.
pub(crate) fn text(runs: &[CalibratedRun]) -> String {
    let mut text = String::new();
    for (at, run) in runs.iter().enumerate().filter(|(at, run)| !runs[..*at].contains(run)) {
        let about = "a measured set-up; groups: tensor, pipeline, context, expert, ZeRO";
        let about = if at == 0 { format!("    # {about}") } else { String::new() };
        let CalibratedRun { parameters, precision, tuning, groups } = run;
        let _ = write!(
            text,
            "\n[[calibrated]]{about}\nparameters = {parameters}\nprecision = \"{}\"\ngroups = {groups:?}\n",
            precision.name()
        );
        if let Some((name, _)) = tunings().find(|(_, known)| Some(*known) == *tuning) {
            let _ = writeln!(text, "tuning = \"{name}\"");
        }
    }
    text
}
