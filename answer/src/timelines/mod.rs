//! Timelines in files, predicted and measured alike: written by `simulate` and `execute`, read by
//! `compare`.

mod bounded;
mod check;
mod file;
mod hops;
mod raw;
mod recording;

use pipeline::{Costs, Measurement, Metrics, Nanos, Schedule, Shape, Step};
use profile::Facts;
use serde::{Deserialize, Serialize};
use sim::engine::Run;

pub(crate) use file::{MAX_FILE, is_one, read_content};
pub use file::{bytes, read};

use crate::outcome;
use crate::outcome::Outcome;
use question::Diagnostic;

/// Where a timeline comes from.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The simulator predicted it.
    Simulated,
    /// The executor measured it.
    Measured,
}

impl Source {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Measured => "measured",
        }
    }
}

/// Steps of one schedule, slot by slot.
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    /// Predicted or measured.
    pub source: Source,
    /// The name of the schedule.
    pub name: String,
    /// The order of each stage.
    pub schedule: Schedule,
    /// The device that it ran on, in words.
    pub device: String,
    /// The costs that a prediction is made with, and the latency of a hop, if there are any.
    pub costs: Option<Costs>,
    /// The steps, at least one: the slots of each stage in the order of the schedule, times since
    /// the start of the step.
    pub steps: Vec<Step>,
    /// The machine, sizes and memory of a recorded trainer, if it is a recording.
    pub facts: Option<Facts>,
}

impl Recorded {
    /// The prediction of `outcome`; under noise, replica 0.
    pub fn predicted(outcome: &Outcome) -> Result<Self, Diagnostic> {
        let case = &outcome.case;
        let run = outcome::recorded(outcome)?;
        let steps = case.hardware.as_ref().map_or(1, |hardware| hardware.steps);
        let device = case.hardware.as_ref().map_or("links that are never shared", |_| "a cluster");
        Ok(Self {
            source: Source::Simulated,
            name: case.name.clone(),
            device: device.to_owned(),
            // Costs are written as sums, without overlap in pairs and without collectives.
            costs: Some(case.problem.costs())
                .filter(|costs| costs.overlap().is_none() && costs.parameters().is_none())
                .cloned(),
            steps: begun_after(case.overhead, steps_of(&case.schedule, &run, steps)),
            schedule: case.schedule.clone(),
            facts: None,
        })
    }

    /// Stages, chunks and microbatches.
    pub fn shape(&self) -> Shape {
        self.schedule.shape()
    }

    /// The step that stands for all: of a measured run the one with the median makespan (of an even
    /// number the lower one of the two, of equals the earlier); of a simulated run the last one, as
    /// in the tables of `simulate`.
    pub fn chosen(&self) -> usize {
        match self.source {
            Source::Simulated => self.steps.len().saturating_sub(1),
            Source::Measured => median(&self.steps),
        }
    }
}

/// The step with the median makespan: of an even number the lower one, of equals the earlier.
pub fn median(steps: &[Step]) -> usize {
    let makespan = |step: &Step| Metrics::of(&step.timeline()).makespan();
    let mut by_makespan: Vec<(Nanos, usize)> = steps.iter().map(makespan).zip(0..).collect();
    by_makespan.sort_unstable();
    by_makespan.get(by_makespan.len().saturating_sub(1) / 2).map_or(0, |&(_, step)| step)
}

/// `steps` with passes that begin after the `overhead` of a trainer's runtime, which is part of their
/// time in the simulation.
fn begun_after(overhead: Nanos, mut steps: Vec<Step>) -> Vec<Step> {
    for one in steps.iter_mut().flat_map(|step| &mut step.stages).flatten() {
        one.start = (one.start + overhead).min(one.end);
    }
    steps
}

/// The steps of a simulated run, each on a clock that begins with its first pass.
fn steps_of(schedule: &Schedule, run: &Run, steps: u32) -> Vec<Step> {
    let shape = schedule.shape();
    let values = shape.value_cells();
    let mut arrivals = vec![Nanos(0); values * steps as usize];
    for transfer in &run.transfers {
        arrivals[transfer.step as usize * values + shape.value_cell(transfer.value)] = transfer.end;
    }
    for collective in &run.collectives {
        let cell = shape.value_cell(collective.value);
        arrivals[collective.step as usize * values + cell] = collective.end;
    }
    let of_step = |step: usize| {
        let slots = |stage: usize| {
            let spans = &run.timeline.stages[stage];
            let count = spans.len() / steps as usize;
            &spans[step * count..(step + 1) * count]
        };
        let starts = (0..shape.stages()).filter_map(|stage| Some(slots(stage).first()?.start));
        let begin = starts.min().unwrap_or_default();
        let measurements = |stage: usize| {
            let measurement = |span: &pipeline::Span| {
                let needs = span.slot.received((shape, schedule.placement()), stage);
                let at =
                    needs.map(|value| (arrivals[step * values + shape.value_cell(value)], value));
                let last = at.max_by_key(|&(at, _)| at);
                let since = |at: Nanos| Nanos(at.0.saturating_sub(begin.0));
                Measurement {
                    slot: span.slot,
                    arrived: last.map(|(at, value)| (value, since(at))),
                    start: since(span.start),
                    end: since(span.end),
                }
            };
            slots(stage).iter().map(measurement).collect::<Vec<_>>()
        };
        let stages: Vec<Vec<Measurement>> = (0..shape.stages()).map(measurements).collect();
        let last = |slots: &Vec<Measurement>| slots.last().map_or(Nanos(0), |last| last.end);
        let ends = match run.releases.get(step) {
            Some(releases) => {
                releases.iter().map(|at| Nanos(at.0.saturating_sub(begin.0))).collect()
            }
            None => stages.iter().map(last).collect(),
        };
        Step { stages, ends, ..Step::default() }
    };
    (0..steps as usize).map(of_step).collect()
}
