//! Whether there is address space for a plan: an allocation that fails midway ends the process. Threads reserve much more
//! of it than they use, so that it is not held against free memory, as `question::memory` holds what is used.

use question::Diagnostic;

/// The most bytes that a plan itself holds: some 50 MiB for the questions that are shipped.
const OWN: usize = 96 << 20;
/// Address space that an allocator may reserve for a thread.
const OF_A_THREAD: usize = 64 << 20;

/// Checks that the process may have the address space of a plan on all its threads.
pub(super) fn check() -> Result<(), Diagnostic> {
    // Memory of a page is never given back.
    if cfg!(target_family = "wasm") {
        return Ok(());
    }
    let threads = rayon::current_num_threads();
    let bytes = OWN + threads.saturating_mul(OF_A_THREAD);
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| {
        let bytes = bytes >> 20;
        let message = format!("a plan on {threads} threads needs {bytes} MiB of address space");
        Diagnostic::new(message + ", more than this process is left")
            .with_help("raise its limit (`ulimit -v`); RAYON_NUM_THREADS=1 needs the least")
    })
}
