//! The files in which seeds, and what once broke a parser, lie.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the project.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of `folder` that end in `ending`, by name, with what they hold.
pub(super) fn of_folder(folder: &Path, ending: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let ends = |path: &PathBuf| path.is_file() && path.to_string_lossy().ends_with(ending);
    let mut paths: Vec<PathBuf> = paths.filter(ends).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| Some((path.clone(), fs::read(&path).ok()?))).collect()
}

/// The inputs that once broke the parser `name`.
pub(super) fn broke_once(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    of_folder(&root().join("tests/fuzz").join(name).join("broke"), "")
}
