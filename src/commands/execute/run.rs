//! Runs a job, with its stages as threads of this process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use executor::{Boundary, Failure, Measured, Plan, Timed};

use super::model::{Seen, Trained};
use super::question::Job;
use super::report::Check;
use super::{DeviceKind, Execute};
use crate::error::Error;
use crate::hardware::keys::BoundaryKey;
use crate::outcome::named;

/// The plan of `job`.
pub fn plan(job: &Job, execute: &Execute) -> Result<Plan, Error> {
    let max_norm = execute.max_norm.unwrap_or(f64::INFINITY);
    let boundary = match job.boundary {
        BoundaryKey::Asynchronous => Boundary::Asynchronous,
        BoundaryKey::Barrier => Boundary::Barrier { max_norm },
        BoundaryKey::PostValidation(_) => Boundary::PostValidation { max_norm },
    };
    let hop = match execute.device {
        DeviceKind::Timed => job.case.problem.costs().hop(),
        DeviceKind::Cpu | DeviceKind::Cuda => pipeline::Nanos(0),
    };
    Plan::new(job.case.schedule.clone(), job.steps)
        .and_then(|plan| plan.with_warm_up(execute.warm_up))
        .and_then(|plan| plan.with_boundary(boundary))
        .and_then(|plan| plan.with_patience(Duration::from_nanos(execute.patience.0)))
        .and_then(|plan| plan.with_hop(hop))
        .map_err(|error| named(&job.case, &error))
}

/// Runs `job` here.
pub fn here(
    job: &Job,
    execute: &Execute,
    trained: Option<&Trained>,
) -> Result<(Measured, Option<Check>), Error> {
    let plan = plan(job, execute)?;
    let Some(trained) = trained else {
        let costs = Arc::new(job.case.problem.costs().clone());
        let measured = executor::run(&plan, move |_| Ok(Timed::new(Arc::clone(&costs))));
        return Ok((measured.map_err(|failure| failed(job, &failure))?, None));
    };
    let seen = Arc::new(Mutex::new(Seen::default()));
    let make = {
        let (trained, schedule) = (trained.clone(), job.case.schedule.clone());
        let seen = Arc::clone(&seen);
        move |stage| trained.worker(&schedule, stage, Arc::clone(&seen))
    };
    let measured = executor::run(&plan, make).map_err(|failure| failed(job, &failure))?;
    if !execute.check {
        return Ok((measured, None));
    }
    if measured.skipped > 0 {
        let message = "updates were left out for a NaN or an infinity: there is nothing to check";
        return Err(named(&job.case, &message));
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let check = trained.check(&plan, &measured, &seen).map_err(|error| named(&job.case, &error))?;
    Ok((measured, Some(check)))
}

/// A failure as an error, with its cure.
pub fn failed(job: &Job, failure: &Failure) -> Error {
    let error = named(&job.case, failure);
    match failure {
        Failure::Stuck { .. } => error.with_help(
            "a stage that waits gives up after --patience: raise it if passes take that long",
        ),
        _ => error,
    }
}
