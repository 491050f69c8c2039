//! The text of `--version`, and the commit in an optimised build.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cli::{run, stdout};

// The program of the build is not a part of this one.
#[allow(dead_code)]
#[path = "../../build.rs"]
mod build;

#[test]
fn the_version_is_that_of_the_package() {
    let version = stdout(&run("--version"));
    let number = format!("debubble {}", env!("CARGO_PKG_VERSION"));
    assert!(version.trim() == number || version.starts_with(&format!("{number} (")), "{version}");
}

/// Runs git in `folder`.
fn git(folder: &Path, arguments: &[&str]) -> bool {
    let mut git = Command::new("git");
    let somebody = ["-c", "user.name=A B", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
    let git = git.arg("-C").arg(folder).args(somebody).args(arguments);
    git.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_commit_is_told_with_its_day_and_whether_sources_are_modified() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert_eq!(build::commit(root), None);
    if !git(root, &["init", "--quiet"]) {
        println!("skipped: there is no git");
        return;
    }
    for (name, text) in [("src/main.rs", "fn main() {}"), ("README.md", "A program.")] {
        fs::create_dir_all(root.join("src")).unwrap();
        fs::write(root.join(name), text).unwrap();
    }
    assert!(git(root, &["add", "--all"]) && git(root, &["commit", "--quiet", "-m", "All"]));
    let commit = build::commit(root).unwrap();
    let (hash, day) = commit.split_once(' ').unwrap();
    assert!(hash.len() == 12 && hash.bytes().all(|one| one.is_ascii_hexdigit()), "{commit}");
    assert!(day.len() == 10 && day.split('-').count() == 3, "{commit}");
    // What is not built from does not count, what is does.
    fs::write(root.join("README.md"), "The same program.").unwrap();
    assert_eq!(build::commit(root).as_ref(), Some(&commit));
    fs::write(root.join("src/new.rs"), "").unwrap();
    assert_eq!(build::commit(root), Some(format!("{commit}, modified")));
    // Sources in the repository of somebody else are not theirs.
    let inside = root.join("src");
    assert_eq!(build::commit(&inside), None);
    assert!(build::watched(root).iter().any(|path| path.ends_with("logs/HEAD")));
}
