//! Finds the CUDA libraries: by the dynamic loader, and otherwise in toolkits and in the Python
//! environments that hold them as wheels.
//!
//! A library found there is loaded by its path and stays loaded; a later load by its bare name gets
//! the same one, since the loader knows it by its soname.
#![allow(unsafe_code)] // loads libraries

use std::env;
use std::fs;
use std::io::Read;
use std::mem;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use libloading::Library;

use super::call::lock;
use runtime::DeviceError;

/// A library, by the names of its files and package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Its display name.
    pub(crate) what: &'static str,
    /// Its file name, up to the version.
    pub(crate) file: &'static str,
    /// Accepted versions, the best first.
    pub(crate) versions: &'static [u32],
    /// Whether its version is that of CUDA, and thus at most that of the driver.
    pub(crate) follows_cuda: bool,
    /// Files beside it that it loads by their bare names, up to the version: loaded before it.
    pub(crate) first: Option<&'static str>,
    /// The package to install.
    pub(crate) package: &'static str,
}

pub(crate) const NVRTC: Wanted = Wanted {
    what: "NVRTC (libnvrtc)",
    file: "libnvrtc.so.",
    versions: &[13, 12],
    follows_cuda: true,
    first: Some("libnvrtc-builtins.so."),
    package: "nvidia-cuda-nvrtc",
};

pub(crate) const CUBLASLT: Wanted = Wanted {
    what: "cuBLASLt (libcublasLt)",
    file: "libcublasLt.so.",
    versions: &[13, 12],
    follows_cuda: true,
    first: None,
    package: "nvidia-cublas",
};

#[cfg(feature = "nccl")]
pub(crate) const NCCL: Wanted = Wanted {
    what: "NCCL (libnccl)",
    file: "libnccl.so.",
    versions: &[2],
    follows_cuda: false,
    first: None,
    package: "nvidia-nccl-cu13",
};

/// The loader's message, without the failed call.
pub(crate) fn loader_said(error: &libloading::Error) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The CUDA major version of the driver, once it is known.
static DRIVER: OnceLock<u32> = OnceLock::new();

/// Rejects libraries newer than CUDA `major` from now on.
pub(crate) fn driver_is_for(major: u32) {
    let _ = DRIVER.set(major);
}

/// Candidate files in one place, and the name of the place.
struct Place {
    name: String,
    folders: Vec<PathBuf>,
}

/// The folders in `folder` whose names satisfy `fits`, in the order of their names.
fn subfolders(folder: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let named = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(&fits);
    let entries = entries.filter_map(Result::ok).filter(named);
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// The library folders of NVIDIA's wheels in a folder of packages.
fn of_packages(packages: &Path) -> Vec<PathBuf> {
    let wheels = subfolders(&packages.join("nvidia"), |_| true);
    wheels.into_iter().map(|wheel| wheel.join("lib")).collect()
}

/// The same in all folders of packages of the Python environment at `prefix`.
fn of_environment(prefix: &Path) -> Vec<PathBuf> {
    let pythons = ["lib", "lib64"]
        .map(|lib| subfolders(&prefix.join(lib), |name| name.starts_with("python3")));
    let packages = pythons.into_iter().flatten().map(|python| python.join("site-packages"));
    packages.flat_map(|packages| of_packages(&packages)).collect()
}

fn of_toolkit(root: &Path) -> Vec<PathBuf> {
    ["lib64", "lib", "targets/x86_64-linux/lib"].map(|folder| root.join(folder)).to_vec()
}

/// The longest run of the queried Python.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The package paths of `python3`, as it reports them: its site-packages, those of the user, and
/// additions of the environment. It runs no installed code except what every start of Python runs.
fn python_path() -> Option<Vec<PathBuf>> {
    const ASK: &str = "import sys; print('\\n'.join(path for path in sys.path if path))";
    let mut command = Command::new("python3");
    command.args(["-c", ASK]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut answer = child.stdout.take()?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        answer.read_to_string(&mut text).map(|_| text)
    });
    let since = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if since.elapsed() > TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
    let text = reader.join().ok()?.ok()?;
    Some(text.lines().map(PathBuf::from).filter(|path| path.is_absolute()).collect())
}

/// The places searched after the loader, in order: those named by environment variables before
/// default ones, and slow queries last.
fn places() -> impl Iterator<Item = Place> {
    let variable =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let named = move |name: &str, folders: fn(&Path) -> Vec<PathBuf>| {
        let root = variable(name)?;
        Some(Place { name: format!("{name}={}", root.display()), folders: folders(&root) })
    };
    let conda = |prefix: &Path| {
        let mut folders = of_environment(prefix);
        folders.push(prefix.join("lib"));
        folders
    };
    let by_variables = [
        named("CUDA_HOME", of_toolkit),
        named("CUDA_PATH", of_toolkit),
        named("VIRTUAL_ENV", of_environment),
        named("CONDA_PREFIX", conda),
    ];
    let python = std::iter::once_with(|| {
        let (name, packages) = match python_path() {
            Some(packages) => ("the packages of python3".to_owned(), packages),
            None => ("python3 (which did not answer)".to_owned(), Vec::new()),
        };
        Place { name, folders: packages.iter().flat_map(|one| of_packages(one)).collect() }
    });
    let toolkit = std::iter::once_with(|| {
        let root = Path::new("/usr/local/cuda");
        Place { name: root.display().to_string(), folders: of_toolkit(root) }
    });
    by_variables.into_iter().flatten().chain(python).chain(toolkit)
}

impl Wanted {
    /// The accepted versions on this machine.
    fn versions(&self) -> impl Iterator<Item = u32> + '_ {
        let newest = DRIVER.get().copied().filter(|_| self.follows_cuda).unwrap_or(u32::MAX);
        self.versions.iter().copied().filter(move |version| *version <= newest)
    }

    /// Its files in `folders`, the best version first.
    fn files(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let of = |version: u32| {
            let name = format!("{}{version}", self.file);
            folders.iter().map(move |folder| folder.join(&name)).filter(|file| file.is_file())
        };
        self.versions().flat_map(of).collect()
    }

    /// Loads `file` after its dependencies beside it, permanently.
    fn load(&self, file: &Path) -> Result<Library, String> {
        let open = |file: &Path| {
            // SAFETY: what a library of CUDA does when it is loaded is as safe as its use.
            unsafe { Library::new(file) }.map_err(|error| loader_said(&error))
        };
        let folder = file.parent().unwrap_or(Path::new("/"));
        if let Some(first) = self.first {
            // All files of that name: each is found by its own version, whichever version the
            // library requests.
            let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
            for entry in entries {
                if entry.file_name().to_str().is_some_and(|name| name.starts_with(first)) {
                    mem::forget(open(&entry.path())?);
                }
            }
        }
        open(file)
    }

    /// Searches all places after the loader.
    pub(crate) fn find(&self) -> Result<Library, DeviceError> {
        let mut searched = vec!["LD_LIBRARY_PATH and the folders of the system".to_owned()];
        for place in places() {
            let mut said = place.name;
            for file in self.files(&place.folders) {
                match self.load(&file) {
                    Ok(library) => return Ok(library),
                    Err(why) => said += &format!(" ({why})"),
                }
            }
            searched.push(said);
        }
        let Self { what, package, .. } = self;
        let cure = match DRIVER.get() {
            Some(12) if self.follows_cuda => format!(
                "the driver is for CUDA 12: install the wheel {package}-cu12 into the Python that is \
                 on the PATH, the CUDA 12 toolkit, or a driver for CUDA 13"
            ),
            _ => format!(
                "install the wheel {package} into the Python that is on the PATH, or the CUDA toolkit"
            ),
        };
        let cure = format!("{cure}; searched: {}", searched.join(", "));
        Err(DeviceError::Missing { what: (*what).to_owned(), cure })
    }
}

/// The cached result of a search.
type Found = Option<Result<(), DeviceError>>;

/// Makes `wanted` known to the loader by its bare name, unless `is_known` returns true.
pub(crate) fn known(
    found: &Mutex<Found>,
    wanted: &Wanted,
    is_known: impl Fn() -> bool,
) -> Result<(), DeviceError> {
    let search = || {
        if is_known() {
            return Ok(());
        }
        mem::forget(wanted.find()?);
        match is_known() {
            true => Ok(()),
            false => Err(DeviceError::Call {
                call: "dlopen",
                message: format!("{} is loaded, but is not found by its name", wanted.what),
            }),
        }
    };
    lock(found).get_or_insert_with(search).clone()
}

/// The CUDA files that this process has loaded, where the system reports them.
#[must_use]
pub fn loaded_libraries() -> Vec<PathBuf> {
    const NAMES: [&str; 4] = ["libcuda.so", "libnvrtc.so", "libcublasLt.so", "libnccl.so"];
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files: Vec<PathBuf> = Vec::new();
    for file in maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..]))) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if NAMES.iter().any(|known| name.starts_with(known)) && !files.iter().any(|one| one == file)
        {
            files.push(file.to_owned());
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary folder, removed when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("debubble-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn with(&self, file: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn wheels_of_both_layouts_are_found_and_the_newer_version_first() {
        let folder = Folder::new("wheels");
        let packages = "lib/python3.12/site-packages/nvidia";
        for file in [
            "cuda_nvrtc/lib/libnvrtc.so.12",
            "cu13/lib/libnvrtc.so.13",
            "cu13/lib/libnvrtc.alt.so.13",
        ] {
            folder.with(&format!("{packages}/{file}"));
        }
        let files = NVRTC.files(&of_environment(&folder.0));
        let found = [
            format!("{packages}/cu13/lib/libnvrtc.so.13"),
            format!("{packages}/cuda_nvrtc/lib/libnvrtc.so.12"),
        ];
        assert_eq!(files, found.map(|file| folder.0.join(file)));
        assert!(CUBLASLT.files(&of_environment(&folder.0)).is_empty());
    }

    #[test]
    fn what_is_no_library_is_said_to_be_none() {
        let folder = Folder::new("no-library");
        folder.with("libnvrtc.so.13");
        let error = NVRTC.load(&folder.0.join("libnvrtc.so.13")).err().unwrap();
        assert!(error.contains("libnvrtc.so.13"), "{error}");
    }
}
