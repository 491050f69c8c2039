//! Advice as a person reads it.

use std::fmt::Write;

use measured::{CalibratedErrors, Change as Difference};
use question::sheet::Sheet;
use question::{Diagnostic, format, table};
use serde::{Serialize, Serializer};

use super::area::Area;
use super::calibration::Calibration;
use super::changes::{Certainty, Change};
use super::{Advice, area};
use crate::plan::{Plan, SetupReport, quantities, seconds, tables};

/// The parts of a step that are shown.
const PARTS: usize = 8;

impl Advice {
    /// The set-up of the run with its prediction.
    #[must_use]
    pub fn now(&self) -> Option<&Plan> {
        self.current.answer.plans.first()
    }

    /// The change to make first: the largest gain that is likely, else none.
    #[must_use]
    pub fn first(&self) -> Option<&Change> {
        self.changes.iter().find(|change| change.certainty != Certainty::NotResolved)
    }

    /// The change to make first, its gain and how sure that is, or that none is likely to gain.
    #[must_use]
    pub fn headline(&self) -> String {
        let Some(change) = self.first() else {
            return "No change is likely to save more than predictions of such changes are off."
                .to_owned();
        };
        let Change { name, area, gain, error, certainty, .. } = change;
        format!(
            "Change first: {name} ({}). It saves {} of the step by prediction, which is {}: 95 % of published pairs of \
             runs differ from theirs by up to {}.",
            area.name(),
            format::percent(*gain),
            certainty.words(),
            format::percent(*error),
        )
    }

    /// The advice in words and tables.
    pub fn sheet(&self) -> Result<Sheet, Diagnostic> {
        let Some(now) = self.now() else { return Ok(Sheet::default()) };
        let mut sheet = Sheet::default().and_text(self.head(now));
        let parts = now.longest_parts().into_iter().filter(|part| part.nanos != 0).take(PARTS);
        sheet = sheet.and(table!(
            part = parts,
            "part of the step" = part.name,
            "time" = format!("{:.3} s", part.seconds()),
            "share" = format::percent(part.share),
        ));
        if let Some(words) = quantities::least(now) {
            let schedule = now.finalist.costed().setup.schedule_name();
            sheet = sheet.and_text(wrapped(&format!("Schedule {schedule}: {words}.")));
        }
        if !self.changes.is_empty() {
            sheet = sheet.and_text("\n").and(changes(&self.changes)).and_text(wrapped(LEGEND));
        }
        Ok(sheet.and_text(self.end()?).headed(&self.headline()))
    }

    /// The run, and its step as measured and predicted.
    fn head(&self, now: &Plan) -> String {
        let question = &self.current.question;
        let report = SetupReport::of(question, now);
        let own = now.finalist.costed().setup;
        let mut text = format!(
            "{}: {} {}, {}, {}\n",
            question.title,
            report.devices,
            report.machine,
            tables::setup(&own),
            area::schedule_name(&own),
        );
        match &self.calibration {
            Some(calibration) => text += &measured(calibration),
            None => {
                let _ = writeln!(text, "predicted    {}, nothing measured", format::time(now.step));
            }
        }
        let _ = writeln!(text, "memory       {}", crate::plan::setup_report::fit(now));
        if let Some([peak, predicted]) = self.calibration.as_ref().and_then(|one| one.memory) {
            let [peak, predicted] = [peak, predicted].map(|one| format::size(pipeline::Bytes(one)));
            let _ = writeln!(
                text,
                "             {peak} at most in the log, {predicted} predicted of the fullest device"
            );
        }
        text + "\n"
    }

    /// The sentences below the tables.
    fn end(&self) -> Result<String, Diagnostic> {
        let mut text = String::from("\n");
        if !self.without_gain.is_empty() {
            let names: Vec<&str> = self.without_gain.iter().map(|area| area.name()).collect();
            text += &wrapped(&format!("Nothing to gain by: {}.", names.join(", ")));
        }
        if self.interrupted {
            text += "Interrupted: not all changes were tried.\n";
        }
        if self.calibration.is_none() {
            text += &wrapped(&calibration_helps()?);
        }
        Ok(text)
    }
}

/// How far predictions of other set-ups are off after three iterations of one set-up.
pub fn calibration_helps() -> Result<String, Diagnostic> {
    let within = CalibratedErrors::of(Difference::WithinGroups)?;
    let groups = CalibratedErrors::of(Difference::Groups)?;
    let [within, groups] = [within.p95, groups.p95].map(format::percent);
    Ok(format!(
        "after three measured iterations of one set-up, 95 % of published steps are within {within} of the prediction \
         with the same groups, and within {groups} with other groups: `debubble advise SCRIPT LOG`"
    ))
}

fn measured(calibration: &Calibration) -> String {
    let Calibration { iterations, measured, blind, calibrated, factors, is_unknown, .. } =
        calibration;
    let percent = |error: f64| format::signed_percent(error);
    let factors: Vec<String> =
        factors.iter().map(|one| format!("{} x{:.3}", one.name, one.factor)).collect();
    let mut text = format!(
        "measured     {measured:.3} s, the median of {iterations} steady iterations\n\
         predicted    {blind:.3} s, {}, with the machine as it is\n\
         calibrated   {calibrated:.3} s, {}: {}\n",
        percent(calibration.blind_error()),
        percent(calibration.calibrated_error()),
        factors.join(", "),
    );
    if *is_unknown {
        text += "             the prediction is so far off that the model lacks something of this run: check the \
                 machine,\n             the devices and the model before you take any advice\n";
    }
    text
}

const LEGEND: &str = "95 % of pairs: the gain of 95 % of published pairs of such set-ups is within this distance of the predicted one. A larger gain is sure, one above the mean error likely, and a smaller one cannot be distinguished; the pairs ran 1F1B and interleaved 1F1B, so no gain of another schedule is sure.";

fn changes(changes: &[Change]) -> Sheet {
    table!(
        (number, change) = (1u64..).zip(changes),
        "" = number,
        "change" = change.area.name(),
        "to" = change.name,
        "step" = format!("{:.3} s", seconds(change.step)),
        "gain" = format::percent(change.gain),
        "95 % of pairs" = format!("+-{}", format::percent(change.error)),
        "memory" = change.memory.map(format::size).join(" of "),
        "risk" = change.risk(),
        "gain is" = change.certainty.words(),
    )
}

fn wrapped(text: &str) -> String {
    format::wrapped(text, 100, "") + "\n"
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            area: Area,
            change: &'a str,
            step_ns: u64,
            gain: f64,
            error: f64,
            certainty: Certainty,
            memory_bytes: u64,
            device_bytes: u64,
            framework: Option<&'static str>,
            risk: String,
        }
        let Self {
            area, name, step, gain, error, certainty, memory: [held, may], framework, ..
        } = self;
        Json {
            area: *area,
            change: name,
            step_ns: step.0,
            gain: *gain,
            error: *error,
            certainty: *certainty,
            memory_bytes: held.0,
            device_bytes: may.0,
            framework: framework.map(|one| one.title()),
            risk: self.risk(),
        }
        .serialize(serializer)
    }
}

impl Serialize for Advice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            headline: String,
            title: &'a str,
            notes: &'a [String],
            current: Option<SetupReport>,
            calibration: Option<&'a Calibration>,
            changes: &'a [Change],
            without_gain: &'a [Area],
            interrupted: bool,
        }
        let question = &self.current.question;
        Json {
            headline: self.headline(),
            title: &question.title,
            notes: &self.notes,
            current: self.now().map(|plan| SetupReport::of(question, plan)),
            calibration: self.calibration.as_ref(),
            changes: &self.changes,
            without_gain: &self.without_gain,
            interrupted: self.interrupted,
        }
        .serialize(serializer)
    }
}
