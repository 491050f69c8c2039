//! Zero Bubble: table 4.

use pipeline::Family;
use plan::{Attention, Boundary, Loss, Machine, Recipe, Recompute, Setup, number};
use scenarios::PAPER;
use serde::Deserialize;

use super::super::Row;
use super::super::quantities::{MEMORY, SPEED};
use super::super::rows::{Run, gpt, recipe, set_up, table};

/// The vocabulary of its models: GPT-2's, padded to a multiple of 128.
const VOCABULARY: u64 = 50_304;

#[derive(Deserialize)]
pub(in super::super) struct ZeroBubble {
    model: String,
    gpus: u64,
    microbatch_size: u64,
    m: u64,
    schedule: String,
    samples_per_gpu_per_s: f64,
    memory_gb: f64,
}

#[derive(Deserialize)]
struct Model {
    model: String,
    layers: u64,
    heads: u64,
    hidden: u64,
    sequence: u64,
    chunks: u64,
}

const MODELS: &str = PAPER.text("zb-models.csv");

pub(in super::super) fn zero_bubble(
    row: &ZeroBubble,
    machine: &Machine,
) -> Result<Vec<Row>, String> {
    let models: Vec<Model> = table(MODELS)?;
    let own = models.iter().find(|one| one.model == row.model).ok_or("an unknown model")?;
    let (family, chunks) = match row.schedule.as_str() {
        "1F1B" => (Family::OneFOneB, 1),
        "1F1B-I" => (Family::Interleaved, own.chunks),
        // The order of ZB-1p is that of ZB-H1 in every row of table 5.
        "ZB-1p" => (Family::ZbH1, 1),
        "ZB-2p" => (Family::Zb2p, 1),
        other => return Err(format!("the schedule {other} is not in the table")),
    };
    let model = gpt(Attention::Core, own.hidden, own.heads, own.layers, VOCABULARY, own.sequence)?;
    let setup = set_up([1, 1, row.gpus], row.microbatch_size, chunks, Recompute::None);
    let batch = row.m.checked_mul(row.microbatch_size).ok_or("too many samples")?;
    let post = matches!(family, Family::ZbH1 | Family::Zb2p);
    let boundary = if post { Boundary::PostValidation } else { Boundary::Barrier };
    // Its last stages have no time for a loss of separate kernels: that of the 1.5B model would take
    // 10 ms of a microbatch's 50.
    let recipe = Recipe { boundary, loss: Loss::Fused, ..recipe(batch) };
    let setup = Setup { family, ..setup };
    let predicted = Run { model: &model, setup, recipe, machine }.predict()?;
    let speed = number(batch) / number(row.gpus) / predicted.seconds();
    let peak = number(predicted.finalist.evaluation.fullest().1.sum().0) / 1e9;
    let run = format!("{} m={} {}", row.model, row.m, row.schedule);
    let speed = predicted.row(&run, SPEED, [speed, row.samples_per_gpu_per_s]);
    let memory = predicted.row(&run, MEMORY, [peak, row.memory_gb]);
    Ok(vec![Row { fitted: true, ..speed }, memory])
}
