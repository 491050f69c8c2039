//! One file per command. Each reads its question, answers on `out`, and says what it noted on
//! stderr.

pub mod calibrate;
pub mod compare;
pub mod execute;
pub mod export;
pub mod fsdp;
pub mod plan;
pub mod replay;
pub mod reproduce;
pub mod schedules;
pub mod search;
pub mod simulate;
pub mod sweep;
pub mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::error::Error;
use question::hardware;
use question::keys::Keys;
pub use crate::messages::note;
use question::noise;
use question::case;
use question::case::{Case, Rule};
use question::scenario::{Scenario, Setting};

/// How a command that found nothing wrong with its input ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Done.
    Done,
    /// A check failed.
    Missed,
}

/// Heading in the help of what concerns the answer.
const OUTPUT: &str = "The answer";

/// A scenario file, and keys that go before what it says.
#[derive(Args)]
pub struct Asked {
    /// Scenario file; flags go before what it says
    #[arg(value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    keys: Keys,
}

impl Asked {
    /// The scenario with the flags over it.
    pub fn read(&self) -> Result<Scenario, Error> {
        let mut scenario = match &self.scenario {
            Some(file) => Scenario::read(file)?,
            None => Scenario::none(),
        };
        for setting in &mut scenario.settings {
            setting.overrule(self.keys.clone());
        }
        let mut settings = std::mem::take(&mut scenario.settings);
        settings
            .iter_mut()
            .try_for_each(|setting| case::resolve_backward(&scenario, setting))?;
        scenario.settings = settings;
        Ok(scenario)
    }
}

/// What is worth saying about the questions, each thing once.
#[derive(Default)]
struct Notes {
    /// Schedules by what is said of them.
    of_schedules: BTreeMap<String, BTreeSet<String>>,
    of_settings: BTreeSet<String>,
}

impl Notes {
    fn add(&mut self, text: &str, schedule: &str) {
        self.of_schedules.entry(text.to_owned()).or_default().insert(schedule.to_owned());
    }

    fn add_assumed(&mut self, setting: &Setting) {
        self.of_settings.extend(case::assumed(setting));
        self.of_settings.extend(noise::ignored(setting));
        self.of_settings.extend(hardware::ignored(setting));
    }

    fn add_ignored(&mut self, setting: &Setting, rule: &Rule) {
        for text in case::ignored(setting, rule) {
            self.of_schedules.entry(text).or_default().insert(rule.name().to_owned());
        }
    }

    fn add_idle_links(&mut self, setting: &Setting, case: &Case) {
        for text in noise::idle_links(setting, &case.schedule) {
            self.of_schedules.entry(text).or_default().insert(case.name.clone());
        }
    }

    fn print(&self) {
        for (text, schedules) in &self.of_schedules {
            let schedules: Vec<&str> = schedules.iter().map(String::as_str).collect();
            note(&format!("{}: {text}", schedules.join(", ")));
        }
        self.of_settings.iter().for_each(|text| note(text));
    }
}

/// Prints one JSON object.
pub fn print_json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Error> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
