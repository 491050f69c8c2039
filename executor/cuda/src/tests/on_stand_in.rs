//! The GPU tests on stand-in libraries: the calls are checked without a GPU.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, id};

use super::stand_in::{StandIn, stand_in};

/// Runs the tests of this program whose names match `filters`, in an environment that `set`
/// prepares.
fn run(filters: &[&str], set: impl FnOnce(&mut Command)) -> (bool, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(filters).args(["--nocapture", "--skip", "on_stand_in", "--skip", "emulator"]);
    set(&mut command);
    let output = command.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), said.concat())
}

#[test]
fn all_that_needs_a_gpu_runs_on_stand_ins() {
    let Some(libraries) = stand_in() else { return };
    let filters = ["tests::", "program::", "nccl::"];
    let (passed, said) = run(&filters, |command| {
        libraries.all(command).env("DEBUBBLE_NEEDS_GPU", "1");
    });
    assert!(passed, "{said}");
    assert!(said.contains("loaded: ") && !said.contains("skipped: there is no GPU"), "{said}");
}

/// A temporary folder, removed when dropped.
struct Environment(PathBuf);

impl Environment {
    /// A Python environment with stand-ins for NVIDIA's wheels.
    fn new(libraries: &StandIn, name: &str) -> Self {
        let prefix = env::temp_dir().join(format!("debubble-{name}-{}", id()));
        libraries.install(&prefix).unwrap();
        Self(prefix)
    }

    /// A folder with a `python3` whose packages are those of this environment.
    fn python(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let folder = self.0.join("bin");
        let packages = self.0.join("lib/python3.12/site-packages");
        let script = format!("#!/bin/sh\necho /nowhere\necho '{}'\n", packages.display());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("python3"), script).unwrap();
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.join("python3"), all).unwrap();
        folder
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The tests that find NVRTC, its own dependency, cuBLASLt and NCCL.
const FINDS: [&str; 3] = ["tests::gpu::libraries", "program::", "nccl::"];

#[test]
fn libraries_are_found_in_the_wheels_of_an_environment() {
    let Some(libraries) = stand_in() else { return };
    let environment = Environment::new(&libraries, "environment");
    let prefix = environment.0.as_path();
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let (passed, said) = run(&FINDS, |command| {
            libraries.driver_only(command).env(variable, prefix).env("DEBUBBLE_NEEDS_GPU", "1");
        });
        assert!(passed && said.contains("3 passed"), "{variable}: {said}");
        assert!(said.contains(&format!("loaded: {}", prefix.display())), "{said}");
    }
    let python = environment.python();
    let (passed, said) = run(&FINDS, |command| {
        libraries.driver_only(command).env("PATH", &python).env("DEBUBBLE_NEEDS_GPU", "1");
    });
    assert!(passed && said.contains(&format!("loaded: {}", prefix.display())), "{said}");
}

#[test]
fn a_driver_without_libraries_fails_and_says_where_was_searched() {
    let Some(libraries) = stand_in() else { return };
    let (passed, said) = run(&["tests::gpu::libraries"], |command| {
        libraries.driver_only(command).env("VIRTUAL_ENV", "/nowhere");
    });
    assert!(!passed, "a library that is missing is not a reason to skip: {said}");
    for part in
        ["NVRTC (libnvrtc) is missing", "LD_LIBRARY_PATH", "VIRTUAL_ENV=/nowhere", "python3"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn an_older_driver_takes_no_newer_libraries() {
    let Some(libraries) = stand_in() else { return };
    let environment = Environment::new(&libraries, "older");
    let (passed, said) = run(&["tests::gpu::libraries"], |command| {
        libraries.driver_only(command).env("VIRTUAL_ENV", &environment.0);
        command.env("STAND_IN_VERSION", "12080");
    });
    assert!(!passed && said.contains("nvidia-cuda-nvrtc-cu12"), "{said}");
}

#[test]
fn without_a_gpu_tests_are_skipped_unless_one_is_demanded() {
    let Some(libraries) = stand_in() else { return };
    for (demanded, passes) in [("0", true), ("1", false)] {
        let (passed, said) = run(&["tests::gpu::libraries"], |command| {
            libraries.all(command).env("DEBUBBLE_NEEDS_GPU", demanded).env("STAND_IN_GPUS", "0");
        });
        assert_eq!(passed, passes, "{said}");
        assert!(said.contains("there is no GPU: "), "{said}");
    }
}
