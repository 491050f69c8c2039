//! Factor of published trainings over their planned steps, and the odds of a deadline that follow from it.

use std::collections::BTreeMap;
use std::path::Path;

use question::Diagnostic;
use scenarios::PAPER;
use serde::{Deserialize, Serialize};

use super::rows;
use crate::accuracy;

/// The record of published trainings, and its text.
const FILE: &str = "trainings.csv";
const TEXT: &str = PAPER.text(FILE);

/// A published training beside the plan for it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The name of its question in `scenarios/trainings/`.
    pub training: String,
    /// Its organisation, by family of models where one has several.
    pub organisation: String,
    /// Hours of all its devices, as published.
    pub published_gpu_hours: f64,
    /// GPU-hours of the plan.
    pub planned_gpu_hours: f64,
    /// Whether the published hours were `read` in their source, or `cited` from a list of such figures.
    pub hours: String,
    /// Where they are from.
    pub source: String,
}

impl Training {
    /// Factor over the planned time.
    #[must_use]
    pub fn times(&self) -> f64 {
        self.published_gpu_hours / self.planned_gpu_hours
    }
}

/// Factors of published trainings over their planned time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Contingency {
    /// The number of trainings.
    pub trainings: usize,
    pub least: f64,
    pub median: f64,
    pub most: f64,
    /// The law of such factors.
    pub overrun: Overrun,
}

/// The law of how many times as long as its plan a training takes: Student's t of the logarithm.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Overrun {
    /// The factor that half of the trainings stay below.
    pub centre: f64,
    /// Scale of the logarithm, with the error of the centre.
    pub scale: f64,
    /// Degrees of freedom: organisations but one.
    pub freedom: u32,
}

/// The part of the scale that the error of a step makes up: an assumption, about the mean error of steps on machines
/// that nothing calibrates.
const OF_STEPS: f64 = 0.08;

impl Overrun {
    /// The law of `trainings`, where an organisation with n of them weighs as the root of n; `None` for less than two
    /// organisations.
    #[must_use]
    pub fn of(trainings: &[Training]) -> Option<Self> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for one in trainings {
            *counts.entry(&one.organisation).or_default() += 1;
        }
        let organisations = plan::number(counts.len() as u64);
        let freedom =
            u32::try_from(counts.len()).ok()?.checked_sub(1).filter(|count| *count > 0)?;
        let weighted = || {
            let weight = |one: &Training| 1.0 / plan::number(counts[&*one.organisation]).sqrt();
            trainings.iter().map(move |one| (libm::log(one.times()), weight(one)))
        };
        let all: f64 = weighted().map(|(_, weight)| weight).sum();
        let mean = weighted().map(|(value, weight)| value * weight).sum::<f64>() / all;
        let squares = weighted().map(|(value, weight)| weight * (value - mean).powi(2));
        let variance = squares.sum::<f64>() / all * organisations / f64::from(freedom);
        let scale = (variance * (1.0 + 1.0 / organisations)).sqrt();
        Some(Self { centre: libm::exp(mean), scale, freedom })
    }

    /// The same law around a `centre` that is given.
    #[must_use]
    pub const fn around(self, centre: f64) -> Self {
        Self { centre, ..self }
    }

    /// The same law where the steps were measured: without the error of predicted ones.
    #[must_use]
    pub fn of_measured_steps(self) -> Self {
        let rest = self.scale * self.scale - OF_STEPS * OF_STEPS;
        Self { scale: rest.max(0.0).sqrt(), ..self }
    }

    /// The odds that a training takes no more than `factor` times its plan.
    #[must_use]
    pub fn odds(self, factor: f64) -> f64 {
        student(libm::log(factor / self.centre) / self.scale, self.freedom)
    }

    /// The factor that a training stays below with `odds`.
    #[must_use]
    pub fn factor(self, odds: f64) -> f64 {
        let (mut low, mut high) = (-20.0, 20.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            let side = if student(middle, self.freedom) < odds { &mut low } else { &mut high };
            *side = middle;
        }
        self.centre * libm::exp(self.scale * low)
    }
}

/// The distribution function of Student's t for a whole number of degrees of freedom (Abramowitz and Stegun 26.7.3 and
/// 26.7.4).
fn student(t: f64, freedom: u32) -> f64 {
    let angle = libm::atan(t / f64::from(freedom).sqrt());
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    let is_odd = freedom % 2 == 1;
    let (mut power, mut term) = if is_odd { (1, cosine) } else { (0, 1.0) };
    let mut sum = 0.0;
    while power + 2 <= freedom {
        sum += term;
        term *= cosine * cosine * f64::from(power + 1) / f64::from(power + 2);
        power += 2;
    }
    let both = if is_odd { std::f64::consts::FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    f64::midpoint(1.0, both)
}

/// The published trainings.
pub fn trainings() -> Result<Vec<Training>, Diagnostic> {
    let unreadable = |cause: String| Diagnostic::unreadable(Path::new(FILE), &cause);
    rows::table(TEXT).map_err(unreadable)
}

impl Contingency {
    /// The factors of all published trainings.
    pub fn published() -> Result<Self, Diagnostic> {
        let trainings = trainings()?;
        let times: Vec<f64> = trainings.iter().map(Training::times).collect();
        let few =
            || Diagnostic::unreadable(Path::new(FILE), "it has trainings of one organisation");
        Ok(Self {
            trainings: times.len(),
            least: times.iter().copied().fold(f64::MAX, f64::min),
            median: accuracy::median(&times),
            most: times.iter().copied().fold(0.0, f64::max),
            overrun: Overrun::of(&trainings).ok_or_else(few)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_are_those_of_the_published_trainings_also_of_organisations_left_out() {
        // Tables of Student's t.
        for (t, freedom, expected) in [
            (12.706, 1, 0.975),
            (2.776, 4, 0.975),
            (1.771, 13, 0.95),
            (-0.694, 13, 0.25),
            (0.0, 7, 0.5),
        ] {
            assert!((student(t, freedom) - expected).abs() < 2e-4, "{t} {freedom}");
        }
        let all = trainings().unwrap();
        let law = Overrun::of(&all).unwrap();
        assert_eq!((all.len(), law.freedom), (28, 13));
        assert!((law.centre - 1.48).abs() < 0.05 && (law.scale - 0.31).abs() < 0.02, "{law:?}");
        // A plan that just meets a deadline has one chance in nine; 0.8 takes nearly twice its time.
        assert!((law.odds(1.0) - 0.12).abs() < 0.03 && (law.factor(0.8) - 1.93).abs() < 0.08);
        for odds in [0.01, 0.3, 0.5, 0.95, 0.99] {
            assert!((law.odds(law.factor(odds)) - odds).abs() < 1e-9);
        }
        let inside = all.iter().filter(|one| {
            let of_others = |other: &&Training| other.organisation != one.organisation;
            let others: Vec<Training> = all.iter().filter(of_others).cloned().collect();
            (0.1..=0.9).contains(&Overrun::of(&others).unwrap().odds(one.times()))
        });
        let inside = inside.count();
        // Four in five of 28 are 22.4.
        assert!((21..=25).contains(&inside), "{inside} of 28 in the interval of 80 %");
        // A given centre is met with even odds; measured steps leave a smaller scale.
        assert!((law.around(1.2).odds(1.2) - 0.5).abs() < 1e-12);
        let own = law.of_measured_steps();
        assert!((own.scale - 0.30).abs() < 0.02 && own.factor(0.9) < law.factor(0.9));
        assert_eq!(Overrun::of(&all[..1]), None);
        assert!(all.iter().all(|one| ["read", "cited"].contains(&one.hours.as_str())));
    }
}
