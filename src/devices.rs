//! Kinds of devices as flags name them, and the missing parts where one cannot be opened.

use std::env;
use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use executor::{Backend, DeviceError, OpenError};
use profile::Element;

use crate::error::Error;

/// A kind of device that schedules are run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunsOn(pub Backend);

impl ValueEnum for RunsOn {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<RunsOn>> = LazyLock::new(|| Backend::ALL.map(RunsOn).to_vec());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(value(self.0, self.0.about().runs))
    }
}

/// A kind of device whose kernels are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timed(pub Backend);

impl ValueEnum for Timed {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Timed>> = LazyLock::new(|| {
            let timed = |kind: &Backend| kind.about().is_timed.is_some();
            Backend::ALL.into_iter().filter(timed).map(Timed).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        self.0.about().is_timed.map(|help| value(self.0, help))
    }
}

fn value(backend: Backend, help: &'static str) -> PossibleValue {
    let about = backend.about();
    PossibleValue::new(about.name).help(help).aliases(about.alias)
}

/// The kinds of devices whose units have numbers, as in `cuda`.
pub fn with_units() -> String {
    let names = Backend::ALL.map(Backend::about).into_iter().filter(|about| about.has_units);
    names.map(|about| about.name).collect::<Vec<_>>().join(" or ")
}

/// Element type of tensors on a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ElementArg {
    /// The upper half of f32; sums and the optimizer's weights stay f32
    Bf16,
    /// IEEE 754 single precision
    F32,
}

impl From<ElementArg> for Element {
    fn from(element: ElementArg) -> Self {
        match element {
            ElementArg::Bf16 => Self::Bf16,
            ElementArg::F32 => Self::F32,
        }
    }
}

/// Starts this program anew, with the same arguments, and the variable that the driver of `backend`
/// reads when it starts, unless it has none or the user has set it. A program cannot soundly change its
/// own environment once it may have threads. Goes on where it cannot be started: what is then amiss is
/// said later.
pub fn begin_with_environment(backend: Backend) {
    let Some((name, wanted)) = backend.about().variable else { return };
    if env::var_os(name).is_some() {
        return;
    }
    start_anew(name, wanted);
}

/// Replaces this process by the same program and arguments, with the variable `name` set. Returns only where
/// it fails.
#[cfg(unix)]
fn start_anew(name: &str, value: &str) {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    let Ok(program) = env::current_exe() else { return };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    let _ = again.args(arguments).env(name, value).exec();
}

/// No process is replaced by another here.
#[cfg(not(unix))]
fn start_anew(_: &str, _: &str) {}

/// `error` of devices of the kind `backend`, with its cure.
pub fn not_opened(backend: Backend, error: &OpenError) -> Error {
    match error {
        OpenError::NotBuilt { cure, .. } => {
            let message = format!("--device {}: {error}", backend.about().name);
            Error::question(message).with_help(*cure)
        }
        OpenError::Device(error) => refused(backend, error),
        OpenError::NoUnit { .. } => Error::question(error.to_string())
            .with_help("they are counted from 0, as nvidia-smi does"),
        OpenError::NoParts => Error::question("--partition must be at least 1"),
        OpenError::Uncut { error, parts } => {
            let message = format!("--partition {parts}: {error}");
            let cure = "give a smaller --partition; stages that share a GPU as a whole have no \
                        times of their own";
            Error::question(message).with_help(cure)
        }
        OpenError::Twice { .. } | OpenError::NothingToTime => Error::question(error.to_string()),
    }
}

/// `error` of a device of the kind `backend`, with its cure.
pub fn refused(backend: Backend, error: &DeviceError) -> Error {
    let name = backend.about().name;
    match error {
        DeviceError::NoGpu { what, cure } => {
            Error::question(format!("--device {name}: no GPU: {what} is missing")).with_help(cure)
        }
        DeviceError::Missing { what, cure } => {
            Error::question(format!("--device {name}: {what} is missing")).with_help(cure)
        }
        other => Error::question(format!("--device {name}: {other}")),
    }
}
