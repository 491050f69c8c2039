//! The passes of a stage: their kernels, and the activations between them.

use std::time::Instant;

use pipeline::{Bytes, CopyPart, Kind, Pass, Value};

use super::kept::Kept;
use super::{Gpt, SHARD};
use crate::model::Recomputed;
use crate::model::chunk::{Chunk, ChunkForwarded, Job};
use crate::model::device::{Device, Made};
use crate::model::offloaded::Offloaded;
use crate::model::parts;
use crate::model::segments::Past;
use crate::model::shard::Shard;
use crate::ops::Ops;
use runtime::DeviceError;
use runtime::{Offload, Wire, Worker};

impl<O: Ops> Gpt<O> {
    /// Runs the kernels of `pass` with its version of the weights.
    fn run_kernels(&mut self, pass: Pass, input: Made<O>) -> Result<Made<O>, DeviceError> {
        let Some(history) = &mut self.history else { return self.compute(pass, input) };
        let older = history.version(pass, self.step)?;
        self.exchange_weights(older, pass.chunk);
        let made = self.compute(pass, input);
        self.exchange_weights(older, pass.chunk);
        if let Some(history) = &mut self.history {
            history.done(pass);
        }
        made
    }

    /// Swaps the weights of `chunk` with those of an `older` version, if there is one.
    fn exchange_weights(&mut self, older: Option<u32>, chunk: u16) {
        let at = self.chunks.iter().position(|(number, _)| *number == chunk);
        if let (Some(history), Some(version), Some(at)) = (&mut self.history, older, at) {
            history.exchange(version, at, &mut self.chunks[at].1);
        }
    }

    fn compute(&mut self, pass: Pass, input: Made<O>) -> Result<Made<O>, DeviceError> {
        let Pass { kind, chunk: number, microbatch } = pass;
        let number = if kind.is_of_vocabulary() { SHARD } else { number };
        let missing = |what: &str| DeviceError::NotAtHand { what: format!("{what} {pass}") };
        let Self { device, chunks, recomputed, kept, pasts, shard, .. } = self;
        let held = chunks.iter_mut().find(|(held, _)| *held == number);
        let (_, chunk) = held.ok_or_else(|| missing("the chunk of"))?;
        let cell = (number, microbatch);
        let (whole, segment) = pasts.place(microbatch);
        let (model, step, scale) = (self.model, self.step, self.scale);
        let job = Job { model, batches: &*self.batches, step, microbatch: whole, segment, scale };
        let input = match shard {
            Some(shard) if kind.is_of_vocabulary() => {
                return shard.run(kind, device, chunk, &job).map(|()| None);
            }
            Some(shard) => shard.input(kind, device, chunk, &job)?.or(input),
            None => input,
        };
        let mut past = pasts.take(kind, number, microbatch, chunk.layout.layers().len())?;
        let made = match (kind, kept.remove(&cell)) {
            (Kind::F, None) => {
                let part = recomputed.get(usize::from(number)).copied().flatten();
                let (output, left) = forward(device, chunk, &job, input, part, &mut past)?;
                kept.insert(cell, left);
                Ok(match shard {
                    Some(shard) => shard.keep(chunk, microbatch, output),
                    None => output,
                })
            }
            (Kind::R, Some(Kept::Discarded(left))) => {
                let left = chunk.recompute(device, &job, left)?;
                kept.insert(cell, Kept::UntilBackward(left));
                Ok(None)
            }
            (Kind::B | Kind::BW, Some(Kept::UntilBackward(left))) => {
                let (gradient, left) = backward(device, chunk, &job, input, kind, left, &mut past)?;
                left.and_then(|left| kept.insert(cell, left));
                Ok(gradient)
            }
            (Kind::W, Some(Kept::UntilWeight(left))) => {
                chunk.backward_weight(device, left)?;
                Ok(None)
            }
            _ => Err(missing("what should be kept for")),
        };
        pasts.put(number, microbatch, past);
        made
    }
}

/// F of `chunk`: its output, and the kept activations: all, or the rest where a part is recomputed.
fn forward<O: Ops>(
    device: &mut Device<O>,
    chunk: &mut Chunk<O>,
    job: &Job<'_>,
    input: Made<O>,
    part: Option<Recomputed>,
    past: &mut [Past<O>],
) -> Result<(Made<O>, Kept<O>), DeviceError> {
    Ok(match part {
        Some(part) => {
            let (output, left) = chunk.forward_keeping(device, job, input, part)?;
            (output, Kept::Discarded(left))
        }
        None => {
            let (output, left) = chunk.forward(device, job, input, past)?;
            (output, Kept::UntilBackward(left))
        }
    })
}

/// B or BW of `chunk`: the gradient of its input, and the activations that B keeps for W.
fn backward<O: Ops>(
    device: &mut Device<O>,
    chunk: &mut Chunk<O>,
    job: &Job<'_>,
    gradient: Made<O>,
    kind: Kind,
    kept: ChunkForwarded<O>,
    past: &mut [Past<O>],
) -> Result<(Made<O>, Option<Kept<O>>), DeviceError> {
    let (gradient, left) = chunk.backward_input(device, job, kept, gradient, past)?;
    if kind == Kind::B {
        return Ok((gradient, Some(Kept::UntilWeight(left))));
    }
    chunk.backward_weight(device, left)?;
    Ok((gradient, None))
}

impl<O: Ops> Worker for Gpt<O> {
    type Value = O::Transfer;

    fn run(
        &mut self,
        pass: Pass,
        input: Option<O::Transfer>,
    ) -> Result<Option<O::Transfer>, DeviceError> {
        self.device.ops.pace()?;
        let len = self.value_len();
        let input = input.map(|transfer| self.device.ops.receive(transfer)).transpose()?;
        let input = input.map(|tensor| self.device.adopt(tensor, len));
        self.device.ops.stamp()?;
        let made = self.run_kernels(pass, input);
        // Also after a failed pass: stamps come in pairs.
        let stamped = self.device.ops.stamp();
        let made = made?;
        stamped?;
        let made = made.map(|buffer| self.device.ops.send(buffer.release())).transpose();
        self.device.end_pass();
        made
    }

    fn wait(&mut self, input: &O::Transfer) -> Result<(), DeviceError> {
        self.device.ops.wait(input)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.device.ops.synchronize()
    }

    fn runs_ahead(&self) -> bool {
        self.device.ops.runs_ahead()
    }

    fn device_times(&mut self, epoch: Instant) -> Result<Option<Vec<(u64, u64)>>, DeviceError> {
        let stamps = self.device.ops.stamps(epoch)?;
        Ok(stamps.map(|all| all.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()))
    }

    fn allocations(&self) -> u64 {
        self.device.ops.allocations()
    }

    fn send_part(&mut self, value: Value, _: usize) -> Result<O::Transfer, DeviceError> {
        let none = || DeviceError::NotAtHand { what: "the shard of the output layer".to_owned() };
        let part = self.shard.as_mut().ok_or_else(none)?.share(&mut self.device, value)?;
        self.device.ops.send(part.release())
    }

    fn receive_part(
        &mut self,
        value: Value,
        from: usize,
        part: O::Transfer,
    ) -> Result<(), DeviceError> {
        let part = self.device.ops.receive(part)?;
        let none = || DeviceError::NotAtHand { what: "the shard of the output layer".to_owned() };
        let shard = self.shard.as_mut().ok_or_else(none)?;
        let part = self.device.adopt(part, shard.len(value));
        shard.receive(value, from, part);
        Ok(())
    }

    fn kept(&mut self, pass: Pass) -> Option<Bytes> {
        if pass.kind.is_of_vocabulary() {
            return self.shard.as_ref().map(|shard| shard.kept(pass.microbatch));
        }
        Some(match self.kept.get_mut(&(pass.chunk, pass.microbatch)) {
            Some(Kept::UntilBackward(kept)) => parts::bytes(&kept.parts()),
            Some(Kept::UntilWeight(kept)) => parts::bytes(&kept.parts()),
            Some(Kept::Discarded(kept)) => parts::bytes(&kept.parts()),
            None => Bytes(0),
        })
    }

    fn begin_offload(
        &mut self,
        forward: Pass,
        part: CopyPart,
    ) -> Result<Box<dyn Offload>, DeviceError> {
        match self.kept.remove(&(forward.chunk, forward.microbatch)) {
            Some(Kept::UntilBackward(kept)) => Ok(Box::new(Offloaded::new(kept, part))),
            _ => Err(DeviceError::NotAtHand { what: format!("what {forward} has kept") }),
        }
    }

    fn end_offload(&mut self, forward: Pass, lent: Box<dyn Offload>) -> Result<(), DeviceError> {
        let Ok(lent) = lent.into_any().downcast::<Offloaded<O>>() else {
            return Err(DeviceError::NotAtHand { what: format!("what {forward} has kept") });
        };
        let cell = (forward.chunk, forward.microbatch);
        self.kept.insert(cell, Kept::UntilBackward(lent.kept));
        Ok(())
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        self.kept.clear();
        self.shard.iter_mut().for_each(Shard::clear);
        self.pasts.clear();
        Ok(())
    }
}

impl<O: Ops> Wire for Gpt<O> {
    fn value_bytes(&self) -> usize {
        self.value_len() * self.device.ops.element_bytes()
    }

    fn bytes_of(&self, value: Value) -> usize {
        let shard = self.shard.as_ref().filter(|_| value.chunk().is_none());
        let len = shard.map_or(self.value_len(), |shard| shard.len(value));
        len * self.device.ops.element_bytes()
    }

    fn pack(&mut self, value: O::Transfer) -> Result<Vec<u8>, DeviceError> {
        self.device.ops.pack(value)
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<O::Transfer, DeviceError> {
        self.device.ops.unpack(bytes)
    }
}
