//! Decoding by a library that may panic at malformed input.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is caught and reported as an error, so that it need not be
    /// printed.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `decode`, or the message of its panic.
///
/// If the program is built to abort at a panic, this does not help: the release build unwinds.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                before(info);
            }
        }));
    });
    IS_GUARDED.set(true);
    let end = panic::catch_unwind(AssertUnwindSafe(decode));
    IS_GUARDED.set(false);
    end.map_err(|panic| message(panic.as_ref()))
}

/// The first line of a panic's message.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    text.lines().next().unwrap_or_default().chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(guarded(|| 7), Ok(7));
        let text = format!("{}\nmore", "a".repeat(1000));
        assert_eq!(guarded(|| panic!("{text}")), Err::<(), _>("a".repeat(100)));
        assert_eq!(guarded(|| panic!("at once")), Err::<(), _>("at once".to_owned()));
        assert!(!IS_GUARDED.get());
    }
}
