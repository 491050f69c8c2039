use std::f64::consts::SQRT_2;

use pipeline::{Nanos, Pass};

use super::super::key::{Key, Purpose, Word};
use super::*;

const REPLICAS: u64 = 400;
const PASSES: u32 = 1000;
const DRAWS: f64 = 400_000.0;

/// Factors of a grid of replicas and passes, ascending.
fn draws(jitter: &Jitter) -> Vec<f64> {
    let table = LawTable::of(jitter);
    let words: Vec<Word> =
        (0..PASSES).map(|m| Word::pass(Purpose::Pass, m as usize % 8, Pass::f(0, m))).collect();
    let of = |replica| {
        let key = Key::new(1, replica, 0);
        words.iter().map(move |&word| key.draw(word))
    };
    let mut all: Vec<f64> = (0..REPLICAS).flat_map(of).map(|word| table.draw(word)).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / DRAWS
}

fn moment(all: &[f64], power: i32) -> f64 {
    all.iter().map(|one| (one - 1.0).powi(power)).sum::<f64>() / DRAWS
}

fn phi(z: f64) -> f64 {
    libm::erfc(-z / SQRT_2) / 2.0
}

/// A law with its distribution function, in closed form.
type Known = (Jitter, Box<dyn Fn(f64) -> f64>);

fn normal(spread: f64) -> Known {
    let cut = phi(-1.0 / spread);
    let below = move |x: f64| (phi((x - 1.0) / spread) - cut) / (1.0 - 2.0 * cut);
    (Jitter::normal(spread).unwrap(), Box::new(below))
}

fn log_normal(spread: f64) -> Known {
    let variance = libm::log1p(spread * spread);
    let below = move |x: f64| phi((libm::log(x) + variance / 2.0) / variance.sqrt());
    (Jitter::log_normal(spread).unwrap(), Box::new(below))
}

fn pareto(tail: f64) -> Known {
    let below = move |x: f64| 1.0 - libm::pow((tail - 1.0) / tail / x, tail);
    (Jitter::pareto(tail).unwrap(), Box::new(below))
}

fn all_laws() -> Vec<Known> {
    let normals = [0.02, 0.2, 0.34].map(normal);
    let log_normals = [0.05, 0.5, 3.0].map(log_normal);
    normals.into_iter().chain(log_normals).chain([1.5, 2.5, 6.0].map(pareto)).collect()
}

/// The largest distance of the distribution function drawn from that of the law, times sqrt(n), exceeds 1.95 once in a
/// thousand times (Kolmogorov and Smirnov).
#[test]
fn draws_are_distributed_by_the_law() {
    for (jitter, below) in all_laws() {
        let all = draws(&jitter);
        let mut farthest: f64 = 0.0;
        for (number, &factor) in (0u32..).zip(&all) {
            let (number, share) = (f64::from(number), below(factor));
            farthest = farthest.max(share - number / DRAWS).max((number + 1.0) / DRAWS - share);
        }
        assert!(farthest * DRAWS.sqrt() < 1.95, "{jitter:?}: {}", farthest * DRAWS.sqrt());
    }
}

/// As many draws lie in both tails as should, within five standard deviations.
#[test]
fn tails_hold_what_they_should() {
    for (jitter, below) in all_laws() {
        let shares: Vec<f64> = draws(&jitter).into_iter().map(below).collect();
        for tail in [1e-1, 1e-2, 1e-3, 1e-4, 1e-5] {
            let low = shares.iter().filter(|&&share| share < tail).count();
            let high = shares.iter().filter(|&&share| share > 1.0 - tail).count();
            for count in [low, high] {
                let off = f64::from(u32::try_from(count).unwrap()) - tail * DRAWS;
                assert!(off.abs() < 5.0 * (tail * DRAWS).sqrt(), "{jitter:?}, {tail}: {count}");
            }
        }
    }
}

/// Means are 1, and spreads those of the closed forms, within five standard errors.
#[test]
fn means_and_spreads() {
    // The variance of a normal cut at +-a is 1 - 2 a phi(a) / (2 Phi(a) - 1); a = 1 / 0.34 gives 0.969.
    let cut = 0.34 * 0.968_6_f64.sqrt();
    let log_normals = [0.05, 0.3, 0.5].map(|spread| (Jitter::log_normal(spread).unwrap(), spread));
    let normals = [(0.2, 0.2), (0.34, cut)].map(|(s, left)| (Jitter::normal(s).unwrap(), left));
    // 1 / (tail (tail - 2)).
    let pareto = (Jitter::pareto(6.0).unwrap(), (1.0_f64 / 24.0).sqrt());
    for (jitter, spread) in log_normals.into_iter().chain(normals).chain([pareto]) {
        let all = draws(&jitter);
        let margin = 5.0 * spread / DRAWS.sqrt();
        assert!((mean(&all) - 1.0).abs() < margin, "{jitter:?}: {}", mean(&all));
        let variance = moment(&all, 2);
        // That of a variance is sqrt((m4 - m2^2) / n).
        let margin = 5.0 * ((moment(&all, 4) - variance * variance) / DRAWS).sqrt();
        assert!((variance - spread * spread).abs() < margin, "{jitter:?}: {}", variance.sqrt());
    }
}

/// Words of tail probabilities in 50 octaves below the median, each with its probability.
fn grid() -> impl Iterator<Item = (u64, f64)> {
    let number =
        |octave: u64| (0..64u64).map(move |step| ((64 + step) << 45 | 0x1234_5678) >> octave);
    #[allow(clippy::cast_precision_loss)]
    let with_tail = |number: u64| (number << 11, (number as f64 + 0.5) * f64::EPSILON / 2.0);
    (0..50).flat_map(number).map(with_tail)
}

/// Quantiles are those of the law in every octave of the tail probability: of normal laws within 4 x 10^-7 standard
/// deviations, of Pareto laws within two millionths.
#[test]
fn quantiles_of_all_sizes() {
    for (spread, sigma) in [(0.05, libm::log1p(0.0025).sqrt()), (1.0, 2.0_f64.ln().sqrt())] {
        let table = LawTable::of(&Jitter::log_normal(spread).unwrap());
        for (word, tail) in grid() {
            let z = (libm::log(table.draw(word)) + sigma * sigma / 2.0) / sigma;
            assert!((z - normal::quantile(tail)).abs() < 4e-7, "{spread}: {tail}, {z}");
        }
    }
    for tail in [1.1, 2.5, 6.0] {
        let table = LawTable::of(&Jitter::pareto(tail).unwrap());
        let least = (tail - 1.0) / tail;
        for (word, beyond) in grid() {
            let [low, high] = [word, word | 1 << 63].map(|word| table.draw(word) / least);
            assert!((low * libm::pow(1.0 - beyond, 1.0 / tail) - 1.0).abs() < 2e-6);
            assert!((high * libm::pow(beyond, 1.0 / tail) - 1.0).abs() < 2e-6, "{tail}: {beyond}");
        }
    }
}

#[test]
fn samples() {
    let below = |all: &[f64], x: f64| {
        f64::from(u32::try_from(all.partition_point(|&one| one < x)).unwrap()) / DRAWS
    };
    // Five standard errors, 5 sqrt(q (1-q) / n) <= 5 x 0.5 / sqrt(400 000).
    let all = draws(&Jitter::factors(vec![1.0, 1.0, 1.0, 3.0]).unwrap());
    assert!((below(&all, 2.0) - 0.75).abs() < 0.004);
    let all = draws(&Jitter::durations(&[Nanos(10), Nanos(30)]).unwrap());
    assert_eq!((all[0], all[all.len() - 1]), (0.5, 1.5));
    assert!((below(&all, 1.0) - 0.5).abs() < 0.004);
}

#[test]
fn means_and_least_factors_are_those_drawn() {
    let samples = Jitter::factors(vec![0.5, 1.0, 3.0]).unwrap();
    let laws = [(Jitter::pareto(4.0).unwrap(), 0.75), (samples, 0.5)];
    for (jitter, least) in laws {
        let all = draws(&jitter);
        let spread = moment(&all, 2).sqrt();
        assert!((mean(&all) - jitter.mean().unwrap()).abs() < 5.0 * spread / DRAWS.sqrt());
        assert!(jitter.least() == least && all[0] >= least * (1.0 - 1e-6));
    }
    assert_eq!(Jitter::pareto(1.5).unwrap().mean(), None);
    assert_eq!(Jitter::normal(0.3).unwrap().least(), 0.0);
}

#[test]
fn extreme_but_legal_parameters_give_positive_factors() {
    for jitter in [
        Jitter::log_normal(10.0),
        Jitter::pareto(1.000_000_1),
        Jitter::pareto(1000.0),
        Jitter::normal(0.0),
        Jitter::normal(0.34),
    ] {
        let jitter = jitter.unwrap();
        let table = LawTable::of(&jitter);
        // The ends of the grid, and the median from both sides.
        let ends = [0, u64::MAX >> 1, 1 << 63, u64::MAX].map(|word| table.draw(word));
        assert!(draws(&jitter).iter().all(|one| *one > 0.0 && one.is_finite()));
        assert!(ends.iter().all(|one| *one > -1e-9 && one.is_finite()), "{jitter:?}: {ends:?}");
        assert!(ends[1] <= ends[3] * (1.0 + 1e-9) && ends[0] <= ends[2], "{jitter:?}: {ends:?}");
    }
}

/// The bits of a seed are a promise, on every machine.
#[test]
fn bits_are_the_same_for_ever() {
    let hash = |(jitter, _): Known| {
        let fold = |hash: u64, factor: &f64| {
            (hash ^ factor.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        };
        draws(&jitter).iter().fold(0, fold)
    };
    let hashes = [log_normal(0.05), normal(0.2), pareto(2.5)].map(hash);
    assert_eq!(hashes, [0xb2a9_ee9c_46c1_53ae, 0x9c41_6b1c_c62f_17b1, 0xa3dc_ae1d_647e_7896]);
}
