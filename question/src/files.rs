//! The files that a question names.

use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::Keys;
use crate::values::packing::LengthsKey;

/// The largest file.
const MAX_NAMED: u64 = 2 << 30;

/// Calls `take` with the content of every file that `keys` name and that an answer depends on, but for those of
/// schedules.
pub fn each(
    context: &Context<'_>,
    keys: &Keys,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Diagnostic> {
    let read = |path: PathBuf| context.read_bytes(&path, MAX_NAMED);
    named(context, keys).into_iter().try_for_each(|path| read(path).map(|bytes| take(&bytes)))
}

fn named(context: &Context<'_>, keys: &Keys) -> Vec<PathBuf> {
    let cluster =
        keys.hardware.cluster.iter().map(PathBuf::from).filter(|path| context.exists(path));
    let single = keys.slowdown_profile.iter().chain(&keys.profile).chain(&keys.chain_file);
    let lengths = keys.microbatch_lengths.iter().filter_map(LengthsKey::file);
    let of_work =
        keys.microbatch_work_file.as_deref().into_iter().chain(lengths).map(Path::to_owned);
    let single = single.cloned().chain(of_work);
    let samples = keys.jitter.iter().flatten().filter_map(|jitter| jitter.law.file());
    cluster.chain(single).chain(samples.map(Path::to_owned)).collect()
}
