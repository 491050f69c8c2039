//! Warnings about a question: keys without influence, and assumptions.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::Schedule;

use crate::hardware::{self, Hardware};
use crate::host::Context;
use crate::scenario::Setting;
use crate::source::ScheduleSource;
use crate::{noise, notes};

/// Warnings about questions, each once however many schedules and settings it concerns.
#[derive(Default)]
pub struct Warnings {
    /// The schedules that each warning concerns.
    of_schedules: BTreeMap<String, BTreeSet<String>>,
    of_settings: BTreeSet<String>,
}

impl Warnings {
    /// Adds `text`, which concerns `schedule`.
    pub fn add(&mut self, text: &str, schedule: &str) {
        self.of_schedules.entry(text.to_owned()).or_default().insert(schedule.to_owned());
    }

    /// Adds `text`, which concerns every schedule of a setting.
    pub fn add_of_setting(&mut self, text: impl Into<String>) {
        self.of_settings.insert(text.into());
    }

    /// Adds the assumptions about `setting`, and its keys that have no influence on any schedule.
    pub fn add_assumed(&mut self, context: &Context<'_>, setting: &Setting) {
        self.of_settings.extend(notes::assumed(context, setting));
        self.of_settings.extend(noise::ignored(setting));
        self.of_settings.extend(hardware::ignored(setting));
    }

    /// Adds the keys of `setting` that have no influence on the schedule of `rule`.
    pub fn add_ignored(&mut self, setting: &Setting, rule: &ScheduleSource) {
        for text in notes::ignored(setting, rule) {
            self.add(&text, rule.name());
        }
    }

    /// Adds the slowed links of `setting` over which `schedule`, called `name`, sends nothing.
    pub fn add_idle_links(&mut self, setting: &Setting, schedule: &Schedule, name: &str) {
        for text in noise::idle_links(setting, schedule) {
            self.add(&text, name);
        }
    }

    /// Adds how the expert group of the schedule `name` is placed on `hardware`, if it has one.
    pub fn add_spread(&mut self, hardware: Option<&Hardware>, name: &str) {
        if let Some(text) = hardware.and_then(hardware::spread_of_experts) {
            self.add(&text, name);
        }
    }

    /// The warnings, a line each: first those of schedules, then those of settings.
    pub fn lines(&self) -> Vec<String> {
        let of_schedules = self.of_schedules.iter().map(|(text, schedules)| {
            let schedules: Vec<&str> = schedules.iter().map(String::as_str).collect();
            format!("{}: {text}", schedules.join(", "))
        });
        of_schedules.chain(self.of_settings.iter().cloned()).collect()
    }
}
