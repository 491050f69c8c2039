//! Offloading: the copies of a stage to the host and back, one thread for each stream beside the
//! thread of the stage, and the activation bytes that the stage holds.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pipeline::{Bytes, CopyDirection, Kind, Pass, Slot};

use super::clock::nanos_since;
use super::copy_turns::{CopyTurns, Turn};
use crate::error::DeviceError;
use crate::worker::{Offload, Worker};

/// Chunk and microbatch.
type Cell = (u16, u32);

/// The location of an activation that is copied.
enum Place {
    /// On the device, to be copied to the host.
    Lent(Box<dyn Offload>),
    OnHost(Box<dyn Offload>),
    /// On the device again.
    Back(Box<dyn Offload>),
}

/// State shared by the threads of a stage.
#[derive(Default)]
struct State {
    /// Number of the attempt at a step, from 1.
    attempt: u64,
    /// Number of starts and ends of slots so far.
    slots: u32,
    /// Number of memory changes by copies so far.
    turn: usize,
    places: HashMap<Cell, Place>,
    /// Start and end of each copy, by its number.
    times: Vec<[u64; 2]>,
    /// Bytes allocated and freed, in the order of the memory changes; those of a slot's start are
    /// known at its end.
    changes: Vec<i128>,
    failed: Option<DeviceError>,
    over: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    turns: CopyTurns,
    epoch: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panicked thread sends nothing: a stage that waits for it times out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        nanos_since(self.epoch, Instant::now())
    }
}

/// Measurements of the copies of one stage in one step.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct CopiesDone {
    /// Start and end of each copy, in nanoseconds since the epoch.
    pub(super) times: Vec<[u64; 2]>,
    /// Peak of the activation bytes, if anything was computed.
    pub(super) peak: Option<u64>,
}

/// The running copies of a stage. Dropping it ends its threads.
pub(super) struct Copying {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The activations that are copied.
    cells: HashSet<Cell>,
    /// Bytes kept for each chunk and microbatch, or for a shard of the vocabulary.
    kept: HashMap<(bool, Cell), u64>,
    /// The number of the memory change of the current slot's start.
    start: usize,
    /// Whether the bytes of all activations are known.
    counts: bool,
}

const fn cell(pass: Pass) -> Cell {
    (pass.chunk, pass.microbatch)
}

impl Copying {
    /// Starts a thread for each stream of `turns`; times are since `epoch`.
    pub(super) fn new(turns: CopyTurns, epoch: Instant) -> std::io::Result<Self> {
        let all = turns.streams.iter().flatten();
        let cells = all.map(|one| (one.op.chunk, one.op.microbatch)).collect();
        let streams = turns.streams.len();
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { state, changed, turns, epoch });
        let (kept, threads) = (HashMap::new(), Vec::new());
        let mut copying = Self { shared, threads, cells, kept, start: 0, counts: true };
        for stream in 0..streams {
            let shared = Arc::clone(&copying.shared);
            let thread = std::thread::Builder::new().name(format!("copies {stream}"));
            copying.threads.push(thread.spawn(move || run_stream(&shared, stream))?);
        }
        Ok(copying)
    }

    /// Begins an attempt at a step, and drops the state of the previous one.
    pub(super) fn begin(&mut self) {
        self.kept.clear();
        let mut state = self.shared.lock();
        let attempt = state.attempt + 1;
        let times = vec![[0; 2]; self.shared.turns.count()];
        let over = state.over;
        *state = State { attempt, times, over, ..State::default() };
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Called before `slot` starts: waits until the planned copies have freed their memory, and
    /// until the activations of its backwards are back, which it passes to `worker`.
    pub(super) fn start<W: Worker>(
        &mut self,
        worker: &mut W,
        slot: Slot,
        timeout: Duration,
    ) -> Result<(), DeviceError> {
        let backwards = slot.passes().filter(|pass| matches!(pass.kind, Kind::B | Kind::BW));
        let cells: Vec<Cell> = backwards.map(cell).filter(|one| self.cells.contains(one)).collect();
        let mut state = self.shared.in_turn(timeout, |state| {
            cells.iter().all(|one| matches!(state.places.get(one), Some(Place::Back(_))))
        })?;
        for one in cells {
            if let Some(Place::Back(lent)) = state.places.remove(&one) {
                worker.end_offload(Pass::f(one.0, one.1), lent)?;
            }
        }
        self.start = state.changes.len();
        // The bytes that it allocates are known at its end.
        self.shared.slot_event(state, 0);
        Ok(())
    }

    /// Called when `slot` has ended: the activations of its forwards may be copied to the host from
    /// now on.
    pub(super) fn end<W: Worker>(
        &mut self,
        worker: &mut W,
        slot: Slot,
        timeout: Duration,
    ) -> Result<(), DeviceError> {
        let [taken, changed] = self.count(worker, slot);
        let mut lent = Vec::new();
        for pass in slot.passes().filter(|pass| pass.kind == Kind::F) {
            if self.cells.contains(&cell(pass)) {
                let one = worker.begin_offload(pass, self.shared.turns.part)?;
                lent.push((cell(pass), Place::Lent(one)));
            }
        }
        let mut state = self.shared.in_turn(timeout, |_| true)?;
        if let Some(start) = state.changes.get_mut(self.start) {
            *start = taken;
        }
        state.places.extend(lent);
        self.shared.slot_event(state, changed);
        Ok(())
    }

    /// The bytes that `slot`, which has run, has allocated at its start, and the change at its end
    /// in the bytes that were there before.
    fn count<W: Worker>(&mut self, worker: &mut W, slot: Slot) -> [i128; 2] {
        let [mut taken, mut changed] = [0; 2];
        for pass in slot.passes() {
            let Some(Bytes(after)) = worker.kept(pass) else {
                self.counts = false;
                continue;
            };
            let key = (pass.kind.is_of_vocabulary(), cell(pass));
            match (self.kept.insert(key, after), pass.kind) {
                (None, _) => taken += i128::from(after),
                // R allocates at its start the activations that F has discarded.
                (Some(before), Kind::R) => taken += i128::from(after) - i128::from(before),
                (Some(before), _) => changed += i128::from(after) - i128::from(before),
            }
        }
        [taken, changed]
    }

    /// Measurements of the step, all of whose slots have ended.
    pub(super) fn done(&self) -> CopiesDone {
        let state = self.shared.lock();
        let held = state.changes.iter().scan(0, |held, change| {
            *held += change;
            Some(*held)
        });
        let peak = held.max().and_then(|peak: i128| u64::try_from(peak).ok());
        CopiesDone { times: state.times.clone(), peak: peak.filter(|_| self.counts) }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Waits until all copies that change memory before the next start or end of a slot have done
    /// so, and the state is `ready`.
    fn in_turn(
        &self,
        timeout: Duration,
        ready: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'_, State>, DeviceError> {
        let until = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if let Some(error) = state.failed.take() {
                return Err(error);
            }
            let due = self.turns.after.partition_point(|&after| after <= state.slots);
            if state.turn >= due && ready(&state) {
                return Ok(state);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = format!("none has ended for {timeout:.1?}");
                return Err(DeviceError::Call { call: "a copy to the host or back", message });
            }
            let (next, _) =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
    }

    /// Records that a slot has started or ended and changed memory by `change` bytes.
    fn slot_event(&self, mut state: MutexGuard<'_, State>, change: i128) {
        state.slots += 1;
        state.changes.push(change);
        drop(state);
        if self.turns.count() > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until the state is `ready`; `None` if the attempt has ended meanwhile.
    fn await_in(
        &self,
        attempt: u64,
        ready: impl Fn(&State) -> bool,
    ) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        loop {
            if state.over || state.attempt != attempt {
                return None;
            }
            if ready(&state) {
                return Some(state);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes the copy of `turn`; `None` if the attempt has ended meanwhile.
    fn copy(&self, attempt: u64, turn: &Turn) -> Option<Result<(), DeviceError>> {
        let one = (turn.op.chunk, turn.op.microbatch);
        let in_turn =
            |state: &State| state.turn == turn.turn && state.slots >= self.turns.after[turn.turn];
        let done = match turn.op.way {
            CopyDirection::Out => {
                let lent = |state: &State| matches!(state.places.get(&one), Some(Place::Lent(_)));
                let begins = |state: &State| state.slots >= 2 * turn.op.after && lent(state);
                let mut lent = self.await_in(attempt, begins)?.take(one)?;
                let begin = self.now();
                if let Err(error) = lent.copy_out() {
                    return Some(Err(error));
                }
                let times = [begin, self.now()];
                let mut state = self.await_in(attempt, in_turn)?;
                let freed = lent.free();
                freed.map(|freed| {
                    state.changes.push(-i128::from(freed.0));
                    (state.turn, state.times[turn.number]) = (turn.turn + 1, times);
                    state.places.insert(one, Place::OnHost(lent));
                })
            }
            CopyDirection::Back => {
                let away = |state: &State| matches!(state.places.get(&one), Some(Place::OnHost(_)));
                let mut state = self.await_in(attempt, |state| in_turn(state) && away(state))?;
                let mut lent = state.take(one)?;
                let change = state.changes.len();
                state.changes.push(0);
                state.turn = turn.turn + 1;
                drop(state);
                self.changed.notify_all();
                let begin = self.now();
                let taken = lent.copy_back();
                let times = [begin, self.now()];
                let mut state = self.await_in(attempt, |_| true)?;
                taken.map(|taken| {
                    state.changes[change] = i128::from(taken.0);
                    state.times[turn.number] = times;
                    state.places.insert(one, Place::Back(lent));
                })
            }
        };
        self.changed.notify_all();
        Some(done)
    }
}

impl State {
    /// Takes the activation of `one` out, wherever it is.
    fn take(&mut self, one: Cell) -> Option<Box<dyn Offload>> {
        self.places.remove(&one).map(|place| match place {
            Place::Lent(lent) | Place::OnHost(lent) | Place::Back(lent) => lent,
        })
    }
}

/// Makes the copies of `stream` in every attempt at a step, until the run is over.
fn run_stream(shared: &Shared, stream: usize) {
    let mut attempt = 0;
    loop {
        let mut state = shared.lock();
        while !state.over && state.attempt == attempt {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.over {
            return;
        }
        attempt = state.attempt;
        drop(state);
        for turn in &shared.turns.streams[stream] {
            match shared.copy(attempt, turn) {
                Some(Ok(())) => {}
                None => break,
                Some(Err(error)) => {
                    shared.lock().failed = Some(error);
                    shared.changed.notify_all();
                    break;
                }
            }
        }
    }
}
