//! The communication stream of a stage, as pictures show it below its passes.

use pipeline::overlap::{SegmentSpan, Stream};
use pipeline::{Nanos, Span};
use sim::streams::Streams;

/// A time in which the communication stream runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    /// Whether the compute stream runs, too.
    pub(crate) is_hidden: bool,
}

/// The communication of `span`, as long as it runs without a break and either hidden or not.
pub(crate) fn of(streams: &mut Streams<'_>, span: &Span) -> Vec<Piece> {
    pieces(&streams.segments(span))
}

/// The same of the `segments` of a slot, those of each stream in time.
pub(crate) fn pieces(segments: &[SegmentSpan]) -> Vec<Piece> {
    let on = |stream| segments.iter().filter(move |one| one.segment.stream == stream);
    let mut pieces = Vec::new();
    let mut computing = on(Stream::Compute).peekable();
    for segment in on(Stream::Communication) {
        let mut now = segment.start;
        while now < segment.end {
            while computing.next_if(|one| one.end <= now).is_some() {}
            let (is_hidden, until) = match computing.peek() {
                Some(one) if one.start <= now => (true, one.end),
                Some(one) => (false, one.start),
                None => (false, segment.end),
            };
            let end = until.min(segment.end);
            add(&mut pieces, Piece { start: now, end, is_hidden });
            now = end;
        }
    }
    pieces
}

/// How long `segment` runs beside compute.
pub(crate) fn hidden(pieces: &[Piece], segment: &SegmentSpan) -> Nanos {
    let beside = pieces.iter().filter(|piece| piece.is_hidden);
    beside
        .map(|piece| {
            let (start, end) = (piece.start.max(segment.start), piece.end.min(segment.end));
            Nanos(end.0.saturating_sub(start.0))
        })
        .sum()
}

fn add(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.last_mut() {
        Some(last) if last.end == piece.start && last.is_hidden == piece.is_hidden => {
            last.end = piece.end;
        }
        _ => pieces.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn pieces_are_what_streams_say() {
        let (schedule, costs) = samples::overlapped();
        let timeline = sim::Replay::new().timeline(&schedule, &costs).unwrap();
        let mut streams = Streams::of(&costs).unwrap();
        for span in timeline.stages.iter().flatten() {
            let (times, segments) = (streams.slot(span.slot), streams.segments(span));
            let pieces = of(&mut streams, span);
            let sum = |is_hidden| {
                let of = pieces.iter().filter(|one| one.is_hidden == is_hidden);
                of.map(|one| one.end - one.start).sum::<Nanos>()
            };
            assert_eq!((sum(true), sum(false)), (times.hidden(), times.exposed));
            assert!(pieces.windows(2).all(|two| two[0].end <= two[1].start));
            let all = segments.iter().filter(|one| one.segment.stream == Stream::Communication);
            assert_eq!(all.map(|one| hidden(&pieces, one)).sum::<Nanos>(), times.hidden());
        }
    }
}
