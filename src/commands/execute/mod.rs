//! `debubble execute`: schedules run for real, beside their simulation.

mod busy_stages;
mod copies;
mod costs;
mod flags;
mod host_overheads;
mod interrupted;
mod job;
mod kinds;
mod passes;
pub(super) mod processes;
mod question;
mod recompute;
mod report;
mod run;
mod sizes;
mod table;
mod task;

use std::io::Write;
use std::path::Path;

use executor::{Check, Devices, Measured, Overheads};
use pipeline::Nanos;
use serde::Serialize;
use sim::{Details, Replay};

use ::cases::Case;
use ::question::{Context, Warnings, format};

use super::{Verdict, note, note_all, print_json};
use crate::devices::not_opened;
use crate::error::Error;
use crate::files;
use crate::host::Host;
use crate::interrupt;
use crate::progress;
use answer::outcome::{Outcome, title};
use answer::timelines;
use answer::timelines::{Recorded, Source};
use draw::gantt::{self, Style};
use draw::trace;
use draw::trace::Trace;
pub use flags::Execute;
use job::Job;
use report::Ran;
use run::Place;
use task::task;

#[derive(Serialize)]
struct Results<R> {
    results: Vec<R>,
    /// The cost of the host; absent where passes run on it, and in processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    overheads: Option<host_overheads::OverheadsJson>,
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
}

impl Execute {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        self.check_flags()?;
        let devices = self.backend().open(&self.options());
        let devices = devices.map_err(|error| not_opened(self.backend(), &error))?;
        let devices = devices.as_ref();
        let host = Host::default();
        let context = Context::new(&host);
        let mut scenario = self.asked.read(&context)?;
        let mut notes = Warnings::default();
        let jobs = question::jobs(&context, &mut scenario, &self, devices, &mut notes);
        note_all(&context);
        let jobs = jobs?;
        let single = [("--timeline", &self.timeline), ("--trace", &self.trace)];
        let asked = single.into_iter().find(|(_, path)| path.is_some());
        if let Some((flag, _)) = asked.filter(|_| jobs.len() != 1) {
            let message = format!("{flag} takes one timeline, but there are {}", jobs.len());
            return Err(Error::question(message));
        }
        let stages = jobs.first().map_or(1, |job| job.case.schedule.shape().stages());
        let same = |job: &Job| job.case.schedule.shape().stages() == stages;
        if self.processes {
            if !jobs.iter().all(same) {
                let message = "--processes: all schedules must have the same number of stages";
                return Err(Error::question(message));
            }
            jobs.iter().try_for_each(|job| self.try_out(job, None))?;
            // The process of the first stage shows how far they are.
            let _shown = progress::hidden();
            return processes::supervise("stage", stages, jobs.len());
        }
        processes::hold_lifeline();
        let place = Place::of(&self)?;
        // Jobs that cannot run are refused before any of them runs.
        jobs.iter().try_for_each(|job| self.try_out(job, place.stage()))?;
        let overheads = self.overheads(&jobs, &place, devices)?;
        let ran = self.run_all(jobs, &place, devices, &mut notes)?;
        if !place.answers() {
            return Ok(Verdict::Done);
        }
        notes.lines().iter().for_each(|text| note(text));
        // Of nothing there is only a JSON object that says so.
        if !ran.is_empty() {
            self.write_files(&ran, overheads.as_ref())?;
        }
        match self.json {
            true => {
                let results = ran.iter().map(report::json).collect();
                let interrupted = interrupt::cut_short().then_some(true);
                let overheads = overheads.as_ref().map(Into::into);
                print_json(out, &Results { results, overheads, interrupted })?;
            }
            false if ran.is_empty() => {}
            false => {
                let host = overheads.as_ref().map_or_else(String::new, host_overheads::line);
                write!(out, "{}{host}{}", self.devices(&ran), report::text(&ran))?;
            }
        }
        Ok(self.verdict(&ran))
    }

    /// The cost of the host for the stages of `jobs`, where all of them are in this process.
    fn overheads(
        &self,
        jobs: &[Job],
        place: &Place,
        devices: &dyn Devices,
    ) -> Result<Option<Overheads>, Error> {
        let stages = jobs.iter().map(|job| job.case.schedule.shape().stages()).max();
        match (place, stages) {
            (Place::Threads, Some(stages)) => devices
                .overheads(stages)
                .map_err(|error| run::not_run(&error, || Error::question(error.to_string()))),
            _ => Ok(None),
        }
    }

    /// Runs `jobs` one after the other; a Ctrl-C ends the one that is going on, and leaves out those of
    /// which no step was measured.
    fn run_all(
        &self,
        jobs: Vec<Job>,
        place: &Place,
        devices: &dyn Devices,
        notes: &mut Warnings,
    ) -> Result<Vec<Ran>, Error> {
        match place {
            Place::Threads => interrupt::listen(),
            // Where there are other processes, all end together, or some would wait for ever.
            Place::Process(_) if place.answers() => interrupt::end_with(processes::INTERRUPTED),
            Place::Process(_) => {}
        }
        if let Some(text) = place.detour(self.backend().about(), self.transport()) {
            notes.add_of_setting(text);
        }
        let bar = match place.answers() {
            true => progress::bar(jobs.len() as u64, "runs"),
            false => progress::hidden(),
        };
        let (mut ran, mut left_out) = (Vec::new(), Vec::new());
        for (index, job) in jobs.into_iter().enumerate() {
            if interrupt::asked() {
                left_out.push(job.case.name);
                continue;
            }
            bar.set_message(format!("runs, {}", job.case.name));
            let came = run::run(&job, self, task(&job, self)?, devices, place, index)?;
            came.notes.iter().for_each(|text| notes.add(text, &job.case.name));
            if let Some(measured) = came.measured {
                let steps = measured.steps.len();
                if steps == 0 {
                    left_out.push(job.case.name);
                    continue;
                }
                let lacks_check = self.check.is_some() && came.check.is_none();
                if let Some(text) = interrupted::one(steps, job.steps, lacks_check) {
                    notes.add(&text, &job.case.name);
                }
                let device = came.device.as_deref().unwrap_or(self.backend().about().title);
                let device = format!("{device}, {}", place.name(self.transport()));
                ran.push(self.outcome(job, device, measured, came.check, devices, notes)?);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        if interrupt::cut_short() {
            note(&interrupted::all(ran.len(), &left_out));
        }
        Ok(ran)
    }

    /// Checks that `job` can be run on this machine, `stage` of it or all.
    fn try_out(&self, job: &Job, stage: Option<usize>) -> Result<(), Error> {
        run::plan(job, self)?;
        sizes::check_memory(job, stage, self)?;
        task(job, self).map(drop)
    }

    /// Simulates the job that was run.
    fn outcome(
        &self,
        job: Job,
        device: String,
        measured: Measured,
        check: Option<Check>,
        devices: &dyn Devices,
        notes: &mut Warnings,
    ) -> Result<Ran, Error> {
        let Job { mut case, has_times, neighbours, by_busy_stages, published, .. } = job;
        let planned = copies::planned_peaks(&case)?;
        if !has_times {
            let costs = costs::measured_costs(&case.schedule, &measured);
            costs::replace_costs(&mut case, costs)?;
            let text = "ordered for equal F, B and W, and simulated with the median times measured, \
                        since no times are given";
            notes.add(text, &case.name);
        }
        let stages = case.schedule.shape().stages();
        let at_once = devices.side_by_side(stages);
        let warnings = [
            self.shares_cores(stages),
            report::left_out(measured.skipped),
            self.other_neighbours(neighbours, stages, at_once),
            report::allocated(measured.allocations),
            host_overheads::note(&measured.host_bound),
            self.held_up(&case, &measured),
        ];
        warnings.iter().flatten().for_each(|text| notes.add(text, &case.name));
        let held = copies::ActivationPeaks::of(&measured, planned);
        let copied = measured.copies;
        let measured_timeline = Recorded {
            source: Source::Measured,
            name: case.name.clone(),
            schedule: case.schedule.clone(),
            device,
            costs: Some(case.problem.costs().clone()),
            steps: measured.steps,
            facts: None,
        };
        let details = Details { timeline: self.svg.is_some(), ..Details::default() };
        Ok(Ran {
            outcome: Outcome::of(case, details, &mut Replay::new())?,
            published,
            by_busy_stages,
            measured: measured_timeline,
            rollbacks: measured.rollbacks,
            skipped: measured.skipped,
            allocations: measured.allocations,
            host_bound: measured.host_bound,
            held,
            copied,
            update_losses: measured.losses,
            check,
        })
    }

    /// The note about stages that are more than the cores they compute on.
    fn shares_cores(&self, stages: usize) -> Option<String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let computes_here = self.backend().trains() && self.backend().about().is_host;
        (computes_here && stages > cores).then(|| {
            format!(
                "{stages} stages share {cores} cores: passes slow each other down, and the bubble is \
                 not that of {stages} devices"
            )
        })
    }

    /// The note about a profile that was measured beside `neighbours` workers, where `at_once` of
    /// `stages` stages run at a time.
    fn other_neighbours(
        &self,
        neighbours: Option<u64>,
        stages: usize,
        at_once: usize,
    ) -> Option<String> {
        let neighbours = neighbours.filter(|&one| one + 1 != at_once as u64)?;
        let has_units = self.backend().about().has_units;
        let parts = if has_units { format!("--partition {at_once} ") } else { String::new() };
        Some(format!(
            "the profile was measured with {neighbours} workers next to the timed one, but \
             {stages} stages run: `debubble calibrate {parts}--workers {at_once}` meets what they do"
        ))
    }

    /// The note about passes that took longer than the question asks.
    fn held_up(&self, case: &Case, measured: &Measured) -> Option<String> {
        let excess = question::excess(case, &measured.steps);
        (!self.backend().trains() && excess > 0.02).then(|| {
            format!(
                "passes took {} longer than asked: this machine is too busy, or has too few cores \
                 for passes this short; use a longer --duration",
                format::percent(excess)
            )
        })
    }

    /// The GPUs that computed, a line each.
    fn devices(&self, ran: &[Ran]) -> String {
        let mut lines: Vec<String> = Vec::new();
        for one in ran.iter().filter(|_| self.backend().about().has_units) {
            let line = format!("on {}\n", one.measured.device);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.concat()
    }

    fn write_files(&self, ran: &[Ran], overheads: Option<&Overheads>) -> Result<(), Error> {
        if let Some(path) = &self.csv {
            files::write(path, table::csv(ran, overheads)?)?;
        }
        if let Some(path) = &self.passes {
            files::write(path, passes::csv(ran)?)?;
        }
        if let (Some(path), [one]) = (&self.timeline, ran) {
            files::write(path, timelines::bytes(&one.measured)?)?;
        }
        if let (Some(path), [one]) = (&self.trace, ran) {
            write_trace(path, one)?;
        }
        let Some(path) = &self.svg else { return Ok(()) };
        let mut drawn = Vec::new();
        for one in ran {
            let name = title(&one.outcome);
            let (step, _) = one.median();
            let simulated = answer::outcome::timeline(&one.outcome)?.into_owned();
            let copies = answer::outcome::copies(&one.outcome)?.into_owned();
            drawn.push((format!("{name}, simulated"), simulated, copies));
            let timeline = one.measured.steps[step].timeline();
            drawn.push((format!("{name}, measured"), timeline, one.copies(step)));
        }
        let chart = |(title, timeline, copies)| gantt::Chart {
            title,
            timeline,
            row: "stage",
            copies,
            costs: None,
        };
        let charts: Vec<_> =
            drawn.iter().map(|(name, one, copies)| chart((&name[..], one, &copies[..]))).collect();
        let style = Style { width: self.drawn.width, ..Style::default() };
        files::write(path, gantt::svg_with(&charts, &style)?)
    }

    fn verdict(&self, ran: &[Ran]) -> Verdict {
        let unequal = ran.iter().any(|one| one.check.is_some_and(|check| !check.holds()));
        let off = |most: f64| {
            let points = ran.iter().flat_map(Ran::judged_points);
            points.into_iter().any(|points| points.abs() > most)
        };
        let missed = self.fail_above.is_some_and(|most| {
            if off(most) {
                note(&format!("a measured bubble rate is off by more than {most} points"));
            }
            off(most) || !report::swapped(ran).is_empty()
        });
        let slow = self.fail_steps_above.is_some_and(|most| {
            let off = ran.iter().any(|one| 100.0 * one.step_error().abs() > most);
            if off {
                note(&format!("a simulated step is off by more than {most} %"));
            }
            off
        });
        if unequal || missed || slow { Verdict::Missed } else { Verdict::Done }
    }
}

/// Writes the median step of `one` as trace events.
fn write_trace(path: &Path, one: &Ran) -> Result<(), Error> {
    let (step, _) = one.median();
    let timeline = one.measured.steps[step].timeline();
    let name = format!("{}, measured", title(&one.outcome));
    let copies = one.copies(step);
    files::write_by(path, |file| {
        let (transfers, releases, memory) = (&[], &[], &[]);
        let (steps, optimizer) = (1, Nanos(0));
        let trace = Trace {
            copies: &copies,
            parameters: &[],
            name: &name,
            timeline: &timeline,
            shape: one.outcome.case.schedule.shape(),
            costs: None,
            steps,
            transfers,
            releases,
            optimizer,
            memory,
        };
        trace::write(file, &trace)
    })
}
