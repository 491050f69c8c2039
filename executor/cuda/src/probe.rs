//! Probes the installed parts of CUDA before anything else: the first use of a missing library
//! would end the program.
#![allow(unsafe_code)] // calls into the driver, and loads libraries to see whether they are there

use std::ffi::{CStr, c_char};
use std::sync::Mutex;

use cudarc::{cublaslt::sys as lt, driver::sys as cu, nvrtc::sys as rtc};
use pipeline::Bytes;

use super::call::driver;
use super::libraries::{CUBLASLT, NVRTC, driver_is_for, known};
use runtime::DeviceError;

/// A GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Its number, from 0.
    pub ordinal: usize,
    pub name: String,
    pub memory: Bytes,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Highest clock of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// The driver: its version, where the system reports it, and its CUDA version.
    pub driver: String,
}

/// The version of the kernel module, where it is reported.
fn module() -> Option<String> {
    let text = std::fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(text.trim().to_owned()).filter(|version| !version.is_empty())
}

/// The driver's name with `version`, its CUDA version as the driver encodes it.
fn driver_name(module: Option<String>, version: i32) -> String {
    let cuda = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    module.map_or(cuda.clone(), |module| format!("{module}, {cuda}"))
}

/// The oldest driver that has every function used here: CUDA 12.8.
const OLDEST_DRIVER: i32 = 12_080;

fn missing(what: &str, cure: &str) -> DeviceError {
    DeviceError::Missing { what: what.to_owned(), cure: cure.to_owned() }
}

fn no_gpu(what: &str, cure: &str) -> DeviceError {
    DeviceError::NoGpu { what: what.to_owned(), cure: cure.to_owned() }
}

/// Checks that NVRTC can be loaded.
pub(crate) fn nvrtc() -> Result<(), DeviceError> {
    static FOUND: Mutex<Option<Result<(), DeviceError>>> = Mutex::new(None);
    // SAFETY: loads a library, as its first use would.
    known(&FOUND, &NVRTC, || unsafe { rtc::is_culib_present() })
}

/// Checks that cuBLASLt can be loaded.
pub(crate) fn cublaslt() -> Result<(), DeviceError> {
    static FOUND: Mutex<Option<Result<(), DeviceError>>> = Mutex::new(None);
    // SAFETY: as above.
    known(&FOUND, &CUBLASLT, || unsafe { lt::is_culib_present() })
}

/// Initializes the driver, and checks its version. Returns the number of GPUs and its CUDA version.
fn start_driver() -> Result<(i32, i32), DeviceError> {
    let no_driver = || {
        let cure = "install the NVIDIA driver (in a container: run it with the GPUs passed in)";
        no_gpu("the NVIDIA driver (libcuda)", cure)
    };
    // SAFETY: as above.
    if !unsafe { cu::is_culib_present() } {
        return Err(no_driver());
    }
    let (mut version, mut count) = (0, 0);
    // SAFETY: the library is there; both functions are in every driver.
    let (versioned, begun) = unsafe { (cu::cuDriverGetVersion(&mut version), cu::cuInit(0)) };
    // The stub library of the toolkit, on a machine without the driver.
    if begun == cu::CUresult::CUDA_ERROR_STUB_LIBRARY {
        return Err(no_driver());
    }
    if begun == cu::CUresult::CUDA_ERROR_NO_DEVICE {
        let cure = "nvidia-smi should list one; CUDA_VISIBLE_DEVICES may hide it";
        return Err(no_gpu("a GPU that the driver knows", cure));
    }
    driver("cuDriverGetVersion", versioned)?;
    if version < OLDEST_DRIVER {
        let what = format!(
            "a driver for CUDA {}.{} (there is one for {}.{})",
            OLDEST_DRIVER / 1000,
            OLDEST_DRIVER % 1000 / 10,
            version / 1000,
            version % 1000 / 10
        );
        return Err(missing(&what, "update the NVIDIA driver"));
    }
    driver("cuInit", begun)?;
    driver_is_for(u32::try_from(version / 1000).unwrap_or(0));
    // SAFETY: the driver has begun.
    driver("cuDeviceGetCount", unsafe { cu::cuDeviceGetCount(&mut count) })?;
    Ok((count, version))
}

pub(crate) fn attribute(
    device: cu::CUdevice,
    which: cu::CUdevice_attribute,
) -> Result<i32, DeviceError> {
    let mut value = 0;
    // SAFETY: the driver has begun, or there would be no `device`.
    driver("cuDeviceGetAttribute", unsafe { cu::cuDeviceGetAttribute(&mut value, which, device) })?;
    Ok(value)
}

/// GPU number `ordinal` of the initialized driver.
fn device(ordinal: usize, version: i32) -> Result<(cu::CUdevice, DeviceInfo), DeviceError> {
    use cu::CUdevice_attribute as Of;
    let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
    let (mut device, mut bytes) = (0, 0);
    let mut name = [0 as c_char; 128];
    // SAFETY: the driver has begun; the name fits its buffer, of the size given, with its end.
    let name = unsafe {
        driver("cuDeviceGet", cu::cuDeviceGet(&mut device, number))?;
        driver("cuDeviceTotalMem", cu::cuDeviceTotalMem_v2(&mut bytes, device))?;
        driver("cuDeviceGetName", cu::cuDeviceGetName(name.as_mut_ptr(), 127, device))?;
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    };
    let count = |which| attribute(device, which).map(|n| u32::try_from(n).unwrap_or(0));
    let info = DeviceInfo {
        ordinal,
        name,
        memory: Bytes(bytes as u64),
        multiprocessors: count(Of::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        capability: (
            attribute(device, Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(device, Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        clock_khz: count(Of::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        driver: driver_name(module(), version),
    };
    Ok((device, info))
}

/// The GPUs, in the driver's order.
pub fn devices() -> Result<Vec<DeviceInfo>, DeviceError> {
    let (count, version) = start_driver()?;
    nvrtc()?;
    cublaslt()?;
    (0..usize::try_from(count).unwrap_or(0))
        .map(|ordinal| Ok(device(ordinal, version)?.1))
        .collect()
}

/// GPU number `ordinal`, after checks for all that kernels need.
pub(crate) fn find(ordinal: usize) -> Result<(cu::CUdevice, DeviceInfo), DeviceError> {
    let count = devices()?.len();
    if ordinal >= count {
        let what = format!("GPU {ordinal}");
        return Err(missing(&what, &format!("there are {count}, counted from 0")));
    }
    let (_, version) = start_driver()?;
    device(ordinal, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_named_by_module_and_cuda() {
        assert_eq!(driver_name(Some("575.57.08".to_owned()), 12_090), "575.57.08, CUDA 12.9");
        assert_eq!(driver_name(None, 13_000), "CUDA 13.0");
    }

    #[test]
    fn without_a_gpu_the_answer_names_what_is_missing_and_a_cure() {
        match devices() {
            Ok(found) => assert!(!found.is_empty()),
            Err(DeviceError::NoGpu { what, cure } | DeviceError::Missing { what, cure }) => {
                println!("{what} is missing: {cure}");
                assert!(!what.is_empty() && !cure.is_empty());
            }
            Err(other) => panic!("{other}"),
        }
    }
}
