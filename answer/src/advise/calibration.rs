//! A machine calibrated by the measured steps of one set-up.

use imports::Measured;
use measured::accuracy;
use pipeline::Bytes;
use plan::fit::FitError;
use plan::{CalibratedRun, Cluster, Finalist, Machine, Orders, Setup, number};
use planning::Question;
use planning::fit::{SCALES, Scale, calibration, scaled};
use question::{Context, Diagnostic};
use serde::Serialize;

use crate::plan::ground;

/// The error of a predicted step, as a share, beyond which the model lacks something of the run.
const UNKNOWN: f64 = 0.35;

/// A machine calibrated by measured steps, and the predictions of the measured set-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Calibration {
    /// Steady iterations.
    pub iterations: usize,
    /// The measured step, in seconds.
    pub measured: f64,
    /// The step on the machine as it is, in seconds.
    pub blind: f64,
    /// The step on the calibrated machine, in seconds.
    pub calibrated: f64,
    /// Factors on the efficiencies of the machine.
    pub factors: Vec<Factor>,
    /// The peak of memory in the log, in bytes, and the predicted one of the fullest device.
    pub memory: Option<[u64; 2]>,
    /// The measured set-up.
    #[serde(skip)]
    pub run: CalibratedRun,
    /// Whether the blind prediction is so far off that the model lacks something of the run.
    pub is_unknown: bool,
}

/// A factor on efficiencies of a machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Factor {
    /// The efficiencies.
    pub name: &'static str,
    pub factor: f64,
}

impl Calibration {
    /// The error of the blind prediction, as a share of the measured step.
    #[must_use]
    pub fn blind_error(&self) -> f64 {
        accuracy::error(self.blind, self.measured)
    }

    /// The error of the calibrated prediction.
    #[must_use]
    pub fn calibrated_error(&self) -> f64 {
        accuracy::error(self.calibrated, self.measured)
    }

    /// The efficiencies of `machine` after calibration, by key.
    pub(super) fn shares(&self, machine: &Machine) -> Vec<(&'static str, f64)> {
        let mut own = scaled(machine, &self.values()).efficiency;
        let rates = SCALES.iter().flat_map(Scale::rates);
        rates.map(|rate| (rate.key, *(rate.field)(&mut own))).collect()
    }

    /// The factors as [`scaled`] takes them.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.factors.iter().map(|one| one.factor).collect()
    }
}

/// `question` on a machine that the `measured` steps of its set-up calibrate, and the calibration.
pub(super) fn calibrated(
    context: &Context<'_>,
    question: &Question,
    measured: &Measured,
) -> Result<(Question, Calibration), Diagnostic> {
    let step = CalibratedStep { context, question };
    let blind = step.run(&[])?;
    let predicted = seconds(&blind);
    let failed = |error: FitError| match context.cut_short() {
        true => Diagnostic::new("interrupted: nothing was calibrated"),
        false => question.not_run(&error.to_string()),
    };
    let factors = calibration(&|factors| step.seconds(factors), measured.step).map_err(failed)?;
    let mut own = with_factors(question, &factors);
    let setup = step.setup(&own.clusters[0])?;
    let is_unknown = accuracy::error(predicted, measured.step).abs() > UNKNOWN;
    let run = setup.calibrated_run(&own.model, &own.recipe, is_unknown);
    for (machine, _) in own.clusters.iter_mut().flat_map(|cluster| &mut cluster.parts) {
        *machine = machine.clone().calibrated_by(vec![run.clone()]);
    }
    let held = blind.evaluation.fullest().1.sum();
    if let Some(peak) = measured.memory {
        // A peak of one rank: the model may hold less than the run, never surely more.
        let more = peak.0.saturating_sub(held.0);
        own.recipe.reserved = Bytes(own.recipe.reserved.0.saturating_add(more));
    }
    let names = SCALES.iter().map(|scale| scale.name);
    let calibration = Calibration {
        iterations: measured.steady.len(),
        measured: measured.step,
        blind: predicted,
        calibrated: seconds(&step.run(&factors)?),
        factors: names.zip(&factors).map(|(name, &factor)| Factor { name, factor }).collect(),
        memory: measured.memory.map(|peak| [peak.0, held.0]),
        run,
        is_unknown,
    };
    Ok((own, calibration))
}

/// `question` on machines whose efficiencies are scaled by `factors`.
pub(super) fn with_factors(question: &Question, factors: &[f64]) -> Question {
    let mut own = question.clone();
    for (machine, _) in own.clusters.iter_mut().flat_map(|cluster| &mut cluster.parts) {
        *machine = scaled(machine, factors);
    }
    own
}

fn seconds(run: &Finalist) -> f64 {
    number(run.step.0) / 1e9
}

/// The step of the set-up of a question as the scales of its machine change.
struct CalibratedStep<'a> {
    context: &'a Context<'a>,
    question: &'a Question,
}

impl CalibratedStep<'_> {
    fn run(&self, factors: &[f64]) -> Result<Finalist, Diagnostic> {
        let question = with_factors(self.question, factors);
        let cluster = &question.clusters[0];
        let setup = self.setup(cluster)?;
        let run = ground(&question, cluster).run_single(&setup, &Orders::default());
        run.map(|run| run.finalist).map_err(|error| question.not_run(&error.to_string()))
    }

    fn setup(&self, cluster: &Cluster) -> Result<Setup, Diagnostic> {
        self.question.setup_on(cluster).ok_or_else(|| Diagnostic::new("it has no [setup]"))
    }

    /// The step in seconds; `None` if it cannot be run, or after a Ctrl-C.
    fn seconds(&self, factors: &[f64]) -> Option<f64> {
        if self.context.stopped() {
            return None;
        }
        Some(seconds(&self.run(factors).ok()?))
    }
}
