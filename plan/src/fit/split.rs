//! Folds of rows for cross-validation.

/// A number for each of `keys`, from 0 in the order of their first places: equal keys have equal numbers.
#[must_use]
pub fn groups<K: PartialEq>(keys: &[K]) -> Vec<usize> {
    let mut known: Vec<&K> = Vec::new();
    let number = |key: &K, known: &[&K]| known.iter().position(|one| *one == key);
    let mut numbers = Vec::with_capacity(keys.len());
    for key in keys {
        numbers.push(number(key, &known).unwrap_or_else(|| {
            known.push(key);
            known.len() - 1
        }));
    }
    numbers
}

/// Assigns rows to `folds` folds of about equal numbers of configurations; rows of one configuration,
/// as numbered by `configuration`, share a fold. The assignment is a function of `seed`.
#[must_use]
pub fn assign_folds(configuration: &[usize], folds: usize, seed: u64) -> Vec<usize> {
    let count = configuration.iter().max().map_or(0, |last| last + 1);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&one| (mixed(mixed(seed) ^ one as u64), one));
    let mut fold = vec![0; count];
    for (place, &one) in order.iter().enumerate() {
        fold[one] = place % folds.max(1);
    }
    configuration.iter().map(|&one| fold[one]).collect()
}

/// A number whose bits depend on all of `x` (SplitMix64, Steele et al. 2014, *Fast Splittable Pseudorandom
/// Number Generators*).
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_split_over_folds_whole_and_evenly() {
        let configuration: Vec<usize> = (0..230).map(|row| row % 83).collect();
        let folds = assign_folds(&configuration, 10, 1);
        for (row, own) in configuration.iter().enumerate() {
            assert_eq!(folds[row], folds[*own]);
        }
        for fold in 0..10 {
            let own = (0..83).filter(|&one| folds[one] == fold).count();
            assert!((8..=9).contains(&own), "{own}");
        }
        assert_eq!(assign_folds(&configuration, 10, 1), folds);
        assert_ne!(assign_folds(&configuration, 10, 2), folds);
    }

    #[test]
    fn equal_keys_are_one_group() {
        assert_eq!(groups(&["b", "a", "b", "c"]), [0, 1, 0, 2]);
        assert_eq!(assign_folds(&[], 10, 0), Vec::<usize>::new());
    }
}
