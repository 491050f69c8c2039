//! All chunks of one stage at work: what the stage loop drives.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use pipeline::{Bytes, CopyPart, Kind, Pass, Schedule, Value};

use crate::data::Batches;
use crate::error::DeviceError;
use crate::model::chunk::{Chunk, ChunkBackwarded, ChunkForwarded, Job, loss_scale};
use crate::model::device::{Activations, Device, Made};
use crate::model::movable::{self, Offloaded};
use crate::model::recompute::ChunkKept;
use crate::model::segments::{self, Past, Pasts};
use crate::model::shard::Shard;
use crate::model::versions::{History, Updates};
use crate::model::{BuildError, Layout, Model, Recomputed, Training, Undo, replica};
use crate::ops::{Moments, Ops};
use crate::worker::{Norm, Offload, Trainer, Wire, Worker};

/// The chunks of a model that one stage of a schedule holds, with weights, gradients and optimizer.
pub struct Gpt<O: Ops> {
    device: Device<O>,
    model: Model,
    batches: Arc<dyn Batches>,
    training: Training,
    scale: f32,
    step: u32,
    updates: u32,
    chunks: Vec<(u16, Chunk<O>)>,
    /// By chunk of the model, the part that it recomputes.
    recomputed: Vec<Option<Recomputed>>,
    /// The chunks whose gradients this stage counts in a norm: of two stages that hold a chunk, the
    /// one where the first microbatch goes through it.
    counted: Vec<u16>,
    /// Whether another stage holds the same chunks.
    is_shared: bool,
    kept: HashMap<(u16, u32), Kept<O>>,
    /// The work on the shard of the output layer, if there is one.
    shard: Option<Shard<O>>,
    pasts: Pasts<O>,
    /// Where weights change while the pipeline runs.
    history: Option<History<O>>,
    snapshots: Vec<Moments<O::Tensor, O::Sums>>,
}

/// The number under which the shard of the output layer stands among the chunks of a stage.
const SHARD: u16 = u16::MAX;

/// A number for every parameter of a chunk: its weight or its gradient.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    /// Where these lie in the vector of parameters of the whole model.
    pub range: Range<usize>,
    /// The numbers.
    pub values: Vec<f64>,
}

/// The activations that a pass left for the next one of its chunk and microbatch.
#[allow(clippy::enum_variant_names)] // Until which pass is what tells them apart.
enum Kept<O: Ops> {
    Discarded(ChunkKept<O>),
    UntilBackward(ChunkForwarded<O>),
    UntilWeight(ChunkBackwarded<O>),
}

impl<O: Ops> Gpt<O> {
    /// Stage `stage` of `schedule`, at work on `model` with the kernels of `ops`. A chunk for which the
    /// schedule has R recomputes everything, unless [`Gpt::recomputing`] says less.
    ///
    /// # Errors
    /// A stage or an optimizer that cannot be, fewer layers than chunks, or
    /// too little memory.
    pub fn new(
        mut ops: O,
        model: Model,
        schedule: &Schedule,
        stage: usize,
        batches: Arc<dyn Batches>,
        training: Training,
    ) -> Result<Self, BuildError> {
        let (shape, placement) = (schedule.shape(), schedule.placement());
        training.check()?;
        if stage >= shape.stages() {
            return Err(BuildError::NoSuchStage { stage, stages: shape.stages() });
        }
        if let Some(stage) = Layout::empty_shard(model, shape)? {
            return Err(BuildError::EmptyShard { stage, vocabulary: model.vocabulary() });
        }
        let layouts = Layout::by_chunk(model, shape)?;
        let build = |chunk: u16| {
            let layout = layouts[usize::from(chunk)].clone();
            Ok((chunk, Chunk::new(&mut ops, layout, training.seed)?))
        };
        let chunks: Result<Vec<_>, DeviceError> =
            placement.chunks_of(shape, stage).map(build).collect();
        let mut chunks = chunks?;
        let mut counted: Vec<u16> = placement
            .chunks_of(shape, stage)
            .filter(|&chunk| placement.stage(shape, chunk, 0) == stage)
            .collect();
        let mut shard = None;
        if let Some(layout) = Layout::shards(model, shape)?.into_iter().nth(stage) {
            if let (Some(linear), Some(tokens)) = (layout.shard(), layout.shard_tokens()) {
                shard = Some(Shard::new(schedule, stage, model.tokens(), linear, tokens.start));
            }
            chunks.push((SHARD, Chunk::new(&mut ops, layout, training.seed)?));
            counted.push(SHARD);
        }
        Ok(Self {
            chunks,
            counted,
            shard,
            is_shared: placement.twin(shape, stage).is_some(),
            device: Device::new(ops),
            model,
            batches,
            training,
            scale: loss_scale(model, shape.microbatches()),
            step: 0,
            updates: 0,
            recomputed: (0..shape.chunks())
                .map(|chunk| schedule.recomputes(chunk).then(Recomputed::default))
                .collect(),
            kept: HashMap::new(),
            pasts: Pasts::new(1),
            history: None,
            snapshots: Vec::new(),
        })
    }

    /// The same at work on `segments` segments of each sequence, one for each microbatch of `schedule`,
    /// the one it was made for: a segment looks at those before it, and is taken back before them.
    ///
    /// # Errors
    /// Sequences that do not divide into so many, an order in which they do not follow each other, a
    /// schedule that recomputes, or a device without the kernels.
    pub fn in_segments(mut self, segments: u32, schedule: &Schedule) -> Result<Self, BuildError> {
        if segments == 1 {
            return Ok(self);
        }
        if self.recomputed.iter().any(Option::is_some) {
            let what = "a segment cannot be recomputed once others have looked at it".to_owned();
            return Err(BuildError::Segments { segments, what });
        }
        let model = segments::model_of_segment(self.model, schedule, segments)?;
        segments::kernels(&mut self.device.ops)?;
        for (_, chunk) in &mut self.chunks {
            chunk.layout = chunk.layout.clone().on(model);
        }
        let scale = loss_scale(model, schedule.shape().microbatches());
        Ok(Self { model, scale, pasts: Pasts::new(segments), ..self })
    }

    /// The same with weights that change while the pipeline runs, as `updates` of `schedule`, the one it
    /// was made for, say: every microbatch goes back with the version that it came forward with.
    #[must_use]
    pub fn with_updates(self, updates: Updates, schedule: &Schedule) -> Self {
        let scale = loss_scale(self.model, updates.microbatches);
        Self { scale, history: Some(History::new(updates, schedule)), ..self }
    }

    /// The most versions of the weights held at once so far.
    pub fn most_versions(&self) -> usize {
        self.history.as_ref().map_or(1, History::most)
    }

    /// The same where the chunks that recompute do so with these `parts`, by chunk of the model;
    /// everything where none is given.
    #[must_use]
    pub fn recomputing(mut self, parts: &[Recomputed]) -> Self {
        for (own, part) in self.recomputed.iter_mut().zip(parts) {
            *own = own.map(|_| *part);
        }
        self
    }

    /// The bytes held by activations of unfinished microbatches, and their peak so far.
    pub fn activations(&self) -> Activations {
        self.device.activations()
    }

    /// The gradients summed up so far, chunk by chunk.
    ///
    /// # Errors
    /// Whatever stops the device.
    pub fn gradients(&mut self) -> Result<Vec<Parameters>, DeviceError> {
        let ops = &mut self.device.ops;
        let read = |(_, chunk): &(u16, Chunk<O>)| {
            let values = ops.read_sums(&chunk.gradients)?;
            Ok(Parameters { range: chunk.layout.range(), values })
        };
        self.chunks.iter().map(read).collect()
    }

    /// The weights as the optimizer keeps them, chunk by chunk.
    ///
    /// # Errors
    /// Whatever stops the device.
    pub fn weights(&mut self) -> Result<Vec<Parameters>, DeviceError> {
        let ops = &mut self.device.ops;
        let read = |(_, chunk): &(u16, Chunk<O>)| {
            let values = ops.read_sums(&chunk.state.master)?;
            Ok(Parameters { range: chunk.layout.range(), values })
        };
        self.chunks.iter().map(read).collect()
    }

    /// Runs the kernels of `pass` with the version of the weights that it is due.
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

    /// Exchanges the weights of `chunk` with those of an `older` version, if it is one.
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
        let Self {
            device,
            model,
            batches,
            step,
            scale,
            chunks,
            recomputed,
            kept,
            pasts,
            shard,
            ..
        } = self;
        let held = chunks.iter_mut().find(|(held, _)| *held == number);
        let (_, chunk) = held.ok_or_else(|| missing("the chunk of"))?;
        let cell = (number, microbatch);
        let batches = &**batches;
        let (whole, segment) = pasts.place(microbatch);
        let (model, step, scale) = (*model, *step, *scale);
        let job = Job { model, batches, step, microbatch: whole, segment, scale };
        let input = match shard {
            Some(shard) if kind.is_of_vocabulary() => {
                return shard.run(kind, device, chunk, &job).map(|()| None);
            }
            Some(shard) => shard.input(kind, device, chunk, &job)?.or(input),
            None => input,
        };
        let mut past = pasts.take((kind, number, microbatch), chunk.layout.layers().len())?;
        let made = match (kind, kept.remove(&cell)) {
            (Kind::F, None) => {
                let part = recomputed.get(usize::from(number)).copied().flatten();
                let (output, left) = forward(device, chunk, &job, input, (part, &mut past))?;
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
                let (gradient, left) =
                    backward(device, chunk, &job, input, (kind, left, &mut past))?;
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

    /// The kernels it works with.
    #[cfg(feature = "nccl")]
    pub(crate) fn ops_mut(&mut self) -> &mut O {
        &mut self.device.ops
    }

    /// Elements of a value.
    const fn value_len(&self) -> usize {
        self.model.tokens() * self.model.hidden()
    }
}

/// F of `chunk`, and what it keeps: all, or the rest where a part is recomputed.
fn forward<O: Ops>(
    device: &mut Device<O>,
    chunk: &mut Chunk<O>,
    job: &Job<'_>,
    input: Made<O>,
    (part, past): (Option<Recomputed>, &mut Vec<Past<O>>),
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

/// B or BW of `chunk`, and what B leaves for W.
fn backward<O: Ops>(
    device: &mut Device<O>,
    chunk: &mut Chunk<O>,
    job: &Job<'_>,
    gradient: Made<O>,
    (kind, kept, past): (Kind, ChunkForwarded<O>, &mut Vec<Past<O>>),
) -> Result<(Made<O>, Option<Kept<O>>), DeviceError> {
    let (gradient, left) = chunk.backward_input(device, job, kept, gradient, past)?;
    if kind == Kind::B {
        return Ok((gradient, Some(Kept::UntilWeight(left))));
    }
    chunk.backward_weight(device, left)?;
    Ok((gradient, None))
}

impl<O: Ops> Worker for Gpt<O> {
    type Value = O::Handed;

    fn run(
        &mut self,
        pass: Pass,
        input: Option<O::Handed>,
    ) -> Result<Option<O::Handed>, DeviceError> {
        self.device.ops.pace()?;
        let len = self.value_len();
        let input = input.map(|handed| self.device.ops.take(handed)).transpose()?;
        let input = input.map(|tensor| self.device.adopt(tensor, len));
        self.device.ops.stamp()?;
        let made = self.run_kernels(pass, input);
        // Also behind a pass that failed: moments come in pairs.
        let stamped = self.device.ops.stamp();
        let made = made?;
        stamped?;
        let made = made.map(|buffer| self.device.ops.hand(buffer.release())).transpose();
        self.device.end_pass();
        made
    }

    fn settle(&mut self) -> Result<(), DeviceError> {
        self.device.ops.settle()
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

    fn give(&mut self, value: Value, _: usize) -> Result<O::Handed, DeviceError> {
        let none = || DeviceError::NotAtHand { what: "the shard of the output layer".to_owned() };
        let part = self.shard.as_mut().ok_or_else(none)?.share(&mut self.device, value)?;
        self.device.ops.hand(part.release())
    }

    fn receive(&mut self, value: Value, from: usize, part: O::Handed) -> Result<(), DeviceError> {
        let part = self.device.ops.take(part)?;
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
            Some(Kept::UntilBackward(kept)) => movable::bytes(&kept.parts()),
            Some(Kept::UntilWeight(kept)) => movable::bytes(&kept.parts()),
            Some(Kept::Discarded(kept)) => movable::bytes(&kept.parts()),
            None => Bytes(0),
        })
    }

    fn lend(&mut self, forward: Pass, part: CopyPart) -> Result<Box<dyn Offload>, DeviceError> {
        match self.kept.remove(&(forward.chunk, forward.microbatch)) {
            Some(Kept::UntilBackward(kept)) => Ok(Box::new(Offloaded::new(kept, part))),
            _ => Err(DeviceError::NotAtHand { what: format!("what {forward} has kept") }),
        }
    }

    fn take_back(&mut self, forward: Pass, lent: Box<dyn Offload>) -> Result<(), DeviceError> {
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

    fn pack(&mut self, value: O::Handed) -> Result<Vec<u8>, DeviceError> {
        self.device.ops.pack(value)
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<O::Handed, DeviceError> {
        self.device.ops.unpack(bytes)
    }
}

impl<O: Ops> Trainer for Gpt<O> {
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        let ops = &mut self.device.ops;
        let counted = self.chunks.iter().filter(|(number, _)| self.counted.contains(number));
        counted.into_iter().try_fold(Norm::default(), |norm, (_, chunk)| {
            let (squares, is_bad) = ops.norm(&chunk.gradients)?;
            Ok(norm.and(Norm { squares, is_bad }))
        })
    }

    fn shared_bytes(&self) -> usize {
        if self.is_shared { replica::shared_bytes(&self.device.ops, &self.chunks) } else { 0 }
    }

    fn share(&mut self) -> Result<Vec<u8>, DeviceError> {
        if self.is_shared {
            replica::share(&mut self.device.ops, &self.chunks)
        } else {
            Ok(Vec::new())
        }
    }

    fn merge(&mut self, theirs: &[u8]) -> Result<(), DeviceError> {
        match self.is_shared {
            true => replica::merge(&mut self.device.ops, &mut self.chunks, theirs),
            false => Ok(()),
        }
    }

    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        let ops = &mut self.device.ops;
        if self.training.undo == Undo::Snapshot {
            self.snapshots.clear();
            let copies = self.chunks.iter().map(|(_, chunk)| ops.copy_state(&chunk.state));
            self.snapshots = copies.collect::<Result<_, _>>()?;
        }
        if let Some(history) = &mut self.history {
            history.keep(ops, &self.chunks)?;
        }
        self.updates += 1;
        for (_, Chunk { gradients, state, .. }) in &mut self.chunks {
            ops.adamw(self.training.rule, self.updates, scale, gradients, state)?;
        }
        Ok(())
    }

    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        let no_update = || DeviceError::NotAtHand { what: "an update to take back".to_owned() };
        let before = self.updates.checked_sub(1).ok_or_else(no_update)?;
        match self.training.undo {
            Undo::Inverse => {
                let ops = &mut self.device.ops;
                for (_, Chunk { gradients, state, .. }) in &mut self.chunks {
                    ops.adamw_undo(self.training.rule, self.updates, scale, gradients, state)?;
                }
            }
            Undo::Snapshot if self.snapshots.len() != self.chunks.len() => return Err(no_update()),
            Undo::Snapshot => {
                let states = std::mem::take(&mut self.snapshots);
                for ((_, chunk), state) in self.chunks.iter_mut().zip(states) {
                    chunk.state = state;
                }
            }
        }
        self.updates = before;
        Ok(())
    }

    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        self.step = step;
        self.shard.iter_mut().for_each(Shard::clear);
        let ops = &mut self.device.ops;
        self.chunks.iter_mut().try_for_each(|(_, chunk)| chunk.clear_loss(ops))
    }

    fn clear(&mut self) -> Result<(), DeviceError> {
        let ops = &mut self.device.ops;
        self.chunks.iter_mut().try_for_each(|(_, chunk)| ops.clear(&mut chunk.gradients))
    }

    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        let ops = &mut self.device.ops;
        let mut losses = self.chunks.iter().map(|(_, chunk)| chunk.loss(ops));
        losses.find_map(Result::transpose).transpose()
    }
}
