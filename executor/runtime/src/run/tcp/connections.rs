//! Connections to other processes, each with a thread that reads and one that writes: how these begin,
//! what a writer does, and how all of them end.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the others may take to hear the last words of this process.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The connections of a process.
#[derive(Default)]
pub struct Connections {
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Connections {
    /// Takes `stream` in, to be shut down in the end. Gives it once more for whoever reads, and for
    /// whoever writes.
    ///
    /// # Errors
    /// Whatever the system says of more handles.
    pub fn register(&mut self, stream: TcpStream) -> std::io::Result<[TcpStream; 2]> {
        let both = [stream.try_clone()?, stream.try_clone()?];
        self.streams.push(stream);
        Ok(both)
    }

    /// Does `work` on a thread of its own.
    ///
    /// # Errors
    /// Whatever the system says of more threads.
    pub fn spawn(
        &mut self,
        name: String,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name(name).stack_size(256 << 10);
        self.threads.push(thread.spawn(work)?);
        Ok(())
    }

    /// Has what is left in `outboxes` sent, hears the others out, and ends all threads.
    pub fn close(self, outboxes: &[Option<Sender<Vec<u8>>>]) {
        for outbox in outboxes.iter().flatten() {
            // Nothing behind this is sent: an empty frame ends the writer.
            let _ = outbox.send(Vec::new());
        }
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        // Closing with something unread would take back what was just sent: the readers go on until
        // the others have closed too.
        while Instant::now() < deadline && !self.threads.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(1));
        }
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Writes frames to a peer until an empty one comes. A peer that takes nothing for as long as
/// `timeout` is `lost`, which is told why.
pub fn write_all(
    mut stream: &TcpStream,
    frames: &Receiver<Vec<u8>>,
    timeout: Duration,
    lost: impl FnOnce(String),
) {
    let _ = stream.set_write_timeout(Some(timeout));
    for frame in frames.iter().take_while(|frame| !frame.is_empty()) {
        if let Err(error) = stream.write_all(&frame) {
            // A peer that has closed is told of by the reader, which may know why.
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                lost(format!("it takes nothing more ({error})"));
            }
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}
