//! Tells the command line which commit it is built from.
//!
//! Only optimised builds are told: a commit is a new answer, and a new answer is a new build of the
//! command line and all of its tests.
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // How a build script speaks and what it asks.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=DEBUBBLE_VERSION={}", env!("CARGO_PKG_VERSION"));
    let is_optimised = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let Some(root) = env::var_os("CARGO_MANIFEST_DIR").filter(|_| is_optimised) else { return };
    let root = Path::new(&root);
    if let Some(commit) = commit(root) {
        println!("cargo::rustc-env=DEBUBBLE_VERSION={} ({commit})", env!("CARGO_PKG_VERSION"));
        for path in watched(root) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// The commit of the repository whose root is `root`, the day it was made, and whether the sources have
/// been modified since. Nothing where there is no such repository, as in sources that were unpacked from
/// an archive, even inside the repository of somebody else.
pub(crate) fn commit(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    let commit = git(
        root,
        &["show", "--no-patch", "--no-show-signature", "--format=%h %cs", "--abbrev=12", "HEAD"],
    )?;
    let sources = sources(root);
    let mut arguments = vec!["status", "--porcelain", "--"];
    arguments.extend(sources.iter().filter_map(|path| path.to_str()));
    let is_clean = git(root, &arguments)?.is_empty();
    Some(if is_clean { commit } else { format!("{commit}, modified") })
}

/// The files and folders that change when the answer of [`commit`] does.
pub(crate) fn watched(root: &Path) -> Vec<PathBuf> {
    let of_git = |name| git(root, &["rev-parse", "--git-path", name]).map(|path| root.join(path));
    let head = ["HEAD", "logs/HEAD"].into_iter().filter_map(of_git);
    // A path that is not there would count as changed for ever.
    head.filter(|path| path.exists()).chain(sources(root)).collect()
}

/// The files and folders that the command line is built from.
fn sources(root: &Path) -> Vec<PathBuf> {
    const ELSEWHERE: [&str; 3] = ["python", "web", "benches"];
    let own = ["src", "build.rs", "Cargo.toml", "Cargo.lock"].map(|name| root.join(name));
    let entries = fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
    let folders = entries.filter(|entry| !ELSEWHERE.iter().any(|name| entry.file_name() == *name));
    let rooms = folders.map(|entry| entry.path()).filter(|path| path.join("Cargo.toml").is_file());
    let mut sources: Vec<PathBuf> = own.into_iter().chain(rooms).collect();
    sources.sort();
    sources
}

/// The output of `git` in `folder`, trimmed; nothing where git is missing or fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Set by git for its hooks: they would name another repository.
    let command =
        command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
    let output = command.arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}
