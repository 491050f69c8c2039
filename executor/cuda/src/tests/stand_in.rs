//! Stand-ins for driver, NVRTC, cuBLASLt and NCCL without a GPU, built by a C++ compiler. Also
//! included by the tests of the command line.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::OnceLock;

/// Folders of the stand-ins.
#[derive(Clone, Debug)]
pub(crate) struct StandIn {
    /// The folder with `libcuda.so.1`.
    pub(crate) driver: PathBuf,
    /// The folder with NVRTC, its own dependency, cuBLASLt and NCCL, under the names of the wheels.
    pub(crate) libraries: PathBuf,
}

/// Library, its source, and additional compiler arguments.
const LIBRARIES: [(&str, &str, &[&str]); 7] = [
    ("driver/libcuda.so.1", "driver.cpp", &[]),
    ("driver/kernels-f32.so", "kernels.cpp", &[]),
    ("driver/kernels-bf16.so", "kernels.cpp", &["-DELEMENT_BF16"]),
    ("libraries/libnvrtc.so.13", "nvrtc.cpp", &[]),
    ("libraries/libnvrtc-builtins.so.13.0", "builtins.cpp", &[]),
    ("libraries/libcublasLt.so.13", "cublaslt.cpp", &[]),
    ("libraries/libnccl.so.2", "nccl.cpp", &[]),
];

/// Sources of the kernels, relative to the tested crate.
fn sources() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = here.join("src");
    if own.join("kernels.cu").is_file() { own } else { here.join("executor/cuda/src") }
}

/// A folder name that is unique to the sources.
fn name(sources: &Path) -> Option<String> {
    let mut hasher = DefaultHasher::new();
    let texts = LIBRARIES.map(|(_, source, _)| format!("tests/stand-in/{source}"));
    for text in texts.iter().map(String::as_str).chain(["tests/threads.h", "kernels.cu"]) {
        fs::read(sources.join(text)).ok()?.hash(&mut hasher);
    }
    Some(format!("stand-in-{:016x}", hasher.finish()))
}

fn compile(sources: &Path, folder: &Path) -> Option<()> {
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let kernels = sources.join("kernels.cu");
    let text = fs::read_to_string(&kernels).ok()?;
    let heads = text.lines().filter_map(|line| line.strip_prefix("KERNEL "));
    let names: Vec<_> = heads.filter_map(|head| head.split('(').next()).collect();
    let names: String = names.iter().map(|name| format!("RUN({name})\n")).collect();
    ["driver", "libraries"]
        .iter()
        .try_for_each(|part| fs::create_dir_all(folder.join(part)))
        .ok()?;
    fs::write(folder.join("names.inc"), names).ok()?;
    for (library, source, more) in LIBRARIES {
        let name = Path::new(library).file_name()?.to_str()?;
        let mut command = Command::new(&compiler);
        command.args(["-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing"]);
        command.args(more).args(["-fvisibility=hidden", "-Wl,-Bsymbolic"]);
        command.arg(format!("-Wl,-soname,{name}"));
        command.arg(format!("-DKERNELS=\"{}\"", kernels.display())).arg("-I").arg(folder);
        command.arg(sources.join("tests/stand-in").join(source)).arg("-o");
        let made = command.arg(folder.join(library)).args(["-ldl", "-lpthread"]).output().ok()?;
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "{compiler}: {said}");
    }
    Some(())
}

fn build() -> Option<StandIn> {
    let sources = sources();
    // In the target folder of this test, so that it is removed with it.
    let folder = env::current_exe().ok()?.with_file_name(name(&sources)?);
    if !folder.is_dir() {
        let fresh = folder.with_extension(id().to_string());
        compile(&sources, &fresh)?;
        // Another test may have been faster: its libraries are the same.
        if fs::rename(&fresh, &folder).is_err() {
            let _ = fs::remove_dir_all(&fresh);
        }
    }
    Some(StandIn { driver: folder.join("driver"), libraries: folder.join("libraries") })
}

/// The stand-ins; `None`, with a message, without a C++ compiler.
pub(crate) fn stand_in() -> Option<StandIn> {
    static BUILT: OnceLock<Option<StandIn>> = OnceLock::new();
    let built = BUILT.get_or_init(build).clone();
    if built.is_none() {
        println!("skipped: no C++ compiler (CXX, or c++)");
    }
    built
}

impl StandIn {
    /// Lets `command` find the driver, and nothing else of CUDA: neither a real driver of this
    /// machine nor its Python.
    pub(crate) fn driver_only<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for name in ["VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH", "DEBUBBLE_NEEDS_GPU"]
        {
            command.env_remove(name);
        }
        command.env("LD_LIBRARY_PATH", &self.driver).env("PATH", "/nowhere")
    }

    /// Puts all but the driver into `prefix` as wheels put them into a Python environment.
    pub(crate) fn install(&self, prefix: &Path) -> std::io::Result<()> {
        for (wheel, names) in [
            (
                "cu13",
                ["libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libcublasLt.so.13"].as_slice(),
            ),
            ("nccl", &["libnccl.so.2"]),
        ] {
            let folder = prefix.join("lib/python3.12/site-packages/nvidia").join(wheel).join("lib");
            fs::create_dir_all(&folder)?;
            for name in names {
                fs::copy(self.libraries.join(name), folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Lets `command` find all of them.
    pub(crate) fn all<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let both = env::join_paths([&self.driver, &self.libraries]).unwrap_or_default();
        self.driver_only(command).env("LD_LIBRARY_PATH", both)
    }
}
