//! Microbatches cut along the sequence (Seq1F1B): queries of a segment attend to the keys and
//! values of the segments before it, whose gradients they add to.
//!
//! Forwards of the segments of a microbatch run in order, backwards in reverse: at the backward of
//! a segment, the accumulated gradients of its keys and values include those of all later segments.

use std::collections::HashMap;

use pipeline::{Kind, Pass, Schedule};

use crate::data::Batch;
use crate::model::attention::{elements, per_head, score_scale};
use crate::model::device::{Buffer, Device};
use crate::model::parts::{Part, Parts};
use crate::model::{BuildError, Model};
use crate::operands::{At, Gemm, Heads};
use crate::ops::Ops;
use crate::segment_kernels::SegmentKernels;
use runtime::DeviceError;

/// A part of the sequences of a microbatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// Its number, from 0.
    pub(crate) index: usize,
    /// Number of segments.
    pub(crate) count: usize,
}

impl Segment {
    /// The whole sequence.
    pub(crate) const WHOLE: Self = Self { index: 0, count: 1 };

    /// The segment of `batch` for segments of the sizes of `model`; all of it, which a later check
    /// refuses, if its length is not that of so many segments.
    pub(crate) fn of(self, batch: Batch, model: Model) -> Batch {
        let (part, tokens) = (model.sequence(), self.count * model.tokens());
        if self.count == 1 || batch.tokens.len() != tokens || batch.targets.len() != tokens {
            return batch;
        }
        let of = |all: &[u32]| -> Vec<u32> {
            let sequences = all.chunks(self.count * part);
            sequences.flat_map(|one| &one[self.index * part..][..part]).copied().collect()
        };
        Batch { tokens: of(&batch.tokens), targets: of(&batch.targets) }
    }
}

/// The segments of a microbatch in one layer so far.
pub(crate) struct Past<O: Ops> {
    /// Keys and values of each segment, `[batch, heads, segment, width]`.
    seen: Vec<[Buffer<O::Tensor>; 2]>,
    /// The accumulated gradients of keys and values, for each segment whose backward is still to
    /// come.
    gradients: Vec<[Buffer<O::Tensor>; 2]>,
}

impl<O: Ops> Default for Past<O> {
    fn default() -> Self {
        Self { seen: Vec::new(), gradients: Vec::new() }
    }
}

/// The activations that the backward of attention needs of one segment: its queries, and its
/// attention weights over all segments up to its own. Keys and values are those of [`Past`].
pub(crate) struct AttendedBehind<O: Ops> {
    q: Buffer<O::Tensor>,
    p: Buffer<O::Tensor>,
}

impl<O: Ops> AttendedBehind<O> {
    /// Adds its buffers to `all`.
    pub(crate) fn parts<'a>(&'a mut self, all: &mut Parts<'a, O>) {
        let Self { q, p } = self;
        all.extend([q, p].map(Part::Tensor));
    }
}

/// State that a stage keeps of the segments of its microbatches.
pub(crate) struct Pasts<O: Ops> {
    count: u32,
    /// By chunk and whole microbatch, the layers of the chunk.
    layers: HashMap<(u16, u32), Vec<Past<O>>>,
}

impl<O: Ops> Pasts<O> {
    /// Microbatches in `count` segments each.
    pub(crate) fn new(count: u32) -> Self {
        Self { count, layers: HashMap::new() }
    }

    /// The whole microbatch, and the segment of it, of microbatch number `microbatch` of the
    /// schedule.
    pub(crate) const fn place(&self, microbatch: u32) -> (u32, Segment) {
        let (index, count) = ((microbatch % self.count) as usize, self.count as usize);
        (microbatch / self.count, Segment { index, count })
    }

    /// Takes out the past of `layers` layers of `chunk` for the microbatch that `microbatch` is a
    /// segment of, if this pass is due; empty where microbatches are whole.
    pub(crate) fn take(
        &mut self,
        kind: Kind,
        chunk: u16,
        microbatch: u32,
        layers: usize,
    ) -> Result<Vec<Past<O>>, DeviceError> {
        if self.count == 1 || kind == Kind::W {
            return Ok(Vec::new());
        }
        let (whole, Segment { index, .. }) = self.place(microbatch);
        let taken = self.layers.remove(&(chunk, whole));
        let past = taken.unwrap_or_else(|| (0..layers).map(|_| Past::default()).collect());
        let due = index + usize::from(kind != Kind::F);
        if past.iter().all(|layer| layer.seen.len() == due) {
            return Ok(past);
        }
        let neighbour = if kind == Kind::F { "the segment before" } else { "the segment behind" };
        let what = format!("{neighbour} {}{chunk}.{microbatch}", kind.name());
        Err(DeviceError::NotAtHand { what })
    }

    /// Puts back the past that [`Pasts::take`] returned.
    pub(crate) fn put(&mut self, chunk: u16, microbatch: u32, past: Vec<Past<O>>) {
        if past.iter().any(|layer| !layer.seen.is_empty()) {
            self.layers.insert((chunk, self.place(microbatch).0), past);
        }
    }

    /// Forgets all microbatches.
    pub(crate) fn clear(&mut self) {
        self.layers.clear();
    }
}

/// A model of one segment of the sequences of `model`, cut into `segments`, if they run through
/// every chunk of `schedule` forward in order and backward in reverse.
pub(crate) fn model_of_segment(
    model: Model,
    schedule: &Schedule,
    segments: u32,
) -> Result<Model, BuildError> {
    let wrong = |what: String| BuildError::Segments { segments, what };
    let (sequence, microbatches) = (model.sequence(), schedule.shape().microbatches());
    if segments == 0 || !sequence.is_multiple_of(segments as usize) {
        return Err(wrong(format!("{sequence} tokens do not divide into them")));
    }
    if !microbatches.is_multiple_of(segments) {
        return Err(wrong(format!("{microbatches} are not whole microbatches")));
    }
    if let Some(pass) = out_of_turn(schedule, segments) {
        return Err(wrong(format!("{pass} does not follow its neighbours")));
    }
    Ok(Model::new(
        model.hidden(),
        model.heads(),
        model.layers(),
        model.vocabulary(),
        sequence / segments as usize,
        model.microbatch_size(),
    )?)
}

/// The first pass of `schedule` that comes before that of the previous segment (F) or of the next
/// one (B).
fn out_of_turn(schedule: &Schedule, segments: u32) -> Option<Pass> {
    let mut seen: HashMap<(u16, u32), u32> = HashMap::new();
    schedule.orders().iter().flat_map(|order| order.passes()).copied().find(|pass| {
        let (whole, index) = (pass.microbatch / segments, pass.microbatch % segments);
        let seen = seen.entry((pass.chunk, whole)).or_default();
        let (due, then) = match pass.kind {
            Kind::F => (index, index + 1),
            Kind::B | Kind::BW => (index + 1, index),
            _ => return false,
        };
        std::mem::replace(seen, then) != due
    })
}

/// The kernels of `ops` for segments.
pub(crate) fn kernels<O: Ops>(
    ops: &mut O,
) -> Result<&mut dyn SegmentKernels<Tensor = O::Tensor>, DeviceError> {
    let missing = || DeviceError::Missing {
        what: "attention over earlier segments on this device".to_owned(),
        cure: "run it on the CPU, or a schedule of whole sequences".to_owned(),
    };
    ops.segment_kernels().ok_or_else(missing)
}

/// Keys (0) or values (1) of all segments so far, concatenated.
fn together<O: Ops>(
    device: &mut Device<O>,
    sizes: Heads,
    past: &Past<O>,
    which: usize,
) -> Result<Buffer<O::Tensor>, DeviceError> {
    let parts: Vec<&O::Tensor> = past.seen.iter().map(|both| &*both[which]).collect();
    let mut all = device.tensor(parts.len() * elements(sizes))?;
    let (heads, each) = (sizes.batch * sizes.heads, sizes.sequence * sizes.width);
    kernels(&mut device.ops)?.join_segments(heads, each, &parts, &mut all)?;
    Ok(all)
}

/// As [`super::attention::forward`], for one segment after those in `past`, which keeps its keys
/// and values.
pub(crate) fn forward<O: Ops>(
    device: &mut Device<O>,
    sizes: Heads,
    qkv: &O::Tensor,
    past: &mut Past<O>,
) -> Result<(Buffer<O::Tensor>, AttendedBehind<O>), DeviceError> {
    let (heads, rows, width) = (sizes.batch * sizes.heads, sizes.sequence, sizes.width);
    let len = elements(sizes);
    let (mut q, mut k, mut v) = (device.tensor(len)?, device.tensor(len)?, device.tensor(len)?);
    device.ops.split_heads(sizes, qkv, [&mut q, &mut k, &mut v])?;
    past.seen.push([k, v]);
    let columns = past.seen.len() * rows;
    let keys = together(device, sizes, past, 0)?;
    let mut p = device.tensor(heads * rows * columns)?;
    let shape = per_head(sizes, rows, columns, width);
    let shape = Gemm { transpose_b: true, scale: score_scale(sizes), ..shape };
    device.ops.gemm(shape, At::start(&q), At::start(&keys), At::start(&mut p))?;
    drop(keys);
    kernels(&mut device.ops)?.causal_softmax_behind(heads, rows, columns, &mut p)?;
    let values = together(device, sizes, past, 1)?;
    let mut mean = device.tensor(len)?;
    let shape = per_head(sizes, rows, width, columns);
    device.ops.gemm(shape, At::start(&p), At::start(&values), At::start(&mut mean))?;
    drop(values);
    let mut merged = device.tensor(len)?;
    device.ops.merge_heads(sizes, &mean, &mut merged)?;
    Ok((merged, AttendedBehind { q, p }))
}

/// As [`super::attention::backward`], for the last segment in `past`: frees its keys and values,
/// and accumulates the gradients of those before it.
pub(crate) fn backward<O: Ops>(
    device: &mut Device<O>,
    sizes: Heads,
    kept: AttendedBehind<O>,
    d_merged: Buffer<O::Tensor>,
    past: &mut Past<O>,
) -> Result<Buffer<O::Tensor>, DeviceError> {
    let (heads, rows, width) = (sizes.batch * sizes.heads, sizes.sequence, sizes.width);
    let len = elements(sizes);
    let columns = past.seen.len() * rows;
    let AttendedBehind { q, p } = kept;
    let mut d_mean = device.tensor(len)?;
    device.ops.unmerge_heads(sizes, &d_merged, &mut d_mean)?;
    drop(d_merged);

    let transposed = Gemm { transpose_a: true, ..per_head(sizes, columns, width, rows) };
    let mut d_values = device.tensor(heads * columns * width)?;
    device.ops.gemm(transposed, At::start(&p), At::start(&d_mean), At::start(&mut d_values))?;
    let values = together(device, sizes, past, 1)?;
    let mut dp = device.tensor(heads * rows * columns)?;
    let shape = Gemm { transpose_b: true, ..per_head(sizes, rows, columns, width) };
    device.ops.gemm(shape, At::start(&d_mean), At::start(&values), At::start(&mut dp))?;
    drop((d_mean, values));
    let scale = score_scale(sizes);
    kernels(&mut device.ops)?.softmax_backward_behind(heads, rows, columns, scale, &p, &mut dp)?;
    drop(p);

    let keys = together(device, sizes, past, 0)?;
    let mut dq = device.tensor(len)?;
    let shape = per_head(sizes, rows, width, columns);
    device.ops.gemm(shape, At::start(&dp), At::start(&keys), At::start(&mut dq))?;
    drop(keys);
    let mut d_keys = device.tensor(heads * columns * width)?;
    device.ops.gemm(transposed, At::start(&dp), At::start(&q), At::start(&mut d_keys))?;
    drop((q, dp));
    let [dk, dv] = add_up(device, sizes, past, &[d_keys, d_values])?;
    past.seen.pop();
    let mut d_qkv = device.tensor(3 * len)?;
    device.ops.join_heads(sizes, [&dq, &dk, &dv], &mut d_qkv)?;
    Ok(d_qkv)
}

/// Adds the gradients of the keys and values of all segments to their accumulators; those of the
/// last segment are then complete, and are returned.
fn add_up<O: Ops>(
    device: &mut Device<O>,
    sizes: Heads,
    past: &mut Past<O>,
    all: &[Buffer<O::Tensor>; 2],
) -> Result<[Buffer<O::Tensor>; 2], DeviceError> {
    let (count, len) = (past.seen.len(), elements(sizes));
    let (heads, each) = (sizes.batch * sizes.heads, sizes.sequence * sizes.width);
    for index in 0..count {
        let mut parts = [device.tensor(len)?, device.tensor(len)?];
        for (part, all) in parts.iter_mut().zip(all) {
            kernels(&mut device.ops)?.segment_of(heads, each, index, count, all, part)?;
        }
        match past.gradients.get_mut(index) {
            None => past.gradients.push(parts),
            Some(sums) => {
                for (part, sum) in parts.iter().zip(sums) {
                    device.ops.add(len, part, sum)?;
                }
            }
        }
    }
    let missing = || DeviceError::NotAtHand { what: "a segment to take back".to_owned() };
    past.gradients.pop().ok_or_else(missing)
}
