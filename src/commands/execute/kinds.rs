//! The choices of a run.

use clap::ValueEnum;
use executor::Transport;

/// How values travel between processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Links {
    /// As bytes, by way of the hosts
    Tcp,
    /// From GPU to GPU by NCCL, a process for each GPU
    Nccl,
}

impl From<Links> for Transport {
    fn from(links: Links) -> Self {
        match links {
            Links::Tcp => Self::Tcp,
            Links::Nccl => Self::Nccl,
        }
    }
}

/// The reference of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Against {
    /// The model in one piece, in f64 on the CPU
    F64,
    /// The model in one piece, on the device and in the elements of the stages
    Device,
}

impl From<Against> for executor::Against {
    fn from(against: Against) -> Self {
        match against {
            Against::F64 => Self::F64,
            Against::Device => Self::Device,
        }
    }
}
