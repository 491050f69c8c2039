//! NVIDIA GPUs as a kind of device, whether the kernels for them are built in or not.

use profile::Element;

use super::About;
use crate::transport::Transport;

/// The variable for the number of hardware queues between the driver and a GPU, read when the
/// driver starts.
pub const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// NVIDIA GPUs.
pub const CUDA: About = About {
    name: "cuda",
    alias: Some("gpu"),
    runs: "A GPT, on GPUs",
    is_timed: Some("An NVIDIA GPU"),
    title: "cuda",
    elements: &[Element::Bf16, Element::F32],
    transports: if cfg!(feature = "nccl") {
        &[Transport::Nccl, Transport::Tcp]
    } else {
        &[Transport::Tcp]
    },
    is_host: false,
    has_units: true,
    // A queue for each of the streams of 16 stages.
    variable: Some((QUEUES, "32")),
};

/// NVIDIA GPUs on which nothing is computed.
pub const CUDA_TIMED: About = About {
    name: "cuda-timed",
    alias: None,
    runs: "Nothing, on GPUs: one thread of a GPU waits for the time of each pass and hop; streams, events and \
           hand-over are those of cuda",
    is_timed: None,
    title: "cuda-timed",
    elements: &[],
    transports: &[Transport::Tcp],
    ..CUDA
};
