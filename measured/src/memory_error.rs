//! The error of predicted memory: the largest on published peaks.

use planning::MemoryError;
use question::Diagnostic;

use super::quantities::MEMORY;
use super::records;

/// The largest measured over predicted peak of torchtitan's published runs, less 1: pipelines and long sequences
/// hold more there than sizes say.
const TORCHTITAN: f64 = 0.3526;

/// The largest relative error of the memory formula on published peaks. Of Megatron-LM on those of the sets that are built
/// in, in either direction. No question changes it.
pub fn memory_error() -> Result<MemoryError, Diagnostic> {
    let own = records::of_sets()?;
    let megatron =
        own.iter().filter(|one| one.kind == MEMORY).map(|one| one.max).fold(0.0, f64::max);
    Ok(MemoryError { megatron, torchtitan: TORCHTITAN })
}
