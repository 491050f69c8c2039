//! The output layer sharded over all stages (Vocabulary Parallelism, section 4): every stage holds
//! a shard of the rows of W, and S and T of a microbatch run on it.
//!
//! With X the output of the last chunk behind its layer norm, `[tokens, hidden]`, and G the targets,
//! one-hot: S computes P = exp(X W^T - m) on the shard, with m and s the maximum and the sum of each
//! row there. From m and s of all shards comes the factor f = exp(m - M) / S of each, with M and S those
//! of the whole row, so that P f is the softmax. T adds (P f - G)^T X to the gradient of W. The gradient
//! of X is the sum over the shards, in the order of stages, of
//!
//! * two barriers: (P f - G) W, which T makes;
//! * one barrier: (P W) f - G W, of which S makes P W and G W; no pass waits for T.
//!
//! Rows that pad the last shards to the common size have no token: the sums leave them out.

use std::collections::HashMap;

use pipeline::{Bytes, Kind, Schedule, Value, Vocabulary};

use crate::model::chunk::{Chunk, Job};
use crate::model::device::{Buffer, Device, Made};
use crate::model::linear::Linear;
use crate::model::shard_ops::{ShardOps, ShardSizes};
use crate::operands::At;
use crate::ops::Ops;
use runtime::DeviceError;

/// The factors of all shards, and the maximum and the logarithm of the sum of each whole row.
type Merged<O> = (Buffer<<O as Ops>::Tensor>, Buffer<<O as Ops>::Tensor>);

/// State of one microbatch.
struct Work<O: Ops> {
    /// The output of the last chunk.
    x: Option<Buffer<O::Tensor>>,
    kept: Option<Kept<O>>,
    /// Statistics by stage.
    statistics: Vec<Option<Buffer<O::Tensor>>>,
    /// By stage, parts of the gradient of `x`.
    hidden: Vec<Option<Buffer<O::Tensor>>>,
    merged: Option<Merged<O>>,
    /// Number of passes of this stage that will still use `merged`.
    uses: usize,
}

/// Activations that S keeps for T, beside the output of the last chunk.
struct Kept<O: Ops> {
    softmax: Buffer<O::Tensor>,
    statistics: Buffer<O::Tensor>,
    picked: Buffer<O::Tensor>,
    targets: Buffer<O::Tokens>,
}

/// The shard of one stage, with the state of its microbatches.
pub(crate) struct Shard<O: Ops> {
    stage: usize,
    stages: usize,
    /// The stage of the last chunk.
    home: usize,
    has_one_barrier: bool,
    sizes: ShardSizes,
    width: usize,
    work: HashMap<u32, Work<O>>,
}

fn missing(what: &str) -> DeviceError {
    DeviceError::NotAtHand { what: what.to_owned() }
}

fn kernels<O: Ops>(
    device: &mut Device<O>,
) -> Result<&mut dyn ShardOps<O::Tensor, O::Accumulator, O::Tokens>, DeviceError> {
    let none = || missing("the output layer in shards on this device");
    device.ops.shard_ops().ok_or_else(none)
}

impl<O: Ops> Shard<O> {
    /// The shard of `stage` of `schedule`, which `linear` computes from token `first` on.
    pub(crate) fn new(
        schedule: &Schedule,
        stage: usize,
        rows: usize,
        linear: Linear,
        first: usize,
    ) -> Self {
        let (shape, placement) = (schedule.shape(), schedule.placement());
        Self {
            stage,
            stages: shape.stages(),
            home: placement.stage(shape, shape.chunks() - 1, 0),
            has_one_barrier: shape.vocabulary() == Vocabulary::OneBarrier,
            sizes: ShardSizes { rows, columns: linear.outputs, first },
            width: linear.inputs,
            work: HashMap::new(),
        }
    }

    fn work(&mut self, microbatch: u32) -> &mut Work<O> {
        let none = || (0..self.stages).map(|_| None).collect();
        // On the last chunk's stage, with one barrier, the backward uses the statistics too.
        let uses = 1 + usize::from(self.has_one_barrier && self.stage == self.home);
        self.work.entry(microbatch).or_insert_with(|| Work {
            x: None,
            kept: None,
            statistics: none(),
            hidden: none(),
            merged: None,
            uses,
        })
    }

    /// Runs S or T, by `kind`, on `shard`.
    pub(crate) fn run(
        &mut self,
        kind: Kind,
        device: &mut Device<O>,
        shard: &mut Chunk<O>,
        job: &Job<'_>,
    ) -> Result<(), DeviceError> {
        match kind {
            Kind::S => self.before(device, shard, job),
            _ => self.after(device, shard, job),
        }
    }

    /// Keeps `made`, the output of `chunk`, if that is the last chunk; otherwise returns it.
    pub(crate) fn keep(&mut self, chunk: &Chunk<O>, microbatch: u32, made: Made<O>) -> Made<O> {
        if chunk.layout.norm().is_none() {
            return made;
        }
        self.work(microbatch).x = made;
        None
    }

    /// The gradient from the shards for `kind` of `chunk`: for a backward of the last chunk.
    pub(crate) fn input(
        &mut self,
        kind: Kind,
        device: &mut Device<O>,
        chunk: &Chunk<O>,
        job: &Job<'_>,
    ) -> Result<Made<O>, DeviceError> {
        let is_backward = matches!(kind, Kind::B | Kind::BW);
        match is_backward && chunk.layout.norm().is_some() {
            true => self.gradient(device, job).map(Some),
            false => Ok(None),
        }
    }

    /// S.
    fn before(
        &mut self,
        device: &mut Device<O>,
        chunk: &Chunk<O>,
        job: &Job<'_>,
    ) -> Result<(), DeviceError> {
        let (sizes, width, stage) = (self.sizes, self.width, self.stage);
        let linear = chunk.layout.shard().ok_or_else(|| missing("the shard"))?;
        let has_one_barrier = self.has_one_barrier;
        let work = self.work(job.microbatch);
        let x = work.x.as_ref().ok_or_else(|| missing("the output of the last chunk"))?;
        let weights = &chunk.state.weights;
        let mut softmax = linear.forward(device, sizes.rows, weights, x)?;
        let mut statistics = device.tensor(2 * sizes.rows)?;
        let mut picked = device.tensor(sizes.rows)?;
        let targets = device.tokens(&job.targets()?)?;
        let ops = kernels(device)?;
        ops.shard_softmax(sizes, &targets, &mut softmax, &mut statistics, &mut picked)?;
        if has_one_barrier {
            let weighted = linear.backward_input(device, sizes.rows, weights, &softmax)?;
            let len = sizes.rows * width;
            let mut parts = device.tensor(2 * len)?;
            let ops = kernels(device)?;
            ops.copy(len, &weighted, &mut parts)?;
            let table = At { buffer: weights, from: linear.at };
            let to = At { buffer: &mut *parts, from: len };
            ops.target_rows(sizes, width, &targets, table, to)?;
            work.hidden[stage] = Some(parts);
        }
        work.kept = Some(Kept { softmax, statistics, picked, targets });
        Ok(())
    }

    /// T.
    fn after(
        &mut self,
        device: &mut Device<O>,
        chunk: &mut Chunk<O>,
        job: &Job<'_>,
    ) -> Result<(), DeviceError> {
        let (sizes, stage) = (self.sizes, self.stage);
        let linear = chunk.layout.shard().ok_or_else(|| missing("the shard"))?;
        self.merge(device, job.microbatch)?;
        let has_two_barriers = !self.has_one_barrier;
        let work = self.work(job.microbatch);
        let (Some(x), Some(kept), Some((factors, whole))) =
            (work.x.take(), work.kept.take(), &work.merged)
        else {
            return Err(missing("what S has kept"));
        };
        let Kept { mut softmax, picked, targets, statistics } = kept;
        drop(statistics);
        let ops = kernels(device)?;
        if let Some(loss) = &mut chunk.loss {
            ops.shard_loss(sizes, job.scale, &targets, (whole, &picked), loss)?;
        }
        let own = At { buffer: &**factors, from: stage * sizes.rows };
        ops.shard_gradient(sizes, job.scale, &targets, own, &mut softmax)?;
        if has_two_barriers {
            let weights = &chunk.state.weights;
            let hidden = linear.backward_input(device, sizes.rows, weights, &softmax)?;
            work.hidden[stage] = Some(hidden);
        }
        linear.backward_weight(device, sizes.rows, &mut chunk.gradients, &x, &softmax)?;
        self.used(job.microbatch);
        Ok(())
    }

    /// The gradient of the last chunk's output, from the parts of all stages.
    fn gradient(
        &mut self,
        device: &mut Device<O>,
        job: &Job<'_>,
    ) -> Result<Buffer<O::Tensor>, DeviceError> {
        let (sizes, width, has_one_barrier) = (self.sizes, self.width, self.has_one_barrier);
        if has_one_barrier {
            self.merge(device, job.microbatch)?;
        }
        let work = self.work(job.microbatch);
        let mut hidden = Vec::new();
        for part in &mut work.hidden {
            hidden.push(part.take().ok_or_else(|| missing("a part of the hidden gradient"))?);
        }
        let len = sizes.rows * width;
        if !has_one_barrier {
            let mut parts = hidden.into_iter();
            let mut sum = parts.next().ok_or_else(|| missing("a part of the hidden gradient"))?;
            for part in parts {
                device.ops.add(len, &part, &mut sum)?;
            }
            return Ok(sum);
        }
        let Some((factors, _)) = &work.merged else { return Err(missing("the statistics")) };
        let mut sum = device.tensor(len)?;
        // A difference of a number with itself is 0 only if it is finite, which these may not be.
        kernels(device)?.zero(len, &mut sum)?;
        for (shard, parts) in hidden.iter().enumerate() {
            let own = At { buffer: &**factors, from: shard * sizes.rows };
            kernels(device)?.add_hidden(sizes, width, job.scale, own, parts, &mut sum)?;
        }
        self.used(job.microbatch);
        Ok(sum)
    }

    /// Merges the statistics of all shards, unless that is done.
    fn merge(&mut self, device: &mut Device<O>, microbatch: u32) -> Result<(), DeviceError> {
        let (rows, stage, stages) = (self.sizes.rows, self.stage, self.stages);
        let work = self.work(microbatch);
        if work.merged.is_some() {
            return Ok(());
        }
        let mut all = Vec::with_capacity(stages);
        for (at, theirs) in work.statistics.iter().enumerate() {
            let own = work.kept.as_ref().filter(|_| at == stage).map(|kept| &kept.statistics);
            let one = own.or(theirs.as_ref());
            all.push(&**one.ok_or_else(|| missing("the statistics of a shard"))?);
        }
        let (mut factors, mut whole) = (device.tensor(stages * rows)?, device.tensor(2 * rows)?);
        kernels(device)?.merge_statistics(rows, &all, &mut factors, &mut whole)?;
        work.statistics.iter_mut().for_each(|one| *one = None);
        work.merged = Some((factors, whole));
        Ok(())
    }

    /// Counts down the passes that use the statistics.
    fn used(&mut self, microbatch: u32) {
        let work = self.work(microbatch);
        work.uses = work.uses.saturating_sub(1);
        if work.uses == 0 {
            work.merged = None;
        }
    }

    /// The part of `value` that this stage sends to another.
    pub(crate) fn share(
        &mut self,
        device: &mut Device<O>,
        value: Value,
    ) -> Result<Buffer<O::Tensor>, DeviceError> {
        let (rows, width, stage) = (self.sizes.rows, self.width, self.stage);
        let work = self.work(value.microbatch());
        let (from, len) = match value {
            Value::HiddenGradient { .. } => {
                return work.hidden[stage].take().ok_or_else(|| missing("a hidden gradient"));
            }
            Value::Statistics { .. } => (work.kept.as_ref().map(|kept| &kept.statistics), 2 * rows),
            Value::Output { .. } | Value::Gradient { .. } => (work.x.as_ref(), rows * width),
        };
        let from = from.ok_or_else(|| missing("what the shards share"))?;
        let mut copy = device.tensor(len)?;
        kernels(device)?.copy(len, from, &mut copy)?;
        Ok(copy)
    }

    /// Number of elements of a part of `value`.
    pub(crate) const fn len(&self, value: Value) -> usize {
        match value {
            Value::Statistics { .. } => 2 * self.sizes.rows,
            Value::HiddenGradient { .. } if self.has_one_barrier => {
                2 * self.sizes.rows * self.width
            }
            _ => self.sizes.rows * self.width,
        }
    }

    /// Receives the part of stage `from` in `value`.
    pub(crate) fn receive(&mut self, value: Value, from: usize, part: Buffer<O::Tensor>) {
        let work = self.work(value.microbatch());
        match value {
            Value::Statistics { .. } => work.statistics[from] = Some(part),
            Value::HiddenGradient { .. } => work.hidden[from] = Some(part),
            Value::Output { .. } | Value::Gradient { .. } => work.x = Some(part),
        }
    }

    /// The bytes that S keeps of `microbatch` until T.
    pub(crate) fn kept(&self, microbatch: u32) -> Bytes {
        let work = self.work.get(&microbatch);
        let kept = work.and_then(|work| Some((work.x.as_ref()?, work.kept.as_ref()?)));
        Bytes(kept.map_or(0, |(x, Kept { softmax, statistics, picked, targets })| {
            let tensors = [x, softmax, statistics, picked];
            tensors.into_iter().map(Buffer::bytes).sum::<u64>() + targets.bytes()
        }))
    }

    /// Discards all microbatches.
    pub(crate) fn clear(&mut self) {
        self.work.clear();
    }
}
