//! Callers who have not said yet who they are, greeted side by side: whoever says nothing keeps
//! nobody waiting.

use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope};
use std::time::Duration;

use super::hello::{Hello, Refusal};

/// The most callers that are greeted at the same time. When one more calls, the one who has been
/// here longest has to go: who belongs to the run is through in some round trips, and calls again.
pub(super) const MOST: usize = 64;
/// How long to wait for a caller to be greeted before it is asked who else has called.
const GLANCE: Duration = Duration::from_millis(1);

/// Somebody who has been greeted.
pub(super) struct Greeted {
    /// The number it was given at the door.
    number: u64,
    pub(super) address: SocketAddr,
    pub(super) stream: Arc<TcpStream>,
    /// The introduction of the caller, or the reason why it is not let in.
    pub(super) end: Result<Hello, Refusal>,
}

/// All who are being greeted, each on a thread of its own within `'scope`.
pub(super) struct Lobby<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    greet: &'scope (dyn Fn(&TcpStream) -> Result<Hello, Refusal> + Sync),
    /// By number, which is by when they came.
    inside: VecDeque<(u64, Arc<TcpStream>)>,
    next: u64,
    done: Sender<Greeted>,
    greeted: Receiver<Greeted>,
}

impl<'scope, 'env> Lobby<'scope, 'env> {
    /// Nobody is there yet; all who come are greeted by `greet`.
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        greet: &'scope (dyn Fn(&TcpStream) -> Result<Hello, Refusal> + Sync),
    ) -> Self {
        let (done, greeted) = channel();
        Self { scope, greet, inside: VecDeque::new(), next: 0, done, greeted }
    }

    /// Lets those in who have called at `listener`, and waits a moment for one who has been greeted.
    pub(super) fn attend(&mut self, listener: &TcpListener) -> Option<Greeted> {
        // No more than can be inside, or a flood of callers would let nobody through.
        for _ in 0..MOST {
            let Ok((stream, address)) = listener.accept() else { break };
            self.enter(stream, address);
        }
        let greeted = self.greeted.recv_timeout(GLANCE).ok()?;
        self.inside.retain(|(number, _)| *number != greeted.number);
        Some(greeted)
    }

    fn enter(&mut self, stream: TcpStream, address: SocketAddr) {
        if self.inside.len() == MOST
            && let Some((_, oldest)) = self.inside.pop_front()
        {
            // Its thread reads an end, and ends. Of one that is closed already there is nothing to say.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let (number, stream, done, greet) =
            (self.next, Arc::new(stream), self.done.clone(), self.greet);
        self.next += 1;
        let shared = Arc::clone(&stream);
        let greet = move || {
            let end = greet(&shared);
            // Nobody wants to know any more when all have come.
            let _ = done.send(Greeted { number, address, stream: shared, end });
        };
        // Who finds no thread is let go, and calls again.
        if Builder::new().name("greeter".to_owned()).spawn_scoped(self.scope, greet).is_ok() {
            self.inside.push_back((number, stream));
        }
    }
}

impl Drop for Lobby<'_, '_> {
    /// Sends all away who are still there: their threads would wait for them.
    fn drop(&mut self) {
        self.inside.iter().for_each(|(_, stream)| drop(stream.shutdown(Shutdown::Both)));
    }
}
