//! How popular experts are: laws, and counts that were measured.

use rand_xoshiro::SplitMix64;

use super::chance::{normal, shuffled};
use super::error::RoutingError;
use crate::model::{Experts, number};

/// The largest exponent of a law, and the largest standard deviation.
const MOST_SPREAD: f64 = 10.0;
/// The most steps towards the shares of a layer's experts.
const STEPS: usize = 200;

/// How popular the experts of a layer are.
#[derive(Clone, PartialEq, Debug)]
pub enum Popularity {
    /// The popularity of the r-th expert is r^-s (Zipf's law); with s = 0 all are equal, and
    /// differences are due to chance alone. Every layer has its popular experts at other places.
    Zipf(f64),
    /// The logarithm of the popularity is normal with this standard deviation, for every layer anew.
    LogNormal(f64),
    /// Tokens that were counted at each expert, in the order in which devices have them: a list for each
    /// layer, or for each time they were counted.
    Counted(Vec<Vec<f64>>),
}

/// The experts of one layer, in the order of their devices.
#[derive(Debug)]
pub(super) struct Placement {
    /// Which of the lists of shares it has.
    pub(super) shares: usize,
    /// The index of each expert in that list; `None` where both have the same order.
    pub(super) order: Option<Vec<u16>>,
}

impl Popularity {
    /// Checks that experts can be so popular.
    pub(super) fn check(&self, experts: Experts) -> Result<(), RoutingError> {
        match self {
            Self::Zipf(spread) | Self::LogNormal(spread) => {
                match (0.0..=MOST_SPREAD).contains(spread) {
                    true => Ok(()),
                    false => Err(RoutingError::Spread(*spread)),
                }
            }
            Self::Counted(lists) if lists.is_empty() => Err(RoutingError::Nothing),
            Self::Counted(lists) => {
                lists.iter().enumerate().try_for_each(|(at, list)| check_list(at, list, experts))
            }
        }
    }

    /// The layers that are looked at, `draws` of them, and the lists of shares that they have: of the
    /// tokens, the share that chooses each expert. Shares add up to the experts that a token visits.
    pub(super) fn layers(
        &self,
        experts: Experts,
        draws: usize,
        chance: &mut SplitMix64,
    ) -> (Vec<Vec<f64>>, Vec<Placement>) {
        let count = usize::try_from(experts.count).unwrap_or(usize::MAX);
        match self {
            Self::Zipf(exponent) => {
                let weights: Vec<f64> =
                    (1..=experts.count).map(|rank| libm::pow(number(rank), -exponent)).collect();
                let mut placed =
                    || Placement { shares: 0, order: Some(shuffled(count, &mut *chance)) };
                let placements = (0..draws).map(|_| placed()).collect();
                (vec![chosen(&weights, experts.top_k)], placements)
            }
            Self::LogNormal(deviation) => {
                let mut list = || {
                    let weights: Vec<f64> =
                        (0..count).map(|_| libm::exp(deviation * normal(&mut *chance))).collect();
                    chosen(&weights, experts.top_k)
                };
                let lists = (0..draws).map(|_| list()).collect();
                (lists, (0..draws).map(|shares| Placement { shares, order: None }).collect())
            }
            Self::Counted(lists) => {
                let share = |list: &Vec<f64>| {
                    let all: f64 = list.iter().sum();
                    list.iter().map(|one| one / all * number(experts.top_k)).collect()
                };
                let placed = |at: usize| Placement { shares: at % lists.len(), order: None };
                // Every list equally often.
                let draws = draws.div_ceil(lists.len()) * lists.len();
                (lists.iter().map(share).collect(), (0..draws).map(placed).collect())
            }
        }
    }
}

/// Checks the list of counts number `at`.
fn check_list(at: usize, list: &[f64], experts: Experts) -> Result<(), RoutingError> {
    if list.len() as u64 != experts.count {
        return Err(RoutingError::Length { at, counts: list.len(), experts: experts.count });
    }
    if let Some(&count) = list.iter().find(|count| !(0.0..=1e15).contains(*count)) {
        return Err(RoutingError::Count { at, count });
    }
    let all: f64 = list.iter().sum();
    if all <= 0.0 {
        return Err(RoutingError::Nothing);
    }
    let most = list.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    match most.filter(|(_, most)| most * number(experts.top_k) > all * (1.0 + 1e-9)) {
        Some((expert, _)) => Err(RoutingError::Visits { at, expert, top_k: experts.top_k }),
        None => Ok(()),
    }
}

/// Of tokens that choose `top_k` different experts one after the other, each by the `weights` of those that
/// are left, the share that chooses each expert.
///
/// An expert of weight w is among the first k of a race in which each arrives at a rate w; with many
/// experts the k-th arrives at a certain time t, by which it has arrived with a probability of
/// 1 - exp(-w t) (Rosén 1972, *Asymptotic theory for successive sampling with varying probabilities*).
pub(super) fn chosen(weights: &[f64], top_k: u64) -> Vec<f64> {
    let wanted = number(top_k);
    if weights.len() as u64 <= top_k {
        return vec![1.0; weights.len()];
    }
    let share = |weight: f64, time: f64| -libm::expm1(-weight * time);
    let mut time = wanted / weights.iter().sum::<f64>();
    // The sum is concave in the time, and starts below the target, so that Newton's steps approach from
    // below.
    for _ in 0..STEPS {
        let lacks = wanted - weights.iter().map(|&weight| share(weight, time)).sum::<f64>();
        let slope: f64 = weights.iter().map(|&weight| weight * libm::exp(-weight * time)).sum();
        if lacks <= 1e-9 * wanted || slope <= 0.0 {
            break;
        }
        time += lacks / slope;
    }
    weights.iter().map(|&weight| share(weight, time)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_experts_of_a_token() {
        for exponent in [0.0, 0.3, 1.0, 3.0, 10.0] {
            let weights: Vec<f64> =
                (1..=128u64).map(|rank| libm::pow(number(rank), -exponent)).collect();
            let shares = chosen(&weights, 8);
            let sum: f64 = shares.iter().sum();
            assert!((sum - 8.0).abs() < 1e-6, "{exponent}: {sum}");
            assert!(shares.windows(2).all(|two| two[0] >= two[1]));
            assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
        }
        assert!(chosen(&[1.0; 64], 8).iter().all(|share| (share - 0.125).abs() < 1e-9));
        assert_eq!(chosen(&[3.0, 1.0], 2), [1.0, 1.0]);
    }

    /// Two of four experts with weights 4, 2, 1, 1, by all orders: the first is left out where both
    /// choices go elsewhere.
    #[test]
    fn the_race_is_near_choices_one_after_the_other() {
        let weights = [4.0, 2.0, 1.0, 1.0];
        let all: f64 = weights.iter().sum();
        let mut exact = [0.0; 4];
        for (first, a) in weights.iter().enumerate() {
            for (second, b) in weights.iter().enumerate().filter(|(second, _)| *second != first) {
                let both = a / all * b / (all - a);
                exact[first] += both;
                exact[second] += both;
            }
        }
        let near = chosen(&weights, 2);
        assert!(exact.iter().zip(&near).all(|(a, b)| (a - b).abs() < 0.03), "{exact:?} {near:?}");
    }
}
