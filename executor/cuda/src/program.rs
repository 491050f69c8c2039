//! The compiled kernels of a GPU, once per process for each capability and element type.
#![allow(unsafe_code)] // calls into NVRTC and the driver

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::{Arc, Mutex};

use cudarc::{driver::sys as cu, nvrtc::sys as rtc};

use super::call::{driver, failed, lock, nvrtc};
use super::element::Element;
use super::launch::Kernel;
use super::probe;
use runtime::DeviceError;

/// The source of the kernels.
pub(crate) const SOURCE: &str = include_str!("kernels.cu");

/// Major and minor compute capability of a GPU.
pub(crate) type Capability = (i32, i32);

/// Compiled code, with the capability and options that it was compiled for.
type Compiled = ((Capability, &'static str), Arc<[u8]>);

/// The kernels for elements `E` as machine code of GPUs of `capability`.
pub(crate) fn compiled<E: Element>(capability: Capability) -> Result<Arc<[u8]>, DeviceError> {
    static DONE: Mutex<Vec<Compiled>> = Mutex::new(Vec::new());
    let key = (capability, E::NAME);
    let mut done = lock(&DONE);
    if let Some((_, code)) = done.iter().find(|(known, _)| *known == key) {
        return Ok(Arc::clone(code));
    }
    let code: Arc<[u8]> = compile(capability, E::IS_BF16)?.into();
    done.push((key, Arc::clone(&code)));
    Ok(code)
}

/// A program of NVRTC, destroyed with this.
struct Source(rtc::nvrtcProgram);

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: created by nvrtcCreateProgram and destroyed here alone.
        let _ = unsafe { rtc::nvrtcDestroyProgram(&mut self.0) };
    }
}

impl Source {
    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program lives; the buffer has the size that was asked for.
        unsafe {
            if nvrtc("nvrtcGetProgramLogSize", rtc::nvrtcGetProgramLogSize(self.0, &mut size))
                .is_err()
            {
                return String::new();
            }
            let mut text = vec![0u8; size];
            let got = rtc::nvrtcGetProgramLog(self.0, text.as_mut_ptr().cast::<c_char>());
            if nvrtc("nvrtcGetProgramLog", got).is_err() {
                return String::new();
            }
            String::from_utf8_lossy(&text).trim_end_matches('\0').trim().to_owned()
        }
    }
}

/// Compiles to a cubin, not to PTX: a driver older than NVRTC cannot load its PTX.
fn compile((major, minor): Capability, is_bf16: bool) -> Result<Vec<u8>, DeviceError> {
    probe::nvrtc()?;
    let text = CString::new(SOURCE).map_err(|_| failed("nvrtcCreateProgram", "0 in the source"))?;
    let architecture = CString::new(format!("--gpu-architecture=sm_{major}{minor}"))
        .map_err(|_| failed("nvrtcCompileProgram", "0 in an option"))?;
    // Line numbers, for compute-sanitizer, cost nothing at run time.
    let mut options = vec![architecture.as_c_str(), c"--std=c++17", c"--generate-line-info"];
    if is_bf16 {
        options.push(c"-DELEMENT_BF16");
    }
    let options: Vec<*const c_char> = options.into_iter().map(CStr::as_ptr).collect();
    let count = i32::try_from(options.len()).unwrap_or(0);
    // SAFETY: NVRTC is there; texts and options outlive the calls; the buffer has the size asked for.
    unsafe {
        let mut raw = ptr::null_mut();
        let name = c"kernels.cu".as_ptr();
        let (none, no_names) = (ptr::null(), ptr::null());
        let made = rtc::nvrtcCreateProgram(&mut raw, text.as_ptr(), name, 0, none, no_names);
        nvrtc("nvrtcCreateProgram", made)?;
        let source = Source(raw);
        nvrtc("nvrtcCompileProgram", rtc::nvrtcCompileProgram(raw, count, options.as_ptr()))
            .map_err(|_| failed("nvrtcCompileProgram", source.log()))?;
        let mut size = 0;
        nvrtc("nvrtcGetCUBINSize", rtc::nvrtcGetCUBINSize(raw, &mut size))?;
        let mut code = vec![0u8; size];
        nvrtc("nvrtcGetCUBIN", rtc::nvrtcGetCUBIN(raw, code.as_mut_ptr().cast::<c_char>()))?;
        Ok(code)
    }
}

/// The kernels loaded into the driver. They belong to no context: a launch takes the context of its
/// stream, so that they serve every GPU and partition.
pub(crate) struct Program {
    library: cu::CUlibrary,
    /// By the number of the kernel.
    functions: Vec<cu::CUfunction>,
}

// SAFETY: handles of the driver may be used on any thread.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: loaded by `load`; a launcher keeps the program and waits before it drops it.
        let _ = unsafe { cu::cuLibraryUnload(self.library) };
    }
}

impl Program {
    /// Loads a cubin, with a context current.
    pub(crate) fn load(code: &[u8]) -> Result<Self, DeviceError> {
        let mut library = ptr::null_mut();
        // SAFETY: `code` is a whole image; without options their arrays are not read.
        driver("cuLibraryLoadData", unsafe {
            cu::cuLibraryLoadData(
                &mut library,
                code.as_ptr().cast(),
                ptr::null_mut(),
                ptr::null_mut(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        })?;
        let mut program = Self { library, functions: Vec::new() };
        for kernel in Kernel::ALL {
            let name = CString::new(kernel.name()).map_err(|_| failed("cuLibraryGetKernel", ""))?;
            let mut handle = ptr::null_mut();
            // SAFETY: the library is loaded.
            driver("cuLibraryGetKernel", unsafe {
                cu::cuLibraryGetKernel(&mut handle, library, name.as_ptr())
            })?;
            // cuLaunchKernel takes a CUkernel in place of a CUfunction, by a cast.
            program.functions.push(handle.cast());
        }
        Ok(program)
    }

    /// The function to launch for `kernel`.
    pub(crate) fn function(&self, kernel: Kernel) -> cu::CUfunction {
        self.functions[kernel as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::element::Bf16;
    use super::super::tests::skipped;
    use super::*;

    /// NVRTC needs no GPU: where it is found, the kernels must compile without a warning.
    #[test]
    fn kernels_compile_where_nvrtc_is() {
        for capability in [(8, 0), (9, 0), (10, 0)] {
            for code in [compiled::<Bf16>(capability), compiled::<f32>(capability)] {
                match code {
                    Ok(code) => assert_eq!(code[..4], *b"\x7fELF"),
                    Err(none @ DeviceError::Missing { .. }) => skipped(&none),
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}
