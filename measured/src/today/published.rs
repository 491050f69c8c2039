//! The tables of runs of today's models, as published, without assumptions.

use std::path::Path;

use question::Diagnostic;
use scenarios::PAPER;
use serde::Deserialize;

use super::super::rows::{MOST, table};

/// Which of the tables a line is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in super::super) enum Source {
    /// Results of MLPerf Training.
    MlPerf,
    /// Megatron-Bridge: its tables, verification cards and studies, and pull requests of Megatron-LM.
    Bridge,
    /// The benchmark pages of torchtitan.
    Torchtitan,
    /// Megatron-LM without overlap on one node of B200, by the authors of SimuMax.
    SimuMax,
    /// Runs of ccl-bench on Perlmutter.
    CclBench,
    /// Fine-tuning with LoRA: tables of Megatron-Bridge and NeMo, and logs of MLPerf.
    Lora,
    /// NeMo on Megatron-LM: recipes of NVIDIA's dgxc-benchmarking, and long sequences.
    Nemo,
    /// PyTorch FSDP on A100, by llm-foundry and fms-fsdp.
    Fsdp,
}

impl Source {
    /// All sources, in the order of reports.
    pub(in super::super) const ALL: [Self; 8] = [
        Self::MlPerf,
        Self::Bridge,
        Self::Torchtitan,
        Self::SimuMax,
        Self::CclBench,
        Self::Lora,
        Self::Nemo,
        Self::Fsdp,
    ];

    pub(in super::super) const fn name(self) -> &'static str {
        match self {
            Self::MlPerf => "MLPerf",
            Self::Bridge => "Megatron-Bridge",
            Self::Torchtitan => "torchtitan",
            Self::SimuMax => "SimuMax",
            Self::CclBench => "ccl-bench",
            Self::Lora => "LoRA",
            Self::Nemo => "NeMo",
            Self::Fsdp => "FSDP",
        }
    }

    /// Whether constants are fitted to its runs, but for one that is fitted to stock software alone.
    pub(super) const fn is_fitted(self) -> bool {
        matches!(self, Self::MlPerf | Self::Bridge | Self::Torchtitan)
    }

    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::MlPerf => "today-mlperf.csv",
            Self::Bridge => "today-megatron-bridge.csv",
            Self::Torchtitan => "today-torchtitan.csv",
            Self::SimuMax => "today-simumax.csv",
            Self::CclBench => "today-ccl-bench.csv",
            Self::Lora => "today-lora.csv",
            Self::Nemo => "today-nemo.csv",
            Self::Fsdp => "today-fsdp.csv",
        }
    }

    /// Its text. Each is a constant, so that programs that ask for none of them carry none.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::MlPerf => const { PAPER.text(Self::MlPerf.file()) },
            Self::Bridge => const { PAPER.text(Self::Bridge.file()) },
            Self::Torchtitan => const { PAPER.text(Self::Torchtitan.file()) },
            Self::SimuMax => const { PAPER.text(Self::SimuMax.file()) },
            Self::CclBench => const { PAPER.text(Self::CclBench.file()) },
            Self::Lora => const { PAPER.text(Self::Lora.file()) },
            Self::Nemo => const { PAPER.text(Self::Nemo.file()) },
            Self::Fsdp => const { PAPER.text(Self::Fsdp.file()) },
        }
    }

    /// Columns by which its header is known: each has some that no other has.
    const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::MlPerf => &["submitter", "tp_comm_overlap", "run_median_min", "step_seconds"],
            Self::Bridge => &["release", "dispatcher", "precision_as_written", "step_seconds"],
            Self::Torchtitan => &["local_batch", "async_tp", "compile", "step_seconds"],
            Self::SimuMax => &["row", "layers", "peak_memory_gib", "step_seconds"],
            Self::CclBench => &["framework", "metric", "repeats", "step_seconds"],
            Self::Lora => &["lora_rank", "lora_modules", "attended", "step_seconds"],
            Self::Nemo => &["etp", "layers", "step_seconds"],
            Self::Fsdp => &["zero", "framework", "tokens_per_s_per_gpu"],
        }
    }

    /// The table whose header `text` has, if any.
    pub(in super::super) fn of(text: &str) -> Option<Self> {
        let header = text.lines().find(|line| !line.starts_with('#'))?;
        let columns: Vec<&str> = header.split(',').map(str::trim).collect();
        Self::ALL.into_iter().find(|one| one.columns().iter().all(|name| columns.contains(name)))
    }
}

/// A line of any of the tables. A cell that its table has not, or that was not printed, is empty.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(default)]
pub(super) struct Published {
    pub(super) source: String,
    pub(super) path: String,
    pub(super) release: String,
    pub(super) kind: String,
    pub(super) table: String,
    pub(super) framework: String,
    pub(super) model: String,
    pub(super) layers: String,
    pub(super) machine: String,
    pub(super) gpus: String,
    pub(super) gpus_per_node: String,
    pub(super) fsdp: String,
    pub(super) tp: String,
    pub(super) pp: String,
    pub(super) vp: String,
    pub(super) cp: String,
    pub(super) ep: String,
    pub(super) etp: String,
    pub(super) schedule: String,
    pub(super) micro_batch: String,
    pub(super) local_batch: String,
    pub(super) num_microbatches: String,
    pub(super) global_batch: String,
    pub(super) sequence: String,
    pub(super) layout: String,
    pub(super) precision: String,
    pub(super) compile: String,
    pub(super) async_tp: String,
    pub(super) mtp: String,
    pub(super) recompute: String,
    pub(super) a2a_overlap: String,
    pub(super) dispatcher: String,
    pub(super) routing: String,
    pub(super) tp_comm_overlap: String,
    pub(super) cuda_graphs: String,
    pub(super) lora_rank: String,
    pub(super) lora_modules: String,
    pub(super) attended: String,
    pub(super) metric: String,
    pub(super) tokens_per_s_per_gpu: String,
    pub(super) tflops_per_gpu: String,
    pub(super) step_seconds: String,
    pub(super) peak_memory: String,
    pub(super) memory_unit: String,
    pub(super) peak_memory_gib: String,
    pub(super) fits: String,
    pub(super) note: String,
}

/// All lines of the file at `path`.
pub(super) fn lines(path: &Path, text: &str) -> Result<Vec<Published>, Diagnostic> {
    table(text).map_err(|cause| Diagnostic::unreadable(path, &cause))
}

/// The whole number in the cell `text` of `column`; `otherwise` where it is empty.
pub(super) fn whole(column: &str, text: &str, otherwise: u64) -> Result<u64, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(otherwise);
    }
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("{column} must be a whole number from 1 to {MOST}, or empty"))
}

/// The positive number in the cell `text` of `column`, if it is not empty.
pub(super) fn amount(column: &str, text: &str) -> Result<Option<f64>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number: Option<f64> = text.parse().ok().filter(|number| *number > 0.0 && *number < 1e12);
    number.map(Some).ok_or_else(|| format!("{column} must be a number greater than zero, or empty"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_known_by_its_header() {
        for source in Source::ALL {
            let text = PAPER.get(source.file()).unwrap();
            assert_eq!(Source::of(text), Some(source));
            let lines = lines(Path::new(source.file()), text).unwrap();
            let least = if [Source::Lora, Source::Fsdp].contains(&source) { 9 } else { 18 };
            assert!(lines.len() >= least, "{}", source.name());
            assert!(lines.iter().all(|line| !line.model.is_empty() && !line.machine.is_empty()));
        }
        assert_eq!(Source::of(PAPER.text("megatron2021.csv")), None);
        assert_eq!(Source::of(PAPER.text("today-models.csv")), None);
    }

    #[test]
    fn cells_are_numbers_or_empty() {
        assert_eq!(whole("gpus", "", 3), Ok(3));
        assert_eq!(whole("gpus", " 64", 1), Ok(64));
        for wrong in ["0", "-1", "1.5", "many", "99999999999999999999"] {
            assert!(whole("gpus", wrong, 1).unwrap_err().contains("gpus must be"), "{wrong}");
        }
        assert_eq!(amount("step_seconds", ""), Ok(None));
        assert_eq!(amount("step_seconds", "0.5"), Ok(Some(0.5)));
        for wrong in ["0", "-2", "nan", "inf", "1e99", "x"] {
            assert!(amount("step_seconds", wrong).is_err(), "{wrong}");
        }
    }
}
