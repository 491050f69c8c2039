//! Recomputation: which chunks discard their activations, how long R takes and what F keeps.

use pipeline::{Bytes, Costs, Fault, Footprints, Nanos, PassTimes, Share};

use super::pipeline::Pipeline;
use crate::keys::Keys;
use crate::source::ScheduleSource;
use crate::values::passes::Recomputed;

/// A key and the error message about its value.
type Wrong = (&'static str, String);

fn by_chunk<T: Share>(
    pipeline: &Pipeline,
    key: &'static str,
    values: &[T],
) -> Result<Vec<T>, Wrong> {
    pipeline.by_chunk(key, values).map_err(|fault| (key, fault.to_string()))
}

/// The part that each chunk recomputes, in model order; empty if no chunk recomputes anything.
pub(super) fn of_chunks(
    keys: &Keys,
    rule: &ScheduleSource,
    &Pipeline { shape, placement, .. }: &Pipeline,
) -> Result<Vec<Recomputed>, Wrong> {
    let chunks = 0..shape.chunks();
    let asked = match keys.recompute.as_deref() {
        None => None,
        Some([all]) => Some(vec![*all; chunks.len()]),
        Some(each) if each.len() == chunks.len() => Some(each.to_vec()),
        Some(each) if each.len() == shape.stages() => {
            Some(chunks.clone().map(|chunk| each[placement.stage(shape, chunk, 0)]).collect())
        }
        Some(each) => {
            let (stages, chunks) = (shape.stages(), shape.chunks());
            let given = each.len();
            let fault = Fault::ValueCount { what: "recompute", given, stages, chunks };
            return Err(("recompute", fault.to_string()));
        }
    };
    let ScheduleSource::File(name, schedule) = rule else {
        let asked = asked.unwrap_or_default();
        let any = asked.iter().any(|one| *one != Recomputed::Nothing);
        return Ok(if any { asked } else { Vec::new() });
    };
    if !schedule.has_recompute() && asked.is_none() {
        return Ok(Vec::new());
    }
    let of = |chunk: u16| match (&asked, schedule.recomputes(chunk)) {
        (None, false) => Ok(Recomputed::Nothing),
        (None, true) => Ok(Recomputed::Everything),
        (Some(asked), recomputes) => match asked[usize::from(chunk)] {
            Recomputed::Nothing if recomputes => Err((
                "recompute",
                format!("the schedule {name} recomputes chunk {chunk}, so it cannot be none there"),
            )),
            other => Ok(other),
        },
    };
    chunks.map(of).collect()
}

/// `costs` with the times of R of the chunks that recompute: those given, or the share of F that is run
/// again.
pub(super) fn costs(
    keys: &Keys,
    costs: Costs,
    parts: &[Recomputed],
    pipeline: &Pipeline,
) -> Result<Costs, Wrong> {
    if parts.is_empty() {
        return Ok(costs);
    }
    let overhead = keys.overhead.unwrap_or_default();
    let times = match &keys.recompute_time {
        None => None,
        Some(times) => Some(by_chunk(pipeline, "recompute-time", times)?),
    };
    let time = |(chunk, part): (usize, &Recomputed)| {
        let forward = costs.chunks()[chunk].forward.0.saturating_sub(overhead.0);
        let forward = Nanos(forward);
        let again = match (part, &times) {
            (Recomputed::Nothing, _) => return Ok(None),
            (_, Some(times)) => times[chunk].part(1, u64::from(pipeline.segments)),
            (Recomputed::Everything, None) => forward,
            (Recomputed::Layers(layers), None) => {
                let all = layers_of(keys, pipeline, chunk)?;
                forward.part((*layers).min(all), all)
            }
            (Recomputed::Selective, None) => {
                let (Some(hidden), Some(seq)) = (keys.hidden, keys.seq) else {
                    return Err(unknown("recompute-time"));
                };
                // 4bs²h of 24bsh² + 4bs²h FLOPs.
                forward.part(seq, hidden.saturating_mul(6).saturating_add(seq))
            }
        };
        Ok(Some(again + overhead))
    };
    let times = parts.iter().enumerate().map(time).collect::<Result<_, _>>()?;
    let costs = recomputed_again(keys, costs, parts, pipeline)?;
    Ok(costs.with_recompute(times))
}

/// `costs` with the time of the second recomputation added to W of each chunk that recomputes; whole backwards are
/// unchanged.
fn recomputed_again(
    keys: &Keys,
    costs: Costs,
    parts: &[Recomputed],
    pipeline: &Pipeline,
) -> Result<Costs, Wrong> {
    let Some(times) = &keys.recompute_again else { return Ok(costs) };
    let again = by_chunk(pipeline, "recompute-again", times)?;
    let chunk = |((times, part), again): ((&PassTimes, &Recomputed), Nanos)| match part {
        Recomputed::Nothing => *times,
        _ => PassTimes {
            backward_weight: times.backward_weight + again.part(1, u64::from(pipeline.segments)),
            backward: Some(times.whole_backward()),
            ..*times
        },
    };
    let chunks = costs.chunks().iter().zip(parts).zip(again).map(chunk).collect();
    Ok(costs.with_chunks(chunks))
}

/// `footprints` with the bytes that F keeps on chunks that recompute: as given, or those of the input and of the
/// layers that are not recomputed. `message` is the size of a chunk's input, if a profile gives it.
pub(super) fn footprints(
    keys: &Keys,
    footprints: Footprints,
    parts: &[Recomputed],
    pipeline: &Pipeline,
    message: Option<Bytes>,
) -> Result<Footprints, Wrong> {
    if parts.is_empty() {
        return Ok(footprints);
    }
    let bytes = match &keys.activation_kept {
        None => None,
        Some(kept) => Some(by_chunk(pipeline, "activation-kept", kept)?),
    };
    let segments = u64::from(pipeline.segments);
    let kept = |(chunk, part): (u16, &Recomputed)| {
        let at = usize::from(chunk);
        let whole = footprints.of(chunk).until_backward;
        let input = || {
            let bytes = input(keys).or(message).ok_or_else(|| unknown("activation-kept"))?;
            Ok::<_, Wrong>(Bytes(bytes.0.div_ceil(segments)))
        };
        let kept = match (part, &bytes) {
            (Recomputed::Nothing, _) => return Ok(None),
            (_, Some(bytes)) => Bytes(bytes[at].0.div_ceil(segments)),
            (Recomputed::Everything, None) => input()?,
            (Recomputed::Layers(layers), None) => {
                let all = layers_of(keys, pipeline, at)?;
                whole - whole.part((*layers).min(all), all) + input()?
            }
            (Recomputed::Selective, None) => {
                let sizes = (keys.hidden, keys.heads, keys.seq);
                let (Some(hidden), Some(heads), Some(seq)) = sizes else {
                    return Err(unknown("activation-kept"));
                };
                // 34h of 34h + 5as.
                let rest = hidden.saturating_mul(34);
                whole.part(rest, rest.saturating_add(heads.saturating_mul(seq).saturating_mul(5)))
            }
        };
        Ok(Some(kept.min(whole)))
    };
    let kept = (0u16..).zip(parts).map(kept).collect::<Result<_, _>>()?;
    Ok(footprints.with_kept(kept))
}

/// The bytes of a chunk's input for one microbatch: 2sbh of 16-bit elements by the model's sizes, or what
/// stages send each other.
fn input(keys: &Keys) -> Option<Bytes> {
    let by_sizes = || {
        // Without these, activations are those of one layer and token.
        let (size, _) = (keys.microbatch_size?, keys.layers_per_stage?);
        let tokens = size.checked_mul(keys.seq?)?;
        tokens.checked_mul(keys.hidden?)?.checked_mul(2).map(Bytes)
    };
    by_sizes().or(keys.hardware.message)
}

/// The layers of chunk number `chunk`.
fn layers_of(keys: &Keys, pipeline: &Pipeline, chunk: usize) -> Result<u64, Wrong> {
    let shape = pipeline.shape;
    if let Some(&layers) = pipeline.layers.get(chunk) {
        return Ok(layers.max(1));
    }
    let own = u64::from(shape.chunks_per_stage());
    let (all, each) = (keys.layers, keys.layers_per_stage);
    let of_stage = each.filter(|layers| *layers > 0 && layers.is_multiple_of(own));
    let of_model = all.filter(|&layers| layers > 0).map(|layers| {
        // As `layers` are cut: the first chunks have one more.
        let chunks = u64::from(shape.chunks());
        layers / chunks + u64::from((chunk as u64) < layers % chunks)
    });
    let found = of_stage.map(|layers| layers / own).or(of_model).filter(|&layers| layers > 0);
    found.ok_or_else(|| {
        let message = "a number of layers to recompute needs those that each chunk has: give layout, or \
                       layers-per-stage, a multiple of the chunks per stage";
        ("recompute", message.to_owned())
    })
}

/// The fault of a quantity of the recomputation that cannot be derived.
fn unknown(key: &'static str) -> Wrong {
    let from = match key {
        "recompute-time" => "hidden and seq",
        _ => "hidden, heads, seq, layers-per-stage and microbatch-size, or the size of a message",
    };
    ("recompute", format!("{key} is missing; where it is not given, it follows from {from}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_and_printed() {
        for text in ["none", "full", "selective", "4"] {
            assert_eq!(text.parse::<Recomputed>().unwrap().to_string(), text);
        }
        assert_eq!("0".parse(), Ok(Recomputed::Nothing));
        for text in ["", "all", "-1", "1.5", "99999999999999999999"] {
            assert!(text.parse::<Recomputed>().is_err(), "{text}");
        }
    }
}
