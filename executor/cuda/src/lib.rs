//! [`Ops`](gpt::Ops) on NVIDIA GPUs: kernels of its own (`kernels.cu`, compiled by NVRTC when they
//! are first used) and products by cuBLASLt, for tensors of bf16 or f32.
//!
//! Nothing of CUDA is needed to build this: the driver and the libraries are loaded when they are
//! used, from the folders of the system or from the wheels of a Python environment, and [`devices`]
//! says which is missing, where was searched and what to do.
//!
//! One [`Cuda`] serves one stage. It enqueues all it does on a stream of its own and waits for it only
//! to return numbers to the host, or where the host has begun several passes that are not done. A tensor goes to another stage with an event: on the same
//! GPU as it is, on another GPU of the process by a copy beside the kernels, to another process by
//! NCCL (feature `nccl`). [`split`] gives every stage of one GPU multiprocessors of its own, so that
//! a bubble of one stage leaves its part of the GPU idle.
//!
//! How far this is tested: the kernels and the host's arithmetic by tests on a processor, every
//! thread of every launch; that the kernels compile, by NVRTC. The calls into the driver and
//! cuBLASLt run in tests against libraries that stand in for them, and have not run on a GPU; those
//! into NCCL have been compiled. The tests that need a GPU say that they are skipped where there is
//! none, and fail there if `DEBUBBLE_NEEDS_GPU=1`.
// Running on devices takes clocks, files of libraries, sockets and the environment.
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

pub use backend::chosen;
pub use backend::open;
pub use element::{Bf16, Element};
pub use host_copies::HostCopies;
pub use libraries::loaded_libraries;
pub use memory::Buffer;
#[cfg(feature = "nccl")]
pub use nccl::{P2pOp, Peers, UNIQUE_ID_BYTES, unique_id, version as nccl_version};
pub use partition::{Parts, Sharing, split};
pub use probe::{DeviceInfo, devices};
pub use stage::{Cuda, Tokens};
pub use target::{links, with_target};
pub use tensor_transfer::TensorTransfer;
pub use timed::open as open_timed;
