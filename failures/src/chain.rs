//! Birth-death chains: how many are dead at a time, in the long run.

/// The share of the time in each state of a chain that goes one state up at the rates of `up` and one down at
/// those of `down`: `up[k]` from k to k + 1, `down[k]` from k + 1 to k. One state more than there are rates.
///
/// By the balance of flows between neighbours (Kleinrock 1975, *Queueing Systems I*, section 3.1).
pub(crate) fn shares(up: &[f64], down: &[f64]) -> Vec<f64> {
    let mut weights = vec![1.0];
    let mut sum = 1.0;
    for (up, down) in up.iter().zip(down) {
        let next = weights[weights.len() - 1] * up / down;
        sum += next;
        weights.push(next);
    }
    weights.iter().map(|weight| weight / sum).collect()
}

/// The probability that every stage has a live worker when `dead` of all workers, chosen by chance, are dead;
/// for each number from 0 to `most`.
///
/// The sets in which every stage keeps one are counted by the generating function ((1 + x)^d - x^d)^p of d
/// pipelines and p stages, over all C(dp, k) sets.
pub(crate) fn survival(pipelines: u32, stages: u32, most: usize) -> Vec<f64> {
    let row = |count: u64| {
        let mut row = vec![1.0];
        for at in 1..=most as u64 {
            let left = count.saturating_sub(at - 1);
            row.push(row[row.len() - 1] * left as f64 / at as f64);
        }
        row
    };
    let mut one = row(u64::from(pipelines));
    if let Some(all) = one.get_mut(pipelines as usize) {
        *all -= 1.0;
    }
    let mut sets = vec![0.0; most + 1];
    sets[0] = 1.0;
    for _ in 0..stages {
        let product = |at: usize| (0..=at).map(|part| sets[part] * one[at - part]).sum();
        sets = (0..=most).map(product).collect();
    }
    let all = row(u64::from(pipelines) * u64::from(stages));
    sets.iter()
        .zip(all)
        .map(|(some, all)| if all > 0.0 { (some / all).min(1.0) } else { 0.0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_balance() {
        // Machines that fail independently: a Poisson law of mean 2 without an end.
        let down: Vec<f64> = (1..40).map(f64::from).collect();
        let shares = shares(&[2.0; 39], &down);
        assert!((shares[0] - (-2.0f64).exp()).abs() < 1e-12);
        assert!((shares[3] / shares[0] - 8.0 / 6.0).abs() < 1e-12);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn survival_counts_sets() {
        // Two pipelines of three stages: two dead are of one stage in 3 of 15 sets.
        let survival = survival(2, 3, 5);
        let wanted = [1.0, 1.0, 12.0 / 15.0, 8.0 / 20.0, 0.0, 0.0];
        for (got, wanted) in survival.iter().zip(wanted) {
            assert!((got - wanted).abs() < 1e-12, "{survival:?}");
        }
        let many = super::survival(4096, 16, 64);
        assert!(many.iter().all(|one| (one - 1.0).abs() < 1e-9));
    }
}
