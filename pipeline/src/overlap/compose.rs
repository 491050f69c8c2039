//! The composition of the chains of a slot: when each segment runs on its stream.
//!
//! Both streams are first in, first out, and a segment starts when the one before it on its stream has
//! ended and so has what it needs of its own chain. While both streams run, compute runs at rate
//! `1 - hold` and communication at rate `1/slow` ([`super::Contention`]); alone each runs at full
//! rate. Without contention a composition is exact; with it the clock counts millionths of a
//! nanosecond, and the ends are rounded up once.

use super::chain::{Chain, Layer};
use super::execution::{Execution, Item, Pace, Program, TICKS};
use super::interleaving::{Interleaving, Place, published};
use super::rule::{Rule, Weights};
use super::segment::{Part, Segment, Stream};
use crate::fault::Fault;
use crate::units::Nanos;

/// A segment of a slot, and when it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentSpan {
    /// The segment.
    pub segment: Segment,
    /// Forward, backward for the input, or for the weights.
    pub part: Part,
    /// Layer of its chunk, from 0; none for a segment before or after the layers.
    pub layer: Option<u32>,
    /// From the start of the slot.
    pub start: Nanos,
    /// From the start of the slot.
    pub end: Nanos,
}

/// When the segments of a slot run, from its start, where they are not held up from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Composition {
    /// Duration of the slot.
    pub duration: Nanos,
    /// All segments in the order in which they come to their streams.
    pub spans: Vec<SegmentSpan>,
    /// How long the communication stream runs while the compute stream does not: communication that is not
    /// hidden.
    pub exposed: Nanos,
    /// How long the compute stream runs, stretched by what communication takes from it.
    pub computing: Nanos,
    /// No order of these segments takes less, without contention: the longer stream, or the longer of the
    /// two chains.
    pub bound: Nanos,
    /// Whether no other order is shorter without contention: of [`Interleaving::Best`] where the search was
    /// exhausted, and wherever the bound is met.
    pub is_best: bool,
}

impl Composition {
    /// Nothing.
    pub(super) const fn empty() -> Self {
        let zero = Nanos(0);
        Self {
            duration: zero,
            spans: Vec::new(),
            exposed: zero,
            computing: zero,
            bound: zero,
            is_best: true,
        }
    }

    /// This, and then `next`.
    pub(super) fn then(mut self, next: Self) -> Self {
        let begin = self.duration;
        let later = next.spans.into_iter().map(|span| SegmentSpan {
            start: begin + span.start,
            end: begin + span.end,
            ..span
        });
        self.spans.extend(later);
        self.duration += next.duration;
        self.exposed += next.exposed;
        self.computing += next.computing;
        self.bound += next.bound;
        self.is_best = false;
        self
    }
}

/// The segments of up to two chains, with what each waits for.
pub(super) struct Items<'a> {
    pub(super) all: Vec<Item<'a>>,
    /// The order in which they come to the streams by the published rule or a line.
    pub(super) order: Vec<usize>,
    weights: Weights,
    /// The last item of F and of B.
    last: [Option<usize>; 2],
    /// W items that the next item of B waits for, where W is done with B.
    held: Vec<usize>,
}

impl<'a> Items<'a> {
    /// Those of `forward` and `backward`, either of which may be missing, with W where the backward is
    /// whole.
    pub(super) fn new(
        [forward, backward]: [Option<&'a Chain>; 2],
        with_weight: bool,
        rule: &Rule,
    ) -> Result<Self, Fault> {
        let mut items = Self {
            all: Vec::new(),
            order: Vec::new(),
            weights: rule.weights,
            last: [None; 2],
            held: Vec::new(),
        };
        items.outside(forward.map(Chain::head), None, with_weight);
        items.outside(None, backward.map(Chain::tail), with_weight);
        let ups: Vec<&Layer> = forward.into_iter().flat_map(Chain::layers).collect();
        let downs: Vec<&Layer> = backward.into_iter().flat_map(|one| one.layers().rev()).collect();
        for at in 0..ups.len().max(downs.len()) {
            let (up, down) = (ups.get(at).copied(), downs.get(at).copied());
            let number = |at: usize| u32::try_from(at).ok();
            let numbers = [number(at), down.and_then(|_| number(downs.len() - 1 - at))];
            let places = match &rule.interleaving {
                Interleaving::Line(line) => line.places(up, down, with_weight)?,
                _ => published(up, down, with_weight),
            };
            items.add([up, down], numbers, &places);
        }
        items.outside(None, backward.map(Chain::head), with_weight);
        items.outside(forward.map(Chain::tail), None, with_weight);
        if rule.interleaving == Interleaving::None {
            items.one_by_one();
        }
        Ok(items)
    }

    /// Adds the segments outside the layers, unpaired.
    fn outside(&mut self, up: Option<&'a Layer>, down: Option<&'a Layer>, with_weight: bool) {
        self.add([up, down], [None; 2], &published(up, down, with_weight));
    }

    fn add(
        &mut self,
        [up, down]: [Option<&'a Layer>; 2],
        [up_number, down_number]: [Option<u32>; 2],
        places: &[Place],
    ) {
        // By position in B of this layer, its item.
        let mut of_backward = vec![usize::MAX; down.map_or(0, |layer| layer.backward.len())];
        for &(part, at) in places {
            let item = self.all.len();
            let (segment, layer, needs) = match (part, up, down) {
                (Part::F, Some(up), _) => {
                    let before = self.last[0].replace(item);
                    (&up.forward[at], up_number, before.into_iter().collect())
                }
                (Part::B, _, Some(down)) => {
                    of_backward[at] = item;
                    let mut needs = std::mem::take(&mut self.held);
                    needs.extend(self.last[1].replace(item));
                    (&down.backward[at], down_number, needs)
                }
                (Part::W, _, Some(down)) => {
                    let weight = &down.weight[at];
                    if self.weights == Weights::WithBackward {
                        self.held.push(item);
                    }
                    // A line may name W before its B, which is then behind it for ever: a standstill.
                    let behind = of_backward[weight.behind];
                    (&weight.segment, down_number, vec![behind])
                }
                _ => continue,
            };
            self.order.push(item);
            self.all.push(Item { segment, part, layer, needs });
        }
    }

    /// Lets each pass wait for the whole of the one before: F, then B with its W.
    fn one_by_one(&mut self) {
        self.order.sort_by_key(|&item| self.all[item].part != Part::F);
        for two in self.order.windows(2) {
            self.all[two[1]].needs = vec![two[0]];
        }
        if let Some(&first) = self.order.first() {
            self.all[first].needs.clear();
        }
    }

    /// Its W alone, one segment after the other.
    pub(super) fn weights_alone(mut self) -> Self {
        self.all.retain(|item| item.part == Part::W);
        self.order = (0..self.all.len()).collect();
        self.one_by_one();
        self
    }

    /// The sum of the times on `stream`.
    pub(super) fn work(&self, stream: Stream) -> u64 {
        let on = self.all.iter().filter(|item| item.segment.stream == stream);
        on.map(|item| item.segment.time.0).sum()
    }

    /// The sum of the times of the chain of `part`.
    pub(super) fn length(&self, part: Part) -> u64 {
        let of = self.all.iter().filter(|item| item.part == part);
        of.map(|item| item.segment.time.0).sum()
    }

    /// Lower bound on the duration of any order without contention, in nanoseconds.
    pub(super) fn bound(&self) -> u64 {
        let streams = Stream::ALL.map(|stream| self.work(stream));
        let chains = [self.length(Part::F), self.length(Part::B)];
        streams.into_iter().chain(chains).max().unwrap_or(0)
    }
}

/// Runs the items in `order`, in which those of a stream stand as they come to it: when each starts and
/// ends, in ticks.
pub(super) fn run(items: &[Item<'_>], order: &[usize]) -> Result<Vec<[u128; 2]>, Fault> {
    let program = Program::new(items, order);
    let mut execution = Execution::default();
    execution.begin(&program, Pace::NOMINAL);
    let mut times = vec![[u128::MAX; 2]; items.len()];
    loop {
        let now = execution.now();
        execution.start(&program, &mut |step| {
            times[step][0] = now;
            false
        });
        let Some(next) = execution.next(&program) else { break };
        execution.advance(&program, &mut |step| times[step][1] = next);
    }
    if !execution.is_over() {
        let what = "the interleaving blocks: a segment waits for one that is after it on a stream";
        return Err(Fault::Interleaving { what: what.to_owned() });
    }
    Ok(times)
}

/// The composition of `items` that come to their streams in `order`.
pub(super) fn composition(
    items: &Items<'_>,
    order: &[usize],
    is_best: bool,
) -> Result<Composition, Fault> {
    let times = run(&items.all, order)?;
    let nanos = |ticks: u128| u64::try_from(ticks.div_ceil(TICKS)).unwrap_or(u64::MAX);
    let spans = order.iter().map(|&item| {
        let Item { segment, part, layer, .. } = &items.all[item];
        let [start, end] = times[item].map(|ticks| Nanos(nanos(ticks)));
        let segment = (*segment).clone();
        SegmentSpan { segment, part: *part, layer: *layer, start, end }
    });
    let spans: Vec<SegmentSpan> = spans.collect();
    let sum: u64 = spans.iter().map(|span| span.segment.time.0).sum();
    // Rounding up may not make a pair longer than its passes one after the other.
    let duration = spans.iter().map(|span| span.end.0).max().unwrap_or(0).min(sum);
    let busy = |stream| {
        let on = spans.iter().filter(move |span| span.segment.stream == stream);
        on.map(|span| span.end.0 - span.start.0).sum::<u64>()
    };
    let computing = busy(Stream::Compute).min(duration);
    let bound = items.bound();
    Ok(Composition {
        duration: Nanos(duration),
        exposed: Nanos(duration - computing),
        computing: Nanos(computing),
        bound: Nanos(bound),
        is_best: is_best || duration == bound,
        spans,
    })
}
