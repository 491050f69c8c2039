//! The interface between the executor and the workers that compute the passes of a stage.

use std::any::Any;
use std::time::{Duration, Instant};

use pipeline::{Bytes, CopyPart, Pass, Value};

use crate::error::DeviceError;

/// Computes the passes of one stage, on one thread.
///
/// A pass may return before its work is done if the value that it returns carries its own readiness
/// (on a GPU: device memory with an event). [`Worker::synchronize`] waits for all of it.
pub trait Worker {
    /// The values that passes exchange: an output or a gradient, `[microbatch x sequence, hidden]`.
    type Value: Send + 'static;

    /// Does `pass`, or begins it.
    ///
    /// `input` is the value of the neighbouring chunk that the pass needs: the output of `chunk -
    /// 1` for F, the gradient of `chunk + 1` for B and BW; `None` for W and at the ends of the
    /// model. The worker keeps the activations that an earlier pass of the same chunk and
    /// microbatch left.
    ///
    /// Returns the value for a neighbouring chunk, if there is such a chunk.
    fn run(
        &mut self,
        pass: Pass,
        input: Option<Self::Value>,
    ) -> Result<Option<Self::Value>, DeviceError>;

    /// Orders all later work after the work that made `input`, which a later pass of the same pair
    /// takes: a pair begins when the inputs of both passes are ready. A no-op where [`Worker::run`]
    /// returns when the work is done.
    fn wait(&mut self, input: &Self::Value) -> Result<(), DeviceError> {
        let _ = input;
        Ok(())
    }

    /// Waits until all work that was begun is done.
    fn synchronize(&mut self) -> Result<(), DeviceError>;

    /// Whether [`Worker::run`] returns before the work is done. [`Worker::device_times`] then gives
    /// the times of passes, which only the device knows.
    fn runs_ahead(&self) -> bool {
        false
    }

    /// Whether the device itself delays values of other stages by the plan's hop; otherwise the
    /// links do.
    fn simulates_hops(&self) -> bool {
        false
    }

    /// Start and end of the passes since the last call, in nanoseconds since `epoch`, by the clock
    /// of the device, in the order of [`Worker::run`]; `None` where `run` returns when the work is
    /// done, so that the host's clock is right. Called after [`Worker::synchronize`], once a step.
    fn device_times(&mut self, epoch: Instant) -> Result<Option<Vec<(u64, u64)>>, DeviceError> {
        let _ = epoch;
        Ok(None)
    }

    /// Number of allocations so far that can stall a device; a timed step should make none.
    fn allocations(&self) -> u64 {
        0
    }

    /// The part of this stage in `value`, for stage `to`: a part of a value that all stages make,
    /// or, where the output layer is in shards, the last chunk's output. Called after the pass that
    /// makes it.
    fn send_part(&mut self, value: Value, to: usize) -> Result<Self::Value, DeviceError> {
        let what = format!("{value:?} for stage {to}");
        Err(DeviceError::NotAtHand { what })
    }

    /// Receives the part of stage `from` in `value`. Called before the first pass that needs it.
    fn receive_part(
        &mut self,
        value: Value,
        from: usize,
        part: Self::Value,
    ) -> Result<(), DeviceError> {
        drop(part);
        Err(DeviceError::NotAtHand { what: format!("a use for {value:?} of stage {from}") })
    }

    /// Bytes on the device of the activations of a chunk and microbatch that are kept for later
    /// passes after `pass`, the last one that ran; `None` where nothing is computed.
    fn kept(&mut self, pass: Pass) -> Option<Bytes> {
        let _ = pass;
        None
    }

    /// Releases the activations that `forward`, an F that has run, has kept, so that `part` of them
    /// can be copied to the host.
    fn begin_offload(
        &mut self,
        forward: Pass,
        part: CopyPart,
    ) -> Result<Box<dyn Offload>, DeviceError> {
        let _ = part;
        Err(no_copies(forward))
    }

    /// Takes the activations of `forward` that [`Worker::begin_offload`] released, all of them on the device
    /// again.
    fn end_offload(&mut self, forward: Pass, lent: Box<dyn Offload>) -> Result<(), DeviceError> {
        let _ = lent;
        Err(no_copies(forward))
    }

    /// Discards the activations of an unfinished step, which is to begin again, but keeps the
    /// gradients of weights.
    fn forget(&mut self) -> Result<(), DeviceError>;
}

fn no_copies(forward: Pass) -> DeviceError {
    DeviceError::NotAtHand { what: format!("a copy to the host of what {forward} has kept") }
}

/// The activations that an F has kept, on their way to the host and back. The methods are called
/// once each, in this order, on any thread.
pub trait Offload: Send {
    /// Copies them to the host.
    fn copy_out(&mut self) -> Result<(), DeviceError>;

    /// Frees the copied part on the device. Returns its bytes.
    fn free(&mut self) -> Result<Bytes, DeviceError>;

    /// Allocates memory on the device, and copies the activations back. Returns the bytes.
    fn copy_back(&mut self) -> Result<Bytes, DeviceError>;

    /// For [`Worker::end_offload`], which knows the concrete type.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// A worker whose values can travel between processes.
pub trait Wire: Worker {
    /// Bytes of every output and gradient, known before any is received.
    fn value_bytes(&self) -> usize;

    /// Bytes of a part of `value` that one stage sends to another, where it is neither an output
    /// nor a gradient.
    fn bytes_of(&self, value: Value) -> usize {
        let _ = value;
        self.value_bytes()
    }

    /// A value as bytes.
    fn pack(&mut self, value: Self::Value) -> Result<Vec<u8>, DeviceError>;

    /// The inverse of [`Wire::pack`], from exactly [`Wire::value_bytes`] bytes.
    fn unpack(&mut self, bytes: &[u8]) -> Result<Self::Value, DeviceError>;
}

/// A worker whose values go to other processes from device to device, without the host. Both ends
/// take part in every transfer, as with NCCL.
pub trait Direct: Wire {
    /// A unique id of the communicator (as of `ncclGetUniqueId`): one worker makes it, and all of
    /// them join by it.
    fn unique_id(&mut self) -> Result<Vec<u8>, DeviceError>;

    /// Joins the `ranks` workers that have the unique id `name`, as rank `rank`. Waits for all of
    /// them, and later for any of them, at most `timeout`.
    fn join(
        &mut self,
        name: &[u8],
        rank: usize,
        ranks: usize,
        timeout: Duration,
    ) -> Result<(), DeviceError>;

    /// Begins to send values to ranks and to receive one value from each rank of `from`, as one
    /// group, after all groups begun before. Returns the received values in order; they may still
    /// be in transfer.
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

/// A worker whose stage has weights to train. The default has none: all gradients are 0, and an
/// update changes nothing.
pub trait Trainer: Worker {
    /// The norm of the gradients accumulated since the last [`Trainer::clear`]. Only one of two
    /// stages that hold the same weights counts their gradients.
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        Ok(Norm::default())
    }

    /// Bytes that [`Trainer::share`] returns: the same on both stages that hold these weights; 0
    /// where one stage alone holds them.
    fn shared_bytes(&self) -> usize {
        0
    }

    /// The gradients accumulated here of the weights of which another stage holds a copy, as bytes.
    fn share(&mut self) -> Result<Vec<u8>, DeviceError> {
        Ok(Vec::new())
    }

    /// Adds the gradients that the other stage has accumulated, so that both stages hold the same
    /// sum over all microbatches, to the bit. Called once a step, after all passes.
    fn merge(&mut self, theirs: &[u8]) -> Result<(), DeviceError> {
        let _ = theirs;
        Ok(())
    }

    /// One optimizer step with all gradients times `scale`. The gradients stay as they are.
    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        let _ = scale;
        Ok(())
    }

    /// Undoes the last [`Trainer::update`], made with `scale`.
    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        let _ = scale;
        Ok(())
    }

    /// Begins `step`, counted from 0: the data of microbatches depend on it, and the loss starts
    /// from zero. Called again after [`Worker::forget`]. The gradients stay as they are: under
    /// post-validation, the forwards of a step run before the update of the previous step is
    /// validated.
    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        let _ = step;
        Ok(())
    }

    /// Sets all gradients to zero. Called once a step, after [`Trainer::begin_step`] and before the
    /// first pass that adds to a gradient.
    fn clear(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The loss summed over the microbatches of the step so far, if this stage holds the last chunk.
    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        Ok(None)
    }
}
