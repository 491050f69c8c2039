//! The Controllable Memory families: what the authors' own code makes, and what it means.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::{
    Costs, Family, Limit, Metrics, Nanos, PassTimes, Problem, Schedule, Shape, peak_in_flight,
};
use proptest::prelude::*;
use sim::Replay;

use crate::draw::{cases, times};

fn problem([p, m]: [u64; 2], [f, b, w]: [u64; 3]) -> Problem {
    let shape = Shape::new(p, 2, m).unwrap();
    let (forward, backward_input, backward_weight) = (Nanos(f), Nanos(b), Nanos(w));
    let times = PassTimes::new(forward, backward_input, backward_weight);
    Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).unwrap()
}

fn metrics(schedule: &Schedule, problem: &Problem) -> Metrics {
    Replay::new().metrics(schedule, problem.costs()).unwrap()
}

/// Longest span and most chunk activations.
fn span_and_peak(family: Family, problem: &Problem) -> (u64, u64) {
    let schedule = family.schedule(problem).unwrap();
    let peak = peak_in_flight(&schedule).into_iter().max().unwrap();
    (metrics(&schedule, problem).span().0, u64::from(peak))
}

/// The rows of a file of figures that were regenerated with the published code, by column; none
/// where the file is not available.
fn rows(name: &str) -> Vec<BTreeMap<String, String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference/data");
    let file = folder.join(name);
    let Ok(mut reader) = csv::Reader::from_path(&file) else {
        println!("skipped: there is no {}", file.display());
        return Vec::new();
    };
    let rows: Vec<_> = reader.deserialize().map(Result::unwrap).collect();
    assert!(!rows.is_empty());
    rows
}

fn number(row: &BTreeMap<String, String>, column: &str) -> u64 {
    row[column].parse().unwrap()
}

#[test]
fn greedy_as_regenerated() {
    for row in rows("controllable_memory_greedy_regenerated.csv") {
        let family = if row["variant"] == "min" { Family::VMin } else { Family::VHalf };
        let shape = ["p", "m"].map(|column| number(&row, column));
        let problem = problem(shape, ["chunk_f", "chunk_b", "chunk_w"].map(|c| number(&row, c)));
        let expected = (number(&row, "longest_stage_span"), number(&row, "peak_chunk_activations"));
        assert_eq!(span_and_peak(family, &problem), expected, "{row:?}");
    }
}

#[test]
fn adaptive_as_regenerated() {
    for row in rows("controllable_memory_adaptive_regenerated.csv") {
        let shape = ["p", "m"].map(|column| number(&row, column));
        let peak = number(&row, "peak_chunk_activations");
        let problem = problem(shape, [1, 1, 1]).with_limit(Limit::Bytes(pipeline::Bytes(peak)));
        let span = 6 * shape[1] + number(&row, "min_bubble_unit_cells");
        assert_eq!(span_and_peak(Family::VAdaptive, &problem), (span, peak), "{row:?}");
    }
}

/// The time that one more microbatch adds to the longest span, beyond its work.
fn repeated_bubble(family: Family, times: [u64; 3]) -> u64 {
    let span = |m| span_and_peak(family, &problem([4, m], times)).0;
    let (few, many) = (span(16), span(32));
    assert_eq!((many - few) % 16, 0);
    (many - few) / 16 - 2 * times.iter().sum::<u64>()
}

#[test]
fn the_bubble_of_v_min_repeats_where_passes_differ() {
    assert_eq!(repeated_bubble(Family::VMin, [1, 1, 1]), 0);
    assert_eq!(repeated_bubble(Family::VMin, [3, 4, 2]), 6);
    // V-Half has none for W + 2B >= 2F and W + 2F >= 2B, and the search finds an order without.
    assert_eq!(repeated_bubble(Family::VHalf, [3, 4, 2]), 0);
    assert_eq!(repeated_bubble(Family::VAdaptive, [3, 4, 2]), 0);
}

#[test]
fn the_order_for_the_times_given_is_faster_where_backwards_are_long() {
    let problem = problem([6, 24], [10, 20, 8]);
    for (published, timed) in
        [(Family::VMin, Family::VMinTimed), (Family::VHalf, Family::VHalfTimed)]
    {
        let [(span, peak), (faster, same)] =
            [published, timed].map(|family| span_and_peak(family, &problem));
        assert!(faster < span && same <= peak, "{}: {faster} {span}", timed.name());
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn the_order_for_the_times_given_is_never_worse(
        p in 1..=9u64,
        m in 1..=30u64,
        all in prop::collection::vec(times(), 18),
        hop in 0..20u64,
    ) {
        let shape = Shape::new(p, 2, m).unwrap();
        let chunks = all[..usize::from(shape.chunks())].to_vec();
        let problem = Problem::new(shape, Costs::new(chunks, Nanos(hop))).unwrap();
        let pairs = [(Family::VMin, Family::VMinTimed), (Family::VHalf, Family::VHalfTimed)];
        for (published, timed) in pairs {
            let [published, timed] = [published, timed].map(|family| family.schedule(&problem).unwrap());
            let [before, after] = [&published, &timed].map(|one| metrics(one, &problem).span());
            prop_assert!(after <= before);
            let peaks = peak_in_flight(&timed).into_iter().zip(peak_in_flight(&published));
            prop_assert!(peaks.into_iter().all(|(after, before)| after <= before));
        }
    }
}

/// More memory never costs time, and the search uses the times it is given.
#[test]
fn the_adaptive_search_keeps_every_limit() {
    for times in [[1, 1, 1], [3, 4, 2], [9, 10, 6]] {
        let problem = problem([5, 20], times);
        let spans = (6..=10).map(|most| {
            let limited = problem.clone().with_limit(Limit::Bytes(pipeline::Bytes(most)));
            let (span, peak) = span_and_peak(Family::VAdaptive, &limited);
            assert!(peak <= most);
            span
        });
        let spans: Vec<u64> = spans.collect();
        assert!(spans.is_sorted_by(|less, more| less >= more), "{times:?}: {spans:?}");
        assert!(spans[0] <= span_and_peak(Family::VMin, &problem).0);
    }
}

/// Fewer microbatches than the repeated block has under way, and more than it needs: whatever the
/// shape, the peak is that of the block and every microbatch costs at least its work.
#[test]
fn any_number_of_microbatches() {
    for family in [
        Family::VMin,
        Family::VHalf,
        Family::VMinTimed,
        Family::VHalfTimed,
        Family::VAdaptive,
        Family::OneFOneBV,
    ] {
        for (p, m) in [(1, 1), (1, 9), (2, 1), (2, 3), (3, 1), (3, 4), (7, 2), (7, 3), (7, 50)] {
            let problem = problem([p, m], [2, 3, 1]);
            let (span, peak) = span_and_peak(family, &problem);
            assert!(span >= 12 * m, "{} p={p} m={m}", family.name());
            assert!(peak <= 2 * p.min(m), "{} p={p} m={m}: {peak}", family.name());
        }
    }
}
