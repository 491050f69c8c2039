//! A pipeline alone, with activations on the host, beside interleaved 1F1B of tensor groups of 8: both sides as
//! the planner predicts them, in the three settings of figure 11.
//!
//! A range of their gains and a bound on their activations are published, but not which setting has which gain.

use pipeline::Family;
use plan::{Machine, number};
use planning::machines;
use question::Diagnostic;
use question::format;
use question::sheet::Sheet;
use rayon::prelude::*;

use super::super::cell::{Cell, Check};
use super::super::sources::Sources;
use super::{Reasons, not_checked, wrong};
use measured::papers::pipeoffload::{OffloadModel, OffloadStep};

/// The file of the models.
pub(in super::super) const FIGURES: &str = "offload-models.csv";
/// The device that the paper measured on.
const DEVICE: &str = "A100 80GB";
/// The devices of a tensor group, which are those of a node.
const GROUP: u64 = 8;
/// The published range of gains, in percent.
const RANGE: [f64; 2] = [12.0, 19.0];
/// Tolerance of a gain outside of the range, in points.
const TOLERANCE: f64 = 2.0;
/// How much more than the tensor groups' a pipeline's memory may be, as a share: as far off as the
/// planner's memory may be.
const MEMORY_TOLERANCE: f64 = 0.1;

/// The columns.
const GAIN: &str = "gain over tensor 8, %";
const MEMORY: &str = "memory over tensor 8";

const WHICH: &str = "not checked: which of the settings has which gain is not published";
const UNEVEN: &str = "not checked: layers and ends cannot be dealt evenly to the stages";
const ONE_NODE: &str = "known miss: above the range; that it is of models on one node is not said";
const ONE_NODE_MEMORY: &str = "known miss: that the bound is of models on one node is not said";

/// Both sides of a model and a sequence length.
struct Pair {
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

    /// Why nothing is claimed about it, if nothing is.
    fn reason(&self) -> Option<&'static str> {
        match self {
            _ if !(self.model.layers + 2).is_multiple_of(self.model.gpus)
                && !self.is_on_one_node() =>
            {
                Some(UNEVEN)
            }
            _ => Some(WHICH),
        }
    }

    const fn is_on_one_node(&self) -> bool {
        self.model.gpus <= GROUP
    }

    fn cells(&self) -> [Cell; 2] {
        let (row, gain, memory) = (self.row(), self.gain(), self.memory());
        let [least, most] = RANGE;
        let end = if gain < f64::midpoint(least, most) { least } else { most };
        let is_in = (least - TOLERANCE..=most + TOLERANCE).contains(&gain);
        let is_less = memory <= 1.0 + MEMORY_TOLERANCE;
        let cell = |column, convention, figures, holds: bool, known: &'static str| {
            let reason = self.reason().or((self.is_on_one_node() && !holds).then_some(known));
            match reason {
                Some(reason) => not_checked(&row, column, reason, figures),
                None => Cell::new(row.as_str(), column, convention, figures, Check::of(holds)),
            }
        };
        let gain = cell(GAIN, "measured: 12 to 19", [end, gain], is_in, ONE_NODE);
        let memory = cell(MEMORY, "measured: at most", [1.0, memory], is_less, ONE_NODE_MEMORY);
        [Cell { digits: 1, ..gain }, Cell { digits: 2, ..memory }]
    }
}

/// Gain and memory of every model and sequence length, and the ends of the range.
pub(super) fn cells(sources: &Sources<'_>) -> Result<(Vec<Cell>, Sheet), Diagnostic> {
    let machine = machines::of_device(DEVICE)?;
    let models = sources.records::<OffloadModel>(FIGURES)?.1;
    let asked: Vec<(OffloadModel, u64)> =
        models.into_iter().filter_map(|model| model.compared_seq.map(|s| (model, s))).collect();
    let pairs = asked.into_par_iter().map(|(model, sequence)| pair(model, sequence, &machine));
    let pairs: Vec<Pair> = pairs.collect::<Result<_, _>>()?;
    let mut cells: Vec<Cell> = pairs.iter().flat_map(Pair::cells).collect();
    cells.extend(ends(&pairs));
    let sheet = sheet(&pairs, &cells);
    Ok((cells, sheet))
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

/// The least and the largest gain on several nodes beside the ends of the published range.
fn ends(pairs: &[Pair]) -> Vec<Cell> {
    let chosen = pairs.iter().filter(|pair| pair.reason().is_none() && !pair.is_on_one_node());
    let gains: Vec<f64> = chosen.map(Pair::gain).collect();
    let ends = [
        ("least gain, %", gains.iter().copied().reduce(f64::min)),
        ("largest gain, %", gains.iter().copied().reduce(f64::max)),
    ];
    let cells = ends.into_iter().zip(RANGE).filter_map(|((column, ours), published)| {
        let ours = ours?;
        let check = Check::of((ours - published).abs() <= TOLERANCE);
        let cell =
            Cell::new("models on several nodes", column, "measured", [published, ours], check);
        Some(Cell { digits: 1, ..cell })
    });
    cells.collect()
}

/// Both sides of every pair, and the ends of the range.
fn sheet(pairs: &[Pair], cells: &[Cell]) -> Sheet {
    let reasons = Reasons::of(cells);
    let rows = pairs.iter().zip(cells.chunks(2)).map(|(pair, two)| {
        let side = |step: &OffloadStep| {
            format!("{} {:.0} GB", format::percent(step.mfu), number(step.memory.0) / 1e9)
        };
        let [gain, memory] = two else { return Vec::new() };
        vec![
            pair.row(),
            side(&pair.tensor),
            side(&pair.alone),
            format!("{} {:+.1} {}", gain.check.sign(), gain.ours, reasons.number(gain)),
            format!("{} {:.2} {}", memory.check.sign(), memory.ours, reasons.number(memory)),
        ]
    });
    let header = ["beside tensor groups of 8", "tensor 8", "pipeline alone", "gain, %", "memory"];
    let ends = cells.iter().skip(2 * pairs.len()).map(|cell| {
        format!("{} on several nodes: published = ours: {}\n", cell.column, cell.pair())
    });
    let ends: String = ends.collect();
    Sheet::table(&header, rows).and_text(format!(
        "{}\n{ends}times are the planner's, whose constants were fitted to vTrain, Megatron-LM 2021 and \
         2022 and\nZero Bubble (scenarios/machines/a100-80g.toml), attention is at the rate that \
         FlashAttention-2 published;\nnone was fitted to PipeOffload\n",
        reasons.lines()
    ))
}
