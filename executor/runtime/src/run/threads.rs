//! All stages of a run as threads of this process.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::board::Board;
use super::failure::{Failure, Halt};
use super::inbox::{Event, Inbox, Sequence};
use super::link::Local;
use super::plan::Plan;
use super::raw::{RawStage, measured};
use super::stage::Stage;
use super::transfers::Transfers;
use crate::error::DeviceError;
use crate::measured::Measured;
use crate::worker::Trainer;

/// How often a stoppable run polls its stop flag.
const POLL: Duration = Duration::from_millis(50);

/// A message from a thread to the one that started it.
enum ThreadEvent {
    /// Its worker is built.
    Ready,
    /// The thread has ended.
    Ended(Result<RawStage, Halt>),
}

/// The state that all threads of a run share.
struct Shared<V, F> {
    plan: Arc<Plan>,
    make: F,
    transfers: Transfers,
    board: Arc<Board>,
    inboxes: Arc<[Sender<Event<V>>]>,
}

/// Runs `plan` with one thread for each stage. `make` builds the worker of a stage, on its thread.
///
/// A failed run ends as soon as every worker has returned from its current pass. The thread of a
/// worker that does not return within the timeout of the plan is leaked.
pub fn run<W, F>(plan: &Plan, make: F) -> Result<Measured, Failure>
where
    W: Trainer + 'static,
    F: Fn(usize) -> Result<W, DeviceError> + Send + Sync + 'static,
{
    go(plan, make, None)
}

/// The same until `stopped` returns true; it is polled every 50 ms on this thread. Every stage then
/// ends its current pass, or stops waiting, and drops its unfinished step. A device that runs ahead
/// of the host completes the enqueued passes.
///
/// The measured steps are those that all stages have completed by then, fewer than planned and
/// possibly none. Peaks and counts, such as of allocations, cover all that a stage has completed: a
/// stage that was ahead counts one step more. If a worker does not return within the timeout of the
/// plan, no step is measured.
pub fn run_until<W, F>(
    plan: &Plan,
    make: F,
    stopped: &dyn Fn() -> bool,
) -> Result<Measured, Failure>
where
    W: Trainer + 'static,
    F: Fn(usize) -> Result<W, DeviceError> + Send + Sync + 'static,
{
    go(plan, make, Some(stopped))
}

fn go<W, F>(plan: &Plan, make: F, stopped: Option<&dyn Fn() -> bool>) -> Result<Measured, Failure>
where
    W: Trainer + 'static,
    F: Fn(usize) -> Result<W, DeviceError> + Send + Sync + 'static,
{
    let stages = plan.schedule().shape().stages();
    let (inboxes, events): (Vec<_>, Vec<_>) = (0..stages).map(|_| channel()).unzip();
    let inboxes: Arc<[_]> = inboxes.into();
    let shared = Arc::new(Shared {
        plan: Arc::new(plan.clone()),
        make,
        transfers: Transfers::of(plan.schedule()),
        board: Arc::new(Board::new(stages)),
        inboxes: Arc::clone(&inboxes),
    });
    let (events_out, heard) = channel();
    let mut threads = StageThreads {
        stop: Box::new(move || stop(&inboxes)),
        threads: Vec::new(),
        starts: Vec::new(),
    };
    for (stage, events) in events.into_iter().enumerate() {
        let (open, start) = channel();
        match begin(Arc::clone(&shared), stage, events, events_out.clone(), start) {
            Ok(thread) => threads.threads.push(thread),
            Err(error) => {
                let failure = Failure::Thread { stage, message: error.to_string() };
                return threads.wait(&heard, plan, stopped, Some(failure));
            }
        }
        threads.starts.push(open);
    }
    threads.wait(&heard, plan, stopped, None)
}

/// Starts the thread of one stage.
fn begin<W, F>(
    shared: Arc<Shared<W::Value, F>>,
    stage: usize,
    events: Receiver<Event<W::Value>>,
    events_out: Sender<(usize, ThreadEvent)>,
    start: Receiver<Instant>,
) -> std::io::Result<JoinHandle<()>>
where
    W: Trainer + 'static,
    F: Fn(usize) -> Result<W, DeviceError> + Send + Sync + 'static,
{
    let life = move || {
        let work = AssertUnwindSafe(|| run_thread(&shared, stage, events, &events_out, &start));
        let end = catch_unwind(work).unwrap_or_else(|panic| {
            Err(Failure::Panicked { stage, message: message(panic.as_ref()) }.into())
        });
        let _ = events_out.send((stage, ThreadEvent::Ended(end)));
    };
    std::thread::Builder::new().name(format!("stage {stage}")).spawn(life)
}

fn stop<V>(inboxes: &[Sender<Event<V>>]) {
    for inbox in inboxes {
        let _ = inbox.send(Event::Stop(None));
    }
}

/// The threads of a run, held by the thread that started them.
struct StageThreads {
    stop: Box<dyn Fn()>,
    threads: Vec<JoinHandle<()>>,
    /// Send each thread the epoch; dropped, the threads end.
    starts: Vec<Sender<Instant>>,
}

impl StageThreads {
    /// Waits for all threads to end, and stops them if one fails or the run is `stopped`.
    fn wait(
        mut self,
        heard: &Receiver<(usize, ThreadEvent)>,
        plan: &Plan,
        stopped: Option<&dyn Fn() -> bool>,
        mut failure: Option<Failure>,
    ) -> Result<Measured, Failure> {
        let all = self.threads.len();
        let mut raw = vec![RawStage::default(); all];
        let (mut ready, mut ended) = (0, 0);
        let mut until = failure.is_some().then(|| self.stop_all(plan));
        while ended < all {
            if until.is_none() && stopped.is_some_and(|stopped| stopped()) {
                until = Some(self.stop_all(plan));
            }
            let timeout = match (until, stopped) {
                (Some(until), _) => until.saturating_duration_since(Instant::now()),
                (None, Some(_)) => POLL,
                (None, None) => Duration::MAX,
            };
            match heard.recv_timeout(timeout) {
                Ok((_, ThreadEvent::Ready)) => ready += 1,
                Ok((stage, ThreadEvent::Ended(Ok(measured)))) => {
                    ended += 1;
                    raw[stage] = measured;
                }
                Ok((_, ThreadEvent::Ended(Err(halt)))) => {
                    ended += 1;
                    if let (None, Halt::Failed(first)) = (&failure, halt) {
                        failure = Some(first);
                        until = Some(until.unwrap_or_else(|| self.stop_all(plan)));
                    }
                }
                Err(RecvTimeoutError::Timeout) if until.is_none() => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
            if ready == all {
                let epoch = Instant::now();
                for start in self.starts.drain(..) {
                    let _ = start.send(epoch);
                }
            }
        }
        // Threads that have not ended hang in their workers.
        let is_over = |thread: &JoinHandle<()>| ended == all || thread.is_finished();
        for thread in self.threads.into_iter().filter(is_over) {
            let _ = thread.join();
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(measured(plan, &raw)),
        }
    }

    /// Stops all threads. Returns the deadline until which they are joined.
    fn stop_all(&mut self, plan: &Plan) -> Instant {
        self.starts.clear();
        (self.stop)();
        Instant::now() + plan.timeout()
    }
}

/// The body of one thread.
fn run_thread<W, F>(
    shared: &Shared<W::Value, F>,
    stage: usize,
    events: Receiver<Event<W::Value>>,
    events_out: &Sender<(usize, ThreadEvent)>,
    start: &Receiver<Instant>,
) -> Result<RawStage, Halt>
where
    W: Trainer,
    F: Fn(usize) -> Result<W, DeviceError>,
{
    let made = (shared.make)(stage);
    let worker = made.map_err(|error| Failure::Device { stage, step: None, slot: None, error })?;
    let sequences = (0..shared.inboxes.len())
        .map(|from| Sequence::new(&shared.transfers, from, stage))
        .collect();
    let inbox = Inbox::new(&shared.plan, stage, events, sequences);
    let (inboxes, board) = (Arc::clone(&shared.inboxes), Arc::clone(&shared.board));
    let link = Local::new(stage, inboxes, Arc::clone(&board), Arc::clone(&shared.plan));
    let _ = events_out.send((stage, ThreadEvent::Ready));
    let epoch = start.recv().map_err(|_| Halt::Stopped)?;
    Stage::new(&shared.plan, stage, worker, link, inbox, board, epoch)?.run_until_stopped()
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without words").to_owned()
}
