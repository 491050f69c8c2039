//! Joins the communicator with the GPU of a stage, and exchanges tensors over it.
#![allow(unsafe_code)] // calls into NCCL

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::nccl::sys as nc;

use super::{Peers, UNIQUE_ID_BYTES, begun, config};
use crate::call::failed;
use crate::element::Element;
use crate::memory::Buffer;
use crate::nccl_library::nccl;
use crate::stage::Cuda;
use crate::tensor_transfer::TensorTransfer;
use runtime::DeviceError;

/// One side of a transfer, like `torch.distributed.P2POp`.
#[derive(Debug)]
pub enum P2pOp<E> {
    /// To rank `to`.
    Send {
        /// The rank that receives.
        to: usize,
        /// The tensor to send.
        value: TensorTransfer<E>,
    },
    /// From rank `from`.
    Receive {
        /// The rank that sends.
        from: usize,
        /// Number of elements.
        len: usize,
    },
}

impl Peers {
    /// Joins the communicator `id` of `ranks` ranks, as `rank`, with the GPU of `cuda`. Waits for
    /// all ranks at most `timeout`, as do all later calls.
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
}

/// A prepared transfer.
enum Ready<E> {
    Send(c_int, Buffer<E>),
    Receive(c_int, Buffer<E>),
}

impl<E: Element> Cuda<E> {
    /// Enqueues `transfers` as one group on the transfer stream, sends after their tensors' events.
    /// Returns the received tensors in order.
    ///
    /// Groups run in sequence. Two ranks must therefore post the transfers between them in the same
    /// order, and ranks must not wait in a cycle: as when every rank posts in the order of one list
    /// of all transfers, with those of one position in one group.
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
            let event = self.transfer.queue.record_event(&self.gpu, false)?;
            match transfer {
                Ready::Send(_, mut tensor) => tensor.memory.keep_until(event),
                Ready::Receive(_, tensor) => received.push(TensorTransfer { tensor, ready: event }),
            }
        }
        Ok(received)
    }

    fn ready(&self, peers: &Peers, transfer: P2pOp<E>) -> Result<Ready<E>, DeviceError> {
        match transfer {
            P2pOp::Send { to, value: TensorTransfer { tensor, ready } } => {
                if !Arc::ptr_eq(tensor.memory.gpu(), &self.gpu) {
                    return Err(failed("ncclSend", "the value is on another GPU"));
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
