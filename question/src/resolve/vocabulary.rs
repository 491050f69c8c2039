//! The output layer in shards: the times of S and T, as given or from FLOPs.
//!
//! The input layer is not a pass of its own. Its forward runs one microbatch ahead and its backward
//! behind a broadcast that no pass waits for (Vocabulary Parallelism, appendix C), so that only their
//! time on the stage counts: they are parts of S and of T.

use pipeline::{Collectives, Fault, Nanos, Shape, ShardTimes, Vocabulary};

use crate::keys::Keys;
use crate::source::ScheduleSource;
use crate::values::passes::Barriers;

/// Checks that S and T have times where `rule` has them.
pub(super) fn check(keys: &Keys, rule: &ScheduleSource, shape: Shape) -> Result<(), Fault> {
    if !shape.has_shards() || keys.of_vocabulary().next().is_some() {
        return Ok(());
    }
    match rule {
        ScheduleSource::Family(family) => Err(family.needs_shard_times()),
        ScheduleSource::File(..) | ScheduleSource::Searched(_) => {
            Err(Fault::ShardCount { what: "costs", given: 0, shards: shape.stages() })
        }
    }
}

/// The times of S and T on each stage.
pub(super) fn times(keys: &Keys, shape: Shape) -> Result<Vec<ShardTimes>, Fault> {
    let output = match keys.vocab_tflops {
        Some(tflops) => vec![derived(keys, shape, tflops)?; shape.stages()],
        None => {
            let [before, after] = [("vocab-s", &keys.vocab_s), ("vocab-t", &keys.vocab_t)]
                .map(|(what, times)| by_stage(what, times.as_deref().unwrap_or_default(), shape));
            let pairs = before?.into_iter().zip(after?);
            pairs.map(|(before, after)| ShardTimes { before, after }).collect()
        }
    };
    let input = [
        ("vocab-input-forward", &keys.vocab_input_forward),
        ("vocab-input-backward", &keys.vocab_input_backward),
    ];
    let none = [Nanos(0)];
    let [forward, backward] =
        input.map(|(what, times)| by_stage(what, times.as_deref().unwrap_or(&none), shape));
    let (forward, backward) = (forward?, backward?);
    let add = |(stage, times): (usize, ShardTimes)| ShardTimes {
        before: Nanos(times.before.0.saturating_add(forward[stage].0)),
        after: Nanos(times.after.0.saturating_add(backward[stage].0)),
    };
    Ok(output.into_iter().enumerate().map(add).collect())
}

/// The times of the collectives.
pub(super) fn collectives(keys: &Keys) -> Collectives {
    let Barriers([statistics, hidden_gradient]) = keys.vocab_barrier.unwrap_or_default();
    let broadcast = keys.vocab_broadcast.unwrap_or_default();
    Collectives { broadcast, statistics, hidden_gradient }
}

/// One for every stage, from one for all or one per stage.
pub(super) fn by_stage<T: Copy>(
    what: &'static str,
    values: &[T],
    shape: Shape,
) -> Result<Vec<T>, Fault> {
    let stages = shape.stages();
    match values {
        [all] => Ok(vec![*all; stages]),
        each if each.len() == stages => Ok(each.to_vec()),
        _ => {
            let chunks = u16::try_from(stages).unwrap_or(u16::MAX);
            Err(Fault::ValueCount { what, given: values.len(), stages, chunks })
        }
    }
}

/// From 6bshV FLOPs over p stages, in S and T by thirds.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn derived(keys: &Keys, shape: Shape, tflops: f64) -> Result<ShardTimes, Fault> {
    let given = keys.hardware.vocabulary.unwrap_or(0);
    let vocabulary = Vocabulary::padded(given, shape.stages());
    let sizes = [keys.hidden, keys.seq, keys.microbatch_size, Some(vocabulary)];
    let elements: f64 = sizes.iter().map(|size| size.unwrap_or(0) as f64).product();
    let third = 2.0 * elements / shape.stages() as f64 / (tflops * 1e12) * 1e9;
    if third >= 1e18 {
        return Err(Fault::Overflow { what: "the times" });
    }
    let thirds = shape.vocabulary().thirds().map(f64::from);
    let [before, after] = thirds.map(|count| Nanos((count * third).round() as u64));
    Ok(ShardTimes { before, after })
}
