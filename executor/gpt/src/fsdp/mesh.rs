//! Connections to all other devices: a reader and a writer thread for each. The readers serve pulls
//! and accumulate pushed gradients while the device computes.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::failure::Failure;
use super::owner::Owner;
use super::plan::{Communication, Plan};
use super::units::Units;
use super::wire::{HEADER, Head, Kind, MOST_WORDS, gradients, pack_weights};
use runtime::DeviceError;
use runtime::tcp::{Connections, write_all};

/// A message, or the end of a connection.
pub(super) enum Event {
    /// A message for the device.
    Message { from: usize, head: Head, payload: Vec<u8> },
    /// The peer has disconnected or violated the protocol.
    Ended(Failure, usize),
}

/// A pull of parameters before their update.
struct PendingPull {
    peer: usize,
    head: Head,
}

/// The shards that the device owns, and the pulls that wait for their update.
pub(super) struct OwnedShards {
    pub(super) owner: Owner,
    pending: Vec<PendingPull>,
}

/// State shared by the threads of a device.
pub(super) struct Shared {
    pub(super) rank: usize,
    communication: Communication,
    units: Units,
    owned: Mutex<OwnedShards>,
    /// By rank; `None` for this device.
    outboxes: Vec<Option<Sender<Vec<u8>>>>,
    /// Bytes of the report of each device.
    reports: Vec<usize>,
}

/// All connections of a device.
pub(super) struct Mesh {
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: Receiver<Event>,
    connections: Connections,
}

impl Shared {
    /// The shards that the device owns.
    pub(super) fn owned(&self) -> MutexGuard<'_, OwnedShards> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to `to`; a no-op for this device itself. An ended writer has reported why.
    pub(super) fn send(&self, to: usize, frame: Vec<u8>) {
        if let Some(Some(outbox)) = self.outboxes.get(to) {
            let _ = outbox.send(frame);
        }
    }

    /// Updates the owned shards, and answers the pending pulls.
    pub(super) fn update(&self) -> Result<(), DeviceError> {
        let mut owned = self.owned();
        owned.owner.update()?;
        for PendingPull { peer, head } in std::mem::take(&mut owned.pending) {
            self.serve(&owned.owner, peer, head);
        }
        Ok(())
    }

    /// Sends the owned shard of a unit to `peer`.
    fn serve(&self, owner: &Owner, peer: usize, pull: Head) {
        let head = Head { kind: Kind::Shard, ..pull };
        self.send(peer, head.frame(&pack_weights(owner.weights(pull.unit as usize))));
    }

    /// The required payload bytes of a message of `peer`; `None` if it may not send one.
    fn length(&self, head: Head, peer: usize) -> Option<u64> {
        let unit = head.unit as usize;
        let on_demand = self.communication == Communication::OnDemand;
        let is_known = unit < self.units.count();
        let bytes = match head.kind {
            Kind::Ready | Kind::Done => 0,
            Kind::Over => (peer == 0).then_some(0)?,
            Kind::Pull => (is_known && on_demand).then_some(0)?,
            Kind::Shard => is_known.then(|| 4 * self.units.shard(unit, peer).len())?,
            Kind::Push => is_known.then(|| 8 * self.units.shard(unit, self.rank).len())?,
            Kind::Report => (self.rank == 0).then(|| self.reports.get(peer).copied())??,
            Kind::Stop => MOST_WORDS,
        };
        Some(bytes as u64)
    }

    /// Handles a message. Returns an event if it is for the device itself.
    fn handle(&self, from: usize, head: Head, payload: Vec<u8>) -> Result<Option<Event>, Failure> {
        let wrong = |what: String| Failure::OutOfOrder { rank: from, what };
        let mut owned = self.owned();
        let OwnedShards { owner, pending } = &mut *owned;
        match head.kind {
            Kind::Pull if head.minibatch == owner.version => {
                self.serve(owner, from, head);
                return Ok(None);
            }
            Kind::Pull => {
                let is_next = head.minibatch == owner.version.saturating_add(1);
                if !is_next || pending.iter().any(|other| other.peer == from) {
                    return Err(wrong(format!("it pulls for minibatch {}", head.minibatch)));
                }
                pending.push(PendingPull { peer: from, head });
                return Ok(None);
            }
            Kind::Push if head.minibatch == owner.version => {
                owner.add(head.unit as usize, gradients(&payload));
                if self.communication == Communication::OnDemand {
                    return Ok(None);
                }
            }
            Kind::Push => {
                return Err(wrong(format!("it pushes for minibatch {}", head.minibatch)));
            }
            Kind::Stop => {
                let message = String::from_utf8_lossy(&payload);
                let message = message.chars().filter(|c| !c.is_control()).collect();
                return Err(Failure::Elsewhere { rank: from, message });
            }
            _ => {}
        }
        let payload = if head.kind == Kind::Push { Vec::new() } else { payload };
        Ok(Some(Event::Message { from, head, payload }))
    }
}

impl Mesh {
    /// Starts the readers and writers.
    pub(super) fn open(
        streams: Vec<Option<TcpStream>>,
        rank: usize,
        plan: &Plan,
        owner: Owner,
        units: &Units,
        reports: Vec<usize>,
    ) -> Result<Self, Failure> {
        let mut outboxes = Vec::with_capacity(streams.len());
        let mut frames = Vec::new();
        for stream in streams {
            outboxes.push(stream.map(|stream| {
                let (outbox, frame) = channel();
                frames.push((outboxes.len(), stream, frame));
                outbox
            }));
        }
        let owned = Mutex::new(OwnedShards { owner, pending: Vec::new() });
        let units = units.clone();
        let communication = plan.communication;
        let shared = Shared { rank, communication, units, owned, outboxes, reports };
        let (events, inbox) = channel();
        let mut mesh =
            Self { shared: Arc::new(shared), inbox, connections: Connections::default() };
        for (peer, stream, frames) in frames {
            if let Err(error) = mesh.add(peer, stream, frames, &events, plan.timeout) {
                mesh.close();
                return Err(Failure::Thread { rank, message: error.to_string() });
            }
        }
        Ok(mesh)
    }

    fn add(
        &mut self,
        peer: usize,
        stream: TcpStream,
        frames: Receiver<Vec<u8>>,
        events: &Sender<Event>,
        timeout: Duration,
    ) -> std::io::Result<()> {
        let [incoming, outgoing] = self.connections.register(stream)?;
        let (shared, of_reader) = (Arc::clone(&self.shared), events.clone());
        let read = move || read_all(&shared, peer, &incoming, &of_reader);
        self.connections.spawn(format!("from {peer}"), read)?;
        let of_writer = events.clone();
        let lost = move |what| {
            let _ = of_writer.send(Event::Ended(Failure::Lost { rank: peer, what }, peer));
        };
        let write = move || write_all(&outgoing, &frames, timeout, lost);
        self.connections.spawn(format!("to {peer}"), write)
    }

    /// Sends all peers the reason why this device stops.
    pub(super) fn send_stop(&self, failure: &Failure) {
        let words: String = failure.to_string().chars().take(MOST_WORDS / 4).collect();
        for to in 0..self.shared.outboxes.len() {
            self.shared.send(to, Head::of(Kind::Stop, 0).frame(words.as_bytes()));
        }
    }

    /// Sends the remaining frames, waits for the peers to close, and ends all threads.
    pub(super) fn close(self) {
        self.connections.close(&self.shared.outboxes);
    }
}

/// Reads until the peer closes or violates the protocol.
fn read_all(shared: &Shared, peer: usize, mut stream: &TcpStream, events: &Sender<Event>) {
    let _ = stream.set_read_timeout(None);
    let failure = loop {
        match read_one(shared, peer, stream) {
            Ok(None) => {}
            Ok(Some(event)) => {
                let _ = events.send(event);
            }
            Err(failure) => break failure,
        }
    };
    let _ = events.send(Event::Ended(failure, peer));
    // Further bytes of the peer are discarded until it closes.
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

fn read_one(
    shared: &Shared,
    peer: usize,
    mut stream: &TcpStream,
) -> Result<Option<Event>, Failure> {
    let lost = |error: std::io::Error| {
        let what = match error.kind() {
            ErrorKind::UnexpectedEof => "its process has ended".to_owned(),
            _ => format!("its connection broke ({error})"),
        };
        Failure::Lost { rank: peer, what }
    };
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).map_err(lost)?;
    let wrong = |what: String| Failure::OutOfOrder { rank: peer, what };
    let (head, length) = Head::read(&header)
        .ok_or_else(|| wrong("it sent something that is not a message".into()))?;
    let allowed = shared.length(head, peer);
    let fits = allowed.is_some_and(|bytes| match head.kind {
        Kind::Stop => length <= bytes,
        _ => length == bytes,
    });
    if !fits {
        return Err(wrong(format!("it sent {length} bytes for {head:?}")));
    }
    let mut payload = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    stream.read_exact(&mut payload).map_err(lost)?;
    shared.handle(peer, head, payload)
}
