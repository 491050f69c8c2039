//! The effect of failures on a training: its goodput, duration and price.

use crate::model::number;

/// How a job fails and starts again. Times in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Failures {
    /// Mean time between failures of the whole job.
    pub between: f64,
    /// Time to write a checkpoint.
    pub checkpoint: f64,
    /// Time from a failure until the job computes again.
    pub restart: f64,
}

impl Failures {
    /// Failures of a job on `devices` devices that fail every `hours` each, with `preemptions` per hour
    /// each.
    #[must_use]
    pub fn of(devices: u64, hours: f64, preemptions: f64, checkpoint: f64, restart: f64) -> Self {
        let rate = number(devices) * (1.0 / hours + preemptions) / 3600.0;
        Self { between: 1.0 / rate, checkpoint, restart }
    }

    /// The time between two checkpoints that loses least: Young's sqrt(2 d M) with Daly's terms of
    /// higher order, and M where a checkpoint takes longer than 2 M (Daly 2006, *A higher order
    /// estimate of the optimum checkpoint interval*, equation 37).
    #[must_use]
    pub fn interval(&self) -> f64 {
        let Self { between, checkpoint, .. } = *self;
        let x = checkpoint / (2.0 * between);
        if x >= 1.0 {
            return between;
        }
        let first = libm::sqrt(2.0 * checkpoint * between);
        first * (1.0 + libm::sqrt(x) / 3.0 + x / 9.0) - checkpoint
    }

    /// The share of time that is useful work: the rest is checkpoints, restarts and work done again
    /// (the same, equation 20).
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.goodput_at(self.interval())
    }

    /// The same with `interval` between two checkpoints.
    #[must_use]
    pub fn goodput_at(&self, interval: f64) -> f64 {
        let Self { between, checkpoint, restart } = *self;
        if interval <= 0.0 {
            // Checkpoints that take no time are always there: restarts are all that is lost.
            return libm::exp(-restart / between);
        }
        let cycle = libm::expm1((interval + checkpoint) / between);
        interval / (between * libm::exp(restart / between) * cycle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_failures_all_time_is_useful() {
        let calm = Failures { between: 1e12, checkpoint: 30.0, restart: 600.0 };
        assert!(calm.goodput() > 0.9999);
    }

    #[test]
    fn checkpoints_that_take_no_time_leave_restarts() {
        let failures = Failures { between: 10_000.0, checkpoint: 0.0, restart: 500.0 };
        let brief = failures.goodput_at(1e-3);
        assert!((failures.goodput() - brief).abs() < 1e-6, "{brief}");
        assert!((failures.goodput() - 0.951).abs() < 1e-3);
    }

    #[test]
    fn the_interval_is_that_which_loses_least() {
        let failures = Failures { between: 11_000.0, checkpoint: 60.0, restart: 600.0 };
        let wall = |interval: f64| {
            let cycle = libm::expm1((interval + failures.checkpoint) / failures.between);
            cycle / interval
        };
        let best = failures.interval();
        // Young: sqrt(2 x 60 x 11,000) = 1149 s.
        assert!((best - 1149.0 + 60.0).abs() < 30.0, "{best}");
        assert!(wall(best) <= wall(best * 1.1) && wall(best) <= wall(best * 0.9));
        assert!((0.5..1.0).contains(&failures.goodput()), "{}", failures.goodput());
    }

    #[test]
    fn spot_devices_fail_more_often() {
        let on_demand = Failures::of(1024, 50_000.0, 0.0, 60.0, 600.0);
        let spot = Failures::of(1024, 50_000.0, 0.01, 60.0, 600.0);
        assert!((on_demand.between - 50_000.0 * 3600.0 / 1024.0).abs() < 1e-6);
        assert!(spot.goodput() < on_demand.goodput());
    }
}
