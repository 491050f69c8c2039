//! Passes as chains of segments, which share the two streams of a device: DualPipe's pairs (arXiv 2412.19437,
//! section 3.2.1) and those of Megatron-LM (`--overlap-moe-expert-parallel-comm`).

use std::rc::Rc;

use pipeline::overlap::{
    Chain, Contention, Interleaving, Layer, Overlap, Rule, Segment, SegmentName, WeightSegment,
    Weights,
};
use pipeline::{Costs, Family, Fault, Nanos, PassTimes};

use super::Costing;
use crate::layer::{self, LayerTimes, Segments};
use crate::machine::Machine;
use crate::model::{LayerCounts, Recompute};
use crate::setup::Unfit;
use crate::times::nanos;

/// Layers of a chunk with equal segments, and their number.
pub(super) type Runs = Vec<(Segments, u64)>;

impl<'a> Costing<'a> {
    /// The layers of each chunk: the first ones, which are computed again by the first of `recompute`, and
    /// those behind them.
    pub(super) fn runs(
        &self,
        stages: &[usize],
        chunks: &[[LayerCounts; 2]],
        recompute: [Recompute; 2],
    ) -> Vec<Runs> {
        if self.inputs.recipe.software.streams.is_none() {
            return Vec::new();
        }
        let layers = recompute.map(|recompute| self.layers_by_stage(recompute));
        let last = stages.len() - 1;
        let one = |(chunk, (&stage, parts)): (usize, (&usize, &[LayerCounts; 2]))| {
            let of = |(counts, layers): (&LayerCounts, &Vec<Rc<[LayerTimes]>>)| -> Runs {
                let own = layers[stage].iter().zip(counts.iter()).filter(|(_, count)| *count > 0);
                own.map(|(layer, count)| (layer.segments, count)).collect()
            };
            let own = parts.iter().zip(&layers).flat_map(of);
            own.chain(self.mtp_run(self.machines[stage], self.mtp_in(chunk, last))).collect()
        };
        stages.iter().zip(chunks).enumerate().map(one).collect()
    }

    /// `count` layers of multi-token prediction, if there are any, without the projection before them.
    fn mtp_run(&self, machine: &'a Machine, count: u64) -> Option<(Segments, u64)> {
        let model = self.inputs.model;
        let layer = || layer::layer(&self.task(machine), model.mtp_kind());
        (count > 0).then(|| (layer().segments, count))
    }

    /// `costs` whose passes are the segments of the layers in `runs`, by chunk; the rest of their time
    /// is outside of every pair. Without shards, unless they share no streams.
    pub(super) fn on_streams(&self, costs: Costs, runs: &[Runs]) -> Result<Costs, Unfit> {
        let Some(contention) = self.inputs.recipe.software.streams else {
            return Ok(self.with_shards(costs));
        };
        let chains: Result<Vec<Chain>, Fault> = costs
            .chunks()
            .iter()
            .zip(runs)
            .map(|(times, runs)| chain(runs, *times, contention))
            .collect();
        let rule = self.rule();
        let overlap = chains.and_then(|chains| Overlap::new(chains, rule));
        let overlap = overlap.map_err(|_| Unfit::TooLarge)?;
        Ok(self.with_shards(Costs::overlapped(overlap, Nanos(0)).with_hops(costs.hops().clone())))
    }

    /// How passes share the streams: in the published order, W where it fits. A backward without a forward
    /// beside it hides its communication behind its own W in Megatron-LM; DualPipe runs it in one piece.
    fn rule(&self) -> Rule {
        let lone = !matches!(self.setup.family, Family::DualPipe | Family::DualPipeV);
        Rule { interleaving: Interleaving::Published, weights: Weights::Delayed, lone }
    }
}

/// The chain of a chunk with the layers `runs`, whose passes take `whole` with all that is not a layer.
fn chain(runs: &Runs, whole: PassTimes, contention: Contention) -> Result<Chain, Fault> {
    let mut layers = Vec::with_capacity(runs.len());
    for (segments, count) in runs {
        let count = u32::try_from(*count).unwrap_or(u32::MAX);
        layers.push((segments_of(segments, contention)?, count));
    }
    let own = Chain::new(Layer::default(), layers.clone(), Layer::default())?.times();
    let rest = |whole: Nanos, own: Nanos| Nanos(whole.0.saturating_sub(own.0));
    let times = [
        rest(whole.forward, own.forward),
        rest(whole.backward_input, own.backward_input),
        rest(whole.backward_weight, own.backward_weight),
    ];
    let tail = places(&[(name("ends")?, times)], Contention::NONE);
    Chain::new(Layer::default(), layers, tail)
}

/// A layer: attention, tokens sent, experts, tokens sent back; backward the other way round.
fn segments_of(segments: &Segments, contention: Contention) -> Result<Layer, Fault> {
    let compute = |seconds: [f64; 3]| seconds.map(nanos);
    let [forward, backward] = segments.travel.map(|seconds| nanos(seconds / 2.0));
    let travel = [forward, backward, Nanos(0)];
    let has_experts = travel != [Nanos(0); 3];
    let mut all = vec![(name("attention")?, compute(segments.attention))];
    if has_experts {
        all.push((name("dispatch")?, travel));
    }
    all.push((name("experts")?, compute(segments.experts)));
    if has_experts {
        all.push((name("combine")?, travel));
    }
    Ok(places(&all, contention))
}

/// A layer of these segments, each with its times of F, B and W; all-to-alls are under `contention`.
fn places(all: &[(SegmentName, [Nanos; 3])], contention: Contention) -> Layer {
    let segment = |name: &SegmentName, time: Nanos| match name.as_str() {
        "dispatch" | "combine" => Segment::communication(name.clone(), time).under(contention),
        _ => Segment::compute(name.clone(), time),
    };
    let forward = all.iter().map(|(name, times)| segment(name, times[0])).collect();
    let mut layer = Layer { forward, ..Layer::default() };
    for (behind, (name, times)) in all.iter().rev().enumerate() {
        layer.backward.push(segment(name, times[1]));
        if times[2] > Nanos(0) {
            layer.weight.push(WeightSegment { segment: segment(name, times[2]), behind });
        }
    }
    layer
}

fn name(text: &'static str) -> Result<SegmentName, Fault> {
    text.parse().map_err(|error: pipeline::overlap::SegmentNameError| Fault::Segments {
        what: error.to_string(),
    })
}
