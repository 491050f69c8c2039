//! The formulas of policies against failures drawn one by one: which worker dies, when, and what is lost.
#![allow(clippy::cast_possible_truncation)] // Small counts.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

const RATES: Rates = Rates {
    between: 4_000.0,
    repair: 3_000.0,
    reconfigure: 20.0,
    restart: 200.0,
    checkpoint: 30.0,
    interval: None,
    spares: 1,
};
const POLICY: Policy = Policy { pipelines: 3, stages: 2, rates: RATES };

struct Chance(Xoshiro256PlusPlus);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// An exponential time of this mean.
    fn time(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.0.random::<f64>()).ln()
    }

    fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }
}

/// A step that depends on which workers are dead: longer by the share that the worst stage lacks.
fn step(dead: &BTreeSet<(u32, u32)>) -> Option<f64> {
    let of = |stage: u32| 3 - dead.iter().filter(|worker| worker.1 == stage).count();
    let least = (0..2).map(of).min().unwrap();
    (least > 0).then(|| 6.0 * 3.0 / least as f64 + dead.len() as f64)
}

/// Steps per second where peers run the passes of the dead.
fn rerouted(seed: u64, events: u64) -> f64 {
    let mut chance = Chance::new(seed);
    let mut dead: BTreeSet<(u32, u32)> = BTreeSet::new();
    let (mut clock, mut done) = (0.0, 0.0);
    for _ in 0..events {
        let fails = (6 - dead.len()) as f64 / 6.0 / RATES.between;
        let comes = dead.len() as f64 / RATES.repair;
        let stay = chance.time(1.0 / (fails + comes));
        clock += stay;
        let now = step(&dead);
        done += now.map_or(0.0, |step| stay / step);
        clock += RATES.reconfigure;
        if chance.0.random::<f64>() * (fails + comes) < fails {
            // Half of a step is lost in the mean: what was done of it.
            clock += now.map_or(0.0, |step| step * chance.0.random::<f64>());
            let live: Vec<_> = (0..3)
                .flat_map(|pipeline| [(pipeline, 0), (pipeline, 1)])
                .filter(|worker| !dead.contains(worker))
                .collect();
            dead.insert(live[chance.below(live.len())]);
        } else {
            let one = dead.iter().copied().nth(chance.below(dead.len())).unwrap();
            dead.remove(&one);
        }
    }
    done / clock
}

#[test]
fn rerouting_is_what_drawn_failures_give() {
    // The mean step of each number of dead workers over all sets that leave every stage one. Steps per second
    // are averaged, not steps: both agree up to the spread within a number.
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for bits in 0u32..64 {
        let all = (0..6).filter(|bit| bits >> bit & 1 == 1);
        let dead: BTreeSet<(u32, u32)> = all.map(|bit| (bit / 2, bit % 2)).collect();
        if let Some(step) = step(&dead) {
            let sum = sums.entry(dead.len()).or_default();
            *sum = (sum.0 + 1.0 / step, sum.1 + 1.0);
        }
    }
    let steps: Vec<f64> = sums.values().map(|(rates, count)| count / rates).collect();
    let formula = POLICY.rerouting(&steps);
    let drawn: Vec<f64> = (0..4).map(|seed| rerouted(seed, 200_000)).collect();
    let mean = drawn.iter().sum::<f64>() / 4.0;
    let error = formula.steps_per_second / mean - 1.0;
    assert!(error.abs() < 0.005, "{formula:?} {drawn:?}");
    assert!(formula.stopped > 0.0 && formula.overhead > 0.0);
}

/// Steps per second where a pipeline with a dead worker is left out.
fn dropped(seed: u64, events: u64, steps: &[f64]) -> f64 {
    let mut chance = Chance::new(seed);
    let (mut clock, mut done, mut out) = (0.0, 0.0, 0usize);
    for _ in 0..events {
        let fails = (3 - out) as f64 / 3.0 / RATES.between;
        let comes = out as f64 / RATES.repair;
        let stay = chance.time(1.0 / (fails + comes));
        clock += stay + RATES.reconfigure;
        if out < 3 {
            done += stay / steps[out];
        }
        if chance.0.random::<f64>() * (fails + comes) < fails {
            clock += steps[out] * chance.0.random::<f64>();
            out += 1;
        } else {
            out -= 1;
        }
    }
    done / clock
}

#[test]
fn dropping_is_what_drawn_failures_give() {
    let steps = [6.0, 9.0, 18.0];
    let formula = POLICY.dropping(&steps);
    let drawn = dropped(3, 400_000, &steps);
    assert!((formula.steps_per_second / drawn - 1.0).abs() < 0.005, "{formula:?} {drawn}");
}

/// Useful seconds per second where every failure stops the job. `interval` between checkpoints.
fn waited(seed: u64, failures: u64, interval: f64) -> f64 {
    let mut chance = Chance::new(seed);
    let (mut clock, mut saved) = (0.0, 0.0);
    let mut repairs: Vec<f64> = Vec::new();
    let mut next = chance.time(RATES.between);
    for _ in 0..failures {
        // Segments of work and a checkpoint, until the failure.
        let cycles = (next / (interval + RATES.checkpoint)).floor();
        saved += cycles * interval;
        clock += next;
        repairs.push(clock + chance.time(RATES.repair));
        repairs.retain(|&end| end > clock);
        if repairs.len() > 1 {
            // The spare is away, too: until one of both is repaired.
            let first = repairs.iter().copied().fold(f64::INFINITY, f64::min);
            clock = first;
            repairs.retain(|&end| end > first);
        }
        // Failures come during restarts, too.
        next = chance.time(RATES.between);
        if next < RATES.restart {
            continue;
        }
        clock += RATES.restart;
        next -= RATES.restart;
    }
    saved / clock
}

#[test]
fn waiting_is_what_drawn_failures_give() {
    let mut policy = POLICY;
    policy.rates.interval = Some(500.0);
    let formula = policy.waiting(1.0);
    let drawn: Vec<f64> = (0..4).map(|seed| waited(seed, 200_000, 500.0)).collect();
    let mean = drawn.iter().sum::<f64>() / 4.0;
    assert!((formula.steps_per_second / mean - 1.0).abs() < 0.01, "{formula:?} {mean}");
    assert_eq!(formula.workers, 7);
}

#[test]
fn without_failures_every_policy_is_the_step() {
    let rates = Rates { between: 1e11, repair: 60.0, interval: None, ..RATES };
    let calm = Policy { rates, ..POLICY };
    for goodput in [calm.rerouting(&[2.0, 3.0]), calm.dropping(&[2.0, 4.0]), calm.waiting(2.0)] {
        assert!((goodput.steps_per_second - 0.5).abs() < 1e-4, "{goodput:?}");
    }
}

#[test]
fn rates_are_checked() {
    let with = |rates: Rates| Policy { rates, ..POLICY }.check();
    assert!(with(RATES).is_ok());
    let fault = with(Rates { repair: 1e9, ..RATES }).unwrap_err().to_string();
    assert!(fault.contains("dead at a time"), "{fault}");
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(with(Rates { between: wrong, ..RATES }).is_err(), "{wrong}");
        assert!(with(Rates { interval: Some(wrong), ..RATES }).is_err(), "{wrong}");
    }
    assert!(with(Rates { restart: 5_000.0, ..RATES }).is_err());
}
