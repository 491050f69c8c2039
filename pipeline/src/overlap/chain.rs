//! The chain of segments of a chunk: what its F, B and W do one after the other.

use super::segment::{Part, Segment, Stream};
use crate::costs::PassTimes;
use crate::fault::Fault;
use crate::units::{Bytes, Nanos};

/// The most layers of a chunk that is cut into segments.
pub const MAX_LAYERS: u64 = 1024;
/// The most segments of a layer in one part.
const MAX_SEGMENTS: usize = 32;

/// A layer of the model, or what stands before or behind the layers of a chunk: the embedding, the output
/// layer.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Layer {
    /// The segments of F, first to last.
    pub forward: Vec<Segment>,
    /// Those of B, first to last.
    pub backward: Vec<Segment>,
    /// Those of W, first to last. Each follows a segment of B of this layer.
    pub weight: Vec<WeightSegment>,
}

/// Work for the weights, all of it compute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WeightSegment {
    /// The work.
    pub segment: Segment,
    /// Position in B of the segment whose gradient it needs.
    pub behind: usize,
}

impl Layer {
    /// Whether it has no segments.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.forward.is_empty() && self.backward.is_empty() && self.weight.is_empty()
    }

    /// Its segments of `part`.
    pub fn of(&self, part: Part) -> impl Iterator<Item = &Segment> {
        let (passes, weight): (&[Segment], &[WeightSegment]) = match part {
            Part::F => (&self.forward, &[]),
            Part::B => (&self.backward, &[]),
            Part::W => (&[], &self.weight),
        };
        passes.iter().chain(weight.iter().map(|one| &one.segment))
    }

    /// The same with every segment changed.
    pub(super) fn map(&self, mut change: impl FnMut(Part, &Segment) -> Segment) -> Self {
        let forward = self.forward.iter().map(|one| change(Part::F, one)).collect();
        let backward = self.backward.iter().map(|one| change(Part::B, one)).collect();
        let weight = self.weight.iter().map(|one| {
            let segment = change(Part::W, &one.segment);
            WeightSegment { segment, behind: one.behind }
        });
        Self { forward, backward, weight: weight.collect() }
    }

    fn check(&self) -> Result<(), Fault> {
        let wrong = |what: String| Err(Fault::Segments { what });
        let most = self.forward.len().max(self.backward.len()).max(self.weight.len());
        if most > MAX_SEGMENTS {
            return wrong(format!(
                "a layer has {most} segments in one part: at most {MAX_SEGMENTS}"
            ));
        }
        for WeightSegment { segment, behind } in &self.weight {
            if segment.stream != Stream::Compute {
                return wrong(format!(
                    "the segment {} of W is not on the compute stream",
                    segment.name
                ));
            }
            if *behind >= self.backward.len() {
                return wrong(format!("the segment {} of W follows no segment of B", segment.name));
            }
        }
        Ok(())
    }
}

/// The segments of a chunk: what stands before its layers, the layers in model order, and what stands
/// behind them. A forward goes up, a backward down. What is not a layer stands outside the interleaving
/// of a pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    head: Layer,
    /// Runs of like layers.
    layers: Vec<(Layer, u32)>,
    tail: Layer,
}

impl Chain {
    /// A chain from its parts, valid from the moment it exists.
    ///
    /// # Errors
    /// [`Fault::Segments`] if there are too many of something, or W is not on the compute stream behind a
    /// segment of B; [`Fault::Overflow`] if the times add up to more than a clock can show.
    pub fn new(head: Layer, layers: Vec<(Layer, u32)>, tail: Layer) -> Result<Self, Fault> {
        let count: u64 = layers.iter().map(|(_, count)| u64::from(*count)).sum();
        if count > MAX_LAYERS {
            let what = format!("a chunk has {count} layers of segments: at most {MAX_LAYERS}");
            return Err(Fault::Segments { what });
        }
        let chain = Self { head, layers, tail };
        chain.parts().try_for_each(|(layer, _)| layer.check())?;
        let all = chain.parts().flat_map(|(layer, count)| {
            let segments = Part::ALL.into_iter().flat_map(|part| layer.of(part));
            segments.map(move |one| u128::from(one.time.0) * u128::from(count))
        });
        crate::costs::check_sum("the segments", all.sum())?;
        Ok(chain)
    }

    /// Head, runs of layers and tail, with how often each stands there.
    fn parts(&self) -> impl Iterator<Item = (&Layer, u32)> {
        let layers = self.layers.iter().map(|(layer, count)| (layer, *count));
        std::iter::once((&self.head, 1)).chain(layers).chain(std::iter::once((&self.tail, 1)))
    }

    /// The segments before the layers.
    #[must_use]
    pub const fn head(&self) -> &Layer {
        &self.head
    }

    /// The segments after the layers.
    #[must_use]
    pub const fn tail(&self) -> &Layer {
        &self.tail
    }

    /// The layers one by one, in model order.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = &Layer> {
        self.layers.iter().flat_map(|(layer, count)| (0..*count).map(move |_| layer))
    }

    /// How long F, B and W take with all their segments one after the other.
    #[must_use]
    pub fn times(&self) -> PassTimes {
        let of = |part| self.time(part, |_| true);
        PassTimes::new(of(Part::F), of(Part::B), of(Part::W))
    }

    /// The work of `part` on `stream`.
    #[must_use]
    pub fn work(&self, part: Part, stream: Stream) -> Nanos {
        self.time(part, |segment| segment.stream == stream)
    }

    fn time(&self, part: Part, counts: impl Fn(&Segment) -> bool) -> Nanos {
        let of = |layer: &Layer| -> Nanos {
            layer.of(part).filter(|one| counts(one)).map(|one| one.time).sum()
        };
        self.parts().map(|(layer, count)| of(layer) * u64::from(count)).sum()
    }

    /// Whether any segment takes time on the communication stream.
    #[must_use]
    pub fn communicates(&self) -> bool {
        let busy = |layer: &Layer| {
            let mut all = Part::ALL.into_iter().flat_map(|part| layer.of(part));
            all.any(|one| one.stream == Stream::Communication && one.time > Nanos(0))
        };
        self.parts().any(|(layer, _)| busy(layer))
    }

    /// Whether any segment is to move bytes over the wires of a cluster.
    #[must_use]
    pub fn moves_bytes(&self) -> bool {
        let moves =
            |one: &Segment| one.stream == Stream::Communication && one.bytes > Some(Bytes(0));
        self.parts().any(|(layer, _)| Part::ALL.into_iter().any(|part| layer.of(part).any(moves)))
    }

    /// Number of segments that `part` has.
    #[must_use]
    pub fn segments(&self, part: Part) -> u64 {
        self.parts().map(|(layer, count)| layer.of(part).count() as u64 * u64::from(count)).sum()
    }

    /// The same with every segment changed as `change` says; its stream must stay.
    pub(crate) fn map(&self, mut change: impl FnMut(Part, &Segment) -> Segment) -> Self {
        let mut of = |layer: &Layer| layer.map(&mut change);
        let head = of(&self.head);
        let layers = self.layers.iter().map(|(layer, count)| (of(layer), *count)).collect();
        Self { head, layers, tail: of(&self.tail) }
    }

    /// The same with the communication taking no time.
    #[must_use]
    pub fn without_communication(&self) -> Self {
        self.map(|_, segment| match segment.stream {
            Stream::Compute => segment.clone(),
            Stream::Communication => Segment {
                time: Nanos(0),
                bytes: segment.bytes.map(|_| Default::default()),
                ..segment.clone()
            },
        })
    }

    /// The same at another pace, so that F, B and W take `times`: every segment by the same factor, and
    /// a part that has no time yet by compute of its own behind the layers.
    #[must_use]
    pub fn at_pace(&self, times: PassTimes) -> Self {
        let old = self.times();
        let pairs = |part| match part {
            Part::F => (old.forward, times.forward),
            Part::B => (old.backward_input, times.backward_input),
            Part::W => (old.backward_weight, times.backward_weight),
        };
        if old == times {
            return self.clone();
        }
        // Each segment in full, so that roundings can be spread: the sums must be exact.
        let layers = self.layers().map(|layer| (layer.clone(), 1)).collect();
        let mut chain = Self { layers, ..self.clone() };
        let mut done = [(0u128, 0u64); 3];
        chain = chain.map(|part, segment| {
            let (before, after) = pairs(part);
            let (so_far, given) = &mut done[part as usize];
            *so_far += u128::from(segment.time.0);
            let all =
                (*so_far * u128::from(after.0)).checked_div(u128::from(before.0)).unwrap_or(0);
            let all = u64::try_from(all).unwrap_or(u64::MAX);
            let time = Nanos(all - *given);
            *given = all;
            Segment { time, ..segment.clone() }
        });
        for part in Part::ALL {
            let (before, after) = pairs(part);
            if before == Nanos(0) && after > Nanos(0) {
                chain.tail.add(part, after);
            }
        }
        chain
    }
}

impl Layer {
    /// Adds `time` of compute to `part`.
    fn add(&mut self, part: Part, time: Nanos) {
        let Ok(name) = "rest".parse() else { return };
        let segment = Segment::compute(name, time);
        match part {
            Part::F => self.forward.push(segment),
            Part::B => self.backward.push(segment),
            Part::W => {
                if self.backward.is_empty() {
                    self.backward.push(Segment { time: Nanos(0), ..segment.clone() });
                }
                let behind = self.backward.len() - 1;
                self.weight.push(WeightSegment { segment, behind });
            }
        }
    }
}
