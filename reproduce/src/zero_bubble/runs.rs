//! The runs of figure 5 and table 6: the measurements of each, as far as they are available, and ours.

use std::collections::BTreeMap;
use std::path::Path;

use question::Diagnostic;
use rayon::prelude::*;

use super::super::sources::{Sources, error_in};
use super::{Ground, MODELS, positive, post_validation, printed_gain, row};
use measured::papers::zero_bubble::{Line, Model, PaperRun, PostValidation, Trained};

/// The file of the lines of table 4 that are at hand.
pub(in super::super) const TABLE_4: &str = "zb-throughput.csv";
/// The file of table 6, as far as its figures are at hand.
pub(in super::super) const TABLE_6: &str = "zb-table6.csv";

/// The schedule that gains are over.
pub(super) const BASELINE: &str = "1F1B";
/// The schedules of figure 5.
const FIGURE_5: [&str; 4] = ["ZB-2p", "ZB-1p", BASELINE, "1F1B-I"];

/// Throughput and memory as measured, as far as they are at hand.
#[derive(Clone, Copy, Default)]
pub(super) struct Measured {
    /// Samples by device and second.
    pub(super) speed: Option<f64>,
    /// The peak, in GB.
    pub(super) memory: Option<f64>,
}

impl Measured {
    /// The figures of `line`, which is in the file at `path`.
    fn of(line: &Line, path: &Path) -> Result<Self, Diagnostic> {
        let (speed, memory) = (line.samples_per_gpu_per_s, line.memory_gb);
        let figures: Vec<f64> = speed.into_iter().chain(memory).collect();
        positive(path, &row(&PaperRun::from(line)), &figures)?;
        Ok(Self { speed, memory })
    }
}

/// A run with its published and predicted figures.
pub(super) struct Known {
    pub(super) training: PaperRun,
    pub(super) trained: Trained,
    /// The throughput if its transfers ran beside passes, where they may have.
    pub(super) aside: Option<f64>,
    pub(super) measured: Measured,
}

/// Every run of figure 5.
pub(super) fn figure_5(ground: &Ground, sources: &Sources<'_>) -> Result<Vec<Known>, Diagnostic> {
    let mut measured = at_hand(sources)?;
    let mut trainings = Vec::new();
    for model in &ground.models {
        trainings.extend(trainings_of(model)?);
    }
    let figures = trainings.iter().map(|training| measured.remove(&row(training)));
    let figures = figures.map(Option::unwrap_or_default).collect();
    if let Some(name) = measured.keys().next() {
        return Err(error_in(MODELS.as_ref(), None, &format!("it has no setting of {name}")));
    }
    all_known(ground, MODELS.as_ref(), trainings, figures)
}

/// Measurements of figure 5, by run. For the two larger models only ZB-2p is available, from the table
/// of post-validation.
fn at_hand(sources: &Sources<'_>) -> Result<BTreeMap<String, Measured>, Diagnostic> {
    let (path, lines) = sources.records::<PostValidation>(post_validation::FIGURES)?;
    let mut measured = BTreeMap::new();
    for line in &lines {
        let (name, speed) = (row(&line.trainings()[0]), line.post_validation_samples_per_gpu_per_s);
        positive(&path, &name, &[speed])?;
        measured.insert(name, Measured { speed: Some(speed), memory: None });
    }
    let (path, lines) = sources.records::<Line>(TABLE_4)?;
    for line in &lines {
        measured.insert(row(&PaperRun::from(line)), Measured::of(line, &path)?);
    }
    Ok(measured)
}

/// The runs of `model` in figure 5.
fn trainings_of(model: &Model) -> Result<Vec<PaperRun>, Diagnostic> {
    let counts = model.m.split_whitespace().map(|count| {
        let wrong = format!("{}: `{count}` is not a number of microbatches", model.model);
        count.parse::<u64>().map_err(|_| error_in(MODELS.as_ref(), None, &wrong))
    });
    let counts = counts.collect::<Result<Vec<u64>, _>>()?;
    let runs = counts.into_iter().flat_map(|microbatches| {
        FIGURE_5.map(|schedule| PaperRun {
            model: model.model.clone(),
            gpus: model.gpus,
            microbatch: model.microbatch_size,
            microbatches,
            schedule: schedule.to_owned(),
            synchronised: false,
        })
    });
    Ok(runs.collect())
}

/// The runs of table 6.
pub(super) fn table_6(ground: &Ground, sources: &Sources<'_>) -> Result<Vec<Known>, Diagnostic> {
    let (path, lines) = sources.records::<Line>(TABLE_6)?;
    let trainings = lines.iter().map(PaperRun::from).collect();
    let measured = lines.iter().map(|line| Measured::of(line, &path));
    all_known(ground, &path, trainings, measured.collect::<Result<_, _>>()?)
}

/// The predictions of `trainings`, from the file at `path`, with the `measured` figures of each.
fn all_known(
    ground: &Ground,
    path: &Path,
    trainings: Vec<PaperRun>,
    measured: Vec<Measured>,
) -> Result<Vec<Known>, Diagnostic> {
    let trained = ground.predict(path, &trainings)?;
    let all = trainings.into_par_iter().zip(trained).zip(measured);
    let all = all.map(|((training, trained), measured)| {
        let is_aside = training.schedule.starts_with("ZB");
        let aside = is_aside.then(|| trained.speed_with_transfers_beside()).transpose();
        let wrong = |cause: String| error_in(path, None, &format!("{}: {cause}", row(&training)));
        let aside = aside.map_err(wrong)?;
        Ok(Known { training, trained, aside, measured })
    });
    all.collect()
}

impl Known {
    /// The seconds of a step: measured, if that is at hand, and ours.
    pub(super) fn seconds(&self) -> (Option<f64>, f64) {
        let samples = self.trained.speed() * self.trained.seconds();
        (self.measured.speed.map(|speed| samples / speed), self.trained.seconds())
    }

    fn batch(&self) -> u64 {
        self.training.microbatch.saturating_mul(self.training.microbatches)
    }
}

/// A run over 1F1B with the same samples a step.
pub(super) struct Gain<'a> {
    pub(super) run: &'a Known,
    baseline: &'a Known,
}

/// Every run that 1F1B was or would have been run beside.
pub(super) fn gains_of(all: &[Known]) -> Vec<Gain<'_>> {
    let baselines = || all.iter().filter(|run| run.training.schedule == BASELINE);
    let key = |run: &Known| (run.training.model.clone(), run.training.gpus, run.batch());
    let runs = all.iter().filter(|run| run.training.schedule != BASELINE);
    let gain = |run| {
        let baseline = baselines().find(|other| key(other) == key(run))?;
        Some(Gain { run, baseline })
    };
    runs.filter_map(gain).collect()
}

impl Gain<'_> {
    /// As measured, and as gains that are printed alike, where both runs are at hand.
    pub(super) fn measured(&self) -> Option<(f64, [f64; 2])> {
        let both = self.run.measured.speed.zip(self.baseline.measured.speed);
        both.map(|(run, baseline)| printed_gain([run, baseline]))
    }

    pub(super) fn ours(&self) -> f64 {
        self.run.trained.speed() / self.baseline.trained.speed() - 1.0
    }

    /// The prediction with transfers that overlap passes, for schedules whose transfers may be.
    pub(super) fn aside(&self) -> Option<f64> {
        self.run.aside.map(|speed| speed / self.baseline.trained.speed() - 1.0)
    }

    /// Whether constants of the planner were fitted to both runs.
    pub(super) fn is_fitted(&self) -> bool {
        self.run.training.is_fitted() && self.baseline.training.is_fitted()
    }
}
