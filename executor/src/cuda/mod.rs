//! [`Ops`](crate::Ops) on NVIDIA GPUs.

mod call;
mod element;
mod kernels;
mod launch;
mod probe;
mod program;
#[cfg(test)]
mod tests;
mod tokens;

pub use element::{Bf16, Element};
pub use probe::{DeviceInfo, devices};
