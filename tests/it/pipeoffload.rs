//! The schedules in memory of PipeOffload: GIS in any groups against its formulas and against what
//! the authors' generator makes.

use pipeline::closed_form::Uniform;
use pipeline::{Costs, Family, Fault, Nanos, PassTimes, Problem, Schedule, Shape, peak_in_flight};
use proptest::prelude::*;
use sim::Replay;

use crate::draw::{cases, reference};

/// GIS in groups of `group` and its makespan, where a chunk takes 1/v of the times of `one`.
fn gis(one: &Uniform, chunks: u64, group: u64) -> (Schedule, Nanos) {
    let shape = Shape::new(one.stages, chunks, one.microbatches).unwrap();
    let PassTimes { forward, backward_input, backward_weight } = one.times;
    let [forward, backward_input, backward_weight] =
        [forward, backward_input, backward_weight].map(|time| Nanos(time.0 / chunks));
    let times = PassTimes { forward, backward_input, backward_weight };
    let problem = Problem::new(shape, Costs::uniform(shape, times, one.hop)).unwrap();
    let schedule = Family::Gis.schedule(&problem.clone().with_group(group)).unwrap();
    let metrics = Replay::new().metrics(&schedule, problem.costs()).unwrap();
    (schedule, metrics.makespan())
}

fn uniform(sizes: [u64; 2], times: [u64; 3]) -> Uniform {
    let [forward, backward_input, backward_weight] = times.map(Nanos);
    Uniform {
        stages: sizes[0],
        microbatches: sizes[1],
        times: PassTimes { forward, backward_input, backward_weight },
        hop: Nanos(0),
    }
}

/// d, v, g, m, peak chunk activations, length in unit passes: rows of the authors' generator.
const REGENERATED: [[u64; 6]; 12] = [
    [4, 2, 2, 8, 6, 56],
    [4, 2, 3, 8, 7, 55],
    [4, 2, 4, 8, 8, 54],
    [4, 4, 3, 8, 13, 105],
    [6, 3, 5, 12, 16, 124],
    [8, 4, 5, 16, 23, 233],
    [8, 4, 8, 16, 32, 206],
    [16, 3, 10, 32, 36, 354],
    [16, 4, 13, 32, 55, 435],
    [4, 2, 1, 8, 7, 72],
    [8, 3, 1, 16, 16, 207],
    [16, 4, 1, 32, 43, 582],
];

fn check_row([d, v, g, m, peak, length]: [u64; 6]) {
    let one = uniform([d, m], [v; 3]);
    let (schedule, makespan) = gis(&one, v, g);
    let in_flight = peak_in_flight(&schedule);
    let most = in_flight.iter().copied().map(u64::from).max();
    assert_eq!(most, Some(peak), "d={d} v={v} g={g} m={m}");
    assert_eq!(u64::from(in_flight[0]), peak, "stage 0 holds most");
    if 2 * g >= d {
        assert_eq!(makespan, Nanos(length), "d={d} v={v} g={g} m={m}");
    } else {
        // The published length is that of the uniform repetition, with its gaps.
        assert_eq!(one.gis_repetition(v, g), Some(length), "d={d} v={v} g={g} m={m}");
        assert!(makespan < Nanos(length));
    }
}

#[test]
fn what_the_authors_generator_makes() {
    REGENERATED.into_iter().for_each(check_row);
}

#[test]
fn every_row_of_the_reference_table() {
    let Some(table) = reference("pipeoffload_gis_regenerated.csv") else { return };
    let mut rows = 0;
    for line in table.lines().skip(1) {
        let numbers: Vec<u64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        check_row([numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[7]]);
        rows += 1;
    }
    assert!(rows > 0);
}

#[test]
fn groups_that_cannot_be() {
    let shape = Shape::new(4, 2, 8).unwrap();
    let times = PassTimes::default();
    let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).unwrap();
    for group in [0, 5, u64::MAX] {
        let fault = Family::Gis.schedule(&problem.clone().with_group(group)).unwrap_err();
        assert!(matches!(fault, Fault::Needs { key: "group", .. }), "{fault:?}");
        assert!(fault.to_string().contains(&format!("1 to p = 4 microbatches, not {group}")));
        assert!(Family::GisH.schedule(&problem.clone().with_group(group)).is_ok());
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    /// Formulas are right or silent, and they speak in the domain they state.
    #[test]
    fn formulas(
        stages in 1..=9u64,
        chunks in 1..=4u64,
        group in 1..=9u64,
        groups in 1..=5u64,
        [w, f, b] in [0..9u64, 0..9u64, 0..9u64],
        near: bool,
    ) {
        let group = group.min(stages);
        let [f, b] = if near { [w + f, w + f + b.min(w)] } else { [f, b] };
        let times = [f, b, w].map(|time| time * chunks);
        let one = uniform([stages, group * groups], times);
        let (schedule, makespan) = gis(&one, chunks, group);
        let formula = one.gis(chunks, group);
        prop_assert!(formula.is_none_or(|formula| formula == makespan), "{:?}", formula);
        let half = 2 * group == stages && groups >= 2 && near;
        prop_assert!(formula.is_some() || (group != stages && !half));
        for (stage, count) in (0..).zip(peak_in_flight(&schedule)) {
            let formula = one.gis_in_flight(chunks, group, stage);
            prop_assert_eq!(formula.is_some(), 2 * group >= stages);
            prop_assert!(formula.is_none_or(|most| most == u64::from(count)));
        }
    }

    /// Any group, any m: there is an order, and it is never longer than its repetition.
    #[test]
    fn every_group_has_an_order(
        stages in 1..=17u64,
        chunks in 1..=6u64,
        group in 1..=17u64,
        microbatches in 1..=40u64,
    ) {
        let group = group.min(stages);
        let one = uniform([stages, microbatches], [chunks; 3]);
        let (_, makespan) = gis(&one, chunks, group);
        let repetition = one.gis_repetition(chunks, group);
        prop_assert!(repetition.is_none_or(|length| makespan.0 <= length));
    }
}
