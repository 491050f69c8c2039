//! Layers of segments from their times, and durations of schedules of them.

use pipeline::overlap::{
    Chain, Contention, Layer, Overlap, Rule, Segment, SegmentName, Stream, WeightSegment,
};
use pipeline::{Costs, Family, Fault, Nanos, Problem, Schedule, Shape};
use sim::Replay;

/// A segment of a layer: its name, its stream, and its times of F, B and W.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Place {
    name: &'static str,
    stream: Stream,
    times: [Nanos; 3],
}

impl Place {
    /// Compute, with F, B and W.
    pub(in super::super) const fn compute(name: &'static str, times: [Nanos; 3]) -> Self {
        Self { name, stream: Stream::Compute, times }
    }

    pub(in super::super) const fn communication(
        name: &'static str,
        [forward, backward]: [Nanos; 2],
    ) -> Self {
        Self { name, stream: Stream::Communication, times: [forward, backward, Nanos(0)] }
    }

    /// The segment of it that takes `time`, under `contention` if it communicates.
    fn segment(&self, time: Nanos, contention: Contention) -> Result<Segment, Fault> {
        let name: Result<SegmentName, _> = self.name.parse();
        let name = name.map_err(|error| Fault::Segments { what: error.to_string() })?;
        Ok(match self.stream {
            Stream::Compute => Segment::compute(name, time),
            Stream::Communication => Segment::communication(name, time).under(contention),
        })
    }
}

/// A layer of `places`, which F passes in their order and B in the opposite one, each with its W behind it.
pub(in super::super) fn layer(places: &[Place], contention: Contention) -> Result<Layer, Fault> {
    let mut layer = Layer::default();
    for place in places {
        layer.forward.push(place.segment(place.times[0], contention)?);
    }
    for (behind, place) in places.iter().rev().enumerate() {
        layer.backward.push(place.segment(place.times[1], contention)?);
        if place.times[2] > Nanos(0) {
            let segment = place.segment(place.times[2], contention)?;
            layer.weight.push(WeightSegment { segment, behind });
        }
    }
    Ok(layer)
}

/// A chunk of `layers`, with nothing before or behind them.
pub(in super::super) fn chunk(layers: Vec<(Layer, u32)>) -> Result<Chain, Fault> {
    Chain::new(Layer::default(), layers, Layer::default())
}

/// A pipeline whose chunks are chains of segments.
pub(in super::super) struct Pipeline {
    /// Its stages, chunks per stage and microbatches.
    pub(in super::super) shape: [u64; 3],
    /// By chunk, in model order.
    pub(in super::super) chains: Vec<Chain>,
    /// How long a transfer between stages takes.
    pub(in super::super) hop: Nanos,
}

pub(in super::super) struct Step {
    /// From the start of the first pass to the end of the last.
    pub(in super::super) time: Nanos,
    /// The order that took it.
    pub(in super::super) schedule: Schedule,
}

impl Pipeline {
    /// The step of `family` where passes share the streams as `rule` says.
    pub(in super::super) fn step(self, family: Family, rule: Rule) -> Result<Step, Fault> {
        let [stages, chunks, microbatches] = self.shape;
        let shape = Shape::new(stages, chunks, microbatches)?;
        let costs = Costs::overlapped(Overlap::new(self.chains, rule)?, self.hop);
        let problem = Problem::new(shape, costs)?;
        let schedule = family.schedule(&problem)?;
        let time = Replay::new().metrics(&schedule, problem.costs())?.makespan();
        Ok(Step { time, schedule })
    }
}
