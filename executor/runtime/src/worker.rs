//! The interface between the executor and whoever computes the passes of one stage.

use std::any::Any;
use std::time::{Duration, Instant};

use pipeline::{Bytes, CopyPart, Pass, Value};

use crate::error::DeviceError;

/// Computes the passes of one stage, on one thread.
///
/// A pass may return before its work is done, as long as what it hands on says so itself (on a GPU:
/// device memory with an event). [`Worker::synchronize`] waits for all of it.
pub trait Worker {
    /// The values that passes exchange: an output or a gradient, `[microbatch x sequence, hidden]`.
    type Value: Send + 'static;

    /// Does `pass`, or begins it.
    ///
    /// `input` is the value of the neighbouring chunk that the pass needs: the output of `chunk - 1`
    /// for F, the gradient of `chunk + 1` for B and BW; `None` for W and at the ends of the model.
    /// What an earlier pass of the same chunk and microbatch left is kept by the worker.
    ///
    /// Returns the value that the pass makes for a neighbouring chunk, if there is one to take it.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn run(
        &mut self,
        pass: Pass,
        input: Option<Self::Value>,
    ) -> Result<Option<Self::Value>, DeviceError>;

    /// What is begun from now on comes after what made `input`, which a later pass of the same pair takes:
    /// a pair begins when the inputs of both are there. Nothing is to be done where [`Worker::run`] returns
    /// when the work is done.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn wait(&mut self, input: &Self::Value) -> Result<(), DeviceError> {
        let _ = input;
        Ok(())
    }

    /// Waits until everything begun is done.
    ///
    /// # Errors
    /// Whatever stopped the device meanwhile.
    fn synchronize(&mut self) -> Result<(), DeviceError>;

    /// Whether [`Worker::run`] returns before the work is done, so that only the device knows when
    /// passes ran: [`Worker::device_times`] says it then.
    fn runs_ahead(&self) -> bool {
        false
    }

    /// Whether values of other stages are held back on the device, for as long as they are on their way by
    /// the plan; else links do that.
    fn makes_hops(&self) -> bool {
        false
    }

    /// When the passes since the last call ran, as (start, end) in nanoseconds since `epoch`, by the
    /// clock of the device, in the order of [`Worker::run`]; `None` where the host's clock is right,
    /// since `run` returns when the work is done. Called after [`Worker::synchronize`], once a step.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn device_times(&mut self, epoch: Instant) -> Result<Option<Vec<(u64, u64)>>, DeviceError> {
        let _ = epoch;
        Ok(None)
    }

    /// How many allocations it has made so far that can hold up a device; none should be made in a
    /// step that is timed.
    fn allocations(&self) -> u64 {
        0
    }

    /// The part of this stage in `value`, for stage `to`: what all stages make together, or, where the
    /// output layer is in shards, the last chunk's output. Called behind the pass that makes it.
    ///
    /// # Errors
    /// Whatever stops the device, or if there is none.
    fn give(&mut self, value: Value, to: usize) -> Result<Self::Value, DeviceError> {
        let what = format!("{value:?} for stage {to}");
        Err(DeviceError::NotAtHand { what })
    }

    /// Takes the part of stage `from` in `value`. Called before the first pass that needs it.
    ///
    /// # Errors
    /// Whatever stops the device, or if it has no use for it.
    fn receive(&mut self, value: Value, from: usize, part: Self::Value) -> Result<(), DeviceError> {
        drop(part);
        Err(DeviceError::NotAtHand { what: format!("a use for {value:?} of stage {from}") })
    }

    /// Bytes on the device of the activations that `pass`, which has just run, has left of its chunk
    /// and microbatch for later passes; `None` where nothing is computed.
    fn kept(&mut self, pass: Pass) -> Option<Bytes> {
        let _ = pass;
        None
    }

    /// Gives away what `forward`, an F that has run, has kept: `part` of it is to go to the host.
    ///
    /// # Errors
    /// A device without copies to the host, or nothing that was kept.
    fn lend(&mut self, forward: Pass, part: CopyPart) -> Result<Box<dyn Offload>, DeviceError> {
        let _ = part;
        Err(no_copies(forward))
    }

    /// Takes back what [`Worker::lend`] has given away for `forward`, all of it on the device again.
    ///
    /// # Errors
    /// Something that this worker has not lent.
    fn take_back(&mut self, forward: Pass, lent: Box<dyn Offload>) -> Result<(), DeviceError> {
        let _ = lent;
        Err(no_copies(forward))
    }

    /// Forgets all that passes of an unfinished step left behind, but no gradient of a weight: the
    /// step is to be begun again.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn forget(&mut self) -> Result<(), DeviceError>;
}

fn no_copies(forward: Pass) -> DeviceError {
    DeviceError::NotAtHand { what: format!("a copy to the host of what {forward} has kept") }
}

/// The activations that an F has kept, on their way to the host and back. Called once each, in this
/// order, on any thread.
pub trait Offload: Send {
    /// Copies them to the host.
    ///
    /// # Errors
    /// Whatever stops the device, or too little memory on the host.
    fn copy_out(&mut self) -> Result<(), DeviceError>;

    /// Frees on the device what has been copied, and says how much that is.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn free(&mut self) -> Result<Bytes, DeviceError>;

    /// Takes memory on the device again, copies them back, and says how much that was.
    ///
    /// # Errors
    /// Whatever stops the device, or too little memory there.
    fn copy_back(&mut self) -> Result<Bytes, DeviceError>;

    /// For [`Worker::take_back`], which knows what it has lent.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// A worker whose values can travel between processes.
pub trait Wire: Worker {
    /// Bytes of every output and gradient, known before any is received.
    fn value_bytes(&self) -> usize;

    /// Bytes of what a stage hands to another of `value`, where that is none of those.
    fn bytes_of(&self, value: Value) -> usize {
        let _ = value;
        self.value_bytes()
    }

    /// A value as bytes.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn pack(&mut self, value: Self::Value) -> Result<Vec<u8>, DeviceError>;

    /// The inverse, from exactly [`Wire::value_bytes`] bytes.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn unpack(&mut self, bytes: &[u8]) -> Result<Self::Value, DeviceError>;
}

/// A worker whose values go to other processes from device to device, without the host: both ends of
/// every transfer must take part in it, as with NCCL.
pub trait Direct: Wire {
    /// A name that all workers can join by; one makes it, and all are given it.
    ///
    /// # Errors
    /// Whatever stops the device, or a library that is missing.
    fn name(&mut self) -> Result<Vec<u8>, DeviceError>;

    /// Joins the `ranks` workers that were given `name`, as number `rank`. Waits for all of them, and
    /// later for any, at most `timeout`.
    ///
    /// # Errors
    /// Whatever stops the device, or a worker that did not come.
    fn join(
        &mut self,
        name: &[u8],
        rank: usize,
        ranks: usize,
        timeout: Duration,
    ) -> Result<(), DeviceError>;

    /// Begins to send values to ranks and to receive one from each of `from`, as one and behind all
    /// that was begun so before. Returns what is received, in order; it may be on its way still.
    ///
    /// # Errors
    /// Whatever stops the device, or a worker that is gone.
    fn exchange(
        &mut self,
        sends: Vec<(usize, Self::Value)>,
        from: &[usize],
    ) -> Result<Vec<Self::Value>, DeviceError>;
}

/// The norm of the gradients of a stage.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Norm {
    /// Sum of squares over all gradients of weights.
    pub squares: f64,
    /// Whether any of them is NaN or infinite.
    pub is_bad: bool,
}

impl Norm {
    /// The norm over the gradients of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, is_bad: self.is_bad || other.is_bad }
    }

    /// The factor by which gradients are scaled so that their norm is at most `max_norm`
    /// (Megatron's clipping: `max_norm / (norm + 1e-6)`, at most 1).
    #[must_use]
    pub fn clip(self, max_norm: f64) -> f64 {
        (max_norm / (self.squares.sqrt() + 1e-6)).min(1.0)
    }
}

/// A worker whose stage has weights to train. By default it has none: every gradient is nought, and an
/// update changes nothing.
pub trait Trainer: Worker {
    /// The norm of the gradients summed up since the last [`Trainer::clear`]. Of weights that two stages
    /// hold, one of them alone counts the gradients.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        Ok(Norm::default())
    }

    /// Bytes of what [`Trainer::share`] gives: the same on both stages that hold these weights, and 0
    /// where one alone does.
    fn shared_bytes(&self) -> usize {
        0
    }

    /// The gradients summed up here of the weights that another stage holds a copy of, as bytes.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn share(&mut self) -> Result<Vec<u8>, DeviceError> {
        Ok(Vec::new())
    }

    /// Adds to these gradients those that the other stage has summed up, so that both hold the sum over
    /// all microbatches, the same to the bit. Called once a step, when all passes are done.
    ///
    /// # Errors
    /// Whatever stops the device, or bytes that are not the gradients of these weights.
    fn merge(&mut self, theirs: &[u8]) -> Result<(), DeviceError> {
        let _ = theirs;
        Ok(())
    }

    /// One step of the optimizer with all gradients times `scale`. The gradients stay as they are.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        let _ = scale;
        Ok(())
    }

    /// Takes the last [`Trainer::update`], made with `scale`, back.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        let _ = scale;
        Ok(())
    }

    /// Begins `step`, counted from 0: what microbatches hold depends on it, and the loss starts from
    /// zero. Called again after [`Worker::forget`]. The gradients stay as they are: under
    /// post-validation, the forwards of a step run before the update of the step before is settled.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        let _ = step;
        Ok(())
    }

    /// Sets all gradients to zero. Called once a step, after [`Trainer::begin_step`] and before the
    /// first pass that adds to a gradient.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn clear(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The loss summed over the microbatches of the step so far, if this stage holds the last chunk.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        Ok(None)
    }
}
