//! Machines as data files, and the ones built in.

use std::path::Path;

use pipeline::{Bandwidth, Bytes, Nanos};
use plan::{Efficiency, Machine, Measured, Price, Reliability, Times, Transformer};
use profile::{Part, Quantity};
use serde::Deserialize;
use sim::cluster::Host;

use crate::built_in::BuiltIn;
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::key_set::text;
use crate::profiles;

/// The machines that can be named without a file.
const MACHINES: BuiltIn = BuiltIn { what: "machine", folder: scenarios::MACHINES };

/// The memory of a device that no framework gets, unless the machine's file gives it: the context
/// of CUDA with the kernels of libraries, about 1 GB (pytorch/pytorch#28394), buffers of NCCL for
/// the groups of tensor, data and pipeline parallelism, 544 to 688 MB each (NVIDIA/nccl#964), and
/// about 1 GB between blocks.
const RESERVE: Bytes = Bytes(4_000_000_000);

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Document {
    #[serde(rename = "source", default)]
    _source: String,
    device: DeviceDocument,
    efficiency: EfficiencyDocument,
    price: PriceDocument,
    failures: FailuresDocument,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DeviceDocument {
    r#type: Option<String>,
    #[serde(deserialize_with = "text")]
    memory: Option<Bytes>,
    /// [`RESERVE`] unless given.
    #[serde(default, deserialize_with = "text")]
    reserve: Option<Bytes>,
    peak_tflops: f64,
    peak_fp8_tflops: Option<f64>,
    #[serde(deserialize_with = "text")]
    bandwidth: Option<Bandwidth>,
    per_node: u64,
    #[serde(deserialize_with = "text")]
    link: Option<Bandwidth>,
    #[serde(deserialize_with = "text")]
    network: Option<Bandwidth>,
    #[serde(default, deserialize_with = "text")]
    host_link: Option<Bandwidth>,
    /// 1 unless given.
    devices_per_host_link: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct EfficiencyDocument {
    matmul: f64,
    fill: f64,
    depth: f64,
    flash: f64,
    memory: f64,
    link: f64,
    ring: f64,
    shared_ring: f64,
    tensor_network: f64,
    hop: f64,
    #[serde(deserialize_with = "text")]
    collective_latency: Option<Nanos>,
    #[serde(deserialize_with = "text")]
    hop_latency: Option<Nanos>,
    #[serde(deserialize_with = "text")]
    launch: Option<Nanos>,
    launch_tensor: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct PriceDocument {
    on_demand: f64,
    reserved: Option<f64>,
    spot: Option<f64>,
    preemptions_per_hour: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FailuresDocument {
    hours_between_failures: f64,
    #[serde(deserialize_with = "text")]
    restart: Option<Nanos>,
    #[serde(deserialize_with = "text")]
    checkpoint: Option<Bandwidth>,
}

/// The machine in the file `name`, looked for in `folder`, or the built-in one of that name.
pub fn named(context: &Context<'_>, name: &str, folder: &Path) -> Result<Machine, Diagnostic> {
    let path = folder.join(name);
    let content = MACHINES.text(context, name, &path)?;
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    parse(&stem, &path, &content)
}

/// All machines that are built in.
pub fn built_in() -> Result<Vec<Machine>, Diagnostic> {
    MACHINES.folder.files().map(|(name, content)| parse(name, Path::new(name), content)).collect()
}

/// The built-in machine whose devices are of the type `device`.
pub fn of_device(device: &str) -> Result<Machine, Diagnostic> {
    let mut known = Vec::new();
    for machine in built_in()? {
        if machine.device.as_deref() == Some(device) {
            return Ok(machine);
        }
        known.extend(machine.device);
    }
    let message = format!("no built-in machine has devices of the type {device}");
    Err(Diagnostic::new(message).with_help(format!("those there are: {}", known.join(", "))))
}

/// The machine that `content` describes.
pub fn parse(name: &str, path: &Path, content: &str) -> Result<Machine, Diagnostic> {
    let document: Document =
        toml::from_str(content).map_err(|error| Diagnostic::toml(path, content, &error, &[]))?;
    let wrong = |(key, message): (&str, String)| {
        let place = content.find(key).map(|at| at..at + key.len());
        Diagnostic::at(path, content, place, format!("machine {name}: {message}"))
    };
    check(&document).map_err(wrong)?;
    Ok(machine(name, &document))
}

/// Checks every number of `document`; the key that is wrong, and why.
fn check(document: &Document) -> Result<(), (&'static str, String)> {
    let Document { device, efficiency, price, failures, .. } = document;
    let within = |key, value: f64, least: f64, most: f64| {
        if value >= least && value <= most {
            return Ok(());
        }
        Err((key, format!("{key} is {value}: it must be from {least} to {most}")))
    };
    within("peak-tflops", device.peak_tflops, 1e-3, 1e6)?;
    within("peak-fp8-tflops", device.peak_fp8_tflops.unwrap_or(1.0), 1e-3, 1e6)?;
    within("per-node", plan::number(device.per_node), 1.0, 65536.0)?;
    let behind = plan::number(device.devices_per_host_link.unwrap_or(1));
    within("devices-per-host-link", behind, 1.0, plan::number(device.per_node))?;
    let shares = [
        ("matmul", efficiency.matmul),
        ("flash", efficiency.flash),
        ("memory", efficiency.memory),
        ("link", efficiency.link),
        ("ring", efficiency.ring),
        ("shared-ring", efficiency.shared_ring),
        ("tensor-network", efficiency.tensor_network),
        ("hop", efficiency.hop),
    ];
    for (key, share) in shares {
        within(key, share, 1e-3, 1.0)?;
    }
    within("fill", efficiency.fill, 0.0, 1e12)?;
    within("depth", efficiency.depth, 0.0, 1e6)?;
    within("launch-tensor", efficiency.launch_tensor, 1.0, 1e3)?;
    check_prices(price)?;
    within("hours-between-failures", failures.hours_between_failures, 1.0, 1e9)?;
    let given = [
        ("memory", device.memory.is_some_and(|memory| memory.0 > 0)),
        ("bandwidth", device.bandwidth.is_some()),
        ("link", device.link.is_some()),
        ("network", device.network.is_some()),
        ("checkpoint", failures.checkpoint.is_some()),
    ];
    let memory = device.memory.unwrap_or_default();
    if let Some(reserve) = device.reserve.filter(|reserve| *reserve >= memory) {
        let message =
            format!("reserve is {reserve}, but memory is {memory}: nothing would be left");
        return Err(("reserve", message));
    }
    match given.into_iter().find(|(_, given)| !given) {
        Some((key, _)) => Err((key, format!("{key} must be given, and more than nothing"))),
        None => Ok(()),
    }
}

fn check_prices(price: &PriceDocument) -> Result<(), (&'static str, String)> {
    let all =
        [("on-demand", Some(price.on_demand)), ("reserved", price.reserved), ("spot", price.spot)];
    for (key, dollars) in all {
        if let Some(dollars) = dollars.filter(|dollars| !(*dollars > 0.0 && *dollars <= 1e6)) {
            let message = format!(
                "{key} is {dollars}: a price is more than 0 and at most 1000000 dollars an hour, \
                 or else the cheapest plan means nothing"
            );
            return Err((key, message));
        }
    }
    let rate = price.preemptions_per_hour.unwrap_or(0.0);
    if !(0.0..=60.0).contains(&rate) {
        let key = "preemptions-per-hour";
        return Err((key, format!("{key} is {rate}: it must be from 0 to 60")));
    }
    Ok(())
}

fn machine(name: &str, document: &Document) -> Machine {
    let Document { device, efficiency: given, price, failures, .. } = document;
    let rate = |bandwidth: Option<Bandwidth>| {
        bandwidth.map_or(1.0, |bandwidth| plan::number(bandwidth.bytes_per_second()))
    };
    let seconds = |time: Option<Nanos>| plan::number(time.unwrap_or_default().0) / 1e9;
    let spot = price.spot.map(|dollars| (dollars, price.preemptions_per_hour.unwrap_or(0.0)));
    Machine {
        name: name.to_owned(),
        device: device.r#type.clone(),
        memory: device.memory.unwrap_or_default(),
        reserve: device.reserve.unwrap_or(RESERVE),
        peak: device.peak_tflops * 1e12,
        peak_fp8: device.peak_fp8_tflops.map(|peak| peak * 1e12),
        bandwidth: rate(device.bandwidth),
        node: device.per_node,
        link: rate(device.link),
        network: rate(device.network),
        host: device.host_link.map(|bandwidth| Host {
            bandwidth,
            devices_per_link: device.devices_per_host_link.unwrap_or(1),
        }),
        efficiency: Efficiency {
            matmul: given.matmul,
            fill: given.fill,
            depth: given.depth,
            flash: given.flash,
            memory: given.memory,
            link: given.link,
            ring: given.ring,
            shared_ring: given.shared_ring,
            tensor_network: given.tensor_network,
            hop: given.hop,
            collective_latency: seconds(given.collective_latency),
            hop_latency: seconds(given.hop_latency),
            launch: seconds(given.launch),
            launch_tensor: given.launch_tensor,
        },
        price: Price { on_demand: price.on_demand, reserved: price.reserved, spot },
        reliability: Reliability {
            hours_between_failures: failures.hours_between_failures,
            restart: seconds(failures.restart),
            checkpoint: rate(failures.checkpoint),
        },
        measured: None,
    }
}

/// The times of a layer of `model` by the profile in `path`.
pub fn measured(
    context: &Context<'_>,
    path: &Path,
    model: &Transformer,
) -> Result<Measured, Diagnostic> {
    let profile = profiles::read(context, path)?;
    let Some(profile) = profile.machine() else {
        let message = format!("{}: it is the profile of a trainer", path.display());
        let cure = "measure the machine with `debubble calibrate`";
        return Err(Diagnostic::new(message).with_help(cure));
    };
    let own = [
        ("hidden", model.hidden),
        ("heads", model.heads),
        ("seq", model.sequence),
        ("vocabulary", model.vocabulary),
    ];
    for (key, size) in profile.model.sizes() {
        let told = own.iter().find(|(name, _)| *name == key);
        if let Some((_, told)) = told.filter(|(_, told)| *told != size as u64) {
            let message = format!(
                "{}: it was measured for a {key} of {size}, but the model's is {told}",
                path.display()
            );
            let cure = "measure the model with `debubble calibrate`, or take the profile out";
            return Err(Diagnostic::new(message).with_help(cure));
        }
    }
    let attention = model.kv_heads == model.heads
        && model.heads * model.head_size == model.hidden
        && !model.qk_norm;
    if !attention || model.gated || model.experts.is_some() || model.ffn != 4 * model.hidden {
        let message = "profiles are of GPT: the model has gates, experts, grouped queries, QK \
                       norm, or widths of heads or MLP that GPT has not";
        return Err(Diagnostic::new(format!("{}: {message}", path.display())));
    }
    let seconds = |quantity: &Quantity| plan::number(quantity.median().0) / 1e9;
    let part = |part: &Part| Times {
        forward: seconds(&part.forward),
        backward_input: seconds(&part.backward_input),
        backward_weight: seconds(&part.backward_weight),
    };
    Ok(Measured {
        microbatch: profile.model.one_layer().microbatch_size() as u64,
        layer: part(&profile.layer),
        ends: part(&profile.embedding).plus(part(&profile.head)),
    })
}
