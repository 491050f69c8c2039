//! Pictures of schedules, as files beside the pages.

use std::path::PathBuf;

use super::root;

/// The file of the picture of the schedule `name`.
pub fn path(name: &str) -> PathBuf {
    root().join("docs/reference/schedules/pictures").join(format!("{name}.svg"))
}

/// The same picture in fewer bytes: what every element repeats is said once, or is what holds anyway.
pub fn shortened(svg: &str) -> String {
    svg.replace(" opacity=\"1\"", "")
        .replace(" stroke=\"none\"", "")
        .replace(" font-family=\"sans-serif\"", "")
        .replace("<svg role=\"img\"", "<svg role=\"img\" font-family=\"sans-serif\"")
        .replace("13.000000000000002", "13")
}
