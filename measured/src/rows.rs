//! Context of measurements, read and predicted.

use std::cell::RefCell;
use std::path::Path;

use pipeline::{Bytes, Family};
use plan::{
    Attention, Biases, Boundary, Cluster, Finalist, Imbalance, Inputs, Kind, Loss, Machine,
    MemoryBudget, Norm, Optimizer, Precision, Recipe, Recompute, Setup, Sizes, Software, Split,
    Transformer, Zero, number,
};
use planning::RESERVED;
use question::Diagnostic;
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use sim::Replay;

use super::interval::Step;
use super::row::Row;
use crate::accuracy;

/// The vocabulary of GPT in Megatron-LM, padded.
pub(super) const VOCABULARY: u64 = 51_200;
/// The device of measurements that name none.
const DEVICE: &str = "A100 80GB";

/// The type of the devices that were measured, as a comment of the file says.
pub(super) fn device(text: &str) -> &str {
    let mut comments = text.lines().filter_map(|line| line.strip_prefix("# device:"));
    comments.next().map_or(DEVICE, str::trim)
}

pub(super) struct Reader<'a> {
    path: &'a Path,
    text: String,
    /// The rows that cannot be predicted, each with the reason.
    pub(super) left_out: RefCell<Vec<String>>,
}

impl<'a> Reader<'a> {
    /// The file at `path` with that `text`.
    pub(super) fn new(path: &'a Path, text: &str) -> Self {
        Self { path, text: uncommented(text), left_out: RefCell::default() }
    }

    /// The line that names the columns.
    pub(super) fn header(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// All rows, each predicted by `predict`, which gets its index; those that cannot be are left out.
    pub(super) fn each<T: DeserializeOwned + Sync + Send>(
        &self,
        predict: impl Fn(&T, usize) -> Result<Vec<Row>, String> + Sync,
    ) -> Result<Vec<Row>, Diagnostic> {
        let rows = records::<T>(&self.text);
        let one = |(at, row): (usize, Result<T, String>)| {
            let rows = row.and_then(|row| predict(&row, at)).and_then(check);
            rows.map_err(|cause| format!("row {}: {cause}", at + 1))
        };
        let rows: Vec<_> = rows.into_par_iter().enumerate().map(one).collect();
        let (good, bad): (Vec<_>, Vec<_>) = rows.into_iter().partition(Result::is_ok);
        let bad: Vec<String> = bad.into_iter().filter_map(Result::err).collect();
        match bad.first().filter(|_| good.is_empty()) {
            Some(cause) => Err(Diagnostic::unreadable(self.path, cause)),
            None => {
                *self.left_out.borrow_mut() = bad;
                Ok(good.into_iter().flatten().flatten().collect())
            }
        }
    }
}

/// `text` without lines that begin with a number sign, but for a header whose first column does.
fn uncommented(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#') || line.starts_with("# GPUs,"));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

/// The largest number of anything in a row.
pub(super) const MOST: u64 = 1 << 20;

/// Checks that `rows` could have been measured.
fn check(rows: Vec<Row>) -> Result<Vec<Row>, String> {
    match rows.iter().find(|row| !(row.measured > 0.0 && row.measured < 1e12)) {
        Some(row) => Err(format!("{} {} cannot be measured", row.measured, row.quantity)),
        None => Ok(rows),
    }
}

pub(super) fn table<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    records(text).into_iter().collect()
}

/// The rows of a table, each by itself.
pub(super) fn records<T: DeserializeOwned>(text: &str) -> Vec<Result<T, String>> {
    let text = uncommented(text);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.map_err(|error| error.to_string())).collect()
}

pub(super) fn gpt(
    attention: Attention,
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
        attention,
        ..Sizes::default()
    };
    Transformer::new(sizes).map_err(|error| error.to_string())
}

/// A set-up of Megatron-LM: `groups` are data, tensor and pipeline.
pub(super) fn set_up(
    groups: [u64; 3],
    microbatch: u64,
    chunks: u64,
    recompute: Recompute,
) -> Setup {
    let [data, tensor, pipeline] = groups;
    Setup {
        data,
        tensor,
        pipeline,
        context: 1,
        expert: 1,
        expert_tensor: 1,
        zero: Zero::None,
        reshard: plan::Reshard::AfterForward,
        shard_groups: 1,
        microbatch,
        chunks,
        family: if chunks > 1 { Family::Interleaved } else { Family::OneFOneB },
        searched: false,
        recompute,
        split: Split::Even,
        vocabulary_parallel: false,
        options: plan::Options::default(),
    }
}

pub(super) fn recipe(batch: u64) -> Recipe {
    Recipe {
        batch,
        gradient_bytes: 2,
        optimizer: Optimizer::ADAM_W,
        weight_bytes: 2,
        logit_bytes: 6,
        fp8_activation_input: false,
        offload: plan::Offload::NONE,
        sequence_parallel: false,
        scatter_gather: false,
        overlap_gradients: false,
        overlap_parameters: false,
        loss: Loss::Separate,
        boundary: Boundary::Barrier,
        reserved: RESERVED,
        memory_budget: MemoryBudget::default(),
        precision: Precision::Bf16,
        head: Precision::Bf16,
        software: Software::default(),
        imbalance: Imbalance::default(),
        attended: 1.0,
    }
}

/// A run that was published, as the planner sees it.
pub(super) struct Run<'a> {
    pub(super) model: &'a Transformer,
    pub(super) setup: Setup,
    pub(super) recipe: Recipe,
    pub(super) machine: &'a Machine,
}

pub(super) struct Predicted {
    pub(super) finalist: Finalist,
    kind: Kind,
    step: Step,
}

impl Run<'_> {
    /// The prediction, on as many devices as the set-up has, as plans are: by the event engine.
    /// Whether it fits is not asked: it ran.
    pub(super) fn predict(&self) -> Result<Predicted, String> {
        let Self { model, setup, recipe, machine } = self;
        let sizes = [setup.data, setup.tensor, setup.pipeline, setup.microbatch, recipe.batch];
        if let Some(size) = sizes.into_iter().find(|size| !(1..=MOST).contains(size)) {
            return Err(format!("a group or batch of {size}: from 1 to {MOST}"));
        }
        // Profiles are of the question's model.
        let machine = Machine { memory: Bytes(1 << 60), measured: None, ..(*machine).clone() };
        let cluster = Cluster { parts: vec![(machine, setup.devices())] };
        let ground = Inputs::new(model, recipe, &cluster);
        let costed = ground.cost(setup).map_err(|error| error.to_string())?;
        let evaluation = ground.evaluate(&costed, &mut Replay::new());
        let evaluation = evaluation.map_err(|error| error.to_string())?;
        let finalist = ground.finalist(evaluation).map_err(|error| error.to_string())?;
        let step = Step::of(model, setup.devices(), recipe.precision);
        Ok(Predicted { finalist, kind: Kind::of(&ground, setup), step })
    }
}

impl Predicted {
    /// The step, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        number(self.finalist.step.0) / 1e9
    }

    /// `[predicted, measured]` of a quantity, to which no constant was fitted.
    pub(super) fn row(&self, run: &str, quantity: &'static str, values: [f64; 2]) -> Row {
        let [predicted, measured] = values;
        let error = accuracy::error(predicted, measured);
        let (run, configuration, kind) = (run.to_owned(), run.to_owned(), self.kind.to_string());
        Row {
            run,
            kind,
            quantity,
            measured,
            predicted,
            error,
            fitted: false,
            held_out: None,
            without_source: None,
            apart: None,
            configuration,
            step: self.step,
        }
    }
}
