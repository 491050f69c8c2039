//! Constants of the planner fitted to measured steps.
//!
//! Least squares on the logarithm of predicted over measured: a step that is predicted twice too long
//! counts as one that is predicted half as long as it was. An error beyond [`SOFT`] counts less than its
//! square (soft L1, Charbonnier et al. 1997, *Deterministic Edge-Preserving Regularization in Computed
//! Imaging*), for influences on a run that its row does not record are not an error of a constant. Every
//! constant is drawn to its prior, which is counted or published by a measurement: where no row speaks,
//! it stays there.
//!
//! The minimum is found by Levenberg-Marquardt with numerical derivatives (Marquardt 1963, *An Algorithm
//! for Least-Squares Estimation of Nonlinear Parameters*). Nothing here is drawn at random, and sums are
//! taken in the order of the rows: the same bytes on any number of threads.

mod solve;
mod split;

use rayon::prelude::*;
use thiserror::Error;

use self::solve::{Matrix, solved};
use crate::model::number;

pub use self::split::{assign_folds, groups};

/// The error, in the logarithm, from which on errors count less than their squares: 5 %, about the
/// difference of repeats of one configuration.
pub const SOFT: f64 = 0.05;
/// Penalty of a constant that is one [`Parameter::sigma`] away from its prior: as much as a row that is
/// off by this much in the logarithm.
const PULL: f64 = 0.05;
/// The step of numerical derivatives, in the logarithm: times are whole nanoseconds, so it must not be
/// much smaller.
const STEP: f64 = 1e-3;
/// How far a constant may move, in the logarithm, until derivatives are recomputed.
const STALE: f64 = 0.05;
/// The most steps of a fit.
const MOST_STEPS: usize = 40;
/// The share of the cost that a step must save for another one to follow.
const GAIN: f64 = 1e-7;

/// The middle of `values`; of an even number the mean of the two in the middle, `None` if there are none.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        1 => Some(upper),
        _ => Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper)),
    }
}

/// A constant that is fitted.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// Its name in messages.
    pub name: String,
    /// Its value where no row says anything about it; greater than zero.
    pub prior: f64,
    /// How far the logarithm of its value may well be from that of the prior.
    pub sigma: f64,
}

/// A measured step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Observation {
    /// How long it took, in seconds.
    pub measured: f64,
    /// The set-up that it was measured with: any number that repeats of the set-up share. n repeats
    /// count as much as the root of n rows.
    pub configuration: usize,
}

/// A model that predicts steps from constants.
pub trait Steps: Sync {
    /// How long the step of observation `row` takes with constants of these `values`, in seconds;
    /// `None` if it cannot be said.
    fn seconds(&self, row: usize, values: &[f64]) -> Option<f64>;

    /// Whether the step of `row` may depend on constant `parameter`: whether derivatives are needed.
    fn depends(&self, row: usize, parameter: usize) -> bool {
        let _ = (row, parameter);
        true
    }
}

/// Why nothing was fitted.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum FitError {
    /// A prior or a spread that is not a positive number.
    #[error("the prior or the spread of {0} is not a positive number")]
    Prior(String),
    /// A measured step that is not a positive number.
    #[error("measured step {0} is not a positive time")]
    Measured(usize),
    /// A step that cannot be predicted.
    #[error("step {0} cannot be predicted")]
    Predicted(usize),
}

/// Constants, and the steps that speak about them.
pub struct Fit<'a> {
    parameters: &'a [Parameter],
    observations: &'a [Observation],
    steps: &'a dyn Steps,
}

/// Constants that were fitted.
#[derive(Clone, PartialEq, Debug)]
pub struct Fitted {
    /// Their values, in the order of the parameters.
    pub values: Vec<f64>,
    /// The cost: that of errors and of distances from the priors.
    pub cost: f64,
}

/// A point from which fits begin: constants, the errors of all rows there, and their derivatives. Fits
/// to parts of the rows that begin at one point share its derivatives.
#[derive(Clone, PartialEq, Debug)]
pub struct Start {
    /// The logarithms of the constants.
    at: Vec<f64>,
    /// The derivatives of each row's error.
    derivatives: Vec<Vec<f64>>,
}

impl<'a> Fit<'a> {
    /// A fit of `parameters` to `observations`, whose steps `steps` predicts.
    pub fn new(
        parameters: &'a [Parameter],
        observations: &'a [Observation],
        steps: &'a dyn Steps,
    ) -> Result<Self, FitError> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        if let Some(one) =
            parameters.iter().find(|one| !positive(one.prior) || !positive(one.sigma))
        {
            return Err(FitError::Prior(one.name.clone()));
        }
        match observations.iter().position(|one| !positive(one.measured)) {
            Some(row) => Err(FitError::Measured(row)),
            None => Ok(Self { parameters, observations, steps }),
        }
    }

    #[must_use]
    pub fn priors(&self) -> Vec<f64> {
        self.parameters.iter().map(|one| one.prior).collect()
    }

    /// The point of these `values`, with the derivatives of all rows.
    pub fn start(&self, values: &[f64]) -> Result<Start, FitError> {
        let at: Vec<f64> = values.iter().map(|value| libm::log(*value)).collect();
        let rows: Vec<usize> = (0..self.observations.len()).collect();
        let derivatives = self.derivatives(&rows, &at)?;
        Ok(Start { at, derivatives })
    }

    /// The constants that predict `rows` best, found from `start`.
    pub fn to(&self, rows: &[usize], start: &Start) -> Result<Fitted, FitError> {
        let weights = self.weights(rows);
        let mut at = start.at.clone();
        let mut derivatives: Vec<Vec<f64>> =
            rows.iter().map(|&row| start.derivatives[row].clone()).collect();
        let mut taken_at = at.clone();
        let mut errors = self.errors(rows, &at)?;
        let mut cost = self.cost(&errors, &weights, &at);
        let mut damping = 1e-3;
        for _ in 0..MOST_STEPS {
            let stale = at.iter().zip(&taken_at).any(|(now, then)| (now - then).abs() > STALE);
            if stale {
                derivatives = self.derivatives(rows, &at)?;
                taken_at.clone_from(&at);
            }
            let system = self.system(&errors, &derivatives, &weights, &at);
            let Some(next) = self.better(rows, &weights, &at, &system, cost, &mut damping)? else {
                // Old derivatives may be why nothing is better.
                if taken_at == at {
                    break;
                }
                derivatives = self.derivatives(rows, &at)?;
                taken_at.clone_from(&at);
                damping = 1e-3;
                continue;
            };
            let gain = cost - next.cost;
            (at, errors, cost) = (next.at, next.errors, next.cost);
            damping = (damping / 4.0).max(1e-9);
            if gain < GAIN * cost {
                break;
            }
        }
        Ok(Fitted { values: at.iter().map(|log| libm::exp(*log)).collect(), cost })
    }

    /// The constants that predict all rows best, found from the priors.
    pub fn to_all(&self) -> Result<Fitted, FitError> {
        let rows: Vec<usize> = (0..self.observations.len()).collect();
        self.to(&rows, &self.start(&self.priors())?)
    }

    /// For every group of rows, as numbered by `group` row by row, the constants that are fitted to all
    /// other rows; in the order of the groups' numbers.
    pub fn without_each(&self, group: &[usize], start: &Start) -> Result<Vec<Fitted>, FitError> {
        let count = group.iter().max().map_or(0, |last| last + 1);
        let without = |left_out: usize| -> Result<Fitted, FitError> {
            let rows: Vec<usize> = (0..group.len()).filter(|&row| group[row] != left_out).collect();
            self.to(&rows, start)
        };
        (0..count).into_par_iter().map(without).collect()
    }

    /// One over the root of the repeats of each row's configuration among `rows`.
    fn weights(&self, rows: &[usize]) -> Vec<f64> {
        let own = |row: &usize| self.observations[*row].configuration;
        let repeats = |row: &usize| rows.iter().filter(|other| own(other) == own(row)).count();
        rows.iter().map(|row| 1.0 / number(repeats(row) as u64).sqrt()).collect()
    }

    /// The logarithm of predicted over measured.
    fn error(&self, row: usize, at: &[f64]) -> Result<f64, FitError> {
        let values: Vec<f64> = at.iter().map(|log| libm::exp(*log)).collect();
        let seconds = self.steps.seconds(row, &values);
        let seconds = seconds.filter(|one| *one > 0.0 && one.is_finite());
        let seconds = seconds.ok_or(FitError::Predicted(row))?;
        Ok(libm::log(seconds / self.observations[row].measured))
    }

    fn errors(&self, rows: &[usize], at: &[f64]) -> Result<Vec<f64>, FitError> {
        rows.par_iter().map(|&row| self.error(row, at)).collect()
    }

    fn derivatives(&self, rows: &[usize], at: &[f64]) -> Result<Vec<Vec<f64>>, FitError> {
        let of_row = |&row: &usize| -> Result<Vec<f64>, FitError> {
            let here = self.error(row, at)?;
            let by = |parameter: usize| {
                if !self.steps.depends(row, parameter) {
                    return Ok(0.0);
                }
                let mut beside = at.to_vec();
                beside[parameter] += STEP;
                Ok((self.error(row, &beside)? - here) / STEP)
            };
            (0..at.len()).map(by).collect()
        };
        rows.par_iter().map(of_row).collect()
    }

    /// The cost: that of errors and of distances from the priors.
    fn cost(&self, errors: &[f64], weights: &[f64], at: &[f64]) -> f64 {
        let soft = |error: f64| 2.0 * SOFT * SOFT * (curvature(error) - 1.0);
        let errors: f64 = errors.iter().zip(weights).map(|(error, w)| w * soft(*error)).sum();
        let distances = self.parameters.iter().zip(at).map(|(one, at)| {
            let distance = (at - libm::log(one.prior)) / one.sigma * PULL;
            distance * distance
        });
        errors + distances.sum::<f64>()
    }

    /// The normal equations at `at`: the matrix, and the right side.
    fn system(
        &self,
        errors: &[f64],
        derivatives: &[Vec<f64>],
        weights: &[f64],
        at: &[f64],
    ) -> (Matrix, Vec<f64>) {
        let mut matrix = Matrix::zero(at.len());
        let mut right = vec![0.0; at.len()];
        for ((error, of_row), weight) in errors.iter().zip(derivatives).zip(weights) {
            let weight = weight / curvature(*error);
            matrix.add_square(of_row, weight);
            for (sum, derivative) in right.iter_mut().zip(of_row) {
                *sum += weight * derivative * error;
            }
        }
        for (index, (one, at)) in self.parameters.iter().zip(at).enumerate() {
            let pull = (PULL / one.sigma) * (PULL / one.sigma);
            *matrix.diagonal(index) += pull;
            right[index] += pull * (at - libm::log(one.prior));
        }
        (matrix, right)
    }

    /// A point that costs less than `cost`, the further from `at` the less `damping` there is.
    fn better(
        &self,
        rows: &[usize],
        weights: &[f64],
        at: &[f64],
        (matrix, right): &(Matrix, Vec<f64>),
        cost: f64,
        damping: &mut f64,
    ) -> Result<Option<Point>, FitError> {
        for _ in 0..12 {
            let mut damped = matrix.clone();
            for index in 0..at.len() {
                *damped.diagonal(index) *= 1.0 + *damping;
            }
            if let Some(step) = solved(&damped, right) {
                let next: Vec<f64> = at.iter().zip(&step).map(|(at, step)| at - step).collect();
                // A step out of the domain of the formulas is only too long.
                if let Ok(errors) = self.errors(rows, &next) {
                    let next_cost = self.cost(&errors, weights, &next);
                    if next_cost < cost {
                        return Ok(Some(Point { at: next, errors, cost: next_cost }));
                    }
                }
            }
            *damping *= 4.0;
        }
        Ok(None)
    }
}

/// A point of a fit.
struct Point {
    at: Vec<f64>,
    errors: Vec<f64>,
    cost: f64,
}

/// By how much less than its square an error counts.
fn curvature(error: f64) -> f64 {
    let share = error / SOFT;
    (1.0 + share * share).sqrt()
}

#[cfg(test)]
mod tests;
