//! Loads NCCL: its wheel has only `libnccl.so.2`, a name that the bindings do not look for.
#![allow(unsafe_code)] // loads a library, and takes functions from it

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclDataType_t, ncclResult_t, ncclUniqueId};
use libloading::Library;

use super::call::failed;
use super::libraries::{NCCL, loader_said};
use runtime::DeviceError;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($arg:ty),*) -> $answer:ty;)*) => {
        /// The NCCL functions in use, as its header declares them.
        pub(crate) struct Functions { $(pub(crate) $field: unsafe extern "C" fn($($arg),*) -> $answer,)* }

        impl Functions {
            /// Loads them from `library`, which must stay loaded.
            fn of(library: &Library) -> Result<Self, DeviceError> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the function has the type that NCCL's header gives it.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) -> $answer>($name)
                        };
                        *found.map_err(|error| failed("dlsym", loader_said(&error)))?
                    },)*
                })
            }
        }
    };
}

functions! {
    get_version = b"ncclGetVersion\0": fn(*mut c_int) -> ncclResult_t;
    get_unique_id = b"ncclGetUniqueId\0": fn(*mut ncclUniqueId) -> ncclResult_t;
    get_error_string = b"ncclGetErrorString\0": fn(ncclResult_t) -> *const c_char;
    get_last_error = b"ncclGetLastError\0": fn(ncclComm_t) -> *const c_char;
    comm_init_rank_config = b"ncclCommInitRankConfig\0":
        fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut ncclConfig_t) -> ncclResult_t;
    comm_get_async_error = b"ncclCommGetAsyncError\0":
        fn(ncclComm_t, *mut ncclResult_t) -> ncclResult_t;
    comm_abort = b"ncclCommAbort\0": fn(ncclComm_t) -> ncclResult_t;
    group_start = b"ncclGroupStart\0": fn() -> ncclResult_t;
    group_end = b"ncclGroupEnd\0": fn() -> ncclResult_t;
    send = b"ncclSend\0":
        fn(*const c_void, usize, ncclDataType_t, c_int, ncclComm_t, *mut c_void) -> ncclResult_t;
    receive = b"ncclRecv\0":
        fn(*mut c_void, usize, ncclDataType_t, c_int, ncclComm_t, *mut c_void) -> ncclResult_t;
}

/// The names that the loader tries first.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

fn load() -> Result<Functions, DeviceError> {
    // SAFETY: what NCCL does when it is loaded is as safe as its use.
    let by_name = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
    let library = match by_name {
        Some(library) => library,
        None => NCCL.find()?,
    };
    let functions = Functions::of(&library)?;
    // Its functions may be called for the life of the process.
    std::mem::forget(library);
    Ok(functions)
}

/// NCCL, loaded once.
pub(crate) fn nccl() -> Result<&'static Functions, DeviceError> {
    static LOADED: OnceLock<Result<Functions, DeviceError>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}
