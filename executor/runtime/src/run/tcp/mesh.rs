//! Connections to all other processes: a reader and a writer thread for each, so that no stage
//! blocks on a socket and a process answers queries while its stage is busy.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::connections::{Connections, write_all};
use super::frame::{
    HEADER, Head, Lengths, MOST_WORDS, ReportSize, ValueBytes, pack_sighting, unpack_norm,
    unpack_report, unpack_sighting,
};
use super::rendezvous::ProcessGroup;
use crate::run::board::{Board, Doing};
use crate::run::clock::nanos_since;
use crate::run::failure::Failure;
use crate::run::inbox::{Event, Sequence};
use crate::run::plan::Plan;
use crate::run::raw::RawStage;
use crate::run::transfers::Transfers;

/// A control message: neither a value nor a norm.
#[derive(Debug)]
pub(super) enum ControlMessage {
    /// A stage is ready; its values have this many bytes.
    Ready(u64),
    /// All are ready; the payload of rank 0.
    Go(Vec<u8>),
    /// The measurements of a stage.
    Report(RawStage),
    /// All have reported.
    Over,
    /// The activity of a stage and its duration so far.
    Answer(Option<(Doing, Duration)>),
    /// The run ends early.
    Stop(Failure),
}

/// The state that all threads of a process share.
pub(super) struct SharedState {
    pub(super) plan: Plan,
    pub(super) rank: usize,
    pub(super) board: Arc<Board>,
    pub(super) epoch: Instant,
    /// Bytes of every value, set when the worker is built.
    pub(super) value_bytes: OnceLock<ValueBytes>,
    /// Bytes of the gradients of weights that another stage holds too, set at the same time.
    pub(super) shared_bytes: OnceLock<usize>,
    /// Only the end of the run is still to come.
    pub(super) is_done: AtomicBool,
}

/// The connections to all other processes.
pub(super) struct Mesh {
    pub(super) control: Receiver<(usize, ControlMessage)>,
    /// By rank; `None` for this process.
    outboxes: Vec<Option<Sender<Vec<u8>>>>,
    connections: Connections,
}

/// Delivers messages of one peer to the stage and to the process.
#[derive(Clone)]
struct Delivery {
    peer: usize,
    events: Sender<Event<Vec<u8>>>,
    control: Sender<(usize, ControlMessage)>,
}

/// Reads the messages of one peer and delivers them.
struct PeerReader {
    shared: Arc<SharedState>,
    peer: usize,
    report: ReportSize,
    sequence: Sequence,
    delivery: Delivery,
    reply: Sender<Vec<u8>>,
    has_reported: bool,
}

impl Mesh {
    /// Starts the readers and writers. Messages for the stage go to `events`.
    pub(super) fn open(
        group: ProcessGroup,
        shared: &Arc<SharedState>,
        events: &Sender<Event<Vec<u8>>>,
    ) -> Result<Self, Failure> {
        let transfers = Transfers::of(shared.plan.schedule());
        let (control, heard) = channel();
        let connections = Connections::default();
        let mut mesh = Self { control: heard, outboxes: Vec::new(), connections };
        for (peer, stream) in group.streams.into_iter().enumerate() {
            let Some(stream) = stream else {
                mesh.outboxes.push(None);
                continue;
            };
            let sequence = Sequence::new(&transfers, peer, shared.rank);
            let delivery = Delivery { peer, events: events.clone(), control: control.clone() };
            if let Err(error) = mesh.add(stream, shared, sequence, delivery) {
                mesh.close();
                return Err(Failure::Thread { stage: shared.rank, message: error.to_string() });
            }
        }
        Ok(mesh)
    }

    fn add(
        &mut self,
        stream: TcpStream,
        shared: &Arc<SharedState>,
        sequence: Sequence,
        delivery: Delivery,
    ) -> std::io::Result<()> {
        let [incoming, outgoing] = self.connections.register(stream)?;
        let (outbox, frames) = channel();
        let (peer, timeout) = (delivery.peer, shared.plan.timeout());
        let report = report_size(&shared.plan, peer);
        let reader = PeerReader {
            shared: Arc::clone(shared),
            peer,
            report,
            sequence,
            delivery: delivery.clone(),
            reply: outbox.clone(),
            has_reported: false,
        };
        self.outboxes.push(Some(outbox));
        self.connections.spawn(format!("from {peer}"), move || reader.read_all(&incoming))?;
        let lost = move |what| delivery.stop(Failure::Lost { stage: peer, what });
        let write = move || write_all(&outgoing, &frames, timeout, lost);
        self.connections.spawn(format!("to {peer}"), write)
    }

    /// Sends a frame to `to`; a no-op for this process itself. An ended writer has reported why.
    pub(super) fn send(&self, to: usize, frame: Vec<u8>) {
        if let Some(Some(outbox)) = self.outboxes.get(to) {
            let _ = outbox.send(frame);
        }
    }

    /// Sends all peers the reason why this process stops.
    pub(super) fn send_stop(&self, failure: &Failure) {
        let text: String = failure.to_string().chars().take(MOST_WORDS / 4).collect();
        for to in 0..self.outboxes.len() {
            self.send(to, Head::Stop.frame(text.as_bytes()));
        }
    }

    /// Sends the remaining frames, waits for the peers to close, and ends all threads.
    pub(super) fn close(self) {
        self.connections.close(&self.outboxes);
    }
}

/// Size of the report of `stage`.
pub(super) fn report_size(plan: &Plan, stage: usize) -> ReportSize {
    ReportSize {
        steps: plan.steps() as usize,
        slots: plan.slots(stage).len(),
        copies: plan.copies(stage).count(),
        losses: plan.updates_of_step(),
    }
}

impl Delivery {
    fn stop(&self, failure: Failure) {
        let _ = self.control.send((self.peer, ControlMessage::Stop(failure.clone())));
        let _ = self.events.send(Event::Stop(Some(failure)));
    }
}

impl PeerReader {
    /// Reads until the peer closes or violates the protocol.
    fn read_all(mut self, mut stream: &TcpStream) {
        let _ = stream.set_read_timeout(None);
        loop {
            let mut header = [0; HEADER];
            let end = match stream.read_exact(&mut header) {
                Err(error) => self.closed(&error),
                Ok(()) => match self.take_in(&header, stream) {
                    Ok(()) => continue,
                    Err(failure) => Some(failure),
                },
            };
            if let Some(failure) = end {
                self.delivery.stop(failure);
            }
            // Further bytes of the peer are discarded until it closes.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            return;
        }
    }

    /// The failure that a closed connection means: `None` if the peer had nothing more to send.
    fn closed(&self, error: &std::io::Error) -> Option<Failure> {
        let is_over = match (self.shared.rank, self.peer) {
            (0, _) => self.has_reported,
            (_, 0) => self.has_reported,
            _ => self.shared.is_done.load(Ordering::Acquire),
        };
        let what = match error.kind() {
            ErrorKind::UnexpectedEof => "its process has ended".to_owned(),
            _ => format!("its connection broke ({error})"),
        };
        (!is_over).then_some(Failure::Lost { stage: self.peer, what })
    }

    fn take_in(&mut self, header: &[u8; HEADER], mut stream: &TcpStream) -> Result<(), Failure> {
        let lost = |error: std::io::Error| Failure::Lost {
            stage: self.peer,
            what: format!("its connection broke ({error})"),
        };
        let wrong = |what: String| Failure::OutOfOrder { stage: self.peer, what };
        let Some((head, length)) = Head::read(header) else {
            return Err(wrong("it sent something that is not a frame".to_owned()));
        };
        let SharedState { plan, rank, value_bytes, shared_bytes, .. } = &*self.shared;
        let is_twin = plan.twin(*rank) == Some(self.peer);
        let lengths = Lengths {
            values: value_bytes.get().copied(),
            gradients: shared_bytes.get().copied().filter(|_| is_twin),
            report: self.report.bytes(),
        };
        if !head.may_have(length, lengths) {
            return Err(wrong(format!("it sent a frame of {length} bytes for {head:?}")));
        }
        if let Head::Value(name) = head {
            self.sequence.accept(name).map_err(wrong)?;
        }
        let mut payload = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        stream.read_exact(&mut payload).map_err(lost)?;
        self.deliver(head, payload)
    }

    fn deliver(&mut self, head: Head, payload: Vec<u8>) -> Result<(), Failure> {
        let SharedState { plan, rank, board, epoch, .. } = &*self.shared;
        let from = self.peer;
        let nonsense =
            || Failure::OutOfOrder { stage: from, what: format!("its {head:?} makes no sense") };
        let message = match head {
            Head::Value(name) => {
                let at =
                    nanos_since(*epoch, Instant::now()).saturating_add(plan.delay(name.value).0);
                let _ = self.delivery.events.send(Event::Value { from, name, parcel: payload, at });
                return Ok(());
            }
            Head::Norm { step, round } => {
                let norm = unpack_norm(&payload).ok_or_else(nonsense)?;
                let _ = self.delivery.events.send(Event::Norm { from, step, round, norm });
                return Ok(());
            }
            Head::Gradients { step } => {
                let _ = self.delivery.events.send(Event::Gradients { from, step, bytes: payload });
                return Ok(());
            }
            Head::Ask => {
                let (doing, lasted) = board.look(*rank);
                let _ = self.reply.send(Head::Answer.frame(&pack_sighting(doing, lasted)));
                return Ok(());
            }
            Head::Stop => {
                let message = String::from_utf8_lossy(&payload);
                let message = message.chars().filter(|c| !c.is_control()).collect();
                return Err(Failure::Elsewhere { stage: from, message });
            }
            Head::Ready if *rank == 0 => ControlMessage::Ready(
                payload.try_into().map(u64::from_le_bytes).map_err(|_| nonsense())?,
            ),
            Head::Report if *rank == 0 && !self.has_reported => {
                self.has_reported = true;
                ControlMessage::Report(unpack_report(&payload, self.report).ok_or_else(nonsense)?)
            }
            Head::Over if from == 0 => {
                self.has_reported = true;
                ControlMessage::Over
            }
            Head::Go if from == 0 => ControlMessage::Go(payload),
            Head::Answer => {
                ControlMessage::Answer(unpack_sighting(&payload, plan.schedule().shape().stages()))
            }
            Head::Ready | Head::Report | Head::Over | Head::Go => return Err(nonsense()),
        };
        let _ = self.delivery.control.send((from, message));
        Ok(())
    }
}
