//! The factors of a machine's efficiencies that one measured set-up determines.

use plan::fit::{Fit, FitError, Observation, Steps};

use super::scales::parameters;

/// Standard deviation of the logarithm of a step that no factor explains: repeats of a set-up and other layouts of
/// one model on one machine differ by as much.
const UNEXPLAINED: f64 = 0.05;
/// Fits in a row, each of which begins where the one before ended: a fit alone trusts one row less than several.
const ROUNDS: usize = 4;

/// The factors of [`SCALES`](super::SCALES) with which other set-ups of a model on a machine are predicted, after one
/// took `measured` seconds. `seconds` is the predicted step of that one under factors; all 1 are the machine as it is.
/// Of the error on the machine as it is, only the part that is likely to be common to other set-ups counts.
pub fn calibration(
    seconds: &(dyn Fn(&[f64]) -> Option<f64> + Sync),
    measured: f64,
) -> Result<Vec<f64>, FitError> {
    let parameters = parameters();
    let observations = [Observation { measured, configuration: 0 }];
    let mut factors = vec![1.0; parameters.len()];
    let blind = seconds(&factors).ok_or(FitError::Predicted(0))?;
    for _ in 0..ROUNDS {
        let step = Beside { seconds, factors: &factors };
        let fitted = Fit::new(&parameters, &observations, &step)?.to_all()?;
        factors = product(&factors, &fitted.values);
    }
    let error = libm::log(blind / measured);
    let common = error * error / (error * error + UNEXPLAINED * UNEXPLAINED);
    Ok(factors.iter().map(|factor| libm::pow(*factor, common)).collect())
}

/// A step under factors beside those of the fits before.
struct Beside<'a> {
    seconds: &'a (dyn Fn(&[f64]) -> Option<f64> + Sync),
    factors: &'a [f64],
}

impl Steps for Beside<'_> {
    fn seconds(&self, _: usize, values: &[f64]) -> Option<f64> {
        (self.seconds)(&product(self.factors, values))
    }
}

fn product(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(a, b)| a * b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that is compute for three quarters, links for a quarter.
    fn step(factors: &[f64]) -> Option<f64> {
        Some(3.0 / factors[0] + 1.0 / factors[1])
    }

    #[test]
    fn a_large_error_is_taken_and_a_small_one_is_not() {
        let slow = calibration(&step, 6.0).unwrap();
        let predicted = step(&slow).unwrap();
        assert!((predicted / 6.0 - 1.0).abs() < 0.02, "{predicted}");
        assert!(slow[0] < 0.75 && slow[2] > 0.99, "{slow:?}");
        let alike = calibration(&step, 4.04).unwrap();
        assert!(alike.iter().all(|factor| (factor - 1.0).abs() < 1e-3), "{alike:?}");
    }

    #[test]
    fn steps_that_take_no_time_are_errors() {
        assert_eq!(calibration(&step, 0.0), Err(FitError::Measured(0)));
        assert_eq!(calibration(&|_| None, 1.0), Err(FitError::Predicted(0)));
    }
}
