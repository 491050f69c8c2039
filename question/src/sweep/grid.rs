//! The grid of a sweep: which question has which index.
//!
//! The settings vary slowest, then the axes in the order written, then the schedules. Nothing
//! here is as long as the grid.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use super::Checksum;
use super::axis::Axis;
use super::columns::Columns;
use crate::diagnostic::Diagnostic;
use crate::files;
use crate::hardware;
use crate::host::Context;
use crate::keys::Keys;
use crate::keys::table::Set as _;
use crate::noise;
use crate::resolve::{complete, microbatches, profiles, resolve};
use crate::scenario::{Scenario, Setting};
use crate::source::{self, ScheduleSource};

/// The most questions of a sweep.
const MAX_QUESTIONS: u64 = 100_000_000;

/// All questions of a sweep.
pub struct Grid {
    /// The scenario that errors point into.
    pub scenario: Scenario,
    /// The axes, slowest first.
    pub axes: Vec<Axis>,
    parts: Vec<Part>,
    /// How many questions there are.
    pub questions: u64,
    /// Fingerprint of this sweep.
    pub fingerprint: u64,
}

/// The questions of one setting.
struct Part {
    begin: u64,
    setting: Setting,
    rules: Vec<ScheduleSource>,
    /// The axis whose value chooses among the rules, if the schedule is an axis.
    chosen_by: Option<usize>,
}

/// One question of a grid.
pub struct GridQuestion<'a> {
    /// Its keys.
    pub setting: Setting,
    /// The source of the order.
    pub rule: &'a ScheduleSource,
    /// Its place on each axis.
    pub places: Vec<u64>,
    /// The number of its run: questions of one run differ in schedule and in the key of the fastest axis alone.
    pub run: u64,
}

impl Grid {
    /// Reads the scenario in `file`, with `flags` over it, and checks what can be checked before anything runs.
    pub fn read(context: &Context<'_>, file: &Path, flags: &Keys) -> Result<Self, Diagnostic> {
        let (mut scenario, axes) = Scenario::read_sweep(context, file)?;
        let axes = axes.unwrap_or_default();
        for axis in &axes {
            let flag = flags.given().chain(flags.hardware.given()).any(|key| key == axis.key);
            let twice = scenario.settings.iter().any(|setting| setting.says(&axis.key));
            if flag || twice {
                let key = &axis.key;
                let message =
                    format!("{key} is an axis, and given once more: give it in one place");
                return Err(scenario.error_at(axis.place.clone(), message));
            }
        }
        for setting in &mut scenario.settings {
            setting.overrule(flags.clone());
        }
        let mut grid = Self { scenario, axes, parts: Vec::new(), questions: 0, fingerprint: 0 };
        grid.lay_out(context)?;
        grid.check(context)?;
        grid.fingerprint = grid.checksum(context)?;
        Ok(grid)
    }

    /// Gives every setting its questions.
    fn lay_out(&mut self, context: &Context<'_>) -> Result<(), Diagnostic> {
        let chosen_by = self.axes.iter().position(|axis| axis.key == "schedule");
        let too_many = || {
            let message = format!("the sweep has more than {MAX_QUESTIONS} questions");
            Diagnostic::new(message).with_help("sweep fewer values, or split it into several files")
        };
        let points = self.axes.iter().try_fold(1u64, |all, axis| all.checked_mul(axis.count()));
        let points = points.filter(|&points| points <= MAX_QUESTIONS).ok_or_else(too_many)?;
        for setting in &self.scenario.settings {
            let rules = match chosen_by {
                Some(axis) => self.chosen_rules(context, setting, &self.axes[axis])?,
                None => {
                    let selected = source::selected(context, &self.scenario, setting)?.into_iter();
                    selected.map(|one| one.rule).collect()
                }
            };
            let each = if chosen_by.is_some() { 1 } else { rules.len() as u64 };
            let setting = setting.clone();
            self.parts.push(Part { begin: self.questions, setting, rules, chosen_by });
            let more = points.checked_mul(each).and_then(|more| self.questions.checked_add(more));
            self.questions = more.filter(|&all| all <= MAX_QUESTIONS).ok_or_else(too_many)?;
        }
        Ok(())
    }

    /// The rule at each value of an axis of schedules.
    fn chosen_rules(
        &self,
        context: &Context<'_>,
        setting: &Setting,
        axis: &Axis,
    ) -> Result<Vec<ScheduleSource>, Diagnostic> {
        let one = |index| {
            let keys = self.at(axis, index)?;
            let mut selected = source::selected(context, &self.scenario, &setting.with(keys))?;
            match selected.pop() {
                Some(one) if !one.by_all && !axis.label(index).contains(',') => Ok(one.rule),
                _ => {
                    let message = "an axis takes one schedule at a time".to_owned();
                    let cure = "`schedule = \"all\"` above [sweep] asks every one";
                    Err(self.scenario.error_at(axis.place.clone(), message).with_help(cure))
                }
            }
        };
        (0..axis.count()).map(one).collect()
    }

    fn at(&self, axis: &Axis, index: u64) -> Result<Keys, Diagnostic> {
        axis.keys(index).map_err(|message| {
            self.scenario.error_at(axis.place.clone(), format!("{}: {message}", axis.key))
        })
    }

    /// Checks that no question lacks a key, and that every file that one names can be read.
    fn check(&self, context: &Context<'_>) -> Result<(), Diagnostic> {
        for part in &self.parts {
            let shared = self.question(context, part.begin)?.setting.keys;
            for rule in &part.rules {
                let mut setting = part.setting.clone();
                setting.keys = shared.clone();
                complete(&self.scenario, &setting, rule)?;
            }
        }
        for keys in self.all_keys() {
            let keys = keys?;
            hardware::check_files(context, &keys)?;
            noise::check_files(context, &keys)?;
            profiles::of(context, &keys)?;
            microbatches::check_files(context, &keys)?;
        }
        Ok(())
    }

    /// The keys of every setting, and of every value of an axis that may name a file.
    fn all_keys(&self) -> impl Iterator<Item = Result<Keys, Diagnostic>> {
        let naming = [
            "cluster",
            "slowdown-profile",
            "jitter",
            "profile",
            "chain-file",
            "microbatch-work-file",
            "microbatch-lengths",
        ];
        let axes = self.axes.iter().filter(move |axis| naming.contains(&&axis.key[..]));
        let of_axes = axes.flat_map(|axis| (0..axis.count()).map(|index| self.at(axis, index)));
        self.parts.iter().map(|part| Ok(part.setting.keys.clone())).chain(of_axes)
    }

    /// The columns of its rows.
    pub fn columns(&self) -> Columns {
        Columns::of(&self.axes, self.is_asynchronous(), |keys| self.asks(keys))
    }

    /// Whether some question says one of `keys`.
    pub fn asks(&self, keys: &[&str]) -> bool {
        let given = |own: &Keys| own.given().chain(own.hardware.given()).any(|k| keys.contains(&k));
        self.parts.iter().any(|part| given(&part.setting.keys))
            || self.axes.iter().any(|axis| keys.contains(&&axis.key[..]))
    }

    /// Whether the schedule of some question is asynchronous.
    pub fn is_asynchronous(&self) -> bool {
        self.parts.iter().flat_map(|part| &part.rules).any(ScheduleSource::is_asynchronous)
    }

    /// The most replicas that a question asks for.
    pub fn most_replicas(&self) -> u64 {
        let axes = self.axes.iter().filter(|axis| axis.key == "replicas");
        let listed = axes.flat_map(|axis| {
            // A range grows.
            let first = if axis.is_listed() { 0 } else { axis.count() - 1 };
            (first..axis.count()).filter_map(|index| axis.keys(index).ok()?.replicas)
        });
        let own = self.parts.iter().filter_map(|part| part.setting.keys.replicas);
        own.chain(listed).max().unwrap_or(0)
    }

    /// Over everything that an answer, or its row, depends on.
    fn checksum(&self, context: &Context<'_>) -> Result<u64, Diagnostic> {
        let mut text = String::from(env!("CARGO_PKG_VERSION"));
        text.push_str(&String::from_utf8_lossy(&self.columns().header()));
        // Writing to a string cannot fail.
        for axis in &self.axes {
            let (first, last) = (axis.label(0), axis.label(axis.count() - 1));
            let _ = write!(text, "\n{} {} {first} {last}", axis.key, axis.count());
            if axis.count() <= 100_000 {
                (0..axis.count()).for_each(|index| text.extend([" ", &axis.label(index)]));
            }
        }
        for part in &self.parts {
            let _ = write!(text, "\n{:?} {:?}", part.setting.name, part.setting.keys);
            for rule in &part.rules {
                text.extend(["\n", rule.name()]);
                if let ScheduleSource::File(_, schedule) = rule {
                    let _ = write!(text, "\n{schedule}");
                }
            }
        }
        let mut checksum = Checksum::default();
        checksum.add(text.as_bytes());
        for keys in self.all_keys() {
            files::each(context, &keys?, |content| checksum.add(content))?;
        }
        Ok(checksum.value())
    }

    /// The first question of each setting with each schedule, and the same with each value of one
    /// axis, of long axes the first and the last.
    pub fn samples(&self, context: &Context<'_>) -> Result<Vec<GridQuestion<'_>>, Diagnostic> {
        const LISTED: u64 = 100;
        let mut samples = Vec::new();
        for part in &self.parts {
            let rules = if part.chosen_by.is_some() { 1 } else { part.rules.len() as u64 };
            for rule in 0..rules {
                samples.push(self.question(context, part.begin + rule)?);
            }
            let mut stride = rules;
            for axis in self.axes.iter().rev() {
                let last = axis.count() - 1;
                let values = (1..=last).filter(|&value| value == last || value < LISTED);
                for value in values.take(100) {
                    samples.push(self.question(context, part.begin + value * stride)?);
                }
                stride *= axis.count();
            }
        }
        Ok(samples)
    }

    /// Question number `index`.
    pub fn question(
        &self,
        context: &Context<'_>,
        index: u64,
    ) -> Result<GridQuestion<'_>, Diagnostic> {
        Questions::of(self).get(context, index)
    }

    /// The value that a question has on each axis.
    pub fn labels<'a>(&'a self, places: &'a [u64]) -> impl Iterator<Item = Cow<'a, str>> {
        self.axes.iter().zip(places).map(|(axis, &place)| axis.label(place))
    }
}

/// Questions of a grid in a row: what the slower axes say is read once.
pub struct Questions<'a> {
    grid: &'a Grid,
    /// The place on each axis of the last question.
    places: Vec<u64>,
    /// By axis, the keys of it and of all before it at these places.
    keys: Vec<Keys>,
    /// The first question of the last one's part, and the setting of the last one before it is resolved.
    last: Option<(u64, Setting)>,
    /// The number of the key of the fastest axis among the fields of keys.
    fastest: Option<usize>,
    /// Number of runs begun.
    runs: u64,
}

impl<'a> Questions<'a> {
    /// Those of `grid`.
    #[must_use]
    pub fn of(grid: &'a Grid) -> Self {
        let named = |axis: &Axis| Keys::rows().into_iter().position(|row| row.name == axis.key);
        let fastest = grid.axes.last().and_then(named);
        Self { grid, places: Vec::new(), keys: Vec::new(), last: None, fastest, runs: 0 }
    }

    /// Question number `index`.
    pub fn get(
        &mut self,
        context: &Context<'_>,
        index: u64,
    ) -> Result<GridQuestion<'a>, Diagnostic> {
        let Grid { parts, axes, scenario, .. } = self.grid;
        let after = parts.partition_point(|part| part.begin <= index);
        let part = &parts[after.max(1) - 1];
        let mut rest = index - part.begin;
        let mut rule = 0;
        if part.chosen_by.is_none() {
            rule = rest % part.rules.len() as u64;
            rest /= part.rules.len() as u64;
        }
        let mut places = vec![0; axes.len()];
        for (place, axis) in places.iter_mut().zip(axes).rev() {
            *place = rest % axis.count();
            rest /= axis.count();
        }
        if let Some(axis) = part.chosen_by {
            rule = places[axis];
        }
        let mut setting = match self.next(part, &places) {
            Some(setting) => setting,
            None => {
                self.last = None;
                self.runs += 1;
                let keys = self.at(&places)?.over(part.setting.keys.clone());
                let setting = part.setting.with(keys);
                self.last = Some((part.begin, setting.clone()));
                setting
            }
        };
        resolve(context, scenario, &mut setting)?;
        let rule = &part.rules[usize::try_from(rule).unwrap_or(usize::MAX)];
        Ok(GridQuestion { setting, rule, places, run: self.runs })
    }

    /// The setting of a question of `part` that differs from the last one in its place on the fastest axis alone. Which
    /// other keys a key excludes depends on no value.
    fn next(&mut self, part: &Part, places: &[u64]) -> Option<Setting> {
        let (place, slower) = places.split_last()?;
        let (axis, field) = (self.grid.axes.last()?, self.fastest?);
        let is_near = self.places.get(..slower.len()) == Some(slower);
        let (_, last) = self.last.as_mut().filter(|(begin, _)| is_near && *begin == part.begin)?;
        let mut fields = last.keys.fields_mut();
        fields[field].clear();
        let put = |value| fields[field].put(value).is_ok();
        if axis.plain(*place, field).into_iter().all(put) {
            return Some(last.clone());
        }
        // The error of this value names the axis.
        self.last = None;
        None
    }

    /// The keys of all axes at `places`.
    fn at(&mut self, places: &[u64]) -> Result<Keys, Diagnostic> {
        let same = self.places.iter().zip(places).take_while(|(was, is)| was == is).count();
        self.places.truncate(same);
        self.keys.truncate(same);
        for (axis, &place) in self.grid.axes.iter().zip(places).skip(same) {
            let own = self.grid.at(axis, place)?;
            let keys = self.keys.last().cloned().unwrap_or_default().or(own);
            self.keys.push(keys);
            self.places.push(place);
        }
        Ok(self.keys.last().cloned().unwrap_or_default())
    }
}
