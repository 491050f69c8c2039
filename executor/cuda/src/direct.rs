//! Transfers between processes by NCCL.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::call::failed;
use super::element::Element;
use super::nccl::exchange::P2pOp;
use super::nccl::{Peers, UNIQUE_ID_BYTES, unique_id};
use super::stage::Cuda;
use super::tensor_transfer::TensorTransfer;
use gpt::DirectOps;
use runtime::DeviceError;

impl<E: Element> DirectOps for Cuda<E> {
    fn unique_id(&mut self) -> Result<Vec<u8>, DeviceError> {
        Ok(unique_id()?.to_vec())
    }

    fn join(
        &mut self,
        name: &[u8],
        rank: usize,
        ranks: usize,
        timeout: Duration,
    ) -> Result<(), DeviceError> {
        let id = <[u8; UNIQUE_ID_BYTES]>::try_from(name)
            .map_err(|_| failed("ncclCommInitRankConfig", "the name has another length"))?;
        self.peers = Some(Peers::join(self, id, rank, ranks, timeout)?);
        Ok(())
    }

    fn exchange(
        &mut self,
        sends: Vec<(usize, TensorTransfer<E>)>,
        from: &[usize],
        len: usize,
    ) -> Result<Vec<TensorTransfer<E>>, DeviceError> {
        let Some(peers) = self.peers.take() else {
            return Err(failed("ncclGroupStart", "the processes are not joined"));
        };
        let sends = sends.into_iter().map(|(to, value)| P2pOp::Send { to, value });
        let receives = from.iter().map(|&from| P2pOp::Receive { from, len });
        let came = self.exchange(&peers, sends.chain(receives).collect());
        self.peers = Some(peers);
        came
    }
}
