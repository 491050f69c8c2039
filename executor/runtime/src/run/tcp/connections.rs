//! Connections to other processes, each with a reader and a writer thread: start, write loop and
//! shutdown.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long peers may take to receive the last frames of this process.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The connections of a process.
#[derive(Default)]
pub struct Connections {
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Connections {
    /// Registers `stream` for shutdown. Returns a handle for its reader and one for its writer.
    pub fn register(&mut self, stream: TcpStream) -> std::io::Result<[TcpStream; 2]> {
        let both = [stream.try_clone()?, stream.try_clone()?];
        self.streams.push(stream);
        Ok(both)
    }

    /// Runs `work` on a thread of its own.
    pub fn spawn(
        &mut self,
        name: String,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name(name).stack_size(256 << 10);
        self.threads.push(thread.spawn(work)?);
        Ok(())
    }

    /// Sends the remaining frames of `outboxes`, waits for the peers to close, and ends all
    /// threads.
    pub fn close(self, outboxes: &[Option<Sender<Vec<u8>>>]) {
        for outbox in outboxes.iter().flatten() {
            // No frame follows: an empty frame ends the writer.
            let _ = outbox.send(Vec::new());
        }
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        // A close with unread bytes would reset the connection and lose the last frames: the
        // readers go on until the peers have closed too.
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

/// Writes frames to a peer until an empty frame comes. Calls `lost` with the reason if the peer
/// accepts no bytes for `timeout`.
pub fn write_all(
    mut stream: &TcpStream,
    frames: &Receiver<Vec<u8>>,
    timeout: Duration,
    lost: impl FnOnce(String),
) {
    let _ = stream.set_write_timeout(Some(timeout));
    for frame in frames.iter().take_while(|frame| !frame.is_empty()) {
        if let Err(error) = stream.write_all(&frame) {
            // The reader reports a closed peer, whose last frame may say why.
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                lost(format!("it takes nothing more ({error})"));
            }
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}
