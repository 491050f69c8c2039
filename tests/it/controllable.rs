//! The Controllable Memory families: what the authors' own code makes, and what it means.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::{
    Costs, Family, Limit, Metrics, Nanos, PassTimes, Problem, Schedule, Shape, peak_in_flight,
};
use sim::Replay;

fn problem([p, m]: [u64; 2], [f, b, w]: [u64; 3]) -> Problem {
    let shape = Shape::new(p, 2, m).unwrap();
    let (forward, backward_input, backward_weight) = (Nanos(f), Nanos(b), Nanos(w));
    let times = PassTimes { forward, backward_input, backward_weight };
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
/// where the file is not at hand.
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
