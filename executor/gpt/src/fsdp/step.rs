//! One microbatch: its samples run forward and backward through every unit of the model.

use std::time::{Duration, Instant};

use crate::cpu::Cpu;
use crate::data::{Batches, Random};
use crate::model::{Buffer, Device, Embedding, Forwarded, Head, Layer, Model};
use crate::ops::Ops;
use runtime::DeviceError;

use super::failure::Failure;
use super::owner::whole;
use super::plan::Plan;
use super::units::Units;

type Core = Cpu<f32>;
type Tensor = Buffer<Vec<f32>>;

/// Communication of parameters and gradients, unit by unit.
pub(super) trait Exchange {
    /// UNSHARD: all parameters of `unit`. The caller drops them after use, which is the RESHARD.
    fn unshard(&mut self, unit: usize) -> Result<Vec<f32>, Failure>;

    /// REDUCE_GRAD: accumulates `gradients` of all parameters of `unit` on their owners.
    fn reduce_grad(&mut self, unit: usize, gradients: Vec<i64>) -> Result<(), Failure>;
}

/// The device and minibatch of a microbatch, and its loss scale.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) rank: usize,
    pub(super) minibatch: u32,
    /// 1 / (tokens of the minibatch).
    pub(super) scale: f32,
}

/// A core that computes samples of any length.
pub(super) struct Computer {
    device: Device<Core>,
    model: Model,
    seed: u64,
    units: Units,
    /// Compute time so far.
    pub(super) busy: Duration,
}

/// A sample in flight.
struct Sample {
    model: Model,
    tokens: Buffer<Vec<u32>>,
    targets: Vec<u32>,
    /// The input of the next unit, or its gradient.
    x: Tensor,
    kept: Vec<Forwarded<Core>>,
}

impl Computer {
    pub(super) fn new(plan: &Plan, units: &Units) -> Self {
        let device = Device::new(Core::new());
        let (model, seed, units) = (plan.model, plan.seed, units.clone());
        Self { device, model, seed, units, busy: Duration::ZERO }
    }

    /// Forward and backward of `samples`, given by number and length. Returns the loss share of
    /// each. Samples do not attend to each other.
    pub(super) fn microbatch(
        &mut self,
        exchange: &mut impl Exchange,
        place: Place,
        samples: &[(u32, usize)],
    ) -> Result<Vec<f64>, Failure> {
        let layers = self.model.layers();
        let weights = exchange.unshard(0)?;
        let mut samples =
            self.timed(place, |this| this.embed(&weights, place.minibatch, samples))?;
        for unit in 1..=layers {
            let weights = exchange.unshard(unit)?;
            self.timed(place, |this| this.forward(&weights, &mut samples))?;
        }
        let weights = exchange.unshard(layers + 1)?;
        let (losses, gradients) =
            self.timed(place, |this| this.head(&weights, &mut samples, place.scale))?;
        exchange.reduce_grad(layers + 1, checked(gradients, place)?)?;
        for unit in (1..=layers).rev() {
            let weights = exchange.unshard(unit)?;
            let gradients = self.timed(place, |this| this.backward(&weights, &mut samples))?;
            exchange.reduce_grad(unit, checked(gradients, place)?)?;
        }
        let gradients = self.timed(place, |this| this.embed_backward(&samples))?;
        exchange.reduce_grad(0, checked(gradients, place)?)?;
        Ok(losses)
    }

    fn timed<T>(
        &mut self,
        place: Place,
        work: impl FnOnce(&mut Self) -> Result<T, DeviceError>,
    ) -> Result<T, Failure> {
        let begin = Instant::now();
        let done = work(self);
        self.busy += begin.elapsed();
        done.map_err(|error| Failure::Device { rank: place.rank, error })
    }

    /// The model for samples of `length` tokens. Its units have the same parameters, except for the
    /// positions beyond that length.
    fn of_length(&self, length: usize) -> Result<Model, DeviceError> {
        let Self { model, .. } = self;
        let sizes = (model.hidden(), model.heads(), model.layers(), model.vocabulary());
        let (hidden, heads, layers, vocabulary) = sizes;
        Model::new(hidden, heads, layers, vocabulary, length, 1)
            .map_err(|error| DeviceError::NotAtHand { what: error.to_string() })
    }

    fn embed(
        &mut self,
        weights: &Vec<f32>,
        minibatch: u32,
        samples: &[(u32, usize)],
    ) -> Result<Vec<Sample>, DeviceError> {
        let mut begun = Vec::with_capacity(samples.len());
        for &(number, length) in samples {
            let model = self.of_length(length)?;
            let batch = Random::new(model, self.seed).batch(minibatch, number);
            let tokens = self.device.tokens(&batch.tokens)?;
            let x = Embedding::new(model, 0).forward(&mut self.device, weights, &tokens)?;
            begun.push(Sample { model, tokens, targets: batch.targets, x, kept: Vec::new() });
        }
        Ok(begun)
    }

    fn forward(&mut self, weights: &Vec<f32>, samples: &mut [Sample]) -> Result<(), DeviceError> {
        for sample in samples {
            let x = self.take(&mut sample.x)?;
            let layer = Layer::new(sample.model, 0);
            let (y, kept) = layer.forward(&mut self.device, weights, x)?;
            sample.x = y;
            sample.kept.push(kept);
        }
        Ok(())
    }

    fn backward(
        &mut self,
        weights: &Vec<f32>,
        samples: &mut [Sample],
    ) -> Result<GradientSums, DeviceError> {
        let mut sums = GradientSums::new(weights.len());
        for sample in samples {
            let dy = self.take(&mut sample.x)?;
            let layer = Layer::new(sample.model, 0);
            let kept = sample.kept.pop();
            let kept =
                kept.ok_or_else(|| DeviceError::NotAtHand { what: "a forward".to_owned() })?;
            let mut own = self.device.ops.accumulator(weights.len())?;
            let (dx, kept) = layer.backward_input(&mut self.device, weights, &mut own, kept, dy)?;
            layer.backward_weight(&mut self.device, &mut own, kept)?;
            sample.x = dx;
            sums.add(&own);
        }
        Ok(sums)
    }

    fn head(
        &mut self,
        weights: &Vec<f32>,
        samples: &mut [Sample],
        scale: f32,
    ) -> Result<(Vec<f64>, GradientSums), DeviceError> {
        let mut sums = GradientSums::new(weights.len());
        let mut losses = Vec::with_capacity(samples.len());
        for sample in samples {
            let x = self.take(&mut sample.x)?;
            let head = Head::new(sample.model, 0);
            let device = &mut self.device;
            let (mut loss, mut own) =
                (device.ops.accumulator(1)?, device.ops.accumulator(weights.len())?);
            let targets = device.tokens(&sample.targets)?;
            let kept = head.forward(device, weights, x, targets, scale, &mut loss)?;
            let (dx, kept) = head.backward_input(device, weights, &mut own, kept, scale)?;
            head.backward_weight(device, &mut own, &kept)?;
            sample.x = dx;
            sums.add(&own);
            losses.push(loss.first().copied().map_or(0.0, f64::from));
        }
        Ok((losses, sums))
    }

    fn embed_backward(&mut self, samples: &[Sample]) -> Result<GradientSums, DeviceError> {
        let len = self.units.range(0).len();
        let mut sums = GradientSums::new(len);
        for sample in samples {
            let mut own = self.device.ops.accumulator(len)?;
            let embedding = Embedding::new(sample.model, 0);
            embedding.backward(&mut self.device, &mut own, &sample.tokens, &sample.x)?;
            sums.add(&own);
        }
        Ok(sums)
    }

    /// Takes the tensor out of a sample, and leaves an empty one.
    fn take(&mut self, x: &mut Tensor) -> Result<Tensor, DeviceError> {
        Ok(std::mem::replace(x, self.device.tensor(0)?))
    }
}

/// The accumulated gradients of a unit over the samples of a microbatch.
struct GradientSums {
    all: Vec<i64>,
    is_bad: bool,
}

impl GradientSums {
    fn new(len: usize) -> Self {
        Self { all: vec![0; len], is_bad: false }
    }

    /// Accumulates the gradients of a sample, each rounded separately.
    fn add(&mut self, of_sample: &[f32]) {
        for (sum, &gradient) in self.all.iter_mut().zip(of_sample) {
            match whole(gradient) {
                Some(gradient) => *sum = sum.saturating_add(gradient),
                None => self.is_bad = true,
            }
        }
    }
}

fn checked(sums: GradientSums, place: Place) -> Result<Vec<i64>, Failure> {
    let Place { rank, minibatch, .. } = place;
    if sums.is_bad { Err(Failure::Gradient { rank, minibatch }) } else { Ok(sums.all) }
}
