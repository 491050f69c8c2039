//! Ctrl-C: the first asks long work to end with what it has, the second ends the program.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a program that a Ctrl-C has ended, as shells count.
const ENDED: i32 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Lets the first Ctrl-C ask and the second end the program. Where Ctrl-C is ignored, as in the
/// background, it stays so.
pub fn listen() {
    // Without a handler Ctrl-C ends the program, which loses the best so far and nothing else.
    let _ = ctrlc::try_set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            process::exit(ENDED);
        }
    });
}

/// Whether somebody has asked to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
