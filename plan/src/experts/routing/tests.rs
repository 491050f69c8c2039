//! Loads against tokens that are drawn and counted one by one.

use proptest::prelude::*;

use super::super::chance::shuffled;
use super::*;
use crate::partition::Loss;

const EXPERTS: Experts = Experts { count: 32, top_k: 4, shared: 0 };

fn partition(expert: u64, microbatch: u64) -> Partition {
    let one = Partition {
        tensor: 1,
        context: 1,
        expert,
        expert_tensor: 1,
        microbatch,
        sequence_parallel: false,
        loss: Loss::Separate,
    };
    Partition { expert, ..one }
}

fn routing(popularity: Popularity, capacity: Option<Capacity>) -> Routing {
    Routing::new(popularity, capacity, EXPERTS, 0).unwrap()
}

/// Chooses different experts one after the other, each by the weights of those that are left.
fn choose(weights: &[f64], chance: &mut SplitMix64, counts: &mut [f64]) {
    let mut left = weights.to_vec();
    for _ in 0..EXPERTS.top_k {
        let mut at = chance.random_range(0.0..left.iter().sum());
        let found = left.iter().position(|weight| {
            at -= weight;
            at < 0.0
        });
        let expert = found.unwrap_or(left.len() - 1);
        counts[expert] += 1.0;
        left[expert] = 0.0;
    }
}

/// Mean and tail of the fullest of `parts` devices, and the share of choices that are dropped, of experts
/// as popular as Zipf's law says with this exponent: `tokens` of each device, counted.
fn counted(exponent: f64, parts: usize, tokens: u64, most: f64) -> [f64; 3] {
    let mut chance = SplitMix64::seed_from_u64(11);
    let (mut fullest, mut kept) = (Vec::new(), 0.0);
    let draws = 600u32;
    for _ in 0..draws {
        let weights: Vec<f64> = shuffled(32, &mut chance)
            .into_iter()
            .map(|rank| libm::pow(f64::from(rank) + 1.0, -exponent))
            .collect();
        let mut rows = vec![0.0; parts];
        for _ in 0..parts {
            let mut counts = [0.0; 32];
            (0..tokens).for_each(|_| choose(&weights, &mut chance, &mut counts));
            for (own, counts) in rows.iter_mut().zip(counts.chunks(32 / parts)) {
                *own += counts.iter().map(|count| count.min(most)).sum::<f64>();
            }
        }
        kept += rows.iter().sum::<f64>();
        let even = number(tokens * EXPERTS.top_k);
        fullest.push(rows.into_iter().fold(0.0, f64::max) / even);
    }
    fullest.sort_by(f64::total_cmp);
    let all = f64::from(draws) * number(tokens * EXPERTS.top_k * parts as u64);
    let mean = fullest.iter().sum::<f64>() / f64::from(draws);
    [mean, fullest[quantile(fullest.len())], 1.0 - kept / all]
}

#[test]
fn loads_are_those_of_tokens_that_are_counted() {
    for (exponent, parts) in [(0.0, 4), (0.0, 16), (0.5, 8), (1.0, 4)] {
        let own = routing(Popularity::Zipf(exponent), None).load(partition(parts, 1), 48);
        let [mean, tail, _] = counted(exponent, usize::try_from(parts).unwrap(), 48, f64::INFINITY);
        assert!((own.mean / mean - 1.0).abs() < 0.02, "{exponent} {parts}: {own:?} {mean}");
        assert!((own.tail / tail - 1.0).abs() < 0.04, "{exponent} {parts}: {own:?} {tail}");
        assert_eq!([own.sent, own.dropped], [1.0, 0.0]);
    }
}

#[test]
fn dropped_tokens_are_those_that_are_counted() {
    for (exponent, factor) in [(0.0, 1.0), (0.0, 1.5), (0.5, 1.25), (1.0, 1.0)] {
        let capacity = Capacity { factor, padded: false };
        let own = routing(Popularity::Zipf(exponent), Some(capacity)).load(partition(8, 1), 48);
        let [mean, tail, dropped] = counted(exponent, 8, 48, capacity.rows(EXPERTS, 48.0));
        assert!((own.mean / mean - 1.0).abs() < 0.02, "{exponent} {factor}: {own:?} {mean}");
        assert!((own.tail / tail - 1.0).abs() < 0.03, "{exponent} {factor}: {own:?} {tail}");
        assert!((own.dropped - dropped).abs() < 0.012, "{exponent} {factor}: {own:?} {dropped}");
        assert!((own.sent + own.dropped - 1.0).abs() < 1e-12);
        // Padded, all devices have as many rows as experts take, and as many tokens are dropped.
        let padded = Capacity { padded: true, ..capacity };
        let padded = routing(Popularity::Zipf(exponent), Some(padded)).load(partition(8, 1), 48);
        let rows = capacity.rows(EXPERTS, 48.0) * 32.0 / (48.0 * 4.0);
        assert_eq!([padded.mean, padded.tail, padded.sent], [rows; 3]);
        assert_eq!(padded.dropped, own.dropped);
    }
}

/// Counted popularity keeps its place: of 32 experts the first four have half of all tokens.
#[test]
fn counts_lie_where_they_were_counted() {
    let mut counts = vec![4.0; 32];
    counts[..4].fill(28.0);
    let own = routing(Popularity::Counted(vec![counts.clone()]), None);
    assert!((own.load(partition(8, 1), 1 << 20).mean - 4.0).abs() < 0.01);
    counts.rotate_left(2);
    // Where two devices have two of the four each, a quarter of all tokens goes to each.
    let apart = routing(Popularity::Counted(vec![counts.clone(), counts]), None);
    let even = 2.0 * 28.0 + 2.0 * 4.0;
    assert!((apart.load(partition(8, 1), 1 << 20).mean - even / 28.0).abs() < 0.01);
}

#[test]
fn every_group_is_drawn_once_and_alike() {
    let own = routing(Popularity::LogNormal(0.5), None);
    let first = own.load(partition(8, 2), 512);
    assert_eq!(first, own.load(partition(8, 2), 512));
    assert_eq!(own.known.lock().unwrap().len(), 1);
    assert_eq!(first, routing(Popularity::LogNormal(0.5), None).load(partition(8, 2), 512));
    let other = Routing::new(Popularity::LogNormal(0.5), None, EXPERTS, 1).unwrap();
    assert_ne!(first, other.load(partition(8, 2), 512));
    assert!((first.mean / other.load(partition(8, 2), 512).mean - 1.0).abs() < 0.03);
    // A device with all experts has the rows of its own tokens.
    let alone = own.load(partition(1, 2), 512);
    assert!([alone.mean, alone.tail].iter().all(|load| (load - 1.0).abs() < 1e-9), "{alone:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let new = |popularity, capacity| Routing::new(popularity, capacity, EXPERTS, 0).unwrap_err();
    let said = |popularity| new(popularity, None).to_string();
    assert!(said(Popularity::Zipf(-1.0)).contains("is -1: from 0"));
    assert!(said(Popularity::LogNormal(f64::NAN)).contains("is NaN: from 0"));
    assert!(said(Popularity::Counted(vec![])).contains("no token was counted"));
    assert!(said(Popularity::Counted(vec![vec![0.0; 32]])).contains("no token was counted"));
    let short = Popularity::Counted(vec![vec![1.0; 32], vec![1.0; 31]]);
    assert_eq!(said(short), "list 2 has 31 counts, but a layer has 32 experts");
    let mut counts = vec![1.0; 32];
    counts[5] = 31.0;
    assert!(said(Popularity::Counted(vec![counts.clone()])).contains("expert 5 of list 1"));
    counts[5] = -1.0;
    assert!(said(Popularity::Counted(vec![counts])).contains("a count of -1"));
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 8.1] {
        let capacity = Some(Capacity { factor, padded: false });
        let text = new(Popularity::Zipf(0.0), capacity).to_string();
        assert!(text.contains("at most 8"), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_fullest_has_no_less_than_the_mean(
        exponent in 0.0..10.0f64, log_normal: bool, parts in 0u32..6, tokens in 1u64..10_000,
        factor in prop::option::of(0.01..8.0f64), padded: bool,
    ) {
        let popularity = match log_normal {
            true => Popularity::LogNormal(exponent),
            false => Popularity::Zipf(exponent),
        };
        let capacity = factor.map(|factor| Capacity { factor, padded });
        let own = routing(popularity, capacity).load(partition(1 << parts, 1), tokens);
        prop_assert!(own.mean >= own.sent * (1.0 - 1e-9), "{own:?}");
        prop_assert!(own.tail >= own.mean * 0.95, "{own:?}");
        prop_assert!((0.0..=1.0).contains(&own.dropped), "{own:?}");
        // No device has more than all tokens at all of its experts, or than these take.
        let most = capacity.map_or(8.0, |capacity| {
            capacity.rows(EXPERTS, number(tokens)) / (number(tokens) / 8.0)
        });
        prop_assert!(own.tail <= most * (1.0 + 1e-9), "{own:?} {most}");
    }
}
