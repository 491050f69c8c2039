//! [`Ops`](gpt::Ops) on NVIDIA GPUs: own kernels (`kernels.cu`, compiled by NVRTC at first use) and
//! products by cuBLASLt, for tensors of bf16 or f32.
//!
//! The build needs no CUDA: the driver and the libraries are loaded at first use, from system
//! folders or from the wheels of a Python environment; [`devices`] reports which is missing, the
//! searched places and the remedy.
//!
//! One [`Cuda`] serves one stage. It enqueues all work on a stream of its own, and waits for it
//! only to return numbers to the host, or where the launch queue is deep. A tensor goes to another
//! stage with an event: without a copy on the same GPU, by a peer copy on the transfer stream to
//! another GPU of the process, by NCCL (feature `nccl`) to another process. [`split`] gives every
//! stage of one GPU its own multiprocessors, so that a bubble of one stage leaves its partition
//! idle.
//!
//! Tests: the kernels and the host's arithmetic run on a CPU, every thread of every launch; NVRTC
//! compiles the kernels. The calls into the driver and cuBLASLt run in tests against stand-in
//! libraries, and have not run on a GPU; those into NCCL have been compiled. The tests that need a
//! GPU report that they are skipped where there is none, and fail there if `DEBUBBLE_NEEDS_GPU=1`.
// Running on devices needs clocks, library files, sockets and environment variables.
#![allow(clippy::disallowed_methods)]
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod backend;
mod caching_allocator;
mod call;
mod clock;
mod device;
#[cfg(feature = "nccl")]
mod direct;
mod element;
mod gemm;
mod green_context;
mod host_copies;
mod kernels;
mod launch;
mod launch_queue_depth;
mod layout;
mod libraries;
mod memory;
#[cfg(feature = "nccl")]
mod nccl;
#[cfg(feature = "nccl")]
mod nccl_library;
mod ops;
mod overheads;
mod partition;
mod probe;
mod program;
mod stage;
mod target;
mod tensor_transfer;
#[cfg(test)]
mod tests;
mod timed;
mod tokens;
mod uploads;

pub use backend::{chosen, open};
pub use element::{Bf16, Element};
pub use host_copies::HostCopies;
pub use libraries::loaded_libraries;
pub use memory::Buffer;
#[cfg(feature = "nccl")]
pub use nccl::exchange::P2pOp;
#[cfg(feature = "nccl")]
pub use nccl::{Peers, UNIQUE_ID_BYTES, unique_id, version as nccl_version};
pub use partition::{Parts, Sharing, split};
pub use probe::{DeviceInfo, devices};
pub use stage::{Cuda, Tokens};
pub use target::{links, with_target};
pub use tensor_transfer::TensorTransfer;
pub use timed::open as open_timed;
