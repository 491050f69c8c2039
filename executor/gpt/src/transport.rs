//! How values travel between processes.

/// How values travel between processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// As bytes over TCP between the hosts.
    Tcp,
    /// From GPU to GPU by NCCL, one process for each GPU.
    Nccl,
}
