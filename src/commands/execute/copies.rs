//! Copies to the host in a run: planned and measured.

use std::collections::HashMap;

use cases::Case;
use executor::{Backend, Measured, MeasuredCopy, PlannedCopy};
use pipeline::{Bytes, CopyDirection, Nanos, Pass, Schedule, Timeline};
use sim::HostCopy;
use sim::timed::{Nominal, record};

use crate::error::Error;

/// When the slots of `case` run by its times, and when its activations go to the host and come back.
pub fn planned(case: &Case) -> (Timeline, Vec<HostCopy>) {
    let problem = &case.problem;
    let (timeline, beside) =
        record(&case.schedule, &Nominal(problem.costs()), problem.footprints());
    (timeline, beside.copies)
}

/// `copies` as the executor takes them.
pub fn turns(copies: &[HostCopy]) -> Vec<PlannedCopy> {
    let turn = |copy: &HostCopy| PlannedCopy {
        stage: copy.stage,
        chunk: copy.pass.chunk,
        microbatch: copy.pass.microbatch,
        freed: copy.out[1],
        taken: copy.back[0],
    };
    copies.iter().map(turn).collect()
}

/// The most activation bytes that each stage of `case` holds by the times of its question.
pub fn planned_peaks(case: &Case) -> Result<Vec<Bytes>, Error> {
    let (timeline, copies) = planned(case);
    let footprints = case.problem.footprints();
    let peaks = sim::occupancy::activation_peaks(&case.schedule, &timeline, &copies, footprints);
    Ok(peaks.map_err(|fault| case.error(&fault))?)
}

/// `copies`, those of one step of `case`, as they are drawn.
pub fn drawn(case: &Case, copies: &[MeasuredCopy]) -> Vec<HostCopy> {
    let bytes = |schedule: &Schedule, chunk| {
        let all = case.problem.footprints().of(chunk).until_backward;
        schedule.copies().map_or(all, |copies| copies.part().of_bytes(all))
    };
    let mut drawn: Vec<HostCopy> = Vec::new();
    let mut places = HashMap::new();
    for copy in copies {
        let (stage, pass) = (copy.stage, Pass::f(copy.op.chunk, copy.op.microbatch));
        let at = *places.entry((stage, pass)).or_insert_with(|| {
            let never = [Nanos(0); 2];
            let bytes = bytes(&case.schedule, pass.chunk);
            drawn.push(HostCopy { stage, pass, step: 0, bytes, out: never, back: never });
            drawn.len() - 1
        });
        let times = [copy.start, copy.end];
        match copy.op.way {
            CopyDirection::Out => drawn[at].out = times,
            CopyDirection::Back => drawn[at].back = times,
        }
    }
    drawn
}

/// Refuses features that the devices of `backend` lack: copies to the host, and S and T.
pub fn check(case: &Case, backend: Backend) -> Result<(), Error> {
    let copies = case.schedule.copies().is_some() && !backend.copies_to_host();
    let shards = case.schedule.shape().has_shards() && !backend.runs_shards();
    let (what, without) = match (copies, shards) {
        (true, _) => ("copies no activations to the host", "copies, such as gis"),
        (_, true) => {
            ("has no kernels for an output layer in shards (S and T)", "them, such as 1f1b")
        }
        (false, false) => return Ok(()),
    };
    let message = format!("--device {} {what}", backend.about().name);
    let cure = format!("use --device cpu or timed, or a schedule without {without}");
    Err(case.error(&message).with_help(cure).into())
}

/// Peak activation bytes of each stage.
pub struct ActivationPeaks {
    /// Measured peak of each stage.
    pub measured: Vec<Bytes>,
    /// Planned peak of each stage.
    pub planned: Vec<Bytes>,
}

impl ActivationPeaks {
    /// The peaks of `measured`, if any were counted.
    pub fn of(measured: &Measured, planned: Vec<Bytes>) -> Option<Self> {
        let measured = measured.peaks.clone();
        (!measured.is_empty()).then_some(Self { measured, planned })
    }

    /// In words.
    pub fn text(&self) -> String {
        let most =
            |all: &[Bytes]| question::format::size(all.iter().copied().max().unwrap_or_default());
        let [measured, planned] = [&self.measured, &self.planned].map(|all| most(all));
        if self.measured == self.planned {
            return format!(
                "keeps at most {measured} of activations on a stage, as planned on every stage"
            );
        }
        format!("keeps at most {measured} of activations on a stage where {planned} are planned")
    }
}
