//! Progress of long work, on stderr, where a person watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `steps` of `what`; hidden where stderr is no terminal.
pub fn bar(steps: usize, what: &'static str) -> ProgressBar {
    // One refresh a second: work of a moment shows no bar worth speaking of.
    let target = ProgressDrawTarget::stderr_with_hz(1);
    let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
    let style = ProgressStyle::with_template("{spinner} {wide_bar} {pos}/{len} {msg}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_secs(2));
    bar
}

/// A bar over `total` of `what`, of which `done` were done before, with its rate.
pub fn rated_bar(total: u64, done: u64, what: &'static str) -> ProgressBar {
    let bar = bar(usize::try_from(total).unwrap_or(usize::MAX), what).with_position(done);
    let template = "{spinner} {wide_bar} {pos}/{len} {msg}, {per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.reset_eta();
    bar
}
