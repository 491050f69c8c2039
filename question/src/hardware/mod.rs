//! The hardware of a pipeline, as a question asks for it: from keys to [`Hardware`].

pub mod clusters;
mod experts;

pub use experts::spread as spread_of_experts;
use pipeline::{Bytes, Hops, Nanos, Placement, Shape, spread};
pub use sim::Hardware;
use sim::boundary::{Boundary, GradientReduction, Synchronisation};
use sim::cluster::{Cluster, Seating, Seats};
use sim::engine::{Communication, EngineError, MAX_RUN, Messages};
use sim::straggler;

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::HardwareKeys;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
use crate::values::hardware::{BoundaryKey, CommunicationModeKey, FullKey};

/// The hardware keys of copies to the host.
pub const COPYING: [&str; 3] = ["offload", "reload-ahead", "max-inflight-offloads"];

/// The hardware that `setting` asks for, if it has keys of it; a microbatch crosses links in
/// `segments`.
pub fn of(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    shape: Shape,
    placement: Placement,
    segments: u32,
) -> Result<Option<Hardware>, Diagnostic> {
    let (keys, all) = (&setting.keys.hardware, &setting.keys);
    // Keys of copies to the host alone need no hardware.
    if keys.given().all(|key| COPYING.contains(&key)) {
        return Ok(None);
    }
    let fail = |key, message| scenario.error(setting, Some(key), message);
    let stages = shape.stages();
    let cluster = match &keys.cluster {
        Some(name) => {
            let replicas =
                experts::replicas(all, stages).map_err(|wrong| fail("expert-parallel", wrong))?;
            clusters::named(context, name, stages.saturating_mul(replicas))?
        }
        None => {
            let hops = ideal_hops(all, shape, placement);
            Cluster::linked(devices(keys, stages), hops.map_err(|wrong| fail(wrong.0, wrong.1))?)
        }
    };
    let seating = keys.seating.as_ref().map_or(&Seating::Contiguous, |seating| &seating.0);
    let seats = Seats::new(&cluster, stages, seating);
    let seats = seats.map_err(|error| fail("seating", error.to_string()))?;
    let mut messages = messages(all, &cluster).map_err(|message| fail("cluster", message))?;
    messages.bytes = Bytes(messages.bytes.0.div_ceil(u64::from(segments)));
    let experts = experts::group(all, &cluster, &seats);
    let experts =
        experts.map_err(|(message, cure)| fail("expert-parallel", message).with_help(cure))?;
    let steps = steps(keys, shape).map_err(|message| fail("steps", message))?;
    let resident = resident(all, shape, placement).map_err(|(key, message)| fail(key, message))?;
    let capacities =
        capacities(keys, &cluster).map_err(|message| fail("device-memory", message))?;
    let waits = keys.when_full == Some(FullKey::Wait);
    if waits && (capacities.is_none() || !measures_bytes(all)) {
        let message = "passes can only wait for memory if --device-memory and the bytes of \
                       activations (--activation, or --layers-per-stage) are known";
        return Err(fail("when-full", message.to_owned()));
    }
    let boundary = boundary(all, steps).map_err(|message| fail("boundary", message))?;
    let communication = communication(keys);
    Ok(Some(Hardware {
        cluster,
        seats,
        communication,
        messages,
        experts,
        steps,
        boundary,
        resident,
        measures_activations: measures_bytes(all),
        capacities,
        waits,
    }))
}

/// The number of steps that `keys` ask for, few enough for the engine.
fn steps(keys: &HardwareKeys, shape: Shape) -> Result<u32, String> {
    let steps = keys.steps.unwrap_or(1);
    if steps == 0 {
        return Err("steps must be at least 1".to_owned());
    }
    // F and BW of each cell at least: the boundaries of more steps need not be drawn.
    let passes = (2 * shape.cells() as u64).saturating_mul(u64::from(steps));
    if passes > MAX_RUN {
        return Err(EngineError::TooManyPasses { steps, passes }.to_string());
    }
    Ok(steps)
}

/// The hops of links between devices that are those between stages.
fn ideal_hops(
    keys: &Keys,
    shape: Shape,
    placement: Placement,
) -> Result<Hops, (&'static str, String)> {
    let links = keys.hop.as_deref().unwrap_or(&[Nanos(0)]);
    let hops = Hops::placed(shape, placement, links).map_err(|fault| ("hop", fault.to_string()))?;
    if keys.hardware.seating.is_some() && !hops.are_alike() {
        let message = "the hops of links that differ are those between stages, wherever these sit: leave out \
                       seating, or give --cluster instead of --hop";
        return Err(("seating", message.to_owned()));
    }
    Ok(hops)
}

/// Checks that the cluster `keys` name exists and can be read.
pub fn check_files(context: &Context<'_>, keys: &Keys) -> Result<(), Diagnostic> {
    let stages = keys.stages.and_then(|stages| usize::try_from(stages).ok()).unwrap_or(1);
    keys.hardware
        .cluster
        .iter()
        .try_for_each(|name| clusters::named(context, name, stages).map(|_| ()))
}

/// As many devices as stages, or as an explicit seating names.
fn devices(keys: &HardwareKeys, stages: usize) -> usize {
    match keys.seating.as_ref().map(|seating| &seating.0) {
        // No more devices than stages can be used; a larger number is refused as unknown.
        Some(Seating::Explicit(devices)) => {
            devices.iter().map(|device| device.saturating_add(1)).max().unwrap_or(0).min(stages)
        }
        _ => stages,
    }
}

/// The memory of each device: as given, one for all or one each, or that of the cluster.
fn capacities(keys: &HardwareKeys, cluster: &Cluster) -> Result<Option<Vec<Bytes>>, String> {
    let devices = cluster.devices();
    match keys.device_memory.as_deref() {
        None => Ok(cluster.memory().map(|memory| vec![memory; devices])),
        Some([all]) => Ok(Some(vec![*all; devices])),
        Some(each) if each.len() == devices => Ok(Some(each.to_vec())),
        Some(each) => {
            let given = each.len();
            Err(format!("device-memory has {given} values: give 1, or {devices} (one per device)"))
        }
    }
}

/// Whether activations are known in bytes of whole stages, to be compared with a device.
pub fn measures_bytes(keys: &Keys) -> bool {
    keys.activation.is_some() || keys.layers_per_stage.is_some() || keys.profile.is_some()
}

fn communication(keys: &HardwareKeys) -> Communication {
    Communication {
        sharing: keys.sharing.map(|sharing| sharing.0).unwrap_or_default(),
        protocol: keys.protocol.map(|protocol| protocol.0).unwrap_or_default(),
        blocking: keys.communication == Some(CommunicationModeKey::Blocking),
    }
}

/// The messages between chunks: as given, or b s h numbers of 2 bytes.
fn messages(keys: &Keys, cluster: &Cluster) -> Result<Messages, String> {
    let from_model = || {
        let [hidden, seq, size] = [keys.hidden?, keys.seq?, keys.microbatch_size?];
        let numbers = (u128::from(hidden) * u128::from(seq)).saturating_mul(u128::from(size));
        let bytes = numbers.saturating_mul(2);
        Some(Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)))
    };
    let limit = Bytes(1 << 44);
    match keys.hardware.message.or_else(from_model) {
        Some(bytes) if bytes <= limit => Ok(Messages { bytes }),
        Some(bytes) => Err(format!("a message of {bytes}: at most {limit}")),
        None if cluster.wires().is_empty() => Ok(Messages::default()),
        None => Err("the size of what crosses a link is not known: give --message, or --hidden, \
                     --seq and --microbatch-size"
            .to_owned()),
    }
}

/// The memory that each stage holds all the time: as given, or from the parameters.
fn resident(
    keys: &Keys,
    shape: Shape,
    placement: Placement,
) -> Result<Vec<Bytes>, (&'static str, String)> {
    let stages = shape.stages();
    let hardware = &keys.hardware;
    match (&hardware.resident, hardware.vocabulary) {
        (Some(_), Some(_)) => {
            Err(("vocabulary", "resident and vocabulary exclude each other".to_owned()))
        }
        (Some(values), None) => {
            let by_stage = Shape::new(stages as u64, 1, 1)
                .and_then(|single| spread("resident", values, single, usize::from));
            by_stage.map_err(|fault| ("resident", fault.to_string()))
        }
        (None, Some(vocabulary)) => {
            from_parameters(keys, vocabulary, shape, placement).map_err(|m| ("vocabulary", m))
        }
        (None, None) => Ok(vec![Bytes(0); stages]),
    }
}

/// The memory of each stage for weights, gradients and optimizer state.
///
/// A layer has 12 h^2 + 13 h parameters, the embedding (V + s) h (Narayanan et al. 2021, arXiv
/// 2104.04473, section 5.1), the LM head V h. They live where the first and last chunk do; where
/// microbatches go both ways, every stage holds a chunk of each way; where the vocabulary is in
/// shards, every stage holds an equal part of both (positions stay with the first chunk).
fn from_parameters(
    keys: &Keys,
    vocabulary: u64,
    shape: Shape,
    placement: Placement,
) -> Result<Vec<Bytes>, String> {
    let sizes = [keys.hidden, keys.seq, keys.layers_per_stage];
    let [Some(hidden), Some(seq), Some(layers)] = sizes.map(|size| size.map(u128::from)) else {
        return Err("vocabulary needs hidden, seq and layers-per-stage".to_owned());
    };
    let vocabulary = u128::from(vocabulary);
    let per_parameter = u128::from(keys.hardware.bytes_per_parameter.unwrap_or(18));
    let layer = hidden.saturating_mul(hidden).saturating_mul(12).saturating_add(13 * hidden);
    let embedding = (vocabulary + seq).saturating_mul(hidden);
    let head = vocabulary.saturating_mul(hidden);
    let shard = 2 * head.div_ceil(shape.stages() as u128);
    let (embedding, head, shard) = match shape.has_shards() {
        true => (seq.saturating_mul(hidden), 0, shard),
        false => (embedding, head, 0),
    };
    let bytes = |stage: usize| {
        let chunks: Vec<u16> = placement.chunks_of(shape, stage).collect();
        let [embedding, head] = [(0, embedding), (shape.chunks() - 1, head)]
            .map(|(chunk, size)| if chunks.contains(&chunk) { size } else { 0 });
        let copies = chunks.len() as u128 / u128::from(shape.chunks_per_stage());
        let layers = layers.saturating_mul(layer).saturating_mul(copies);
        let parameters = layers.saturating_add(embedding + shard).saturating_add(head);
        let bytes = u64::try_from(parameters.saturating_mul(per_parameter)).ok()?;
        (bytes < 1 << 60).then_some(Bytes(bytes))
    };
    let bytes = (0..shape.stages()).map(bytes).collect::<Option<Vec<_>>>();
    bytes.ok_or_else(|| "the parameters of a stage take more than 1 EiB".to_owned())
}

fn boundary(keys: &Keys, steps: u32) -> Result<Boundary, String> {
    let hardware = &keys.hardware;
    let reduction = hardware.gradient_reduction.map_or_else(GradientReduction::default, |key| {
        GradientReduction { time: key.time, overlapped: key.overlapped }
    });
    let synchronisation = match hardware.boundary.unwrap_or(BoundaryKey::Barrier) {
        BoundaryKey::Barrier => Synchronisation::Barrier,
        BoundaryKey::Asynchronous => Synchronisation::Asynchronous,
        BoundaryKey::PostValidation(probability) => {
            let failing = straggler::failing_steps(keys.seed.unwrap_or(0), steps, probability);
            let failing = failing.map_err(|error| error.to_string())?;
            Synchronisation::PostValidation {
                failing,
                rollback: hardware.rollback.unwrap_or_default(),
            }
        }
    };
    Ok(Boundary {
        reduction,
        synchronisation,
        exchange: hardware.exchange.unwrap_or_default(),
        optimizer: hardware.optimizer.unwrap_or_default(),
    })
}

/// The hardware keys of `setting` that have no influence, in words.
pub fn ignored(setting: &Setting) -> Vec<String> {
    let (keys, all) = (&setting.keys.hardware, &setting.keys);
    let mut notes = Vec::new();
    if keys.cluster.is_some() && all.hop.is_some() {
        notes.push("the cluster says what a transfer takes: the hop only shapes orders".to_owned());
    }
    if keys.cluster.is_none() && keys.message.or(all.microbatch_size.map(Bytes)).is_some() {
        let shared = keys.sharing.is_some() || keys.message.is_some();
        if shared {
            let note = "without a cluster links are never shared: message and sharing are ignored";
            notes.push(note.to_owned());
        }
    }
    let has_wires = keys.cluster.is_some() && all.moves_bytes();
    if all.has_chain() && all.expert_parallel.is_some() && !has_wires {
        let note = "no segment moves bytes over a cluster (--chain dispatch=120MB/60MB): expert-parallel is ignored";
        notes.push(note.to_owned());
    }
    let copying = keys.given().filter(|key| COPYING.contains(key) && keys.offload.is_none());
    notes.extend(copying.map(|key| format!("nothing is offloaded (--offload): {key} is ignored")));
    let post = matches!(keys.boundary, Some(BoundaryKey::PostValidation(p)) if p > 0.0);
    if keys.rollback.is_some() && !post {
        notes.push("no validation fails: the rollback is ignored".to_owned());
    }
    let known = keys.device_memory.is_some() || keys.cluster.is_some();
    if known && !measures_bytes(all) && keys.given().next().is_some() {
        let note = "activations are not known in bytes of whole stages (--layers-per-stage with \
                    --microbatch-size, or --activation): they are left out of the memory of the \
                    devices";
        notes.push(note.to_owned());
    }
    notes
}
