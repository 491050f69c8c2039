//! Times the parts of a model as stages run them: the same calls, fresh buffers, several layers with
//! weights of their own one after the other, and more than one microbatch in flight all the time, so
//! that no part finds its weights or activations in caches where a stage would not, and memory comes
//! from what earlier microbatches freed, as in the steady part of a schedule.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use executor::{
    AdamW, Backwarded, Batches, Buffer, Device, DeviceError, Embedding, Forwarded, Head,
    HeadBackwarded, HeadForwarded, Layout, Model, Moments, Ops, Random, initial,
};

use crate::clock::Marks;
use crate::sample::Source;

/// Layers run one after the other; a sample of a layer is the mean over them.
pub const LAYERS: usize = 4;
/// Microbatches in flight when a backward begins.
const IN_FLIGHT: usize = 2;
/// Series of [`Parts`]: F, B and W of a layer, of the embeddings, of the head.
pub const SERIES: usize = 9;

/// Where the series of a part begin.
const LAYER: usize = 0;
const EMBEDDING: usize = 3;
const HEAD: usize = 6;

/// All parts of a model of [`LAYERS`] layers on a device, to be timed.
pub struct Parts<O: Ops> {
    device: Device<O>,
    model: Model,
    layout: Layout,
    ends: (Embedding, Head),
    state: Moments<O::Tensor, O::Accumulator>,
    gradients: O::Accumulator,
    loss: O::Accumulator,
    batches: Random,
    microbatch: u32,
    in_flight: VecDeque<Kept<O>>,
    marks: Marks,
    began: Instant,
}

/// The activations that F keeps for B.
struct Kept<O: Ops> {
    tokens: Buffer<O::Tokens>,
    layers: Vec<Forwarded<O>>,
    head: HeadForwarded<O>,
}

/// The activations that B leaves for W.
struct Left<O: Ops> {
    layers: Vec<Backwarded<O>>,
    head: HeadBackwarded<O>,
}

/// The memory needed to time a model of that shape, in bytes: weights, master weights, two moments
/// and gradients, and the activations of the microbatches in flight twice over.
#[must_use]
pub fn bytes(layout: &Layout, microbatch: u64, element_bytes: usize) -> u64 {
    let parameters = (layout.parameters() as u64).saturating_mul(element_bytes as u64 + 16);
    parameters.saturating_add(microbatch.saturating_mul(2 * IN_FLIGHT as u64))
}

impl<O: Ops> Parts<O> {
    /// The parts of `model`, which must have [`LAYERS`] layers, on the device of `ops`.
    pub fn new(mut ops: O, model: Model) -> Result<Self, DeviceError> {
        let layout = Layout::whole(model);
        let (Some(embedding), Some(head)) = (layout.embedding(), layout.head()) else {
            return Err(DeviceError::NotAtHand { what: "an end of the model".to_owned() });
        };
        let len = layout.parameters();
        let state = initial(&mut ops, &layout, 0)?;
        let (gradients, loss) = (ops.accumulator(len)?, ops.accumulator(1)?);
        Ok(Self {
            device: Device::new(ops),
            model,
            layout,
            ends: (embedding, head),
            state,
            gradients,
            loss,
            batches: Random::new(model, 0),
            microbatch: 0,
            in_flight: VecDeque::new(),
            marks: Marks::new(),
            began: Instant::now(),
        })
    }

    /// Parameters of all parts together.
    pub const fn parameters(&self) -> usize {
        self.layout.parameters()
    }

    fn mark(&mut self) -> Result<(), DeviceError> {
        self.marks.mark(&mut self.device.ops)
    }

    #[allow(clippy::cast_possible_truncation)] // Kernels take their factors as f32.
    fn scale(&self) -> f32 {
        (1.0 / self.model.tokens() as f64) as f32
    }

    /// F: embeddings, layers, head, with marks before, between and behind.
    fn forward(&mut self) -> Result<Kept<O>, DeviceError> {
        let (embedding, head) = self.ends;
        let microbatch = self.microbatch;
        self.microbatch = microbatch.wrapping_add(1);
        let scale = self.scale();
        self.mark()?;
        let tokens = self.device.tokens(&self.batches.batch(0, microbatch).tokens)?;
        let mut x = embedding.forward(&mut self.device, &self.state.weights, &tokens)?;
        self.mark()?;
        let mut layers = Vec::with_capacity(self.layout.layers().len());
        for layer in self.layout.layers() {
            let (y, kept) = layer.forward(&mut self.device, &self.state.weights, x)?;
            layers.push(kept);
            x = y;
        }
        self.mark()?;
        let targets = self.device.tokens(&self.batches.batch(0, microbatch).targets)?;
        let (weights, loss) = (&self.state.weights, &mut self.loss);
        let head = head.forward(&mut self.device, weights, x, targets, scale, loss)?;
        self.mark()?;
        Ok(Kept { tokens, layers, head })
    }

    /// B: head, layers, embeddings, likewise.
    fn backward_input(&mut self, kept: Kept<O>) -> Result<Left<O>, DeviceError> {
        let (embedding, head) = self.ends;
        let scale = self.scale();
        self.mark()?;
        let Kept { tokens, layers, head: kept } = kept;
        let (weights, sums) = (&self.state.weights, &mut self.gradients);
        let (mut dy, head) = head.backward_input(&mut self.device, weights, sums, kept, scale)?;
        self.marks.mark(&mut self.device.ops)?;
        let mut left = Vec::with_capacity(layers.len());
        for (layer, kept) in self.layout.layers().iter().zip(layers).rev() {
            let (dx, kept) = layer.backward_input(&mut self.device, weights, sums, kept, dy)?;
            left.push(kept);
            dy = dx;
        }
        self.marks.mark(&mut self.device.ops)?;
        embedding.backward(&mut self.device, sums, &tokens, &dy)?;
        drop((tokens, dy));
        self.mark()?;
        Ok(Left { layers: left, head })
    }

    /// W: head, layers, and nothing for the embeddings, likewise.
    fn backward_weight(&mut self, left: Left<O>) -> Result<(), DeviceError> {
        self.mark()?;
        let Left { layers, head: kept } = left;
        self.ends.1.backward_weight(&mut self.device, &mut self.gradients, &kept)?;
        drop(kept);
        self.mark()?;
        for (layer, kept) in self.layout.layers().iter().rev().zip(layers) {
            layer.backward_weight(&mut self.device, &mut self.gradients, kept)?;
        }
        self.mark()?;
        self.mark()
    }
}

impl<O: Ops> Source for Parts<O> {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        while self.in_flight.len() < IN_FLIGHT - 1 {
            let kept = self.forward()?;
            self.in_flight.push_back(kept);
            self.marks.read(&mut self.device.ops)?;
        }
        let kept = self.forward()?;
        self.in_flight.push_back(kept);
        if let Some(kept) = self.in_flight.pop_front() {
            let left = self.backward_input(kept)?;
            self.backward_weight(left)?;
        }
        let marks = self.marks.read(&mut self.device.ops)?;
        let layers = self.layout.layers().len() as u64;
        for (pass, marks) in marks.chunks_exact(4).enumerate() {
            let order = if pass == 0 { [EMBEDDING, LAYER, HEAD] } else { [HEAD, LAYER, EMBEDDING] };
            for (part, ends) in order.into_iter().zip(marks.windows(2)) {
                let share = if part == LAYER { layers } else { 1 };
                series[part + pass].push(ends[1].saturating_sub(ends[0]) / share);
            }
        }
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

/// The optimizer over all parameters of [`Parts`]: one series.
pub struct OptimizerSteps<O: Ops> {
    parts: Parts<O>,
    step: u32,
    began: Instant,
}

impl<O: Ops> OptimizerSteps<O> {
    /// The same buffers, now for the optimizer.
    pub fn new(parts: Parts<O>) -> Self {
        Self { parts, step: 0, began: Instant::now() }
    }
}

impl<O: Ops> Source for OptimizerSteps<O> {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        self.step += 1;
        self.parts.mark()?;
        let Parts { device, gradients, state, .. } = &mut self.parts;
        device.ops.adamw(AdamW::default(), self.step, 1.0, gradients, state)?;
        self.parts.mark()?;
        let marks = self.parts.marks.read(&mut self.parts.device.ops)?;
        series[0].extend(marks.chunks_exact(2).map(|ends| ends[1].saturating_sub(ends[0])));
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}
