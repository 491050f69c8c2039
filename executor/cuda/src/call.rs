//! Error codes of the libraries, as errors.
#![allow(unsafe_code)] // calls into the libraries for the texts of their errors

use std::ffi::CStr;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::{cublaslt::sys as lt, driver::sys as cu, nvrtc::sys as rtc};

use runtime::DeviceError;

pub(crate) fn failed(call: &'static str, message: impl Into<String>) -> DeviceError {
    DeviceError::Call { call, message: message.into() }
}

/// The error of `call` into the driver, if its result is one.
pub(crate) fn driver(call: &'static str, result: cu::CUresult) -> Result<(), DeviceError> {
    if result == cu::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut text = ptr::null();
    // SAFETY: the driver is loaded, since it has answered; a text lives as long as the process.
    let text = unsafe {
        match cu::cuGetErrorString(result, &mut text) {
            cu::CUresult::CUDA_SUCCESS if !text.is_null() => CStr::from_ptr(text).to_string_lossy(),
            _ => "unknown error".into(),
        }
    };
    Err(failed(call, format!("{result:?}: {text}")))
}

/// The error of `call` into cuBLASLt, if its status is one.
pub(crate) fn blas(call: &'static str, status: lt::cublasStatus_t) -> Result<(), DeviceError> {
    match status {
        lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        other => Err(failed(call, format!("{other:?}"))),
    }
}

/// The error of `call` into NVRTC, if its result is one.
pub(crate) fn nvrtc(call: &'static str, result: rtc::nvrtcResult) -> Result<(), DeviceError> {
    match result {
        rtc::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        other => Err(failed(call, format!("{other:?}"))),
    }
}

/// Locks a mutex whose value is valid even after a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
