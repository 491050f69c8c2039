//! The quantities of a pipeline that the bounds use, added up once: times along the line of chunks,
//! and the work and memory of each stage.

use pipeline::{Footprint, Nanos, PassTimes, Placement};

use super::knapsack_bound::{ItemType, knapsack_bound};
use crate::instance::{Instance, Objective};

/// One chunk of a stage.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) f: u64,
    pub(super) b: u64,
    pub(super) w: u64,
    /// Time of R, 0 where nothing is recomputed.
    pub(super) r: u64,
    /// Held from the start of F to the end of B: M_B, or what is kept of it.
    pub(super) until_backward: u64,
    /// The rest of M_B, held from the start of R to the end of B.
    pub(super) recomputed: u64,
    /// M_W, held from the end of B to the end of W.
    pub(super) until_weight: u64,
    /// The least time from the end of F to the start of the same microbatch's B: later chunks, R of the
    /// last, and the hops.
    pub(super) round: u64,
}

/// A stage with its chunks in model order.
pub(super) struct Station {
    pub(super) parts: Vec<Part>,
    /// Time of all its passes.
    pub(super) work: u64,
    pub(super) limit: u64,
    /// The least time from the start of the first F of chunk 0 of the model to that of this stage.
    pub(super) down: u64,
    /// The least time from the end of a B of the stage's first chunk to the end of the same
    /// microbatch's B of chunk 0 of the model.
    pub(super) back: u64,
    /// The least time from its first F to its first B.
    pub(super) first_backward: u64,
    /// The least time from the end of its last F to the end of its last B, without those B of the
    /// same microbatch that it runs itself.
    pub(super) last_round: u64,
}

/// A pipeline whose microbatches all take the same way.
pub(super) struct Line {
    pub(super) stations: Vec<Station>,
    pub(super) microbatches: u64,
    /// No schedule worth looking at takes longer: one microbatch after the other.
    pub(super) longest: u64,
    pub(super) objective: Objective,
    /// By chunk in model order, its stage and the hop behind it.
    pub(super) way: Vec<(usize, u64)>,
}

impl Line {
    /// `None` where microbatches take different ways.
    pub(super) fn of(instance: &Instance) -> Option<Self> {
        if instance.placement == Placement::Mirrored {
            return None;
        }
        let Instance { shape, placement, costs, limits, .. } = instance;
        let times = costs.chunks();
        let hop = |from: u16| costs.hop_after((*shape, *placement), from).0;
        let last = shape.chunks() - 1;
        // From a chunk to the next one, hop included.
        let legs = (0..last).map(|chunk| (times[usize::from(chunk)], hop(chunk)));
        let tables = Tables {
            forward: running(legs.clone().map(|(one, hop)| one.forward.0 + hop)),
            backward: running(legs.map(|(one, hop)| one.backward_input.0 + hop)),
            turn: costs.recompute(last).unwrap_or_default().0,
        };
        let stations = (0..shape.stages()).map(|stage| {
            let chunks: Vec<u16> = placement.chunks_of(*shape, stage).collect();
            let limit = limits.as_ref().map_or(u64::MAX, |limits| limits.of(stage).0);
            tables.station(instance, &chunks, limit)
        });
        let microbatches = u64::from(shape.microbatches());
        let again = (0..=last).filter_map(|chunk| costs.recompute(chunk)).sum::<Nanos>().0;
        let way = (0..=last).map(|chunk| {
            let stage = placement.stage(*shape, chunk, 0);
            (stage, if chunk == last { 0 } else { hop(chunk) })
        });
        let one =
            times.iter().map(|one| all(one) + 2 * costs.hops().longest().0).sum::<u64>() + again;
        Some(Self {
            stations: stations.collect(),
            microbatches,
            longest: one * microbatches,
            objective: instance.objective,
            way: way.collect(),
        })
    }

    /// The time that `station` may take from its first to its last pass if the cost is `cost`: all
    /// of it, or, for the makespan, that less the time before its first F.
    pub(super) fn span_within(&self, station: &Station, cost: i128) -> i128 {
        match self.objective {
            Objective::Span => cost,
            Objective::Makespan => cost - i128::from(station.down),
        }
    }

    /// The cost of a schedule in which `station` takes `span` from its first to its last pass.
    pub(super) fn cost_of_span(&self, station: &Station, span: u64) -> u64 {
        match self.objective {
            Objective::Span => span,
            Objective::Makespan => span + station.down,
        }
    }
}

fn all(one: &PassTimes) -> u64 {
    one.forward.0 + one.backward_input.0 + one.backward_weight.0
}

/// The sums of the first 0, 1, 2 and so on of `times`.
fn running(times: impl Iterator<Item = u64>) -> Vec<u64> {
    let sums = times.scan(0, |sum, time| {
        *sum += time;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

/// Times along the line, from its beginning to each chunk.
struct Tables {
    /// The time from the start of F of chunk 0 to the start of F of each chunk.
    forward: Vec<u64>,
    /// The time from the end of B of each chunk to the end of B of chunk 0.
    backward: Vec<u64>,
    /// The time from the end of F of the last chunk to the start of its B: that of its R.
    turn: u64,
}

impl Tables {
    /// The time from the start of F of `chunk` to the end of F of the last chunk.
    fn to_the_end(&self, instance: &Instance, chunk: u16) -> u64 {
        let last = self.forward.len() - 1;
        self.forward[last] - self.forward[usize::from(chunk)]
            + instance.costs.chunks()[last].forward.0
    }

    /// The time from the end of F of the last chunk to the start of B of `chunk`.
    fn back_to(&self, instance: &Instance, chunk: u16) -> u64 {
        let (last, chunk) = (self.backward.len() - 1, usize::from(chunk));
        let times = instance.costs.chunks();
        // From end to end, less B of this chunk, and with B of the last.
        self.turn + self.backward[last] - self.backward[chunk] + times[last].backward_input.0
            - times[chunk].backward_input.0
    }

    fn station(&self, instance: &Instance, chunks: &[u16], limit: u64) -> Station {
        let part = |&chunk: &u16| {
            let times = instance.costs.chunks()[usize::from(chunk)];
            let Footprint { until_backward, until_weight } = instance.footprints.of(chunk);
            let kept = instance.footprints.kept(chunk).unwrap_or(until_backward);
            Part {
                f: times.forward.0,
                b: times.backward_input.0,
                w: times.backward_weight.0,
                r: instance.costs.recompute(chunk).unwrap_or_default().0,
                until_backward: kept.0,
                recomputed: (until_backward - kept).0,
                until_weight: until_weight.0,
                round: self.to_the_end(instance, chunk) - times.forward.0
                    + self.back_to(instance, chunk),
            }
        };
        let parts: Vec<Part> = chunks.iter().map(part).collect();
        let microbatches = u64::from(instance.shape.microbatches());
        let one: u64 = parts.iter().map(|part| part.f + part.b + part.w + part.r).sum();
        let (first, top) = (chunks[0], chunks[chunks.len() - 1]);
        let between = self.backward[usize::from(top)] - self.backward[usize::from(first)];
        let own: u64 = parts[..parts.len() - 1].iter().map(|part| part.b).sum();
        Station {
            work: one * microbatches,
            limit,
            down: self.forward[usize::from(first)],
            back: self.backward[usize::from(first)],
            first_backward: self.to_the_end(instance, first) + self.back_to(instance, top),
            last_round: parts[parts.len() - 1].round + between - own,
            parts,
        }
    }
}

impl Station {
    /// The chunk that runs forward first and backward last.
    pub(super) fn first(&self) -> &Part {
        &self.parts[0]
    }

    /// Whether a chunk of it recomputes.
    pub(super) fn recomputes(&self) -> bool {
        self.parts.iter().any(|part| part.r > 0 || part.recomputed > 0)
    }

    /// The most time that the stage can spend before its first B without idling: that of F, and of R, which
    /// gives no memory back either. Where R comes behind its F is not asked, which can only add time.
    pub(super) fn most_before_backwards(&self, microbatches: u64) -> u64 {
        let items = |part: &Part| {
            let [f, r] = [(part.until_backward, part.f), (part.recomputed, part.r)]
                .map(|(bytes, worth)| ItemType { bytes, worth, count: microbatches });
            [f, r]
        };
        knapsack_bound(self.parts.iter().flat_map(items), self.limit)
    }

    /// Whether the limit forces a B before the last F.
    pub(super) fn is_short(&self, microbatches: u64) -> bool {
        let one: u128 = self.parts.iter().map(|part| u128::from(part.until_backward)).sum();
        one * u128::from(microbatches) > u128::from(self.limit)
    }
}
