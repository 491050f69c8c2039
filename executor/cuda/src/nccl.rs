//! Transfers of tensors between GPUs of different processes, by NCCL.
#![allow(unsafe_code)] // calls into NCCL

pub(crate) mod exchange;

use std::ffi::{CStr, c_char, c_int};
use std::mem::size_of;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::nccl::sys as nc;

use super::call::failed;
use super::device::Gpu;
use super::nccl_library::{Functions, nccl};
use runtime::DeviceError;

/// Bytes of a communicator's unique id.
pub const UNIQUE_ID_BYTES: usize = 128;

/// A communicator of ranks with one GPU each. Aborted when dropped: drop it only after its
/// transfers are done, unless a call failed.
pub struct Peers {
    nccl: &'static Functions,
    comm: nc::ncclComm_t,
    gpu: Arc<Gpu>,
    rank: usize,
    ranks: usize,
    timeout: Duration,
}

// SAFETY: a communicator may be used on any thread, by one at a time.
unsafe impl Send for Peers {}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peers({} of {}, {:?})", self.rank, self.ranks, self.gpu)
    }
}

/// Polling interval of work that NCCL does in the background.
const POLL: Duration = Duration::from_micros(20);
/// The magic number of a configuration.
const MAGIC: u32 = 0xcafe_beef;
/// Version of the header whose layout the configuration has: 2.28.3.
const HEADER_VERSION: u32 = 22_803;
/// A value left to NCCL.
const UNDEFINED: c_int = c_int::MIN;

/// The error of `call` as text, with NCCL's last message about `comm`.
fn error(call: &'static str, result: nc::ncclResult_t, comm: nc::ncclComm_t) -> DeviceError {
    let words = |text: *const c_char| {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: NCCL's texts end in 0 and live until its next call on this thread.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    let Ok(nccl) = nccl() else { return failed(call, format!("{result:?}")) };
    // SAFETY: `comm` lives, or is null, which is allowed.
    let (what, last) =
        unsafe { (words((nccl.get_error_string)(result)), words((nccl.get_last_error)(comm))) };
    failed(call, [what, last].join(" ").trim())
}

/// Checks that `result` is not a failure: done, or in progress.
fn begun(
    call: &'static str,
    result: nc::ncclResult_t,
    comm: nc::ncclComm_t,
) -> Result<(), DeviceError> {
    match result {
        nc::ncclResult_t::ncclSuccess | nc::ncclResult_t::ncclInProgress => Ok(()),
        other => Err(error(call, other, comm)),
    }
}

/// The version of NCCL: 22809 is 2.28.9.
pub fn version() -> Result<i32, DeviceError> {
    let mut version = 0;
    let nccl = nccl()?;
    // SAFETY: the version is written before it is read.
    begun("ncclGetVersion", unsafe { (nccl.get_version)(&mut version) }, ptr::null_mut())?;
    Ok(version)
}

/// A unique id of a communicator: one rank makes it and sends it to the others by other means.
pub fn unique_id() -> Result<[u8; UNIQUE_ID_BYTES], DeviceError> {
    let nccl = nccl()?;
    let mut id = nc::ncclUniqueId { internal: [0; UNIQUE_ID_BYTES] };
    // SAFETY: there is room for the name.
    begun("ncclGetUniqueId", unsafe { (nccl.get_unique_id)(&mut id) }, ptr::null_mut())?;
    Ok(id.internal.map(|byte| byte.to_ne_bytes()[0]))
}

/// A non-blocking configuration: calls return at once and are polled, so that a lost rank becomes
/// an error instead of a hang.
fn config() -> nc::ncclConfig_t {
    nc::ncclConfig_t {
        size: size_of::<nc::ncclConfig_t>(),
        magic: MAGIC,
        version: HEADER_VERSION,
        blocking: 0,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: UNDEFINED,
        netName: ptr::null(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: ptr::null(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.gpu.bind();
        // SAFETY: made by `join`, and aborted here alone.
        let _ = unsafe { (self.nccl.comm_abort)(self.comm) };
    }
}

impl Peers {
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    #[must_use]
    pub const fn ranks(&self) -> usize {
        self.ranks
    }

    /// Whether the host's side of all calls is done.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        let mut state = nc::ncclResult_t::ncclSuccess;
        // SAFETY: the communicator lives.
        let asked = unsafe { (self.nccl.comm_get_async_error)(self.comm, &mut state) };
        begun("ncclCommGetAsyncError", asked, self.comm)?;
        begun("NCCL, in the background,", state, self.comm)?;
        Ok(state == nc::ncclResult_t::ncclSuccess)
    }

    /// Waits until the host's side of all calls is done: all work is enqueued.
    fn wait(&self, call: &'static str) -> Result<(), DeviceError> {
        let since = Instant::now();
        while !self.is_done()? {
            if since.elapsed() > self.timeout {
                let message = format!("not done after {} s", self.timeout.as_secs());
                return Err(failed(call, message));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits until `is_done` returns true, for work that may include transfers: as long as all
    /// peers are alive, and at most the timeout.
    pub(crate) fn wait_until(
        &self,
        is_done: impl Fn() -> Result<bool, DeviceError>,
    ) -> Result<(), DeviceError> {
        let since = Instant::now();
        while !is_done()? {
            self.is_done()?;
            if since.elapsed() > self.timeout {
                let message = format!("not done after {} s", self.timeout.as_secs());
                return Err(failed("waiting for the GPU", message));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn number(&self, rank: usize) -> Result<c_int, DeviceError> {
        let known = rank < self.ranks && rank != self.rank;
        let number = c_int::try_from(rank).ok().filter(|_| known);
        number.ok_or_else(|| {
            failed("NCCL", format!("rank {} has no peer {rank} of {}", self.rank, self.ranks))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::skipped;
    use super::*;

    /// NCCL returns its version and unique ids without a GPU, where it is installed.
    #[test]
    fn nccl_answers_where_it_is_installed() {
        match version() {
            Ok(version) => {
                assert!(version >= 22_000, "{version}");
                match unique_id() {
                    Ok(id) => assert_ne!(id, [0; UNIQUE_ID_BYTES]),
                    Err(error) => println!("no unique id here: {error}"),
                }
            }
            Err(none @ DeviceError::Missing { .. }) => skipped(&none),
            Err(other) => panic!("{other}"),
        }
    }
}
