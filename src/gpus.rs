//! GPUs as commands speak of them: what tensors hold, and what is missing where there is none.

use std::env;
use std::process::Command;

use clap::ValueEnum;

use crate::error::Error;

/// What tensors on a GPU hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ElementKind {
    /// The upper half of f32; sums and the optimizer's weights stay f32
    Bf16,
    /// IEEE 754 single precision
    F32,
}

/// The variable that says how many queues the driver has to a GPU. It is read when the driver starts.
pub const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// Starts this program anew, with the same arguments, and a queue to a GPU for each of the streams of
/// 16 stages, unless the user has said how many. A program cannot soundly change its own environment
/// once it may have threads. Goes on where it cannot be started: what is then amiss is said later.
pub fn begin_with_queues() {
    if env::var_os(QUEUES).is_some() {
        return;
    }
    #[cfg(unix)]
    if let Ok(program) = env::current_exe() {
        use std::os::unix::process::CommandExt;
        let mut arguments = env::args_os();
        let mut again = Command::new(program);
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        // Returns only where it fails.
        let _ = again.args(arguments).env(QUEUES, "32").exec();
    }
}

#[cfg(not(feature = "cuda"))]
impl ElementKind {
    /// The error of a program that has no kernels for GPUs.
    pub fn not_built() -> Error {
        let cure =
            "build it with `cargo build --release`, which needs no CUDA; or use --device cpu";
        Error::question("--device cuda: this debubble was built without CUDA").with_help(cure)
    }
}

#[cfg(feature = "cuda")]
pub use found::{available, refused};

#[cfg(feature = "cuda")]
mod found {
    use executor::DeviceError;
    use executor::cuda::{DeviceInfo, devices};

    use super::Error;

    /// `error` with its cure.
    pub fn refused(error: &DeviceError) -> Error {
        match error {
            DeviceError::NoGpu { what, cure } => {
                Error::question(format!("--device cuda: no GPU: {what} is missing")).with_help(cure)
            }
            DeviceError::Missing { what, cure } => {
                Error::question(format!("--device cuda: {what} is missing")).with_help(cure)
            }
            other => Error::question(format!("--device cuda: {other}")),
        }
    }

    /// The GPUs of these numbers, or all.
    ///
    /// # Errors
    /// What is missing, with its cure.
    pub fn available(wanted: &[usize]) -> Result<Vec<DeviceInfo>, Error> {
        let all = devices().map_err(|error| refused(&error))?;
        if wanted.is_empty() {
            return Ok(all);
        }
        let mut chosen: Vec<DeviceInfo> = Vec::new();
        for &ordinal in wanted {
            let found = all.get(ordinal).ok_or_else(|| {
                let message = format!("there is no GPU {ordinal}: there are {}", all.len());
                Error::question(message).with_help("they are counted from 0, as nvidia-smi does")
            })?;
            if chosen.contains(found) {
                return Err(Error::question(format!("GPU {ordinal} is named twice")));
            }
            chosen.push(found.clone());
        }
        Ok(chosen)
    }
}
