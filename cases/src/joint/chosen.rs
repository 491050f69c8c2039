//! The setting that a choice makes.

use pipeline::{Bytes, LayerLayout, Limit, Share};
use search::Choice;

use super::Joint;
use question::keys::Keys;
use question::scenario::Setting;
use question::values::passes::Recomputed;

impl Joint<'_> {
    /// The question with `choice` made.
    pub fn setting(&self, choice: &Choice) -> Option<Setting> {
        let mut setting = self.setting.clone();
        let keys = &mut setting.keys;
        keys.chunks = Some(u64::from(choice.chunks_per_stage));
        keys.schedule = None;
        if !choice.layers.is_empty() {
            let layout = LayerLayout::of(choice.layers.clone()).ok()?;
            keys.layout = Some(match choice.mtp {
                Some(chunk) => layout.with_mtp(chunk, self.mtp)?,
                None => layout,
            });
            keys.layers = None;
            self.deal(keys, choice);
        }
        if self.space.treatments > 1 {
            let all = self.recomputed(choice);
            keys.recompute = all.iter().any(|one| *one != Recomputed::Nothing).then_some(all);
        }
        if let Some(limits) = &self.limits {
            let resident = self.resident(choice);
            let left = limits.iter().zip(resident).map(|(limit, resident)| {
                // A stage that is full without activations lacks memory like any other.
                Limit::Bytes(Bytes(limit.0.saturating_sub(resident.0).max(1)))
            });
            keys.memory_limit = Some(left.collect());
        }
        Some(setting)
    }

    /// Gives each chunk its own bytes where the ends of the model, or layers of multi-token prediction, hold
    /// more than the layers.
    fn deal(&self, keys: &mut Keys, choice: &Choice) {
        let mtp = self.mtp;
        let (head, tail) = (self.keys.activation_head, self.keys.activation_tail);
        if mtp == 0 && head.is_none() && tail.is_none() {
            return;
        }
        let stages = self.space.stages as u64;
        let all = choice.layers.iter().sum::<u64>() + mtp;
        let own =
            |chunk: usize| choice.layers[chunk] + if choice.mtp == Some(chunk) { mtp } else { 0 };
        let chunks = choice.layers.len();
        let dealt = |mean: Bytes| -> Vec<Bytes> {
            (0..chunks).map(|chunk| mean.part(own(chunk).saturating_mul(stages), all)).collect()
        };
        for list in [&mut keys.activation, &mut keys.activation_until_weight] {
            let Some([mean]) = list.as_deref() else { continue };
            let mut each = dealt(*mean);
            each[0] += head.unwrap_or_default();
            each[chunks - 1] += tail.unwrap_or_default();
            *list = Some(each);
        }
        if let Some([mean]) = keys.activation_kept.as_deref() {
            keys.activation_kept = Some(dealt(*mean));
        }
        for list in [&mut keys.recompute_time, &mut keys.recompute_again, &mut keys.offload_time] {
            let Some([mean]) = list.as_deref() else { continue };
            let mean = *mean;
            let part = |chunk| mean.part(own(chunk).saturating_mul(stages), all);
            *list = Some((0..chunks).map(part).collect());
        }
    }

    /// The bytes that each stage holds all the time with `choice`.
    #[must_use]
    pub fn resident(&self, choice: &Choice) -> Vec<Bytes> {
        let chunks = choice.activations.len();
        let layer = self.keys.resident_layer.unwrap_or_default();
        let mut held = vec![Bytes(0); self.space.stages];
        let shape =
            pipeline::Shape::new(self.space.stages as u64, u64::from(choice.chunks_per_stage), 1);
        let Ok(shape) = shape else { return held };
        for (chunk, at) in (0..shape.chunks()).zip(0..chunks) {
            let mtp = if choice.mtp == Some(at) { self.mtp } else { 0 };
            let layers = choice.layers.get(at).copied().unwrap_or(0).saturating_add(mtp);
            let ends =
                [(at == 0, self.keys.resident_head), (at + 1 == chunks, self.keys.resident_tail)];
            let ends = ends.into_iter().filter(|(there, _)| *there).filter_map(|(_, bytes)| bytes);
            let own =
                ends.fold(layer.0.saturating_mul(layers), |all, end| all.saturating_add(end.0));
            let stage = &mut held[choice.placement.stage(shape, chunk, 0)];
            *stage = Bytes(stage.0.saturating_add(own));
        }
        held
    }
}
