//! Zero Bubble: tables 4 and 6, and post-validation beside an all-reduce.

use pipeline::Family;
use plan::{Attention, Boundary, Loss, Machine, Recipe, Recompute, Setup, number};
use scenarios::PAPER;
use serde::Deserialize;

use super::super::Row;
use super::super::quantities::{MEMORY, SPEED};
use super::super::rows::{Predicted, Run, gpt, recipe, set_up, table};

/// The vocabulary of its models: GPT-2's, padded to a multiple of 128.
const VOCABULARY: u64 = 50_304;

/// A line of tables 4 and 6.
#[derive(Deserialize)]
pub struct Line {
    model: String,
    gpus: u64,
    #[serde(alias = "microbatch_size_used")]
    microbatch_size: u64,
    #[serde(alias = "microbatches_used")]
    m: u64,
    schedule: String,
    /// Measured samples by device and second, where they are at hand.
    pub samples_per_gpu_per_s: Option<f64>,
    /// The measured peak, in GB, where it is at hand.
    pub memory_gb: Option<f64>,
}

/// A line of the table of post-validation, which is of ZB-2p.
#[derive(Deserialize)]
pub struct PostValidation {
    model: String,
    gpus: u64,
    microbatch_size: u64,
    m: u64,
    /// Measured samples by device and second, with post-validation.
    pub post_validation_samples_per_gpu_per_s: f64,
    /// The same with an all-reduce of all stages between two steps.
    pub all_reduce_samples_per_gpu_per_s: f64,
}

/// A line of table 3.
#[derive(Deserialize)]
pub struct Model {
    /// Its name.
    pub model: String,
    layers: u64,
    heads: u64,
    hidden: u64,
    sequence: u64,
    /// The devices of table 4, each a stage.
    pub gpus: u64,
    /// The samples of a microbatch in table 4.
    pub microbatch_size: u64,
    /// The numbers of microbatches of table 4, with blanks between.
    pub m: String,
    chunks: u64,
}

const MODELS: &str = PAPER.text("zb-models.csv");

/// A run of the paper, with a device for each stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PaperRun {
    /// The name of the model.
    pub model: String,
    /// Devices.
    pub gpus: u64,
    /// Samples of a microbatch.
    pub microbatch: u64,
    /// Microbatches of a step.
    pub microbatches: u64,
    /// The schedule by its name in the tables.
    pub schedule: String,
    /// Whether all stages meet between two steps although their schedule does not need it.
    pub synchronised: bool,
}

impl From<&Line> for PaperRun {
    fn from(line: &Line) -> Self {
        Self {
            model: line.model.clone(),
            gpus: line.gpus,
            microbatch: line.microbatch_size,
            microbatches: line.m,
            schedule: line.schedule.clone(),
            synchronised: false,
        }
    }
}

impl PostValidation {
    /// The two runs of the line: with post-validation, and with the all-reduce.
    pub fn trainings(&self) -> [PaperRun; 2] {
        [false, true].map(|synchronised| PaperRun {
            model: self.model.clone(),
            gpus: self.gpus,
            microbatch: self.microbatch_size,
            microbatches: self.m,
            schedule: "ZB-2p".to_owned(),
            synchronised,
        })
    }
}

impl PaperRun {
    /// Whether constants of the planner were fitted to its throughput: of all published runs, to those
    /// of table 4 on one node.
    pub fn is_fitted(&self) -> bool {
        self.gpus == 8 && !self.synchronised
    }

    /// The prediction, of one of `models` on `machine`.
    pub fn predict(&self, models: &[Model], machine: &Machine) -> Result<Trained, String> {
        let own = models.iter().find(|one| one.model == self.model).ok_or("an unknown model")?;
        let (family, chunks) = match self.schedule.as_str() {
            "1F1B" => (Family::OneFOneB, 1),
            "1F1B-I" => (Family::Interleaved, own.chunks),
            // The order of ZB-1p is that of ZB-H1 in every row of table 5.
            "ZB-1p" => (Family::ZbH1, 1),
            "ZB-2p" | "ZB-2p*" => (Family::Zb2p, 1),
            "ZB-V" => (Family::ZbV, 2),
            other => return Err(format!("the schedule {other} is not in the table")),
        };
        let model =
            gpt(Attention::Core, own.hidden, own.heads, own.layers, VOCABULARY, own.sequence)?;
        let setup = set_up([1, 1, self.gpus], self.microbatch, chunks, Recompute::None);
        let batch = self.microbatches.checked_mul(self.microbatch).ok_or("too many samples")?;
        let meets = matches!(family, Family::OneFOneB | Family::Interleaved) || self.synchronised;
        let boundary = if meets { Boundary::Barrier } else { Boundary::PostValidation };
        // Its last stages have no time for a loss of separate kernels: that of the 1.5B model would take
        // 10 ms of a microbatch's 50.
        let recipe = Recipe { boundary, loss: Loss::Fused, ..recipe(batch) };
        let setup = Setup { family, ..setup };
        let predicted = Run { model: &model, setup, recipe, machine }.predict()?;
        Ok(Trained { predicted, samples: number(batch) / number(self.gpus) })
    }
}

/// The prediction of a [`PaperRun`].
pub struct Trained {
    predicted: Predicted,
    /// Samples of a step by device.
    samples: f64,
}

impl Trained {
    /// The step, in seconds.
    pub fn seconds(&self) -> f64 {
        self.predicted.seconds()
    }

    /// Samples by device and second.
    pub fn speed(&self) -> f64 {
        self.samples / self.seconds()
    }

    /// The same if transfers ran beside passes instead of holding up the stage that sends.
    pub fn speed_with_transfers_beside(&self) -> Result<f64, String> {
        let step = self.predicted.finalist.step_with_transfers_beside();
        let step = step.map_err(|error| error.to_string())?;
        Ok(self.samples * 1e9 / number(step.0))
    }

    /// The peak of the device that holds most, in GB.
    pub fn memory(&self) -> f64 {
        number(self.predicted.finalist.evaluation.fullest().1.sum().0) / 1e9
    }

    /// Samples by device and second if the stage with most to do never waited.
    pub fn speed_without_bubble(&self) -> f64 {
        let stages = self.predicted.finalist.metrics.stages.iter();
        let busiest = stages.map(|stage| stage.busy.0).max().unwrap_or_default();
        self.samples * 1e9 / number(busiest.max(1))
    }

    /// The share of a step in which the average stage waits.
    pub fn bubble_rate(&self) -> f64 {
        self.predicted.finalist.bubble_rate()
    }

    fn row(&self, run: &str, quantity: &'static str, values: [f64; 2]) -> Row {
        self.predicted.row(run, quantity, values)
    }
}

pub(in super::super) fn zero_bubble(line: &Line, machine: &Machine) -> Result<Vec<Row>, String> {
    let (Some(speed), Some(memory)) = (line.samples_per_gpu_per_s, line.memory_gb) else {
        return Ok(Vec::new());
    };
    let training = PaperRun::from(line);
    let trained = training.predict(&table::<Model>(MODELS)?, machine)?;
    let run = format!("{} m={} {}", line.model, line.m, line.schedule);
    let speed = trained.row(&run, SPEED, [trained.speed(), speed]);
    let memory = trained.row(&run, MEMORY, [trained.memory(), memory]);
    Ok(vec![Row { fitted: training.is_fitted(), ..speed }, memory])
}

pub(in super::super) fn post_validation(
    line: &PostValidation,
    machine: &Machine,
) -> Result<Vec<Row>, String> {
    let models: Vec<Model> = table(MODELS)?;
    let [post, all_reduce] = line.trainings();
    let both = [
        (post, "post-validation", line.post_validation_samples_per_gpu_per_s),
        (all_reduce, "all-reduce", line.all_reduce_samples_per_gpu_per_s),
    ];
    // Those that were fitted are rows of table 4.
    let own = both.into_iter().filter(|(training, ..)| !training.is_fitted());
    let row = |(training, name, measured): (PaperRun, &str, f64)| {
        let trained = training.predict(&models, machine)?;
        let run = format!("{} m={} ZB-2p, {name}", line.model, line.m);
        Ok(trained.row(&run, SPEED, [trained.speed(), measured]))
    };
    own.map(row).collect()
}
