//! More memory: for activations where the order is made for a limit, on devices where passes wait.

use pipeline::{Bytes, Family, Limit, LimitUse, Limits, Schedule};

use super::{Baseline, Place, Variant, Variants};

/// One GiB.
const GIB: Bytes = Bytes(1 << 30);

/// More memory, where the order is made for a limit, or passes wait for it: on a stage and its
/// device, or on all.
pub(super) fn more(baseline: &Baseline<'_>, place: Place) -> Variants {
    let on = match place {
        Place::Stage(stage) => Some(stage),
        Place::Whole | Place::Link(..) => None,
    };
    Ok(for_activations(baseline, on).into_iter().chain(on_devices(baseline, on)).collect())
}

/// The order that the family makes under larger limits, where a limit shapes it and there is one.
fn for_activations(baseline: &Baseline<'_>, on: Option<usize>) -> Option<Variant> {
    let (more, amount) = match baseline.has_whole_bytes {
        true => (GIB, "1 GiB"),
        false => (baseline.microbatch_bytes, "1 M_B"),
    };
    let place = on.map_or("all stages".to_owned(), |stage| format!("stage {stage}"));
    let schedule = Some(with_limits(baseline, more, on)?);
    Some(Variant { name: format!("{amount} more on {place}"), schedule, ..Variant::default() })
}

/// Larger devices, where passes wait for memory. A device is tried with the first of its stages.
fn on_devices(baseline: &Baseline<'_>, on: Option<usize>) -> Option<Variant> {
    let hardware = baseline.simulation.hardware()?;
    let device = on.map(|stage| hardware.seats.device(stage));
    let seats = hardware.seats.devices();
    if device.is_some() && seats.iter().position(|&seat| Some(seat) == device) != on {
        return None;
    }
    let hardware = hardware.with_memory(GIB, device)?;
    let place = device.map_or("all devices".to_owned(), |device| format!("device {device}"));
    let name = format!("1 GiB more on {place}");
    Some(Variant { name, hardware: Some(hardware), ..Variant::default() })
}

fn with_limits(baseline: &Baseline<'_>, more: Bytes, on: Option<usize>) -> Option<Schedule> {
    let (family, limits) = limited(baseline)?;
    let raised = |(stage, limit): (usize, &Bytes)| match on.is_none_or(|on| on == stage) {
        true => Bytes(limit.0.saturating_add(more.0)),
        false => *limit,
    };
    let limits: Vec<Bytes> = limits.by_stage().iter().enumerate().map(raised).collect();
    let limits = Limits::new(baseline.simulation.schedule().shape(), &limits).ok()?;
    let costs = baseline.simulation.costs().clone();
    family.schedule(&baseline.problem(costs, Some(&limits)).ok()?).ok()
}

/// The family and the limits of the baseline, where limits shape its order.
fn limited(baseline: &Baseline<'_>) -> Option<(Family, Limits)> {
    let family = baseline.family?;
    let shape = baseline.simulation.schedule().shape();
    let everywhere =
        |limit: Limit| Limits::new(shape, &[limit.bytes(shape, baseline.microbatch_bytes)]).ok();
    match family.about().limit {
        // A family with a limit of its own is the search at that limit.
        LimitUse::Own(limit) if matches!(family, Family::Zb1p | Family::Zb2p) => {
            Some((Family::ZbHeuristic, everywhere(limit)?))
        }
        LimitUse::Shapes { default } => {
            Some((family, baseline.limits.cloned().or_else(|| default.and_then(everywhere))?))
        }
        _ => None,
    }
}
