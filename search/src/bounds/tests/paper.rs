//! The bounds in the settings of the Zero Bubble paper, whose files are read for the times.

use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Limit, Limits, Nanos, PassTimes, Placement,
    Problem, Shape,
};
use serde::Deserialize;
use sim::Replay;

use crate::bounds::best;
use crate::{Instance, Objective};

const TABLE5: &str = scenarios::PAPER.text("table5.toml");
const TABLE8: &str = scenarios::PAPER.text("table8.toml");

#[derive(Deserialize)]
struct Table {
    seq: u64,
    setting: Vec<Setting>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Setting {
    name: String,
    stages: u64,
    microbatches: u64,
    forward: String,
    backward_input: String,
    backward_weight: String,
    hop: String,
    hidden: u64,
    heads: u64,
}

/// The settings of `table`, with one chunk per stage or two in a V, under `thousandths` of p times
/// what one microbatch holds.
fn settings(table: &str, chunks: u64, thousandths: u64) -> Vec<(String, Instance)> {
    let table: Table = toml::from_str(table).unwrap();
    let instance = |setting: &Setting| {
        let shape = Shape::new(setting.stages, chunks, setting.microbatches).unwrap();
        // The files give times of stages; chunks of two take half of that exactly.
        let time = |text: &str| Nanos(text.parse::<Nanos>().unwrap().0 / chunks);
        let times = PassTimes::new(
            time(&setting.forward),
            time(&setting.backward_input),
            time(&setting.backward_weight),
        );
        let costs = Costs::uniform(shape, times, setting.hop.parse().unwrap());
        // Per layer and token of a microbatch of one sample: 34h + 5as and 32h.
        let held = 34 * setting.hidden + 5 * setting.heads * table.seq;
        let footprint =
            Footprint { until_backward: Bytes(held), until_weight: Bytes(32 * setting.hidden) };
        let limit = Bytes(setting.stages * chunks * held * thousandths / 1000);
        let placement = if chunks == 2 { Placement::Vee } else { Placement::Looped };
        Instance::new(
            shape,
            placement,
            costs,
            Footprints::uniform(shape, footprint),
            Some(Limits::new(shape, &[limit]).unwrap()),
            Objective::Span,
        )
        .unwrap()
    };
    table.setting.iter().map(|setting| (setting.name.clone(), instance(setting))).collect()
}

/// The share of `cost` in which a stage waits.
fn rate(instance: &Instance, cost: Nanos) -> f64 {
    let one = instance.costs.chunks()[0];
    let work = (one.forward + one.backward_input + one.backward_weight)
        * (u64::from(instance.shape.microbatches()) * u64::from(instance.shape.chunks_per_stage()));
    1.0 - work.0 as f64 / cost.0 as f64
}

fn rates(table: &str, chunks: u64, thousandths: u64) -> Vec<f64> {
    let rate = |(name, instance): &(String, Instance)| {
        let bound = best(instance);
        let rate = rate(instance, bound.cost);
        println!("{name} {chunks} chunks at {thousandths}: {rate:.6} by {}", bound.argument);
        rate
    };
    settings(table, chunks, thousandths).iter().map(rate).collect()
}

fn assert_rates(found: &[f64], expected: &[f64], within: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < within, "{found} is not {expected}");
    }
}

#[test]
fn table5_1p() {
    let expected = [
        0.1585, 0.1242, 0.0674, 0.1323, 0.1045, 0.0554, 0.1397, 0.1088, 0.0576, 0.1421, 0.1106,
        0.0594,
    ];
    assert_rates(&rates(TABLE5, 1, 1000), &expected, 0.00005);
}

#[test]
fn table5_2p() {
    let expected = [
        0.043310, 0.001681, 0.001095, 0.001231, 0.000928, 0.000449, 0.003099, 0.002509, 0.001313,
        0.003319, 0.002526, 0.001835,
    ];
    assert_rates(&rates(TABLE5, 1, 2000), &expected, 0.000_000_5);
}

#[test]
fn table8_vee_1p() {
    let expected = [0.0697, 0.0533, 0.0274, 0.0596, 0.0455, 0.0235, 0.0556, 0.0425, 0.0221];
    assert_rates(&rates(TABLE8, 2, 1000), &expected, 0.00005);
}

#[test]
fn table8_vee_above_1p() {
    for (thousandths, expected) in [(1125, 0.0347), (1250, 0.0098)] {
        assert_rates(&rates(TABLE8, 2, thousandths)[..1], &[expected], 0.00005);
    }
}

/// Where B takes longer than F, the way of the first microbatch back through a V pushes the first B of each stage
/// behind one more whole F, until memory ends; idling for the difference on one stage in so many saves some.
#[test]
fn table8_vee_above_1p_is_not_free_of_bubbles() {
    for (thousandths, times) in [(1750, 1), (1875, 1), (2000, 0)] {
        for (name, instance) in settings(TABLE8, 2, thousandths).into_iter().skip(3) {
            let one = instance.costs.chunks()[0];
            let work = (one.forward + one.backward_input + one.backward_weight)
                * (2 * u64::from(instance.shape.microbatches()));
            let more = (one.backward_input - one.forward) * times;
            assert_eq!(best(&instance).cost, work + more, "{name} at {thousandths}");
        }
    }
}

#[test]
fn table8_one_chunk() {
    let expected = [
        (500, [0.4336, 0.4139, 0.4094]),
        (750, [0.2336, 0.2127, 0.2082]),
        (1250, [0.0898, 0.0911, 0.0907]),
        (1500, [0.0632, 0.0659, 0.0654]),
    ];
    for (thousandths, expected) in expected {
        let found: Vec<f64> = rates(TABLE8, 1, thousandths).into_iter().step_by(3).collect();
        assert_rates(&found, &expected, 0.00005);
    }
}

#[test]
fn the_published_orders_at_1p_are_optimal() {
    for (name, instance) in settings(TABLE5, 1, 1000) {
        let problem = Problem::new(instance.shape, instance.costs.clone()).unwrap();
        let problem = problem.with_footprints(instance.footprints.clone()).unwrap();
        let problem = problem.with_limit(Limit::times_p(1));
        let order = Family::ZbHeuristic.schedule(&problem).unwrap();
        let span = Replay::new().metrics(&order, &instance.costs).unwrap().span();
        assert_eq!(best(&instance).cost, span, "{name}");
    }
}

#[test]
fn the_published_orders_in_a_vee_on_16_stages_are_optimal() {
    for (name, instance) in settings(TABLE8, 2, 1000).into_iter().take(3) {
        let problem = Problem::new(instance.shape, instance.costs.clone()).unwrap();
        let problem = problem.with_footprints(instance.footprints.clone()).unwrap();
        let order = Family::ZbV.schedule(&problem.with_limit(Limit::times_p(1))).unwrap();
        let span = Replay::new().metrics(&order, &instance.costs).unwrap().span();
        assert_eq!(best(&instance).cost, span, "{name}");
    }
}
