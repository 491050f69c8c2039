//! The source of the order of passes of a question.

use std::path::Path;

use pipeline::torch_csv::{self, ScheduleTextError};
use pipeline::{Family, Kind, LeftOut, Order, Placement, Schedule, Semantics, Slot, TextError};

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::memory;
use crate::nearest;
use crate::quote;
use crate::scenario::{Scenario, Setting};

/// The largest schedule file.
const MAX_SCHEDULE: u64 = 2 << 30;

/// Bytes that each byte of such a file takes when it is read: a pass is five bytes or more.
const OF_A_BYTE: u64 = 6;

/// The source of the order of passes: a family, a file or a search.
pub enum ScheduleSource {
    /// A family.
    Family(Family),
    /// The schedule of a file, and the name of the file.
    File(String, Box<Schedule>),
    /// The best order that a search finds, with the given placement of chunks, or the default of their number.
    Searched(Option<Placement>),
}

/// The name of the best order that is found.
pub const SEARCHED: &str = search::NAME;

impl ScheduleSource {
    /// The family of that name, or the schedule in that file.
    pub fn named(context: &Context<'_>, name: &str) -> Result<Self, Diagnostic> {
        if let Some(family) = Family::named(name) {
            return Ok(Self::Family(family));
        }
        if name == SEARCHED {
            return Ok(Self::Searched(None));
        }
        let path = Path::new(name);
        if !context.exists(path) && !name.contains(['/', '.']) {
            return Err(unknown(name));
        }
        let (stem, schedule) = read(context, path)?;
        Ok(Self::File(stem, Box::new(schedule)))
    }

    /// The family, if it is one.
    pub const fn family(&self) -> Option<Family> {
        match self {
            Self::Family(family) => Some(*family),
            Self::File(..) | Self::Searched(_) => None,
        }
    }

    /// Whether its weights are stale: such a step does not compare with those of other schedules.
    pub fn is_asynchronous(&self) -> bool {
        self.family().is_some_and(|family| family.about().semantics == Semantics::Asynchronous)
    }

    /// Whether every backward pass of its orders does B and W at once.
    pub fn has_whole_backwards(&self) -> bool {
        match self {
            Self::Family(family) => family.has_whole_backwards(),
            Self::File(_, schedule) => {
                let slots = schedule.orders().iter().flat_map(Order::slots);
                slots.flat_map(Slot::passes).all(|pass| !matches!(pass.kind, Kind::B | Kind::W))
            }
            Self::Searched(_) => false,
        }
    }

    /// The name of the family, or of the file without folder and extension.
    pub fn name(&self) -> &str {
        match self {
            Self::Family(family) => family.name(),
            Self::File(name, _) => name,
            Self::Searched(_) => SEARCHED,
        }
    }
}

/// The schedule in the file at `path`, in the text form or the CSV of torch, and the name of the file without
/// folder and extension.
pub fn read(context: &Context<'_>, path: &Path) -> Result<(String, Schedule), Diagnostic> {
    let text = context.read_text(path, MAX_SCHEDULE)?;
    let name = path.display().to_string();
    let cure = "write fewer microbatches, or give the process more memory";
    memory::demand(context.host(), &name, (text.len() as u64).saturating_mul(OF_A_BYTE), cure)?;
    let schedule = torch_csv::read_either(&text).map_err(|error| misread(path, &error))?;
    let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok((stem, schedule))
}

/// `error`, with its place in the file at `path`.
fn misread(path: &Path, error: &ScheduleTextError) -> Diagnostic {
    let mut diagnostic = Diagnostic::file(path, format!("{}: {error}", path.display()));
    if let (
        ScheduleTextError::Text(
            TextError::Word { line, column, .. } | TextError::Copy { line, column, .. },
        ),
        Some(place),
    ) = (error, &mut diagnostic.place)
    {
        (place.line, place.column) = (Some(*line), Some(*column));
    }
    diagnostic
}

/// The error of a `name` without a schedule, with the nearest name or the reason why it is not offered.
#[must_use]
pub fn unknown(name: &str) -> Diagnostic {
    if let Some(LeftOut { name, why, .. }) = LeftOut::named(name) {
        return Diagnostic::new(format!("{name} is not offered: {why}"));
    }
    let names = Family::ALL.iter().map(|family| family.name()).chain([SEARCHED, ALL]);
    let near = nearest::question(name, names);
    Diagnostic::new(format!("there is no schedule `{}`{near}", quote::clip(name))).with_help(
        "`debubble schedules` lists all names, such as 1f1b, 1f1b-i, zb-h1, zb-2p and zb-v; the name \
         of a file needs a `.` or a `/`",
    )
}

/// The name that selects all schedules.
pub const ALL: &str = "all";

/// A schedule that a setting asks for.
pub struct Selected {
    /// The source of the order.
    pub rule: ScheduleSource,
    /// Whether it is only meant by [`ALL`], and need not be able to do the question.
    pub by_all: bool,
}

/// The schedules a setting names, one by one.
pub fn rules(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
) -> Result<Vec<ScheduleSource>, Diagnostic> {
    let selected = selected(context, scenario, setting)?;
    if selected.iter().any(|one| one.by_all) {
        let message = "`all` means every schedule: name the schedules here";
        let cure = "`debubble simulate` and `debubble sweep` take `all`";
        return Err(scenario.error(setting, Some("schedule"), message.to_owned()).with_help(cure));
    }
    Ok(selected.into_iter().map(|one| one.rule).collect())
}

/// The schedules a setting asks for. Where [`ALL`] stands, every family that is not named by itself
/// follows, in the order of [`Family::ALL`], then the searched order; and none of them comes twice.
pub fn selected(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
) -> Result<Vec<Selected>, Diagnostic> {
    let names = setting.keys.schedule.as_deref().unwrap_or_default();
    if names.is_empty() {
        let message = "no schedule is named: give --schedule, for example 1f1b,zb-h1,zb-2p, or all";
        return Err(Diagnostic::new(message).with_help("`debubble schedules` lists all names"));
    }
    let all = names.iter().any(|name| name == ALL);
    let is_named = |name: &str| names.iter().any(|one| one == name);
    let mut selected: Vec<Selected> = Vec::new();
    for name in names {
        let rules = match name == ALL {
            true => {
                let families = Family::ALL.into_iter().map(ScheduleSource::Family);
                let named = families.chain([ScheduleSource::Searched(None)]);
                named.filter(|one| !is_named(one.name())).collect()
            }
            false => vec![rule(context, scenario, setting, name)?],
        };
        for rule in rules {
            let is_named = !matches!(rule, ScheduleSource::File(..));
            let twice = |one: &Selected| is_named && one.rule.name() == rule.name();
            if !(all && selected.iter().any(twice)) {
                selected.push(Selected { rule, by_all: name == ALL });
            }
        }
    }
    Ok(selected)
}

/// The source called `name`; errors point at the key of `setting` that names it.
fn rule(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    name: &str,
) -> Result<ScheduleSource, Diagnostic> {
    ScheduleSource::named(context, name).map_err(|error| match error.is_placeless() {
        true => {
            let placed = scenario.error(setting, Some("schedule"), error.message);
            error.help.into_iter().fold(placed, Diagnostic::with_help)
        }
        false => error,
    })
}
