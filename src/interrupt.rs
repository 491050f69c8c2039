//! Ctrl-C: the first asks long work to end with what it has, the second ends the program.
//!
//! Of the functions here that install a handler, the first that is called decides.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{process, thread};

use crate::messages;

/// How long work under way may take after a Ctrl-C.
const GRACE: Duration = Duration::from_millis(800);

/// The exit code of a program that a Ctrl-C has ended, as shells count.
pub const ENDED: u8 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
static ANSWERED: AtomicBool = AtomicBool::new(false);
static CUT: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C asks to stop, the second ends the program. Where Ctrl-C is ignored, as in the
/// background, it stays so. A command that does not listen is ended by the first.
pub fn listen() {
    hear(|| messages::note("ending with what there is; another Ctrl-C ends at once"));
}

/// The same without a message, for callers that have no result then and say so themselves.
pub fn listen_silently() {
    hear(|| {});
}

/// The same as [`listen`], where work under way can take long: what is not done a second later is lost, and the program
/// ends with `text`, unless [`answered`].
pub fn listen_for_a_second(text: &'static str) {
    hear(move || {
        thread::spawn(move || {
            thread::sleep(GRACE);
            if !ANSWERED.load(Ordering::Relaxed) {
                messages::note(text);
                process::exit(i32::from(ENDED));
            }
        });
    });
}

/// Says that the answer is there, and only printed and written from now on.
pub fn answered() {
    ANSWERED.store(true, Ordering::Relaxed);
}

fn hear(answer: impl Fn() + Send + 'static) {
    // Without a handler Ctrl-C ends the program, which loses the best so far and nothing else.
    let _ = ctrlc::try_set_handler(move || {
        if ASKED.swap(true, Ordering::Relaxed) {
            process::exit(i32::from(ENDED));
        }
        answer();
    });
}

/// Leaves a Ctrl-C to the process that started this one and ends it: a terminal sends it to both.
pub fn leave_to_parent() {
    // Without a handler Ctrl-C ends this process, which its parent takes for a loss.
    let _ = ctrlc::try_set_handler(|| {});
}

/// Lets a Ctrl-C end the program at once, saying why nothing is left of its work.
pub fn end_with(text: &'static str) {
    // Without a handler Ctrl-C ends the program all the same.
    let _ = ctrlc::try_set_handler(move || {
        messages::note(text);
        process::exit(i32::from(ENDED));
    });
}

/// Whether Ctrl-C was pressed, where that is the usual end of a command: nothing is cut short.
pub fn pressed() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Whether Ctrl-C was pressed. A caller that gets `true` skips the rest of its work: from then on the
/// answer counts as cut short.
pub fn asked() -> bool {
    let asked = ASKED.load(Ordering::Relaxed);
    if asked {
        CUT.store(true, Ordering::Relaxed);
    }
    asked
}

/// Whether the answer is incomplete because of Ctrl-C: it is printed with a note, and the program ends
/// with [`ENDED`].
pub fn cut_short() -> bool {
    CUT.load(Ordering::Relaxed)
}
