//! Connections to all other processes: for each, a thread that reads and one that writes, so that no
//! stage waits for a wire and a process answers whatever its stage is doing.

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
use super::meeting::Met;
use crate::run::board::{Board, Doing};
use crate::run::clock::nanos_since;
use crate::run::failure::Failure;
use crate::run::inbox::{Event, Sequence};
use crate::run::plan::Plan;
use crate::run::raw::RawStage;
use crate::run::replicas::twin;
use crate::run::transfers::Transfers;

/// A message besides values and norms.
#[derive(Debug)]
pub(super) enum Word {
    /// A stage is ready; its values have so many bytes.
    Ready(u64),
    /// All are ready; what rank 0 has to say to all.
    Go(Vec<u8>),
    /// The measurements of a stage.
    Report(RawStage),
    /// All have reported.
    Over,
    /// The activity of a stage, and for how long it has lasted.
    Answer(Option<(Doing, Duration)>),
    /// The run is over before its time.
    Stop(Failure),
}

/// The state that all threads of a process share.
pub(super) struct Office {
    pub(super) plan: Plan,
    pub(super) rank: usize,
    pub(super) board: Arc<Board>,
    pub(super) epoch: Instant,
    /// Bytes of every value, once the worker is made.
    pub(super) value_bytes: OnceLock<ValueBytes>,
    /// Bytes of the gradients of weights that another stage holds too, known from then on as well.
    pub(super) shared_bytes: OnceLock<usize>,
    /// Nothing more is expected but word that the run is over.
    pub(super) is_done: AtomicBool,
}

/// The way out to all other processes.
pub(super) struct Mesh {
    pub(super) words: Receiver<(usize, Word)>,
    /// By rank; none for this process.
    outboxes: Vec<Option<Sender<Vec<u8>>>>,
    connections: Connections,
}

/// Where it is told that the run is over before its time.
#[derive(Clone)]
struct Alarm {
    peer: usize,
    events: Sender<Event<Vec<u8>>>,
    words: Sender<(usize, Word)>,
}

/// Where what one peer sends goes.
struct Desk {
    office: Arc<Office>,
    peer: usize,
    /// What its report holds.
    report: ReportSize,
    sequence: Sequence,
    alarm: Alarm,
    reply: Sender<Vec<u8>>,
    has_reported: bool,
}

impl Mesh {
    /// Begins to read and write. What comes for the stage goes to `events`.
    pub(super) fn open(
        met: Met,
        office: &Arc<Office>,
        events: &Sender<Event<Vec<u8>>>,
    ) -> Result<Self, Failure> {
        let transfers = Transfers::of(office.plan.schedule());
        let (words, heard) = channel();
        let connections = Connections::default();
        let mut mesh = Self { words: heard, outboxes: Vec::new(), connections };
        for (peer, stream) in met.streams.into_iter().enumerate() {
            let Some(stream) = stream else {
                mesh.outboxes.push(None);
                continue;
            };
            let sequence = Sequence::new(&transfers, peer, office.rank);
            let alarm = Alarm { peer, events: events.clone(), words: words.clone() };
            if let Err(error) = mesh.add(stream, office, sequence, alarm) {
                mesh.close();
                return Err(Failure::Thread { stage: office.rank, message: error.to_string() });
            }
        }
        Ok(mesh)
    }

    fn add(
        &mut self,
        stream: TcpStream,
        office: &Arc<Office>,
        sequence: Sequence,
        alarm: Alarm,
    ) -> std::io::Result<()> {
        let [incoming, outgoing] = self.connections.keep(stream)?;
        let (outbox, frames) = channel();
        let (peer, patience) = (alarm.peer, office.plan.patience());
        let report = report_size(&office.plan, peer);
        let desk = Desk {
            office: Arc::clone(office),
            peer,
            report,
            sequence,
            alarm: alarm.clone(),
            reply: outbox.clone(),
            has_reported: false,
        };
        self.outboxes.push(Some(outbox));
        self.connections.spawn(format!("from {peer}"), move || desk.read_all(&incoming))?;
        let lost = move |what| alarm.stop(Failure::Lost { stage: peer, what });
        let write = move || write_all(&outgoing, &frames, patience, lost);
        self.connections.spawn(format!("to {peer}"), write)
    }

    /// Sends a frame to `to`; nothing if that is this process. A writer that is gone has said why.
    pub(super) fn send(&self, to: usize, frame: Vec<u8>) {
        if let Some(Some(outbox)) = self.outboxes.get(to) {
            let _ = outbox.send(frame);
        }
    }

    /// Tells all others why this process stops.
    pub(super) fn tell_all(&self, failure: &Failure) {
        let text: String = failure.to_string().chars().take(MOST_WORDS / 4).collect();
        for to in 0..self.outboxes.len() {
            self.send(to, Head::Stop.frame(text.as_bytes()));
        }
    }

    /// Sends what is left to send, hears the others out, and ends all threads.
    pub(super) fn close(self) {
        self.connections.close(&self.outboxes);
    }
}

/// What the report of `stage` holds.
pub(super) fn report_size(plan: &Plan, stage: usize) -> ReportSize {
    ReportSize {
        steps: plan.steps() as usize,
        slots: plan.slots(stage).len(),
        copies: plan.copies(stage).count(),
        losses: plan.updates_of_step(),
    }
}

impl Alarm {
    fn stop(&self, failure: Failure) {
        let _ = self.words.send((self.peer, Word::Stop(failure.clone())));
        let _ = self.events.send(Event::Stop(Some(failure)));
    }
}

impl Desk {
    /// Reads until the peer closes, or is no longer worth listening to.
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
                self.alarm.stop(failure);
            }
            // What else the peer sends is not looked at, but its end is waited for.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            return;
        }
    }

    /// The failure that it means if the peer has closed: none if it had nothing more to send.
    fn closed(&self, error: &std::io::Error) -> Option<Failure> {
        let is_over = match (self.office.rank, self.peer) {
            (0, _) => self.has_reported,
            (_, 0) => self.has_reported,
            _ => self.office.is_done.load(Ordering::Acquire),
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
            return Err(wrong("it sent something that is no frame".to_owned()));
        };
        let Office { plan, rank, value_bytes, shared_bytes, .. } = &*self.office;
        let is_twin = twin(plan.schedule(), *rank) == Some(self.peer);
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
        let Office { plan, rank, board, epoch, .. } = &*self.office;
        let from = self.peer;
        let nonsense =
            || Failure::OutOfOrder { stage: from, what: format!("its {head:?} makes no sense") };
        let word = match head {
            Head::Value(name) => {
                let at =
                    nanos_since(*epoch, Instant::now()).saturating_add(plan.delay(name.value).0);
                let _ = self.alarm.events.send(Event::Value { from, name, parcel: payload, at });
                return Ok(());
            }
            Head::Norm { step, round } => {
                let norm = unpack_norm(&payload).ok_or_else(nonsense)?;
                let _ = self.alarm.events.send(Event::Norm { from, step, round, norm });
                return Ok(());
            }
            Head::Gradients { step } => {
                let _ = self.alarm.events.send(Event::Gradients { from, step, bytes: payload });
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
            Head::Ready if *rank == 0 => {
                Word::Ready(payload.try_into().map(u64::from_le_bytes).map_err(|_| nonsense())?)
            }
            Head::Report if *rank == 0 && !self.has_reported => {
                self.has_reported = true;
                Word::Report(unpack_report(&payload, self.report).ok_or_else(nonsense)?)
            }
            Head::Over if from == 0 => {
                self.has_reported = true;
                Word::Over
            }
            Head::Go if from == 0 => Word::Go(payload),
            Head::Answer => {
                Word::Answer(unpack_sighting(&payload, plan.schedule().shape().stages()))
            }
            Head::Ready | Head::Report | Head::Over | Head::Go => return Err(nonsense()),
        };
        let _ = self.alarm.words.send((from, word));
        Ok(())
    }
}
