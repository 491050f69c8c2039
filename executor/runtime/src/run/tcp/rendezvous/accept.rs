//! Concurrent handshakes with callers that are not authenticated yet: a silent caller delays no
//! other.

use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope};
use std::time::Duration;

use super::handshake::{Hello, Refusal};

/// The most concurrent handshakes. One more caller evicts the oldest: a process of the run finishes
/// its handshake in a few round trips, and retries.
pub(super) const MAX_HANDSHAKES: usize = 64;
/// How long to wait for the end of a handshake before accepting more callers.
const POLL: Duration = Duration::from_millis(1);

/// A handshake that has ended, and its caller.
pub(super) struct EndedHandshake {
    /// Its number, in order of arrival.
    number: u64,
    pub(super) address: SocketAddr,
    pub(super) stream: Arc<TcpStream>,
    /// The hello of the caller, or the reason why it is refused.
    pub(super) end: Result<Hello, Refusal>,
}

/// The pending handshakes, each on a thread of its own within `'scope`.
pub(super) struct Acceptor<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    handshake: &'scope (dyn Fn(&TcpStream) -> Result<Hello, Refusal> + Sync),
    /// In order of arrival.
    pending: VecDeque<(u64, Arc<TcpStream>)>,
    next: u64,
    done: Sender<EndedHandshake>,
    ended: Receiver<EndedHandshake>,
}

impl<'scope, 'env> Acceptor<'scope, 'env> {
    /// No pending handshake; callers go through `handshake`.
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        handshake: &'scope (dyn Fn(&TcpStream) -> Result<Hello, Refusal> + Sync),
    ) -> Self {
        let (done, ended) = channel();
        Self { scope, handshake, pending: VecDeque::new(), next: 0, done, ended }
    }

    /// Accepts the callers at `listener`, and waits up to [`POLL`] for the end of a handshake.
    pub(super) fn accept(&mut self, listener: &TcpListener) -> Option<EndedHandshake> {
        // At most as many as can be pending: more would evict all of them before they end.
        for _ in 0..MAX_HANDSHAKES {
            let Ok((stream, address)) = listener.accept() else { break };
            self.start_handshake(stream, address);
        }
        let ended = self.ended.recv_timeout(POLL).ok()?;
        self.pending.retain(|(number, _)| *number != ended.number);
        Some(ended)
    }

    fn start_handshake(&mut self, stream: TcpStream, address: SocketAddr) {
        if self.pending.len() == MAX_HANDSHAKES
            && let Some((_, oldest)) = self.pending.pop_front()
        {
            // Its thread reads the end of the stream, and ends. The stream may be closed already.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let (number, stream, done, handshake) =
            (self.next, Arc::new(stream), self.done.clone(), self.handshake);
        self.next += 1;
        let shared = Arc::clone(&stream);
        let handshake = move || {
            let end = handshake(&shared);
            // The receiver is gone once all ranks have joined.
            let _ = done.send(EndedHandshake { number, address, stream: shared, end });
        };
        // Without a thread the caller is disconnected, and retries.
        if Builder::new().name("greeter".to_owned()).spawn_scoped(self.scope, handshake).is_ok() {
            self.pending.push_back((number, stream));
        }
    }
}

impl Drop for Acceptor<'_, '_> {
    /// Disconnects all pending callers, for whose streams their threads would wait.
    fn drop(&mut self) {
        self.pending.iter().for_each(|(_, stream)| drop(stream.shutdown(Shutdown::Both)));
    }
}
