//! Megatron-LM: Narayanan et al. 2021, tables 1 and 2, and Korthikanti et al. 2022.

use plan::{Attention, Efficiency, Machine, Recipe, Recompute, Setup, Zero, number};
use scenarios::PAPER;
use serde::Deserialize;

use super::super::Row;
use super::super::quantities::{HFU, MFU, SHARDED, TIME};
use super::super::rows::{Run, VOCABULARY, gpt, recipe, set_up, table};

/// The length of sequences in Megatron-LM's papers.
const SEQUENCE: u64 = 2048;

#[derive(Deserialize)]
pub(in super::super) struct Table1 {
    heads: u64,
    hidden: u64,
    layers: u64,
    tp: u64,
    pp: u64,
    gpus: u64,
    global_batch: u64,
    tflops_per_gpu: f64,
    percent_of_peak: f64,
}

/// The settings of a run that table 1 leaves out.
#[derive(Deserialize)]
struct MegatronSetting {
    hidden: u64,
    layers: u64,
    tp: u64,
    pp: u64,
    microbatch: u64,
    chunks: u64,
    overlap: String,
}

const SETTINGS: &str = PAPER.text("megatron2021-settings.csv");

pub(in super::super) fn table_1(row: &Table1, machine: &Machine) -> Result<Vec<Row>, String> {
    let Table1 { heads, hidden, layers, tp, pp, gpus, global_batch, .. } = *row;
    let settings: Vec<MegatronSetting> = table(SETTINGS)?;
    let own = settings
        .iter()
        .find(|one| [one.hidden, one.layers, one.tp, one.pp] == [hidden, layers, tp, pp]);
    let own = own.ok_or("its microbatch size and chunks are not known")?;
    let model = gpt(Attention::Core, hidden, heads, layers, VOCABULARY, SEQUENCE)?;
    let data = gpus / tp.max(1) / pp.max(1);
    let setup = set_up([data, tp, pp], own.microbatch, own.chunks, Recompute::Full);
    let recipe = Recipe {
        scatter_gather: true,
        overlap_gradients: own.overlap == "yes",
        ..recipe(global_batch)
    };
    let flops = model.hardware_flops(Recompute::Full) * number(global_batch) * number(SEQUENCE);
    let measured = flops / (row.tflops_per_gpu * 1e12 * number(gpus));
    // Printed in whole percents.
    let used = (100.0 * row.tflops_per_gpu * 1e12 / machine.peak).round();
    let predicted = Run { model: &model, setup, recipe, machine }.predict()?;
    let run = format!("{:.1}B on {gpus}", number(model.parameters()) / 1e9);
    let time = predicted.row(&run, TIME, [predicted.seconds(), measured]);
    let hfu = predicted.row(&run, HFU, [used, row.percent_of_peak]);
    Ok(vec![Row { fitted: true, ..time }, hfu])
}

#[derive(Deserialize)]
pub(in super::super) struct Korthikanti {
    model: String,
    heads: u64,
    hidden: u64,
    layers: u64,
    tp: u64,
    pp: u64,
    gpus: u64,
    global_batch: u64,
    microbatch_size: u64,
    interleave_stages: u64,
    full_recompute_s: f64,
    present_work_s: f64,
    mfu_percent: f64,
    hfu_percent: f64,
}

pub(in super::super) fn korthikanti(
    row: &Korthikanti,
    machine: &Machine,
) -> Result<Vec<Row>, String> {
    let Korthikanti { heads, hidden, layers, tp, pp, gpus, global_batch, .. } = *row;
    let model = gpt(Attention::Core, hidden, heads, layers, VOCABULARY, SEQUENCE)?;
    let data = gpus / tp.max(1) / pp.max(1);
    let tokens = number(global_batch) * number(SEQUENCE);
    let at_peak = machine.peak * number(gpus) * row.present_work_s;
    let used = |flops: f64| 100.0 * flops * tokens / at_peak;
    let mut rows = Vec::new();
    let ways = [
        ("full", Recompute::Full, false, row.full_recompute_s),
        ("selective", Recompute::Selective, true, row.present_work_s),
    ];
    for (name, recompute, sequence_parallel, measured) in ways {
        let (size, chunks) = (row.microbatch_size, row.interleave_stages);
        let setup = set_up([data, tp, pp], size, chunks, recompute);
        let recipe = Recipe { sequence_parallel, scatter_gather: true, ..recipe(global_batch) };
        let predicted = Run { model: &model, setup, recipe, machine }.predict()?;
        let run = format!("{} {name}", row.model);
        let time = predicted.row(&run, TIME, [predicted.seconds(), measured]);
        rows.push(Row { fitted: true, ..time });
        if recompute == Recompute::Selective {
            rows.push(predicted.row(&run, MFU, [used(model.model_flops()), row.mfu_percent]));
            let hardware = model.hardware_flops(Recompute::Selective);
            rows.push(predicted.row(&run, HFU, [used(hardware), row.hfu_percent]));
        }
    }
    Ok(rows)
}

/// The share of the network that gathers of parameters for every microbatch reached in DeepSpeed of 2021: 17 GB/s
/// of a device, by the rows with ZeRO-3. Software since then reaches several times as much
/// ([`plan::Efficiency::sharded_ring`]).
const SHARDED_RING: f64 = 0.085;

/// A row of table 2: ZeRO-3 without model parallelism beside PTD, tensor and pipeline parallelism.
#[derive(Deserialize)]
pub(in super::super) struct Sharded {
    scheme: String,
    heads: u64,
    hidden: u64,
    layers: u64,
    tp: u64,
    pp: u64,
    global_batch: u64,
    gpus: u64,
    microbatch_size: u64,
    tflops_per_gpu: f64,
}

pub(in super::super) fn sharded(row: &Sharded, machine: &Machine) -> Result<Vec<Row>, String> {
    let Sharded { heads, hidden, layers, tp, pp, gpus, global_batch, .. } = *row;
    let model = gpt(Attention::Core, hidden, heads, layers, VOCABULARY, SEQUENCE)?;
    let data = gpus / tp.max(1) / pp.max(1);
    let (zero, quantity) = match row.scheme.as_str() {
        "ZeRO-3" => (Zero::Parameters, SHARDED),
        "PTD" => (Zero::None, TIME),
        other => return Err(format!("the scheme {other} is not in the table")),
    };
    let setup = set_up([data, tp, pp], row.microbatch_size, 1, Recompute::Full);
    let recipe = Recipe { scatter_gather: true, ..recipe(global_batch) };
    let machine = &Machine {
        efficiency: Efficiency { sharded_ring: SHARDED_RING, ..machine.efficiency },
        ..machine.clone()
    };
    let predicted =
        Run { model: &model, setup: Setup { zero, ..setup }, recipe, machine }.predict()?;
    let flops = model.hardware_flops(Recompute::Full) * number(global_batch) * number(SEQUENCE);
    let measured = flops / (row.tflops_per_gpu * 1e12 * number(gpus));
    let run = format!("{:.1}B on {gpus} {}", number(model.parameters()) / 1e9, row.scheme);
    let row = predicted.row(&run, quantity, [predicted.seconds(), measured]);
    // [`SHARDED_RING`] was fitted to these.
    Ok(vec![Row { fitted: quantity == SHARDED, ..row }])
}
