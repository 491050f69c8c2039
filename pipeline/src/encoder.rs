//! An encoder in front of the model: its work for a microbatch, in layers, and where it stands in an order.
//!
//! The forward of the encoder for microbatch m ends before F(0, m) begins, and its backward begins when B(0, m) or
//! BW(0, m) has ended; a transfer lies between where they run on different stages. The layers of a pass run one
//! after the other, on one stage.

use crate::costs::{Costs, MicrobatchWork, PassTimes};
use crate::fault::Fault;
use crate::units::{Bytes, Nanos};

/// The most layers of an encoder.
pub const MAX_ENCODER_LAYERS: u32 = 1000;

/// What an encoder does for each microbatch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoder {
    /// The times of all its layers, as those of a chunk of their own.
    costs: Costs,
    layers: u32,
    transfer: Nanos,
    activation: Bytes,
}

/// The direction of a pass of the encoder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EncoderKind {
    /// Forward.
    Forward,
    /// Whole backward: no pass waits for its gradients.
    Backward,
}

/// Layers of a pass of the encoder that run one after the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EncoderRun {
    /// Forward or backward.
    pub kind: EncoderKind,
    /// The microbatch.
    pub microbatch: u32,
    /// The number of layers of the pass that have run before.
    pub first: u32,
    /// The number of layers that run.
    pub layers: u32,
}

impl Encoder {
    /// An encoder of `layers` equal layers which take `times` in all for one microbatch, and keep `activation`
    /// from forward to backward; `transfer` is how long its output takes to the first stage, and the gradient back.
    ///
    /// # Errors
    /// [`Fault::EncoderLayers`] without layers, or for more than [`MAX_ENCODER_LAYERS`].
    pub fn new(
        times: PassTimes,
        layers: u64,
        transfer: Nanos,
        activation: Bytes,
    ) -> Result<Self, Fault> {
        let number = u32::try_from(layers).ok();
        let number = number.filter(|number| (1..=MAX_ENCODER_LAYERS).contains(number));
        let layers = number.ok_or(Fault::EncoderLayers { layers })?;
        Ok(Self { costs: Costs::new(vec![times], Nanos(0)), layers, transfer, activation })
    }

    /// The same with microbatches of unequal `work`, such as unequal numbers of images.
    #[must_use]
    pub fn with_microbatch_work(self, work: MicrobatchWork) -> Self {
        Self { costs: self.costs.with_microbatch_work(work), ..self }
    }

    /// The work of each microbatch, where they differ.
    #[must_use]
    pub fn microbatch_work(&self) -> Option<&MicrobatchWork> {
        self.costs.microbatch_work()
    }

    /// The times of all layers where the work of a microbatch is 1.
    #[must_use]
    pub fn nominal(&self) -> PassTimes {
        self.costs.chunks().first().copied().unwrap_or_default()
    }

    /// The times of all layers for the mean microbatch.
    #[must_use]
    pub fn mean(&self) -> PassTimes {
        let mean = self.costs.clone().of_mean_microbatch();
        mean.chunks().first().copied().unwrap_or_default()
    }

    /// The number of layers.
    #[must_use]
    #[inline]
    pub const fn layers(&self) -> u32 {
        self.layers
    }

    /// How long its output takes to the first stage, and the gradient back.
    #[must_use]
    #[inline]
    pub const fn transfer(&self) -> Nanos {
        self.transfer
    }

    /// Bytes that a microbatch holds from the start of its forward to the end of its backward.
    #[must_use]
    #[inline]
    pub const fn activation(&self) -> Bytes {
        self.activation
    }

    /// Whether no weight of it is trained, so that it has no backward.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.nominal().whole_backward() == Nanos(0)
    }

    /// The times of all layers for `microbatch`.
    ///
    /// # Panics
    /// If the work of no such microbatch is known.
    #[must_use]
    #[inline]
    pub fn times(&self, microbatch: u32) -> PassTimes {
        self.costs.times(0, microbatch)
    }

    /// How long all layers of a pass for `microbatch` take.
    ///
    /// # Panics
    /// If the work of no such microbatch is known.
    #[must_use]
    #[inline]
    pub fn pass(&self, kind: EncoderKind, microbatch: u32) -> Nanos {
        let times = self.times(microbatch);
        match kind {
            EncoderKind::Forward => times.forward,
            EncoderKind::Backward => times.whole_backward(),
        }
    }

    /// How long `run` takes: layers are equal, to the next whole nanosecond of their sum.
    ///
    /// # Panics
    /// If the work of no such microbatch is known.
    #[must_use]
    #[inline]
    pub fn time(&self, run: EncoderRun) -> Nanos {
        let all = self.pass(run.kind, run.microbatch);
        part(all, run.first + run.layers, self.layers) - part(all, run.first, self.layers)
    }

    /// Checks that the work of `microbatches` microbatches is known, and that their times can be added up.
    ///
    /// # Errors
    /// If they are not, or too long for the clock.
    pub fn check(&self, microbatches: u32) -> Result<(), Fault> {
        self.costs.check(crate::shape::Shape::new(1, 1, u64::from(microbatches))?)
    }
}

/// The time of the first `layers` of `of` layers that take `all`, rounded down.
fn part(all: Nanos, layers: u32, of: u32) -> Nanos {
    let part = u128::from(all.0) * u128::from(layers) / u128::from(of.max(1));
    Nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_add_up_to_their_pass() {
        let times = PassTimes::new(Nanos(100), Nanos(70), Nanos(31));
        let encoder = Encoder::new(times, 7, Nanos(0), Bytes(0)).unwrap();
        for (kind, all) in [(EncoderKind::Forward, 100), (EncoderKind::Backward, 101)] {
            let layer =
                |first| encoder.time(EncoderRun { kind, microbatch: 0, first, layers: 1 }).0;
            assert_eq!((0..7).map(layer).sum::<u64>(), all);
            let most = (0..7).map(layer).max().unwrap();
            assert!(most <= all.div_ceil(7));
        }
    }

    #[test]
    fn an_encoder_without_a_backward_is_frozen() {
        let frozen = PassTimes::new(Nanos(5), Nanos(0), Nanos(0));
        assert!(Encoder::new(frozen, 1, Nanos(0), Bytes(0)).unwrap().is_frozen());
        assert!(Encoder::new(frozen, 0, Nanos(0), Bytes(0)).is_err());
        assert!(
            Encoder::new(frozen, u64::from(MAX_ENCODER_LAYERS) + 1, Nanos(0), Bytes(0)).is_err()
        );
        let fault = Encoder::new(frozen, 1 << 40, Nanos(0), Bytes(0)).unwrap_err();
        assert!(fault.to_string().contains("1099511627776"), "{fault}");
    }
}
