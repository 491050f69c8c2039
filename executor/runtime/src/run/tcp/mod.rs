//! A run with one process per stage, over TCP.
//!
//! Processes find and authenticate each other in [`rendezvous`], then exchange [`frame`]s over their
//! [`mesh`] of connections.

mod bytes;
mod connections;
mod direct;
mod frame;
mod link;
mod mesh;
mod ports;
mod rendezvous;
mod stream;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub use bytes::take;
pub use connections::{Connections, write_all};
pub use ports::free_ports;
pub use rendezvous::{
    ProcessGroup, Rendezvous, RendezvousError, RendezvousSettings, init_process_group,
};

use self::direct::DirectLink;
use self::frame::{Head, ValueBytes, pack_report};
use self::link::{TcpLink, ask};
use self::mesh::{ControlMessage, Mesh, SharedState, report_size};
use super::board::{Awaited, Board, Chain, Doing};
use super::boundary::Boundary;
use super::failure::{Failure, Halt};
use super::inbox::{Event, Inbox};
use super::link::Link;
use super::plan::{Plan, PlanError};
use super::raw::{RawStage, measured};
use super::stage::Stage;
use super::threads::message;
use super::transfers::Transfers;
use crate::error::DeviceError;
use crate::measured::Measured;
use crate::worker::{Direct, Trainer, Wire};

/// Runs one stage of `plan` in this process, together with the processes of the other stages.
/// `make` builds its worker, on this thread, after the rendezvous.
///
/// The process of rank 0 returns the measurements of all stages, other processes `None`. Clocks are
/// compared once, at the rendezvous: on machines whose clocks drift, a run of hours is measured
/// less precisely towards its end.
pub fn join<W, F>(
    plan: &Plan,
    rendezvous: &Rendezvous,
    make: F,
) -> Result<Option<Measured>, Failure>
where
    W: Trainer + Wire,
    F: FnOnce(usize) -> Result<W, DeviceError>,
{
    in_process_group(plan, rendezvous, |process, events| process.run(make, events))
}

/// The same with values that go from device to device, in the order of [`Transfers`]. All other
/// messages go over TCP.
pub fn join_directly<W, F>(
    plan: &Plan,
    rendezvous: &Rendezvous,
    make: F,
) -> Result<Option<Measured>, Failure>
where
    W: Trainer + Direct,
    F: FnOnce(usize) -> Result<W, DeviceError>,
{
    if matches!(plan.boundary(), Boundary::PostValidation { .. }) {
        return Err(PlanError::Anew.into());
    }
    if plan.schedule().shape().has_shards() {
        return Err(PlanError::Shards.into());
    }
    in_process_group(plan, rendezvous, |process, events| process.run_directly(make, events))
}

/// Joins the process group, and runs the `work` of this process in it.
fn in_process_group(
    plan: &Plan,
    rendezvous: &Rendezvous,
    work: impl FnOnce(&mut Process<'_>, Receiver<Event<Vec<u8>>>) -> Result<Option<Measured>, Failure>,
) -> Result<Option<Measured>, Failure> {
    let rank = rendezvous.launch.rank;
    let group = init_process_group(&RendezvousSettings::of(plan, &rendezvous.about), rendezvous)?;
    let stages = group.streams.len();
    let shared = Arc::new(SharedState {
        plan: plan.clone(),
        rank,
        board: Arc::new(Board::new(stages)),
        epoch: group.epoch,
        value_bytes: OnceLock::new(),
        shared_bytes: OnceLock::new(),
        is_done: AtomicBool::new(false),
    });
    let (events, inbox) = channel();
    let mesh = Mesh::open(group, &shared, &events)?;
    let mut process = Process { plan, rank, stages, shared, mesh };
    let work = AssertUnwindSafe(|| work(&mut process, inbox));
    let end = catch_unwind(work).unwrap_or_else(|panic| {
        Err(Failure::Panicked { stage: rank, message: message(panic.as_ref()) })
    });
    if let Err(failure) = &end {
        process.mesh.send_stop(failure);
    }
    process.mesh.close();
    end
}

/// This process in the process group.
struct Process<'a> {
    plan: &'a Plan,
    rank: usize,
    stages: usize,
    shared: Arc<SharedState>,
    mesh: Mesh,
}

impl Process<'_> {
    fn run<W, F>(
        &mut self,
        make: F,
        events: Receiver<Event<Vec<u8>>>,
    ) -> Result<Option<Measured>, Failure>
    where
        W: Trainer + Wire,
        F: FnOnce(usize) -> Result<W, DeviceError>,
    {
        let worker = self.device(make(self.rank))?;
        let bytes = self.value_bytes(&worker);
        self.start(bytes.plain as u64, |_| Ok(Vec::new()))?;
        let tcp = TcpLink { shared: &self.shared, mesh: &self.mesh, bytes };
        let raw = self.run_steps(worker, tcp, events)?;
        self.report(raw)
    }

    /// The same, with a communicator of all devices, whose unique id rank 0 makes.
    fn run_directly<W, F>(
        &mut self,
        make: F,
        events: Receiver<Event<Vec<u8>>>,
    ) -> Result<Option<Measured>, Failure>
    where
        W: Trainer + Direct,
        F: FnOnce(usize) -> Result<W, DeviceError>,
    {
        let mut worker = self.device(make(self.rank))?;
        let bytes = self.value_bytes(&worker);
        let name = self.start(bytes.plain as u64, |this| this.device(worker.unique_id()))?;
        if name.is_empty() {
            let what = "it gave no name to join devices by".to_owned();
            return Err(Failure::OutOfOrder { stage: 0, what });
        }
        let timeout = self.plan.timeout();
        self.device(worker.join(&name, self.rank, self.stages, timeout))?;
        let posts = Transfers::of(self.plan.schedule()).of_stage(self.rank).to_vec();
        let tcp = TcpLink { shared: &self.shared, mesh: &self.mesh, bytes };
        let raw = self.run_steps(worker, DirectLink::new(tcp, posts), events)?;
        self.report(raw)
    }

    /// Turns a device error of this process into a failure.
    fn device<T>(&self, result: Result<T, DeviceError>) -> Result<T, Failure> {
        let stage = self.rank;
        result.map_err(|error| Failure::Device { stage, step: None, slot: None, error })
    }

    /// Bytes of every value. Publishes them, and the bytes of shared gradients, to the readers.
    fn value_bytes<W: Wire + Trainer>(&self, worker: &W) -> ValueBytes {
        let bytes = ValueBytes::of_worker(worker);
        let _ = self.shared.shared_bytes.set(worker.shared_bytes());
        let _ = self.shared.value_bytes.set(bytes);
        bytes
    }

    /// Runs all steps of the stage.
    fn run_steps<W: Trainer, L: Link<W, Parcel = Vec<u8>>>(
        &self,
        worker: W,
        link: L,
        events: Receiver<Event<Vec<u8>>>,
    ) -> Result<RawStage, Failure> {
        // The readers check the sequence of values before they allocate memory for them.
        let inbox = Inbox::new(self.plan, self.rank, events, Vec::new());
        let (board, epoch) = (Arc::clone(&self.shared.board), self.shared.epoch);
        let stage = Stage::new(self.plan, self.rank, worker, link, inbox, board, epoch)?;
        stage.run().map_err(|halt| match halt {
            Halt::Failed(failure) => failure,
            Halt::Stopped => {
                Failure::Lost { stage: 0, what: "no process sends any more".to_owned() }
            }
        })
    }

    /// Waits until all stages are ready, and checks that their values have the same size. Returns
    /// the `payload` that rank 0 then sends to all.
    fn start(
        &mut self,
        bytes: u64,
        payload: impl FnOnce(&Self) -> Result<Vec<u8>, Failure>,
    ) -> Result<Vec<u8>, Failure> {
        if self.rank > 0 {
            self.mesh.send(0, Head::Ready.frame(&bytes.to_le_bytes()));
            let messages = self.receive_control(Awaited::Start, &[0], |_, message| {
                matches!(message, ControlMessage::Go(_))
            })?;
            let payload = messages.into_iter().find_map(|(_, message)| match message {
                ControlMessage::Go(payload) => Some(payload),
                _ => None,
            });
            return Ok(payload.unwrap_or_default());
        }
        let peers: Vec<usize> = (1..self.stages).collect();
        let messages = self.receive_control(Awaited::Start, &peers, |_, message| {
            matches!(message, ControlMessage::Ready(_))
        })?;
        for (stage, message) in messages {
            if let ControlMessage::Ready(theirs) = message
                && theirs != bytes
            {
                let what = format!("its values have {theirs} bytes, those of stage 0 {bytes}");
                return Err(Failure::OutOfOrder { stage, what });
            }
        }
        let payload = payload(self)?;
        peers.into_iter().for_each(|peer| self.mesh.send(peer, Head::Go.frame(&payload)));
        Ok(payload)
    }

    /// Rank 0 collects the measurements of all processes; other processes wait until it has.
    fn report(&mut self, raw: RawStage) -> Result<Option<Measured>, Failure> {
        self.shared.is_done.store(true, Ordering::Release);
        if self.rank > 0 {
            let size = report_size(self.plan, self.rank);
            self.mesh.send(0, Head::Report.frame(&pack_report(&raw, size)));
            self.receive_control(Awaited::Report, &[0], |_, message| {
                matches!(message, ControlMessage::Over)
            })?;
            return Ok(None);
        }
        let peers: Vec<usize> = (1..self.stages).collect();
        let messages = self.receive_control(Awaited::Report, &peers, |_, message| {
            matches!(message, ControlMessage::Report(_))
        })?;
        let mut all = vec![RawStage::default(); self.stages];
        all[0] = raw;
        for (peer, message) in messages {
            if let ControlMessage::Report(raw) = message {
                all[peer] = raw;
            }
        }
        peers.into_iter().for_each(|peer| self.mesh.send(peer, Head::Over.frame(&[])));
        Ok(Some(measured(self.plan, &all)))
    }

    /// Waits for one `wanted` control message from each of `peers`.
    fn receive_control(
        &self,
        what: Awaited,
        peers: &[usize],
        wanted: impl Fn(usize, &ControlMessage) -> bool,
    ) -> Result<Vec<(usize, ControlMessage)>, Failure> {
        let mut received: Vec<(usize, ControlMessage)> = Vec::new();
        let timeout = self.plan.timeout();
        let mut since = Instant::now();
        let mut awaited = None;
        while let Some(&from) =
            peers.iter().find(|&&peer| received.iter().all(|(other, _)| *other != peer))
        {
            if awaited.replace(from) != Some(from) {
                since = Instant::now();
                self.shared.board.publish(self.rank, Doing::Waiting { what, from }, since);
            }
            let left = timeout.saturating_sub(since.elapsed());
            match self.mesh.control.recv_timeout(left) {
                Ok((_, ControlMessage::Stop(failure))) => return Err(failure),
                Ok((from, message)) if wanted(from, &message) => received.push((from, message)),
                Ok(_) => {}
                Err(_) => {
                    let ask = |stage| ask(&self.shared, &self.mesh, stage);
                    let chain = Chain::follow(self.rank, ask)?;
                    return Err(Failure::Stuck { timeout, chain });
                }
            }
        }
        Ok(received)
    }
}
