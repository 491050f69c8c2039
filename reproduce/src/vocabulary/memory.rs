//! The memory of tables 5 and 6: parameters, activations at the peak, and the working memory of a pass.
//!
//! A device holds 16 bytes per parameter, which are weights and gradients of 16 bits and three numbers
//! of 32 bits of the optimizer (at sequence 2048 and 4096 the same bytes are left when the part that
//! grows with the sequence is taken off), and 34 bytes per layer and number of an activation. The
//! working memory of a pass is fitted to the runs of sequence 2048 that `Run::fits_memory` names: bytes
//! per number of an activation, more of them where the vocabulary is in shards and where the backward
//! is split, and bytes per logit of a shard and of the whole.

use super::least_squares::least_squares;

/// Bytes per parameter of weights, gradients and optimizer state, gradients of 16 bits.
const BYTES_PER_PARAMETER: f64 = 16.0;
/// Bytes held per layer, token and hidden element from F to B, where attention keeps no scores.
pub(super) const BYTES_HELD: f64 = 34.0;
pub(super) const GB: f64 = 1_073_741_824.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    pub(super) parameters: f64,
    /// Microbatches times layers.
    pub(super) layers: f64,
    /// The numbers of an activation, s h.
    pub(super) activation: f64,
    /// Logits of a microbatch, of a shard of the output layer or of the whole.
    pub(super) logits: f64,
    pub(super) in_shards: bool,
    pub(super) splits_backward: bool,
}

/// Working memory of a pass, in bytes per number of an activation: at least, in shards, with a split
/// backward; and per logit of a shard and of the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkingMemory([f64; 5]);

impl Device {
    fn certain(&self) -> f64 {
        BYTES_PER_PARAMETER * self.parameters + BYTES_HELD * self.layers * self.activation
    }

    fn factors(&self) -> [f64; 5] {
        let of = |is: bool, figure: f64| if is { figure } else { 0.0 };
        [
            self.activation,
            of(self.in_shards, self.activation),
            of(self.splits_backward, self.activation),
            of(self.in_shards, self.logits),
            of(!self.in_shards, self.logits),
        ]
    }
}

impl WorkingMemory {
    /// Fitted to devices with their measured bytes, so that relative errors count.
    pub(super) fn fitted(devices: impl Iterator<Item = (Device, f64)>) -> Option<Self> {
        let rows = devices.map(|(device, bytes)| {
            (device.factors().map(|factor| factor / bytes), 1.0 - device.certain() / bytes)
        });
        least_squares(rows).map(Self)
    }

    /// The bytes of `device` at its peak.
    pub(super) fn bytes(&self, device: &Device) -> f64 {
        let works_in = device.factors().into_iter().zip(self.0);
        device.certain() + works_in.map(|(factor, bytes)| factor * bytes).sum::<f64>()
    }

    pub(super) fn in_words(&self) -> String {
        let Self([least, shards, split, of_shard, of_whole]) = self;
        format!(
            "fitted to the memory of BASELINE, VOCAB-1 and VOCAB-2 of 1F1B on 8 GPUs and of V-Half on 16, \
             sequence 2048:\n\
             a pass works in {least:.0} bytes per number of an activation, {shards:.0} more in shards, \
             {split:.0} more where the backward is split; in {of_shard:.1} bytes per logit of a shard, {of_whole:.1} \
             of the whole\n"
        )
    }
}
