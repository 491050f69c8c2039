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
    #[serde(default)]
    unexplained: bool,
}

/// Name of torchtitan among the tunings of files; a question names it as its framework.
const TORCHTITAN: (&str, Tuning) = ("torchtitan", Tuning::Torchtitan);

fn tunings() -> impl Iterator<Item = (&'static str, Tuning)> {
    Tuning::NAMES.into_iter().chain([TORCHTITAN])
}

impl CalibratedDocument {
    /// The set-up, or the key that is wrong, and why.
    pub(super) fn run(&self) -> Result<CalibratedRun, (&'static str, String)> {
        let Self { parameters, precision, groups, tuning, unexplained } = self;
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
            is_unexplained: *unexplained,
        })
    }
}

/// The tables of `runs`, each once.
pub(crate) fn text(runs: &[CalibratedRun]) -> String {
    let mut text = String::new();
    for (at, run) in runs.iter().enumerate().filter(|(at, run)| !runs[..*at].contains(run)) {
        let about = "a measured set-up; groups: tensor, pipeline, context, expert, ZeRO";
        let about = if at == 0 { format!("    # {about}") } else { String::new() };
        let CalibratedRun { parameters, precision, tuning, groups, is_unexplained } = run;
        let _ = write!(
            text,
            "\n[[calibrated]]{about}\nparameters = {parameters}\nprecision = \"{}\"\ngroups = {groups:?}\n",
            precision.name()
        );
        if let Some((name, _)) = tunings().find(|(_, known)| Some(*known) == *tuning) {
            let _ = writeln!(text, "tuning = \"{name}\"");
        }
        if *is_unexplained {
            text += "unexplained = true    # it was predicted so badly that it says nothing of other errors\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use question::host::Context;

    use super::*;
    use crate::{MemoryError, machines};

    #[test]
    fn rates_of_a_calibrated_machine_are_those_of_the_software_that_ran() {
        let built_in = scenarios::MACHINES.get("b200").unwrap().to_owned();
        let base = machines::of_device("B200").unwrap();
        assert!(base.efficiency.stock > 1.0);
        let run = |tuning| CalibratedRun {
            parameters: 7,
            precision: Precision::MxFp8,
            tuning,
            groups: [8, 4, 1, 2, 3],
            is_unexplained: false,
        };
        for (tuning, stock) in [
            (None, 1.0),
            (Some(Tuning::Tuned), 1.0),
            (Some(Tuning::Torchtitan), 1.0),
            (Some(Tuning::Stock), base.efficiency.stock),
        ] {
            let file = built_in.clone() + &text(&[run(tuning), run(tuning)]);
            let machine = machines::parse("own", Path::new("own"), &file).unwrap();
            assert_eq!(
                (&machine.calibrated, machine.efficiency.stock),
                (&vec![run(tuning)], stock)
            );
            // A question that does not name the software runs as what calibrated the machine by its defaults.
            let question = "tokens = 1e9\nbatch = 64\nsequence = 1024\n\
                model = { layers = 8, hidden = 1024, heads = 8, vocabulary = 32000 }\n\
                cluster = [{ machine = \"own.toml\", devices = 8 }]\n";
            let files = BTreeMap::from([
                (PathBuf::from("plan.toml"), question.as_bytes().to_vec()),
                (PathBuf::from("own.toml"), file.into_bytes()),
            ]);
            let path = Path::new("plan.toml");
            let asked = crate::read(&Context::new(&files), path, MemoryError::default()).unwrap();
            let is_stock = tuning == Some(Tuning::Stock);
            assert_eq!(asked.recipe.software.tuning, is_stock.then_some(Tuning::Stock));
            assert_eq!(asked.stock.is_none(), is_stock);
        }
        // Stock and torchtitan have rates of their own; other software is the user's.
        let is_of = |tuning, other| run(tuning).is_of(7, Precision::MxFp8, other);
        assert!(is_of(None, Some(Tuning::Stock)) && is_of(Some(Tuning::Tuned), None));
        assert!(!is_of(Some(Tuning::Stock), None) && !is_of(None, Some(Tuning::Torchtitan)));
        assert!(!run(None).is_of(8, Precision::MxFp8, None));
        let wrong = built_in + &text(&[run(None)]).replace("mxfp8\"", "mxfp8\"\ntuning = \"fast\"");
        let error = machines::parse("own", Path::new("own"), &wrong).unwrap_err();
        assert!(error.message.contains("tuning of [[calibrated]] is `fast`"), "{error:?}");
    }
}
