//! Whether there is memory for what a question asks, before it is taken: a program that runs out of
//! memory is ended by the system, without a word.

use pipeline::Bytes;

use crate::diagnostic::Diagnostic;
use crate::format;
use crate::host::lent::Host;

/// Demands up to this size are not checked: querying the free memory costs more.
const SMALL: u64 = 8 << 20;

/// Refuses `what`, which takes `bytes`, where the host has less spare memory; `cure` is the remedy.
pub fn demand(host: &dyn Host, what: &str, bytes: u64, cure: &str) -> Result<(), Diagnostic> {
    demand_of(|| host.spare_memory(), what, bytes, cure)
}

/// Refuses `what`, which takes `bytes`, where `free` returns less; `cure` is the remedy.
pub fn demand_of(
    free: impl FnOnce() -> Option<u64>,
    what: &str,
    bytes: u64,
    cure: &str,
) -> Result<(), Diagnostic> {
    if bytes <= SMALL {
        return Ok(());
    }
    match free() {
        Some(free) if bytes > free => {
            let [bytes, free] = [bytes, free].map(|bytes| format::size(Bytes(bytes)));
            let message = format!("{what} takes about {bytes} of memory, and {free} are free");
            Err(Diagnostic::new(message).with_help(cure))
        }
        _ => Ok(()),
    }
}
