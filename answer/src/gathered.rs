//! The parameters that stages hold gathered: memory beside that of activations.

use cases::Case;
use pipeline::Bytes;
use pipeline::sharding::{ParameterAct, Sharding};
use serde::Serialize;

/// Gathered parameters that the stages of a case hold, and how often the stages communicate.
#[derive(Serialize)]
pub(crate) struct Gathered {
    /// By stage, the most chunks at once.
    chunks: Vec<u64>,
    /// By stage, the most bytes at once, if the bytes of chunks are given.
    #[serde(rename = "peak_bytes", skip_serializing_if = "Option::is_none")]
    bytes: Option<Vec<u64>>,
    /// By stage, gathers in a step.
    gathers: Vec<u64>,
    /// By stage, reductions in a step.
    reductions: Vec<u64>,
    /// Whether parameters are dropped within a step.
    #[serde(skip)]
    is_fsdp: bool,
}

impl Gathered {
    /// The gathered parameters of `case`, if replicas shard anything in it.
    #[must_use]
    pub(crate) fn of(case: &Case) -> Option<Self> {
        let ops = case.schedule.parameter_ops()?;
        let stages = || 0..case.schedule.shape().stages();
        let count = |act| stages().map(|stage| ops.count(stage, act) as u64).collect();
        let most = |sizes: &Vec<Bytes>| {
            let size = |chunk: u16| sizes.get(usize::from(chunk)).map_or(0, |bytes| bytes.0);
            stages().map(|stage| ops.most_gathered(stage, size)).collect()
        };
        Some(Self {
            chunks: stages().map(|stage| ops.most_gathered(stage, |_| 1)).collect(),
            bytes: case.parameter_bytes.as_ref().map(most),
            gathers: count(ParameterAct::Gather),
            reductions: count(ParameterAct::Reduce),
            is_fsdp: matches!(ops.sharding(), Sharding::Fsdp { .. }),
        })
    }

    /// In words, for the table.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let chunks = self.chunks.iter().max().copied().unwrap_or(0);
        let bytes = self.bytes.iter().flatten().max();
        let size = bytes.map_or_else(String::new, |&bytes| format!(", {}", Bytes(bytes)));
        let until = if self.is_fsdp { "at once" } else { "all through the step" };
        let most = |counts: &[u64]| counts.iter().max().copied().unwrap_or(0);
        format!(
            "{} of gathered parameters on a stage {until}{size}, not counted in its peak; \
             {} and {} of chunks in a step",
            counted(chunks, "chunk"),
            counted(most(&self.gathers), "gather"),
            counted(most(&self.reductions), "reduction"),
        )
    }
}

/// `1 chunk`, `2 chunks`.
fn counted(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}
