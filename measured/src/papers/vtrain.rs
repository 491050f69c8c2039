//! vTrain: single-node and multi-node iterations, which are not part of the project.

use std::path::Path;

use plan::{Attention, Machine, Recompute, number};
use planning::machines;
use scenarios::PAPER;
use serde::Deserialize;

use super::super::Row;
use super::super::quantities::TIME;
use super::super::rows::{Run, VOCABULARY, gpt, recipe, set_up};

/// Rows to which constants were fitted: every tenth of one node, six of many.
const FITTED_EVERY: usize = 10;
const FITTED_MULTI: [usize; 6] = [0, 11, 13, 15, 35, 53];

#[derive(Deserialize)]
pub(in super::super) struct Vtrain {
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

const MULTI_NODE: &str = PAPER.text("vtrain-multi.toml");

/// On `machine`, or on the cluster of the measurements over many nodes.
pub(in super::super) fn vtrain(
    row: &Vtrain,
    at: usize,
    machine: Option<&Machine>,
) -> Result<Vec<Row>, String> {
    let Vtrain { hidden, heads, layers, sequence, tensor, data, pipeline, .. } = *row;
    let model = gpt(Attention::Core, hidden, heads, layers, VOCABULARY, sequence)?;
    let setup = set_up([data, tensor, pipeline], row.microbatch, 1, Recompute::Full);
    let many = || {
        machines::parse("vtrain-multi", Path::new("vtrain-multi.toml"), MULTI_NODE)
            .map_err(|error| error.to_string())
    };
    let own;
    let on = match machine {
        Some(machine) => machine,
        None => {
            own = many()?;
            &own
        }
    };
    let recipe = recipe(row.batch);
    let predicted = Run { model: &model, setup, recipe, machine: on }.predict()?;
    let run = format!(
        "{:.1}B on {}: t {tensor} d {data} p {pipeline} b {} B {}",
        number(model.parameters()) / 1e9,
        row.gpus,
        row.microbatch,
        row.batch
    );
    let time = predicted.row(&run, TIME, [predicted.seconds(), row.milliseconds / 1e3]);
    let fitted = match machine {
        Some(_) => at.is_multiple_of(FITTED_EVERY),
        None => FITTED_MULTI.contains(&at),
    };
    Ok(vec![Row { fitted, ..time }])
}
