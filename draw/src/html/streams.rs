//! The communication stream of each stage, as data for the script of a page.

use std::collections::{BTreeMap, HashSet};

use pipeline::overlap::Stream;
use pipeline::{Costs, Nanos, Slot, Span, Timeline};
use serde::Serialize;
use sim::streams::{Streams, kind};

use super::pack;
use crate::lanes;

/// Communication of slots, by their kind; `lane.js` reads it.
#[derive(Serialize)]
pub(super) struct StreamsData {
    /// The names of segments.
    names: Vec<String>,
    /// By chunk, its chain.
    chains: Vec<u16>,
    /// By kind and chain of its passes, such as `0.2&3.1`: how long a slot takes at nominal pace, its segments
    /// of communication, and when they are hidden or not.
    slots: BTreeMap<String, (u64, String, String)>,
}

impl StreamsData {
    /// The streams of the slots of `timeline`, if its passes are chains of segments.
    pub(super) fn of(costs: &Costs, timeline: &Timeline) -> Option<Self> {
        let overlap = costs.overlap()?;
        let mut streams = Streams::of(costs)?;
        let chunks = u16::try_from(overlap.chunks()).unwrap_or(u16::MAX);
        let chains = (0..chunks).map(|chunk| overlap.kind(chunk)).collect();
        let mut data = Self { names: Vec::new(), chains, slots: BTreeMap::new() };
        let mut met: HashSet<Slot> = HashSet::new();
        for span in timeline.stages.iter().flatten() {
            let slot = kind(span.slot);
            let has_chains = slot.passes().all(|pass| !pass.kind.is_of_vocabulary());
            if has_chains && met.insert(slot) {
                let kind = slot
                    .passes()
                    .map(|pass| format!("{}.{}", pass.kind as u8, overlap.kind(pass.chunk)));
                let kind = kind.collect::<Vec<_>>().join("&");
                data.add(kind, &mut streams, slot);
            }
        }
        Some(data)
    }

    fn add(&mut self, kind: String, streams: &mut Streams<'_>, slot: Slot) {
        if self.slots.contains_key(&kind) {
            return;
        }
        let end = streams.slot(slot).busy;
        let segments = streams.segments(&Span { slot, start: Nanos(0), end });
        let pieces = lanes::pieces(&segments);
        let on = segments.iter().filter(|one| one.segment.stream == Stream::Communication);
        let rows = on.filter(|one| one.end > one.start).map(|one| {
            let name = one.segment.name.as_str();
            let known = self.names.iter().position(|other| other == name);
            let name = known.unwrap_or_else(|| {
                self.names.push(name.to_owned());
                self.names.len() - 1
            });
            pack::Communication {
                name,
                part: one.part as usize,
                layer: one.layer,
                times: [one.start, one.end],
                hidden: lanes::hidden(&pieces, one),
            }
        });
        let segments = pack::segments(rows);
        self.slots.insert(kind, (end.0, segments, pack::pieces(&pieces)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::pack::tests::Unpacked;
    use crate::samples;

    #[test]
    fn every_slot_has_its_communication_and_where_it_is_hidden() {
        let (schedule, costs) = samples::overlapped();
        let timeline = sim::Replay::new().timeline(&schedule, &costs).unwrap();
        let data = StreamsData::of(&costs, &timeline).unwrap();
        assert_eq!((data.names.len(), &data.chains[..]), (2, &[0; 8][..]));
        // F, BW, and pairs of them, all of the one chain.
        assert_eq!(data.slots.keys().collect::<Vec<_>>(), ["0.0", "0.0&3.0", "3.0"]);
        let mut streams = Streams::of(&costs).unwrap();
        for span in timeline.stages.iter().flatten() {
            let kinds = span.slot.passes().map(|pass| format!("{}.0", pass.kind as u8));
            let kind = kinds.collect::<Vec<_>>().join("&");
            let (duration, segments, pieces) = &data.slots[&kind];
            let times = streams.slot(span.slot);
            let (mut back, mut sums) = (Unpacked::of(segments), [0; 2]);
            while back.natural().is_some() {
                assert!(back.natural().unwrap() < 2 && back.natural().unwrap() > 0);
                assert!(back.signed().unwrap() >= 0);
                sums[0] += back.natural().unwrap();
                sums[1] += back.natural().unwrap();
            }
            let [hidden, all] =
                [times.hidden(), times.communicating].map(|time| i128::from(time.0));
            assert_eq!((*duration, sums), (times.busy.0, [hidden, all]));
            let (mut back, mut sums) = (Unpacked::of(pieces), [0; 2]);
            while back.natural().is_some() {
                let length = back.natural().unwrap();
                sums[usize::from(length % 2 == 1)] += length / 2;
            }
            assert_eq!(sums, [i128::from(times.exposed.0), hidden]);
        }
    }

    #[test]
    fn passes_without_segments_have_none() {
        let timeline = samples::paired();
        let costs = Costs::new(vec![pipeline::PassTimes::default(); 2], Nanos(0));
        assert!(StreamsData::of(&costs, &timeline).is_none());
    }
}
