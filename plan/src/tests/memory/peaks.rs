//! Peaks of memory that were published, against those predicted.

use pipeline::{Bytes, Family, LayerLayout};
use sim::Replay;

use super::super::{machine, model, recipe, setup};
use super::models;
use crate::{
    Cluster, Inputs, Machine, Offload, Optimizer, Peaks, Precision, Recipe, Recompute, Reshard,
    Setup, Split, StageMemory, Update, Zero, number,
};

const ROWS: &str = include_str!("../../../../scenarios/paper/today-memory.csv");

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;
/// Memory of an 80 GB device less that of its context and NCCL, which the allocator does not count, in
/// GiB.
const ROOM: f64 = 79.2 - 3.0;

/// A row of the file, its cells under the names of their columns.
struct Row<'a> {
    cells: Vec<(&'a str, &'a str)>,
}

impl<'a> Row<'a> {
    fn text(&self, column: &str) -> &'a str {
        self.cells.iter().find(|(name, _)| *name == column).expect("a column").1
    }

    fn count(&self, column: &str) -> u64 {
        self.text(column).parse().expect("a number")
    }

    fn setup(&self) -> Setup {
        let [gpus, tensor, pipeline, context] =
            ["gpus", "tp", "pp", "cp"].map(|column| self.count(column));
        let chunks = self.count("vp");
        let (zero, reshard) = match self.text("sharing") {
            "optimizer" => (Zero::Optimizer, Reshard::AfterForward),
            "parameters" => (Zero::Parameters, Reshard::AfterForward),
            _ => (Zero::Parameters, Reshard::Never),
        };
        Setup {
            data: gpus / (tensor * pipeline * context),
            tensor,
            pipeline,
            context,
            expert: self.count("ep"),
            expert_tensor: self.count("etp"),
            zero,
            reshard,
            microbatch: self.count("micro-batch"),
            chunks,
            family: if chunks > 1 { Family::Interleaved } else { Family::OneFOneB },
            searched: false,
            recompute: Recompute::named(&self.text("recompute").replace('+', ",")).unwrap(),
            split: if self.text("layout").is_empty() { Split::Even } else { Split::Layout },
            ..setup([1, 1, 1])
        }
    }

    fn recipe(&self) -> Recipe {
        Recipe {
            gradient_bytes: self.count("gradient-bytes"),
            optimizer: Optimizer::new(Update::AdamW, Some(self.count("optimizer-bytes"))),
            weight_bytes: self.count("weight-bytes"),
            logit_bytes: self.count("logit-bytes"),
            fp8_activation_input: false,
            offload: Offload::NONE,
            reserved: Bytes(3 << 29),
            precision: Precision::named(self.text("precision")).unwrap(),
            ..recipe(self.count("global-batch"))
        }
    }

    /// Memory of each stage at its peak.
    fn predicted(&self) -> Vec<StageMemory> {
        let model = model(models::named(self.text("model"), self.count("sequence")));
        let (setup, recipe) = (self.setup(), self.recipe());
        let layout: Option<LayerLayout> = self.text("layout").parse().ok();
        let machine = Machine { memory: Bytes(1 << 60), ..machine() };
        let cluster = Cluster { parts: vec![(machine, setup.devices())] };
        let inputs = Inputs { layout: layout.as_ref(), ..Inputs::new(&model, &recipe, &cluster) };
        let costed = inputs.cost(&setup).unwrap();
        inputs.evaluate(&costed, &mut Replay::new()).unwrap().memory
    }
}

fn rows() -> Vec<Row<'static>> {
    let mut lines = ROWS.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().expect("columns").split(',').collect();
    let row = |line: &'static str| {
        let cells: Vec<_> = names.iter().copied().zip(line.split(',')).collect();
        assert_eq!(cells.len(), names.len(), "{line}");
        Row { cells }
    };
    lines.map(row).collect()
}

fn gib(memory: Bytes) -> f64 {
    number(memory.0) / GIB
}

/// The largest of all stages, in GiB.
fn predicted(row: &Row<'_>) -> f64 {
    row.predicted().iter().map(|held| gib(held.sum())).fold(0.0, f64::max)
}

/// The errors of the rows that ran, of those of torchtitan or of the others.
fn errors(of_torchtitan: bool) -> Vec<f64> {
    let all = rows();
    let own = all.iter().filter(|row| row.text("source").contains("torchtitan") == of_torchtitan);
    let error = |row: &Row<'_>| {
        let peak: f64 = row.text("peak-gib").parse().ok()?;
        let error = predicted(row) / peak - 1.0;
        println!("{} {} {:+.1} %", row.text("path"), row.text("recompute"), 100.0 * error);
        Some(error.abs())
    };
    own.filter_map(error).collect()
}

fn mean(errors: &[f64]) -> f64 {
    errors.iter().sum::<f64>() / number(errors.len() as u64)
}

/// Megatron's runs, of MLPerf, Megatron-Bridge and pull requests of Megatron-LM: the fullest stage, though
/// MLPerf's peaks are of one rank that is not named.
#[test]
fn peaks_of_megatron_are_foretold() {
    let errors = errors(false);
    assert_eq!(errors.len(), 18);
    assert!(mean(&errors) < 0.045, "{}", mean(&errors));
    assert!(errors.iter().all(|error| *error < 0.09), "{errors:?}");
}

#[test]
fn peaks_of_torchtitan_are_foretold() {
    let errors = errors(true);
    assert_eq!(errors.len(), 10);
    assert!(mean(&errors) < 0.14, "{}", mean(&errors));
}

/// Nemotron-3-nano with modules recomputed, on devices of 80 GB: what ran is said to fit, what ran out
/// of memory is not.
#[test]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Neither negative nor large.
fn runs_out_of_memory_are_foretold() {
    let all = rows();
    let study = || all.iter().filter(|row| row.text("model").starts_with("nemotron"));
    assert_eq!(study().filter(|row| row.text("fits") == "no").count(), 4);
    for row in study() {
        let held = predicted(row);
        assert_eq!(held < ROOM, row.text("fits") == "yes", "{} {held}", row.text("recompute"));
        // The odds by all published peaks of Megatron-LM agree, of what a plan may use of an H100 at most.
        let peaks = Peaks { mean: -0.015, deviation: 0.042 };
        let [needs, has] = [held, 79.1 - 4e9 / GIB].map(|gib| Bytes((gib * GIB) as u64));
        let odds = peaks.odds(needs, has);
        assert_eq!(odds > 0.5, row.text("fits") == "yes", "{} {odds}", row.text("recompute"));
    }
}
