//! How long activations take to the host and back, and what part of them goes there.

use pipeline::{Choice, CopyPart, CopyTimes, Costs, Footprints, Nanos, Problem};

use super::checks::has_footprints;
use super::pipeline::Pipeline;
use crate::hardware::{self, Hardware};
use crate::keys::Keys;
use crate::source::ScheduleSource;

/// A fault, and the key that it is at.
type Wrong = (&'static str, String);

/// A copy without a neighbour on the link to the host takes seven tenths of one beside a neighbour's
/// (PipeOffload, arXiv 2503.01328, section 3).
const ALONE_PER_MILLE: u32 = 700;

/// Whether the keys themselves say how long copies take.
pub const fn are_timed(keys: &Keys) -> bool {
    keys.offload_time.is_some() || keys.offload_ratio.is_some() || keys.host_bandwidth.is_some()
}

/// Takes out of `keys` what they say of copies, such as where a search says what becomes of it.
pub fn forget(keys: &mut Keys) {
    (keys.offload_time, keys.offload_ratio, keys.host_bandwidth) = (None, None, None);
    keys.devices_per_host_link = None;
}

/// How long an activation of each chunk takes to the host and back, if the question says.
pub(super) fn times(
    keys: &Keys,
    costs: &Costs,
    footprints: Option<&Footprints>,
    hardware: Option<&Hardware>,
    pipeline: &Pipeline,
) -> Result<Option<Vec<CopyTimes>>, Wrong> {
    let &Pipeline { shape, placement, .. } = pipeline;
    let given = [
        ("offload-time", keys.offload_time.is_some()),
        ("offload-ratio", keys.offload_ratio.is_some()),
        ("host-bandwidth", keys.host_bandwidth.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key);
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        return Err((second, format!("{first} and {second} exclude each other")));
    }
    let sharing = match keys.devices_per_host_link {
        None | Some(2) => true,
        Some(1) => false,
        Some(other) => {
            let message = format!("devices-per-host-link is 1 or 2, not {other}");
            return Err(("devices-per-host-link", message));
        }
    };
    let one_way = match one_way(keys, costs, footprints, pipeline)? {
        Some(times) => times,
        None => return Ok(of_cluster(keys, footprints, hardware, pipeline)),
    };
    let alone = CopyPart::new(ALONE_PER_MILLE).unwrap_or(CopyPart::WHOLE);
    let times = one_way.into_iter().zip(0..).map(|(time, chunk)| {
        let stage = placement.stage(shape, chunk, 0);
        let has_neighbour = sharing && stage ^ 1 < shape.stages();
        let time = if has_neighbour { time } else { alone.of_time(time) };
        CopyTimes { out: time, back: time }
    });
    Ok(Some(times.collect()))
}

/// By chunk, how long an activation takes one way while the neighbour on the link copies too.
fn one_way(
    keys: &Keys,
    costs: &Costs,
    footprints: Option<&Footprints>,
    pipeline: &Pipeline,
) -> Result<Option<Vec<Nanos>>, Wrong> {
    if let Some(times) = &keys.offload_time {
        let times = pipeline.by_chunk("offload-time", times);
        return times.map(Some).map_err(|fault| ("offload-time", fault.to_string()));
    }
    if let Some(ratio) = keys.offload_ratio {
        let work = costs
            .chunks()
            .iter()
            .map(|times| times.forward.0 + times.backward_input.0 + times.backward_weight.0);
        return Ok(Some(work.map(|work| ratio.one_way(Nanos(work))).collect()));
    }
    let Some(bandwidth) = keys.host_bandwidth else { return Ok(None) };
    let Some(footprints) = footprints.filter(|_| hardware::measures_bytes(keys)) else {
        let message = "host-bandwidth needs the bytes of activations: --activation, or \
                       --layers-per-stage and --microbatch-size";
        return Err(("host-bandwidth", message.to_owned()));
    };
    let time = |chunk| {
        let bytes = u128::from(footprints.of(chunk).until_backward.0);
        let nanos = (bytes * 1_000_000_000).div_ceil(u128::from(bandwidth.bytes_per_second()));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    Ok(Some((0..pipeline.shape.chunks()).map(time).collect()))
}

/// The time of a copy on the links of the cluster while all devices behind one copy the same way.
fn of_cluster(
    keys: &Keys,
    footprints: Option<&Footprints>,
    hardware: Option<&Hardware>,
    &Pipeline { shape, placement, .. }: &Pipeline,
) -> Option<Vec<CopyTimes>> {
    let footprints = footprints.filter(|_| hardware::measures_bytes(keys))?;
    let hardware = hardware?;
    let time = |chunk| {
        let device = hardware.seats.device(placement.stage(shape, chunk, 0));
        let bytes = footprints.of(chunk).until_backward;
        let time = hardware.cluster.host_time(device, bytes)?;
        Some(CopyTimes { out: time, back: time })
    };
    (0..shape.chunks()).map(time).collect()
}

/// Whether orders of `rule` for `problem` copy to the host.
pub(super) fn are_made(problem: &Problem, rule: &ScheduleSource) -> bool {
    are_of(rule) || problem.copies_to_host()
}

/// Whether `rule` itself makes orders that copy to the host.
pub(super) fn are_of(rule: &ScheduleSource) -> bool {
    copies(rule) || brings(rule)
}

/// Whether `rule` is a family that copies.
fn copies(rule: &ScheduleSource) -> bool {
    rule.family().is_some_and(|family| family.about().choice == Choice::Offload)
}

/// Whether `rule` is an order with copies of its own.
fn brings(rule: &ScheduleSource) -> bool {
    matches!(rule, ScheduleSource::File(_, schedule) if schedule.copies().is_some())
}

/// What to do about a limit of copies in flight for an order that plans copies of its own.
const fn own_waits(copies: bool, brings: bool) -> Option<&'static str> {
    match (copies, brings) {
        (true, _) => Some("leave max-inflight-offloads out, or offload with another schedule"),
        (_, true) => Some("write <=N behind each | of the file instead"),
        _ => None,
    }
}

/// `problem` with what the keys say of copies, for `rule`.
pub(super) fn choose(
    keys: &Keys,
    problem: Problem,
    rule: &ScheduleSource,
    hardware: Option<&Hardware>,
) -> Result<Problem, Wrong> {
    let (copies, brings) = (copies(rule), brings(rule));
    let part = keys.hardware.offload.map(|part| CopyPart::new(part.0));
    let mut problem = problem;
    if let Some(chunks) = keys.offload_chunks.filter(|_| copies) {
        problem = problem.with_offload_chunks(chunks);
    }
    match part {
        Some(None) if copies => {
            let message = format!("{} copies a part of the activations above 0", rule.name());
            return Err(("offload", message));
        }
        Some(Some(_)) if brings => {
            let message = format!("the schedule {} brings its own copies to the host", rule.name());
            return Err(("offload", message));
        }
        Some(Some(part)) => {
            problem = problem.with_offload_part(part);
            if !copies {
                problem = problem.with_reload_ahead(keys.hardware.reload_ahead.unwrap_or(2));
            }
        }
        _ => {}
    }
    if let Some(most) = keys.hardware.max_inflight_offloads {
        if let Some(cure) = own_waits(copies, brings) {
            let message =
                format!("{} says itself when passes wait for its copies: {cure}", rule.name());
            return Err(("max-inflight-offloads", message));
        }
        problem = problem.with_max_inflight(most);
    }
    let has_links = hardware.is_some_and(|hardware| hardware.cluster.host_wires(0).is_some());
    let has_times = !problem.costs().copies().is_empty();
    let moves = brings || problem.reload_ahead().is_some();
    let whole = problem.offload_part() == CopyPart::WHOLE;
    let key = if brings { "schedule" } else { "offload" };
    if moves && !has_times && !has_links {
        let message = "offloading needs a --cluster with links to the host ([host]), or the time of a \
                       copy: --offload-time, --offload-ratio or --host-bandwidth";
        return Err((key, message.to_owned()));
    }
    if (moves || copies) && has_links && !hardware::measures_bytes(keys) {
        let message = "offloading needs the bytes of activations: --activation, or \
                       --layers-per-stage and --microbatch-size";
        return Err((key, message.to_owned()));
    }
    if (moves || copies) && !whole && !has_footprints(keys) {
        let message = "a part of an activation can only be copied where their sizes are known: \
                       --activation, or --hidden, --heads and --seq";
        return Err((key, message.to_owned()));
    }
    Ok(problem)
}
