//! Files installed beside the command: manual pages and completions, a page for every command.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cli::{debubble, refused, run, stdout};

/// The names of all commands, by the help.
fn commands() -> Vec<String> {
    let help = stdout(&run("--help"));
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let begins = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let words = list.lines().filter(begins).filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = words.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() >= 16, "{names:?}");
    names
}

/// The paths of all files below `folder`, in it.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        match entry.path().is_dir() {
            true => all.extend(files(&entry.path()).iter().map(|below| format!("{name}/{below}"))),
            false => drop(all.insert(name)),
        }
    }
    all
}

fn written(folder: &Path) -> BTreeSet<String> {
    stdout(&debubble([Path::new("man"), Path::new("--out"), folder]));
    files(folder)
}

#[test]
fn every_command_has_a_page_that_is_also_printed() {
    let folder = tempfile::tempdir().unwrap();
    let pages = written(folder.path());
    for name in commands() {
        let file = format!("debubble-{name}.1");
        assert!(pages.contains(&file), "{file}");
        let printed = stdout(&run(&format!("man {name}")));
        assert_eq!(printed, fs::read_to_string(folder.path().join(file)).unwrap());
    }
    assert_eq!(stdout(&run("man")), fs::read_to_string(folder.path().join("debubble.1")).unwrap());
    refused(&run("man nothing"), &["no command `nothing`", "simulate"]);
    refused(&run("man simulate all"), &["no command `all`"]);
}

#[test]
fn pages_are_set_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    for name in written(folder.path()) {
        let path = folder.path().join(&name);
        let mut groff = Command::new("groff");
        let groff =
            groff.args(["-man", "-Tutf8", "-Kutf8", "-ww", "-rLL=100n", "-P-cbou"]).arg(&path);
        let Ok(output) = groff.output() else {
            println!("skipped: there is no groff to set manual pages with");
            return;
        };
        let faults = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && faults.is_empty(), "{name}: {faults}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("SYNOPSIS"), "{name}: {text}");
        // Examples stay in their lines, each in its place.
        if name == "debubble-simulate.1" {
            let example = "           debubble simulate scenarios/paper/table5.toml --json\n";
            assert!(text.contains(example), "{text}");
        }
    }
}

#[test]
fn all_shells_have_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&run(&format!("completions {shell}")));
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
    }
}

#[cfg(unix)]
#[test]
fn what_is_installed_is_uninstalled() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("a prefix");
    let script = |arguments: &[&str]| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/install.sh");
        let output = Command::new("bash").arg(path).args(arguments).arg(&prefix).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    script(&["install", env!("CARGO_BIN_EXE_debubble")]);
    let installed = files(&prefix);
    let expected = [
        "bin/debubble",
        "share/bash-completion/completions/debubble",
        "share/elvish/lib/debubble.elv",
        "share/fish/vendor_completions.d/debubble.fish",
        "share/man/man1/debubble-simulate.1",
        "share/man/man1/debubble.1",
        "share/zsh/site-functions/_debubble",
    ];
    for file in expected {
        assert!(installed.contains(file), "{file}: {installed:?}");
    }
    let version = Command::new(prefix.join("bin/debubble")).arg("--version").output().unwrap();
    assert!(stdout(&version).starts_with("debubble "));
    script(&["uninstall"]);
    assert_eq!(files(&prefix), BTreeSet::new());
}
