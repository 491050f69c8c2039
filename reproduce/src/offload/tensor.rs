//! A pipeline alone, with activations on the host, beside interleaved 1F1B of tensor groups of 8: both sides as
//! the planner predicts them, in the three settings of figure 11.
//!
//! A range of their gains and a bound on their activations are published, but not which setting has which gain.

use pipeline::Family;
use plan::{Machine, number};
use planning::machines;
use question::sheet::Sheet;
use question::{Diagnostic, format, table};
use rayon::prelude::*;

use super::super::cell::{Basis, Cell, Figure};
use super::super::check::{Check, Evidence};
use super::super::sheets;
use super::super::sources::Sources;
use super::wrong;
use measured::papers::pipeoffload::{OffloadModel, OffloadStep};

pub(in super::super) const FIGURES: &str = "offload-models.csv";
/// The device that the paper measured on.
const DEVICE: &str = "A100 80GB";
/// The devices of a tensor group, which are those of a node.
const GROUP: u64 = 8;
/// The published range of gains, in percent.
const RANGE: [f64; 2] = [12.0, 19.0];

const GAIN: &str = "gain over tensor 8, %";
const MEMORY: &str = "activations over tensor 8";

/// The range from 12 to 19 %, each end with 15 % of it.
const IN_RANGE: Basis = Basis::new(
    "measured: 12 to 19",
    Evidence::Inequality,
    Check::Between { below: 0.15 * RANGE[0], above: 1.15 * RANGE[1] - RANGE[0] },
);
const LESS: Basis = Basis::new("measured: less", Evidence::Inequality, Check::Below);
const END: Basis = Basis::new("measured", Evidence::HeldOut, Check::Gain);

/// Both sides of a model and a sequence length.
pub(super) struct Pair {
    model: OffloadModel,
    sequence: u64,
    tensor: OffloadStep,
    /// The one of PO-H and PO-F that holds less.
    alone: OffloadStep,
}

impl Pair {
    fn row(&self) -> String {
        let Self { model, sequence, alone, .. } = self;
        format!("{} on {} s={sequence}, {}", model.model, model.gpus, alone.family.name())
    }

    /// By how many percent the pipeline alone is faster.
    fn gain(&self) -> f64 {
        100.0 * (self.tensor.seconds / self.alone.seconds - 1.0)
    }

    /// The memory of the pipeline alone over that of the tensor groups.
    fn memory(&self) -> f64 {
        number(self.alone.memory.0) / number(self.tensor.memory.0.max(1))
    }

    fn cells(&self) -> [Cell; 2] {
        let gain = Figure::new(self.row(), GAIN, IN_RANGE, RANGE[0]).digits(1);
        let memory = Figure::new(self.row(), MEMORY, LESS, 1.0).digits(2);
        [gain.beside(self.gain()), memory.beside(self.memory())]
    }
}

/// Both sides of every model and sequence length.
pub(super) fn pairs(sources: &Sources<'_>) -> Result<Vec<Pair>, Diagnostic> {
    let machine = machines::of_device(DEVICE)?;
    let models = sources.records::<OffloadModel>(FIGURES)?.1;
    let asked: Vec<(OffloadModel, u64)> =
        models.into_iter().filter_map(|model| model.compared_seq.map(|s| (model, s))).collect();
    let pairs = asked.into_par_iter().map(|(model, sequence)| pair(model, sequence, &machine));
    pairs.collect()
}

/// Gain and memory of every pair, and the ends of the range.
pub(super) fn cells(pairs: &[Pair]) -> Vec<Cell> {
    pairs.iter().flat_map(Pair::cells).chain(ends(pairs)).collect()
}

fn pair(model: OffloadModel, sequence: u64, machine: &Machine) -> Result<Pair, Diagnostic> {
    let step = |family, tensor| {
        let row = format!("{} s={sequence}", model.model);
        model.step(family, tensor, sequence, machine).map_err(|cause| wrong(FIGURES, &row, &cause))
    };
    let tensor = step(Family::Interleaved, GROUP)?;
    let [half, full] = [step(Family::PoH, 1)?, step(Family::PoF, 1)?];
    let alone = if full.memory < half.memory { full } else { half };
    Ok(Pair { model, sequence, tensor, alone })
}

/// The least and the largest gain beside the ends of the published range.
fn ends(pairs: &[Pair]) -> Vec<Cell> {
    let gains = || pairs.iter().map(Pair::gain);
    let ends = [
        ("least gain, %", gains().reduce(f64::min)),
        ("largest gain, %", gains().reduce(f64::max)),
    ];
    let cells = ends.into_iter().zip(RANGE).filter_map(|((column, ours), published)| {
        let figure = Figure::new("settings of figure 11", column, END, published);
        Some(figure.beside(ours?))
    });
    cells.collect()
}

/// Both sides of every pair, and the cells.
pub(super) fn sheet(pairs: &[Pair], cells: &[Cell]) -> Sheet {
    let side = |step: &OffloadStep| {
        format!("{} {:.0} GB", format::percent(step.mfu), number(step.memory.0) / 1e9)
    };
    let table = table!(
        pair = pairs,
        "against tensor groups of 8: MFU, activations" = pair.row(),
        "tensor 8" = side(&pair.tensor),
        "pipeline alone" = side(&pair.alone),
    );
    let cells = sheets::compared("against tensor groups of 8", cells.iter());
    table.and_text("\n").and(cells).and_text(
        "times are the planner's, whose constants were fitted to vTrain, Megatron-LM 2021 and 2022 and\nZero \
         Bubble (scenarios/machines/a100-80g.toml), attention is at the rate that FlashAttention-2 \
         published;\nnone was fitted to PipeOffload\n",
    )
}
