//! The model that a run trains, and its data.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use executor::{AdamW, Batches, BuildError, DataError, Layout, Random, Task, Text, Training};

use super::flags::Execute;
use super::job::Job;
use crate::error::Error;
use crate::host;

/// The largest text.
const MAX_TEXT: u64 = 1 << 30;

/// The training that `job` and the flags ask for; `None` if nothing is trained.
pub fn task(job: &Job, execute: &Execute) -> Result<Option<Task>, Error> {
    let Some(model) = job.model else { return Ok(None) };
    let (segments, about) = (job.case.problem.segments(), execute.backend().about());
    if segments > 1 && !about.is_host {
        let message = format!(
            "attention looks from one segment of a microbatch into those before it, for which {} has \
             no kernels: use --device cpu or timed",
            about.title
        );
        return Err(job.case.error(&message).into());
    }
    let schedule = &job.case.schedule;
    if segments > 1 && (0..schedule.shape().chunks()).any(|chunk| schedule.recomputes(chunk)) {
        let message = "a segment cannot be recomputed once others have looked at it";
        let cure = "leave --recompute out, or use --device timed";
        return Err(job.case.error(&message).with_help(cure).into());
    }
    if !model.sequence().is_multiple_of(segments as usize) {
        let sequence = model.sequence();
        let message = format!("a sequence of {sequence} tokens has no {segments} equal segments");
        return Err(job.case.error(&message).into());
    }
    let empty = Layout::empty_shard(model, job.case.schedule.shape());
    if let Some(stage) = empty.map_err(|error| job.case.error(&error))? {
        let vocabulary = model.vocabulary();
        return Err(job.case.error(&BuildError::EmptyShard { stage, vocabulary }).into());
    }
    let seed = job.seed;
    let mut fingerprint = DefaultHasher::new();
    let batches: Arc<dyn Batches> = match &execute.data {
        None => Arc::new(Random::new(model, seed)),
        Some(path) => {
            let bytes = host::read_bytes(path, MAX_TEXT)?;
            bytes.hash(&mut fingerprint);
            let text = Text::new(model, bytes, seed);
            let cause = |error: DataError| error.to_string();
            let unreadable =
                |error: DataError| ::question::Diagnostic::unreadable(path, &cause(error));
            Arc::new(text.map_err(unreadable)?)
        }
    };
    let mut rule = AdamW::default();
    if let Some(rate) = execute.learning_rate {
        if !rate.is_finite() || rate < 0.0 || rate * rule.weight_decay >= 1.0 {
            let message = format!("--learning-rate {rate}: it must be 0 or more, and below 10");
            return Err(Error::question(message));
        }
        rule.learning_rate = rate;
    }
    let training = Training { seed, rule, ..Training::default() };
    let check = execute.check.map(Into::into);
    let (fingerprint, recompute) = (fingerprint.finish(), job.recompute.clone());
    Ok(Some(Task { model, batches, fingerprint, training, recompute, check }))
}
