//! Times messages between two ends: a queue between threads, TCP over the loopback device. And
//! copies in the memory of the host.
//!
//! An end sends from its own thread; what comes lands in an inbox, as at a stage, so that two ends
//! that send at the same time never wait for each other.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::machine;
use crate::sample::Source;

/// One end of a link.
struct End {
    out: Out,
    inbox: Receiver<Vec<u8>>,
}

enum Out {
    Queue(Sender<Vec<u8>>),
    Tcp(TcpStream),
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the other end of the link is gone")
}

impl End {
    /// Sends `message`; over a wire its buffer comes back.
    fn send(&mut self, message: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        match &mut self.out {
            Out::Queue(queue) => queue.send(message).map(|()| None).map_err(|_| gone()),
            Out::Tcp(stream) => {
                stream.write_all(&(message.len() as u64).to_le_bytes())?;
                stream.write_all(&message)?;
                Ok(Some(message))
            }
        }
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        self.inbox.recv().map_err(|_| gone())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // The reader of the other end, and of this one, find the stream at its end.
        if let Out::Tcp(stream) = &self.out {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// What joins two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joint {
    /// A queue between two threads.
    Queue,
    /// TCP over the loopback device, without Nagle's delay.
    Tcp,
}

impl Joint {
    fn ends(self) -> io::Result<(End, End)> {
        match self {
            Self::Queue => {
                let ((there, inbox), (back, outbox)) = (channel(), channel());
                let near = End { out: Out::Queue(there), inbox: outbox };
                Ok((near, End { out: Out::Queue(back), inbox }))
            }
            Self::Tcp => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                let near = TcpStream::connect(listener.local_addr()?)?;
                let (far, _) = listener.accept()?;
                Ok((over_tcp(near)?, over_tcp(far)?))
            }
        }
    }
}

/// An end whose reader puts messages into its inbox until the stream ends.
fn over_tcp(stream: TcpStream) -> io::Result<End> {
    stream.set_nodelay(true)?;
    let mut reader = stream.try_clone()?;
    let (there, inbox) = channel();
    thread::spawn(move || {
        let mut length = [0; 8];
        while reader.read_exact(&mut length).is_ok() {
            let Ok(length) = usize::try_from(u64::from_le_bytes(length)) else { return };
            let mut message = vec![0; length];
            if reader.read_exact(&mut message).is_err() || there.send(message).is_err() {
                return;
            }
        }
    });
    Ok(End { out: Out::Tcp(stream), inbox })
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Bytes of a message.
    pub bytes: usize,
    /// How many pairs of ends send at the same time; all but the first only keep wires busy.
    pub pairs: usize,
    /// Whether both ends send at the same time, or one and then the other.
    pub both_ways: bool,
}

/// A pair of ends with a thread at the far one.
struct Pair {
    near: Option<End>,
    far: Option<JoinHandle<()>>,
    /// Number of the exchange that both ends may begin, where both send at the same time.
    go: Arc<AtomicU64>,
    message: Option<Vec<u8>>,
    bytes: usize,
    both_ways: bool,
}

/// Tells the far end that there is no further exchange.
const OVER: u64 = u64::MAX;

impl Pair {
    fn new(joint: Joint, traffic: Traffic, core: Option<usize>) -> io::Result<Self> {
        let Traffic { bytes, both_ways, .. } = traffic;
        let (near, far) = joint.ends()?;
        let go = Arc::new(AtomicU64::new(0));
        let gate = Arc::clone(&go);
        let far = thread::spawn(move || {
            core.map(machine::pin);
            // An end that is gone ends the work of the other.
            let _ = if both_ways { exchange(far, bytes, &gate) } else { echo(far) };
        });
        let (near, far, message) = (Some(near), Some(far), Some(vec![1; bytes]));
        Ok(Self { near, far, go, message, bytes, both_ways })
    }

    /// The time of a message one way, in nanoseconds.
    fn time(&mut self) -> io::Result<u64> {
        let near = self.near.as_mut().ok_or_else(gone)?;
        let message = self.message.take().unwrap_or_else(|| vec![1; self.bytes]);
        if self.both_ways {
            self.go.fetch_add(1, Ordering::Release);
        }
        let start = Instant::now();
        let kept = near.send(message)?;
        let received = near.receive()?;
        let trips = if self.both_ways { 1 } else { 2 };
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX) / trips;
        self.message = Some(kept.unwrap_or(received));
        Ok(nanos)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.go.store(OVER, Ordering::Release);
        self.near = None;
        if let Some(far) = self.far.take() {
            let _ = far.join();
        }
    }
}

/// Sends back what comes.
fn echo(mut end: End) -> io::Result<()> {
    loop {
        let message = end.receive()?;
        end.send(message)?;
    }
}

/// Sends a message of its own whenever the other end may send one.
fn exchange(mut end: End, bytes: usize, gate: &AtomicU64) -> io::Result<()> {
    let (mut done, mut message) = (0, Some(vec![2; bytes]));
    loop {
        let told = gate.load(Ordering::Acquire);
        match told {
            OVER => return Ok(()),
            _ if told == done => thread::yield_now(),
            _ => {
                let kept = end.send(message.take().unwrap_or_else(|| vec![2; bytes]))?;
                let received = end.receive()?;
                message = Some(kept.unwrap_or(received));
                done = told;
            }
        }
    }
}

/// Messages over a link: one series.
pub struct Messages {
    measured: Pair,
    stop: Arc<AtomicU64>,
    others: Vec<JoinHandle<()>>,
    began: Instant,
}

impl Messages {
    /// Joins `traffic.pairs` pairs of ends; with `pinned`, far ends sit on the second core and on.
    ///
    /// # Errors
    /// If the system has no more sockets or threads.
    pub fn new(joint: Joint, traffic: Traffic, pinned: bool) -> io::Result<Self> {
        let core = |pair: usize| pinned.then_some(pair + 1);
        let measured = Pair::new(joint, traffic, core(0))?;
        let stop = Arc::new(AtomicU64::new(0));
        let mut all = Self { measured, stop, others: Vec::new(), began: Instant::now() };
        for pair in 1..traffic.pairs {
            let mut other = Pair::new(joint, traffic, core(pair))?;
            let stop = Arc::clone(&all.stop);
            all.others.push(thread::spawn(move || {
                while stop.load(Ordering::Relaxed) == 0 && other.time().is_ok() {}
            }));
        }
        Ok(all)
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.stop.store(1, Ordering::Relaxed);
        for other in self.others.drain(..) {
            let _ = other.join();
        }
    }
}

impl Source for Messages {
    type Error = io::Error;

    fn round(&mut self, series: &mut [Vec<u64>]) -> io::Result<()> {
        series[0].push(self.measured.time()?);
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

/// Copies in the memory of the host: one series.
pub struct Copies {
    from: Vec<u8>,
    to: Vec<u8>,
    began: Instant,
}

impl Copies {
    /// Copies of `bytes`.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { from: vec![1; bytes], to: vec![2; bytes], began: Instant::now() }
    }
}

impl Source for Copies {
    type Error = io::Error;

    fn round(&mut self, series: &mut [Vec<u64>]) -> io::Result<()> {
        let start = Instant::now();
        self.to.copy_from_slice(&self.from);
        std::hint::black_box(&mut self.to);
        series[0].push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(joint: Joint, traffic: Traffic) -> Vec<u64> {
        let mut messages = Messages::new(joint, traffic, false).unwrap();
        let mut series = [Vec::new()];
        (0..20).for_each(|_| messages.round(&mut series).unwrap());
        let [times] = series;
        times
    }

    #[test]
    fn messages_arrive_over_every_link_in_every_traffic() {
        for joint in [Joint::Queue, Joint::Tcp] {
            for (pairs, both_ways) in [(1, false), (1, true), (2, false), (2, true)] {
                // Far more than the buffers of a socket hold: ends that waited for each other would
                // wait for ever.
                for bytes in [8, 8 << 20] {
                    let times = times(joint, Traffic { bytes, pairs, both_ways });
                    assert_eq!(times.len(), 20);
                    assert!(times.iter().all(|&time| time > 0));
                }
            }
        }
    }

    #[test]
    fn bytes_take_time_over_a_wire() {
        let fastest = |bytes| {
            let traffic = Traffic { bytes, pairs: 1, both_ways: false };
            times(Joint::Tcp, traffic).into_iter().min()
        };
        assert!(fastest(16 << 20) > fastest(8));
    }

    #[test]
    fn a_far_end_that_is_gone_is_an_error() {
        let (mut near, far) = Joint::Queue.ends().unwrap();
        drop(far);
        assert!(near.send(vec![0]).is_err() && near.receive().is_err());
        let (near, far) = Joint::Tcp.ends().unwrap();
        drop(far);
        assert!(near.receive().is_err());
    }
}
