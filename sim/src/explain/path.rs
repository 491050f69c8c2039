//! The critical path: the chain of slots and transfers that determines the length of a step.

use pipeline::{Kind, Nanos, Slot};

use super::waits::{Link, Waits};

/// From the beginning of a step to its end, each link begun by what the one before set off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// The links, in time.
    pub links: Vec<Link>,
}

/// The parts of a critical path. All times together, and the time at which it begins, are the time
/// at which it ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathSummary {
    /// When its first slot begins.
    pub begin: Nanos,
    /// When its last slot ends.
    pub end: Nanos,
    /// Time in passes, by kind in the order of [`Kind::ALL`].
    pub passes: [Nanos; Kind::ALL.len()],
    /// Time in pairs of passes.
    pub pairs: Nanos,
    /// Time between a slot and the one it set off: transfers, collectives, copies.
    pub transfers: Nanos,
    /// By stage, time in its slots.
    pub stages: Vec<Nanos>,
}

impl Waits<'_> {
    /// The critical path of the last step, which ends with the slot that ends last; of several, that
    /// of the first stage. A slot that several events let begin at the same time is taken to have waited
    /// for the first of them in the order of [`super::Wait`].
    #[must_use]
    pub fn critical_path(&self) -> Path {
        let stages = &self.run().timeline.stages;
        let last = |(stage, spans): (usize, &Vec<_>)| Some((stage, spans.len().checked_sub(1)?));
        let ends = stages.iter().enumerate().filter_map(last);
        let mut next = ends.rev().max_by_key(|&(stage, at)| stages[stage][at].end);
        let mut links = Vec::new();
        while let Some((stage, at)) = next {
            let link = self.link(stage, at);
            next = link.after;
            links.push(link);
        }
        links.reverse();
        Path { links }
    }
}

impl Path {
    /// Its parts, over a pipeline of `stages`.
    #[must_use]
    pub fn summary(&self, stages: usize) -> PathSummary {
        let zero = Nanos(0);
        let mut summary = PathSummary {
            begin: self.links.first().map_or(zero, |link| link.span.start),
            end: self.links.last().map_or(zero, |link| link.span.end),
            passes: [zero; Kind::ALL.len()],
            pairs: zero,
            transfers: zero,
            stages: vec![zero; stages],
        };
        let mut before = summary.begin;
        for Link { stage, span, .. } in &self.links {
            let time = span.end - span.start;
            summary.transfers += span.start - before;
            summary.stages[*stage] += time;
            match span.slot {
                Slot::One(pass) => summary.passes[pass.kind as usize] += time,
                Slot::Pair(..) => summary.pairs += time,
            }
            before = span.end;
        }
        summary
    }
}
