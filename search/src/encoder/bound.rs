//! Lower bounds of a step with an encoder in front.

use pipeline::{Costs, Encoder, EncoderKind, Kind, Nanos, Pass, Slot, Value};
use sim::encoder::Beside;
use sim::timed::{self, Timing};

/// The least time of a step on `stages` devices, wherever encoder and model lie and in any order: all work in equal
/// parts, and the way of the longest microbatch through the encoder, the model and back, without gradients of weights.
/// Transfers are left out. Where microbatches differ, chunks that share an encoder may round a nanosecond off for each
/// of their passes.
#[must_use]
pub fn encoder_bound(costs: &Costs, encoder: &Encoder, stages: usize, microbatches: u32) -> Nanos {
    let (mut work, mut longest) = (0u128, 0u128);
    for microbatch in 0..microbatches {
        let chunks = 0..u16::try_from(costs.chunks().len()).unwrap_or(u16::MAX);
        let times = chunks.map(|chunk| costs.times(chunk, microbatch));
        let mut way = 0;
        for times in times.chain([encoder.times(microbatch)]) {
            // Gradients of weights are on nobody's way.
            work += u128::from(times.forward.0) + u128::from(times.least_backward().0);
            way += u128::from(times.forward.0) + u128::from(times.least_gradient().0);
        }
        longest = longest.max(way);
    }
    nanos(work.div_ceil(stages.max(1) as u128).max(longest))
}

/// The least time of a step in which the passes of the model run in the order of the schedule, and the encoder on any
/// stages: its forwards before F of the first chunk, and its backwards behind B, take at least their work in equal
/// parts, and so does all work together.
pub(super) fn bound_of_order(beside: &Beside<'_>) -> Nanos {
    let Beside { schedule, costs, encoder, .. } = *beside;
    let shape = schedule.shape();
    let entry = schedule.placement().stage(shape, 0, 0);
    let stages = shape.stages() as u128;
    let mut releases = vec![0; shape.microbatches() as usize];
    let (mut work, mut latest) = (0u128, 0u128);
    let firsts = schedule.orders()[entry].slots().flat_map(Slot::passes);
    for pass in firsts.filter(|pass| pass.kind == Kind::F && pass.chunk == 0) {
        let own = u128::from(encoder.pass(EncoderKind::Forward, pass.microbatch).0);
        work += own;
        latest = latest.max(own).max(work.div_ceil(stages));
        releases[pass.microbatch as usize] = nanos(latest).0;
    }
    let timing = Released { costs, releases: &releases };
    let timeline = timed::timeline(schedule, &timing);
    let slots = schedule.orders().iter().flat_map(|order| order.slots());
    let all: u128 = slots.map(|slot| u128::from(costs.of_slot(slot).0)).sum();
    let encoders = (0..schedule.shape().microbatches()).map(|one| both(encoder, one)).sum::<u128>();
    let mut least = nanos((all + encoders).div_ceil(stages));
    for span in timeline.stages.iter().flatten() {
        least = least.max(span.end);
    }
    // Gradients for the encoder, the last one first: all backwards from one on come after it.
    let (mut work, mut longest) = (0u128, 0u128);
    for span in timeline.stages[entry].iter().rev() {
        let ends = span
            .slot
            .passes()
            .filter(|pass| pass.chunk == 0 && matches!(pass.kind, Kind::B | Kind::BW));
        for pass in ends {
            let own = u128::from(encoder.pass(EncoderKind::Backward, pass.microbatch).0);
            (work, longest) = (work + own, longest.max(own));
            let after = work.div_ceil(stages).max(own);
            least = least.max(nanos(u128::from(span.end.0) + after));
        }
    }
    least
}

/// Forward and backward of the encoder for `microbatch`.
fn both(encoder: &Encoder, microbatch: u32) -> u128 {
    let of = |kind| u128::from(encoder.pass(kind, microbatch).0);
    of(EncoderKind::Forward) + of(EncoderKind::Backward)
}

fn nanos(time: u128) -> Nanos {
    Nanos(u64::try_from(time).unwrap_or(u64::MAX))
}

/// The times of a model whose first chunk begins no microbatch before its release.
struct Released<'a> {
    costs: &'a Costs,
    releases: &'a [u64],
}

impl Timing for Released<'_> {
    fn duration(&self, _: usize, pass: Pass, start: u64) -> u64 {
        let waits = match (pass.kind, pass.chunk) {
            // The stage waits for its next slot in any case.
            (Kind::F, 0) => self.releases[pass.microbatch as usize].saturating_sub(start),
            _ => 0,
        };
        waits.saturating_add(self.costs.of(pass).0)
    }

    fn hop(&self, _: Value, from: usize, to: usize, _: u64) -> u64 {
        self.costs.hops().between(from, to).0
    }

    fn collective(&self, value: Value, _: u64) -> u64 {
        self.costs.collectives().of(value).0
    }
}
