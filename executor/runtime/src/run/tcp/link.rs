//! The TCP link of a stage.

use std::time::{Duration, Instant};

use super::frame::{Head, ValueBytes, pack_norm};
use super::mesh::{ControlMessage, Mesh, SharedState};
use crate::error::DeviceError;
use crate::run::board::Doing;
use crate::run::boundary::Round;
use crate::run::failure::{Failure, Halt};
use crate::run::inbox::Name;
use crate::run::link::Link;
use crate::worker::{Norm, Wire};

/// How long a process may take to answer a query for the activity of its stage.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The TCP link of the stage of this process.
pub(super) struct TcpLink<'a> {
    pub(super) shared: &'a SharedState,
    pub(super) mesh: &'a Mesh,
    pub(super) bytes: ValueBytes,
}

impl<W: Wire> Link<W> for TcpLink<'_> {
    type Parcel = Vec<u8>;

    fn send(
        &mut self,
        worker: &mut W,
        to: usize,
        name: Name,
        value: W::Value,
        _: u64,
    ) -> Result<(), DeviceError> {
        let bytes = worker.pack(value)?;
        let right = self.bytes.of(name.value);
        if bytes.len() != right {
            let message = format!("{} bytes of a value instead of {right}", bytes.len());
            return Err(DeviceError::Call { call: "pack", message });
        }
        self.mesh.send(to, Head::Value(name).frame(&bytes));
        Ok(())
    }

    fn open(&mut self, worker: &mut W, parcel: Vec<u8>) -> Result<W::Value, DeviceError> {
        worker.unpack(&parcel)
    }

    fn send_norm(&mut self, to: usize, step: u32, round: Round, norm: Norm) -> Result<(), Halt> {
        self.mesh.send(to, Head::Norm { step, round }.frame(&pack_norm(norm)));
        Ok(())
    }

    fn send_gradients(&mut self, to: usize, step: u32, gradients: Vec<u8>) -> Result<(), Halt> {
        self.mesh.send(to, Head::Gradients { step }.frame(&gradients));
        Ok(())
    }

    fn query(&mut self, stage: usize) -> Result<Option<(Doing, Duration)>, Failure> {
        ask(self.shared, self.mesh, stage)
    }
}

/// Queries the activity of `stage`.
pub(super) fn ask(
    shared: &SharedState,
    mesh: &Mesh,
    stage: usize,
) -> Result<Option<(Doing, Duration)>, Failure> {
    if stage == shared.rank {
        return Ok(Some(shared.board.look(stage)));
    }
    mesh.send(stage, Head::Ask.frame(&[]));
    let deadline = Instant::now() + ANSWER_TIMEOUT.min(shared.plan.timeout());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match mesh.control.recv_timeout(left) {
            Ok((from, ControlMessage::Answer(answer))) if from == stage => return Ok(answer),
            // It timed out a moment earlier, and knows the cause.
            Ok((_, ControlMessage::Stop(failure))) => return Err(failure),
            Ok(_) => {}
            Err(_) => return Ok(None),
        }
    }
}
