//! Prediction of a run whose stages slow each other, from two profiles of the same machine: of passes
//! with no other stage busy, and beside busy neighbours.

use std::num::NonZeroU32;
use std::path::PathBuf;

use pipeline::Metrics;
use profile::Profile;
use sim::contention::Contention;

use super::flags::Execute;
use crate::error::Error;
use cases::{Case, ScheduleSource};
use question::scenario::{Scenario, Setting};
use question::{Context, profiles};

/// The profile of passes with no other stage busy.
pub struct Alone {
    path: PathBuf,
    /// How many neighbours were busy when the other profile was measured.
    neighbours: NonZeroU32,
}

impl Alone {
    /// The profile that `execute` names beside the one of the question, `beside`, if it names one.
    ///
    /// # Errors
    /// If the question names no profile, this one cannot be read or is of a trainer, both are of different
    /// machines or models, or this one was measured beside neighbours, or the other beside none.
    pub fn of(
        context: &Context<'_>,
        execute: &Execute,
        beside: Option<&Profile>,
    ) -> Result<Option<Self>, Error> {
        let Some(path) = execute.profile_alone.clone() else { return Ok(None) };
        let Some(beside) = beside else {
            let message = "--profile-alone: there is no profile measured with busy neighbours";
            let cure = "name one with --profile: `debubble calibrate --workers N --out FILE` \
                        measures it, N the number of stages";
            return Err(Error::question(message).with_help(cure));
        };
        let alone = profiles::read(context, &path)?;
        let Some(alone) = alone.machine() else {
            let message =
                "--profile-alone: it is the profile of a trainer, and a machine is needed";
            let cure = "measure the machine with `debubble calibrate --workers 1`";
            return Err(Error::question(message).with_help(cure));
        };
        agree(alone, beside)?;
        Ok(Some(Self { path, neighbours: neighbours(alone, beside)? }))
    }

    /// The prediction of `case`, whose order `rule` made for the profile that `setting` names.
    ///
    /// # Errors
    /// If the profile has no times for it, or something runs beside its passes.
    pub fn predict(
        &self,
        context: &Context<'_>,
        scenario: &Scenario,
        setting: &Setting,
        rule: &ScheduleSource,
        case: &Case,
    ) -> Result<Metrics, Error> {
        let mut setting = setting.clone();
        setting.keys.profile = Some(self.path.clone());
        let alone = cases::problem(context, scenario, &setting, rule)?;
        let (alone, beside) = (alone.costs(), case.problem.costs());
        let contention = Contention { alone, beside, neighbours: self.neighbours };
        let timeline = contention.timeline(&case.schedule).map_err(|error| {
            case.error(&error).with_help("leave --profile-alone out, or this schedule")
        })?;
        Ok(match case.steady {
            Some(steady) => steady.metrics(case.schedule.shape(), &timeline),
            None => Metrics::of(&timeline),
        })
    }
}

/// Checks that both profiles are of the same machine, device and model.
fn agree(alone: &Profile, beside: &Profile) -> Result<(), Error> {
    let of = |profile: &Profile| {
        let sizes = profile.model.sizes().map(|(name, size)| (name, size.to_string()));
        measured_on(profile).into_iter().chain(sizes).collect::<Vec<_>>()
    };
    let both = of(alone).into_iter().zip(of(beside));
    let Some(((what, one), (_, other))) = both.into_iter().find(|(one, other)| one != other) else {
        return Ok(());
    };
    let message = format!(
        "--profile-alone is not of the same machine and model as --profile: its {what} is {one}, that of \
         --profile {other}"
    );
    let cure = "measure both with the same flags of `debubble calibrate` but for --workers";
    Err(Error::question(message).with_help(cure))
}

/// How many neighbours were busy when `beside` was measured.
fn neighbours(alone: &Profile, beside: &Profile) -> Result<NonZeroU32, Error> {
    if alone.machine.neighbours > 0 {
        let count = alone.machine.neighbours;
        let workers = if count == 1 { "worker" } else { "workers" };
        let message = format!("--profile-alone was measured with {count} busy {workers}");
        return Err(Error::question(message)
            .with_help("measure it with `debubble calibrate --workers 1`, and name that file"));
    }
    let count = u32::try_from(beside.machine.neighbours).unwrap_or(u32::MAX);
    NonZeroU32::new(count).ok_or_else(|| {
        let message = "--profile was measured with no busy neighbours, as --profile-alone was";
        let cure = "measure it with `debubble calibrate --workers N`, N the number of stages";
        Error::question(message).with_help(cure)
    })
}

/// The machine and model of `profile`, by name: they must be the same for its times to hold.
pub fn measured_on(profile: &Profile) -> [(&'static str, String); 4] {
    let (machine, model) = (&profile.machine, &profile.model);
    [
        ("processor", machine.cpu.clone()),
        ("number of cores", machine.cores.to_string()),
        ("device", machine.device.clone()),
        ("element", model.element().name().to_owned()),
    ]
}
