//! Tensors between GPUs of different processes, by NCCL.
#![allow(unsafe_code)] // calls into NCCL

use std::ffi::{CStr, c_char, c_int};
use std::mem::size_of;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::nccl::sys as nc;

use super::call::failed;
use super::device::Gpu;
use super::element::Element;
use super::memory::Buffer;
use super::nccl_library::{Functions, nccl};
use super::stage::Cuda;
use super::tensor_transfer::TensorTransfer;
use runtime::DeviceError;

/// Bytes of the name that one rank makes and all ranks join by.
pub const UNIQUE_ID_BYTES: usize = 128;

/// One transfer, as one rank sees it.
#[derive(Debug)]
pub enum P2pOp<E> {
    /// To rank `to`.
    Send {
        /// The rank that receives.
        to: usize,
        /// The buffer that it receives into.
        value: TensorTransfer<E>,
    },
    /// From rank `from`.
    Receive {
        /// The rank that sends.
        from: usize,
        /// Elements of what it sends.
        len: usize,
    },
}

/// The ranks of a job, one GPU each, joined to send each other tensors. Aborted when dropped: drop it
/// only after its transfers are done, unless something failed.
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

/// How long between two looks at work that NCCL does in the background.
const POLL: Duration = Duration::from_micros(20);
/// Marks a configuration as one.
const MAGIC: u32 = 0xcafe_beef;
/// Of the header that the configuration is laid out by: 2.28.3.
const HEADER_VERSION: u32 = 22_803;
/// A value that NCCL chooses.
const UNDEFINED: c_int = c_int::MIN;

/// The error of `call`, in words, with NCCL's last message about `comm`.
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

/// `result` is no failure: done, or going on in the background.
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
///
/// # Errors
/// There is none.
pub fn version() -> Result<i32, DeviceError> {
    let mut version = 0;
    let nccl = nccl()?;
    // SAFETY: the version is written before it is read.
    begun("ncclGetVersion", unsafe { (nccl.get_version)(&mut version) }, ptr::null_mut())?;
    Ok(version)
}

/// A name that ranks can join by: made by one, given to all by other means.
///
/// # Errors
/// NCCL is missing, or finds no network interface.
pub fn unique_id() -> Result<[u8; UNIQUE_ID_BYTES], DeviceError> {
    let nccl = nccl()?;
    let mut id = nc::ncclUniqueId { internal: [0; UNIQUE_ID_BYTES] };
    // SAFETY: there is room for the name.
    begun("ncclGetUniqueId", unsafe { (nccl.get_unique_id)(&mut id) }, ptr::null_mut())?;
    Ok(id.internal.map(|byte| byte.to_ne_bytes()[0]))
}

/// Calls return at once, and what they began is asked after: a rank that is gone is an error after a
/// while rather than a program that hangs.
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
    /// Joins the `ranks` that were given `id`, as number `rank`, with the GPU of `cuda`. Waits for all
    /// of them, at most `timeout`; no later call waits longer for NCCL either.
    ///
    /// # Errors
    /// NCCL is missing, a rank did not come, or two of them have the same GPU.
    pub fn join<E: Element>(
        cuda: &Cuda<E>,
        id: [u8; UNIQUE_ID_BYTES],
        rank: usize,
        ranks: usize,
        timeout: Duration,
    ) -> Result<Self, DeviceError> {
        let nccl = nccl()?;
        let number = |n: usize| {
            c_int::try_from(n).map_err(|_| failed("ncclCommInitRankConfig", format!("rank {n}")))
        };
        if rank >= ranks {
            return Err(failed("ncclCommInitRankConfig", format!("rank {rank} of {ranks}")));
        }
        let id = nc::ncclUniqueId { internal: id.map(|byte| c_char::from_ne_bytes([byte])) };
        let mut config = config();
        let mut comm = ptr::null_mut();
        cuda.gpu.bind()?;
        // SAFETY: the configuration is whole.
        let result = unsafe {
            let (all, this) = (number(ranks)?, number(rank)?);
            (nccl.comm_init_rank_config)(&mut comm, all, id, this, &mut config)
        };
        if comm.is_null() {
            begun("ncclCommInitRankConfig", result, comm)?;
            return Err(failed("ncclCommInitRankConfig", "no communicator"));
        }
        let peers = Self { nccl, comm, gpu: Arc::clone(&cuda.gpu), rank, ranks, timeout };
        begun("ncclCommInitRankConfig", result, comm)?;
        peers.wait("ncclCommInitRankConfig")?;
        Ok(peers)
    }

    /// This rank's number.
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// How many there are.
    #[must_use]
    pub const fn ranks(&self) -> usize {
        self.ranks
    }

    /// Whether what was begun is done on the host's side.
    ///
    /// # Errors
    /// What went wrong since, on this rank or with a peer.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        let mut state = nc::ncclResult_t::ncclSuccess;
        // SAFETY: the communicator lives.
        let asked = unsafe { (self.nccl.comm_get_async_error)(self.comm, &mut state) };
        begun("ncclCommGetAsyncError", asked, self.comm)?;
        begun("NCCL, in the background,", state, self.comm)?;
        Ok(state == nc::ncclResult_t::ncclSuccess)
    }

    /// Waits until what was begun is done on the host's side: all is enqueued.
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

    /// Waits until work that transfers may be part of is done, as `is_done` says: as long as the others
    /// are there, and at most the timeout.
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

/// A transfer made ready.
enum Ready<E> {
    Send(c_int, Buffer<E>),
    Receive(c_int, Buffer<E>),
}

impl<E: Element> Cuda<E> {
    /// Begins `transfers` as one, beside the kernels: sends after what their values wait for. Returns
    /// what is received, in order.
    ///
    /// Groups run one after the other. Two ranks must therefore post the transfers between them in
    /// the same order, and no cycle of ranks may wait for each other: as when every rank posts in
    /// the order of one list of all transfers, with those that cross at the same place in one group.
    ///
    /// # Errors
    /// An error of NCCL, also of earlier groups; no room for what is received.
    pub fn exchange(
        &mut self,
        peers: &Peers,
        transfers: Vec<P2pOp<E>>,
    ) -> Result<Vec<TensorTransfer<E>>, DeviceError> {
        if !Arc::ptr_eq(&peers.gpu, &self.gpu) {
            return Err(failed("ncclGroupStart", "the ranks were joined with another GPU"));
        }
        peers.is_done()?;
        self.gpu.bind()?;
        let ready: Vec<Ready<E>> = transfers
            .into_iter()
            .map(|transfer| self.ready(peers, transfer))
            .collect::<Result<_, _>>()?;
        // SAFETY: needs nothing.
        begun("ncclGroupStart", unsafe { (peers.nccl.group_start)() }, peers.comm)?;
        let posted = ready.iter().try_for_each(|transfer| self.post(peers, transfer));
        // SAFETY: as above. A group begun must end, whatever came between.
        let ended = begun("ncclGroupEnd", unsafe { (peers.nccl.group_end)() }, peers.comm);
        posted.and(ended)?;
        peers.wait("ncclGroupEnd")?;
        let mut received = Vec::new();
        for transfer in ready {
            let mark = self.transfer.queue.mark(&self.gpu, false)?;
            match transfer {
                Ready::Send(_, mut tensor) => tensor.memory.keep_until(mark),
                Ready::Receive(_, tensor) => received.push(TensorTransfer { tensor, ready: mark }),
            }
        }
        Ok(received)
    }

    fn ready(&self, peers: &Peers, transfer: P2pOp<E>) -> Result<Ready<E>, DeviceError> {
        match transfer {
            P2pOp::Send { to, value: TensorTransfer { tensor, ready } } => {
                if !Arc::ptr_eq(tensor.memory.gpu(), &self.gpu) {
                    return Err(failed("ncclSend", "the value lies on another GPU"));
                }
                self.transfer.queue.wait_for(&ready)?;
                Ok(Ready::Send(peers.number(to)?, tensor))
            }
            P2pOp::Receive { from, len } => {
                Ok(Ready::Receive(peers.number(from)?, self.receive_buffer(len)?))
            }
        }
    }

    fn post(&self, peers: &Peers, transfer: &Ready<E>) -> Result<(), DeviceError> {
        let kind = match E::IS_BF16 {
            true => nc::ncclDataType_t::ncclBfloat16,
            false => nc::ncclDataType_t::ncclFloat32,
        };
        let stream = self.transfer.queue.raw.cast();
        // SAFETY: the buffers have these lengths and live until the stream has passed the marks
        // that `exchange` sets behind the group.
        unsafe {
            match transfer {
                Ready::Send(to, tensor) => {
                    let from = tensor.memory.address() as *const _;
                    let result =
                        (peers.nccl.send)(from, tensor.len(), kind, *to, peers.comm, stream);
                    begun("ncclSend", result, peers.comm)
                }
                Ready::Receive(from, tensor) => {
                    let to = tensor.memory.address() as *mut _;
                    let result =
                        (peers.nccl.receive)(to, tensor.len(), kind, *from, peers.comm, stream);
                    begun("ncclRecv", result, peers.comm)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::skipped;
    use super::*;

    /// NCCL says its version and makes names without a GPU, where it is installed.
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
