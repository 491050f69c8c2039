//! Callers who have not said yet who they are, accepted side by side: whoever says nothing keeps
//! nobody waiting.

use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope};
use std::time::Duration;

use super::handshake::{Hello, Refusal};

/// The most callers that are accepted at the same time. When one more calls, the one who has been
/// here longest has to go: who belongs to the run is through in some round trips, and calls again.
pub(super) const MAX_HANDSHAKES: usize = 64;
/// How long to wait for a caller to be accepted before it is asked who else has called.
const POLL: Duration = Duration::from_millis(1);

/// Somebody who has been accepted.
pub(super) struct Accepted {
    /// The number it was given at the door.
    number: u64,
    pub(super) address: SocketAddr,
    pub(super) stream: Arc<TcpStream>,
    /// The introduction of the caller, or the reason why it is not let in.
    pub(super) end: Result<Hello, Refusal>,
}

/// All who are being accepted, each on a thread of its own within `'scope`.
pub(super) struct Acceptor<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    handshake: &'scope (dyn Fn(&TcpStream) -> Result<Hello, Refusal> + Sync),
    /// By number, which is by when they came.
    pending: VecDeque<(u64, Arc<TcpStream>)>,
    next: u64,
    done: Sender<Accepted>,
    accepted: Receiver<Accepted>,
}

impl<'scope, 'env> Acceptor<'scope, 'env> {
    /// Nobody is there yet; all who come are accepted by `handshake`.
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        handshake: &'scope (dyn Fn(&TcpStream) -> Result<Hello, Refusal> + Sync),
    ) -> Self {
        let (done, accepted) = channel();
        Self { scope, handshake, pending: VecDeque::new(), next: 0, done, accepted }
    }

    /// Lets those in who have called at `listener`, and waits a moment for one who has been accepted.
    pub(super) fn accept(&mut self, listener: &TcpListener) -> Option<Accepted> {
        // No more than can be pending, or a flood of callers would let nobody through.
        for _ in 0..MAX_HANDSHAKES {
            let Ok((stream, address)) = listener.accept() else { break };
            self.start_handshake(stream, address);
        }
        let accepted = self.accepted.recv_timeout(POLL).ok()?;
        self.pending.retain(|(number, _)| *number != accepted.number);
        Some(accepted)
    }

    fn start_handshake(&mut self, stream: TcpStream, address: SocketAddr) {
        if self.pending.len() == MAX_HANDSHAKES
            && let Some((_, oldest)) = self.pending.pop_front()
        {
            // Its thread reads an end, and ends. Of one that is closed already there is nothing to say.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let (number, stream, done, handshake) =
            (self.next, Arc::new(stream), self.done.clone(), self.handshake);
        self.next += 1;
        let shared = Arc::clone(&stream);
        let handshake = move || {
            let end = handshake(&shared);
            // Nobody wants to know any more when all have come.
            let _ = done.send(Accepted { number, address, stream: shared, end });
        };
        // Who finds no thread is let go, and calls again.
        if Builder::new().name("greeter".to_owned()).spawn_scoped(self.scope, handshake).is_ok() {
            self.pending.push_back((number, stream));
        }
    }
}

impl Drop for Acceptor<'_, '_> {
    /// Sends all away who are still there: their threads would wait for them.
    fn drop(&mut self) {
        self.pending.iter().for_each(|(_, stream)| drop(stream.shutdown(Shutdown::Both)));
    }
}
