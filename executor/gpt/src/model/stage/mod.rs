//! All chunks of one stage, as the stage loop drives them.

mod kept;
mod passes;
mod trainer;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use pipeline::Schedule;

use crate::data::Batches;
use crate::model::chunk::{Chunk, loss_scale};
use crate::model::device::{Activations, Device};
use crate::model::segments::{self, Pasts};
use crate::model::shard::Shard;
use runtime::DeviceError;
use runtime::Updates;

use crate::model::versions::History;
use crate::model::{BuildError, Layout, Model, Recomputed, Training};
use crate::ops::{Moments, Ops};

use self::kept::Kept;

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
    /// The recomputed part of each chunk of the model.
    recomputed: Vec<Option<Recomputed>>,
    /// The chunks whose gradients this stage counts in a norm: of two stages with the same chunk,
    /// the one whose copy runs the first microbatch.
    counted: Vec<u16>,
    /// Whether another stage holds the same chunks.
    is_shared: bool,
    kept: HashMap<(u16, u32), Kept<O>>,
    /// The shard of the output layer, if there is one.
    shard: Option<Shard<O>>,
    pasts: Pasts<O>,
    /// The versions of the weights, where they change while the pipeline runs.
    history: Option<History<O>>,
    snapshots: Vec<Moments<O::Tensor, O::Accumulator>>,
}

/// The chunk number of the output layer's shard.
const SHARD: u16 = u16::MAX;

/// Weights or gradients of a chunk, one number for each parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    /// Their range in the parameter vector of the whole model.
    pub range: Range<usize>,
    /// The numbers.
    pub values: Vec<f64>,
}

impl<O: Ops> Gpt<O> {
    /// Stage `stage` of `schedule`, which trains `model` with the kernels of `ops`. A chunk for
    /// which the schedule has R recomputes everything, unless [`Gpt::recomputing`] limits it.
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

    /// The same for `segments` segments of each sequence, one for each microbatch of `schedule`,
    /// the one that it was built for: a segment attends to those before it, and its backward runs
    /// before theirs.
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

    /// The same with weights that change while the pipeline runs, by `updates` of `schedule`, the
    /// one that it was built for: every backward uses the version of its forward.
    #[must_use]
    pub fn with_updates(self, updates: Updates, schedule: &Schedule) -> Self {
        let scale = loss_scale(self.model, updates.microbatches);
        Self { scale, history: Some(History::new(updates, schedule)), ..self }
    }

    /// Peak number of weight versions held at once so far.
    pub fn most_versions(&self) -> usize {
        self.history.as_ref().map_or(1, History::most)
    }

    /// The same where chunks that recompute do so with these `parts`, by chunk of the model;
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

    /// The gradients accumulated so far, chunk by chunk.
    pub fn gradients(&mut self) -> Result<Vec<Parameters>, DeviceError> {
        let ops = &mut self.device.ops;
        let read = |(_, chunk): &(u16, Chunk<O>)| {
            let values = ops.read_accumulator(&chunk.gradients)?;
            Ok(Parameters { range: chunk.layout.range(), values })
        };
        self.chunks.iter().map(read).collect()
    }

    /// The master weights, chunk by chunk.
    pub fn weights(&mut self) -> Result<Vec<Parameters>, DeviceError> {
        let ops = &mut self.device.ops;
        let read = |(_, chunk): &(u16, Chunk<O>)| {
            let values = ops.read_accumulator(&chunk.state.master)?;
            Ok(Parameters { range: chunk.layout.range(), values })
        };
        self.chunks.iter().map(read).collect()
    }

    /// Its kernels.
    pub(crate) fn ops_mut(&mut self) -> &mut O {
        &mut self.device.ops
    }

    /// Number of elements of a value.
    const fn value_len(&self) -> usize {
        self.model.tokens() * self.model.hidden()
    }
}
