//! Files of measurements, read and predicted.

use std::path::Path;

use pipeline::{Bytes, Family};
use plan::{
    Attention, Biases, Boundary, Cluster, Finalist, Ground, Machine, Norm, Recipe, Recompute,
    Setup, Sizes, Split, Transformer, Zero, number,
};
use rayon::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sim::Replay;

use super::Row;
use super::sets::{HFU, MEMORY, MFU, SPEED, Set, TIME};
use crate::commands::plan::machines;
use crate::error::Error;

/// The vocabulary of GPT in Megatron-LM, padded.
const VOCABULARY: u64 = 51_200;
/// That of Zero Bubble's models: GPT-2's, padded to a multiple of 128.
const ZERO_BUBBLE_VOCABULARY: u64 = 50_304;
/// The length of sequences in Megatron-LM's papers.
const SEQUENCE: u64 = 2048;
/// What the framework holds: context, workspaces, buffers of NCCL. An assumption.
const RESERVED: Bytes = Bytes(1 << 30);
/// Rows of vTrain's files to which constants were fitted: every tenth of one node, six of many.
const FITTED_EVERY: usize = 10;
const FITTED_MULTI: [usize; 6] = [0, 11, 13, 15, 35, 53];

/// The device of measurements that name none.
const DEVICE: &str = "A100 80GB";

/// The type of the devices that were measured, as a comment of the file says.
pub(super) fn device(text: &str) -> &str {
    let mut comments = text.lines().filter_map(|line| line.strip_prefix("# device:"));
    comments.next().map_or(DEVICE, str::trim)
}

/// Reads a file of measurements by its header and predicts every row on `machine`.
pub(super) fn read(path: &Path, text: &str, machine: &Machine) -> Result<(Set, Vec<Row>), Error> {
    let text = uncommented(text);
    let header = text.lines().next().unwrap_or_default();
    let has = |column: &str| header.contains(column);
    let reader = Reader { path, text: &text };
    match () {
        () if has("tflops_per_gpu") => {
            Ok((Set::Megatron, reader.each(|row, _| megatron(row, machine))?))
        }
        () if has("full_recompute_s") => {
            Ok((Set::Korthikanti, reader.each(|row, _| korthikanti(row, machine))?))
        }
        () if has("samples_per_gpu_per_s") => {
            Ok((Set::ZeroBubble, reader.each(|row, _| zero_bubble(row, machine))?))
        }
        () if has("iteration time (ms)") && has("Parameters") => {
            Ok((Set::MultiNode, reader.each(|row, at| vtrain(row, at, None))?))
        }
        () if has("iteration time (ms)") => {
            Ok((Set::SingleNode, reader.each(|row, at| vtrain(row, at, Some(machine)))?))
        }
        () => Err(Error::Read {
            path: path.to_owned(),
            cause: "its header is that of no measurements known here".to_owned(),
        }),
    }
}

/// A file of measurements.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    /// All rows, each predicted by `predict`, which hears its place.
    fn each<T: DeserializeOwned + Sync + Send>(
        &self,
        predict: impl Fn(&T, usize) -> Result<Vec<Row>, String> + Sync,
    ) -> Result<Vec<Row>, Error> {
        let wrong = |line: usize, cause: String| Error::Read {
            path: self.path.to_owned(),
            cause: format!("row {}: {cause}", line + 1),
        };
        let rows = table::<T>(self.text).map_err(|cause| wrong(0, cause))?;
        let predicted = rows
            .par_iter()
            .enumerate()
            .map(|(at, row)| predict(row, at).and_then(check).map_err(|cause| wrong(at, cause)));
        Ok(predicted.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

/// `text` without lines that begin with a number sign, but for a header whose first column does.
fn uncommented(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#') || line.starts_with("# GPUs,"));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

/// The largest number of anything in a row.
const MOST: u64 = 1 << 20;

/// Checks that `rows` could have been measured.
fn check(rows: Vec<Row>) -> Result<Vec<Row>, String> {
    match rows.iter().find(|row| !(row.measured > 0.0 && row.measured < 1e12)) {
        Some(row) => Err(format!("{} {} cannot be measured", row.measured, row.quantity)),
        None => Ok(rows),
    }
}

fn table<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let text = uncommented(text);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows = reader.deserialize().collect::<Result<Vec<T>, _>>();
    rows.map_err(|error| error.to_string())
}

/// GPT as Megatron-LM has it.
fn gpt(
    hidden: u64,
    heads: u64,
    layers: u64,
    vocabulary: u64,
    sequence: u64,
) -> Result<Transformer, String> {
    let sizes = Sizes {
        layers,
        hidden,
        heads,
        kv_heads: heads,
        head_size: hidden / heads.max(1),
        ffn: hidden.saturating_mul(4),
        gated: false,
        vocabulary,
        sequence,
        positions: sequence,
        experts: None,
        tied: true,
        biases: Biases { qkv: true, output: true, mlp: true },
        norm: Norm::Layer,
        qk_norm: false,
        attention: Attention::Core,
    };
    Transformer::new(sizes).map_err(|error| error.to_string())
}

/// A set-up of Megatron-LM: `groups` are data, tensor and pipeline.
fn set_up(groups: [u64; 3], microbatch: u64, chunks: u64, recompute: Recompute) -> Setup {
    let [data, tensor, pipeline] = groups;
    Setup {
        data,
        tensor,
        pipeline,
        context: 1,
        expert: 1,
        zero: Zero::None,
        microbatch,
        chunks,
        family: if chunks > 1 { Family::Interleaved } else { Family::OneFOneB },
        recompute,
        split: Split::Even,
        vocabulary_parallel: false,
    }
}

fn recipe(batch: u64) -> Recipe {
    Recipe {
        batch,
        gradient_bytes: 2,
        optimizer_bytes: 12,
        sequence_parallel: false,
        scatter_gather: false,
        overlap_gradients: false,
        boundary: Boundary::Barrier,
        reserved: RESERVED,
    }
}

/// The prediction, on as many devices as the set-up has, as plans are: by the event engine. Whether
/// it fits is not asked: it ran.
fn predict(
    model: &Transformer,
    setup: &Setup,
    recipe: &Recipe,
    machine: &Machine,
) -> Result<Finalist, String> {
    let sizes = [setup.data, setup.tensor, setup.pipeline, setup.microbatch, recipe.batch];
    if let Some(size) = sizes.into_iter().find(|size| !(1..=MOST).contains(size)) {
        return Err(format!("a group or batch of {size}: from 1 to {MOST}"));
    }
    // Profiles are of the question's model.
    let machine = Machine { memory: Bytes(1 << 60), measured: None, ..machine.clone() };
    let cluster = Cluster { parts: vec![(machine, setup.devices())] };
    let ground = Ground { model, recipe, cluster: &cluster };
    let costed = ground.cost(setup).map_err(|error| error.to_string())?;
    let evaluation = ground.evaluate(costed, &mut Replay::new());
    let evaluation = evaluation.map_err(|error| error.to_string())?;
    ground.finalist(evaluation).map_err(|error| error.to_string())
}

fn seconds(finalist: &Finalist) -> f64 {
    number(finalist.step.0) / 1e9
}

#[derive(Deserialize)]
struct MegatronRow {
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

/// What table 1 leaves out.
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

const SETTINGS: &str = include_str!("../../../../scenarios/paper/megatron2021-settings.csv");

fn megatron(row: &MegatronRow, machine: &Machine) -> Result<Vec<Row>, String> {
    let MegatronRow { heads, hidden, layers, tp, pp, gpus, global_batch, .. } = *row;
    let settings: Vec<MegatronSetting> = table(SETTINGS)?;
    let own = settings
        .iter()
        .find(|one| [one.hidden, one.layers, one.tp, one.pp] == [hidden, layers, tp, pp]);
    let own = own.ok_or("its microbatch size and chunks are not known")?;
    let model = gpt(hidden, heads, layers, VOCABULARY, SEQUENCE)?;
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
    let finalist = predict(&model, &setup, &recipe, machine)?;
    let run = format!("{:.1}B on {gpus}", number(model.parameters()) / 1e9);
    Ok(vec![
        Row::new(&run, TIME, [seconds(&finalist), measured]),
        Row::new(&run, HFU, [used, row.percent_of_peak]),
    ])
}

#[derive(Deserialize)]
struct KorthikantiRow {
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

fn korthikanti(row: &KorthikantiRow, machine: &Machine) -> Result<Vec<Row>, String> {
    let KorthikantiRow { heads, hidden, layers, tp, pp, gpus, global_batch, .. } = *row;
    let model = gpt(hidden, heads, layers, VOCABULARY, SEQUENCE)?;
    let data = gpus / tp.max(1) / pp.max(1);
    let mut rows = Vec::new();
    let ways = [
        ("full", Recompute::Full, false, row.full_recompute_s),
        ("selective", Recompute::Selective, true, row.present_work_s),
    ];
    for (name, recompute, sequence_parallel, measured) in ways {
        let (size, chunks) = (row.microbatch_size, row.interleave_stages);
        let setup = set_up([data, tp, pp], size, chunks, recompute);
        let recipe = Recipe { sequence_parallel, scatter_gather: true, ..recipe(global_batch) };
        let finalist = predict(&model, &setup, &recipe, machine)?;
        let run = format!("{} {name}", row.model);
        rows.push(Row::new(&run, TIME, [seconds(&finalist), measured]));
    }
    let tokens = number(global_batch) * number(SEQUENCE);
    let at_peak = machine.peak * number(gpus) * row.present_work_s;
    let used = |flops: f64| 100.0 * flops * tokens / at_peak;
    let run = format!("{} selective", row.model);
    rows.push(Row::new(&run, MFU, [used(model.model_flops()), row.mfu_percent]));
    let hardware = model.hardware_flops(Recompute::Selective);
    rows.push(Row::new(&run, HFU, [used(hardware), row.hfu_percent]));
    Ok(rows)
}

#[derive(Deserialize)]
struct ZeroBubbleRow {
    model: String,
    gpus: u64,
    microbatch_size: u64,
    m: u64,
    schedule: String,
    samples_per_gpu_per_s: f64,
    memory_gb: f64,
}

#[derive(Deserialize)]
struct ZeroBubbleModel {
    model: String,
    layers: u64,
    heads: u64,
    hidden: u64,
    sequence: u64,
    chunks: u64,
}

const MODELS: &str = include_str!("../../../../scenarios/paper/zb-models.csv");

fn zero_bubble(row: &ZeroBubbleRow, machine: &Machine) -> Result<Vec<Row>, String> {
    let models: Vec<ZeroBubbleModel> = table(MODELS)?;
    let own = models.iter().find(|one| one.model == row.model).ok_or("an unknown model")?;
    let (family, chunks) = match row.schedule.as_str() {
        "1F1B" => (Family::OneFOneB, 1),
        "1F1B-I" => (Family::Interleaved, own.chunks),
        // The order of ZB-1p is that of ZB-H1 in every row of table 5.
        "ZB-1p" => (Family::ZbH1, 1),
        "ZB-2p" => (Family::Zb2p, 1),
        other => return Err(format!("the schedule {other} is not in the table")),
    };
    let model = gpt(own.hidden, own.heads, own.layers, ZERO_BUBBLE_VOCABULARY, own.sequence)?;
    let setup = set_up([1, 1, row.gpus], row.microbatch_size, chunks, Recompute::None);
    let batch = row.m.checked_mul(row.microbatch_size).ok_or("too many samples")?;
    let post = matches!(family, Family::ZbH1 | Family::Zb2p);
    let boundary = if post { Boundary::PostValidation } else { Boundary::Barrier };
    let recipe = Recipe { boundary, ..recipe(batch) };
    let finalist = predict(&model, &Setup { family, ..setup }, &recipe, machine)?;
    let speed = number(batch) / number(row.gpus) / seconds(&finalist);
    let peak = number(finalist.evaluation.fullest().1.sum().0) / 1e9;
    let run = format!("{} m={} {}", row.model, row.m, row.schedule);
    Ok(vec![
        Row::new(&run, SPEED, [speed, row.samples_per_gpu_per_s]),
        Row::new(&run, MEMORY, [peak, row.memory_gb]),
    ])
}

#[derive(Deserialize)]
struct VtrainRow {
    #[serde(rename = "# GPUs")]
    gpus: u64,
    #[serde(rename = "global batch")]
    batch: u64,
    #[serde(rename = "micro batch")]
    microbatch: u64,
    #[serde(rename = "hidden size")]
    hidden: u64,
    #[serde(rename = "attention heads")]
    heads: u64,
    #[serde(rename = "# layers")]
    layers: u64,
    #[serde(rename = "sequence length")]
    sequence: u64,
    #[serde(rename = "tensor parallelism")]
    tensor: u64,
    #[serde(rename = "data parallelism")]
    data: u64,
    #[serde(rename = "pipeline parallelism")]
    pipeline: u64,
    #[serde(rename = "iteration time (ms)")]
    milliseconds: f64,
}

const MULTI_NODE: &str = include_str!("../../../../scenarios/paper/vtrain-multi.toml");

/// On `machine`, or on the cluster of the measurements over many nodes.
fn vtrain(row: &VtrainRow, at: usize, machine: Option<&Machine>) -> Result<Vec<Row>, String> {
    let VtrainRow { hidden, heads, layers, sequence, tensor, data, pipeline, .. } = *row;
    let model = gpt(hidden, heads, layers, VOCABULARY, sequence)?;
    let setup = set_up([data, tensor, pipeline], row.microbatch, 1, Recompute::Full);
    let many = || {
        machines::parse("vtrain-multi", Path::new("vtrain-multi.toml"), MULTI_NODE)
            .map_err(|error| error.to_string())
    };
    let finalist = match machine {
        Some(machine) => predict(&model, &setup, &recipe(row.batch), machine)?,
        None => predict(&model, &setup, &recipe(row.batch), &many()?)?,
    };
    let run = format!(
        "{:.1}B on {}: t {tensor} d {data} p {pipeline} b {} B {}",
        number(model.parameters()) / 1e9,
        row.gpus,
        row.microbatch,
        row.batch
    );
    let predicted = Row::new(&run, TIME, [seconds(&finalist), row.milliseconds / 1e3]);
    let fitted = match machine {
        Some(_) => at.is_multiple_of(FITTED_EVERY),
        None => FITTED_MULTI.contains(&at),
    };
    Ok(vec![Row { fitted, ..predicted }])
}
