//! Machines as data files, and the ones built in.

pub(crate) mod calibrated;
mod efficiency;
mod range;

use std::path::Path;
use std::sync::LazyLock;

use pipeline::{Bandwidth, Bytes, Nanos};
use plan::{
    BlockFormats, CalibratedRun, Machine, Measured, Price, Reliability, Times, Transformer,
};
use profile::{Part, Quantity};
use question::built_in::BuiltIn;
use question::diagnostic::Diagnostic;
use question::host::Context;
use question::keys::read::text;
use question::quote;
use question::resolve::profiles;
use serde::Deserialize;
use sim::cluster::Host;

use self::calibrated::CalibratedDocument;
use self::efficiency::EfficiencyDocument;
use self::range::within;

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
    #[serde(default)]
    calibrated: Vec<CalibratedDocument>,
}

impl Document {
    fn calibrated(&self) -> Result<Vec<CalibratedRun>, (&'static str, String)> {
        self.calibrated.iter().map(CalibratedDocument::run).collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DeviceDocument {
    /// The names that published measurements have for it; the first is the one that answers use.
    #[serde(default, deserialize_with = "question::keys::read::list")]
    r#type: Vec<String>,
    #[serde(deserialize_with = "text")]
    memory: Option<Bytes>,
    /// [`RESERVE`] unless given.
    #[serde(default, deserialize_with = "text")]
    reserve: Option<Bytes>,
    peak_tflops: f64,
    peak_fp8_tflops: Option<f64>,
    peak_fp4_tflops: Option<f64>,
    /// Both of those with 4-bit products unless given.
    block_formats: Option<Vec<BlockFormat>>,
    #[serde(deserialize_with = "text")]
    bandwidth: Option<Bandwidth>,
    per_node: u64,
    /// As many as a node has unless given.
    domain: Option<u64>,
    #[serde(deserialize_with = "text")]
    link: Option<Bandwidth>,
    #[serde(deserialize_with = "text")]
    network: Option<Bandwidth>,
    #[serde(default, deserialize_with = "text")]
    host_link: Option<Bandwidth>,
    /// 1 unless given.
    devices_per_host_link: Option<u64>,
    watts: Option<f64>,
}

/// A format with a scale for each block of numbers.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum BlockFormat {
    MxFp8,
    NvFp4,
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
    with_text(context, name, folder).map(|(machine, _)| machine)
}

/// The machine as [`named`] finds it, with the text of its file.
pub(crate) fn with_text(
    context: &Context<'_>,
    name: &str,
    folder: &Path,
) -> Result<(Machine, String), Diagnostic> {
    let path = folder.join(name);
    let content = MACHINES.text(context, name, &path)?;
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    Ok((parse(&stem, &path, &content)?, content.into_owned()))
}

/// All machines that are built in.
pub fn built_in() -> Result<Vec<Machine>, Diagnostic> {
    MACHINES.folder.files().map(|(name, content)| parse(name, Path::new(name), content)).collect()
}

/// The built-in machine whose devices are of the type `device`, by any of the names that measurements
/// have for it.
pub fn of_device(device: &str) -> Result<Machine, Diagnostic> {
    let all = DEVICES.as_ref().map_err(Clone::clone)?;
    let named = all.iter().find(|(types, _)| types.iter().any(|known| known == device));
    if let Some((_, machine)) = named {
        return Ok(machine.clone());
    }
    let known: Vec<&str> = all.iter().flat_map(|(types, _)| types).map(String::as_str).collect();
    let message = format!("no built-in machine has devices of the type {}", quote::clip(device));
    Err(Diagnostic::new(message).with_help(format!("those there are: {}", known.join(", "))))
}

/// Machines, each behind the types of its devices.
type ByDevices = Vec<(Vec<String>, Machine)>;

/// The built-in machines, cached: tables of runs look one up for every line.
static DEVICES: LazyLock<Result<ByDevices, Diagnostic>> = LazyLock::new(|| {
    let read = |(name, content)| {
        let document = read(name, Path::new(name), content)?;
        let machine = machine(name, &document);
        Ok((document.device.r#type, machine))
    };
    MACHINES.folder.files().map(read).collect()
});

/// The machine that `content` describes.
pub fn parse(name: &str, path: &Path, content: &str) -> Result<Machine, Diagnostic> {
    read(name, path, content).map(|document| machine(name, &document))
}

/// The document that `content` is, its numbers checked.
fn read(name: &str, path: &Path, content: &str) -> Result<Document, Diagnostic> {
    let document: Document =
        toml::from_str(content).map_err(|error| Diagnostic::toml(path, content, &error, &[]))?;
    let wrong = |(key, message): (&str, String)| {
        let place = content.find(key).map(|at| at..at + key.len());
        Diagnostic::at(path, content, place, format!("machine {name}: {message}"))
    };
    check(&document).map_err(wrong)?;
    Ok(document)
}

/// Checks every number of `document`; the key that is wrong, and why.
fn check(document: &Document) -> Result<(), (&'static str, String)> {
    let Document { device, efficiency, price, failures, .. } = document;
    check_device(device)?;
    efficiency.check()?;
    check_prices(price)?;
    document.calibrated()?;
    within("hours-between-failures", failures.hours_between_failures, 1.0, 1e9)?;
    if failures.checkpoint.is_none() {
        return Err(("checkpoint", "checkpoint must be given, and more than nothing".to_owned()));
    }
    Ok(())
}

fn check_device(device: &DeviceDocument) -> Result<(), (&'static str, String)> {
    within("peak-tflops", device.peak_tflops, 1e-3, 1e6)?;
    within("peak-fp8-tflops", device.peak_fp8_tflops.unwrap_or(1.0), 1e-3, 1e6)?;
    within("peak-fp4-tflops", device.peak_fp4_tflops.unwrap_or(1.0), 1e-3, 1e6)?;
    let node = plan::number(device.per_node);
    within("per-node", node, 1.0, 65536.0)?;
    let behind = plan::number(device.devices_per_host_link.unwrap_or(1));
    within("devices-per-host-link", behind, 1.0, node)?;
    within("domain", plan::number(device.domain.unwrap_or(device.per_node)), node, 65536.0)?;
    within("watts", device.watts.unwrap_or(1.0), 1.0, 1e6)?;
    let given = [
        ("memory", device.memory.is_some_and(|memory| memory.0 > 0)),
        ("bandwidth", device.bandwidth.is_some()),
        ("link", device.link.is_some()),
        ("network", device.network.is_some()),
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

fn block_formats(device: &DeviceDocument) -> BlockFormats {
    let has = |format| match &device.block_formats {
        Some(given) => given.contains(&format),
        None => device.peak_fp4_tflops.is_some(),
    };
    BlockFormats { mxfp8: has(BlockFormat::MxFp8), nvfp4: has(BlockFormat::NvFp4) }
}

fn machine(name: &str, document: &Document) -> Machine {
    let Document { device, efficiency: given, price, failures, .. } = document;
    let rate = |bandwidth: Option<Bandwidth>| {
        bandwidth.map_or(1.0, |bandwidth| plan::number(bandwidth.bytes_per_second()))
    };
    let seconds = |time: Option<Nanos>| plan::number(time.unwrap_or_default().0) / 1e9;
    let spot = price.spot.map(|dollars| (dollars, price.preemptions_per_hour.unwrap_or(0.0)));
    let machine = Machine {
        name: name.to_owned(),
        device: device.r#type.first().cloned(),
        memory: device.memory.unwrap_or_default(),
        reserve: device.reserve.unwrap_or(RESERVE),
        peak: device.peak_tflops * 1e12,
        peak_fp8: device.peak_fp8_tflops.map(|peak| peak * 1e12),
        peak_fp4: device.peak_fp4_tflops.map(|peak| peak * 1e12),
        block_formats: block_formats(device),
        bandwidth: rate(device.bandwidth),
        node: device.per_node,
        domain: device.domain.unwrap_or(device.per_node),
        link: rate(device.link),
        network: rate(device.network),
        watts: device.watts,
        host: device.host_link.map(|bandwidth| Host {
            bandwidth,
            devices_per_link: device.devices_per_host_link.unwrap_or(1),
        }),
        efficiency: given.rates(),
        price: Price { on_demand: price.on_demand, reserved: price.reserved, spot },
        reliability: Reliability {
            hours_between_failures: failures.hours_between_failures,
            restart: seconds(failures.restart),
            checkpoint: rate(failures.checkpoint),
        },
        measured: None,
        calibrated: Vec::new(),
    };
    match document.calibrated() {
        Ok(runs) if !runs.is_empty() => machine.calibrated_by(runs),
        _ => machine,
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
        let own_size = own.iter().find(|(name, _)| *name == key);
        if let Some((_, own_size)) = own_size.filter(|(_, own_size)| *own_size != size as u64) {
            let message = format!(
                "{}: it was measured for a {key} of {size}, but the model's is {own_size}",
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

#[cfg(test)]
mod tests {
    use plan::Precision;

    use super::*;

    /// The devices in the published rows of today's models, with the machines for them. TPUs and Gaudi
    /// are not supported.
    const PUBLISHED: [(&str, &str); 12] = [
        ("A100 80GB", "a100-80g"),
        ("A100-40GB", "a100-40g"),
        ("H100 80GB", "h100"),
        ("H100-SXM-80GB", "h100"),
        ("H100", "h100"),
        ("H100-96GB-HBM2e (500 W)", "h100-96g"),
        ("H200", "h200"),
        ("H800", "h800"),
        ("B200", "b200"),
        ("B300", "b300"),
        ("GB200", "gb200"),
        ("GB300", "gb300"),
    ];

    #[test]
    fn every_published_device_has_its_machine_and_no_name_has_two() {
        for (device, name) in PUBLISHED {
            assert_eq!(of_device(device).unwrap().name, name);
        }
        let mut all = Vec::new();
        for (name, content) in MACHINES.folder.files() {
            let names = read(name, Path::new(name), content).unwrap().device.r#type;
            assert!(!names.is_empty(), "{name}");
            all.extend(names);
        }
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        let error = of_device("TPU v5p").unwrap_err();
        assert!(error.help.iter().any(|help| help.contains("GB300")), "{error:?}");
    }

    #[test]
    fn peaks_are_dense_and_double_with_half_the_bits() {
        let mut checked = 0;
        for machine in built_in().unwrap() {
            let name = &machine.name;
            if let Some(eight) = machine.peak_of(Precision::Fp8) {
                assert!((eight / machine.peak / 2.0 - 1.0).abs() < 0.05, "{name}");
                let block = machine.peak_of(Precision::MxFp8);
                // Those with 4-bit products take scales for blocks, too.
                assert_eq!(block, machine.peak_fp4.and(Some(eight)), "{name}");
                let is_nvidia = name.starts_with('b') || name.starts_with("gb");
                assert_eq!(machine.peak_of(Precision::NvFp4).is_some(), is_nvidia, "{name}");
                checked += 1;
            }
            // Blackwell Ultra has three halves of that.
            if let Some(four) = machine.peak_of(Precision::NvFp4) {
                let over = four / machine.peak_of(Precision::Fp8).unwrap();
                assert!([2.0, 3.0].iter().any(|times| (over / times - 1.0).abs() < 0.05), "{name}");
            }
            // Published sheets without sparsity: none of these reaches 2.6 PFLOP/s in 16 bits.
            assert!(machine.peak < 2.6e15, "{name}");
        }
        assert!(checked >= 10);
    }

    #[test]
    fn domains_and_rates_of_machines_are_sane() {
        for machine in built_in().unwrap() {
            let name = &machine.name;
            let is_rack = name.starts_with("gb");
            assert_eq!((machine.node, machine.domain) == (4, 72), is_rack, "{name}");
            assert!(machine.domain.is_multiple_of(machine.node), "{name}");
            assert!(machine.link > machine.network && machine.bandwidth > machine.link, "{name}");
            assert!(machine.watts.is_some_and(|watts| (250.0..=1400.0).contains(&watts)), "{name}");
            assert!(machine.memory > machine.reserve && machine.price.reserved.is_some(), "{name}");
        }
        let rack = of_device("GB200").unwrap();
        assert_eq!((rack.members_in_node(64, 1), rack.members_in_node(16, 8)), (64, 8));
    }

    #[test]
    fn a_domain_below_a_node_and_wrong_peaks_are_refused() {
        let text = scenarios::MACHINES.get("gb200").unwrap();
        for (from, to, expected) in [
            ("domain = 72", "domain = 2", "domain is 2: it must be from 4 to 65536"),
            ("peak-fp4-tflops = 10000.0", "peak-fp4-tflops = 0.0", "peak-fp4-tflops is 0"),
            ("watts = 1200.0", "watts = nan", "watts is NaN"),
            ("type = [\"GB200 186GB\", \"GB200\"]", "type = 3", "a string is needed here"),
        ] {
            assert!(text.contains(from));
            let error = parse("own", Path::new("own.toml"), &text.replace(from, to)).unwrap_err();
            assert!(error.message.contains(expected), "{error:?}");
        }
        let plain =
            text.replace("domain = 72", "").replace("[\"GB200 186GB\", \"GB200\"]", "\"X\"");
        let machine = parse("own", Path::new("own.toml"), &plain).unwrap();
        assert_eq!((machine.domain, machine.device.as_deref()), (4, Some("X")));
    }
}
