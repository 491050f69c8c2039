//! Time of the compute and the communication stream of each device in the slots of a run, where passes are chains
//! of segments ([`pipeline::overlap`]).

use std::collections::HashMap;
use std::sync::Arc;

use pipeline::overlap::{Composition, SegmentSpan, Stream};
use pipeline::{Costs, Nanos, Order, Pass, Slot, Span};

/// Time of both streams of a stage while it is busy. Work without segments, such as R, is compute.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamTimes {
    /// Time in slots: [`Self::computing`] and [`Self::exposed`].
    pub busy: Nanos,
    /// Busy time of the compute stream.
    pub computing: Nanos,
    /// The part of [`Self::computing`] by which concurrent communication slows compute down.
    pub stretched: Nanos,
    /// Busy time of the communication stream.
    pub communicating: Nanos,
    /// Exposed communication: the part of [`Self::communicating`] during which the compute stream is idle.
    pub exposed: Nanos,
}

impl StreamTimes {
    /// Communication hidden behind compute.
    #[must_use]
    pub const fn hidden(&self) -> Nanos {
        Nanos(self.communicating.0.saturating_sub(self.exposed.0))
    }

    /// The sum of both; saturates.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |of: fn(&Self) -> Nanos| Nanos(of(&self).0.saturating_add(of(&other).0));
        Self {
            busy: sum(|one| one.busy),
            computing: sum(|one| one.computing),
            stretched: sum(|one| one.stretched),
            communicating: sum(|one| one.communicating),
            exposed: sum(|one| one.exposed),
        }
    }

    /// The same where `busy` is as long as given and everything in proportion; what is exposed is
    /// rounded down.
    #[must_use]
    pub fn at_pace(self, busy: Nanos) -> Self {
        if busy == self.busy {
            return self;
        }
        let part = |time: Nanos| scaled(time, busy, self.busy);
        let exposed = part(self.exposed);
        Self {
            busy,
            computing: busy - exposed,
            stretched: part(self.stretched),
            communicating: part(self.communicating),
            exposed,
        }
    }

    /// Of a slot that takes `busy`, by its composition.
    fn of(composition: &Composition, busy: Nanos) -> Self {
        let on = |stream| composition.spans.iter().filter(move |one| one.segment.stream == stream);
        let length = |span: &SegmentSpan| span.end - span.start;
        let work: Nanos = on(Stream::Compute).map(|span| span.segment.time).sum();
        let exposed = composition.exposed.min(busy);
        Self {
            busy,
            computing: busy - exposed,
            stretched: Nanos(composition.computing.0.saturating_sub(work.0)),
            communicating: on(Stream::Communication).map(length).sum::<Nanos>().max(exposed),
            exposed,
        }
    }
}

/// `time` of something that takes `of`, if it takes `whole` instead; rounded down.
fn scaled(time: Nanos, whole: Nanos, of: Nanos) -> Nanos {
    let scaled = u128::from(time.0) * u128::from(whole.0) / u128::from(of.0.max(1));
    Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// The slot that takes as long as `slot`, whatever its microbatches: that of microbatch 0.
#[must_use]
pub const fn kind(slot: Slot) -> Slot {
    const fn first(pass: Pass) -> Pass {
        Pass { microbatch: 0, ..pass }
    }
    match slot {
        Slot::One(pass) => Slot::One(first(pass)),
        Slot::Pair(one, other) => Slot::Pair(first(one), first(other)),
    }
}

/// A slot at nominal pace.
#[derive(Clone)]
struct Known {
    times: StreamTimes,
    composition: Option<Arc<Composition>>,
}

/// The slots of costs with an overlap, each looked up once.
pub struct Streams<'a> {
    costs: &'a Costs,
    /// By [`kind`].
    known: HashMap<Slot, Known>,
}

impl<'a> Streams<'a> {
    /// Those of `costs`, if the segments of their passes are known.
    #[must_use]
    pub fn of(costs: &'a Costs) -> Option<Self> {
        costs.overlap().map(|_| Self { costs, known: HashMap::new() })
    }

    fn known(&mut self, slot: Slot) -> &Known {
        let costs = self.costs;
        self.known.entry(kind(slot)).or_insert_with(|| {
            let busy = costs.of_slot(slot);
            let composition = costs.overlap().and_then(|overlap| overlap.composition(slot));
            let times = match &composition {
                Some(one) => StreamTimes::of(one, busy),
                None => StreamTimes { busy, computing: busy, ..StreamTimes::default() },
            };
            Known { times, composition }
        })
    }

    /// Stream times of `slot` at nominal pace.
    ///
    /// # Panics
    /// If the costs have no such chunk.
    pub fn slot(&mut self, slot: Slot) -> StreamTimes {
        self.known(slot).times
    }

    /// Stream times summed over all slots of `order` at nominal pace.
    ///
    /// # Panics
    /// As [`Self::slot`].
    pub fn order(&mut self, order: &Order) -> StreamTimes {
        order.slots().map(|slot| self.slot(slot)).fold(StreamTimes::default(), StreamTimes::and)
    }

    /// Stream times summed over `spans`, each at its own pace.
    ///
    /// # Panics
    /// As [`Self::slot`].
    pub fn spans(&mut self, spans: &[Span]) -> StreamTimes {
        let of = |span: &Span| self.slot(span.slot).at_pace(span.end - span.start);
        spans.iter().map(of).fold(StreamTimes::default(), StreamTimes::and)
    }

    /// When the segments of `slot` run at nominal pace, from its start; none of work without segments.
    ///
    /// # Panics
    /// As [`Self::slot`].
    pub fn composition(&mut self, slot: Slot) -> Option<Arc<Composition>> {
        self.known(slot).composition.clone()
    }

    /// When the segments of the slot of `span` run, at its pace, on the clock of the run: in the order
    /// in which they come to their streams. What has no segments comes behind them.
    ///
    /// # Panics
    /// As [`Self::slot`].
    pub fn segments(&mut self, span: &Span) -> Vec<SegmentSpan> {
        let Known { times, composition } = self.known(span.slot);
        let (length, nominal) = (span.end - span.start, times.busy);
        let at = |time: Nanos| span.start + scaled(time.min(nominal), length, nominal);
        let placed = |one: &SegmentSpan| SegmentSpan {
            start: at(one.start),
            end: at(one.end),
            ..one.clone()
        };
        composition.iter().flat_map(|one| &one.spans).map(placed).collect()
    }
}

#[cfg(test)]
mod tests;
